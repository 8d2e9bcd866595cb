/* Token files: what is read is what would be written. */
#include "cli/tokenfile.h"

#include <string.h>

#include "cli_input.h"
#include "fuzz.h"

static void check_file(const struct tokenfile *file)
{
    int64_t left;
    bool is_fenced;
    redlock_kind kind = redlock_token_kind(file->token, &is_fenced);
    FUZZ_CHECK(kind != REDLOCK_KIND_FOREIGN && is_fenced == (file->fence > 0));
    FUZZ_CHECK((kind == REDLOCK_KIND_SLOT) == (file->slot > 0));
    FUZZ_CHECK(file->slot >= 0 && file->slot <= file->slots);
    FUZZ_CHECK(file->ttl_ms > 0 && file->ttl_ms <= REDLOCK_TTL_MAX_MS);
    enum tokenfile_state state = tokenfile_left(file, &left);
    FUZZ_CHECK((state == TOKENFILE_VALID) == (left > 0) && left <= file->ttl_ms);
}

static void read_twice(struct cli *cli, void *arg)
{
    struct tokenfile file, again;
    const char *name = cli_keys_begin(&cli->keys, "job");
    tokenfile_read(INPUT_FILE, name, &cli->keys, &file);
    check_file(&file);
    json_t *object = tokenfile_json(&file, &cli->keys);
    char *text = json_dumps(object, 0);
    cli_input_set(text, strlen(text));
    tokenfile_read(INPUT_FILE, name, &cli->keys, &again);
    FUZZ_CHECK(strcmp(again.token, file.token) == 0 && again.fence == file.fence);
    FUZZ_CHECK(strcmp(again.boot_id, file.boot_id) == 0 && again.slot == file.slot);
    FUZZ_CHECK(again.ttl_ms == file.ttl_ms && again.deadline_us == file.deadline_us);
    *(bool *)arg = true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bool was_read = false;
    int code = cli_input_run((const char *)data, size, read_twice, &was_read);
    FUZZ_CHECK((code == -1) == was_read); /* and the second time, too */
    return 0;
}
