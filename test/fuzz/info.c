/* Replies to the greeting: INFO and the marker. */
#include "net/info.h"

#include <string.h>

#include "fuzz.h"
#include "net/greeting.h"
#include "redlock/redlock.h"

/* The value is a part of the text, right behind its name and a colon. */
static void find(const struct rl_reply *reply, const char *name)
{
    struct rl_word value = rl_info_field(reply, name);
    int64_t number = rl_info_number(value);
    FUZZ_CHECK(number == REDLOCK_UNKNOWN || (number >= 0 && value.len > 0));
    FUZZ_CHECK(rl_info_is(value, "") == (value.len == 0));
    if (value.len == 0)
        return;
    size_t len = strlen(name);
    FUZZ_CHECK(value.text > reply->text + len && value.text[-1] == ':');
    FUZZ_CHECK(value.text + value.len <= reply->text + reply->len);
    FUZZ_CHECK(memcmp(value.text - 1 - len, name, len) == 0);
    FUZZ_CHECK(!memchr(value.text, '\n', value.len) && value.text[value.len - 1] != '\r');
}

/* Takes a reply from the input: a digit for its type, and up to the next NUL its text. */
static struct rl_reply take(const uint8_t **data, size_t *size)
{
    struct rl_reply reply = {.type = *size > 0 ? **data % 6 : RL_REPLY_NIL};
    size_t len = *size > 0 ? strnlen((const char *)*data + 1, *size - 1) : 0;
    char *text = malloc(len ? len : 1); /* and nothing behind it */
    FUZZ_CHECK(text);
    memcpy(text, *data + (*size > 0), len);
    reply.text = text;
    reply.len = len;
    size_t taken = len + 2 < *size ? len + 2 : *size;
    *data += taken;
    *size -= taken;
    return reply;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"run_id", "server_time_usec", "a", ""};
    const struct rl_credentials who = {"user", "password", 3, {"marker", 6}, "name"};
    struct rl_send_batch batch = {0};
    struct rl_greeting greeting;
    bool is_last = false;
    FUZZ_CHECK(rl_greeting_begin(&greeting, &who, &batch));
    while (!is_last) {
        struct rl_reply reply = take(&data, &size);
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
            find(&reply, names[i]);
        is_last = rl_greeting_read(&greeting, &reply);
        free((char *)reply.text);
    }
    FUZZ_CHECK(greeting.identity.time >= 0);
    FUZZ_CHECK(greeting.identity.marker_len <= RL_MARKER_MAX + 1);
    rl_send_batch_free(&batch);
    return 0;
}
