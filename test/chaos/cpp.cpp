// The same as sync.c by redlock.hpp, in one thread: chaos-cpp.
#include <chrono>
#include <cstring>
#include <thread>
#include <unistd.h>

#include "client.h"
#include "redlock/redlock.hpp"

namespace
{

redlock_lock_options options_of(const chaos_plan &plan)
{
    redlock_lock_options options = redlock::default_options();
    options.kind = plan.kind;
    options.slots = plan.slots;
    options.fenced = plan.fenced;
    options.ttl_ms = plan.ttl_ms;
    options.watchdog = plan.way == CHAOS_LONG;
    return options;
}

std::int64_t valid_ms(void *guard)
{
    return static_cast<redlock::guard *>(guard)->valid().count();
}

// Runs it, and adds its result to the history.
template <class Change>
void note(chaos_plan &plan, const char *what, redlock::guard &guard, Change change)
{
    const std::int64_t begin = chaos_now_us();
    redlock_code code = REDLOCK_OK;
    try {
        change();
    } catch (const redlock::error &why) {
        code = why.code();
    }
    const std::int64_t end = chaos_now_us();
    chaos_note(&plan, what, begin, end, redlock_code_name(code),
               code == REDLOCK_OK ? chaos_deadline(valid_ms, &guard) : 0);
}

void hold_long(chaos_plan &plan, redlock::guard &guard)
{
    const std::int64_t end = chaos_now_us() + plan.hold_us;
    while (chaos_now_us() < end && !chaos_ends() && !guard.lost()) {
        usleep(static_cast<useconds_t>(plan.ttl_ms * 50));
        const std::int64_t now = chaos_now_us(), until = chaos_deadline(valid_ms, &guard);
        if (until > 0)
            chaos_note(&plan, "renew", now, now, "OK", until);
    }
}

void use(chaos_plan &plan, redlock::guard &guard)
{
    chaos_use(&plan, valid_ms, &guard);
    if (plan.way == CHAOS_LONG)
        hold_long(plan, guard);
    else
        usleep(static_cast<useconds_t>(plan.hold_us));
    if (plan.way == CHAOS_EXTEND)
        note(plan, "extend", guard, [&] { guard.extend(); });
    if (plan.way == CHAOS_READ) {
        plan.kind = REDLOCK_KIND_SHARED;
        note(plan, "downgrade", guard, [&] { guard.downgrade(); });
    }
    chaos_use(&plan, valid_ms, &guard);
    note(plan, "release", guard, [&] { guard.unlock(); });
}

void turn(const redlock::client &client, chaos_plan &plan, const char *what)
{
    std::vector<std::string> keys(plan.name, plan.name + plan.keys);
    plan.begin = chaos_now_us();
    try {
        redlock::guard guard(client, keys, std::chrono::milliseconds(plan.wait_ms),
                             options_of(plan));
        const std::int64_t end = chaos_now_us();
        if (!guard) {
            chaos_note(&plan, what, plan.begin, end, "TIMEOUT", 0);
            return;
        }
        plan.fence = guard.fence();
        plan.slot = redlock_hold_slot(guard.get());
        std::strcpy(plan.token, redlock_hold_token(guard.get()));
        chaos_note(&plan, what, plan.begin, end, "OK", chaos_deadline(valid_ms, &guard));
        use(plan, guard);
    } catch (const redlock::error &why) {
        chaos_note(&plan, what, plan.begin, chaos_now_us(), redlock_code_name(why.code()),
                   0);
    }
}

void probe(const redlock::client &client, bool fenced)
{
    chaos_plan plan;
    chaos_probe(&plan, fenced);
    turn(client, plan, "probe");
}

void rest(const redlock::client &client)
{
    redlock_node node[32];
    bool told = false;
    probe(client, false);
    while (chaos_pauses() && !chaos_ends()) {
        chaos_note_idle(node, redlock_sync_explain(client.get(), node, 32), &told);
        usleep(20000);
    }
    probe(client, true);
}

} // namespace

int main()
{
    redlock_options options;
    chaos_begin(&options);
    const char *const *uris;
    const std::size_t nodes = chaos_nodes(&uris);
    const redlock::client client(std::vector<std::string>(uris, uris + nodes), &options);
    unsigned seed = chaos_seed(0);
    while (!chaos_ends()) {
        if (chaos_pauses())
            rest(client);
        chaos_plan plan;
        chaos_choose(&plan, &seed);
        turn(client, plan, "acquire");
        usleep(static_cast<useconds_t>(chaos_pause_us(&seed)));
    }
    chaos_keep_sync_record(client.get(), "end");
    return 0;
}
