/* A build without TLS: there is no context, and so nothing else is ever called. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>

#include "tls.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

struct rl_tls *rl_tls_new(const struct rl_tls_options *options, enum rl_fault *ret_fault,
                          char *ret_text, size_t room)
{
    *ret_fault = RL_FAULT_TLS;
    snprintf(ret_text, room, "TLS is no part of this build (meson: -Dtls=enabled)");
    return NULL;
}

void rl_tls_free(struct rl_tls *tls)
{
    assert(!tls);
}

void rl_tls_peer_clear(struct rl_tls_peer *peer)
{
}

int64_t rl_tls_seconds_until(int64_t end)
{
    return 0;
}

struct rl_tls_channel *rl_tls_begin(struct rl_tls_peer *peer, int fd,
                                    enum rl_fault *ret_fault)
{
    *ret_fault = RL_FAULT_TLS;
    return NULL;
}

int rl_tls_handshake(struct rl_tls_channel *channel, bool *ret_writes)
{
    return -EPROTO;
}

ssize_t rl_tls_read(struct rl_tls_channel *channel, char *buffer, size_t room)
{
    return -EPROTO;
}

ssize_t rl_tls_write(struct rl_tls_channel *channel, const char *bytes, size_t len)
{
    return -EPROTO;
}

bool rl_tls_has_more(const struct rl_tls_channel *channel)
{
    return false;
}

const char *rl_tls_reason(const struct rl_tls *tls)
{
    return "";
}

enum rl_fault rl_tls_fault(const struct rl_tls_channel *channel, const char **ret_reason)
{
    *ret_reason = "";
    return RL_FAULT_TLS;
}

void rl_tls_end(struct rl_tls_channel *channel, bool notify)
{
}
