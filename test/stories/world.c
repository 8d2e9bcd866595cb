#include "world.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void append(struct world *world, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void append(struct world *world, const char *format, ...)
{
    size_t len = strlen(world->outcome);
    va_list arguments;
    va_start(arguments, format);
    if (len > 0 && len < WORLD_TEXT - 3)
        len += (size_t)snprintf(world->outcome + len, WORLD_TEXT - len, "; ");
    vsnprintf(world->outcome + len, WORLD_TEXT - len, format, arguments);
    va_end(arguments);
    world->count_at = WORLD_TEXT;
}

/* Removes a mere count: another follows. */
static void recount(struct world *world)
{
    if (world->count_at < WORLD_TEXT)
        world->outcome[world->count_at] = '\0';
}

static void append_count(struct world *world, const char *count)
{
    recount(world);
    size_t at = strlen(world->outcome);
    append(world, "%s", count);
    world->count_at = at;
}

static const char *names(rl_node_set nodes)
{
    static char text[128];
    size_t len =
        (size_t)snprintf(text, sizeof(text), rl_count(nodes) == 1 ? "node" : "nodes");
    for (; nodes; nodes &= nodes - 1)
        len += (size_t)snprintf(text + len, sizeof(text) - len, " %u", rl_first(nodes) + 1);
    return text;
}

static long long ms(rl_time time)
{
    return (long long)(time / RL_MS);
}

/* --- links --- */

static void read_links(struct world *world)
{
    world->view.ready = world->view.open = 0;
    for (unsigned i = 0; i < world->params.n; i++) {
        const struct rl_link *link = &world->node[i].link;
        if (rl_link_is_ready(link))
            world->view.ready |= rl_bit(i);
        if (rl_link_is_open(link))
            world->view.open |= rl_bit(i);
        world->round_trip[i] = link->round_trip;
    }
}

/* A command whose reply is pending when the connection ends is unknown. */
static void drop_pending(struct world *world, unsigned i)
{
    struct world_node *node = &world->node[i];
    while (node->pending_count > 0) {
        struct world_command command = node->pending[0];
        memmove(&node->pending[0], &node->pending[1],
                --node->pending_count * sizeof(command));
        world_step(world, (struct rl_lease_event){.type = RL_EVENT_VOTE,
                                                  .node = (uint8_t)i,
                                                  .seq = command.seq,
                                                  .command = command.command,
                                                  .vote = RL_VOTE_UNKNOWN,
                                                  .fault = RL_FAULT_CLOSED,
                                                  .pttl = -1});
    }
}

/* What a step did to a link; append_silent() reports what a timer did to several. */
static void append_link(struct world *world, unsigned i, enum rl_link_state before)
{
    const struct rl_link *link = &world->node[i].link;
    if (link->state == before)
        return;
    switch (link->state) {
    case RL_LINK_READY: append(world, "node %u may vote", i + 1); break;
    case RL_LINK_QUARANTINED:
        append(world, "node %u is quarantined until %lld ms", i + 1,
               ms(link->quarantine_until));
        break;
    case RL_LINK_DOWN:
        if (before == RL_LINK_GREETING)
            append(world, "refused: %s", rl_fault_text(link->fault));
        break;
    default: break;
    }
}

static void append_silent(struct world *world, rl_node_set suspect, rl_node_set given_up)
{
    if (suspect)
        append(world, "%s %s suspect", names(suspect),
               rl_count(suspect) == 1 ? "is" : "are");
    if (given_up)
        append(world, "%s %s given up, with a reset", names(given_up),
               rl_count(given_up) == 1 ? "is" : "are");
}

static void step_link(struct world *world, unsigned i, struct rl_link_event event)
{
    struct world_node *node = &world->node[i];
    enum rl_link_state before = node->link.state;
    event.now = world->view.now;
    rl_link_step(&node->link, &event);
    read_links(world);
    append_link(world, i, before);
    if (!rl_link_is_open(&node->link))
        drop_pending(world, i);
}

void world_cut(struct world *world, unsigned node)
{
    step_link(world, node,
              (struct rl_link_event){.type = RL_LINK_FAILED, .fault = RL_FAULT_CLOSED});
}

bool world_connect(struct world *world, unsigned node)
{
    if (world->node[node].link.state != RL_LINK_CONNECTING)
        return false;
    step_link(world, node, (struct rl_link_event){.type = RL_LINK_CONNECTED});
    return true;
}

