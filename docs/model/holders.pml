/*
 * Holders in time: validity, drift, extension, and the report at the deadline.
 *
 * Two clients make one attempt each, and each extends as often as it likes. The model
 * checks:
 *
 * - two leases are never valid at the same instant;
 * - a client whose extension succeeds held the lock without a gap: no other client held it;
 * - past the deadline the first report is LOST.
 *
 * Time passes in ticks, on the clients' clocks. All times here count down: `valid` is the
 * time until the deadline, a key's `life` the time until it expires. A client may be
 * paused: it reads its clock and its votes at any later time.
 */
#define N   3
#ifndef TTL
#define TTL 4 /* of an acquire, and of a long extension */
#endif
#define SHORT_TTL 2
#define DRIFT 1 /* the fastest node expires a key so many ticks early */

#ifdef FAST_NODE /* more than the drift bound */
#define GAIN (DRIFT + 1)
#else
#define GAIN DRIFT
#endif

#define BIT(node)  (1 << (node))
#define COUNT(set) (((set) & 1) + ((set) >> 1 & 1) + ((set) >> 2 & 1))

#ifdef SMALL_QUORUM
#define Q (N / 2)
#else
#define Q (N / 2 + 1)
#endif

/* rl_valid_until(), at the start of a round */
#ifdef NO_DRIFT
#define VALID(ttl) (ttl)
#else
#define VALID(ttl) ((ttl) - DRIFT)
#endif

/* The command of a round. One bit for each command that was ever sent: see Node. */
#define NOTHING      0
#define ACQUIRE      1
#define EXTEND       2
#define EXTEND_SHORT 4
#define RELEASE      8
#define TTL_OF(command) ((command) == EXTEND_SHORT -> SHORT_TTL : TTL)

mtype = { NEW, ACQUIRING, HOLDING, OVER };

#define FREE  0
#define TOKEN(client) ((client) + 1)
byte key[N];
byte life[N];

byte state[2] = NEW;
byte sent[2];
byte command[2];    /* of the round */
byte granted[2]; /* its votes, parsed or not */
byte offer[2];   /* the validity if the round is won now */
byte valid[2];
/* another client held the lock since the last report that this one holds it */
bool intruded[2];

#define HOLDS(client) (state[client] == HOLDING && valid[client] > 0)

inline begin_round(client, what)
{
    command[client] = what;
    sent[client] = sent[client] | what;
    offer[client] = VALID(TTL_OF(what));
#ifndef OLD_VOTES
    granted[client] = 0;
#endif
}

#define OTHER(client)  (1 - (client))
#define IS_WON(client) (COUNT(granted[client]) >= Q && offer[client] > 0)

#ifdef FROM_DECISION
#define WON_VALIDITY(client) VALID(TTL_OF(command[client]))
#else
#define WON_VALIDITY(client) offer[client]
#endif

#ifdef AFTER_DEADLINE
#define IS_LOST(client) false
#else
#define IS_LOST(client) (valid[client] == 0)
#endif

inline hold(client)
{
    valid[client] = WON_VALIDITY(client);
    command[client] = NOTHING; /* the round is decided */
    offer[client] = 0;
    granted[client] = 0;
    assert(!(HOLDS(0) && HOLDS(1)))
}

/* The validity never grows before the round is won. A shorter TTL counts at once. */
inline extend(client, what)
{
    begin_round(client, what);
    valid[client] = (valid[client] < offer[client] -> valid[client] : offer[client])
}

/* The commands that it sent may still reach the nodes. */
inline leave(client)
{
    state[client] = OVER;
    sent[client] = sent[client] | RELEASE;
    command[client] = NOTHING;
    offer[client] = 0;
    granted[client] = 0;
    valid[client] = 0;
    intruded[client] = false
}

