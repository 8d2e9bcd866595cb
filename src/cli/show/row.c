#include "row.h"

#include <stdlib.h>

#include "inspection.h"

#define KEY_WIDTH    18
#define HOLDER_WIDTH 19

/* "KEY!3" is the third slot of KEY. */
static unsigned short cut_slot(char *key)
{
    char *mark = strrchr(key, '!'), *end;
    if (!mark || mark == key || mark[1] < '1' || mark[1] > '9')
        return 0;
    unsigned long slot = strtoul(mark + 1, &end, 10);
    if (*end || slot > REDLOCK_SLOTS_MAX)
        return 0;
    *mark = '\0';
    return (unsigned short)slot;
}

static enum row_state state_of(const redlock_inspection *found, bool is_token)
{
    if (found->code != REDLOCK_OK)
        return ROW_UNKNOWN;
    if (!is_token)
        return ROW_FOREIGN;
    if (found->agreeing >= found->quorum || found->readers > 0)
        return ROW_HELD;
    return found->free >= found->quorum ? ROW_ORPHANED : ROW_SPLIT;
}

/* Foreign values, too: whether a quorum stores one. */
static json_t *held_json(const struct row *row)
{
    return row->state == ROW_UNKNOWN ? json_null() : json_boolean(row->is_held);
}

const char *row_state_name(enum row_state state)
{
    static const char *const names[] = {
        [ROW_HELD] = "held",       [ROW_SPLIT] = "split",     [ROW_ORPHANED] = "orphaned",
        [ROW_FOREIGN] = "foreign", [ROW_UNKNOWN] = "unknown", [ROW_FREE] = "free",
    };
    return names[state];
}

/* A NUL as \xc0\x80, which is not UTF-8; so that each key keeps its own form, \xc0 is
   followed by \x81. Returns the end. */
static char *write_key(char *to, const char *key, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        bool is_mark = (unsigned char)key[i] == 0xc0;
        *to++ = (char)(key[i] ? key[i] : 0xc0);
        if (is_mark || !key[i])
            *to++ = (char)(is_mark ? 0x81 : 0x80);
    }
    *to = '\0';
    return to + 1;
}

char *row_read_key(const char *key, size_t *ret_len)
{
    char *bytes = cli_need_memory(malloc(strlen(key) + 1)), *to = bytes;
    for (; *key; key++) {
        bool is_mark = (unsigned char)*key == 0xc0;
        key += is_mark;
        *to++ = (char)(!is_mark ? *key : (unsigned char)*key == 0x81 ? 0xc0 : 0);
    }
    *ret_len = (size_t)(to - bytes);
    return bytes;
}

static json_t *key_json(const char *key)
{
    size_t len;
    char *bytes = row_read_key(key, &len);
    json_t *string = cli_json_bytes(bytes, len);
    free(bytes);
    return string;
}

static char *printable_key(const char *key)
{
    size_t len;
    char *bytes = row_read_key(key, &len), *text = cli_printable_bytes(bytes, len);
    free(bytes);
    return text;
}

static void write_text(struct row *row, const redlock_node *node,
                       const redlock_listed *listed)
{
    const char *token = node ? node->value : "", *holder = node ? node->holder : "";
    row->holder_at = (unsigned short)(strlen(token) + 1);
    row->key_at = (unsigned short)(row->holder_at + strlen(holder) + 1);
    row->text = cli_need_memory(malloc(row->key_at + 2 * listed->key_len + 1));
    strcpy(row->text, token);
    strcpy(row->text + row->holder_at, holder);
    char *end = write_key(row->text + row->key_at, listed->key, listed->key_len);
    row->text = cli_need_memory(realloc(row->text, (size_t)(end - row->text)));
}

/* A holder whose clock is ahead has it from now on. */
static int64_t since_of(const struct row *row)
{
    int64_t age_us = cli_clock_us(CLOCK_REALTIME) - 1000 * row->since_ms;
    return row->since_ms < 0 || age_us < 0 ? row->seen_us : row->seen_us - age_us;
}

