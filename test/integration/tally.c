#include "tally.h"

#include <criterion/criterion.h>

#define LEAST 100 /* times that whatever shall happen must happen */
#define RARE  20  /* what takes several steps to come about */

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char *const kinds[TALLY_KINDS] = {"plain", "fenced"};

const char *tally_name(enum rl_text text)
{
    static const char *const names[RL_TEXTS] = {"acquire", "settle", "extend", "release",
                                                "inspect", "break",  "mark"};
    return names[text];
}

static const char *const vote_names[] = {
    [RL_VOTE_GRANTED] = "granted",
    [RL_VOTE_HELD] = "held",
    [RL_VOTE_GONE] = "gone",
    [RL_VOTE_PLANTED] = "planted",
};

/* --- what happened --- */

static void note_border(unsigned border[BORDERS], const struct store *store,
                        struct rl_word key, int64_t now)
{
    /* Also one that has expired and that nobody has asked for since. */
    const struct store_entry *entry = store_find(store, key, INT64_MIN);
    if (!entry)
        return;
    border[BORDER_LAST] += entry->expires == now;
    border[BORDER_AFTER] += entry->expires == now - 1;
}

/* Without an answer's time only the side is known. */
static void note_verge(struct verge *verge, int64_t over, bool is_exact)
{
    verge->within += -RL_MS < over && over <= 0;
    verge->beyond += 0 < over && over <= RL_MS;
    verge->exactly += over == 0 && is_exact;
}

/* Not where the script had decided before it looked at this. */
static void note_verges(struct tally *tally, const struct event *event, int64_t stored)
{
    const struct rl_subject *subject = &event->operation->subject;
    const struct rl_answer *answer = event->answer;
    enum rl_text text = event->operation->text;
    int64_t over = subject->fence - event->now - KAPPA;
    int64_t after_it = stored + 1 - event->now - KAPPA;
    if (text != RL_ACQUIRE)
        note_verge(&tally->ahead[text], over, answer->time);
    else if (answer->fault == RL_FAULT_AHEAD || answer->vote == RL_VOTE_GRANTED)
        note_verge(&tally->ahead[text], over > after_it ? over : after_it, answer->time);
    if (text == RL_ACQUIRE || answer->fault == RL_FAULT_LATE ||
        answer->vote == RL_VOTE_PLANTED)
        note_verge(&tally->late[text], event->now - subject->said - LATENESS, answer->time);
}

static bool is_list(const struct store *store, struct rl_word key, int64_t now)
{
    const struct store_entry *entry = store_find(store, key, now);
    return entry && entry->type == STORE_LIST;
}

static void note_marker(struct tally *tally, const struct event *event)
{
    const struct rl_subject *subject = &event->operation->subject;
    bool is_set =
        subject->write && operation_is_same(subject->wanted, event->answer->value);
    bool was = operation_is_same(subject->wanted, subject->expected);
    if (event->answer->vote != RL_VOTE_GRANTED)
        return;
    tally->looks += !subject->write;
    tally->sets += is_set && !was && subject->wanted.len > 0;
    tally->erasures += is_set && !was && subject->wanted.len == 0;
    tally->misses += subject->write && !is_set;
}

/* Another's value, and how long it was to be there. */
static void note_cut(struct tally *tally, const struct event *event)
{
    const struct rl_subject *subject = &event->operation->subject;
    int64_t now = event->now / RL_MS;
    const struct store_entry *old = store_find(event->before, subject->key, now);
    const struct store_entry *new = store_find(event->after, subject->key, now);
    bool is_long =
        old && old->expires != STORE_NO_EXPIRY && old->expires > now + subject->max_ttl_ms;
    if (event->answer->vote != RL_VOTE_HELD || !is_long || old->type != STORE_STRING)
        return;
    bool is_cut = new &&new->expires == now + subject->max_ttl_ms;
    tally->cut[event->operation->text] += is_cut;
    tally->uncut[event->operation->text] += !is_cut;
}

