#include "pattern.h"

#include <string.h>

static size_t escape(const char *text, size_t len, char *pattern)
{
    size_t size = 0;
    for (size_t i = 0; i < len; i++) {
        if (text[i] && strchr("*?[]\\^-", text[i]))
            pattern[size++] = '\\';
        pattern[size++] = text[i];
    }
    return size;
}

size_t rl_pattern_of(const char *prefix, size_t prefix_len, const char *client_prefix,
                     char ret_pattern[RL_PATTERN_MAX])
{
    size_t size = 0;
    if (client_prefix)
        size = escape(client_prefix, strlen(client_prefix), ret_pattern);
    size += escape(prefix, prefix_len, ret_pattern + size);
    ret_pattern[size++] = '*';
    ret_pattern[size] = '\0';
    return size;
}
