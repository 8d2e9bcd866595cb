#include "commands.h"
#include "number.h"
#include "reply.h"
#include "script_cache.h"

#define FIRST_KEY 3

static void reply_no_script(struct call *call)
{
    reply_error_format(call->out, "NOSCRIPT No matching script. Please use EVAL.");
}

/* False: the error was replied. */
static bool read_keys(const struct call *call, int64_t *ret_keys)
{
    int64_t words = (int64_t)call->words - FIRST_KEY;
    if (!number_integer(call->word[2], ret_keys))
        reply_not_integer(call->out);
    else if (*ret_keys > words)
        reply_error_format(call->out,
                           "ERR Number of keys can't be greater than number of args");
    else if (*ret_keys < 0)
        reply_error_format(call->out, "ERR Number of keys can't be negative");
    else
        return true;
    return false;
}

void command_eval(struct call *call)
{
    struct scripts *scripts = call->redis->scripts;
    int64_t keys;
    if (!read_keys(call, &keys))
        return;
    const struct script *script = scripts_load(scripts, call->word[1], call->out);
    if (script)
        scripts_run(script, call, FIRST_KEY, (size_t)keys);
}

void command_evalsha(struct call *call)
{
    struct scripts *scripts = call->redis->scripts;
    int64_t keys;
    if (call->word[1].len != SHA1_DIGITS) {
        reply_no_script(call);
        return;
    }
    if (!read_keys(call, &keys))
        return;
    const struct script *script = scripts_find(scripts, call->word[1]);
    if (script)
        scripts_run(script, call, FIRST_KEY, (size_t)keys);
    else
        reply_no_script(call);
}

void command_script_load(struct call *call)
{
    const struct script *script =
        scripts_load(call->redis->scripts, call->word[2], call->out);
    if (script)
        reply_bulk_text(call->out, script->sha1);
}

void command_script_exists(struct call *call)
{
    reply_array(call->out, call->words - 2);
    for (size_t i = 2; i < call->words; i++)
        reply_integer(call->out, scripts_find(call->redis->scripts, call->word[i]) != NULL);
}

void command_script_flush(struct call *call)
{
    bool has_mode = call->words == 3 && (word_is_option(call->word[2], "SYNC") ||
                                         word_is_option(call->word[2], "ASYNC"));
    if (call->words > 2 && !has_mode) {
        reply_error_format(call->out, "ERR SCRIPT FLUSH only support SYNC|ASYNC option");
        return;
    }
    scripts_forget(call->redis->scripts);
    reply_ok(call->out);
}
