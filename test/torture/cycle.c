#include "cycle.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GIVEN_UP      3
#define DESCRIPTORS   256
#define KEY_NAME_SIZE 64
#define LEFT_MS       5000

static const struct kind kinds[] = {
    {"exclusive", REDLOCK_KIND_EXCLUSIVE, false, 0, 1},
    {"shared", REDLOCK_KIND_SHARED, false, 0, 1},
    {"slot", REDLOCK_KIND_SLOT, false, 2, 1},
    {"record", REDLOCK_KIND_RECORD, false, 0, 1},
    {"redisson", REDLOCK_KIND_REDISSON, false, 0, 1},
    {"set", REDLOCK_KIND_EXCLUSIVE, false, 0, 3},
    {"fenced", REDLOCK_KIND_EXCLUSIVE, true, 0, 1},
    {"fenced-shared", REDLOCK_KIND_SHARED, true, 0, 1},
    {"fenced-slot", REDLOCK_KIND_SLOT, true, 2, 1},
    {"fenced-set", REDLOCK_KIND_EXCLUSIVE, true, 0, 3},
    {"election", REDLOCK_KIND_ELECTION, true, 0, 1},
    /* one node; nodes that have names; nodes by TLS; another lease has the lock first */
    {"single", REDLOCK_KIND_EXCLUSIVE, false, 0, 1},
    {"names", REDLOCK_KIND_EXCLUSIVE, false, 0, 1},
    {"tls", REDLOCK_KIND_EXCLUSIVE, false, 0, 1},
    {"waiting", REDLOCK_KIND_EXCLUSIVE, false, 0, 1},
};

struct kind cycle_kind(const char *name)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(kinds[i].name, name) == 0)
            return kinds[i];
    fprintf(stderr, "no kind %s\n", name);
    exit(GIVEN_UP);
}

redlock_options cycle_options(void)
{
    redlock_options options;
    redlock_options_init(&options);
    options.node_timeout_ms = TIMEOUT_MS;
    options.connect_timeout_ms = TIMEOUT_MS;
    options.max_ttl_ms = LONGER_MS;
    options.tls_ca_file = getenv("REDLOCK_CACERT");
    options.tls_cert_file = getenv("REDLOCK_CERT");
    options.tls_key_file = getenv("REDLOCK_CERT_KEY");
    return options;
}

void cycle_keys(const char *name, unsigned count, redlock_key *ret_keys)
{
    static char more[3][KEY_NAME_SIZE];
    for (unsigned i = 0; i < count; i++) {
        snprintf(more[i], KEY_NAME_SIZE, i == 0 ? "%s" : "%s:%u", name, i + 1);
        ret_keys[i] = (redlock_key){more[i], strlen(more[i])};
    }
}

void cycle_tell(const char *what, const char *token)
{
    printf("%s %s\n", what, token);
    fflush(stdout);
    if (getchar() != '\n')
        exit(GIVEN_UP);
}

void cycle_failed(const char *step, redlock_code code, redlock_reason reason,
                  const redlock_node *nodes, size_t count)
{
    printf("failed %s %s %s %s: %s", step, redlock_code_name(code),
           redlock_reason_name(reason), redlock_code_text(code),
           redlock_reason_text(reason));
    for (size_t i = 0; i < count; i++)
        if (nodes[i].text[0])
            printf("; node %zu %s: %s", i, redlock_verdict_name(nodes[i].verdict),
                   nodes[i].text);
    putchar('\n');
    fflush(stdout);
}

void cycle_again(const char *step, unsigned time)
{
    const redlock_error *error = redlock_last_error();
    printf("failed %s %s %s %s\n", step, redlock_code_name(error->code),
           redlock_reason_name(error->reason), error->text);
    fflush(stdout);
    if (time + 1 == TIMES)
        exit(GIVEN_UP);
}

unsigned cycle_descriptors(void)
{
    unsigned count = 0;
    for (int fd = 0; fd < DESCRIPTORS; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

void cycle_end(unsigned before)
{
    for (int i = 0; i < LEFT_MS && cycle_descriptors() > before; i++)
        usleep(1000);
    printf("left %u descriptors\nend\n", cycle_descriptors() - before);
    fflush(stdout);
}

bool cycle_are_ready(const redlock_node *nodes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (nodes[i].verdict != REDLOCK_VERDICT_READY)
            return false;
    return true;
}
