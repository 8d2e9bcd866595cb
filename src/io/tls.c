#include "file_stamp.h"
#include "tls_parts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FILES 4

/* A reserved extension that servers must ignore (GREASE, RFC 8701). */
#define FILLER 0x0a0a

struct rl_tls {
    struct rl_tls_options options;
    struct rl_file_stamp stamp[FILES];
    SSL_CTX *context; /* NULL: a file is bad */
    unsigned generation;
};

/* --- the files --- */

/* Whether a file differs from when this was called before. */
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

/* Returns the path that cannot be used, or NULL. */
static const char *load_files(SSL_CTX *context, const struct rl_tls_options *options)
{
    const char *key = options->key_file ? options->key_file : options->cert_file;
    if (options->ca_file && SSL_CTX_load_verify_file(context, options->ca_file) != 1)
        return options->ca_file;
    struct stat folder;
    if (options->ca_dir &&
        (stat(options->ca_dir, &folder) != 0 || !S_ISDIR(folder.st_mode) ||
         SSL_CTX_load_verify_dir(context, options->ca_dir) != 1))
        return options->ca_dir;
    if (!options->ca_file && !options->ca_dir)
        SSL_CTX_set_default_verify_paths(context);
    if (options->cert_file &&
        SSL_CTX_use_certificate_chain_file(context, options->cert_file) != 1)
        return options->cert_file;
    if (key && (SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) != 1 ||
                SSL_CTX_check_private_key(context) != 1))
        return key;
    return NULL;
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
    return set_version(context) &&
           SSL_CTX_add_custom_ext(context, FILLER, SSL_EXT_CLIENT_HELLO, rl_tls_fill, NULL,
                                  NULL, NULL, NULL) == 1;
}

static SSL_CTX *make_context(const struct rl_tls_options *options, const char **ret_bad)
{
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    *ret_bad = NULL;
    if (context && set_up(context, options->insecure) &&
        !(*ret_bad = load_files(context, options)))
        return context;
    SSL_CTX_free(context);
    return NULL;
}

/* Reads the files again if one was changed. NULL: one of them is bad. */
static SSL_CTX *current(struct rl_tls *tls)
{
    const char *bad;
    if (!take_stamps(tls) && tls->context)
        return tls->context;
    SSL_CTX_free(tls->context);
    tls->context = make_context(&tls->options, &bad);
    ERR_clear_error(); /* the caller's thread may use OpenSSL, too */
    tls->generation++;
    return tls->context;
}

/* The reason that OpenSSL gave last, and clears its queue. */
static const char *why(void)
{
    unsigned long error = ERR_peek_last_error();
    const char *text = ERR_SYSTEM_ERROR(error) ? strerror(ERR_GET_REASON(error))
                                               : ERR_reason_error_string(error);
    ERR_clear_error();
    return text ? text : "it cannot be used";
}

struct rl_tls *rl_tls_new(const struct rl_tls_options *options, char *ret_text, size_t room)
{
    const char *missing = rl_openssl_load();
    if (missing) {
        snprintf(ret_text, room, "%s", missing);
        return NULL;
    }
    struct rl_tls *tls = calloc(1, sizeof(*tls));
    const char *bad = NULL;
    if (tls) {
        tls->options = *options;
        take_stamps(tls);
        ERR_clear_error();
        tls->context = make_context(options, &bad);
    }
    if (tls && tls->context)
        return tls;
    if (bad)
        snprintf(ret_text, room, "%s: %s", bad, why());
    else
        snprintf(ret_text, room, "out of memory");
    ERR_clear_error();
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
    *ret_fault = context ? RL_FAULT_MEMORY : RL_FAULT_TLS_FILES;
    if (!context)
        return NULL;
    if (peer->generation != tls->generation)
        rl_tls_peer_clear(peer);
    peer->generation = tls->generation;
    return rl_tls_channel_new(peer, context,
                              tls->options.name ? tls->options.name : peer->host, fd);
}
