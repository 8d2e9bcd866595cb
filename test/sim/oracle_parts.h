/* The parts of the oracle, for each other only. */
#ifndef SIM_ORACLE_PARTS_H
#define SIM_ORACLE_PARTS_H

#include "oracle.h"

void oracle_note_outside(enum bound bound);

/* The client greeted the server by this node of its list: a bit of `watchers`. */
static inline uint64_t oracle_watcher(unsigned client, unsigned node)
{
    _Static_assert(CLIENTS_MAX * NODES_MAX <= 64, "a bit for each");
    return UINT64_C(1) << (client * NODES_MAX + node);
}

/* The true time of a span by a clock of this rate; NEVER. ns */
int64_t oracle_true_span(int64_t span, int64_t ppm);

/* --- oracle_seats.c: which servers may vote on fenced locks --- */

/* A server has replied to what asks for a vote; a marker was read or written. */
void oracle_judge_vote(const struct command *command);
void oracle_judge_marker(const struct server *server);

/* It covers a lease that rests on what was forgotten, and a fence ahead of all clocks. */
int64_t oracle_least_quarantine(void);

/* A lease was acquired or extended. */
void oracle_judge_seats(const struct claim *claim);

/* --- oracle_end.c --- */

/* Finished tokens are taken away where their client can, as soon as that is due. */
void oracle_due_begin(void);
void oracle_judge_due(struct client *client);

/* --- oracle_members.c: how a node that lost its vote comes back --- */

void oracle_members_begin(void);
void oracle_say_marker(const struct command *command);
void oracle_ran_marker(void);
void oracle_members_looked(struct acquainted *node); /* a reply was read */
void oracle_hear_marker(struct client *client, const struct command *command);
void oracle_members_iterated(const struct client *client);

/* --- oracle_clocks.c: what servers' clocks excuse --- */

/* When the client last saw that the clock of the node had been set; 0: it need not have. */
int64_t oracle_clock_seen(const struct client *client, unsigned node);

/* The server's clock has gained more than it may since then. */
bool oracle_ran_ahead(unsigned server, int64_t since);

/* A node told its time. */
void oracle_sample(struct client *client, const struct command *command);

void oracle_garbled(struct client *client, unsigned node); /* or what can be no time */
void oracle_clocks_iterated(struct client *client);

/* The client has seen that the clock of the server was set: its vote must not count. */
bool oracle_clock_bars(const struct client *client, unsigned node, const struct vote *vote);

/* The clock has, after the vote for the lease; and this client could not see that. */
bool oracle_clock_excuses(const struct claim *claim, unsigned node,
                          const struct client *other);

/* --- oracle_counts.c --- */

void oracle_count_news(struct client *client, enum news news, redlock_code code);
void oracle_counts_iterated(struct client *client);

/* --- oracle_told.c --- */

/* An observer has been told by now who leads. */
void oracle_judge_observer(struct client *client);

/* --- oracle_queue.c --- */

bool oracle_is_calm(void);
bool oracle_entry_reads(struct rl_word entry); /* it is of a reader */

/* The nodes that may vote on plain locks, as the client has it. */
rl_node_set oracle_ready_nodes(const struct client *client);

/* When a message of this server can have arrived; NEVER: it does not. The nodes of the list
 * that it is. */
int64_t oracle_arrival(const struct client *client, unsigned server,
                       rl_node_set *ret_nodes);

/* A waiter that was notified has tried again by now. */
void oracle_judge_queue(const struct client *client);
void oracle_judge_recheck(struct user *user);
void oracle_forget_calls(struct user *user);
void oracle_attempt_ends(struct user *user);
void oracle_judge_joining(const struct command *command);
void oracle_judge_leaving(const struct command *command);
void oracle_judge_downgrade(const struct command *command);
void oracle_note_entry(const struct command *command);
void oracle_note_greeting(const struct command *command);
void oracle_judge_leavers(struct client *client);
void oracle_judge_subscriptions(struct client *client);
void oracle_judge_lost_subscriptions(const struct client *client);

bool oracle_can_try(const struct client *client); /* q nodes may vote, as it believes */

/* --- oracle_passes.c: notifications for those who wait no more --- */

void oracle_passes_begin(void);
void oracle_note_pass(unsigned server, struct rl_word entry); /* it was notified */

/* The notification is passed on, or need not be; `entry` NULL: all of these nodes. */
void oracle_drop_passes(const struct client *client, rl_node_set nodes, const char *entry);
void oracle_judge_passes(const struct client *client);

/* --- oracle_turns.c: a writer that waits goes first --- */

void oracle_turns_begin(void);

/* A server has entered a waiter in its queue, or has removed it. */
void oracle_turn_begins(const struct command *command);
void oracle_turn_ends(const struct command *command, bool is_sure);
void oracle_turn_is_waived(const struct command *command); /* perhaps */

/* The server has granted a reader, or refused it for a writer that waits. */
void oracle_judge_turn(const struct command *command);
void oracle_judge_refusal(const struct command *command);

/* --- oracle_said.c --- */

void oracle_note_suspects(struct client *client); /* an iteration has ended */

/* --- oracle_resent.c: what is sent again, because a node did not know its script --- */

void oracle_judge_again(const struct command *command, struct claim *claim);
void oracle_note_unknown(const struct command *command, struct claim *claim);
void oracle_resent_iterated(const struct client *client);
void oracle_learn(struct client *client, const struct command *command); /* a marker */

/* --- oracle_fences.c --- */

/* A server has executed what is of a fenced lock. */
void oracle_judge_fences(const struct command *command);

/* --- oracle_extensions.c --- */

void oracle_say_extension(const struct command *command, struct claim *claim);
void oracle_hear_extension(const struct command *command, struct claim *claim);
void oracle_extensions_iterated(const struct client *client);

/* A user is told that what it asked for is done. */
void oracle_judge_asked(const struct user *user);

/* The watchdog extends it; its rounds can be told apart, and every end is known. */
bool oracle_watches(const struct claim *claim);

/* --- oracle_repairs.c --- */

void oracle_note_voting(struct client *client);
void oracle_say_repair(const struct command *command, struct claim *claim);
void oracle_hear_repair(const struct command *command, struct claim *claim);
void oracle_repairs_iterated(struct client *client);

/* A node could vote for less than an iteration: leases that lack it may be extended. */
void oracle_repairs_left(struct client *client);

void oracle_holders_begin(void);
void oracle_seats_begin(void);

/* --- oracle_holders.c --- */

/* The holder would be told so if it asked now. */
bool oracle_is_valid(const struct claim *claim);

/* The client's clock may show that it is too late. */
bool oracle_is_expired(const struct claim *claim);

/* A lease was acquired (`held`) or extended, for so long. */
void oracle_judge_success(struct user *user, const redlock_result *result, bool held);

/* A node has granted what is held already. */
void oracle_judge_late_grant(struct claim *claim, unsigned node);

/* The lease lasts no longer than its longest hold, at any time. */
void oracle_judge_hold(const struct user *user);

/* The user is told whether its TTL or its longest hold has ended. */
void oracle_judge_end(const struct user *user, redlock_code code);

/* A server stored a token anew. */
void oracle_judge_storing(const struct command *command);

/* --- oracle_told.c --- */

void oracle_judge_callback(const struct user *user, enum news news);
void oracle_judge_result(const struct user *user, enum news news,
                         const redlock_result *result);

#endif
