/* Threads that share a lock: many readers, or one writer. */
#include <criterion/criterion.h>
#include <pthread.h>

#include "worker_threads.h"

#define READERS 4

static struct sync_quorum quorum;
static redlock_lock_options writer, reader;

static void open_quorum(void)
{
    sync_quorum_open(&quorum, 3);
    writer = reader = sync_quorum_lock_options();
    reader.kind = REDLOCK_KIND_SHARED;
}

static void close_quorum(void)
{
    sync_quorum_close(&quorum);
}

TestSuite(sync_shared, .init = open_quorum, .fini = close_quorum);

static redlock_hold *lock(const redlock_lock_options *options)
{
    redlock_hold *hold = NULL;
    cr_assert_eq(redlock_lock(quorum.sync, "job", 3, options, &hold), REDLOCK_OK, "%s",
                 redlock_last_error()->text);
    return hold;
}

static void unlock(redlock_hold *hold)
{
    cr_assert_eq(redlock_unlock(hold, REDLOCK_CONFIRM), REDLOCK_OK);
    redlock_hold_free(hold);
}

static bool has_readers(long long count)
{
    for (unsigned i = 0; i < 3; i++)
        if (!servers_int(&quorum.servers, i, count, "ZCARD job"))
            return false;
    return true;
}

static pthread_barrier_t all_read;

static void *read_with_the_others(void *arg)
{
    (void)arg;
    redlock_hold *hold = lock(&reader);
    pthread_barrier_wait(&all_read);
    pthread_barrier_wait(&all_read);
    unlock(hold);
    return NULL;
}

/* They meet while all of them hold the lock. */
Test(sync_shared, threads_read_at_one_time)
{
    pthread_t thread[READERS];
    pthread_barrier_init(&all_read, NULL, READERS + 1);
    for (unsigned i = 0; i < READERS; i++)
        cr_assert_eq(pthread_create(&thread[i], NULL, read_with_the_others, NULL), 0);
    pthread_barrier_wait(&all_read);
    SYNC_QUORUM_UNTIL(has_readers(READERS));
    pthread_barrier_wait(&all_read);
    for (unsigned i = 0; i < READERS; i++)
        pthread_join(thread[i], NULL);
    SYNC_QUORUM_UNTIL(servers_keys(&quorum.servers) == 0);
    pthread_barrier_destroy(&all_read);
}

static void *try_to_read(void *arg)
{
    redlock_hold *hold;
    *(redlock_code *)arg = redlock_try_lock(quorum.sync, "job", 3, &reader, &hold);
    return NULL;
}

static void *write(void *arg)
{
    redlock_hold *hold = lock(&writer);
    cr_assert_not(*(bool *)arg, "the reader has unlocked");
    unlock(hold);
    return NULL;
}

Test(sync_shared, a_writer_excludes_readers_and_waits_for_them)
{
    pthread_t thread;
    redlock_code code = REDLOCK_OK;
    redlock_hold *hold = lock(&writer);
    cr_assert_eq(pthread_create(&thread, NULL, try_to_read, &code), 0);
    pthread_join(thread, NULL);
    cr_assert_eq(code, REDLOCK_TAKEN);
    unlock(hold);

    bool reads = true;
    hold = lock(&reader);
    cr_assert_eq(pthread_create(&thread, NULL, write, &reads), 0);
    SYNC_QUORUM_UNTIL(servers_int(&quorum.servers, 0, 1, "EXISTS job!intent"));
    reads = false;
    unlock(hold);
    pthread_join(thread, NULL);
    SYNC_QUORUM_UNTIL(servers_keys(&quorum.servers) == 0);
}

Test(sync_shared, a_reader_that_wants_to_write_is_refused_at_once)
{
    redlock_hold *hold = lock(&reader), *other = NULL;
    cr_assert_eq(redlock_lock(quorum.sync, "job", 3, &writer, &other),
                 REDLOCK_WOULD_DEADLOCK);
    cr_assert_null(other);
    unlock(hold);
    hold = lock(&writer);
    unlock(hold);
}

static void *read_once(void *arg)
{
    redlock_hold *hold;
    *(redlock_code *)arg = redlock_try_lock(quorum.sync, "job", 3, &reader, &hold);
    if (*(redlock_code *)arg == REDLOCK_OK)
        unlock(hold);
    return NULL;
}

/* The next writer of the process then waits on the nodes, and a reader may come in. */
Test(sync_shared, a_writer_becomes_a_reader)
{
    pthread_t other_writer, other_reader;
    redlock_code code = REDLOCK_TAKEN;
    bool reads = true;
    redlock_hold *hold = lock(&writer), *again = NULL;
    cr_assert_eq(redlock_hold_token(hold)[0], 'p');
    cr_assert_eq(redlock_hold_downgrade(hold), REDLOCK_OK);
    cr_assert_eq(redlock_hold_token(hold)[0], 's');
    cr_assert(has_readers(1));
    cr_assert_eq(pthread_create(&other_reader, NULL, read_once, &code), 0);
    pthread_join(other_reader, NULL);
    cr_assert_eq(code, REDLOCK_OK);
    cr_assert_eq(redlock_lock(quorum.sync, "job", 3, &writer, &again),
                 REDLOCK_WOULD_DEADLOCK);
    cr_assert_eq(redlock_hold_downgrade(hold), REDLOCK_BAD_OPTION, "it reads already");
    cr_assert_eq(redlock_hold_extend(hold, 0), REDLOCK_OK);

    cr_assert_eq(pthread_create(&other_writer, NULL, write, &reads), 0);
    SYNC_QUORUM_UNTIL(servers_int(&quorum.servers, 0, 1, "EXISTS job!intent"));
    reads = false;
    unlock(hold);
    pthread_join(other_writer, NULL);
    SYNC_QUORUM_UNTIL(servers_keys(&quorum.servers) == 0);
}

