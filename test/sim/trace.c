#include "trace.h"

#include <inttypes.h>
#include <stdarg.h>

#include "world.h"

/* --- the hash: FNV-1a over whole words --- */

static void mix(struct world *world, uint64_t value)
{
    world->trace.hash = (world->trace.hash ^ value) * UINT64_C(0x100000001b3);
    world->trace.hash ^= world->trace.hash >> 29;
}

void trace_event(struct world *world, const struct event *event)
{
    mix(world, (uint64_t)event->at);
    mix(world, event->type | (uint64_t)event->who << 8 | (uint64_t)event->what << 16);
}

/* --- the story --- */

static void tell(struct world *world, const char *who, unsigned number, const char *format,
                 va_list arguments)
{
    fprintf(world->trace.to, "%12.3f ms  ", (double)(world->now - RL_SECOND) / 1000);
    if (who)
        fprintf(world->trace.to, "%s %u  ", who, number);
    vfprintf(world->trace.to, format, arguments);
    fputc('\n', world->trace.to);
}

static void client_tells(struct world *world, const struct client *client,
                         const char *format, ...) __attribute__((format(printf, 3, 4)));

static void client_tells(struct world *world, const struct client *client,
                         const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    tell(world, "client", client->index + 1U, format, arguments);
    va_end(arguments);
}

