/*
 * TLS above a stream's descriptor: the client's context, each peer's session, and the
 * channel of one connection. tls_absent.c is for builds without OpenSSL.
 */
#ifndef RL_TLS_H
#define RL_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/fault.h"

/* The context that all connections of one client share. */
struct rl_tls;
struct rl_tls_channel;
struct ssl_session_st;

struct rl_tls_options {
    const char *ca_file, *ca_dir;     /* both NULL: the system's */
    const char *cert_file, *key_file; /* of the client; key_file NULL: in cert_file */
    const char *name; /* sent, and expected in the certificate; NULL: the host's */
    bool insecure;    /* accept any certificate */
};

/* A node's state between two connections. */
struct rl_tls_peer {
    struct rl_tls *tls;             /* NULL: the node is spoken to in plain text */
    const char *host;               /* must outlive the peer */
    struct ssl_session_st *session; /* to resume; NULL: none */
    int64_t session_end;            /* of its first certificate to end, in s since 1970 */
    unsigned generation;            /* of the context that the session was made with */
    /* The certificates of the last handshake end then, in seconds since 1970; 0: unknown */
    int64_t server_end, client_end;
};

/*
 * Reads the files. The strings of `options` must outlive the context. NULL: `ret_text` says
 * what is wrong, and `ret_fault` which file has it; MEMORY: none; TLS: there is no OpenSSL.
 */
struct rl_tls *rl_tls_new(const struct rl_tls_options *options, enum rl_fault *ret_fault,
                          char *ret_text, size_t room);
void rl_tls_free(struct rl_tls *tls);

void rl_tls_peer_clear(struct rl_tls_peer *peer);

/* The seconds until a certificate of the peer ends, by this host's clock; 0: it has ended.
 */
int64_t rl_tls_seconds_until(int64_t end);

/*
 * Begins TLS on a connected descriptor, which stays the caller's. Reads the files again if
 * they were changed, those of a folder or of the system's store after 60 s. NULL:
 * `ret_fault` is MEMORY, or which file cannot be used; then rl_tls_reason() is its name and
 * why, until it is tried again.
 */
struct rl_tls_channel *rl_tls_begin(struct rl_tls_peer *peer, int fd,
                                    enum rl_fault *ret_fault);
const char *rl_tls_reason(const struct rl_tls *tls);

/*
 * Goes on with the handshake. Returns 0 when it is done, or -errno; -EAGAIN: call it again
 * once the descriptor is readable, or writable if `ret_writes`.
 */
int rl_tls_handshake(struct rl_tls_channel *channel, bool *ret_writes);

/* Like rl_stream_read() and rl_stream_write(). After -EAGAIN write the same bytes again. */
ssize_t rl_tls_read(struct rl_tls_channel *channel, char *buffer, size_t room);
ssize_t rl_tls_write(struct rl_tls_channel *channel, const char *bytes, size_t len);

/* Bytes were taken from the descriptor that rl_tls_read() has not returned. */
bool rl_tls_has_more(const struct rl_tls_channel *channel);

/* Why TLS ended the connection, and OpenSSL's words for it, or ""; NONE: it did not. */
enum rl_fault rl_tls_fault(const struct rl_tls_channel *channel, const char **ret_reason);

/* Frees the channel. `notify`: tells the peer that nothing follows. */
void rl_tls_end(struct rl_tls_channel *channel, bool notify);

#endif
