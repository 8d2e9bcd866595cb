/*
 * One of the masters loses its memory: majority unix:///a.sock unix:///b.sock
 * unix:///c.sock ...
 *
 * Ann holds the lock, and the first node crashes (DEBUG CRASH-AND-RECOVER: use nodes that
 * nothing else needs). Then Bob, who has another client, tries to acquire the lock.
 */
#include <event2/event.h>
#include <hiredis/hiredis.h>
#include <redlock/admin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char key[] = "lock";

static struct event_base *base;

/* The result of the last operation's callback. */
static bool done;
static redlock_code code;
static unsigned held, unlocked;

static void fail(const char *what)
{
    fprintf(stderr, "majority: %s\n", what);
    exit(EXIT_FAILURE);
}

static void told(redlock_lease *lease, const redlock_result *result, void *arg)
{
    (void)lease, (void)arg;
    code = result->code;
    done = true;
}

static void surveyed(redlock_client *client, const redlock_inspection *survey, void *arg)
{
    (void)client, (void)arg;
    held = survey->held;
    unlocked = survey->free;
    done = true;
}

/* Runs the loop until the callback came, so that the steps happen one after the other. */
static void await(redlock_code started)
{
    if (started != REDLOCK_OK)
        fail(redlock_last_error()->text);
    for (done = false; !done;)
        event_base_loop(base, EVLOOP_ONCE);
}

static redlock_client *new_client(const char *const *nodes, size_t count)
{
    redlock_client *client;
    redlock_options options;
    redlock_options_init(&options);
    /* late replies on a busy machine do not change the result */
    options.node_timeout_ms = 10000;
    if (redlock_client_new(base, nodes, count, &options, &client))
        fail(redlock_last_error()->text);
    return client;
}

static redlock_lease *acquire(redlock_client *client, const char *who,
                              redlock_code expected)
{
    redlock_lease *lease;
    await(redlock_acquire(client, key, strlen(key), NULL, told, NULL, &lease));
    printf("%-5s acquires the lock: %s\n", who, redlock_code_name(code));
    if (code != expected)
        fail("unexpected result");
    return lease;
}

static void release(redlock_lease *lease, const char *who)
{
    await(redlock_release(lease, told, NULL));
    printf("%-5s releases it: %s\n", who, redlock_code_name(code));
    redlock_lease_free(lease);
}

/* Polls the nodes until `with` of them store the lock and all others do not. */
static void await_held(redlock_client *client, unsigned nodes)
{
    do {
        await(redlock_inspect(client, key, strlen(key), surveyed, NULL));
    } while (held != nodes || held + unlocked != redlock_client_nodes(client));
    printf("      ... %u nodes have it, %u not\n", held, unlocked);
}

static redisContext *connect_to(const char *uri)
{
    static const char scheme[] = "unix://";
    if (strncmp(uri, scheme, strlen(scheme)) != 0)
        fail("this program needs nodes at unix:///path");
    redisContext *redis = redisConnectUnix(uri + strlen(scheme));
    if (!redis)
        fail("out of memory");
    return redis;
}

static void crash(const char *uri)
{
    redisContext *redis = connect_to(uri);
    redisReply *reply = redisCommand(redis, "DEBUG CRASH-AND-RECOVER");
    if (reply)
        fail(reply->str ? reply->str : "the node does not crash");
    int error;
    do { /* until the node replies again */
        redisFree(redis);
        redis = connect_to(uri);
        error = redis->err;
    } while (error);
    redisFree(redis);
    printf("      ... the first node crashes and starts again\n");
}

int main(int argc, char **argv)
{
    const char *const *nodes = (const char *const *)argv + 1;
    unsigned count = (unsigned)argc - 1;
    if (count < 3)
        fail("usage: majority URI URI URI ...");
    base = event_base_new();

    redlock_client *anns = new_client(nodes, count);
    redlock_lease *lease = acquire(anns, "ann", REDLOCK_OK);
    await_held(anns, count);
    crash(nodes[0]);

    redlock_client *bobs = new_client(nodes, count);
    await_held(bobs, count - 1);
    redlock_lease_free(acquire(bobs, "bob", REDLOCK_TAKEN));
    release(lease, "ann");
    release(acquire(bobs, "bob", REDLOCK_OK), "bob");

    redlock_client_free(anns);
    redlock_client_free(bobs);
    event_base_free(base);
}
