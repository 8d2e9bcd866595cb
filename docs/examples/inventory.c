/*
 * Many workers sell the last items. No item is sold twice: inventory redis://a redis://b
 * ...
 *
 * Each worker is a process with its own client. A sale reads the stock, waits, and writes
 * the stock; only the lock keeps the other workers out in between. The first worker that
 * gets the lock kills itself while it holds the lock. The others continue when the lock has
 * expired.
 */
#include <event2/event.h>
#include <redlock/redlock.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORKERS 8
#define ITEMS   20

/* The shop's database, shared by all processes. Each access is atomic; a sale is not. */
static struct shop {
    atomic_int stock;
    atomic_int sold[ITEMS]; /* how often each item was sold */
    atomic_bool somebody_died;
} * shop;

struct worker {
    struct event_base *base;
    redlock_client *client;
    redlock_lease *lease;
    int stock; /* the stock that was read */
};

static const struct timeval thinking = {.tv_usec = 2000};

static void try_to_sell(struct worker *worker);

static void fail(const char *what)
{
    fprintf(stderr, "inventory: %s\n", what);
    exit(EXIT_FAILURE);
}

static void given_back(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct worker *worker = arg;
    (void)result; /* a lock that could not be released expires */
    redlock_lease_free(lease);
    if (worker->stock > 0)
        try_to_sell(worker);
    else
        redlock_client_free(worker->client); /* sold out: the loop ends */
}

/* The client has extended the lock meanwhile. If that failed, this sale is dropped. */
static void sell(evutil_socket_t fd, short what, void *arg)
{
    struct worker *worker = arg;
    (void)fd, (void)what;
    if (worker->stock > 0 && redlock_valid_ms(worker->lease) > 0) {
        shop->stock = worker->stock - 1;
        shop->sold[worker->stock - 1]++;
    }
    redlock_release(worker->lease, given_back, worker);
}

static void taken(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct worker *worker = arg;
    (void)lease;
    if (result->code != REDLOCK_OK)
        fail(redlock_code_text(result->code));
    if (!atomic_exchange(&shop->somebody_died, true))
        raise(SIGKILL);
    worker->stock = shop->stock;
    event_base_once(worker->base, -1, EV_TIMEOUT, sell, worker, &thinking);
}

static void try_to_sell(struct worker *worker)
{
    redlock_lease_options options;
    redlock_lease_options_init(&options);
    options.ttl_ms = 1000;
    options.wait_ms = REDLOCK_FOREVER;
    redlock_code code = redlock_acquire(worker->client, "stock", strlen("stock"), &options,
                                        taken, worker, &worker->lease);
    if (code != REDLOCK_OK)
        fail(redlock_last_error()->text);
}

static void work(const char *const *nodes, size_t count)
{
    struct worker worker = {.base = event_base_new()};
    if (redlock_client_new(worker.base, nodes, count, NULL, &worker.client))
        fail(redlock_last_error()->text);
    try_to_sell(&worker);
    event_base_dispatch(worker.base);
    event_base_free(worker.base);
}

/* Returns how many of the workers were killed. */
static int run_workers(const char *const *nodes, size_t count)
{
    for (int i = 0; i < WORKERS; i++) {
        pid_t pid = fork();
        if (pid < 0)
            fail("no process");
        if (pid == 0) {
            /* no worker runs on when the parent has ended */
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            work(nodes, count);
            exit(EXIT_SUCCESS);
        }
    }
    int killed = 0;
    for (int status; wait(&status) > 0;) {
        killed += WIFSIGNALED(status);
        if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
            fail("a worker failed");
    }
    return killed;
}

int main(int argc, char **argv)
{
    shop = mmap(NULL, sizeof(*shop), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                0);
    if (shop == MAP_FAILED)
        fail("no shared memory");
    shop->stock = ITEMS;
    int killed = run_workers((const char *const *)argv + 1, (size_t)argc - 1);

    int once = 0, again = 0;
    for (int i = 0; i < ITEMS; i++) {
        once += shop->sold[i] == 1;
        again += shop->sold[i] > 1;
    }
    printf("%d workers, %d of them died with the lock; %d items\n", WORKERS, killed, ITEMS);
    printf("sold once: %d, sold twice: %d, left: %d\n", once, again, shop->stock);
    return once == ITEMS && killed == 1 ? EXIT_SUCCESS : EXIT_FAILURE;
}
