/*
 * OpenSSL, loaded when it is first needed: to load it takes longer than a lock does. With
 * RL_OPENSSL_LINKED (meson: prefer_static) it is linked instead.
 * Include this instead of <openssl/...>; the functions have their usual names. The build
 * writes openssl_names.h from its list of the functions that the library calls, also by
 * OpenSSL's macros: RL_OPENSSL_EACH, and for each function a macro of its name.
 */
#ifndef RL_OPENSSL_H
#define RL_OPENSSL_H

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#ifdef RL_OPENSSL_LINKED
static inline const char *rl_openssl_load(void)
{
    return NULL;
}
#else
#include "openssl_names.h"

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
#endif

#endif
