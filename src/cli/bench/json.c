/* redlock bench, the output for programs. */
#include "bench.h"
#include "order_stats.h"

static json_t *number(uint64_t value)
{
    return json_integer((json_int_t)value);
}

/* {"count", "p50_us", ..., "max_us"} */
static json_t *latency_json(const struct histogram *latency)
{
    json_t *object = json_pack("{s:o}", "count", number(latency->total));
    for (size_t i = 0; i < BENCH_PERCENTILES; i++)
        json_object_set_new(
            object, bench_percentile[i].key,
            cli_json_known(histogram_at(latency, bench_percentile[i].parts)));
    json_object_set_new(object, "max_us", cli_json_known(latency->most));
    return object;
}

/* Weights are not counts: only their share has a meaning. */
json_t *bench_model_json(const struct bench_result_model *model)
{
    json_t *object = latency_json(&model->latency);
    json_object_del(object, "count");
    json_object_set_new(object, "not_held_share", json_real(bench_never(model)));
    return object;
}

/* {"no_quorum": 3} */
static json_t *codes_json(const uint64_t counts[CYCLE_CODES])
{
    char name[CLI_CAUSE];
    json_t *object = json_object();
    for (int code = 0; code < CYCLE_CODES; code++)
        if (counts[code])
            json_object_set_new(object, cli_cause_name(code, name), number(counts[code]));
    return object;
}

static json_t *valid_json(const struct bench *bench)
{
    const struct histogram *valid = &bench->bench_result.valid;
    double ttl = (double)bench->cli->lease.ttl_ms;
    int64_t median = histogram_at(valid, HISTOGRAM_ALL / 2);
    if (valid->total == 0)
        return json_null();
    return json_pack("{s:I, s:I, s:f, s:f}", "p50_ms", (json_int_t)median, "least_ms",
                     (json_int_t)valid->least, "p50_share", (double)median / ttl,
                     "least_share", (double)valid->least / ttl);
}

static void add_outage(json_t *object, const struct outage *outage)
{
    json_object_set_new(object, "failing_ms", json_integer(outage->sum / 1000));
    json_object_set_new(object, "failing_longest_ms", json_integer(outage->longest / 1000));
}

static json_t *node_json(const struct bench *bench, unsigned index)
{
    const struct bench_result_node *node = &bench->bench_result.node[index];
    json_t *object = json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:s?, s:o, s:o}", "uri",
        cli_json_text(bench->nodes[index].uri), "asked", number(node->asked), "granted",
        number(node->granted), "refused", number(node->refused), "silent",
        number(node->silent), "broken", number(node->broken), "not_asked",
        number(node->absent), "ready", number(node->ready), "qth", number(node->last),
        "text", node->fault, "latency", latency_json(&node->latency), "without",
        bench_model_json(&node->without));
    add_outage(object, &node->outage);
    return object;
}

static json_t *what_if_json(const struct bench *bench)
{
    const struct bench_result *bench_result = &bench->bench_result;
    json_t *fewer = json_array(), *all = bench_model_json(&bench_result->all);
    for (unsigned m = bench_result->n - 1; m >= 1; m--) {
        json_t *object = bench_model_json(&bench_result->fewer[m]);
        json_object_set_new(object, "node_count", json_integer(m));
        json_object_set_new(object, "quorum", json_integer(order_stats_majority(m)));
        json_array_append_new(fewer, object);
    }
    return json_pack("{s:s, s:o, s:o}", "computed", bench_what_if, "all", all, "fewer",
                     fewer);
}

