/* Common to the files of the replay. */
#ifndef SIM_REPLAY_PARTS_H
#define SIM_REPLAY_PARTS_H

#include "client/client.h"
#include "dump.h"
#include "virtual/node.h"
#include "virtual/process.h"

struct player {
    struct dump *dump;
    size_t next;    /* the event of the dump that the client has yet to record */
    bool is_called; /* the caller's request that it needs was made */
    unsigned drawn; /* numbers, since the event before */
    bool differs;
    struct process process;
    redlock_client *client;
    const struct rl_record *recorded; /* where the client's recorder goes on */
};

extern struct player player;

static inline const struct line *player_event(size_t index)
{
    return &player.dump->event.line[index];
}

/* How many events the client has recorded since they were compared last. */
size_t player_recorded(void);

/* The client's last time, as a time of the dump. */
rl_time player_now(void);

/* Virtual time stands, and what happens without delay happens. */
void player_settle(void);

/* --- replay_nodes.c: the nodes and their connections --- */

void replay_nodes_begin(void);
void replay_nodes_end(void);

/*
 * Does what the event needs from its node. False: nothing, or the client has to do
 * something before.
 */
bool replay_node_acts(const struct line *event);

/* --- replay_replies.c --- */

#define REPLAY_REPLY 300 /* bytes of a reply, at most */

/* What a node replies to be read as the vote of this event. */
void replay_reply(const struct line *event, char ret_reply[REPLAY_REPLY]);

/* To a command whose lease is gone: nobody reads it, and the dump does not have it. */
const char *replay_any_reply(const struct rl_op *op);

/* Whether the event is the reply to this command. */
bool replay_is_command_of(const struct rl_op *op, const struct line *event);

/* With what an error begins that means this fault; NULL: no error does. */
const char *replay_error_prefix(const char *fault);

/* --- replay_user.c: the caller, and its locks --- */

void replay_user_begin(void);
void replay_user_end(void);

/* Call it before each event: what the caller does without a line in the dump. */
void replay_user_tidies(void);

/*
 * A tick from which nothing follows may be left over from what a lease did before the dump
 * begins: a task never moves to a later time. True once for such a lease.
 */
bool replay_user_leaves_out(const struct line *event);

/* Makes the request from which the event follows, if there is one. */
bool replay_user_acts(const struct line *event);

/* The waiter's number in the queues, of a lease that waits; 0: none. */
uint64_t replay_waiter(int64_t lease);

/* The options that the dump has of a lease. */
void replay_lease_options(int64_t lease, redlock_lease_options *options);

/* --- replay_delays.c --- */

/* What the client draws until the next event is recorded: the delays that the dump has. */
uint64_t replay_jitter(void);

/* Whether the lock that refused this reply's lease is that of another library. */
bool replay_is_foreign(const struct line *reply);

#endif
