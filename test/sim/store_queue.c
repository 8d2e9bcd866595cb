/* Who waits for a lock, as the model of a server has it: what lua/enqueue.lua and
 * lua/notify.lua do. */
#include <assert.h>
#include <string.h>

#include "store_parts.h"

#define LINGERS   60000 /* ms, that a queue outlasts the lock */
#define CALLS_MAX 100

static bool is_of(const struct store_place *place, struct rl_word key)
{
    return store_same(place->key, key);
}

static void drop(struct store *store, unsigned i)
{
    store->place[i] = store->place[--store->places];
}

/* What has expired is gone, of all keys. */
static void drop_expired(struct store *store)
{
    for (unsigned i = store->places; i-- > 0;)
        if (store->now > store->place[i].expires)
            drop(store, i);
}

static bool before(const struct store_place *a, const struct store_place *b)
{
    if (a->since != b->since)
        return a->since < b->since;
    size_t least = a->place.len < b->place.len ? a->place.len : b->place.len;
    int order = memcmp(a->place.text, b->place.text, least);
    return order != 0 ? order < 0 : a->place.len < b->place.len;
}

const struct store_place *store_next_place(const struct store *store, struct rl_word key,
                                           const struct store_place *after)
{
    const struct store_place *next = NULL;
    for (unsigned i = 0; i < store->places; i++) {
        const struct store_place *place = &store->place[i];
        if (is_of(place, key) && store->now <= place->expires &&
            (!after || before(after, place)) && (!next || before(place, next)))
            next = place;
    }
    return next;
}

static struct store_place *find(struct store *store, struct rl_word key,
                                struct rl_word place)
{
    for (unsigned i = 0; i < store->places; i++)
        if (is_of(&store->place[i], key) && store_same(store->place[i].place, place))
            return &store->place[i];
    return NULL;
}

void store_put_place(struct store *store, const struct store_place *place)
{
    assert(store->places < STORE_PLACES);
    store->place[store->places++] = *place;
}

void store_drop_places(struct store *store, struct rl_word key)
{
    for (unsigned i = store->places; i-- > 0;)
        if (is_of(&store->place[i], key))
            drop(store, i);
}

/* PTTL of the lock, and a minute: what is longer already stays. */
static void prolong(const struct call *call)
{
    struct store *store = call->store;
    const struct store_entry *lock = store_find(store, call->key, store->now);
    int64_t pttl = !lock                              ? -2
                   : lock->expires == STORE_NO_EXPIRY ? -1
                                                      : lock->expires - store->now;
    int64_t expires = store->now + pttl + LINGERS;
    for (unsigned i = 0; i < store->places; i++)
        if (is_of(&store->place[i], call->key) && store->place[i].expires > expires)
            expires = store->place[i].expires;
    for (unsigned i = 0; i < store->places; i++)
        if (is_of(&store->place[i], call->key))
            store->place[i].expires = expires;
}

/* The memory of the model is scarce: without a place, too, a waiter continues. */
bool store_enter(struct call *call, struct rl_word place, struct rl_word waited)
{
    struct store *store = call->store;
    if (store->queueless)
        return false;
    drop_expired(store);
    struct store_place *there = find(store, call->key, place);
    if (waited.len == 0) {
        if (there)
            drop(store, (unsigned)(there - store->place));
        return true;
    }
    if (!there && store->places == STORE_PLACES)
        return false;
    if (!there) {
        there = &store->place[store->places++];
        *there = (struct store_place){.key = call->key, .place = place};
    }
    there->since = call->us - store_whole_number(waited);
    prolong(call);
    return true;
}

void store_answer_unplaced(const struct call *call)
{
    struct rl_reply *reply = &call->ret->reply;
    call->ret->item[reply->items++] = (struct rl_reply){.type = RL_REPLY_INTEGER};
}

/* "CHANNEL NUMBER" */
struct rl_word store_channel(struct rl_word place)
{
    size_t len = place.len;
    while (len > 0 && place.text[len - 1] >= '0' && place.text[len - 1] <= '9')
        len--;
    bool is_one = len < place.len && len > 0 && place.text[len - 1] == ' ';
    return (struct rl_word){place.text, is_one ? len - 1 : 0};
}

bool store_hears(const struct store_ears *ears, struct rl_word place)
{
    struct rl_word channel = store_channel(place);
    return channel.len > 0 && ears && ears->hears(ears->arg, channel);
}

static bool publish(struct call *call, struct rl_word place, unsigned rank)
{
    if (!store_hears(call->ears, place))
        return false;
    call->ret->call[call->ret->calls++] = (struct store_call){place, rank};
    return true;
}

bool store_call_first(struct call *call)
{
    struct store *store = call->store;
    bool awaited = false;
    drop_expired(store);
    for (int i = 0; i < CALLS_MAX; i++) {
        const struct store_place *at = store_next_place(store, call->key, NULL);
        if (!at)
            break;
        awaited = true;
        const struct store_place *behind = store_next_place(store, call->key, at);
        struct rl_word first = at->place;
        struct rl_word second = behind ? behind->place : (struct rl_word){"", 0};
        drop(store, (unsigned)(at - store->place));
        if (!publish(call, first, 0))
            continue;
        publish(call, second, 1);
        break;
    }
    return awaited;
}
