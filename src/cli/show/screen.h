/*
 * A terminal whose screen a command redraws. It uses the other screen of the terminal, so
 * that what was there before is there again at the end, and while the command is stopped.
 */
#ifndef CLI_SCREEN_H
#define CLI_SCREEN_H

#include "cli.h"

#include <termios.h>

struct screen {
    struct event *resized, *stopped, *continued, *typed;
    void (*redraw)(void *arg); /* its size has changed, or it is ours again */
    void (*quit)(void *arg);   /* q was typed */
    void *arg;
    bool reads_keys;         /* of stdin, ... */
    struct termios terminal; /* ... whose settings were these before */
};

/* Takes the screen of stdout, until screen_end(). */
void screen_begin(struct screen *screen, struct event_base *base, void (*redraw)(void *arg),
                  void (*quit)(void *arg), void *arg);
void screen_end(struct screen *screen);

size_t screen_columns(void);

/* Shows the lines of `text` from the top, as many and as much of each as fit. */
bool screen_show(const char *text);

#endif
