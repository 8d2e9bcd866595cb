/* Why a node refuses: an error reply, or the state of its connection. */
#ifndef RL_FAULT_H
#define RL_FAULT_H

#include "types.h"

/* name, error prefix (NULL: no reply says it), text; the first prefix that fits counts */
#define RL_FAULTS(X)                                                                       \
    X(NONE, NULL, "no fault")                                                              \
    X(MAXCLIENTS, "ERR max number of clients",                                             \
      "the server has as many clients as its maxclients allows")                           \
    X(ERR, "ERR", "the server answered with an error")                                     \
    X(NOSCRIPT, "NOSCRIPT", "the server does not know the script")                         \
    X(LOADING, "LOADING", "the server is loading its data")                                \
    X(BUSY, "BUSY", "the server is busy with a script")                                    \
    X(READONLY, "READONLY", "the server is a read-only replica")                           \
    X(MASTERDOWN, "MASTERDOWN", "the server is a replica without its master")              \
    X(CLUSTERDOWN, "CLUSTERDOWN", "the server is a cluster node")                          \
    X(MOVED, "MOVED", "the server is a cluster node")                                      \
    X(CROSSSLOT, "CROSSSLOT", "the server is a cluster node")                              \
    X(PROTECTED, "DENIED",                                                                 \
      "the server is in protected mode: it takes no clients from other machines")          \
    X(NOAUTH, "NOAUTH", "the server wants a password")                                     \
    X(WRONGPASS, "WRONGPASS", "the server refused the user or password")                   \
    X(NOPERM, "NOPERM", "the user lacks a right (ACL)")                                    \
    X(OOM, "OOM", "the server is over its maxmemory")                                      \
    X(MISCONF, "MISCONF", "the server cannot save its data and refuses writes")            \
    X(NOREPLICAS, "NOREPLICAS", "the server has too few replicas and refuses writes")      \
    X(WRONGTYPE, "WRONGTYPE", "the key holds something that is not a lock")                \
    X(LATE, "LATE", "the command came too late to lock anything")                          \
    X(AHEAD, "AHEAD", "the fence is ahead of the server's clock")                          \
    X(MARKER, "MARKER", "the node's marker is another by now: it is looked at anew")       \
    X(FENCE, "FENCE", "the key's fence holds no number: somebody wrote it")                \
    X(UNMARKED, NULL,                                                                      \
      "no marker: it was never admitted (redlock admit --new), or forgot it (--wait)")     \
    X(ALONE, NULL, "too few nodes of its deployment can be seen")                          \
    X(ELSEWHERE, NULL, "it belongs to a deployment of other nodes")                        \
    X(REPLACED, NULL, "another server has taken its place in the deployment")              \
    X(FOREIGN, NULL, "it restarted or failed over and has not been seated again")          \
    X(BARRED, NULL, "it may have forgotten locks and is in quarantine by its marker")      \
    X(CLOCK, NULL, "its clock was set, stands still, or runs too fast or too slow")        \
    X(CONNECTING, NULL, "not connected yet")                                               \
    X(RESOLVE, NULL, "the name does not resolve")                                          \
    X(CONNECT, NULL, "the connection was refused or cannot be made")                       \
    X(CLOSED, NULL, "the connection was closed")                                           \
    X(TIMEOUT, NULL, "no answer in time")                                                  \
    X(PROTOCOL, NULL, "the server does not speak the Redis protocol as it should")         \
    X(REPLICA, NULL, "the server is a replica, not a master")                              \
    X(CLUSTER, NULL, "the server is in cluster mode")                                      \
    X(DUPLICATE, NULL, "the server is already a node under another address")               \
    X(QUARANTINE, NULL, "the server restarted and may have forgotten locks: quarantined")  \
    X(MEMORY, NULL, "this process is out of memory")                                       \
    X(FILES, NULL, "this process has no file descriptor left: raise its limit (ulimit -n)")

enum rl_fault {
#define X(name, prefix, text) RL_FAULT_##name,
    RL_FAULTS(X)
#undef X
        RL_FAULT_COUNT,
};

/* Which fault an error reply names by its prefix; RL_FAULT_ERR if none is known. */
enum rl_fault rl_fault_of_error(const char *text, size_t len);

const char *rl_fault_name(enum rl_fault fault);
const char *rl_fault_text(enum rl_fault fault);

/* The server refuses who or where we are, or what we do: asking again soon cannot help. */
bool rl_fault_is_denial(enum rl_fault fault);

/* The whole node cannot vote now, not only this command: it is to be greeted anew. */
bool rl_fault_is_of_node(enum rl_fault fault);

#endif
