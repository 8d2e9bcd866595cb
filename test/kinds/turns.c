/*
 * A process that locks the same keys again and again, until SIGTERM or so many times, and
 * writes a log for test/cli/judge.py with a comment for each turn, "# waited US slot N", or
 * "# waited US term N":
 * turns MODE HOLD_US PAUSE_US TIMES KEY...
 * MODE: exclusive, fenced, shared, slots=K, or leader, which holds until it is lost, and
 * writes its term to the file STORAGE again and again unless a larger one is there
 * ("# stored TERM", "# refused TERM"); "new:" before it: by a new client each time. TIMES
 * 0: no limit. The nodes are in REDLOCK_NODES. MAX_TTL_MS and DURABLE, if set, are options
 * of the client.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "redlock/sync.h"

#define NODES_MAX 32
#define TTL_MS    2000
#define LEAD_US   20000
#define LINES     1024 /* bytes */

struct turns {
    const char *uri[NODES_MAX];
    size_t nodes;
    const char *mode;
    redlock_sync *sync;
    redlock_lock_options options;
    redlock_key key[REDLOCK_KEYS_MAX];
    size_t keys;
    bool renews, leads;
    useconds_t hold_us, pause_us;
    unsigned seed;
};

static volatile sig_atomic_t ends;

static void on_term(int signal)
{
    (void)signal;
    ends = 1;
}

static void fail(const char *what)
{
    fprintf(stderr, "turns: %s: %s\n", what, redlock_last_error()->text);
    exit(1);
}

static int64_t now_us(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * INT64_C(1000000) + at.tv_nsec / 1000;
}

static void open_client(struct turns *turns)
{
    redlock_options options;
    redlock_options_init(&options);
    const char *longest = getenv("MAX_TTL_MS");
    options.max_ttl_ms = longest ? atoi(longest) : TTL_MS;
    options.durable = getenv("DURABLE") != NULL;
    if (redlock_sync_new(turns->uri, turns->nodes, &options, &turns->sync) != REDLOCK_OK)
        fail("client");
}

static void wait_us(struct turns *turns, useconds_t most)
{
    if (most > 0)
        usleep(most / 2 + (useconds_t)rand_r(&turns->seed) % (most / 2 + 1));
}

/* One write at a time: a killed process leaves whole lines. */
static void put(const char *lines, int len)
{
    if (len >= LINES || write(STDOUT_FILENO, lines, (size_t)len) != len)
        ends = 1;
}

static void tell_acquired(const struct turns *turns, const redlock_hold *hold,
                          int64_t begun)
{
    char lines[LINES];
    int64_t now = now_us();
    int64_t until = now + redlock_hold_valid_ms(hold) * 1000;
    int64_t number = turns->leads ? redlock_hold_fence(hold) : redlock_hold_slot(hold);
    int len =
        snprintf(lines, sizeof(lines),
                 "# waited %" PRId64 " %s %" PRId64 "\n%" PRId64 " acquired %s %s %" PRId64,
                 now - begun, turns->leads ? "term" : "slot", number, now,
                 redlock_hold_token(hold), turns->mode, until);
    for (size_t i = 0; i < turns->keys && len < LINES; i++)
        len += snprintf(lines + len, (size_t)(LINES - len), " %s",
                        (const char *)turns->key[i].bytes);
    if (len + 1 < LINES)
        lines[len++] = '\n';
    put(lines, len);
}

static void tell_released(const redlock_hold *hold)
{
    char line[LINES];
    put(line, snprintf(line, sizeof(line), "%" PRId64 " released %s\n", now_us(),
                       redlock_hold_token(hold)));
}

