/*
 * redlock admit: makes nodes a deployment of fenced locks, and readmits and replaces them.
 */
#include "cli.h"
#include "deployment.h"
#include "progress.h"

#include <redlock/settings.h>
#include <stdlib.h>
#include <string.h>

const struct cli_help cli_admit_help = {
    "Usage: redlock admit --new [--max-ttl D] [--at-once] [--promise LIST] [-w WAIT]\n"
    "       redlock admit --readmit [--promise LIST] [--forget URI]... [-w WAIT]\n"
    "       redlock admit --replace OLD=NEW [-w WAIT]\n"
    "Make the nodes a deployment of fenced locks, which stay safe when a node restarts\n"
    "and has lost its keys. Each node gets a marker, the key \"!marker\" with the "
    "prefix.\n\n"
    "      --new                 make a new deployment of nodes without a marker or a key\n"
    "      --max-ttl D           the longest TTL that a fenced lock of it may ever have;\n"
    "                            default 1m, and not less than in an earlier deployment\n"
    "      --at-once             with --new: only for servers that never held such a lock\n"
    "      --readmit             wait until all nodes vote; readmit those that forgot\n"
    "      --replace OLD=NEW     make the empty server NEW a member instead of OLD\n"
    "      --promise LIST        promise of all nodes: durable, sole, or both; none takes\n"
    "                            both back\n"
    "      --forget URI          with --readmit: this node's data never comes back\n"
    "  -w, --wait WAIT           wait at most this long; default: without limit\n\n"
    "Example:\n"
    "  redlock admit --new --max-ttl 1m\n",
    "  redlock admit --replace redis://c.example=redis://f.example\n\n"
    "A node that lost its keys votes when all its old locks have expired: after the\n"
    "longest TTL plus its drift, or 11s if that is longer, and a tenth more. So do\n"
    "new nodes, without --at-once.\n\n"
    "durable: a node loses no acknowledged write, its data exists once, and its clock is\n"
    "right before it serves. sole: of each member one server at most is alive at any\n"
    "time. Then a power cut needs no operator: see redlock-admit(1).\n\n"
    "--readmit needs one node that still has its marker. Make sure that these are the\n"
    "right servers, and that no server which was replaced still runs. For --replace\n"
    "OLD is in the list of nodes, all other nodes vote, and NEW has no marker and no\n"
    "key of the prefix. Then give all clients the new list. --new and --replace need\n"
    "the right +scan. A signal ends the wait but undoes nothing: --readmit goes on.\n\n"
    "Exit codes: 0 all nodes vote; 75 a node has a marker or a key, or another node\n"
    "has no vote yet, or the wait ran out; 69 a node does not reply; 78 the nodes\n"
    "belong to no deployment, or to another.\n",
};

static const char *const names[] = {
    [REDLOCK_ADMIT_NEW] = "new",
    [REDLOCK_ADMIT_AT_ONCE] = "at_once",
    [REDLOCK_ADMIT_READMIT] = "readmit",
    [REDLOCK_ADMIT_REPLACE] = "replace",
};

struct admit {
    struct cli *cli;
    redlock_admission how;
    unsigned promises;
    size_t newcomer, forgotten; /* the latter: a set of nodes */
    const char *replaced;       /* the URI of OLD */
    bool done, late;
    redlock_code code;
    int node; /* the node that prevents it; -1: none in particular */
    char *text;
    redlock_node nodes[REDLOCK_NODES_MAX];
    size_t count;
};

/* --- whom it is about --- */

/* The URI after scheme and credentials. */
static const char *address_of(const char *uri)
{
    const char *scheme = strstr(uri, "://");
    const char *rest = scheme ? scheme + 3 : uri;
    const char *at = strchr(rest, '@');
    return at && at < rest + strcspn(rest, "/?") ? at + 1 : rest;
}

