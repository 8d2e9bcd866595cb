/*
 * The static command has this besides (docs/install.md). It loads no shared object: one
 * that was built with another release of glibc ends it by a signal.
 */
#include <nss.h>
#ifdef RL_OPENSSL_LINKED
#include <openssl/crypto.h>
#endif

__attribute__((constructor)) static void load_nothing(void)
{
    /* Not the modules that /etc/nsswitch.conf names; these two are linked. */
    __nss_configure_lookup("hosts", "files dns");
#ifdef RL_OPENSSL_LINKED
    /* Not the modules that openssl.cnf names. */
    OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, NULL);
#endif
}
