#include "uri.h"

#include <ctype.h>
#include <event2/http.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/un.h>

#include "redlock/redlock.h"

#define DB_MAX 999999

/* Parses a decimal number in [0, most]; -1 if the text is anything else. */
static int parse_number(const char *text, int most)
{
    char *end;
    long value = strtol(text, &end, 10);
    bool is_number = isdigit((unsigned char)*text) && *end == '\0';
    return is_number && value <= most ? (int)value : -1;
}

/* Percent-decodes the text. NULL: it is malformed, contains a NUL byte, or no memory. */
static char *decode(const char *text, size_t len)
{
    char *raw = strndup(text, len);
    if (!raw)
        return NULL;
    size_t size = 0;
    char *decoded = evhttp_uridecode(raw, 0, &size);
    free(raw);
    if (decoded && strlen(decoded) != size) {
        free(decoded);
        return NULL;
    }
    return decoded;
}

static const char *parse_userinfo(const char *userinfo, struct rl_uri *uri)
{
    if (!userinfo || !*userinfo)
        return NULL;
    const char *colon = strchr(userinfo, ':');
    size_t user_len = colon ? (size_t)(colon - userinfo) : strlen(userinfo);
    if (user_len > 0 && !(uri->user = decode(userinfo, user_len)))
        return "the user has a NUL byte, %00";
    if (colon && !(uri->password = decode(colon + 1, strlen(colon + 1))))
        return "the password has a NUL byte, %00";
    return NULL;
}

static bool has_only(const char *text, const char *others)
{
    for (const char *c = text; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr(others, *c))
            return false;
    return true;
}

static const char *parse_host(const char *host, struct rl_uri *uri)
{
    if (!host || !*host)
        return "the host is missing";
    size_t len = strlen(host);
    bool bracketed = host[0] == '[' && host[len - 1] == ']';
    uri->host = bracketed ? decode(host + 1, len - 2) : decode(host, len);
    bool valid = uri->host && *uri->host && has_only(uri->host, bracketed ? ":." : "-._");
    return valid ? NULL : "the host has a character that no host has";
}

/* Appends it to the host, as getaddrinfo(3) expects it: fe80::1%eth0. */
static const char *parse_zone(const char *zone, struct rl_uri *uri)
{
    char *name = decode(zone, strlen(zone));
    char *host = NULL;
    bool valid = name && *name && strchr(uri->host, ':') && has_only(name, "-._~");
    if (valid && asprintf(&host, "%s%%%s", uri->host, name) < 0)
        host = NULL;
    free(name);
    if (!host)
        return "the zone of the address is not like [fe80::1%25eth0]";
    free(uri->host);
    uri->host = host;
    return NULL;
}

static const char *parse_network(const struct evhttp_uri *parsed, const char *zone,
                                 struct rl_uri *uri)
{
    const char *why = parse_host(evhttp_uri_get_host(parsed), uri);
    if (!why && zone)
        why = parse_zone(zone, uri);
    if (why)
        return why;
    int port = evhttp_uri_get_port(parsed);
    if (port == 0 || port > 65535)
        return "the port is not from 1 to 65535";
    uri->port = port < 0 ? REDLOCK_PORT : port;
    const char *path = evhttp_uri_get_path(parsed);
    if (evhttp_uri_get_query(parsed))
        return "it has a query, which only unix:// takes";
    if (path && path[0] == '/' && path[1] != '\0')
        uri->db = parse_number(path + 1, DB_MAX);
    return uri->db < 0 ? "the database is not a number from 0 to 999999" : NULL;
}

static const char *parse_unix(const struct evhttp_uri *parsed, struct rl_uri *uri)
{
    const char *path = evhttp_uri_get_path(parsed);
    const char *host = evhttp_uri_get_host(parsed);
    if ((host && *host) || !path || path[0] != '/' || path[1] == '\0')
        return "it is not unix:///path";
    uri->path = decode(path, strlen(path));
    if (!uri->path)
        return "the path has a NUL byte, %00";
    if (strlen(uri->path) >= sizeof(((struct sockaddr_un *)0)->sun_path))
        return "the path is too long for a unix socket";
    const char *query = evhttp_uri_get_query(parsed);
    if (!query || !*query)
        return NULL;
    uri->db = strncmp(query, "db=", 3) == 0 ? parse_number(query + 3, DB_MAX) : -1;
    return uri->db < 0 ? "the query is not db=N" : NULL;
}

static const char *parse_parts(const struct evhttp_uri *parsed, const char *zone,
                               struct rl_uri *uri)
{
    const char *scheme = evhttp_uri_get_scheme(parsed);
    if (!scheme)
        return "it has no scheme: redis:// or unix://";
    if (evhttp_uri_get_fragment(parsed))
        return "it has a \"#\", which is written %23";
    const char *why = parse_userinfo(evhttp_uri_get_userinfo(parsed), uri);
    if (why)
        return why;
    uri->tls = strcasecmp(scheme, "rediss") == 0;
    if (uri->tls || strcasecmp(scheme, "redis") == 0)
        return parse_network(parsed, zone, uri);
    if (strcasecmp(scheme, "unix") == 0)
        return parse_unix(parsed, uri);
    return "its scheme is neither redis, rediss nor unix";
}

