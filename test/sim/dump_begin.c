/*
 * A dump whose first events were overwritten, made one that can be played from the start:
 *
 * - The client connects to all nodes. Those that the dump shows down fail afterwards.
 * - A lock that was acquired before begins with the first acquire or extension in the dump
 *   that all nodes granted that replied: after an extension a lease is in the same state as
 *   after an acquire at that time. What the dump has of the lease before is left out.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/quorum.h"
#include "dump.h"

static const struct dump *full;

/* Where a lease begins. */
struct begin {
    size_t event;              /* its first one that is played; SIZE_MAX: none */
    int64_t attempt, round;    /* which become 1 */
    const struct line *result; /* of its first round; NULL: it begins with its acquire */
};

static const struct line *event_at(size_t index)
{
    return &full->event.line[index];
}

/* --- leases --- */

static bool is_of(const struct line *line, int64_t lease)
{
    return line_number(line, "lease", 0) == lease;
}

static bool is_acquired_in(const struct line *first)
{
    return (line_is_named(first, "asked") &&
            (line_is(first, "what", "acquire") || line_is(first, "what", "adopt"))) ||
           (line_is_named(first, "sent") && line_is(first, "command", "acquire") &&
            line_is(first, "attempt", "1"));
}

/*
 * The success of the round that begins with this event; or NULL. All replies to an
 * extension must be grants: others would mean something else in an acquire.
 */
static const struct line *success_of(size_t sent)
{
    int64_t lease = line_number(event_at(sent), "lease", 0);
    int64_t round = line_number(event_at(sent), "round", 0);
    const struct line *result = NULL;
    for (size_t i = sent + 1; i < full->event.count; i++) {
        const struct line *event = event_at(i);
        if (!is_of(event, lease))
            continue;
        if (line_is_named(event, "sent"))
            break;
        if (line_is_named(event, "reply") &&
            line_number(event, "round", 0) == (round & 0xffff) &&
            !line_is(event, "vote", "granted") &&
            line_is(event_at(sent), "command", "extend"))
            return NULL;
        if (!result && line_is_named(event, "result"))
            result = event;
    }
    bool won =
        result && (line_is(result, "of", "acquire") || line_is(result, "of", "renew") ||
                   line_is(result, "of", "extend"));
    return won ? result : NULL;
}

static struct begin begin_of(int64_t lease)
{
    bool is_first = true;
    for (size_t i = 0; i < full->event.count; i++) {
        const struct line *event = event_at(i);
        if (!is_of(event, lease))
            continue;
        if (is_first && is_acquired_in(event))
            return (struct begin){i, 1, 1, NULL};
        is_first = false;
        const struct line *result = line_is_named(event, "sent") ? success_of(i) : NULL;
        if (result)
            return (struct begin){i, line_number(event, "attempt", 1),
                                  line_number(event, "round", 1), result};
    }
    return (struct begin){.event = SIZE_MAX};
}

int64_t dump_ttl_ms(const struct dump *dump, rl_time start, const struct line *result)
{
    rl_time whole = line_number(result, "valid_until", 0) - start + RL_DRIFT_FLOOR;
    int64_t ppm = line_number(&dump->client, "drift_ppm", 0);
    return (int64_t)((double)whole / (1 - (double)ppm / 1e6) + RL_MS / 2.) / RL_MS;
}

/* --- writing --- */

/* NULL: the value stays. */
static const char *new_value(const struct line *line, const char *name,
                             const struct begin *begin, char room[DUMP_VALUE])
{
    int64_t round = line_number(line, "round", -1) - begin->round + 1;
    bool is_sent = line == event_at(begin->event), is_reply = line_is_named(line, "reply");
    if (strcmp(name, "full") == 0)
        return "0";
    if (begin->event == SIZE_MAX || !begin->result)
        return NULL;
    if (strcmp(name, "attempt") == 0)
        snprintf(room, DUMP_VALUE, "%" PRId64,
                 line_number(line, name, 1) - begin->attempt + 1);
    else if (strcmp(name, "round") == 0)
        snprintf(room, DUMP_VALUE, "%" PRId64, is_reply ? round & 0xffff : round);
    else if (strcmp(name, "ttl_ms") == 0)
        snprintf(room, DUMP_VALUE, "%" PRId64,
                 dump_ttl_ms(full, event_at(begin->event)->at, begin->result));
    else if (strcmp(name, "command") == 0 && (is_sent || (is_reply && round == 1)))
        return "acquire";
    else if (strcmp(name, "state") == 0 && is_sent)
        return "acquiring";
    else if (strcmp(name, "of") == 0 && line == begin->result)
        return "acquire";
    else
        return NULL;
    return room;
}

/* The nodes that are known not to store the token when the lease begins. */
static void put_missing(FILE *to, int64_t lease, const struct begin *begin)
{
    char nodes[DUMP_VALUE] = "-";
    for (size_t i = begin->event; i < full->event.count; i++)
        if (line_is_named(event_at(i), "step") && is_of(event_at(i), lease)) {
            line_value(event_at(i), "missing", nodes);
            break;
        }
    fprintf(to, " " DUMP_MISSING "=%s", nodes);
}

