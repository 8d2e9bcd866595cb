#ifndef REDLOCK_REASONS_H
#define REDLOCK_REASONS_H
#define REDLOCK_REASONS(X) \
    X(NONE, "no further reason") \
                                                                                           \
    X(PASSWORD, "a node refused the user or the password") \
    X(PERMISSION, "the user lacks an ACL right on a node") \
    X(PROTECTED, "a node in protected mode refused this host") \
    X(CERTIFICATE, "a TLS certificate was not accepted") \
    X(QUARANTINED, "a node is in quarantine") \
    X(NOT_ADMITTED, "a node is not admitted to vote on fenced locks") \
    X(CLOCK, "a node's clock cannot be trusted") \
    X(REFUSED, "a node replied with an error") \
    X(NOT_CONNECTED, "a node is not connected") \
    X(SILENT, "a node did not reply in time") \
    X(MISSING, "a node does not store the token") \
                                                                                           \
    X(LATE, "too little of the TTL was left when the nodes granted") \
    X(MARGIN, "the margin before the deadline was reached") \
    X(DEADLINE, "the deadline passed") \
                                                                                           \
    X(THREAD, "a thread of this process has the lock or waits for it") \
    X(RUNNING, "an operation of this kind is running") \
    X(RECURSION, "this thread has locked it before") \
    X(IN_CALLBACK, "the call blocks, and was made in a callback") \
                                                                                           \
    X(BY_CALLER, "the caller cancelled it") \
    X(CLIENT_FREED, "the client was freed") \
    X(THREAD_ENDED, "the thread that locked it has ended") \
    X(RELEASED, "the lock was released") \
    X(DISOWNED, "the lock was disowned") \
    X(ACQUIRING, "the acquire has not ended") \
    X(NOT_ACQUIRED, "the acquire failed") \
    X(LOST, "the lock was lost") \
    X(NULL_HANDLE, "the handle is NULL") \
                                                                                           \
    X(EMPTY, "it is empty") \
    X(TOO_LONG, "it has too many bytes") \
    X(OUT_OF_RANGE, "it is out of its range") \
    X(NOT_SET, "it is not set") \
    X(MALFORMED, "it has another form than it must have") \
    X(RESERVED, "it ends in ! and small letters") \
    X(TWICE, "it is given twice") \
    X(CONFLICT, "another option excludes it") \
    X(FOREIGN, "it is not of this client or library") \
                                                                                           \
    X(TTL_DRIFT, "the allowance for clock drift takes all of the TTL") \
    X(TTL_MARGIN, "the margin takes all of the TTL") \
    X(TTL_MIN_VALIDITY, "the TTL leaves less than the least validity") \
    X(TTL_CLIENT_MAX, "the TTL is longer than the client's longest TTL") \
    X(TTL_ADMITTED, "the TTL is longer than the nodes were admitted for") \
                                                                                           \
    X(RESOURCES, "this process is out of memory, threads or file descriptors") \
    X(RANDOM, "the system gave no random numbers")
typedef enum redlock_reason {
#define REDLOCK_X_(name,text) REDLOCK_REASON_ ##name,
    REDLOCK_REASONS(REDLOCK_X_)
#undef REDLOCK_X_
} redlock_reason;
#endif
