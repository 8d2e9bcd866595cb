/* What a steward has to be said to the nodes: who is seated, told, lifted, looked at. */
#include "steward_parts.h"

/* Another node has that seat, or is about to. */
static bool is_taken(const struct rl_steward *steward, unsigned node, unsigned seat)
{
    for (unsigned i = 0; i < steward->terms.n; i++) {
        const struct rl_ward *ward = &steward->ward[i];
        bool has_it = ward->standing >= RL_STANDING_FOREIGN && ward->marker.seat == seat;
        if (i != node && (has_it || (ward->claims && ward->claimed == seat)))
            return true;
    }
    return false;
}

/* The lowest seat that no other node has; n: there is none. */
static unsigned free_seat(const struct rl_steward *steward, unsigned node)
{
    unsigned seat = 0;
    while (seat < steward->terms.n && is_taken(steward, node, seat))
        seat++;
    return seat;
}

bool rl_ward_is_lost(const struct rl_ward *ward)
{
    bool is_other = !rl_same_process(&ward->marker.process, &ward->process);
    switch (ward->standing) {
    case RL_STANDING_UNMARKED:
    case RL_STANDING_FOREIGN: return true;
    case RL_STANDING_REPLACED: return is_other || !ward->marker.sound;
    default: return false;
    }
}

/* An operator vouches that the nodes are the right ones: then all have to be seen. */
static unsigned seat_by_operator(const struct rl_steward *steward, unsigned node)
{
    const struct rl_ward *ward = &steward->ward[node];
    bool is_newcomer = steward->admission == RL_ADMIT_REPLACE &&
                       node == steward->newcomer && ward->standing == RL_STANDING_UNMARKED;
    bool is_wanted = steward->admission == RL_ADMIT_WAIT && rl_ward_is_lost(ward);
    if ((!is_newcomer && !is_wanted) || rl_steward_standing(steward, RL_STANDS(UNSEEN)))
        return steward->terms.n;
    if (ward->marked && !is_taken(steward, node, ward->marker.seat))
        return ward->marker.seat;
    return free_seat(steward, node);
}

/*
 * The seat that this node is to get anew; n: none. Whoever connects to an empty server may
 * have mistaken the address: so only the address that had the seat last, as we saw, gets it
 * back without being asked for.
 */
static unsigned seat_for(const struct rl_steward *steward, unsigned node, rl_time now)
{
    const struct rl_ward *ward = &steward->ward[node];
    switch (ward->standing) {
    case RL_STANDING_CLOCK:
        return now < ward->off_at + RL_CLOCK_PAUSE ? steward->terms.n : ward->marker.seat;
    case RL_STANDING_UNMARKED:
    case RL_STANDING_REPLACED:
    case RL_STANDING_FOREIGN: break;
    default: return steward->terms.n;
    }
    if (ward->last.generation > 0 && !is_taken(steward, node, ward->seat) &&
        rl_same_incarnation(ward->last, steward->roster.seat[ward->seat]))
        return ward->seat;
    return seat_by_operator(steward, node);
}

static bool order_write(struct rl_steward *steward, unsigned node, bool sound,
                        unsigned seat, uint64_t nonce, struct rl_steward_order *order)
{
    struct rl_ward *ward = &steward->ward[node];
    *order = (struct rl_steward_order){
        .node = (uint8_t)node,
        .write = true,
        .wanted =
            {
                .nonce = nonce,
                .sound = sound,
                .seat = (uint8_t)seat,
                .process = ward->process,
                .roster = steward->roster,
            },
    };
    ward->owed = true;
    ward->nonce = nonce; /* what is said from now on comes after this */
    return true;
}

static bool order_seat(struct rl_steward *steward, unsigned node, unsigned seat,
                       const uint64_t random[2], struct rl_steward_order *order)
{
    struct rl_ward *ward = &steward->ward[node];
    order_write(steward, node, false, seat, random[0], order);
    ward->claims = true;
    ward->claimed = (uint8_t)seat;
    struct rl_incarnation *self = &order->wanted.roster.seat[seat];
    *self = (struct rl_incarnation){self->generation + 1, random[1]};
    return true;
}

