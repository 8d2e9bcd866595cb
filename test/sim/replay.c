#include "replay.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "replay_parts.h"

/*
 * What the client does by itself happens at the times of the dump, or at most so much
 * later. Its timeouts are computed from round trips. The replay measures these between
 * times of the dump, which are rounded to 1 us and up to 2 us ahead (core/clock.h), and
 * where several replies were read at once it does not know that. All options have this
 * grain, too.
 */
#define TOLERANCE RL_MS

/* The clock of a client whose dump does not say when it began. */
#define BEGAN (1000 * RL_SECOND)

struct player player;

/* --- virtual time --- */

void player_settle(void)
{
    while (events_step(events_now()))
        ;
}

static rl_time began(void)
{
    return line_number(&player.dump->client, "began_us", BEGAN);
}

rl_time player_now(void)
{
    return player.client->loop.now - began();
}

/* The reading of CLOCK_BOOTTIME with which the client's clock is at `wanted`. */
static rl_time boot_for(rl_time wanted)
{
    const struct rl_clock *clock = &player.client->loop.clock;
    rl_time ahead = wanted - clock->last.at - 2, step = rl_max(ahead, 0);
    while (step > 0 && step + step / RL_CLOCK_SLEWED_PART > ahead)
        step--;
    return step < RL_CLOCK_GLANCE ? clock->last.boot + step
                                  : clock->boot + wanted - clock->base;
}

/* The client's clock is at this time of the dump, from now on. Time never goes back. */
static void go_to(rl_time at)
{
    int64_t now = events_now();
    int64_t boot = virtual_clock_read(&player.process.raw, now);
    int64_t wanted = boot_for(began() + at) * VIRTUAL_US;
    int64_t until = wanted > boot ? now + wanted - boot : now;
    while (events_step(until))
        ;
}

/* --- the client --- */

static void make_client(void *arg)
{
    const struct line *line = &player.dump->client;
    size_t count = (size_t)line_number(line, "nodes", 0);
    char text[RL_NODES_MAX][40];
    const char *uris[RL_NODES_MAX];
    redlock_options options;
    redlock_options_init(&options);
    options.quorum = (unsigned)line_number(line, "quorum", 0);
    options.drift_ppm = (uint32_t)line_number(line, "drift_ppm", 0);
    options.node_timeout_ms = line_number(line, "node_timeout_ms", 0);
    options.connect_timeout_ms = line_number(line, "connect_timeout_ms", 0);
    options.max_ttl_ms = line_number(line, "max_ttl_ms", 0);
    options.durable = line_is(line, "durable", "1");
    for (size_t i = 0; i < count; i++) {
        snprintf(text[i], sizeof(text[i]), "redis://10.0.0.%zu", i + 1);
        uris[i] = text[i];
    }
    *(redlock_code *)arg = redlock_client_new(process_loop(&player.process), uris, count,
                                              &options, &player.client, NULL);
    if (player.client)
        player.recorded = player.client->loop.recorder.record;
}

/* Its clock reads 2 us more than CLOCK_BOOTTIME: rl_clock_glance(). */
static redlock_code begin(void)
{
    redlock_code code;
    events_begin(1);
    network_begin();
    process_begin(&player.process, "host", 1);
    player.process.raw.value = player.process.slewed.value = (began() - 2) * VIRTUAL_US;
    player.process.jitter = replay_jitter;
    process_stop(&player.process, CLOCK_NEVER);
    replay_nodes_begin();
    replay_user_begin();
    process_call(&player.process, make_client, &code);
    return code;
}

static void free_client(void *arg)
{
    (void)arg;
    redlock_client_free(player.client);
}

static void end(void)
{
    replay_user_end();
    process_call(&player.process, free_client, NULL);
    process_end(&player.process);
    player.client = NULL;
    replay_nodes_end();
    network_end();
    events_end();
}

/* The caller frees it. */
static char *record_of_client(void)
{
    size_t room = redlock_client_record(player.client, NULL, 0) + 1;
    char *text = malloc(room);
    if (!text)
        abort();
    redlock_client_record(player.client, text, room);
    return text;
}

