#include "store.h"

#include <assert.h>
#include <string.h>

#include "scripts.h"

#define SHOWN     128 /* of another's value, as the scripts cut it */
#define SHA1      40
#define DIGITS    16 /* below 2^53, which a number of Lua still tells exactly */
#define SET_WORDS 6

/* --- the table --- */

static bool same(struct rl_word a, struct rl_word b)
{
    return a.len == b.len && (a.text == b.text || memcmp(a.text, b.text, a.len) == 0);
}

static bool is_there(const struct store_entry *entry, int64_t now)
{
    return entry->type != STORE_NOTHING && now <= entry->expires;
}

static struct store_entry *entry_of(struct store *store, struct rl_word key)
{
    for (struct store_entry *entry = store->entry; entry < store->entry + STORE_KEYS;
         entry++)
        if (entry->type != STORE_NOTHING && same(entry->key, key))
            return entry;
    return NULL;
}

/* What has expired goes for good: a clock that steps back does not bring it again. */
static struct store_entry *live_entry_of(struct store *store, struct rl_word key)
{
    struct store_entry *entry = entry_of(store, key);
    if (!entry || is_there(entry, store->now))
        return entry;
    entry->type = STORE_NOTHING;
    return NULL;
}

static void drop_expired(struct store *store)
{
    for (struct store_entry *entry = store->entry; entry < store->entry + STORE_KEYS;
         entry++)
        if (!is_there(entry, store->now))
            entry->type = STORE_NOTHING;
}

static struct store_entry *free_entry(struct store *store)
{
    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0; i < STORE_KEYS; i++)
            if (store->entry[i].type == STORE_NOTHING)
                return &store->entry[i];
        drop_expired(store);
    }
    assert(!"more keys than STORE_KEYS");
    return NULL;
}

const struct store_entry *store_find(const struct store *store, struct rl_word key,
                                     int64_t now)
{
    for (int i = 0; i < STORE_KEYS; i++)
        if (is_there(&store->entry[i], now) && same(store->entry[i].key, key))
            return &store->entry[i];
    return NULL;
}

void store_put(struct store *store, enum store_type type, struct rl_word key,
               struct rl_word value, int64_t expires)
{
    assert(type != STORE_NOTHING);
    struct store_entry *entry = entry_of(store, key);
    if (!entry)
        entry = free_entry(store);
    *entry = (struct store_entry){type, key, value, expires, 0};
}

void store_put_fence(struct store *store, struct rl_word key, int64_t fence,
                     int64_t expires)
{
    store_put(store, STORE_FENCE, key, (struct rl_word){"", 0}, expires);
    entry_of(store, key)->fence = fence;
}

void store_drop(struct store *store, struct rl_word key)
{
    struct store_entry *entry = entry_of(store, key);
    if (entry)
        entry->type = STORE_NOTHING;
}

void store_flush(struct store *store)
{
    for (int i = 0; i < STORE_KEYS; i++)
        store->entry[i].type = STORE_NOTHING;
}

void store_forget_scripts(struct store *store)
{
    store->scripts = 0;
}

/* --- replies --- */

/* A command that runs. */
struct call {
    struct store *store;
    struct store_entry *entry; /* what is there under its key, or NULL */
    struct rl_word key;
    const struct rl_word *argument;
    struct store_reply *ret;
    rl_time us; /* TIME */

    /* What guard.lua begins with. */
    struct rl_word fence_key;
    int64_t stored, fence;
    bool ahead, late;
};

static void answer_text(struct store_reply *ret, enum rl_reply_type type, const char *text,
                        size_t len)
{
    ret->reply = (struct rl_reply){.type = type, .text = text, .len = len};
}

#define ANSWER(ret, type, literal) answer_text(ret, type, literal, sizeof(literal) - 1)

static void answer_integer(struct store_reply *ret, int64_t integer)
{
    ret->reply = (struct rl_reply){.type = RL_REPLY_INTEGER, .integer = integer};
}

/* {value, pttl} */
static void answer_entry(const struct call *call)
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

static int64_t whole_number(struct rl_word word)
{
    int64_t value = 0;
    assert(word.len <= DIGITS);
    for (size_t i = 0; i < word.len; i++)
        value = 10 * value + (word.text[i] - '0');
    return value;
}

