#include "events.h"

#include <stdlib.h>
#include <string.h>

#define ROOM_LEAST ((size_t)4096)
#define ROOM_MOST  ((size_t)1 << 20) /* bytes that wait at most */
#define ALIGNMENT  _Alignof(struct rl_event)

/* --- adding --- */

static size_t size_of(const struct rl_event *event)
{
    size_t size = sizeof(*event) + event->word_len;
    return (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static bool grow(struct rl_events *events, size_t wanted)
{
    size_t room = events->room ? events->room : ROOM_LEAST;
    while (room < wanted)
        room *= 2;
    char *bytes = room <= ROOM_MOST ? realloc(events->bytes, room) : NULL;
    if (!bytes)
        return false;
    events->bytes = bytes;
    events->room = room;
    return true;
}

RL_RARE void rl_events_add(struct rl_events *events, const struct rl_event *event,
                           struct rl_word word)
{
    struct rl_event mine = *event;
    if (event->is_span ? !events->trace : !events->log)
        return;
    mine.word_len = word.len;
    size_t len = events->len + size_of(&mine);
    if (len > events->room && !grow(events, len)) {
        events->dropped++;
        return;
    }
    memcpy(events->bytes + events->len, &mine, sizeof(mine));
    if (word.len > 0)
        memcpy(events->bytes + events->len + sizeof(mine), word.text, word.len);
    events->len = len;
}

void rl_events_free(struct rl_events *events)
{
    free(events->bytes);
    events->bytes = NULL;
    events->at = events->len = events->room = 0;
}

/* --- passing on --- */

#define FIELDS_MAX 8

struct fields {
    redlock_field field[FIELDS_MAX];
    size_t count;
};

static void add_text(struct fields *fields, const char *name, const char *text, size_t len)
{
    fields->field[fields->count++] =
        (redlock_field){.name = name, .text = text, .len = len};
}

static void add_word(struct fields *fields, const char *name, const char *text)
{
    add_text(fields, name, text, strlen(text));
}

static void add_number(struct fields *fields, const char *name, int64_t number)
{
    fields->field[fields->count++] = (redlock_field){.name = name, .number = number};
}

static void add_node(struct fields *fields, const struct rl_event *event, const char *text)
{
    add_number(fields, "node", event->node);
    add_word(fields, "uri", event->uri);
    if (event->fault == RL_FAULT_NONE)
        return;
    add_word(fields, "fault", rl_fault_name(event->fault));
    add_text(fields, "text", text, event->word_len);
}

static void add_lease(struct fields *fields, const struct rl_event *event, const char *key)
{
    add_number(fields, "lease", (int64_t)event->lease);
    add_text(fields, "key", key, event->word_len);
    add_word(fields, "kind", redlock_kind_name(event->kind->type));
    add_number(fields, "fenced", event->kind->is_fenced);
    add_word(fields, "code", redlock_code_name(event->code));
    if (event->reason != REDLOCK_REASON_NONE)
        add_word(fields, "reason", redlock_reason_name(event->reason));
    if (event->type == REDLOCK_EVENT_ACQUIRE_FAILED) {
        add_number(fields, "attempts", event->attempts);
        add_number(fields, "duration_us", event->took);
    } else {
        add_number(fields, "valid_us", event->valid);
    }
}

static void pass_event(const struct rl_events *events, const struct rl_event *event,
                       const char *word)
{
    static const struct {
        const char *name;
        redlock_level level;
    } names[] = {
#define X(type, name, level) {name, REDLOCK_LEVEL_##level},
        REDLOCK_EVENTS(X)
#undef X
    };
    struct fields fields = {.count = 0};
    if (event->uri)
        add_node(&fields, event, word);
    else
        add_lease(&fields, event, word);
    events->log(
        &(redlock_event){
            .type = event->type,
            .level = names[event->type].level,
            .name = names[event->type].name,
            .fields = fields.field,
            .count = fields.count,
            .user = event->user,
        },
        events->log_arg);
}

static void pass_span(const struct rl_events *events, const struct rl_event *event,
                      const char *key)
{
    static const char *const operations[] = {
        [RL_OPERATION_ACQUIRE] = "acquire",
        [RL_OPERATION_EXTEND] = "extend",
        [RL_OPERATION_RELEASE] = "release",
        [RL_OPERATION_HOLD] = "hold",
    };
    events->trace(
        &(redlock_span){
            .ended = event->ended,
            .operation = operations[event->operation],
            .lease = event->lease,
            .key = key,
            .key_len = event->word_len,
            .kind = event->kind->type,
            .fenced = event->kind->is_fenced,
            .code = event->code,
            .attempts = event->attempts,
            .duration_us = event->took,
            .user = event->user,
        },
        events->trace_arg);
}

/* A callback may add more, and so move those that wait: it gets a copy. */
static void pass_first(struct rl_events *events)
{
    struct rl_event event;
    char word[REDLOCK_KEY_MAX + 1];
    memcpy(&event, events->bytes + events->at, sizeof(event));
    memcpy(word, events->bytes + events->at + sizeof(event), event.word_len);
    word[event.word_len] = '\0';
    events->at += size_of(&event);
    if (event.is_span)
        pass_span(events, &event, word);
    else
        pass_event(events, &event, word);
}

/*
 * A callback that frees the client passes on the rest: then nothing waits any more when it
 * returns.
 */
void rl_events_pass_on(struct rl_events *events)
{
    size_t end = events->len;
    while (events->at < end && end <= events->len)
        pass_first(events);
    if (events->at == 0)
        return;
    memmove(events->bytes, events->bytes + events->at, events->len - events->at);
    events->len -= events->at;
    events->at = 0;
}

const char *redlock_level_name(redlock_level level)
{
    static const char *const names[] = {"error", "warning", "info"};
    return level < sizeof(names) / sizeof(names[0]) ? names[level] : "?";
}
