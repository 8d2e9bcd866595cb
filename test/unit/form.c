/* Whatever was written in a form before, what is written next is the whole truth. */
#include "form.h"

#include <string.h>

#include "chance.h"
#include "core/marker.h"
#include "desk.h"

#define RUNS 200000

static char letters[64];

/* Of few lengths, so that many are alike. */
static struct rl_word some_word(struct chance *chance, char *room)
{
    size_t len = 1 + chance_below(chance, 3) * 9;
    for (size_t i = 0; i < len; i++)
        room[i] = (char)('a' + chance_below(chance, 26));
    return (struct rl_word){room, len};
}

static struct rl_subject some_subject(struct chance *chance, char room[6][32])
{
    struct rl_subject subject = {
        .key = some_word(chance, room[0]),
        .token = some_word(chance, room[1]),
        .ttl_ms = 99 + chance_below(chance, 3),
        .plant = chance_below(chance, 2),
        .fence_key = some_word(chance, room[2]),
        .marker_key = some_word(chance, room[3]),
        .nonce = {letters, RL_NONCE},
        .fence = chance_below(chance, 3),
        .fences = 1 + chance_below(chance, 2),
        .said = chance_below(chance, 3),
    };
    if (chance_below(chance, 4) == 0) {
        subject.place = some_word(chance, room[4]);
        subject.waited = (rl_time)chance_below(chance, 3) - 1;
    }
    return subject;
}

static void expect_the_same(const struct rl_form *form, const struct rl_form *fresh)
{
    CHECK(form->len == fresh->len && memcmp(form->bytes, fresh->bytes, fresh->len) == 0,
          "%.*s instead of %.*s", (int)form->len, form->bytes, (int)fresh->len,
          fresh->bytes);
}

Test(form, is_as_if_it_were_fresh)
{
    static const enum rl_text texts[] = {RL_ACQUIRE, RL_EXTEND, RL_RELEASE, RL_INSPECT};
    struct chance chance = {5};
    struct rl_form form[4][2] = {0}, fresh = {0};
    unsigned reused = 0;
    memset(letters, 'n', sizeof(letters));
    for (unsigned run = 0; run < RUNS; run++) {
        char room[6][32];
        struct rl_subject subject = some_subject(&chance, room);
        unsigned which = chance_below(&chance, 4);
        bool whole = chance_below(&chance, 2);
        const struct rl_kind *kind = rl_kind_that_is(chance_below(&chance, 4) == 0);
        struct rl_form *used = &form[which][whole];
        reused += used->kind != NULL;
        fresh.kind = NULL; /* nothing of it is taken over */
        cr_assert(rl_form_write(used, kind, texts[which], whole, &subject));
        cr_assert(rl_form_write(&fresh, kind, texts[which], whole, &subject));
        expect_the_same(used, &fresh);
    }
    cr_assert_gt(reused, RUNS / 4);
    for (unsigned i = 0; i < 4; i++)
        for (unsigned whole = 0; whole < 2; whole++)
            rl_form_clear(&form[i][whole]);
    rl_form_clear(&fresh);
}
