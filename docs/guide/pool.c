/* Eight jobs share three devices: pool redis://a redis://b redis://c */
#include <pthread.h>
#include <redlock/sync.h>
#include <stdatomic.h>
#include <stdio.h>

enum { JOBS = 8, DEVICES = 3, STEPS = 100 };

static redlock_sync *nodes;
static redlock_lock_options options;
static atomic_int users[DEVICES + 1], finished, clashes;

/* One step of the work on a device that nobody else may use meanwhile. */
static void use(unsigned device)
{
    clashes += atomic_fetch_add(&users[device], 1) != 0;
    atomic_fetch_sub(&users[device], 1);
}

static void *job(void *arg)
{
    redlock_hold *hold;
    if (redlock_lock(nodes, "devices", 7, &options, &hold) != REDLOCK_OK) {
        fprintf(stderr, "%s\n", redlock_last_error()->text);
        return arg;
    }
    int step = 0;
    while (step < STEPS && !redlock_hold_lost(hold)) {
        use(redlock_hold_slot(hold));
        step++;
    }
    finished += step == STEPS;
    redlock_unlock(hold, 0);
    redlock_hold_free(hold);
    return arg;
}

int main(int argc, char **argv)
{
    pthread_t thread[JOBS];
    int started = 0;
    redlock_lock_options_init(&options);
    options.kind = REDLOCK_KIND_SLOT;
    options.slots = DEVICES; /* the same number in all programs */
    if (redlock_sync_new((const char *const *)argv + 1, (size_t)argc - 1, NULL, &nodes)) {
        fprintf(stderr, "%s\n", redlock_last_error()->text);
        return 1;
    }
    while (started < JOBS && pthread_create(&thread[started], NULL, job, NULL) == 0)
        started++;
    for (int i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
    redlock_sync_free(nodes);
    printf("%d jobs on %d devices, two on one device: %d times\n", finished, DEVICES,
           clashes);
    return finished == JOBS && clashes == 0 ? 0 : 1;
}
