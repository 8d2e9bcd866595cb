#include "memory.h"

#include <errno.h>
#include <event2/http.h>
#include <stdlib.h>
#include <string.h>

#include "process.h"

static bool fails(void)
{
    struct process *process = process_now();
    if (!process_may_fail(process, process->faults.no_memory))
        return false;
    process->failed_allocations++;
    errno = ENOMEM;
    return true;
}

static void *counted(void *memory)
{
    if (!memory)
        abort();
    process_now()->blocks++;
    return memory;
}

void *sim_malloc(size_t size)
{
    return fails() ? NULL : counted(malloc(size ? size : 1));
}

void *sim_calloc(size_t count, size_t size)
{
    return fails() ? NULL : counted(calloc(count ? count : 1, size));
}

void *sim_realloc(void *old, size_t size)
{
    if (!old)
        return sim_malloc(size);
    void *memory = fails() ? NULL : realloc(old, size);
    return memory;
}

char *sim_strdup(const char *text)
{
    return fails() ? NULL : counted(strdup(text));
}

char *sim_strndup(const char *text, size_t len)
{
    return fails() ? NULL : counted(strndup(text, len));
}

char *sim_evhttp_uridecode(const char *text, int plus, size_t *ret_len)
{
    return fails() ? NULL : counted(evhttp_uridecode(text, plus, ret_len));
}

void sim_free(void *memory)
{
    process_now()->blocks -= memory != NULL;
    free(memory);
}
