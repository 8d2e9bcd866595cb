/* Spans of locks below the span of a request (W3C Trace Context):
   TRACEPARENT=00-TRACE-SPAN-01 tracing redis://a redis://b redis://c */
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <random>
#include <redlock/redlock.hpp>

/* What came with a request. It lives until its spans have ended: here, as long as the
 * client. */
struct request {
    std::string trace, span;
};

/* Called in the client's thread only, so it needs no mutex. */
class tracer
{
  public:
    static void on_span(const redlock_span *span, void *arg)
    {
        auto &ids = static_cast<tracer *>(arg)->ids_;
        const auto name = std::make_pair(span->lease, std::string(span->operation));
        if (!span->ended) {
            ids[name] = static_cast<tracer *>(arg)->new_id();
            return;
        }
        const auto &parent = *static_cast<const request *>(span->user);
        std::printf("00-%s-%s-01 parent %s: %s, %s\n", parent.trace.c_str(),
                    ids[name].c_str(), parent.span.c_str(), span->operation,
                    redlock_code_name(span->code));
        ids.erase(name);
    }

  private:
    std::string new_id()
    {
        char id[17];
        std::snprintf(id, sizeof(id), "%016" PRIx64, random_() | 1); /* 0 is no id */
        return id;
    }

    std::mt19937_64 random_{std::random_device{}()};
    std::map<std::pair<std::uint64_t, std::string>, std::string> ids_;
};

int main(int argc, char **argv)
try {
    const char *given = std::getenv("TRACEPARENT");
    const std::string header =
        given ? given : "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    request order{header.substr(3, 32), header.substr(36, 16)};
    tracer spans;
    redlock_options options;
    redlock_options_init(&options);
    options.trace = tracer::on_span;
    options.trace_arg = &spans;
    redlock::client nodes({argv + 1, argv + argc}, &options);
    redlock_lock_options lock = redlock::default_options();
    lock.user = &order;
    const redlock::guard held(nodes, {"order"}, lock);
    return 0;
} catch (const redlock::error &error) {
    std::cerr << redlock_code_name(error.code()) << ": " << error.what() << '\n';
    return 1;
}
