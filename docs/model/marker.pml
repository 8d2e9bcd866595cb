/*
 * Markers: which servers may vote on a fenced lock when servers lose their memory, and when
 * another server takes a member index while some clients still reach the old one.
 *
 * A server here is one incarnation: it never forgets. A server that loses its memory, or is
 * replaced, begins the next incarnation of its member index, which is not active. The old
 * incarnation remains, for clients that do not know the new one. The model checks:
 *
 * - two rounds that are won, and whose leases overlap, have a server in common.
 *
 * That server's key excludes one of the two, so the model has no keys. Rounds change no
 * marker, so two rounds are enough. An extension is a round, too.
 *
 * More knowledge only restricts. So each process here learns as little as possible, as late
 * as possible: a client reads a marker when it requests a vote, and a registration sends
 * only its own incarnation.
 */
#ifndef N
#define N 3 /* member indexes */
#endif
#ifndef LIVES
#define LIVES 2 /* incarnations after the first ones */
#endif
#define SERVERS  (N + LIVES)
#define MAJORITY (N / 2 + 1)

#define BIT(server)      (1 << (server))
#define HAS(set, server) (((set) & BIT(server)) != 0)
#ifndef TRACE /* test/traces plays runs of the simulator here, and has these and init */
#define CLIENTS 2
#define SET     byte
#define COUNT(set) \
    (((set) & 1) + ((set) >> 1 & 1) + ((set) >> 2 & 1) + ((set) >> 3 & 1) + \
     ((set) >> 4 & 1) + ((set) >> 5 & 1) + ((set) >> 6 & 1) + ((set) >> 7 & 1))
#define ALIVE        (IS_ALIVE(0) + 2 * IS_ALIVE(1))
#define IS_EXCLUSIVE (state[0] != HELD || state[1] != HELD || (votes[0] & votes[1]))
#endif

/*
 * A server's number is its incarnation: for one index the larger number wins. So a roster
 * is a set of later incarnations, and merging is `or`.
 */
byte index[SERVERS];
SET after[SERVERS]; /* later incarnations of the same index */
SET roster[SERVERS];
SET is_active = BIT(N) - 1;
SET dead; /* no client reaches these any more */

#define IS_LATEST(server, known) (((known) & after[server]) == 0)

mtype = { NEW, ASKING, HELD, OVER };

/* Of each client. */
mtype state[CLIENTS] = NEW;
SET merged[CLIENTS]; /* its merged roster */
SET votes[CLIENTS];

/* Rounds whose leases are alive, or will be when they are won. */
#define IS_ALIVE(client) (state[client] == ASKING || state[client] == HELD)

#ifdef SMALL_QUORUM
#define Q (N / 2)
#else
#define Q MAJORITY
#endif

#ifdef MEMBER_TWICE /* server 0 is behind two of the client's nodes, and votes for both */
#define VOTES(client) (COUNT(votes[client]) + (votes[client] & 1))
#else
#define VOTES(client) COUNT(votes[client])
#endif

/* The roster that a client has read with the nonce that it sends. */
#ifdef NONCE_UNCHECKED
#define READ(server) 0
#elif defined(NONCE_KEPT) /* only a lifted member gets a new nonce */
#define READ(server) ((server) < N -> 0 : roster[server])
#else
#define READ(server) roster[server]
#endif

#ifdef ROSTER_FORGOTTEN /* ignores the rosters of the other members */
#define MERGED(client, server) READ(server)
#else
#define MERGED(client, server) (merged[client] | READ(server))
#endif

#ifdef RUN_ID_UNCHECKED /* a server returns with the snapshot of another one */
#define MAY_VOTE (is_active | BIT(N))
#else
#define MAY_VOTE (is_active & ~dead)
#endif

#define CAN_ASK(client, server) \
    (VOTES(client) < Q && HAS(MAY_VOTE & ~votes[client], server) && \
     IS_LATEST(server, MERGED(client, server)))

inline ask(client, server)
{
    merged[client] = MERGED(client, server);
    votes[client] = votes[client] | BIT(server)
}

/* Removes the servers that are superseded according to `known`. */
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
    drop_superseded(votes[client], merged[client]);
#endif
    if
    :: VOTES(client) >= Q ->
        state[client] = HELD;
        merged[client] = 0;
        assert(IS_EXCLUSIVE)
    :: else
    fi
}