/* --- comparing --- */

static void print_event(const char *of, const struct line *event)
{
    printf("  %s %" PRId64 " %s %s\n", of, event->at, event->name, event->values);
}

static void print_record(void)
{
    char *text = record_of_client();
    fputs(text, stdout);
    free(text);
}

static void differ(const struct line *event)
{
    player.differs = true;
    print_record();
    printf("difference at event %zu of %zu:\n", player.next + 1, player.dump->event.count);
    print_event("dump:  ", player_event(player.next));
    if (event)
        print_event("replay:", event);
    else
        printf("  replay: nothing by then, nor within %d us\n", (int)TOLERANCE);
}

/* Whether both are of one lease, or of one node. */
static bool is_related(const struct line *event, const struct line *other)
{
    int64_t lease = line_number(event, "lease", 0), node = line_number(event, "node", -1);
    return (lease > 0 && lease == line_number(other, "lease", 0)) ||
           (node >= 0 && node == line_number(other, "node", -1)) ||
           (lease == 0 && node < 0);
}

/*
 * Tasks that are due at one time run in no particular order: of such events one may come
 * before another. Moves the one that came to the front. False: it does not belong there.
 */
static bool comes_early(const struct line *event)
{
    struct line *next = &player.dump->event.line[player.next];
    const struct line *end = player_event(0) + player.dump->event.count;
    for (struct line *at = next; at < end && at->at == next->at; at++) {
        if (line_same(at, event, TOLERANCE)) {
            struct line moved = *at;
            memmove(next + 1, next, (size_t)(at - next) * sizeof(*next));
            *next = moved;
            return true;
        }
        if (is_related(at, event))
            return false;
    }
    return false;
}

static void go_on(void)
{
    player.next++;
    player.is_called = false;
    player.drawn = 0;
}

size_t player_recorded(void)
{
    size_t lines = 0;
    for (const struct rl_record *record = player.recorded;
         record != player.client->loop.recorder.next; record = record->next)
        lines += rl_record_lines(record);
    return lines;
}

/* Compares what the client has recorded since the last call. Returns whether it has. */
static bool compare(void)
{
    size_t fresh = player_recorded();
    struct dump replayed;
    if (fresh == 0)
        return false;
    player.recorded = player.client->loop.recorder.next;
    char *text = record_of_client();
    if (dump_parse(&replayed, text))
        abort();
    for (size_t i = replayed.event.count - fresh;
         i < replayed.event.count && player.next < player.dump->event.count; i++) {
        const struct line *event = &replayed.event.line[i];
        if (!comes_early(event)) {
            differ(event);
            break;
        }
        go_on();
    }
    dump_free(&replayed);
    free(text);
    return true;
}

static bool acts(const struct line *event)
{
    replay_user_tidies();
    bool acted = replay_node_acts(event) || replay_user_acts(event);
    player_settle();
    return acted;
}

/* Until the client records something: what it needs from outside first, then its own work.
 */
static bool plays(const struct line *event, rl_time at)
{
    go_to(at);
    do {
        while (acts(event))
            if (compare())
                return true;
        if (compare())
            return true;
        if (!process_run_one(&player.process, false))
            return false;
        player_settle();
    } while (!compare());
    return true;
}

/* Nothing is due but the connections of notifications, whose ticks are not recorded. */
static bool is_quiet(struct rl_loop *loop)
{
    if (loop->soon)
        return false;
    for (struct rl_task *task = loop->list.next; task != &loop->list; task = task->next) {
        bool is_due = !task->dead && rl_heap_when(&loop->heap, &task->due) <= loop->now;
        bool is_subscriber = task->class->event && !task->class->replied;
        if (is_due && !is_subscriber)
            return false;
    }
    return true;
}

/*
 * Ends the iteration, if that does nothing that is recorded. Otherwise the dump decides
 * what comes before: several events may have been of one iteration.
 */
