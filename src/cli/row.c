#include "row.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inspection.h"
#include "tokenfile.h"

#define OF_SET "many" /* how the digits of its token begin: docs/protocol.md */

/* The digits of a token of this library; NULL: it is none. */
static const char *digits_of(const char *token)
{
    const char *digits = token[0] && token[1] == ':' ? token + 2 : token + 1;
    bool has_mark = token[0] && strchr("pfrsg", token[0]);
    return has_mark && strspn(digits, TOKENFILE_BASE32) == 32 ? digits : NULL;
}

/* "KEY!3" is the third slot of KEY. */
static unsigned cut_slot(char *key)
{
    char *mark = strrchr(key, '!'), *end;
    if (!mark || mark == key || mark[1] < '1' || mark[1] > '9')
        return 0;
    unsigned long slot = strtoul(mark + 1, &end, 10);
    if (*end || slot > REDLOCK_SLOTS_MAX)
        return 0;
    *mark = '\0';
    return (unsigned)slot;
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

const char *row_state_name(enum row_state state)
{
    static const char *const names[] = {
        [ROW_HELD] = "held",       [ROW_SPLIT] = "split",     [ROW_ORPHANED] = "orphaned",
        [ROW_FOREIGN] = "foreign", [ROW_UNKNOWN] = "unknown",
    };
    return names[state];
}

void row_take(struct row *row, const redlock_listed *listed)
{
    static struct inspection inspection;
    const redlock_inspection *found = listed->inspection;
    inspection_take(NULL, found, &inspection);
    const redlock_node *holder = cli_holder(inspection.nodes, found->count);
    *row = (struct row){
        .key = cli_need_memory(malloc(listed->key_len + 1)),
        .nodes = found->agreeing,
        .count = (unsigned)found->count,
        .readers = found->readers,
        .waiting = found->waiting,
        .remaining_ms = found->remaining_ms,
        .fence = found->fence,
    };
    memcpy(row->key, listed->key, listed->key_len);
    row->key[listed->key_len] = '\0';
    if (holder) {
        strcpy(row->token, holder->value);
        strcpy(row->holder, holder->holder);
    }
    const char *digits = digits_of(row->token);
    row->state = state_of(found, digits != NULL);
    row->kind = digits ? tokenfile_kind(row->token) : "foreign";
    if (digits && strchr("pf", row->token[0])) {
        row->of_set = strncmp(digits, OF_SET, strlen(OF_SET)) == 0;
        row->slot = row->of_set ? 0 : cut_slot(row->key);
    }
}

void row_free(struct row *row)
{
    free(row->key);
    row->key = NULL;
}

void row_join(struct row *row, const struct row *other)
{
    size_t size = strlen(row->key) + strlen(other->key) + 3;
    row->key = cli_need_memory(realloc(row->key, size));
    strcat(strcat(row->key, ", "), other->key);
    row->nodes = other->nodes < row->nodes ? other->nodes : row->nodes;
    row->state = other->state > row->state ? other->state : row->state;
    row->waiting = other->waiting > row->waiting ? other->waiting : row->waiting;
    if (other->remaining_ms > row->remaining_ms)
        row->remaining_ms = other->remaining_ms;
}

void row_print_head(FILE *to)
{
    fprintf(to, "%-24s  %4s  %11s  %5s  %-24s  %s\n", "KEY", "WAIT", "FOR", "NODES",
            "HOLDER", "KIND");
}

/* "host:4711", "3 readers", "slot 2: host:4711", "split: host:4711, fence 17" */
static char *holder_of(const struct row *row)
{
    char *text = NULL, *holder = cli_printable(row->holder);
    size_t size = 0;
    FILE *to = open_memstream(&text, &size);
    cli_need_memory(to);
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
    if (fclose(to) != 0)
        cli_need_memory(NULL);
    free(holder);
    return text;
}

void row_print(const struct row *row, bool color, FILE *to)
{
    char span[CLI_SPAN], *key = cli_printable(row->key), *holder = holder_of(row);
    const char *begin = !color ? "" : row->state == ROW_HELD ? CLI_GREEN : CLI_YELLOW;
    fprintf(to, "%-24s  %4u  %11s  %2u/%-2u  %s%-24s%s  %s\n", key, row->waiting,
            cli_span(span, row->remaining_ms), row->nodes, row->count, begin, holder,
            color ? CLI_PLAIN : "", row->kind);
    free(key);
    free(holder);
}

json_t *row_json(const struct row *row)
{
    return json_pack("{s:o, s:s, s:s, s:o, s:i, s:i, s:o, s:o, s:o, s:i, s:i}", "key",
                     cli_json_text(row->key), "kind", row->kind, "state",
                     row_state_name(row->state), "holder", cli_json_known_text(row->holder),
                     "agreeing", (int)row->nodes, "nodes", (int)row->count, "remaining_ms",
                     cli_json_known(row->remaining_ms), "fence",
                     row->fence > 0 ? json_integer(row->fence) : json_null(), "slot",
                     row->slot > 0 ? json_integer(row->slot) : json_null(), "readers",
                     (int)row->readers, "waiting", (int)row->waiting);
}
