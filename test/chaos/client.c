#include "client.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#define NODES_MAX  32
#define KINDS_MAX  16
#define KEYS       6 /* of each group: so few that the clients often wait for each other */
#define KEYS_SLOT  2
#define LINE       1024
#define RECORD     65536
#define RECORD_MAX (4 << 20) /* bytes of a file */

static struct {
    const char *name, *folder;
    char *kind[KINDS_MAX];
    unsigned kinds, seed;
    int64_t pause_us;
    const char *uri[NODES_MAX];
    size_t nodes;
    int history, record;
    uint64_t turns;
} self;

static volatile sig_atomic_t ends;

static void on_term(int signal)
{
    (void)signal;
    ends = 1;
}

void chaos_fail(const char *what)
{
    fprintf(stderr, "%s: %s: %s\n", self.name, what, redlock_last_error()->text);
    exit(1);
}

static const char *env(const char *name)
{
    const char *value = getenv(name);
    if (!value) {
        fprintf(stderr, "%s is not set\n", name);
        exit(64);
    }
    return value;
}

static int append_to(const char *what)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/%s.%s", self.folder, self.name, what);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0) {
        perror(path);
        exit(1);
    }
    return fd;
}

void chaos_begin(redlock_options *options)
{
    self.name = env("CHAOS_NAME");
    self.folder = env("CHAOS_FOLDER");
    self.seed = (unsigned)atoi(env("CHAOS_SEED"));
    self.pause_us = atoi(env("CHAOS_PAUSE_US"));
    for (char *word = strtok(strdup(env("CHAOS_KINDS")), ",");
         word && self.kinds < KINDS_MAX; word = strtok(NULL, ","))
        self.kind[self.kinds++] = word;
    for (char *word = strtok(strdup(env("REDLOCK_NODES")), ",");
         word && self.nodes < NODES_MAX; word = strtok(NULL, ","))
        self.uri[self.nodes++] = word;
    self.history = append_to("history");
    self.record = append_to("record");
    signal(SIGTERM, on_term);
    redlock_options_init(options);
    options->label = self.name;
    options->max_ttl_ms = CHAOS_MAX_MS;
}

size_t chaos_nodes(const char *const **ret_uris)
{
    *ret_uris = self.uri;
    return self.nodes;
}

bool chaos_ends(void)
{
    return ends;
}

bool chaos_pauses(void)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/pause", self.folder);
    return access(path, F_OK) == 0;
}

int64_t chaos_now_us(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * INT64_C(1000000) + at.tv_nsec / 1000;
}

unsigned chaos_draw(unsigned *seed, unsigned below)
{
    return (unsigned)rand_r(seed) % below;
}

unsigned chaos_seed(unsigned lane)
{
    return self.seed * 16 + lane;
}

int64_t chaos_pause_us(unsigned *seed)
{
    return self.pause_us / 2 + chaos_draw(seed, (unsigned)self.pause_us + 1);
}

/* --- plans --- */

static void choose_keys(struct chaos_plan *plan, unsigned *seed, const char *group,
                        unsigned room, size_t count)
{
    unsigned first = chaos_draw(seed, room);
    plan->keys = count;
    for (size_t i = 0; i < count; i++) {
        int len = snprintf(plan->name[i], sizeof(plan->name[i]), "%s:%u", group,
                           (first + (unsigned)i) % room);
        plan->key[i] = (redlock_key){plan->name[i], (size_t)len};
    }
}

/* All plain locks share their keys, and all fenced ones. */
static void choose_kind(struct chaos_plan *plan, unsigned *seed, const char *kind)
{
    plan->fenced = strncmp(kind, "fenced-", 7) == 0;
    kind += plan->fenced ? 7 : 0;
    const char *group = plan->fenced ? "f" : "p";
    size_t count = 1;
    if (strcmp(kind, "set") == 0)
        count = 2 + chaos_draw(seed, CHAOS_SET - 1);
    else if (strcmp(kind, "redisson") == 0)
        plan->kind = REDLOCK_KIND_REDISSON;
    else if (strcmp(kind, "shared") == 0 && chaos_draw(seed, 4) > 0)
        plan->kind = REDLOCK_KIND_SHARED;
    else if (strcmp(kind, "slot") == 0) {
        plan->kind = REDLOCK_KIND_SLOT;
        plan->slots = CHAOS_SLOTS;
        group = plan->fenced ? "fs" : "ps";
    } else if (strcmp(kind, "election") == 0) {
        plan->kind = REDLOCK_KIND_ELECTION;
        plan->fenced = true;
        group = "e";
    }
    bool is_few = plan->slots > 0 || plan->kind == REDLOCK_KIND_ELECTION;
    choose_keys(plan, seed, group, is_few ? KEYS_SLOT : KEYS, count);
}

