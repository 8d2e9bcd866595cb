/*
 * Rounds: SET NX to all nodes at once, decided at the majority, given back everywhere.
 *
 * Client 0 makes ATTEMPTS attempts, one after the other; client 1 makes one. There is no time
 * here and no key expires: what is to be free again, a release has to free. Checked is:
 *
 * - never do two attempts hold at once;
 * - a round is decided once;
 * - when all is delivered and every connection is greeted anew, no key is left.
 */
#ifndef ATTEMPTS
#define ATTEMPTS 1
#endif
#ifndef CUTS
#define CUTS 1 /* so many times a connection is cut, at any moment */
#endif

#define N          3
#define BIT(node)  (1 << (node))
#define COUNT(set) (((set) & 1) + ((set) >> 1 & 1) + ((set) >> 2 & 1))

/* The last attempt is that of client 1. */
#define OWNER(attempt) ((attempt) / ATTEMPTS)

#ifdef SMALL_QUORUM
#define Q(attempt) (N / 2)
#elif defined(SHRINKING_QUORUM) /* a majority of those that can be reached */
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
bool decided[ATTEMPTS + 1]; /* for the assertions alone, as this is: */
byte holders;

/*
 * A connection has what the client wrote and the node has not read. Where one was cut, the
 * first of that may have come as far as the socket of the server, which may be stopped.
 */
#define LINK(client, node) ((client) * N + (node))
chan stream[2 * N] = [2 * ATTEMPTS] of { bit, byte }; /* a text, and for which attempt */
chan socket[2 * N] = [2 * ATTEMPTS] of { bit, byte };
#define SET 0
#define DEL 1

byte ready[2]; /* each client's nodes that were greeted, and not cut off since */
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

inline say(text, attempt, node)
{
    assert(nfull(stream[LINK(OWNER(attempt), node)]));
    stream[LINK(OWNER(attempt), node)]!text, attempt;
    if
    :: text == SET -> dirty[attempt] = dirty[attempt] | BIT(node)
    :: text == DEL -> unanswered[attempt] = unanswered[attempt] | BIT(node)
    fi
}

inline say_to(nodes, text, attempt)
{
    i = 0;
    do
    :: i < N && ((nodes) & BIT(i)) -> say(text, attempt, i); i++
    :: i < N && !((nodes) & BIT(i)) -> i++
    :: i == N -> break
    od;
    i = 0
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
    say_to(touched[attempt] & ready[OWNER(attempt)], DEL, attempt);
#endif
    touched[attempt] = 0; /* from here on nobody looks at these two */
    granted[attempt] = 0
}

/* What Redis does. */
inline serve(text, attempt, node, done)
{
    if
#ifdef OVERWRITE
    :: text == SET -> key[node] = TOKEN(attempt); done = true
#else
    :: text == SET && key[node] == FREE -> key[node] = TOKEN(attempt); done = true
    :: text == SET && key[node] != FREE -> done = false
#endif
#ifdef BLIND_RELEASE
    :: text == DEL -> key[node] = FREE; done = true
#else
    :: text == DEL && key[node] == TOKEN(attempt) -> key[node] = FREE; done = true
    :: text == DEL && key[node] != TOKEN(attempt) -> done = false
#endif
    fi
}

/* The answer is in the client's socket. When it acts upon it is another matter: Attempt. */
inline answer(text, attempt, node, done)
{
    if
    :: text == SET && done && IS_OPEN(attempt) ->
        granted[attempt] = granted[attempt] | BIT(node)
    :: text == SET && done && !IS_OPEN(attempt)
    :: text == SET && !done -> dirty[attempt] = dirty[attempt] & ~BIT(node)
    :: text == DEL ->
        dirty[attempt] = dirty[attempt] & ~BIT(node);
        unanswered[attempt] = unanswered[attempt] & ~BIT(node)
    fi
}

/* The client's end is closed by a reset. */
inline cut(client, node)
{
    ready[client] = ready[client] & ~BIT(node);
    do
    :: stream[LINK(client, node)]?text, attempt -> socket[LINK(client, node)]!text, attempt
    :: break
    od;
    do
    :: stream[LINK(client, node)]?text, attempt
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

/* Both ends of one. The nodes are alike: let the first ones be those that are cut off. */
proctype Connection(byte client; byte node)
{
    bit text, done;
    byte attempt;

end:
    do
    :: atomic { /* the node reads in order, whenever it comes to it */
        stream[LINK(client, node)]?text, attempt ->
        serve(text, attempt, node, done);
#ifdef OLD_VOTES
        attempt = (text == SET && attempt + 1 < ATTEMPTS && state[attempt + 1] == ACQUIRING ->
            attempt + 1 : attempt);
#endif
        answer(text, attempt, node, done);
        text = 0; attempt = 0; done = 0
       }
    :: atomic { /* from a connection that was cut: nobody can be answered */
        socket[LINK(client, node)]?text, attempt ->
        serve(text, attempt, node, done);
        text = 0; attempt = 0; done = 0
       }
    :: atomic {
        cuts > 0 && node < CUTS && (ready[client] & BIT(node)) ->
        cuts--;
        cut(client, node);
        text = 0; attempt = 0
       }
    :: atomic { /* the greeting is answered: what came before it the node has read by then */
        !(ready[client] & BIT(node)) && HAS_READ(client, node) ->
        ready[client] = ready[client] | BIT(node)
       }
    od
}

/* An attempt is made when the one before it is over. */
#define MAY_BEGIN(attempt) \
    (attempt == 1 && OWNER(attempt) == 0 -> state[0] == LINGERING : true)
#define IS_WON(attempt) (IS_OPEN(attempt) && COUNT(granted[attempt]) >= Q(attempt))
#define AGAIN(attempt)  (dirty[attempt] & ready[OWNER(attempt)] & ~unanswered[attempt])

proctype Attempt(byte attempt)
{
    byte i;

    atomic {
        COUNT(ready[OWNER(attempt)]) >= Q(attempt) && MAY_BEGIN(attempt) ->
        state[attempt] = ACQUIRING;
        touched[attempt] = ready[OWNER(attempt)];
        say_to(touched[attempt], SET, attempt)
    }
end:
    do
    :: atomic { IS_WON(attempt) -> win(attempt) }
    /*
     * A round may be lost at any moment: refused, silent until the patience ends, cancelled,
     * or out of time. That it always is, once q has become impossible, is left out.
     */
    :: atomic { state[attempt] == ACQUIRING -> lose(attempt) }
    :: atomic { state[attempt] == HELD -> holders--; release(attempt) }
#ifndef SAID_ONCE
    :: atomic {
        state[attempt] == LINGERING && AGAIN(attempt) -> say_to(AGAIN(attempt), DEL, attempt)
       }
#endif
    od
}

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
