/* redlock check: checks whether the nodes are fit to hold locks. */
#include "repaired.h"

#include <stdlib.h>
#include <string.h>

const struct cli_help cli_check_help = {
    "Usage: redlock check [--strict] [--fence] [--acl [--redisson] [--list]]\n"
    "       redlock check --until-repaired [-w WAIT]\n"
    "Check whether the nodes are fit to hold locks. Print each finding, what to do about\n"
    "it, and the nodes that have it. Write no key and change no lock.\n\n"
    "      --strict              treat each warning as a defect; a note stays a note\n"
    "      --fence               the nodes are to hold fenced locks\n"
    "      --acl                 contact no node: print the smallest ACL rule of a client\n"
    "      --redisson            with --acl: and for locks in Redisson's layout\n"
    "      --list                with --acl: and for redlock list\n"
    "      --until-repaired      wait until each lock is on all nodes again: then the "
    "next\n"
    "                            node may be restarted\n"
    "  -w, --wait WAIT           with --until-repaired: at most so long; default: no "
    "limit\n"
    "\n"
    "Example:\n"
    "  redlock check --json | jq -r '.nodes[] | .uri + \" \" + .findings[].code'\n",
    "\n"
    "A defect: the node is not fit. A warning: locks work now; a restart, an eviction\n"
    "or another event can break them. A note: the user may not read a setting.\n\n"
    "Exit codes: 0 all nodes are fit, and nothing was found; 1 a quorum of nodes is\n"
    "fit, but something was found; 2 fewer nodes than a quorum are fit; 3 no node was\n"
    "queried, for lack of memory or file descriptors. --until-repaired: 0 repaired; 75\n"
    "the wait ran out; 77 the user lacks a right.\n",
};

#define CLI_NOT_TRIED 3
#define COLUMNS       6 /* columns between STATE and the findings */

static const char *const colors[] = {
    [REDLOCK_NOTE] = CLI_PLAIN,
    [REDLOCK_WARNING] = CLI_YELLOW,
    [REDLOCK_DEFECT] = CLI_RED,
};

/* --- for people --- */

static int max(int a, int b)
{
    return a > b ? a : b;
}

static const char *or_dash(const char *text)
{
    return text[0] ? text : "-";
}

/* "+0.3 ms" */
static const char *show_offset(const redlock_node_health *node, char buffer[32])
{
    double ms = (double)node->offset_us / 1000;
    if (!node->timed)
        return "-";
    snprintf(buffer, 32, "%+.1f ms", ms);
    return buffer;
}

static void print_row(int uri_width, int version_width, const char *uri, const char *state,
                      const char *color, const char *const column[COLUMNS])
{
    cli_print("%-*s  %s%-7s%s  %-*s  %-11s  %-15s  %-8s  %-8s  %s\n", uri_width, uri, color,
              state, color[0] ? CLI_PLAIN : "", version_width, column[0], column[1],
              column[2], column[3], column[4], column[5]);
}

/* "active 3": of the third generation. */
static const char *show_member_state(const redlock_node_health *node, char buffer[48])
{
    if (node->generation < 0)
        return "-";
    snprintf(buffer, 48, "%s %lld", redlock_member_state_name(node->member_state),
             (long long)node->generation);
    return buffer;
}

static const char *state_of(const redlock_node_health *node)
{
    for (size_t i = 0; node->fit && i < node->count; i++)
        if (node->findings[i]->severity == REDLOCK_WARNING)
            return "warning";
    return node->fit ? "fit" : "unfit";
}

static const char *color_of(const struct cli *cli, const char *state)
{
    if (!cli->color)
        return "";
    return state[0] == 'f' ? CLI_GREEN : state[0] == 'w' ? CLI_YELLOW : CLI_RED;
}

static void print_node(const struct cli *cli, const redlock_node_health *node,
                       int uri_width, int version_width)
{
    char offset[32], member_state[48], replicas[32] = "-";
    const char *state = state_of(node);
    if (node->replicas >= 0)
        snprintf(replicas, sizeof(replicas), "%lld", (long long)node->replicas);
    char *version = cli_printable(or_dash(node->version));
    char *policy = cli_printable(or_dash(node->policy));
    char *fsync = cli_printable(or_dash(node->fsync));
    const char *const column[COLUMNS] = {version,  show_offset(node, offset),
                                         policy,   fsync,
                                         replicas, show_member_state(node, member_state)};
    print_row(uri_width, version_width, node->uri, state, color_of(cli, state), column);
    free(version);
    free(policy);
    free(fsync);
}

