#include "server.h"

#include <assert.h>
#include <string.h>

#include "world.h"

void server_init(struct world *world, unsigned i)
{
    struct server *server = &world->server[i];
    server->index = (uint8_t)i;
    server->state = SERVER_RUNS;
    server->role = SERVER_MASTER;
    server->life = server->process = server->history = 1;
    server->memory = server->retuned = 0;
    server->lost_at = RL_NEVER;
    server->was_sound = false;
    server->ahead_at = 0;
    server->fast = false;
    server->stepped = server->role_until = 0;
    server->error_until = server->garbage_until = 0;
    server->backlog = 0;
    memset(&server->store, 0, sizeof(server->store));
    server->saved = server->store;
}

int64_t server_time(const struct world *world, const struct server *server)
{
    return skew_read(&server->clock, world->now) / RL_MS;
}

/* --- answering --- */

static void answer_error(struct order *order, const char *text)
{
    order->reply.reply =
        (struct rl_reply){.type = RL_REPLY_ERROR, .text = text, .len = strlen(text)};
    order->truth = RL_VOTE_ERROR;
}

static enum rl_vote truth_of_code(enum rl_command text, int64_t code)
{
    if (text == RL_CMD_RELEASE && code == 2) /* and somebody was called */
        return RL_VOTE_GRANTED;
    return code == 1 ? RL_VOTE_GRANTED : code == 2 ? RL_VOTE_RECREATED : RL_VOTE_GONE;
}

/* What a reply says in truth, without asking the code that is tested. */
static enum rl_vote truth_of(const struct order *order)
{
    const struct rl_reply *reply = &order->reply.reply;
    switch (reply->type) {
    case RL_REPLY_STATUS: return RL_VOTE_GRANTED;
    case RL_REPLY_NIL: return RL_VOTE_HELD;
    case RL_REPLY_ARRAY: return RL_VOTE_HELD;
    case RL_REPLY_STRING: return truth_of_code(order->text, reply->text[0] - '0');
    case RL_REPLY_INTEGER: return truth_of_code(order->text, reply->integer);
    default: break;
    }
    /* What is no lock is there in its stead. */
    bool taken = reply->len > 9 && memcmp(reply->text, "WRONGTYPE", 9) == 0;
    return taken ? RL_VOTE_HELD : RL_VOTE_ERROR;
}

static void answer_garbage(struct world *world, struct order *order)
{
    static const struct rl_reply items[2] = {
        {.type = RL_REPLY_STRING, .text = "p", .len = 1},
        {.type = RL_REPLY_NIL},
    };
    static const struct rl_reply numbers[] = {
        {.type = RL_REPLY_INTEGER, .integer = 1},
        {.type = RL_REPLY_INTEGER, .integer = 1},
        {.type = RL_REPLY_INTEGER, .integer = 1},
        {.type = RL_REPLY_NIL},
    };
    static const struct rl_reply odd[] = {
        {.type = RL_REPLY_STRING, .text = "p", .len = 1},
        {.type = RL_REPLY_INTEGER, .integer = 1},
        {.type = RL_REPLY_NIL},
    };
    static const struct rl_reply unplaced[] = {
        {.type = RL_REPLY_STRING, .text = "p", .len = 1},
        {.type = RL_REPLY_INTEGER, .integer = 1},
        {.type = RL_REPLY_INTEGER, .integer = 1},
    };
    static const struct rl_reply garbage[] = {
        {.type = RL_REPLY_ARRAY, .item = numbers, .items = 4},
        {.type = RL_REPLY_ARRAY, .item = unplaced, .items = 3}, /* of a plain lock */
        {.type = RL_REPLY_ARRAY, .item = numbers, .items = 3},
        {.type = RL_REPLY_STRING, .text = "1 1 -1 1", .len = 8}, /* a negative one */
        {.type = RL_REPLY_STRING, .text = "3 1 1 1", .len = 7},  /* no such code */
        {.type = RL_REPLY_STRING, .text = "1 1 1 ", .len = 6},   /* no fence */
        {.type = RL_REPLY_ARRAY, .item = odd, .items = 3},
        {.type = RL_REPLY_STATUS, .text = "PONG", .len = 4},
        {.type = RL_REPLY_STATUS, .text = "QK", .len = 2},
        {.type = RL_REPLY_INTEGER, .integer = -1},
        {.type = RL_REPLY_INTEGER, .integer = 3},
        {.type = RL_REPLY_STRING, .text = "OK", .len = 2},
        {.type = RL_REPLY_ARRAY, .item = items, .items = 2},
        {.type = RL_REPLY_ARRAY, .item = items + 1, .items = 1},
        {.type = RL_REPLY_ARRAY, .item = items + 1, .items = 2},
    };
    unsigned i = prng_below(&world->prng, sizeof(garbage) / sizeof(garbage[0]));
    order->reply.reply = garbage[i];
    if (order->text == RL_CMD_ACQUIRE && draw_once_in(&world->prng, 4)) /* it is gone? */
        order->reply.reply =
            (struct rl_reply){.type = RL_REPLY_STRING, .text = "0 1 1 1", .len = 7};
    order->truth = RL_VOTE_UNKNOWN;
}

