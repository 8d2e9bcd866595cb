/*
 * Before all else in the command's sources: what cli_input.c does instead of the C library.
 * The headers come first: they may have functions of these names themselves.
 */
#ifndef TEST_FUZZ_CLI_REPLACED_H
#define TEST_FUZZ_CLI_REPLACED_H

#include <fcntl.h>
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
ssize_t fuzz_getline(char **line, size_t *room, FILE *from);
void fuzz_free(void *block);
FILE *fuzz_fopen(const char *name, const char *mode);
int fuzz_fclose(FILE *stream);
int fuzz_open(const char *name, int flags);
ssize_t fuzz_write(int fd, const void *bytes, size_t len);
_Noreturn void fuzz_exit(int code);

#ifndef TEST_FUZZ_CLI_INPUT_H
#define malloc    fuzz_malloc
#define calloc    fuzz_calloc
#define strdup    fuzz_strdup
#define vasprintf fuzz_vasprintf
#define asprintf  fuzz_asprintf
#define getline   fuzz_getline
#define free      fuzz_free
#define fopen     fuzz_fopen
#define fclose    fuzz_fclose
#define open      fuzz_open
#define write     fuzz_write
#define exit      fuzz_exit
#endif

#endif
