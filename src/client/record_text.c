#include "recorder.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "explain.h"

#define FORMAT_VERSION 1

#define LINE_ROOM   2048 /* bytes; a longer line is cut */
#define SET_ROOM    (3 * RL_NODES_MAX)
#define TOKEN_AT    2   /* after the mark of its kind */
#define TOKEN_SHOWN 4   /* bytes of a token */
#define SHOWN       128 /* bytes of a key or a URI */
#define BYTES_ROOM  (4 * SHOWN + 1)

/* --- lines --- */

/* The text is made twice: first only counted, then written from `from` on, if it fits. */
struct lines {
    rl_time began;
    char *text;
    size_t room, total;
    size_t len;  /* of all lines up to now */
    size_t from; /* how much of that was left out */
};

__attribute__((format(printf, 3, 4))) static void add_line(struct lines *lines, rl_time at,
                                                           const char *format, ...)
{
    char line[LINE_ROOM];
    size_t room = sizeof(line) - 1; /* for the end of the line */
    int begun = snprintf(line, room, "%" PRId64 " ", at - lines->began);
    va_list values;
    va_start(values, format);
    int more = vsnprintf(line + begun, room - (size_t)begun, format, values);
    va_end(values);
    size_t len = (size_t)rl_min(begun + more, (int)room - 1);
    line[len++] = '\n';
    if (lines->total - lines->len >= lines->room)
        lines->from = lines->len + len;
    else
        memcpy(lines->text + lines->len - lines->from, line, len);
    lines->len += len;
}

/* "0,2,3"; "-": no node */
static const char *show_set(rl_node_set set, char ret_text[SET_ROOM])
{
    char *end = ret_text;
    strcpy(ret_text, "-");
    for (rl_node_set rest = set; rest; rest &= rest - 1)
        end += sprintf(end, "%s%u", end == ret_text ? "" : ",", rl_first(rest));
    return ret_text;
}

/* A value has no spaces: such bytes become \xNN. */
static const char *show_bytes(struct rl_word bytes, char ret_text[BYTES_ROOM])
{
    char *end = ret_text;
    *end = '\0';
    for (size_t i = 0; i < bytes.len && i < SHOWN; i++) {
        unsigned char byte = (unsigned char)bytes.text[i];
        bool is_plain = byte > ' ' && byte < 0x7f && byte != '\\';
        end += sprintf(end, is_plain ? "%c" : "\\x%02x", byte);
    }
    return ret_text;
}

/* --- names --- */

static const char *vote_name(unsigned vote)
{
    return redlock_verdict_name(rl_verdict_of_vote(vote));
}

static const char *link_name(unsigned state)
{
    return redlock_verdict_name(rl_verdict_of_link(state));
}

static const char *const command_names[] = {
    [RL_CMD_ACQUIRE] = "acquire",
    [RL_CMD_RAISE_FENCE] = "raise_fence",
    [RL_CMD_EXTEND] = "extend",
    [RL_CMD_RELEASE] = "release",
};

/* Only of the events that are recorded as steps. */
static const char *const event_names[] = {
    [RL_EVENT_READY] = "ready",
    [RL_EVENT_RESTARTED] = "restarted",
    [RL_EVENT_TICK] = "tick",
};

static const char *const lease_names[] = {
    [RL_LEASE_NEW] = "new",           [RL_LEASE_ACQUIRING] = "acquiring",
    [RL_LEASE_ABORTING] = "aborting", [RL_LEASE_HELD] = "held",
    [RL_LEASE_LOST] = "lost",         [RL_LEASE_RELEASING] = "releasing",
    [RL_LEASE_CLEANUP] = "cleanup",   [RL_LEASE_OVER] = "over",
};

static const char *const cause_names[] = {
    [RL_CAUSE_NONE] = "NONE",           [RL_CAUSE_TAKEN] = "TAKEN",
    [RL_CAUSE_NO_QUORUM] = "NO_QUORUM", [RL_CAUSE_EXPIRED] = "EXPIRED",
    [RL_CAUSE_CANCELLED] = "CANCELLED", [RL_CAUSE_GONE] = "GONE",
    [RL_CAUSE_MAX_HOLD] = "MAX_HOLD",   [RL_CAUSE_UNCONFIRMED] = "UNCONFIRMED",
};

