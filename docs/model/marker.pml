/*
 * Markers: who may vote for a fenced lock, when servers lose their memory, and when a seat
 * changes hands while the server that had it lives on and is still reached by some.
 *
 * A server here is one life of one: it never forgets. What loses its memory, or is replaced,
 * begins the next life of its seat, not sound. The life before goes on all the same, for
 * those who do not know better. Checked is:
 *
 * - two rounds that are won, and whose leases overlap, have a server in common.
 *
 * Its key excludes one of them, so there are no keys here; and as rounds change no marker,
 * two of them are enough, whatever others there are. An extension is a round, too.
 *
 * Who knows more can only do less. So nobody is told more here than has to be, nor earlier:
 * who asks for a vote reads the marker then; who registers a life tells of that one only.
 */
#ifndef N
#define N 3 /* seats */
#endif
#ifndef LIVES
#define LIVES 2 /* that come after the first of their seats */
#endif
#define SERVERS  (N + LIVES)
#define MAJORITY (N / 2 + 1)

#define BIT(server)      (1 << (server))
#define HAS(set, server) (((set) & BIT(server)) != 0)
#define COUNT(set) \
    (((set) & 1) + ((set) >> 1 & 1) + ((set) >> 2 & 1) + ((set) >> 3 & 1) + \
     ((set) >> 4 & 1) + ((set) >> 5 & 1) + ((set) >> 6 & 1) + ((set) >> 7 & 1))

/*
 * A server's number is its incarnation: the larger one of a seat wins. So a roster is a set
 * of later lives, and merging is `or`.
 */
byte seat[SERVERS];
byte after[SERVERS]; /* later lives of the same seat */
byte roster[SERVERS];
byte sound = BIT(N) - 1;
byte dead; /* nobody reaches these any more */

#define IS_LATEST(server, known) (((known) & after[server]) == 0)

mtype = { NEW, ASKING, HELD, OVER };

/* Of each client. */
mtype state[2] = NEW;
byte heard[2]; /* its merged roster */
byte votes[2];

/* Rounds whose leases are alive, or will be when they are won. */
#define IS_ALIVE(client) (state[client] == ASKING || state[client] == HELD)
#define ALIVE            (IS_ALIVE(0) + 2 * IS_ALIVE(1))

#ifdef SMALL_QUORUM
#define Q (N / 2)
#else
#define Q MAJORITY
#endif

#ifdef SEAT_TWICE /* server 0 is behind two of the client's nodes, and votes for both */
#define VOTES(client) (COUNT(votes[client]) + (votes[client] & 1))
#else
#define VOTES(client) COUNT(votes[client])
#endif

/* What a client has read of which it sends the nonce. */
#ifdef NONCE_UNCHECKED
#define READ(server) 0
#elif defined(NONCE_KEPT) /* only who is lifted gets another */
#define READ(server) ((server) < N -> 0 : roster[server])
#else
#define READ(server) roster[server]
#endif

#ifdef ROSTER_FORGOTTEN /* what the others say does not matter */
#define MERGED(client, server) READ(server)
#else
#define MERGED(client, server) (heard[client] | READ(server))
#endif

#ifdef RUN_ID_UNCHECKED /* one comes back with the snapshot of another */
#define MAY_VOTE (sound | BIT(N))
#else
#define MAY_VOTE (sound & ~dead)
#endif

#define CAN_ASK(client, server) \
    (VOTES(client) < Q && HAS(MAY_VOTE & ~votes[client], server) && \
     IS_LATEST(server, MERGED(client, server)))

inline ask(client, server)
{
    heard[client] = MERGED(client, server);
    votes[client] = votes[client] | BIT(server)
}

/* A set without those that are superseded, as far as is known. */
inline drop_superseded(set, known)
{
    i = 0;
    do
    :: i < SERVERS && !IS_LATEST(i, known) -> set = set & ~BIT(i); i++
    :: i < SERVERS && IS_LATEST(i, known) -> i++
    :: i == SERVERS -> break
    od;
    i = 0
}