static void note_fence(struct tally *tally, const struct event *event)
{
    const struct rl_subject *subject = &event->operation->subject;
    enum rl_text text = event->operation->text;
    int64_t now = event->now / RL_MS;
    const struct store_entry *old = store_find(event->before, subject->fence_key, now);
    const struct store_entry *new = store_find(event->after, subject->fence_key, now);
    int64_t stored = old ? old->fence : 0;
    if (event->answer->fault == RL_FAULT_WRONGTYPE) {
        bool wrong = is_list(event->before, subject->key, now);
        tally->wrong_fence[text] += !wrong && old && old->type == STORE_LIST;
        tally->wrong_marker[text] += !wrong && (!old || old->type == STORE_FENCE) &&
                                     is_list(event->before, subject->marker_key, now);
        return;
    }
    if (event->answer->fault == RL_FAULT_MARKER || event->answer->fault == RL_FAULT_FENCE)
        return;
    note_cut(tally, event);
    if (event->is_certain)
        note_border(tally->fence_border, event->before, subject->fence_key, now);
    tally->raised[text][event->answer->vote][new &&new->fence > stored]++;
    tally->place[text][subject->fence < stored    ? PLACE_BELOW
                       : subject->fence == stored ? PLACE_EQUAL
                                                  : PLACE_ABOVE]++;
    note_verges(tally, event, stored);
}

static unsigned count_places(const struct store *store, struct rl_word key)
{
    unsigned count = 0;
    const struct store_place *at = NULL;
    while ((at = store_next_place(store, key, at)))
        count++;
    return count;
}

static void note_queue(struct tally *tally, const struct event *event, enum tally_kind kind)
{
    const struct rl_subject *subject = &event->operation->subject;
    unsigned before = count_places(event->before, subject->key);
    unsigned after = count_places(event->after, subject->key);
    bool released = event->answer->vote == RL_VOTE_GRANTED;
    tally->entered[kind] += !released && after > before;
    tally->left[kind] += !released && after < before;
    tally->called[kind][event->calls] += released;
    tally->passed_over[kind] += released && event->calls > 0 && after + 1 < before;
}

void tally_note(struct tally *tally, const struct event *event)
{
    const struct operation *operation = event->operation;
    const struct rl_answer *answer = event->answer;
    enum tally_kind kind = operation->is_fenced ? TALLY_FENCED : TALLY_PLAIN;
    tally->vote[kind][operation->text][operation->whole][answer->vote]++;
    tally->fault[kind][operation->text][answer->fault]++;
    if (answer->fault == RL_FAULT_NOSCRIPT)
        return;
    if (event->is_certain)
        note_border(tally->border[kind][operation->text], event->before,
                    operation->subject.key, event->now / RL_MS);
    if (operation->text == RL_RELEASE && answer->fault == RL_FAULT_NONE)
        note_queue(tally, event, kind);
    if (operation->text == RL_MARK)
        note_marker(tally, event);
    else if (operation->is_fenced)
        note_fence(tally, event);
}

/* --- that all happened --- */

static bool only_counts; /* what is missing, without failing */
static unsigned missing;

static void expect_at_least(unsigned least, unsigned count, enum tally_kind kind,
                            enum rl_text text, const char *what)
{
    missing += count < least;
    if (!only_counts)
        cr_expect_geq(count, least, "%s %s: %s: %u", kinds[kind], tally_name(text), what,
                      count);
}

static void expect(unsigned count, enum tally_kind kind, enum rl_text text,
                   const char *what)
{
    expect_at_least(LEAST, count, kind, text, what);
}

static void expect_votes(const struct tally *tally, enum tally_kind kind, enum rl_text text,
                         unsigned n, const enum rl_vote *votes)
{
    for (unsigned i = 0; i < n; i++) {
        expect(tally->vote[kind][text][false][votes[i]], kind, text, vote_names[votes[i]]);
        expect(tally->vote[kind][text][true][votes[i]], kind, text, vote_names[votes[i]]);
    }
}

#define EXPECT_VOTES(tally, kind, text, ...)                                               \
    do {                                                                                   \
        const enum rl_vote votes[] = {__VA_ARGS__};                                        \
        expect_votes(tally, kind, text, COUNT(votes), votes);                              \
    } while (0)