static const char *const what_names[] = {
    [RL_RECORD_ACQUIRE] = "acquire", [RL_RECORD_ADOPT] = "adopt",
    [RL_RECORD_EXTEND] = "extend",   [RL_RECORD_LOSS] = "loss",
    [RL_RECORD_RELEASE] = "release", [RL_RECORD_CANCEL] = "cancel",
    [RL_RECORD_DISOWN] = "disown",   [RL_RECORD_FREE] = "free",
};

static const char *const link_event_names[] = {
    [RL_LINK_TICK] = "tick",       [RL_LINK_CONNECTED] = "connected",
    [RL_LINK_GREETED] = "greeted", [RL_LINK_SENT] = "sent",
    [RL_LINK_ANSWERED] = "reply",  [RL_LINK_FAULT] = "fault",
    [RL_LINK_FAILED] = "failed",
};

/* --- events --- */

#define LEASE_ROOM 40

/* "lease=7 attempt=1" */
static const char *show_lease(uint32_t number, char ret_text[LEASE_ROOM])
{
    sprintf(ret_text, "lease=%u attempt=%u", number >> 8, number & 0xff);
    return ret_text;
}

static void add_sent(struct lines *lines, const struct rl_record *record)
{
    char lease[LEASE_ROOM], nodes[SET_ROOM], key[BYTES_ROOM], more[BYTES_ROOM + 10];
    if (record->head.what == RL_CMD_ACQUIRE) {
        const char *end = (const char *)(&record->sent.key_end + 1);
        size_t len = rl_min(record->sent.key_len, sizeof(record->sent.key_end));
        struct rl_word bytes = {end - len, len};
        snprintf(more, sizeof(more), "key_end=%s", show_bytes(bytes, key));
    } else {
        snprintf(more, sizeof(more), "recreate=%d", record->sent.recreate);
    }
    add_line(lines, record->at, "sent %s command=%s round=%" PRIu32 " nodes=%s state=%s %s",
             show_lease(record->lease, lease), command_names[record->head.what],
             record->sent.round, show_set(record->sent.nodes, nodes),
             lease_names[record->head.state], more);
}

static void add_reply(struct lines *lines, const struct rl_record *record)
{
    char lease[LEASE_ROOM];
    const struct rl_lease_event *event = &record->event;
    add_line(lines, record->at,
             "reply %s node=%u command=%s round=%" PRIu32
             " vote=%s fault=%s pttl_ms=%" PRId32 " fence=%" PRId64,
             show_lease(record->lease, lease), event->node, command_names[event->command],
             event->seq, vote_name(event->vote), rl_fault_name(event->fault), event->pttl,
             event->fence);
}

static void add_step(struct lines *lines, const struct rl_record *record)
{
    char lease[LEASE_ROOM], granted[SET_ROOM], waiting[SET_ROOM], missing[SET_ROOM];
    char node[16] = "-";
    if (record->step.by != RL_EVENT_TICK)
        sprintf(node, "%u", record->head.node);
    add_line(lines, record->at,
             "step %s by=%s node=%s state=%s cause=%s granted=%s waiting=%s missing=%s",
             show_lease(record->lease, lease), event_names[record->step.by], node,
             lease_names[record->step.state], cause_names[record->step.cause],
             show_set(record->step.granted, granted),
             show_set(record->step.waiting, waiting),
             show_set(record->step.missing, missing));
}

/* "loss,extend" */
#define REPORTS_ROOM 80

static const char *show_reports(unsigned reports, char ret_text[REPORTS_ROOM])
{
    static const char *const names[] = {"loss",         "acquire", "attempt",
                                        "no_extension", "extend",  "watchdog_extend",
                                        "release"};
    char *end = ret_text;
    for (unsigned rest = reports; rest; rest &= rest - 1)
        end += sprintf(end, "%s%s", end == ret_text ? "" : ",", names[rl_first(rest)]);
    return ret_text;
}

