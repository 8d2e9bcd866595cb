/*
 * A process that unlocks, does not wait for the confirmation, and ends at once: the lock is
 * released.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "loop.h"
#include "servers.h"

#define NODES 3
#define TRIES 3

struct unlocker {
    pid_t pid;
    FILE *to, *from;
};

/* It ends with the test: only the test has the other ends of its pipes. */
static void become_unlocker(int in, int out, const char *const *uris, const char *how,
                            const char *cycles, const char *waits)
{
    const char *program = getenv("UNLOCKER");
    dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    execl(program, program, how, cycles, waits, uris[0], uris[1], uris[2], (char *)NULL);
    _exit(127);
}

static struct unlocker start(struct servers *servers, const char *how, const char *cycles,
                             const char *waits)
{
    int in[2], out[2];
    struct unlocker unlocker;
    cr_assert_eq(pipe2(in, O_CLOEXEC), 0);
    cr_assert_eq(pipe2(out, O_CLOEXEC), 0);
    unlocker.pid = fork();
    cr_assert_geq(unlocker.pid, 0);
    if (unlocker.pid == 0)
        become_unlocker(in[0], out[1], servers->uri, how, cycles, waits);
    close(in[0]);
    close(out[1]);
    unlocker.to = fdopen(in[1], "w");
    unlocker.from = fdopen(out[0], "r");
    return unlocker;
}

static void expect_locked(struct unlocker *unlocker)
{
    char line[16];
    cr_assert(fgets(line, sizeof(line), unlocker->from), "it has ended");
    cr_assert_str_eq(line, "locked\n");
}

/* It unlocks, and ends in the way of `end`. */
static void let_end(struct unlocker *unlocker, bool is_killed)
{
    int status;
    fputs("\n", unlocker->to);
    fclose(unlocker->to);
    cr_assert_eq(waitpid(unlocker->pid, &status, 0), unlocker->pid);
    cr_assert(is_killed ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL
                        : WIFEXITED(status) && WEXITSTATUS(status) == 0,
              "it ended by %x", (unsigned)status);
    fclose(unlocker->from);
}

/* Everything that was written before a connection was closed has been read by then. */
static bool have_closed(struct servers *servers)
{
    for (unsigned i = 0; i < NODES; i++)
        if (atoi(servers_info(servers, i, "clients", "connected_clients")) != 1)
            return false;
    return true;
}

/* On each node the waiter is in the queue, and its client is subscribed. */
static bool is_queued(struct servers *servers)
{
    for (unsigned i = 0; i < NODES; i++) {
        redisReply *reply = servers_run(servers, i, "PUBSUB CHANNELS !wake:*");
        bool subscribed = reply->elements > 0;
        freeReplyObject(reply);
        if (!subscribed)
            return false;
    }
    return servers_with(servers, "theirs!queue", NULL) == 0;
}

/*
 * The other thread's client rests: a server that is about to answer it would drop the
 * release that follows. A waiter whose entries are removed makes them again with its next
 * attempt. If it was subscribed before, it then rests for the 2 s until it rechecks.
 */
static void await_waiter(struct servers *servers, struct event_base *base)
{
    LOOP_UNTIL(base, is_queued(servers));
    servers_do_first(servers, NODES, "DEL theirs!queue");
    LOOP_UNTIL(base, is_queued(servers));
}

static void unlock_and_end(const char *how, const char *cycles, const char *waits)
{
    struct servers servers;
    struct event_base *base = event_base_new();
    servers_start(&servers, NODES, NULL);
    for (unsigned i = 0; i < TRIES; i++) {
        struct unlocker unlocker = start(&servers, how, cycles, waits);
        expect_locked(&unlocker);
        LOOP_UNTIL(base, servers_with(&servers, "job", NULL) == 0); /* not only a quorum */
        if (atoi(waits) > 0)
            await_waiter(&servers, base);
        servers_settle(&servers);
        let_end(&unlocker, strcmp(how, "kill") == 0);
        LOOP_UNTIL(base, have_closed(&servers));
        cr_assert_eq(servers_with(&servers, "job", NULL), NODES,
                     "try %u: it is still locked", i);
        servers_do_first(&servers, NODES, "FLUSHALL");
    }
    servers_end(&servers);
    event_base_free(base);
}

Test(sync_exit, exit_is_called)
{
    unlock_and_end("exit", "0", "0");
}

Test(sync_exit, main_returns)
{
    unlock_and_end("return", "0", "0");
}

Test(sync_exit, no_handler_is_run)
{
    unlock_and_end("_exit", "0", "0");
}

Test(sync_exit, process_is_killed)
{
    unlock_and_end("kill", "0", "0");
}

Test(sync_exit, another_program_is_run)
{
    unlock_and_end("exec", "0", "0");
}

/* The loop is left free: the thread that unlocks runs it itself. */
Test(sync_exit, loop_is_free)
{
    unlock_and_end("_exit", "20", "0");
}

/* Another thread waits, and may run the loop just then. */
Test(sync_exit, another_thread_waits)
{
    unlock_and_end("_exit", "0", "1");
    unlock_and_end("_exit", "20", "1");
}
