#include "turn.h"

#include <assert.h>

void rl_turn_try(struct rl_turn *turn)
{
    *turn = (struct rl_turn){0};
}

void rl_turn_place(struct rl_turn *turn, unsigned node)
{
    turn->placed |= rl_bit(node);
}

void rl_turn_lose(struct rl_turn *turn, unsigned node)
{
    turn->placed &= ~rl_bit(node);
}

rl_time rl_turn_call(struct rl_turn *turn, unsigned q, unsigned node, unsigned rank,
                     rl_time now, rl_time grace)
{
    assert(rank <= RL_TURN_SECOND);
    turn->called |= rl_bit(node);
    if (rank == RL_TURN_FIRST)
        turn->first |= rl_bit(node);
    if (rl_count(turn->first) >= q)
        return now;
    bool is_second = rl_count(turn->called) >= q;
    return rl_later(now, is_second ? grace : rl_later(grace, grace));
}

bool rl_turn_is_placed(const struct rl_turn *turn, unsigned q)
{
    return rl_count(turn->placed) >= q;
}
