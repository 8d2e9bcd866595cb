/* A build without TLS. */
#include "certificates.h"

#include <errno.h>

const char *certificates_missing(void)
{
    return "TLS is no part of this build (meson: -Dtls=enabled)";
}

bool certificates_make(const char *folder)
{
    (void)folder;
    errno = ENOTSUP;
    return false;
}
