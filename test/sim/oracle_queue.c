/*
 * The oracle on waiters: who is notified by a quorum tries again, and who leaves the queue
 * has left it. It requires that only while no fault is active.
 */
#include <stdio.h>

#include "oracle_parts.h"
#include "world.h"

#define GRACE_MAX  (1500 * VIRTUAL_MS) /* a second, by a clock that may be slow */
#define SLACK      (10 * VIRTUAL_MS)
#define SLOW_CLOCK 8                   /* a client takes at most this part longer */
#define RECHECK    (2050 * VIRTUAL_MS) /* a waiter in a queue tries at least so often */
#define QUEUE_END  "!queue"
#define CALLED     4e15 /* is added to the score of a waiter that was notified */

static bool may_fail(const struct server *server)
{
    return server->denied_until > events_now() || server->node.redis->config.is_replica;
}

bool oracle_is_calm(void)
{
    return world.phase == PHASE_CALM && !world.is_hindered;
}

bool oracle_judges_queue(const struct command *command)
{
    if (!command || !world.plan.queues)
        return false;
    bool releases = command->ask == ASK_RELEASE && (command->claim || command->leaves);
    return (releases && oracle_is_calm()) || command->ask == ASK_BREAK;
}

/* --- who waits --- */

static struct user *waiter_of(struct rl_word entry)
{
    for (unsigned c = 0; c < world.plan.clients; c++)
        for (unsigned u = 0; u < world.client[c].users; u++) {
            struct user *user = &world.client[c].user[u];
            struct rl_word own = {user->entry, strlen(user->entry)};
            if (world.client[c].is_alive && user->is_acquiring && own.len > 0 &&
                word_is(own, entry))
                return user;
        }
    return NULL;
}

/* A client is subscribed to the channel of an entry, as the server has it. */
static bool is_heard(const struct server *server, struct rl_word entry)
{
    const struct redis *redis = server->node.redis;
    for (size_t i = 0; i < redis->links; i++)
        for (size_t k = 0; k < redis->link[i]->channels; k++) {
            struct rl_word channel = bytes_word(&redis->link[i]->channel[k]);
            if (entry.len > channel.len && entry.text[channel.len] == ' ' &&
                memcmp(entry.text, channel.text, channel.len) == 0)
                return true;
        }
    return false;
}

rl_node_set oracle_ready_nodes(const struct client *client)
{
    redlock_node node[NODES_MAX];
    rl_node_set ready = 0;
    size_t count = redlock_client_explain(client->handle, node, NODES_MAX);
    for (size_t i = 0; i < count; i++)
        ready |= node[i].verdict == REDLOCK_VERDICT_READY ? rl_bit((unsigned)i) : 0;
    return ready;
}

/* --- notifications --- */

void oracle_forget_calls(struct user *user)
{
    user->called_by = user->first_by = 0;
    user->called_at = 0;
    user->called_due = CLOCK_NEVER;
}

/* The attempt waits for the replies to its release, as long as a node may take. */
void oracle_attempt_ends(struct user *user)
{
    int64_t timeout = world.plan.node_timeout;
    if (timeout == 0)
        timeout = user->options.ttl_ms * VIRTUAL_MS / 10;
    user->is_trying = false;
    user->trying_until = events_now() + timeout + timeout / SLOW_CLOCK;
}

static bool is_notifiable(const struct user *user)
{
    return rl_count(user->notifiable) >= world.plan.q;
}

void oracle_unsubscribed(const struct client *client, unsigned node)
{
    if (node < world.plan.n)
        oracle_drop_passes(client, rl_bit(node), NULL);
    for (unsigned i = 0; i < client->users && node < world.plan.n; i++) {
        struct user *user = (struct user *)&client->user[i];
        bool was_notifiable = is_notifiable(user);
        user->notifiable &= ~rl_bit(node);
        if (was_notifiable && !is_notifiable(user))
            user->notifiable_until = events_now();
        user->called_by &= ~rl_bit(node);
        user->first_by &= ~rl_bit(node);
        if (rl_count(user->called_by) < world.plan.q)
            user->called_due = CLOCK_NEVER;
    }
}

