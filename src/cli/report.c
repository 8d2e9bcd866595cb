/* Converts the nodes' replies to messages. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

/* The command's name of a field of the library. */
static const char *name_of(const char *field)
{
    static const struct {
        const char *field, *name;
    } names[] = {
        {"ttl_ms", "--ttl"},
        {"wait_ms", "--wait"},
        {"margin_ms", "--kill-after"},
        {"node_timeout_ms", "--timeout"},
        {"connect_timeout_ms", "--timeout"},
        {"max_ttl_ms", "--max-ttl"},
        {"max_hold_ms", "--max-hold"},
        {"drift_ppm", "drift-ppm"},
        {"tls_name", "--sni"},
        {"tls_ca_file", "--cacert"},
        {"tls_ca_dir", "--cacertdir"},
        {"tls_cert_file", "--cert"},
        {"tls_key_file", "--key"},
        {"prefix", "--prefix"},
        {"slots", "--slots"},
        {"fenced", "--fence"},
        {"kind", "the kind"},
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(names[i].field, field) == 0)
            return names[i].name;
    return field;
}

const char *cli_error(char text[CLI_ERROR], const redlock_error *error)
{
    char value[CLI_SPAN], bound[CLI_SPAN];
    size_t len = error->field ? strlen(error->field) : 0;
    const char *why = strstr(error->text, ": ");
    if (len == 0)
        return error->text;
    if (error->value == error->bound || len < 3 ||
        strcmp(error->field + len - 3, "_ms") != 0)
        snprintf(text, CLI_ERROR, "%s%s", name_of(error->field), error->text + len);
    else
        snprintf(text, CLI_ERROR, "%s is %s, and must be at %s %s%s", name_of(error->field),
                 cli_span(value, error->value),
                 error->value < error->bound ? "least" : "most",
                 cli_span(bound, error->bound), why ? why : "");
    return text;
}

bool cli_is_denied(const redlock_node *nodes, size_t count, unsigned quorum)
{
    size_t denied = 0;
    for (size_t i = 0; i < count; i++)
        denied += nodes[i].denied;
    return denied > count - quorum;
}

const redlock_node *cli_holder(const redlock_node *nodes, size_t count)
{
    const redlock_node *holder = NULL;
    size_t most = 0;
    for (size_t i = 0; i < count; i++) {
        size_t same = 0;
        for (size_t j = 0; nodes[i].holder[0] && j < count; j++)
            same += strcmp(nodes[i].holder, nodes[j].holder) == 0 &&
                    strcmp(nodes[i].value, nodes[j].value) == 0;
        if (same > most) {
            most = same;
            holder = &nodes[i];
        }
    }
    return holder;
}

static bool is_faulty(const redlock_node *node)
{
    return node->fault != REDLOCK_FAULT_NONE;
}

/* An earlier node has the same fault, which was then reported with it. */
static bool is_reported(const redlock_node *nodes, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (is_faulty(&nodes[i]) && strcmp(nodes[i].text, nodes[index].text) == 0)
            return true;
    return false;
}

size_t cli_count_faults(const redlock_node *nodes, size_t count)
{
    size_t faulty = 0;
    for (size_t i = 0; i < count; i++)
        faulty += is_faulty(&nodes[i]);
    return faulty;
}

/* All failures are of the start: no connection has failed. */
static bool are_connecting(const redlock_node *nodes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (is_faulty(&nodes[i]) && nodes[i].fault != REDLOCK_FAULT_CONNECTING)
            return false;
    return cli_count_faults(nodes, count) > 0;
}

char *cli_faults(const redlock_node *nodes, size_t count)
{
    char span[CLI_SPAN];
    struct cli_text text;
    FILE *stream = cli_text_begin(&text);
    bool are_new = are_connecting(nodes, count);
    size_t failed = cli_count_faults(nodes, count);
    const char *separator = ": ";
    fprintf(stream, "%zu of %zu nodes %s", failed, count,
            are_new ? "are not connected yet" : "failed");
    for (size_t i = 0; i < count; i++) {
        if (!is_faulty(&nodes[i]) || is_reported(nodes, i))
            continue;
        int64_t longest_us = nodes[i].remaining_us;
        fprintf(stream, "%s%s", separator, nodes[i].uri);
        separator = "; ";
        for (size_t j = i + 1; j < count; j++) {
            if (!is_faulty(&nodes[j]) || strcmp(nodes[j].text, nodes[i].text) != 0)
                continue;
            fprintf(stream, ", %s", nodes[j].uri);
            if (nodes[j].remaining_us > longest_us)
                longest_us = nodes[j].remaining_us;
        }
        if (!are_new)
            fprintf(stream, ": %s", nodes[i].text);
        if (longest_us >= 0) /* of a quarantine */
            fprintf(stream, ", for another %s", cli_span(span, longest_us / 1000));
    }
    return cli_text_end(&text);
}

