#include "args.h"

#include "config.h"
#include "help.h"
#include "value.h"

#include <assert.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OPTIONS_MAX 40
#define LONG_BASE   256 /* getopt's value for the first row; above any letter */

/* The options of a command and the global ones, and their form for getopt_long. */
struct table {
    struct cli_option row[OPTIONS_MAX];
    size_t rows;
    struct option names[OPTIONS_MAX + 1];
    char letters[2 + 2 * OPTIONS_MAX + 1];
};

void cli_init(struct cli *cli)
{
    *cli = (struct cli){
        .own_failure = CLI_FAILED,
        .slots = CLI_UNSAID,
        .held_elsewhere = CLI_HELD_ELSEWHERE,
    };
    redlock_options_init(&cli->options);
    cli->options.node_timeout_ms = CLI_UNSAID;
    cli->options.max_ttl_ms = CLI_UNSAID;
    redlock_lease_options_init(&cli->lease);
    cli->lease.ttl_ms = CLI_UNSAID;
    cli->lease.wait_ms = CLI_UNSAID;
}

static void add_row(struct table *table, const struct cli_option *row)
{
    bool has_value =
        row->type != CLI_FLAG && row->type != CLI_COUNT && row->type != CLI_KIND;
    size_t index = table->rows++;
    assert(index < OPTIONS_MAX);
    table->row[index] = *row;
    table->names[index] =
        (struct option){row->name, has_value ? required_argument : no_argument, NULL,
                        LONG_BASE + (int)index};
    if (row->letter) {
        size_t len = strlen(table->letters);
        table->letters[len++] = row->letter;
        if (has_value)
            table->letters[len++] = ':';
    }
}

static void fill_table(struct table *table, struct cli *cli, const struct cli_option *own)
{
    const struct cli_option globals[] = {
        {"nodes", 'N', CLI_LIST, &cli->nodes},
        {"config", 0, CLI_TEXT, &cli->config},
        {"user", 0, CLI_TEXT, &cli->options.username},
        {"prefix", 0, CLI_TEXT, &cli->options.prefix},
        {"label", 0, CLI_TEXT, &cli->options.label},
        {"timeout", 0, CLI_DURATION, &cli->options.node_timeout_ms},
        {"max-ttl", 0, CLI_DURATION, &cli->options.max_ttl_ms},
        {"durable", 0, CLI_FLAG, &cli->options.durable},
        {"tls", 0, CLI_FLAG, &cli->options.tls},
        {"cacert", 0, CLI_TEXT, &cli->options.tls_ca_file},
        {"cacertdir", 0, CLI_TEXT, &cli->options.tls_ca_dir},
        {"cert", 0, CLI_TEXT, &cli->options.tls_cert_file},
        {"key", 0, CLI_TEXT, &cli->options.tls_key_file},
        {"sni", 0, CLI_TEXT, &cli->options.tls_name},
        {"insecure", 0, CLI_FLAG, &cli->options.tls_insecure},
        {"json", 0, CLI_FLAG, &cli->json},
        {"quiet", 'q', CLI_FLAG, &cli->quiet},
        {"verbose", 'v', CLI_COUNT, &cli->verbose},
        {"color", 0, CLI_TEXT, &cli->color_when},
        {"version", 'V', CLI_FLAG, &cli->version},
        {"help", 'h', CLI_FLAG, &cli->wants_help},
    };
    memset(table, 0, sizeof(*table));
    /* Only where no CMD follows, getopt looks for options behind the first operand. */
    bool has_cmd = !cli->command || cli->command->operands_most > 1;
    strcpy(table->letters, has_cmd ? "+:" : ":");
    for (size_t i = 0; own && own[i].name; i++)
        add_row(table, &own[i]);
    for (size_t i = 0; i < sizeof(globals) / sizeof(globals[0]); i++)
        add_row(table, &globals[i]);
}

/* The row for getopt_long's return value. */
static const struct cli_option *find_row(const struct table *table, int answer)
{
    if (answer >= LONG_BASE)
        return &table->row[answer - LONG_BASE];
    for (size_t i = 0; i < table->rows; i++)
        if (table->row[i].letter == answer)
            return &table->row[i];
    return NULL;
}

/* Names the option that begins most like the word. */
_Noreturn static void fail_unknown(const struct table *table, const char *word)
{
    const char *nearest = "help";
    size_t len = strcspn(word, "="), most = 4;
    for (size_t i = 0; i < table->rows; i++) {
        const char *name = table->row[i].name;
        size_t same = 2; /* "--" */
        while (same < len && name[same - 2] == word[same])
            same++;
        nearest = same > most || same == len ? name : nearest;
        most = same > most ? same : most;
    }
    cli_fail(CLI_USAGE, "no option %.*s: --%s?", (int)len, word, nearest);
}

/* For a long option optopt is the row's value, or 0 if no row matches. */
_Noreturn static void fail_option(const struct table *table, int answer, char **argv)
{
    const char *word = argv[optind - 1];
    bool is_long = optopt == 0 || optopt >= LONG_BASE;
    if (answer == ':' && is_long)
        cli_fail(CLI_USAGE, "option %s requires a value", word);
    if (answer == ':')
        cli_fail(CLI_USAGE, "option -%c requires a value", optopt);
    if (is_long && optopt != 0)
        cli_fail(CLI_USAGE, "option %.*s takes no value", (int)strcspn(word, "="), word);
    if (is_long)
        fail_unknown(table, word);
    cli_fail(CLI_USAGE, "no option -%c: --help lists them", optopt);
}