static bool is_same(const char *uri, const char *argument_copy, size_t len)
{
    const char *address = address_of(uri);
    if (strlen(uri) == len && memcmp(uri, argument_copy, len) == 0)
        return true;
    size_t scheme = strcspn(uri, ":");
    return strncmp(uri, argument_copy, scheme + 3) == 0 &&
           strlen(address) + scheme + 3 == len &&
           memcmp(address, argument_copy + scheme + 3, strlen(address)) == 0;
}

/*
 * A URI may contain a "=": the right one is the one after which the part before names a
 * node.
 */
static void replace_node(struct admit *admit, char *argument)
{
    struct cli *cli = admit->cli;
    /* kept until the process ends */
    const char *argument_copy = cli_need_memory(strdup(argument));
    const char *equals = strchr(argument_copy, '=');
    cli_hide_passwords(argument);
    if (!equals || equals[1] == '\0')
        cli_fail(CLI_USAGE, "admit: --replace \"%s\" is not OLD=NEW", argument);
    for (; equals; equals = strchr(equals + 1, '='))
        for (size_t i = 0; i < cli->uri_count; i++)
            if (is_same(cli->uris[i], argument_copy, (size_t)(equals - argument_copy))) {
                admit->replaced = cli->uris[i];
                cli->uris[i] = equals + 1;
                admit->newcomer = i;
                return;
            }
    cli_fail(CLI_CONFIG, "admit: --replace: OLD is not one of the nodes");
}

static void read_promises(struct admit *admit, const char *list)
{
    for (const char *word = list; word;
         word = strchr(word, ',') ? strchr(word, ',') + 1 : NULL) {
        size_t len = strcspn(word, ",");
        const struct cli_promise *known = cli_promises;
        while (known->name &&
               (strlen(known->name) != len || memcmp(known->name, word, len) != 0))
            known++;
        if (!known->name)
            cli_fail(CLI_USAGE,
                     "admit: --promise \"%s\": a list of durable and sole, or none", list);
        admit->promises |= known->promise;
    }
    if (admit->promises & REDLOCK_PROMISE_NONE && admit->promises != REDLOCK_PROMISE_NONE)
        cli_fail(CLI_USAGE, "admit: --promise none goes with no other");
}

static void read_forgotten(struct admit *admit, char *list)
{
    const struct cli *cli = admit->cli;
    for (char *rest = list, *uri; (uri = strsep(&rest, ","));) {
        size_t i = 0;
        while (i < cli->uri_count && !is_same(cli->uris[i], uri, strlen(uri)))
            i++;
        if (i == cli->uri_count)
            cli_fail(CLI_CONFIG, "admit: --forget: this is not one of the nodes: %s",
                     address_of(uri));
        admit->forgotten |= (size_t)1 << i;
    }
}

static void admit_read_options(struct admit *admit, int argc, char **argv, int64_t *wait_ms)
{
    bool is_new = false, at_once = false, readmits = false;
    const char *replace = NULL, *promise = NULL, *forget = NULL;
    const struct cli_option own[] = {
        {"new", 0, CLI_FLAG, &is_new},        {"at-once", 0, CLI_FLAG, &at_once},
        {"readmit", 0, CLI_FLAG, &readmits},  {"replace", 0, CLI_TEXT, &replace},
        {"promise", 0, CLI_TEXT, &promise},   {"forget", 0, CLI_LIST, &forget},
        {"wait", 'w', CLI_DURATION, wait_ms}, {NULL, 0, CLI_FLAG, NULL},
    };
    cli_parse(admit->cli, argc, argv, own);
    if (is_new + readmits + (replace != NULL) != 1)
        cli_fail(
            CLI_USAGE,
            "admit: give one of --new, --readmit and --replace; see redlock admit --help");
    if (at_once && !is_new)
        cli_fail(CLI_USAGE, "admit: --at-once requires --new");
    if (promise && replace)
        cli_fail(CLI_USAGE, "admit: --promise requires --new or --readmit");
    if (forget && !readmits)
        cli_fail(CLI_USAGE, "admit: --forget requires --readmit");
    admit->how = readmits  ? REDLOCK_ADMIT_READMIT
                 : replace ? REDLOCK_ADMIT_REPLACE
                 : at_once ? REDLOCK_ADMIT_AT_ONCE
                           : REDLOCK_ADMIT_NEW;
    if (replace)
        replace_node(admit, (char *)replace); /* a word of argv */
    if (promise)
        read_promises(admit, promise);
    if (forget)
        read_forgotten(admit, (char *)forget); /* allocated */
}