static void expect_borders(const struct tally *tally, enum tally_kind kind,
                           enum rl_text text)
{
    const unsigned *border = tally->border[kind][text];
    cr_log_info("%s %s: %u in the last ms, %u in the next one", kinds[kind],
                tally_name(text), border[BORDER_LAST], border[BORDER_AFTER]);
    expect(border[BORDER_LAST], kind, text, "in the last ms");
    expect(border[BORDER_AFTER], kind, text, "in the next ms");
    if (kind == TALLY_PLAIN && text == RL_ACQUIRE) /* SET, with none of a script's errors */
        return;
    expect(tally->fault[kind][text][RL_FAULT_WRONGTYPE], kind, text, "wrong type");
    expect(tally->fault[kind][text][RL_FAULT_NOSCRIPT], kind, text, "no script");
}

static void expect_plain(const struct tally *tally)
{
    EXPECT_VOTES(tally, TALLY_PLAIN, RL_ACQUIRE, RL_VOTE_GRANTED, RL_VOTE_HELD);
    EXPECT_VOTES(tally, TALLY_PLAIN, RL_EXTEND, RL_VOTE_GRANTED, RL_VOTE_HELD, RL_VOTE_GONE,
                 RL_VOTE_PLANTED);
    EXPECT_VOTES(tally, TALLY_PLAIN, RL_RELEASE, RL_VOTE_GRANTED, RL_VOTE_HELD,
                 RL_VOTE_GONE);
    EXPECT_VOTES(tally, TALLY_PLAIN, RL_INSPECT, RL_VOTE_HELD, RL_VOTE_GONE);
    EXPECT_VOTES(tally, TALLY_PLAIN, RL_BREAK, RL_VOTE_HELD, RL_VOTE_GONE);
    for (int text = 0; text < RL_TEXTS; text++)
        if (text != RL_SETTLE && text != RL_MARK)
            expect_borders(tally, TALLY_PLAIN, (enum rl_text)text);
}

static void expect_verge(const struct verge *verge, enum rl_text text, const char *what)
{
    cr_log_info("%s: %s: %u in the last ms within, %u in the next one, %u in the last us",
                tally_name(text), what, verge->within, verge->beyond, verge->exactly);
    expect(verge->within, TALLY_FENCED, text, what);
    expect(verge->beyond, TALLY_FENCED, text, what);
}

static void expect_raised(const struct tally *tally, enum rl_text text, enum rl_vote vote)
{
    expect(tally->raised[text][vote][false], TALLY_FENCED, text, "not raised");
    expect(tally->raised[text][vote][true], TALLY_FENCED, text, "raised");
}

static void expect_fences(const struct tally *tally)
{
    expect(tally->raised[RL_ACQUIRE][RL_VOTE_GRANTED][true], TALLY_FENCED, RL_ACQUIRE,
           "raised");
    expect_raised(tally, RL_SETTLE, RL_VOTE_GRANTED);
    expect_raised(tally, RL_EXTEND, RL_VOTE_GRANTED);
    expect_raised(tally, RL_EXTEND, RL_VOTE_PLANTED);
    expect_raised(tally, RL_RELEASE, RL_VOTE_GRANTED);
    expect_raised(tally, RL_RELEASE, RL_VOTE_HELD);
    expect_raised(tally, RL_RELEASE, RL_VOTE_GONE);
    for (int text = 0; text <= RL_RELEASE; text++) {
        expect(tally->place[text][PLACE_BELOW], TALLY_FENCED, text, "below");
        expect(tally->place[text][PLACE_EQUAL], TALLY_FENCED, text, "equal");
        expect(tally->place[text][PLACE_ABOVE], TALLY_FENCED, text, "above");
        expect(tally->wrong_fence[text], TALLY_FENCED, text, "a fence of a wrong type");
        expect_verge(&tally->ahead[text], text, "ahead");
    }
    expect_verge(&tally->late[RL_ACQUIRE], RL_ACQUIRE, "late");
    expect_verge(&tally->late[RL_EXTEND], RL_EXTEND, "late");
    cr_log_info("fences: %u in the last ms, %u in the next one",
                tally->fence_border[BORDER_LAST], tally->fence_border[BORDER_AFTER]);
    expect(tally->fence_border[BORDER_LAST], TALLY_FENCED, RL_ACQUIRE, "fence's last ms");
    expect(tally->fence_border[BORDER_AFTER], TALLY_FENCED, RL_ACQUIRE, "and the next one");
}