json_t *bench_json(const struct bench *bench)
{
    const struct bench_result *bench_result = &bench->bench_result;
    json_t *nodes = json_array();
    for (unsigned i = 0; i < bench_result->n; i++)
        json_array_append_new(nodes, node_json(bench, i));
    double per_s = (double)bench_result->cycles * 1e6 / (double)bench_result->elapsed_us;
    json_t *object = json_pack("{s:i, s:I, s:I, s:I, s:o, s:o, s:o, s:f}", "quorum",
                               (int)bench->quorum, "lanes", (json_int_t)bench->workers,
                               "ttl_ms", (json_int_t)bench->cli->lease.ttl_ms, "warmup_ms",
                               (json_int_t)bench->warmup_ms, "elapsed_ms",
                               json_integer(bench_result->elapsed_us / 1000), "cycles",
                               number(bench_result->cycles), "held",
                               number(bench_result->held), "cycles_per_s", per_s);
    json_object_set_new(object, "cause", cli_cause(bench->cause));
    json_object_set_new(object, "signal",
                        bench->signal ? json_integer(bench->signal) : json_null());
    add_outage(object, &bench_result->outage);
    json_object_set_new(object, "not_acquired", codes_json(bench_result->not_acquired));
    json_object_set_new(object, "not_released", codes_json(bench_result->not_released));
    json_object_set_new(object, "acquire", latency_json(&bench_result->acquire));
    json_object_set_new(object, "release", latency_json(&bench_result->release));
    json_object_set_new(object, "validity", valid_json(bench));
    json_object_set_new(object, "nodes", nodes);
    json_object_set_new(object, "what_if", what_if_json(bench));
    return object;
}

/* --- the whole result --- */

/* [[us, count], ...]: `count` values are at most `us` and above the previous bound. */
static json_t *buckets_json(const struct histogram *latency)
{
    json_t *array = json_array();
    size_t buckets = histogram_buckets(latency);
    for (size_t i = 0; i < buckets; i++)
        if (latency->count[i] > 0)
            json_array_append_new(array, json_pack("[I, o]",
                                                   (json_int_t)histogram_bound(latency, i),
                                                   number(latency->count[i])));
    return array;
}

/* {"p50_us", "p99_us", "max_us"} */
static json_t *grant_json(const struct histogram *grant)
{
    if (grant->total == 0)
        return json_null();
    return json_pack("{s:I, s:I, s:I}", "p50_us",
                     (json_int_t)histogram_at(grant, HISTOGRAM_ALL / 2), "p99_us",
                     (json_int_t)histogram_at(grant, HISTOGRAM_ALL / 100 * 99), "max_us",
                     (json_int_t)grant->most);
}

static json_t *slot_json(const struct bench_result *bench_result, size_t index)
{
    const struct timeline_slot *slot = &bench_result->timeline.slot[index];
    json_t *silent = json_array(), *other = json_array(), *nodes = json_array();
    json_t *object = latency_json(&slot->acquire);
    for (unsigned i = 0; i < bench_result->n; i++) {
        json_array_append_new(nodes, grant_json(&slot->grant[i]));
        json_array_append_new(silent, json_integer(slot->silent[i]));
        json_array_append_new(other, json_integer(slot->other[i]));
    }
    json_object_set_new(
        object, "at_ms",
        json_integer((json_int_t)index * (json_int_t)bench_result->timeline.interval_ms));
    json_object_set_new(object, "failed", number(slot->failed));
    json_object_set_new(object, "codes", codes_json(slot->code));
    json_object_set_new(object, "silent", silent);
    json_object_set_new(object, "other", other);
    json_object_set_new(object, "nodes", nodes);
    json_object_set_new(object, "qth", grant_json(&slot->qth));
    json_object_set_new(object, "release",
                        slot->release.total ? latency_json(&slot->release) : json_null());
    json_object_set_new(object, "valid_least_ms",
                        slot->acquire.total ? json_integer(slot->valid_least)
                                            : json_null());
    return object;
}

static json_t *distributions_json(const struct bench_result *bench_result)
{
    json_t *nodes = json_array();
    for (unsigned i = 0; i < bench_result->n; i++)
        json_array_append_new(nodes, buckets_json(&bench_result->node[i].latency));
    return json_pack("{s:o, s:o, s:o, s:o}", "acquire",
                     buckets_json(&bench_result->acquire), "release",
                     buckets_json(&bench_result->release), "qth",
                     buckets_json(&bench_result->all.latency), "nodes", nodes);
}

json_t *bench_json_whole(const struct bench *bench)
{
    const struct timeline *timeline = &bench->bench_result.timeline;
    json_t *object = bench_json(bench), *slots = json_array();
    for (size_t i = 0; i < timeline->used; i++)
        json_array_append_new(slots, slot_json(&bench->bench_result, i));
    json_object_set_new(object, "distributions", distributions_json(&bench->bench_result));
    json_object_set_new(object, "timeline",
                        json_pack("{s:I, s:o}", "interval_ms",
                                  (json_int_t)timeline->interval_ms, "slots", slots));
    return object;
}