/* --- the end of it --- */

static void admit_end(struct admit *admit, redlock_code code, int node, const char *text)
{
    if (admit->done)
        return; /* interrupted; the client is being freed */
    admit->done = true;
    admit->code = code;
    admit->node = node;
    admit->text = strdup(text);
    admit->count =
        redlock_client_members(admit->cli->client, admit->nodes, REDLOCK_NODES_MAX);
}

static void admitted(redlock_client *client, const redlock_admitted *result, void *arg)
{
    (void)client;
    admit_end(arg, result->code, result->node, result->text);
}

static void admit_interrupted(void *arg)
{
    admit_end(arg, REDLOCK_CANCELLED, -1, "");
}

static void too_late(void *arg)
{
    struct admit *admit = arg;
    admit->late = !admit->done;
    admit_end(admit, REDLOCK_CANCELLED, -1, "");
}

static int admit_exit_of(const struct admit *admit)
{
    switch (admit->code) {
    case REDLOCK_OK: return CLI_OK;
    case REDLOCK_NOT_EMPTY:
    case REDLOCK_MEMBER_INACTIVE:
    case REDLOCK_CANCELLED: return CLI_HELD_ELSEWHERE;
    case REDLOCK_UNREACHED:
        return admit->node >= 0 && admit->nodes[admit->node].denied ? CLI_DENIED
                                                                    : CLI_NO_QUORUM;
    case REDLOCK_DENIED: return CLI_DENIED;
    case REDLOCK_UNADMITTED:
    case REDLOCK_WRONG_DEPLOYMENT: return CLI_CONFIG;
    default: return CLI_FAILED;
    }
}

/* Continues an admission that has begun. "": none has begun, and nothing was changed. */
static const char *next_step_of_wait(const struct admit *admit)
{
    size_t quarantined = 0, votes = 0;
    for (size_t i = 0; i < admit->count; i++) {
        quarantined += admit->nodes[i].fault == REDLOCK_FAULT_MEMBER_QUARANTINE;
        votes += admit->nodes[i].verdict == REDLOCK_VERDICT_ACTIVE;
    }
    if (quarantined == 0)
        return "";
    return votes >= redlock_client_quorum(admit->cli->client)
               ? "; any client that holds fenced locks continues it, and redlock admit "
                 "--readmit"
               : "; redlock admit --readmit continues it";
}

/* A progress_fn; its argument is a struct admit. */
static void write_progress(const void *arg, bool is_terminal, FILE *stream)
{
    const struct admit *admit = arg;
    redlock_node nodes[REDLOCK_NODES_MAX];
    char buffer[CLI_MEMBER_STATE];
    size_t count = redlock_client_members(admit->cli->client, nodes, REDLOCK_NODES_MAX);
    for (size_t i = 0; is_terminal && i < count; i++)
        fprintf(stream, "%s  %s\n", nodes[i].uri, cli_member_state(&nodes[i], buffer));
    if (is_terminal)
        return;
    fprintf(stream, "admit: waiting: ");
    cli_write_member_states(nodes, count, stream);
}

static void report_unfinished(const struct admit *admit, int signal)
{
    struct cli_text text;
    cli_write_member_states(admit->nodes, admit->count, cli_text_begin(&text));
    char *line = cli_text_end(&text);
    cli_say(admit->cli, "%s: %s%s", signal ? strsignal(signal) : "the wait ran out", line,
            next_step_of_wait(admit));
    free(line);
}

