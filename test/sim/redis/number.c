#include "number.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DOUBLE_MAX 256 /* characters, as in Redis */

bool number_integer(struct rl_word word, int64_t *ret_value)
{
    bool is_negative = word.len > 0 && word.text[0] == '-';
    size_t first = is_negative;
    uint64_t most = (uint64_t)INT64_MAX + is_negative, value = 0;
    if (word.len == first)
        return false;
    if (word.text[first] == '0' && (word.len > 1))
        return false;
    for (size_t i = first; i < word.len; i++) {
        if (word.text[i] < '0' || word.text[i] > '9')
            return false;
        uint64_t digit = (uint64_t)(word.text[i] - '0');
        if (value > (most - digit) / 10)
            return false;
        value = 10 * value + digit;
    }
    *ret_value = is_negative ? (int64_t)(0 - value) : (int64_t)value;
    return true;
}

bool number_double(struct rl_word word, double *ret_value)
{
    char text[DOUBLE_MAX], *end;
    if (word.len == 0 || word.len >= sizeof(text) || isspace((unsigned char)word.text[0]))
        return false;
    memcpy(text, word.text, word.len);
    text[word.len] = '\0';
    *ret_value = strtod(text, &end);
    return end == text + word.len && !isnan(*ret_value);
}

size_t number_write(char buffer[NUMBER_ROOM], int64_t value)
{
    char digits[NUMBER_ROOM];
    size_t count = 0, len = 0;
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do {
        digits[count++] = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest > 0);
    if (value < 0)
        buffer[len++] = '-';
    while (count > 0)
        buffer[len++] = digits[--count];
    return len;
}

/* Redis 7.0 writes 17 digits; later releases the fewest that give the same number. */
size_t number_write_double(char buffer[NUMBER_ROOM], double value)
{
    return (size_t)snprintf(buffer, NUMBER_ROOM, "%.17g", value == 0 ? 0 : value);
}