void row_take(struct row *row, const redlock_listed *listed)
{
    static struct inspection inspection;
    const redlock_inspection *found = listed->inspection;
    inspection_take(NULL, found, &inspection);
    *row = (struct row){
        .keys = 1,
        .nodes = (unsigned short)found->agreeing,
        .count = (unsigned short)found->count,
        .readers = (unsigned short)found->readers,
        .waiting = (unsigned short)found->waiting,
        .remaining_ms = found->remaining_ms,
        .fence = found->fence,
        .since_ms = found->since_ms,
        .waited_ms = found->waited_ms,
        .seen_us = cli_clock_us(CLOCK_BOOTTIME),
    };
    row->since_us = since_of(row);
    write_text(row, cli_holder(inspection.nodes, found->count), listed);
    row->kind = redlock_token_kind(row_token(row), NULL);
    row->state = state_of(found, row->kind != REDLOCK_KIND_FOREIGN);
    row->is_held = found->agreeing >= found->quorum;
    if (row->kind == REDLOCK_KIND_SLOT)
        row->slot = cut_slot(row->text + row->key_at);
}

void row_free(struct row *row)
{
    free(row->text);
    row->text = NULL;
}

/* SCAN may return a key twice. */
static void add_key(struct row *row, const char *key)
{
    const char *at = row_key(row), *end = at;
    for (unsigned i = 0; i < row->keys; i++) {
        if (strcmp(end, key) == 0)
            return;
        at = strcmp(end, key) < 0 ? row_next_key(end) : at;
        end = row_next_key(end);
    }
    if (row->keys == REDLOCK_KEYS_MAX)
        return;
    size_t before = (size_t)(at - row->text), after = (size_t)(end - at);
    size_t len = strlen(key) + 1;
    row->text = cli_need_memory(realloc(row->text, before + len + after));
    memmove(row->text + before + len, row->text + before, after);
    memcpy(row->text + before, key, len);
    row->keys++;
}

void row_join(struct row *row, struct row *other)
{
    const char *key = row_key(other);
    for (unsigned i = 0; i < other->keys; i++, key = row_next_key(key))
        add_key(row, key);
    row_free(other);
    row->nodes = other->nodes < row->nodes ? other->nodes : row->nodes;
    row->state = other->state > row->state ? other->state : row->state;
    row->is_held &= other->is_held;
    row->waiting = other->waiting > row->waiting ? other->waiting : row->waiting;
    if (other->waited_ms > row->waited_ms)
        row->waited_ms = other->waited_ms;
    if (other->remaining_ms > row->remaining_ms)
        row->remaining_ms = other->remaining_ms;
}

int row_compare(const void *row, const void *other)
{
    const struct row *a = row, *b = other;
    int order = strcmp(row_key(a), row_key(b));
    return order != 0 ? order : (int)a->slot - (int)b->slot;
}

void row_print_head(void)
{
    cli_print("%-*s %-*s %6s %4s %6s %5s %6s %s\n", KEY_WIDTH, "KEY", HOLDER_WIDTH,
              "HOLDER", "AGE", "WAIT", "FOR", "NODES", "WAITED", "KIND");
}

/* "KEY", "KEY, KEY2" */
static char *keys_of(const struct row *row)
{
    struct cli_text printed;
    FILE *to = cli_text_begin(&printed);
    const char *key = row_key(row);
    for (unsigned i = 0; i < row->keys; i++, key = row_next_key(key)) {
        char *shown = printable_key(key);
        fprintf(to, "%s%s", i == 0 ? "" : ", ", shown);
        free(shown);
    }
    return cli_text_end(&printed);
}

/* "host:4711", "3 readers", "slot 2: host:4711", "split: host:4711, fence 17" */
static char *holder_of(const struct row *row)
{
    char *holder = cli_printable(row_holder(row));
    struct cli_text text;
    FILE *to = cli_text_begin(&text);
    if (row->state != ROW_HELD)
        fprintf(to, "%s: ", row_state_name(row->state));
    if (row->slot > 0)
        fprintf(to, "slot %u: ", row->slot);
    if (row->readers > 1)
        fprintf(to, "%u readers", row->readers);
    else
        fprintf(to, "%s", holder);
    if (row->fence > 0)
        fprintf(to, ", fence %lld", (long long)row->fence);
    free(holder);
    return cli_text_end(&text);
}

