/* Locks "k" by the settings of the environment, and says so, until its stdin ends. */
#include <redlock/settings.h>
#include <redlock/sync.h>
#include <stdio.h>

int main(void)
{
    redlock_settings *settings;
    redlock_sync *sync = NULL;
    redlock_hold *hold;
    redlock_options nodes;
    redlock_lock_options options;
    if (redlock_settings_read(NULL, NULL, &settings) != REDLOCK_OK ||
        redlock_settings_options(settings, &nodes) != REDLOCK_OK ||
        redlock_sync_new(settings->uris, settings->count, &nodes, &sync) != REDLOCK_OK) {
        fprintf(stderr, "%s\n", redlock_last_error()->text);
        return 78;
    }
    redlock_lock_options_init(&options);
    options.ttl_ms = settings->ttl_ms;
    if (redlock_lock_many(sync, &(redlock_key){"k", 1}, 1, settings->wait_ms, &options,
                          &hold) != REDLOCK_OK) {
        fprintf(stderr, "%s\n", redlock_last_error()->text);
        return 69;
    }
    puts("held");
    fflush(stdout);
    getchar();
    redlock_hold_free(hold);
    redlock_sync_free(sync);
    redlock_settings_free(settings);
    return 0;
}
