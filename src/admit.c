/* Admitting nodes: what an operator wants is looked at, begun and waited for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wards.h"

#define LOOK_GAP (50 * RL_MS)

/* A page of the keys of our prefix: where the next one begins, and one of them. */
static const char page[] =
    "local page = redis.pcall('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', 1000)\n"
    "if page.err then return redis.error_reply('NOPERM ' .. page.err) end\n"
    "return {page[1], page[2][1] or ''}";

struct admit {
    struct rl_task task;
    redlock_admission how;
    unsigned newcomer;
    bool begun;
    rl_nodes scanning; /* these have not told all their keys yet */
    rl_time deadline;
    redlock_admit_fn *callback;
    void *arg;
    char text[REDLOCK_KEY_MAX + 16];
    char pattern[2 * REDLOCK_KEY_MAX + 2]; /* of our keys */
};

static struct admit *admit_of(struct rl_task *task)
{
    return (struct admit *)task;
}

static void finish(struct admit *admit, redlock_code code, int node, const char *text)
{
    redlock_client *client = admit->task.client;
    redlock_admitted result = {.code = code, .node = node, .text = text};
    client->admit = NULL;
    rl_admission_end(&client->steward);
    rl_task_end(&admit->task);
    admit->callback(client, &result, admit->arg);
    rl_client_called_back(client);
}

/* --- is anything there? --- */

static bool scan(struct admit *admit, unsigned node, struct rl_word cursor)
{
    struct rl_word word[] = {
        {"EVAL", 4},
        {page, sizeof(page) - 1},
        {"0", 1},
        cursor,
        {admit->pattern, strlen(admit->pattern)},
    };
    return rl_client_ask(admit->task.client, &admit->task, 0, word, 5, node);
}

/* The prefix to the letter, then anything. */
static void write_pattern(const char *prefix, char *pattern)
{
    for (; *prefix; prefix++) {
        if (strchr("*?[]\\^-", *prefix))
            *pattern++ = '\\';
        *pattern++ = *prefix;
    }
    strcpy(pattern, "*");
}

/* --- beginning --- */

static void refuse(struct admit *admit, enum rl_refusal refusal, unsigned node)
{
    static const redlock_code codes[] = {
        [RL_REFUSAL_UNSEEN] = REDLOCK_UNREACHED,    [RL_REFUSAL_USED] = REDLOCK_USED,
        [RL_REFUSAL_UNMARKED] = REDLOCK_UNADMITTED, [RL_REFUSAL_UNSOUND] = REDLOCK_UNSOUND,
        [RL_REFUSAL_MEMBERS] = REDLOCK_MEMBERS,
    };
    const redlock_client *client = admit->task.client;
    bool awake = node < client->n && client->awake & rl_bit(node);
    enum rl_fault fault = RL_FAULT_NONE;
    if (node < client->n)
        fault = awake ? rl_wards_fault(client, node) : client->member[node].link.fault;
    const char *text = refusal == RL_REFUSAL_USED ? "it has a marker"
                       : fault != RL_FAULT_NONE   ? rl_fault_text(fault)
                                                  : "";
    finish(admit, codes[refusal], node < client->n ? (int)node : -1, text);
}

static void begin(struct admit *admit)
{
    static const enum rl_admission ways[] = {
        [REDLOCK_ADMIT_NEW] = RL_ADMIT_NEW,
        [REDLOCK_ADMIT_AT_ONCE] = RL_ADMIT_AT_ONCE,
        [REDLOCK_ADMIT_WAIT] = RL_ADMIT_WAIT,
        [REDLOCK_ADMIT_REPLACE] = RL_ADMIT_REPLACE,
    };
    redlock_client *client = admit->task.client;
    unsigned node = admit->newcomer;
    enum rl_refusal refusal =
        rl_wards_admit(client, ways[admit->how], &node, client->max_ttl / RL_MS);
    if (refusal != RL_REFUSAL_NONE) {
        refuse(admit, refusal, node);
        return;
    }
    rl_task_due(&admit->task, rl_later(client->view.now, LOOK_GAP));
}

static bool is_new(const struct admit *admit)
{
    return admit->how == REDLOCK_ADMIT_NEW || admit->how == REDLOCK_ADMIT_AT_ONCE;
}

static void scan_all(struct admit *admit, rl_nodes nodes)
{
    admit->scanning = nodes;
    for (rl_nodes rest = nodes; rest; rest &= rest - 1)
        if (!scan(admit, rl_first(rest), (struct rl_word){"0", 1})) {
            finish(admit, REDLOCK_NO_MEMORY, (int)rl_first(rest), "");
            return;
        }
}

static void look_for_keys(struct admit *admit)
{
    redlock_client *client = admit->task.client;
    for (unsigned i = 0; i < client->n; i++) {
        if (!(client->awake & rl_bit(i))) {
            refuse(admit, RL_REFUSAL_UNSEEN, i);
            return;
        }
    }
    for (unsigned i = 0; i < client->n; i++)
        if (client->steward.ward[i].standing != RL_STANDING_UNMARKED) {
            refuse(admit, RL_REFUSAL_USED, i);
            return;
        }
    scan_all(admit, rl_all(client->n));
}

