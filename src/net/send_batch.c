#include "send_batch.h"

#include <stdlib.h>
#include <string.h>

#include "resp.h"

#define ROOM 4096

static bool grow(struct rl_send_batch *batch, size_t len)
{
    size_t room = batch->room ? batch->room : ROOM;
    while (room < batch->len + len)
        room *= 2;
    char *bytes = realloc(batch->bytes, room);
    if (!bytes)
        return false;
    batch->bytes = bytes;
    batch->room = room;
    return true;
}

static bool reserve(struct rl_send_batch *batch, size_t len, struct rl_segment *ret_segment)
{
    if (batch->len + len > batch->room && !grow(batch, len))
        return false;
    *ret_segment = (struct rl_segment){batch->len, batch->len + len};
    batch->len += len;
    return true;
}

bool rl_send_batch_add(struct rl_send_batch *batch, const char *bytes, size_t len,
                       struct rl_segment *ret_segment)
{
    if (!reserve(batch, len, ret_segment))
        return false;
    memcpy(batch->bytes + ret_segment->at, bytes, len);
    return true;
}

bool rl_send_batch_add_argv(struct rl_send_batch *batch, const struct rl_word *word,
                            size_t words, struct rl_segment *ret_segment)
{
    if (!reserve(batch, rl_resp_size(word, words), ret_segment))
        return false;
    rl_resp_write(word, words, batch->bytes + ret_segment->at);
    return true;
}

void rl_send_batch_clear(struct rl_send_batch *batch)
{
    batch->len = 0;
    if (batch->room > RL_SEND_BATCH_KEPT)
        rl_send_batch_free(batch);
}

void rl_send_batch_free(struct rl_send_batch *batch)
{
    free(batch->bytes);
    *batch = (struct rl_send_batch){0};
}
