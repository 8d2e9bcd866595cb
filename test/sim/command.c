#include "command.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/kind.h"
#include "core/marker.h"
#include "faults.h"
#include "oracle.h"
#include "world.h"

static const char *const ask_names[] = {
    "other",   "greeting", "acquire", "raise",  "extend",    "release",
    "inspect", "break",    "observe", "marker", "subscribe",
};
static const char *const truths[] = {"nonsense", "granted",   "held",
                                     "gone",     "recreated", "error"};

/* The state of a connection: what was written and not executed, and the greeting. */
struct account {
    struct request request;
    struct bytes unparsed; /* the begin of a command whose rest is not written yet */
    struct command *first, **last;
    bool is_subscribed; /* the process knows that it gets notifications */
    bool is_garbled;    /* it has read nonsense */
    /* of the greeting, so far: */
    bool is_master, is_cluster, is_loading, is_known, runs_scripts;
    uint32_t process;
    int64_t time_us;
};

#define READER_MARK " r" /* of a queue entry */

static uint32_t executions;
static struct keyspace before; /* of a server whose release is judged */

void command_begin(void)
{
    executions = 0;
}

static bool is(struct rl_word word, const char *text)
{
    return word.len == strlen(text) && strncasecmp(word.text, text, word.len) == 0;
}

static void copy_text(char *to, size_t room, struct rl_word text)
{
    size_t len = text.len < room ? text.len : room - 1;
    memcpy(to, text.text, len);
    to[len] = '\0';
}

static int64_t number_of(struct rl_word word)
{
    int64_t number = 0;
    for (size_t i = 0; i < word.len && word.text[i] >= '0' && word.text[i] <= '9'; i++)
        number = 10 * number + (word.text[i] - '0');
    return number;
}

/* 0: the text of a node that may not vote. */
static uint64_t nonce_of(struct rl_word word)
{
    char text[RL_NONCE + 1];
    copy_text(text, sizeof(text), word);
    return strtoull(text, NULL, 16);
}

/* --- what a process writes --- */

static const enum ask asks[RL_COMMANDS] = {
    [RL_CMD_ACQUIRE] = ASK_ACQUIRE, [RL_CMD_RAISE_FENCE] = ASK_RAISE,
    [RL_CMD_EXTEND] = ASK_EXTEND,   [RL_CMD_RELEASE] = ASK_RELEASE,
    [RL_CMD_INSPECT] = ASK_INSPECT, [RL_CMD_BREAK] = ASK_BREAK,
    [RL_CMD_OBSERVE] = ASK_OBSERVE, [RL_CMD_MARKER] = ASK_MARKER,
};

/* Finds it by the script's SHA-1 or its text. */
static enum ask ask_of_script(struct rl_word script, bool whole,
                              const struct rl_kind **ret_kind)
{
    size_t count;
    const struct rl_kind *kinds = rl_kinds(&count);
    for (size_t k = 0; k < count; k++)
        for (unsigned c = 0; c < RL_COMMANDS; c++) {
            const struct rl_script *known = kinds[k].script[c];
            if (!known)
                continue;
            const char *text = whole ? known->body : known->sha1;
            if (script.len == strlen(text) && memcmp(script.text, text, script.len) == 0) {
                *ret_kind = &kinds[k];
                return asks[c];
            }
        }
    return ASK_OTHER;
}

static bool is_of_waiter(const struct command *command, const struct rl_kind *kind,
                         size_t args, size_t *ret_at)
{
    bool is_slot = kind && kind->type == REDLOCK_KIND_SLOT,
         fenced = kind && kind->is_fenced;
    *ret_at = (fenced ? 3U : 1U) + is_slot;
    return command->ask == ASK_RELEASE && args >= *ret_at + 2 + fenced;
}

/* The resource of the n-th key; 0: of none. */
static unsigned nth_resource(const struct rl_word *key, struct rl_word n)
{
    return n.len > 0 ? world_resource(key[number_of(n) - 1]) : 0;
}

/* The oracle does not judge other keys: markers, and those of another program. */
static bool is_of_world(struct rl_word key)
{
    return key.len > 0 && key.text[0] != '!';
}

