/*
 * Lists all locks: scans one node after the other, page by page. A key that a node scanned
 * before has, too, was listed already; all others are inspected, a few at a time. A key of
 * which too few nodes replied is inspected again, for a while.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/client.h"
#include "net/resp.h"
#include "pattern.h"
#include "redlock/admin.h"

#define POLL_GAP   (50 * RL_MS)    /* until all nodes were tried; between two inspections */
#define PATIENCE   (2 * RL_SECOND) /* for so long the inspection of a key is repeated */
#define TOGETHER   8               /* keys that are looked at at a time */
#define SHARE      3 /* of the time: no node is busy for more than a third of it */
#define CURSOR     24
#define BARREN_MAX 1000000 /* pages of a node in a row without a new key */
#define PAGE_WORDS 7
#define PAGE_KEYS  256            /* that are asked for by one command */
#define ASKS_ALL   (1 + TOGETHER) /* the `seq` of that command */

struct list;

/* Where a scan goes on: as the node said, and how many keys of that page were returned. */
struct place {
    char cursor[CURSOR], skip[CURSOR];
};

/* A key of the page that is looked at. */
struct look {
    struct list *list; /* NULL: it has ended meanwhile */
    bool inspects;     /* its inspection will call back */
    bool rests; /* it is inspected again at the next tick; neither: a node is asked */
    rl_time began;
    size_t len;
    char key[REDLOCK_KEY_MAX]; /* with the client's prefix */
};

struct list {
    struct rl_task task;
    redlock_list_fn *callback;
    void *arg;
    bool foreign, begun, denied;
    rl_time deadline;
    bool has_given_up; /* the last key that was told is unknown, in spite of PATIENCE */
    rl_node_set to_scan, scanned; /* `scanned`: to the end */
    unsigned node;                /* that is being scanned */
    struct place place, earlier;
    unsigned pages, barren;
    bool waits; /* for a page, or for how many of its keys a node has */
    bool is_last;
    rl_time paged;           /* when the page was asked for */
    rl_time asked;           /* when the last command was sent that is not of a look */
    rl_time busy;            /* how long nodes have worked for the page, at most */
    bool is_timed;           /* `busy` has the present looks */
    unsigned all;            /* how many keys were asked for by one command */
    char keys[RL_RESP_TEXT]; /* of the page: each after its length and a space */
    size_t len, at;
    struct look *look[TOGETHER];
    unsigned looks;
    size_t pattern_len;
    char pattern[RL_PATTERN_MAX];
};

static void list_finish(struct list *list, redlock_code code)
{
    redlock_client *client = rl_client_of(&list->task);
    const redlock_listed end = {.code = code};
    for (unsigned i = 0; i < TOGETHER; i++) {
        struct look *look = list->look[i];
        if (look && look->inspects)
            look->list = NULL;
        else
            free(look);
        list->look[i] = NULL;
    }
    rl_task_end(&list->task);
    list->callback(client, &end, list->arg);
    rl_loop_called_back(&client->loop);
}

/* --- how busy the nodes are --- */

static rl_time work_of(const struct list *list, unsigned node, rl_time latency)
{
    const redlock_client *client = rl_client_of(&list->task);
    return rl_max(latency - client->nodes.node[node].link.shortest_trip, 0);
}

/* A node that got many commands at once replies when it has executed all of them. */
static void note_looks(struct list *list, const redlock_inspection *inspection)
{
    rl_time longest = 0;
    for (unsigned i = 0; !list->is_timed && i < inspection->count; i++)
        longest = rl_max(longest, work_of(list, i, inspection->nodes[i]->latency_us));
    list->is_timed = true;
    list->busy += longest;
}

/* --- one key --- */

static void go_on(struct list *list);

static void drop_look(struct list *list, struct look *look)
{
    for (unsigned i = 0; i < TOGETHER; i++)
        if (list->look[i] == look)
            list->look[i] = NULL;
    list->looks--;
    free(look);
}

/* A node that was scanned before has it: then it was listed with that one. */
static bool is_listed(const struct list *list, const redlock_inspection *inspection)
{
    for (rl_node_set rest = list->scanned; rest; rest &= rest - 1)
        if (inspection->nodes[rl_first(rest)]->verdict == REDLOCK_VERDICT_HELD)
            return true;
    return false;
}

/* The length of the client's prefix, with which each key begins. */
static size_t prefix_of(const struct list *list)
{
    const char *prefix = rl_client_of(&list->task)->options.prefix;
    return prefix ? strlen(prefix) : 0;
}

