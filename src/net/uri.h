/* Parses a node's URI: its address and the client's credentials. */
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
 * `always_tls`: redis:// means rediss://. Returns NULL, or a short phrase that describes
 * the error. After an error there is nothing to clear. If memory ran out, errno is ENOMEM.
 */
const char *rl_uri_parse(const char *text, bool always_tls, struct rl_uri *ret_uri);
void rl_uri_clear(struct rl_uri *uri);

/*
 * The scheme that is missing from a text that is a path, or a host with an optional port.
 * NULL: the text is neither.
 */
const char *rl_uri_missing_scheme(const char *text);

/* Both name the same server, judged by their text alone. */
bool rl_uri_same(const struct rl_uri *a, const struct rl_uri *b);

#endif
