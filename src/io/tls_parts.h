/* What tls.c needs of tls_channel.c. */
#ifndef RL_TLS_PARTS_H
#define RL_TLS_PARTS_H

#include "openssl.h"
#include "tls.h"

/* `name`: expected of the peer. NULL: no memory. */
struct rl_tls_channel *rl_tls_channel_new(struct rl_tls_peer *peer, SSL_CTX *context,
                                          const char *name, int fd);

/* What a context calls: keeps the session that the server has sent; fills the greeting. */
int rl_tls_keep_session(SSL *ssl, SSL_SESSION *session);
int rl_tls_fill(SSL *ssl, unsigned type, unsigned context, const unsigned char **ret_bytes,
                size_t *ret_len, X509 *certificate, size_t index, int *alert, void *arg);

#endif
