/*
 * A simulated Redis server: it executes the scripts of lua/ themselves and the commands
 * that the library sends, on keys of its own, and replies the bytes that Redis replies. It
 * has no clock, no sockets and no randomness: the caller passes the time and the bytes.
 */
#ifndef SIM_REDIS_REDIS_H
#define SIM_REDIS_REDIS_H

#include "keyspace.h"
#include "request.h"

#define REDIS_DATABASES 16
#define REDIS_ID        40 /* characters of a run_id */

/* What it is. The caller may change that at any time; texts stay the caller's. */
struct redis_config {
    const char *version; /* "7.0.15": some texts of errors depend on it */
    char run_id[REDIS_ID + 1], replid[REDIS_ID + 1];
    int64_t repl_offset;
    bool was_promoted; /* of a replica: second_repl_offset says so */
    unsigned replicas;
    bool is_replica;                /* refuses to write */
    bool is_cluster;                /* only INFO says so */
    bool is_loading;                /* refuses nearly all */
    bool is_async_loading, has_aof; /* only INFO says so */
    int64_t maxmemory;
    const char *maxmemory_policy;
    /* settings: appendfsync, no-appendfsync-on-rewrite, enable-debug-command */
    const char *fsync, *no_fsync_on_rewrite, *debug_command;
    const char *user;     /* its one user; NULL: the default user */
    const char *password; /* NULL: nobody needs one */
    /*
     * Whether the user has no right to this command; NULL: it has all. `call`: 0 if a
     * client sends it, k if it is the k-th redis.call() of a script.
     */
    bool (*denies)(void *arg, const char *command, unsigned call);
    void *arg;
};

/* What a test wants to do, and to see, of the commands of clients; each may be NULL. */
struct redis_hooks {
    /* Before a command. True: it has replied to `out` instead of the server. */
    bool (*replaces)(void *arg, const struct rl_word *word, size_t words,
                     struct bytes *out);
    /* After a command. Its reply is `out` from `at` on, and may be changed. */
    void (*executed)(void *arg, const struct rl_word *word, size_t words, struct bytes *out,
                     size_t at);
    int64_t (*now)(void *arg); /* the time of a command; NULL: as it was received */
    void *arg;
};

struct redis_link;
struct scripts;

struct redis {
    struct redis_config config;
    struct redis_hooks hooks;
    struct keyspace keyspace;
    struct scripts *scripts;
    struct request request;
    struct redis_link **link;
    size_t links, room;
    struct bytes published; /* "CHANNEL MESSAGE\n" of each; to be dropped */
};

/* One connection of a client. */
struct redis_link {
    struct redis *redis;
    struct bytes in;  /* of a request whose rest has not come yet */
    struct bytes out; /* replies and messages; the caller takes them, bytes_drop() */
    bool is_broken;   /* hangs up once `out` is written */
    bool is_known;    /* has authenticated */
    unsigned db;
    struct bytes *channel;
    size_t channels;
};

struct redis *redis_new(const struct redis_config *config);
void redis_free(struct redis *redis);

struct redis_link *redis_connect(struct redis *redis);
void redis_disconnect(struct redis_link *link);

/*
 * The server reads these bytes at `now`, in us since 1970 by its own clock, and executes
 * what is whole. Messages may appear in the `out` of other links, too.
 */
void redis_receive(struct redis_link *link, struct rl_word bytes, int64_t now);

/* A restart: neither scripts nor connections are left; and without a dump no keys. */
void redis_restart(struct redis *redis);
void redis_lose_memory(struct redis *redis);
void redis_forget_scripts(struct redis *redis); /* SCRIPT FLUSH */

#endif
