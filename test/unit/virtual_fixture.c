#include "virtual_fixture.h"

#include <criterion/criterion.h>

#include "redlock/admin.h"
#include "sim/virtual/network.h"

struct node node[NODES];
struct user user[CLIENTS];

static void on_told(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct user *mine = arg;
    (void)lease;
    mine->code = result->code;
    mine->told++;
}

void user_connect(void *arg)
{
    struct user *mine = arg;
    const char *uris[] = {"redis://10.0.0.1", "redis://node2", "redis://node3",
                          "redis://10.0.0.4:6379", "redis://node5"};
    redlock_code code =
        redlock_client_new(process_loop(&mine->process), uris, NODES, NULL, &mine->client);
    cr_assert_eq(code, REDLOCK_OK, "%s", redlock_last_error()->text);
    redlock_lease_options_init(&mine->options);
    mine->options.ttl_ms = TTL_MS;
}

void user_acquire(void *arg)
{
    struct user *mine = arg;
    cr_assert_eq(redlock_acquire(mine->client, "job", 3, &mine->options, on_told, mine,
                                 &mine->lease),
                 REDLOCK_OK);
}

void user_free_lease(void *arg)
{
    struct user *mine = arg;
    redlock_lease_free(mine->lease);
    mine->lease = NULL;
}

void user_release(void *arg)
{
    struct user *mine = arg;
    cr_assert_eq(redlock_release(mine->lease, on_told, mine), REDLOCK_OK);
}

static void on_admitted(redlock_client *client, const redlock_admitted *result, void *arg)
{
    struct user *mine = arg;
    (void)client;
    mine->code = result->code;
    mine->told++;
}

void user_admit(void *arg)
{
    struct user *mine = arg;
    cr_assert_eq(redlock_admit(mine->client, REDLOCK_ADMIT_AT_ONCE, 0, on_admitted, mine),
                 REDLOCK_OK);
}

static void end_client(void *arg)
{
    struct user *mine = arg;
    user_free_lease(mine);
    redlock_client_free(mine->client);
}

void virtual_setup(void)
{
    events_begin(1);
    network_begin();
    for (unsigned i = 0; i < NODES; i++)
        node_begin(&node[i], i + 1);
    for (unsigned i = 0; i < CLIENTS; i++) {
        process_begin(&user[i].process, "host", 100 + i);
        process_call(&user[i].process, user_connect, &user[i]);
    }
}

void virtual_run_until(int64_t until)
{
    while (events_step(until))
        ;
}

redlock_code user_told(struct user *mine, void (*action)(void *arg))
{
    unsigned before = mine->told;
    process_call(&mine->process, action, mine);
    while (mine->told == before)
        cr_assert(events_step(events_now() + LONG), "nothing happens");
    return mine->code;
}

unsigned virtual_keys(void)
{
    unsigned count = 0;
    for (unsigned i = 0; i < NODES; i++)
        count += (unsigned)node[i].redis->keyspace.keys;
    return count;
}

void virtual_teardown(void)
{
    for (unsigned i = 0; i < CLIENTS; i++)
        process_call(&user[i].process, end_client, &user[i]);
    virtual_run_until(events_now() + VIRTUAL_S);
    for (unsigned i = 0; i < CLIENTS; i++)
        process_end(&user[i].process);
    for (unsigned i = 0; i < NODES; i++)
        node_end(&node[i]);
    network_end();
    events_end();
}