/* As cli_span(), in at most 6 columns: "9m59s". */
static const char *narrow(char span[CLI_SPAN], int64_t ms)
{
    char *to = span;
    if (ms < 0)
        return "?";
    for (const char *from = cli_span(span, ms); *from; from++)
        if (!strchr(" in", *from))
            *to++ = *from;
    *to = '\0';
    return span;
}

/* Long keys take room of the holder, so that the other columns stay where they are. */
void row_print(const struct row *row, bool color)
{
    char *keys = keys_of(row), *holder = holder_of(row);
    char age[CLI_SPAN], waited[CLI_SPAN], span[CLI_SPAN];
    const char *begin = !color ? "" : row->state == ROW_HELD ? CLI_GREEN : CLI_YELLOW;
    int64_t age_us = cli_clock_us(CLOCK_BOOTTIME) - row->since_us;
    int rest = KEY_WIDTH + HOLDER_WIDTH - (int)strlen(keys);
    int width = rest < 0 ? 0 : rest < HOLDER_WIDTH ? rest : HOLDER_WIDTH;
    cli_print("%-*s %s%-*s%s %6s %4u %6s %2u/%-2u %6s %s\n", KEY_WIDTH, keys, begin, width,
              holder, color ? CLI_PLAIN : "",
              narrow(age, row->since_ms < 0 ? row->since_ms : age_us / 1000), row->waiting,
              narrow(span, row->remaining_ms), row->nodes, row->count,
              row->waiting > 0 ? narrow(waited, row->waited_ms) : "",
              *row_token(row) ? redlock_kind_name(row->kind) : "unknown");
    free(keys);
    free(holder);
}

json_t *row_json(const struct row *row)
{
    json_t *object = json_pack(
        "{s:o, s:s, s:o, s:o, s:o, s:i, s:i, s:o, s:o, s:o, s:i, s:i, s:o}", "key",
        key_json(row_key(row)), "state", row_state_name(row->state), "held", held_json(row),
        "holder", cli_json_known_text(row_holder(row)), "since_ms",
        cli_json_known(row->since_ms), "agreeing", (int)row->nodes, "node_count",
        (int)row->count, "remaining_ms", cli_json_known(row->remaining_ms), "fence",
        row->fence > 0 ? json_integer(row->fence) : json_null(), "slot",
        row->slot > 0 ? json_integer(row->slot) : json_null(), "readers", (int)row->readers,
        "waiting", (int)row->waiting, "waited_ms", cli_json_known(row->waited_ms));
    json_object_update_new(object, cli_json_kind(row_token(row)));
    if (row->kind != REDLOCK_KIND_SET)
        return object;
    json_t *keys = json_array();
    const char *key = row_key(row);
    for (unsigned i = 0; i < row->keys; i++, key = row_next_key(key))
        json_array_append_new(keys, key_json(key));
    json_object_set_new(object, "keys", keys);
    return object;
}

char *row_why_not_all(const struct cli *cli, redlock_code code, size_t unknown)
{
    redlock_node nodes[REDLOCK_NODES_MAX];
    if (code == REDLOCK_DENIED)
        return cli_format("the user lacks a right: redlock check --acl --list prints all");
    size_t count = redlock_client_explain(cli->client, nodes, REDLOCK_NODES_MAX);
    bool failed = cli_count_faults(nodes, count) > 0;
    char *faults = cli_faults(nodes, count);
    char *text =
        code != REDLOCK_OK
            ? cli_format("too few nodes were scanned, locks may be missing: %s", faults)
            : cli_format(
                  "of %zu %s it is unknown whether %s held: too few nodes "
                  "replied%s%s",
                  unknown, unknown == 1 ? "key" : "keys",
                  unknown == 1 ? "it is" : "they are", failed ? ": " : "",
                  failed ? faults : "");
    free(faults);
    return text;
}
