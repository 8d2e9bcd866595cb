#include "history.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLANKS " \t\r\n"

struct reader {
    struct history *history;
    const char *path;
    size_t line;
    char *rest; /* of the line */
};

_Noreturn static void refuse(const struct reader *reader, const char *what,
                             const char *word)
{
    cli_fail(CLI_DATA, "%s:%zu: %s%s%s%s", reader->path, reader->line, what,
             word ? " \"" : "", word ? word : "", word ? "\"" : "");
}

/* --- words --- */

/* The next word of the line; NULL: there is none. */
static char *next_word(struct reader *reader)
{
    char *word = reader->rest + strspn(reader->rest, BLANKS);
    size_t len = strcspn(word, BLANKS);
    if (len == 0)
        return NULL;
    reader->rest = word + len + (word[len] != '\0');
    word[len] = '\0';
    return word;
}

static char *need_word(struct reader *reader, const char *what)
{
    char *word = next_word(reader);
    if (!word)
        refuse(reader, what, NULL);
    return word;
}

static int64_t need_number(struct reader *reader, const char *missing)
{
    char *word = need_word(reader, missing), *end;
    errno = 0;
    intmax_t number = strtoimax(word, &end, 10);
    if (*end || end == word || errno != 0 || number < 0)
        refuse(reader, "no number of microseconds:", word);
    return number;
}

/* --- holders and keys --- */

static int compare_holders(const void *a, const void *b)
{
    return strcmp(((const struct history_hold *)a)->holder,
                  ((const struct history_hold *)b)->holder);
}

static int compare_keys(const void *a, const void *b)
{
    return strcmp(((const struct history_key *)a)->name,
                  ((const struct history_key *)b)->name);
}

static struct history_hold *find_hold(struct reader *reader, char *holder)
{
    struct history_hold wanted = {.holder = holder};
    void *found = tfind(&wanted, &reader->history->by_holder, compare_holders);
    if (!found)
        refuse(reader, "it has acquired nothing:", holder);
    return *(struct history_hold **)found;
}

static size_t number_of_key(struct history *history, const char *name)
{
    struct history_key *key = cli_need_memory(malloc(sizeof(*key)));
    *key = (struct history_key){cli_need_memory(strdup(name)), history->keys};
    struct history_key *found = *(struct history_key **)cli_need_memory(
        tsearch(key, &history->by_key, compare_keys));
    if (found != key) {
        free(key->name);
        free(key);
        return found->index;
    }
    history->key =
        cli_need_memory(realloc(history->key, (history->keys + 1) * sizeof(*history->key)));
    history->key[history->keys++] = key->name;
    return key->index;
}

/* --- events --- */

static void read_mode(struct reader *reader, struct history_hold *hold)
{
    char *word = need_word(reader, "exclusive, shared or slots=K is missing"), *end;
    if (strcmp(word, "shared") == 0) {
        hold->shared = true;
    } else if (strncmp(word, "slots=", 6) == 0) {
        unsigned long slots = strtoul(word + 6, &end, 10);
        if (*end || slots == 0 || slots > UINT_MAX)
            refuse(reader, "no number of slots:", word);
        hold->slots = (unsigned)slots;
    } else if (strcmp(word, "exclusive") != 0) {
        refuse(reader, "none of exclusive, shared and slots=K:", word);
    }
}

static void add_hold(struct history *history, struct history_hold *hold)
{
    if (history->holds == history->room) {
        history->room = history->room ? 2 * history->room : 256;
        history->hold =
            cli_need_memory(realloc(history->hold, history->room * sizeof(*history->hold)));
    }
    history->hold[history->holds++] = hold;
}

/* TIME acquired HOLDER MODE UNTIL KEY... */
static void acquired(struct reader *reader, int64_t time, const char *holder)
{
    struct history *history = reader->history;
    struct history_hold *hold = cli_need_memory(calloc(1, sizeof(*hold)));
    hold->holder = cli_need_memory(strdup(holder));
    hold->since = time;
    hold->file = reader->path;
    hold->line = reader->line;
    read_mode(reader, hold);
    hold->until = need_number(reader, "the deadline is missing");
    const char *key = need_word(reader, "a key is missing");
    for (; key; key = next_word(reader)) {
        hold->key =
            cli_need_memory(realloc(hold->key, (hold->keys + 1) * sizeof(*hold->key)));
        size_t number = number_of_key(history, key);
        for (size_t i = 0; i < hold->keys; i++)
            if (hold->key[i] == number)
                refuse(reader, "the key is given twice:", key);
        hold->key[hold->keys++] = number;
    }
    struct history_hold *found = *(struct history_hold **)cli_need_memory(
        tsearch(hold, &history->by_holder, compare_holders));
    if (found != hold)
        refuse(reader, "it has acquired before:", holder);
    add_hold(history, hold);
}

/* TIME extended HOLDER UNTIL */
static void extended(struct reader *reader, int64_t time, char *holder)
{
    struct history_hold *hold = find_hold(reader, holder);
    int64_t until = need_number(reader, "the deadline is missing");
    if (hold->released)
        refuse(reader, "it has released:", holder);
    reader->history->late += time > hold->until;
    hold->until = until;
}

/* TIME released HOLDER */
static void released(struct reader *reader, int64_t time, char *holder)
{
    struct history_hold *hold = find_hold(reader, holder);
    if (hold->released)
        refuse(reader, "it has released before:", holder);
    hold->released = true;
    if (time < hold->until)
        hold->until = time;
}

static void read_line(struct reader *reader)
{
    if (strspn(reader->rest, BLANKS) == strlen(reader->rest) || *reader->rest == '#')
        return;
    int64_t time = need_number(reader, "the time is missing");
    const char *event = need_word(reader, "the event is missing");
    char *holder = need_word(reader, "the holder is missing");
    if (strcmp(event, "acquired") == 0)
        acquired(reader, time, holder);
    else if (strcmp(event, "extended") == 0)
        extended(reader, time, holder);
    else if (strcmp(event, "released") == 0)
        released(reader, time, holder);
    else
        refuse(reader, "none of acquired, extended and released:", event);
    const char *more = next_word(reader);
    if (more)
        refuse(reader, "a word too many:", more);
}

void history_read(struct history *history, const char *path)
{
    struct reader reader = {.history = history, .path = path};
    bool is_stdin = strcmp(path, "-") == 0;
    FILE *file = is_stdin ? stdin : fopen(path, "re");
    char *line = NULL;
    size_t room = 0;
    if (!file)
        cli_fail(CLI_NO_INPUT, "%s: %s", path, strerror(errno));
    while (getline(&line, &room, file) >= 0) {
        reader.line++;
        reader.rest = line;
        read_line(&reader);
    }
    if (ferror(file))
        cli_fail(CLI_NO_INPUT, "%s: %s", path, strerror(errno));
    free(line);
    if (!is_stdin)
        fclose(file);
}
