/* Parts of the oracle's account that clients, servers and tokens share. */
#ifndef SIM_SEAL_H
#define SIM_SEAL_H

#include "plan.h"

/* Whose a server's vote was: parts of the marker that it had when it voted. */
struct seal {
    uint64_t deployment, id;
    uint32_t generation; /* 0: it had none */
    uint8_t index;
    bool is_active;
    bool is_own; /* it named the server's process, or the server keeps its data */
};

/* A node's clock may seem to have changed in between: as `sent` of struct sample. */
struct changed {
    int64_t from, to;
    int64_t at; /* when the client was told; true time; 0: never */
};
#define CHANGED_MAX 4

/* A node's last report of its clock to a client. ns, but `told`: us. */
struct sample {
    bool is_known;
    unsigned server;
    uint32_t process, history; /* of another one nothing is known yet */
    uint32_t clock_changes;    /* of its rate, or steps, before it told that */
    int64_t told, sent, heard; /* sent, heard: by the client's unslewed clock */
    int64_t low, high;         /* bounds of how far it was ahead, by all that it told */
    int64_t at;                /* when the client read it; true time */
    bool is_disturbed;     /* since then: nonsense was read, or the machine was suspended */
    int64_t first_at;      /* when this process told its time first; true time */
    int64_t agreed;        /* when the client asked for a quick reply last; as `sent` */
    int64_t agreed_at;     /* the same; true time */
    bool is_doubted;       /* it told what seemed wrong, and may have no vote for that */
    int64_t doubted_until; /* true time */
    int64_t fault_at;      /* when it told what may seem wrong; true time; 0: never */
    int64_t fault_since;   /* the last quick reply before was asked for; true time */
    struct changed changed[CHANGED_MAX]; /* the latest last */
    int64_t seen_from; /* what was seen then may have happened since; as `sent` */
    int64_t seen_at;   /* when it told that it had been set ahead, or ran too fast ... */
    bool is_further;   /* ... in a reply that was read together with an earlier one */
    struct seal seal;  /* of which incarnation it was then */
};

#endif
