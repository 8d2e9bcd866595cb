/*
 * One of many processes that lock keys of one kind until SIGTERM, and log who held what for
 * test/cli/judge.py: user KIND SEED KEYS LOG. The nodes are in REDLOCK_NODES. Times are
 * CLOCK_MONOTONIC, us.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "redlock/sync.h"

#define NODES_MAX 32
#define SET_MAX   3
#define TTL_MS    2000
#define WAIT_MS   1000
#define SLOTS     3
#define LONG      64   /* one hold of so many is extended for longer than its TTL */
#define STALLED   128  /* one of so many lasts for longer than its TTL, and is not */
#define BRIEF_US  3000 /* all others */

struct user {
    redlock_sync *sync;
    const char *kind;
    unsigned seed, keys;
    FILE *log;
    uint64_t holds;
};

static volatile sig_atomic_t ends;

static void on_term(int signal)
{
    (void)signal;
    ends = 1;
}

static void fail(const char *what)
{
    fprintf(stderr, "user: %s: %s\n", what, redlock_last_error()->text);
    exit(1);
}

static int64_t now_us(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * INT64_C(1000000) + at.tv_nsec / 1000;
}

static unsigned draw(struct user *user, unsigned below)
{
    return (unsigned)rand_r(&user->seed) % below;
}

static bool is(const struct user *user, const char *kind)
{
    return strcmp(user->kind, kind) == 0;
}

/* --- one hold --- */

struct choice {
    redlock_lock_options options;
    char name[SET_MAX][16];
    redlock_key key[SET_MAX];
    size_t keys;
};

/* Different keys, in any order. */
static void choose_keys(struct user *user, size_t count, struct choice *choice)
{
    unsigned first = draw(user, user->keys);
    choice->keys = count < user->keys ? count : user->keys;
    for (size_t i = 0; i < choice->keys; i++) {
        int len = snprintf(choice->name[i], sizeof(choice->name[i]), "key:%u",
                           (first + (unsigned)i) % user->keys);
        choice->key[i] = (redlock_key){choice->name[i], (size_t)len};
    }
}

static void choose(struct user *user, struct choice *choice)
{
    bool mixes = is(user, "mixed");
    unsigned which = mixes ? draw(user, 4) : 4;
    redlock_lock_options *options = &choice->options;
    redlock_lock_options_init(options);
    options->ttl_ms = TTL_MS;
    options->fenced = strncmp(user->kind, "fenced", 6) == 0;
    bool shares = strstr(user->kind, "shared") || which == 1;
    if (shares && draw(user, 3) > 0)
        options->kind = REDLOCK_KIND_SHARED;
    else if (is(user, "redisson") || which == 2)
        options->kind = REDLOCK_KIND_REDISSON;
    else if (strstr(user->kind, "slots")) {
        options->kind = REDLOCK_KIND_SLOT;
        options->slots = SLOTS;
    }
    bool many = strstr(user->kind, "many") || which == 3;
    choose_keys(user, many ? 1 + draw(user, SET_MAX) : 1, choice);
}

static int64_t deadline_of(const redlock_hold *hold)
{
    int64_t now = now_us(); /* before the question: the deadline is not later */
    return now + redlock_hold_valid_ms(hold) * 1000;
}

static void log_acquired(struct user *user, const struct choice *choice,
                         const redlock_hold *hold, int64_t now)
{
    char mode[32] = "exclusive";
    if (choice->options.kind == REDLOCK_KIND_SHARED)
        strcpy(mode, "shared");
    else if (choice->options.slots > 0)
        snprintf(mode, sizeof(mode), "slots=%u", choice->options.slots);
    fprintf(user->log, "%" PRId64 " acquired %s %s %" PRId64, now, redlock_hold_token(hold),
            mode, deadline_of(hold));
    for (size_t i = 0; i < choice->keys; i++)
        fprintf(user->log, " %s", choice->name[i]);
    fputc('\n', user->log);
}

/* Until it is lost, or long enough. */
static void hold_long(struct user *user, const redlock_hold *hold)
{
    int64_t end = now_us() + 2 * TTL_MS * INT64_C(1000);
    while (now_us() < end && !ends && !redlock_hold_lost(hold)) {
        usleep(TTL_MS * 1000 / 20);
        int64_t now = now_us();
        int64_t until = deadline_of(hold);
        if (until > now)
            fprintf(user->log, "%" PRId64 " extended %s %" PRId64 "\n", now,
                    redlock_hold_token(hold), until);
    }
}

static void use(struct user *user, const struct choice *choice, redlock_hold *hold)
{
    log_acquired(user, choice, hold, now_us());
    if (draw(user, LONG) == 0)
        hold_long(user, hold);
    else
        usleep(draw(user, STALLED) ? draw(user, BRIEF_US) : TTL_MS * 1000 + BRIEF_US);
    fprintf(user->log, "%" PRId64 " released %s\n", now_us(), redlock_hold_token(hold));
    redlock_unlock(hold, 0);
    redlock_hold_free(hold);
    user->holds++;
}

static void lock(struct user *user)
{
    struct choice choice;
    redlock_hold *hold = NULL;
    choose(user, &choice);
    redlock_code code = redlock_lock_many(user->sync, choice.key, choice.keys, WAIT_MS,
                                          &choice.options, &hold);
    if (code == REDLOCK_OK)
        use(user, &choice, hold);
    else if (code != REDLOCK_TIMEOUT && code != REDLOCK_NO_QUORUM &&
             code != REDLOCK_EXPIRED)
        fail("lock");
}

/* --- the process --- */

static size_t read_nodes(char *text, const char *ret_uri[NODES_MAX])
{
    size_t count = 0;
    for (char *word = strtok(text, ","); word && count < NODES_MAX;
         word = strtok(NULL, ","))
        ret_uri[count++] = word;
    return count;
}

int main(int argc, char **argv)
{
    char *nodes = getenv("REDLOCK_NODES");
    const char *uri[NODES_MAX];
    if (argc != 5 || !nodes)
        fail("usage: user KIND SEED KEYS LOG, and REDLOCK_NODES");
    struct user user = {
        .kind = argv[1],
        .seed = (unsigned)atoi(argv[2]),
        .keys = (unsigned)atoi(argv[3]),
        .log = fopen(argv[4], "we"),
    };
    redlock_options options;
    redlock_options_init(&options);
    options.max_ttl_ms = TTL_MS;
    size_t count = read_nodes(nodes, uri);
    if (!user.log || redlock_sync_new(uri, count, &options, &user.sync, NULL) != REDLOCK_OK)
        fail("begin");
    signal(SIGTERM, on_term);
    while (!ends)
        lock(&user);
    redlock_sync_free(user.sync);
    bool is_written = fclose(user.log) == 0;
    printf("%" PRIu64 "\n", user.holds);
    return is_written ? 0 : 1;
}
