/*
 * Lists all locks: scans one node after the other, page by page. A lock that a node scanned
 * before has, too, was listed already; not so a value of another program at its key. A page
 * that may have another one is inspected, by one command to each node. A key of which too
 * few nodes replied is inspected again, for a while.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/client.h"
#include "inspect.h"
#include "net/resp.h"
#include "pattern.h"
#include "redlock/admin.h"

#define POLL_GAP   (50 * RL_MS)    /* until all nodes were tried; between two inspections */
#define PATIENCE   (2 * RL_SECOND) /* for so long the inspection of a key is repeated */
#define SHARE      3 /* of the time: no node is busy for more than a third of it */
#define CURSOR     24
#define BARREN_MAX 1000000 /* pages of a node in a row without a new key */
#define PAGE_WORDS 8
#define PAGE_KEYS  256 /* that are asked for by one command */

enum { ASKS_PAGE, ASKS_ALL }; /* the `seq` of a command */

/* Where a scan goes on: as the node said, and how many keys of that page were returned. */
struct place {
    char cursor[CURSOR], skip[CURSOR];
};

/* Keys of the page that are inspected together. */
struct batch {
    rl_time began;
    unsigned keys, told; /* of `told` their inspection was reported; no keys: no batch */
    unsigned again;      /* the first ones are inspected again ... */
    bool rests;          /* ... at the next tick */
    bool at_once;        /* they were read on all nodes at the same time */
    struct batch_key {
        size_t len;
        char bytes[REDLOCK_KEY_MAX]; /* with the client's prefix */
    } key[RL_INSPECT_MAX];
};

struct list {
    struct rl_task task;
    redlock_list_fn *callback;
    void *arg;
    bool foreign, begun, denied;
    rl_time deadline;
    bool has_given_up; /* the last key that was told is unknown, in spite of PATIENCE */
    rl_node_set to_scan, scanned;        /* `scanned`: to the end */
    rl_node_set mixed;                   /* nodes that may have keys that are not listed */
    unsigned node;                       /* that is being scanned */
    struct place place, before, earlier; /* `before` the present page */
    bool names;  /* of the page: it may have keys that are no locks */
    bool closer; /* ... so it is asked for again: the keys that hold a lock */
    unsigned pages, barren;
    bool waits; /* for a page, or for how many of its keys a node has */
    bool is_last;
    rl_time paged;              /* when the page was asked for */
    rl_time asked;              /* when the last command was sent that is not of a batch */
    rl_time busy[RL_NODES_MAX]; /* how long each node has worked for the page, at most */
    unsigned all;               /* how many keys were asked for by one command */
    char keys[RL_RESP_TEXT];    /* of the page: each after its length and a space */
    size_t len, at;
    struct batch batch;
    size_t pattern_len;
    char pattern[RL_PATTERN_MAX];
};

static void list_finish(struct list *list, redlock_code code)
{
    redlock_client *client = rl_client_of(&list->task);
    const redlock_listed end = {.code = code};
    rl_task_end(&list->task);
    list->callback(client, &end, list->arg);
    rl_loop_called_back(&client->loop);
}

/* --- how busy the nodes are --- */

static void note_work(struct list *list, unsigned node, rl_time latency)
{
    const redlock_client *client = rl_client_of(&list->task);
    list->busy[node] += rl_max(latency - client->nodes.node[node].link.shortest_trip, 0);
}

/* The nodes work side by side, so the busiest one decides. */
static void pause(struct list *list)
{
    rl_time longest = 0;
    for (unsigned i = 0; i < rl_client_of(&list->task)->nodes.n; i++)
        longest = rl_max(longest, list->busy[i]);
    rl_time due = rl_time_add_sat(list->paged, SHARE * longest);
    rl_task_schedule(&list->task, rl_max(due, list->task.loop->now));
}

/* --- a few keys --- */

static void go_on(struct list *list);