inline count(client)
{
#ifndef VOTES_KEPT
    drop_superseded(votes[client], heard[client]);
#endif
    if
    :: VOTES(client) >= Q ->
        state[client] = HELD;
        heard[client] = 0;
        assert(state[0] != HELD || state[1] != HELD || (votes[0] & votes[1]))
    :: else
    fi
}

inline leave(client)
{
    state[client] = OVER;
    votes[client] = 0;
    heard[client] = 0
}

#ifndef ROUNDS_LAST

proctype Vote(bit client; byte server)
{
end:
    do
    :: atomic { state[client] == ASKING && CAN_ASK(client, server) -> ask(client, server) }
    od
}

proctype Client(bit client)
{
    byte i;

end:
    atomic { client == 0 || state[0] != NEW -> state[client] = ASKING } /* they are alike */
    do
    :: atomic { state[client] == ASKING && VOTES(client) >= Q -> count(client) }
    :: atomic { leave(client); break } /* lost, released, or out of time */
    od
}

#else

inline ask_some(client)
{
    i = 0;
    do
    :: i < SERVERS && CAN_ASK(client, i) -> ask(client, i); i++
    :: i < SERVERS -> i++
    :: i == SERVERS -> break
    od;
    count(client)
}

/*
 * All at once, instead of Client and Vote: a life whose watch begins when a round has begun
 * is not lifted before that is over, and who votes gains nothing by doing it later.
 */
proctype Rounds()
{
    byte i;

end:
    do
    :: atomic {
        ask_some(0);
        if
        :: state[0] == HELD -> ask_some(1)
        :: else
        fi;
        leave(0); leave(1);
        state[0] = NEW; state[1] = NEW
       }
    od
}

#endif

/* Who lifts a new life. Others may try, too, and change no more than this one does. */
#define LIFE(steward) (N + (steward))
byte known[LIVES]; /* its merged roster */
byte seen[LIVES];  /* these have the new life in their rosters */
byte unfit[LIVES]; /* so have these, but they are not sound */
byte older[LIVES]; /* rounds that are older than its watch */
byte watched;      /* new lives, from here on until they are lifted */
byte begun;        /* new lives of which a server has been told */

#ifdef UNREGISTERED
#define ENOUGH 0
#elif defined(FEW_REGISTERED)
#define ENOUGH (MAJORITY - 1)
#else
#define ENOUGH MAJORITY
#endif

#ifdef COUNTS_UNSOUND
#define FIT (BIT(SERVERS) - 1)
#else
#define FIT sound
#endif

#define IS_WATCHED(steward) HAS(watched, LIFE(steward))
#define IS_NEW(steward)     (!HAS(watched | sound, LIFE(steward)))

inline register(steward, server)
{
    roster[server] = roster[server] | BIT(LIFE(steward));
    known[steward] = known[steward] | roster[server];
    begun = begun | BIT(LIFE(steward))
}

proctype Register(byte steward; byte server)
{
end:
    do
    :: atomic {
        IS_NEW(steward) && COUNT(seen[steward]) < ENOUGH &&
            HAS(FIT & ~dead & ~seen[steward], server) ->
#ifdef WATCH_EARLY
        older[steward] = (seen[steward] == 0 -> ALIVE : older[steward]);
#endif
        register(steward, server);
        seen[steward] = seen[steward] | BIT(server);
        unfit[steward] = unfit[steward] & ~BIT(server)
       }
#ifdef RECOVER
    :: atomic {
        IS_NEW(steward) && HAS(~sound & ~dead & ~unfit[steward], server) ->
        register(steward, server);
        unfit[steward] = unfit[steward] | BIT(server)
       }
#endif
    od
}

inline begin_watch(steward)
{
    watched = watched | BIT(LIFE(steward));
#if !defined(UNWATCHED) && !defined(WATCH_EARLY)
    older[steward] = ALIVE;
#endif
    seen[steward] = 0;
    unfit[steward] = 0
}

