#include "bytes.h"

#include <stdlib.h>
#include <strings.h>

#define ROOM_MIN 64

void *bytes_realloc(void *old, size_t size)
{
    void *result = realloc(old, size);
    if (!result)
        abort();
    return result;
}

char *bytes_reserve(struct bytes *bytes, size_t len)
{
    if (bytes->room - bytes->len < len) {
        size_t room = bytes->room ? 2 * bytes->room : ROOM_MIN;
        bytes->room = room < bytes->len + len ? bytes->len + len : room;
        bytes->data = bytes_realloc(bytes->data, bytes->room);
    }
    return bytes->data + bytes->len;
}

void bytes_add(struct bytes *bytes, const char *data, size_t len)
{
    if (len == 0)
        return;
    memcpy(bytes_reserve(bytes, len), data, len);
    bytes->len += len;
}

void bytes_add_text(struct bytes *bytes, const char *text)
{
    bytes_add(bytes, text, strlen(text));
}

void bytes_set(struct bytes *bytes, struct rl_word word)
{
    bytes->len = 0;
    bytes_add(bytes, word.text, word.len);
}

void bytes_drop(struct bytes *bytes, size_t len)
{
    bytes->len -= len;
    if (bytes->len > 0)
        memmove(bytes->data, bytes->data + len, bytes->len);
}

void bytes_free(struct bytes *bytes)
{
    free(bytes->data);
    *bytes = (struct bytes){0};
}

bool word_is_option(struct rl_word word, const char *option)
{
    return word.len == strlen(option) && strncasecmp(word.text, option, word.len) == 0;
}