static void list_tell(struct list *list, const struct look *look,
                      const redlock_inspection *inspection)
{
    const redlock_listed listed = {
        .code = inspection->code,
        .key = look->key + prefix_of(list),
        .key_len = look->len - prefix_of(list),
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

/* Inspects the key again later. False: nothing is left to wait for, or it was enough. */
static bool repeat(struct list *list, struct look *look,
                   const redlock_inspection *inspection)
{
    rl_time now = list->task.loop->now;
    bool is_unknown = inspection->code != REDLOCK_OK;
    bool is_late = now >= rl_time_add_sat(look->began, PATIENCE);
    look->rests = !list->has_given_up && !is_late && is_undecided(list, inspection);
    list->has_given_up = is_unknown && (list->has_given_up || is_late);
    look->inspects = !look->rests;
    if (look->rests)
        rl_task_schedule(&list->task, rl_time_add_sat(now, POLL_GAP));
    return look->rests;
}

static void on_inspected(redlock_client *client, const redlock_inspection *inspection,
                         void *arg)
{
    struct look *look = arg;
    bool is_over = inspection->code == REDLOCK_CANCELLED; /* the list will be told, too */
    (void)client;
    if (look->list)
        note_looks(look->list, inspection);
    if (look->list && !is_over && !is_listed(look->list, inspection)) {
        if (repeat(look->list, look, inspection))
            return;
        if (inspection->held > 0 || inspection->code != REDLOCK_OK)
            list_tell(look->list, look, inspection);
    }
    struct list *list = look->list;
    if (!list) { /* it has ended, perhaps in the callback */
        free(look);
        return;
    }
    drop_look(list, look);
    if (!is_over)
        go_on(list);
}

static bool inspect(struct list *list, struct look *look)
{
    redlock_client *client = rl_client_of(&list->task);
    size_t prefix = prefix_of(list);
    look->rests = false;
    look->inspects = redlock_inspect(client, look->key + prefix, look->len - prefix,
                                     on_inspected, look) == REDLOCK_OK;
    return look->inspects;
}

/* Asks a node that was scanned before; in its absence, all. */
static bool look_at(struct list *list, struct look *look, unsigned slot)
{
    redlock_client *client = rl_client_of(&list->task);
    const struct rl_word word[] = {{"EXISTS", 6}, {look->key, look->len}};
    rl_node_set before = list->scanned & client->nodes.view.open;
    if (before &&
        rl_nodes_send_raw(&client->nodes, &list->task, 1 + slot, word, 2, rl_first(before)))
        return true;
    return inspect(list, look);
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

static bool take_key(struct list *list, struct look *look)
{
    struct rl_word key;
    if (!read_key(list, &list->at, &key))
        return false;
    memcpy(look->key, key.text, key.len);
    look->len = key.len;
    return true;
}

/* False: no memory. */
static bool begin_look(struct list *list, unsigned slot)
{
    struct look *look = calloc(1, sizeof(*look));
    if (!look)
        return false;
    look->list = list;
    look->began = list->task.loop->now;
    list->look[slot] = look;
    list->looks++;
    bool is_found = take_key(list, look), looks = is_found && look_at(list, look, slot);
    if (!looks)
        drop_look(list, look);
    return looks || !is_found;
}

/* --- one page --- */

static void ask_for_page(struct list *list)
{
    redlock_client *client = rl_client_of(&list->task);
    const struct rl_script *script =
        rl_kind_that_is(false, REDLOCK_KIND_EXCLUSIVE)->script[RL_CMD_LIST];
    const struct rl_word word[PAGE_WORDS] = {
        {"EVAL", 4},
        {script->body, script->len},
        {"0", 1},
        {list->place.cursor, strlen(list->place.cursor)},
        {list->pattern, list->pattern_len},
        {list->place.skip, strlen(list->place.skip)},
        {list->foreign ? "1" : "0", 1},
    };
    list->paged = list->asked = client->loop.now;
    list->busy = 0;
    list->waits =
        rl_nodes_send_raw(&client->nodes, &list->task, 0, word, PAGE_WORDS, list->node);
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
    list->pages = list->barren = 0;
    ask_for_page(list);
}

static void pause(struct list *list)
{
    rl_time due = rl_time_add_sat(list->paged, SHARE * list->busy);
    rl_task_schedule(&list->task, rl_max(due, list->task.loop->now));
}

/* Follows a page, or the last of some looks. */
static void go_on(struct list *list)
{
    if (list->looks > 0 || list->waits)
        return;
    list->is_timed = false;
    for (unsigned i = 0; i < TOGETHER && list->at < list->len; i++)
        if (!begin_look(list, i)) {
            list_finish(list, REDLOCK_NO_MEMORY);
            return;
        }
    if (list->looks > 0)
        return;
    if (list->is_last)
        list->scanned |= rl_bit(list->node);
    pause(list);
}

/* --- all keys of a page --- */

/* Asks a node that was scanned before how many it has: mostly all. */
static void ask_for_all(struct list *list)
{
    redlock_client *client = rl_client_of(&list->task);
    struct rl_word word[1 + PAGE_KEYS] = {{"EXISTS", 6}};
    rl_node_set before = list->scanned & client->nodes.view.open;
    size_t at = 0;
    list->all = 0;
    while (list->all < PAGE_KEYS && read_key(list, &at, &word[1 + list->all]))
        list->all++;
    if (!before || list->all < 2 || at < list->len)
        return;
    list->asked = client->loop.now;
    list->waits = rl_nodes_send_raw(&client->nodes, &list->task, ASKS_ALL, word,
                                    1 + list->all, rl_first(before));
}

static void answer_all(struct list *list, unsigned node, const struct rl_reply *reply)
{
    list->waits = false;
    list->busy += work_of(list, node, list->task.loop->now - list->asked);
    if (reply && reply->type == RL_REPLY_INTEGER && reply->integer == list->all)
        list->at = list->len;
    go_on(list);
}

/* --- replies --- */

static bool read_page(struct list *list, const struct rl_reply *reply)
{
    const struct rl_reply *cursor = &reply->item[0], *skip = &reply->item[1],
                          *keys = &reply->item[2];
    if (reply->type != RL_REPLY_ARRAY || reply->items != 3 ||
        cursor->type != RL_REPLY_STRING || cursor->len == 0 ||
        cursor->len >= sizeof(list->place.cursor) || skip->type != RL_REPLY_INTEGER ||
        keys->type != RL_REPLY_STRING || keys->len > sizeof(list->keys))
        return false;
    memcpy(list->place.cursor, cursor->text, cursor->len);
    list->place.cursor[cursor->len] = '\0';
    snprintf(list->place.skip, sizeof(list->place.skip), "%" PRId64, skip->integer);
    memcpy(list->keys, keys->text, keys->len);
    list->len = keys->len;
    list->at = 0;
    list->is_last = strcmp(list->place.cursor, "0") == 0 && skip->integer == 0;
    return true;
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

static void answer_page(struct list *list, const struct rl_reply *reply)
{
    list->waits = false;
    list->busy += work_of(list, list->node, list->task.loop->now - list->asked);
    if (reply && read_page(list, reply) && !is_endless(list)) {
        ask_for_all(list);
        go_on(list);
        return;
    }
    if (reply && reply->type == RL_REPLY_ERROR)
        list->denied |= rl_fault_is_denial(rl_fault_of_error(reply->text, reply->len));
    scan_next_node(list);
}

/* 1: it is there, and was listed. */
static void answer_look(struct list *list, struct look *look, const struct rl_reply *reply)
{
    bool is_there = reply && reply->type == RL_REPLY_INTEGER && reply->integer == 1;
    if (!is_there && inspect(list, look))
        return;
    drop_look(list, look);
    if (is_there)
        go_on(list);
    else
        list_finish(list, REDLOCK_NO_MEMORY);
}

static void list_answer(struct rl_task *task, unsigned node, const struct rl_op *op,
                        const struct rl_reply *reply)
{
    struct list *list = (struct list *)task;
    if (op->seq == 0)
        answer_page(list, reply);
    else if (op->seq == ASKS_ALL)
        answer_all(list, node, reply);
    else
        answer_look(list, list->look[op->seq - 1], reply);
}

/* Inspects those that rest. */
static void look_again(struct list *list)
{
    for (unsigned i = 0; i < TOGETHER; i++)
        if (list->look[i] && list->look[i]->rests && !inspect(list, list->look[i])) {
            list_finish(list, REDLOCK_NO_MEMORY);
            return;
        }
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
    } else if (list->looks > 0) {
        look_again(list);
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

/* The client is freed, perhaps early: then no inspection calls back either. */
static void list_destroy(struct rl_task *task)
{
    for (unsigned i = 0; i < TOGETHER; i++)
        free(((struct list *)task)->look[i]);
    rl_task_free(task);
}

static const struct rl_task_class list_class = {
    .tick = list_tick,
    .replied = list_answer,
    .close = close_list,
    .destroy = list_destroy,
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
