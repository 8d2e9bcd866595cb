/*
 * Preloaded into a client: it knows the hosts node.test and those below it, at 127.0.0.1.
 * While the file that NAMES_SILENT names exists, looking one up does not end; while that of
 * NAMES_FAIL exists, it fails.
 */
#include <dlfcn.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DOMAIN   "node.test"
#define PAUSE_US 10000

static bool has_file(const char *variable)
{
    const char *path = getenv(variable);
    return path && access(path, F_OK) == 0;
}

int getaddrinfo(const char *restrict node, const char *restrict service,
                const struct addrinfo *restrict hints, struct addrinfo **restrict ret_found)
{
    int (*next)(const char *, const char *, const struct addrinfo *, struct addrinfo **) =
        NULL;
    *(void **)&next = dlsym(RTLD_NEXT, "getaddrinfo");
    if (!node || strstr(node, DOMAIN) == NULL)
        return next(node, service, hints, ret_found);
    while (has_file("NAMES_SILENT"))
        usleep(PAUSE_US);
    if (has_file("NAMES_FAIL"))
        return EAI_AGAIN;
    if (hints && hints->ai_family == AF_INET6)
        return EAI_NONAME;
    return next("127.0.0.1", service, hints, ret_found);
}