static void expect_markers(const struct tally *tally)
{
    const unsigned *fault = tally->fault[TALLY_FENCED][RL_MARK];
    expect(tally->looks, TALLY_FENCED, RL_MARK, "looks");
    expect(tally->sets, TALLY_FENCED, RL_MARK, "is set");
    expect(tally->erasures, TALLY_FENCED, RL_MARK, "is erased");
    expect(tally->misses, TALLY_FENCED, RL_MARK, "is another");
    expect(fault[RL_FAULT_WRONGTYPE], TALLY_FENCED, RL_MARK, "wrong type");
    expect(fault[RL_FAULT_NOSCRIPT], TALLY_FENCED, RL_MARK, "no script");
}

static void expect_fenced(const struct tally *tally)
{
    EXPECT_VOTES(tally, TALLY_FENCED, RL_ACQUIRE, RL_VOTE_GRANTED, RL_VOTE_HELD);
    EXPECT_VOTES(tally, TALLY_FENCED, RL_SETTLE, RL_VOTE_GRANTED, RL_VOTE_HELD,
                 RL_VOTE_GONE);
    EXPECT_VOTES(tally, TALLY_FENCED, RL_EXTEND, RL_VOTE_GRANTED, RL_VOTE_HELD,
                 RL_VOTE_GONE, RL_VOTE_PLANTED);
    EXPECT_VOTES(tally, TALLY_FENCED, RL_RELEASE, RL_VOTE_GRANTED, RL_VOTE_HELD,
                 RL_VOTE_GONE);
    for (int text = 0; text <= RL_RELEASE; text++) {
        const unsigned *fault = tally->fault[TALLY_FENCED][text];
        expect_borders(tally, TALLY_FENCED, text);
        if (text == RL_ACQUIRE || text == RL_EXTEND)
            expect(fault[RL_FAULT_LATE], TALLY_FENCED, text, "LATE");
        if (text != RL_RELEASE)
            expect(fault[RL_FAULT_AHEAD], TALLY_FENCED, text, "AHEAD");
        if (text != RL_RELEASE)
            expect(fault[RL_FAULT_MARKER], TALLY_FENCED, text, "MARKER");
        if (text != RL_RELEASE)
            expect(tally->wrong_marker[text], TALLY_FENCED, text, "a marker's wrong type");
        expect(fault[RL_FAULT_FENCE], TALLY_FENCED, text, "FENCE");
        expect(tally->cut[text], TALLY_FENCED, text, "cut");
    }
    expect(tally->uncut[RL_RELEASE], TALLY_FENCED, RL_RELEASE, "too long, and not cut");
    expect_fences(tally);
    expect_markers(tally);
}

static void expect_queue(const struct tally *tally, enum tally_kind kind)
{
    static const char *const calls[] = {"calls nobody", "calls one", "calls two"};
    expect(tally->entered[kind], kind, RL_RELEASE, "a place is taken");
    expect(tally->left[kind], kind, RL_RELEASE, "a place is left");
    for (unsigned i = 0; i < COUNT(calls); i++)
        expect_at_least(RARE, tally->called[kind][i], kind, RL_RELEASE, calls[i]);
    expect_at_least(RARE, tally->passed_over[kind], kind, RL_RELEASE,
                    "some are passed over");
}

void tally_expect_all(const struct tally *tally)
{
    expect_queue(tally, TALLY_PLAIN);
    expect_queue(tally, TALLY_FENCED);
    expect_plain(tally);
    expect_fenced(tally);
}

bool tally_has_all(const struct tally *tally)
{
    missing = 0;
    only_counts = true;
    tally_expect_all(tally);
    only_counts = false;
    return missing == 0;
}
