/*
 * Rounds: SET NX to all nodes at once, decided by the majority, released on all nodes.
 *
 * Client 0 makes ATTEMPTS attempts, one after the other; client 1 makes one. There is no
 * time here and no key expires: only a release frees a key. The model checks:
 *
 * - two attempts never hold at once;
 * - a round is decided once;
 * - when everything is delivered and every connection is greeted again, no key is left.
 */
#ifndef ATTEMPTS
#define ATTEMPTS 1
#endif
#ifndef CUTS
#define CUTS 1 /* how many times a connection may be cut, at any moment */
#endif

#define N          3
#define BIT(node)  (1 << (node))
#define COUNT(set) (((set) & 1) + ((set) >> 1 & 1) + ((set) >> 2 & 1))

#ifndef TRACE /* test/traces plays runs of the simulator here, and has these and init */
#define CLIENTS 2
/* The last attempt is that of client 1. */
#define OWNER(attempt) ((attempt) / ATTEMPTS)
#define ROOM           (2 * ATTEMPTS) /* commands that a connection contains */
#endif

#ifdef SMALL_QUORUM
#define Q(attempt) (N / 2)
#elif defined(SHRINKING_QUORUM) /* a majority of the nodes that can be reached */
#define Q(attempt) (COUNT(touched[attempt]) / 2 + 1)
#else
#define Q(attempt) (N / 2 + 1)
#endif

#ifdef SAME_TOKEN
#define TOKEN(attempt) (OWNER(attempt) + 1)
#else
#define TOKEN(attempt) ((attempt) + 1)
#endif
#define FREE 0
byte key[N];

mtype = { NEW, ACQUIRING, HELD, LINGERING };

/* Of each attempt; the sets of nodes are those of struct rl_lease. */
byte state[ATTEMPTS + 1] = NEW;
byte touched[ATTEMPTS + 1], granted[ATTEMPTS + 1];
byte dirty[ATTEMPTS + 1], unanswered[ATTEMPTS + 1];
bool decided[ATTEMPTS + 1]; /* for the assertions only, as is the next variable */
byte holders;

/*
 * A connection contains what the client wrote and the node has not read. After a cut, a
 * prefix of it may have reached the server's socket while the server was stopped.
 */
#define LINK(client, node) ((client) * N + (node))
/* a command, and the attempt that sent it */
chan stream[CLIENTS * N] = [ROOM] of { bit, byte };
chan socket[CLIENTS * N] = [ROOM] of { bit, byte };
#define SET 0
#define DEL 1

byte ready[CLIENTS]; /* for each client the nodes that were greeted, and not cut off since */
byte cuts = CUTS;

#ifdef PLAIN_CLOSE /* what was written is delivered all the same, at any later time */
#define HAS_READ(client, node) true
#else
#define HAS_READ(client, node) empty(socket[LINK(client, node)])
#endif

#ifdef LATE_GRANTS
#define IS_OPEN(attempt) (state[attempt] != HELD)
#else
#define IS_OPEN(attempt) (state[attempt] == ACQUIRING)
#endif

inline send_to_node(command, attempt, node)
{
    assert(nfull(stream[LINK(OWNER(attempt), node)]));
    stream[LINK(OWNER(attempt), node)]!command, attempt;
    if
    :: command == SET -> dirty[attempt] = dirty[attempt] | BIT(node)
    :: command == DEL -> unanswered[attempt] = unanswered[attempt] | BIT(node)
    fi
}

inline send_to(nodes, command, attempt)
{
    i = 0;
    do
    :: i < N && ((nodes) & BIT(i)) -> send_to_node(command, attempt, i); i++
    :: i < N && !((nodes) & BIT(i)) -> i++
    :: i == N -> break
    od;
    i = 0
}

inline begin(attempt, nodes)
{
    state[attempt] = ACQUIRING;
    touched[attempt] = nodes;
    send_to(touched[attempt], SET, attempt)
}

inline win(attempt)
{
    assert(!decided[attempt]);
    decided[attempt] = true;
    state[attempt] = HELD;
    holders++;
    assert(holders == 1)
}

inline lose(attempt)
{
    assert(!decided[attempt]);
    decided[attempt] = true;
    release(attempt)
}

inline release(attempt)
{
    state[attempt] = LINGERING;
#ifdef RELEASE_GRANTS_ONLY
    touched[attempt] = granted[attempt];
    dirty[attempt] = granted[attempt];
#endif
#ifdef NO_RELEASE
    dirty[attempt] = 0;
#else
    send_to(touched[attempt] & ready[OWNER(attempt)], DEL, attempt);
#endif
    touched[attempt] = 0; /* these two are not used from here on */
    granted[attempt] = 0
}

