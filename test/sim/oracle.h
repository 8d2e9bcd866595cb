/*
 * The oracle: it knows the true time and what every server did, keeps an account of its
 * own, and says when something happened that must not. It asks no code that it judges.
 */
#ifndef RL_SIM_ORACLE_H
#define RL_SIM_ORACLE_H

#include "core/lease.h"
#include "swarm.h"

struct world;
struct client;
struct attempt;
struct user;
struct order;
struct server;
struct store;
struct rl_identity;
struct rl_answer;

#define INVARIANTS(X)                                                                      \
    X(EXCLUSION, "two leases of one resource are valid at one true instant")               \
    X(STOLEN, "a node on which a valid lease rests has stored another's token")            \
    X(QUORUM, "a lease is held or extended by fewer grants than q")                        \
    X(OUTLIVES, "a lease is won for longer than its keys will be there")                   \
    X(DECIDED, "enough nodes have granted, and the lease is not held")                     \
    X(SETTLED, "a fenced lease is held, but fewer than q servers store its fence")         \
    X(SEATED, "two servers of one seat have votes at a time, or an earlier one has again") \
    X(RISING, "a fencing token is not above all earlier ones")                             \
    X(HELD_UP, "a fenced token is stored by a message that was held up on its way")        \
    X(BARRED, "a node that must not vote was asked")                                       \
    X(KNOWN, "a lease is held though a majority is known not to store it")                 \
    X(DEADLINE, "something is told to the holder of a lease that has run out")             \
    X(LOST, "LOST is told too late, too early, or of the wrong cause")                     \
    X(CALLBACK, "a callback is told twice, unasked or never")                              \
    X(TTL, "a key outlives its TTL")                                                       \
    X(EARLIER, "an extension ends a key earlier than it would have")                       \
    X(AFTER, "a token is said twice, or stored or extended after its lease ended")         \
    X(HOLD, "a deadline passes the longest hold")                                          \
    X(TOLD, "what a user or an operator is told is not true")                              \
    X(ASLEEP, "a lease would be stepped later than it wants")                              \
    X(LEFT, "a finished lease has left its key where a release could be said")             \
    X(LIVENESS, "nobody can acquire, or extend, though all is well")

enum invariant {
    INVARIANT_NONE,
#define X(name, text) INVARIANT_##name,
    INVARIANTS(X)
#undef X
        INVARIANT_COUNT,
};

const char *invariant_name(enum invariant invariant);
const char *invariant_text(enum invariant invariant);

/* What a lock does not promise (docs/safety.md): counted apart. */
enum bound { BOUND_CLOCK, BOUND_STEP, BOUND_MEMORY, BOUND_COUNT };

struct verdict {
    enum invariant broken; /* the first that was, or none */
    rl_time at;
    char text[160];
    bool outside[BOUND_COUNT]; /* two held the lock, but beyond this bound */
};

/* How a token's key left a server before its time. */
struct loss {
    rl_time at;      /* the true time */
    int64_t expires; /* what the server had said */
    bool lost;
    bool broken;       /* by a human's hand, once at least */
    bool restart;      /* those who watch can know */
    uint32_t watchers; /* clients that had greeted the server before, each by which name */
};

/* Whose a server's vote was: parts of the marker that it had when it gave it. */
struct seal {
    uint64_t deployment, id;
    uint32_t generation; /* 0: it had none */
    uint8_t seat;
    bool sound;
};

/* What had votes, and was followed by another of its seat. */
#define FALLEN_MAX 64
struct holder {
    struct seal seal;
    uint8_t server;
    uint32_t memory;
};
struct seats {
    struct holder latest[NODES]; /* generation 0: nobody yet */
    unsigned fallen;
    struct holder fell[FALLEN_MAX];
};