inline leave(client)
{
    state[client] = OVER;
    votes[client] = 0;
    merged[client] = 0
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
    /* the clients are symmetric */
    atomic { client == 0 || state[0] != NEW -> state[client] = ASKING }
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
 * All at once, instead of Client and Vote: a watch that begins after a round has begun ends
 * after that round, and a client gains nothing from a later vote.
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

/*
 * The process that lifts a new incarnation. Other clients may try, too, and change no more
 * than this one.
 */
#define LIFE(lifter) (N + (lifter))
SET known[LIVES]; /* its merged roster */
SET seen[LIVES];  /* the rosters of these servers have the new incarnation */
SET inactive[LIVES]; /* so have these, but they are not active */
byte older[LIVES]; /* rounds that are older than its watch */
SET watched;      /* new incarnations that are watched and not yet lifted */
SET begun;        /* new incarnations that are in the roster of a server */

#ifdef UNREGISTERED
#define ENOUGH 0
#elif defined(FEW_REGISTERED)
#define ENOUGH (MAJORITY - 1)
#else
#define ENOUGH MAJORITY
#endif

#ifdef COUNTS_INACTIVE
#define COUNTED (BIT(SERVERS) - 1)
#else
#define COUNTED is_active
#endif

#define IS_WATCHED(lifter) HAS(watched, LIFE(lifter))
#define IS_NEW(lifter)     (!HAS(watched | is_active, LIFE(lifter)))

inline register(lifter, server)
{
    roster[server] = roster[server] | BIT(LIFE(lifter));
    known[lifter] = known[lifter] | roster[server];
    begun = begun | BIT(LIFE(lifter))
}

proctype Register(byte lifter; byte server)
{
end:
    do
    :: atomic {
        IS_NEW(lifter) && COUNT(seen[lifter]) < ENOUGH &&
            HAS(COUNTED & ~dead & ~seen[lifter], server) ->
#ifdef WATCH_EARLY
        older[lifter] = (seen[lifter] == 0 -> ALIVE : older[lifter]);
#endif
        register(lifter, server);
        seen[lifter] = seen[lifter] | BIT(server);
        inactive[lifter] = inactive[lifter] & ~BIT(server)
       }
#ifdef RECOVER
    :: atomic {
        IS_NEW(lifter) && HAS(~is_active & ~dead & ~inactive[lifter], server) ->
        register(lifter, server);
        inactive[lifter] = inactive[lifter] | BIT(server)
       }
#endif
    od
}

inline begin_watch(lifter)
{
    watched = watched | BIT(LIFE(lifter));
#if !defined(UNWATCHED) && !defined(WATCH_EARLY)
    older[lifter] = ALIVE;
#endif
    seen[lifter] = 0;
    inactive[lifter] = 0
}

inline see_majority(lifter)
{
#ifndef SEEN_KEPT
    drop_superseded(seen[lifter], known[lifter]);
#endif
    if
    :: COUNT(seen[lifter]) >= ENOUGH -> begin_watch(lifter)
    :: else
    fi
}

#define MET(lifter)       (seen[lifter] | inactive[lifter])
#define UNMET(lifter) ((is_active | begun) & ~MET(lifter) & ~dead)

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

/* The operator guarantees that no other server of a member index is alive. */
inline mark_dead(lifter)
{
    left = SURVIVORS;
    do
#if SURVIVORS > 0
    :: i < SERVERS && HAS(UNMET(lifter), i) && left > 0 -> left--; i++
#endif
    :: i < SERVERS && HAS(UNMET(lifter), i) -> dead = dead | BIT(i); i++
    :: i < SERVERS && !HAS(UNMET(lifter), i) -> i++
    :: i == SERVERS -> break
    od;
    i = 0; left = 0
}

inline see_all(lifter)
{
    drop_superseded(seen[lifter], known[lifter]);
    drop_superseded(inactive[lifter], known[lifter]);
    if
    :: COUNT(MET(lifter)) >= ALL -> mark_dead(lifter); begin_watch(lifter)
    :: else
    fi
}

inline lift(lifter)
{
#ifndef LIFT_FORGETS
    roster[LIFE(lifter)] = roster[LIFE(lifter)] | known[lifter];
#endif
    is_active = is_active | BIT(LIFE(lifter));
    watched = watched & ~BIT(LIFE(lifter));
    older[lifter] = 0;
    known[lifter] = 0
}

proctype Lifter(byte lifter)
{
    byte i, left;

end:
    do
    :: atomic {
        IS_NEW(lifter) && COUNT(seen[lifter]) >= ENOUGH -> see_majority(lifter)
       }
#ifdef RECOVER
    :: atomic { IS_NEW(lifter) && COUNT(MET(lifter)) >= ALL -> see_all(lifter) }
#endif
    :: atomic { IS_WATCHED(lifter) && (older[lifter] & ALIVE) == 0 -> lift(lifter); break }
    od
}

/* Any assignment of indexes; equivalent ones in one order only. */
inline choose_index(life)
{
    do
    :: j < top -> j++
    :: break
    od;
    index[life] = j;
    top = (j == top && top < N - 1 -> top + 1 : top);
    j = 0;
    do
    :: j < life && index[j] == index[life] -> after[j] = after[j] | BIT(life); j++
    :: j < life && index[j] != index[life] -> j++
    :: j == life -> break
    od;
    j = 0
}

/* A new server has itself in its roster. */
inline be_born(life)
{
    roster[life] = BIT(life);
    known[life - N] = BIT(life);
#ifdef RECOVER
    inactive[life - N] = BIT(life);
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

#ifndef TRACE
init {
    byte i, j, top;

    atomic {
        do
        :: i < N -> index[i] = i; i++
        :: i >= N && i < SERVERS -> choose_index(i); be_born(i); i++
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
        :: i < LIVES -> run Lifter(i); i++
        :: i == LIVES -> break
        od;
        i = 0
    }
}
#endif