/* The node has a marker, of a member index that another server got. */
static bool is_replaced(const struct admit *admit)
{
    return admit->node >= 0 && admit->nodes[admit->node].fault == REDLOCK_FAULT_REPLACED;
}

/* The state after a refusal, and what to do. */
static const char *next_step(const struct admit *admit)
{
    switch (admit->code) {
    case REDLOCK_UNREACHED:
        return admit->how == REDLOCK_ADMIT_READMIT || admit->how == REDLOCK_ADMIT_REPLACE
                   ? "nothing was changed, because not all nodes replied; if this one is "
                     "dead for good, put an empty server in its place into the list, "
                     "and use --readmit"
                   : "nothing was changed, because not all nodes replied";
    case REDLOCK_MEMBER_INACTIVE:
        if (admit->how == REDLOCK_ADMIT_READMIT)
            return admit->promises
                       ? "nothing was changed; promise it when all nodes vote"
                       : "nothing was changed; if what it had never comes back, name it by "
                         "--forget";
        return is_replaced(admit)
                   ? "put the server that replaced this one into the list, and NEW in "
                     "place of OLD; then use --readmit"
                   : "nothing was changed; put NEW in place of OLD into the list, and use "
                     "--readmit, which waits for this node";
    case REDLOCK_NOT_EMPTY:
        return is_replaced(admit) ? "delete this server's key !marker, and replace again"
                                  : "nothing was changed";
    case REDLOCK_UNADMITTED:
    case REDLOCK_WRONG_DEPLOYMENT: return "nothing was changed";
    case REDLOCK_DENIED:
        return "redlock check --acl --list prints the rights that its user needs";
    default: return redlock_code_text(admit->code);
    }
}

/* What to do about all nodes, behind the next step. */
static const char *rest_of(const struct admit *admit)
{
    const char *advice =
        cli_advice(admit->nodes, admit->count, redlock_client_quorum(admit->cli->client));
    switch (admit->code) {
    case REDLOCK_UNADMITTED:
    case REDLOCK_WRONG_DEPLOYMENT:
        return advice[0] == '\0' && is_replaced(admit)
                   ? "; put the server that replaced this one into the list of nodes"
                   : advice;
    case REDLOCK_DENIED: return next_step_of_wait(admit);
    default: return "";
    }
}

static void report_failure(const struct admit *admit, int signal)
{
    const char *who = admit->node >= 0 ? admit->nodes[admit->node].uri : "admit";
    const char *text = admit->text ? admit->text : "";
    if (admit->code == REDLOCK_CANCELLED)
        report_unfinished(admit, signal);
    else
        cli_say(admit->cli, "%s: %s%s%s%s", who, text, text[0] ? ": " : "",
                next_step(admit), rest_of(admit));
}

/* The nodes in the form of a configuration file, without passwords. */
static char *configuration_of(const struct admit *admit)
{
    struct cli_text text;
    FILE *stream = cli_text_begin(&text);
    fprintf(stream, "nodes = ");
    for (size_t i = 0; i < admit->count; i++)
        fprintf(stream, "%s%s", i > 0 ? "," : "", admit->nodes[i].uri);
    return cli_text_end(&text);
}

static bool admit_print_json(const struct admit *admit)
{
    bool late = admit->late;
    char *configuration = configuration_of(admit);
    json_t *object = json_pack(
        "{s:s, s:o, s:o, s:o, s:o, s:o}", "how", names[admit->how], "cause",
        late ? json_string("timeout") : cli_cause(admit->code), "node",
        admit->node >= 0 ? cli_json_text(admit->nodes[admit->node].uri) : json_null(),
        "text", cli_json_known_text(admit->text ? admit->text : ""), "configuration",
        admit->code == REDLOCK_OK ? cli_json_text(configuration) : json_null(), "nodes",
        cli_nodes_json(admit->nodes, admit->count));
    free(configuration);
    return cli_print_json(admit->cli, object);
}

