/*
 * OpenSSL, loaded when it is first needed: to load it takes longer than a lock does.
 * Include this instead of <openssl/...>; the functions have their usual names.
 */
#ifndef RL_OPENSSL_H
#define RL_OPENSSL_H

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

/* Those that the library calls, also by OpenSSL's macros. */
// clang-format off
#define RL_OPENSSL_EACH(F)                                                                 \
    F(BIO_clear_flags) F(BIO_ctrl_pending) F(BIO_free) F(BIO_get_data) F(BIO_meth_free)    \
    F(BIO_meth_new) F(BIO_meth_set_ctrl) F(BIO_meth_set_read) F(BIO_meth_set_write)        \
    F(BIO_new) F(BIO_s_mem) F(BIO_set_data) F(BIO_set_flags) F(BIO_set_init)               \
    F(ERR_clear_error) F(ERR_peek_error) F(ERR_peek_last_error) F(ERR_reason_error_string) \
    F(SSL_CTX_add_custom_ext) F(SSL_CTX_check_private_key) F(SSL_CTX_ctrl) F(SSL_CTX_free) \
    F(SSL_CTX_load_verify_dir) F(SSL_CTX_load_verify_file) F(SSL_CTX_new)                  \
    F(SSL_CTX_sess_set_new_cb) F(SSL_CTX_set_default_passwd_cb)                            \
    F(SSL_CTX_set_default_verify_paths) F(SSL_CTX_set_options) F(SSL_CTX_set_verify)       \
    F(SSL_CTX_use_PrivateKey_file) F(SSL_CTX_use_certificate_chain_file)                   \
    F(SSL_SESSION_free) F(SSL_ctrl) F(SSL_do_handshake) F(SSL_free) F(SSL_get0_param)      \
    F(SSL_get1_peer_certificate) F(SSL_get_error) F(SSL_get_ex_data)                       \
    F(SSL_get_verify_result) F(SSL_has_pending) F(SSL_is_init_finished) F(SSL_new)         \
    F(SSL_read_ex) F(SSL_set1_host) F(SSL_set_bio) F(SSL_set_connect_state)                \
    F(SSL_set_ex_data) F(SSL_set_hostflags) F(SSL_set_session) F(SSL_set_shutdown)         \
    F(SSL_shutdown) F(SSL_want) F(SSL_write_ex) F(TLS_client_method)                       \
    F(X509_VERIFY_PARAM_set1_ip_asc) F(X509_free)
// clang-format on

#define RL_OPENSSL_NUMBER(name) RL_NUMBER_##name,
enum { RL_OPENSSL_EACH(RL_OPENSSL_NUMBER) RL_OPENSSL_FUNCTIONS };
#undef RL_OPENSSL_NUMBER

extern void (*rl_openssl[RL_OPENSSL_FUNCTIONS])(void);

/*
 * Returns NULL, or why OpenSSL cannot be loaded (valid until the thread's next dlopen()).
 * Nothing else here may be used before it has returned NULL. Any thread may call it.
 */
const char *rl_openssl_load(void);

#define RL_OPENSSL(name) ((__typeof__(name) *)rl_openssl[RL_NUMBER_##name])

