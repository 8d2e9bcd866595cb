/*
 * Plays runs of the simulator in docs/model/marker.pml, as round.pml does. A step names an
 * incarnation: `attempt`. Sets of them are `nodes` and `more`.
 *
 * A round of a client is alive until its user knows that it failed, or gives the lock back, or
 * its validity may have ended. The watch of an incarnation begins when a majority of active
 * servers has it: the earliest moment at which any client could see that.
 */
#define TRACE
#define N       3
#define LIVES   25
#define CLIENTS 3
#define SET     int
#define COUNT4(set) (((set) & 1) + ((set) >> 1 & 1) + ((set) >> 2 & 1) + ((set) >> 3 & 1))
#define COUNT(set) \
    (COUNT4(set) + COUNT4((set) >> 4) + COUNT4((set) >> 8) + COUNT4((set) >> 12) + \
     COUNT4((set) >> 16) + COUNT4((set) >> 20) + COUNT4((set) >> 24))
#define ALIVE   (IS_ALIVE(0) + 2 * IS_ALIVE(1) + 4 * IS_ALIVE(2))
#define SHARE(one, other) \
    (state[one] != HELD || state[other] != HELD || (votes[one] & votes[other]))
#define IS_EXCLUSIVE (SHARE(0, 1) && SHARE(0, 2) && SHARE(1, 2))
#define assert(what) (what) /* here a rule that is broken blocks, too */
#include "../../docs/model/marker.pml"
#include "steps.pml"

SET born = BIT(N) - 1;
SET asked[CLIENTS]; /* servers that have granted, before it reads that */

#define LIFTER (attempt - N)

inline be_born_as(older_ones)
{
    attempt < SERVERS && !HAS(born, attempt);
    index[attempt] = node;
    j = 0;
    do
    :: j < SERVERS && HAS(born, j) && index[j] == node && HAS(older_ones, j) ->
        after[j] = after[j] | BIT(attempt); j++
    :: j < SERVERS && HAS(born, j) && index[j] == node && !HAS(older_ones, j) ->
        after[attempt] = after[attempt] | BIT(j); j++
    :: j < SERVERS && (!HAS(born, j) || index[j] != node) -> j++
    :: j == SERVERS -> break
    od;
    born = born | BIT(attempt);
    roster[attempt] = nodes;
    known[LIFTER] = nodes
}

/* A server's roster only grows. */
inline learn()
{
    !(roster[attempt] & ~nodes);
    j = N;
    do
    :: j < SERVERS && HAS(nodes & ~roster[attempt], j) -> register(j - N, attempt); j++
    :: j < SERVERS && !HAS(nodes & ~roster[attempt], j) -> j++
    :: j == SERVERS -> break
    od;
    roster[attempt] = nodes
}

/* Which active servers have each new incarnation, and whether that is enough. */
inline look()
{
    j = 0;
    do
    :: j < LIVES && (!HAS(born, LIFE(j)) || !IS_NEW(j)) -> j++
    :: j < LIVES && HAS(born, LIFE(j)) && IS_NEW(j) ->
        seen[j] = 0;
        k = 0;
        do
        :: k < SERVERS && HAS(is_active & ~dead, k) && HAS(roster[k], LIFE(j)) ->
            seen[j] = seen[j] | BIT(k); k++
        :: k < SERVERS && !(HAS(is_active & ~dead, k) && HAS(roster[k], LIFE(j))) -> k++
        :: k == SERVERS -> break
        od;
        see_majority(j);
        j++
    :: j == LIVES -> break
    od
}

inline end_round()
{
    leave(client);
    asked[client] = 0;
    j = 0;
    do
    :: j < LIVES -> older[j] = older[j] & ~BIT(client); j++
    :: j == LIVES -> break
    od
}

inline step()
{
    if
    :: what == 'n' -> be_born_as(more) /* an index is assigned to a server */
    :: what == 'm' -> /* a server's marker changes */
        HAS(born & ~dead, attempt);
        learn();
        look()
    :: what == 'a' -> /* it is lifted */
        HAS(born & ~dead, attempt) && attempt >= N;
        IS_WATCHED(LIFTER) && (older[LIFTER] & ALIVE) == 0;
        !((roster[attempt] | known[LIFTER]) & ~nodes);
        lift(LIFTER);
        learn();
        look()
    :: what == 'z' -> dead = dead | BIT(attempt) /* its process has ended, or its data is gone */
    :: what == 'b' -> /* a round begins */
        end_round();
        state[client] = ASKING
    :: what == 'v' -> /* a server grants; the client has read the roster `more` there */
        state[client] == ASKING || state[client] == HELD;
        HAS(MAY_VOTE, attempt) && roster[attempt] == more;
        state[client] == HELD || IS_LATEST(attempt, MERGED(client, attempt));
        merged[client] = MERGED(client, attempt);
        asked[client] = asked[client] | BIT(attempt)
    :: what == 'h' -> /* it reads that */
        HAS(asked[client], attempt);
        votes[client] = votes[client] | BIT(attempt)
    :: what == 'w' -> /* it holds */
        state[client] == ASKING;
        count(client);
        state[client] == HELD
    :: what == 'l' -> end_round()
    fi
}

active proctype Trace()
{
    byte i, j, k;

    choose_run();
    index[1] = 1;
    index[2] = 2;
    do
    :: atomic { next(); step(); played() }
    od
}
