#include "stage.h"

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

#define ANSWER_MAX 64
#define PATIENCE_S 10
#define CAST_MAX   8

/* A page that all processes share. */
static struct shop {
    int items, stock, sold;
} * shop;

static const char *address;
static redisContext *directors;

static pid_t cast[CAST_MAX];
static size_t cast_size;
static bool on_stage; /* in the process of a worker */

static void fail(const char *what)
{
    fprintf(stderr, "the show is over: %s\n", what);
    if (on_stage) /* the others are the director's to end */
        _exit(EXIT_FAILURE);
    exit(EXIT_FAILURE);
}

static redisContext *try_connect(void)
{
    redisContext *redis =
        redisConnectUnixWithTimeout(address, (struct timeval){.tv_sec = PATIENCE_S});
    if (redis && redis->err) {
        redisFree(redis);
        return NULL;
    }
    if (redis)
        redisSetTimeout(redis, (struct timeval){.tv_sec = PATIENCE_S});
    return redis;
}

/* The answer as one short text, whatever its type. */
static void take_answer(redisReply *reply, char answer[ANSWER_MAX])
{
    if (!reply)
        fail("Redis does not answer");
    if (reply->type == REDIS_REPLY_INTEGER)
        snprintf(answer, ANSWER_MAX, "%lld", reply->integer);
    else
        snprintf(answer, ANSWER_MAX, "%s", reply->str ? reply->str : "nil");
    freeReplyObject(reply);
}

/* One line of the transcript. */
static void show(const char *who, const char *what, const char *answer)
{
    if (strlen(what) > 40)
        printf("%-5s %.37s...  %s\n", who, what, answer);
    else
        printf("%-5s %-40s  %s\n", who, what, answer);
}

/* --- workers --- */

/* Tells the director what comes next, and waits until it may. */
static void await_nod(struct worker *me, const char *step)
{
    char nod;
    if (send(me->line, step, strlen(step), 0) < 0 || read(me->line, &nod, 1) != 1)
        _exit(EXIT_FAILURE);
}

bool ask(struct worker *me, const char *want, const char *format, ...)
{
    char command[STEP_MAX], answer[ANSWER_MAX];
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    vsnprintf(command, sizeof(command), format, again);
    va_end(again);

    await_nod(me, command);
    if (!me->redis)
        me->redis = try_connect();
    if (!me->redis)
        fail("a worker cannot connect");
    take_answer(redisvCommand(me->redis, format, args), answer);
    va_end(args);
    show(me->name, command, answer);
    return strcmp(answer, want) == 0;
}

int read_stock(struct worker *me)
{
    static const char step[] = "reads the stock";
    char answer[ANSWER_MAX];
    await_nod(me, step);
    int stock = shop->stock;
    snprintf(answer, sizeof(answer), "%d", stock);
    show(me->name, step, answer);
    return stock;
}

void write_stock(struct worker *me, int stock)
{
    static const char step[] = "sells one and writes the stock";
    char answer[ANSWER_MAX];
    await_nod(me, step);
    shop->stock = stock;
    shop->sold++;
    snprintf(answer, sizeof(answer), "%d", stock);
    show(me->name, step, answer);
}

/* The director waits until the worker stands before its next step, or has left. */
static void arrive(struct worker *worker)
{
    ssize_t length = recv(worker->line, worker->next, sizeof(worker->next) - 1, 0);
    worker->next[length > 0 ? length : 0] = '\0';
}

void stage_enter(struct worker *worker, const char *name,
                 void (*play)(struct worker *me, const void *arg), const void *arg)
{
    int line[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, line) < 0)
        fail("no socket pair");
    pid_t pid = cast_size < CAST_MAX ? fork() : -1;
    if (pid < 0)
        fail("no process");
    if (pid == 0) {
        on_stage = true;
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* nobody stays when the director goes */
        close(line[0]);
        struct worker me = {.name = name, .line = line[1]};
        play(&me, arg);
        _exit(EXIT_SUCCESS);
    }
    cast[cast_size++] = pid;
    close(line[1]);
    *worker = (struct worker){.name = name, .pid = pid, .line = line[0]};
    arrive(worker);
}

/* --- the director --- */

static bool asks_for(const char *want, const char *command)
{
    char answer[ANSWER_MAX];
    take_answer(redisCommand(directors, command), answer);
    return strcmp(answer, want) == 0;
}

static void pause_between_looks(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void clear_stage(void)
{
    for (size_t i = 0; i < cast_size; i++)
        kill(cast[i], SIGKILL);
    while (wait(NULL) > 0)
        ;
}

void stage_open(const char *socket, int stock)
{
    setvbuf(stdout, NULL, _IOLBF, 0); /* each line is out before the next step */
    atexit(clear_stage);
    address = socket;
    directors = try_connect();
    if (!directors)
        fail("no Redis behind that socket");
    if (!asks_for("0", "DBSIZE"))
        fail("this Redis has data: the show wants an empty one of its own");

    shop = mmap(NULL, sizeof(*shop), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                0);
    if (shop == MAP_FAILED)
        fail("no shared memory");
    *shop = (struct shop){.items = stock, .stock = stock};
}

void let(struct worker *worker, int steps)
{
    for (int i = 0; i < steps; i++) {
        if (worker->next[0] == '\0' || write(worker->line, "", 1) != 1)
            fail("a worker left the stage too early");
        arrive(worker);
    }
}

void die(struct worker *worker)
{
    kill(worker->pid, SIGKILL);
    printf("      ... %s dies before: %s\n", worker->name, worker->next);
}

/*
 * Nobody likes to wait 30 s, and a TTL of some ms could run out too early on a busy
 * machine. So what is left is cut to 1 ms once the bad moment has come; then Redis itself
 * expires it.
 */
void run_out(struct worker *worker)
{
    if (!asks_for("1", "PEXPIRE lock 1"))
        fail("there is no lock that could run out");
    while (!asks_for("0", "EXISTS lock"))
        pause_between_looks();
    printf("      ... the TTL of %s's lock runs out\n", worker->name);
}

void crash_redis(void)
{
    redisReply *reply = redisCommand(directors, "DEBUG CRASH-AND-RECOVER");
    if (reply)
        fail(reply->str ? reply->str : "Redis does not crash");
    redisFree(directors);
    do {
        pause_between_looks();
        directors = try_connect();
    } while (!directors);
    note("Redis crashes and starts again");
}

bool look(const char *want, const char *command)
{
    char answer[ANSWER_MAX];
    take_answer(redisCommand(directors, command), answer);
    show("", command, answer);
    return strcmp(answer, want) == 0;
}

void note(const char *text)
{
    printf("      ... %s\n", text);
}

int stage_close(void)
{
    printf("%d item%s, %d sold\n", shop->items, shop->items == 1 ? "" : "s", shop->sold);
    if (!asks_for("OK", "FLUSHALL"))
        fail("cannot clean up");
    redisFree(directors);
    return shop->sold;
}
