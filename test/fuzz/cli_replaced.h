/*
 * Before all else in the command's sources: what cli_input.c does instead of the C library.
 * The headers come first: they may have functions of these names themselves.
 */
#ifndef TEST_FUZZ_CLI_REPLACED_H
#define TEST_FUZZ_CLI_REPLACED_H

#include <fcntl.h>
#include <redlock/settings.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void *fuzz_malloc(size_t size);
void *fuzz_calloc(size_t n, size_t size);
char *fuzz_strdup(const char *text);
int fuzz_vasprintf(char **to, const char *format, va_list arguments);
int fuzz_asprintf(char **to, const char *format, ...);
void fuzz_free(void *block);
int fuzz_open(const char *name, int flags);
_Noreturn void fuzz_exit(int code);
redlock_code fuzz_settings_read(const char *file, const char *nodes,
                                redlock_settings **ret_settings);

#ifndef TEST_FUZZ_CLI_INPUT_H
#define malloc                fuzz_malloc
#define calloc                fuzz_calloc
#define strdup                fuzz_strdup
#define vasprintf             fuzz_vasprintf
#define asprintf              fuzz_asprintf
#define free                  fuzz_free
#define open                  fuzz_open
#define exit                  fuzz_exit
#define redlock_settings_read fuzz_settings_read
#endif

#endif
