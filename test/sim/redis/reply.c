#include "reply.h"

#include <stdarg.h>
#include <stdio.h>

#include "number.h"

#define ERROR_MAX 1024

static void add_end(struct bytes *out)
{
    bytes_add(out, "\r\n", 2);
}

/* A line: its type and its text, in which line ends become blanks. */
static void add_line(struct bytes *out, char type, struct rl_word text)
{
    bytes_add(out, &type, 1);
    size_t from = out->len;
    bytes_add(out, text.text, text.len);
    for (size_t i = from; i < out->len; i++)
        if (out->data[i] == '\r' || out->data[i] == '\n')
            out->data[i] = ' ';
    add_end(out);
}

static void add_number(struct bytes *out, char type, int64_t value)
{
    char *at = bytes_reserve(out, NUMBER_ROOM + 3);
    *at = type;
    size_t len = 1 + number_write(at + 1, value);
    memcpy(at + len, "\r\n", 2);
    out->len += len + 2;
}

void reply_status(struct bytes *out, struct rl_word text)
{
    add_line(out, '+', text);
}

void reply_ok(struct bytes *out)
{
    bytes_add(out, "+OK\r\n", 5);
}

void reply_error(struct bytes *out, struct rl_word text)
{
    while (text.len > 0 && strchr("\r\n", text.text[text.len - 1]))
        text.len--;
    add_line(out, '-', text);
}

void reply_error_format(struct bytes *out, const char *format, ...)
{
    char text[ERROR_MAX];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    reply_error(out, (struct rl_word){text, len < ERROR_MAX ? (size_t)len : ERROR_MAX - 1});
}

void reply_wrong_type(struct bytes *out)
{
    bytes_add_text(
        out, "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n");
}

void reply_syntax_error(struct bytes *out)
{
    bytes_add_text(out, "-ERR syntax error\r\n");
}

void reply_not_integer(struct bytes *out)
{
    bytes_add_text(out, "-ERR value is not an integer or out of range\r\n");
}

void reply_integer(struct bytes *out, int64_t value)
{
    add_number(out, ':', value);
}

void reply_bulk(struct bytes *out, struct rl_word text)
{
    add_number(out, '$', (int64_t)text.len);
    bytes_add(out, text.text, text.len);
    add_end(out);
}

void reply_bulk_text(struct bytes *out, const char *text)
{
    reply_bulk(out, (struct rl_word){text, strlen(text)});
}

void reply_bulk_integer(struct bytes *out, int64_t value)
{
    char buffer[NUMBER_ROOM];
    reply_bulk(out, (struct rl_word){buffer, number_write(buffer, value)});
}

void reply_nil(struct bytes *out)
{
    bytes_add(out, "$-1\r\n", 5);
}

void reply_array(struct bytes *out, size_t items)
{
    add_number(out, '*', (int64_t)items);
}
