#include "info.h"

#include <string.h>

#include "redlock/redlock.h"

struct rl_word rl_info_field(const struct rl_reply *reply, const char *name)
{
    size_t name_len = strlen(name);
    const char *at = reply->text;
    const char *end = reply->text + reply->len;
    while (at < end) {
        const char *eol = memchr(at, '\n', (size_t)(end - at));
        const char *line_end = eol ? eol : end;
        size_t len = (size_t)(line_end - at);
        if (len > name_len && memcmp(at, name, name_len) == 0 && at[name_len] == ':') {
            const char *value = at + name_len + 1;
            while (line_end > value && line_end[-1] == '\r')
                line_end--;
            return (struct rl_word){value, (size_t)(line_end - value)};
        }
        at = eol ? eol + 1 : end;
    }
    return (struct rl_word){"", 0};
}

bool rl_info_is(struct rl_word value, const char *text)
{
    return value.len == strlen(text) && memcmp(value.text, text, value.len) == 0;
}

int64_t rl_info_number(struct rl_word value)
{
    int64_t number = 0;
    for (size_t i = 0; i < value.len; i++) {
        if (value.text[i] < '0' || value.text[i] > '9' || number > INT64_MAX / 10 - 1)
            return REDLOCK_UNKNOWN;
        number = 10 * number + (value.text[i] - '0');
    }
    return value.len > 0 ? number : REDLOCK_UNKNOWN;
}
