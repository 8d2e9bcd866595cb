#include "counts.h"

#include <criterion/criterion.h>

#define LEAST 100 /* how often each event must happen */
#define RARE  20  /* an event that takes several steps */

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char *const kinds[COUNTS_KINDS] = {"plain", "fenced"};

const char *counts_name(enum rl_command text)
{
    static const char *const names[RL_COMMANDS] = {"acquire", "settle", "extend", "release",
                                                   "inspect", "break",  "mark"};
    return names[text];
}

static const char *const vote_names[] = {
    [RL_VOTE_GRANTED] = "granted",
    [RL_VOTE_HELD] = "held",
    [RL_VOTE_GONE] = "gone",
    [RL_VOTE_RECREATED] = "recreated",
};

/* --- counting --- */

static void note_border(unsigned border[BORDERS], const struct store *store,
                        struct rl_word key, int64_t now)
{
    /* Also a key that has expired and was not accessed since. */
    const struct store_entry *entry = store_find(store, key, INT64_MIN);
    if (!entry)
        return;
    border[BORDER_LAST] += entry->expires == now;
    border[BORDER_AFTER] += entry->expires == now - 1;
}

/* Without the time of a reply only the side is known. */
static void note_verge(struct verge *verge, int64_t over, bool is_exact)
{
    verge->within += -RL_MS < over && over <= 0;
    verge->beyond += 0 < over && over <= RL_MS;
    verge->exactly += over == 0 && is_exact;
}

/* Not if the script had decided before it read this. */
static void note_verges(struct counts *counts, const struct event *event, int64_t stored)
{
    const struct rl_command_args *args = &event->operation->args;
    const struct rl_answer *answer = event->answer;
    enum rl_command text = event->operation->text;
    int64_t over = args->fence - event->now - KAPPA;
    int64_t after_it = stored + 1 - event->now - KAPPA;
    if (text != RL_CMD_ACQUIRE)
        note_verge(&counts->ahead[text], over, answer->time);
    else if (answer->fault == RL_FAULT_AHEAD || answer->vote == RL_VOTE_GRANTED)
        note_verge(&counts->ahead[text], over > after_it ? over : after_it, answer->time);
    if (text == RL_CMD_ACQUIRE || answer->fault == RL_FAULT_LATE ||
        answer->vote == RL_VOTE_RECREATED)
        note_verge(&counts->late[text], event->now - args->sent_at - LATENESS,
                   answer->time);
}

static bool is_list(const struct store *store, struct rl_word key, int64_t now)
{
    const struct store_entry *entry = store_find(store, key, now);
    return entry && entry->type == STORE_LIST;
}

static void note_marker(struct counts *counts, const struct event *event)
{
    const struct rl_command_args *args = &event->operation->args;
    bool is_set = args->write && operation_is_same(args->wanted, event->answer->value);
    bool was = operation_is_same(args->wanted, args->expected);
    if (event->answer->vote != RL_VOTE_GRANTED)
        return;
    counts->looks += !args->write;
    counts->sets += is_set && !was && args->wanted.len > 0;
    counts->erasures += is_set && !was && args->wanted.len == 0;
    counts->misses += args->write && !is_set;
}

/* Another holder's value, and how long it was to exist. */
static void note_cut(struct counts *counts, const struct event *event)
{
    const struct rl_command_args *args = &event->operation->args;
    int64_t now = event->now / RL_MS;
    const struct store_entry *old = store_find(event->before, args->key, now);
    const struct store_entry *new = store_find(event->after, args->key, now);
    bool is_long =
        old && old->expires != STORE_NO_EXPIRY && old->expires > now + args->max_ttl_ms;
    if (event->answer->vote != RL_VOTE_HELD || !is_long || old->type != STORE_STRING)
        return;
    bool is_cut = new &&new->expires == now + args->max_ttl_ms;
    counts->cut[event->operation->text] += is_cut;
    counts->uncut[event->operation->text] += !is_cut;
}