static bool print_text(const struct admit *admit)
{
    char *configuration = configuration_of(admit);
    if (admit->code == REDLOCK_OK && !admit->cli->quiet)
        cli_print(
            "%zu of %zu nodes vote on fenced locks; every client's configuration is\n%s\n",
            admit->count, admit->count, configuration);
    free(configuration);
    return cli_flush();
}

static bool founds(const struct admit *admit)
{
    return admit->how == REDLOCK_ADMIT_NEW || admit->how == REDLOCK_ADMIT_AT_ONCE;
}

/* Before anything is written: it cannot be changed in place. */
static void say_of_longest_ttl(const struct admit *admit)
{
    char span[CLI_SPAN];
    int64_t max_ttl_ms = admit->cli->options.max_ttl_ms;
    redlock_options found;
    redlock_settings_options(admit->cli->settings, &found);
    if (founds(admit) && max_ttl_ms > 0 && max_ttl_ms == found.max_ttl_ms)
        cli_say(admit->cli,
                "no fenced lock of these nodes will have a TTL above %s, by max-ttl of the "
                "configuration",
                cli_span(span, max_ttl_ms));
}

/* A new deployment that promises nothing needs an operator after a power cut. */
static void say_of_promises(const struct admit *admit)
{
    bool promised = admit->promises & (REDLOCK_PROMISE_DURABLE | REDLOCK_PROMISE_SOLE);
    if (founds(admit) && !promised && admit->code == REDLOCK_OK)
        cli_say(admit->cli,
                "if a majority of these nodes restarts at once, fenced locks need redlock "
                "admit --readmit; with --promise they come back by themselves: see "
                "redlock-admit(1)");
}

/* A client with the old list could take the replaced server for a member once more. */
static void retire_replaced(const struct admit *admit)
{
    if (!admit->replaced || admit->code != REDLOCK_OK)
        return;
    char *failure = deployment_retire(admit->cli, admit->newcomer, admit->replaced);
    if (failure)
        cli_say(admit->cli,
                "%s: it was replaced, and its marker is as before (%s): stop it for good, "
                "and let no other server have its address",
                address_of(admit->replaced), failure);
    free(failure);
}

static int conclude(const struct admit *admit, int signal)
{
    cli_say_nodes(admit->cli, admit->nodes, admit->count);
    if (admit->code != REDLOCK_OK)
        report_failure(admit, signal);
    return cli_exit_printed(admit->cli->json ? admit_print_json(admit) : print_text(admit),
                            signal ? CLI_SIGNALLED + signal : admit_exit_of(admit));
}

int cli_admit(struct cli *cli, int argc, char **argv)
{
    static struct admit admit;
    int64_t wait_ms = CLI_UNSAID;
    admit.cli = cli;
    admit_read_options(&admit, argc, argv, &wait_ms);

    struct cli_signals signals;
    struct progress progress;
    struct cli_timer limit;
    cli_connect(cli);
    say_of_longest_ttl(&admit);
    cli_timer_begin(&limit, cli->base, 0, too_late, &admit);
    redlock_code code =
        redlock_admit(cli->client, admit.how | admit.promises,
                      admit.how == REDLOCK_ADMIT_READMIT ? admit.forgotten : admit.newcomer,
                      admitted, &admit);
    if (code != REDLOCK_OK)
        cli_fail(CLI_FAILED, "admit: %s", redlock_last_error()->text);
    cli_signals_begin(&signals, cli->base, admit_interrupted, &admit);
    progress_begin(&progress, cli, write_progress, &admit);
    if (wait_ms != CLI_UNSAID)
        cli_timer_set(&limit, wait_ms);
    cli_wait(cli->base, &admit.done);
    progress_end(&progress);
    say_of_promises(&admit);
    retire_replaced(&admit);
    int exit_code = conclude(&admit, signals.number);
    cli_timer_end(&limit);
    cli_drain(cli);
    cli_signals_end(&signals);
    cli_disconnect(cli);
    free(admit.text);
    return exit_code;
}
