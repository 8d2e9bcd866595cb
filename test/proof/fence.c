/* Fences: the median that one wrong clock cannot move beyond the others, and several fences
   at once (safety.md, The token). */
#include "core/fence.h"

#include "proof.h"

#define N 5

/* cbmc: --unwind 6 */
void proof_median_lies_between_the_others(void)
{
    struct rl_node_time time[N];
    unsigned known = 0;
    for (unsigned i = 0; i < N; i++) {
        time[i].ahead = nondet_i64();
        time[i].known = nondet_bool();
        known += time[i].known;
    }
    unsigned middle = rl_node_time_middle(time, N);
    assert((middle == N) == (known == 0));
    if (known == 0)
        return;
    assert(middle < N && time[middle].known);
    unsigned at_most = 0, at_least = 0;
    for (unsigned i = 0; i < N; i++) {
        at_most += time[i].known && time[i].ahead <= time[middle].ahead;
        at_least += time[i].known && time[i].ahead >= time[middle].ahead;
    }
    assert(at_most >= (known + 1) / 2 && at_least >= known / 2 + 1);
}

/* cbmc: --unwind 2 */
void proof_first_and_last_are_inverse(void)
{
    int64_t first = nondet_i64();
    unsigned fences = nondet_unsigned();
    assume(fences >= 1 && first >= 1 && first <= INT64_MAX - (int64_t)fences);
    int64_t last = rl_fence_last(first, fences);
    assert(last >= first && rl_fence_first(last, fences) == first);
}
