/* The inside of a TLS context, for tls.c and tls_channel.c. */
#ifndef RL_TLS_PARTS_H
#define RL_TLS_PARTS_H

#include <openssl/ssl.h>

#include "tls.h"

/* Reads the files again if one was changed. Returns the context, or NULL if one is bad. */
SSL_CTX *rl_tls_context(struct rl_tls *tls);

/* Grows with each context: a session of an older one may stand on another CA. */
unsigned rl_tls_generation(const struct rl_tls *tls);

const struct rl_tls_options *rl_tls_options(const struct rl_tls *tls);

/* What the context calls: keeps the session that the server has sent; fills the greeting.
 */
int rl_tls_keep_session(SSL *ssl, SSL_SESSION *session);
int rl_tls_fill(SSL *ssl, unsigned type, unsigned context, const unsigned char **ret_bytes,
                size_t *ret_len, X509 *certificate, size_t index, int *alert, void *arg);

#endif