static const redlock_finding *find(const redlock_node_health *node, const char *code)
{
    for (size_t i = 0; i < node->count; i++)
        if (strcmp(node->findings[i]->code, code) == 0)
            return node->findings[i];
    return NULL;
}

/* Prints the finding, and the nodes that have it, from `first` on. */
static void print_finding(const struct cli *cli, const redlock_health_report *report,
                          size_t first, const redlock_finding *finding)
{
    char *text = cli_finding_text(finding);
    cli_print("%s%s%s %s: %s\n", cli->color ? colors[finding->severity] : "",
              cli_severity(finding->severity), cli->color ? CLI_PLAIN : "", finding->code,
              text);
    free(text);
    for (size_t i = first; i < report->count; i++) {
        const redlock_finding *found = find(report->nodes[i], finding->code);
        if (!found)
            continue;
        char *detail = cli_printable(found->detail);
        cli_print("    %s%s%s%s\n", report->nodes[i]->uri, detail[0] ? " (" : "", detail,
                  detail[0] ? ")" : "");
        free(detail);
    }
}

/* Each finding once, in the order of the nodes. */
static void print_findings(const struct cli *cli, const redlock_health_report *report)
{
    for (size_t i = 0; i < report->count; i++)
        for (size_t j = 0; j < report->nodes[i]->count; j++) {
            const redlock_finding *finding = report->nodes[i]->findings[j];
            size_t before = 0;
            while (before < i && !find(report->nodes[before], finding->code))
                before++;
            if (before == i)
                print_finding(cli, report, i, finding);
        }
}

/* What the nodes are as a deployment; what each lacks is in its findings. */
static void print_deployment(const redlock_health_report *report)
{
    char span[CLI_SPAN];
    const char *separator = "";
    const redlock_node_health *marked = NULL;
    size_t voting = 0, unseen = 0, needed = report->count / 2 + 1;
    for (size_t i = report->count; i-- > 0;) {
        const redlock_node_health *node = report->nodes[i];
        marked = node->max_ttl_us >= 0 ? node : marked;
        voting += node->member_state == REDLOCK_MEMBER_ACTIVE;
        unseen += node->member_state == REDLOCK_MEMBER_UNSEEN ||
                  node->member_state == REDLOCK_MEMBER_NO_MAJORITY;
    }
    cli_print("fenced locks: %zu of %zu nodes vote, %zu are needed", voting, report->count,
              needed);
    if (marked) {
        cli_print("; longest TTL %s; promises: ",
                  cli_span(span, marked->max_ttl_us / 1000));
        for (const struct cli_promise *it = cli_promises; it->name; it++)
            if (marked->promises & it->promise) {
                cli_print("%s%s", separator, it->name);
                separator = ", ";
            }
        cli_print("%s", separator[0] ? "" : "none");
        if (voting + unseen < needed && !(marked->promises & REDLOCK_PROMISE_SOLE))
            cli_print("; an operator has to run redlock admit --readmit");
    }
    cli_print("\n");
}

static void print_table(const struct cli *cli, const redlock_health_report *health_report,
                        unsigned how)
{
    static const char *const head[COLUMNS] = {"VERSION", "CLOCK",    "EVICTION",
                                              "FSYNC",   "REPLICAS", "FENCED"};
    static const char *const health_names[] = {
        [REDLOCK_FIT] = "fit",
        [REDLOCK_FIT_WITH_WARNINGS] = "fit, but see the findings",
        [REDLOCK_UNFIT] = "not fit",
        [REDLOCK_NOT_CHECKED] = "not tried",
    };
    int uri_width = (int)strlen("NODE"), version_width = (int)strlen(head[0]);
    for (size_t i = 0; i < health_report->count; i++) {
        uri_width = max(uri_width, (int)strlen(health_report->nodes[i]->uri));
        version_width = max(version_width, (int)strlen(health_report->nodes[i]->version));
    }
    print_row(uri_width, version_width, "NODE", "STATE", "", head);
    for (size_t i = 0; i < health_report->count; i++)
        print_node(cli, health_report->nodes[i], uri_width, version_width);
    print_findings(cli, health_report);
    if (how & REDLOCK_CHECK_FENCED)
        print_deployment(health_report);
    cli_print("%u of %zu nodes are fit, %u are needed: %s\n", health_report->fit,
              health_report->count, health_report->quorum,
              health_names[health_report->health]);
}

/* --- for programs --- */

