/* The oracle at the end of a run: whether all was told, and nothing is left. */
#include <stdio.h>

#include "oracle_parts.h"
#include "world.h"

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

static void look_at_user(const struct user *user, struct verdict *ret)
{
    if (user->phase == USER_IDLE)
        return;
    ret->broken = INVARIANT_CALLBACK;
    snprintf(ret->text, sizeof(ret->text), "client %u, user %u waits in vain",
             user->client->index + 1, user->index + 1);
}

/* A node that is well, and is not quarantined, may vote again. */
static void look_at_links(const struct client *client, struct verdict *ret)
{
    redlock_node node[NODES_MAX];
    for (unsigned i = 0; i < redlock_client_explain(client->handle, node, NODES_MAX); i++) {
        bool healed = world.healed & (1U << client->node[i].server);
        if (!healed || !client_reaches(client, i) ||
            node[i].verdict != REDLOCK_VERDICT_SUSPECT)
            continue;
        ret->broken = INVARIANT_LIVENESS;
        snprintf(ret->text, sizeof(ret->text), "client %u does not ask node %u",
                 client->index + 1, i + 1);
    }
}

static void look_at_key(unsigned server, unsigned resource, struct verdict *ret)
{
    const struct key *lock = server_lock(&world.server[server], resource);
    const struct claim *claim = lock ? claim_of(bytes_word(&lock->string)) : NULL;
    if (!claim || !should_be_clean(claim, server))
        return;
    ret->broken = INVARIANT_LEFT;
    snprintf(ret->text, sizeof(ret->text), "%.8s on server %u", claim->token, server + 1);
}

struct verdict oracle_open(void)
{
    struct verdict open = {.at = events_now()};
    for (unsigned c = 0; c < world.plan.clients && !open.broken; c++) {
        const struct client *client = &world.client[c];
        for (unsigned u = 0; u < client->users && client->is_alive && !open.broken; u++)
            look_at_user(&client->user[u], &open);
        if (client->handle && !open.broken)
            look_at_links(client, &open);
    }
    for (unsigned s = 0; s < SERVERS_MAX; s++)
        for (unsigned r = 0; r < world.plan.resources && !open.broken; r++)
            if (world.healed & (1U << s))
                look_at_key(s, r, &open);
    return open;
}