/* When the message of this server can have arrived; NEVER: it does not. */
int64_t oracle_arrival(const struct client *client, unsigned server, rl_node_set *ret_nodes)
{
    int64_t at = CLOCK_NEVER;
    *ret_nodes = 0;
    for (const struct connection *connection = network.connection; connection;
         connection = connection->next) {
        unsigned node = client_node_at(client, connection->host);
        bool ours = connection->stream && connection->process == &client->process;
        if (!ours || connection->server != server + 1 || node >= world.plan.n ||
            !command_is_subscribed(connection) || connection->lost_at > 0 ||
            connection_path(connection)->down_blocked > events_now())
            continue;
        *ret_nodes |= rl_bit(node);
        at = connection->down.arrives > events_now() ? connection->down.arrives
                                                     : events_now();
    }
    return at;
}

bool oracle_entry_reads(struct rl_word entry)
{
    return entry.len > 2 && memcmp(entry.text + entry.len - 2, " r", 2) == 0;
}

static void note_call(unsigned server, struct rl_word entry, bool is_first)
{
    rl_node_set nodes;
    struct user *user = waiter_of(entry);
    if (!oracle_is_calm())
        return;
    if (!user) {
        oracle_note_pass(server, entry);
        return;
    }
    int64_t at = oracle_arrival(user->client, server, &nodes), grace = 2 * GRACE_MAX;
    if (at == CLOCK_NEVER)
        return;
    user->called_by |= nodes;
    user->first_by |= is_first ? nodes : 0;
    if (rl_count(user->first_by) >= world.plan.q)
        grace = 0;
    else if (rl_count(user->called_by) >= world.plan.q)
        grace = GRACE_MAX;
    int64_t awake = user->client->process.stopped_until;
    at = at < awake ? awake : at;
    user->called_at = at < user->called_at ? user->called_at : at;
    int64_t due = user->called_at + 2 * world.plan.far + SLACK + grace;
    user->called_due = due < user->called_due ? due : user->called_due;
}

static bool is_called(const struct zset_item *item)
{
    return item->score >= CALLED;
}

static const struct key *queue_of(const struct keyspace *keyspace, unsigned resource,
                                  int64_t now)
{
    char name[64];
    int len = snprintf(name, sizeof(name), "%s" QUEUE_END, world_queue_key(resource));
    const struct key *key =
        keyspace_peek(keyspace, 0, (struct rl_word){name, (size_t)len}, now);
    return key && key->type == KEY_ZSET ? key : NULL;
}

static bool is_queued(const struct command *command, unsigned resource,
                      struct rl_word entry)
{
    const struct server *server = &world.server[command->server];
    const struct key *queue =
        queue_of(&server->node.redis->keyspace, resource, server_ms(server));
    size_t i = queue ? zset_find(&queue->zset, entry) : 0;
    return queue && i < queue->zset.items && !is_called(&queue->zset.item[i]);
}

/* A client that queues itself removes no other waiter. */
static void judge_others(const struct command *command, const struct key *before)
{
    const struct server *server = &world.server[command->server];
    const struct key *after =
        queue_of(&server->node.redis->keyspace, command->queue, server_ms(server));
    struct rl_word own = {command->entry, strlen(command->entry)};
    for (size_t i = 0; i < before->zset.items; i++) {
        struct rl_word entry = bytes_word(&before->zset.item[i].member);
        bool is_left = after && zset_find(&after->zset, entry) < after->zset.items;
        if (!is_left && !word_is(entry, own) && !is_called(&before->zset.item[i]))
            oracle_accuse(INVARIANT_LIVENESS,
                          "client %u queues itself, and removes a waiter on server %u",
                          command->client + 1, command->server + 1);
    }
}

/* A set that did not tell its other keys' queues leaves only its own. */
static bool leaves(const struct command *command, unsigned resource, struct rl_word entry)
{
    struct rl_word own = {command->entry, strlen(command->entry)};
    bool is_told =
        resource == command->queue || (command->passes && resource == command->passed);
    if (oracle_entry_reads(own) && !oracle_entry_reads(entry))
        own.len -= 2; /* it waited as a writer, and has downgraded */
    return command->leaves && is_told && word_is(own, entry);
}