static bool check_print_json(const struct cli *cli,
                             const redlock_health_report *health_report, unsigned how)
{
    static const char *const health_names[] = {
        [REDLOCK_FIT] = "fit",
        [REDLOCK_FIT_WITH_WARNINGS] = "warnings",
        [REDLOCK_UNFIT] = "no_quorum",
        [REDLOCK_NOT_CHECKED] = "not_tried",
    };
    json_t *nodes = json_array();
    for (size_t i = 0; i < health_report->count; i++)
        json_array_append_new(nodes, cli_health_json(health_report->nodes[i]));
    return cli_print_json(cli, json_pack("{s:s, s:b, s:b, s:i, s:i, s:o}", "health",
                                         health_names[health_report->health], "strict",
                                         (how & REDLOCK_CHECK_STRICT) != 0, "fenced",
                                         (how & REDLOCK_CHECK_FENCED) != 0, "fit",
                                         health_report->fit, "quorum",
                                         health_report->quorum, "nodes", nodes));
}

/* --- the command --- */

struct call {
    const struct cli *cli;
    unsigned how;
    bool done, printed;
    redlock_health health;
};

static void checked(redlock_client *client, const redlock_health_report *health_report,
                    void *arg)
{
    struct call *call = arg;
    (void)client;
    call->health = health_report->health;
    if (call->cli->json) {
        call->printed = check_print_json(call->cli, health_report, call->how);
    } else {
        if (!call->cli->quiet)
            print_table(call->cli, health_report, call->how);
        call->printed = cli_flush();
    }
    call->done = true;
}

_Static_assert(REDLOCK_FIT == 0 && REDLOCK_FIT_WITH_WARNINGS == 1 && REDLOCK_UNFIT == 2 &&
                   REDLOCK_NOT_CHECKED == CLI_NOT_TRIED,
               "these are the exit codes");

static int ask_nodes(const struct cli *cli, unsigned how)
{
    struct call call = {.cli = cli, .how = how};
    redlock_code code = redlock_check(cli->client, how, checked, &call);
    if (code != REDLOCK_OK)
        cli_fail(CLI_NOT_TRIED, "%s", redlock_last_error()->text);
    cli_wait(cli->base, &call.done);
    return cli_exit_printed(call.printed, (int)call.health);
}

static int print_acl(const struct cli *cli, bool redisson, bool lists)
{
    unsigned uses = (redisson ? REDLOCK_ACL_REDISSON : 0) | (lists ? REDLOCK_ACL_LIST : 0);
    size_t room = redlock_client_acl(cli->client, uses, NULL, 0) + 1;
    char *rule = cli_need_memory(malloc(room));
    redlock_client_acl(cli->client, uses, rule, room);
    bool printed = cli->json
                       ? cli_print_json(cli, json_pack("{s:o}", "acl", cli_json_text(rule)))
                       : cli_print_text(rule);
    free(rule);
    return cli_exit_printed(printed, CLI_OK);
}

int cli_check(struct cli *cli, int argc, char **argv)
{
    bool strict = false, fence = false, acl = false, redisson = false, lists = false;
    bool until_repaired = false;
    int64_t wait_ms = CLI_UNSAID;
    const struct cli_option own[] = {
        {"strict", 0, CLI_FLAG, &strict},
        {"fence", 0, CLI_FLAG, &fence},
        {"acl", 0, CLI_FLAG, &acl},
        {"redisson", 0, CLI_FLAG, &redisson},
        {"list", 0, CLI_FLAG, &lists},
        {"until-repaired", 0, CLI_FLAG, &until_repaired},
        {"wait", 'w', CLI_DURATION, &wait_ms},
        {NULL, 0, CLI_FLAG, NULL},
    };
    cli->own_failure = CLI_NOT_TRIED;
    cli_parse(cli, argc, argv, own);
    if ((redisson || lists) && !acl)
        cli_fail(CLI_USAGE, "check: --redisson and --list require --acl");
    if (until_repaired && (strict || fence || acl))
        cli_fail(CLI_USAGE, "check: --until-repaired takes no option but --wait");
    if (wait_ms != CLI_UNSAID && !until_repaired)
        cli_fail(CLI_USAGE, "check: --wait requires --until-repaired");
    cli_connect(cli);
    unsigned how = REDLOCK_CHECK_CLIENTS | (strict ? REDLOCK_CHECK_STRICT : 0) |
                   (fence ? REDLOCK_CHECK_FENCED : 0);
    int exit_code = acl              ? print_acl(cli, redisson, lists)
                    : until_repaired ? repaired_wait(cli, wait_ms)
                                     : ask_nodes(cli, how);
    cli_disconnect(cli);
    return exit_code;
}
