#include "auditor.h"

#include <string.h>

#include "mistakes.h"
#include "operator.h"
#include "oracle.h"
#include "prng.h"
#include "world.h"

#define AUDITED  8 /* one run in so many */
#define GAPS     6 /* between two questions: at most so many of the longest TTL */
#define CROWDED  4 /* one of those in so many */
#define TEXT_MAX 4096

static struct prng prng;
static struct event due;
static struct ready ready, founds;

/* --- servers --- */

static const char *pick(const char *const *values, unsigned count)
{
    return values[prng_below(&prng, count)];
}

static void vary(struct redis_config *config)
{
    static const char *const policies[] = {"noeviction", "allkeys-lru", "volatile-ttl"};
    static const char *const fsyncs[] = {"always", "everysec", "no"};
    static const char *const answers[] = {"yes", "no", "local", "perhaps"};
    config->maxmemory = prng_below(&prng, 2) ? 0 : 1 << 20;
    config->maxmemory_policy = pick(policies, 3);
    config->fsync = pick(fsyncs, 3);
    config->no_fsync_on_rewrite = pick(answers, 4);
    config->debug_command = pick(answers, 4);
    config->has_aof |= prng_below(&prng, 2); /* durable nodes have one */
    config->replicas = prng_below(&prng, 3);
}

#define LONG_KEYS 8
#define LONG_KEY  500 /* bytes: a page of a list has no room for all of them */

/* Adds keys of another program. */
static void crowd(struct keyspace *keyspace)
{
    char name[LONG_KEY];
    memset(name, '!', sizeof(name));
    for (unsigned i = 0; i < LONG_KEYS; i++) {
        name[1] = (char)('0' + i);
        struct key *key =
            keyspace_add(keyspace, 0, (struct rl_word){name, sizeof(name)}, KEY_STRING);
        bytes_set(&key->string, (struct rl_word){"1", 1});
    }
}

bool auditor_denies(const struct server *server, const char *command)
{
    /* A check sends each of these outside scripts; a list sends SCAN in a script. */
    static const char *const commands[] = {"time", "pttl",       "publish",
                                           "zadd", "config|get", "scan"};
    unsigned which = (unsigned)((world.seed / AUDITED + server->index) % 16);
    return world.is_audited && world.phase == PHASE_STORM &&
           which < sizeof(commands) / sizeof(commands[0]) &&
           strcmp(commands[which], command) == 0;
}

/* --- what is asked --- */

static bool may_fail(const struct client *client, redlock_code code)
{
    return code == REDLOCK_NO_MEMORY && client->process.failed_allocations > 0;
}

static unsigned count_fit(const redlock_health_report *report)
{
    unsigned fit = 0;
    for (size_t i = 0; i < report->count; i++)
        fit += report->nodes[i]->fit;
    return fit;
}

static void on_checked(redlock_client *handle, const redlock_health_report *report,
                       void *arg)
{
    struct client *client = arg;
    bool right = handle != NULL && client->checks > 0;
    if (report->code == REDLOCK_OK)
        right = right && report->count == world.plan.n && report->quorum == world.plan.q &&
                report->fit == count_fit(report) &&
                (report->health == REDLOCK_UNFIT) == (report->fit < report->quorum);
    else
        right = right && report->code == REDLOCK_CANCELLED &&
                report->health == REDLOCK_NOT_CHECKED;
    if (!right)
        oracle_accuse(INVARIANT_TOLD, "client %u: a check: %s, %u nodes are fit",
                      client->index + 1, redlock_code_name(report->code), report->fit);
    client->checks--;
    TRACE("client %u has checked: %s, %u of %zu nodes are fit", client->index + 1,
          redlock_code_name(report->code), report->fit, report->count);
}

static void check(struct client *client)
{
    unsigned how = prng_below(&prng, 4); /* STRICT, FENCED */
    redlock_code code = redlock_check(client->handle, how, on_checked, client);
    client->checks += code == REDLOCK_OK;
    if (code != REDLOCK_OK && !may_fail(client, code))
        oracle_accuse(INVARIANT_TOLD, "client %u: a check: %s", client->index + 1,
                      redlock_code_name(code));
}

static void on_drained(redlock_client *handle, bool clean, void *arg)
{
    struct client *client = arg;
    (void)handle;
    if (client->drains == 0)
        oracle_accuse(INVARIANT_CALLBACK, "client %u: a drain", client->index + 1);
    client->drains = 0;
    if (clean)
        oracle_drained(client);
    TRACE("client %u is drained%s", client->index + 1, clean ? "" : ", as far as it goes");
}

static void drain(struct client *client)
{
    const int64_t timeouts[] = {REDLOCK_NODE_TIMEOUT, REDLOCK_FOREVER, 0, 50, -3};
    unsigned which = prng_below(&prng, 5);
    redlock_code code =
        redlock_client_drain(client->handle, timeouts[which], on_drained, client);
    redlock_code expected = client->drains > 0 ? REDLOCK_BUSY
                            : which == 4       ? REDLOCK_BAD_OPTION
                                               : REDLOCK_OK;
    if (code != expected && !may_fail(client, code))
        oracle_accuse(INVARIANT_TOLD, "client %u: a drain: %s", client->index + 1,
                      redlock_code_name(code));
    client->drains += code == REDLOCK_OK;
}