/* The first waiter that is subscribed, and the one behind it; or all readers before the
 * next other waiter. */
static void note_calls(const struct command *command, unsigned resource,
                       const struct key *queue)
{
    const struct server *server = &world.server[command->server];
    bool found = false, found_reader = false;
    for (size_t i = 0; i < queue->zset.items && !is_called(&queue->zset.item[i]); i++) {
        struct rl_word entry = bytes_word(&queue->zset.item[i].member);
        if (found_reader && !oracle_entry_reads(entry))
            return;
        if (leaves(command, resource, entry) ||
            (!(found && !found_reader) && !is_heard(server, entry)))
            continue;
        note_call(command->server, entry, !found || found_reader);
        if (found && !found_reader)
            return;
        found = true;
        found_reader = oracle_entry_reads(entry);
        if (is_queued(command, resource, entry) && !world.plan.weight[FAULT_RIGHT])
            oracle_accuse(INVARIANT_LIVENESS,
                          "server %u notifies a waiter, and keeps it first",
                          command->server + 1);
    }
}

/* The key, or one of the slots. */
static bool is_free(const struct command *command)
{
    const struct server *server = &world.server[command->server];
    if (!command->is_of_slot)
        return !server_key(server, world_key(command->queue));
    for (unsigned rest = world_semaphore_of(command->queue); rest; rest &= rest - 1)
        if (world_slot(rl_first(rest)) <= command->slots &&
            !server_key(server, world_key(rl_first(rest))))
            return true;
    return false;
}

/* The waiter leaves the queue of a free key, after a notification that nobody acts on. */
static bool passes_on(const struct command *command, const struct key *before)
{
    struct rl_word own = {command->entry, strlen(command->entry)};
    size_t i = before ? zset_find(&before->zset, own) : 0;
    bool waits = before && i < before->zset.items && !is_called(&before->zset.item[i]);
    bool is_left = command->truth == TRUTH_GONE || command->truth == TRUTH_HELD;
    bool has_some = command->is_of_set && command->claim; /* of its keys, perhaps */
    return command->leaves && is_left && !command->is_not_queued && !waits && !has_some &&
           is_free(command);
}

void oracle_called(const struct command *command, const struct keyspace *before)
{
    const struct server *server = &world.server[command->server];
    const struct key *queue = queue_of(before, command->queue, server_ms(server));
    if (queue && command->joins && !command->passes)
        judge_others(command, queue);
    struct rl_word value = {command->value, strlen(command->value)};
    bool breaks =
        command->ask == ASK_BREAK && command->truth == TRUTH_HELD && claim_of(value);
    bool gives_up = command->truth == TRUTH_GRANTED || breaks;
    if (command->joins || may_fail(server) || !(gives_up || passes_on(command, queue)))
        return;
    unsigned queues = gives_up ? command->resources : 1U << command->queue;
    for (unsigned rest = queues; rest; rest &= rest - 1) {
        queue = queue_of(before, rl_first(rest), server_ms(server));
        bool is_free = !command->reads || !server_key(server, world_key(rl_first(rest)));
        if (queue && is_free) /* else other readers still hold it */
            note_calls(command, rl_first(rest), queue);
    }
}

/* --- how long an entry stays --- */

/* Waiters are ordered by the time since when they wait. */
static void judge_place(const struct command *command, const struct key *queue)
{
    const struct server *server = &world.server[command->server];
    struct rl_word own = {command->entry, strlen(command->entry)};
    size_t at = queue ? zset_find(&queue->zset, own) : 0;
    if (!queue || at == queue->zset.items)
        return;
    double since = (double)(node_now(&server->node) - command->waited_us);
    double off = queue->zset.item[at].score - since;
    if (off < -1 || off > 1)
        oracle_accuse(INVARIANT_LIVENESS,
                      "client %u waits on server %u since %.0f us later than it should",
                      command->client + 1, command->server + 1, off);
}

static bool is_in_queue(const struct command *command, unsigned resource)
{
    return is_queued(command, resource,
                     (struct rl_word){command->entry, strlen(command->entry)});
}

