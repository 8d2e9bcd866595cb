#include "desk.h"

struct rl_terms desk_terms(unsigned n, unsigned q)
{
    return (struct rl_terms){
        .ttl = 10 * RL_SECOND,
        .max_hold = RL_NEVER,
        .drift_ppm = 10000,
        .n = (uint8_t)n,
        .q = (uint8_t)q,
    };
}

void desk_init(struct desk *desk, const struct rl_terms *terms)
{
    *desk = (struct desk){
        .terms = *terms,
        .view = {.now = RL_SECOND, .ready = rl_all(terms->n), .open = rl_all(terms->n)}};
    desk->view.round_trip = desk->round_trip;
    rl_lease_init(&desk->lease, &desk->terms, desk->ballot, desk->fences);
}

void desk_start(struct desk *desk, unsigned n)
{
    struct rl_terms terms = desk_terms(n, rl_majority(n));
    desk_init(desk, &terms);
    desk_say(desk, RL_EVENT_START);
}

unsigned desk_told(const struct desk *desk, enum rl_news news)
{
    return desk->told[__builtin_ctz(news)];
}

/* What is true of every lease after every step. */
static void check_lease(const struct desk *desk)
{
    const struct rl_lease *lease = &desk->lease;
    const struct rl_update *update = &desk->update;
    rl_nodes all = rl_all(lease->terms->n);
    CHECK(desk->acquires <= 1, "an acquire is never sent again");
    CHECK(desk_told(desk, RL_NEWS_HELD) + desk_told(desk, RL_NEWS_FAILED) <= 1,
          "an acquire ends once");
    CHECK(desk_told(desk, RL_NEWS_LOST) <= 1, "LOST is told once");
    CHECK(desk_told(desk, RL_NEWS_RELEASED) <= 1, "a release ends once");
    CHECK((update->send & ~desk->view.open) == 0, "sent where nothing can be written");
    CHECK(update->text == RL_RELEASE || (update->send & ~desk->view.ready) == 0,
          "a vote was asked of a node that is not ready");
    CHECK((lease->round.waiting | lease->round.granted) <= all,
          "a node that does not exist");
    CHECK((lease->round.granted & lease->round.waiting) == 0, "a node voted twice");
    CHECK((lease->dirty & ~lease->touched) == 0, "dirty without having been sent anything");
    CHECK(lease->state == RL_LEASE_HELD || lease->state == RL_LEASE_LOST ||
              rl_lease_left(lease, desk->view.now) == 0,
          "time is left of a lock that is not held");
    CHECK(!(lease->state == RL_LEASE_OVER && rl_lease_next(lease) != RL_NEVER),
          "what is over wants nothing");
}

struct rl_update desk_step(struct desk *desk, struct rl_lease_event event)
{
    desk->update = rl_lease_step(&desk->lease, &desk->view, &event);
    if (desk->update.send) {
        desk->sent = desk->update;
        desk->ever[desk->update.text] |= desk->update.send;
        desk->acquires += desk->update.text == RL_ACQUIRE;
    }
    for (unsigned i = 0; i < NEWS_KINDS; i++)
        desk->told[i] += desk->update.news >> i & 1;
    check_lease(desk);
    return desk->update;
}

struct rl_update desk_say(struct desk *desk, enum rl_lease_event_type type)
{
    return desk_step(desk, (struct rl_lease_event){.type = type});
}

struct rl_update desk_extend(struct desk *desk, rl_time ttl)
{
    return desk_step(desk, (struct rl_lease_event){.type = RL_EVENT_EXTEND, .ttl = ttl});
}

struct rl_update desk_adopt(struct desk *desk, rl_time deadline)
{
    return desk_step(desk,
                     (struct rl_lease_event){.type = RL_EVENT_ADOPT, .deadline = deadline});
}

struct rl_update desk_answer(struct desk *desk, struct rl_update round, unsigned node,
                             enum rl_vote vote, int32_t pttl)
{
    return desk_step(desk, (struct rl_lease_event){
                               .type = RL_EVENT_VOTE,
                               .node = (uint8_t)node,
                               .seq = round.seq,
                               .text = round.text,
                               .vote = vote,
                               .pttl = pttl,
                           });
}

struct rl_update desk_vote(struct desk *desk, unsigned node, enum rl_vote vote)
{
    return desk_answer(desk, desk->sent, node, vote, -1);
}

void desk_votes(struct desk *desk, rl_nodes nodes, enum rl_vote vote)
{
    struct rl_update round = desk->sent;
    for (; nodes; nodes &= nodes - 1)
        desk_answer(desk, round, rl_first(nodes), vote, -1);
}

void desk_at(struct desk *desk, rl_time now)
{
    desk->view.now = now;
}

void desk_wait(struct desk *desk, rl_time span)
{
    desk->view.now += span;
}

struct rl_update desk_tick(struct desk *desk)
{
    rl_time next = rl_lease_next(&desk->lease);
    cr_assert_neq(next, RL_NEVER, "nothing is due");
    desk->view.now = rl_max(desk->view.now, next);
    return desk_say(desk, RL_EVENT_TICK);
}

void desk_hold(struct desk *desk, unsigned n, rl_nodes granting)
{
    desk_start(desk, n);
    desk_votes(desk, granting, RL_VOTE_GRANTED);
    cr_assert_eq(desk->lease.state, RL_LEASE_HELD);
}
