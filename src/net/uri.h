/* Where a node is and who we are there, from a URI. */
#ifndef RL_URI_H
#define RL_URI_H

#include <stdbool.h>
#include <stddef.h>

#define RL_URI_SHOWN 320

struct rl_uri {
    char *host; /* a name or numeric address; NULL for a unix socket */
    char *path; /* of the unix socket */
    char *user, *password;
    int port;
    int db;
    bool tls;
    char shown[RL_URI_SHOWN]; /* the URI without its password */
};

/*
 * NULL, or a short phrase that says what is wrong; then nothing is left to be cleared. If
 * memory ran out, errno is ENOMEM.
 */
const char *rl_uri_parse(const char *text, struct rl_uri *ret_uri);
void rl_uri_clear(struct rl_uri *uri);

/* What a text lacks that is a path, or a host with or without a port; NULL: it is neither.
 */
const char *rl_uri_missing_scheme(const char *text);

/* False: no memory. */
bool rl_uri_copy(const struct rl_uri *uri, struct rl_uri *ret_uri);

/* Whether both name the same server, as far as their text tells. */
bool rl_uri_same(const struct rl_uri *a, const struct rl_uri *b);

#endif
