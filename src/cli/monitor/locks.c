/* /api/locks, and the locks in /metrics: scans the nodes when somebody asks. */
#include <event2/http.h>
#include <stdlib.h>
#include <string.h>

#include "locks_view.h"
#include "monitor.h"
#include "query.h"
#include "watched.h"

#define LOCKS_MAX      200000 /* that are kept: about 160 bytes each, in two tables */
#define REST_TIMES     15     /* the pause after a scan: so many times as long as it took */
#define REST_LEAST_US  1000000
#define REST_SCRAPE_US 15000000 /* before a scan that only /metrics wants */
#define REST_FAILED_US 5000000  /* at most, after a scan that failed */
#define LIMIT          100
#define LIMIT_MAX      1000
#define ANSWER_MAX     250000 /* bytes: somebody may ask, and not read */

struct monitor_locks {
    struct cli *cli;
    struct table shown, next; /* `next` is being read */
    struct locks_view view;
    struct watched watched; /* what answers have shown */
    bool scans, has_scanned;
    bool is_truncated, next_is_truncated;
    int64_t began_us, lasted_us, ended_us; /* of the last scan that ended */
    int64_t took_us;                       /* the last one that did not fail */
    int64_t scanned_us;                    /* the end of the last one that did not fail */
    int64_t grown_us, growing_us; /* when a part was shown last, and what that took */
    size_t unknown;               /* rows of `next` */
    bool has_failed;              /* the last one */
    char *error; /* why it failed, or why rows are of unknown state; or NULL */
};

struct monitor_locks *monitor_locks_new(struct cli *cli)
{
    struct monitor_locks *locks = cli_need_memory(calloc(1, sizeof(*locks)));
    locks->cli = locks->watched.cli = cli;
    locks_view_begin(&locks->view, &locks->shown);
    return locks;
}

void monitor_locks_free(struct monitor_locks *locks)
{
    locks_view_end(&locks->view);
    watched_free(&locks->watched);
    table_free(&locks->shown);
    table_free(&locks->next);
    free(locks->error);
    free(locks);
}

void monitor_locks_refresh(void *arg)
{
    watched_inspect(&((struct monitor_locks *)arg)->watched);
}

/* --- the scan --- */

static char *error_of(const struct monitor_locks *locks, redlock_code code)
{
    if (code == REDLOCK_OK && locks->unknown == 0)
        return NULL;
    if (code == REDLOCK_OK || code == REDLOCK_DENIED || code == REDLOCK_NO_QUORUM)
        return row_why_not_all(locks->cli, code, locks->unknown);
    return cli_format("%s", redlock_code_text(code));
}

static void show_next(struct monitor_locks *locks)
{
    struct table old = locks->shown;
    table_join(&locks->next);
    table_keep_ages(&locks->next, &old);
    locks->shown = locks->next;
    locks->next = old;
    locks->is_truncated = locks->next_is_truncated;
    locks_view_begin(&locks->view, &locks->shown);
}

/* A part of the locks is shown only if all of them never were. */
static void end_scan(struct monitor_locks *locks, redlock_code code)
{
    locks->scans = false;
    locks->ended_us = cli_clock_us(CLOCK_BOOTTIME);
    locks->lasted_us = locks->ended_us - locks->began_us;
    free(locks->error);
    locks->has_failed = code != REDLOCK_OK;
    locks->error = error_of(locks, code);
    if (code == REDLOCK_OK || !locks->has_scanned)
        show_next(locks);
    table_empty(&locks->next);
    if (code == REDLOCK_OK) {
        locks->has_scanned = true;
        locks->scanned_us = locks->ended_us;
        locks->took_us = locks->lasted_us;
    }
}

static void found(redlock_client *client, const redlock_listed *listed, void *arg)
{
    struct monitor_locks *locks = arg;
    struct row row;
    (void)client;
    if (listed->code == REDLOCK_CANCELLED)
        return;
    if (!listed->inspection) {
        end_scan(locks, listed->code);
        return;
    }
    locks->next_is_truncated |= locks->next.count == LOCKS_MAX;
    if (locks->next.count == LOCKS_MAX)
        return;
    row_take(&row, listed);
    locks->unknown += row.state == ROW_UNKNOWN;
    table_add(&locks->next, &row);
}

/* Begins a scan if none runs, and the last one ended long enough ago. */
static void want_scan(struct monitor_locks *locks, int64_t rest_us)
{
    int64_t now_us = cli_clock_us(CLOCK_BOOTTIME);
    int64_t pause_us = REST_TIMES * locks->lasted_us;
    if (locks->error && pause_us > REST_FAILED_US)
        pause_us = REST_FAILED_US;
    if (rest_us < pause_us)
        rest_us = pause_us;
    if (locks->scans || (locks->ended_us > 0 && now_us - locks->ended_us < rest_us))
        return;
    locks->began_us = now_us;
    locks->next_is_truncated = false;
    locks->unknown = 0;
    redlock_code code = redlock_list(locks->cli->client, "", 0, 0, found, locks);
    locks->scans = code == REDLOCK_OK;
    if (code != REDLOCK_OK)
        end_scan(locks, code);
}

/*
 * Of the first scan, what it has found until now is shown. To sort 100,000 rows takes a
 * while, so somebody who asks all the time does not always get the last ones.
 */
static void show_growing(struct monitor_locks *locks)
{
    int64_t now_us = cli_clock_us(CLOCK_BOOTTIME);
    if (locks->has_scanned || locks->shown.count > 0 ||
        now_us - locks->grown_us < REST_TIMES * locks->growing_us)
        return;
    table_join(&locks->next);
    locks_view_begin(&locks->view, &locks->next);
    locks->grown_us = cli_clock_us(CLOCK_BOOTTIME);
    locks->growing_us = locks->grown_us - now_us;
}

