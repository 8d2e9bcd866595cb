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

#define THREADS_MAX 16
#define HALF        (RL_ADDRESSES_MAX / 2)    /* of the addresses, for the second family */
#define PAUSE_NS    (5 * INT64_C(1000000000)) /* while a name fails; between two begins */

static const int family[RL_LOOKUP_FAMILIES] = {AF_INET, AF_INET6};

enum lookup_state { IDLE, QUEUED, RUNNING };

/* The lookup of one name and family. */
struct lookup {
    struct rl_name *name;
    int family;
    enum lookup_state state;
    struct lookup *next; /* QUEUED */
    int64_t not_before;  /* while it fails; of CLOCK_BOOTTIME */
    int error;           /* EAI_..., of the last one */
    unsigned answered;   /* the number of the last answer, of all in the process */
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
    pthread_mutex_t mutex; /* guards the rest, and each name */
    struct rl_name *names;
    struct lookup *queue, **queue_end;
    unsigned threads, answers;
};

static _Atomic(struct table *) tables;

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
    table->queue_end = &table->queue;
    pthread_mutex_init(&table->mutex, NULL);
    if (atomic_compare_exchange_strong(&tables, &known, table))
        return table;
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

/* The name stays in the table meanwhile. */
static void run_lookup(struct table *table, struct lookup *lookup)
{
    const struct addrinfo hints = {.ai_family = lookup->family, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    int64_t begun = now_ns();
    lookup->state = RUNNING;
    pthread_mutex_unlock(&table->mutex);
    int error = getaddrinfo(lookup->name->host, NULL, &hints, &list);
    int system_error = errno;
    pthread_mutex_lock(&table->mutex);
    if (error == 0 || is_no_such_address(error))
        store_addresses(lookup, list);
    store_reason(lookup, error, system_error);
    lookup->not_before = error == 0 ? 0 : begun + PAUSE_NS;
    lookup->answered = ++table->answers;
    end_lookup(lookup);
    if (list)
        freeaddrinfo(list);
}

static struct lookup *take_queued(struct table *table)
{
    struct lookup *lookup = table->queue;
    if (!lookup)
        return NULL;
    table->queue = lookup->next;
    if (!table->queue)
        table->queue_end = &table->queue;
    return lookup;
}

static void *run_lookups(void *arg)
{
    struct table *table = arg;
    struct lookup *lookup;
    pthread_mutex_lock(&table->mutex);
    while ((lookup = take_queued(table)))
        run_lookup(table, lookup);
    table->threads--;
    pthread_mutex_unlock(&table->mutex);
    return NULL;
}

/* Returns 0, or the error number of pthread_create(). */
static int start_thread(struct table *table)
{
    pthread_t thread;
    int error = rl_system_start_thread(&thread, "redlock-names", run_lookups, table);
    if (error == 0) {
        pthread_detach(thread);
        table->threads++;
    }
    return error;
}

static void begin_lookup(struct table *table, struct lookup *lookup)
{
    if (lookup->state != IDLE || now_ns() < lookup->not_before)
        return;
    int error = table->threads < THREADS_MAX ? start_thread(table) : 0;
    if (error != 0) {
        store_reason(lookup, EAI_SYSTEM, error);
        return;
    }
    lookup->state = QUEUED;
    lookup->next = NULL;
    *table->queue_end = lookup;
    table->queue_end = &lookup->next;
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
        begin_lookup(table, &user->name->lookup[i]);
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
    ret_addresses->count = 0;
    unsigned room = second->count < HALF ? second->count : HALF;
    add_addresses(ret_addresses, first, RL_ADDRESSES_MAX - room);
    add_addresses(ret_addresses, second, RL_ADDRESSES_MAX - ret_addresses->count);
    memcpy(ret_addresses->reason, failed->reason, sizeof(ret_addresses->reason));
    pthread_mutex_unlock(&table->mutex);
}