/* Words of a script: its hash, the number of keys, keys, arguments. */
static void parse_script(struct command *command, const struct request *request, bool whole)
{
    const struct rl_kind *kind = NULL;
    const struct rl_word *word = request->word;
    if (request->words < 4)
        return;
    command->ask = ask_of_script(word[1], whole, &kind);
    bool fenced = kind && kind->is_fenced;
    size_t keys = (size_t)number_of(word[2]), args = request->words - 3 - keys, at;
    const struct rl_word *arg = word + 3 + keys;
    if (command->ask != ASK_MARKER && !is_of_world(word[3]))
        command->ask = ASK_OTHER;
    if (command->ask == ASK_MARKER && args == 2) {
        command->expected = arg[0];
        command->wanted = arg[1];
    }
    if (command->ask == ASK_OTHER || command->ask == ASK_MARKER)
        return;
    command->is_of_set = rl_kind_is_of_sets(kind);
    command->taken = command->queue = world_resource(word[3]);
    command->resources = 1U << command->taken;
    for (size_t i = 1; rl_kind_is_of_sets(kind) && i < (fenced ? keys / 2 : keys); i++)
        command->resources |= 1U << world_resource(word[3 + i]);
    if (args == 0)
        return;
    command->claim = claim_of(arg[0]);
    command->is_locking = command->ask == ASK_ACQUIRE || command->ask == ASK_EXTEND;
    if (command->is_locking)
        command->ttl_ms = number_of(arg[fenced ? 3 : 1]);
    if (fenced)
        command->said_nonce = nonce_of(arg[args - 1]);
    if (command->ask == ASK_EXTEND)
        command->recreates = is(arg[fenced ? 5 : 2], "1");
    command->is_bare = command->ask == ASK_EXTEND && fenced && is(arg[1], "0");
    command->reads = kind->type == REDLOCK_KIND_SHARED;
    if (command->reads && command->ask == ASK_ACQUIRE)
        command->waited_us = number_of(arg[fenced ? 6 : 2]);
    if (command->reads && command->ask == ASK_EXTEND && args > (fenced ? 7U : 3U))
        copy_text(command->entry, sizeof(command->entry), arg[fenced ? 6 : 3]);
    command->is_fenced = fenced;
    command->is_of_slot = kind && kind->type == REDLOCK_KIND_SLOT;
    if (command->is_of_slot && command->ask == ASK_RELEASE)
        command->slots = (unsigned)number_of(arg[fenced ? 3 : 1]);
    if (is_of_waiter(command, kind, args, &at)) {
        copy_text(command->entry, sizeof(command->entry) - 2, arg[at]);
        if (kind->type == REDLOCK_KIND_SHARED)
            strcat(command->entry, READER_MARK);
        else if (!rl_kind_is_of_sets(kind) && !command->is_of_slot)
            command->intent_ms = number_of(arg[at + 2]);
        command->joins = arg[at + 1].len > 0;
        command->leaves = !command->joins;
        command->waited_us = number_of(arg[at + 1]);
        if (rl_kind_is_of_sets(kind)) {
            command->queue = nth_resource(word + 3, arg[at + 2]);
            command->passes = arg[at + 3].len > 0;
            command->passed = nth_resource(word + 3, arg[at + 3]);
        }
    }
    bool begins = command->ask == ASK_ACQUIRE || command->joins;
    if (begins && !command->claim)
        command->claim = claim_new(command, arg[0]);
}

static void parse(struct command *command, const struct request *request)
{
    const struct rl_word *word = request->word;
    if (is(word[0], "SET") && request->words > 1 && is_of_world(word[1])) {
        command->ask = ASK_ACQUIRE;
        command->is_locking = true;
        command->taken = world_resource(word[1]);
        command->resources = 1U << command->taken;
        command->ttl_ms = number_of(word[request->words - 1]);
        command->claim = claim_of(word[2]);
        if (!command->claim)
            command->claim = claim_new(command, word[2]);
    } else if (is(word[0], "EVALSHA") || is(word[0], "EVAL")) {
        parse_script(command, request, is(word[0], "EVAL"));
    } else if (is(word[0], "GETRANGE") && is(word[1], WORLD_MARKER)) {
        command->ask = ASK_GREETING;
    } else if (is(word[0], "SUBSCRIBE")) {
        command->ask = ASK_SUBSCRIBE;
    }
}

