/*
 * The command of a `redlock run`: it holds the lock while it lives. chaos-job KIND KEY...
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client.h"

#define BEAT_US 2000

int main(int argc, char **argv)
{
    redlock_options options;
    struct chaos_plan plan;
    const char *token = getenv("REDLOCK_TOKEN"), *fence = getenv("REDLOCK_FENCE");
    const char *asked = getenv("CHAOS_BEGIN");
    if (argc < 3 || !token || !asked)
        return 64;
    chaos_begin(&options);
    unsigned seed = (unsigned)getpid();
    chaos_job(&plan, argv[1], argv + 2);
    plan.fence = fence ? strtoll(fence, NULL, 10) : 0;
    strcpy(plan.token, token);
    int64_t begin = chaos_now_us(), now = begin;
    int64_t end = begin + 1000 + chaos_draw(&seed, 20000);
    chaos_note(&plan, "acquire", strtoll(asked, NULL, 10), begin, "OK", begin);
    while (now < end) {
        usleep(BEAT_US);
        now = chaos_now_us();
        chaos_note(&plan, "renew", now, now, "OK", now);
    }
    return 0;
}
