#include "io/resolver.h"

#include <stdio.h>
#include <stdlib.h>

#include "network.h"
#include "process.h"

struct rl_resolve {
    struct process *process;
    unsigned host;
    bool is_numeric;
    int port;
    rl_resolve_fn *done;
    void *arg;
    struct event answer;
    struct ready ready;
    struct rl_address address[NETWORK_DEAD + 1];
    struct rl_resolve *next, **link;
};

static void forget(struct rl_resolve *request)
{
    rl_resolve_cancel(request);
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
    struct rl_resolve *request = arg;
    const struct address *known = &network.address[request->host];
    unsigned count = 0;
    if (known->reason) {
        request->done(NULL, 0, known->reason, request->arg);
        return;
    }
    for (unsigned i = 0; i < NETWORK_DEAD; i++)
        if (known->dead[i] != 0)
            request->address[count++] = network_address(known->dead[i], request->port);
    request->address[count++] = network_address(request->host, request->port);
    request->done(request->address, count, "", request->arg);
}

struct rl_resolve *rl_resolve_new(struct rl_resolver *resolver, const char *host, int port,
                                  rl_resolve_fn *done, void *arg)
{
    struct process *process = process_of(resolver->base);
    struct rl_resolve *request;
    unsigned number;
    bool is_numeric = sscanf(host, "10.0.0.%u", &number) == 1;
    if ((!is_numeric && sscanf(host, "node%u", &number) != 1) || number >= NETWORK_HOSTS ||
        process_may_fail(process, process->faults.no_memory) ||
        !(request = malloc(sizeof(*request))))
        return NULL;
    *request = (struct rl_resolve){
        .process = process,
        .host = number,
        .is_numeric = is_numeric,
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
    return request;
}

void rl_resolve_start(struct rl_resolve *request)
{
    if (request->is_numeric) {
        request->address[0] = network_address(request->host, request->port);
        request->done(request->address, 1, "", request->arg);
        return;
    }
    event_at(&request->answer, events_now() + network.address[request->host].lookup_delay);
}

const char *rl_resolve_silence(const struct rl_resolve *request)
{
    (void)request;
    return "the name server has not answered";
}

void rl_resolve_cancel(struct rl_resolve *request)
{
    event_cancel(&request->answer);
    ready_forget(request->process, &request->ready);
}

void rl_resolve_free(struct rl_resolve *request)
{
    if (request)
        forget(request);
}

void rl_resolver_clear(struct rl_resolver *resolver)
{
    LIST_FIRST(&resolver->waiting) = NULL;
}