static void put(FILE *to, const struct line *line, const struct begin *begin)
{
    fprintf(to, "%" PRId64 " %s", line->at, line->name);
    for (const char *at = line->values; *at; at += strcspn(at, " "), at += *at == ' ') {
        char name[DUMP_VALUE], value[DUMP_VALUE], room[DUMP_VALUE];
        size_t len = strcspn(at, "= ");
        if (len >= sizeof(name))
            continue;
        memcpy(name, at, len);
        name[len] = '\0';
        const char *old = line_value(line, name, value);
        const char *new = new_value(line, name, begin, room);
        if (old)
            fprintf(to, " %s=%s", name, new ? new : old);
    }
    if (line_is_named(line, "lease") && begin->event != SIZE_MAX && begin->result)
        put_missing(to, line_number(line, "lease", 0), begin);
    fputc('\n', to);
}

/* A late reply of a round before the first one is left out, too. */
static bool is_kept(size_t index, const struct begin *begin)
{
    const struct line *line = event_at(index);
    if (line_is_named(line, "subscribed") || line_is_named(line, "notified"))
        return false;
    if (line_number(line, "lease", 0) == 0)
        return true;
    return begin->event <= index &&
           (!line_is_named(line, "reply") ||
            (uint16_t)(line_number(line, "round", 0) - begin->round) < 0x8000);
}

/* --- nodes --- */

static const struct line *first_link(unsigned node, size_t from)
{
    for (size_t i = from; i < full->event.count; i++)
        if (line_is_named(event_at(i), "link") &&
            line_number(event_at(i), "node", 0) == node)
            return event_at(i);
    return NULL;
}

/* Whether the client had a connection to the node when the dump begins. */
static bool was_open(unsigned node, size_t from)
{
    const struct line *link = first_link(node, from), *state = &full->node.line[node];
    if (!link)
        return !line_is(state, "state", "down") && !line_is(state, "state", "connecting");
    if (line_is(link, "by", "failed"))
        return !line_is(link, "fault", "CONNECT");
    return !line_is(link, "by", "connected") && !line_is(link, "by", "greeted") &&
           !line_is(link, "state", "connecting");
}

/* All that is put before the first event has to be earlier. */
static rl_time round_trip(unsigned node, size_t from)
{
    rl_time most = from < full->event.count ? event_at(from)->at / 2 : 1;
    return rl_clamp(line_number(&full->node.line[node], "round_trip_us", 1), 1, most);
}

static void put_links(FILE *to, size_t from)
{
    static const char connecting[] = "fault=CONNECTING restarted=0";
    unsigned n = (unsigned)full->node.count;
    rl_node_set greeted = 0;
    rl_time at = 0;
    for (unsigned i = 0; i < n; i++)
        fprintf(to, "0 link node=%u by=tick state=connecting %s\n", i, connecting);
    for (unsigned i = 0; i < n; i++)
        fprintf(to, "0 link node=%u by=connected state=greeting %s\n", i, connecting);
    while (greeted != rl_all(n)) { /* the nearest one first */
        unsigned next = n;
        for (unsigned i = 0; i < n; i++)
            if (!(greeted & rl_bit(i)) &&
                (next == n || round_trip(i, from) < round_trip(next, from)))
                next = i;
        greeted |= rl_bit(next);
        at = round_trip(next, from);
        fprintf(to,
                "%" PRId64 " link node=%u by=greeted state=ready fault=NONE restarted=0\n",
                at, next);
    }
    fprintf(to, "%" PRId64 " startup ready=", at);
    for (unsigned i = 0; i < n; i++)
        fprintf(to, "%s%u", i ? "," : "", i);
    fputc('\n', to);
    static const char *const faults[] = {"CLOSED", "CONNECT"};
    for (unsigned f = 0; f < 2; f++, at++)
        for (unsigned i = 0; i < n; i++)
            if (!was_open(i, from))
                fprintf(to,
                        "%" PRId64
                        " link node=%u by=failed state=down fault=%s restarted=0\n",
                        at + 1, i, faults[f]);
}

/* --- all of it --- */

char *dump_from_start(const struct dump *dump)
{
    static const struct begin none = {.event = SIZE_MAX};
    char *text = NULL;
    size_t len, from = 0;
    full = dump;
    FILE *to = open_memstream(&text, &len);
    if (!to)
        abort();
    for (size_t i = 0; i < full->event.count; i++)
        if (line_is_named(event_at(i), "startup"))
            from = i + 1;
    put(to, &full->record, &none);
    put(to, &full->client, &none);
    for (size_t i = 0; i < full->lease.count; i++) {
        struct begin begin = begin_of(line_number(&full->lease.line[i], "lease", 0));
        put(to, &full->lease.line[i], &begin);
    }
    put_links(to, from);
    for (size_t i = from; i < full->event.count; i++) {
        struct begin begin = begin_of(line_number(event_at(i), "lease", 0));
        if (is_kept(i, &begin))
            put(to, event_at(i), &begin);
    }
    for (size_t i = 0; i < full->node.count; i++)
        put(to, &full->node.line[i], &none);
    fclose(to);
    return text;
}