void cli_hide_passwords(char *uris)
{
    while (uris) {
        char *uri = strsep(&uris, ","), *scheme = strstr(uri, "://");
        char *user = scheme ? scheme + 3 : uri;
        char *at = strrchr(user, '@'), *colon = strchr(user, ':');
        if (at && colon && colon < at)
            memset(colon + 1, '*', (size_t)(at - colon - 1));
        if (uris)
            uris[-1] = ',';
    }
}

/* The library refuses what does not go together besides. */
static void choose_kind(redlock_lease_options *lease, const char *option, redlock_kind kind)
{
    if (lease->kind != REDLOCK_KIND_EXCLUSIVE && lease->kind != kind)
        cli_fail(CLI_USAGE, "--%s excludes --%s", option, redlock_kind_name(lease->kind));
    lease->kind = kind;
}

static redlock_kind find_kind(const char *name)
{
    redlock_kind kind = REDLOCK_KIND_EXCLUSIVE;
    while (strcmp(redlock_kind_name(kind), name) != 0)
        kind++;
    return kind;
}

static void args_take(const struct cli_option *row, char *text)
{
    const char *wrong = NULL;
    switch (row->type) {
    case CLI_FLAG: *(bool *)row->into = true; break;
    case CLI_COUNT: ++*(int *)row->into; break;
    case CLI_KIND: choose_kind(row->into, row->name, find_kind(row->name)); break;
    case CLI_KEYS: wrong = cli_keys_add(row->into, text); break;
    default: wrong = cli_read_value(row->type, text, row->into);
    }
    if (row->type == CLI_LIST)
        cli_hide_passwords(text);
    if (wrong)
        cli_fail(CLI_USAGE, "--%s: \"%s\" %s", row->name, text, wrong);
}

int cli_read_options(struct cli *cli, int argc, char **argv, const struct cli_option *own)
{
    struct table table;
    fill_table(&table, cli, own);
    opterr = 0;
    optind = 0; /* restart getopt: the words before the subcommand were read already */
    for (;;) {
        int answer = getopt_long(argc, argv, table.letters, table.names, NULL);
        if (answer == -1)
            return optind;
        if (answer == '?' || answer == ':')
            fail_option(&table, answer, argv);
        args_take(find_row(&table, answer), optarg);
        cli->brief_help |= answer == 'h';
    }
}

static void apply_slots(struct cli *cli)
{
    if (cli->slots == CLI_UNSAID)
        return;
    if (cli->slots < 1 || cli->slots > REDLOCK_SLOTS_MAX)
        cli_fail(CLI_USAGE, "--slots is from 1 to %d", REDLOCK_SLOTS_MAX);
    choose_kind(&cli->lease, "slots", REDLOCK_KIND_SLOT);
    cli->lease.slots = (unsigned)cli->slots;
}

/* The library's rule; here a bad label is an error of usage. */
static void check_label(const char *label)
{
    size_t len = 0;
    while (label && label[len] > ' ' && label[len] <= '~')
        len++;
    if (label && (len == 0 || label[len] != '\0' || len > REDLOCK_LABEL_MAX))
        cli_fail(CLI_USAGE, "--label is not one word of at most %d printable bytes",
                 REDLOCK_LABEL_MAX);
}

/* Converts options that were given as text to the values that the program uses. */
static void apply_options(struct cli *cli)
{
    const char *when = cli->color_when ? cli->color_when : "auto";
    const char *no_color = getenv("NO_COLOR"), *terminal = getenv("TERM");
    bool dumb = !terminal || strcmp(terminal, "dumb") == 0;
    if (strcmp(when, "auto") == 0)
        cli->color = isatty(STDOUT_FILENO) && !dumb && !(no_color && *no_color);
    else if (strcmp(when, "always") == 0 || strcmp(when, "never") == 0)
        cli->color = when[0] == 'a';
    else
        cli_fail(CLI_USAGE, "--color: \"%s\" is none of auto, always, never", when);
    if (cli->held_elsewhere > 255)
        cli_fail(CLI_USAGE, "-E: an exit code is at most 255");
    if (cli->nonblock && cli->lease.wait_ms != CLI_UNSAID)
        cli_fail(CLI_USAGE, "-n and -w exclude each other");
    if (cli->nonblock)
        cli->lease.wait_ms = 0;
    apply_slots(cli);
    check_label(cli->options.label);
}

static void check_operands(const struct cli *cli, int count, char **operand)
{
    static const char *const names[] = {"KEY", "CMD"};
    const struct cli_command *command = cli->command;
    bool elects = strcmp(command->name, "elect") == 0;
    bool has_token =
        strcmp(command->name, "extend") == 0 || strcmp(command->name, "release") == 0;
    if (count < command->operands_least)
        cli_fail(CLI_USAGE, "%s: %s is missing", command->name,
                 elects ? "NAME" : names[count]);
    if (count > command->operands_most)
        cli_fail(CLI_USAGE,
                 has_token ? "%s: a token is no operand: REDLOCK_TOKEN or --token-file"
                           : "%s: one operand too many: \"%s\"",
                 command->name, operand[command->operands_most]);
    if (command->operands_least > 0 && operand[0][0] == '\0')
        cli_fail(CLI_USAGE, "%s: %s is empty", command->name, elects ? "NAME" : "KEY");
}

int cli_parse(struct cli *cli, int argc, char **argv, const struct cli_option *own)
{
    int operand = cli_read_options(cli, argc, argv, own);
    if (cli->wants_help)
        cli_print_help(cli);
    if (cli->version)
        cli_print_version();
    apply_options(cli);
    check_operands(cli, argc - operand, argv + operand);
    if (cli->ttl_learns && strcmp(cli->command->name, "acquire") != 0)
        cli_fail(CLI_USAGE, "%s: --ttl auto is for acquire: here the lock is extended",
                 cli->command->name);
    if (!cli->alone) {
        cli_need_files(cli, 0);
        cli_configure(cli);
    }
    return operand;
}