static void show_network(struct rl_uri *uri, const char *db)
{
    bool v6 = strchr(uri->host, ':') != NULL;
    size_t len = strcspn(uri->host, "%");
    const char *zone = uri->host[len] ? uri->host + len + 1 : NULL;
    snprintf(uri->shown, sizeof(uri->shown), "%s://%s%.*s%s%s%s:%d%s",
             uri->tls ? "rediss" : "redis", v6 ? "[" : "", (int)len, uri->host,
             zone ? "%25" : "", zone ? zone : "", v6 ? "]" : "", uri->port, db);
}

static void uri_show(struct rl_uri *uri)
{
    char db[16] = "";
    if (uri->db > 0)
        snprintf(db, sizeof(db), uri->host ? "/%d" : "?db=%d", uri->db);
    if (uri->host)
        show_network(uri, db);
    else
        snprintf(uri->shown, sizeof(uri->shown), "unix://%s%s", uri->path, db);
}

/* A list as in REDLOCK_NODES. A "/" in a password is encoded, so it has none of these. */
static bool is_list(const char *text)
{
    return strstr(text, ",redis://") || strstr(text, ",rediss://") ||
           strstr(text, ",unix://");
}

/*
 * Libevent does not know the zones of RFC 6874, [fe80::1%25eth0]: removes it from the text.
 * No other part of a URI may have a bracket. Returns the zone, encoded, or NULL.
 */
static char *cut_zone(char *text)
{
    char *open = strchr(text, '[');
    char *zone = open ? strstr(open, "%25") : NULL;
    char *close = open ? strchr(open, ']') : NULL;
    if (!zone || !close || zone > close)
        return NULL;
    char *cut = strndup(zone + 3, (size_t)(close - zone) - 3);
    if (cut)
        memmove(zone, close, strlen(close) + 1);
    return cut;
}

/*
 * Why no part of the text can be read. Quotes nothing of it: what looks like a port may be
 * the rest of a password.
 */
static const char *why_unreadable(const char *text)
{
    const char *blank = strpbrk(text, " \t\r\n"), *start = strstr(text, "://");
    if (blank)
        return strstr(blank, "://") ? "a list takes commas, not blanks" : "it has a blank";
    if (!start)
        return "it has no scheme: redis:// or unix://";
    const char *host = start + 3, *end = host + strcspn(host, "/?#");
    const char *at = strrchr(host, '@');
    if (at && at > end)
        return "\"/\", \"?\" and \"#\" in a password are written %2F, %3F and %23";
    if (at && strchr(host, '@') != at)
        return "\"@\" in a password is written %40";
    host = at ? at + 1 : host;
    const char *colon = memchr(host, ':', (size_t)(end - host));
    if (host[0] != '[' && colon && memchr(colon + 1, ':', (size_t)(end - colon) - 1))
        return "an IPv6 address takes brackets, as in redis://[::1]";
    if (host[0] != '[' && colon && colon + 1 + strspn(colon + 1, "0123456789") != end)
        return "the port is not a number";
    if (host[0] != '[' && colon)
        return "the port is not from 1 to 65535";
    return "it has a character that must be written as % and two hexadecimal digits";
}

static const char *parse(const char *text, struct rl_uri *uri)
{
    char *whole = strdup(text);
    if (!whole)
        return "no memory";
    char *zone = cut_zone(whole);
    struct evhttp_uri *parsed = evhttp_uri_parse_with_flags(whole, 0);
    const char *why = parsed ? parse_parts(parsed, zone, uri) : why_unreadable(text);
    if (parsed)
        evhttp_uri_free(parsed);
    free(zone);
    free(whole);
    return why;
}

const char *rl_uri_parse(const char *text, bool always_tls, struct rl_uri *ret_uri)
{
    struct rl_uri uri = {0};
    const char *why = is_list(text) ? "it is a list: each URI is an element of its own"
                                    : parse(text, &uri);
    if (why) {
        rl_uri_clear(&uri);
        return why;
    }
    uri.tls |= always_tls && uri.host;
    uri_show(&uri);
    *ret_uri = uri;
    return NULL;
}

const char *rl_uri_missing_scheme(const char *text)
{
    static const char host[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:[]";
    if (text[0] == '/' && !strchr(text, '@'))
        return "unix://";
    return text[0] != '\0' && text[strspn(text, host)] == '\0' ? "redis://" : NULL;
}

void rl_uri_clear(struct rl_uri *uri)
{
    free(uri->host);
    free(uri->path);
    free(uri->user);
    free(uri->password);
    *uri = (struct rl_uri){0};
}

/* The name of an interface is case-sensitive. */
static bool same_host(const char *a, const char *b)
{
    if (!a || !b)
        return a == b;
    size_t len = strcspn(a, "%");
    return strcspn(b, "%") == len && strncasecmp(a, b, len) == 0 &&
           strcmp(a + len, b + len) == 0;
}

bool rl_uri_same(const struct rl_uri *a, const struct rl_uri *b)
{
    if (a->path || b->path)
        return a->path && b->path && strcmp(a->path, b->path) == 0;
    return a->port == b->port && same_host(a->host, b->host);
}
