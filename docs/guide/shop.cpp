/* Eight threads sell the last items: shop redis://a redis://b redis://c */
#include <future>
#include <iostream>
#include <optional>
#include <redlock/redlock.hpp>

/* A row of a database: each function is one statement, which the mutex makes atomic. */
struct item {
    std::mutex statement;
    std::int64_t fence = 0;
    int stock = 20;

    /* UPDATE item SET fence = :fence WHERE id = 7 AND fence <= :fence RETURNING stock */
    std::optional<int> read(std::int64_t token)
    {
        std::lock_guard lock(statement);
        fence = std::max(fence, token);
        return token == fence ? std::optional(stock) : std::nullopt;
    }
    /* UPDATE item SET stock = :left WHERE id = 7 AND fence = :fence */
    bool write(std::int64_t token, int left)
    {
        std::lock_guard lock(statement);
        if (token == fence)
            stock = left;
        return token == fence;
    }
};

static int sell(const redlock::client &nodes, item &row)
{
    redlock_lock_options options = redlock::default_options();
    options.fenced = true;
    for (int sold = 0;;) {
        redlock::guard lock(nodes, {"item:7"}, options);
        const std::optional<int> stock = row.read(lock.fence());
        if (stock == 0)
            return sold;
        if (stock && !lock.lost() && row.write(lock.fence(), *stock - 1))
            sold++;
    }
}

int main(int argc, char **argv)
try {
    const redlock::client nodes({argv + 1, argv + argc});
    item row;
    std::vector<std::future<int>> sellers;
    for (int i = 0; i < 8; i++)
        sellers.push_back(std::async(std::launch::async, [&] { return sell(nodes, row); }));
    int sold = 0;
    for (std::future<int> &seller : sellers)
        sold += seller.get();
    std::cout << sold << " items are sold, " << row.stock << " are left\n"
              << "a late write is " << (row.write(1, 20) ? "accepted" : "refused") << '\n';
} catch (const redlock::error &error) {
    std::cerr << error.what() << '\n';
    return 1;
}
