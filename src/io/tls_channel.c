#include "tls_parts.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define HOST_MAX 255 /* bytes of a name in DNS, and in SNI */

struct rl_tls_channel {
    struct rl_tls_peer *peer;
    SSL *ssl;
    BIO_METHOD *method;
    int fd;
    int error;  /* of the last system call on the descriptor */
    bool ended; /* the peer has closed */
    enum rl_fault fault;
    const char *reason; /* OpenSSL's, of the fault; NULL: none */
};

/* --- the descriptor: OpenSSL's own would raise SIGPIPE --- */

static int note(BIO *bio, ssize_t moved, int retry)
{
    struct rl_tls_channel *channel = BIO_get_data(bio);
    channel->error = moved < 0 ? errno : 0;
    BIO_clear_retry_flags(bio);
    if (moved < 0 && (errno == EAGAIN || errno == EINTR))
        BIO_set_flags(bio, retry | BIO_FLAGS_SHOULD_RETRY);
    return (int)moved;
}

static int receive(BIO *bio, char *buffer, int room)
{
    struct rl_tls_channel *channel = BIO_get_data(bio);
    ssize_t got = recv(channel->fd, buffer, (size_t)room, 0);
    channel->ended = got == 0;
    return note(bio, got, BIO_FLAGS_READ);
}

static int transmit(BIO *bio, const char *bytes, int len)
{
    const struct rl_tls_channel *channel = BIO_get_data(bio);
    return note(bio, send(channel->fd, bytes, (size_t)len, MSG_NOSIGNAL), BIO_FLAGS_WRITE);
}

static long control(BIO *bio, int what, long number, void *pointer)
{
    const struct rl_tls_channel *channel = BIO_get_data(bio);
    (void)number;
    (void)pointer;
    return what == BIO_CTRL_FLUSH || (what == BIO_CTRL_EOF && channel->ended);
}

static bool set_bio(struct rl_tls_channel *channel)
{
    channel->method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "redlock");
    if (!channel->method || !BIO_meth_set_read(channel->method, receive) ||
        !BIO_meth_set_write(channel->method, transmit) ||
        !BIO_meth_set_ctrl(channel->method, control))
        return false;
    BIO *bio = BIO_new(channel->method);
    if (!bio)
        return false;
    BIO_set_data(bio, channel);
    BIO_set_init(bio, 1);
    SSL_set_bio(channel->ssl, bio, bio);
    return true;
}

/* --- faults --- */

static enum rl_fault fault_of_certificate(long result)
{
    switch (result) {
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH: return RL_FAULT_TLS_NAME;
    case X509_V_ERR_CERT_HAS_EXPIRED: return RL_FAULT_TLS_EXPIRED;
    case X509_V_ERR_CERT_NOT_YET_VALID: return RL_FAULT_TLS_NOT_YET_VALID;
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE: return RL_FAULT_TLS_CA;
    default: return RL_FAULT_TLS_CERTIFICATE;
    }
}

/* A server that sent its certificate misses ours. Otherwise it may have found no cipher. */
static enum rl_fault fault_of_refusal(SSL *ssl)
{
    X509 *certificate = SSL_get1_peer_certificate(ssl);
    X509_free(certificate);
    return certificate ? RL_FAULT_TLS_CLIENT : RL_FAULT_TLS_REFUSED;
}

static enum rl_fault fault_of_error(SSL *ssl)
{
    unsigned long error = ERR_peek_error();
    if (ERR_GET_LIB(error) != ERR_LIB_SSL)
        return RL_FAULT_TLS;
    switch (ERR_GET_REASON(error)) {
    case SSL_R_CERTIFICATE_VERIFY_FAILED:
        return fault_of_certificate(SSL_get_verify_result(ssl));
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
    case SSL_R_HTTP_REQUEST: return RL_FAULT_TLS_PLAINTEXT;
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_NO_PROTOCOLS_AVAILABLE:
    case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION: return RL_FAULT_TLS_VERSION;
    case SSL_R_TLSV1_ALERT_INSUFFICIENT_SECURITY:
    case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE: return fault_of_refusal(ssl);
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
    case SSL_R_TLSV1_ALERT_ACCESS_DENIED: return RL_FAULT_TLS_CLIENT;
    default: return RL_FAULT_TLS;
    }
}

