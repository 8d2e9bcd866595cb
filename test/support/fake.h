/*
 * A fake server on a port of 127.0.0.1, in the test's own loop. It greets as a master does.
 * It replies as its script says; where the script has no line, it grants everything.
 */
#ifndef TEST_FAKE_H
#define TEST_FAKE_H

#include <event2/event.h>
#include <stddef.h>

enum fake_way {
    FAKE_SEND,
    FAKE_BYTEWISE, /* one byte per iteration of the loop */
    FAKE_FLOOD,    /* the text, and then its last four bytes again and again */
    FAKE_RESET,    /* the text, and then a reset of the connection */
    FAKE_CLOSE,    /* the text, and then a close of the connection */
    FAKE_FOREVER,  /* from now on this is the reply to all matching commands */
};

/* The reply to a command that begins with `expect`; NULL: no reply. */
struct fake_line {
    const char *expect, *send;
    enum fake_way way;
};

struct fake {
    struct event_base *base;
    struct evconnlistener *listener;
    struct fake_connection *connection; /* the last one */
    char uri[64];
    const struct fake_line *line; /* the next line; the last line has no `expect` */
    /* NULL, or sent on each new connection, which then ends in this way: */
    const char *refusal;
    enum fake_way refusal_way;
    unsigned connections;
    unsigned commands; /* without those of greetings */
    unsigned scripts;  /* EVAL and EVALSHA among them */
};

void fake_open(struct fake *fake, struct event_base *base, const struct fake_line *script);
void fake_close(struct fake *fake);

#endif
