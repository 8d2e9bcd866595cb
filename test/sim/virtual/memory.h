/*
 * The memory of the product in a simulated process. Its sources are compiled so that they
 * allocate here: an allocation can be made to fail, and what is never freed is counted.
 */
#ifndef SIM_MEMORY_H
#define SIM_MEMORY_H

#include <stddef.h>

void *sim_malloc(size_t size);
void *sim_calloc(size_t count, size_t size);
void *sim_realloc(void *old, size_t size);
char *sim_strdup(const char *text);
char *sim_strndup(const char *text, size_t len);
/* libevent's, whose result the caller frees. */
char *sim_evhttp_uridecode(const char *text, int plus, size_t *ret_len);

void sim_free(void *memory);

#endif
