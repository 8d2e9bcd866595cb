/* The oracle at the end of a run: whether all was told, and nothing is left. */
#include "oracle_parts.h"

#include "world.h"

static bool is_told(const struct user *user)
{
    return !user->acquiring && !user->extending && !user->releasing;
}

/* Its client had a second and more to say the release to the node that stored it. */
static bool should_be_clean(const struct world *world, const struct token *token,
                            unsigned server)
{
    const struct client *client = &world->client[token->client];
    if (!token->cleaned || token->handed || token->ghost[server] ||
        client->born > token->made || client_reading(world, client) >= token->clean_until)
        return false;
    const struct member *member = &client->member[token->node[server]];
    return rl_link_is_open(&member->link) && member->server == server;
}

/* A node that is well, owes nothing and is not barred may vote again. */
static void judge_links(struct world *world, const struct client *client)
{
    for (unsigned node = 0; node < NODES; node++) {
        const struct member *member = &client->member[node];
        bool healed = world->healed & rl_bit(member->server);
        if (healed && rl_link_is_open(&member->link) && !rl_link_is_ready(&member->link) &&
            member->owed == 0 && client->view.now >= member->barred)
            oracle_accuse(world, INVARIANT_LIVENESS, "client %u does not ask node %u",
                          client->index + 1, node + 1);
    }
}

void oracle_finish(struct world *world)
{
    for (unsigned c = 0; c < world->swarm.clients; c++)
        judge_links(world, &world->client[c]);
    for (unsigned c = 0; c < world->swarm.clients; c++)
        for (unsigned u = 0; u < world->swarm.users; u++)
            if (!is_told(&world->client[c].user[u]))
                oracle_accuse(world, INVARIANT_CALLBACK, "client %u, user %u waits in vain",
                              c + 1, u + 1);
    for (rl_node_set rest = world->healed; rest; rest &= rest - 1) {
        const struct server *server = &world->server[rl_first(rest)];
        for (unsigned r = 0; r < world->swarm.resources; r++) {
            const struct store_entry *entry =
                store_find(&server->store, world_key(r), server_time(world, server));
            const struct token *token = entry && entry->type == STORE_STRING
                                            ? world_token_of(world, entry->value)
                                            : NULL;
            if (token && should_be_clean(world, token, server->index))
                oracle_accuse(world, INVARIANT_LEFT, "%.*s on server %u", TOKEN_LEN,
                              token->text, server->index + 1);
        }
    }
}
