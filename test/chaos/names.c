/*
 * Preloaded into a client: it knows the hosts node.test and those below it, at 127.0.0.1,
 * unless the file that NAMES_FAIL names exists: then looking one up fails.
 */
#include <dlfcn.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DOMAIN "node.test"

int getaddrinfo(const char *restrict node, const char *restrict service,
                const struct addrinfo *restrict hints, struct addrinfo **restrict ret_found)
{
    int (*next)(const char *, const char *, const struct addrinfo *, struct addrinfo **) =
        NULL;
    const char *fails = getenv("NAMES_FAIL");
    *(void **)&next = dlsym(RTLD_NEXT, "getaddrinfo");
    if (!node || strstr(node, DOMAIN) == NULL)
        return next(node, service, hints, ret_found);
    if (fails && access(fails, F_OK) == 0)
        return EAI_AGAIN;
    if (hints && hints->ai_family == AF_INET6)
        return EAI_NONAME;
    return next("127.0.0.1", service, hints, ret_found);
}
