/* The caller of a replay: its requests, and the options of its locks. */
#include <stdlib.h>
#include <string.h>

#include "client/recorder.h"
#include "lease/handle.h"
#include "replay_parts.h"

/* A lock of the dump. */
struct held {
    int64_t number;
    redlock_lease *handle;
    bool is_given_up; /* released, cancelled, disowned or freed */
    bool is_held, has_left_over;
};

static struct held held[RL_RECORDS];
static size_t count;

static struct held *find(int64_t number)
{
    for (size_t i = 0; i < count; i++)
        if (held[i].number == number)
            return &held[i];
    return NULL;
}

uint64_t replay_waiter(int64_t lease)
{
    const struct held *found = find(lease);
    return found && found->handle ? found->handle->waiting.number : 0;
}

/* --- options --- */

/* NULL: it was freed before the dump was made. */
static const struct line *line_of(int64_t number)
{
    const struct lines *lines = &player.dump->lease;
    for (size_t i = 0; i < lines->count; i++)
        if (line_number(&lines->line[i], "lease", 0) == number)
            return &lines->line[i];
    return NULL;
}

/* The first event of a lease that has this value. */
static const struct line *first_with(int64_t number, const char *event, const char *name,
                                     const char *value)
{
    for (size_t i = 0; i < player.dump->event.count; i++) {
        const struct line *line = player_event(i);
        if (line_is_named(line, event) && line_number(line, "lease", 0) == number &&
            line_is(line, name, value))
            return line;
    }
    return NULL;
}

/* From the deadline that it got; 0: it got none. */
static int64_t inferred_ttl(int64_t number)
{
    const struct line *result = first_with(number, "result", "of", "acquire");
    rl_time sent = -1;
    for (size_t i = 0; result && player_event(i) != result; i++)
        if (line_is_named(player_event(i), "sent") &&
            line_number(player_event(i), "lease", 0) == number)
            sent = player_event(i)->at;
    if (sent < 0)
        return 0;
    return dump_ttl_ms(player.dump, sent, result);
}

/* A custom policy returned what the dump has. */
static int64_t next_delay(unsigned attempt, uint64_t random, void *arg)
{
    (void)attempt;
    (void)arg;
    return random == 0 ? REDLOCK_GIVE_UP : (int64_t)random / RL_MS;
}

static void on_told(redlock_lease *lease, const redlock_result *result, void *arg)
{
    (void)lease;
    (void)result;
    (void)arg;
}

/* The recorder tells only if the caller wanted to know. */
static redlock_lease_fn *callback_for(int64_t number, const char *what)
{
    for (size_t i = 0; i < player.dump->event.count; i++)
        if (line_is_named(player_event(i), "told") &&
            line_number(player_event(i), "lease", 0) == number &&
            line_is(player_event(i), "what", what))
            return on_told;
    return NULL;
}

void replay_lease_options(int64_t number, redlock_lease_options *options)
{
    static const struct line none = {.name = "lease", .values = ""};
    const struct line *line = line_of(number);
    int64_t inferred = line ? 0 : inferred_ttl(number);
    line = line ? line : &none;
    redlock_lease_options_init(options);
    options->ttl_ms =
        inferred > 0 ? inferred : line_number(line, "ttl_ms", options->ttl_ms);
    options->wait_ms = line_number(line, "wait_ms", options->wait_ms);
    options->min_validity_ms = line_number(line, "min_validity_ms", 0);
    options->margin_ms = line_number(line, "margin_ms", 0);
    options->watchdog = line_number(line, "watchdog", options->watchdog);
    options->max_hold_ms = line_number(line, "max_hold_ms", 0);
    options->retry_base_ms = line_number(line, "retry_base_ms", options->retry_base_ms);
    options->retry_cap_ms = line_number(line, "retry_cap_ms", options->retry_cap_ms);
    options->retry = line_is(line, "retry", "none")     ? REDLOCK_RETRY_NONE
                     : line_is(line, "retry", "fixed")  ? REDLOCK_RETRY_FIXED
                     : line_is(line, "retry", "custom") ? REDLOCK_RETRY_CUSTOM
                                                        : REDLOCK_RETRY_EXPONENTIAL;
    options->retry_fn = next_delay;
    options->on_lost = callback_for(number, "loss");
}

/* A key of which only the end was recorded, or of which the end was cut off. */
static size_t key_of(int64_t number, char ret_key[2 * DUMP_VALUE])
{
    const struct line *line = line_of(number);
    size_t len = line ? line_bytes(line, "key", ret_key) : 0;
    for (size_t i = 0; i < player.dump->event.count; i++) {
        const struct line *sent = player_event(i);
        if ((len == 0 || len >= 128) && line_number(sent, "lease", 0) == number &&
            line_is_named(sent, "sent") && line_is(sent, "command", "acquire"))
            return len + line_bytes(sent, "key_end", ret_key + len);
    }
    return len;
}

/* --- requests --- */

static const struct line *request; /* the event that it belongs to */
static struct held *asked;

static void make(void *arg)
{
    char key[2 * DUMP_VALUE], token[REDLOCK_TOKEN_MAX + 1];
    redlock_lease_options options;
    size_t len = key_of(asked->number, key);
    (void)arg;
    replay_lease_options(asked->number, &options);
    player.client->leases = (uint64_t)asked->number - 1; /* it determines `spread` */
    if (!line_is_named(request, "asked") || !line_is(request, "what", "adopt")) {
        redlock_acquire(player.client, key, len, &options, on_told, NULL, &asked->handle);
        return;
    }
    memset(token, 'a', sizeof(token));
    token[0] = 'p';
    token[33] = '\0';
    redlock_adopt(player.client, key, len, token, line_number(request, "ms", 0), &options,
                  &asked->handle);
}

