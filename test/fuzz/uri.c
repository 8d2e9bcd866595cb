/* URIs of nodes: what is shown of one has no password, and is the URI of the same node. */
#include "net/uri.h"

#include <string.h>

#include "fuzz.h"

static void show_again(const struct rl_uri *uri)
{
    struct rl_uri again;
    FUZZ_CHECK(strlen(uri->shown) < RL_URI_SHOWN);
    if (!uri->host || strlen(uri->shown) == RL_URI_SHOWN - 1) /* it may be cut */
        return;
    FUZZ_CHECK(!strchr(uri->shown, '@'));
    FUZZ_CHECK(!rl_uri_parse(uri->shown, false, &again));
    FUZZ_CHECK(rl_uri_same(uri, &again) && again.tls == uri->tls && again.db == uri->db);
    FUZZ_CHECK(!again.user && !again.password && strcmp(again.shown, uri->shown) == 0);
    rl_uri_clear(&again);
}

static void parse(const char *text, bool always_tls)
{
    struct rl_uri uri = {.port = -1};
    const char *why = rl_uri_parse(text, always_tls, &uri);
    if (why) {
        FUZZ_CHECK(why[0] && uri.port == -1);
        return;
    }
    FUZZ_CHECK(!uri.host == !!uri.path && rl_uri_same(&uri, &uri));
    FUZZ_CHECK(uri.db >= 0 && (uri.path || (uri.port > 0 && uri.port < 65536)));
    show_again(&uri);
    rl_uri_clear(&uri);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    FUZZ_CHECK(text);
    memcpy(text, data, size);
    text[size] = '\0';
    parse(text, false);
    parse(text, true);
    rl_uri_missing_scheme(text);
    free(text);
    return 0;
}
