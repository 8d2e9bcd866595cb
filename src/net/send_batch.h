/*
 * The send batch: the encoded commands of one loop iteration, shared by all nodes. A
 * command for several nodes is stored once. Each connection writes its segment from here
 * and copies only what its socket does not accept. So the batch is empty again after the
 * iteration.
 */
#ifndef RL_SEND_BATCH_H
#define RL_SEND_BATCH_H

#include "core/types.h"

#define RL_SEND_BATCH_KEPT (256 * 1024) /* bytes; clearing frees a larger buffer */

struct rl_send_batch {
    char *bytes;
    size_t len, room;
};

/* The bytes from `at` up to `end`, exclusive. Offsets, because the buffer moves as it
 * grows. */
struct rl_segment {
    size_t at, end;
};

/* Appends bytes, or the encoded command, and returns its segment. False: no memory. */
bool rl_send_batch_add(struct rl_send_batch *batch, const char *bytes, size_t len,
                       struct rl_segment *ret_segment);
bool rl_send_batch_add_argv(struct rl_send_batch *batch, const struct rl_word *word,
                            size_t words, struct rl_segment *ret_segment);

/* Empties the batch. No connection may still have a segment of it. */
void rl_send_batch_clear(struct rl_send_batch *batch);
void rl_send_batch_free(struct rl_send_batch *batch);

#endif