static const char *refusal_of_role(enum server_role role)
{
    switch (role) {
    case SERVER_MASTER: break;
    case SERVER_REPLICA: return "READONLY You can't write against a read only replica.";
    case SERVER_CLUSTER: return "CLUSTERDOWN Hash slot not served";
    case SERVER_LOADING: return "LOADING Redis is loading the dataset in memory";
    }
    return NULL;
}

/* Hexadecimal digits, as those of Redis. */
static void write_id(char id[RL_RUN_ID + 1], char kind, unsigned index, uint32_t number)
{
    unsigned at = 1;
    memset(id, kind, RL_RUN_ID);
    id[0] = (char)('0' + index);
    for (; number > 0; number /= 10)
        id[at++] = (char)('0' + number % 10);
    id[RL_RUN_ID] = '\0';
}

void server_describe(const struct server *server, struct rl_process *ret_process)
{
    write_id(ret_process->run_id, 'a', server->index, server->process);
    write_id(ret_process->replid, 'b', server->index, server->history);
}

bool server_marker(const struct server *server, struct rl_marker *ret_marker)
{
    const struct store_entry *entry = store_find(&server->store, world_marker_key(), 0);
    return entry && rl_marker_read(entry->value, ret_marker);
}

void server_mark(struct world *world, struct server *server, struct rl_marker *marker)
{
    char text[RL_MARKER_MAX];
    server_describe(server, &marker->process);
    server->was_sound |= marker->active;
    store_put(&server->store, STORE_STRING, world_marker_key(),
              world_keep_text(world, text, rl_marker_write(marker, text)), STORE_NO_EXPIRY);
    server->saved = server->store;
}

static void greet(const struct world *world, const struct server *server,
                  struct order *order)
{
    order->life = server->process;
    order->time = skew_read(&server->clock, world->now);
    order->is_master = server->role != SERVER_REPLICA;
    order->is_cluster = server->role == SERVER_CLUSTER;
    order->is_loading = server->role == SERVER_LOADING;
    order->denied = RL_FAULT_NONE;
    server_describe(server, &order->process);
    const struct store_entry *marker =
        store_find(&server->store, world_marker_key(), server_time(world, server));
    order->marker = marker ? marker->value : (struct rl_word){"", 0};
}

static void settle_role(const struct world *world, struct server *server)
{
    if (world->now >= server->role_until)
        server->role = SERVER_MASTER;
}

static void note_marker(struct world *world, struct server *server)
{
    struct rl_marker marker;
    if (server_marker(server, &marker))
        server->was_sound |= marker.active;
    oracle_marked(world, server);
}

static int64_t fence_of(const struct world *world, const struct server *server,
                        const struct order *order)
{
    struct rl_word key = world_fence_key(world->token[order->token].resource);
    const struct store_entry *entry =
        store_find(&server->store, key, server_time(world, server));
    return entry && entry->type == STORE_FENCE ? entry->fence : 0;
}

/* An old state is from right before a word about the marker, once in so many of those. */
#define SAVES_MARKERS 4

static void execute(struct world *world, struct server *server, struct order *order)
{
    struct rl_argv command = world->wire.saying[order->saying].command;
    rl_time now = skew_read(&server->clock, world->now);
    if (order->has_nonce)
        command.word[command.words - 1] = (struct rl_word){order->nonce, RL_NONCE};
    struct ear_of ear_of = {world, server->index};
    const struct store_ears ears = {ear_hears, &ear_of};
    bool judged = world->phase == PHASE_CALM && !world->hindered &&
                  order->text == RL_CMD_RELEASE && world->swarm.turns && !order->of_ward;
    struct store before;
    if (judged)
        before = server->store;
    if (order->of_ward && draw_once_in(&world->prng, SAVES_MARKERS))
        server->saved = server->store; /* what comes back may know less than it does then */
    store_run(&server->store, &command, now, &ears, &order->reply);
    order->memory = server->memory;
    order->ran = world->now;
    order->nth = ++world->ran;
    if (!order->of_ward)
        order->fence = fence_of(world, server, order);
    const struct store_entry *marker =
        store_find(&server->store, world_marker_key(), server->store.now);
    order->marker = marker ? marker->value : (struct rl_word){"", 0};
    order->truth = order->of_ward ? RL_VOTE_GRANTED : truth_of(order);
    if (order->of_ward)
        note_marker(world, server);
    else
        oracle_ran(world, order);
    if (judged)
        oracle_calls(world, order, &before);
    if (order->leaves && order->reply.reply.type != RL_REPLY_ERROR)
        oracle_leaves(world, order);
    ears_call(world, server, &order->reply);
}