static int64_t number(struct rl_word word)
{
    int64_t value = whole_number(word);
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
              call->store->now + number(*ttl));
    ANSWER(call->ret, RL_REPLY_STATUS, "OK");
}

/* PTTL says -1 where nothing expires: also that gets an end. */
static void raise_expiry(struct call *call)
{
    int64_t end = call->store->now + number(call->argument[1]);
    if (call->entry->expires < end || call->entry->expires == STORE_NO_EXPIRY)
        call->entry->expires = end;
}

static void extend(struct call *call)
{
    if (!call->entry) {
        bool plant = *call->argument[2].text == '1';
        if (plant)
            store_put(call->store, STORE_STRING, call->key, call->argument[0],
                      call->store->now + number(call->argument[1]));
        answer_integer(call->ret, plant ? 2 : 0);
    } else if (same(call->entry->value, call->argument[0])) {
        raise_expiry(call);
        answer_integer(call->ret, 1);
    } else {
        answer_entry(call);
    }
}

static void release(struct call *call)
{
    if (!call->entry) {
        answer_integer(call->ret, 0);
    } else if (same(call->entry->value, call->argument[0])) {
        call->entry->type = STORE_NOTHING;
        answer_integer(call->ret, 1);
    } else {
        answer_entry(call);
    }
}

static void inspect(struct call *call)
{
    if (call->entry)
        answer_entry(call);
    else
        answer_integer(call->ret, 0);
}

static void break_open(struct call *call)
{
    inspect(call);
    if (call->entry)
        call->entry->type = STORE_NOTHING;
}

/* --- the commands of a fenced lock --- */

#define KAPPA    (5 * RL_SECOND)
#define LATENESS RL_SECOND
#define FENCE_MS INT64_C(86400000)

#define LATE  "LATE to lock anything"
#define AHEAD "AHEAD of the clock"

/* {code, now, stored} */
static void answer_code(const struct call *call, int64_t code)
{
    const int64_t items[] = {code, call->us, call->stored};
    struct store_reply *ret = call->ret;
    for (int i = 0; i < 3; i++)
        ret->item[i] = (struct rl_reply){.type = RL_REPLY_INTEGER, .integer = items[i]};
    ret->reply = (struct rl_reply){.type = RL_REPLY_ARRAY, .item = ret->item, .items = 3};
}

/* {value, pttl, now} */
static void answer_held(const struct call *call)
{
    answer_entry(call);
    call->ret->item[2] = (struct rl_reply){.type = RL_REPLY_INTEGER, .integer = call->us};
    call->ret->reply.items = 3;
}

static void guard(struct call *call)
{
    const struct store_entry *entry = live_entry_of(call->store, call->fence_key);
    call->stored = entry ? entry->fence : 0;
    call->fence = whole_number(call->argument[3]);
    call->ahead = call->fence > call->us + KAPPA;
    call->late = call->us - whole_number(call->argument[4]) > LATENESS;
}

static void raise_fence(struct call *call, int64_t to)
{
    if (to <= call->stored)
        return;
    store_put_fence(call->store, call->fence_key, to, call->store->now + FENCE_MS);
    call->stored = to;
}

static bool is_ours(const struct call *call)
{
    return call->entry && same(call->entry->value, call->argument[0]);
}

static void store_token(struct call *call)
{
    store_put(call->store, STORE_STRING, call->key, call->argument[0],
              call->store->now + number(call->argument[1]));
}

static void fenced_acquire(struct call *call)
{
    int64_t fence = call->stored + 1 > call->fence ? call->stored + 1 : call->fence;
    if (call->late) {
        ANSWER(call->ret, RL_REPLY_ERROR, LATE);
    } else if (call->entry) {
        answer_held(call);
    } else if (fence > call->us + KAPPA) {
        ANSWER(call->ret, RL_REPLY_ERROR, AHEAD);
    } else {
        store_token(call);
        raise_fence(call, fence);
        answer_code(call, 1);
    }
}