/* A node that was scanned before has it: then it was listed with that one. */
static bool is_listed(const struct list *list, const redlock_inspection *inspection)
{
    for (rl_node_set rest = list->scanned; rest; rest &= rest - 1)
        if (inspection->nodes[rl_first(rest)]->verdict == REDLOCK_VERDICT_HELD &&
            (list->foreign || rl_token_is_ours(inspection->nodes[rl_first(rest)]->value)))
            return true;
    return false;
}

/* The nodes where a key that is there was listed. */
static rl_node_set witnesses_of(const struct list *list)
{
    return list->scanned & ~list->mixed & rl_client_of(&list->task)->nodes.view.open;
}

/* The length of the client's prefix, with which each key begins. */
static size_t prefix_of(const struct list *list)
{
    const char *prefix = rl_client_of(&list->task)->options.prefix;
    return prefix ? strlen(prefix) : 0;
}

static void list_tell(struct list *list, const struct batch_key *key,
                      const redlock_inspection *inspection)
{
    const redlock_listed listed = {
        .code = inspection->code,
        .key = key->bytes + prefix_of(list),
        .key_len = key->len - prefix_of(list),
        .inspection = inspection,
    };
    list->barren = 0;
    list->callback(rl_client_of(&list->task), &listed, list->arg);
}

/* The nodes whose reply did not come, and may come another time. */
static rl_node_set silent_of(const redlock_inspection *inspection)
{
    rl_node_set silent = 0;
    for (unsigned i = 0; i < inspection->count; i++) {
        redlock_verdict verdict = inspection->nodes[i]->verdict;
        if (verdict != REDLOCK_VERDICT_HELD && verdict != REDLOCK_VERDICT_GONE &&
            verdict != REDLOCK_VERDICT_ERROR)
            silent |= rl_bit(i);
    }
    return silent;
}

/*
 * Too few nodes replied, and one of them is connected still, or no quorum is. Or the key
 * may have been listed: a node that was scanned before is silent.
 */
static bool is_undecided(const struct list *list, const redlock_inspection *inspection)
{
    rl_node_set open = rl_client_of(&list->task)->nodes.view.open;
    rl_node_set silent = silent_of(inspection);
    if (inspection->code == REDLOCK_NO_QUORUM)
        return (silent & open) || rl_count(open) < inspection->quorum;
    return inspection->code == REDLOCK_OK && (silent & open & list->scanned);
}

/* The nodes differ, perhaps because they were read one after the other. */
static bool may_have_moved(const struct list *list, const redlock_inspection *inspection)
{
    return !list->batch.at_once && inspection->held > 0 &&
           inspection->agreeing < inspection->quorum;
}

/* Inspects the key again. False: nothing is left to wait for, or it was enough. */
static bool repeat(struct list *list, const struct batch_key *key,
                   const redlock_inspection *inspection)
{
    struct batch *batch = &list->batch;
    bool is_unknown = inspection->code != REDLOCK_OK;
    bool is_late = list->task.loop->now >= rl_time_add_sat(batch->began, PATIENCE);
    bool rests = !list->has_given_up && !is_late && is_undecided(list, inspection);
    bool repeats = rests || may_have_moved(list, inspection);
    list->has_given_up = is_unknown && (list->has_given_up || is_late);
    batch->rests |= rests;
    if (repeats)
        batch->key[batch->again++] = *key;
    return repeats;
}

static bool inspect(struct list *list, unsigned keys);

static void end_batch(struct list *list)
{
    struct batch *batch = &list->batch;
    batch->at_once = true;
    if (batch->rests) {
        rl_task_schedule(&list->task, rl_time_add_sat(list->task.loop->now, POLL_GAP));
    } else if (batch->again == 0) {
        batch->keys = 0;
        go_on(list);
    } else if (!inspect(list, batch->again)) {
        list_finish(list, REDLOCK_NO_MEMORY);
    }
}