static void server_tells(struct world *world, unsigned server, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void server_tells(struct world *world, unsigned server, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    tell(world, "server", server + 1, format, arguments);
    va_end(arguments);
}

void trace_mishap(struct world *world, const char *format, ...)
{
    va_list arguments;
    if (!world->trace.to)
        return;
    va_start(arguments, format);
    tell(world, NULL, 0, format, arguments);
    va_end(arguments);
}

void trace_phase(struct world *world, const char *text)
{
    if (world->trace.to)
        fprintf(world->trace.to, "\n--- %s ---\n\n", text);
}

const char *trace_set(uint32_t set)
{
    static char texts[2][4 * RL_NODES_MAX];
    static unsigned which;
    char *text = texts[which = !which];
    int len = 0;
    text[0] = '\0';
    for (; set; set &= set - 1)
        len += snprintf(text + len, sizeof(texts[0]) - (size_t)len, "%s%u",
                        len > 0 ? " " : "", rl_first(set) + 1);
    return text[0] ? text : "none";
}

static double ms(rl_time time)
{
    return (double)time / 1000;
}

void trace_begins(struct world *world)
{
    const struct swarm *swarm = &world->swarm;
    FILE *to = world->trace.to;
    if (!to)
        return;
    fprintf(to,
            "Seed %" PRIu64
            ": %u clients with %u users each, %u resources, %u nodes, "
            "quorum %u%s%s%s.\n",
            world->seed, swarm->clients, swarm->users, swarm->resources, NODES, swarm->q,
            swarm->fenced    ? ", fenced"
            : swarm->durable ? ", said to be durable"
                             : "",
            swarm->duplicate ? ", of which two are the same server" : "",
            swarm->wild ? ", and clocks beyond the bounds" : "");
    fprintf(to, "TTLs of %.0f to %.0f ms, drift %u ppm, ways of %.3f to %.3f ms.\n",
            ms(swarm->ttl_min), ms(swarm->ttl_max), swarm->drift_ppm, ms(swarm->near),
            ms(swarm->far));
    fprintf(to, "What may go wrong:\n");
    for (unsigned i = 0; i < MISHAP_COUNT; i++)
        if (swarm->weight[i] > 0)
            fprintf(to, "  %s\n", mishap_text((enum mishap)i));
    if (swarm->weights == 0)
        fprintf(to, "  nothing\n");
    fputc('\n', to);
}

/* --- users --- */

static const char *token_of(const struct world *world, const struct user *user)
{
    static char text[TOKEN_LEN + 1];
    snprintf(text, sizeof(text), "%.*s", TOKEN_LEN,
             world->token[user->attempt->token].text);
    return text;
}

void trace_asks(struct world *world, const struct client *client, const struct user *user)
{
    if (world->trace.to && user->queues)
        client_tells(world, client, "takes a place for \"%s\", with token %s",
                     world_key(user->resource).text, token_of(world, user));
    else if (world->trace.to)
        client_tells(world, client, "asks for \"%s\" for %.0f ms, with token %s",
                     world_key(user->resource).text, ms(user->terms.ttl),
                     token_of(world, user));
}

void trace_extends(struct world *world, const struct client *client,
                   const struct user *user, rl_time ttl)
{
    if (world->trace.to && ttl > 0)
        client_tells(world, client, "%s is to be extended to %.0f ms",
                     token_of(world, user), ms(ttl));
    else if (world->trace.to)
        client_tells(world, client, "%s is to be extended", token_of(world, user));
}

void trace_ends(struct world *world, const struct client *client, const struct user *user)
{
    static const char *const texts[] = {"gives %s back", "disowns %s", "drops %s",
                                        "gives %s back"};
    char text[32];
    if (!world->trace.to)
        return;
    snprintf(text, sizeof(text), texts[user->end], token_of(world, user));
    client_tells(world, client, "%s", text);
}

void trace_adopts(struct world *world, const struct client *client, const struct user *user,
                  bool known)
{
    if (world->trace.to)
        client_tells(world, client, "adopts %s%s", token_of(world, user),
                     known ? "" : ", without its deadline");
}

/* --- machines --- */

static const char *text_of(enum rl_command text)
{
    static const char *const texts[RL_COMMANDS] = {
        "SET", "settle", "extension", "release", "inspect", "break", "mark"};
    return texts[text];
}

static void tell_news(struct world *world, const struct client *client,
                      const struct attempt *attempt, unsigned news)
{
    static const char *const causes[] = {
        "",
        "another has it",
        "no quorum",
        "its time ran out",
        "cancelled",
        "the keys are gone",
        "it was held as long as it may be",
        "unconfirmed",
    };
    const struct rl_lease *lease = &attempt->lease;
    const char *token = world->token[attempt->token].text;
    const char *cause = causes[lease->cause];
    double left = ms(lease->valid - client->view.now);
    if (news & RL_REPORT_LOST)
        client_tells(world, client, "%.*s is LOST: %s", TOKEN_LEN, token, cause);
    if (news & RL_REPORT_HELD)
        client_tells(world, client, "%.*s is held for %.3f ms: %s granted", TOKEN_LEN,
                     token, left, trace_set(lease->holding));
    if (news & RL_REPORT_FAILED)
        client_tells(world, client, "%.*s failed: %s", TOKEN_LEN, token, cause);
    if (news & RL_REPORT_NOT_EXTENDED)
        client_tells(world, client, "%.*s is not extended", TOKEN_LEN, token);
    if (news & (RL_REPORT_EXTENDED | RL_REPORT_RENEWED))
        client_tells(world, client, "%.*s is extended for %.3f ms: by %s", TOKEN_LEN, token,
                     left, trace_set(lease->holding));
    if (news & RL_REPORT_RELEASED)
        client_tells(world, client, "%.*s is released%s%s", TOKEN_LEN, token,
                     *cause ? ": " : "", cause);
}

void trace_stepped(struct world *world, const struct client *client,
                   const struct attempt *attempt, const struct rl_lease_event *event,
                   const struct rl_update *update)
{
    const char *token = world->token[attempt->token].text;
    mix(world, (uint64_t)attempt->lease.valid);
    mix(world, update->send | (uint64_t)update->reports << 32 |
                   (uint64_t)attempt->lease.state << 48 | (uint64_t)event->type << 56);
    if (!world->trace.to)
        return;
    tell_news(world, client, attempt, update->reports);
    if (update->send)
        client_tells(world, client, "%.*s: %s to %s%s", TOKEN_LEN, token,
                     text_of(update->command), trace_set(update->send),
                     update->recreate ? ", planting" : "");
}

void trace_orders(struct world *world, const struct client *client,
                  const struct rl_member_command *order)
{
    const struct rl_marker *wanted = &order->wanted;
    mix(world, order->node | (uint64_t)order->write << 8 | wanted->nonce << 9);
    if (!world->trace.to || !order->write)
        return;
    if (order->erase)
        client_tells(world, client, "node %u is to have no marker", order->node + 1);
    else
        client_tells(world, client, "node %u is to be %s, seat %u of generation %u",
                     order->node + 1, wanted->active ? "sound" : "barred",
                     wanted->index + 1, rl_marker_self(wanted).generation);
}

static const char *const standing_names[] = {
    [RL_MEMBER_UNSEEN] = "unseen",      [RL_MEMBER_UNMARKED] = "unmarked",
    [RL_MEMBER_NO_MAJORITY] = "alone",  [RL_MEMBER_OTHER_DEPLOYMENT] = "elsewhere",
    [RL_MEMBER_REPLACED] = "replaced",  [RL_MEMBER_OTHER_PROCESS] = "foreign",
    [RL_MEMBER_QUARANTINED] = "barred", [RL_MEMBER_CLOCK] = "of a wrong clock",
    [RL_MEMBER_ACTIVE] = "sound",       [RL_MEMBER_UNCONFIRMED] = "unconfirmed",
};

void trace_wards(struct world *world, struct client *client)
{
    for (unsigned i = 0; world->trace.to && i < NODES; i++) {
        enum rl_member_state standing = client->steward.member[i].state;
        if (standing != client->stood[i])
            client_tells(world, client, "node %u is %s", i + 1, standing_names[standing]);
        client->stood[i] = standing;
    }
}

void trace_link(struct world *world, const struct client *client, unsigned node,
                enum rl_link_state before)
{
    const struct rl_link *link = &client->member[node].link;
    mix(world, link->state | (uint64_t)node << 8);
    if (!world->trace.to)
        return;
    switch (link->state) {
    case RL_LINK_READY: client_tells(world, client, "node %u may vote", node + 1); break;
    case RL_LINK_SUSPECT:
        client_tells(world, client, "node %u is suspect", node + 1);
        break;
    case RL_LINK_QUARANTINED:
        client_tells(world, client, "node %u is quarantined for %.3f ms", node + 1,
                     ms(link->quarantine_until - client->view.now));
        break;
    case RL_LINK_DOWN:
        client_tells(world, client, "node %u is down%s: %s", node + 1,
                     before >= RL_LINK_READY ? ", its line reset" : "",
                     rl_fault_text(link->fault));
        break;
    default: break;
    }
}

void trace_ran(struct world *world, const struct order *order)
{
    static const char *const votes[] = {
        [RL_VOTE_UNASKED] = "",
        [RL_VOTE_WAITING] = "",
        [RL_VOTE_GRANTED] = "done",
        [RL_VOTE_HELD] = "another's value is there",
        [RL_VOTE_GONE] = "nothing is there",
        [RL_VOTE_RECREATED] = "planted",
        [RL_VOTE_ERROR] = "",
        [RL_VOTE_UNKNOWN] = "an answer of no use",
        [RL_VOTE_SILENT] = "",
        [RL_VOTE_ABSENT] = "",
    };
    mix(world, order->truth | (uint64_t)order->server << 8);
    if (!world->trace.to || order->greeting || order->of_ward)
        return;
    bool error = order->truth == RL_VOTE_ERROR;
    server_tells(world, order->server, "%s of %.*s: %s%s", text_of(order->text), TOKEN_LEN,
                 world->token[order->token].text,
                 error ? order->reply.reply.text : votes[order->truth],
                 order->cut ? ", for nobody" : "");
}

static const char *const ranks[] = {"first", "second"};

void trace_calls(struct world *world, const struct server *server, struct rl_word place,
                 unsigned rank)
{
    if (world->trace.to)
        server_tells(world, server->index, "calls \"%.*s\" as the %s", (int)place.len,
                     place.text, ranks[rank]);
}

/* When it will try again, by that. */
void trace_called(struct world *world, const struct client *client, const struct user *user,
                  unsigned node, unsigned rank)
{
    rl_time in = user->called - client->view.now;
    mix(world, (uint64_t)user->called);
    if (world->trace.to && user->called == RL_NEVER)
        client_tells(world, client, "node %u calls, as the %s", node + 1, ranks[rank]);
    else if (world->trace.to)
        client_tells(world, client, "node %u calls, as the %s: its turn in %.3f ms",
                     node + 1, ranks[rank], ms(rl_max(in, 0)));
}

void trace_server(struct world *world, const struct server *server, const char *what)
{
    if (world->trace.to)
        server_tells(world, server->index, "%s", what);
}

/* How each sees its nodes in the end: the incarnation of their markers, and what they are.
 */
static void trace_standings(struct world *world, const struct client *client)
{
    for (unsigned i = 0; client->alive && i < NODES; i++) {
        const struct rl_member *ward = &client->steward.member[i];
        struct rl_incarnation self = rl_marker_self(&ward->marker);
        struct rl_incarnation seat = client->steward.roster.member[ward->marker.index];
        client_tells(world, client,
                     "node %u: server %u, %s, seat %u of generation %u.%04x of %u.%04x%s",
                     i + 1, client->member[i].server + 1, standing_names[ward->state],
                     ward->marker.index + 1, self.generation, (unsigned)self.id & 0xffff,
                     seat.generation, (unsigned)seat.id & 0xffff,
                     ward->watch.since == RL_NEVER ? "" : ", watched");
    }
}

void trace_verdict(struct world *world)
{
    const struct verdict *verdict = &world->verdict;
    FILE *to = world->trace.to;
    if (!to)
        return;
    for (unsigned c = 0; world->swarm.fenced && c < world->clients; c++)
        trace_standings(world, &world->client[c]);
    if (verdict->broken != INVARIANT_NONE)
        fprintf(to, "\nBROKEN: %s: %s.\n%s, at %.3f ms.\n", invariant_name(verdict->broken),
                invariant_text(verdict->broken), verdict->text,
                ms(verdict->at - RL_SECOND));
    else
        fprintf(to, "\nAll is well.\n");
    fprintf(to,
            "%u acquisitions by %u clients, %" PRIu64 " events in %.3f s, hash %016" PRIx64
            "\n",
            world->acquisitions, rl_count(world->acquirers), world->events,
            ms(world->now - RL_SECOND) / 1000, world->trace.hash);
}
