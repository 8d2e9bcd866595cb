#include "alloc_faults.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

/*
 * Called before AddressSanitizer is ready, and it instruments atomics unless told
 * otherwise.
 */
#define EARLY __attribute__((no_sanitize_address))

static struct {
    size_t after, count;
    atomic_size_t asked, failed; /* by any thread */
    atomic_bool on;
    atomic_long live;
    struct {
        atomic_ulong malloc, calloc, realloc, free;
    } calls;
} state;

/* The allocator that is used without this file. */
static struct {
    void *(*malloc)(size_t);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    void (*free)(void *);
    bool resolving;
} next;

/* Serves allocations while the real allocator is looked up. */
static _Alignas(16) char early[4096];
static size_t early_used;

static void *allocate_early(size_t size)
{
    size = (size + 15) & ~(size_t)15;
    if (size > sizeof(early) - early_used)
        return NULL;
    void *block = early + early_used;
    early_used += size;
    return block;
}

static bool is_early(const void *block)
{
    uintptr_t at = (uintptr_t)block, begin = (uintptr_t)early;
    return at >= begin && at < begin + sizeof(early);
}

static bool resolve(void)
{
    if (next.free)
        return true;
    if (next.resolving)
        return false;
    next.resolving = true;
    *(void **)&next.malloc = dlsym(RTLD_NEXT, "malloc");
    *(void **)&next.calloc = dlsym(RTLD_NEXT, "calloc");
    *(void **)&next.realloc = dlsym(RTLD_NEXT, "realloc");
    *(void **)&next.free = dlsym(RTLD_NEXT, "free");
    next.resolving = false;
    return next.free != NULL;
}

EARLY static bool runs_out(void)
{
    if (!state.on)
        return false;
    size_t number = atomic_fetch_add(&state.asked, 1);
    if (number < state.after || number - state.after >= state.count)
        return false;
    state.failed++;
    errno = ENOMEM;
    return true;
}

EARLY void *malloc(size_t size)
{
    if (!resolve())
        return allocate_early(size);
    state.calls.malloc++;
    void *block = runs_out() ? NULL : next.malloc(size);
    state.live += block != NULL;
    return block;
}

EARLY void *calloc(size_t count, size_t size)
{
    if (!resolve())
        return allocate_early(count * size);
    state.calls.calloc++;
    void *block = runs_out() ? NULL : next.calloc(count, size);
    state.live += block != NULL;
    return block;
}

EARLY void *realloc(void *block, size_t size)
{
    if (!resolve() || is_early(block))
        return NULL;
    state.calls.realloc++;
    if (runs_out())
        return NULL;
    void *moved = next.realloc(block, size);
    state.live += !block && moved;
    return moved;
}

EARLY void free(void *block)
{
    if (!block || is_early(block) || !resolve())
        return;
    state.calls.free++;
    state.live--;
    next.free(block);
}

/* These replace the sanitizers' own, which would not call the allocator above. */
char *strndup(const char *text, size_t size)
{
    size_t len = strnlen(text, size);
    char *copy = malloc(len + 1);
    if (!copy)
        return NULL;
    copy[len] = '\0';
    return memcpy(copy, text, len);
}

char *strdup(const char *text)
{
    return strndup(text, strlen(text));
}

void alloc_faults_begin(size_t after, size_t count)
{
    state.after = after;
    state.count = count;
    state.asked = state.failed = 0;
}

void alloc_faults_enter(void)
{
    state.on = true;
}

void alloc_faults_leave(void)
{
    state.on = false;
}

bool alloc_faults_end(void)
{
    bool failed = state.failed > 0;
    state.on = false;
    state.after = state.count = 0;
    state.asked = state.failed = 0;
    return failed;
}

struct alloc_faults_calls alloc_faults_calls(void)
{
    return (struct alloc_faults_calls){state.calls.malloc, state.calls.calloc,
                                       state.calls.realloc, state.calls.free};
}

long alloc_faults_live(void)
{
    return state.live;
}