static void end_iteration(void)
{
    while (is_quiet(&player.client->loop) && process_run_one(&player.process, false))
        player_settle();
}

static void play(void)
{
    while (!player.differs && player.next < player.dump->event.count) {
        const struct line *event = player_event(player.next);
        bool played = plays(event, event->at);
        for (rl_time late = 1; !played && late <= TOLERANCE; late *= 2)
            played = plays(event, event->at + late);
        if (played)
            end_iteration();
        else if (replay_user_leaves_out(event))
            go_on();
        else
            differ(NULL);
    }
}

/* --- the file --- */

static char *read_file(const char *path)
{
    FILE *file = fopen(path, "r");
    char *text = NULL;
    size_t len = 0, room = 0;
    if (!file)
        return NULL;
    do {
        room = 2 * room + 4096;
        text = realloc(text, room);
        if (!text)
            abort();
        len += fread(text + len, 1, room - 1 - len, file);
    } while (len == room - 1);
    text[len] = '\0';
    int error = ferror(file) ? errno : 0;
    fclose(file);
    errno = error;
    if (error == 0)
        return text;
    free(text);
    return NULL;
}

static int refuse(int code, const char *path, const char *why)
{
    fprintf(stderr, "sim: %s: %s\n", path, why);
    return code;
}

/* Why it cannot be played; NULL: it can. */
static const char *obstacle(const struct dump *dump)
{
    for (size_t i = 0; i < dump->lease.count; i++) {
        if (line_is(&dump->lease.line[i], "fenced", "1"))
            return "a fenced lock: its dump has neither markers nor the nodes' clocks";
        if (line_is(&dump->lease.line[i], "redisson", "1"))
            return "a lock in Redisson's layout";
        if (line_is(&dump->lease.line[i], "shared", "1"))
            return "a shared lock";
        if (line_is(&dump->lease.line[i], "slots", "1"))
            return "a semaphore";
    }
    return NULL;
}

static int replay_dump(struct dump *dump, const char *path)
{
    player = (struct player){.dump = dump};
    redlock_code code = begin();
    if (code != REDLOCK_OK) {
        refuse(REPLAY_BAD_DUMP, path, redlock_last_error()->text);
        return REPLAY_BAD_DUMP;
    }
    play();
    if (!player.differs) {
        print_record();
        printf("the same %zu events, the last one:\n", dump->event.count);
        print_event("both:  ", &dump->event.line[dump->event.count - 1]);
    }
    end();
    return player.differs ? REPLAY_DIFFERS : REPLAY_SAME;
}

/* Whether the last event is still there. */
static bool ends_alike(const struct dump *dump, const struct dump *other)
{
    const struct line *last = &dump->event.line[dump->event.count - 1];
    const struct line *its = &other->event.line[other->event.count - 1];
    return last->at == its->at && strcmp(last->name, its->name) == 0;
}

/* A dump whose first events were overwritten. */
static int replay_rest(const struct dump *dump, const char *path)
{
    struct dump rest;
    char *text = dump_from_start(dump);
    int code = REPLAY_NOT_PLAYABLE;
    if (dump_parse(&rest, text))
        refuse(code, path,
               "its first events were overwritten, and the rest begins too early");
    else if (!ends_alike(dump, &rest))
        refuse(code, path, "it has no success of the lock with which it ends");
    else
        code = replay_dump(&rest, path);
    dump_free(&rest);
    free(text);
    return code;
}

int replay(const char *path)
{
    struct dump dump;
    char *text = read_file(path);
    if (!text)
        return refuse(REPLAY_NO_FILE, path, strerror(errno));
    const char *why = dump_parse(&dump, text);
    int code = REPLAY_BAD_DUMP;
    if (why)
        refuse(code, path, why);
    else if ((why = obstacle(&dump)) != NULL)
        code = refuse(REPLAY_NOT_PLAYABLE, path, why);
    else if (line_is(&dump.record, "full", "1"))
        code = replay_rest(&dump, path);
    else
        code = replay_dump(&dump, path);
    dump_free(&dump);
    free(text);
    return code;
}
