/* A template that was written before gives the same bytes as a fresh one. */
#include "client/command_template.h"

#include <stddef.h>
#include <string.h>

#include "core/marker.h"
#include "lease_fixture.h"
#include "prng.h"

#define RUNS 200000

static char letters[64];

/* Words of few lengths, so that many are equal. */
static struct rl_word some_word(struct prng *prng, char *room)
{
    size_t len = 1 + prng_below(prng, 3) * 9;
    for (size_t i = 0; i < len; i++)
        room[i] = (char)('a' + prng_below(prng, 26));
    return (struct rl_word){room, len};
}

/* Half of them have only what a plain lock needs. */
static struct rl_command_args some_args(struct prng *prng, char room[7][32])
{
    struct rl_command_args args = {
        .key = some_word(prng, room[0]),
        .token = some_word(prng, room[1]),
        .ttl_ms = 99 + prng_below(prng, 3),
        .recreate = prng_below(prng, 2),
    };
    if (prng_below(prng, 2) == 0)
        return args;
    args.base = some_word(prng, room[5]);
    args.slots = 1 + (unsigned)prng_below(prng, 2);
    args.fence_key = some_word(prng, room[2]);
    args.marker_key = some_word(prng, room[3]);
    args.nonce = (struct rl_word){letters, RL_NONCE};
    args.fence = prng_below(prng, 3);
    args.fences = 1 + (unsigned)prng_below(prng, 2);
    args.sent_at = prng_below(prng, 3);
    if (prng_below(prng, 4) == 0) {
        args.queue_entry = some_word(prng, room[4]);
        args.waited = (rl_time)prng_below(prng, 3) - 1;
    }
    return args;
}

static void expect_the_same(const struct rl_command_template *template,
                            const struct rl_command_template *fresh)
{
    CHECK(template->len == fresh->len &&
              memcmp(template->bytes, fresh->bytes, fresh->len) == 0,
          "%.*s instead of %.*s", (int)template->len, template->bytes, (int)fresh->len,
          fresh->bytes);
}

Test(template, gives_the_bytes_of_a_fresh_one)
{
    static const enum rl_command texts[] = {RL_CMD_ACQUIRE, RL_CMD_EXTEND, RL_CMD_RELEASE,
                                            RL_CMD_INSPECT};
    struct prng prng = {5};
    struct rl_command_template template[4][2] = {0}, fresh = {0};
    unsigned reused = 0;
    memset(letters, 'n', sizeof(letters));
    for (unsigned run = 0; run < RUNS; run++) {
        char room[7][32];
        struct rl_command_args args = some_args(&prng, room);
        unsigned which = prng_below(&prng, 4);
        bool whole = prng_below(&prng, 2);
        bool has_more = args.fences > 0;
        const struct rl_kind *kind = rl_kind_that_is(
            has_more && prng_below(&prng, 2), has_more && texts[which] == RL_CMD_RELEASE
                                                  ? REDLOCK_KIND_SLOT
                                                  : REDLOCK_KIND_EXCLUSIVE);
        struct rl_command_template *used = &template[which][whole];
        reused += used->kind != NULL;
        fresh.kind = NULL; /* nothing is left of the earlier command */
        cr_assert(rl_command_template_write(used, kind, texts[which], whole, &args));
        cr_assert(rl_command_template_write(&fresh, kind, texts[which], whole, &args));
        expect_the_same(used, &fresh);
    }
    cr_assert_gt(reused, RUNS / 4);
    for (unsigned i = 0; i < 4; i++)
        for (unsigned whole = 0; whole < 2; whole++)
            rl_command_template_clear(&template[i][whole]);
    rl_command_template_clear(&fresh);
}

/* Also a new argument of struct rl_command_args, whatever it is. */
Test(template, is_not_reused_for_a_command_with_another_argument)
{
    const struct rl_kind *plain = rl_kind_that_is(false, REDLOCK_KIND_EXCLUSIVE);
    struct rl_command_args usual = {.key = {"k", 1}, .token = {"p", 1}, .ttl_ms = 100};
    struct rl_command_template template = {0};
    for (size_t at = sizeof(usual.key) + sizeof(usual.token) + sizeof(usual.ttl_ms);
         at < offsetof(struct rl_command_args, recreate); at++) {
        struct rl_command_args args = usual;
        ((char *)&args)[at] = 1;
        cr_assert(
            rl_command_template_write(&template, plain, RL_CMD_ACQUIRE, false, &usual));
        cr_assert_not_null(template.kind);
        cr_assert(
            rl_command_template_write(&template, plain, RL_CMD_ACQUIRE, false, &args));
        CHECK(!template.kind, "the byte %zu of the arguments is sent stale", at);
    }
    rl_command_template_clear(&template);
}