static void add_result(struct lines *lines, const struct rl_record *record)
{
    char lease[LEASE_ROOM], reports[REPORTS_ROOM];
    add_line(lines, record->at, "result %s of=%s cause=%s valid_until=%" PRId64,
             show_lease(record->lease, lease), show_reports(record->head.what, reports),
             cause_names[record->head.state], record->until - lines->began);
}

static void add_event(struct lines *lines, const struct rl_record *record)
{
    char nodes[SET_ROOM];
    unsigned lease = record->lease >> 8;
    rl_time at = record->at;
    switch (record->head.type) {
    case RL_RECORD_SENT: add_sent(lines, record); break;
    case RL_RECORD_REPLY: add_reply(lines, record); break;
    case RL_RECORD_STEP: add_step(lines, record); break;
    case RL_RECORD_RESULT: add_result(lines, record); break;
    case RL_RECORD_ASKED:
        add_line(lines, at, "asked lease=%u what=%s ms=%" PRId64, lease,
                 what_names[record->head.what], record->ms);
        break;
    case RL_RECORD_TOLD:
        add_line(lines, at, "told lease=%u what=%s code=%s valid_ms=%" PRId64, lease,
                 what_names[record->head.what], redlock_code_name(record->head.state),
                 record->ms);
        break;
    case RL_RECORD_DELAYED:
        add_line(lines, at, "delayed lease=%u until=%" PRId64, lease,
                 record->until == RL_NEVER ? -1 : record->until - lines->began);
        break;
    case RL_RECORD_NOTIFIED:
        add_line(lines, at, "notified lease=%u node=%u position=%u", lease,
                 record->head.node, record->head.state);
        break;
    case RL_RECORD_LINK:
        add_line(lines, at, "link node=%u by=%s state=%s fault=%s restarted=%d",
                 record->head.node, link_event_names[record->head.what],
                 link_name(record->head.state), rl_fault_name(record->link.fault),
                 record->link.restarted);
        break;
    case RL_RECORD_SUBSCRIBED:
        add_line(lines, at, "subscribed node=%u on=%u", record->head.node,
                 record->head.state);
        break;
    case RL_RECORD_STARTUP:
        add_line(lines, at, "startup ready=%s", show_set(record->nodes, nodes));
        break;
    case RL_RECORD_MEMBERS:
        add_line(lines, at, "members active=%s", show_set(record->nodes, nodes));
        break;
    default: break;
    }
    if (rl_record_lines(record) > 1)
        add_result(lines, record);
}

static void add_events(struct lines *lines, const struct rl_recorder *recorder)
{
    const struct rl_record *record = recorder->next;
    for (unsigned i = 0; i < RL_RECORDS; i++, record = record->next)
        add_event(lines, record);
}

/* --- the client, its leases and its nodes --- */

static void add_client(struct lines *lines, const redlock_client *client)
{
    const struct rl_recorder *recorder = &client->loop.recorder;
    const redlock_options *options = &client->options;
    bool is_full = recorder->next->head.type != RL_RECORD_NONE;
    add_line(lines, client->loop.now, "record format=%d version=%s full=%d", FORMAT_VERSION,
             redlock_version(), is_full);
    add_line(lines, client->loop.now,
             "client nodes=%u quorum=%u drift_ppm=%" PRIu32 " node_timeout_ms=%" PRId64
             " connect_timeout_ms=%" PRId64 " max_ttl_ms=%" PRId64 " durable=%d",
             client->nodes.n, client->nodes.q, options->drift_ppm, options->node_timeout_ms,
             options->connect_timeout_ms, options->max_ttl_ms, options->durable);
}

/* "granted,silent:timeout,..." of the last round, node by node */
#define VOTES_ROOM (32 * RL_NODES_MAX)

