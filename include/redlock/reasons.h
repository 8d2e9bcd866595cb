/*
 * Reasons: why a result or a call has its code, where the code can have several causes.
 * redlock.h includes this header. Each row has the name and the text, one clause. New
 * reasons are appended.
 *
 * The first group belongs to NO_QUORUM, DENIED and UNCONFIRMED, and to EXPIRED if it ended
 * an acquire or the last extension failed: what kept a node from granting. If several
 * apply, the result has the one that comes first in this order: PASSWORD, PERMISSION,
 * PROTECTED, CERTIFICATE, QUARANTINED, NOT_ADMITTED, CLOCK, REFUSED, RESOURCES,
 * NOT_CONNECTED, SILENT, MISSING.
 */
#ifndef REDLOCK_REASONS_H
#define REDLOCK_REASONS_H

#define REDLOCK_REASONS(X)                                                                 \
    X(NONE, "no further reason")                                                           \
    /* what kept a node from granting: see above */                                        \
    X(PASSWORD, "a node refused the user or the password")                                 \
    X(PERMISSION, "the user lacks an ACL right on a node")                                 \
    X(PROTECTED, "a node in protected mode refused this host")                             \
    X(CERTIFICATE, "a TLS certificate was not accepted")                                   \
    X(QUARANTINED, "a node is in quarantine")                                              \
    X(NOT_ADMITTED, "a node is not admitted to vote on fenced locks")                      \
    X(CLOCK, "a node's clock cannot be trusted")                                           \
    X(REFUSED, "a node replied with an error")                                             \
    X(NOT_CONNECTED, "a node is not connected")                                            \
    X(SILENT, "a node did not reply in time")                                              \
    X(MISSING, "a node does not store the token")                                          \
    /* EXPIRED; LATE also of an extension */                                               \
    X(LATE, "too little of the TTL was left when the nodes granted")                       \
    X(MARGIN, "the margin before the deadline was reached")                                \
    X(DEADLINE, "the deadline passed")                                                     \
    /* TAKEN, TIMEOUT, BUSY, WOULD_DEADLOCK */                                             \
    X(THREAD, "a thread of this process has the lock or waits for it")                     \
    X(RUNNING, "an operation of this kind is running")                                     \
    X(RECURSION, "this thread has locked it before")                                       \
    X(IN_CALLBACK, "the call blocks, and was made in a callback")                          \
    /* CANCELLED, NOT_HELD, CLOSED */                                                      \
    X(BY_CALLER, "the caller cancelled it")                                                \
    X(CLIENT_FREED, "the client was freed")                                                \
    X(THREAD_ENDED, "the thread that locked it has ended")                                 \
    X(RELEASED, "the lock was released")                                                   \
    X(DISOWNED, "the lock was disowned")                                                   \
    X(ACQUIRING, "the acquire has not ended")                                              \
    X(NOT_ACQUIRED, "the acquire failed")                                                  \
    X(LOST, "the lock was lost")                                                           \
    X(NULL_HANDLE, "the handle is NULL")                                                   \
    /* a bad argument or option: redlock_error.field names it */                           \
    X(EMPTY, "it is empty")                                                                \
    X(TOO_LONG, "it has too many bytes")                                                   \
    X(OUT_OF_RANGE, "it is out of its range")                                              \
    X(NOT_SET, "it is not set")                                                            \
    X(MALFORMED, "it has another form than it must have")                                  \
    X(RESERVED, "it ends in ! and small letters")                                          \
    X(TWICE, "it is given twice")                                                          \
    X(CONFLICT, "another option excludes it")                                              \
    X(FOREIGN, "it is not of this client or library")                                      \
    /* BAD_TTL */                                                                          \
    X(TTL_DRIFT, "the allowance for clock drift takes all of the TTL")                     \
    X(TTL_MARGIN, "the margin takes all of the TTL")                                       \
    X(TTL_MIN_VALIDITY, "the TTL leaves less than the least validity")                     \
    X(TTL_CLIENT_MAX, "the TTL is longer than the client's longest TTL")                   \
    X(TTL_ADMITTED, "the TTL is longer than the nodes were admitted for")                  \
    /* SYSTEM; RESOURCES also of a node: see above */                                      \
    X(RESOURCES, "this process is out of memory, threads or file descriptors")             \
    X(RANDOM, "the system gave no random numbers")

typedef enum redlock_reason {
#define REDLOCK_X_(name, text) REDLOCK_REASON_##name,
    REDLOCK_REASONS(REDLOCK_X_)
#undef REDLOCK_X_
} redlock_reason;

#endif
