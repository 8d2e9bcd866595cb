/*
 * Threads that acquire one lock repeatedly:
 *
 *   contender [-i ID] [-n THREADS] [-h HOLD_US] [-t THINK_US] [-l TTL_MS] [-c]
 *             [-s STORAGE -r SCRIPT] LOG
 *   contender -g [-f] [-l TTL_MS]
 *                      locks (-f: fenced), prints the time, and holds it until it is killed
 *
 * The nodes are in REDLOCK_NODES, credentials in REDLOCK_USERNAME and REDLOCK_PASSWORD. It
 * contends from the start, prints "ready", and reads the begin and the end of the
 * measurement; then it ends. Its log:
 *
 *   used CPU_US SENT                 in that time; and how many commands went to the nodes
 *   whole SENT SCRIPTS               from start to end; how many of them were scripts
 *   hold ID BEGAN GRANTED ENDED LOST FENCE STORED
 *   wait ID BEGAN                    that was not over at the end
 *
 * ENDED is when the release was requested; or, if the lock was lost by then, the last time
 * at which it was surely held. STORED: 1 written, 0 refused though the lock was held, -1
 * refused when it was lost. All times are CLOCK_MONOTONIC, us.
 */
#include <errno.h>
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <pthread.h>
#include <redlock/sync.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "wire.h"

#define NODES_MAX   32
#define THREADS_MAX 256

static const char key[] = "contended";

static struct plan {
    unsigned id, threads;
    int64_t hold_us, think_us;
    int64_t ttl_ms;
    bool confirm, grip, fenced;
    const char *storage, *script;
    const char *log;
} plan = {.threads = 1, .hold_us = 1000, .ttl_ms = 10000};

struct entry {
    int64_t began, granted, ended, fence;
    bool lost;
    int stored;
};

struct contender {
    pthread_t thread;
    unsigned id;
    redisContext *storage;
    struct entry *entry;
    size_t entries, room;
    int64_t waits_since; /* 0: it did not wait at the end */
};

static redlock_sync *nodes;
static redlock_stop *stop;
static atomic_bool ends;

static void fail(const char *what)
{
    fprintf(stderr, "contender: %s\n", what);
    exit(EXIT_FAILURE);
}

/* --- time --- */

static int64_t now_us(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * INT64_C(1000000) + at.tv_nsec / 1000;
}

static void sleep_until(int64_t us)
{
    struct timespec at = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
        ;
}

static int64_t cpu_us(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * INT64_C(1000000) +
           used.ru_utime.tv_usec + used.ru_stime.tv_usec;
}

/* --- what the lock guards --- */

static void connect_storage(struct contender *self)
{
    if (!plan.storage)
        return;
    wire_aside(true);
    self->storage = redisConnectUnix(plan.storage);
    wire_aside(false);
    if (!self->storage || self->storage->err)
        fail("no storage");
}

/* The storage accepted the write. */
static bool store(struct contender *self, int64_t fence)
{
    wire_aside(true);
    redisReply *reply = redisCommand(self->storage, "EVALSHA %s 1 record %" PRId64 " %u",
                                     plan.script, fence, self->id);
    wire_aside(false);
    if (!reply || reply->type != REDIS_REPLY_INTEGER)
        fail(reply ? reply->str : "the storage is gone");
    bool stored = reply->integer == 1;
    freeReplyObject(reply);
    return stored;
}

/* --- contending --- */

static struct entry *new_entry(struct contender *self)
{
    if (self->entries == self->room) {
        self->room = self->room ? 2 * self->room : 4096;
        self->entry = realloc(self->entry, self->room * sizeof(*self->entry));
        if (!self->entry)
            fail("out of memory");
    }
    return &self->entry[self->entries++];
}

/* Holds for the planned time, by the clock. */
static void use(struct contender *self, redlock_hold *hold, struct entry *entry)
{
    int64_t valid = redlock_hold_valid_ms(hold);
    bool stored = true;
    entry->fence = redlock_hold_fence(hold);
    if (self->storage)
        stored = store(self, entry->fence);
    sleep_until(entry->granted + plan.hold_us);
    entry->lost = redlock_hold_valid_ms(hold) == 0;
    entry->stored = stored ? 1 : entry->lost ? -1 : 0;
    entry->ended = entry->lost ? entry->granted + valid * 1000 : now_us();
}

static void *contend(void *arg)
{
    struct contender *self = arg;
    redlock_lock_options options;
    redlock_lock_options_init(&options);
    options.ttl_ms = plan.ttl_ms;
    options.fenced = plan.storage != NULL;
    options.stop = stop;
    connect_storage(self);
    while (!ends) {
        redlock_hold *hold;
        int64_t began = now_us();
        redlock_code code = redlock_lock(nodes, key, strlen(key), &options, &hold);
        if (code == REDLOCK_CANCELLED) {
            self->waits_since = began;
            break;
        }
        if (code != REDLOCK_OK)
            fail(redlock_code_text(code));
        struct entry *entry = new_entry(self);
        *entry = (struct entry){.began = began, .granted = now_us()};
        use(self, hold, entry);
        redlock_unlock(hold, plan.confirm ? REDLOCK_CONFIRM : 0);
        redlock_hold_free(hold);
        if (plan.think_us > 0)
            sleep_until(now_us() + plan.think_us);
    }
    if (self->storage)
        redisFree(self->storage);
    return NULL;
}

