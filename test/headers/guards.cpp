/* The guards of redlock.hpp on real servers: guards URI URI URI. Speaks TAP. */
#include "cases.hpp"

#include <chrono>

using namespace std::chrono_literals;

namespace
{

static_assert(std::is_nothrow_move_constructible_v<redlock::guard>);
static_assert(!std::is_copy_constructible_v<redlock::guard>);
static_assert(std::is_nothrow_destructible_v<redlock::guard>);

void a_guard_holds_one_key()
{
    redlock::client nodes(uris, patient());
    redlock::guard empty, mine(nodes, {"one"});
    check(!empty && empty.lost() && empty.valid() == 0ms && !empty.get(), "it is empty");
    check(mine && !mine.lost() && mine.valid() > 0ms && mine.fence() == 0, "it holds");
    mine.extend(20s);
    empty = std::move(mine);
    check(empty.owns_lock() && !mine.owns_lock(), "it is moved");
    empty.unlock();
    check(!empty, "it is unlocked");
    expect_error(REDLOCK_NOT_HELD, [&] { empty.unlock(); });
    expect_error(REDLOCK_NOT_HELD, [&] { empty.extend(); });
}

void a_guard_holds_several_keys()
{
    redlock::client nodes(uris, patient()), others(uris, patient());
    {
        redlock::guard both(nodes, {"apple", "pear"});
        redlock::guard one(others, {"pear"}, std::try_to_lock);
        check(!one && !one.holder().empty(), "another has it");
        redlock::guard late(others, {"fig", "pear"}, 20ms);
        check(!late && late.holder() == one.holder(), "the wait runs out");
        redlock::guard fig(others, {"fig"}, std::try_to_lock);
        check(fig.owns_lock() && fig.holder().empty(), "it is free");
    }
    redlock::guard(others, {"pear", "apple"}).unlock();
}

void an_unlock_is_confirmed()
{
    redlock::client nodes(uris, patient()), others(uris, patient());
    redlock::guard mine(nodes, {"confirmed"});
    const auto release = [&] {
        return redlock_lock_release(others.get(), "confirmed", 9,
                                    redlock_hold_token(mine.get()));
    };
    redlock_code code = release();
    check(code == REDLOCK_OK, "another releases it");
    while (code == REDLOCK_OK) /* until the nodes beyond the quorum have deleted it, too */
        code = release();
    check(code == REDLOCK_GONE, "no node has it");
    expect_error(REDLOCK_GONE, [&] { mine.unlock(); });
    check(!mine, "it has no lock");
}

void a_client_counts()
{
    redlock::client nodes(uris, patient());
    redlock::guard(nodes, {"counted"}).unlock();
    redlock_stats stats;
    redlock_stats_init(&stats);
    nodes.stats(stats);
    check(stats.acquire_results[REDLOCK_OK] == 1, "one acquire");
    std::string text = nodes.prometheus({{"job", "test"}});
    check(text.find("\nredlock_acquires_total{job=\"test\",result=\"ok\"} 1\n") !=
              std::string::npos,
          "it is in the text");
    check(text.find("redlock_node_votes{job=\"test\",node=\"") != std::string::npos,
          "so are the nodes");
}

/* It would have the options of the first one only. */
void options_that_differ(const redlock::client &nodes)
{
    const auto differs = [&](auto set) {
        redlock_lock_options options = redlock::default_options();
        set(options);
        redlock::mutex plain(nodes, "plain"), other(nodes, "other", options);
        expect_error(REDLOCK_BAD_OPTION, [&] { redlock::scoped_lock(plain, other); });
        expect_error(REDLOCK_BAD_OPTION,
                     [&] { redlock::scoped_lock(other, plain, plain); });
        expect_error(REDLOCK_BAD_OPTION,
                     [&] { redlock::scoped_lock(plain, plain, other); });
    };
    differs([](redlock_lock_options &options) { options.fenced = true; });
    differs([](redlock_lock_options &options) { options.ttl_ms = 5000; });
    differs([](redlock_lock_options &options) { options.kind = REDLOCK_KIND_SHARED; });
    differs([](redlock_lock_options &options) { options.watchdog = false; });
    differs([](redlock_lock_options &options) { options.user = &options; });
    struct later { /* the options of a newer program */
        redlock_lock_options known;
        long more[4];
    } longer{redlock::default_options(), {}};
    longer.known.size = sizeof(longer);
    redlock::mutex plain(nodes, "plain"), later(nodes, "later", longer.known);
    check(redlock::scoped_lock(plain, later).owns_lock(), "none of them is set");
    longer.more[3] = 1;
    redlock::mutex newer(nodes, "newer", longer.known);
    expect_error(REDLOCK_UNSUPPORTED, [&] { newer.lock(); });
    redlock_lock_options same = redlock::default_options();
    same.ttl_ms = 5000;
    redlock::mutex one(nodes, "one", same), two(nodes, "two", same);
    redlock::scoped_lock both(one, two);
    check(both.valid() > 0ms && both.valid() <= 5000ms, "it has their options");
}

void mutexes_in_one_round()
{
    redlock::client nodes(uris, patient()), others(uris, patient());
    redlock::mutex apple(nodes, "apple"), pear(nodes, "pear"), fig(others, "fig");
    int count = 0;
    in_threads(4, [&](int i) {
        for (int k = 0; k < 10; k++) {
            redlock::scoped_lock both(i % 2 ? apple : pear, i % 2 ? pear : apple);
            check(both.valid() > 0ms && !both.lost(), "it is held");
            count++;
        }
    });
    check(count == 40, "nothing was lost");
    expect_error(REDLOCK_BAD_OPTION, [&] { redlock::scoped_lock(apple, fig); });
    expect_error(REDLOCK_BAD_KEY, [&] { redlock::scoped_lock(apple, apple); });
    options_that_differ(nodes);
    redlock::scoped_lock one(apple);
    check(!pear.lost() || pear.try_lock(), "the other is free");
    pear.unlock();
}

void a_stop_ends_the_wait()
{
    redlock::client other(uris, patient());
    redlock::stop stop(other);
    redlock::guard held(other, {"stop"});
    in_threads(2, [&](int i) {
        if (i == 0)
            stop.request_stop();
        else
            check(!redlock::guard(other, {"stop"}, stop), "it is stopped");
    });
    expect_error(REDLOCK_BAD_KEY, [&] { redlock::guard(other, {""}, stop); });
#ifdef __cpp_lib_jthread
    redlock::client nodes(uris, patient());
    redlock::guard mine(nodes, {"stopped"});
    std::stop_source source;
    in_threads(2, [&](int i) {
        if (i == 0)
            source.request_stop();
        else
            check(!redlock::guard(nodes, {"stopped"}, source.get_token()), "it is stopped");
    });
    check(!redlock::guard(nodes, {"free"}, source.get_token()), "it was stopped before");
    expect_error(REDLOCK_BAD_KEY, [&] { redlock::guard(nodes, {""}, std::stop_token()); });
    redlock_lock_options options = redlock::default_options();
    check(redlock_stop_new(nodes.get(), &options.stop) == REDLOCK_OK, "another stop");
    expect_error(REDLOCK_BAD_OPTION,
                 [&] { redlock::guard(nodes, {"two"}, std::stop_token(), options); });
    redlock_stop_free(options.stop);
#endif
}

const test_case cases[] = {
    {"a guard holds one key", a_guard_holds_one_key},
    {"a guard holds several keys", a_guard_holds_several_keys},
    {"an unlock is confirmed", an_unlock_is_confirmed},
    {"a client counts", a_client_counts},
    {"mutexes in one round", mutexes_in_one_round},
    {"a stop ends the wait", a_stop_ends_the_wait},
};

} // namespace

int main(int argc, char **argv)
{
    return run(cases, std::size(cases), argc, argv);
}
