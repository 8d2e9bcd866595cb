/* redlock verify: whether any two held what only one may hold, by the logs of those who
 * held. */
#include "history.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN_MAX 10

const char cli_verify_help[] =
    "Usage: redlock verify [--json] LOG...\n"
    "Read logs of who held which keys, and tell whether any two held one key at a time\n"
    "when they must not. LOG \"-\" is stdin. No node is asked.\n"
    "\n"
    "A line per event; all times are microseconds of one clock:\n"
    "  TIME acquired HOLDER exclusive|shared|slots=K UNTIL KEY...\n"
    "  TIME extended HOLDER UNTIL\n"
    "  TIME released HOLDER\n"
    "HOLDER is a word that no other acquisition has, for example its token. TIME of\n"
    "\"acquired\" is when the call had returned, of \"released\" when the call was made.\n"
    "UNTIL is the deadline. A hold ends with its release or its deadline, whichever comes\n"
    "first. Lines of one holder are in their order; empty lines and those that begin with\n"
    "# are skipped.\n"
    "\n"
    "Exit codes: 0 nothing is wrong; 1 two held at one time, or a hold was extended after\n"
    "its deadline; 64 usage; 65 a line that cannot be read; 66 a file that cannot be\n"
    "read; 125 own failure.\n";

/* A hold of one of its keys. */
struct span {
    size_t key;
    const struct history_hold *hold;
};

struct verify {
    struct history history;
    struct span *span;
    size_t spans;
    size_t violations;
    const struct history_hold **active; /* of the key that is looked at */
    size_t actives;
};

static void list_spans(struct verify *verify)
{
    const struct history *history = &verify->history;
    size_t count = 0;
    for (size_t i = 0; i < history->holds; i++)
        count += history->hold[i]->keys;
    verify->span = cli_need_memory(calloc(count + 1, sizeof(*verify->span)));
    verify->active = cli_need_memory(calloc(count + 1, sizeof(*verify->active)));
    for (size_t i = 0; i < history->holds; i++)
        for (size_t k = 0; k < history->hold[i]->keys; k++)
            verify->span[verify->spans++] =
                (struct span){history->hold[i]->key[k], history->hold[i]};
}

static int compare_spans(const void *a, const void *b)
{
    const struct span *one = a, *other = b;
    if (one->key != other->key)
        return one->key < other->key ? -1 : 1;
    int64_t first = one->hold->since, second = other->hold->since;
    return (first > second) - (first < second);
}

/* --- one key --- */

static void drop_ended(struct verify *verify, int64_t now)
{
    size_t kept = 0;
    for (size_t i = 0; i < verify->actives; i++)
        if (verify->active[i]->until > now)
            verify->active[kept++] = verify->active[i];
    verify->actives = kept;
}

/* One of those with which it must not hold at one time; NULL: it may. */
static const struct history_hold *find_conflict(const struct verify *verify,
                                                const struct history_hold *hold)
{
    const struct history_hold *slot = NULL;
    unsigned slots = hold->slots, used = 1;
    for (size_t i = 0; i < verify->actives; i++) {
        const struct history_hold *other = verify->active[i];
        bool both_read = hold->shared && other->shared;
        bool both_slots = hold->slots > 0 && other->slots > 0;
        if (!both_read && !both_slots)
            return other;
        if (!both_slots)
            continue;
        slot = other;
        slots = other->slots > slots ? other->slots : slots;
        used++;
    }
    return slot && used > slots ? slot : NULL;
}

static void tell(const struct verify *verify, const struct span *span,
                 const struct history_hold *other)
{
    const struct history_hold *hold = span->hold;
    int64_t end = hold->until < other->until ? hold->until : other->until;
    if (verify->violations > SHOWN_MAX)
        return;
    cli_complain("%s: %s (%s:%zu) and %s (%s:%zu) held it for %" PRId64
                 " us at one time, from %" PRId64 " on",
                 verify->history.key[span->key], other->holder, other->file, other->line,
                 hold->holder, hold->file, hold->line, end - hold->since, hold->since);
}

static void look_at(struct verify *verify, const struct span *span)
{
    const struct history_hold *hold = span->hold;
    if (hold->until <= hold->since) /* it came too late */
        return;
    drop_ended(verify, hold->since);
    const struct history_hold *other = find_conflict(verify, hold);
    if (other) {
        verify->violations++;
        tell(verify, span, other);
    }
    verify->active[verify->actives++] = hold;
}

int cli_verify(struct cli *cli, int argc, char **argv)
{
    static struct verify verify;
    struct history *history = &verify.history;
    int first = cli_parse(cli, argc, argv, NULL);
    for (int i = first; i < argc; i++)
        history_read(history, argv[i]);
    list_spans(&verify);
    qsort(verify.span, verify.spans, sizeof(*verify.span), compare_spans);
    for (size_t i = 0; i < verify.spans; i++) {
        if (i == 0 || verify.span[i].key != verify.span[i - 1].key)
            verify.actives = 0;
        look_at(&verify, &verify.span[i]);
    }
    if (history->late > 0)
        cli_complain("%zu extensions came after the deadline", history->late);
    verify.violations += history->late;
    bool printed =
        cli->json ? cli_print_json(cli, json_pack("{s:I, s:I, s:I}", "acquisitions",
                                                  (json_int_t)history->holds, "keys",
                                                  (json_int_t)history->keys, "violations",
                                                  (json_int_t)verify.violations))
                  : printf("%zu acquisitions of %zu keys, %zu violations\n", history->holds,
                           history->keys, verify.violations) > 0 &&
                        cli_flush();
    return cli_exit_printed(printed, verify.violations > 0 ? CLI_GONE : CLI_OK);
}
