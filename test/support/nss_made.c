/* A name service of nsswitch.conf(5): it knows one name, made.test, at 127.0.0.1. */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <nss.h>
#include <stddef.h>
#include <string.h>

#define NAME "made.test"

/* glibc finds it by its name. */
enum nss_status _nss_made_gethostbyname2_r(const char *name, int family,
                                           struct hostent *ret_host, char *buffer,
                                           size_t room, int *ret_errno, int *ret_h_errno);

struct entry {
    char *addresses[2], *aliases[1];
    struct in_addr address;
    char name[sizeof(NAME)];
};

enum nss_status _nss_made_gethostbyname2_r(const char *name, int family,
                                           struct hostent *ret_host, char *buffer,
                                           size_t room, int *ret_errno, int *ret_h_errno)
{
    size_t skipped = -(size_t)buffer % _Alignof(struct entry);
    struct entry *entry = (struct entry *)(void *)(buffer + skipped);
    if (strcmp(name, NAME) != 0 || family != AF_INET) {
        *ret_errno = ENOENT;
        *ret_h_errno = HOST_NOT_FOUND;
        return NSS_STATUS_NOTFOUND;
    }
    if (room < sizeof(*entry) + skipped) {
        *ret_errno = ERANGE;
        *ret_h_errno = NETDB_INTERNAL;
        return NSS_STATUS_TRYAGAIN;
    }
    *entry = (struct entry){.address.s_addr = htonl(INADDR_LOOPBACK), .name = NAME};
    entry->addresses[0] = (char *)&entry->address;
    *ret_host = (struct hostent){.h_name = entry->name,
                                 .h_aliases = entry->aliases,
                                 .h_addrtype = AF_INET,
                                 .h_length = sizeof(entry->address),
                                 .h_addr_list = entry->addresses};
    return NSS_STATUS_SUCCESS;
}
