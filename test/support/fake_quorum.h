/* A client of three nodes: a fake server and two real ones. */
#ifndef TEST_FAKE_QUORUM_H
#define TEST_FAKE_QUORUM_H

#include "fake.h"
#include "quorum.h"

#define FAKE 0 /* the first of the nodes */

struct fake_quorum {
    struct quorum s; /* the servers are the real ones */
    struct fake fake;
};

void fake_quorum_open_with(struct fake_quorum *f, const struct fake_line *script,
                           const redlock_options *options);

/* Also runs until the three nodes are ready. */
void fake_quorum_open(struct fake_quorum *f, const struct fake_line *script);

/* Runs until the three nodes are ready. */
void fake_quorum_await_ready(struct fake_quorum *f);

/* Waits until the real servers are empty. */
void fake_quorum_close(struct fake_quorum *f);

#endif
