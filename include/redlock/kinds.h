/*
 * The kinds of locks; docs/kinds.md compares them. redlock.h includes this header. Each row
 * has the name of the constant and the name as text. New kinds are appended.
 *
 * EXCLUSIVE: one holder of one key. It excludes locks of every kind.
 *
 * SHARED: many readers, or one writer, which is an exclusive lock of the same key, fenced
 * or not. A writer that waits goes before readers that have waited for a shorter time. A
 * resource that checks fencing tokens compares a write with the largest token of all, and a
 * read with the largest token of a writer.
 *
 * SLOT: a semaphore. At most `slots` hold it at once. Each holder has one slot
 * (redlock_slot()), which is an exclusive lock of the key "KEY!1" to "KEY!k", fenced or
 * not; so fencing tokens rise for each slot, not for all. All clients must give the same
 * number: among clients that do not, as many hold it as the largest number says. It does
 * not exclude a lock of the key itself. The key has at most 508 bytes with its prefix.
 *
 * ELECTION: who holds the lock leads, and its fencing token is the number of the term. It
 * is always fenced; its nodes also store the term, so that redlock_observe() tells others
 * who leads. For every other lock it is a writer. All candidates choose it.
 *
 * RECORD: a record that something was done, for others to find: redlock_extend() may keep
 * it for up to REDLOCK_RECORD_MAX_MS, whatever max_ttl_ms is; then redlock_disown() it. It
 * is acquired as an exclusive lock, and never fenced. Once it is kept for longer than
 * max_ttl_ms, no quarantine protects it: it lasts while fewer than q nodes lose it, so the
 * nodes should be durable.
 *
 * REDISSON: stored as Redisson's RLock does, so that Java services share the key: on each
 * node a hash. It excludes, and is excluded by, a RedissonRedLock of one RLock per node
 * without a lease time, and every lock of this library. It is never fenced. docs/kinds.md
 * names the classes of Redisson that it does not exclude.
 *
 * SET: an exclusive lock of several keys, by redlock_acquire_many(). No option chooses it.
 */
#ifndef REDLOCK_KINDS_H
#define REDLOCK_KINDS_H

#define REDLOCK_KINDS(X)                                                                   \
    X(EXCLUSIVE, "exclusive")                                                              \
    X(SHARED, "shared")                                                                    \
    X(SLOT, "slot")                                                                        \
    X(ELECTION, "election")                                                                \
    X(RECORD, "record")                                                                    \
    X(REDISSON, "redisson")                                                                \
    X(SET, "set")

typedef enum redlock_kind {
    REDLOCK_KIND_FOREIGN = -1, /* of a value that is no token of this library */
#define REDLOCK_X_(kind, name) REDLOCK_KIND_##kind,
    REDLOCK_KINDS(REDLOCK_X_)
#undef REDLOCK_X_
} redlock_kind;

#endif