/* --- /api/locks --- */

static const char *text_of(const struct evkeyvalq *query, const char *name)
{
    const char *text = evhttp_find_header(query, name);
    return text ? text : "";
}

static const char *read_query(const struct evkeyvalq *query, struct locks_query *ret_query)
{
    const char *sort = evhttp_find_header(query, "sort");
    size_t descends = 0;
    *ret_query = (struct locks_query){
        .filter = text_of(query, "filter"),
        .prefix = text_of(query, "prefix"),
        .limit = LIMIT,
    };
    if (sort && !locks_sort_of(sort, &ret_query->sort))
        return "sort is key, holder, kind, state, since, remaining, fence or waiting";
    if (!query_number(query, "desc", 1, &descends))
        return "desc is 0 or 1";
    if (!query_number(query, "offset", LOCKS_MAX, &ret_query->offset))
        return "offset is a number up to 200000";
    if (!query_number(query, "limit", LIMIT_MAX, &ret_query->limit))
        return "limit is a number up to 1000";
    ret_query->descends = descends;
    return NULL;
}

static json_t *name_of(const struct locks_prefix *prefix)
{
    return prefix->text ? json_stringn(prefix->text, prefix->len) : json_string("other");
}

static json_t *prefixes_json(const struct locks_view *view)
{
    json_t *array = json_array();
    for (size_t i = 0; i <= view->prefixes; i++) {
        const struct locks_prefix *prefix = locks_prefix_at(view, i);
        if (prefix->locks > 0)
            json_array_append_new(array, json_pack("{s:o, s:i}", "prefix", name_of(prefix),
                                                   "locks", (int)prefix->locks));
    }
    return array;
}

static json_t *rows_json(struct monitor_locks *locks, const struct locks_query *query,
                         size_t *ret_matched)
{
    const struct row *row[LIMIT_MAX];
    size_t count;
    int64_t to_wall_us = cli_clock_us(CLOCK_REALTIME) - cli_clock_us(CLOCK_BOOTTIME);
    json_t *array = json_array();
    *ret_matched = locks_view_select(&locks->view, query, row, &count);
    for (size_t i = 0, size = 0; i < count && size < ANSWER_MAX; i++) {
        struct row now = watched_want(&locks->watched, row[i]);
        json_t *object = row_json(&now);
        if (now.state == ROW_FREE)
            json_object_set_new(object, "holder", json_null());
        if (now.since_ms < 0)
            json_object_set_new(object, "since_ms",
                                json_integer((now.since_us + to_wall_us) / 1000));
        json_object_set_new(object, "seen_ms",
                            json_integer((now.seen_us + to_wall_us) / 1000));
        size += json_dumpb(object, NULL, 0, JSON_COMPACT);
        json_array_append_new(array, object);
    }
    return array;
}

static json_t *locks_json(struct monitor_locks *locks, const struct locks_query *query)
{
    const struct locks_view *view = &locks->view;
    int64_t ago_us = cli_clock_us(CLOCK_BOOTTIME) - locks->scanned_us;
    bool is_truncated =
        view->table == &locks->next ? locks->next_is_truncated : locks->is_truncated;
    size_t matched;
    json_t *rows = rows_json(locks, query, &matched);
    return json_pack(
        "{s:I, s:b, s:o, s:o, s:o, s:b, s:I, s:I, s:I, s:o, s:o}", "at_ms",
        (json_int_t)(cli_clock_us(CLOCK_REALTIME) / 1000), "scanning", locks->scans,
        "scanned_ago_ms", locks->has_scanned ? json_integer(ago_us / 1000) : json_null(),
        "took_ms", locks->has_scanned ? json_integer(locks->took_us / 1000) : json_null(),
        "error", cli_json_known_text(locks->error ? locks->error : ""), "truncated",
        is_truncated, "total", (json_int_t)view->count, "matched", (json_int_t)matched,
        "offset", (json_int_t)query->offset, "prefixes", prefixes_json(view), "locks",
        rows);
}

int monitor_api_locks(void *arg, const struct evkeyvalq *query, struct evbuffer *body)
{
    struct monitor_locks *locks = ((struct monitor *)arg)->locks;
    struct locks_query asked;
    const char *error = read_query(query, &asked);
    if (error)
        return monitor_refuse(body, error);
    want_scan(locks, REST_LEAST_US);
    show_growing(locks);
    return monitor_answer(body, "locks", locks_json(locks, &asked));
}

/* --- /metrics --- */

static void write_sample(const struct locks_prefix *prefix, enum row_state state, FILE *to)
{
    json_t *name = name_of(prefix);
    fputs("redlock_locks{prefix=", to);
    monitor_write_label(json_string_value(name), to);
    fprintf(to, ",state=\"%s\"} %u\n", row_state_name(state), prefix->in_state[state]);
    json_decref(name);
}

void monitor_locks_metrics(struct monitor_locks *locks, FILE *to)
{
    const struct locks_view *view = &locks->view;
    want_scan(locks, REST_SCRAPE_US);
    if (!locks->has_scanned || locks->has_failed)
        return;
    fputs(
        "# HELP redlock_locks Locks on the nodes, at the last scan.\n"
        "# TYPE redlock_locks gauge\n",
        to);
    for (size_t i = 0; i <= view->prefixes; i++)
        for (unsigned state = 0; state < ROW_STATES; state++) {
            const struct locks_prefix *prefix = locks_prefix_at(view, i);
            if (prefix->in_state[state] > 0)
                write_sample(prefix, (enum row_state)state, to);
        }
}
