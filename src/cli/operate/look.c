#include "look.h"

#include <stdlib.h>
#include <string.h>

#define ROOM_FIRST 64
#define FNV_BASIS  UINT64_C(0xcbf29ce484222325)
#define FNV_PRIME  UINT64_C(0x100000001b3)

/* --- tokens --- */

static uint64_t hash(uint64_t basis, const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        basis = (basis ^ (unsigned char)bytes[i]) * FNV_PRIME;
    return basis;
}

static uint64_t id_of(const char *key, size_t key_len, const char *token)
{
    return hash(hash(FNV_BASIS, key, key_len), token, strlen(token) + 1);
}

static void *grown(void *items, size_t count, size_t *room, size_t size)
{
    if (count < *room)
        return items;
    *room = *room ? 2 * *room : ROOM_FIRST;
    return cli_need_memory(realloc(items, *room * size));
}

static void add(struct look *look, uint64_t id, uint32_t lacking)
{
    look->stored = grown(look->stored, look->count, &look->room, sizeof(*look->stored));
    look->stored[look->count++] = (struct stored){id, lacking};
}

static int compare_ids(const void *a, const void *b)
{
    uint64_t left = ((const struct stored *)a)->id, right = ((const struct stored *)b)->id;
    return left < right ? -1 : left > right;
}

static struct stored *find(const struct look *look, uint64_t id)
{
    const struct stored wanted = {.id = id};
    if (look->count == 0)
        return NULL;
    return bsearch(&wanted, look->stored, look->count, sizeof(wanted), compare_ids);
}

const struct stored *look_find(const struct look *look, uint64_t id)
{
    return find(look, id);
}

bool look_shows_gaps(const struct look *look)
{
    for (size_t i = 0; i < look->count; i++)
        if (look->stored[i].lacking != 0)
            return true;
    return false;
}

/* --- one key --- */

static bool has(const redlock_node *node, const char *value)
{
    return node->verdict == REDLOCK_VERDICT_HELD && strcmp(node->value, value) == 0;
}

static void note_remaining(struct look *look, const redlock_node *node)
{
    int64_t left = cli_ms(node->remaining_us);
    if (left > look->remaining_ms &&
        redlock_token_kind(node->value, NULL) != REDLOCK_KIND_RECORD)
        look->remaining_ms = left;
}

/* A value that a quorum stores. */
static void add_value(struct look *look, const redlock_listed *listed, const char *value)
{
    const redlock_inspection *found = listed->inspection;
    uint32_t lacking = 0;
    for (size_t i = 0; i < found->count; i++)
        if (has(found->nodes[i], value))
            note_remaining(look, found->nodes[i]);
        else
            lacking |= UINT32_C(1) << i;
    add(look, id_of(listed->key, listed->key_len, value), lacking);
}

static void add_token(struct look *look, const redlock_listed *listed)
{
    const redlock_inspection *found = listed->inspection;
    for (size_t i = 0; i < found->count; i++) {
        unsigned agreeing = 0;
        for (size_t j = 0; j < found->count; j++)
            agreeing += has(found->nodes[j], found->nodes[i]->value);
        if (agreeing < found->quorum || !has(found->nodes[i], found->nodes[i]->value))
            continue;
        add_value(look, listed, found->nodes[i]->value);
        return;
    }
}

/* What an inspection tells of readers is which ones a quorum stores. look_at_readers() asks
   once more, with all nodes as the quorum. */
static void add_readers(struct look *look, const redlock_listed *listed)
{
    const redlock_inspection *found = listed->inspection;
    look->shared =
        grown(look->shared, look->shared_count, &look->shared_room, sizeof(*look->shared));
    struct shared_key *key = &look->shared[look->shared_count++];
    memcpy(key->name, listed->key, listed->key_len);
    key->len = listed->key_len;
    cli_need_memory((void *)found->reader);
    for (unsigned i = 0; i < found->readers; i++)
        add(look, id_of(key->name, key->len, found->reader[i]), LACKING_SOME);
    for (size_t i = 0; i < found->count; i++)
        if (has(found->nodes[i], found->nodes[i]->value))
            note_remaining(look, found->nodes[i]);
}

static void on_listed(redlock_client *client, const redlock_listed *listed, void *arg)
{
    struct look *look = arg;
    (void)client;
    if (!listed->inspection) {
        look->code = look->code == REDLOCK_OK ? listed->code : look->code;
        look->done = true;
    } else if (listed->code != REDLOCK_OK) { /* what is stored of this key is not known */
        look->code = listed->code;
    } else if (listed->inspection->readers > 0) {
        add_readers(look, listed);
    } else {
        add_token(look, listed);
    }
}

/* --- the look --- */

/* Its readers are on all nodes. */
static void on_inspected(redlock_client *client, const redlock_inspection *found, void *arg)
{
    struct look *look = arg;
    const struct shared_key *key = &look->shared[look->shared_count];
    (void)client;
    for (unsigned i = 0; found->reader && i < found->readers; i++) {
        struct stored *stored = find(look, id_of(key->name, key->len, found->reader[i]));
        if (stored)
            stored->lacking = 0;
    }
    look->done = true;
}

/* `quorum` 0: the configured one. */
static redlock_client *connect_client(const struct cli *cli, unsigned quorum)
{
    redlock_client *client = NULL;
    redlock_options options = cli->options;
    if (quorum > 0)
        options.quorum = quorum;
    if (redlock_client_new(cli->base, cli->uris, cli->uri_count, &options, &client) !=
        REDLOCK_OK)
        cli_fail(CLI_FAILED, "%s", redlock_last_error()->text);
    return client;
}

static void look_at_readers(struct look *look, const struct cli *cli)
{
    redlock_client *client = connect_client(cli, (unsigned)cli->uri_count);
    while (look->shared_count > 0 && !look->ends) {
        const struct shared_key *key = &look->shared[--look->shared_count];
        look->done = false;
        cli_need_start(redlock_inspect(client, key->name, key->len, on_inspected, look),
                       "check");
        cli_wait(cli->base, &look->done);
    }
    redlock_client_free(client);
}

void look_take(struct look *look, struct cli *cli)
{
    redlock_client_free(cli->client);
    cli->client = connect_client(cli, 0);
    *look = (struct look){.stored = look->stored,
                          .room = look->room,
                          .shared = look->shared,
                          .shared_room = look->shared_room};
    look->began = cli_clock_us(CLOCK_BOOTTIME);
    cli_need_start(redlock_list(cli->client, "", 0, 0, on_listed, look), "check");
    cli_wait(cli->base, &look->done);
    if (look->count > 1)
        qsort(look->stored, look->count, sizeof(*look->stored), compare_ids);
    look_at_readers(look, cli);
    look->ended = cli_clock_us(CLOCK_BOOTTIME);
}

void look_free(struct look *look)
{
    free(look->stored);
    free(look->shared);
}
