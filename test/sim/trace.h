/* The story of a run: told, if somebody wants to read it, and always hashed. */
#ifndef RL_SIM_TRACE_H
#define RL_SIM_TRACE_H

#include <stdio.h>

#include "core/fenced/membership.h"
#include "core/lease.h"
#include "core/link.h"

struct world;
struct client;
struct server;
struct attempt;
struct user;
struct order;
struct event;

struct trace {
    FILE *to; /* NULL: nobody reads */
    uint64_t hash;
};

/* The members of a set, counted from 1; valid until the next call but one. */
const char *trace_set(uint32_t set);

void trace_event(struct world *world, const struct event *event);
void trace_begins(struct world *world);
void trace_phase(struct world *world, const char *text);
void trace_mishap(struct world *world, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

void trace_asks(struct world *world, const struct client *client, const struct user *user);
void trace_extends(struct world *world, const struct client *client,
                   const struct user *user, rl_time ttl);
void trace_ends(struct world *world, const struct client *client, const struct user *user);
void trace_adopts(struct world *world, const struct client *client, const struct user *user,
                  bool known);

void trace_stepped(struct world *world, const struct client *client,
                   const struct attempt *attempt, const struct rl_lease_event *event,
                   const struct rl_update *update);
void trace_orders(struct world *world, const struct client *client,
                  const struct rl_member_command *order);
void trace_wards(struct world *world, struct client *client);
void trace_link(struct world *world, const struct client *client, unsigned node,
                enum rl_link_state before);
void trace_ran(struct world *world, const struct order *order);
void trace_calls(struct world *world, const struct server *server, struct rl_word place,
                 unsigned rank);
void trace_called(struct world *world, const struct client *client, const struct user *user,
                  unsigned node, unsigned rank);
void trace_server(struct world *world, const struct server *server, const char *what);

void trace_verdict(struct world *world);

#endif