static void fenced_settle(struct call *call)
{
    if (call->ahead) {
        ANSWER(call->ret, RL_REPLY_ERROR, AHEAD);
    } else if (is_ours(call)) {
        raise_fence(call, call->fence);
        answer_code(call, 1);
    } else if (call->entry) {
        answer_held(call);
    } else {
        answer_code(call, 0);
    }
}

static void fenced_plant(struct call *call)
{
    if (*call->argument[2].text != '1') {
        answer_code(call, 0);
    } else if (call->late) {
        ANSWER(call->ret, RL_REPLY_ERROR, LATE);
    } else {
        store_token(call);
        raise_fence(call, call->fence);
        answer_code(call, 2);
    }
}

static void fenced_extend(struct call *call)
{
    if (call->ahead) {
        ANSWER(call->ret, RL_REPLY_ERROR, AHEAD);
    } else if (is_ours(call)) {
        raise_expiry(call);
        raise_fence(call, call->fence);
        answer_code(call, 1);
    } else if (call->entry) {
        answer_held(call);
    } else {
        fenced_plant(call);
    }
}

static void fenced_release(struct call *call)
{
    bool ours = is_ours(call);
    if (!call->ahead)
        raise_fence(call, call->fence);
    if (call->entry && !ours) {
        answer_held(call);
        return;
    }
    if (ours)
        call->entry->type = STORE_NOTHING;
    answer_code(call, ours);
}

/* --- which command it is --- */

static const struct {
    const struct rl_script *script;
    size_t words;
    bool is_fenced;
    void (*run)(struct call *call);
} scripts[] = {
    {&rl_script_plain_extend, 7, false, extend},
    {&rl_script_plain_release, 5, false, release},
    {&rl_script_fenced_acquire, 10, true, fenced_acquire},
    {&rl_script_fenced_settle, 10, true, fenced_settle},
    {&rl_script_fenced_extend, 10, true, fenced_extend},
    {&rl_script_fenced_release, 10, true, fenced_release},
    {&rl_script_inspect, 4, false, inspect},
    {&rl_script_break, 4, false, break_open},
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

/* Every script looks at its keys first. The server names the script by its hash. */
#define WRONGTYPE                                                                          \
    "WRONGTYPE Operation against a key holding the wrong kind of value"                    \
    " script: 0000000000000000000000000000000000000000, on @user_script:1."

static bool is_readable(const struct call *call, bool is_fenced)
{
    const struct store_entry *fence =
        is_fenced ? live_entry_of(call->store, call->fence_key) : NULL;
    return (!call->entry || call->entry->type == STORE_STRING) &&
           (!fence || fence->type == STORE_FENCE);
}

static void run_script(size_t script, bool whole, struct call *call)
{
    struct store *store = call->store;
    if (whole)
        store->scripts |= 1u << script;
    if (!(store->scripts & 1u << script)) {
        ANSWER(call->ret, RL_REPLY_ERROR, "NOSCRIPT No matching script. Please use EVAL.");
    } else if (!is_readable(call, scripts[script].is_fenced)) {
        ANSWER(call->ret, RL_REPLY_ERROR, WRONGTYPE);
    } else {
        if (scripts[script].is_fenced)
            guard(call);
        scripts[script].run(call);
    }
}

/* EVAL script keys KEY [FENCE_KEY] arguments, or SET KEY arguments */
void store_run(struct store *store, const struct rl_command *command, rl_time now,
               struct store_reply *ret_reply)
{
    bool is_script = command->word[0].text[0] == 'E';
    bool whole = is_script && command->word[0].len == sizeof("EVAL") - 1;
    const struct rl_word *key = &command->word[is_script ? 3 : 1];
    store->now = now / RL_MS;
    struct call call = {.store = store,
                        .entry = live_entry_of(store, *key),
                        .key = *key,
                        .argument = key + 1,
                        .us = now,
                        .ret = ret_reply};
    if (!is_script) {
        assert(command->words == SET_WORDS);
        acquire(&call);
        return;
    }
    size_t script = script_of(command->word[1], whole);
    assert(command->words == scripts[script].words);
    if (scripts[script].is_fenced)
        call.fence_key = *call.argument++;
    run_script(script, whole, &call);
}
