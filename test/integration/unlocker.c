/*
 * A process that unlocks and ends at once: unlocker END CYCLES WAITS URI...
 *
 * It locks "job", writes a line, and continues when it reads one. Before that it runs
 * CYCLES cycles of locking and unlocking, after which the loop is left free for threads
 * that wait. WAITS is 1 if another thread waits meanwhile for a lock that another client
 * has.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "redlock/sync.h"

static const char *const *uris;
static size_t count;

static void expect(bool is_so, const char *what)
{
    if (is_so)
        return;
    fprintf(stderr, "unlocker: %s\n", what);
    _exit(2);
}

static redlock_sync *make_client(void)
{
    redlock_sync *sync = NULL;
    redlock_options options;
    redlock_options_init(&options);
    options.node_timeout_ms = 5000;
    expect(redlock_sync_new(uris, count, &options, &sync) == REDLOCK_OK, "no client");
    return sync;
}

static redlock_hold *lock(redlock_sync *sync, const char *key)
{
    redlock_hold *hold = NULL;
    expect(redlock_lock(sync, key, strlen(key), NULL, &hold) == REDLOCK_OK, "not locked");
    return hold;
}

static void *wait_for_theirs(void *sync)
{
    lock(sync, "theirs");
    return NULL;
}

/* Work that is left to other threads is not done if this thread does not let them run. */
static void stay_on_one_core(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((unsigned)sched_getcpu(), &set);
    expect(sched_setaffinity(0, sizeof(set), &set) == 0, "sched_setaffinity");
}

static void end(const char *how)
{
    if (strcmp(how, "exit") == 0)
        exit(0);
    if (strcmp(how, "_exit") == 0)
        _exit(0);
    if (strcmp(how, "kill") == 0)
        raise(SIGKILL);
    if (strcmp(how, "exec") == 0)
        execl("/bin/true", "true", (char *)NULL);
    expect(strcmp(how, "return") == 0, "there is no such end");
}

int main(int argc, char **argv)
{
    pthread_t waiting;
    char line[8];
    expect(argc > 4, "unlocker END CYCLES WAITS URI...");
    uris = (const char *const *)&argv[4];
    count = (size_t)argc - 4;
    stay_on_one_core();
    static redlock_sync *sync; /* static: what exists at the end is no leak */
    static redlock_hold *hold;
    sync = make_client();
    if (atoi(argv[3]) > 0) {
        lock(make_client(), "theirs");
        expect(pthread_create(&waiting, NULL, wait_for_theirs, sync) == 0, "no thread");
    }
    for (int i = 0; i < atoi(argv[2]); i++) {
        hold = lock(sync, "job");
        expect(redlock_unlock(hold, REDLOCK_CONFIRM) == REDLOCK_OK, "not confirmed");
        redlock_hold_free(hold);
    }
    hold = lock(sync, "job");
    puts("locked");
    fflush(stdout);
    expect(fgets(line, sizeof(line), stdin), "stdin ended before the line");
    expect(redlock_unlock(hold, 0) == REDLOCK_OK, "not unlocked");
    end(argv[1]);
    return 0;
}
