#ifndef REDLOCK_FAULTS_H
#define REDLOCK_FAULTS_H
#define REDLOCK_FAULTS(X) \
    X(NONE, "none", NULL, "no fault") \
    X(ERR, "err", "ERR", "the server replied with an error") \
    X(MAXCLIENTS, "maxclients", "ERR max number of clients", \
      "the server has reached its maxclients limit") \
    X(NOSCRIPT, "noscript", "NOSCRIPT", "the script is not in the server's cache") \
    X(LOADING, "loading", "LOADING", "the server is loading its data") \
    X(BUSY, "busy", "BUSY", "the server is busy running a script") \
    X(READONLY, "readonly", "READONLY", "the server is a read-only replica") \
    X(MASTERDOWN, "masterdown", "MASTERDOWN", \
      "the server is a replica without its master") \
    X(CLUSTERDOWN, "clusterdown", "CLUSTERDOWN", "the server is a cluster node") \
    X(MOVED, "moved", "MOVED", "the server is a cluster node") \
    X(CROSSSLOT, "crossslot", "CROSSSLOT", "the server is a cluster node") \
    X(PROTECTED, "protected", "DENIED", \
      "the server is in protected mode and refuses clients from other machines") \
    X(NOAUTH, "noauth", "NOAUTH", "the server requires a password") \
    X(WRONGPASS, "wrongpass", "WRONGPASS", "the server rejected the user or password") \
    X(NOPERM, "noperm", "NOPERM", "the user lacks a right (ACL)") \
    X(OOM, "oom", "OOM", "the server has reached its maxmemory limit") \
    X(MISCONF, "misconf", "MISCONF", "the server cannot save its data and refuses writes") \
    X(NOREPLICAS, "noreplicas", "NOREPLICAS", \
      "the server has too few replicas and refuses writes") \
    X(WRONGTYPE, "wrongtype", "WRONGTYPE", "the key holds a value that is not a lock") \
    X(LATE, "late", "LATE", "the command arrived too late to store a lock") \
    X(AHEAD, "ahead", "AHEAD", "the fence is too far ahead of the server's clock") \
    X(MARKER, "marker", "MARKER", \
      "the node's marker has changed: the client reads it again") \
    X(FENCE, "fence", "FENCE", \
      "the key's fence is not a number: another program wrote it") \
    X(UNMARKED, "unmarked", NULL, \
      "no connected node has a marker: not admitted, or emptied") \
    X(MARKER_LOST, "marker_lost", NULL, \
      "the node has no marker, but other nodes have one") \
    X(NO_MAJORITY, "no_majority", NULL, "too few nodes of its deployment were found") \
    X(OTHER_DEPLOYMENT, "other_deployment", NULL, \
      "the node belongs to another deployment") \
    X(REPLACED, "replaced", NULL, \
      "the node's marker is outdated: its member index was assigned again") \
    X(OTHER_PROCESS, "other_process", NULL, \
      "the server process (run_id) is not the one that was admitted") \
    X(OTHER_HISTORY, "other_history", NULL, \
      "the replication history (master_replid) is not the one that was admitted") \
    X(MEMBER_QUARANTINE, "member_quarantine", NULL, \
      "the node may have forgotten locks: its marker puts it in quarantine") \
    X(CLOCK_SET, "clock_set", NULL, "the node's clock jumped") \
    X(CLOCK_STILL, "clock_still", NULL, "the node's clock stands still") \
    X(CLOCK_FAST, "clock_fast", NULL, "the node's clock gains on this client's clock") \
    X(CLOCK_SLOW, "clock_slow", NULL, "the node's clock falls behind this client's clock") \
    X(CONNECTING, "connecting", NULL, "not connected yet") \
    X(RESOLVE, "resolve", NULL, "the host name does not resolve") \
    X(CONNECT, "connect", NULL, "cannot connect") \
    X(CLOSED, "closed", NULL, "the connection was closed") \
    X(TIMEOUT, "timeout", NULL, "no reply in time") \
    X(PROTOCOL, "protocol", NULL, "the server sent an unexpected or malformed reply") \
    X(REPLICA, "replica", NULL, "the server is a replica, not a master") \
    X(CLUSTER, "cluster", NULL, "the server is in cluster mode") \
    X(DUPLICATE, "duplicate", NULL, "the server is already a node under another address") \
    X(QUARANTINE, "quarantine", NULL, \
      "the server process (run_id) changed and may have forgotten locks: quarantined") \
    X(MEMORY, "memory", NULL, "this process is out of memory") \
    X(FILES, "files", NULL, \
      "this process has no free file descriptor: raise its limit (ulimit -n)") \
    X(TLS_CA, "tls_ca", NULL, "TLS: the server's certificate is signed by an unknown CA") \
    X(TLS_NAME, "tls_name", NULL, \
      "TLS: the server's certificate is for another name or address") \
    X(TLS_EXPIRED, "tls_expired", NULL, "TLS: the server's certificate has expired") \
    X(TLS_NOT_YET_VALID, "tls_not_yet_valid", NULL, \
      "TLS: the server's certificate is not valid yet") \
    X(TLS_CERTIFICATE, "tls_certificate", NULL, \
      "TLS: the server's certificate is not acceptable") \
    X(TLS_CLIENT, "tls_client", NULL, \
      "TLS: the server requires a client certificate that it accepts") \
    X(TLS_PLAINTEXT, "tls_plaintext", NULL, \
      "TLS: the server's port speaks plain text: use redis://") \
    X(TLS_VERSION, "tls_version", NULL, \
      "TLS: the server has no version (1.2 or later) in common") \
    X(TLS_REFUSED, "tls_refused", NULL, "TLS: the server refused the handshake") \
    X(TLS_CA_FILE, "tls_ca_file", NULL, "TLS: the CA certificates cannot be used") \
    X(TLS_CERT_FILE, "tls_cert_file", NULL, \
      "TLS: the client's certificate cannot be used") \
    X(TLS_KEY_FILE, "tls_key_file", NULL, "TLS: the client's private key cannot be used") \
    X(TLS, "tls", NULL, "TLS: the connection failed") \
    X(NO_EVAL, "no_eval", NULL, \
      "the server runs no scripts (EVAL), so it could not release a lock") \
    X(NO_ROLE, "no_role", NULL, "INFO has no role: the server may be a replica") \
    X(NO_RUN_ID, "no_run_id", NULL, \
      "INFO has no run_id: fenced locks need it, plain locks at least master_replid")
#endif
