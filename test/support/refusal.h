/*
 * Why a call is refused: a row of a table. redlock_last_error() has the same code, reason,
 * field, value, bound and text.
 */
#ifndef TEST_REFUSAL_H
#define TEST_REFUSAL_H

#include "redlock/admin.h"
#include "redlock/sync.h"

struct refusal {
    redlock_code code;
    redlock_reason reason;
    const char *field; /* NULL: none */
    int64_t value, bound;
    const char *text; /* after the field and a space; NULL: of a value out of its range */
};

#define WHY(code, reason, ...)                                                             \
    {                                                                                      \
        REDLOCK_##code, REDLOCK_REASON_##reason, __VA_ARGS__                               \
    }
#define RANGE(code, field, value, bound) WHY(code, OUT_OF_RANGE, field, value, bound, NULL)
#define LESS(field, value, bound)        RANGE(BAD_OPTION, field, value, bound)
#define EMPTY(code, field)               WHY(code, EMPTY, field, 0, 1, "is empty")
#define NO_SIZE(name)                                                                      \
    WHY(BAD_OPTION, NOT_SET, "size", 0, 0, "is not set: call redlock_" name "_init()")
#define NO_CALLBACK                                                                        \
    WHY(BAD_OPTION, NOT_SET, "callback", 0, 0, "is NULL, and must be a function")
#define RESERVED                                                                           \
    WHY(BAD_KEY, RESERVED, "key", 0, 0,                                                    \
        "ends in ! and small letters: such ends are reserved")

/* `code`: what call number `row` returned. */
void refusal_expect(const char *call, size_t row, redlock_code code,
                    const struct refusal *want);

/* Callbacks that count their calls here. */
extern unsigned refusal_calls;
redlock_lease_fn on_lease;
redlock_drain_fn on_drained;
redlock_inspect_fn on_inspected;
redlock_check_fn on_checked;
redlock_list_fn on_listed;
redlock_hold_time_fn on_hold_time;
redlock_leader_fn on_leader;
redlock_sync_leader_fn on_sync_leader;

#endif
