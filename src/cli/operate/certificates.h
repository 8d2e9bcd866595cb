/* A CA, and certificates that it signs, for redlock local --tls. */
#ifndef CLI_CERTIFICATES_H
#define CLI_CERTIFICATES_H

#include <stdbool.h>

/* NULL, or why certificates cannot be made. Call it before certificates_make(). */
const char *certificates_missing(void);

/*
 * Writes into the folder ca.crt and ca.key, server.crt and server.key (for localhost,
 * 127.0.0.1 and ::1), client.crt and client.key, valid for a year. False: errno says why.
 */
bool certificates_make(const char *folder);

#endif
