#include "nesting.h"

#include <stdlib.h>
#include <string.h>

#define VARIABLE "REDLOCK_HELD"
#define HELD_MAX 4096 /* of more tokens than fit, the outermost are left out */

static const char *held(void)
{
    const char *tokens = getenv(VARIABLE);
    return tokens ? tokens : "";
}

size_t nesting_add(char environment[KEEPER_ENVIRONMENT], size_t size, const char *token)
{
    const char *outer = held();
    while (strlen(outer) > HELD_MAX) {
        const char *end = strchr(outer, ' ');
        outer = end ? end + 1 : "";
    }
    return child_add(environment, size, VARIABLE "=%s%s%s", outer, *outer ? " " : "",
                     token);
}

bool nesting_is_inner(void)
{
    return held()[0] != '\0';
}

/* `value` is one of the words that a space separates. */
static bool is_held(const char *value)
{
    size_t len = strlen(value);
    const char *word = held();
    while (len > 0 && *word) {
        size_t word_len = strcspn(word, " ");
        if (word_len == len && memcmp(word, value, len) == 0)
            return true;
        word += word_len;
        word += strspn(word, " ");
    }
    return false;
}

bool nesting_waits_for_itself(const redlock_node *nodes, size_t count, unsigned quorum)
{
    size_t others = 0;
    for (size_t i = 0; i < count; i++)
        others += !is_held(nodes[i].value);
    return count > 0 && others < quorum;
}
