#include "file_stamp.h"
#include "system.h"
#include "tls_parts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FILES       4
#define RENEW_EVERY INT64_C(60000000000) /* ns */

struct rl_tls {
    struct rl_tls_options options;
    struct rl_file_stamp stamp[FILES];
    SSL_CTX *context;    /* NULL: a file is bad */
    enum rl_fault fault; /* ... and which; MEMORY: none is */
    char reason[256];    /* its name, and why */
    int64_t made_ns;     /* by CLOCK_BOOTTIME */
    unsigned generation; /* how often it was made again */
};

/* --- the files --- */

/* A file differs from when this was called before. */
static bool take_stamps(struct rl_tls *tls)
{
    const struct rl_tls_options *options = &tls->options;
    const char *const paths[FILES] = {options->ca_file, options->ca_dir, options->cert_file,
                                      options->key_file};
    bool changed = false;
    for (int i = 0; i < FILES; i++) {
        struct rl_file_stamp stamp = rl_file_stamp(paths[i]);
        changed |= !rl_file_stamp_equal(stamp, tls->stamp[i]);
        tls->stamp[i] = stamp;
    }
    return changed;
}

/* Keeps why the file cannot be used: the system's error, or else that it is no `wanted`. */
static enum rl_fault tls_refuse(struct rl_tls *tls, enum rl_fault fault, const char *path,
                                const char *wanted)
{
    unsigned long error = ERR_peek_error();
    snprintf(tls->reason, sizeof(tls->reason), "%s: %s", path,
             ERR_SYSTEM_ERROR(error) ? strerror(ERR_GET_REASON(error)) : wanted);
    return fault;
}

static enum rl_fault load_authorities(struct rl_tls *tls, SSL_CTX *context)
{
    const char *file = tls->options.ca_file, *folder = tls->options.ca_dir;
    struct stat found;
    if (file && SSL_CTX_load_verify_file(context, file) != 1)
        return tls_refuse(tls, RL_FAULT_TLS_CA_FILE, file, "no PEM certificate");
    if (folder && stat(folder, &found) != 0)
        return tls_refuse(tls, RL_FAULT_TLS_CA_FILE, folder, strerror(errno));
    if (folder &&
        (!S_ISDIR(found.st_mode) || SSL_CTX_load_verify_dir(context, folder) != 1))
        return tls_refuse(tls, RL_FAULT_TLS_CA_FILE, folder, strerror(ENOTDIR));
    if (!file && !folder)
        SSL_CTX_set_default_verify_paths(context);
    return RL_FAULT_NONE;
}

/* Returns what cannot be used; NONE: nothing. */
static enum rl_fault load_files(struct rl_tls *tls, SSL_CTX *context)
{
    const char *cert = tls->options.cert_file;
    const char *key = tls->options.key_file ? tls->options.key_file : cert;
    enum rl_fault fault = load_authorities(tls, context);
    if (fault != RL_FAULT_NONE)
        return fault;
    if (cert && SSL_CTX_use_certificate_chain_file(context, cert) != 1)
        return tls_refuse(tls, RL_FAULT_TLS_CERT_FILE, cert, "no PEM certificate");
    if (key && SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) != 1)
        return tls_refuse(tls, RL_FAULT_TLS_KEY_FILE, key,
                          ERR_GET_LIB(ERR_peek_error()) == ERR_LIB_X509
                              ? "it is not the key of the certificate"
                              : "no PEM private key without a passphrase");
    if (key && SSL_CTX_check_private_key(context) != 1)
        return tls_refuse(tls, RL_FAULT_TLS_KEY_FILE, key,
                          "there is no certificate for it");
    return RL_FAULT_NONE;
}

/* --- the context --- */

/* OpenSSL's own would ask at the terminal, in the event loop. */
static int no_password(char *buffer, int room, int writes, void *arg)
{
    (void)buffer;
    (void)room;
    (void)writes;
    (void)arg;
    return -1;
}

