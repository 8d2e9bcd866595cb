#include "visible.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Cc, Cf, Zl and Zp of Unicode 15; the code points between U+E0000 and U+E007F are tags. */
static const uint32_t hidden[][2] = {
    {0x0, 0x1f},        {0x7f, 0x9f},       {0xad, 0xad},       {0x600, 0x605},
    {0x61c, 0x61c},     {0x6dd, 0x6dd},     {0x70f, 0x70f},     {0x890, 0x891},
    {0x8e2, 0x8e2},     {0x180e, 0x180e},   {0x200b, 0x200f},   {0x2028, 0x202e},
    {0x2060, 0x206f},   {0xfeff, 0xfeff},   {0xfff9, 0xfffb},   {0x110bd, 0x110bd},
    {0x110cd, 0x110cd}, {0x13430, 0x1343f}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a},
    {0xe0000, 0xe007f},
};

static bool is_hidden(uint32_t point)
{
    for (size_t i = 0; i < sizeof(hidden) / sizeof(hidden[0]); i++)
        if (point >= hidden[i][0] && point <= hidden[i][1])
            return true;
    return false;
}

/* The bytes of the character that begins there, and its code point; 0: it is not UTF-8. */
static size_t decode(const unsigned char *at, size_t len, uint32_t *ret_point)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t size = at[0] < 0x80             ? 1
                  : (at[0] & 0xe0) == 0xc0 ? 2
                  : (at[0] & 0xf0) == 0xe0 ? 3
                  : (at[0] & 0xf8) == 0xf0 ? 4
                                           : 0;
    if (size == 0 || size > len)
        return 0;
    uint32_t point = size == 1 ? at[0] : at[0] & (0x7fu >> size);
    for (size_t i = 1; i < size; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0;
        point = point << 6 | (at[i] & 0x3f);
    }
    bool is_surrogate = point >= 0xd800 && point < 0xe000;
    *ret_point = point;
    return point < least[size] || is_surrogate || point > 0x10ffff ? 0 : size;
}

size_t visible_text(const char *bytes, size_t len, char *ret_text)
{
    char *to = ret_text;
    for (size_t i = 0, size; i < len; i += size) {
        uint32_t point = 0;
        size = decode((const unsigned char *)bytes + i, len - i, &point);
        bool is_escaped = size == 0 || is_hidden(point);
        size = size ? size : 1;
        for (size_t j = 0; j < size; j++)
            if (is_escaped)
                to += sprintf(to, "\\x%02x", (unsigned char)bytes[i + j]);
            else
                *to++ = bytes[i + j];
    }
    *to = '\0';
    return (size_t)(to - ret_text);
}

size_t visible_json(const char *json, size_t len, char *ret_json)
{
    char *to = ret_json;
    for (size_t i = 0, size; i < len; i += size) {
        uint32_t point = 0;
        size = decode((const unsigned char *)json + i, len - i, &point);
        size = size ? size : 1;
        if (point < 0x7f || !is_hidden(point)) { /* Jansson escapes those below 0x20 */
            memcpy(to, json + i, size);
            to += size;
        } else if (point < 0x10000) {
            to += sprintf(to, "\\u%04x", point);
        } else {
            to += sprintf(to, "\\u%04x\\u%04x", 0xd7c0 + (point >> 10),
                          0xdc00 + (point & 0x3ff));
        }
    }
    *to = '\0';
    return (size_t)(to - ret_json);
}
