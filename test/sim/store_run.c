/* The model of a server at work: which command it is, and what the plain ones do. */
#include "store_parts.h"

#include <assert.h>
#include <string.h>

#include "scripts.h"

#define SHOWN     128 /* of another's value, as the scripts cut it */
#define SHA1      40
#define DIGITS    16 /* below 2^53, which a number of Lua still tells exactly */
#define SET_WORDS 6

/* --- replies --- */

void store_answer(struct store_reply *ret, enum rl_reply_type type, const char *text,
                  size_t len)
{
    ret->reply = (struct rl_reply){.type = type, .text = text, .len = len};
}

static void answer_integer(struct store_reply *ret, int64_t integer)
{
    ret->reply = (struct rl_reply){.type = RL_REPLY_INTEGER, .integer = integer};
}

bool store_is_readable(const struct call *call)
{
    if (!call->entry || call->entry->type != STORE_LIST)
        return true;
    ANSWER(call->ret, RL_REPLY_ERROR, WRONGTYPE);
    return false;
}

void store_answer_entry(const struct call *call)
{
    const struct store_entry *entry = call->entry;
    struct store_reply *ret = call->ret;
    size_t len = entry->value.len < SHOWN ? entry->value.len : SHOWN;
    int64_t pttl =
        entry->expires == STORE_NO_EXPIRY ? -1 : entry->expires - call->store->now;
    ret->item[0] =
        (struct rl_reply){.type = RL_REPLY_STRING, .text = entry->value.text, .len = len};
    ret->item[1] = (struct rl_reply){.type = RL_REPLY_INTEGER, .integer = pttl};
    ret->reply = (struct rl_reply){.type = RL_REPLY_ARRAY, .item = ret->item, .items = 2};
}

/* --- the commands --- */

int64_t store_whole_number(struct rl_word word)
{
    int64_t value = 0;
    assert(word.len <= DIGITS);
    for (size_t i = 0; i < word.len; i++)
        value = 10 * value + (word.text[i] - '0');
    return value;
}

int64_t store_number(struct rl_word word)
{
    int64_t value = store_whole_number(word);
    assert(value > 0); /* SET answers with an error to 0, and PEXPIRE deletes the key */
    return value;
}

/* SET: that the key holds something else is no error. */
static void acquire(struct call *call)
{
    const struct rl_word *token = &call->argument[0], *ttl = &call->argument[3];
    if (call->entry) {
        call->ret->reply = (struct rl_reply){.type = RL_REPLY_NIL};
        return;
    }
    store_put(call->store, STORE_STRING, call->key, *token,
              call->store->now + store_number(*ttl));
    ANSWER(call->ret, RL_REPLY_STATUS, "OK");
}

/* PTTL says -1 where nothing expires: also that gets an end. */
void store_raise_expiry(struct call *call, struct rl_word ttl)
{
    int64_t end = call->store->now + store_number(ttl);
    if (call->entry->expires < end || call->entry->expires == STORE_NO_EXPIRY)
        call->entry->expires = end;
}

static void extend(struct call *call)
{
    if (!call->entry) {
        bool plant = *call->argument[2].text == '1';
        if (plant)
            store_put(call->store, STORE_STRING, call->key, call->argument[0],
                      call->store->now + store_number(call->argument[1]));
        answer_integer(call->ret, plant ? 2 : 0);
    } else if (store_same(call->entry->value, call->argument[0])) {
        store_raise_expiry(call, call->argument[1]);
        answer_integer(call->ret, 1);
    } else {
        store_answer_entry(call);
    }
}

static void release(struct call *call)
{
    bool mine = call->entry && store_same(call->entry->value, call->argument[0]);
    if (mine)
        call->entry->type = STORE_NOTHING;
    bool entered =
        call->arguments == 1 || store_enter(call, call->argument[1], call->argument[2]);
    bool goes_on = call->arguments > 1 && call->argument[2].len > 0;
    if (mine) {
        answer_integer(call->ret, !goes_on && store_call_first(call) ? 2 : 1);
    } else if (!call->entry) {
        answer_integer(call->ret, 0);
    } else {
        store_answer_entry(call);
        if (!entered)
            store_answer_unplaced(call);
    }
}

static void inspect(struct call *call)
{
    if (call->entry)
        store_answer_entry(call);
    else
        answer_integer(call->ret, 0);
}

static void break_open(struct call *call)
{
    inspect(call);
    if (!call->entry)
        return;
    call->entry->type = STORE_NOTHING;
    store_call_first(call);
}

/* --- which command it is --- */

enum family { PLAIN, FENCED, MARKER };

static const struct {
    const struct rl_script *script;
    size_t least, most; /* words */
    enum family family;
    void (*run)(struct call *call);
} scripts[] = {
    {&rl_script_plain_extend, 7, 7, PLAIN, extend},
    {&rl_script_plain_release, 5, 7, PLAIN, release},
    {&rl_script_fenced_acquire, 13, 13, FENCED, store_fenced_acquire},
    {&rl_script_fenced_raise, 10, 10, FENCED, store_fenced_settle},
    {&rl_script_fenced_extend, 13, 13, FENCED, store_fenced_extend},
    {&rl_script_fenced_release, 10, 12, FENCED, store_fenced_release},
    {&rl_script_fenced_marker, 4, 6, MARKER, store_fenced_marker},
    {&rl_script_inspect, 4, 4, PLAIN, inspect},
    {&rl_script_break, 4, 4, PLAIN, break_open},
};

#define SCRIPTS (sizeof(scripts) / sizeof(scripts[0]))

/* Which script this is, by its body or its hash. */
static size_t script_of(struct rl_word word, bool whole)
{
    for (size_t i = 0; i < SCRIPTS; i++) {
        const struct rl_script *script = scripts[i].script;
        if (word.len == (whole ? script->len : SHA1) &&
            memcmp(word.text, whole ? script->body : script->sha1, word.len) == 0)
            return i;
    }
    assert(!"no script of ours");
    return 0;
}

static void run_script(size_t script, bool whole, struct call *call)
{
    struct store *store = call->store;
    if (whole)
        store->scripts |= 1u << script;
    if (!(store->scripts & 1u << script))
        ANSWER(call->ret, RL_REPLY_ERROR, "NOSCRIPT No matching script. Please use EVAL.");
    else if (scripts[script].family == FENCED ? store_guard(call) : store_is_readable(call))
        scripts[script].run(call);
}

/* EVAL script keys KEY [FENCE_KEY MARKER_KEY] arguments, or SET KEY arguments */
void store_run(struct store *store, const struct rl_argv *command, rl_time now,
               const struct store_ears *ears, struct store_reply *ret_reply)
{
    bool is_script = command->word[0].text[0] == 'E';
    bool whole = is_script && command->word[0].len == sizeof("EVAL") - 1;
    const struct rl_word *key = &command->word[is_script ? 3 : 1];
    store->now = now / RL_MS;
    ret_reply->calls = 0;
    struct call call = {.store = store,
                        .entry = store_live(store, *key),
                        .key = *key,
                        .argument = key + 1,
                        .us = now,
                        .ears = ears,
                        .ret = ret_reply};
    if (!is_script) {
        assert(command->words == SET_WORDS);
        acquire(&call);
        return;
    }
    size_t script = script_of(command->word[1], whole);
    assert(command->words >= scripts[script].least &&
           command->words <= scripts[script].most);
    if (scripts[script].family == FENCED) {
        call.fence_key = *call.argument++;
        call.marker_key = *call.argument++;
    }
    call.arguments = (size_t)(command->word + command->words - call.argument);
    run_script(script, whole, &call);
}
