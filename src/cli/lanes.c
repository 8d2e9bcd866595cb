#include "lanes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#define PAUSE_MS 50 /* after a cycle that failed, which may have taken no time at all */
#define KEY_MAX  64

enum lane_state { LANE_IDLE, LANE_ACQUIRING, LANE_HOLDING, LANE_RELEASING, LANE_PAUSING };

struct lane {
    struct lanes *lanes;
    unsigned index;
    char key[KEY_MAX];
    enum lane_state state;
    bool lost;
    redlock_lease *lease;
    int64_t release_began;
    struct event *pause;
    struct cycle cycle;
};

int64_t lanes_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* --- what the nodes answered --- */

static bool has_fault(const redlock_node *node)
{
    return strcmp(node->fault, "NONE") != 0;
}

static enum cycle_answer answer_of(const redlock_node *node)
{
    static const struct {
        const char *verdict;
        enum cycle_answer answer;
    } answers[] = {
        {"granted", CYCLE_GRANTED}, {"waiting", CYCLE_WAITING}, {"silent", CYCLE_SILENT},
        {"unknown", CYCLE_BROKEN},  {"absent", CYCLE_ABSENT},   {"unasked", CYCLE_ABSENT},
    };
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++)
        if (strcmp(node->verdict, answers[i].verdict) == 0)
            return answers[i].answer == CYCLE_ABSENT && !has_fault(node)
                       ? CYCLE_READY
                       : answers[i].answer;
    return CYCLE_REFUSED;
}

/* Why it did not grant. A node without a fault shares that of the lock. */
static const char *fault_of(const redlock_node *node, enum cycle_answer answer)
{
    if (answer == CYCLE_GRANTED || answer == CYCLE_READY)
        return NULL;
    return has_fault(node) ? node->text : "no answer within the TTL";
}

/* Whether every node has answered, or never will. */
static bool hear_nodes(struct lane *lane)
{
    struct lanes *lanes = lane->lanes;
    bool all = true;
    lanes->node_count = redlock_explain(lane->lease, lanes->nodes, REDLOCK_NODES_MAX);
    for (size_t i = 0; i < lanes->node_count; i++) {
        const redlock_node *node = &lanes->nodes[i];
        enum cycle_answer answer = answer_of(node);
        all = all && answer != CYCLE_WAITING;
        lane->cycle.node[i] = (struct cycle_node){
            .answer = answer,
            .latency_us = answer == CYCLE_GRANTED ? node->latency_us : -1,
            .fault = fault_of(node, answer),
        };
    }
    return all;
}

/* --- a cycle --- */

static void begin_cycle(struct lane *lane);

static void end_cycle(struct lane *lane)
{
    redlock_lease_free(lane->lease);
    lane->lease = NULL;
    lane->lanes->ended(lane->lanes->arg, &lane->cycle);
}

static void pause_ended(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    begin_cycle(arg);
}

static void released(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct lane *lane = arg;
    (void)lease;
    lane->cycle.release_us = lanes_now() - lane->release_began;
    lane->cycle.released = result->code;
    end_cycle(lane);
    begin_cycle(lane);
}

static void release(struct lane *lane)
{
    lane->state = LANE_RELEASING;
    lane->release_began = lanes_now();
    redlock_code code = redlock_release(lane->lease, released, lane);
    if (code != REDLOCK_OK)
        cli_fail_start(lane->lanes->cli, lane->lanes->client, code, lane->key);
}

static void lost(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct lane *lane = arg;
    (void)lease;
    (void)result;
    lane->lost = true; /* nothing is heard of it any more */
}

static void acquired(redlock_lease *lease, const redlock_result *result, void *arg)
{
    const struct timeval pause = {PAUSE_MS / 1000, PAUSE_MS % 1000 * 1000};
    struct lane *lane = arg;
    (void)lease;
    lane->cycle.acquire_us = lanes_now() - lane->cycle.begun_us;
    lane->cycle.acquired = *result;
    lane->state = LANE_HOLDING;
    if (cycle_is_held(&lane->cycle))
        return;
    hear_nodes(lane);
    cycle_drop_late(&lane->cycle);
    lane->state = LANE_PAUSING;
    end_cycle(lane);
    event_add(lane->pause, &pause);
}

static void begin_cycle(struct lane *lane)
{
    struct lanes *lanes = lane->lanes;
    redlock_lease_options options = lanes->cli->lease;
    lane->cycle = (struct cycle){.lane = lane->index, .release_us = -1};
    if (!lanes->may_begin(lanes->arg, &lane->cycle)) {
        lane->state = LANE_IDLE;
        lanes->busy--;
        return;
    }
    options.wait_ms = 0;
    options.retry = REDLOCK_RETRY_NONE;
    options.watchdog = false;
    options.on_lost = lost;
    options.lost_arg = lane;
    lane->state = LANE_ACQUIRING;
    lane->lost = false;
    lane->cycle.begun_us = lanes_now();
    redlock_code code = redlock_acquire(lanes->client, lane->key, strlen(lane->key),
                                        &options, acquired, lane, &lane->lease);
    if (code != REDLOCK_OK)
        cli_fail_start(lanes->cli, lanes->client, code, lane->key);
}

/* --- all of them --- */

/* No two runs have keys in common, nor one with anybody's locks. */
void lanes_init(struct lanes *lanes, unsigned count)
{
    uint64_t random;
    lanes->count = count;
    lanes->lane = calloc(count, sizeof(*lanes->lane));
    if (!lanes->lane)
        cli_fail(CLI_FAILED, "out of memory");
    if (getrandom(&random, sizeof(random), 0) != sizeof(random))
        cli_fail(CLI_FAILED, "no random numbers");
    for (unsigned i = 0; i < count; i++) {
        struct lane *lane = &lanes->lane[i];
        lane->lanes = lanes;
        lane->index = i;
        snprintf(lane->key, sizeof(lane->key), "redlock-bench:%016" PRIx64 ":%u", random,
                 i);
        lane->pause = evtimer_new(lanes->base, pause_ended, lane);
        if (!lane->pause)
            cli_fail(CLI_FAILED, "out of memory");
    }
}

void lanes_begin(struct lanes *lanes, unsigned first, unsigned end)
{
    for (unsigned i = first; i < end; i++) {
        lanes->busy++;
        begin_cycle(&lanes->lane[i]);
    }
}

void lanes_cancel(struct lanes *lanes)
{
    for (unsigned i = 0; i < lanes->count; i++)
        if (lanes->lane[i].state == LANE_ACQUIRING)
            redlock_cancel(lanes->lane[i].lease);
}

/* No callback tells when the last node has answered: it is looked at after each pass. */
void lanes_run(struct lanes *lanes)
{
    while (lanes->busy > 0) {
        if (event_base_loop(lanes->base, EVLOOP_ONCE) != 0)
            cli_fail(CLI_FAILED, "the event loop failed");
        for (unsigned i = 0; i < lanes->count; i++) {
            struct lane *lane = &lanes->lane[i];
            if (lane->state == LANE_HOLDING && (hear_nodes(lane) || lane->lost))
                release(lane);
        }
    }
}

void lanes_free(struct lanes *lanes)
{
    for (unsigned i = 0; i < lanes->count; i++)
        event_free(lanes->lane[i].pause);
    free(lanes->lane);
    lanes->lane = NULL;
}
