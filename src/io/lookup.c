#include "lookup.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "system.h"

#define SECOND_NS   INT64_C(1000000000)
#define SILENT_NS   SECOND_NS /* a lookup that has run for this long is silent */
#define PROMPT_MAX  16        /* lookups that run and are not silent */
#define RETRIES_MAX 8         /* lookups that run and were silent before */
#define THREADS_MAX 64
#define HALF        (RL_ADDRESSES_MAX / 2) /* of the addresses, for the second family */
#define PAUSE_NS    (5 * SECOND_NS)        /* while a name fails; between two begins */

static const int family[RL_LOOKUP_FAMILIES] = {AF_INET, AF_INET6};

enum lookup_state { IDLE, QUEUED, RUNNING };

/* The lookup of one name and family. */
struct lookup {
    struct rl_name *name;
    int family;
    enum lookup_state state;
    unsigned
        queued; /* the number of the last entry into the queue, of all in the process */
    int64_t silent_at;  /* RUNNING; of monotonic_ns() */
    bool was_silent;    /* the last one */
    int64_t not_before; /* while it fails; of CLOCK_BOOTTIME */
    int error;          /* EAI_..., of the last one */
    unsigned answered;  /* the number of the last answer, of all in the process */
    unsigned count;
    struct rl_address address[RL_ADDRESSES_MAX];
    char reason[RL_LOOKUP_REASON];
};

struct rl_name {
    struct rl_name *next;
    LIST_HEAD(, rl_name_user) users;
    struct lookup lookup[RL_LOOKUP_FAMILIES];
    char host[];
};

/*
 * A forked child has no threads of its parent, and a copy of the table that they may have
 * been changing: it leaves the copy alone, and makes a new one.
 */
struct table {
    unsigned generation; /* of rl_system_fork_generation() */
    struct table *inherited;
    pthread_mutex_t mutex;  /* guards the rest, and each name */
    pthread_cond_t changed; /* a lookup was queued; a free thread waits for it */
    struct rl_name *names;
    unsigned threads, spare; /* all; those that run no lookup */
    unsigned entries, answers;
};

static _Atomic(struct table *) tables;

static void init_locks(struct table *table)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&table->changed, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&table->mutex, NULL);
}

static struct table *get_table(void)
{
    struct table *known = atomic_load(&tables);
    unsigned generation = rl_system_fork_generation();
    if (known && known->generation == generation)
        return known;
    struct table *table = calloc(1, sizeof(*table));
    if (!table)
        return NULL;
    table->generation = generation;
    table->inherited = known;
    init_locks(table);
    if (atomic_compare_exchange_strong(&tables, &known, table))
        return table;
    pthread_cond_destroy(&table->changed);
    pthread_mutex_destroy(&table->mutex);
    free(table);
    return known;
}

/* The caller has used a name since the last fork, so there is a table. */
static struct table *lock_table(void)
{
    struct table *table = atomic_load(&tables);
    pthread_mutex_lock(&table->mutex);
    return table;
}

static int64_t now_ns(void)
{
    return rl_system_clock_ns(CLOCK_BOOTTIME);
}

/* The clock of the threads that wait. */
static int64_t monotonic_ns(void)
{
    return rl_system_clock_ns(CLOCK_MONOTONIC);
}

/* --- the queue --- */

/* The lookups that run. */
struct running {
    unsigned prompt;   /* not silent yet */
    unsigned retries;  /* silent before */
    int64_t silent_at; /* when the first of the prompt ones becomes silent */
};

static void count_running(struct running *running, const struct lookup *lookup, int64_t now)
{
    if (lookup->state != RUNNING)
        return;
    if (lookup->was_silent)
        running->retries++;
    if (now >= lookup->silent_at)
        return;
    running->prompt++;
    if (lookup->silent_at < running->silent_at)
        running->silent_at = lookup->silent_at;
}

static struct running get_running(const struct table *table)
{
    struct running running = {.silent_at = INT64_MAX};
    int64_t now = monotonic_ns();
    for (const struct rl_name *name = table->names; name; name = name->next)
        for (unsigned i = 0; i < RL_LOOKUP_FAMILIES; i++)
            count_running(&running, &name->lookup[i], now);
    return running;
}

static bool is_running(const struct rl_name *name)
{
    return name->lookup[0].state == RUNNING || name->lookup[1].state == RUNNING;
}

/*
 * Names of which no lookup runs come first: a silent name delays them by its first lookup
 * only. The others follow in the order of the queue.
 */
static bool is_before(const struct lookup *a, const struct lookup *b)
{
    if (is_running(a->name) != is_running(b->name))
        return is_running(b->name);
    return a->queued < b->queued;
}

