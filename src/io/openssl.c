#include "openssl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>

/* The release whose headers are included: in another one functions may differ. */
#define TEXT(word)        #word
#define LIBRARY_OF(major) "libssl.so." TEXT(major)
#define LIBRARY           LIBRARY_OF(OPENSSL_SHLIB_VERSION)

#define NAME(function) #function,
static const char *const names[RL_OPENSSL_FUNCTIONS] = {RL_OPENSSL_EACH(NAME)};

void (*rl_openssl[RL_OPENSSL_FUNCTIONS])(void);

/* Functions of libcrypto are found, too: libssl needs it. It is never unloaded. */
static const char *load(void)
{
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    for (int i = 0; library && i < RL_OPENSSL_FUNCTIONS; i++) {
        *(void **)&rl_openssl[i] = dlsym(library, names[i]);
        if (!rl_openssl[i])
            return dlerror();
    }
    return library ? NULL : dlerror();
}

const char *rl_openssl_load(void)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static bool loaded;
    const char *why = NULL;
    pthread_mutex_lock(&mutex);
    if (!loaded)
        why = load();
    loaded = !why;
    pthread_mutex_unlock(&mutex);
    return why;
}