static void note_fence(struct counts *counts, const struct event *event)
{
    const struct rl_command_args *args = &event->operation->args;
    enum rl_command text = event->operation->text;
    int64_t now = event->now / RL_MS;
    const struct store_entry *old = store_find(event->before, args->fence_key, now);
    const struct store_entry *new = store_find(event->after, args->fence_key, now);
    int64_t stored = old ? old->fence : 0;
    if (event->answer->fault == RL_FAULT_WRONGTYPE) {
        bool wrong = is_list(event->before, args->key, now);
        counts->wrong_fence[text] += !wrong && old && old->type == STORE_LIST;
        counts->wrong_marker[text] += !wrong && (!old || old->type == STORE_FENCE) &&
                                      is_list(event->before, args->marker_key, now);
        return;
    }
    if (event->answer->fault == RL_FAULT_MARKER || event->answer->fault == RL_FAULT_FENCE)
        return;
    note_cut(counts, event);
    if (event->is_certain)
        note_border(counts->fence_border, event->before, args->fence_key, now);
    counts->raised[text][event->answer->vote][new &&new->fence > stored]++;
    counts->place[text][args->fence < stored    ? PLACE_BELOW
                        : args->fence == stored ? PLACE_EQUAL
                                                : PLACE_ABOVE]++;
    note_verges(counts, event, stored);
}

static unsigned count_places(const struct store *store, struct rl_word key)
{
    unsigned count = 0;
    const struct store_place *at = NULL;
    while ((at = store_next_place(store, key, at)))
        count++;
    return count;
}

static void note_queue(struct counts *counts, const struct event *event,
                       enum counts_kind kind)
{
    const struct rl_command_args *args = &event->operation->args;
    unsigned before = count_places(event->before, args->key);
    unsigned after = count_places(event->after, args->key);
    bool released = event->answer->vote == RL_VOTE_GRANTED;
    counts->entered[kind] += !released && after > before;
    counts->left[kind] += !released && after < before;
    counts->called[kind][event->calls] += released;
    counts->passed_over[kind] += released && event->calls > 0 && after + 1 < before;
}

void counts_note(struct counts *counts, const struct event *event)
{
    const struct operation *operation = event->operation;
    const struct rl_answer *answer = event->answer;
    enum counts_kind kind = operation->is_fenced ? COUNTS_FENCED : COUNTS_PLAIN;
    counts->vote[kind][operation->text][operation->whole][answer->vote]++;
    counts->fault[kind][operation->text][answer->fault]++;
    if (answer->fault == RL_FAULT_NOSCRIPT)
        return;
    if (event->is_certain)
        note_border(counts->border[kind][operation->text], event->before,
                    operation->args.key, event->now / RL_MS);
    if (operation->text == RL_CMD_RELEASE && answer->fault == RL_FAULT_NONE)
        note_queue(counts, event, kind);
    if (operation->text == RL_CMD_MARKER)
        note_marker(counts, event);
    else if (operation->is_fenced)
        note_fence(counts, event);
}

/* --- checking --- */

static bool only_counts; /* prints what is missing, without failing */
static unsigned missing;

static void expect_at_least(unsigned least, unsigned count, enum counts_kind kind,
                            enum rl_command text, const char *what)
{
    missing += count < least;
    if (!only_counts)
        cr_expect_geq(count, least, "%s %s: %s: %u", kinds[kind], counts_name(text), what,
                      count);
}

static void expect(unsigned count, enum counts_kind kind, enum rl_command text,
                   const char *what)
{
    expect_at_least(LEAST, count, kind, text, what);
}

static void expect_votes(const struct counts *counts, enum counts_kind kind,
                         enum rl_command text, unsigned n, const enum rl_vote *votes)
{
    for (unsigned i = 0; i < n; i++) {
        expect(counts->vote[kind][text][false][votes[i]], kind, text, vote_names[votes[i]]);
        expect(counts->vote[kind][text][true][votes[i]], kind, text, vote_names[votes[i]]);
    }
}

#define EXPECT_VOTES(counts, kind, text, ...)                                              \
    do {                                                                                   \
        const enum rl_vote votes[] = {__VA_ARGS__};                                        \
        expect_votes(counts, kind, text, COUNT(votes), votes);                             \
    } while (0)