static void *wait_to_write(void *arg)
{
    redlock_hold *hold = lock(&writer);
    *(bool *)arg = true;
    unlock(hold);
    return NULL;
}

Test(sync_shared, a_writer_that_waits_for_one_that_becomes_a_reader)
{
    pthread_t thread;
    bool wrote = false;
    redlock_hold *hold = lock(&writer);
    cr_assert_eq(pthread_create(&thread, NULL, wait_to_write, &wrote), 0);
    cr_assert_eq(redlock_hold_downgrade(hold), REDLOCK_OK);
    SYNC_QUORUM_UNTIL(servers_int(&quorum.servers, 0, 1, "EXISTS job!intent"));
    cr_assert_not(wrote);
    unlock(hold);
    pthread_join(thread, NULL);
    cr_assert(wrote);
    SYNC_QUORUM_UNTIL(servers_keys(&quorum.servers) == 0);
}

Test(sync_shared, what_is_locked_twice_or_unlocked_does_not_become_a_readers)
{
    writer.recursive = true;
    redlock_hold *hold = lock(&writer);
    cr_assert_eq(lock(&writer), hold);
    cr_assert_eq(redlock_hold_downgrade(hold), REDLOCK_BUSY);
    unlock(hold);
    cr_assert_eq(redlock_unlock(hold, REDLOCK_CONFIRM), REDLOCK_OK);
    cr_assert_eq(redlock_hold_downgrade(hold), REDLOCK_NOT_HELD);
    cr_assert_eq(redlock_hold_downgrade(NULL), REDLOCK_NOT_HELD);
    redlock_hold_free(hold);
}

/* Another owner has the key on all nodes; or nobody has. */
static redlock_code downgrade_where(const char *value)
{
    redlock_hold *hold = lock(&writer);
    servers_do_first(&quorum.servers, 3, "DEL job");
    if (value)
        servers_do_first(&quorum.servers, 3, "SET job %s PX 600000", value);
    redlock_code code = redlock_hold_downgrade(hold);
    cr_assert_eq(redlock_unlock(hold, 0), code);
    redlock_hold_free(hold);
    servers_do_first(&quorum.servers, 3, "DEL job");
    return code;
}

static redlock_code downgrade_late(void)
{
    redlock_hold *hold = lock(&writer);
    SYNC_QUORUM_UNTIL(redlock_hold_lost(hold));
    redlock_code code = redlock_hold_downgrade(hold);
    redlock_hold_free(hold);
    return code;
}

Test(sync_shared, what_was_lost_does_not_become_a_readers)
{
    cr_assert_eq(downgrade_where("other"), REDLOCK_TAKEN);
    cr_assert_eq(downgrade_where(NULL), REDLOCK_GONE);
    redlock_lock_options patient = writer;
    writer.max_hold_ms = 400;
    cr_assert_eq(downgrade_late(), REDLOCK_MAX_HOLD);
    writer = patient;
    writer.watchdog = false;
    writer.ttl_ms = 600;
    cr_assert_eq(downgrade_late(), REDLOCK_EXPIRED);
}

Test(sync_shared, a_token_of_another_program_does_not_become_a_readers)
{
    redlock_hold *hold = NULL;
    servers_do_first(&quorum.servers, 3, "SET job other PX 600000");
    cr_assert_eq(
        redlock_lock_adopt(quorum.sync, "job", 3, "other", REDLOCK_UNKNOWN, &writer, &hold),
        REDLOCK_OK);
    cr_assert_eq(redlock_hold_downgrade(hold), REDLOCK_BAD_TOKEN);
    unlock(hold);
}

Test(sync_shared, locked_again)
{
    reader.recursive = writer.recursive = true;
    redlock_hold *hold = lock(&reader);
    cr_assert_eq(lock(&reader), hold);
    unlock(hold);
    SYNC_QUORUM_UNTIL(has_readers(1));
    unlock(hold);
    SYNC_QUORUM_UNTIL(servers_keys(&quorum.servers) == 0);
    hold = lock(&writer);
    cr_assert_eq(lock(&reader), hold, "who writes may read");
    unlock(hold);
    unlock(hold);
    SYNC_QUORUM_UNTIL(servers_keys(&quorum.servers) == 0);
}

Test(sync_shared, adopted_and_released_by_its_token)
{
    redlock_lock_options any = reader;
    any.any_thread = true;
    redlock_hold *hold = lock(&any), *adopted = NULL;
    cr_assert_eq(redlock_lock_adopt(quorum.sync, "job", 3, redlock_hold_token(hold),
                                    REDLOCK_UNKNOWN, NULL, &adopted),
                 REDLOCK_OK);
    cr_assert_eq(redlock_unlock(adopted, REDLOCK_CONFIRM), REDLOCK_OK);
    redlock_hold_free(adopted);
    redlock_unlock(hold, 0);
    redlock_hold_free(hold);
    SYNC_QUORUM_UNTIL(servers_keys(&quorum.servers) == 0);
}
