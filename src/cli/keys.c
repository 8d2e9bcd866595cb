/* The keys of one lock: KEY, and those of --and. */
#include "cli.h"

#include <string.h>

const char *cli_keys_add(struct cli_keys *keys, const char *text)
{
    if (text[0] == '\0')
        return "is empty";
    if (1 + keys->others == REDLOCK_KEYS_MAX)
        return "is one key too many: a lock has at most 16";
    keys->of[1 + keys->others++] = (redlock_key){text, strlen(text)};
    return NULL;
}

size_t cli_keys_count(const struct cli_keys *keys)
{
    return 1 + keys->others;
}

const char *cli_keys_begin(struct cli_keys *keys, const char *key)
{
    size_t count = cli_keys_count(keys);
    struct cli_text text;
    keys->of[0] = (redlock_key){key, strlen(key)};
    if (count == 1)
        return key;
    FILE *stream = cli_text_begin(&text);
    for (size_t i = 0; i < count; i++)
        fprintf(stream, "%s%s", i == 0 ? "" : ", ", (const char *)keys->of[i].bytes);
    keys->name = cli_text_end(&text);
    return keys->name;
}

const char *cli_keys_taken(const struct cli_keys *keys, const char *name,
                           const redlock_node *holder)
{
    return keys->others > 0 && holder ? keys->of[holder->key].bytes : name;
}

json_t *cli_keys_json(const struct cli_keys *keys)
{
    json_t *object = json_object();
    json_object_set_new(object, "key", cli_json_text(keys->of[0].bytes));
    if (keys->others == 0)
        return object;
    json_t *all = json_array();
    for (size_t i = 0; i < cli_keys_count(keys); i++)
        json_array_append_new(all, cli_json_text(keys->of[i].bytes));
    json_object_set_new(object, "keys", all);
    return object;
}

/* Each of `some` is among `all`. */
static bool are_among(const json_t *some, const json_t *all)
{
    for (size_t i = 0; i < json_array_size(some); i++) {
        bool found = false;
        for (size_t j = 0; !found && j < json_array_size(all); j++)
            found = json_equal(json_array_get(some, i), json_array_get(all, j));
        if (!found)
            return false;
    }
    return true;
}

bool cli_keys_are(const struct cli_keys *keys, const json_t *object)
{
    json_t *mine = cli_keys_json(keys);
    const json_t *some = json_object_get(mine, "keys"),
                 *all = json_object_get(object, "keys");
    bool same = some || all ? are_among(some, all) && are_among(all, some)
                            : json_equal(json_object_get(mine, "key"),
                                         json_object_get(object, "key"));
    same = same && !some == !all;
    json_decref(mine);
    return same;
}
