/* Replies in RESP: the same, however their bytes are cut; commands; what is kept of errors.
 */
#include "net/resp.h"

#include <string.h>

#include "fuzz.h"
#include "net/words.h"

#define SECRET "hunter2"

/* What was parsed of a stream of bytes, as text. */
struct parsed {
    char *text;
    size_t len;
    FILE *to;
    bool is_broken;
};

static void describe(FILE *to, const struct rl_reply *reply)
{
    fprintf(to, "%d %lld %zu ", reply->type, (long long)reply->integer, reply->items);
    if (reply->len > 0)
        fwrite(reply->text, 1, reply->len, to);
    FUZZ_CHECK(reply->items <= RL_RESP_ITEMS && reply->len <= RL_RESP_TEXT);
    for (size_t i = 0; i < reply->items; i++)
        describe(to, &reply->item[i]);
}

/* No password gets into the words that are kept of an error, and nothing unprintable. */
static void keep_words(const struct rl_reply *reply)
{
    for (int may_be_auth = 0; may_be_auth < 2; may_be_auth++) {
        struct rl_words words = {0};
        rl_words_set_reply(&words, RL_FAULT_ERR, reply, may_be_auth, SECRET);
        const char *text = rl_words_text(&words, RL_FAULT_ERR);
        FUZZ_CHECK(strlen(text) <= REDLOCK_TEXT_MAX && !strstr(text, SECRET));
        for (const char *c = text; *c; c++)
            FUZZ_CHECK(*c >= ' ' && *c <= '~');
    }
}

/* The bytes are freed once they were parsed, as those of a receive buffer. */
static void feed(struct rl_resp *resp, const uint8_t *data, size_t size,
                 struct parsed *parsed)
{
    char *bytes = malloc(size ? size : 1);
    const struct rl_reply *reply;
    FUZZ_CHECK(bytes);
    memcpy(bytes, data, size);
    rl_resp_feed(resp, bytes, size);
    enum rl_resp_result result;
    while ((result = rl_resp_next(resp, &reply)) == RL_RESP_REPLY) {
        describe(parsed->to, reply);
        if (reply->type == RL_REPLY_ERROR)
            keep_words(reply);
    }
    parsed->is_broken = result == RL_RESP_BROKEN;
    free(bytes);
}

/* `cut`: into pieces of 1 to `cut` bytes, by numbers that follow from it; 0: not at all. */
static struct parsed parse(const uint8_t *data, size_t size, uint32_t cut)
{
    struct parsed parsed = {0};
    struct rl_resp *resp = rl_resp_new();
    parsed.to = open_memstream(&parsed.text, &parsed.len);
    FUZZ_CHECK(resp && parsed.to);
    uint32_t random = cut;
    for (size_t at = 0, piece; at < size && !parsed.is_broken; at += piece) {
        random = random * 1664525 + 1013904223;
        piece = cut > 0 ? 1 + (random >> 16) % cut : size;
        piece = piece < size - at ? piece : size - at;
        feed(resp, data + at, piece, &parsed);
    }
    fclose(parsed.to);
    rl_resp_free(resp);
    return parsed;
}

static void compare(struct parsed one, struct parsed other)
{
    FUZZ_CHECK(one.is_broken == other.is_broken && one.len == other.len);
    FUZZ_CHECK(memcmp(one.text, other.text, one.len) == 0);
    free(other.text);
}

/* A command has the size that was said before, and its words where that was said. */
static void encode(const uint8_t *data, size_t size)
{
    struct rl_word word[RL_WORDS_MAX];
    size_t words = 0;
    for (size_t at = 0; at < size && words < RL_WORDS_MAX; words++) {
        const uint8_t *end = memchr(data + at, '\n', size - at);
        size_t len = end ? (size_t)(end - data) - at : size - at;
        word[words] = (struct rl_word){(const char *)data + at, len};
        at += len + 1;
    }
    size_t room = rl_resp_size(word, words);
    char *out = malloc(room);
    FUZZ_CHECK(out && rl_resp_write(word, words, out) == room);
    for (size_t i = 0; i < words; i++)
        FUZZ_CHECK(memcmp(out + rl_resp_at(word, words, i), word[i].text, word[i].len) ==
                   0);
    free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct parsed whole = parse(data + 1, size - 1, 0);
    compare(whole, parse(data + 1, size - 1, 1));
    compare(whole, parse(data + 1, size - 1, 2 + data[0]));
    free(whole.text);
    encode(data + 1, size - 1);
    return 0;
}
