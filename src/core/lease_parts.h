/* Internal functions of the lease machine, shared by the lease*.c files. */
#ifndef RL_LEASE_PARTS_H
#define RL_LEASE_PARTS_H

#include "lease.h"

/* --- lease_round.c --- */

rl_time rl_lease_least_validity(const struct rl_lease *lease);
rl_time rl_lease_lost_at(const struct rl_lease *lease);
rl_time rl_lease_valid_until(const struct rl_lease *lease, rl_time start);
rl_time rl_lease_extend_at(const struct rl_lease *lease, rl_time start);
void rl_lease_begin_round(struct rl_lease *lease, const struct rl_view *view,
                          enum rl_command command, rl_node_set ask,
                          struct rl_update *update);
void rl_lease_begin_vote(struct rl_lease *lease, const struct rl_view *view,
                         enum rl_command command, struct rl_update *update);
rl_time rl_lease_due(const struct rl_lease *lease, const struct rl_view *view,
                     unsigned node);
void rl_lease_note_ballot(struct rl_lease *lease, const struct rl_lease_event *event);
void rl_lease_note_missing(struct rl_lease *lease, const struct rl_lease_event *event);

/* --- lease_acquire.c --- */

void rl_lease_report_failed(struct rl_lease *lease, const struct rl_view *view,
                            struct rl_update *update);
void rl_lease_abort(struct rl_lease *lease, const struct rl_view *view, enum rl_cause cause,
                    struct rl_update *update);
void rl_lease_decide_acquire(struct rl_lease *lease, const struct rl_view *view,
                             struct rl_update *update);
void rl_lease_start(struct rl_lease *lease, const struct rl_view *view,
                    struct rl_update *update);
void rl_lease_enqueue(struct rl_lease *lease, const struct rl_view *view,
                      struct rl_update *update);
void rl_lease_acquire_vote(struct rl_lease *lease, const struct rl_view *view,
                           const struct rl_lease_event *event, struct rl_update *update);
void rl_lease_raise_vote(struct rl_lease *lease, const struct rl_view *view,
                         const struct rl_lease_event *event, struct rl_update *update);

/* --- lease_hold.c --- */

bool rl_lease_round_is_over(const struct rl_lease *lease);
void rl_lease_lose(struct rl_lease *lease, enum rl_cause cause, struct rl_update *update);
void rl_lease_begin_extend(struct rl_lease *lease, const struct rl_view *view,
                           struct rl_update *update);
bool rl_lease_quorum_is_gone(const struct rl_lease *lease);
void rl_lease_lose_quorum(struct rl_lease *lease, struct rl_update *update);
void rl_lease_note_late(struct rl_lease *lease, const struct rl_lease_event *event,
                        struct rl_update *update);
void rl_lease_repair(struct rl_lease *lease, const struct rl_view *view, unsigned node,
                     struct rl_update *update);
void rl_lease_decide_extend(struct rl_lease *lease, const struct rl_view *view,
                            struct rl_update *update);
void rl_lease_disown(struct rl_lease *lease, struct rl_update *update);
void rl_lease_node_restarted(struct rl_lease *lease, const struct rl_view *view,
                             unsigned node, struct rl_update *update);
void rl_lease_extend_vote(struct rl_lease *lease, const struct rl_view *view,
                          const struct rl_lease_event *event, struct rl_update *update);
bool rl_lease_extension_is_due(const struct rl_lease *lease, rl_time now);
void rl_lease_adopt(struct rl_lease *lease, const struct rl_view *view,
                    const struct rl_lease_event *event);

/* --- lease_release.c --- */

void rl_lease_begin_release(struct rl_lease *lease, const struct rl_view *view,
                            struct rl_update *update);
void rl_lease_begin_cleanup(struct rl_lease *lease, rl_time now);
void rl_lease_decide_release(struct rl_lease *lease, const struct rl_view *view,
                             struct rl_update *update);
void rl_lease_release(struct rl_lease *lease, const struct rl_view *view,
                      struct rl_update *update);
void rl_lease_release_again(struct rl_lease *lease, const struct rl_view *view,
                            rl_node_set where, struct rl_update *update);
void rl_lease_release_vote(struct rl_lease *lease, const struct rl_view *view,
                           const struct rl_lease_event *event, struct rl_update *update);

#endif
