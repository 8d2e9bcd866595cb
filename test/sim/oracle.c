#include "oracle_parts.h"

#include <stdarg.h>
#include <stdio.h>

#include "core/quorum.h"
#include "world.h"

static const struct {
    const char *name, *text;
} invariants[] = {{"none", "nothing is wrong"},
#define X(name, text) {#name, text},
                  INVARIANTS(X)
#undef X
};

const char *invariant_name(enum invariant invariant)
{
    return invariants[invariant].name;
}

const char *invariant_text(enum invariant invariant)
{
    return invariants[invariant].text;
}

void oracle_accuse(enum invariant invariant, const char *format, ...)
{
    struct verdict *verdict = &world.verdict;
    if (verdict->broken != INVARIANT_NONE)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(verdict->text, sizeof(verdict->text), format, arguments);
    va_end(arguments);
    TRACE("%s: %s", invariant_name(invariant), verdict->text);
    if (world.plan.model) /* that judges, and the run goes on */
        return;
    verdict->broken = invariant;
    verdict->at = events_now();
}

int64_t oracle_true_span(int64_t span, int64_t ppm)
{
    const int64_t million = 1000000;
    if (ppm <= CLOCK_STOPPED)
        return CLOCK_NEVER;
    return span / (million + ppm) * million +
           span % (million + ppm) * million / (million + ppm);
}

void oracle_note_outside(enum bound bound)
{
    world.verdict.outside[bound] = true;
}

/* --- what a user is told --- */

#define TIMER_SLACK                                                                        \
    (3 * VIRTUAL_MS) /* what is left of a sleep, by the slower of two clocks */

/*
 * Upper bound of the time at which the client's clock says that LOST is due. A clock that
 * was not read for long may need more than its faster part would: so it is asked again.
 */
#define LOOKS_MAX 16

static void plan_loss_report(struct user *user)
{
    struct claim *claim = user->claim;
    const int64_t now = events_now();
    int64_t left_ms = 1;
    claim->lost_due = user->client->process.stopped_until; /* it is told after that */
    if (claim->lost_due < now)
        claim->lost_due = now;
    for (unsigned i = 0; i < LOOKS_MAX && left_ms > 0; i++) {
        events_pretend(claim->lost_due);
        left_ms = user_valid_ms(user) - claim->options.margin_ms;
        int64_t span =
            oracle_true_span((left_ms + 1) * VIRTUAL_MS, client_rate(user->client));
        if (left_ms >= 0)
            claim->lost_due = span < CLOCK_NEVER ? claim->lost_due + span : CLOCK_NEVER;
        if (claim->lost_due == CLOCK_NEVER)
            break;
    }
    events_pretend(now);
}

static void judge_loss(const struct user *user, const redlock_result *result)
{
    struct claim *claim = user->claim;
    if (claim->user && claim->user != user) /* who has adopted it since is judged */
        return;
    bool ran_out = result->code == REDLOCK_EXPIRED || result->code == REDLOCK_MAX_HOLD;
    /* A grant that is read in the same iteration, but later, changes nothing. */
    bool known = rl_count(claim->missing) >= rl_majority(world.plan.n) ||
                 claim->gone_in == user->client->process.iterations;
    if (claim->is_lost)
        oracle_accuse(INVARIANT_LOST, "client %u is told twice", user->client->index + 1);
    if (ran_out && result->valid_ms > claim->options.margin_ms)
        oracle_accuse(INVARIANT_LOST, "client %u is told %lld ms before it is due",
                      user->client->index + 1,
                      (long long)(result->valid_ms - claim->options.margin_ms));
    /* The former client of an adopted token may have heard something else. */
    if (!ran_out && !known && !claim->is_handed)
        oracle_accuse(INVARIANT_LOST,
                      "%.8s of client %u may still have a majority: only %s are gone",
                      claim->token, user->client->index + 1, trace_set(claim->missing));
    oracle_judge_end(user, result->code);
    claim->is_lost = true;
    claim->lost_in = user->client->process.iterations;
}

static bool is_calm(const struct plan *plan)
{
    return plan->weights == 0 && !plan->wild && !plan->hasty;
}

/* Without faults the watchdog keeps its locks, and each request is served. */
static void judge_keeping(const struct user *user, enum news news,
                          const redlock_result *result)
{
    const struct claim *claim = user->claim;
    if (world.phase != PHASE_STORM || !is_calm(&world.plan))
        return;
    bool watched = claim->options.watchdog && !claim->is_handed &&
                   claim->options.margin_ms <= claim->options.ttl_ms / 4;
    bool ran_out = news == NEWS_LOST && result->code == REDLOCK_EXPIRED && watched;
    bool refused = news == NEWS_NOT_EXTENDED && user->is_held && user->is_known &&
                   result->code != REDLOCK_MAX_HOLD && result->code != REDLOCK_CANCELLED &&
                   result->code != REDLOCK_EXPIRED;
    if (ran_out || refused)
        oracle_accuse(INVARIANT_LIVENESS, "%.8s of client %u is not extended", claim->token,
                      user->client->index + 1);
}

