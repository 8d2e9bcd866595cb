/* Threads of many processes run one at a time: threads redis://a redis://b redis://c */
#include <pthread.h>
#include <redlock/sync.h>
#include <stdio.h>

#define THREADS 4

static void *work(void *sync)
{
    redlock_hold *hold;
    if (redlock_lock(sync, "work", 4, NULL, &hold) != REDLOCK_OK) {
        fprintf(stderr, "work: %s\n", redlock_last_error()->text);
        return NULL;
    }
    puts("This runs while no other client holds the lock.");
    redlock_unlock(hold, 0);
    redlock_hold_free(hold);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread[THREADS];
    redlock_sync *sync;
    if (redlock_sync_new((const char *const *)argv + 1, (size_t)argc - 1, NULL, &sync)) {
        fprintf(stderr, "threads: %s\n", redlock_last_error()->text);
        return 1;
    }
    for (int i = 0; i < THREADS; i++)
        pthread_create(&thread[i], NULL, work, sync);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    redlock_sync_free(sync);
}
