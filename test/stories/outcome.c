#include "outcome.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "holder.h"
#include "nodes.h"

#define TEXT 512

static char text[TEXT];
static size_t count_at; /* where it ends with a mere count, which the next one replaces */

/* The last shown state, and of which attempt (0: none); the attempt before the step. */
static struct rl_lease shown;
static enum rl_link_state link_shown[RL_NODES_MAX];
static uint32_t shown_of, before;
static enum rl_lease_state state_before;

static void append(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void append(const char *format, ...)
{
    size_t len = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    if (len > 0 && len < TEXT - 3)
        len += (size_t)snprintf(text + len, TEXT - len, "; ");
    vsnprintf(text + len, TEXT - len, format, arguments);
    va_end(arguments);
    count_at = TEXT;
}

/* Removes a mere count: another follows. */
static void recount(void)
{
    if (count_at < TEXT)
        text[count_at] = '\0';
}

static void append_count(const char *count)
{
    recount();
    size_t at = strlen(text);
    append("%s", count);
    count_at = at;
}

static const char *names(rl_node_set nodes)
{
    static char list[128];
    size_t len =
        (size_t)snprintf(list, sizeof(list), rl_count(nodes) == 1 ? "node" : "nodes");
    for (; nodes; nodes &= nodes - 1)
        len += (size_t)snprintf(list + len, sizeof(list) - len, " %u", rl_first(nodes) + 1);
    return list;
}

static const char *reason(redlock_code code)
{
    switch (code) {
    case REDLOCK_TAKEN: return "another holds it";
    case REDLOCK_NO_QUORUM: return "no quorum";
    case REDLOCK_EXPIRED: return "its validity ended";
    case REDLOCK_CANCELLED: return "cancelled";
    case REDLOCK_GONE: return "the keys are gone";
    case REDLOCK_MAX_HOLD: return "max_hold is over";
    case REDLOCK_UNCONFIRMED: return "unconfirmed";
    default: return redlock_code_name(code);
    }
}

/* --- links --- */

static void append_several(rl_node_set nodes, const char *what)
{
    if (nodes)
        append("%s %s %s", names(nodes), rl_count(nodes) == 1 ? "is" : "are", what);
}

static void append_links(rl_node_set greeted)
{
    rl_node_set suspect = 0, given_up = 0;
    for (unsigned i = 0; i < holder.terms.n; i++) {
        const struct rl_link *link = &holder.client->nodes.node[i].link;
        enum rl_link_state last = link_shown[i];
        link_shown[i] = link->state;
        if (link->state == RL_LINK_DOWN && greeted & rl_bit(i))
            append("refused: %s", rl_fault_text(link->fault));
        if (link->state == last)
            continue;
        if (link->state == RL_LINK_READY)
            append("node %u may vote", i + 1);
        if (link->state == RL_LINK_QUARANTINED)
            append("node %u is quarantined until %lld ms", i + 1,
                   (long long)holder_ms(link->quarantine_until));
        if (link->state == RL_LINK_SUSPECT)
            suspect |= rl_bit(i);
        if (last < RL_LINK_READY || link->state >= RL_LINK_READY)
            continue;
        nodes_lose(i);
        if (link->fault == RL_FAULT_TIMEOUT)
            given_up |= rl_bit(i);
        else if (link->fault != RL_FAULT_CLOSED)
            append("node %u is disconnected: %s", i + 1, rl_fault_text(link->fault));
    }
    append_several(suspect, "suspect");
    append_several(given_up, "given up, with a reset");
}

/* --- the lease --- */

static void append_sent(void)
{
    struct sent sent = nodes_take_sent();
    if (sent.to[RL_CMD_ACQUIRE])
        append("SET goes to %s", names(sent.to[RL_CMD_ACQUIRE]));
    if (sent.to[RL_CMD_EXTEND])
        append("the extension goes to %s%s", names(sent.to[RL_CMD_EXTEND]),
               sent.recreates ? "" : ", without recreating");
    if (sent.to[RL_CMD_RELEASE])
        append("the release goes to %s%s", names(sent.to[RL_CMD_RELEASE]),
               sent.joins    ? ", with a queue entry"
               : sent.leaves ? ", to leave the queue"
                             : "");
}

static const char *code_of(enum rl_report what)
{
    return reason(holder.code[__builtin_ctz(what)]);
}

static void append_reports(const struct rl_lease *lease, const char *count)
{
    if (holder.reports)
        recount();
    if (holder.reports & RL_REPORT_HELD)
        append("%s: held until %lld ms", count, (long long)holder_ms(lease->valid));
    if (holder.reports & RL_REPORT_EXTENDED)
        append("%s: extended until %lld ms", count, (long long)holder_ms(lease->valid));
    if (holder.reports & RL_REPORT_FAILED)
        append("failed: %s", code_of(RL_REPORT_FAILED));
    if (holder.reports & RL_REPORT_NOT_EXTENDED)
        append("not extended");
    if (holder.reports & RL_REPORT_LOST)
        append("LOST: %s", code_of(RL_REPORT_LOST));
    if (holder.reports & RL_REPORT_RELEASED)
        append(holder.code[__builtin_ctz(RL_REPORT_RELEASED)] ? "released: %s" : "released",
               code_of(RL_REPORT_RELEASED));
}

static bool extends(const struct rl_lease *lease)
{
    return lease->state == RL_LEASE_HELD && lease->round.command == RL_CMD_EXTEND;
}

static void append_lease(const struct rl_lease *lease)
{
    bool counted = holder.reports & (RL_REPORT_HELD | RL_REPORT_EXTENDED);
    bool voting = shown.state == RL_LEASE_ACQUIRING || shown.state == RL_LEASE_HELD;
    bool same_round = shown.round.seq == lease->round.seq;
    char count[16];
    /* A round that follows at once has begun already: the counted grants are `holding`. */
    rl_node_set grants = counted ? lease->holding : lease->round.granted;
    snprintf(count, sizeof(count), "%u of %u", rl_count(grants), holder.terms.n);
    if (voting && same_round && lease->round.granted != shown.round.granted && !counted)
        append_count(count);
    append_reports(lease, count);
    if (lease->state == RL_LEASE_HELD && shown.state == RL_LEASE_HELD &&
        lease->valid != shown.valid && !counted)
        append("the deadline is %lld ms", (long long)holder_ms(lease->valid));
    bool lost = extends(lease) && same_round && lease->decided && !lease->won;
    if ((lost && !shown.decided) ||
        (lease->state == RL_LEASE_ABORTING && shown.state == RL_LEASE_ACQUIRING))
        append("the round is lost");
    /* The caller waits: it gets no report of it. */
    if (shown.state <= RL_LEASE_ABORTING && lease->state >= RL_LEASE_CLEANUP &&
        !(holder.reports & RL_REPORT_FAILED))
        append("the attempt fails: %s",
               reason(lease->cause == RL_CAUSE_TAKEN       ? REDLOCK_TAKEN
                      : lease->cause == RL_CAUSE_NO_QUORUM ? REDLOCK_NO_QUORUM
                                                           : REDLOCK_EXPIRED));
}

/* --- a step --- */

void outcome_begin(void)
{
    const struct rl_attempt *attempt = holder_attempt();
    text[0] = '\0';
    count_at = TEXT;
    before = attempt ? attempt->number : 0;
    state_before = attempt ? attempt->lease.state : RL_LEASE_NEW;
}

void outcome_look(rl_node_set greeted)
{
    static const struct rl_lease none;
    const struct rl_attempt *attempt = holder_attempt();
    const struct rl_lease *lease = attempt ? &attempt->lease : &none;
    uint32_t number = attempt ? attempt->number : 0;
    if (number != shown_of)
        shown = none;
    append_links(greeted);
    append_lease(lease);
    append_sent();
    if (holder.refused)
        append("the call returns %s", redlock_code_name(holder.refused));
    holder.reports = 0;
    holder.refused = REDLOCK_OK;
    shown = *lease;
    shown_of = number;
}

const char *outcome_end(void)
{
    const struct rl_attempt *attempt = holder_attempt();
    if (!attempt || (attempt->number == before && attempt->lease.state == state_before))
        return text;
    if (attempt->lease.state == RL_LEASE_CLEANUP)
        append("%s may still store the token", names(attempt->lease.dirty));
    if (attempt->lease.state == RL_LEASE_OVER)
        append("all is over");
    return text;
}
