/*
 * Texts of others, made visible: the characters of Unicode's classes Cc, Cf, Zl and Zp,
 * which control a terminal, or change how the text around them is shown, are escaped. Pure.
 */
#ifndef CLI_VISIBLE_H
#define CLI_VISIBLE_H

#include <stddef.h>

/* With \xNN for each byte of them, and for bytes that are not UTF-8. Returns the length of
   `ret_text`, which has room for 4 * len + 1 bytes. */
size_t visible_text(const char *bytes, size_t len, char *ret_text);

/* JSON, which is UTF-8, with \uNNNN in its strings. `ret_json` has room for 6 * len + 1
   bytes. */
size_t visible_json(const char *json, size_t len, char *ret_json);

#endif
