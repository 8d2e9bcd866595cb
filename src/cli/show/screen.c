#include "screen.h"

#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define ENTER "\033[?1049h\033[?25l" /* the other screen; no cursor */
#define LEAVE "\033[?25h\033[?1049l"
#define HOME  "\033[H"
#define ERASE "\033[K" /* to the end of the line */
#define CLEAR "\033[J" /* to the end of the screen */

static void write_now(const char *text)
{
    cli_print("%s", text);
    cli_flush();
}

/* Keys come at once, and are not shown. A process in the background would be stopped. */
static void enter(struct screen *screen)
{
    screen->reads_keys = tcgetpgrp(STDIN_FILENO) == getpgrp() &&
                         tcgetattr(STDIN_FILENO, &screen->terminal) == 0;
    if (screen->reads_keys) {
        struct termios keys = screen->terminal;
        keys.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        tcsetattr(STDIN_FILENO, TCSANOW, &keys);
        event_add(screen->typed, NULL);
    }
    write_now(ENTER);
}

static void leave(struct screen *screen)
{
    if (screen->reads_keys)
        tcsetattr(STDIN_FILENO, TCSANOW, &screen->terminal);
    event_del(screen->typed);
    write_now(LEAVE);
}

static void on_typed(evutil_socket_t fd, short what, void *arg)
{
    struct screen *screen = arg;
    char keys[64];
    ssize_t got = read(fd, keys, sizeof(keys));
    (void)what;
    if (got <= 0)
        event_del(screen->typed);
    else if (memchr(keys, 'q', (size_t)got))
        screen->quit(screen->arg);
}

static void on_resized(evutil_socket_t fd, short what, void *arg)
{
    struct screen *screen = arg;
    (void)fd;
    (void)what;
    screen->redraw(screen->arg);
}

static void on_stopped(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    leave(arg);
    raise(SIGSTOP);
}

/* Also after a SIGSTOP, of which a process is not told. */
static void on_continued(evutil_socket_t fd, short what, void *arg)
{
    enter(arg);
    on_resized(fd, what, arg);
}

static struct event *catch (struct screen *screen, struct event_base *base, int number,
                            event_callback_fn caught)
{
    struct event *event =
        cli_need_memory(event_new(base, number, EV_SIGNAL | EV_PERSIST, caught, screen));
    event_add(event, NULL);
    return event;
}

void screen_begin(struct screen *screen, struct event_base *base, void (*redraw)(void *arg),
                  void (*quit)(void *arg), void *arg)
{
    screen->redraw = redraw;
    screen->quit = quit;
    screen->arg = arg;
    screen->resized = catch (screen, base, SIGWINCH, on_resized);
    screen->stopped = catch (screen, base, SIGTSTP, on_stopped);
    screen->continued = catch (screen, base, SIGCONT, on_continued);
    screen->typed = cli_need_memory(
        event_new(base, STDIN_FILENO, EV_READ | EV_PERSIST, on_typed, screen));
    enter(screen);
}

void screen_end(struct screen *screen)
{
    leave(screen);
    event_free(screen->resized);
    event_free(screen->stopped);
    event_free(screen->continued);
    event_free(screen->typed);
}

/* The bytes of this many characters of a line. */
static size_t bytes_of(const char *line, size_t len, size_t characters)
{
    size_t at = 0;
    while (at < len) {
        bool begins = ((unsigned char)line[at] & 0xc0) != 0x80; /* UTF-8 */
        if (begins && characters-- == 0)
            break;
        at++;
    }
    return at;
}

static struct winsize size_of_terminal(void)
{
    struct winsize size = {0};
    ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    if (size.ws_row == 0 || size.ws_col == 0)
        size = (struct winsize){.ws_row = 24, .ws_col = 80};
    return size;
}

size_t screen_columns(void)
{
    return size_of_terminal().ws_col;
}

bool screen_show(const char *text)
{
    size_t rows = size_of_terminal().ws_row, columns = screen_columns();
    cli_print(HOME);
    for (size_t i = 0; i < rows && *text; i++) {
        size_t len = strcspn(text, "\n");
        cli_print("%s%.*s" ERASE, i == 0 ? "" : "\r\n", (int)bytes_of(text, len, columns),
                  text);
        text += len + (text[len] == '\n');
    }
    cli_print(CLEAR);
    return cli_flush();
}