static void expect_borders(const struct counts *counts, enum counts_kind kind,
                           enum rl_command text)
{
    const unsigned *border = counts->border[kind][text];
    cr_log_info("%s %s: %u in the last ms, %u in the next one", kinds[kind],
                counts_name(text), border[BORDER_LAST], border[BORDER_AFTER]);
    expect(border[BORDER_LAST], kind, text, "in the last ms");
    expect(border[BORDER_AFTER], kind, text, "in the next ms");
    if (kind == COUNTS_PLAIN &&
        text == RL_CMD_ACQUIRE) /* SET, with none of a script's errors */
        return;
    expect(counts->fault[kind][text][RL_FAULT_WRONGTYPE], kind, text, "wrong type");
    expect(counts->fault[kind][text][RL_FAULT_NOSCRIPT], kind, text, "no script");
}

static void expect_plain(const struct counts *counts)
{
    EXPECT_VOTES(counts, COUNTS_PLAIN, RL_CMD_ACQUIRE, RL_VOTE_GRANTED, RL_VOTE_HELD);
    EXPECT_VOTES(counts, COUNTS_PLAIN, RL_CMD_EXTEND, RL_VOTE_GRANTED, RL_VOTE_HELD,
                 RL_VOTE_GONE, RL_VOTE_RECREATED);
    EXPECT_VOTES(counts, COUNTS_PLAIN, RL_CMD_RELEASE, RL_VOTE_GRANTED, RL_VOTE_HELD,
                 RL_VOTE_GONE);
    EXPECT_VOTES(counts, COUNTS_PLAIN, RL_CMD_INSPECT, RL_VOTE_HELD, RL_VOTE_GONE);
    EXPECT_VOTES(counts, COUNTS_PLAIN, RL_CMD_BREAK, RL_VOTE_HELD, RL_VOTE_GONE);
    for (int text = 0; text < RL_COMMANDS; text++)
        if (text != RL_CMD_RAISE_FENCE && text != RL_CMD_MARKER)
            expect_borders(counts, COUNTS_PLAIN, (enum rl_command)text);
}

static void expect_verge(const struct verge *verge, enum rl_command text, const char *what)
{
    cr_log_info("%s: %s: %u in the last ms within, %u in the next one, %u in the last us",
                counts_name(text), what, verge->within, verge->beyond, verge->exactly);
    expect(verge->within, COUNTS_FENCED, text, what);
    expect(verge->beyond, COUNTS_FENCED, text, what);
}

static void expect_raised(const struct counts *counts, enum rl_command text,
                          enum rl_vote vote)
{
    expect(counts->raised[text][vote][false], COUNTS_FENCED, text, "not raised");
    expect(counts->raised[text][vote][true], COUNTS_FENCED, text, "raised");
}

static void expect_fences(const struct counts *counts)
{
    expect(counts->raised[RL_CMD_ACQUIRE][RL_VOTE_GRANTED][true], COUNTS_FENCED,
           RL_CMD_ACQUIRE, "raised");
    expect_raised(counts, RL_CMD_RAISE_FENCE, RL_VOTE_GRANTED);
    expect_raised(counts, RL_CMD_EXTEND, RL_VOTE_GRANTED);
    expect_raised(counts, RL_CMD_EXTEND, RL_VOTE_RECREATED);
    expect_raised(counts, RL_CMD_RELEASE, RL_VOTE_GRANTED);
    expect_raised(counts, RL_CMD_RELEASE, RL_VOTE_HELD);
    expect_raised(counts, RL_CMD_RELEASE, RL_VOTE_GONE);
    for (int text = 0; text <= RL_CMD_RELEASE; text++) {
        expect(counts->place[text][PLACE_BELOW], COUNTS_FENCED, text, "below");
        expect(counts->place[text][PLACE_EQUAL], COUNTS_FENCED, text, "equal");
        expect(counts->place[text][PLACE_ABOVE], COUNTS_FENCED, text, "above");
        expect(counts->wrong_fence[text], COUNTS_FENCED, text, "a fence of a wrong type");
        expect_verge(&counts->ahead[text], text, "ahead");
    }
    expect_verge(&counts->late[RL_CMD_ACQUIRE], RL_CMD_ACQUIRE, "late");
    expect_verge(&counts->late[RL_CMD_EXTEND], RL_CMD_EXTEND, "late");
    cr_log_info("fences: %u in the last ms, %u in the next one",
                counts->fence_border[BORDER_LAST], counts->fence_border[BORDER_AFTER]);
    expect(counts->fence_border[BORDER_LAST], COUNTS_FENCED, RL_CMD_ACQUIRE,
           "fence's last ms");
    expect(counts->fence_border[BORDER_AFTER], COUNTS_FENCED, RL_CMD_ACQUIRE,
           "and the next one");
}