static void choose_way(struct chaos_plan *plan, unsigned *seed)
{
    static const int64_t ttl_ms[] = {500, 1000, 2000, 8000};
    unsigned way = chaos_draw(seed, 32);
    bool is_writer = plan->kind == REDLOCK_KIND_EXCLUSIVE && plan->keys == 1;
    plan->ttl_ms = ttl_ms[chaos_draw(seed, 8) == 0 ? 3 : chaos_draw(seed, 3)];
    plan->wait_ms =
        chaos_draw(seed, 4) == 0 ? REDLOCK_ONE_ATTEMPT : 100 + chaos_draw(seed, 900);
    plan->hold_us = 500 + chaos_draw(seed, 5000);
    if (way < 6) {
        plan->way = CHAOS_EXTEND;
        plan->hold_us = plan->ttl_ms * (100 + chaos_draw(seed, 300));
    } else if (way < 8) {
        plan->way = CHAOS_LONG;
        plan->hold_us = plan->ttl_ms < 8000 ? plan->ttl_ms * 1500 : 1000000;
    } else if (way == 8 && plan->ttl_ms < 8000) {
        plan->way = CHAOS_STALL;
        plan->hold_us = plan->ttl_ms * 1000 + chaos_draw(seed, 300000);
    } else if (way < 12 && is_writer)
        plan->way = CHAOS_READ;
}

static void clear(struct chaos_plan *plan)
{
    memset(plan, 0, sizeof(*plan));
    snprintf(plan->id, sizeof(plan->id), "%s:%" PRIu64, self.name,
             __atomic_add_fetch(&self.turns, 1, __ATOMIC_RELAXED));
}

void chaos_choose(struct chaos_plan *plan, unsigned *seed)
{
    clear(plan);
    choose_kind(plan, seed, self.kind[chaos_draw(seed, self.kinds)]);
    choose_way(plan, seed);
}

void chaos_probe(struct chaos_plan *plan, bool fenced)
{
    clear(plan);
    plan->fenced = fenced;
    plan->ttl_ms = 2000;
    plan->wait_ms = 3000;
    plan->keys = 1;
    int len = snprintf(plan->name[0], sizeof(plan->name[0]), "%s:%s", fenced ? "fx" : "px",
                       self.name);
    plan->key[0] = (redlock_key){plan->name[0], (size_t)len};
}

void chaos_job(struct chaos_plan *plan, const char *kind, char **keys)
{
    clear(plan);
    snprintf(plan->id, sizeof(plan->id), "%s.%d:1", self.name, (int)getpid());
    plan->fenced = strncmp(kind, "fenced-", 7) == 0;
    plan->kind = strstr(kind, "shared")     ? REDLOCK_KIND_SHARED
                 : strstr(kind, "election") ? REDLOCK_KIND_ELECTION
                                            : REDLOCK_KIND_EXCLUSIVE;
    for (; keys[plan->keys] && plan->keys < CHAOS_SET; plan->keys++)
        snprintf(plan->name[plan->keys], sizeof(plan->name[0]), "%s", keys[plan->keys]);
}

/* --- the history --- */

/* One write: a killed process leaves whole lines. */
static void put(const char *line, int len)
{
    if (len >= LINE || write(self.history, line, (size_t)len) != len)
        chaos_fail("history");
}

static const char *kind_name(const struct chaos_plan *plan, char text[24])
{
    if (plan->kind == REDLOCK_KIND_SLOT)
        snprintf(text, 24, "slots=%u:%u", plan->slots, plan->slot);
    else
        snprintf(text, 24, "%s", plan->keys > 1 ? "set" : redlock_kind_name(plan->kind));
    return text;
}