static void on_opened(struct connection *connection)
{
    struct account *account = bytes_realloc(NULL, sizeof(*account));
    *account = (struct account){0};
    account->last = &account->first;
    connection->account = account;
}

static void say(struct connection *connection, struct account *account)
{
    struct client *client = &world.client[connection->process_index];
    struct command *command = bytes_realloc(NULL, sizeof(*command));
    *command = (struct command){
        .client = client->index,
        .client_number = client->number,
        .node = client_node_at(client, connection->host),
        .server = connection->server - 1,
        .said = events_now(),
        .iteration = client->process.iterations,
        .said_raw = virtual_clock_read(&client->process.raw, client->process.entered) +
                    client->process.suspended,
    };
    parse(command, &account->request);
    *account->last = command;
    account->last = &command->next;
    if (command->ask >= ASK_ACQUIRE)
        TRACE("client %u: %s of %.8s to node %u", client->index + 1,
              ask_names[command->ask], command->claim ? command->claim->token : "",
              command->node + 1);
    oracle_said(command);
    command->expected = command->wanted = (struct rl_word){0};
}

static void on_written(struct connection *connection, const char *bytes, size_t len)
{
    struct account *account = connection->account;
    struct bytes *unparsed = &account->unparsed;
    size_t done = 0, used;
    bytes_add(unparsed, bytes, len);
    while (done < unparsed->len) {
        struct rl_word rest = {unparsed->data + done, unparsed->len - done};
        enum request_state state = request_read(&account->request, rest, &used);
        if (state == REQUEST_BROKEN)
            oracle_accuse(INVARIANT_WHOLE, "client %u writes what is no request: %s",
                          connection->process_index + 1, account->request.error);
        if (state != REQUEST_WHOLE)
            break;
        say(connection, account);
        done += used;
    }
    bytes_drop(unparsed, done);
}

static void on_gone(struct connection *connection)
{
    struct account *account = connection->account;
    while (account->first) {
        struct command *command = account->first;
        account->first = command->next;
        free(command);
    }
    request_free(&account->request);
    bytes_free(&account->unparsed);
    free(account);
}

/* --- what a server makes of it --- */

static bool is_greeting_script(const struct node_command *command)
{
    return is(command->word[0], "EVAL") && is(command->word[1], "return 1");
}

bool command_is_greeting(const struct node_command *command)
{
    struct rl_word name = command->word[0];
    return is(name, "INFO") || is(name, "GETRANGE") || is(name, "PING") ||
           is(name, "SUBSCRIBE") || is(name, "AUTH") || is(name, "SELECT") ||
           is(name, "CLIENT") || is_greeting_script(command);
}

/* The oracle needs the keys as they were before it. */
static bool is_compared(const struct command *command)
{
    bool may_overwrite = command && command->ask == ASK_ACQUIRE && command->claim &&
                         world.plan.weight[FAULT_FOREIGN] > 0;
    return command &&
           (command->ask == ASK_BREAK || may_overwrite || oracle_judges_queue(command));
}

const struct command *command_next(const struct node_command *command)
{
    const struct account *account = command->link->connection->account;
    return account->first;
}

void command_begins(const struct node_command *command)
{
    struct server *server = (struct server *)command->node;
    struct command *next = ((struct account *)command->link->connection->account)->first;
    struct bytes *published = &command->node->redis->published;
    bytes_drop(published, published->len);
    if (is_compared(next))
        keyspace_copy(&before, &command->node->redis->keyspace);
    if (next && next->ask == ASK_EXTEND && next->claim)
        next->expired = server_expires(server, next->resources, claim_word(next->claim));
    if (next && next->is_fenced && next->claim)
        oracle_note_fences(next);
}

static enum truth truth_of_code(const struct command *command, int64_t code)
{
    if (command->ask == ASK_RELEASE && code == 2) /* and another client waits */
        return TRUTH_GRANTED;
    return code == 1 ? TRUTH_GRANTED : code == 2 ? TRUTH_RECREATED : TRUTH_GONE;
}

/* "1 S US FENCE" */
static int64_t time_in(const char *text)
{
    char *end;
    (void)strtoll(text, &end, 10);
    int64_t seconds = strtoll(end, &end, 10);
    return seconds * 1000000 + strtoll(end, NULL, 10);
}

