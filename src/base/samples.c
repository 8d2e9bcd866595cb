#include "samples.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

__attribute__((format(printf, 2, 3))) static void put(struct rl_samples *text,
                                                      const char *format, ...)
{
    size_t left = text->len < text->room ? text->room - text->len : 0;
    va_list values;
    va_start(values, format);
    int len = vsnprintf(left > 0 ? text->bytes + text->len : NULL, left, format, values);
    va_end(values);
    text->len += len > 0 ? (size_t)len : 0;
}

void rl_samples_head(struct rl_samples *text, const char *name, const char *type,
                     const char *help)
{
    put(text, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* The bytes of the first UTF-8 character; 0: it is none. */
static size_t utf8_len(const unsigned char *text)
{
    static const struct {
        unsigned char mask, first;
        uint32_t least;
    } forms[] = {
        {0x80, 0, 0}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};
    for (size_t more = 0; more < COUNT(forms); more++) {
        uint32_t sign = text[0] & (unsigned char)~forms[more].mask;
        size_t i = 1;
        if ((text[0] & forms[more].mask) != forms[more].first)
            continue;
        for (; i <= more && (text[i] & 0xc0) == 0x80; i++)
            sign = sign << 6 | (text[i] & 0x3f);
        bool is_surrogate = sign >= 0xd800 && sign < 0xe000;
        return i > more && sign >= forms[more].least && sign <= 0x10ffff && !is_surrogate
                   ? more + 1
                   : 0;
    }
    return 0;
}

/* Escapes a backslash, a quote and a line feed; a byte that is no UTF-8 becomes \\xNN. */
static void put_value(struct rl_samples *text, const char *value)
{
    while (*value) {
        const unsigned char *byte = (const unsigned char *)value;
        size_t len = utf8_len(byte);
        if (*value == '\n')
            put(text, "\\n");
        else if (*value == '\\' || *value == '"')
            put(text, "\\%c", *value);
        else if (len == 0)
            put(text, "\\\\x%02x", *byte);
        else
            put(text, "%.*s", (int)len, value);
        value += len ? len : 1;
    }
}

void rl_samples_label(struct rl_samples *text, const char *name, const char *value)
{
    put(text, "%s%s=\"", text->is_labelled ? "," : "{", name);
    put_value(text, value);
    put(text, "\"");
    text->is_labelled = true;
}

void rl_samples_begin(struct rl_samples *text, const char *name, const char *suffix)
{
    put(text, "%s%s", name, suffix);
    text->is_labelled = false;
    for (size_t i = 0; i < text->label_count; i++)
        rl_samples_label(text, text->labels[i].name, text->labels[i].value);
}

void rl_samples_end_text(struct rl_samples *text, const char *value)
{
    put(text, "%s %s\n", text->is_labelled ? "}" : "", value);
}

void rl_samples_end(struct rl_samples *text, uint64_t value)
{
    put(text, "%s %" PRIu64 "\n", text->is_labelled ? "}" : "", value);
}
