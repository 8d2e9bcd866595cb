#include "history.h"

#include <stdlib.h>
#include <string.h>

#define US_NONE UINT32_MAX /* 71 minutes: longer times count as the longest below it */

struct history_cycle {
    int64_t begun_us;
    uint32_t acquire_us, release_us, valid_ms;
    uint8_t code, released;
};

struct history_node {
    uint32_t latency_us;
    uint8_t answer, fault;
};

bool history_init(struct history *history, unsigned n, size_t room)
{
    *history = (struct history){.n = n, .room = room};
    history->cycle = malloc(room * sizeof(*history->cycle));
    history->node = malloc(room * n * sizeof(*history->node));
    return history->cycle && history->node;
}

void history_free(struct history *history)
{
    free(history->cycle);
    free(history->node);
    *history = (struct history){0};
}

static uint32_t pack(int64_t us)
{
    return us < 0 ? US_NONE : us < US_NONE ? (uint32_t)us : US_NONE - 1;
}

static int64_t unpack(uint32_t us)
{
    return us == US_NONE ? -1 : (int64_t)us;
}

/* If there are too many texts, the last one stands for all others. */
static uint8_t number_of(struct history *history, const char *fault)
{
    uint8_t i = 0;
    while (fault && i < HISTORY_FAULTS &&
           (i == 0 || (history->fault[i] && strcmp(history->fault[i], fault) != 0)))
        i++;
    history->fault[i] = fault;
    return i;
}

void history_add(struct history *history, const struct cycle *cycle)
{
    history->cycle[history->next] = (struct history_cycle){
        .begun_us = cycle->begun_us,
        .acquire_us = pack(cycle->acquire_us),
        .release_us = pack(cycle->release_us),
        .valid_ms = (uint32_t)cycle->acquired.valid_ms,
        .code = (uint8_t)cycle->acquired.code,
        .released = (uint8_t)cycle->released,
    };
    for (unsigned i = 0; i < history->n; i++)
        history->node[history->next * history->n + i] = (struct history_node){
            .latency_us = pack(cycle->node[i].latency_us),
            .answer = (uint8_t)cycle->node[i].answer,
            .fault = number_of(history, cycle->node[i].fault),
        };
    history->next = (history->next + 1) % history->room;
    history->count += history->count < history->room;
    history->added++;
}

static size_t place_of(const struct history *history, size_t index)
{
    return (history->next + history->room - history->count + index) % history->room;
}

void history_get(const struct history *history, size_t index, struct cycle *ret_cycle)
{
    size_t place = place_of(history, index);
    const struct history_cycle *from = &history->cycle[place];
    ret_cycle->counted = true;
    ret_cycle->begun_us = from->begun_us;
    ret_cycle->acquire_us = unpack(from->acquire_us);
    ret_cycle->release_us = unpack(from->release_us);
    ret_cycle->acquired.code = (redlock_code)from->code;
    ret_cycle->acquired.valid_ms = from->valid_ms;
    ret_cycle->released = (redlock_code)from->released;
    for (unsigned i = 0; i < history->n; i++) {
        const struct history_node *node = &history->node[place * history->n + i];
        ret_cycle->node[i] = (struct cycle_node){
            .answer = (enum cycle_answer)node->answer,
            .latency_us = unpack(node->latency_us),
            .fault = history->fault[node->fault],
        };
    }
}

size_t history_from(const struct history *history, int64_t begun_us)
{
    size_t low = 0, high = history->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (history->cycle[place_of(history, middle)].begun_us < begun_us)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

size_t history_bytes(const struct history *history)
{
    return sizeof(*history) +
           history->room * (sizeof(*history->cycle) + history->n * sizeof(*history->node));
}
