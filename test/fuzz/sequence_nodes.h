/*
 * The nodes of a sequence: simulated servers, whose next replies the input may replace, and
 * what they have granted.
 */
#ifndef TEST_FUZZ_SEQUENCE_NODES_H
#define TEST_FUZZ_SEQUENCE_NODES_H

#include "sim/virtual/node.h"

#define NODES_MAX  5
#define TOKENS_MAX 128

struct nodes {
    struct node node[NODES_MAX];
    unsigned n;
    rl_node_set liars; /* their replies were replaced: they may have granted anything */
    bool may_overlap;  /* two may hold a lock: one was forgotten, deleted or made up */
    bool is_full;      /* further tokens are not known */
};

extern struct nodes nodes;

void nodes_begin(unsigned n);
void nodes_end(void);

/* The next command that has no such reply yet gets these bytes instead of its reply;
 * `executed`: the node executes it. */
void nodes_script(unsigned index, const char *reply, size_t len, bool executed);

/* The nodes that may have granted a command with this token. */
rl_node_set nodes_granted(const char *token);

#endif
