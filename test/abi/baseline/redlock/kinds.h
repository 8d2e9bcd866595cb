#ifndef REDLOCK_KINDS_H
#define REDLOCK_KINDS_H
#define REDLOCK_KINDS(X) \
    X(EXCLUSIVE, "exclusive") \
    X(SHARED, "shared") \
    X(SLOT, "slot") \
    X(ELECTION, "election") \
    X(RECORD, "record") \
    X(REDISSON, "redisson") \
    X(SET, "set")
typedef enum redlock_kind {
    REDLOCK_KIND_FOREIGN = -1,
#define REDLOCK_X_(kind,name) REDLOCK_KIND_ ##kind,
    REDLOCK_KINDS(REDLOCK_X_)
#undef REDLOCK_X_
} redlock_kind;
#endif
