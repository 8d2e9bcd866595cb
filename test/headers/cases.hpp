/* Cases of a test in C++, on the servers that its words name. Speaks TAP. */
#ifndef TEST_CASES_HPP
#define TEST_CASES_HPP

#include <redlock/redlock.hpp>

#include <atomic>
#include <iostream>
#include <thread>

inline std::vector<std::string> uris;

/* Of a client whose nodes may be slow. */
inline const redlock_options *patient()
{
    static const redlock_options options = [] {
        redlock_options made;
        redlock_options_init(&made);
        made.node_timeout_ms = 5000;
        return made;
    }();
    return &options;
}

class failed : public std::runtime_error
{
  public:
    using std::runtime_error::runtime_error;
};

inline void check(bool holds, const char *what)
{
    if (!holds)
        throw failed(what);
}

template <class Does> void expect_error(redlock_code code, Does does)
{
    try {
        does();
    } catch (const redlock::error &error) {
        check(error.code() == code, redlock_code_name(error.code()));
        check(error.what()[0] != '\0', "the error has a text");
        return;
    }
    throw failed(redlock_code_name(code));
}

template <class Does> void in_threads(int count, Does does)
{
    std::vector<std::thread> threads;
    std::atomic<bool> right{true};
    for (int i = 0; i < count; i++)
        threads.emplace_back([&, i] {
            try {
                does(i);
            } catch (const std::exception &error) {
                std::cerr << error.what() << '\n';
                right = false;
            }
        });
    for (std::thread &thread : threads)
        thread.join();
    check(right, "a thread threw an exception");
}

struct test_case {
    const char *text;
    void (*does)();
};

/* The exit code of the program. */
inline int run(const test_case *cases, std::size_t count, int argc, char **argv)
{
    int failures = 0;
    uris.assign(argv + 1, argv + argc);
    std::cout << "1.." << count << std::endl;
    for (std::size_t i = 0; i < count; i++) {
        bool right = true;
        try {
            cases[i].does();
        } catch (const std::exception &error) {
            std::cerr << "# failed: " << cases[i].text << ": " << error.what() << std::endl;
            right = false;
        }
        failures += !right;
        std::cout << (right ? "ok " : "not ok ") << i + 1 << " - " << cases[i].text
                  << std::endl;
    }
    return failures > 0;
}

#endif