/* The next lookup that may run when there is room; NULL: none. */
static struct lookup *first_queued(const struct table *table, const struct running *running)
{
    struct lookup *first = NULL;
    for (struct rl_name *name = table->names; name; name = name->next)
        for (unsigned i = 0; i < RL_LOOKUP_FAMILIES; i++) {
            struct lookup *lookup = &name->lookup[i];
            bool may_run = lookup->state == QUEUED &&
                           (!lookup->was_silent || running->retries < RETRIES_MAX);
            if (may_run && (!first || is_before(lookup, first)))
                first = lookup;
        }
    return first;
}

/* --- lookups, in threads --- */

static void store_addresses(struct lookup *lookup, const struct addrinfo *list)
{
    lookup->count = 0;
    for (; list && lookup->count < RL_ADDRESSES_MAX; list = list->ai_next) {
        struct rl_address *address = &lookup->address[lookup->count];
        if (list->ai_family != lookup->family)
            continue;
        memcpy(&address->addr, list->ai_addr, list->ai_addrlen);
        address->len = list->ai_addrlen;
        lookup->count++;
    }
}

static bool is_no_such_address(int error)
{
#ifdef EAI_NODATA
    if (error == EAI_NODATA)
        return true;
#endif
    return error == EAI_NONAME;
}

static void store_reason(struct lookup *lookup, int error, int system_error)
{
    lookup->error = error;
    lookup->reason[0] = '\0';
    if (error == EAI_SYSTEM)
        snprintf(lookup->reason, sizeof(lookup->reason), "%s", strerror(system_error));
    else if (error != 0)
        snprintf(lookup->reason, sizeof(lookup->reason), "%s", gai_strerror(error));
}

static void end_lookup(struct lookup *lookup)
{
    static const uint64_t one = 1;
    lookup->state = IDLE;
    const struct rl_name_user *user;
    LIST_FOREACH (user, &lookup->name->users, link)
        (void)!write(user->wake_fd, &one, sizeof(one));
}

static void *run_lookups(void *arg);

/* One for the queue, if it has a lookup for it. Returns 0, or pthread_create()'s error. */
static int provide_thread(struct table *table)
{
    pthread_t thread;
    struct running running = get_running(table);
    if (!first_queued(table, &running))
        return 0;
    if (table->spare > 0 || table->threads == THREADS_MAX) {
        pthread_cond_signal(&table->changed);
        return 0;
    }
    int error = rl_system_start_thread(&thread, "redlock-names", run_lookups, table);
    if (error == 0) {
        pthread_detach(thread);
        table->threads++;
        table->spare++;
    }
    return error;
}