void cli_say_faults(const struct cli *cli, const char *key, const char *state,
                    const redlock_node *nodes, size_t count)
{
    char *faults = cli_faults(nodes, count);
    cli_say(cli, "%s%s: %s%s", key, state, faults,
            cli_advice(nodes, count, redlock_client_quorum(cli->client)));
    free(faults);
}

/* "KEY is held by LABEL, for another 12.3 s" */
static void say_taken(const struct cli *cli, const char *key, const redlock_result *result,
                      const redlock_node *nodes, size_t count)
{
    char span[CLI_SPAN];
    const redlock_node *holder = cli_holder(nodes, count);
    const char *still = result->code == REDLOCK_TIMEOUT ? "the wait ran out: " : "";
    const char *name = holder ? holder->holder : "another";
    const char *which = cli_keys_taken(&cli->keys, key, holder);
    if (result->remaining_ms >= 0)
        cli_say(cli, "%s%s is held by %s, for another %s unless it is extended", still,
                which, name, cli_span(span, result->remaining_ms));
    else
        cli_say(cli, "%s%s is held by %s", still, which, name);
}

char *cli_too_few(const redlock_result *result, const redlock_node *nodes, size_t count)
{
    size_t failed = cli_count_faults(nodes, count);
    char *faults = cli_faults(nodes, count);
    if (failed > count - result->quorum)
        return faults;
    char *text = cli_format("%u of %u nodes granted it, %u are needed%s%s%s",
                            result->granted, result->nodes, result->quorum,
                            result->granted < result->quorum ? "" : " in time",
                            failed > 0 ? "; " : "", failed > 0 ? faults : "");
    free(faults);
    return text;
}

/* Reports an acquire that ran out of its TTL, not of its wait. */
static void say_expired(const struct cli *cli, const char *key,
                        const redlock_result *result)
{
    char took[CLI_SPAN], ttl[CLI_SPAN];
    cli_say(cli,
            "%s is not held: after %s without a quorum too little of the TTL of %s was "
            "left%s; use a longer --ttl",
            key, cli_span(took, result->took_ms), cli_span(ttl, cli->lease.ttl_ms),
            cli->lease.margin_ms > 0 ? " for --kill-after" : "");
}

void cli_say_not_acquired(const struct cli *cli, const char *key,
                          const redlock_result *result, const redlock_node *nodes,
                          size_t count)
{
    if (result->code == REDLOCK_TAKEN || result->code == REDLOCK_TIMEOUT) {
        say_taken(cli, key, result, nodes, count);
    } else if (result->code == REDLOCK_NO_QUORUM || result->code == REDLOCK_DENIED) {
        char *why = cli_too_few(result, nodes, count), span[CLI_SPAN];
        bool is_timed = result->remaining_ms > 0;
        cli_say(cli, "%s is not held: %s%s%s%s", key, why,
                is_timed ? "; a quorum can be free in " : "",
                is_timed ? cli_span(span, result->remaining_ms) : "",
                cli_advice(nodes, count, result->quorum));
        free(why);
    } else if (result->code == REDLOCK_EXPIRED) {
        say_expired(cli, key, result);
    } else if (result->code == REDLOCK_BAD_TTL) {
        cli_say_too_long(cli, key);
    } else {
        bool has_reason = result->reason != REDLOCK_REASON_NONE;
        cli_say(cli, "%s: %s%s%s", key, redlock_code_text(result->code),
                has_reason ? ": " : "",
                has_reason ? redlock_reason_text(result->reason) : "");
    }
}

void cli_say_not_released(const struct cli *cli, const char *key, const char *before,
                          const redlock_result *result, const redlock_node *nodes,
                          size_t count)
{
    char *faults = cli_faults(nodes, count);
    cli_say(cli, "%s: %s%s, what is left ends with its TTL: %s%s", key, before,
            redlock_code_text(result->code), faults,
            cli_advice(nodes, count, result->quorum));
    free(faults);
}

void cli_say_too_long(const struct cli *cli, const char *key)
{
    char span[CLI_SPAN];
    cli_say(cli,
            "%s: --ttl %s is longer than the --max-ttl that the nodes were admitted with",
            key, cli_span(span, cli->lease.ttl_ms));
}
