#include "crossing.h"

#include "lap.h"

static struct lap lap;
static struct lap_log log;
static int64_t began;

const char *const *crossing_nodes(unsigned *ret_count)
{
    static const char *uri[LAP_NODES_MAX];
    *ret_count = (unsigned)lap_nodes(uri);
    lap_log_init(&log);
    lap_ready();
    return uri;
}

const char *crossing_key(void)
{
    static char key[LAP_KEY + 1];
    lap_key(0, key);
    return key;
}

bool crossing_begins(void)
{
    struct lap_order order;
    if (!lap_read_order(&order))
        return false;
    lap_begin(&lap, &order);
    began = lap_now();
    return true;
}

bool crossing_goes_on(bool failed)
{
    int64_t now = lap_now();
    if (failed)
        log.failed++;
    else
        lap_note(&log, now - began);
    began = now;
    if (lap_goes_on(&lap, now))
        return true;
    lap_end(&lap, &log, 1);
    return false;
}