/* --- the measurement --- */

struct used {
    int64_t cpu;
    struct wire_count sent;
};

/* Sleeps until the end; the threads and the client's own thread do the work. */
static struct used measure(void)
{
    int64_t begin, end;
    puts("ready");
    fflush(stdout);
    if (scanf("%" SCNd64 " %" SCNd64, &begin, &end) != 2)
        fail("stdin ended before the measurement");
    wire_window(begin, end);
    sleep_until(begin);
    int64_t before = cpu_us();
    sleep_until(end);
    return (struct used){.cpu = cpu_us() - before, .sent = wire_counted()};
}

static void write_log(const struct contender *all, const struct used *used)
{
    FILE *log = fopen(plan.log, "w");
    struct wire_count sent = wire_counted();
    if (!log)
        fail("no log");
    fprintf(log, "used %" PRId64 " %" PRIu64 "\n", used->cpu, used->sent.inside);
    fprintf(log, "whole %" PRIu64 " %" PRIu64 "\n", sent.all, sent.scripts);
    for (unsigned i = 0; i < plan.threads; i++) {
        for (const struct entry *at = all[i].entry; at < all[i].entry + all[i].entries;
             at++)
            fprintf(log, "hold %u %" PRId64 " %" PRId64 " %" PRId64 " %d %" PRId64 " %d\n",
                    all[i].id, at->began, at->granted, at->ended, at->lost, at->fence,
                    at->stored);
        if (all[i].waits_since)
            fprintf(log, "wait %u %" PRId64 "\n", all[i].id, all[i].waits_since);
    }
    if (fclose(log) != 0)
        fail("the log is not written");
}

static void run_contenders(void)
{
    static struct contender all[THREADS_MAX];
    for (unsigned i = 0; i < plan.threads; i++) {
        all[i].id = plan.id + i;
        if (pthread_create(&all[i].thread, NULL, contend, &all[i]) != 0)
            fail("no thread");
    }
    struct used used = measure();
    ends = true;
    redlock_stop_all(stop);
    for (unsigned i = 0; i < plan.threads; i++)
        pthread_join(all[i].thread, NULL);
    redlock_stop_free(stop);
    redlock_sync_free(nodes);
    write_log(all, &used);
    for (unsigned i = 0; i < plan.threads; i++)
        free(all[i].entry);
}

/* --- a lock that stays held --- */

static void grip(void)
{
    redlock_lock_options options;
    redlock_hold *hold;
    redlock_lock_options_init(&options);
    options.ttl_ms = plan.ttl_ms;
    options.fenced = plan.fenced;
    puts("ready");
    fflush(stdout);
    redlock_code code = redlock_lock(nodes, key, strlen(key), &options, &hold);
    if (code != REDLOCK_OK)
        fail(redlock_code_text(code));
    printf("%" PRId64 "\n", now_us());
    fflush(stdout);
    for (;;)
        pause();
}

/* --- beginning --- */

static void open_nodes(void)
{
    const char *node[NODES_MAX];
    size_t count = 0;
    redlock_options options;
    char *list = getenv("REDLOCK_NODES");
    for (char *at = strtok(list, ","); at && count < NODES_MAX; at = strtok(NULL, ","))
        node[count++] = at;
    redlock_options_init(&options);
    options.username = getenv("REDLOCK_USERNAME");
    options.password = getenv("REDLOCK_PASSWORD");
    if (redlock_sync_new(node, count, &options, &nodes) != REDLOCK_OK)
        fail(redlock_last_error()->text);
    if (redlock_stop_new(nodes, &stop) != REDLOCK_OK)
        fail("out of memory");
}

static bool read_words(int argc, char **argv)
{
    for (int option; (option = getopt(argc, argv, "i:n:h:t:l:s:r:cfg")) != -1;) {
        switch (option) {
        case 'i': plan.id = (unsigned)atoi(optarg); break;
        case 'n': plan.threads = (unsigned)atoi(optarg); break;
        case 'h': plan.hold_us = atoll(optarg); break;
        case 't': plan.think_us = atoll(optarg); break;
        case 'l': plan.ttl_ms = atoll(optarg); break;
        case 's': plan.storage = optarg; break;
        case 'r': plan.script = optarg; break;
        case 'c': plan.confirm = true; break;
        case 'f': plan.fenced = true; break;
        case 'g': plan.grip = true; break;
        default: return false;
        }
    }
    plan.log = argv[optind];
    return plan.threads > 0 && plan.threads <= THREADS_MAX &&
           !plan.storage == !plan.script && (plan.grip || plan.log);
}

int main(int argc, char **argv)
{
    if (!read_words(argc, argv) || !getenv("REDLOCK_NODES"))
        fail("usage: contender [options] LOG, and REDLOCK_NODES");
    open_nodes();
    if (plan.grip)
        grip();
    run_contenders();
    return EXIT_SUCCESS;
}