static const char *reason_of_error(SSL *ssl)
{
    long certificate = SSL_get_verify_result(ssl);
    return certificate != X509_V_OK ? X509_verify_cert_error_string(certificate)
                                    : ERR_reason_error_string(ERR_peek_error());
}

/* The error of a call that returned `result` <= 0: -errno, or 0: the peer has closed. */
static int error_of(struct rl_tls_channel *channel, int result)
{
    switch (SSL_get_error(channel->ssl, result)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE: return -EAGAIN;
    case SSL_ERROR_ZERO_RETURN: return 0;
    case SSL_ERROR_SYSCALL: return channel->error ? -channel->error : 0;
    default: break;
    }
    if (!channel->fault) {
        channel->fault = fault_of_error(channel->ssl);
        channel->reason = reason_of_error(channel->ssl);
    }
    return -EPROTO;
}

/* --- the peer --- */

/* An address is looked for among the certificate's addresses, and is no name to send. */
static bool set_name(SSL *ssl, const char *name)
{
    char address[INET6_ADDRSTRLEN + 1];
    unsigned char bytes[sizeof(struct in6_addr)];
    size_t len = strcspn(name, "%"); /* without the zone */
    if (len < sizeof(address)) {
        memcpy(address, name, len);
        address[len] = '\0';
        if (inet_pton(AF_INET, address, bytes) == 1 ||
            inet_pton(AF_INET6, address, bytes) == 1)
            return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), address) == 1;
    }
    /* A dot at the end means that no domain is added; no certificate has it. */
    char host[HOST_MAX + 1];
    len = strlen(name);
    if (len > HOST_MAX)
        return false;
    memcpy(host, name, len + 1);
    if (len > 1 && host[len - 1] == '.')
        host[len - 1] = '\0';
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS |
                               X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
    return SSL_set_tlsext_host_name(ssl, host) == 1 && SSL_set1_host(ssl, host) == 1;
}

void rl_tls_peer_clear(struct rl_tls_peer *peer)
{
    if (peer->session) /* else OpenSSL may not be loaded */
        SSL_SESSION_free(peer->session);
    peer->session = NULL;
}

/* In seconds since 1970; 0: unknown. */
static int64_t end_of(const X509 *certificate)
{
    struct tm end;
    return certificate && ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &end) == 1
               ? timegm(&end)
               : 0;
}

/* When the first certificate of the chain ends. A resumed connection has verified none. */
static int64_t end_of_chain(SSL *ssl, int64_t otherwise)
{
    STACK_OF(X509) *chain = SSL_get0_verified_chain(ssl);
    int64_t first = chain ? INT64_MAX : otherwise;
    for (int i = 0; i < sk_X509_num(chain); i++) {
        int64_t end = end_of(sk_X509_value(chain, i));
        first = end < first ? end : first;
    }
    return first;
}

int rl_tls_keep_session(SSL *ssl, SSL_SESSION *session)
{
    struct rl_tls_peer *peer = ((struct rl_tls_channel *)SSL_get_app_data(ssl))->peer;
    rl_tls_peer_clear(peer);
    peer->session = session;
    peer->session_end = end_of_chain(ssl, peer->session_end);
    return 1; /* the reference is ours */
}

/* A server whose session is resumed sends no certificate: none would be found to have
 * ended. */
static bool resume(const struct rl_tls_channel *channel, SSL *ssl)
{
    struct rl_tls_peer *peer = channel->peer;
    if (time(NULL) >= peer->session_end)
        rl_tls_peer_clear(peer);
    return !peer->session || SSL_set_session(ssl, peer->session) == 1;
}

