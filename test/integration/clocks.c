/* Servers whose clocks are set while a fenced lock is held. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "quorum.h"

/* See clockshim.c. */
struct lie {
    _Atomic uint64_t turn;
    _Atomic int64_t anchor, offset, rate;
};

struct shimmed {
    struct quorum s;
    struct lie *lie[SERVERS_MAX]; /* of each server */
};

/* Starts server i again, with its own clock. */
static void shim(struct shimmed *shimmed, unsigned i)
{
    struct servers *servers = &shimmed->s.servers;
    char path[96];
    snprintf(path, sizeof(path), "%s/%u.clock", servers->folder, i);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    cr_assert_geq(fd, 0);
    cr_assert_eq(ftruncate(fd, sizeof(struct lie)), 0);
    shimmed->lie[i] =
        mmap(NULL, sizeof(struct lie), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    cr_assert_neq((void *)shimmed->lie[i], MAP_FAILED);
    close(fd);
    const char *library = getenv("CLOCK_SHIM");
    cr_assert_not_null(library, "CLOCK_SHIM must name clockshim.so");
    servers_kill(servers, i);
    setenv("LD_PRELOAD", library, 1);
    setenv("CLOCK_SHIM_FILE", path, 1);
    servers_launch(servers, i);
    unsetenv("LD_PRELOAD");
    unsetenv("CLOCK_SHIM_FILE");
}

static void set_clock(struct shimmed *shimmed, unsigned i, int64_t ahead_ms)
{
    struct lie *lie = shimmed->lie[i];
    lie->turn++;
    lie->offset = ahead_ms * 1000000;
    lie->turn++;
}

/* From now on it gains this on the true time; -1000000: it stands still. */
static void set_rate(struct shimmed *shimmed, unsigned i, int64_t ppm)
{
    struct lie *lie = shimmed->lie[i];
    struct timespec now;
    lie->turn++;
    clock_gettime(CLOCK_REALTIME, &now);
    lie->anchor = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    lie->rate = ppm;
    lie->turn++;
}

static void open_admitted_for(struct shimmed *shimmed, unsigned count, int64_t max_ttl_ms)
{
    *shimmed = (struct shimmed){0};
    quorum_open(&shimmed->s, 3);
    redlock_client_free(shimmed->s.client);
    for (unsigned i = 0; i < count; i++)
        shim(shimmed, i);
    redlock_options options = quorum_options();
    options.max_ttl_ms = max_ttl_ms;
    shimmed->s.client = quorum_client(&shimmed->s, &options);
    cr_assert_eq(quorum_admit(&shimmed->s, REDLOCK_ADMIT_AT_ONCE, 0, NULL), REDLOCK_OK);
}

static void open_shimmed(struct shimmed *shimmed, unsigned count)
{
    open_admitted_for(shimmed, count, 0);
}

static redlock_lease *hold(struct quorum *s, struct reported *lost)
{
    redlock_lease_options options = quorum_quiet_fenced_options();
    options.on_lost = reported_note;
    options.lost_arg = lost;
    redlock_lease *lease = quorum_hold(s, "job", &options);
    quorum_drain(s);
    cr_assert_eq(quorum_count_votes(lease, "granted"), 3);
    return lease;
}

/* In both directions: what it stores may expire early, or too late for a fence. */
static void set_one_clock(int64_t ahead_ms)
{
    struct shimmed shimmed;
    struct quorum *s = &shimmed.s;
    struct reported lost = {0};
    open_shimmed(&shimmed, 1);
    redlock_lease *lease = hold(s, &lost);
    set_clock(&shimmed, 0, ahead_ms);
    cr_assert_eq(quorum_extend(s, lease, 0), REDLOCK_OK);
    LOOP_UNTIL(s->base, quorum_count_votes(lease, "waiting") == 0);
    cr_assert_eq(quorum_node(lease, 0)->verdict, REDLOCK_VERDICT_UNKNOWN);
    cr_assert_eq(quorum_node(lease, 0)->fault, REDLOCK_FAULT_CLOCK_SET);
    cr_assert_eq(quorum_count_votes(lease, "granted"), 2);
    LOOP_UNTIL(s->base, quorum_member_is(s->client, 0, "member_quarantine"));
    /* The client itself is changing the others' markers just now: that costs no vote. */
    cr_assert_eq(quorum_extend(s, lease, 0), REDLOCK_OK);
    cr_assert_eq(lost.times, 0);
    quorum_free_lease(s, lease);
    quorum_close(s);
}

Test(clocks, set_forward_on_one_server)
{
    set_one_clock(2000);
}

Test(clocks, set_back_on_one_server)
{
    set_one_clock(-2000);
}

/* By a small step, as a time daemon does: that is no fault. */
Test(clocks, set_by_a_little)
{
    struct shimmed shimmed;
    struct quorum *s = &shimmed.s;
    struct reported lost = {0};
    open_shimmed(&shimmed, 1);
    redlock_lease *lease = hold(s, &lost);
    set_clock(&shimmed, 0, 100);
    cr_assert_eq(quorum_extend(s, lease, 0), REDLOCK_OK);
    LOOP_UNTIL(s->base, quorum_count_votes(lease, "granted") == 3);
    cr_assert_eq(quorum_member(s->client, 0)->verdict, REDLOCK_VERDICT_ACTIVE);
    quorum_free_lease(s, lease);
    quorum_close(s);
}

/*
 * All at once: it was the client's clock. No node loses its vote for longer than it takes
 * to detect that.
 */
Test(clocks, set_on_all_servers_at_once)
{
    struct shimmed shimmed;
    struct quorum *s = &shimmed.s;
    struct reported lost = {0}, reported = {0};
    open_shimmed(&shimmed, 3);
    redlock_lease *lease = hold(s, &lost);
    for (unsigned i = 0; i < 3; i++)
        set_clock(&shimmed, i, 2000);
    cr_assert_eq(redlock_extend(lease, 0, reported_note, &reported), REDLOCK_OK);
    EXPECT_REPORTED(s, &reported, REDLOCK_NO_QUORUM);
    cr_assert_eq(reported.result.reason, REDLOCK_REASON_CLOCK);
    for (unsigned i = 0; i < 3; i++)
        LOOP_UNTIL(s->base, quorum_member(s->client, i)->verdict == REDLOCK_VERDICT_ACTIVE);
    cr_assert_eq(quorum_extend(s, lease, 0), REDLOCK_OK);
    quorum_drain(s);
    cr_assert_eq(quorum_count_votes(lease, "granted"), 3, "no index was assigned again");
    cr_assert_eq(lost.times, 0);
    quorum_free_lease(s, lease);
    quorum_close(s);
}

/*
 * The rate of one clock is wrong. The client compares it with its own at each extension,
 * once in `interval_ms`. It tolerates a difference of half a percent of the longest TTL, so
 * a long one is for a clock that must be found before it differs by that.
 */
static const struct {
    int64_t ppm, max_ttl_ms;
    int interval_ms;
    redlock_fault fault;
} rates[] = {
    {50000, 10000, 2000, REDLOCK_FAULT_CLOCK_FAST},
    {-50000, 10000, 2000, REDLOCK_FAULT_CLOCK_SLOW},
    {-1000000, 3600000, 100, REDLOCK_FAULT_CLOCK_STILL},
    /* The first reply after a long time cannot show that the clock stands still. */
    {-1000000, 10000, 2000, REDLOCK_FAULT_CLOCK_SET},
};

static void set_one_rate(unsigned row)
{
    struct shimmed shimmed;
    struct quorum *s = &shimmed.s;
    redlock_lease_options options = quorum_quiet_fenced_options();
    options.ttl_ms = 10000;
    open_admitted_for(&shimmed, 1, rates[row].max_ttl_ms);
    redlock_lease *lease = quorum_hold(s, "job", &options);
    quorum_drain(s);
    set_rate(&shimmed, 0, rates[row].ppm);
    while (quorum_member(s->client, 0)->verdict == REDLOCK_VERDICT_ACTIVE) {
        loop_run_for(s->base, rates[row].interval_ms);
        cr_assert_eq(quorum_extend(s, lease, 0), REDLOCK_OK);
        LOOP_UNTIL(s->base, quorum_count_votes(lease, "waiting") == 0);
    }
    const redlock_node *node = quorum_member(s->client, 0);
    cr_assert_eq(node->fault, rates[row].fault, "%s", redlock_fault_name(node->fault));
    cr_assert_str_eq(node->text, redlock_fault_text(node->fault));
    cr_assert_eq(quorum_node(lease, 0)->fault, rates[row].fault);
    redlock_lease_free(lease);
    quorum_close(s);
}

Test(clocks, gains)
{
    set_one_rate(0);
}

Test(clocks, falls_behind)
{
    set_one_rate(1);
}

Test(clocks, stands_still)
{
    set_one_rate(2);
}

Test(clocks, stands_still_between_two_replies)
{
    set_one_rate(3);
}
