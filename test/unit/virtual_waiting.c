/* A waiter and its subscriptions, in virtual time: when nobody would notify it. */
#include <criterion/criterion.h>

#include "sim/redis/reply.h"
#include "sim/virtual/network.h"
#include "virtual_fixture.h"

#define HOLDER (&user[0])
#define WAITER (&user[1])

/* The retry policy of a waiter that nobody notifies, and replies. */
#define POLICY (600 * VIRTUAL_MS)

/* It counts on being notified for so long; then it tries by itself. */
#define RECHECK (2 * VIRTUAL_S)

/* The commands of the waiter's client to a node. */
static struct {
    unsigned attempts, scripts, pings, subscribes;
} sent[NODES];

static bool refuses_to_subscribe, refuses_scripts, holds_subscriptions, slow_release;
static const char *confused; /* the command whose reply is none that it can have */

static bool is_of_waiter(const struct node_link *link)
{
    return link->connection->process == &WAITER->process;
}

static bool is_subscription(const struct node_link *link)
{
    return is_of_waiter(link) && link->redis_link->channels > 0;
}

static bool is(const struct node_command *command, const char *name)
{
    return word_is_option(command->word[0], name);
}

static bool is_script(const struct node_command *command)
{
    return is(command, "EVAL") || is(command, "EVALSHA");
}

static bool on_command(const struct node_command *command, struct bytes *out)
{
    bool subscribes = is(command, "SUBSCRIBE"), runs = is_script(command);
    if (!is_of_waiter(command->link))
        return false;
    sent[command->node - node].attempts += is(command, "SET");
    sent[command->node - node].scripts += runs;
    sent[command->node - node].subscribes += subscribes;
    sent[command->node - node].pings +=
        is(command, "PING") && is_subscription(command->link);
    bool refuses = (subscribes && refuses_to_subscribe) || (runs && refuses_scripts);
    if (refuses)
        reply_error_format(out, "NOPERM no right to do so");
    return refuses;
}

#define SLOW (20 * VIRTUAL_MS)

static bool next_is_slow;

static int64_t draw_delay(int64_t latency)
{
    bool is_slow = next_is_slow;
    next_is_slow = false;
    return is_slow ? SLOW : latency;
}

/* The reply follows at once; a release is a script. */
static void *on_executed(const struct node_command *command, struct bytes *out, size_t at)
{
    next_is_slow = slow_release && is_of_waiter(command->link) && is_script(command);
    if (confused && is(command, confused) && is_subscription(command->link)) {
        out->len = at;
        bytes_add_text(out, "*2\r\n$-1\r\n$-1\r\n");
    }
    if (holds_subscriptions && is_subscription(command->link))
        command->link->connection->is_held = true;
    return NULL;
}

static const struct node_class node_class = {.replaces = on_command,
                                             .executed = on_executed};

static void setup(void)
{
    virtual_setup();
    memset(sent, 0, sizeof(sent));
    confused = NULL;
    network.draw_delay = draw_delay;
    for (unsigned i = 0; i < NODES; i++)
        node_watch(&node[i], &node_class);
    cr_assert_eq(user_told(HOLDER, user_acquire), REDLOCK_OK);
    WAITER->options.wait_ms = REDLOCK_FOREVER;
}

TestSuite(virtual_waiting, .init = setup, .fini = virtual_teardown);

static void begin_to_wait(void)
{
    virtual_run_until(events_now() + VIRTUAL_S); /* the client is connected */
    process_call(&WAITER->process, user_acquire, WAITER);
}

static void next_attempt(void)
{
    for (unsigned before = sent[0].attempts; sent[0].attempts == before;)
        cr_assert(events_step(events_now() + LONG));
}

/* The subscription on a node; NULL: there is none. */
static struct node_link *subscription(unsigned i)
{
    struct node_link *link = node[i].link;
    while (link && !is_subscription(link))
        link = link->next;
    return link;
}

static unsigned subscriptions(void)
{
    unsigned count = 0;
    for (unsigned i = 0; i < NODES; i++)
        count += subscription(i) != NULL;
    return count;
}

/* A waiter that q nodes can notify leaves it to them, and rechecks seldom. */
Test(virtual_waiting, relies_on_its_subscriptions)
{
    begin_to_wait();
    virtual_run_until(events_now() + 10 * VIRTUAL_S);
    cr_assert_eq(subscriptions(), NODES);
    next_attempt();
    unsigned before = sent[0].attempts;
    virtual_run_until(events_now() + RECHECK);
    cr_assert_eq(sent[0].attempts, before);
}

static void note_downgraded(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct user *mine = arg;
    (void)lease;
    mine->code = result->code;
    mine->told++;
}

static void downgrade(void *arg)
{
    struct user *mine = arg;
    cr_assert_eq(redlock_downgrade(mine->lease, note_downgraded, mine), REDLOCK_OK);
}