static bool is_unsure(const struct command *command)
{
    return command->truth == TRUTH_UNKNOWN || command->is_not_queued ||
           may_fail(&world.server[command->server]);
}

void oracle_judge_joining(const struct command *command)
{
    const struct server *server = &world.server[command->server];
    const struct key *queue =
        queue_of(&server->node.redis->keyspace, command->queue, server_ms(server));
    if (is_unsure(command)) {
        if (command->intent_ms > 0)
            oracle_turn_begins(command);
        oracle_turn_is_waived(command);
        return;
    }
    judge_place(command, queue);
    oracle_turn_begins(command);
    if (queue && queue->expires == KEY_FOREVER)
        oracle_accuse(INVARIANT_TTL, "the queue of client %u on server %u never expires",
                      command->client + 1, command->server + 1);
    if (command->passes && command->passed != command->queue &&
        is_in_queue(command, command->passed))
        oracle_accuse(INVARIANT_LEFT,
                      "client %u moves on, and stays in a queue on server %u",
                      command->client + 1, command->server + 1);
}

void oracle_judge_leaving(const struct command *command)
{
    oracle_turn_ends(command, !is_unsure(command));
    if (!is_unsure(command) && is_in_queue(command, command->queue))
        oracle_accuse(INVARIANT_LEFT, "an entry of client %u in a queue on server %u",
                      command->client + 1, command->server + 1);
}

/* An owner that downgrades has waited as a writer, and lets readers in. */
void oracle_judge_downgrade(const struct command *command)
{
    if (command->truth == TRUTH_GRANTED && world.plan.weight[FAULT_RIGHT] == 0)
        oracle_judge_leaving(command);
    else
        oracle_turn_is_waived(command);
}

/* An attempt without enough nodes that may vote ends before anything is sent. */
bool oracle_can_try(const struct client *client)
{
    redlock_node node[NODES_MAX];
    unsigned votes = 0;
    bool fenced = world.plan.fenced;
    size_t count = fenced ? redlock_client_members(client->handle, node, NODES_MAX)
                          : redlock_client_explain(client->handle, node, NODES_MAX);
    for (size_t i = 0; i < count; i++)
        votes +=
            node[i].verdict == (fenced ? REDLOCK_VERDICT_ACTIVE : REDLOCK_VERDICT_READY);
    return votes >= world.plan.q;
}

/* A waiter tries again, also if nobody notifies it: judged when the attempt begins, for
   nothing else may have woken the client before. */
void oracle_judge_recheck(struct user *user)
{
    const redlock_lease_options *options = &user->options;
    int64_t gap = options->retry_cap_ms > options->retry_base_ms ? options->retry_cap_ms
                                                                 : options->retry_base_ms;
    gap *= VIRTUAL_MS;
    bool waits_for_messages =
        is_notifiable(user) || !user->entry[0] || options->retry == REDLOCK_RETRY_NONE;
    gap = gap < RECHECK && waits_for_messages ? RECHECK : gap;
    int64_t due = user->tried_at;
    due = due < user->notifiable_until ? user->notifiable_until : due;
    due = due < user->trying_until ? user->trying_until : due;
    due = due < user->client->process.resumed ? user->client->process.resumed : due;
    due += gap + gap / SLOW_CLOCK + 2 * world.plan.far + SLACK;
    bool by_policy = options->retry == REDLOCK_RETRY_CUSTOM;
    /* Since its last iteration nothing has changed for the client. */
    bool could = !user->client->cannot_begin;
    /* A lack may have ended an attempt before anything was sent, or its name. */
    bool lacked = user->failures != process_failures(&user->client->process);
    if (could && !lacked && user->tried_at > 0 && events_now() > due && !by_policy &&
        !world.is_hindered)
        oracle_accuse(INVARIANT_LIVENESS, "client %u, user %u tries again after %lld ms",
                      user->client->index + 1, user->index + 1,
                      (long long)((events_now() - user->tried_at) / VIRTUAL_MS));
}

/* In runs with a small window an attempt begins only when at q ready nodes fewer commands
   are pending. Those that a socket did not take are pending, too, but not to be counted. */