/* Someone in quarantine is not known there yet. */
static bool has_to_learn(const struct rl_steward *steward, unsigned node)
{
    const struct rl_ward *ward = &steward->ward[node];
    if (ward->standing != RL_STANDING_SOUND &&
        !(ward->standing == RL_STANDING_BARRED && rl_steward_is_recovering(steward)))
        return false;
    for (rl_nodes rest = rl_steward_standing(steward, RL_STANDS(BARRED)); rest;
         rest &= rest - 1) {
        unsigned i = rl_first(rest);
        if (i != node && !(rl_steward_knowing(steward, i) & rl_bit(node)))
            return true;
    }
    return false;
}

static bool order_look(struct rl_steward *steward, unsigned node, rl_time now,
                       struct rl_steward_order *order)
{
    struct rl_ward *ward = &steward->ward[node];
    if (now < ward->look_at)
        return false;
    bool history = ward->unconfirmed || ward->standing == RL_STANDING_SOUND;
    *order = (struct rl_steward_order){.node = (uint8_t)node, .history = history};
    ward->owed = true;
    ward->confirming |= history;
    return true;
}

/* Its quarantine has passed; or all are founded, and none is needed. */
static bool is_to_be_lifted(const struct rl_steward *steward, const struct rl_ward *ward,
                            rl_time now)
{
    bool at_once = steward->admission == RL_ADMIT_AT_ONCE && !steward->outrun &&
                   !steward->founding && rl_marker_self(&ward->marker).generation == 1;
    rl_time until = rl_later(ward->watch.since, rl_steward_quarantine(steward));
    return ward->standing == RL_STANDING_BARRED && (at_once || now >= until);
}

static bool order_for(struct rl_steward *steward, unsigned node, rl_time now,
                      const uint64_t random[2], struct rl_steward_order *order)
{
    struct rl_ward *ward = &steward->ward[node];
    if ((steward->founding | steward->undoing) & rl_bit(node)) {
        order_write(steward, node, false, node, random[0], order);
        order->erase = steward->undoing;
        return true;
    }
    bool leave = !steward->roster.deployment || steward->undoing; /* gone is to stay gone */
    if (leave || ward->unconfirmed)
        return order_look(steward, node, now, order);
    unsigned seat = seat_for(steward, node, now);
    if (seat < steward->terms.n)
        return order_seat(steward, node, seat, random, order);
    bool lift = is_to_be_lifted(steward, ward, now);
    if (lift || has_to_learn(steward, node))
        return order_write(steward, node, lift || ward->marker.sound, ward->marker.seat,
                           random[0], order);
    return order_look(steward, node, now, order);
}

bool rl_steward_order(struct rl_steward *steward, rl_time now, const uint64_t random[2],
                      struct rl_steward_order *ret_order)
{
    if (!steward->active)
        return false;
    rl_steward_doubt(steward, now);
    for (unsigned i = 0; i < steward->terms.n; i++) {
        const struct rl_ward *ward = &steward->ward[i];
        if (ward->greeted && !ward->owed && now >= ward->rest_until &&
            order_for(steward, i, now, random, ret_order))
            return true;
    }
    return false;
}

rl_time rl_steward_next(const struct rl_steward *steward)
{
    rl_time first = RL_NEVER;
    for (unsigned i = 0; i < steward->terms.n && steward->active; i++) {
        const struct rl_ward *ward = &steward->ward[i];
        rl_time next = ward->look_at;
        if (!ward->greeted || ward->owed)
            continue;
        if (ward->standing == RL_STANDING_BARRED)
            next =
                rl_min(next, rl_later(ward->watch.since, rl_steward_quarantine(steward)));
        if (ward->standing == RL_STANDING_CLOCK)
            next = rl_min(next, rl_later(ward->off_at, RL_CLOCK_PAUSE));
        first = rl_min(first, rl_max(next, ward->rest_until));
    }
    return first;
}
