/*
 * The flight recorder: the last RL_RECORDS events of a client, in memory of fixed size. It
 * is always on, so an event on the usual path must cost only some ten instructions. The
 * text is made when it is asked for; docs/recorder.md describes its lines.
 */
#ifndef RL_RECORDER_H
#define RL_RECORDER_H

#include "core/lease.h"
#include "redlock/redlock.h"

#define RL_RECORDS 256

enum rl_record_type {
    RL_RECORD_NONE, /* nothing was recorded here yet */
    RL_RECORD_SENT,
    RL_RECORD_REPLY,
    RL_RECORD_STEP,
    RL_RECORD_RESULT,
    RL_RECORD_ASKED,
    RL_RECORD_TOLD,
    RL_RECORD_DELAYED,
    RL_RECORD_NOTIFIED,
    RL_RECORD_LINK,
    RL_RECORD_SUBSCRIBED,
    RL_RECORD_STARTUP,
    RL_RECORD_MEMBERS,
};

/* The caller's requests, and the reports to it. */
enum rl_record_what {
    RL_RECORD_ACQUIRE,
    RL_RECORD_ADOPT,
    RL_RECORD_EXTEND,
    RL_RECORD_LOSS,
    RL_RECORD_RELEASE,
    RL_RECORD_CANCEL,
    RL_RECORD_DISOWN,
    RL_RECORD_FREE,
};

/*
 * One event. "event" is an enum rl_lease_event_type: why the lease machine makes a step.
 *
 *     type        what     node           state     other members
 *     SENT        command                 of lease  sent
 *     REPLY       reports                 cause     event: a vote, also if no reply came
 *     STEP        reports  if it has one  cause     step: before a step, by anything else
 *     RESULT      reports                 cause     until: the deadline
 *     ASKED       what                              ms: a TTL, a validity, or 0
 *     TOLD        what                    code      ms: the validity
 *     DELAYED                                       until: the next attempt
 *     NOTIFIED             node           position
 *     LINK        event    node           of link   link; "event" is of the link
 *     SUBSCRIBED           node           or not
 *     STARTUP                                       nodes: ready when the barrier opened
 *     MEMBERS                                       nodes: active from now on
 *
 * A REPLY and a STEP are also a RESULT if they have reports. States are those after the
 * event, but before a STEP. Members that are not listed keep old values.
 */
struct rl_record {
    struct rl_record *next; /* all are a ring: the oldest follows the newest */
    rl_time at;
    uint32_t lease; /* rl_record_lease(); 0: none */
    /* Bit-fields, because a store through a pointer to uint8_t could change any object, so
       that the compiler would read all of them again. Four, so that one store sets them. */
    struct rl_record_head {
        unsigned type : 8, what : 8, node : 8, state : 8;
    } head;
    rl_time until;
    union {
        struct {
            rl_node_set nodes;
            uint32_t round;
            uint64_t key_end; /* of an ACQUIRE: its last bytes, as they are in memory */
            uint16_t key_len; /* of an ACQUIRE: of the whole key */
            bool recreate;
        } sent;
        struct rl_lease_event event;
        struct {
            rl_node_set granted, waiting, missing;
            uint8_t by, state, cause;
        } step;
        struct {
            uint8_t fault;
            bool restarted;
        } link;
        int64_t ms;
        rl_node_set nodes;
    };
};

struct rl_recorder {
    rl_time began;          /* the times in the text count from here */
    struct rl_record *next; /* the oldest one: it is overwritten next */
    struct rl_record record[RL_RECORDS];
};

static inline void rl_recorder_init(struct rl_recorder *recorder, rl_time now)
{
    recorder->began = now;
    recorder->next = recorder->record;
    for (unsigned i = 0; i < RL_RECORDS; i++)
        recorder->record[i].next = &recorder->record[(i + 1) % RL_RECORDS];
}

/* How many lines of the text tell of it. */
static inline unsigned rl_record_lines(const struct rl_record *record)
{
    bool has_result =
        record->head.type == RL_RECORD_REPLY || record->head.type == RL_RECORD_STEP;
    return (record->head.type != RL_RECORD_NONE) + (has_result && record->head.what);
}

/* The number of a lease's first attempt: the lease's, and 1 in the last byte. Both wrap. */
static inline uint32_t rl_record_lease(uint64_t lease)
{
    return (uint32_t)lease << 8 | 1;
}

/* The lease's number again, which wraps at 2^24. */
static inline uint32_t rl_record_lease_of(uint32_t attempt)
{
    return attempt >> 8;
}

/* The number of a later attempt, from that of the first. */
static inline uint32_t rl_record_attempt(uint32_t first, unsigned retries)
{
    return (first & ~UINT32_C(0xff)) | ((retries + 1) & 0xff);
}

/*
 * Returns the record of a new event, which overwrites the oldest. `what`, `node` and
 * `state` are 0. The caller sets the members that belong to its type. `lease`: 0: none.
 */
static inline struct rl_record *rl_recorder_add(struct rl_recorder *recorder, rl_time now,
                                                enum rl_record_type type, uint32_t lease)
{
    struct rl_record *record = recorder->next;
    recorder->next = record->next;
    record->at = now;
    record->lease = lease;
    record->head = (struct rl_record_head){.type = type};
    return record;
}

/* The text's line of a lease that still exists, besides its events. */
struct rl_lease_line {
    uint32_t number; /* rl_record_lease() */
    const struct rl_lease *lease;
    const redlock_lease_options *options;
    struct rl_word key, token;
};

#endif