/* The n-th resource of a set, by their names. */
static unsigned nth_in(unsigned resources, unsigned long n)
{
    unsigned found = 0;
    for (unsigned r = 0; r < RESOURCES_MAX; r++) {
        unsigned long before = 0;
        for (unsigned other = 0; other < RESOURCES_MAX; other++)
            before += resources >> other & 1 && strcmp(world_key(other), world_key(r)) < 0;
        if (resources >> r & 1 && before == n - 1)
            found = r;
    }
    return found;
}

/* {value, pttl, ...}; a script that is broken on purpose may return less. */
static void read_array(struct command *command, const char *text)
{
    if (strtol(text + 1, NULL, 10) < 2)
        return;
    const char *at = strchr(text, '\n') + 1;
    size_t len = strtoul(at + 1, NULL, 10);
    const char *value = strchr(at, '\n') + 1;
    copy_text(command->value, sizeof(command->value), (struct rl_word){value, len});
    const char *number = value + len + 2;
    command->pttl = strtoll(number + 1, NULL, 10);
    long items = strtol(text + 1, NULL, 10), usual = 2 + command->is_fenced;
    command->is_not_queued = items == usual + command->is_of_set + 1;
    for (long i = 1; command->is_of_set && i < usual; i++)
        number = strchr(number, '\n') + 1;
    if (command->is_of_set)
        command->taken = nth_in(command->resources, strtoul(number + 1, NULL, 10));
    number = value + len + 2;
    if (items >= 3 && command->is_fenced)
        command->told_us = strtoll(strchr(number, '\n') + 2, NULL, 10);
}

/* {code, value, pttl, free, queued, ...}: the release of a slot. */
static enum truth read_slot_release(struct command *command, const char *text)
{
    static const enum truth truths_of[] = {TRUTH_GONE, TRUTH_GRANTED, TRUTH_GRANTED,
                                           TRUTH_HELD};
    const char *code = strchr(text, '\n') + 1;
    const char *length = strchr(code, '\n') + 1;
    size_t len = strtoul(length + 1, NULL, 10);
    const char *value = strchr(length, '\n') + 1, *pttl = value + len + 2;
    const char *free = strchr(strchr(pttl, '\n') + 1, '\n') + 1;
    const char *queued = strchr(free, '\n') + 1;
    enum truth truth = truths_of[strtol(code + 1, NULL, 10)];
    if (truth == TRUTH_HELD) {
        copy_text(command->value, sizeof(command->value), (struct rl_word){value, len});
        command->pttl = strtoll(pttl + 1, NULL, 10);
    }
    command->is_not_queued = queued[1] == '0';
    if (command->is_fenced)
        command->told_us = strtoll(strchr(queued, '\n') + 2, NULL, 10);
    return truth;
}

/* The server is a replica, loads, is in a cluster, or does not know the user any more. */
static bool is_of_node(const char *error)
{
    static const char *const words[] = {"-LOADING ",     "-READONLY ", "-MASTERDOWN ",
                                        "-CLUSTERDOWN ", "-MOVED ",    "-CROSSSLOT ",
                                        "-NOAUTH "};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strncmp(error, words[i], strlen(words[i])) == 0)
            return true;
    return false;
}

/* An inspection of one key: "- ", or seven numbers, of which the first is the length of the
   value behind them, and the third its remaining time. */
static enum truth read_entry(struct command *command, const char *entry)
{
    if (*entry == '-')
        return TRUTH_GONE;
    size_t len = strtoul(entry, NULL, 10);
    for (unsigned i = 0; i < 7; i++, entry = strchr(entry, ' ') + 1)
        if (i == 2)
            command->pttl = strtoll(entry, NULL, 10);
    copy_text(command->value, sizeof(command->value), (struct rl_word){entry, len});
    return TRUTH_HELD;
}

