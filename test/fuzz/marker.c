/* Markers: what can be read is what would be written, to the byte. */
#include "core/marker.h"

#include <string.h>

#include "fuzz.h"

/* The newer incarnation wins, and nothing else changes. */
static void merge(const struct rl_roster *roster)
{
    struct rl_roster newer = *roster, one = *roster, other;
    newer.member[0].id = ~roster->member[0].id;
    other = newer;
    rl_roster_merge(&one, &newer);
    rl_roster_merge(&other, roster);
    FUZZ_CHECK(memcmp(&one, &other, sizeof(one)) == 0);
    FUZZ_CHECK(one.member[0].id >= roster->member[0].id);
}

static void read_text(const uint8_t *data, size_t size)
{
    struct rl_marker marker = {.index = 77};
    char *text = malloc(size ? size : 1), again[RL_MARKER_MAX];
    FUZZ_CHECK(text);
    memcpy(text, data, size);
    if (rl_marker_read((struct rl_word){text, size}, &marker)) {
        FUZZ_CHECK(rl_marker_write(&marker, again) == size);
        FUZZ_CHECK(memcmp(again, text, size) == 0);
        FUZZ_CHECK(marker.roster.n <= RL_NODES_MAX && marker.index < marker.roster.n);
        merge(&marker.roster);
    } else {
        FUZZ_CHECK(marker.index == 77);
    }
    free(text);
}

/* A valid marker, which the input makes, and then a byte of it, which the input replaces.
 */
static void write_text(const uint8_t *data, size_t size)
{
    struct rl_marker marker = {0}, again;
    char text[RL_MARKER_MAX], text_again[RL_MARKER_MAX];
    for (size_t i = 0; i < RL_RUN_ID; i++)
        marker.process.run_id[i] = marker.process.replid[i] = "0123456789abcdef"[i & 15];
    marker.roster.n = (uint8_t)(1 + data[0] % RL_NODES_MAX);
    marker.index = data[1] % marker.roster.n;
    marker.active = data[2] & 1;
    memcpy(&marker.nonce, data + 3, sizeof(marker.nonce));
    marker.roster.deployment = marker.nonce | 1;
    marker.roster.max_ttl_ms = (int64_t)(marker.nonce % (INT64_MAX / RL_SECOND));
    for (unsigned i = 0; i < marker.roster.n; i++) {
        uint32_t generation = (uint32_t)(marker.nonce >> i) | 1;
        marker.roster.member[i] = (struct rl_incarnation){generation, marker.nonce * i};
    }
    size_t len = rl_marker_write(&marker, text);
    FUZZ_CHECK(rl_marker_read((struct rl_word){text, len}, &again));
    FUZZ_CHECK(rl_marker_write(&again, text_again) == len &&
               memcmp(text_again, text, len) == 0);
    FUZZ_CHECK(rl_process_equal(&again.process, &marker.process) &&
               rl_process_is_same_run(&again.process, &marker.process));
    if (size > 12) {
        text[data[11] % len] = (char)data[12];
        read_text((const uint8_t *)text, len - (size > 13 ? data[13] % 40 : 0));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 11)
        return 0;
    read_text(data, size);
    write_text(data, size);
    return 0;
}
