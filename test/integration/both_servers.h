/*
 * A real redis-server and a simulated one that get the same bytes at the same time. The
 * clock of the real one stands still until the test moves it, so the time of each command
 * is known to the microsecond.
 */
#ifndef TEST_BOTH_SERVERS_H
#define TEST_BOTH_SERVERS_H

#include "prng.h"
#include "servers.h"
#include "sim/redis/redis.h"

struct both_servers {
    struct servers servers;
    struct lie *lie;
    struct redis *redis;
    char version[32]; /* as the real one reports */
    char server[48];  /* which it is, for known_differences.h */
    rl_time now;
    const char *denied; /* the command that the simulated server refuses; NULL: none */
    unsigned marks;
    struct bytes batch; /* what is sent next */
    struct bytes real;  /* what the real server replied */
};

/* A connection to each. */
struct both {
    int fd;
    struct redis_link *link;
};

/* The user of the simulated server: whom the test restricts in the real one. */
#define LIMITED "limited"

void both_servers_start(struct both_servers *servers);
void both_servers_end(struct both_servers *servers);
void both_servers_set_clock(struct both_servers *servers, rl_time now);

void both_servers_set_replica(struct both_servers *servers, bool is_replica);

struct both both_connect(struct both_servers *servers);
void both_disconnect(struct both *both);

/*
 * Sends `batch` to both, and to the simulated one in pieces. Their replies must be the
 * same; `real` has them.
 */
void both_play(struct both_servers *servers, const struct both *both, bool is_subscribed,
               struct prng *prng);

/* Plays on a connection that ends with it. */
void both_play_alone(struct both_servers *servers, struct prng *prng);

/* Compares the messages up to one that `publisher` sends to `channel` now. */
void both_compare_messages(struct both_servers *servers, const struct both *publisher,
                           const struct both *subscriber, const char *channel,
                           struct prng *prng);

#endif