static const char *show_votes(const struct rl_lease *lease, char ret_text[VOTES_ROOM])
{
    char *end = ret_text, *limit = ret_text + VOTES_ROOM;
    for (unsigned i = 0; i < lease->params->n; i++) {
        const struct rl_ballot *ballot = &lease->ballot[i];
        bool faulty = ballot->fault != RL_FAULT_NONE;
        end += snprintf(end, (size_t)(limit - end), "%s%s%s%s", i > 0 ? "," : "",
                        vote_name(ballot->vote), faulty ? ":" : "",
                        faulty ? rl_fault_name(ballot->fault) : "");
    }
    return ret_text;
}

static void add_lease(struct lines *lines, const redlock_client *client,
                      const struct rl_lease_line *line)
{
    static const char *const retries[] = {
        [REDLOCK_RETRY_EXPONENTIAL] = "exponential",
        [REDLOCK_RETRY_FIXED] = "fixed",
        [REDLOCK_RETRY_NONE] = "none",
        [REDLOCK_RETRY_CUSTOM] = "custom",
    };
    char number[LEASE_ROOM], key[BYTES_ROOM], votes[VOTES_ROOM];
    const redlock_lease_options *options = line->options;
    const struct rl_lease *lease = line->lease;
    bool has_token = line->token.len >= TOKEN_AT + 2 * TOKEN_SHOWN;
    add_line(lines, client->loop.now,
             "lease %s key=%s token=%.*s kind=%s fenced=%d ttl_ms=%" PRId64
             " wait_ms=%" PRId64 " min_validity_ms=%" PRId64 " margin_ms=%" PRId64
             " watchdog=%d max_hold_ms=%" PRId64 " retry=%s retry_base_ms=%" PRId64
             " retry_cap_ms=%" PRId64 " state=%s cause=%s valid_until=%" PRId64 " votes=%s",
             show_lease(line->number, number), show_bytes(line->key, key),
             has_token ? TOKEN_SHOWN : 0, line->token.text + TOKEN_AT,
             redlock_kind_name(options->kind), options->fenced, options->ttl_ms,
             options->wait_ms, options->min_validity_ms, options->margin_ms,
             options->watchdog, options->max_hold_ms, retries[options->retry],
             options->retry_base_ms, options->retry_cap_ms, lease_names[lease->state],
             cause_names[lease->cause], lease->timed ? lease->valid - lines->began : -1,
             show_votes(lease, votes));
}

static void add_leases(struct lines *lines, const redlock_client *client)
{
    const struct rl_task *task;
    struct rl_lease_line line;
    TAILQ_FOREACH (task, &client->loop.list, in_loop)
        if (!task->dead && task->class->describe) {
            task->class->describe(task, &line);
            add_lease(lines, client, &line);
        }
}

static void add_nodes(struct lines *lines, const redlock_client *client)
{
    for (unsigned i = 0; i < client->nodes.n; i++) {
        const struct rl_node *node = &client->nodes.node[i];
        struct rl_word uri = {node->uri.shown, strlen(node->uri.shown)};
        const char *member = client->members.membership.active
                                 ? rl_fault_name(rl_members_fault(&client->members, i))
                                 : "-";
        char text[BYTES_ROOM];
        add_line(lines, client->loop.now,
                 "node node=%u uri=%s state=%s fault=%s round_trip_us=%" PRId64
                 " failures=%u member=%s",
                 i, show_bytes(uri, text), link_name(node->link.state),
                 rl_fault_name(node->link.fault), node->link.round_trip,
                 node->link.failures, member);
    }
}

static void add_all(struct lines *lines, const redlock_client *client)
{
    lines->len = 0;
    add_client(lines, client);
    add_leases(lines, client);
    add_events(lines, &client->loop.recorder);
    add_nodes(lines, client);
}

size_t redlock_client_record(const redlock_client *client, char *text, size_t room)
{
    struct lines lines = {.began = client->loop.recorder.began, .total = SIZE_MAX};
    add_all(&lines, client);
    lines.total = lines.len;
    lines.room = room;
    lines.text = text;
    lines.from = 0;
    add_all(&lines, client);
    if (room > 0)
        text[lines.len - lines.from] = '\0';
    return lines.len;
}
