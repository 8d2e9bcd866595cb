/* The page of src/cli/page/: one document, for redlock monitor and redlock bench --html. */
#ifndef CLI_PAGE_H
#define CLI_PAGE_H

#include <stddef.h>
#include <stdio.h>

/* As a server sends it: without data, so that the page asks /api/... for them. */
extern const char cli_page[];
extern const size_t cli_page_len;

/* The value of the header Content-Security-Policy. */
extern const char cli_page_policy[];

/* Writes the page with this JSON inside, as one file. */
void cli_page_write(const char *json, FILE *stream);

#endif
