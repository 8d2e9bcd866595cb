/*
 * Many threads need a page that is expensive to make. It is made once: single_flight
 * redis://a redis://b redis://c
 *
 * Without single flight each thread would make it. With a lock alone each thread would at
 * least acquire the lock, one after the other.
 */
#include <pthread.h>
#include <redlock/sync.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#define READERS 16

static redlock_sync *sync;
/* where all processes can read it, for example in a database or on a disk */
static atomic_bool cached;
static atomic_int made, answered;

/* One of the threads calls this while it holds the lock; all of them get the result. */
static int make_page(redlock_hold *hold, void *arg)
{
    (void)hold, (void)arg;
    if (cached) /* another process was first */
        return 0;
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    made++;
    cached = true;
    return 0;
}

static void *read_page(void *arg)
{
    int failed;
    if (cached || (redlock_single_flight(sync, "page", 4, -1, NULL, make_page, NULL,
                                         &failed, NULL) == REDLOCK_OK &&
                   !failed))
        answered++;
    return arg;
}

int main(int argc, char **argv)
{
    pthread_t reader[READERS];
    if (redlock_sync_new((const char *const *)argv + 1, (size_t)argc - 1, NULL, &sync))
        return 1;
    for (int i = 0; i < READERS; i++)
        pthread_create(&reader[i], NULL, read_page, NULL);
    for (int i = 0; i < READERS; i++)
        pthread_join(reader[i], NULL);
    redlock_sync_free(sync);
    printf("%d have read it, and it was made %d time%s\n", answered, made,
           made == 1 ? "" : "s");
}
