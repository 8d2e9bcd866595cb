/* What a check found of a node, for programs. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

const char *cli_severity(redlock_severity severity)
{
    static const char *const names[] = {
        [REDLOCK_NOTE] = "note",
        [REDLOCK_WARNING] = "warning",
        [REDLOCK_DEFECT] = "defect",
    };
    return names[severity];
}

/* What to call, which the library cannot say; ends the sentence of the finding. */
static const struct {
    const char *code, *call;
} calls[] = {
    {"no_right", ", which redlock check --acl prints"},
    {"no_time", ", see redlock check --acl"},
    {"no_sets", ", which redlock check --acl prints"},
    {"no_calls", ", which redlock check --acl prints"},
    {"tls_ca", " (--cacert)"},
    {"tls_client", " (--cert, --key)"},
    {"client_certificate_ends", " (--cert)"},
    {"unmarked",
     "; an operator admits all by redlock admit --new, and readmits it by redlock admit "
     "--readmit, with --forget if its memory is lost for ever"},
    {"other_process", "; an operator readmits it by redlock admit --readmit"},
    {"quarantined", "; an operator does so by redlock admit --readmit"},
    {"replaced", " by redlock admit --readmit"},
    {"not_durable", " by redlock admit --readmit --promise"},
    {"promises_differ", " by redlock admit --readmit --promise"},
};

char *cli_finding_text(const redlock_finding *found)
{
    const char *call = "";
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        if (strcmp(found->code, calls[i].code) == 0)
            call = calls[i].call;
    return cli_format("%s%s", found->text, call);
}

static json_t *findings_json(const redlock_node_health *node)
{
    json_t *array = json_array();
    for (size_t i = 0; i < node->count; i++) {
        const redlock_finding *found = node->findings[i];
        char *text = cli_finding_text(found);
        json_array_append_new(array, json_pack("{s:s, s:s, s:s, s:o}", "severity",
                                               cli_severity(found->severity), "code",
                                               found->code, "text", text, "detail",
                                               cli_json_known_text(found->detail)));
        free(text);
    }
    return array;
}

const struct cli_promise cli_promises[] = {
    {"durable", REDLOCK_PROMISE_DURABLE},
    {"sole", REDLOCK_PROMISE_SOLE},
    {"none", REDLOCK_PROMISE_NONE},
    {NULL, 0},
};

static json_t *promises_json(unsigned promises)
{
    json_t *array = json_array();
    for (const struct cli_promise *it = cli_promises; it->name; it++)
        if (promises & it->promise)
            json_array_append_new(array, json_string(it->name));
    return array;
}

static json_t *member_json(const redlock_node_health *node)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "state",
                     node->member_state == REDLOCK_MEMBER_UNSEEN
                         ? json_null()
                         : json_string(redlock_member_state_name(node->member_state)),
                     "member_index", cli_json_known(node->member_index), "generation",
                     cli_json_known(node->generation), "quarantine_ms",
                     cli_json_known(cli_ms(node->quarantine_us)), "max_ttl_ms",
                     cli_json_known(cli_ms(node->max_ttl_us)), "promises",
                     node->generation < 0 ? json_null() : promises_json(node->promises));
}

json_t *cli_health_json(const redlock_node_health *node)
{
    return json_pack(
        "{s:o, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "uri",
        cli_json_text(node->uri), "fit", node->fit, "latency_us",
        cli_json_known(node->latency_us), "version", cli_json_known_text(node->version),
        "offset_us", node->timed ? json_integer(node->offset_us) : json_null(),
        "offset_err_us", node->timed ? json_integer(node->offset_err_us) : json_null(),
        "maxmemory_policy", cli_json_known_text(node->policy), "maxmemory",
        cli_json_known(node->maxmemory), "fsync", cli_json_known_text(node->fsync),
        "replicas", cli_json_known(node->replicas), "certificate_ms",
        cli_json_known(cli_ms(node->certificate_us)), "member", member_json(node),
        "findings", findings_json(node));
}
