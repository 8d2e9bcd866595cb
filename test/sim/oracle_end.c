/* The oracle at the end of a run: whether all was told, and nothing is left. */
#include "oracle_parts.h"
#include "world.h"

static bool is_told(const struct user *user)
{
    return !user->is_acquiring && !user->is_extending && !user->is_releasing;
}

/* Its process had a second and more to send the release to the node that stored it. */
static bool should_be_clean(const struct claim *claim, unsigned server)
{
    const struct client *client = &world.client[claim->client];
    if (!claim->is_cleaned || claim->is_handed || claim->is_ghost & rl_bit(server) ||
        client->number != claim->client_number || events_now() >= claim->clean_until)
        return false;
    unsigned node = claim->node[server];
    return client_reaches(client, node) && client->node[node].server == server;
}

/* A node that is well, and is not quarantined, may vote again. */
static void judge_links(const struct client *client)
{
    redlock_node node[NODES_MAX];
    for (unsigned i = 0; i < redlock_client_explain(client->handle, node, NODES_MAX); i++) {
        const struct acquainted *known = &client->node[i];
        bool healed = world.healed & (1U << known->server);
        bool votes = node[i].verdict == REDLOCK_VERDICT_READY;
        if (healed && client_reaches(client, i) && !votes &&
            node[i].verdict == REDLOCK_VERDICT_SUSPECT)
            oracle_accuse(INVARIANT_LIVENESS, "client %u does not ask node %u",
                          client->index + 1, i + 1);
    }
}

void oracle_finish(void)
{
    for (unsigned c = 0; c < world.plan.clients; c++) {
        const struct client *client = &world.client[c];
        if (client->handle)
            judge_links(client);
        for (unsigned u = 0; u < world.plan.users; u++)
            if (!is_told(&client->user[u]))
                oracle_accuse(INVARIANT_CALLBACK, "client %u, user %u waits in vain", c + 1,
                              u + 1);
    }
    for (unsigned s = 0; s < SERVERS_MAX; s++)
        for (unsigned r = 0; world.healed & (1U << s) && r < world.plan.resources; r++) {
            const struct key *lock = server_lock(&world.server[s], r);
            const struct claim *claim = lock ? claim_of(bytes_word(&lock->string)) : NULL;
            if (claim && should_be_clean(claim, s))
                oracle_accuse(INVARIANT_LEFT, "%.8s on server %u", claim->token, s + 1);
        }
}
