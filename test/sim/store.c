#include "store.h"

#include <assert.h>
#include <string.h>

#include "scripts.h"

#define SHOWN      128 /* of another's value, as the scripts cut it */
#define SHA1       40
#define TTL_DIGITS 15 /* what a number of Lua still tells exactly */

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
    *entry = (struct store_entry){type, key, value, expires};
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

static int64_t number(struct rl_word word)
{
    int64_t value = 0;
    assert(word.len <= TTL_DIGITS);
    for (size_t i = 0; i < word.len; i++)
        value = 10 * value + (word.text[i] - '0');
    assert(value > 0); /* SET answers with an error to 0, and PEXPIRE deletes the key */
    return value;
}

/* SET: that the key holds something else is no error. */
static void acquire(const struct call *call)
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

static void extend(const struct call *call)
{
    struct store_entry *entry = call->entry;
    int64_t end = call->store->now + number(call->argument[1]);
    if (!entry) {
        bool plant = *call->argument[2].text == '1';
        if (plant)
            store_put(call->store, STORE_STRING, call->key, call->argument[0], end);
        answer_integer(call->ret, plant ? 2 : 0);
    } else if (same(entry->value, call->argument[0])) {
        /* PTTL says -1 where nothing expires: also that gets an end. */
        if (entry->expires < end || entry->expires == STORE_NO_EXPIRY)
            entry->expires = end;
        answer_integer(call->ret, 1);
    } else {
        answer_entry(call);
    }
}

static void release(const struct call *call)
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

static void inspect(const struct call *call)
{
    if (call->entry)
        answer_entry(call);
    else
        answer_integer(call->ret, 0);
}

static void break_open(const struct call *call)
{
    inspect(call);
    if (call->entry)
        call->entry->type = STORE_NOTHING;
}

/* --- which command it is --- */

static const struct {
    const struct rl_script *script;
    size_t words;
    void (*run)(const struct call *call);
} texts[RL_TEXTS] = {
    [RL_ACQUIRE] = {NULL, 6, acquire},
    [RL_EXTEND] = {&rl_script_plain_extend, 7, extend},
    [RL_RELEASE] = {&rl_script_plain_release, 5, release},
    [RL_INSPECT] = {&rl_script_inspect, 4, inspect},
    [RL_BREAK] = {&rl_script_break, 4, break_open},
};

/* Which script this is, by its body or its hash. */
static enum rl_text text_of(struct rl_word word, bool whole)
{
    for (int text = 0; text < RL_TEXTS; text++) {
        const struct rl_script *script = texts[text].script;
        if (script && word.len == (whole ? script->len : SHA1) &&
            memcmp(word.text, whole ? script->body : script->sha1, word.len) == 0)
            return (enum rl_text)text;
    }
    assert(!"no script of ours");
    return RL_TEXTS;
}

/* Every script begins with GET. The server names the script by its hash. */
#define WRONGTYPE                                                                          \
    "WRONGTYPE Operation against a key holding the wrong kind of value"                    \
    " script: 0000000000000000000000000000000000000000, on @user_script:1."

static void run_script(struct store *store, enum rl_text text, bool whole,
                       const struct call *call)
{
    if (whole)
        store->scripts |= 1u << text;
    if (!(store->scripts & 1u << text))
        ANSWER(call->ret, RL_REPLY_ERROR, "NOSCRIPT No matching script. Please use EVAL.");
    else if (call->entry && call->entry->type != STORE_STRING)
        ANSWER(call->ret, RL_REPLY_ERROR, WRONGTYPE);
    else
        texts[text].run(call);
}

void store_run(struct store *store, const struct rl_command *command, int64_t now,
               struct store_reply *ret_reply)
{
    bool is_script = command->word[0].text[0] == 'E';
    bool whole = is_script && command->word[0].len == sizeof("EVAL") - 1;
    enum rl_text text = is_script ? text_of(command->word[1], whole) : RL_ACQUIRE;
    const struct rl_word *key = &command->word[is_script ? 3 : 1];
    store->now = now;
    struct call call = {.store = store,
                        .entry = live_entry_of(store, *key),
                        .key = *key,
                        .argument = key + 1,
                        .ret = ret_reply};
    assert(command->words == texts[text].words);
    if (is_script)
        run_script(store, text, whole, &call);
    else
        acquire(&call);
}