bool world_greet(struct world *world, unsigned node, struct rl_identity identity)
{
    struct rl_link *link = &world->node[node].link;
    if (link->state != RL_LINK_GREETING && !world_connect(world, node))
        return false;
    memset(identity.process.run_id, world->node[node].letter, RL_RUN_ID);
    step_link(world, node,
              (struct rl_link_event){.type = RL_LINK_GREETED, .identity = &identity});
    if (rl_link_is_open(link))
        world_step(world,
                   (struct rl_lease_event){.type = RL_EVENT_READY, .node = (uint8_t)node});
    if (link->restarted)
        world_step(world, (struct rl_lease_event){.type = RL_EVENT_RESTARTED,
                                                  .node = (uint8_t)node});
    return true;
}

/* --- the lease --- */

static const char *cause_text(enum rl_cause cause)
{
    static const char *const texts[] = {
        [RL_CAUSE_NONE] = "",
        [RL_CAUSE_TAKEN] = "another holds it",
        [RL_CAUSE_NO_QUORUM] = "no quorum",
        [RL_CAUSE_EXPIRED] = "its validity ended",
        [RL_CAUSE_CANCELLED] = "cancelled",
        [RL_CAUSE_GONE] = "the keys are gone",
        [RL_CAUSE_MAX_HOLD] = "max_hold is over",
        [RL_CAUSE_UNCONFIRMED] = "unconfirmed",
    };
    return texts[cause];
}

static void append_sent(struct world *world, const struct rl_update *update)
{
    const char *to = names(update->send);
    switch (update->command) {
    case RL_CMD_ACQUIRE: append(world, "SET goes to %s", to); break;
    case RL_CMD_EXTEND:
        append(world, "the extension goes to %s%s", to,
               update->recreate ? "" : ", without recreating");
        break;
    default: append(world, "the release goes to %s", to); break;
    }
}

static void append_reports(struct world *world, unsigned reports, const char *count)
{
    const struct rl_lease *lease = &world->lease;
    const char *cause = cause_text(lease->cause);
    if (reports)
        recount(world);
    if (reports & RL_REPORT_HELD)
        append(world, "%s: held until %lld ms", count, ms(lease->valid));
    if (reports & (RL_REPORT_EXTENDED | RL_REPORT_RENEWED))
        append(world, "%s: extended until %lld ms", count, ms(lease->valid));
    if (reports & RL_REPORT_FAILED)
        append(world, "failed: %s", cause);
    if (reports & RL_REPORT_NOT_EXTENDED)
        append(world, "not extended");
    if (reports & RL_REPORT_LOST)
        append(world, "LOST: %s", cause);
    if (reports & RL_REPORT_RELEASED)
        append(world, *cause ? "released: %s" : "released%s", cause);
}

static void append_lease(struct world *world, const struct rl_lease *before,
                         const struct rl_update *update)
{
    const struct rl_lease *lease = &world->lease;
    const unsigned counted = RL_REPORT_HELD | RL_REPORT_EXTENDED | RL_REPORT_RENEWED;
    bool voting = before->state == RL_LEASE_ACQUIRING || before->state == RL_LEASE_HELD;
    char count[16];
    /* A round that follows at once has begun already: the counted grants are `holding`. */
    rl_node_set grants = update->reports & counted ? lease->holding : lease->round.granted;
    snprintf(count, sizeof(count), "%u of %u", rl_count(grants), lease->params->n);
    if (voting && before->round.seq == lease->round.seq &&
        lease->round.granted != before->round.granted && !(update->reports & counted))
        append_count(world, count);
    append_reports(world, update->reports, count);
    if (lease->state == RL_LEASE_HELD && before->state == RL_LEASE_HELD &&
        lease->valid != before->valid && !(update->reports & counted))
        append(world, "the deadline is %lld ms", ms(lease->valid));
    if (lease->state == RL_LEASE_ABORTING && before->state == RL_LEASE_ACQUIRING)
        append(world, "the round is lost");
    if (lease->state == RL_LEASE_HELD && lease->round.command == RL_CMD_EXTEND &&
        before->round.seq == lease->round.seq && lease->decided && !lease->won &&
        !before->decided)
        append(world, "the round is lost");
    if (update->send)
        append_sent(world, update);
}

