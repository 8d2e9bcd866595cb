#include "marker.h"

#include <assert.h>
#include <string.h>

#define ID_DIGITS 16

/* --- writing --- */

struct writer {
    char *at;
};

static void put_text(struct writer *writer, const char *text, size_t len)
{
    memcpy(writer->at, text, len);
    writer->at += len;
}

static void put_id(struct writer *writer, uint64_t id)
{
    rl_marker_nonce(id, writer->at);
    writer->at += ID_DIGITS;
}

static void marker_put_number(struct writer *writer, uint64_t value)
{
    char digits[20];
    size_t count = 0;
    do {
        digits[count++] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    while (count > 0)
        *writer->at++ = digits[--count];
}

static void put_space(struct writer *writer)
{
    *writer->at++ = ' ';
}

void rl_marker_nonce(uint64_t nonce, char text[RL_NONCE])
{
    _Static_assert(RL_NONCE == ID_DIGITS, "a nonce is written as any id");
    for (int i = 0; i < ID_DIGITS; i++)
        text[i] = "0123456789abcdef"[nonce >> (60 - 4 * i) & 15];
}

static const char active[] = "sound", quarantined[] = "barred";
static const char no_promise = '-', retired = 'R';

static void put_promises(struct writer *writer, const struct rl_marker *marker)
{
    char *begin = writer->at;
    if (marker->retired)
        *writer->at++ = retired;
    for (int letter = 'a'; letter <= 'z'; letter++)
        if (marker->promises & RL_PROMISE(letter))
            *writer->at++ = (char)letter;
    if (writer->at == begin)
        *writer->at++ = no_promise;
}

size_t rl_marker_write(const struct rl_marker *marker, char text[RL_MARKER_MAX])
{
    struct writer writer = {text};
    const struct rl_roster *roster = &marker->roster;
    put_id(&writer, marker->nonce);
    put_space(&writer);
    if (marker->active)
        put_text(&writer, active, sizeof(active) - 1);
    else
        put_text(&writer, quarantined, sizeof(quarantined) - 1);
    put_space(&writer);
    marker_put_number(&writer, marker->index);
    put_space(&writer);
    put_id(&writer, roster->deployment);
    put_space(&writer);
    marker_put_number(&writer, (uint64_t)roster->max_ttl_ms);
    put_space(&writer);
    put_promises(&writer, marker);
    put_space(&writer);
    put_text(&writer, marker->process.run_id, RL_RUN_ID);
    put_space(&writer);
    put_text(&writer, marker->process.replid, RL_RUN_ID);
    for (unsigned i = 0; i < roster->n; i++) {
        put_space(&writer);
        marker_put_number(&writer, roster->member[i].generation);
        *writer.at++ = '.';
        put_id(&writer, roster->member[i].id);
    }
    assert(writer.at <= text + RL_MARKER_MAX);
    return (size_t)(writer.at - text);
}

/* --- reading --- */

struct reader {
    const char *at, *end;
    bool bad;
};

static void take_char(struct reader *reader, char c)
{
    if (reader->at < reader->end && *reader->at == c)
        reader->at++;
    else
        reader->bad = true;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static uint64_t take_id(struct reader *reader)
{
    uint64_t id = 0;
    for (int i = 0; i < ID_DIGITS; i++) {
        int value = reader->at < reader->end ? hex_value(*reader->at) : -1;
        if (value < 0) {
            reader->bad = true;
            return 0;
        }
        id = id << 4 | (uint64_t)value;
        reader->at++;
    }
    return id;
}

static uint64_t take_number(struct reader *reader, uint64_t most)
{
    uint64_t value = 0;
    const char *begin = reader->at;
    while (reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9') {
        value = 10 * value + (uint64_t)(*reader->at++ - '0');
        if (value > most) {
            reader->bad = true;
            return 0;
        }
    }
    if (reader->at == begin)
        reader->bad = true;
    return value;
}

static bool take_text(struct reader *reader, const char *text, size_t len)
{
    if ((size_t)(reader->end - reader->at) < len || memcmp(reader->at, text, len) != 0)
        return false;
    reader->at += len;
    return true;
}

static void take_run_id(struct reader *reader, char run_id[RL_RUN_ID + 1])
{
    for (int i = 0; i < RL_RUN_ID; i++) {
        if (reader->at >= reader->end || hex_value(*reader->at) < 0) {
            reader->bad = true;
            return;
        }
        run_id[i] = *reader->at++;
    }
}

static void take_state(struct reader *reader, struct rl_marker *marker)
{
    marker->active = take_text(reader, active, sizeof(active) - 1);
    if (!marker->active && !take_text(reader, quarantined, sizeof(quarantined) - 1))
        reader->bad = true;
}

/* Their order is checked by is_canonical(). */
static void take_promises(struct reader *reader, struct rl_marker *marker)
{
    bool none = take_text(reader, &no_promise, 1);
    marker->retired = !none && take_text(reader, &retired, 1);
    while (!none && reader->at < reader->end && *reader->at >= 'a' && *reader->at <= 'z')
        marker->promises |= RL_PROMISE(*reader->at++);
}

static void take_members(struct reader *reader, struct rl_roster *roster)
{
    while (reader->at < reader->end && !reader->bad && roster->n < RL_NODES_MAX) {
        struct rl_incarnation *incarnation = &roster->member[roster->n++];
        take_char(reader, ' ');
        incarnation->generation = (uint32_t)take_number(reader, UINT32_MAX);
        take_char(reader, '.');
        incarnation->id = take_id(reader);
    }
}

/* The text is exactly what rl_marker_write() writes. So the parser need not check the
   format of numbers. */
static bool is_canonical(const struct rl_marker *marker, struct rl_word text)
{
    char again[RL_MARKER_MAX];
    size_t len = rl_marker_write(marker, again);
    return len == text.len && memcmp(again, text.text, len) == 0;
}

bool rl_marker_read(struct rl_word text, struct rl_marker *ret_marker)
{
    struct reader reader = {text.text, text.text + text.len, false};
    struct rl_marker marker = {0};
    marker.nonce = take_id(&reader);
    take_char(&reader, ' ');
    take_state(&reader, &marker);
    take_char(&reader, ' ');
    marker.index = (uint8_t)take_number(&reader, RL_NODES_MAX - 1);
    take_char(&reader, ' ');
    marker.roster.deployment = take_id(&reader);
    take_char(&reader, ' ');
    marker.roster.max_ttl_ms = (int64_t)take_number(&reader, INT64_MAX / RL_SECOND);
    take_char(&reader, ' ');
    take_promises(&reader, &marker);
    take_char(&reader, ' ');
    take_run_id(&reader, marker.process.run_id);
    take_char(&reader, ' ');
    take_run_id(&reader, marker.process.replid);
    take_members(&reader, &marker.roster);
    if (reader.bad || reader.at != reader.end || marker.index >= marker.roster.n ||
        marker.roster.deployment == 0 || rl_marker_self(&marker).generation == 0 ||
        !is_canonical(&marker, text))
        return false;
    *ret_marker = marker;
    return true;
}

/* --- comparing --- */

bool rl_process_is_same_run(const struct rl_process *a, const struct rl_process *b)
{
    return memcmp(a->run_id, b->run_id, RL_RUN_ID) == 0;
}

/* (safety.md, The marker) */
bool rl_process_equal(const struct rl_process *a, const struct rl_process *b)
{
    return rl_process_is_same_run(a, b) && memcmp(a->replid, b->replid, RL_RUN_ID) == 0;
}

/* (safety.md, How a node comes back) */
void rl_roster_merge(struct rl_roster *roster, const struct rl_roster *other)
{
    assert(roster->deployment == other->deployment && roster->n == other->n);
    for (unsigned i = 0; i < roster->n; i++)
        if (rl_incarnation_is_newer(other->member[i], roster->member[i]))
            roster->member[i] = other->member[i];
}