/* If its callback ended the list, the memory of the list stays until the last call. */
static void on_inspected(redlock_client *client, const redlock_inspection *inspection,
                         void *arg)
{
    struct list *list = arg;
    struct batch *batch = &list->batch;
    const struct batch_key *key = &batch->key[batch->told++];
    (void)client;
    if (list->task.dead || inspection->code == REDLOCK_CANCELLED)
        return;
    for (unsigned i = 0; batch->told == 1 && i < inspection->count; i++)
        note_work(list, i, inspection->nodes[i]->latency_us);
    if (!is_listed(list, inspection) && !repeat(list, key, inspection) &&
        (inspection->held > 0 || inspection->code != REDLOCK_OK))
        list_tell(list, key, inspection);
    if (batch->told == batch->keys && !list->task.dead)
        end_batch(list);
}

static bool inspect(struct list *list, unsigned keys)
{
    struct batch *batch = &list->batch;
    struct rl_word word[RL_INSPECT_MAX];
    for (unsigned i = 0; i < keys; i++)
        word[i] = (struct rl_word){batch->key[i].bytes, batch->key[i].len};
    batch->keys = keys;
    batch->told = batch->again = 0;
    batch->rests = false;
    return rl_inspect_keys(rl_client_of(&list->task), word, keys, !batch->at_once,
                           on_inspected, list) == REDLOCK_OK;
}

/*
 * The next key of the page, from `at` on. Another program's may be longer than one of a
 * lock, or empty. False: none is left.
 */
static bool read_key(const struct list *list, size_t *at, struct rl_word *ret_key)
{
    while (*at < list->len) {
        size_t from = *at, len = 0;
        while (from < list->len && list->keys[from] != ' ')
            len = 10 * len + (size_t)(list->keys[from++] - '0');
        from++;
        if (from >= list->len || len > list->len - from)
            break;
        *at = from + len;
        *ret_key = (struct rl_word){list->keys + from, len};
        if (len <= REDLOCK_KEY_MAX && len > prefix_of(list))
            return true;
    }
    *at = list->len;
    return false;
}

/* False: no memory. */
static bool begin_batch(struct list *list)
{
    struct batch *batch = &list->batch;
    struct rl_word key;
    unsigned keys = 0;
    batch->began = list->task.loop->now;
    batch->at_once = false;
    for (; keys < RL_INSPECT_MAX && read_key(list, &list->at, &key); keys++) {
        memcpy(batch->key[keys].bytes, key.text, key.len);
        batch->key[keys].len = key.len;
    }
    return keys == 0 || inspect(list, keys);
}

/* --- one page --- */

/*
 * Only names, if a node that was scanned before can tell which of them it has. Eight keys
 * take a node 30 us: others wait no longer than that. Nodes that are far away are asked
 * less often.
 */
static void ask_for_page(struct list *list)
{
    redlock_client *client = rl_client_of(&list->task);
    list->names = !list->closer && witnesses_of(list);
    list->before = list->place;
    bool is_near = rl_nodes_are_near(client);
    const char *count = is_near ? (list->names ? "32" : "8") : list->names ? "64" : "24";
    const struct rl_script *script =
        rl_kind_that_is(false, REDLOCK_KIND_EXCLUSIVE)->script[RL_CMD_LIST];
    const struct rl_word word[PAGE_WORDS] = {
        {"EVAL", 4},
        {script->body, script->len},
        {"0", 1},
        {list->place.cursor, strlen(list->place.cursor)},
        {list->pattern, list->pattern_len},
        {list->place.skip, strlen(list->place.skip)},
        {list->names     ? "2"
         : list->foreign ? "1"
                         : "0",
         1},
        {count, strlen(count)},
    };
    list->paged = list->asked = client->loop.now;
    memset(list->busy, 0, sizeof(list->busy));
    list->waits = rl_nodes_send_raw(&client->nodes, &list->task, ASKS_PAGE, word,
                                    PAGE_WORDS, list->node);
    if (!list->waits)
        list_finish(list, REDLOCK_NO_MEMORY);
}

static bool is_open(const struct list *list)
{
    return rl_client_of(&list->task)->nodes.view.open & rl_bit(list->node);
}