/* What a client was told by a node of its clock, the last time. */
struct sample {
    bool known;
    uint8_t server;
    uint32_t process, history; /* of another one nothing is known yet */
    rl_time told, sent, heard;
    rl_time fault_at; /* when it was told something that it took for wrong; true time */
    rl_time
        seen_at; /* when it told that it had been set ahead, or ran too fast; true time */
    struct seal seal; /* of which incarnation it was then */
};

/* Of those who acquired a fenced lock: when one server granted it, and the tokens. */
#define ORDER_MAX 16
struct turn_order {
    unsigned count; /* ever: the latest are kept */
    struct {
        uint32_t memory, nth;
        int64_t first, last;
    } grant[ORDER_MAX];
};

#define TOKEN_LEN  10
#define TOKENS_MAX 16384

struct token {
    char text[TOKEN_LEN];
    uint8_t client, resource;
    bool cleaned;        /* its client is to take the key away, where it can ... */
    rl_time made;        /* (true time) ... unless that is another process by now ... */
    rl_time clean_until; /* ... or its clock has passed this */
    bool handed;         /* a SET of who left it may come after its adopter's release */
    bool ghost[SERVERS]; /* an old state, or a message that was held up, brought it back */
    uint8_t node[SERVERS]; /* by which of its names each server was told to store it */
    struct loss loss[SERVERS];
    int64_t expires[SERVERS]; /* as each server had it when it stored or extended last */
};

void oracle_says(struct world *world, struct client *client, struct attempt *attempt,
                 const struct rl_update *update, rl_node_set nodes);
void oracle_ran(struct world *world, const struct order *order);
/* `truth`: what the client may take the answer for. */
void oracle_heard(struct world *world, struct attempt *attempt, const struct order *order,
                  enum rl_vote truth);
void oracle_greeted(struct world *world, struct client *client, const struct order *order,
                    const struct rl_identity *identity);
void oracle_stepped(struct world *world, struct client *client, struct attempt *attempt,
                    const struct rl_update *update);
void oracle_told(struct world *world, struct client *client, struct user *user,
                 enum rl_report news);

/* It is given up, released, disowned or dead; `cleans`: and is to take its keys away. */
void oracle_left(struct world *world, struct attempt *attempt, bool cleans);

/* A user is told that others' keys leave a quorum free in so many ms. */
void oracle_promised(struct world *world, const struct client *client,
                     const struct user *user, int64_t free_in);

/* An operator was told by one server what is there, and what was broken. */
void oracle_operated(struct world *world, const struct server *server, unsigned resource,
                     const struct store *before, const struct rl_answer *there,
                     const struct rl_answer *broken);

void oracle_disowned(struct world *world, const struct client *client,
                     const struct user *user);
void oracle_adopted(struct world *world, struct attempt *attempt);

/* Of those who wait: whom a release calls, by the store before it; who leaves the queue. */
void oracle_calls(struct world *world, const struct order *order,
                  const struct store *before);
void oracle_leaves(struct world *world, const struct order *order);
void oracle_deaf(struct user *user, unsigned node);
void oracle_comes(struct user *user);
void oracle_fails(const struct world *world, struct user *user);
void oracle_pauses(struct client *client, rl_time until);

void oracle_passed(struct world *world, struct client *client);

/* A marker was looked at, or set. */
void oracle_marked(struct world *world, const struct server *server);

/* A server no longer has what it had in `before`. */
enum loss_cause { LOSS_RESTART, LOSS_FLUSH, LOSS_BREAK };
void oracle_compare(struct world *world, struct server *server, const struct store *before,
                    enum loss_cause cause);

/* A server has by now what it, or another, had at some earlier time. */
void oracle_copied(struct world *world, const struct server *server);

/* A node told its time; `trusted`: and the client took it for right. */
void oracle_sampled(struct world *world, struct client *client, const struct order *order,
                    rl_time told, bool trusted);

/* At the end of a run. */
void oracle_finish(struct world *world);

void oracle_accuse(struct world *world, enum invariant invariant, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
