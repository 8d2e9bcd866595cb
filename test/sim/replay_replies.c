/* What the nodes of a replay reply to the commands of a lock, as bytes. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lease/attempt.h"
#include "replay_parts.h"

const char *replay_error_prefix(const char *fault)
{
    static const char *const prefixes[][2] = {
#define X(name, prefix, text) {#name, prefix},
        REDLOCK_FAULTS(X)
#undef X
    };
    for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
        if (strcmp(prefixes[i][0], fault) == 0)
            return prefixes[i][1];
    return NULL;
}

/* Of a command whose lease is gone: nobody reads it, and the dump does not have it. */
const char *replay_any_reply(const struct rl_op *op)
{
    return op->command == RL_CMD_ACQUIRE ? "+OK\r\n" : ":1\r\n";
}

/* The value of a lock of this library, and of another one: it notifies nobody. */
#define OTHER_TOKEN   "paaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define FOREIGN_TOKEN "foreign"

/* What a node replies to be read as this vote. */
void replay_reply(const struct line *event, char ret_reply[REPLAY_REPLY])
{
    bool acquires = line_is(event, "command", "acquire");
    char fault[DUMP_VALUE] = "NONE";
    line_value(event, "fault", fault);
    const char *prefix = replay_error_prefix(fault);
    const char *other = replay_is_foreign(event) ? FOREIGN_TOKEN : OTHER_TOKEN;
    if (strcmp(fault, "NONE") != 0)
        snprintf(ret_reply, REPLAY_REPLY, "%s%s%s as in the dump\r\n", prefix ? "-" : "+",
                 prefix ? prefix : "",
                 line_is(event, "vote", "unknown") ? " script: " : "");
    else if (line_is(event, "vote", "held") && acquires)
        strcpy(ret_reply, "$-1\r\n");
    else if (line_is(event, "vote", "held"))
        snprintf(ret_reply, REPLAY_REPLY, "*2\r\n$%zu\r\n%s\r\n:%" PRId64 "\r\n",
                 strlen(other), other, line_number(event, "pttl_ms", -1));
    else if (line_is(event, "vote", "granted"))
        strcpy(ret_reply, acquires ? "+OK\r\n" : ":1\r\n");
    else
        strcpy(ret_reply, line_is(event, "vote", "recreated") ? ":2\r\n" : ":0\r\n");
}

/* Whether this is the command of the event, or of its lease's attempt in the event. */
bool replay_is_command_of(const struct rl_op *op, const struct line *event)
{
    static const char *const names[] = {
        [RL_CMD_ACQUIRE] = "acquire",
        [RL_CMD_RAISE_FENCE] = "raise_fence",
        [RL_CMD_EXTEND] = "extend",
        [RL_CMD_RELEASE] = "release",
    };
    const struct rl_attempt *attempt = (const struct rl_attempt *)op->task;
    return attempt->number >> 8 == line_number(event, "lease", 0) &&
           (attempt->number & 0xff) == line_number(event, "attempt", -1) &&
           op->command <= RL_CMD_RELEASE && line_is(event, "command", names[op->command]) &&
           (uint16_t)op->seq == (uint16_t)line_number(event, "round", 0);
}