static void extend(void *arg)
{
    (void)arg;
    redlock_extend(asked->handle, line_number(request, "ms", 0), on_told, NULL);
}

static void cancel(void *arg)
{
    (void)arg;
    redlock_cancel(asked->handle);
}

static void disown(void *arg)
{
    (void)arg;
    redlock_disown(asked->handle);
}

static void release(void *arg)
{
    (void)arg;
    redlock_release(asked->handle, callback_for(asked->number, "release"), NULL);
}

static void free_lease(void *arg)
{
    (void)arg;
    redlock_lease_free(asked->handle);
    asked->handle = NULL;
}

bool replay_user_leaves_out(const struct line *event)
{
    struct held *lease = find(line_number(event, "lease", 0));
    const struct line *line = lease ? line_of(lease->number) : NULL;
    const struct line *next = event + 1, *end = player_event(0) + player.dump->event.count;
    char missing[DUMP_VALUE];
    bool follows = next < end && next->at == event->at;
    if (!line || !line_value(line, DUMP_MISSING, missing) || lease->has_left_over ||
        follows)
        return false;
    lease->has_left_over = line_is_named(event, "step") && line_is(event, "by", "tick");
    return lease->has_left_over;
}

static bool is_started(void)
{
    for (size_t i = 0; i < player.next; i++)
        if (line_is_named(player_event(i), "startup"))
            return true;
    return false;
}

static bool is_released_later(int64_t number)
{
    for (size_t i = player.next; i < player.dump->event.count; i++) {
        const struct line *event = player_event(i);
        if (line_number(event, "lease", 0) == number && line_is_named(event, "asked"))
            return false;
        if (line_number(event, "lease", 0) == number && line_is_named(event, "sent"))
            return line_is(event, "state", "releasing");
    }
    return false;
}

/*
 * A release is not recorded itself: it shows in what is sent and told. If it waits for the
 * startup, the lease has steps before.
 */
static bool is_of_release(const struct line *event)
{
    bool waits = line_is_named(event, "step") && line_is(event, "by", "tick") &&
                 line_is(event, "state", "held") && !is_started();
    return (waits && is_released_later(line_number(event, "lease", 0))) ||
           (line_is_named(event, "sent") && line_is(event, "state", "releasing")) ||
           (line_is_named(event, "result") && line_is(event, "of", "release")) ||
           (line_is_named(event, "told") && line_is(event, "what", "extend") &&
            line_is(event, "code", "CANCELLED"));
}

static void (*request_of(const struct line *event))(void *arg)
{
    static const struct {
        const char *what;
        void (*make)(void *arg);
        bool gives_up;
    } requests[] = {
        {"extend", extend, false},
        {"cancel", cancel, true},
        {"disown", disown, true},
        {"free", free_lease, true},
    };
    for (size_t i = 0; line_is_named(event, "asked") && i < 4; i++)
        if (line_is(event, "what", requests[i].what)) {
            asked->is_given_up |= requests[i].gives_up;
            return requests[i].make;
        }
    if (!is_of_release(event) || asked->is_given_up)
        return NULL;
    asked->is_given_up = true;
    return release;
}

/* The caller freed it when nothing was left to release: that is not recorded. */
static bool is_past(const struct held *lease)
{
    for (size_t i = player.next; i < player.dump->event.count; i++)
        if (line_number(player_event(i), "lease", 0) == lease->number)
            return false;
    return lease->handle && !line_of(lease->number);
}

/*
 * A lease that began before the dump is held by an acquire of the replay. Any node may
 * store its token, as after redlock_adopt(), but for those that the dump says do not.
 */
static void set_state(const struct held *lease)
{
    char missing[DUMP_VALUE];
    const struct line *line = line_of(lease->number);
    struct rl_lease *core = rl_handle_core(lease->handle);
    if (!line || !line_value(line, DUMP_MISSING, missing))
        return;
    core->missing = line_nodes(line, DUMP_MISSING);
    core->touched = core->dirty = core->extended = rl_all(core->params->n);
}

void replay_user_tidies(void)
{
    for (size_t i = 0; i < count; i++) {
        redlock_lease *handle = held[i].handle;
        const struct rl_lease *core = handle ? rl_handle_core(handle) : NULL;
        if (core && core->state == RL_LEASE_HELD && !held[i].is_held) {
            held[i].is_held = true;
            set_state(&held[i]);
        }
        asked = &held[i];
        if (is_past(asked))
            process_call(&player.process, free_lease, NULL);
    }
}

bool replay_user_acts(const struct line *event)
{
    int64_t number = line_number(event, "lease", 0);
    if (number == 0)
        return false;
    request = event;
    asked = find(number);
    if (!asked) {
        asked = &held[count++];
        *asked = (struct held){.number = number};
        process_call(&player.process, make, NULL);
        return true;
    }
    if (player.is_called || !asked->handle)
        return false;
    void (*call)(void *arg) = request_of(event);
    player.is_called = true;
    if (call)
        process_call(&player.process, call, NULL);
    return call != NULL;
}

/* --- its end --- */

static void free_all(void *arg)
{
    (void)arg;
    for (size_t i = 0; i < count; i++)
        redlock_lease_free(held[i].handle);
    count = 0;
}

void replay_user_begin(void)
{
    count = 0;
}

void replay_user_end(void)
{
    process_call(&player.process, free_all, NULL);
}