static bool has_room(const struct client *client)
{
    if (world.plan.window == 0)
        return true;
    rl_node_set room = world.plan.weight[FAULT_ROOM] > 0 ? 0 : oracle_ready_nodes(client);
    for (const struct connection *connection = network.connection; connection;
         connection = connection->next) {
        unsigned node = client_node_at(client, connection->host);
        bool is_ours = connection->stream && connection->process == &client->process;
        if (is_ours && node < world.plan.n && client_is_link(client, connection->owner) &&
            command_pending(connection) >= world.plan.window)
            room &= ~rl_bit(node);
    }
    return rl_count(room) >= world.plan.q;
}

static bool may_begin(const struct client *client)
{
    return oracle_can_try(client) && has_room(client);
}

/* A delay without a chance to try is not the waiter's: also where nobody replied to it. */
static void note_chances(struct client *client)
{
    bool waits = false;
    for (unsigned i = 0; i < client->users; i++)
        waits |= client->user[i].is_acquiring;
    bool can = !world.is_hindered && (!waits || may_begin(client));
    client->cannot_begin = !can;
    for (unsigned i = 0; i < client->users; i++)
        if (!client->user[i].is_acquiring || !can)
            client->user[i].tried_at = events_now();
}

/* --- who waits no more --- */

/* The client believes so. */
static bool is_subscribed(const struct client *client, unsigned node)
{
    for (const struct connection *connection = network.connection; connection;
         connection = connection->next)
        if (connection->stream && connection->process == &client->process &&
            client_node_at(client, connection->host) == node &&
            command_was_subscribed(connection))
            return true;
    return false;
}

/* Whose attempt it is, or was: it may be over. */
static struct user *waiter_with(struct client *client, const struct claim *claim)
{
    for (unsigned i = 0; claim && i < client->users; i++)
        if (client->user[i].claim == claim && client->user[i].is_acquiring)
            return &client->user[i];
    return NULL;
}

/* A user joins a queue, or leaves it: that also with a token that was never stored. */
void oracle_note_entry(const struct command *command)
{
    struct client *client = &world.client[command->client];
    struct user *user = waiter_with(client, command->claim);
    rl_node_set bit = rl_bit(command->node);
    if (command->joins && user) {
        bool same = strcmp(user->queued_as, command->entry) == 0;
        snprintf(user->queued_as, sizeof(user->queued_as), "%s", command->entry);
        user->queued_at = same ? user->queued_at | bit : bit;
        user->notifiable |= is_subscribed(client, command->node) ? bit : 0;
    }
    if (!command->leaves)
        return;
    char entry[sizeof(command->entry)];
    snprintf(entry, sizeof(entry), "%s", command->entry);
    char *mark = strstr(entry, " r");
    for (unsigned i = 0; i < client->users; i++)
        if (strcmp(client->user[i].queued_as, entry) == 0)
            client->user[i].queued_at &= ~bit;
    if (mark) /* perhaps it waited as a writer, and has downgraded */
        *mark = '\0';
    for (unsigned i = 0; i < client->users; i++)
        if (strcmp(client->user[i].queued_as, entry) == 0)
            client->user[i].queued_at &= ~bit;
    oracle_drop_passes(client, bit, entry);
}

/* Entries from before this connection cannot be removed at once. */
void oracle_note_greeting(const struct command *command)
{
    struct client *client = &world.client[command->client];
    for (unsigned i = 0; command->node < world.plan.n && i < client->users; i++)
        client->user[i].queued_at &= ~rl_bit(command->node);
    if (command->node < world.plan.n)
        oracle_drop_passes(client, rl_bit(command->node), NULL);
}

/* A user that waits no more and has no lock, whatever has become of that, has left the
 * queues of all ready nodes. */
