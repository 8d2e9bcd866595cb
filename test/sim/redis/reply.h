/* Replies as bytes of RESP2. */
#ifndef SIM_REDIS_REPLY_H
#define SIM_REDIS_REPLY_H

#include "bytes.h"

void reply_status(struct bytes *out, struct rl_word text);
void reply_ok(struct bytes *out);

/* `text` begins with the code. Line ends become blanks. */
void reply_error(struct bytes *out, struct rl_word text);
void reply_error_format(struct bytes *out, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void reply_wrong_type(struct bytes *out);
void reply_syntax_error(struct bytes *out);
void reply_not_integer(struct bytes *out);

void reply_integer(struct bytes *out, int64_t value);
void reply_bulk(struct bytes *out, struct rl_word text);
void reply_bulk_text(struct bytes *out, const char *text);
void reply_bulk_integer(struct bytes *out, int64_t value);
void reply_nil(struct bytes *out);

/* Then come its items. */
void reply_array(struct bytes *out, size_t items);

#endif
