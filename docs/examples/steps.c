#include "steps.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define REPLY_MAX   64
#define TIMEOUT_S   10
#define WORKERS_MAX 8

/* Memory that all processes share. */
static struct shop {
    int items, stock, sold;
} * shop;

static const char *address;
static redisContext *controller_redis;

static pid_t workers[WORKERS_MAX];
static size_t worker_count;
static bool is_worker; /* true in the process of a worker */

static void fail(const char *what)
{
    fprintf(stderr, "the run failed: %s\n", what);
    if (is_worker) /* the controller ends the other workers */
        _exit(EXIT_FAILURE);
    exit(EXIT_FAILURE);
}

static redisContext *try_connect(void)
{
    redisContext *redis =
        redisConnectUnixWithTimeout(address, (struct timeval){.tv_sec = TIMEOUT_S});
    if (redis && redis->err) {
        redisFree(redis);
        return NULL;
    }
    if (redis)
        redisSetTimeout(redis, (struct timeval){.tv_sec = TIMEOUT_S});
    return redis;
}

/* The reply as one short text, whatever its type. */
static void read_reply(redisReply *reply, char text[REPLY_MAX])
{
    if (!reply)
        fail("Redis does not reply");
    if (reply->type == REDIS_REPLY_INTEGER)
        snprintf(text, REPLY_MAX, "%lld", reply->integer);
    else
        snprintf(text, REPLY_MAX, "%s", reply->str ? reply->str : "nil");
    freeReplyObject(reply);
}

/* Prints one line of the transcript. */
static void show(const char *who, const char *what, const char *reply)
{
    if (strlen(what) > 40)
        printf("%-5s %.37s...  %s\n", who, what, reply);
    else
        printf("%-5s %-40s  %s\n", who, what, reply);
}

/* --- workers --- */

/* Sends the next step to the controller and waits for the permission to run it. */
static void await_permission(struct worker *me, const char *step)
{
    char permission;
    if (send(me->line, step, strlen(step), 0) < 0 || read(me->line, &permission, 1) != 1)
        _exit(EXIT_FAILURE);
}

bool ask(struct worker *me, const char *want, const char *format, ...)
{
    char command[STEP_MAX], reply[REPLY_MAX];
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    vsnprintf(command, sizeof(command), format, again);
    va_end(again);

    await_permission(me, command);
    if (!me->redis)
        me->redis = try_connect();
    if (!me->redis)
        fail("a worker cannot connect");
    read_reply(redisvCommand(me->redis, format, args), reply);
    va_end(args);
    show(me->name, command, reply);
    return strcmp(reply, want) == 0;
}

int read_stock(struct worker *me)
{
    static const char step[] = "reads the stock";
    char reply[REPLY_MAX];
    await_permission(me, step);
    int stock = shop->stock;
    snprintf(reply, sizeof(reply), "%d", stock);
    show(me->name, step, reply);
    return stock;
}

void write_stock(struct worker *me, int stock)
{
    static const char step[] = "sells one and writes the stock";
    char reply[REPLY_MAX];
    await_permission(me, step);
    shop->stock = stock;
    shop->sold++;
    snprintf(reply, sizeof(reply), "%d", stock);
    show(me->name, step, reply);
}

/* The controller waits until the worker has sent its next step or has ended. */
static void await_next_step(struct worker *worker)
{
    ssize_t length = recv(worker->line, worker->next, sizeof(worker->next) - 1, 0);
    worker->next[length > 0 ? length : 0] = '\0';
}

void worker_start(struct worker *worker, const char *name,
                  void (*work)(struct worker *me, const void *arg), const void *arg)
{
    int line[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, line) < 0)
        fail("no socket pair");
    pid_t pid = worker_count < WORKERS_MAX ? fork() : -1;
    if (pid < 0)
        fail("no process");
    if (pid == 0) {
        is_worker = true;
        /* no worker runs on when the controller has ended */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(line[0]);
        struct worker me = {.name = name, .line = line[1]};
        work(&me, arg);
        _exit(EXIT_SUCCESS);
    }
    workers[worker_count++] = pid;
    close(line[1]);
    *worker = (struct worker){.name = name, .pid = pid, .line = line[0]};
    await_next_step(worker);
}

/* --- the controller --- */

static bool replies(const char *want, const char *command)
{
    char reply[REPLY_MAX];
    read_reply(redisCommand(controller_redis, command), reply);
    return strcmp(reply, want) == 0;
}

static void pause_between_polls(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void kill_workers(void)
{
    for (size_t i = 0; i < worker_count; i++)
        kill(workers[i], SIGKILL);
    while (wait(NULL) > 0)
        ;
}

void shop_open(const char *socket, int stock)
{
    setvbuf(stdout, NULL, _IOLBF, 0); /* each line is written before the next step */
    atexit(kill_workers);
    address = socket;
    controller_redis = try_connect();
    if (!controller_redis)
        fail("no Redis behind that socket");
    if (!replies("0", "DBSIZE"))
        fail("this Redis has data: this program needs an empty one");

    shop = mmap(NULL, sizeof(*shop), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                0);
    if (shop == MAP_FAILED)
        fail("no shared memory");
    *shop = (struct shop){.items = stock, .stock = stock};
}

void run_steps(struct worker *worker, int steps)
{
    for (int i = 0; i < steps; i++) {
        if (worker->next[0] == '\0' || write(worker->line, "", 1) != 1)
            fail("a worker ended too early");
        await_next_step(worker);
    }
}

void kill_worker(struct worker *worker)
{
    kill(worker->pid, SIGKILL);
    printf("      ... %s dies before: %s\n", worker->name, worker->next);
}

/*
 * Cuts the rest of the TTL to 1 ms; then Redis itself expires the lock. A real TTL of 30 s
 * takes too long, and a TTL of some ms could expire too early on a busy machine.
 */
void expire_lock(struct worker *worker)
{
    if (!replies("1", "PEXPIRE lock 1"))
        fail("there is no lock to expire");
    while (!replies("0", "EXISTS lock"))
        pause_between_polls();
    printf("      ... the TTL of %s's lock runs out\n", worker->name);
}

void crash_redis(void)
{
    redisReply *reply = redisCommand(controller_redis, "DEBUG CRASH-AND-RECOVER");
    if (reply)
        fail(reply->str ? reply->str : "Redis does not crash");
    redisFree(controller_redis);
    do {
        pause_between_polls();
        controller_redis = try_connect();
    } while (!controller_redis);
    note("Redis crashes and starts again");
}

bool check_reply(const char *want, const char *command)
{
    char reply[REPLY_MAX];
    read_reply(redisCommand(controller_redis, command), reply);
    show("", command, reply);
    return strcmp(reply, want) == 0;
}

void note(const char *text)
{
    printf("      ... %s\n", text);
}

int shop_close(void)
{
    printf("%d item%s, %d sold\n", shop->items, shop->items == 1 ? "" : "s", shop->sold);
    if (!replies("OK", "FLUSHALL"))
        fail("cannot clean up");
    redisFree(controller_redis);
    return shop->sold;
}
