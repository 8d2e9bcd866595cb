#include "fake_quorum.h"

#include <criterion/criterion.h>

void fake_quorum_open_with(struct fake_quorum *f, const struct fake_line *script,
                           const redlock_options *options)
{
    memset(f, 0, sizeof(*f));
    servers_start(&f->s.servers, 2, NULL);
    f->s.base = event_base_new();
    fake_open(&f->fake, f->s.base, script);
    const char *uri[] = {f->fake.uri, f->s.servers.uri[0], f->s.servers.uri[1]};
    redlock_options mine = quorum_options();
    cr_assert_eq(
        redlock_client_new(f->s.base, uri, 3, options ? options : &mine, &f->s.client),
        REDLOCK_OK);
}

void fake_quorum_open(struct fake_quorum *f, const struct fake_line *script)
{
    fake_quorum_open_with(f, script, NULL);
    fake_quorum_await_ready(f);
}

void fake_quorum_close(struct fake_quorum *f)
{
    LOOP_UNTIL(f->s.base, servers_keys(&f->s.servers) == 0);
    redlock_client_free(f->s.client);
    f->s.client = NULL;
    fake_close(&f->fake);
    quorum_close(&f->s);
}

void fake_quorum_await_ready(struct fake_quorum *f)
{
    for (unsigned i = 0; i < 3; i++)
        LOOP_UNTIL(f->s.base, quorum_is(f->s.client, i, "ready"));
}