/* Redis executes a command. */
inline serve(command, attempt, node, done)
{
    if
#ifdef OVERWRITE
    :: command == SET -> key[node] = TOKEN(attempt); done = true
#else
    :: command == SET && key[node] == FREE -> key[node] = TOKEN(attempt); done = true
    :: command == SET && key[node] != FREE -> done = false
#endif
#ifdef BLIND_RELEASE
    :: command == DEL -> key[node] = FREE; done = true
#else
    :: command == DEL && key[node] == TOKEN(attempt) -> key[node] = FREE; done = true
    :: command == DEL && key[node] != TOKEN(attempt) -> done = false
#endif
    fi
}

/* The reply is in the client's socket. The client parses it at any later time: Attempt. */
inline parse_reply(command, attempt, node, done)
{
    if
    :: command == SET && done && IS_OPEN(attempt) ->
        granted[attempt] = granted[attempt] | BIT(node)
    :: command == SET && done && !IS_OPEN(attempt)
    :: command == SET && !done -> dirty[attempt] = dirty[attempt] & ~BIT(node)
    :: command == DEL ->
        dirty[attempt] = dirty[attempt] & ~BIT(node);
        unanswered[attempt] = unanswered[attempt] & ~BIT(node)
    fi
}

/* The client closes its end by a reset. */
inline cut(client, node)
{
    ready[client] = ready[client] & ~BIT(node);
    do
    :: stream[LINK(client, node)]?command, attempt -> socket[LINK(client, node)]!command, attempt
    :: break
    od;
    do
    :: stream[LINK(client, node)]?command, attempt
    :: empty(stream[LINK(client, node)]) -> break
    od;
    attempt = 0;
    do
    :: attempt <= ATTEMPTS && OWNER(attempt) == client ->
        unanswered[attempt] = unanswered[attempt] & ~BIT(node);
        attempt++
    :: attempt <= ATTEMPTS && OWNER(attempt) != client -> attempt++
    :: attempt > ATTEMPTS -> break
    od
}

/* Cuts both ends of one connection. The nodes are symmetric: the first ones are cut off. */
proctype Connection(byte client; byte node)
{
    bit command, done;
    byte attempt;

end:
    do
    :: atomic { /* the node reads in order, at any later time */
        stream[LINK(client, node)]?command, attempt ->
        serve(command, attempt, node, done);
#ifdef OLD_VOTES
        attempt = (command == SET && attempt + 1 < ATTEMPTS && state[attempt + 1] == ACQUIRING ->
            attempt + 1 : attempt);
#endif
        parse_reply(command, attempt, node, done);
        command = 0; attempt = 0; done = 0
       }
    :: atomic { /* from a connection that was cut: no reply arrives */
        socket[LINK(client, node)]?command, attempt ->
        serve(command, attempt, node, done);
        command = 0; attempt = 0; done = 0
       }
    :: atomic {
        cuts > 0 && node < CUTS && (ready[client] & BIT(node)) ->
        cuts--;
        cut(client, node);
        command = 0; attempt = 0
       }
    :: atomic { /* the reply to the greeting: the node has read everything before it */
        !(ready[client] & BIT(node)) && HAS_READ(client, node) ->
        ready[client] = ready[client] | BIT(node)
       }
    od
}

/* An attempt begins when the one before it is over. */
#define MAY_BEGIN(attempt) \
    (attempt == 1 && OWNER(attempt) == 0 -> state[0] == LINGERING : true)
#define IS_WON(attempt) (IS_OPEN(attempt) && COUNT(granted[attempt]) >= Q(attempt))
#define AGAIN(attempt)  (dirty[attempt] & ready[OWNER(attempt)] & ~unanswered[attempt])

proctype Attempt(byte attempt)
{
    byte i;

    atomic {
        COUNT(ready[OWNER(attempt)]) >= Q(attempt) && MAY_BEGIN(attempt) ->
        begin(attempt, ready[OWNER(attempt)])
    }
end:
    do
    :: atomic { IS_WON(attempt) -> win(attempt) }
    /*
     * A round may be lost at any moment: refused, per-node timeout, cancelled, or out of
     * time. The model leaves out that it is always lost once q has become impossible.
     */
    :: atomic { state[attempt] == ACQUIRING -> lose(attempt) }
    :: atomic { state[attempt] == HELD -> holders--; release(attempt) }
#ifndef SENT_ONCE
    :: atomic {
        state[attempt] == LINGERING && AGAIN(attempt) -> send_to(AGAIN(attempt), DEL, attempt)
       }
#endif
    od
}

#ifndef TRACE
init {
    atomic {
        run Connection(0, 0); run Connection(0, 1); run Connection(0, 2);
        run Connection(1, 0); run Connection(1, 1); run Connection(1, 2);
        run Attempt(0); run Attempt(1);
#if ATTEMPTS > 1
        run Attempt(2)
#endif
    }
    timeout -> assert(key[0] == FREE && key[1] == FREE && key[2] == FREE)
}
#endif
