#include "refusal.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void refusal_expect(const char *call, size_t row, redlock_code code,
                    const struct refusal *want)
{
    const redlock_error *error = redlock_last_error();
    const char *field = want->field ? want->field : "";
    char text[sizeof(error->text)];
    snprintf(text, sizeof(text), "%s%s", field, want->field ? " " : "");
    size_t len = strlen(text);
    if (want->text)
        snprintf(text + len, sizeof(text) - len, "%s", want->text);
    else
        snprintf(text + len, sizeof(text) - len,
                 "is %" PRId64 ", and must be at %s %" PRId64, want->value,
                 want->value < want->bound ? "least" : "most", want->bound);
    cr_assert(code == want->code && error->code == code && error->reason == want->reason &&
                  strcmp(error->text, text) == 0 &&
                  strcmp(error->field ? error->field : "", field) == 0 &&
                  error->value == want->value && error->bound == want->bound,
              "%s, row %zu: %s, %s, %s: %s (%s %" PRId64 " %" PRId64 ")", call, row,
              redlock_code_name(code), redlock_code_name(error->code),
              redlock_reason_name(error->reason), error->text, error->field, error->value,
              error->bound);
}

unsigned refusal_calls;

#define CALLBACK(name, handle, what)                                                       \
    void name(redlock_##handle *about, what, void *arg)                                    \
    {                                                                                      \
        (void)about, (void)told, (void)arg;                                                \
        refusal_calls++;                                                                   \
    }
CALLBACK(on_lease, lease, const redlock_result *told)
CALLBACK(on_drained, client, bool told)
CALLBACK(on_inspected, client, const redlock_inspection *told)
CALLBACK(on_checked, client, const redlock_health_report *told)
CALLBACK(on_listed, client, const redlock_listed *told)
CALLBACK(on_hold_time, client, int64_t told)
CALLBACK(on_leader, observer, const redlock_leader *told)
CALLBACK(on_sync_leader, sync_observer, const redlock_leader *told)