/* The truth of a reply, without asking the code that is tested. */
static enum truth read_reply(struct command *command, struct rl_word reply)
{
    char text[512];
    copy_text(text, sizeof(text), reply);
    command->pttl = -1;
    switch (text[0]) {
    case '+': return TRUTH_GRANTED;
    case ':': return truth_of_code(command, strtoll(text + 1, NULL, 10));
    case '*':
        if (command->is_of_slot && command->ask == ASK_RELEASE)
            return read_slot_release(command, text);
        read_array(command, text);
        return TRUTH_HELD;
    case '$':
        if (text[1] == '-')
            return TRUTH_HELD;
        if (command->ask == ASK_INSPECT)
            return read_entry(command, strchr(text, '\n') + 1);
        command->told_us = time_in(strchr(text, '\n') + 1);
        return truth_of_code(command, strtoll(strchr(text, '\n') + 1, NULL, 10));
    default: break;
    }
    command->is_no_script = strncmp(text, "-NOSCRIPT", 9) == 0;
    command->is_refusal = is_of_node(text);
    command->is_mismatch = strncmp(text, "-MARKER ", 8) == 0;
    command->is_not_queued = true;
    if (strncmp(text, "-WRONGTYPE", 10) == 0) /* something else is there */
        return TRUTH_HELD;
    return strstr(text, " script: ") ? TRUTH_UNKNOWN : TRUTH_ERROR;
}

/* INFO server, INFO replication ...; each tells a part. */
static void note_greeting(struct account *account, struct command *ours,
                          const struct node_command *command, const struct server *server,
                          bool is_fine)
{
    const struct redis_config *config = &command->node->redis->config;
    if (is_greeting_script(command))
        account->runs_scripts = is_fine;
    if (!is(command->word[0], "INFO"))
        return;
    struct rl_word section = command->words > 1 ? command->word[1] : command->word[0];
    if (is(section, "server")) {
        account->process = server->process;
        account->time_us = node_now(command->node);
        account->is_known = ours->tells_process = is_fine;
    }
    if (is(section, "replication"))
        account->is_master = is_fine && !config->is_replica;
    if (is(section, "cluster"))
        account->is_cluster = !is_fine || config->is_cluster;
    if (is(section, "persistence"))
        account->is_loading = !is_fine || config->is_loading;
}

static void note_generations(struct command *command, const struct server *server)
{
    const struct rl_marker *marker = server_marker(server);
    for (unsigned i = 0; marker && i < world.plan.n; i++)
        command->generation[i] = marker->roster.member[i].generation;
}

static void note_state(struct command *command, const struct account *account,
                       struct server *server)
{
    command->ran = events_now();
    command->nth = ++executions;
    command->memory = server->memory;
    command->process = server->process;
    command->history = server->history;
    command->clock_changes = server->node.clock.changes;
    command->seal = oracle_seal(server);
    command->nonce = server_nonce(server);
    command->is_master = account->is_master;
    command->is_cluster = account->is_cluster;
    command->is_loading = account->is_loading;
    command->runs_scripts = account->runs_scripts;
    command->is_known = account->is_known && account->process == server->process;
    if (command->ask == ASK_GREETING || command->ask == ASK_MARKER)
        note_generations(command, server);
    if (command->ask == ASK_GREETING)
        command->told_us = account->time_us;
    else if (command->ask != ASK_OTHER && command->ask != ASK_MARKER) {
        command->fence = server_least_fence(server, command->resources);
        command->expires = command->claim ? server_expires(server, command->resources,
                                                           claim_word(command->claim))
                                          : 0;
    }
}

void *command_ran(const struct node_command *command, struct rl_word reply, bool garbled)
{
    struct account *account = command->link->connection->account;
    struct server *server = (struct server *)command->node;
    struct command *ours = account->first;
    bool is_fine = !garbled && reply.text[0] != '-';
    if (!ours) /* what was written before has been cut off; cannot be */
        abort();
    account->first = ours->next;
    if (!account->first)
        account->last = &account->first;
    ours->next = NULL;
    ours->is_straggler = command->is_straggler;
    ours->is_garbled = garbled;
    note_greeting(account, ours, command, server, is_fine);
    note_state(ours, account, server);
    if (ours->ask == ASK_MARKER && is_fine) {
        ours->truth = TRUTH_GRANTED;
        ours->told_us = node_now(command->node);
    } else if (garbled) {
        ours->truth = TRUTH_UNKNOWN;
    } else if (ours->ask == ASK_GREETING || ours->ask == ASK_SUBSCRIBE) {
        ours->truth = is_fine ? TRUTH_GRANTED : TRUTH_ERROR;
    } else if (ours->ask != ASK_OTHER) {
        ours->truth = read_reply(ours, reply);
    }
    if (ours->ask != ASK_OTHER)
        TRACE("server %u: %s of %.8s by client %u: %s%s", server->index + 1,
              ask_names[ours->ask], ours->claim ? ours->claim->token : "", ours->client + 1,
              truths[ours->truth], ours->is_straggler ? ", too late" : "");
    if (ours->ask == ASK_ACQUIRE && ours->is_fenced)
        TRACE("server %u votes with nonce %016llx, asked for %016llx", server->index + 1,
              (unsigned long long)ours->nonce, (unsigned long long)ours->said_nonce);
    if (ours->ask == ASK_MARKER)
        server_trace_marker(server);
    oracle_ran(ours);
    fault_delay_first_time(ours);
    if (ours->ask == ASK_BREAK)
        oracle_compare(server, &before, LOSS_BREAK);
    if (ours->ask == ASK_ACQUIRE && ours->claim && world.plan.weight[FAULT_FOREIGN] > 0)
        oracle_judge_taken(ours, &before);
    if (oracle_judges_queue(ours))
        oracle_called(ours, &before);
    return ours;
}

