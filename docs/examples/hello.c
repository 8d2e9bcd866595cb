/* Holds the lock "hello" for a moment: hello redis://a redis://b redis://c */
#include <event2/event.h>
#include <redlock/redlock.h>
#include <stdio.h>

static void leave(redlock_lease *lease, const redlock_result *result, void *client)
{
    puts(redlock_code_text(result->code));
    redlock_lease_free(lease);
    redlock_client_free(client); /* no event is left, so the loop ends */
}

static void enter(redlock_lease *lease, const redlock_result *result, void *client)
{
    if (result->code == REDLOCK_OK) {
        puts("This runs while no other client holds the lock.");
        redlock_release(lease, leave, client);
    } else {
        leave(lease, result, client);
    }
}

int main(int argc, char **argv)
{
    const char *const *nodes = (const char *const *)argv + 1;
    struct event_base *base = event_base_new();
    redlock_client *client;
    redlock_lease *lease;
    if (redlock_client_new(base, nodes, (size_t)argc - 1, NULL, &client) ||
        redlock_acquire(client, "hello", 5, NULL, enter, client, &lease))
        return 1;
    event_base_dispatch(base);
    event_base_free(base);
}
