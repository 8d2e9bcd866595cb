/* Any reply of a node to any command of any kind is read within its bounds, and what is not
   the reply to this command is refused (safety.md, rule 4). */
#include "core/kind.h"

#include <stdlib.h>

#include "proof.h"

#define TEXT_MOST  16 /* an error's prefix, or seven numbers */
#define ITEMS_MOST 8

static unsigned any_type(void)
{
    unsigned type = nondet_unsigned();
    assume(type < RL_REPLY_ARRAY);
    return type;
}

static struct rl_reply any_scalar(void)
{
    size_t len = nondet_size();
    assume(len <= TEXT_MOST);
    char *text = malloc(len);
    assume(text != NULL);
    return (struct rl_reply){.type = (enum rl_reply_type)any_type(),
                             .integer = nondet_i64(),
                             .text = text,
                             .len = len};
}

static const struct rl_kind *any_kind(void)
{
    size_t count, i = nondet_size();
    const struct rl_kind *kinds = rl_kinds(&count);
    assume(i < count);
    return &kinds[i];
}

static enum rl_command any_command(const struct rl_kind *kind)
{
    unsigned command = nondet_unsigned();
    assume(command < RL_COMMANDS);
    assume(command == RL_CMD_ACQUIRE || kind->script[command] != NULL);
    return (enum rl_command)command;
}

static void check(const struct rl_kind *kind, enum rl_command command,
                  const struct rl_reply *reply)
{
    struct rl_answer answer;
    if (!rl_kind_read(kind, command, reply, &answer)) {
        assert(answer.vote == RL_VOTE_UNASKED && answer.time == 0 && answer.fence == 0);
        return;
    }
    assert(answer.pttl >= -1 && answer.time >= 0 && answer.fence >= 0);
    assert(answer.key < RL_SET_MAX && answer.free.len <= RL_SLOTS_MAX);
    if (reply->type == RL_REPLY_ERROR || reply->type == RL_REPLY_NIL)
        assert(answer.vote != RL_VOTE_GRANTED && answer.vote != RL_VOTE_GONE);
}

/* cbmc: --unwind 18 --unwindset rl_fault_of_error.0:80 --object-bits 12 */
void proof_scalar_reply_is_read_within_its_bounds(void)
{
    const struct rl_kind *kind = any_kind();
    struct rl_reply reply = any_scalar();
    check(kind, any_command(kind), &reply);
}

/* The texts of items are passed on and never read, so one byte stands for each. */
/* cbmc: --unwind 10 --unwindset rl_kind_that_is.0:16 --object-bits 12 */
void proof_array_is_read_within_its_bounds(void)
{
    const struct rl_kind *kind = any_kind();
    size_t items = nondet_size();
    assume(items <= ITEMS_MOST);
    struct rl_reply *item = malloc(items * sizeof(*item));
    assume(item != NULL);
    for (size_t i = 0; i < items; i++)
        item[i] = (struct rl_reply){.type = (enum rl_reply_type)any_type(),
                                    .integer = nondet_i64(),
                                    .text = malloc(1),
                                    .len = nondet_size()};
    struct rl_reply reply = {.type = RL_REPLY_ARRAY, .item = item, .items = items};
    check(kind, any_command(kind), &reply);
}

/* cbmc: --unwind 34 --object-bits 12 */
void proof_token_is_read_within_its_bounds(void)
{
    size_t len = nondet_size();
    assume(len <= RL_TOKEN_DIGITS + 4);
    char *token = malloc(len);
    assume(token != NULL);
    const struct rl_kind *kind = rl_kind_of((struct rl_word){token, len});
    assert(kind == NULL || len > RL_TOKEN_DIGITS);
}