/* The machine's configuration may ask for a later version. */
static bool set_version(SSL_CTX *context)
{
    return SSL_CTX_get_min_proto_version(context) >= TLS1_2_VERSION ||
           SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) == 1;
}

static bool set_up(SSL_CTX *context, bool insecure)
{
    SSL_CTX_set_default_passwd_cb(context, no_password);
    SSL_CTX_set_mode(context,
                     SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    /* A peer that dies says no goodbye: that does not spoil the session. Replies have
       lengths, so one that was cut off is not taken for a whole one. */
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_read_ahead(context, 1); /* one call of recv() for a record, not two */
    SSL_CTX_set_verify(context, insecure ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT |
                                                SSL_SESS_CACHE_NO_INTERNAL_STORE);
    SSL_CTX_sess_set_new_cb(context, rl_tls_keep_session);
    return set_version(context);
}

/* Leaves `fault` and `reason` if a file cannot be used. */
static void make_context(struct rl_tls *tls)
{
    ERR_clear_error();
    tls->made_ns = rl_system_clock_ns(CLOCK_BOOTTIME);
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    tls->fault = RL_FAULT_MEMORY;
    if (context && set_up(context, tls->options.insecure))
        tls->fault = load_files(tls, context);
    ERR_clear_error(); /* the caller's thread may use OpenSSL, too */
    tls->context = tls->fault == RL_FAULT_NONE ? context : NULL;
    if (!tls->context)
        SSL_CTX_free(context);
}

/* Authorities of a folder or of the system may change unnoticed: a file in place. */
static bool is_outdated(const struct rl_tls *tls)
{
    bool has_folder = !tls->options.ca_file || tls->options.ca_dir;
    return has_folder && rl_system_clock_ns(CLOCK_BOOTTIME) - tls->made_ns >= RENEW_EVERY;
}

/* Reads the files again if one may have changed. NULL: one of them is bad. */
static SSL_CTX *current(struct rl_tls *tls)
{
    if (!take_stamps(tls) && tls->context && !is_outdated(tls))
        return tls->context;
    SSL_CTX_free(tls->context);
    make_context(tls);
    tls->generation++;
    return tls->context;
}

struct rl_tls *rl_tls_new(const struct rl_tls_options *options, enum rl_fault *ret_fault,
                          char *ret_text, size_t room)
{
    const char *missing = rl_openssl_load();
    *ret_fault = RL_FAULT_TLS;
    if (missing) {
        snprintf(ret_text, room, "TLS: %s", missing);
        return NULL;
    }
    struct rl_tls *tls = calloc(1, sizeof(*tls));
    if (tls) {
        tls->options = *options;
        take_stamps(tls);
        make_context(tls);
    }
    if (tls && tls->context)
        return tls;
    *ret_fault = tls ? tls->fault : RL_FAULT_MEMORY;
    snprintf(ret_text, room, "%s", tls ? tls->reason : "");
    free(tls);
    return NULL;
}

void rl_tls_free(struct rl_tls *tls)
{
    if (!tls)
        return;
    SSL_CTX_free(tls->context);
    free(tls);
}

/* A session of an older context may stand on another CA. */
struct rl_tls_channel *rl_tls_begin(struct rl_tls_peer *peer, int fd,
                                    enum rl_fault *ret_fault)
{
    struct rl_tls *tls = peer->tls;
    SSL_CTX *context = current(tls);
    *ret_fault = context ? RL_FAULT_MEMORY : tls->fault;
    if (!context)
        return NULL;
    if (peer->generation != tls->generation)
        rl_tls_peer_clear(peer);
    peer->generation = tls->generation;
    return rl_tls_channel_new(peer, context,
                              tls->options.name ? tls->options.name : peer->host, fd);
}

const char *rl_tls_reason(const struct rl_tls *tls)
{
    return tls->reason;
}