/* The name stays in the table meanwhile. */
static void run_lookup(struct table *table, struct lookup *lookup)
{
    const struct addrinfo hints = {.ai_family = lookup->family, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    int64_t begun = now_ns();
    pthread_mutex_unlock(&table->mutex);
    int error = getaddrinfo(lookup->name->host, NULL, &hints, &list);
    int system_error = errno;
    pthread_mutex_lock(&table->mutex);
    if (error == 0 || is_no_such_address(error))
        store_addresses(lookup, list);
    store_reason(lookup, error, system_error);
    lookup->was_silent = monotonic_ns() >= lookup->silent_at;
    lookup->not_before = error == 0 ? 0 : begun + PAUSE_NS;
    lookup->answered = ++table->answers;
    end_lookup(lookup);
    if (list)
        freeaddrinfo(list);
}

static void wait_until(struct table *table, int64_t ns)
{
    const struct timespec at = {.tv_sec = ns / SECOND_NS, .tv_nsec = ns % SECOND_NS};
    pthread_cond_timedwait(&table->changed, &table->mutex, &at);
}

/* Returns the next lookup when there is room for it. NULL: this thread is not needed. */
static struct lookup *await_lookup(struct table *table)
{
    for (;;) {
        struct running running = get_running(table);
        struct lookup *lookup = first_queued(table, &running);
        if (!lookup || running.prompt < PROMPT_MAX)
            return lookup;
        wait_until(table, running.silent_at);
    }
}

/*
 * Before a thread begins a lookup, it provides one for the rest of the queue: that one is
 * there when there is room, however long the lookups take.
 */
static void *run_lookups(void *arg)
{
    struct table *table = arg;
    struct lookup *lookup;
    pthread_mutex_lock(&table->mutex);
    while ((lookup = await_lookup(table))) {
        table->spare--;
        lookup->state = RUNNING;
        lookup->silent_at = monotonic_ns() + SILENT_NS;
        (void)provide_thread(table);
        run_lookup(table, lookup);
        table->spare++;
    }
    table->spare--;
    table->threads--;
    pthread_mutex_unlock(&table->mutex);
    return NULL;
}

static void enqueue(struct table *table, struct lookup *lookup)
{
    if (lookup->state != IDLE || now_ns() < lookup->not_before)
        return;
    lookup->state = QUEUED;
    lookup->queued = ++table->entries;
}

static void drop_queued(struct lookup *lookup, int error)
{
    if (lookup->state != QUEUED)
        return;
    lookup->state = IDLE;
    store_reason(lookup, EAI_SYSTEM, error);
}

/* --- names --- */

static bool is_needed(const struct rl_name *name, int64_t now)
{
    if (LIST_FIRST(&name->users))
        return true;
    for (unsigned i = 0; i < RL_LOOKUP_FAMILIES; i++)
        if (name->lookup[i].state != IDLE || now < name->lookup[i].not_before)
            return true;
    return false;
}

static void drop_unneeded(struct table *table)
{
    int64_t now = now_ns();
    struct rl_name **at = &table->names;
    while (*at) {
        struct rl_name *name = *at;
        if (is_needed(name, now)) {
            at = &name->next;
            continue;
        }
        *at = name->next;
        free(name);
    }
}

static struct rl_name *add_name(struct table *table, const char *host)
{
    size_t size = strlen(host) + 1;
    drop_unneeded(table);
    struct rl_name *name = calloc(1, sizeof(*name) + size);
    if (!name)
        return NULL;
    memcpy(name->host, host, size);
    for (unsigned i = 0; i < RL_LOOKUP_FAMILIES; i++) {
        name->lookup[i].name = name;
        name->lookup[i].family = family[i];
    }
    name->next = table->names;
    table->names = name;
    return name;
}

static struct rl_name *find_name(const struct table *table, const char *host)
{
    struct rl_name *name = table->names;
    while (name && strcasecmp(name->host, host) != 0)
        name = name->next;
    return name;
}

bool rl_name_use(struct rl_name_user *user, const char *host, int wake_fd)
{
    struct table *table = get_table();
    if (!table)
        return false;
    pthread_mutex_lock(&table->mutex);
    struct rl_name *name = find_name(table, host);
    if (!name)
        name = add_name(table, host);
    if (name) {
        user->name = name;
        user->wake_fd = wake_fd;
        LIST_INSERT_HEAD(&name->users, user, link);
    }
    pthread_mutex_unlock(&table->mutex);
    return name != NULL;
}

void rl_name_leave(struct rl_name_user *user)
{
    struct table *table = lock_table();
    LIST_REMOVE(user, link);
    pthread_mutex_unlock(&table->mutex);
}

void rl_name_look_up(const struct rl_name_user *user)
{
    struct table *table = lock_table();
    for (unsigned i = 0; i < RL_LOOKUP_FAMILIES; i++)
        enqueue(table, &user->name->lookup[i]);
    int error = provide_thread(table);
    bool is_lost = error != 0 && table->threads == 0;
    for (unsigned i = 0; is_lost && i < RL_LOOKUP_FAMILIES; i++)
        drop_queued(&user->name->lookup[i], error);
    pthread_mutex_unlock(&table->mutex);
}

/* --- what is known --- */

static bool is_fresh(const struct lookup *lookup)
{
    return lookup->state == IDLE && lookup->error == 0;
}

static void add_addresses(struct rl_addresses *answer, const struct lookup *lookup,
                          unsigned most)
{
    unsigned count = lookup->count < most ? lookup->count : most;
    memcpy(&answer->address[answer->count], lookup->address,
           count * sizeof(lookup->address[0]));
    answer->count += count;
}

void rl_name_read(const struct rl_name_user *user, struct rl_addresses *ret_addresses)
{
    struct table *table = lock_table();
    const struct lookup *first = &user->name->lookup[0], *second = &user->name->lookup[1];
    /* "It has no address of this family" explains less than any other failure. */
    bool other = second->error != 0 && !is_no_such_address(second->error);
    const struct lookup *failed =
        other && is_no_such_address(first->error) ? second : first;
    if (is_fresh(second) && (!is_fresh(first) || second->answered < first->answered)) {
        second = first;
        first = &user->name->lookup[1];
    }
    ret_addresses->is_whole = first->state == IDLE && second->state == IDLE;
    ret_addresses->is_running = is_running(user->name);
    ret_addresses->count = 0;
    unsigned room = second->count < HALF ? second->count : HALF;
    add_addresses(ret_addresses, first, RL_ADDRESSES_MAX - room);
    add_addresses(ret_addresses, second, RL_ADDRESSES_MAX - ret_addresses->count);
    memcpy(ret_addresses->reason, failed->reason, sizeof(ret_addresses->reason));
    pthread_mutex_unlock(&table->mutex);
}
