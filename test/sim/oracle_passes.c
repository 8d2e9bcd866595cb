/*
 * The oracle on notifications for those who wait no more: their client, which does not know
 * the number, leaves the queue for them, and so passes the notification on.
 */
#include <stdio.h>
#include <string.h>

#include "oracle_parts.h"
#include "world.h"

#define SLACK (10 * VIRTUAL_MS)

#define PASSES_MAX 16

static struct pass {
    char entry[96]; /* without a reader's mark; "": none */
    const struct client *client;
    uint32_t process;
    rl_node_set nodes;
    int64_t due; /* true time */
} passes[PASSES_MAX];

void oracle_passes_begin(void)
{
    memset(passes, 0, sizeof(passes));
}

void oracle_drop_passes(const struct client *client, rl_node_set nodes, const char *entry)
{
    for (unsigned i = 0; i < PASSES_MAX; i++)
        if (passes[i].client == client && passes[i].nodes & nodes &&
            (!entry || strcmp(passes[i].entry, entry) == 0))
            passes[i] = (struct pass){0};
}

/* The client to whose channel the entry belongs; NULL: of none whose channel is known. */
static const struct client *owner_of(struct rl_word entry)
{
    for (unsigned c = 0; c < world.plan.clients; c++)
        for (unsigned u = 0; u < world.client[c].users; u++) {
            const char *own = world.client[c].user[u].queued_as, *end = strchr(own, ' ');
            size_t len = end ? (size_t)(end - own) + 1 : 0;
            if (world.client[c].is_alive && len > 0 && len < entry.len &&
                memcmp(own, entry.text, len) == 0)
                return &world.client[c];
        }
    return NULL;
}

static bool is_of_holder(const struct client *client, const char *entry)
{
    for (unsigned i = 0; i < client->users; i++)
        if (strncmp(client->user[i].queued_as, entry, strlen(entry)) == 0 &&
            client->user[i].phase != USER_IDLE)
            return true;
    return false;
}

void oracle_note_pass(unsigned server, struct rl_word entry)
{
    const struct client *client = owner_of(entry);
    struct pass pass = {.client = client};
    int64_t at = client ? oracle_arrival(client, server, &pass.nodes) : CLOCK_NEVER;
    if (client) /* it can send nothing where it is not connected */
        pass.nodes &= oracle_ready_nodes(client);
    if (at == CLOCK_NEVER || !pass.nodes || world.plan.weight[FAULT_ROOM] > 0)
        return;
    snprintf(pass.entry, sizeof(pass.entry), "%.*s",
             (int)(oracle_entry_reads(entry) ? entry.len - 2 : entry.len), entry.text);
    if (is_of_holder(client, pass.entry))
        return;
    at = at < client->process.stopped_until ? client->process.stopped_until : at;
    pass.process = client->number;
    pass.due = at + 2 * world.plan.far + SLACK;
    for (unsigned i = 0; i < PASSES_MAX; i++)
        if (!passes[i].client) {
            passes[i] = pass;
            return;
        }
}

void oracle_judge_passes(const struct client *client)
{
    for (unsigned i = 0; i < PASSES_MAX; i++) {
        struct pass *pass = &passes[i];
        int64_t awake = client->process.resumed + 2 * world.plan.far + SLACK;
        if (pass->client != client || events_now() <= pass->due || events_now() <= awake)
            continue;
        if (pass->process == client->number && oracle_is_calm() &&
            !(pass->nodes & ~oracle_ready_nodes(client)))
            oracle_accuse(INVARIANT_LIVENESS,
                          "client %u does not pass on what \"%s\" was notified of",
                          client->index + 1, pass->entry);
        *pass = (struct pass){0};
    }
}
