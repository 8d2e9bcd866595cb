#include "nesting.h"

#include <stdlib.h>
#include <string.h>

#define VARIABLE "REDLOCK_HELD"
#define HELD_MAX 4096 /* of more tokens than fit, the outermost are left out */
#define EVERY_MS 20

static const char *held(void)
{
    const char *tokens = getenv(VARIABLE);
    return tokens ? tokens : "";
}

size_t nesting_add(char environment[KEEPER_ENVIRONMENT], size_t size, const char *token)
{
    const char *outer = held();
    size_t len = strlen(outer);
    if (len > HELD_MAX) {
        const char *end = strchr(outer + len - HELD_MAX - 1, ' ');
        outer = end ? end + 1 : "";
    }
    return child_add(environment, size, VARIABLE "=%s%s%s", outer, *outer ? " " : "",
                     token);
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

/* True: without the nodes that store a token of an outer run there is no quorum. */
static bool waits_for_itself(const redlock_node *nodes, size_t count, unsigned quorum)
{
    size_t others = 0;
    for (size_t i = 0; i < count; i++)
        others += !is_held(nodes[i].value);
    return count > 0 && others < quorum;
}

/* A client that waits has no callback for an attempt that was refused. */
static void check(evutil_socket_t fd, short what, void *arg)
{
    struct nesting *nesting = arg;
    redlock_node nodes[REDLOCK_NODES_MAX];
    size_t count = redlock_explain(*nesting->lease, nodes, REDLOCK_NODES_MAX);
    (void)fd;
    (void)what;
    if (nesting->found || !waits_for_itself(nodes, count, nesting->quorum))
        return;
    nesting->found = true;
    redlock_cancel(*nesting->lease);
}

void nesting_begin(struct nesting *nesting, const struct cli *cli,
                   redlock_lease *const *lease)
{
    const struct timeval every = {.tv_usec = EVERY_MS * 1000};
    *nesting = (struct nesting){.lease = lease};
    if (!*held())
        return;
    nesting->quorum = redlock_client_quorum(cli->client);
    nesting->timer = event_new(cli->base, -1, EV_PERSIST, check, nesting);
    if (!nesting->timer || event_add(nesting->timer, &every) != 0)
        cli_fail(CLI_FAILED, "run: no events: out of memory or descriptors");
}

void nesting_end(struct nesting *nesting)
{
    if (nesting->timer)
        event_free(nesting->timer);
    nesting->timer = NULL;
}