/* Strings end within their room, and their whole lengths are told. */
static void read_texts(struct client *client)
{
    static char text[TEXT_MAX];
    size_t room = prng_below(&prng, TEXT_MAX);
    size_t record = redlock_client_record(client->handle, text, room);
    bool right = room == 0 || (record < room ? strlen(text) == record
                                             : strlen(text) < room); /* whole lines */
    size_t rule = redlock_client_acl(client->handle, 0, text, room);
    right = right && (room == 0 || strlen(text) == (rule < room ? rule : room - 1));
    if (!right || rule == 0)
        oracle_accuse(INVARIANT_TOLD, "client %u: a text of %zu and one of %zu bytes",
                      client->index + 1, record, rule);
}

static void on_listed(redlock_client *handle, const redlock_listed *listed, void *arg)
{
    struct client *client = arg;
    (void)handle;
    if (client->lists == 0 || (listed->inspection != NULL) != (listed->key != NULL))
        oracle_accuse(INVARIANT_CALLBACK, "client %u: a list", client->index + 1);
    client->lists -= !listed->inspection;
}

static void list(struct client *client)
{
    unsigned how = prng_below(&prng, 2); /* FOREIGN */
    redlock_code code = redlock_list(client->handle, "", 0, how, on_listed, client);
    client->lists += code == REDLOCK_OK;
    if (code != REDLOCK_OK && !may_fail(client, code))
        oracle_accuse(INVARIANT_TOLD, "client %u: a list: %s", client->index + 1,
                      redlock_code_name(code));
}

static void on_hold_time(redlock_client *handle, int64_t longest_ms, void *arg)
{
    struct client *client = arg;
    (void)handle;
    if (client->lists == 0 || (longest_ms < 0 && longest_ms != REDLOCK_UNKNOWN))
        oracle_accuse(INVARIANT_CALLBACK, "client %u: a hold of %lld ms", client->index + 1,
                      (long long)longest_ms);
    client->lists--;
}

static void learn(struct client *client)
{
    const char *key = world_key(prng_below(&prng, world.plan.resources));
    redlock_code code =
        redlock_hold_time(client->handle, key, strlen(key), on_hold_time, client);
    client->lists += code == REDLOCK_OK;
    if (code == REDLOCK_OK)
        code = redlock_note_hold_time(client->handle, key, strlen(key),
                                      prng_below(&prng, 10000));
    if (code != REDLOCK_OK && !may_fail(client, code))
        oracle_accuse(INVARIANT_TOLD, "client %u: a hold: %s", client->index + 1,
                      redlock_code_name(code));
}

static void ask(void *arg)
{
    struct client *asked = arg;
    if (!asked->handle)
        return;
    switch (prng_below(&prng, 10)) {
    case 0:
    case 1:
    case 2: check(asked); break;
    case 3:
    case 4: drain(asked); break;
    case 5:
    case 6: read_texts(asked); break;
    case 7: list(asked); break;
    case 8: learn(asked); break;
    default: mistakes_make(asked); break;
    }
}

static void make_ready(struct ready *ready, unsigned clients)
{
    struct client *client = &world.client[prng_below(&prng, clients)];
    if (client->is_alive && client->handle && !ready->link) {
        ready->arg = client;
        process_make_ready(&client->process, ready);
    }
}

static void found(void *arg)
{
    struct client *client = arg;
    if (!client->handle)
        return;
    client->founds = true;
    client->admission = REDLOCK_ADMIT_NEW;
    redlock_code code = redlock_admit(client->handle, operator_how(client), 0, NULL, NULL);
    TRACE("client %u founds a deployment, too: %s", client->index + 1,
          redlock_code_name(code));
}

void auditor_founds(void)
{
    if (world.is_audited)
        make_ready(&founds, world.plan.clients);
}

static void on_due(void *arg)
{
    unsigned longest = (unsigned)(GAPS * world.plan.ttl_max / VIRTUAL_MS);
    (void)arg;
    make_ready(&ready, world.clients);
    if (world.phase == PHASE_STORM)
        event_at(&due, events_now() + (1 + prng_below(&prng, longest)) * VIRTUAL_MS);
}

void auditor_begin(void)
{
    prng = (struct prng){~world.seed};
    due = (struct event){.happen = on_due};
    ready = (struct ready){.run = ask};
    founds = (struct ready){.run = found};
    world.is_audited = world.seed % AUDITED == 0 && !world.plan.model;
    if (!world.is_audited)
        return;
    for (unsigned i = 0; i < SERVERS_MAX; i++) {
        struct redis *redis = world.server[i].node.redis;
        vary(&redis->config);
        if (world.seed / AUDITED % CROWDED == 0)
            crowd(&redis->keyspace);
    }
    event_at(&due, events_now() + VIRTUAL_MS);
}
