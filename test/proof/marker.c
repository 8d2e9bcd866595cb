/* Any bytes that a node stores as its marker are read within their bounds (safety.md, The
   marker): each part of the reader, from any position in any text. A solver does not get
   through all parts at once; fuzzing has whole markers. */
#include "core/marker.c"

#include <stdlib.h>

#include "proof.h"

#define TEXT_MOST 48 /* more than the longest part */

static const char *begin;

static struct reader any_reader(void)
{
    size_t len = nondet_size(), at = nondet_size();
    assume(len <= TEXT_MOST && at <= len);
    char *bytes = malloc(len);
    assume(bytes != NULL);
    begin = bytes;
    return (struct reader){bytes + at, bytes + len, nondet_bool()};
}

static void check(const struct reader *reader)
{
    assert(reader->at >= begin && reader->at <= reader->end);
}

/* cbmc: --unwind 50 */
void proof_marker_ids_are_read_within_their_text(void)
{
    struct reader reader = any_reader();
    take_id(&reader);
    check(&reader);
}

/* cbmc: --unwind 50 */
void proof_marker_numbers_are_read_within_their_text(void)
{
    struct reader reader = any_reader();
    uint64_t most = nondet_bool() ? UINT32_MAX : INT64_MAX / RL_SECOND;
    assert(take_number(&reader, most) <= most);
    check(&reader);
}

/* cbmc: --unwind 50 */
void proof_marker_words_are_read_within_their_text(void)
{
    struct reader reader = any_reader();
    struct rl_marker marker;
    take_char(&reader, ' ');
    take_state(&reader, &marker);
    check(&reader);
}

/* cbmc: --unwind 50 */
void proof_marker_run_ids_are_read_within_their_text(void)
{
    struct reader reader = any_reader();
    char run_id[RL_RUN_ID + 1];
    take_run_id(&reader, run_id);
    check(&reader);
}
