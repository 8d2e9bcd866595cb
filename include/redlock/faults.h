/*
 * The faults of a node: why it does not grant. redlock.h includes this header. Each row has
 * the name, how the server's error reply begins (NULL: the client finds the fault itself),
 * and the text. The longest beginning that fits a reply counts. New faults are appended.
 *
 * Three words have another meaning elsewhere. The code TIMEOUT is the end of a wait for
 * another owner. The reason LATE is that nodes granted, but too late. The code DENIED is
 * that of all denials, while a server's error "DENIED" is that of its protected mode.
 */
#ifndef REDLOCK_FAULTS_H
#define REDLOCK_FAULTS_H

#define REDLOCK_FAULTS(X)                                                                  \
    X(NONE, NULL, "no fault")                                                              \
    X(ERR, "ERR", "the server replied with an error")                                      \
    X(MAXCLIENTS, "ERR max number of clients",                                             \
      "the server has reached its maxclients limit")                                       \
    X(NOSCRIPT, "NOSCRIPT", "the script is not in the server's cache")                     \
    X(LOADING, "LOADING", "the server is loading its data")                                \
    X(BUSY, "BUSY", "the server is busy running a script")                                 \
    X(READONLY, "READONLY", "the server is a read-only replica")                           \
    X(MASTERDOWN, "MASTERDOWN", "the server is a replica without its master")              \
    X(CLUSTERDOWN, "CLUSTERDOWN", "the server is a cluster node")                          \
    X(MOVED, "MOVED", "the server is a cluster node")                                      \
    X(CROSSSLOT, "CROSSSLOT", "the server is a cluster node")                              \
    X(PROTECTED, "DENIED",                                                                 \
      "the server is in protected mode and refuses clients from other machines")           \
    X(NOAUTH, "NOAUTH", "the server requires a password")                                  \
    X(WRONGPASS, "WRONGPASS", "the server rejected the user or password")                  \
    X(NOPERM, "NOPERM", "the user lacks a right (ACL)")                                    \
    X(OOM, "OOM", "the server has reached its maxmemory limit")                            \
    X(MISCONF, "MISCONF", "the server cannot save its data and refuses writes")            \
    X(NOREPLICAS, "NOREPLICAS", "the server has too few replicas and refuses writes")      \
    X(WRONGTYPE, "WRONGTYPE", "the key holds a value that is not a lock")                  \
    X(LATE, "LATE", "the command arrived too late to store a lock")                        \
    X(AHEAD, "AHEAD", "the fence is too far ahead of the server's clock")                  \
    X(MARKER, "MARKER", "the node's marker has changed: the client reads it again")        \
    X(FENCE, "FENCE", "the key's fence is not a number: another program wrote it")         \
    X(UNMARKED, NULL, "no connected node has a marker: not admitted, or emptied")          \
    X(MARKER_LOST, NULL, "the node has no marker, but other nodes have one")               \
    X(NO_MAJORITY, NULL, "too few nodes of its deployment were found")                     \
    X(OTHER_DEPLOYMENT, NULL, "the node belongs to another deployment")                    \
    X(REPLACED, NULL,                                                                      \
      "the node's marker is outdated: its member index was assigned again")                \
    X(OTHER_PROCESS, NULL, "the server process (run_id) is not the one that was admitted") \
    X(OTHER_HISTORY, NULL,                                                                 \
      "the replication history (master_replid) is not the one that was admitted")          \
    X(MEMBER_QUARANTINE, NULL,                                                             \
      "the node may have forgotten locks: its marker puts it in quarantine")               \
    X(CLOCK_SET, NULL, "the node's clock jumped")                                          \
    X(CLOCK_STILL, NULL, "the node's clock stands still")                                  \
    X(CLOCK_FAST, NULL, "the node's clock gains on this client's clock")                   \
    X(CLOCK_SLOW, NULL, "the node's clock falls behind this client's clock")               \
    X(CONNECTING, NULL, "not connected yet")                                               \
    X(RESOLVE, NULL, "the host name does not resolve")                                     \
    X(CONNECT, NULL, "cannot connect")                                                     \
    X(CLOSED, NULL, "the connection was closed")                                           \
    X(TIMEOUT, NULL, "no reply in time")                                                   \
    X(PROTOCOL, NULL, "the server sent an unexpected or malformed reply")                  \
    X(REPLICA, NULL, "the server is a replica, not a master")                              \
    X(CLUSTER, NULL, "the server is in cluster mode")                                      \
    X(DUPLICATE, NULL, "the server is already a node under another address")               \
    X(QUARANTINE, NULL,                                                                    \
      "the server process (run_id) changed and may have forgotten locks: quarantined")     \
    X(MEMORY, NULL, "this process is out of memory")                                       \
    X(FILES, NULL,                                                                         \
      "this process has no free file descriptor: raise its limit (ulimit -n)")             \
    X(TLS_CA, NULL, "TLS: the server's certificate is signed by an unknown CA")            \
    X(TLS_NAME, NULL, "TLS: the server's certificate is for another name or address")      \
    X(TLS_EXPIRED, NULL, "TLS: the server's certificate has expired")                      \
    X(TLS_NOT_YET_VALID, NULL, "TLS: the server's certificate is not valid yet")           \
    X(TLS_CERTIFICATE, NULL, "TLS: the server's certificate is not acceptable")            \
    X(TLS_CLIENT, NULL, "TLS: the server requires a client certificate that it accepts")   \
    X(TLS_PLAINTEXT, NULL, "TLS: the server's port speaks plain text: use redis://")       \
    X(TLS_VERSION, NULL, "TLS: the server has no version (1.2 or later) in common")        \
    X(TLS_REFUSED, NULL, "TLS: the server refused the handshake")                          \
    X(TLS_CA_FILE, NULL, "TLS: the CA certificates cannot be used")                        \
    X(TLS_CERT_FILE, NULL, "TLS: the client's certificate cannot be used")                 \
    X(TLS_KEY_FILE, NULL, "TLS: the client's private key cannot be used")                  \
    X(TLS, NULL, "TLS: the connection failed")

#endif
