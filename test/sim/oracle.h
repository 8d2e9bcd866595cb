/*
 * The oracle: it knows the true time and what every server did, keeps an account of its
 * own, and says when something happened that must not. It learns from the bytes between
 * processes and servers and from what the callers are told. It asks no code that it judges
 * but what callers may ask.
 */
#ifndef SIM_ORACLE_H
#define SIM_ORACLE_H

#include "claim.h"
#include "client.h"
#include "command.h"
#include "server.h"

#define INVARIANTS(X)                                                                      \
    X(EXCLUSION, "two leases of one resource are valid at one true instant")               \
    X(WHOLE, "a set of keys is granted in part, or a request is written in part")          \
    X(STOLEN, "a node on which a valid lease rests has stored another's token")            \
    X(QUORUM, "a lease is held or extended by fewer grants than q")                        \
    X(OUTLIVES, "a lease is held for longer than its keys will be there")                  \
    X(DECIDED, "enough nodes have granted, and the lease is not held, or not extended")    \
    X(SETTLED, "a fenced lease is held, but fewer than q servers store its fence")         \
    X(SEATED, "two servers of one member index have votes, or one again after another")    \
    X(RISING, "a fencing token is not above all earlier ones")                             \
    X(HELD_UP, "a fenced token is stored by a message that was delayed for seconds")       \
    X(BARRED, "a node that must not vote was asked, or its vote was counted")              \
    X(MARKER, "a marker is written that the steps of a node's return do not allow")        \
    X(KNOWN, "a lease is held though a majority is known not to store it")                 \
    X(DEADLINE, "a success is reported for a lease that has expired, or nearly")           \
    X(LOST, "LOST is reported too late, too early, twice, or with a wrong cause")          \
    X(CALLBACK, "a callback comes twice, without a request, or never")                     \
    X(TTL, "a key stays longer than its TTL")                                              \
    X(EARLIER, "an extension ends a key earlier than it would have ended")                 \
    X(AFTER, "a token is sent twice, or stored or extended after its lease ended")         \
    X(HOLD, "a lock is held for longer than max_hold_ms")                                  \
    X(TOLD, "what a user or an operator is told is not true")                              \
    X(LEFT, "a finished lease has left its key where a release could be sent")             \
    X(TURN, "a reader comes before a writer that has waited longer")                       \
    X(LIVENESS, "nobody acquires or extends, though all is well")                          \
    X(FLOOD, "a client sends more than it may")                                            \
    X(MEMORY, "memory is left after a client was freed")

enum invariant {
    INVARIANT_NONE,
#define X(name, text) INVARIANT_##name,
    INVARIANTS(X)
#undef X
};

const char *invariant_name(enum invariant invariant);
const char *invariant_text(enum invariant invariant);

/* Not promised by a lock (docs/safety.md): counted apart. */
enum bound { BOUND_CLOCK, BOUND_STEP, BOUND_MEMORY, BOUND_COUNT };

struct verdict {
    enum invariant broken; /* the first that was, or none */
    int64_t at;
    char text[200];
    bool outside[BOUND_COUNT]; /* two held the lock, but beyond this bound */
};

void oracle_accuse(enum invariant invariant, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

void oracle_begin(void);

/* --- commands --- */

void oracle_note_fences(const struct command *command); /* it is executed now */
void oracle_said(struct command *command);
void oracle_ran(struct command *command);
void oracle_heard(const struct command *command, bool of_subscriber);
void oracle_left(struct client *client, unsigned node); /* it closed a connection */
void oracle_closed(const struct client *client);        /* and without a reset */
void oracle_unread(const struct client *client);        /* and input on it was not read */

/* The client is told that all nodes that it reaches have replied, and released its tokens.
 */
void oracle_drained(const struct client *client);

/* The client asked for a lock, where this was `before`. */
void oracle_judge_taken(const struct command *command, const struct keyspace *before);

/* Parts of the marker of a server. */
struct seal oracle_seal(const struct server *server);

/* The connection on which it asks for votes has ended. */
void oracle_members_left(struct client *client, unsigned node);

/* This client saw the node with the last incarnation that it knows of some member index,
   and can give it back. */
bool oracle_had_last(const struct client *client, unsigned node);

/* An operator is told that the admission is done. */
void oracle_judge_admitted(const struct client *client);

/* --- servers --- */

/* A server no longer has what it had in `before`. */
enum loss_cause { LOSS_RESTART, LOSS_FLUSH, LOSS_BREAK };
void oracle_compare(struct server *server, const struct keyspace *before,
                    enum loss_cause cause);

/* The server has what it, or another one, had at some earlier time. */
void oracle_copied(const struct server *server);

/* --- users --- */

enum news {
    NEWS_HELD,
    NEWS_FAILED,
    NEWS_EXTENDED, /* it had asked for that */
    NEWS_NOT_EXTENDED,
    NEWS_RENEWED, /* by the watchdog */
    NEWS_LOST,
    NEWS_RELEASED,
};
void oracle_told(struct user *user, enum news news, const redlock_result *result);

/* A user has asked for this, and that has started. */
void oracle_asked(struct client *client, enum wish wish);

/* A user asked for this TTL, or a process did. */
void oracle_note_ttl(struct claim *claim, int64_t ttl_ms);

/* The client counts what its users know. */
void oracle_judge_counts(struct client *client);

/* An operation begins or ends, as `trace` is told; when the client is freed, all have
 * ended.
 */
/* What a user gives with its next lease, to find it in spans and events: its number. */
void *oracle_next_lease(const struct client *client);
void oracle_told_span(struct client *client, const redlock_span *span);
void oracle_told_event(const struct client *client, const redlock_event *event);
void oracle_judge_spans(const struct client *client);

/* An observer is told who leads. */
void oracle_told_leader(struct client *client, const redlock_leader *leader);

/* The user begins to acquire, and gives up what it wants or has. */
void oracle_wants(struct user *user);
void oracle_leaves(struct user *user, bool cleaned);

/* The user is about to disown what it holds, which excludes others for as long as it was
   told. */
void oracle_keeps(const struct user *user);

/* The user has adopted a token; `known`: with its deadline. */
void oracle_adopted(struct user *user, struct claim *claim, bool known);

/* An iteration of a client's loop has ended. */
void oracle_iterated(struct client *client);

/* A client's clocks have changed their rates, or it was stopped. */
void oracle_delayed(struct client *client, int64_t until);

/* A hypervisor pauses the client's machine: all nodes will seem to have gained, so it
   doubts its own clock. */
void oracle_suspended(struct client *client, int64_t until);

/* A process frees its client: what its acquires have asked for is released by that. */
void oracle_frees(const struct client *client);
void oracle_freed(const struct client *client);

/* The client's process has gone; `freed`: its client was freed in order. */
void oracle_ended(struct client *client, bool freed);

/* --- queues --- */

/* The command is a release whose notifications are judged; `before`: the keys. */
bool oracle_judges_queue(const struct command *command);
void oracle_called(const struct command *command, const struct keyspace *before);

/* A client does not get the messages of a node any more. */
void oracle_unsubscribed(const struct client *client, unsigned node);

/* --- at the end of a run --- */

/* The first thing that is yet to be told or to be taken away: broken, if it stays so. */
struct verdict oracle_open(void);

#endif
