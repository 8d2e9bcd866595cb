#include "caller.h"

static void free_now(struct caller *caller)
{
    redlock_lease *lease = caller->lease;
    if (caller->frees_client)
        servers_settle(&caller->quorum->servers);
    if (caller->frees_lease) {
        caller->lease = NULL;
        redlock_lease_free(lease);
    }
    if (caller->frees_client) {
        redlock_client *client = caller->quorum->client;
        caller->quorum->client = NULL;
        redlock_client_free(client);
    }
}

static void note(struct caller *caller, unsigned *times, redlock_code code)
{
    ++*times;
    caller->code = code;
    free_now(caller);
}

void caller_on_reported(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct caller *caller = arg;
    caller->lease = lease;
    note(caller, &caller->reported, result->code);
}

void caller_on_lost(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct caller *caller = arg;
    caller->lease = lease;
    note(caller, &caller->lost, result->code);
}

void caller_on_extended(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct caller *caller = arg;
    (void)result;
    caller->extended++;
    caller->lease = lease;
    free_now(caller);
}

void caller_on_drained(redlock_client *client, bool clean, void *arg)
{
    struct caller *caller = arg;
    (void)client;
    (void)clean;
    caller->other++;
    free_now(caller);
}

void caller_on_inspection(redlock_client *client, const redlock_inspection *inspection,
                          void *arg)
{
    struct caller *caller = arg;
    (void)client;
    note(caller, &caller->other, inspection->code);
}

void caller_on_admitted(redlock_client *client, const redlock_admitted *result, void *arg)
{
    struct caller *caller = arg;
    (void)client;
    note(caller, &caller->other, result->code);
}

int64_t caller_on_retry(unsigned attempt, uint64_t random, void *arg)
{
    struct caller *caller = arg;
    (void)attempt;
    (void)random;
    caller->other++;
    free_now(caller);
    return 1;
}

void caller_finish(struct quorum *s, struct caller *caller, unsigned calls)
{
    loop_run_for(s->base, 100);
    cr_assert_eq(caller->reported + caller->lost + caller->extended + caller->other, calls);
    redlock_lease_free(caller->lease);
    caller->lease = NULL;
    if (s->client) {
        quorum_drain(s);
        redlock_client_free(s->client);
    }
    s->client = quorum_client(s, NULL);
    servers_do_first(&s->servers, s->servers.n, "FLUSHALL");
}

void caller_expect(struct quorum *s, struct caller *caller, const unsigned *times,
                   redlock_code code)
{
    LOOP_UNTIL(s->base, *times > 0);
    cr_assert_eq(caller->code, code, "%s, not %s", redlock_code_name(caller->code),
                 redlock_code_name(code));
    caller_finish(s, caller, 1);
}

void caller_acquire(struct quorum *s, struct caller *caller)
{
    redlock_lease_options options = quorum_lease_options();
    cr_assert_eq(redlock_acquire(s->client, "job", 3, &options, caller_on_reported, caller,
                                 &caller->lease),
                 REDLOCK_OK);
}

redlock_lease *caller_hold(struct quorum *s, struct caller *caller,
                           redlock_lease_options options)
{
    options.on_lost = caller_on_lost;
    options.on_extended = caller_on_extended;
    options.lost_arg = options.extended_arg = caller;
    return quorum_hold(s, "job", &options);
}