/* A resource that compares terms. */
static void store(int64_t term)
{
    char line[LINES], text[32] = "";
    FILE *file = fopen(getenv("STORAGE"), "r+e");
    if (!file || flock(fileno(file), LOCK_EX) != 0)
        fail("storage");
    bool is_old = fgets(text, sizeof(text), file) && strtoll(text, NULL, 10) > term;
    rewind(file);
    if (!is_old)
        fprintf(file, "%" PRId64 "\n", term);
    fclose(file);
    put(line, snprintf(line, sizeof(line), "# %s %" PRId64 "\n",
                       is_old ? "refused" : "stored", term));
}

/* It writes before it looks whether it still leads, as a program may do that was stopped.
 */
static void lead(const redlock_hold *hold)
{
    char line[LINES];
    int64_t until = 0;
    for (;;) {
        store(redlock_hold_fence(hold));
        int64_t now = now_us(), left = redlock_hold_valid_ms(hold);
        if (ends || redlock_hold_lost(hold) || left == 0)
            return;
        if (now + left * 1000 > until + LEAD_US && until > 0)
            put(line, snprintf(line, sizeof(line), "%" PRId64 " extended %s %" PRId64 "\n",
                               now, redlock_hold_token(hold), now + left * 1000));
        until = now + left * 1000 > until ? now + left * 1000 : until;
        usleep(LEAD_US);
    }
}

static void take_turn(struct turns *turns)
{
    redlock_hold *hold;
    int64_t begun = now_us();
    redlock_code code = redlock_lock_many(turns->sync, turns->key, turns->keys,
                                          REDLOCK_FOREVER, &turns->options, &hold);
    if (code != REDLOCK_OK)
        fail("lock");
    tell_acquired(turns, hold, begun);
    if (turns->leads)
        lead(hold);
    else
        wait_us(turns, turns->hold_us);
    tell_released(hold);
    redlock_unlock(hold, 0);
    redlock_hold_free(hold);
}

static void read_mode(struct turns *turns, const char *mode)
{
    turns->renews = strncmp(mode, "new:", 4) == 0;
    mode += turns->renews ? 4 : 0;
    turns->mode = mode;
    redlock_lock_options_init(&turns->options);
    turns->options.ttl_ms = TTL_MS;
    turns->leads = strcmp(mode, "leader") == 0;
    if (strcmp(mode, "shared") == 0)
        turns->options.kind = REDLOCK_KIND_SHARED;
    if (turns->leads) {
        turns->options.kind = REDLOCK_KIND_ELECTION;
        turns->mode = "exclusive";
    }
    if (strcmp(mode, "fenced") == 0) {
        turns->options.fenced = true;
        turns->mode = "exclusive";
    }
    if (strncmp(mode, "slots=", 6) == 0) {
        turns->options.kind = REDLOCK_KIND_SLOT;
        turns->options.slots = (unsigned)atoi(mode + 6);
    }
}

int main(int argc, char **argv)
{
    char *nodes = getenv("REDLOCK_NODES");
    struct turns turns = {.seed = (unsigned)getpid()};
    if (argc < 6 || argc > 5 + REDLOCK_KEYS_MAX || !nodes)
        fail("usage: turns MODE HOLD_US PAUSE_US TIMES KEY..., and REDLOCK_NODES");
    for (char *uri = strtok(nodes, ","); uri && turns.nodes < NODES_MAX;
         uri = strtok(NULL, ","))
        turns.uri[turns.nodes++] = uri;
    read_mode(&turns, argv[1]);
    turns.hold_us = (useconds_t)atoi(argv[2]);
    turns.pause_us = (useconds_t)atoi(argv[3]);
    for (int i = 5; i < argc; i++)
        turns.key[turns.keys++] = (redlock_key){argv[i], strlen(argv[i])};
    signal(SIGTERM, on_term);
    open_client(&turns);
    for (int i = 0, times = atoi(argv[4]); !ends && (times == 0 || i < times); i++) {
        take_turn(&turns);
        if (turns.renews) {
            redlock_sync_free(turns.sync);
            open_client(&turns);
        }
        wait_us(&turns, turns.pause_us);
    }
    redlock_sync_free(turns.sync);
    return 0;
}
