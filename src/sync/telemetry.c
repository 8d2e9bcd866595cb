#include "telemetry.h"

#include <stdlib.h>
#include <string.h>

#include "sync.h"

#define WAITING_MAX 4096 /* more events than that are dropped */

/* --- log and trace --- */

/* A copy of an event, or of a span, with all its texts. */
struct report {
    struct rl_job job;
    struct rl_sync_telemetry *telemetry;
    bool is_span;
    redlock_event event;
    redlock_span span;
    redlock_field field[]; /* the texts follow them */
};

/* The client's thread, with the mutex held: the user is called without it. */
static void call(struct rl_loop_owner *loop, struct rl_job *job)
{
    struct report *report = (struct report *)job;
    const struct rl_sync_telemetry *telemetry = report->telemetry;
    report->telemetry->waiting--;
    rl_loop_owner_unlock(loop);
    if (report->is_span)
        telemetry->trace(&report->span, telemetry->trace_arg);
    else
        telemetry->log(&report->event, telemetry->log_arg);
    rl_loop_owner_lock(loop);
    free(report);
}

static void post(struct rl_sync_telemetry *telemetry, struct report *report)
{
    rl_loop_owner_lock(telemetry->loop);
    if (report && telemetry->waiting < WAITING_MAX) {
        report->job.run = call;
        report->telemetry = telemetry;
        telemetry->waiting++;
        rl_job_post_report(telemetry->loop, &report->job);
    } else {
        telemetry->dropped++;
        free(report);
    }
    rl_loop_owner_unlock(telemetry->loop);
}

static const char *copy_text(char **end, const char *text, size_t len)
{
    char *copy = memcpy(*end, text, len);
    copy[len] = '\0';
    *end += len + 1;
    return copy;
}

/* The loop owner, without the mutex. Names are constants. */
static void telemetry_on_event(const redlock_event *event, void *arg)
{
    size_t room = sizeof(struct report) + event->count * sizeof(redlock_field);
    for (size_t i = 0; i < event->count; i++)
        room += event->fields[i].text ? event->fields[i].len + 1 : 0;
    struct report *report = calloc(1, room);
    if (report) {
        char *end = (char *)(report->field + event->count);
        report->event = *event;
        report->event.fields = report->field;
        for (size_t i = 0; i < event->count; i++) {
            report->field[i] = event->fields[i];
            if (event->fields[i].text)
                report->field[i].text =
                    copy_text(&end, event->fields[i].text, event->fields[i].len);
        }
    }
    post(arg, report);
}

static void on_span(const redlock_span *span, void *arg)
{
    struct report *report = calloc(1, sizeof(*report) + span->key_len + 1);
    if (report) {
        char *end = (char *)report->field;
        report->is_span = true;
        report->span = *span;
        report->span.key = copy_text(&end, span->key, span->key_len);
    }
    post(arg, report);
}

void rl_sync_telemetry_init(struct rl_sync_telemetry *telemetry, struct rl_loop_owner *loop,
                            redlock_options *options)
{
    *telemetry = (struct rl_sync_telemetry){
        .loop = loop,
        .log = options->log,
        .log_arg = options->log_arg,
        .trace = options->trace,
        .trace_arg = options->trace_arg,
    };
    options->log = options->log ? telemetry_on_event : NULL;
    options->trace = options->trace ? on_span : NULL;
    options->log_arg = options->trace_arg = telemetry;
}

/* --- numbers --- */

struct question {
    struct rl_call call;
    const redlock_sync *sync;
    redlock_stats *stats;
};

static void telemetry_answer(struct rl_loop_owner *loop, struct rl_job *job)
{
    struct question *question = (struct question *)job;
    redlock_stats *stats = question->stats;
    redlock_code code = redlock_client_stats(question->sync->leases.client, stats);
    if (code != REDLOCK_OK)
        question->call.wait.error = *redlock_last_error();
    else
        stats->events_dropped += question->sync->telemetry.dropped;
    rl_loop_owner_finish_wait(loop, &question->call.wait, code);
}

redlock_code redlock_sync_stats(redlock_sync *sync, redlock_stats *stats)
{
    struct question question = {
        .call.job.run = telemetry_answer, .sync = sync, .stats = stats};
    redlock_code code = rl_loop_owner_may_wait(sync ? &sync->loop : NULL);
    return code == REDLOCK_OK ? rl_loop_owner_request(&sync->loop, &question.call) : code;
}
