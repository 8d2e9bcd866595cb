/*
 * Holders in time: validity, drift, extension, and what is told at the deadline.
 *
 * Two clients make one attempt each, and each extends as often as it likes. Checked is:
 *
 * - never are two leases valid at the same instant;
 * - who is told that his lock goes on has had it all the time: nobody else was in;
 * - past the deadline nothing is told before LOST.
 *
 * Time passes in ticks, on the clients' clocks. All times here are counted down: `valid` is
 * what is left until the deadline, a key's `life` what is left until it expires. A client
 * may be paused: it looks at its clock and at its votes when it comes to it.
 */
#define N   3
#ifndef TTL
#define TTL 4 /* of an acquire, and of a long extension */
#endif
#define SHORT_TTL 2
#define DRIFT 1 /* so much earlier does the fastest node end a key */

#ifdef FAST_NODE /* beyond what is allowed for */
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

/* What a round says. A bit for each that has ever been said: see Node. */
#define NOTHING      0
#define ACQUIRE      1
#define EXTEND       2
#define EXTEND_SHORT 4
#define RELEASE      8
#define TTL_OF(text) ((text) == EXTEND_SHORT -> SHORT_TTL : TTL)

mtype = { NEW, ACQUIRING, HOLDING, OVER };

#define FREE  0
#define TOKEN(client) ((client) + 1)
byte key[N];
byte life[N];

byte state[2] = NEW;
byte said[2];
byte text[2];    /* of the round */
byte granted[2]; /* its votes, read or not */
byte offer[2];   /* the validity that it gives if it is won now */
byte valid[2];
bool intruded[2]; /* another held since it was told that it holds */

#define HOLDS(client) (state[client] == HOLDING && valid[client] > 0)

inline begin_round(client, what)
{
    text[client] = what;
    said[client] = said[client] | what;
    offer[client] = VALID(TTL_OF(what));
#ifndef OLD_VOTES
    granted[client] = 0;
#endif
}

#define OTHER(client)  (1 - (client))
#define IS_WON(client) (COUNT(granted[client]) >= Q && offer[client] > 0)

#ifdef FROM_DECISION
#define WON_VALIDITY(client) VALID(TTL_OF(text[client]))
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
    text[client] = NOTHING; /* it is decided */
    offer[client] = 0;
    granted[client] = 0;
    assert(!(HOLDS(0) && HOLDS(1)))
}

/* The validity never grows before the round is won, but a shorter TTL counts at once. */
inline extend(client, what)
{
    begin_round(client, what);
    valid[client] = (valid[client] < offer[client] -> valid[client] : offer[client])
}

/* What it said may still reach the nodes. */
inline leave(client)
{
    state[client] = OVER;
    said[client] = said[client] | RELEASE;
    text[client] = NOTHING;
    offer[client] = 0;
    granted[client] = 0;
    valid[client] = 0;
    intruded[client] = false
}

proctype Client(bit client)
{
    do
    :: atomic { /* the clients are alike: let 0 be the first */
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

    /* LOST goes before all that follows. */
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

/* How long a key is there, by the clients' clock. */
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
    :: text[client] == what -> granted[client] = granted[client] | BIT(node)
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
        store(client, node, TTL_OF(what)); /* planted: no vote */
#ifdef PLANTED_COUNTS
        vote(client, node, what)
#endif
    :: else
    fi
}

/*
 * What the node does of what the client has said: at any time, in any order, once, never or
 * again. So it is late, lost, and behind a release, without a word for any of it.
 */
proctype Node(bit client; byte node)
{
    byte old;

    do
    :: atomic {
        (said[client] & ACQUIRE) && key[node] == FREE ->
        store(client, node, TTL);
        vote(client, node, ACQUIRE)
       }
    :: atomic { said[client] & EXTEND -> lengthen(client, node, EXTEND) }
    :: atomic { said[client] & EXTEND_SHORT -> lengthen(client, node, EXTEND_SHORT) }
    :: atomic { (said[client] & RELEASE) && key[node] == TOKEN(client) -> drop(node) }
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

/* A round that cannot give any validity any more is over. */
inline wait(client)
{
    offer[client] = LESS(offer[client]);
    if
    :: offer[client] == 0 -> text[client] = NOTHING; granted[client] = 0
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
