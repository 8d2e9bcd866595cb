/*
 * Loss of memory: which guarantees remain when nodes lose what they stored.
 *
 * A holds the lock by q of N grants, or more. Nodes forget keys; B acquires and releases; A
 * extends. Rounds are instantaneous. An expiry is one more way in which a node forgets, so
 * there is no time. The model checks one of two properties:
 *
 * - with -DF=f: while at most f nodes forget, A and B never hold at once;
 * - without: however many nodes forget, A never gets EXTENDED if B held the lock in
 *   between. Only an extension to which all nodes reply can know that.
 */
#ifndef N
#define N 3
#endif
#ifndef Q
#define Q (N / 2 + 1)
#endif
#ifndef GRANTS
#define GRANTS Q /* the least number of grants with which A acquired */
#endif

#define FREE 0
#define A    1
#define B    2
#define C    3 /* a third client that has left a key */
byte key[N];

bool holding = true; /* the last report to A */
bool b_holds, intruded;
#ifdef F
byte f = F; /* how many nodes may still forget A's key */
#define COUNT_IT f--
#else
#define f        1
#define COUNT_IT skip
#endif

/*
 * One extension: it sends again to the nodes that were missing before, as all nodes reply.
 */
byte granted, missing;
byte n;

/* A's round is won, whatever the other nodes store. */
inline acquire()
{
    do
    :: n < GRANTS -> key[n] = A; n++
    :: n >= GRANTS && n < N ->
        if
        :: key[n] = A
        :: key[n] = C
        :: key[n] = FREE
        fi;
        n++
    :: n == N -> break
    od;
    n = 0
}

/* plain_extend.lua, and what A does with the reply */
inline extend_there(node)
{
    if
    :: key[node] == A -> granted++
#ifdef RECREATED_COUNTS
    :: key[node] == FREE -> key[node] = A; granted++
#else
    :: key[node] == FREE -> key[node] = A; missing++
#endif
#ifdef SILENCE
    :: key[node] == FREE -> key[node] = A
    :: skip
#endif
    :: key[node] == B || key[node] == C -> missing++
    fi
}

/* Another client may have had a majority. */
#ifdef WAITING_FOR_DEADLINE
#define IS_GONE false
#else
#define IS_GONE (missing >= N / 2 + 1)
#endif

inline extend()
{
    do
    :: n < N -> extend_there(n); n++
    :: n == N -> break
    od;
    if
    :: IS_GONE -> holding = false /* A reports LOST */
    :: !IS_GONE && granted >= Q -> assert(!intruded)
    :: !IS_GONE && granted < Q /* A tries again */
    fi;
    granted = 0; missing = 0; n = 0
}

/* B's round reaches any set of nodes; if it is lost, B releases at once. */
inline enter()
{
    do
    :: n < N && key[n] == FREE -> key[n] = B; granted++; n++
    :: n < N -> n++
    :: n == N -> break
    od;
    if
    :: granted >= Q ->
        b_holds = true;
        intruded = true;
#ifdef F
        assert(!holding)
#endif
    :: else -> leave()
    fi;
    granted = 0; n = 0
}

/* Keys of other clients are lost or expire, too, at any time; that changes nothing. */
inline forget()
{
    do
    :: n < N - 1 -> n++
    :: key[n] == A && f > 0 -> key[n] = FREE; COUNT_IT; break
    :: key[n] != A -> key[n] = FREE; break
    :: key[n] == A && f == 0 -> break
    od;
    n = 0
}

inline leave()
{
    b_holds = false;
    n = 0;
    do
    :: n < N && key[n] == B -> key[n] = FREE; n++
    :: n < N && key[n] != B -> n++
    :: n == N -> break
    od;
    n = 0
}

init {
    atomic { acquire() }
    do
    :: atomic { holding -> extend() }
    :: atomic { !b_holds -> enter() }
    :: atomic { b_holds -> leave() }
    :: atomic { forget() }
    :: atomic { !holding -> break }
    od
}