static void note_acquisition(const struct user *user)
{
    world.acquisitions++;
    world.acquirers |= 1U << user->client->index;
    if (world.phase != PHASE_CALM)
        return;
    world.wanted &= user->options.slots > 0 ? ~world_semaphore_of(rl_first(user->resources))
                                            : ~user->resources;
    world.waiting &= ~(1U << user->client->index);
}

static const char *const news_names[] = {
    [NEWS_HELD] = "acquire",       [NEWS_FAILED] = "acquire",
    [NEWS_EXTENDED] = "extension", [NEWS_NOT_EXTENDED] = "extension",
    [NEWS_RENEWED] = "watchdog",   [NEWS_LOST] = "loss",
    [NEWS_RELEASED] = "release",
};

void oracle_told(struct user *user, enum news news, const redlock_result *result)
{
    struct claim *claim = user->claim;
    trace_mix((uint64_t)news | (uint64_t)result->code << 8 |
              (uint64_t)result->valid_ms << 16);
    TRACE("client %u, user %u, %s of %.8s: %s, valid for %lld ms", user->client->index + 1,
          user->index + 1, news_names[news], claim ? claim->token : "",
          redlock_code_name(result->code), (long long)result->valid_ms);
    oracle_judge_callback(user, news);
    oracle_count_news(user->client, news, result->code);
    bool good = news == NEWS_HELD || news == NEWS_EXTENDED || news == NEWS_RENEWED;
    if (claim && good) {
        oracle_judge_success(user, result, news == NEWS_HELD);
        claim->has_deadline = true;
        if (news == NEWS_EXTENDED)
            oracle_judge_asked(user);
        claim->extension = (struct extension){0};
        user->is_known = true;
        plan_loss_report(user);
    }
    oracle_judge_result(user, news, result);
    if (!claim)
        return;
    if (news == NEWS_LOST)
        judge_loss(user, result);
    judge_keeping(user, news, result);
    if (news == NEWS_FAILED)
        claim_leave(claim, true);
    if (news == NEWS_HELD)
        note_acquisition(user);
}

void oracle_wants(struct user *user)
{
    user->claim = NULL;
    user->attempts = 0;
    user->wait_boot = user->wait_raw = 0;
    user->overdue_in = 0;
    user->entry[0] = '\0';
    user->is_trying = false;
    user->began = events_now();
    user->tried_at = 0;
    user->notifiable = 0;
    user->failures = process_failures(&user->client->process);
    user->notifiable_until = 0;
    user->boot = client_boot(user->client);
    user->raw = client_raw(user->client);
    oracle_forget_calls(user);
}

void oracle_leaves(struct user *user, bool cleaned)
{
    oracle_forget_calls(user);
    user->left_in = user->client->process.iterations;
    user->is_held = user->is_lost = false;
    if (user->claim && user->claim->user == user) /* another one may have adopted it */
        claim_leave(user->claim, cleaned);
}

void oracle_adopted(struct user *user, struct claim *claim, bool known)
{
    struct client *client = user->client;
    bool same = claim->client_number == client->number;
    bool at_once = same && claim->over_since == client->process.iterations;
    claim->user = user;
    user->claim = claim;
    user->is_held = true;
    user->is_known = known;
    claim->options = user->options;
    claim->is_handed = true;
    claim->handed_in = at_once && claim->has_deadline ? claim->over_since : 0;
    claim->kept_until = 0;
    claim->is_over = claim->is_lost = claim->is_cleaned = false;
    claim->has_deadline = known;
    claim->client = client->index;
    claim->client_number = client->number;
    claim->boot = client_boot(client);
    claim->raw = client_raw(client);
    claim->told = claim->answered = claim->released = claim->held = claim->gone = 0;
    if (!same || !known)
        claim->granted = claim->rests_on = 0;
    claim->missing = claim->surely_missing = 0;
    claim->gone_in = 0;
    claim->extension = (struct extension){0};
    claim->repair = (struct repair){0};
    claim->asked_last = client->process.iterations + 1; /* the rest is its former lease's */
    claim->asked = rl_all(world.plan.n);
    if (known)
        plan_loss_report(user);
}

/* --- at the end of each iteration --- */

/* A user that holds what has run out was told by then. */
static void judge_deadlines(void)
{
    int64_t now = events_now();
    for (unsigned c = 0; c < world.plan.clients; c++) {
        const struct client *client = &world.client[c];
        const struct process *process = &client->process;
        for (unsigned u = 0; client->is_alive && u < client->users; u++) {
            const struct user *user = &client->user[u];
            if (!user->is_held || !user->is_known || process->inside > 0)
                continue;
            int64_t due = user->claim->lost_due;
            due = due < process->resumed ? process->resumed : due;
            if (due != CLOCK_NEVER && now > due + TIMER_SLACK)
                oracle_accuse(INVARIANT_LOST,
                              "client %u, user %u is not told, %lld us late", c + 1, u + 1,
                              (long long)((now - due) / VIRTUAL_US));
        }
    }
}

