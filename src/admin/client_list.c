#include "client_list.h"

#include <stdlib.h>
#include <string.h>

#include "core/link.h"
#include "net/info.h"

struct named {
    struct rl_word name, address;
    int64_t age_s;
};

struct rl_client_list {
    size_t count;
    struct named *client; /* by name; of one name the oldest */
};

/* --- reading --- */

/* The value of "name=value" in a line of words; empty if there is none. */
static struct rl_word field(struct rl_word line, const char *name)
{
    size_t len = strlen(name);
    const char *end = line.text + line.len;
    for (const char *at = line.text; at < end;) {
        const char *space = memchr(at, ' ', (size_t)(end - at));
        size_t size = (size_t)((space ? space : end) - at);
        if (size > len && memcmp(at, name, len) == 0 && at[len] == '=')
            return (struct rl_word){at + len + 1, size - len - 1};
        at = space ? space + 1 : end;
    }
    return (struct rl_word){"", 0};
}

/*
 * A connection of this library has a name and no lib-name, which most other libraries set.
 * One that sent CLIENT LIST last is that of a check: it may share its label with clients.
 */
static bool is_of_client(struct rl_word line)
{
    struct rl_word command = field(line, "cmd");
    bool is_check = command.len >= 6 && memcmp(command.text, "client", 6) == 0;
    return field(line, "name").len > 0 && field(line, "lib-name").len == 0 && !is_check;
}

static int compare_names(const struct named *one, const struct named *other)
{
    size_t len = one->name.len < other->name.len ? one->name.len : other->name.len;
    int order = memcmp(one->name.text, other->name.text, len);
    return order ? order
                 : (one->name.len > other->name.len) - (one->name.len < other->name.len);
}

static int by_name(const void *one, const void *other)
{
    return compare_names(one, other);
}

static int by_name_and_age(const void *one, const void *other)
{
    int64_t age = ((const struct named *)one)->age_s;
    int64_t than = ((const struct named *)other)->age_s;
    int order = compare_names(one, other);
    return order ? order : (age < than) - (age > than);
}

static void read_lines(struct rl_client_list *list, const char *at, const char *end)
{
    while (at < end) {
        const char *eol = memchr(at, '\n', (size_t)(end - at));
        struct rl_word line = {at, (size_t)((eol ? eol : end) - at)};
        if (is_of_client(line))
            list->client[list->count++] =
                (struct named){field(line, "name"), field(line, "addr"),
                               rl_info_number(field(line, "age"))};
        at = eol ? eol + 1 : end;
    }
}

static void drop_younger(struct rl_client_list *list)
{
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++)
        if (i == 0 || by_name(&list->client[i], &list->client[kept - 1]) != 0)
            list->client[kept++] = list->client[i];
    list->count = kept;
}

struct rl_client_list *rl_client_list_read(struct rl_word text)
{
    size_t lines = 1;
    for (size_t i = 0; i < text.len; i++)
        lines += text.text[i] == '\n';
    struct rl_client_list *list =
        malloc(sizeof(*list) + lines * sizeof(struct named) + text.len);
    if (!list)
        return NULL;
    *list = (struct rl_client_list){.client = (struct named *)(list + 1)};
    char *copy = memcpy(list->client + lines, text.text, text.len);
    read_lines(list, copy, copy + text.len);
    qsort(list->client, list->count, sizeof(struct named), by_name_and_age);
    drop_younger(list);
    return list;
}

/* --- comparing --- */

/* The nodes whose lists have this client, for so long. */
static rl_node_set nodes_with(struct rl_client_list *const *list, unsigned n,
                              const struct named *client, int64_t age_s)
{
    rl_node_set set = 0;
    for (unsigned i = 0; i < n; i++) {
        const struct named *found =
            list[i]
                ? bsearch(client, list[i]->client, list[i]->count, sizeof(*client), by_name)
                : NULL;
        if (found && found->age_s >= age_s)
            set |= rl_bit(i);
    }
    return set;
}

static void note_missing(struct rl_probe *probes, rl_node_set lacking, rl_node_set at,
                         const struct named *client)
{
    for (; lacking; lacking &= lacking - 1) {
        struct rl_missing *missing = &probes[rl_first(lacking)].missing;
        if (missing->clients++ == 0)
            *missing = (struct rl_missing){1, client->name, client->address, at};
    }
}

bool rl_client_lists_compare(struct rl_client_list *const *first,
                             struct rl_client_list *const *again, unsigned n,
                             struct rl_probe *probes)
{
    rl_node_set found = 0, known = 0;
    for (unsigned i = 0; i < n; i++) {
        probes[i].missing = (struct rl_missing){0};
        known |= first[i] && again[i] ? rl_bit(i) : 0;
    }
    for (unsigned i = 0; i < n; i++)
        for (size_t j = 0; again[i] && j < again[i]->count; j++) {
            const struct named *client = &again[i]->client[j];
            rl_node_set at = nodes_with(again, n, client, RL_CLIENT_AGE / RL_SECOND);
            rl_node_set lacking = known & ~nodes_with(first, n, client, INT64_MIN) &
                                  ~nodes_with(again, n, client, INT64_MIN);
            if (!at || rl_first(at) != i || !lacking)
                continue;
            note_missing(probes, lacking, at, client);
            found |= lacking;
        }
    return found != 0;
}