#define BIO_clear_flags                    RL_OPENSSL(BIO_clear_flags)
#define BIO_ctrl_pending                   RL_OPENSSL(BIO_ctrl_pending)
#define BIO_free                           RL_OPENSSL(BIO_free)
#define BIO_get_data                       RL_OPENSSL(BIO_get_data)
#define BIO_meth_free                      RL_OPENSSL(BIO_meth_free)
#define BIO_meth_new                       RL_OPENSSL(BIO_meth_new)
#define BIO_meth_set_ctrl                  RL_OPENSSL(BIO_meth_set_ctrl)
#define BIO_meth_set_read                  RL_OPENSSL(BIO_meth_set_read)
#define BIO_meth_set_write                 RL_OPENSSL(BIO_meth_set_write)
#define BIO_new                            RL_OPENSSL(BIO_new)
#define BIO_s_mem                          RL_OPENSSL(BIO_s_mem)
#define BIO_set_data                       RL_OPENSSL(BIO_set_data)
#define BIO_set_flags                      RL_OPENSSL(BIO_set_flags)
#define BIO_set_init                       RL_OPENSSL(BIO_set_init)
#define ERR_clear_error                    RL_OPENSSL(ERR_clear_error)
#define ERR_peek_error                     RL_OPENSSL(ERR_peek_error)
#define ERR_peek_last_error                RL_OPENSSL(ERR_peek_last_error)
#define ERR_reason_error_string            RL_OPENSSL(ERR_reason_error_string)
#define SSL_CTX_add_custom_ext             RL_OPENSSL(SSL_CTX_add_custom_ext)
#define SSL_CTX_check_private_key          RL_OPENSSL(SSL_CTX_check_private_key)
#define SSL_CTX_ctrl                       RL_OPENSSL(SSL_CTX_ctrl)
#define SSL_CTX_free                       RL_OPENSSL(SSL_CTX_free)
#define SSL_CTX_load_verify_dir            RL_OPENSSL(SSL_CTX_load_verify_dir)
#define SSL_CTX_load_verify_file           RL_OPENSSL(SSL_CTX_load_verify_file)
#define SSL_CTX_new                        RL_OPENSSL(SSL_CTX_new)
#define SSL_CTX_sess_set_new_cb            RL_OPENSSL(SSL_CTX_sess_set_new_cb)
#define SSL_CTX_set_default_passwd_cb      RL_OPENSSL(SSL_CTX_set_default_passwd_cb)
#define SSL_CTX_set_default_verify_paths   RL_OPENSSL(SSL_CTX_set_default_verify_paths)
#define SSL_CTX_set_options                RL_OPENSSL(SSL_CTX_set_options)
#define SSL_CTX_set_verify                 RL_OPENSSL(SSL_CTX_set_verify)
#define SSL_CTX_use_PrivateKey_file        RL_OPENSSL(SSL_CTX_use_PrivateKey_file)
#define SSL_CTX_use_certificate_chain_file RL_OPENSSL(SSL_CTX_use_certificate_chain_file)
#define SSL_SESSION_free                   RL_OPENSSL(SSL_SESSION_free)
#define SSL_ctrl                           RL_OPENSSL(SSL_ctrl)
#define SSL_do_handshake                   RL_OPENSSL(SSL_do_handshake)
#define SSL_free                           RL_OPENSSL(SSL_free)
#define SSL_get0_param                     RL_OPENSSL(SSL_get0_param)
#define SSL_get1_peer_certificate          RL_OPENSSL(SSL_get1_peer_certificate)
#define SSL_get_error                      RL_OPENSSL(SSL_get_error)
#define SSL_get_ex_data                    RL_OPENSSL(SSL_get_ex_data)
#define SSL_get_verify_result              RL_OPENSSL(SSL_get_verify_result)
#define SSL_has_pending                    RL_OPENSSL(SSL_has_pending)
#define SSL_is_init_finished               RL_OPENSSL(SSL_is_init_finished)
#define SSL_new                            RL_OPENSSL(SSL_new)
#define SSL_read_ex                        RL_OPENSSL(SSL_read_ex)
#define SSL_set1_host                      RL_OPENSSL(SSL_set1_host)
#define SSL_set_bio                        RL_OPENSSL(SSL_set_bio)
#define SSL_set_connect_state              RL_OPENSSL(SSL_set_connect_state)
#define SSL_set_ex_data                    RL_OPENSSL(SSL_set_ex_data)
#define SSL_set_hostflags                  RL_OPENSSL(SSL_set_hostflags)
#define SSL_set_session                    RL_OPENSSL(SSL_set_session)
#define SSL_set_shutdown                   RL_OPENSSL(SSL_set_shutdown)
#define SSL_shutdown                       RL_OPENSSL(SSL_shutdown)
#define SSL_want                           RL_OPENSSL(SSL_want)
#define SSL_write_ex                       RL_OPENSSL(SSL_write_ex)
#define TLS_client_method                  RL_OPENSSL(TLS_client_method)
#define X509_VERIFY_PARAM_set1_ip_asc      RL_OPENSSL(X509_VERIFY_PARAM_set1_ip_asc)
#define X509_free                          RL_OPENSSL(X509_free)

#endif
