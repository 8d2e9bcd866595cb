/*
 * Clients that come and go in many threads while the names of their nodes are looked up:
 * lookups [SECONDS [THREADS]]
 *
 * All of them share the lookups. Each client either becomes ready, or is freed at some
 * moment before. Beside a name of a server there are names that do not exist, with or
 * without a name server that says so, and names that are not answered for most of the time
 * (../chaos/names.c). A plain program, so that tools for threads can run it.
 */
#include <event2/event.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../support/servers.h"
#include "redlock/redlock.h"

#define SECONDS     2
#define THREADS     8
#define THREADS_MAX 64
#define PATIENCE_S  300
#define NAMES       4 /* their lookups leave threads for others, also if no server replies */
#define SILENT      16
#define SILENT_US   1200000
#define ANSWERED_US 100000
#define PASSES      20 /* of the loop, at most, of a client that is freed early */

static struct servers servers;
static atomic_bool ends;
static atomic_uint ready;

_Noreturn void plain_fail(void)
{
    exit(EXIT_FAILURE);
}

static void fail(const char *what)
{
    fprintf(stderr, "lookups: %s\n", what);
    _exit(EXIT_FAILURE); /* the server ends with us */
}

static void on_alarm(int signal)
{
    (void)signal;
    fail("it hangs");
}

static redlock_client *make_client(struct event_base *base, unsigned number)
{
    char uri[4][64];
    const char *const uris[] = {uri[0], uri[1], uri[2], uri[3]};
    redlock_client *client;
    redlock_options options;
    redlock_options_init(&options);
    options.connect_timeout_ms = 10 * PATIENCE_S * 1000; /* a further try must not help */
    snprintf(uri[0], sizeof(uri[0]), "redis://localhost:%d", servers.server[0].port);
    snprintf(uri[1], sizeof(uri[1]), "redis://name-%u.invalid", number % NAMES);
    snprintf(uri[2], sizeof(uri[2]), "redis://[fe80::1%%25none]");
    snprintf(uri[3], sizeof(uri[3]), "redis://silent-%u.node.test", number % SILENT);
    if (redlock_client_new(base, uris, 4, &options, &client) != REDLOCK_OK)
        fail(redlock_last_error()->text);
    return client;
}

static bool is_ready(redlock_client *client)
{
    redlock_node node;
    return redlock_client_explain(client, &node, 1) >= 1 &&
           node.verdict == REDLOCK_VERDICT_READY;
}

static void *come_and_go(void *arg)
{
    unsigned random = *(const unsigned *)arg;
    while (!ends) {
        struct event_base *base = event_base_new();
        random = random * 1103515245 + 12345;
        unsigned passes = random >> 16 & 1 ? (random >> 17) % PASSES : 0;
        redlock_client *client = make_client(base, random >> 8);
        for (unsigned i = 0; i < passes; i++)
            event_base_loop(base, EVLOOP_NONBLOCK);
        while (passes == 0 && !is_ready(client))
            event_base_loop(base, EVLOOP_ONCE);
        atomic_fetch_add(&ready, passes == 0);
        redlock_client_free(client);
        event_base_free(base);
    }
    return NULL;
}

/* The names are silent for longer than it takes to count as that, and answer in between. */
static void change_names(unsigned times)
{
    const char *path = getenv("NAMES_SILENT");
    for (unsigned i = 0; i < times; i++) {
        int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
        if (fd < 0)
            fail("no file");
        close(fd);
        usleep(SILENT_US);
        unlink(path);
        usleep(ANSWERED_US);
    }
}

int main(int argc, char **argv)
{
    static char path[100];
    unsigned seconds = argc > 1 ? (unsigned)atoi(argv[1]) : SECONDS;
    unsigned threads = argc > 2 ? (unsigned)atoi(argv[2]) : THREADS;
    static pthread_t thread[THREADS_MAX];
    static unsigned seed[THREADS_MAX];
    signal(SIGALRM, on_alarm);
    alarm(seconds + PATIENCE_S);
    servers_start(&servers, 1, NULL);
    servers_kill(&servers, 0);
    servers_choose_port(&servers, 0, "127.0.0.1 -::1");
    servers_launch(&servers, 0);
    snprintf(path, sizeof(path), "%s/names-silent", servers.folder);
    setenv("NAMES_SILENT", path, 1);
    for (unsigned i = 0; i < threads && i < THREADS_MAX; i++) {
        seed[i] = i;
        if (pthread_create(&thread[i], NULL, come_and_go, &seed[i]) != 0)
            fail("no thread");
    }
    change_names(seconds);
    ends = true;
    for (unsigned i = 0; i < threads && i < THREADS_MAX; i++)
        pthread_join(thread[i], NULL);
    printf("%u clients were ready\n", ready);
    servers_end(&servers);
    return ready > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