/* --- what the process reads --- */

static void on_read(struct connection *connection, void *note)
{
    struct command *command = note;
    struct account *account = connection->account;
    const struct client *client = &world.client[command->client];
    bool is_link = client->number == command->client_number &&
                   client_is_link(client, connection->owner);
    if (command->claim || (command->ask == ASK_GREETING && is_link))
        TRACE("client %u reads: %s of %.8s by node %u: %s, of server %u",
              command->client + 1, ask_names[command->ask],
              command->claim ? command->claim->token : "", command->node + 1,
              truths[command->truth], command->server + 1);
    if (command->ask == ASK_SUBSCRIBE)
        account->is_subscribed = command->truth == TRUTH_GRANTED;
    account->is_garbled |= command->is_garbled;
    command->is_unsure = account->is_garbled;
    if (client->number == command->client_number)
        oracle_heard(command, !is_link);
    fault_meet_late_time(command);
    free(command);
}

static void on_left(struct connection *connection)
{
    struct account *account = connection->account;
    struct client *client = &world.client[connection->process_index];
    unsigned node = client_node_at(client, connection->host);
    oracle_left(client, node);
    if (node < world.plan.n && client->handle &&
        client_is_link(client, connection->owner)) {
        TRACE("client %u ends its connection to node %u", client->index + 1, node + 1);
        oracle_members_left(client, node);
    }
    if (!connection->is_aborted)
        oracle_closed(client);
    if (connection->inbox && !connection->error)
        oracle_unread(client);
    if (account->is_subscribed)
        oracle_unsubscribed(client, node);
    account->is_subscribed = false;
}

bool command_is_idle(const struct connection *connection)
{
    const struct account *account = connection->account;
    return account && !account->first && account->unparsed.len == 0;
}

static bool is_awaited(const struct segment *segment)
{
    for (; segment; segment = segment->next) {
        const struct command *command = segment->note;
        if (command && command->claim)
            return true;
    }
    return false;
}

bool command_is_awaited(const struct connection *connection)
{
    const struct account *account = connection->account;
    for (const struct command *command = account ? account->first : NULL; command;
         command = command->next)
        if (command->claim)
            return true;
    return is_awaited(connection->down.first) || is_awaited(connection->inbox);
}

static size_t count_unread(const struct segment *segment)
{
    size_t count = 0;
    for (; segment; segment = segment->next)
        count += segment->note != NULL;
    return count;
}

size_t command_pending(const struct connection *connection)
{
    const struct account *account = connection->account;
    size_t count = 0;
    for (const struct command *command = account ? account->first : NULL; command;
         command = command->next)
        count++;
    return count + count_unread(connection->down.first) + count_unread(connection->inbox);
}

bool command_was_subscribed(const struct connection *connection)
{
    const struct account *account = connection->account;
    return account && account->is_subscribed;
}

bool command_is_subscribed(const struct connection *connection)
{
    return command_was_subscribed(connection) && !connection->error &&
           !connection->is_half_closed;
}

static void on_dropped(struct connection *connection, void *note)
{
    (void)connection;
    free(note);
}

const struct network_observer command_observer = {
    .opened = on_opened,
    .written = on_written,
    .read = on_read,
    .dropped = on_dropped,
    .left = on_left,
    .gone = on_gone,
};