proctype Client(bit client)
{
    do
    :: atomic { /* the clients are symmetric: 0 is the first */
        state[client] == NEW && (client == 0 || state[0] != NEW) ->
        state[client] = ACQUIRING;
        begin_round(client, ACQUIRE)
       }
    :: atomic {
        state[client] == ACQUIRING && IS_WON(client) ->
        state[client] = HOLDING;
        hold(client);
        intruded[OTHER(client)] = (state[OTHER(client)] == HOLDING)
       }
    :: atomic { state[client] == ACQUIRING -> leave(client); break }

    /* LOST goes before all reports below. */
    :: atomic { state[client] == HOLDING && IS_LOST(client) -> leave(client); break }
    :: atomic {
        state[client] == HOLDING && !IS_LOST(client) && IS_WON(client) ->
        assert(!intruded[client]);
        hold(client)
       }
    :: atomic { state[client] == HOLDING && !IS_LOST(client) -> extend(client, EXTEND) }
    :: atomic { state[client] == HOLDING && !IS_LOST(client) -> extend(client, EXTEND_SHORT) }
    :: atomic { state[client] == HOLDING && !IS_LOST(client) -> leave(client); break }
    od
}

/* How long a key exists, on the clients' clock. */
inline store(client, node, ttl)
{
    key[node] = TOKEN(client);
    if
    :: life[node] = ttl - GAIN
    :: life[node] = ttl
#ifdef SLOW_NODES
    :: life[node] = ttl + DRIFT
#endif
    fi
}

inline drop(node)
{
    key[node] = FREE;
    life[node] = 0
}

/* A vote counts in its own round only. */
inline vote(client, node, what)
{
    if
    :: command[client] == what -> granted[client] = granted[client] | BIT(node)
    :: else
    fi
}

/* plain_extend.lua */
inline lengthen(client, node, what)
{
    if
    :: key[node] == TOKEN(client) ->
        old = life[node];
        store(client, node, TTL_OF(what));
#ifndef LOWERING
        life[node] = (life[node] < old -> old : life[node]);
#endif
        old = 0;
        vote(client, node, what)
    :: key[node] == FREE ->
        store(client, node, TTL_OF(what)); /* recreated: no vote */
#ifdef RECREATED_COUNTS
        vote(client, node, what)
#endif
    :: else
    fi
}

/*
 * The node executes any command that the client has sent: at any time, in any order, once,
 * never or again. This covers delays, losses and reordering around a release.
 */
proctype Node(bit client; byte node)
{
    byte old;

    do
    :: atomic {
        (sent[client] & ACQUIRE) && key[node] == FREE ->
        store(client, node, TTL);
        vote(client, node, ACQUIRE)
       }
    :: atomic { sent[client] & EXTEND -> lengthen(client, node, EXTEND) }
    :: atomic { sent[client] & EXTEND_SHORT -> lengthen(client, node, EXTEND_SHORT) }
    :: atomic { (sent[client] & RELEASE) && key[node] == TOKEN(client) -> drop(node) }
#ifdef FORGETTING
    :: atomic { key[node] != FREE -> drop(node) }
#endif
    od
}

inline age(node)
{
    if
    :: life[node] > 1 -> life[node]--
    :: else -> drop(node)
    fi
}

#define LESS(time) (time > 0 -> time - 1 : 0)

/* A round that cannot give a positive validity any more is over. */
inline wait(client)
{
    offer[client] = LESS(offer[client]);
    if
    :: offer[client] == 0 -> command[client] = NOTHING; granted[client] = 0
    :: else
    fi
}

active proctype Clock()
{
    do
    :: atomic {
        age(0); age(1); age(2);
        valid[0] = LESS(valid[0]); valid[1] = LESS(valid[1]);
        wait(0); wait(1)
       }
    od
}

init {
    atomic {
        run Node(0, 0); run Node(0, 1); run Node(0, 2);
        run Node(1, 0); run Node(1, 1); run Node(1, 2);
        run Client(0); run Client(1)
    }
}
