/*
 * Plays runs of the simulator in docs/model/round.pml: play.py has made steps of each trace.
 * A step that the model does not have blocks, and the run is not played to its end. Where a
 * trace leaves open what happened, spin tries all of it.
 *
 * What the model leaves out, because it has no time: a key expires, and a lease that has
 * expired no longer holds. Both are possible only when play.py says so.
 */
#define TRACE
#define ATTEMPTS 250
#define CLIENTS  3
#define ROOM     30
byte owner[ATTEMPTS + 1];
#define OWNER(attempt) owner[attempt]
#define assert(what)   (what) /* here a rule that is broken blocks, too */
#include "../../docs/model/round.pml"
#include "steps.pml"

byte owed[ATTEMPTS + 1]; /* nodes to which its first release is yet to be written */
byte old;                /* nodes whose keys may expire */
byte erred[ATTEMPTS + 1]; /* nodes that replied to its release with an error: ask again */
bool is_lost[ATTEMPTS + 1], is_old[ATTEMPTS + 1];

#define IS_AT(nodes) ((nodes) & BIT(node))

inline give_back()
{
    owed[attempt] = touched[attempt] & ready[OWNER(attempt)];
    release(attempt)
}

inline served()
{
    if
    :: IS_AT(old) -> key[node] = FREE; old = old & ~BIT(node)
    :: skip
    fi;
    serve(command, attempt, node, did);
    did == done;
    old = (command == SET && done -> old & ~BIT(node) : old)
}

/* The first command of those that are under way there is this one. */
inline take()
{
    if
    :: IS_AT(ready[client]) -> stream[LINK(client, node)]?eval(command), eval(attempt)
    :: !IS_AT(ready[client]) -> socket[LINK(client, node)]?eval(command), eval(attempt)
    fi
}

inline leave()
{
    cut(client, node);
    attempt = 0;
    do
    :: attempt <= ATTEMPTS && OWNER(attempt) == client ->
        owed[attempt] = owed[attempt] & ~BIT(node); attempt++
    :: attempt <= ATTEMPTS && OWNER(attempt) != client -> attempt++
    :: attempt > ATTEMPTS -> break
    od
}

/* Nothing is left that could be released. */
inline finish()
{
    attempt = 0;
    do
    :: attempt <= ATTEMPTS && state[attempt] == NEW -> break
    :: attempt <= ATTEMPTS && state[attempt] == LINGERING &&
            !(owed[attempt] & ready[OWNER(attempt)]) &&
            (is_old[attempt] || !(AGAIN(attempt) & ~erred[attempt])) ->
        attempt++
    od
}

inline step()
{
    if
    /* Writes SET to these nodes. The connections to the nodes in `node` ended in the same
       iteration of its loop, perhaps before it could write there. */
    :: what == 'b' ->
        state[attempt] == NEW && COUNT(nodes | node) >= Q(attempt);
        !(nodes & ~ready[client]);
        owner[attempt] = client;
        begin(attempt, nodes)
    :: what == 'x' -> take(); served() /* a node executes a command */
    :: what == 'n' -> take()           /* a node replies with an error */
    :: what == 'r' -> parse_reply(command, attempt, node, done)
    /* If the error before it ended the connection, this reply counts for nothing. */
    :: what == 'u' -> parse_reply(command, attempt, node, done)
    :: what == 'u'
    :: what == 'e' -> /* reads an error that replies to a release */
        unanswered[attempt] = unanswered[attempt] & ~BIT(node);
        erred[attempt] = erred[attempt] | BIT(node)
    :: what == 'g' -> /* reads the reply to the greeting */
        !IS_AT(ready[client]) && HAS_READ(client, node);
        ready[client] = ready[client] | BIT(node)
    :: what == 'c' -> leave() /* its connection ends */
    :: what == 'w' -> IS_WON(attempt); win(attempt)
    :: what == 'l' -> /* it is lost */
        state[attempt] == ACQUIRING;
        owed[attempt] = touched[attempt] & ready[client];
        lose(attempt)
    :: what == 't' -> /* its validity may have ended */
        state[attempt] == HELD && !is_lost[attempt];
        is_lost[attempt] = true;
        holders--
    :: what == 'f' -> /* the holder gives it back */
        state[attempt] == HELD;
        holders = (is_lost[attempt] -> holders : holders - 1);
        give_back()
    :: what == 'd' && IS_AT(owed[attempt]) -> owed[attempt] = owed[attempt] & ~BIT(node)
    :: what == 'd' && !IS_AT(owed[attempt]) -> /* writes the release once more */
        state[attempt] == LINGERING && IS_AT(AGAIN(attempt) | erred[attempt]);
        erred[attempt] = erred[attempt] & ~BIT(node);
        send_to_node(DEL, attempt, node)
    /* From now on the key may expire; from then on its client may give up to release it. */
    :: what == 'k' -> old = (key[node] == TOKEN(attempt) -> old | BIT(node) : old)
    :: what == 'o' -> is_old[attempt] = true
    :: what == '.' -> finish()
    fi
}

active proctype Trace()
{
    bit did;
    byte i;

    choose_run();
    do
    :: atomic { next(); step(); played() }
    od
}
