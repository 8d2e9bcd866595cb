#include "holder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lease/hand_over.h"
#include "nodes.h"
#include "sim/virtual/network.h"

#define EVENTS_MAX 10000     /* before time passes */
#define ZERO       VIRTUAL_S /* true time at time 0 of the story */
#define KEY        "job"
#define TOKEN      "p23456723456723456723456723456723" /* that is adopted */

struct holder holder;

/* --- callbacks --- */

/* The reports of one operation. */
struct operation {
    enum rl_report done, failed;
};

static struct operation acquiring = {RL_REPORT_HELD, RL_REPORT_FAILED},
                        extending = {RL_REPORT_EXTENDED, RL_REPORT_NOT_EXTENDED},
                        releasing = {RL_REPORT_RELEASED, RL_REPORT_RELEASED},
                        losing = {RL_REPORT_LOST, RL_REPORT_LOST};

static void on_told(redlock_lease *lease, const redlock_result *result, void *arg)
{
    const struct operation *operation = arg;
    enum rl_report what = result->code ? operation->failed : operation->done;
    (void)lease;
    holder.reports |= what;
    holder.code[__builtin_ctz(what)] = result->code;
}

/* --- verbs --- */

enum verb { ACQUIRE, JOIN, CANCEL, EXTEND, RELEASE, ADOPT, DISOWN, STAND_STILL, WAKE_UP };

static const char *const verbs[] = {
    [ACQUIRE] = "acquire", [JOIN] = "join the queue",     [CANCEL] = "cancel",
    [EXTEND] = "extend",   [RELEASE] = "release",         [ADOPT] = "adopt",
    [DISOWN] = "disown",   [STAND_STILL] = "stand still", [WAKE_UP] = "wake up",
};

struct action {
    enum verb verb;
    int64_t ms;
    bool and_cancels; /* in the same iteration of the loop */
};

static redlock_code act(const struct action *action)
{
    const size_t len = strlen(KEY);
    redlock_lease_options *options = &holder.terms.lease;
    switch (action->verb) {
    case ACQUIRE:
        return redlock_acquire(holder.client, KEY, len, options, on_told, &acquiring,
                               &holder.lease);
    case JOIN: {
        struct rl_hand_over tail = {.fences = 1, .joins_tail = true};
        const redlock_key one = {KEY, len};
        options->wait_ms = REDLOCK_FOREVER;
        options->retry = REDLOCK_RETRY_FIXED;
        return rl_hand_over_acquire(holder.client, &one, 1, options, &tail, on_told,
                                    &acquiring, &holder.lease);
    }
    case EXTEND: return redlock_extend(holder.lease, action->ms, on_told, &extending);
    case RELEASE: return redlock_release(holder.lease, on_told, &releasing);
    case ADOPT:
        return redlock_adopt(holder.client, KEY, len, TOKEN, REDLOCK_UNKNOWN, options,
                             &holder.lease);
    case CANCEL: redlock_cancel(holder.lease); break;
    case DISOWN: redlock_disown(holder.lease); break;
    case STAND_STILL: process_stop(&holder.process, ZERO + action->ms * VIRTUAL_MS); break;
    case WAKE_UP: break;
    }
    return REDLOCK_OK;
}

static void call(void *arg)
{
    const struct action *action = arg;
    holder.refused = act(action);
    if (action->and_cancels)
        redlock_cancel(holder.lease);
}

bool holder_do(const char *words, int64_t ms)
{
    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
        if (strncmp(words, verbs[i], strlen(verbs[i])) == 0) {
            struct action action = {i, ms, strstr(words, "and cancel")};
            process_call(&holder.process, call, &action);
            return true;
        }
    return false;
}

const struct rl_attempt *holder_attempt(void)
{
    return holder.lease ? holder.lease->attempt : NULL;
}

/* --- time --- */

static void fail(const char *why)
{
    fprintf(stderr, "%s\n", why);
    exit(2);
}

void holder_run(int64_t until)
{
    for (unsigned events = 0; events_step(ZERO + until); events++)
        if (events == EVENTS_MAX)
            fail("the events never end");
}

int64_t holder_ms(rl_time time)
{
    int64_t ahead = virtual_clock_read(&holder.process.slewed, events_now()) - events_now();
    return (time * VIRTUAL_US - ahead - ZERO + EARLY) / VIRTUAL_MS;
}

/* --- the beginning and the end --- */

static void make(void *arg)
{
    char text[RL_NODES_MAX][32];
    const char *uris[RL_NODES_MAX];
    (void)arg;
    for (unsigned i = 0; i < holder.terms.n; i++) {
        snprintf(text[i], sizeof(text[i]), "redis://10.0.0.%u", i + 1);
        uris[i] = text[i];
    }
    if (redlock_client_new(process_loop(&holder.process), uris, holder.terms.n,
                           &holder.terms.client, &holder.client) != REDLOCK_OK)
        fail(redlock_last_error()->text);
    if (holder.terms.is_subscribed)
        rl_notifications_start(&holder.client->notifications);
}

void holder_begin(const struct terms *terms)
{
    holder = (struct holder){.terms = *terms};
    redlock_lease_options *lease = &holder.terms.lease;
    lease->on_lost = lease->on_extended = on_told;
    lease->lost_arg = &losing;
    lease->extended_arg = &extending;
    events_begin(1);
    network_begin();
    nodes_begin(terms->n);
    process_begin(&holder.process, "host", 1);
    holder.process.wake_max = 0;
    process_call(&holder.process, make, NULL);
    holder_run(0);
}

static void free_all(void *arg)
{
    (void)arg;
    redlock_lease_free(holder.lease);
    redlock_client_free(holder.client);
}

void holder_end(void)
{
    if (!holder.client)
        return;
    process_call(&holder.process, free_all, NULL);
    if (holder.process.blocks > 0)
        fail("memory is left");
    process_end(&holder.process);
    nodes_end();
    network_end();
    events_end();
}
