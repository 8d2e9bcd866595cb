#include "query.h"

#include <event2/http.h>
#include <stdlib.h>
#include <string.h>

bool query_number(const struct evkeyvalq *query, const char *name, size_t most,
                  size_t *ret_number)
{
    const char *text = evhttp_find_header(query, name);
    size_t number = 0;
    if (!text)
        return true;
    for (const char *at = text; *at; at++) {
        if (*at < '0' || *at > '9' || number > most)
            return false;
        number = 10 * number + (size_t)(*at - '0');
    }
    *ret_number = number;
    return *text && number <= most;
}

int query_list(const struct evkeyvalq *query, const char *name, double most,
               double *ret_numbers, unsigned room)
{
    const char *at = evhttp_find_header(query, name);
    unsigned count = 0;
    while (at && *at) {
        size_t len = strspn(at, "0123456789.");
        char *end = NULL;
        if (count == room)
            return -1;
        ret_numbers[count] = len > 0 ? strtod(at, &end) : -1;
        if ((at[len] && at[len] != ',') || (len > 0 && end != at + len) ||
            ret_numbers[count++] > most)
            return -1;
        at += len;
        at += *at == ',';
    }
    return (int)count;
}
