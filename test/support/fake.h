/*
 * A server that answers what it is told to, on a port of 127.0.0.1 and the test's own loop.
 * It greets as a master does; where its script has no line, it grants everything.
 */
#ifndef TEST_FAKE_H
#define TEST_FAKE_H

#include <event2/event.h>
#include <stddef.h>

enum fake_way {
    FAKE_SEND,
    FAKE_BYTEWISE, /* one byte per pass of the loop */
    FAKE_FLOOD,    /* the text, and then its last four bytes again and again */
    FAKE_RESET,    /* the text, and then the connection is reset */
    FAKE_CLOSE,    /* the text, and then it is closed */
    FAKE_FOREVER,  /* from now on this is the answer to all such commands */
};

/* To a command that begins with this, this is answered; NULL: nothing is. */
struct fake_line {
    const char *expect, *send;
    enum fake_way way;
};

struct fake {
    struct event_base *base;
    struct evconnlistener *listener;
    struct fake_connection *connection; /* the last one */
    char uri[64];
    const struct fake_line *line; /* the next; the last has no `expect` */
    const char *refusal; /* NULL, or said to each new connection, which then ends so: */
    enum fake_way refusal_way;
    unsigned connections;
    unsigned commands; /* other than those of greetings */
    unsigned scripts;  /* EVAL and EVALSHA among them */
};

void fake_open(struct fake *fake, struct event_base *base, const struct fake_line *script);
void fake_close(struct fake *fake);

#endif