static SSL *new_ssl(struct rl_tls_channel *channel, SSL_CTX *context, const char *name)
{
    SSL *ssl = SSL_new(context);
    if (ssl && SSL_set_app_data(ssl, channel) == 1 && set_name(ssl, name) &&
        resume(channel, ssl)) {
        SSL_set_connect_state(ssl);
        return ssl;
    }
    SSL_free(ssl);
    return NULL;
}

/* --- beginning --- */

struct rl_tls_channel *rl_tls_channel_new(struct rl_tls_peer *peer, SSL_CTX *context,
                                          const char *name, int fd)
{
    struct rl_tls_channel *channel = calloc(1, sizeof(*channel));
    if (!channel)
        return NULL;
    ERR_clear_error();
    channel->peer = peer;
    channel->fd = fd;
    channel->ssl = new_ssl(channel, context, name);
    if (channel->ssl && set_bio(channel))
        return channel;
    rl_tls_end(channel, false);
    return NULL;
}

int64_t rl_tls_seconds_until(int64_t end)
{
    int64_t now = time(NULL);
    return end > now ? end - now : 0;
}

static void note_certificates(struct rl_tls_channel *channel)
{
    X509 *server = SSL_get1_peer_certificate(channel->ssl);
    channel->peer->server_end = end_of(server);
    channel->peer->client_end = end_of(SSL_get_certificate(channel->ssl));
    X509_free(server);
}

int rl_tls_handshake(struct rl_tls_channel *channel, bool *ret_writes)
{
    ERR_clear_error();
    int result = SSL_do_handshake(channel->ssl);
    if (result == 1) {
        note_certificates(channel);
        return 0;
    }
    int error = error_of(channel, result);
    *ret_writes = SSL_want_write(channel->ssl);
    return error == 0 ? -EPIPE : error; /* the peer has closed */
}

/* --- reading and writing --- */

bool rl_tls_has_more(const struct rl_tls_channel *channel)
{
    return SSL_has_pending(channel->ssl) == 1;
}

ssize_t rl_tls_read(struct rl_tls_channel *channel, char *buffer, size_t room)
{
    size_t all = 0;
    if (channel->fault)
        return -EPROTO;
    do {
        size_t got = 0;
        ERR_clear_error();
        int result = SSL_read_ex(channel->ssl, buffer + all, room - all, &got);
        if (result != 1) {
            int error = error_of(channel, result);
            ERR_clear_error();
            return all > 0 ? (ssize_t)all : error;
        }
        all += got;
    } while (all < room && rl_tls_has_more(channel));
    return (ssize_t)all;
}

ssize_t rl_tls_write(struct rl_tls_channel *channel, const char *bytes, size_t len)
{
    size_t put = 0;
    if (channel->fault)
        return -EPROTO;
    ERR_clear_error();
    int result = SSL_write_ex(channel->ssl, bytes, len, &put);
    if (result == 1)
        return (ssize_t)put;
    int error = error_of(channel, result);
    return error == 0 ? -EPIPE : error;
}

enum rl_fault rl_tls_fault(const struct rl_tls_channel *channel, const char **ret_reason)
{
    *ret_reason = channel->reason ? channel->reason : "";
    return channel->fault;
}

/* --- ending --- */

/* SSL_free() drops the session of a connection that was not shut down. */
void rl_tls_end(struct rl_tls_channel *channel, bool notify)
{
    ERR_clear_error();
    bool is_sound = channel->ssl && !channel->fault && SSL_is_init_finished(channel->ssl);
    if (is_sound && notify)
        (void)SSL_shutdown(channel->ssl);
    if (is_sound)
        SSL_set_shutdown(channel->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
    ERR_clear_error();
    SSL_free(channel->ssl);
    BIO_meth_free(channel->method);
    free(channel);
}
