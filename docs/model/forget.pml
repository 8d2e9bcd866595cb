/*
 * Forgetting: what is left of the promise when nodes lose what they stored.
 *
 * A holds the lock by q of N grants, or more. Nodes forget keys; B comes and goes; A extends.
 * Rounds are instantaneous, and what expires is one more thing that a node forgets, so there
 * is no time. Checked is, of two things one:
 *
 * - with -DF=f: while at most f nodes forget, A and B never hold at once;
 * - without: however many forget, A is never told that its lock goes on if B was in. Only an
 *   extension that all nodes answer can know that.
 */
#ifndef N
#define N 3
#endif
#ifndef Q
#define Q (N / 2 + 1)
#endif
#ifndef GRANTS
#define GRANTS Q /* at least so many, when A acquired it */
#endif

#define FREE 0
#define A    1
#define B    2
#define C    3 /* whoever else has left a key behind */
byte key[N];

bool holding = true; /* what A was told last */
bool b_holds, intruded;
#ifdef F
byte f = F; /* so many nodes may still forget A's key */
#define COUNT_IT f--
#else
#define f        1
#define COUNT_IT skip
#endif

/* Of one extension: what was missing before is asked anew, as all nodes answer. */
byte granted, missing;
byte n;

/* A has won its round, whatever the others store. */
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

/* plain_extend.lua, and what A makes of the answer */
inline extend_there(node)
{
    if
    :: key[node] == A -> granted++
#ifdef PLANTED_COUNTS
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

/* Another can have had a majority. */
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
    :: IS_GONE -> holding = false /* it is told LOST */
    :: !IS_GONE && granted >= Q -> assert(!intruded)
    :: !IS_GONE && granted < Q /* it is tried again */
    fi;
    granted = 0; missing = 0; n = 0
}

/* B's round reaches any nodes; lost, it is given back at once. */
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

/* Others' keys are lost, too, or expire, as you like; that costs nothing. */
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
