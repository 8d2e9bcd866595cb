/* Which nodes store the token of each lock, at one time. */
#ifndef CLI_LOOK_H
#define CLI_LOOK_H

#include "cli.h"

/* A token that a quorum stores, with its key. */
struct stored {
    uint64_t id;
    uint32_t lacking; /* nodes that do not store it; LACKING_SOME: it is not known which */
};

#define LACKING_SOME UINT32_MAX

/* The key of a shared lock. */
struct shared_key {
    char name[REDLOCK_KEY_MAX];
    size_t len;
};

struct look {
    struct stored *stored; /* sorted by their ids */
    size_t count, room;
    int64_t remaining_ms; /* the longest TTL; not of records, which nobody extends */
    int64_t began, ended; /* us; 0: no look was taken */
    redlock_code code;    /* of the list */
    bool is_whole;        /* for the caller: all nodes are fit, so nothing is missing */
    bool done, ends;      /* the caller may set both: then the look is of no use */
    struct shared_key *shared;
    size_t shared_count, shared_room;
};

/*
 * Makes the command's client anew, so that it shows the present state of each node's marker
 * afterwards. Reuses the memory of an earlier look. The look must live as long as the
 * client.
 */
void look_take(struct look *look, struct cli *cli);
void look_free(struct look *look);

/* NULL: no quorum stored it then. */
const struct stored *look_find(const struct look *look, uint64_t id);

/* Some node lacked some token. */
bool look_shows_gaps(const struct look *look);

#endif