static void scan_next_node(struct list *list)
{
    const redlock_client *client = rl_client_of(&list->task);
    list->to_scan &= client->nodes.view.open;
    if (!list->to_scan) {
        list_finish(list, rl_count(list->scanned) >= client->nodes.q ? REDLOCK_OK
                          : list->denied                             ? REDLOCK_DENIED
                                                                     : REDLOCK_NO_QUORUM);
        return;
    }
    list->node = rl_first(list->to_scan);
    list->at = list->len = 0;
    list->to_scan &= list->to_scan - 1;
    list->place = list->earlier = (struct place){"0", "0"};
    list->closer = false;
    list->pages = list->barren = 0;
    ask_for_page(list);
}

/* Follows a page, or a batch of its keys. */
static void go_on(struct list *list)
{
    if (list->batch.keys > 0 || list->waits)
        return;
    if (list->at < list->len && !begin_batch(list)) {
        list_finish(list, REDLOCK_NO_MEMORY);
        return;
    }
    if (list->batch.keys > 0)
        return;
    if (list->is_last)
        list->scanned |= rl_bit(list->node);
    pause(list);
}

/*
 * The scan of a Redis server is never twice at the same place. One that is goes round in a
 * circle: then it meets one of the places that are kept, each after twice as many pages.
 */
static bool is_endless(struct list *list)
{
    bool was_here = strcmp(list->place.cursor, list->earlier.cursor) == 0 &&
                    strcmp(list->place.skip, list->earlier.skip) == 0;
    list->pages++;
    list->barren++;
    if ((list->pages & (list->pages - 1)) == 0)
        list->earlier = list->place;
    return !list->is_last && (was_here || list->barren > BARREN_MAX);
}

/* Not a page of names that is read once more: its place may come again. */
static void take_page(struct list *list)
{
    if (is_endless(list))
        scan_next_node(list);
    else
        go_on(list);
}

/* --- all keys of a page --- */

/* The page has keys that no node has that was scanned before. */
static void look_closer(struct list *list)
{
    list->place = list->before;
    list->at = list->len = 0;
    list->closer = true;
    list->is_last = false;
    pause(list);
}

/* Asks a node that was scanned before how many it has: mostly all. */
static void ask_for_all(struct list *list)
{
    redlock_client *client = rl_client_of(&list->task);
    struct rl_word word[1 + PAGE_KEYS] = {{"EXISTS", 6}};
    rl_node_set before = witnesses_of(list);
    size_t at = 0;
    list->all = 0;
    while (list->all < PAGE_KEYS && read_key(list, &at, &word[1 + list->all]))
        list->all++;
    if (list->all == 0) {
        list->at = list->len;
        take_page(list);
        return;
    }
    list->asked = client->loop.now;
    list->waits = before && at >= list->len &&
                  rl_nodes_send_raw(&client->nodes, &list->task, ASKS_ALL, word,
                                    1 + list->all, rl_first(before));
    if (!list->waits)
        look_closer(list);
}

static void answer_all(struct list *list, unsigned node, const struct rl_reply *reply)
{
    list->waits = false;
    note_work(list, node, list->task.loop->now - list->asked);
    if (!reply || reply->type != RL_REPLY_INTEGER || reply->integer != list->all) {
        look_closer(list);
        return;
    }
    list->mixed |= list->foreign ? 0 : rl_bit(list->node); /* its values were not read */
    list->at = list->len;
    take_page(list);
}

/* --- replies --- */

static bool read_page(struct list *list, const struct rl_reply *reply)
{
    const struct rl_reply *cursor = &reply->item[0], *skip = &reply->item[1],
                          *keys = &reply->item[2], *others = &reply->item[3];
    if (reply->type != RL_REPLY_ARRAY || reply->items != 4 ||
        cursor->type != RL_REPLY_STRING || cursor->len == 0 ||
        cursor->len >= sizeof(list->place.cursor) || skip->type != RL_REPLY_INTEGER ||
        keys->type != RL_REPLY_STRING || keys->len > sizeof(list->keys) ||
        others->type != RL_REPLY_INTEGER)
        return false;
    memcpy(list->place.cursor, cursor->text, cursor->len);
    list->place.cursor[cursor->len] = '\0';
    snprintf(list->place.skip, sizeof(list->place.skip), "%" PRId64, skip->integer);
    memcpy(list->keys, keys->text, keys->len);
    list->len = keys->len;
    list->at = 0;
    list->mixed |= others->integer ? rl_bit(list->node) : 0;
    list->is_last = strcmp(list->place.cursor, "0") == 0 && skip->integer == 0;
    return true;
}

