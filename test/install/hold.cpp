/* Takes a lock by the classes of redlock.hpp: hold URI... */
#include <iostream>
#include <redlock/redlock.hpp>

int main(int argc, char **argv)
try {
    redlock::client nodes({argv + 1, argv + argc});
    redlock::guard mine(nodes, {"k"});
    std::cout << "held by a guard, on " << redlock_sync_nodes(nodes.get()) << " nodes\n";
    mine.unlock();
    return 0;
} catch (const redlock::error &error) {
    std::cerr << redlock_code_name(error.code()) << ": " << error.what() << '\n';
    return 1;
}