static void expect_markers(const struct counts *counts)
{
    const unsigned *fault = counts->fault[COUNTS_FENCED][RL_CMD_MARKER];
    expect(counts->looks, COUNTS_FENCED, RL_CMD_MARKER, "looks");
    expect(counts->sets, COUNTS_FENCED, RL_CMD_MARKER, "is set");
    expect(counts->erasures, COUNTS_FENCED, RL_CMD_MARKER, "is erased");
    expect(counts->misses, COUNTS_FENCED, RL_CMD_MARKER, "is another");
    expect(fault[RL_FAULT_WRONGTYPE], COUNTS_FENCED, RL_CMD_MARKER, "wrong type");
    expect(fault[RL_FAULT_NOSCRIPT], COUNTS_FENCED, RL_CMD_MARKER, "no script");
}

static void expect_fenced(const struct counts *counts)
{
    EXPECT_VOTES(counts, COUNTS_FENCED, RL_CMD_ACQUIRE, RL_VOTE_GRANTED, RL_VOTE_HELD);
    EXPECT_VOTES(counts, COUNTS_FENCED, RL_CMD_RAISE_FENCE, RL_VOTE_GRANTED, RL_VOTE_HELD,
                 RL_VOTE_GONE);
    EXPECT_VOTES(counts, COUNTS_FENCED, RL_CMD_EXTEND, RL_VOTE_GRANTED, RL_VOTE_HELD,
                 RL_VOTE_GONE, RL_VOTE_RECREATED);
    EXPECT_VOTES(counts, COUNTS_FENCED, RL_CMD_RELEASE, RL_VOTE_GRANTED, RL_VOTE_HELD,
                 RL_VOTE_GONE);
    for (int text = 0; text <= RL_CMD_RELEASE; text++) {
        const unsigned *fault = counts->fault[COUNTS_FENCED][text];
        expect_borders(counts, COUNTS_FENCED, text);
        if (text == RL_CMD_ACQUIRE || text == RL_CMD_EXTEND)
            expect(fault[RL_FAULT_LATE], COUNTS_FENCED, text, "LATE");
        if (text != RL_CMD_RELEASE)
            expect(fault[RL_FAULT_AHEAD], COUNTS_FENCED, text, "AHEAD");
        if (text != RL_CMD_RELEASE)
            expect(fault[RL_FAULT_MARKER], COUNTS_FENCED, text, "MARKER");
        if (text != RL_CMD_RELEASE)
            expect(counts->wrong_marker[text], COUNTS_FENCED, text,
                   "a marker's wrong type");
        expect(fault[RL_FAULT_FENCE], COUNTS_FENCED, text, "FENCE");
        expect(counts->cut[text], COUNTS_FENCED, text, "cut");
    }
    expect(counts->uncut[RL_CMD_RELEASE], COUNTS_FENCED, RL_CMD_RELEASE,
           "too long, and not cut");
    expect_fences(counts);
    expect_markers(counts);
}

static void expect_queue(const struct counts *counts, enum counts_kind kind)
{
    static const char *const calls[] = {"calls nobody", "calls one", "calls two"};
    expect(counts->entered[kind], kind, RL_CMD_RELEASE, "a queue entry is written");
    expect(counts->left[kind], kind, RL_CMD_RELEASE, "a queue entry is removed");
    for (unsigned i = 0; i < COUNT(calls); i++)
        expect_at_least(RARE, counts->called[kind][i], kind, RL_CMD_RELEASE, calls[i]);
    expect_at_least(RARE, counts->passed_over[kind], kind, RL_CMD_RELEASE,
                    "some are skipped");
}

void counts_expect_all(const struct counts *counts)
{
    expect_queue(counts, COUNTS_PLAIN);
    expect_queue(counts, COUNTS_FENCED);
    expect_plain(counts);
    expect_fenced(counts);
}

bool counts_has_all(const struct counts *counts)
{
    missing = 0;
    only_counts = true;
    counts_expect_all(counts);
    only_counts = false;
    return missing == 0;
}