static void send(struct world *world, const struct rl_update *update)
{
    for (rl_node_set rest = update->send; rest; rest &= rest - 1) {
        unsigned i = rl_first(rest);
        struct world_node *node = &world->node[i];
        if (node->pending_count == WORLD_PENDING)
            continue;
        node->pending[node->pending_count++] =
            (struct world_command){update->command, update->seq, world->view.now};
        if (node->pending_count == 1)
            step_link(world, i, (struct rl_link_event){.type = RL_LINK_SENT});
    }
}

void world_step(struct world *world, struct rl_lease_event event)
{
    struct rl_lease before = world->lease;
    struct rl_update update = rl_lease_step(&world->lease, &world->view, &event);
    append_lease(world, &before, &update);
    send(world, &update);
}

bool world_reply(struct world *world, unsigned i, enum rl_vote vote, enum rl_fault fault,
                 int32_t pttl)
{
    struct world_node *node = &world->node[i];
    if (node->pending_count == 0)
        return false;
    struct world_command command = node->pending[0];
    memmove(&node->pending[0], &node->pending[1], --node->pending_count * sizeof(command));
    step_link(world, i,
              (struct rl_link_event){
                  .type = RL_LINK_ANSWERED,
                  .sent = command.sent,
                  .oldest = node->pending_count > 0 ? node->pending[0].sent : RL_NEVER,
              });
    world_step(world, (struct rl_lease_event){.type = RL_EVENT_VOTE,
                                              .node = (uint8_t)i,
                                              .seq = command.seq,
                                              .command = command.command,
                                              .vote = vote,
                                              .fault = fault,
                                              .pttl = pttl});
    return true;
}

bool world_answer(struct world *world, unsigned i, enum rl_command command,
                  enum rl_vote vote, enum rl_fault fault, int32_t pttl)
{
    const struct world_node *node = &world->node[i];
    return node->pending_count > 0 && node->pending[0].command == command &&
           world_reply(world, i, vote, fault, pttl);
}

/* --- time --- */

void world_init(struct world *world)
{
    rl_lease_init(&world->lease, &world->params, world->ballot, NULL);
    world->view.round_trip = world->round_trip;
    for (unsigned i = 0; i < world->params.n; i++) {
        world->node[i].letter = 'a';
        rl_link_init(&world->node[i].link, &world->link_params, 0);
        step_link(world, i, (struct rl_link_event){.type = RL_LINK_TICK});
    }
    world_at(world, 0);
}

void world_greet_all(struct world *world)
{
    for (unsigned i = 0; i < world->params.n; i++)
        world_greet(world, i, (struct rl_identity){.is_master = true});
    world_at(world, world->view.now);
}

void world_at(struct world *world, rl_time now)
{
    world->view.now = now;
    world->outcome[0] = '\0';
    world->count_at = WORLD_TEXT;
    world->before = world->lease.state;
}

void world_done(struct world *world)
{
    const struct rl_lease *lease = &world->lease;
    if (lease->state == world->before)
        return;
    if (lease->state == RL_LEASE_CLEANUP)
        append(world, "%s may still store the token", names(lease->dirty));
    if (lease->state == RL_LEASE_OVER)
        append(world, "all is over");
}

bool world_tick(struct world *world, rl_time until)
{
    rl_time next = rl_lease_next(&world->lease);
    for (unsigned i = 0; i < world->params.n; i++)
        next = rl_min(next, rl_link_next(&world->node[i].link));
    if (next > until || world->view.now > until)
        return false;
    world_at(world, rl_max(next, world->view.now));
    rl_node_set suspect = 0, given_up = 0;
    for (unsigned i = 0; i < world->params.n; i++) {
        const struct rl_link *link = &world->node[i].link;
        bool was_ready = rl_link_is_ready(link), was_open = rl_link_is_open(link);
        if (rl_link_next(link) > world->view.now)
            continue;
        step_link(world, i, (struct rl_link_event){.type = RL_LINK_TICK});
        suspect |= was_ready && link->state == RL_LINK_SUSPECT ? rl_bit(i) : 0;
        given_up |= was_open && link->state == RL_LINK_DOWN ? rl_bit(i) : 0;
    }
    append_silent(world, suspect, given_up);
    if (rl_lease_next(&world->lease) <= world->view.now)
        world_step(world, (struct rl_lease_event){.type = RL_EVENT_TICK});
    world_done(world);
    return true;
}