/* A grant in one read with nonsense before it is not seen: the connection is given up. */
static void judge_decided(const struct user *user)
{
    const struct claim *claim = user->claim;
    rl_node_set servers = 0, seen = claim ? claim->granted & ~claim->garbled : 0;
    if (!user->is_acquiring || !user->is_trying || !claim || claim->is_over ||
        world.plan.fenced || world.plan.weight[FAULT_ROOM] > 0 || oracle_is_expired(claim))
        return;
    if (user->client->process.failed_allocations > claim->failures) /* it may end by that */
        return;
    for (rl_node_set rest = seen; rest; rest &= rest - 1)
        servers |= rl_bit(claim->vote[rl_first(rest)].server);
    if (rl_count(servers) >= world.plan.q && rl_count(seen) >= world.plan.q)
        oracle_accuse(INVARIANT_DECIDED, "client %u waits for more",
                      user->client->index + 1);
}

static void judge_known(const struct user *user)
{
    const struct claim *claim = user->claim;
    if (user->is_held && user->is_known && claim &&
        rl_count(claim->surely_missing) >= rl_majority(world.plan.n))
        oracle_accuse(INVARIANT_KNOWN, "%.8s of client %u, at nodes %s", claim->token,
                      user->client->index + 1, trace_set(claim->surely_missing));
}

/* Also of what was adopted, and not extended since. */
static void judge_hold(const struct user *user)
{
    if (user->is_held && user->is_known && user->claim && user->claim->user == user)
        oracle_judge_hold(user);
}

/* If the wait had ended before this iteration, the last attempt begins in it at last. */
static void note_wait(struct user *user)
{
    const struct client *client = user->client;
    if (!user->is_acquiring || user->options.wait_ms <= 0 || user->overdue_in)
        return;
    if (!user->wait_boot) {
        user->wait_boot = client_boot(client);
        user->wait_raw = client_raw(client);
    }
    int64_t since = events_now() - client->process.entered;
    int64_t waited =
        client_elapsed_since(client, user->wait_boot, user->wait_raw) - since / 8 * 9;
    if (waited > user->options.wait_ms * VIRTUAL_MS + TIMER_SLACK)
        user->overdue_in = client->process.iterations;
}

void oracle_iterated(struct client *client)
{
    for (unsigned i = 0; client->handle && i < client->users; i++) {
        note_wait(&client->user[i]);
        judge_decided(&client->user[i]);
        judge_known(&client->user[i]);
        judge_hold(&client->user[i]);
        if (client->user[i].is_lost && client->user[i].is_extending)
            oracle_accuse(INVARIANT_CALLBACK, "client %u, user %u: its extension goes on",
                          client->index + 1, i + 1);
    }
    judge_deadlines();
    if (client->handle) {
        oracle_extensions_iterated(client);
        oracle_repairs_iterated(client);
        oracle_counts_iterated(client);
        oracle_resent_iterated(client);
        oracle_note_suspects(client);
    }
    oracle_clocks_iterated(client);
    oracle_members_iterated(client);
    oracle_judge_queue(client);
    if (client->handle)
        oracle_judge_due(client);
    if (client->handle)
        oracle_judge_subscriptions(client);
    if (client->handle)
        oracle_judge_lost_subscriptions(client);
    if (client->handle)
        oracle_judge_leavers(client);
    if (client->observer)
        oracle_judge_observer(client);
    client->failures = client->process.failed_allocations;
}

void oracle_delayed(struct client *client, int64_t until)
{
    for (unsigned i = 0; i < client->users; i++) {
        struct user *user = &client->user[i];
        if (user->is_held && user->is_known && user->claim && client->handle)
            plan_loss_report(user);
        if (user->called_due != CLOCK_NEVER && user->called_due < until)
            user->called_due = until;
    }
}

void oracle_ended(struct client *client, bool freed)
{
    const struct process *process = &client->process;
    for (size_t i = 0; i < claims_count(); i++) {
        struct claim *claim = claim_at(i);
        if (claim->user && claim->user->client == client)
            claim_leave(claim, false);
        if (!freed && claim->client == client->index)
            claim->is_cleaned = false;
    }
    if (process->blocks > 0)
        oracle_accuse(INVARIANT_MEMORY, "client %u leaves %zu blocks", client->index + 1,
                      process->blocks);
}

void oracle_begin(void)
{
    claims_begin();
    command_begin();
    oracle_holders_begin();
    oracle_turns_begin();
    oracle_passes_begin();
    oracle_seats_begin();
    oracle_members_begin();
    oracle_due_begin();
}