static void run(struct world *world, struct server *server, uint16_t i)
{
    struct order *order = &world->wire.order[i];
    world->wire.line[order->line].accepted = true;
    settle_role(world, server);
    bool erring = world->now < server->error_until;
    const char *refusal = refusal_of_role(server->role);
    if (order->greeting) {
        greet(world, server, order);
        if (erring && !server->greets) /* INFO is answered by an error, too */
            order->denied = rl_fault_of_error(server->error, strlen(server->error));
        if (order->denied || world->now < server->garbage_until)
            order->process.run_id[0] = '\0';
    } else if (order->of_history) {
        server_describe(server, &order->process);
        if (erring || world->now < server->garbage_until)
            order->process.replid[0] = '\0';
    } else if (refusal) {
        answer_error(order, refusal);
    } else if (erring && !server->inside) {
        answer_error(order, server->error);
    } else {
        execute(world, server, order);
        if (erring && order->text != RL_CMD_ACQUIRE) {
            answer_error(order, server->error);
            order->truth = RL_VOTE_UNKNOWN;
        } else if (world->now < server->garbage_until) {
            answer_garbage(world, order);
        }
    }
    trace_ran(world, order);
    if (!world->wire.line[order->line].closed)
        wire_answer(world, i);
}

/* --- hearing --- */

static bool reaches(const struct world *world, const struct order *order)
{
    const struct line *line = &world->wire.line[order->line];
    const struct server *server = &world->server[order->server];
    return server->state != SERVER_DOWN && line->life == server->life &&
           (!line->reset || order->launched);
}

void server_hear(struct world *world, uint16_t i)
{
    struct order *order = &world->wire.order[i];
    struct server *server = &world->server[order->server];
    if (reaches(world, order) && server->state == SERVER_HANGS) {
        assert(server->backlog < BACKLOG_MAX);
        server->order[server->backlog++] = i;
        return;
    }
    order->straggles = order->launched && world->wire.line[order->line].closed;
    if (reaches(world, order))
        run(world, server, i);
    wire_drop_order(world, i);
}

void server_accept(struct world *world, struct line *line)
{
    const struct server *server = &world->server[line->server];
    if (line->made)
        return;
    line->made = true;
    line->refused = server->state == SERVER_DOWN;
    line->accepted = server->state == SERVER_RUNS;
    line->life = server->life;
}

/* --- its process --- */

void server_hang(struct world *world, struct server *server, rl_time until)
{
    if (server->state != SERVER_RUNS)
        return;
    server->state = SERVER_HANGS;
    queue_plan(&world->queue, until, EVENT_RESUME, server->index, server->life);
}

void server_restart(struct world *world, struct server *server, rl_time until)
{
    if (server->state == SERVER_DOWN)
        return;
    server->state = SERVER_DOWN;
    for (unsigned i = 0; i < server->backlog; i++)
        wire_drop_order(world, server->order[i]);
    server->backlog = 0;
    server->process++;
    store_forget_scripts(&server->store);
    server_hang_up(world, server);
    queue_plan(&world->queue, until, EVENT_RESUME, server->index, server->life);
}

void server_hang_up(struct world *world, struct server *server)
{
    server->life++;
    for (unsigned c = 0; c < world->clients; c++)
        client_lose_server(world, &world->client[c], server->index);
}

void server_forgot(struct world *world, struct server *server, const struct store *before,
                   bool restart)
{
    server->memory++;
    if (server->was_sound)
        server->lost_at = world->now; /* else there was nothing to lose */
    oracle_compare(world, server, before, restart ? LOSS_RESTART : LOSS_FLUSH);
}

/*
 * What lies in the sockets is read: within a connection in order, among them in any; but
 * connections that it has yet to accept come last.
 */
static void read_backlog(struct world *world, struct server *server, bool accepted)
{
    uint16_t lines[BACKLOG_MAX];
    unsigned count = 0;
    for (unsigned i = 0; i < server->backlog; i++) {
        uint16_t line = world->wire.order[server->order[i]].line;
        if (world->wire.line[line].accepted == accepted)
            lines[count++] = line;
    }
    while (count > 0) {
        unsigned at = prng_below(&world->prng, count);
        uint16_t line = lines[at];
        lines[at] = lines[--count];
        for (unsigned i = 0; i < server->backlog; i++) {
            uint16_t order = server->order[i];
            if (order == UINT16_MAX || world->wire.order[order].line != line)
                continue;
            server->order[i] = UINT16_MAX;
            run(world, server, order);
            wire_drop_order(world, order);
            break;
        }
    }
}

/* What was read is marked; the rest keeps its order. */
static void forget_read(struct server *server)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < server->backlog; i++)
        if (server->order[i] != UINT16_MAX)
            server->order[kept++] = server->order[i];
    server->backlog = kept;
}

void server_resume(struct world *world, struct server *server, uint32_t life)
{
    if (server->life != life || server->state == SERVER_RUNS)
        return;
    trace_server(world, server,
                 server->state == SERVER_DOWN ? "is there again" : "goes on");
    server->state = SERVER_RUNS;
    read_backlog(world, server, true);
    forget_read(server);
    read_backlog(world, server, false);
    server->backlog = 0;
}

void server_heal(struct world *world, struct server *server)
{
    server->error_until = server->garbage_until = server->role_until = world->now;
    server->role = SERVER_MASTER;
    server_resume(world, server, server->life);
}
