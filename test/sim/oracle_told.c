/* The oracle on what users and operators are told. */
#include "oracle_parts.h"

#include "world.h"

/* How long the lock is surely held, as each callback says. */
static void judge_left(struct world *world, const struct client *client,
                       const struct user *user)
{
    const struct rl_lease *lease = &user->attempt->lease;
    rl_time left = rl_lease_left(lease, client->view.now);
    bool held = lease->state == RL_LEASE_HELD && lease->timed;
    bool ran_out = lease->state == RL_LEASE_LOST &&
                   (lease->cause == RL_CAUSE_EXPIRED || lease->cause == RL_CAUSE_MAX_HOLD);
    rl_time most = held || ran_out ? rl_max(lease->valid - client->view.now, 0) : 0;
    if (left != most)
        oracle_accuse(world, INVARIANT_TOLD, "client %u: held for %lld us",
                      client->index + 1, (long long)left);
}

/* A user that only takes a place waits for each answer, and for as long as for any. */
static void judge_queueing(struct world *world, const struct client *client,
                           const struct user *user)
{
    const struct attempt *attempt = user->attempt;
    for (unsigned i = 0; i < NODES; i++)
        if (user->queues && attempt->lease.cause != RL_CAUSE_CANCELLED &&
            attempt->told & rl_bit(i) && attempt->ballot[i].vote == RL_VOTE_WAITING)
            oracle_accuse(world, INVARIANT_TOLD, "client %u: node %u is not heard",
                          client->index + 1, i + 1);
}

/* Those who deleted the token have said so. */
static void judge_release(struct world *world, const struct client *client,
                          const struct attempt *attempt)
{
    if (attempt->lease.cause == RL_CAUSE_UNCONFIRMED &&
        rl_count(attempt->released) >= world->swarm.q)
        oracle_accuse(world, INVARIANT_TOLD, "client %u: unconfirmed, though %s did",
                      client->index + 1, trace_set(attempt->released));
}

void oracle_told(struct world *world, struct client *client, struct user *user,
                 enum rl_report news)
{
    bool expected = true;
    switch (news) {
    case RL_REPORT_HELD:
    case RL_REPORT_FAILED: expected = user->phase == USER_TRYING && user->acquiring; break;
    case RL_REPORT_EXTENDED:
    case RL_REPORT_NOT_EXTENDED: expected = user->extending; break;
    case RL_REPORT_RENEWED:
    case RL_REPORT_LOST: expected = user->phase == USER_HOLDING && !user->lost; break;
    case RL_REPORT_RELEASED: expected = user->releasing; break;
    }
    judge_left(world, client, user);
    if (news == RL_REPORT_FAILED)
        judge_queueing(world, client, user);
    if (news == RL_REPORT_RELEASED)
        judge_release(world, client, user->attempt);
    if (!expected)
        oracle_accuse(world, INVARIANT_CALLBACK, "client %u, user %u, news %u",
                      client->index + 1, user->index + 1, news);
}

/* How many nodes are or will be free in so many ms, as far as this attempt was told. */
static unsigned free_by(const struct rl_ballot *ballot, int64_t in)
{
    unsigned free = 0;
    for (unsigned i = 0; i < NODES; i++) {
        bool leaves = ballot[i].vote == RL_VOTE_HELD && ballot[i].pttl >= 0;
        free += ballot[i].vote == RL_VOTE_GRANTED || ballot[i].vote == RL_VOTE_GONE ||
                (leaves && ballot[i].pttl <= in);
    }
    return free;
}

void oracle_promised(struct world *world, const struct client *client,
                     const struct user *user, int64_t free_in)
{
    const struct rl_ballot *ballot = user->attempt->ballot;
    unsigned q = world->swarm.q;
    bool right = free_in < 0 ? free_in == -1 && free_by(ballot, INT64_MAX) < q
                             : free_by(ballot, free_in) >= q &&
                                   (free_in == 0 || free_by(ballot, free_in - 1) < q);
    if (!right)
        oracle_accuse(world, INVARIANT_TOLD, "client %u: free in %lld ms",
                      client->index + 1, (long long)free_in);
}

void oracle_operated(struct world *world, const struct server *server, unsigned resource,
                     const struct store *before, const struct rl_answer *there,
                     const struct rl_answer *broken)
{
    int64_t now = server_time(world, server);
    struct rl_word key = world_key(resource);
    const struct store_entry *entry = store_find(before, key, now);
    bool is_list = entry && entry->type == STORE_LIST;
    bool is_value = entry && entry->type == STORE_STRING;
    bool told = is_value && there->value.text == entry->value.text &&
                broken->value.text == entry->value.text && there->pttl == broken->pttl &&
                there->pttl <= rl_max(entry->expires - now, -1);
    bool right = entry ? there->vote == RL_VOTE_HELD : there->vote == RL_VOTE_GONE;
    right = right && (!is_value || told);
    right = right && (!is_list || broken->vote == RL_VOTE_ERROR);
    right = right && is_list == (store_find(&server->store, key, now) != NULL);
    if (!right)
        oracle_accuse(world, INVARIANT_TOLD, "server %u, \"%s\"", server->index + 1,
                      key.text);
}