inline see_majority(steward)
{
#ifndef SEEN_KEPT
    drop_superseded(seen[steward], known[steward]);
#endif
    if
    :: COUNT(seen[steward]) >= ENOUGH -> begin_watch(steward)
    :: else
    fi
}

#define MET(steward)       (seen[steward] | unfit[steward])
#define ELSEWHERE(steward) ((sound | begun) & ~MET(steward) & ~dead)

#ifdef MOST_ANSWER
#define ALL (N - 1)
#else
#define ALL N
#endif

#ifdef ALIVE_ELSEWHERE
#define SURVIVORS SERVERS
#elif defined(MINORITY_ELSEWHERE)
#define SURVIVORS (N - MAJORITY)
#else
#define SURVIVORS 0
#endif

/* It is for the operator to say that no other server of a seat is alive. */
inline bury(steward)
{
    left = SURVIVORS;
    do
#if SURVIVORS > 0
    :: i < SERVERS && HAS(ELSEWHERE(steward), i) && left > 0 -> left--; i++
#endif
    :: i < SERVERS && HAS(ELSEWHERE(steward), i) -> dead = dead | BIT(i); i++
    :: i < SERVERS && !HAS(ELSEWHERE(steward), i) -> i++
    :: i == SERVERS -> break
    od;
    i = 0; left = 0
}

inline see_all(steward)
{
    drop_superseded(seen[steward], known[steward]);
    drop_superseded(unfit[steward], known[steward]);
    if
    :: COUNT(MET(steward)) >= ALL -> bury(steward); begin_watch(steward)
    :: else
    fi
}

inline lift(steward)
{
#ifndef LIFT_FORGETS
    roster[LIFE(steward)] = roster[LIFE(steward)] | known[steward];
#endif
    sound = sound | BIT(LIFE(steward));
    watched = watched & ~BIT(LIFE(steward));
    older[steward] = 0;
    known[steward] = 0
}

proctype Steward(byte steward)
{
    byte i, left;

end:
    do
    :: atomic {
        IS_NEW(steward) && COUNT(seen[steward]) >= ENOUGH -> see_majority(steward)
       }
#ifdef RECOVER
    :: atomic { IS_NEW(steward) && COUNT(MET(steward)) >= ALL -> see_all(steward) }
#endif
    :: atomic { IS_WATCHED(steward) && (older[steward] & ALIVE) == 0 -> lift(steward); break }
    od
}

/* Any seats; those that are alike in their order only. */
inline choose_seat(life)
{
    do
    :: j < top -> j++
    :: break
    od;
    seat[life] = j;
    top = (j == top && top < N - 1 -> top + 1 : top);
    j = 0;
    do
    :: j < life && seat[j] == seat[life] -> after[j] = after[j] | BIT(life); j++
    :: j < life && seat[j] != seat[life] -> j++
    :: j == life -> break
    od;
    j = 0
}

/* It says so itself. */
inline be_born(life)
{
    roster[life] = BIT(life);
    known[life - N] = BIT(life);
#ifdef RECOVER
    unfit[life - N] = BIT(life);
#endif
#ifdef COUNTS_ITSELF
    seen[life - N] = BIT(life)
#endif
}

inline run_for(server)
{
#ifndef ROUNDS_LAST
    run Vote(0, server); run Vote(1, server);
#endif
    do
    :: j < LIVES && LIFE(j) == server -> j++
    :: j < LIVES && LIFE(j) != server -> run Register(j, server); j++
    :: j == LIVES -> break
    od;
    j = 0
}

init {
    byte i, j, top;

    atomic {
        do
        :: i < N -> seat[i] = i; i++
        :: i >= N && i < SERVERS -> choose_seat(i); be_born(i); i++
        :: i == SERVERS -> break
        od;
        i = 0; top = 0;
#ifdef ROUNDS_LAST
        run Rounds();
#else
        run Client(0); run Client(1);
#endif
        do
        :: i < SERVERS -> run_for(i); i++
        :: i == SERVERS -> break
        od;
        i = 0;
        do
        :: i < LIVES -> run Steward(i); i++
        :: i == LIVES -> break
        od;
        i = 0
    }
}