/* They are notified, and do not wait for their next recheck, whenever that is. */
Test(virtual_waiting, readers_enter_at_a_downgrade)
{
    WAITER->options.kind = REDLOCK_KIND_SHARED;
    begin_to_wait();
    for (int i = 0; i < 5; i++) {
        virtual_run_until(events_now() + 10 * VIRTUAL_S + i * RECHECK / 5);
        cr_assert_eq(WAITER->told, 0);
        cr_assert_eq(user_told(HOLDER, downgrade), REDLOCK_OK);
        virtual_run_until(events_now() + RECHECK / 10);
        cr_assert_eq(WAITER->told, 1, "it sleeps after the downgrade");
        cr_assert_eq(WAITER->code, REDLOCK_OK);
        process_call(&HOLDER->process, user_free_lease, HOLDER);
        process_call(&WAITER->process, user_free_lease, WAITER);
        virtual_run_until(events_now() + VIRTUAL_S);
        cr_assert_eq(user_told(HOLDER, user_acquire), REDLOCK_OK);
        WAITER->told = 0;
        process_call(&WAITER->process, user_acquire, WAITER);
    }
}

/*
 * It waits no more, but is still queued, and its last attempt never began: nothing else
 * will tell the next waiter.
 */
Test(virtual_waiting, passes_on_what_comes_after_it_has_failed)
{
    begin_to_wait();
    virtual_run_until(events_now() + VIRTUAL_S);
    WAITER->process.faults.no_random = 1;
    refuses_scripts = true;
    while (WAITER->told == 0)
        cr_assert(events_step(events_now() + LONG));
    cr_assert_eq(WAITER->code, REDLOCK_SYSTEM);
    virtual_run_until(events_now() + VIRTUAL_S);
    WAITER->process.faults.no_random = 0;
    refuses_scripts = false;
    memset(sent, 0, sizeof(sent));
    cr_assert_eq(user_told(HOLDER, user_release), REDLOCK_OK);
    virtual_run_until(events_now() + SLOW);
    for (unsigned i = 0; i < NODES; i++)
        cr_assert_eq(sent[i].scripts, 1, "it keeps the notification to itself");
}

/* Too few nodes can notify it now: it follows its retry policy, from then on. */
Test(virtual_waiting, learns_that_its_subscriptions_have_ended)
{
    begin_to_wait();
    virtual_run_until(events_now() + 10 * VIRTUAL_S);
    next_attempt();
    virtual_run_until(events_now() + SLOW);
    unsigned before = sent[0].attempts;
    refuses_to_subscribe = true;
    for (unsigned i = 0; i < MAJORITY; i++)
        node_break(subscription(i));
    virtual_run_until(events_now() + POLICY);
    cr_assert_gt(sent[0].attempts, before, "it waits for a notification");
    virtual_run_until(events_now() + 10 * POLICY);
    cr_assert_geq(sent[0].attempts, before + 10);
    refuses_to_subscribe = false;
}

/* A reply that SUBSCRIBE cannot have does not show that the node will notify. */
Test(virtual_waiting, does_not_rely_on_a_confused_reply)
{
    confused = "SUBSCRIBE";
    begin_to_wait();
    virtual_run_until(events_now() + 10 * VIRTUAL_S);
    unsigned before = sent[0].attempts;
    virtual_run_until(events_now() + 10 * POLICY);
    cr_assert_geq(sent[0].attempts, before + 10);
    confused = NULL;
    virtual_run_until(events_now() + 10 * VIRTUAL_S);
    cr_assert_eq(subscriptions(), NODES);
}

/* The replies to SUBSCRIBE arrive now. */
static void let_subscriptions_go(void)
{
    holds_subscriptions = false;
    for (unsigned i = 0; i < NODES; i++) {
        struct connection *connection = subscription(i)->connection;
        connection->is_held = false;
        stream_changed(connection->stream);
    }
}

/*
 * The node queued it before it was subscribed, and a release in between would have notified
 * nobody: so it does not rely on that, although it is subscribed when the reply comes.
 */
Test(virtual_waiting, does_not_rely_on_a_queue_entry_of_before_the_subscription)
{
    holds_subscriptions = true;
    begin_to_wait();
    next_attempt();
    cr_assert_eq(subscriptions(), 0);
    next_attempt(); /* it has begun to subscribe */
    slow_release = true;
    virtual_run_until(events_now() + VIRTUAL_MS);
    slow_release = false;
    cr_assert_eq(subscriptions(), NODES);
    let_subscriptions_go();
    virtual_run_until(events_now() + SLOW);
    unsigned before = sent[0].attempts;
    virtual_run_until(events_now() + POLICY);
    cr_assert_eq(sent[0].attempts, before + 1, "it tries again, to be queued anew");
    virtual_run_until(events_now() + RECHECK - POLICY);
    cr_assert_eq(sent[0].attempts, before + 1, "now it relies on it");
}

