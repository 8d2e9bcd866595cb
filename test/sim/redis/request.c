#include "request.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "number.h"

#define BULK_MAX (512 * 1024 * 1024)

void request_add(struct request *request, struct rl_word word)
{
    if (request->words == request->room) {
        request->room = request->room ? 2 * request->room : 16;
        request->word =
            bytes_realloc(request->word, request->room * sizeof(*request->word));
    }
    request->word[request->words++] = word;
}

void request_free(struct request *request)
{
    free(request->word);
    *request = (struct request){0};
}

/* The line at `from`, and where the next one begins. False: it has no end yet. */
static bool next_line(struct rl_word bytes, size_t *from, struct rl_word *ret_line)
{
    const char *line = bytes.text + *from;
    size_t rest = bytes.len - *from;
    const char *end = rest > 0 ? memchr(line, '\r', rest) : NULL;
    if (!end || end + 1 == line + rest)
        return false;
    *ret_line = (struct rl_word){line, (size_t)(end - line)};
    *from += ret_line->len + 2;
    return true;
}

/* The number behind the type of a header. */
static bool read_header(struct rl_word line, int64_t *ret_value)
{
    return number_integer((struct rl_word){line.text + 1, line.len - 1}, ret_value);
}

static enum request_state refuse(struct request *request, const char *error)
{
    snprintf(request->error, sizeof(request->error), "%s", error);
    return REQUEST_BROKEN;
}

static enum request_state read_words(struct request *request, struct rl_word bytes,
                                     int64_t words, size_t *at)
{
    struct rl_word line;
    int64_t len;
    for (; words > 0; words--) {
        if (!next_line(bytes, at, &line))
            return REQUEST_PARTIAL;
        if (line.text[0] != '$') {
            snprintf(request->error, sizeof(request->error),
                     "ERR Protocol error: expected '$', got '%c'", line.text[0]);
            return REQUEST_BROKEN;
        }
        if (!read_header(line, &len) || len < 0 || len > BULK_MAX)
            return refuse(request, "ERR Protocol error: invalid bulk length");
        if (bytes.len - *at < (size_t)len + 2)
            return REQUEST_PARTIAL;
        request_add(request, (struct rl_word){bytes.text + *at, (size_t)len});
        *at += (size_t)len + 2;
    }
    return REQUEST_WHOLE;
}

enum request_state request_read(struct request *request, struct rl_word bytes,
                                size_t *ret_used)
{
    struct rl_word line;
    int64_t words;
    size_t at = 0;
    request->words = 0;
    if (bytes.len > 0 && bytes.text[0] != '*')
        return refuse(request, "ERR an inline command, which is not simulated");
    if (!next_line(bytes, &at, &line))
        return REQUEST_PARTIAL;
    if (!read_header(line, &words) || words > INT_MAX)
        return refuse(request, "ERR Protocol error: invalid multibulk length");
    enum request_state state = read_words(request, bytes, words, &at);
    *ret_used = at;
    return state;
}