static void answer_page(struct list *list, const struct rl_reply *reply)
{
    list->waits = list->closer = false;
    note_work(list, list->node, list->task.loop->now - list->asked);
    if (reply && read_page(list, reply)) {
        if (list->names)
            ask_for_all(list);
        else
            take_page(list);
        return;
    }
    if (reply && reply->type == RL_REPLY_ERROR)
        list->denied |= rl_fault_is_denial(rl_fault_of_error(reply->text, reply->len));
    scan_next_node(list);
}

static void list_answer(struct rl_task *task, unsigned node, const struct rl_op *op,
                        const struct rl_reply *reply)
{
    struct list *list = (struct list *)task;
    if (op->seq == ASKS_PAGE)
        answer_page(list, reply);
    else
        answer_all(list, node, reply);
}

static void list_tick(struct rl_task *task)
{
    struct list *list = (struct list *)task;
    const redlock_client *client = rl_client_of(task);
    rl_node_set all = rl_all(client->nodes.n);
    if (!list->begun && rl_startup_tried(&client->nodes) != all &&
        client->loop.now < list->deadline) {
        rl_task_schedule(task, rl_min(list->deadline, client->loop.now + POLL_GAP));
    } else if (!list->begun) {
        list->begun = true;
        list->to_scan = client->nodes.view.open;
        scan_next_node(list);
    } else if (list->batch.keys > 0) {
        if (list->batch.again > 0 && !inspect(list, list->batch.again))
            list_finish(list, REDLOCK_NO_MEMORY);
    } else if (list->is_last || !is_open(list)) {
        list->is_last = false;
        scan_next_node(list);
    } else {
        ask_for_page(list);
    }
}

static void close_list(struct rl_task *task)
{
    list_finish((struct list *)task, REDLOCK_CANCELLED);
}

static const struct rl_task_class list_class = {
    .tick = list_tick,
    .replied = list_answer,
    .close = close_list,
    .destroy = rl_task_free,
};

static redlock_code list_start(redlock_client *client, const void *prefix,
                               size_t prefix_len, unsigned how, redlock_list_fn *callback,
                               void *arg)
{
    const char *ours = client->options.prefix ? client->options.prefix : "";
    if (!callback)
        return rl_fail_no_callback();
    if (prefix_len > REDLOCK_KEY_MAX - strlen(ours))
        return rl_check_len(REDLOCK_BAD_KEY, "prefix", prefix_len,
                            REDLOCK_KEY_MAX - strlen(ours));
    struct list *list = rl_task_new(sizeof(*list), &client->loop, &list_class);
    if (!list)
        return rl_fail_by_code(REDLOCK_NO_MEMORY);
    list->callback = callback;
    list->arg = arg;
    list->foreign = how & REDLOCK_LIST_FOREIGN;
    list->pattern_len = rl_pattern_of(prefix, prefix_len, ours, list->pattern);
    list->deadline =
        rl_time_add_sat(client->loop.now, client->options.connect_timeout_ms * RL_MS);
    rl_task_schedule(&list->task, client->loop.now);
    return REDLOCK_OK;
}

redlock_code redlock_list(redlock_client *client, const void *prefix, size_t prefix_len,
                          unsigned how, redlock_list_fn *callback, void *arg)
{
    redlock_code code = rl_client_call(client);
    if (code != REDLOCK_OK)
        return code;
    code = list_start(client, prefix, prefix_len, how, callback, arg);
    rl_loop_return(&client->loop);
    return code;
}
