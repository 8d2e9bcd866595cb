/*
 * A history: who held which keys, and when, read from logs (docs/verify.md). All times are
 * us of one clock.
 */
#ifndef CLI_HISTORY_H
#define CLI_HISTORY_H

#include "cli.h"

struct history_key {
    char *name;
    size_t index;
};

/* One acquisition. */
struct history_hold {
    char *holder;
    int64_t since, until; /* until: released, or the last deadline, whichever came first */
    bool released;
    bool shared;
    unsigned slots;    /* at most so many hold at once; 0: it is no slot */
    size_t *key, keys; /* numbers of keys */
    const char *file;  /* where it is: */
    size_t line;
};

struct history {
    struct history_hold **hold;
    size_t holds, room;
    size_t keys;
    const char **key;         /* by number */
    size_t late;              /* extensions that came after the deadline */
    void *by_holder, *by_key; /* trees of tsearch(3) */
};

/* Reads a log; "-": stdin. Ends the process with CLI_DATA or CLI_NO_INPUT if it cannot. */
void history_read(struct history *history, const char *path);

#endif
