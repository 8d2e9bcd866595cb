/* Command lines: the options of all commands, and those of a lock. */
#include "cli/args.h"

#include <string.h>

#include "cli_input.h"
#include "fuzz.h"

#define WORDS_MAX 40

struct words {
    int count;
    char *word[WORDS_MAX + 1];
};

static void check_lease(const struct cli *cli)
{
    FUZZ_CHECK(cli->uri_count > 0 && cli->lease.ttl_ms >= 0);
    FUZZ_CHECK(cli->lease.wait_ms >= REDLOCK_FOREVER);
    FUZZ_CHECK(cli->held_elsewhere >= 0 && cli->held_elsewhere <= 255);
    FUZZ_CHECK(cli->lease.slots <= REDLOCK_SLOTS_MAX);
    FUZZ_CHECK((cli->lease.kind == REDLOCK_KIND_SLOT) == (cli->lease.slots > 0));
    FUZZ_CHECK(cli_keys_count(&cli->keys) <= REDLOCK_KEYS_MAX);
}

static void parse(struct cli *cli, void *arg)
{
    struct words *words = arg;
    const struct cli_option own[] = {CLI_HOLD_OPTIONS(cli), {NULL, 0, CLI_FLAG, NULL}};
    int first = cli_parse(cli, words->count, words->word, own);
    FUZZ_CHECK(first > 0 && first < words->count); /* one operand, which may be moved */
    check_lease(cli);
    FUZZ_CHECK(cli_keys_begin(&cli->keys, words->word[first])[0]);
    json_t *object = cli_keys_json(&cli->keys);
    FUZZ_CHECK(cli_keys_are(&cli->keys, object));
    json_decref(object);
    free(cli->keys.name);
}

/* A line is a word. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char file[] = "nodes = redis://a, redis://b\nttl = 5s\n";
    struct words words = {1, {"redlock"}};
    char *text = malloc(size + 1), *rest = text;
    FUZZ_CHECK(text);
    memcpy(text, data, size);
    text[size] = '\0';
    while (rest && words.count < WORDS_MAX)
        words.word[words.count++] = strsep(&rest, "\n");
    cli_input_run(file, sizeof(file) - 1, parse, &words);
    free(text);
    return 0;
}