void chaos_note(const struct chaos_plan *plan, const char *what, int64_t begin, int64_t end,
                const char *result, int64_t until)
{
    char line[LINE], kind[24];
    int len = snprintf(
        line, sizeof(line), "%s %s %" PRId64 " %" PRId64 " %s %s %s%s %" PRId64 " %" PRId64,
        what, plan->id, begin, end, result, plan->token[0] ? plan->token : "-",
        plan->fenced ? "fenced-" : "", kind_name(plan, kind), plan->fence, until);
    for (size_t i = 0; i < plan->keys && len < LINE; i++)
        len += snprintf(line + len, (size_t)(LINE - len), " %s", plan->name[i]);
    if (len + 1 < LINE)
        line[len++] = '\n';
    put(line, len);
}

void chaos_note_idle(const redlock_node *node, size_t count, bool *told)
{
    char line[LINE];
    int64_t now = chaos_now_us();
    size_t greeted = 0;
    for (size_t i = 0; i < count; i++)
        greeted += node[i].verdict == REDLOCK_VERDICT_READY ||
                   node[i].verdict == REDLOCK_VERDICT_QUARANTINED;
    if (*told || greeted < count)
        return;
    put(line,
        snprintf(line, sizeof(line), "idle %s:0 %" PRId64 " %" PRId64 " %zu - - 0 0\n",
                 self.name, now, now, greeted));
    *told = true;
}

void chaos_keep_record(const char *why, const char *text)
{
    char head[128];
    if (lseek(self.record, 0, SEEK_END) > RECORD_MAX)
        return;
    int len = snprintf(head, sizeof(head), "=== %s at %" PRId64 "\n", why, chaos_now_us());
    if (write(self.record, head, (size_t)len) != len ||
        write(self.record, text, strlen(text)) < 0)
        perror("record");
}

void chaos_keep_sync_record(redlock_sync *sync, const char *why)
{
    char *text = malloc(RECORD);
    if (text && redlock_sync_record(sync, text, RECORD) > 0)
        chaos_keep_record(why, text);
    free(text);
}

/* --- the resource --- */

/* The largest fencing token of all that came, and of those that wrote. */
struct seen {
    int64_t any, writer;
};

static bool offer(const char *name, bool reads, int64_t fence)
{
    char path[256];
    struct seen seen = {0, 0};
    snprintf(path, sizeof(path), "%s/resource-%s", self.folder, name);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || flock(fd, LOCK_EX) < 0 || pread(fd, &seen, sizeof(seen), 0) < 0)
        chaos_fail("resource");
    bool is_accepted = fence >= (reads ? seen.writer : seen.any);
    if (is_accepted) {
        seen.any = fence > seen.any ? fence : seen.any;
        seen.writer = reads ? seen.writer : fence;
        if (pwrite(fd, &seen, sizeof(seen), 0) != sizeof(seen))
            chaos_fail("resource");
    }
    close(fd);
    return is_accepted;
}

int64_t chaos_deadline(int64_t (*valid_ms)(void *), void *arg)
{
    int64_t now = chaos_now_us();
    int64_t left = valid_ms(arg);
    return left > 0 ? now + left * 1000 : 0;
}

void chaos_use(const struct chaos_plan *plan, int64_t (*valid_ms)(void *), void *arg)
{
    bool reads = plan->kind == REDLOCK_KIND_SHARED;
    for (size_t i = 0; i < plan->keys && plan->fenced; i++) {
        struct chaos_plan one = *plan;
        char name[48];
        if (plan->slot > 0)
            snprintf(name, sizeof(name), "%s!%u", plan->name[i], plan->slot);
        else
            snprintf(name, sizeof(name), "%s", plan->name[i]);
        int64_t begin = chaos_now_us();
        bool is_accepted = offer(name, reads, plan->fence);
        int64_t end = chaos_now_us();
        one.keys = 1;
        memmove(one.name[0], plan->name[i], sizeof(one.name[0]));
        chaos_note(&one, reads ? "read" : "write", begin, end,
                   is_accepted ? "accepted" : "refused", chaos_deadline(valid_ms, arg));
    }
}
