#include "nesting.h"

#include <stdlib.h>
#include <string.h>

#define HELD_MAX   4096 /* of more tokens than fit, the outermost are left out */
#define EVERY_MS   20
#define LOOK_TICKS 10 /* so many ticks from one inspection to the next */

static const char *held(void)
{
    const char *tokens = getenv(NESTING_VARIABLE);
    return tokens ? tokens : "";
}

const char *nesting_outer(void)
{
    const char *outer = held();
    size_t len = strlen(outer);
    if (len <= HELD_MAX)
        return outer;
    const char *end = strchr(outer + len - HELD_MAX - 1, ' ');
    return end ? end + 1 : "";
}

/* How many of the words that a space separates are this value; NULL: all of them. */
static unsigned count_held(const char *value)
{
    unsigned count = 0;
    for (const char *word = held(); *word; word += strspn(word, " ")) {
        size_t len = strcspn(word, " ");
        count += !value || (strlen(value) == len && memcmp(word, value, len) == 0);
        word += len;
    }
    return count;
}

static bool is_held(const char *value)
{
    return value[0] && count_held(value) > 0;
}

const char *nesting_token(const char *key)
{
    const char *token = getenv("REDLOCK_TOKEN"), *of = getenv("REDLOCK_KEY");
    bool is_of_another = token && of && is_held(token) && strcmp(of, key) != 0;
    return is_of_another ? NULL : token;
}

/* A writer that waits keeps this reader out. */
static bool is_writer(const char *value)
{
    return strcmp(value, REDLOCK_WAITING_WRITER) == 0;
}

/* True: without the nodes that store such a value there is no quorum. */
static bool waits_for(bool (*is_such)(const char *value), const redlock_node *nodes,
                      size_t count, unsigned quorum)
{
    size_t others = 0;
    for (size_t i = 0; i < count; i++)
        others += !is_such(nodes[i].value);
    return count > 0 && others < quorum;
}

static void give_up(struct nesting *nesting)
{
    nesting->found = true;
    redlock_cancel(*nesting->lease);
}

static void looked(redlock_client *client, const redlock_inspection *found, void *arg)
{
    struct nesting *nesting = arg;
    bool reads = false;
    (void)client;
    nesting->looks = false;
    for (unsigned i = 0; found->reader && i < found->readers; i++)
        reads |= is_held(found->reader[i]);
    if (reads && nesting->timer.event && !nesting->found)
        give_up(nesting);
}

static void nesting_look(struct nesting *nesting)
{
    const redlock_key *key = &nesting->cli->keys.of[0];
    if (nesting->looks || nesting->ticks % LOOK_TICKS != 0)
        return;
    nesting->looks = redlock_inspect(nesting->cli->client, key->bytes, key->len, looked,
                                     nesting) == REDLOCK_OK;
}

/* A client that waits has no callback for an attempt that was refused. */
static void check(void *arg)
{
    struct nesting *nesting = arg;
    redlock_node nodes[REDLOCK_NODES_MAX];
    size_t count = redlock_explain(*nesting->lease, nodes, REDLOCK_NODES_MAX);
    nesting->ticks++;
    if (nesting->found)
        return;
    if (waits_for(is_held, nodes, count, nesting->quorum))
        give_up(nesting);
    else if (nesting->cli->lease.kind == REDLOCK_KIND_SHARED &&
             waits_for(is_writer, nodes, count, nesting->quorum))
        nesting_look(nesting);
}

void nesting_begin(struct nesting *nesting, const struct cli *cli,
                   redlock_lease *const *lease)
{
    *nesting = (struct nesting){.cli = cli, .lease = lease};
    if (cli->lease.wait_ms == 0) /* it is told who holds the lock, at once */
        return;
    if (!*held() || cli->lease.slots > count_held(NULL)) /* another slot can become free */
        return;
    nesting->quorum = redlock_client_quorum(cli->client);
    cli_timer_begin(&nesting->timer, cli->base, EVERY_MS, check, nesting);
}

void nesting_end(struct nesting *nesting)
{
    cli_timer_end(&nesting->timer);
}

bool nesting_has(const struct inspection *inspection)
{
    const redlock_inspection *found = &inspection->found;
    bool reads = false;
    for (size_t i = 0; i < inspection->readers; i++)
        reads |= is_held(inspection->reader[i]);
    return reads || waits_for(is_held, inspection->nodes, found->count, found->quorum);
}

void nesting_complain(const char *key)
{
    cli_complain(
        "%s: this command is part of the job that has the lock: it would wait for "
        "itself",
        key);
}
