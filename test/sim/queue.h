/* What will happen, in the order of the true time; what was planned first, first. */
#ifndef RL_SIM_QUEUE_H
#define RL_SIM_QUEUE_H

#include "core/types.h"

enum event_type {
    EVENT_CONNECTED,  /* what: the connection that a client asked for */
    EVENT_ARRIVED,    /* what: the order that reached a server's socket */
    EVENT_ANSWERED,   /* what: the order whose answer reached its client */
    EVENT_CLOSED,     /* what: the connection that its client sees ended */
    EVENT_SUBSCRIBED, /* who: a client; what: this and the next three: see ear.c */
    EVENT_HEARS,
    EVENT_CALLED,
    EVENT_DEAF,
    EVENT_WAKE,   /* who: a client; what: the number of its timer */
    EVENT_RETURN, /* who: a client that crashed comes back */
    EVENT_RESUME, /* who: a server; what: its process, that goes on or is there again */
    EVENT_FAULT,  /* something goes wrong */
    EVENT_CLOCK,  /* who: a server, whose clock runs as it should again; what: retuned */
};

struct event {
    rl_time at;
    uint32_t number;
    uint8_t type, who;
    uint32_t what;
};

#define QUEUE_MAX 4096

struct queue {
    uint32_t planned; /* ever */
    unsigned size;
    struct event heap[QUEUE_MAX];
};

void queue_plan(struct queue *queue, rl_time at, enum event_type type, unsigned who,
                uint32_t what);

/* It was taken too early; it stays before what was planned after it. */
void queue_postpone(struct queue *queue, const struct event *event, rl_time at);

/* NULL: nothing is planned. */
const struct event *queue_first(const struct queue *queue);
struct event queue_take(struct queue *queue);

#endif
