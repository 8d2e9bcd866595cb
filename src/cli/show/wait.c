/* redlock wait: returns when a lock is free, and takes nothing. */
#include "inspection.h"
#include "nesting.h"

#define EVERY_MS 200

const struct cli_help cli_wait_help = {
    "Usage: redlock wait [-w WAIT] [--and KEY2]... KEY\n"
    "Return when the lock KEY is free. Another client may take it before you do: to do\n"
    "something while nobody else has the lock, use run or acquire.\n\n"
    "  -w, --wait WAIT           give up after this long; default: wait without limit\n"
    "      --and KEY2            until this one is free, too\n\n"
    "Example:\n"
    "  redlock wait -w 10m deploy && run-smoke-tests\n",
    "\n"
    "Exit codes: 0 free; 75 the wait ran out; 69 the same, and no quorum was reachable;\n"
    "64 also: a redlock run around this command has the lock.\n",
};

struct wait {
    const struct cli *cli;
    struct inspection inspection;
    struct cli_timer timer, limit;
    size_t key; /* that is looked at: those before it were free */
    enum inspection_state state;
    bool done, ran_out;
    bool is_nested; /* a redlock run around this command has the lock */
};

static const redlock_key *key_of(const struct wait *wait)
{
    return &wait->cli->keys.of[wait->key];
}

static void on_inspected(redlock_client *client, const redlock_inspection *found, void *arg)
{
    struct wait *wait = arg;
    inspection_take(client, found, &wait->inspection);
    wait->state = inspection_state(&wait->inspection);
    if (wait->done)
        return;
    bool is_free = wait->state == INSPECTION_FREE;
    bool is_last = wait->key + 1 == cli_keys_count(&wait->cli->keys);
    wait->is_nested = nesting_has(&wait->inspection);
    wait->done = (is_free && is_last) || wait->state == INSPECTION_DENIED ||
                 wait->is_nested || wait->ran_out;
    wait->key = is_free && !is_last ? wait->key + 1 : wait->key;
    if (!wait->done)
        cli_timer_set(&wait->timer, EVERY_MS);
}

static void wait_look(void *arg)
{
    struct wait *wait = arg;
    const redlock_key *key = key_of(wait);
    redlock_code code =
        redlock_inspect(wait->cli->client, key->bytes, key->len, on_inspected, wait);
    cli_need_start(code, key->bytes);
}

/* It looks once more. */
static void on_limit(void *arg)
{
    struct wait *wait = arg;
    wait->ran_out = true;
    cli_timer_stop(&wait->timer);
    if (wait->inspection.done)
        wait_look(wait);
}

static int wait_exit_of(const struct wait *wait, int signal)
{
    const redlock_inspection *found = &wait->inspection.found;
    const char *key = key_of(wait)->bytes;
    if (signal != 0)
        return CLI_SIGNALLED + signal;
    if (wait->state == INSPECTION_FREE)
        return CLI_OK;
    if (wait->is_nested) {
        nesting_complain(key);
        return CLI_USAGE;
    }
    if (wait->state == INSPECTION_HELD || wait->state == INSPECTION_SPLIT) {
        const redlock_node *holder = cli_holder(wait->inspection.nodes, found->count);
        cli_say(wait->cli, "%s: the wait ran out: held by %s", key,
                holder ? holder->holder : "another");
        return CLI_HELD_ELSEWHERE;
    }
    cli_say_faults(wait->cli, key, "", wait->inspection.nodes, found->count);
    return wait->state == INSPECTION_DENIED ? CLI_DENIED : CLI_NO_QUORUM;
}

static bool wait_print(const struct wait *wait)
{
    return cli_print_json(wait->cli,
                          inspection_json(&wait->inspection, key_of(wait)->bytes));
}

int cli_wait_free(struct cli *cli, int argc, char **argv)
{
    static struct wait wait;
    struct cli_signals signals;
    const struct cli_option own[] = {
        {"wait", 'w', CLI_DURATION, &cli->lease.wait_ms},
        {CLI_KEYS_OPTION(cli)},
        {NULL, 0, CLI_FLAG, NULL},
    };
    wait.cli = cli;
    cli_keys_begin(&cli->keys, argv[cli_parse(cli, argc, argv, own)]);
    cli_connect(cli);
    cli_timer_begin(&wait.timer, cli->base, 0, wait_look, &wait);
    cli_timer_begin(&wait.limit, cli->base, 0, on_limit, &wait);
    if (cli->lease.wait_ms != REDLOCK_FOREVER)
        cli_timer_set(&wait.limit, cli->lease.wait_ms);
    cli_signals_begin(&signals, cli->base, cli_set, &wait.done);
    wait_look(&wait);
    cli_wait(cli->base, &wait.done);
    int exit_code = wait_exit_of(&wait, signals.number);
    if (cli->json && wait.inspection.done)
        exit_code = cli_exit_printed(wait_print(&wait), exit_code);
    cli_signals_end(&signals);
    cli_timer_end(&wait.timer);
    cli_timer_end(&wait.limit);
    cli_disconnect(cli);
    return exit_code;
}