/* The entry is sent before the reply to SUBSCRIBE is read, at the same time. */
Test(virtual_waiting, does_not_rely_on_a_queue_entry_of_the_same_time)
{
    holds_subscriptions = true;
    WAITER->process.wake_max = 0;
    begin_to_wait();
    next_attempt();
    next_attempt(); /* it has begun to subscribe */
    unsigned attempts = sent[0].attempts, scripts = sent[0].scripts;
    virtual_run_until(events_now() + network.path[0][0].latency);
    cr_assert_eq(sent[0].scripts, scripts, "the entry has arrived");
    let_subscriptions_go();
    virtual_run_until(events_now() + network.path[0][0].latency);
    cr_assert_eq(sent[0].scripts, scripts + 1, "no entry was on its way");
    virtual_run_until(events_now() + POLICY);
    cr_assert_eq(sent[0].attempts, attempts + 1, "it tries again, to be queued anew");
}

/* Its policy alone would let it sleep on after enough nodes have come back. */
static void retry_seldom(bool fenced)
{
    WAITER->options.fenced = fenced;
    WAITER->options.retry = REDLOCK_RETRY_FIXED;
    WAITER->options.retry_base_ms = LONG / VIRTUAL_MS;
    cr_assert_eq(user_told(HOLDER, user_release), REDLOCK_OK);
}

static void tries_again(bool fenced)
{
    refuses_to_subscribe = true;
    retry_seldom(fenced);
    virtual_run_until(events_now() + VIRTUAL_S);
    if (fenced)
        cr_assert_eq(user_told(HOLDER, user_admit), REDLOCK_OK);
    for (unsigned i = 0; i < MAJORITY; i++)
        node_hang(&node[i]);
    begin_to_wait();
    virtual_run_until(events_now() + 10 * VIRTUAL_S);
    cr_assert_eq(WAITER->told, 0);
    for (unsigned i = 0; i < MAJORITY; i++)
        node_resume(&node[i]);
    virtual_run_until(events_now() + VIRTUAL_S);
    cr_assert_eq(WAITER->told, 1);
    cr_assert_eq(WAITER->code, REDLOCK_OK);
    refuses_to_subscribe = false;
}

Test(virtual_waiting, tries_as_soon_as_there_is_a_quorum)
{
    tries_again(false);
}

Test(virtual_waiting, tries_as_soon_as_a_quorum_may_vote_on_a_fenced_lock)
{
    tries_again(true);
}

/* No connection changes. */
Test(virtual_waiting, tries_as_soon_as_the_nodes_are_admitted)
{
    retry_seldom(true);
    begin_to_wait();
    virtual_run_until(events_now() + 10 * VIRTUAL_S);
    cr_assert_eq(WAITER->told, 0);
    cr_assert_eq(user_told(HOLDER, user_admit), REDLOCK_OK);
    virtual_run_until(events_now() + 2 * VIRTUAL_S);
    cr_assert_eq(WAITER->told, 1);
    cr_assert_eq(WAITER->code, REDLOCK_OK);
}

#define IDLE (10 * VIRTUAL_S) /* without any message: is it still there? */

Test(virtual_waiting, probes_an_idle_subscription)
{
    begin_to_wait();
    virtual_run_until(events_now() + 6 * IDLE);
    for (unsigned i = 0; i < NODES; i++) {
        cr_assert_geq(sent[i].pings, 5);
        cr_assert_leq(sent[i].pings, 6);
        cr_assert_eq(sent[i].subscribes, 1);
    }
}

Test(virtual_waiting, subscribes_again_where_a_probe_has_a_confused_reply)
{
    begin_to_wait();
    virtual_run_until(events_now() + VIRTUAL_S);
    confused = "PING";
    virtual_run_until(events_now() + IDLE + VIRTUAL_S);
    for (unsigned i = 0; i < NODES; i++)
        cr_assert_eq(sent[i].subscribes, 2);
}

/* Nothing gets through, and neither side was told: the probe has no reply. */
Test(virtual_waiting, subscribes_again_where_a_probe_has_no_reply)
{
    begin_to_wait();
    virtual_run_until(events_now() + VIRTUAL_S);
    for (unsigned i = 0; i < MAJORITY; i++)
        connection_lose(subscription(i)->connection);
    virtual_run_until(events_now() + IDLE + 4 * VIRTUAL_S);
    for (unsigned i = 0; i < NODES; i++)
        cr_assert_eq(sent[i].subscribes, i < MAJORITY ? 2 : 1);
    int64_t released = events_now();
    process_call(&HOLDER->process, user_release, HOLDER);
    while (WAITER->told == 0)
        cr_assert(events_step(released + LONG));
    cr_assert_lt(events_now() - released, 20 * VIRTUAL_MS, "notified, not polled");
}
