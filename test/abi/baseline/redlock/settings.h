#ifndef REDLOCK_SETTINGS_H
#define REDLOCK_SETTINGS_H
#include "redlock.h"
#ifdef __cplusplus
extern "C" {
#endif
typedef struct redlock_settings {
    const char *const *uris;
    size_t count;
    int64_t ttl_ms;
    int64_t wait_ms;
    const char *warning;
} redlock_settings;
REDLOCK_API redlock_code redlock_settings_read(const char *file, const char *nodes,
                                               redlock_settings **ret_settings);
REDLOCK_API redlock_code redlock_settings_options_sized(const redlock_settings *settings,
                                                        redlock_options *ret_options,
                                                        size_t size);
static inline redlock_code redlock_settings_options(const redlock_settings *settings,
                                                    redlock_options *ret_options)
{
    return redlock_settings_options_sized(settings, ret_options, sizeof(*ret_options));
}
REDLOCK_API void redlock_settings_free(redlock_settings *settings);
REDLOCK_API redlock_code redlock_duration_read(const char *text, int64_t *ret_ms);
#ifdef __cplusplus
}
#endif
#endif