/* A newcomer that is down or has a marker is refused without a look at its keys. */
static bool newcomer_may_have_keys(const struct admit *admit)
{
    const redlock_client *client = admit->task.client;
    return admit->how == REDLOCK_ADMIT_REPLACE && client->awake & rl_bit(admit->newcomer) &&
           client->steward.ward[admit->newcomer].standing == RL_STANDING_UNMARKED;
}

static bool all_tried(const redlock_client *client)
{
    for (unsigned i = 0; i < client->n; i++)
        if (!rl_link_is_settled(&client->member[i].link))
            return false;
    return true;
}

static void tick(struct rl_task *task)
{
    struct admit *admit = admit_of(task);
    redlock_client *client = task->client;
    rl_heap_drop(&client->heap, &task->due);
    if (!admit->begun) {
        if (!all_tried(client) && client->view.now < admit->deadline) {
            rl_task_due(task, rl_min(admit->deadline, client->view.now + LOOK_GAP));
            return;
        }
        admit->begun = true;
        if (is_new(admit))
            look_for_keys(admit);
        else if (newcomer_may_have_keys(admit))
            scan_all(admit, rl_bit(admit->newcomer));
        else
            begin(admit);
        return;
    }
    if (admit->scanning)
        return;
    switch (rl_steward_progress(&client->steward)) {
    case RL_PROGRESS_DONE: finish(admit, REDLOCK_OK, -1, ""); break;
    case RL_PROGRESS_FAILED:
        finish(admit, REDLOCK_USED, -1, "another admits these nodes at the same time");
        break;
    case RL_PROGRESS_OPEN: rl_task_due(task, client->view.now + LOOK_GAP); break;
    }
}

/* Somebody who admits at the same time may have been faster: then it is a marker. */
static void tell_key(struct admit *admit, struct rl_word key)
{
    const redlock_client *client = admit->task.client;
    bool is_marker = key.len == client->marker_key_len &&
                     memcmp(key.text, client->marker_key, key.len) == 0;
    if (is_marker)
        snprintf(admit->text, sizeof(admit->text), "it has a marker");
    else
        snprintf(admit->text, sizeof(admit->text), "it has the key %.*s", (int)key.len,
                 key.text);
}

static void answer(struct rl_task *task, unsigned node, const struct rl_op *op,
                   const struct rl_reply *reply)
{
    struct admit *admit = admit_of(task);
    (void)op;
    if (!reply) {
        refuse(admit, RL_REFUSAL_UNSEEN, node);
    } else if (reply->type == RL_REPLY_ERROR) {
        enum rl_fault fault = rl_fault_of_error(reply->text, reply->len);
        finish(admit, rl_fault_is_denial(fault) ? REDLOCK_DENIED : REDLOCK_UNREACHED,
               (int)node, rl_fault_text(fault));
    } else if (reply->type != RL_REPLY_ARRAY || reply->items != 2 ||
               reply->item[0].type != RL_REPLY_STRING ||
               reply->item[1].type != RL_REPLY_STRING) {
        finish(admit, REDLOCK_UNREACHED, (int)node, rl_fault_text(RL_FAULT_PROTOCOL));
    } else if (reply->item[1].len > 0) {
        tell_key(admit, (struct rl_word){reply->item[1].text, reply->item[1].len});
        finish(admit, REDLOCK_USED, (int)node, admit->text);
    } else if (reply->item[0].len != 1 || reply->item[0].text[0] != '0') {
        if (!scan(admit, node, (struct rl_word){reply->item[0].text, reply->item[0].len}))
            finish(admit, REDLOCK_NO_MEMORY, (int)node, "");
    } else {
        admit->scanning &= ~rl_bit(node);
        if (!admit->scanning)
            begin(admit);
    }
}

static void close_admit(struct rl_task *task)
{
    finish(admit_of(task), REDLOCK_CANCELLED, -1, "");
}

static void destroy(struct rl_task *task)
{
    free(task);
}

static const struct rl_task_class admit_class = {
    .tick = tick,
    .answer = answer,
    .close = close_admit,
    .destroy = destroy,
};

static redlock_code make(redlock_client *client, redlock_admission how, size_t node,
                         redlock_admit_fn *callback, void *arg)
{
    if (client->admit)
        return REDLOCK_BUSY;
    if (how < REDLOCK_ADMIT_NEW || how > REDLOCK_ADMIT_REPLACE ||
        (how == REDLOCK_ADMIT_REPLACE && node >= client->n))
        return REDLOCK_BAD_OPTION;
    struct admit *admit = calloc(1, sizeof(*admit));
    if (!admit || !rl_task_init(&admit->task, client, &admit_class)) {
        free(admit);
        return REDLOCK_NO_MEMORY;
    }
    admit->how = how;
    admit->newcomer = (unsigned)node;
    admit->callback = callback;
    admit->arg = arg;
    admit->deadline =
        rl_later(client->view.now, client->options.connect_timeout_ms * RL_MS);
    write_pattern(client->options.prefix ? client->options.prefix : "", admit->pattern);
    client->admit = &admit->task;
    rl_task_due(&admit->task, client->view.now);
    return REDLOCK_OK;
}

redlock_code redlock_admit(redlock_client *client, redlock_admission how, size_t node,
                           redlock_admit_fn *callback, void *arg)
{
    redlock_code code = rl_client_call(client);
    if (code != REDLOCK_OK)
        return code;
    code = make(client, how, node, callback, arg);
    rl_client_return(client);
    return code;
}
