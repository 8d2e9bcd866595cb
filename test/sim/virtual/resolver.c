#include "io/resolver.h"

#include <stdio.h>
#include <stdlib.h>

#include "network.h"
#include "process.h"

struct rl_resolve {
    struct process *process;
    unsigned host;
    int port;
    rl_resolve_fn *done;
    void *arg;
    struct event answer;
    struct ready ready;
    struct rl_resolve *next, **link;
};

static void forget(struct rl_resolve *request)
{
    event_cancel(&request->answer);
    ready_forget(request->process, &request->ready);
    *request->link = request->next;
    if (request->next)
        request->next->link = request->link;
    free(request);
}

void process_forget_lookups(struct process *process)
{
    while (process->resolve)
        forget(process->resolve);
}

static void on_answer(void *arg)
{
    struct rl_resolve *request = arg;
    process_make_ready(request->process, &request->ready);
}

static void on_resolved(void *arg)
{
    struct rl_resolve request = *(struct rl_resolve *)arg;
    struct rl_address address = network_address(request.host, request.port);
    forget(arg);
    request.done(network.address[request.host].is_unknown ? NULL : &address, request.arg);
}

struct rl_resolve *rl_resolve_start(struct rl_resolver *resolver, const char *host,
                                    int port, unsigned address_turn, rl_resolve_fn *done,
                                    void *arg)
{
    struct process *process = process_of(resolver->base);
    struct rl_resolve *request;
    unsigned number;
    (void)address_turn;
    if (sscanf(host, "10.0.0.%u", &number) == 1 && number < NETWORK_HOSTS) {
        struct rl_address address = network_address(number, port);
        done(&address, arg);
        return NULL;
    }
    if (sscanf(host, "node%u", &number) != 1 || number >= NETWORK_HOSTS ||
        process_may_fail(process, process->faults.no_memory) ||
        !(request = malloc(sizeof(*request)))) {
        done(NULL, arg);
        return NULL;
    }
    *request = (struct rl_resolve){
        .process = process,
        .host = number,
        .port = port,
        .done = done,
        .arg = arg,
        .answer = {.happen = on_answer, .arg = request},
        .ready = {.run = on_resolved, .arg = request},
        .next = process->resolve,
        .link = &process->resolve,
    };
    if (process->resolve)
        process->resolve->link = &request->next;
    process->resolve = request;
    event_at(&request->answer, events_now() + network.address[number].lookup_delay);
    return request;
}

void rl_resolve_cancel(struct rl_resolve *request)
{
    forget(request);
}

void rl_resolver_clear(struct rl_resolver *resolver)
{
    resolver->names = NULL;
}