void oracle_judge_leavers(struct client *client)
{
    bool excused = client->process.failed_allocations != client->failures ||
                   world.plan.weight[FAULT_ROOM] > 0;
    for (unsigned i = 0; i < client->users; i++) {
        struct user *user = &client->user[i];
        bool has_it = user->phase == USER_HOLDING || user->is_releasing;
        if (excused && user->is_releasing && user->left_in == client->process.iterations)
            user->queued_at = 0; /* it leaves as soon as the release begins */
        if (user->is_acquiring || has_it || user->queued_at == 0)
            continue;
        rl_node_set left_out = user->queued_at & oracle_ready_nodes(client);
        if (user->claim) /* its token is released there as soon as that is possible */
            left_out &= ~(user->claim->asked & ~user->claim->told);
        if (!excused && left_out)
            oracle_accuse(INVARIANT_LEFT, "client %u, user %u stays queued at nodes %s",
                          client->index + 1, i + 1, trace_set(left_out));
        user->queued_at = 0;
    }
}

/* The client checks an idle connection after 12 s, and pauses for 5 s at most to reconnect.
 */
#define SUBSCRIBED_WITHIN (22 * VIRTUAL_S)

/* The nodes in whose queues a user of the client waits. */
static rl_node_set waits_at(const struct client *client)
{
    rl_node_set nodes = 0;
    for (unsigned i = 0; i < client->users; i++)
        nodes |= client->user[i].is_acquiring ? client->user[i].queued_at : 0;
    return nodes;
}

/* If a client's users wait, and the node is ready and well, the client is subscribed. */
void oracle_judge_subscriptions(struct client *client)
{
    rl_node_set waits = world.is_hindered ? 0 : waits_at(client), subscribed;
    if (waits && world.phase == PHASE_CALM && world.plan.weight[FAULT_RIGHT] == 0)
        waits &= oracle_ready_nodes(client);
    else
        waits = 0;
    for (unsigned i = 0; i < world.plan.n; i++) {
        struct acquainted *node = &client->node[i];
        int64_t since = node->unsubscribed_since;
        since = since < client->process.resumed ? client->process.resumed : since;
        bool must = waits & rl_bit(i) && world.healed >> node->server & 1;
        if (!must || oracle_arrival(client, node->server, &subscribed) != CLOCK_NEVER)
            node->unsubscribed_since = 0;
        else if (node->unsubscribed_since == 0)
            node->unsubscribed_since = events_now();
        else if (events_now() > since + SUBSCRIBED_WITHIN)
            oracle_accuse(INVARIANT_LIVENESS, "client %u is not subscribed at node %u",
                          client->index + 1, i + 1);
    }
}

/* Without a message for 10 s it asks, and it waits for 2 s for the reply. */
#define NOTICED_WITHIN (12 * VIRTUAL_S / SLOW_CLOCK * (SLOW_CLOCK + 1) + SLACK)

void oracle_judge_lost_subscriptions(const struct client *client)
{
    const struct process *process = &client->process;
    for (const struct connection *connection = network.connection;
         connection && world.plan.weight[FAULT_VANISH] > 0; connection = connection->next) {
        int64_t since = connection->lost_at;
        since = since < process->resumed ? process->resumed : since;
        if (connection->process == process && connection->stream &&
            connection->lost_at > 0 && events_now() > since + NOTICED_WITHIN)
            oracle_accuse(INVARIANT_LIVENESS,
                          "client %u takes a lost subscription at node %u for one",
                          client->index + 1, client_node_at(client, connection->host) + 1);
    }
}

void oracle_judge_queue(const struct client *client)
{
    if (!client->handle)
        return;
    note_chances((struct client *)client);
    oracle_judge_passes(client);
    if (world.is_hindered)
        return;
    for (unsigned i = 0; i < client->users; i++) {
        struct user *user = (struct user *)&client->user[i];
        int64_t awake = client->process.resumed;
        int64_t ready = awake < user->trying_until ? user->trying_until : awake;
        int64_t due = ready + 2 * world.plan.far + SLACK;
        due = due < user->called_due ? user->called_due : due;
        if (user->called_by == 0 || user->is_trying || !user->is_acquiring)
            continue;
        if (!may_begin(client)) /* so it may have tried, and sent nothing */
            oracle_forget_calls(user);
        else if (events_now() > due)
            oracle_accuse(INVARIANT_LIVENESS,
                          "client %u, user %u was notified by nodes %s and does not try",
                          client->index + 1, i + 1, trace_set(user->called_by));
    }
}
