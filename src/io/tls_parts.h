/* Functions that tls.c needs of tls_channel.c. */
#ifndef RL_TLS_PARTS_H
#define RL_TLS_PARTS_H

#include "openssl.h"
#include "tls.h"

/* `name`: expected of the peer. NULL: no memory. */
struct rl_tls_channel *rl_tls_channel_new(struct rl_tls_peer *peer, SSL_CTX *context,
                                          const char *name, int fd);

/* Callbacks of a context: keeps the session that the server has sent. */
int rl_tls_keep_session(SSL *ssl, SSL_SESSION *session);

#endif
