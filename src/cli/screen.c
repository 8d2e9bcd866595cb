#include "screen.h"

#include <signal.h>
#include <stdio.h>
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
    fputs(text, stdout);
    cli_flush();
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
    (void)arg;
    write_now(LEAVE);
    raise(SIGSTOP);
}

/* Also after a SIGSTOP, of which a process is not told. */
static void on_continued(evutil_socket_t fd, short what, void *arg)
{
    write_now(ENTER);
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
                  void *arg)
{
    screen->redraw = redraw;
    screen->arg = arg;
    screen->resized = catch (screen, base, SIGWINCH, on_resized);
    screen->stopped = catch (screen, base, SIGTSTP, on_stopped);
    screen->continued = catch (screen, base, SIGCONT, on_continued);
    write_now(ENTER);
}

void screen_end(struct screen *screen)
{
    event_free(screen->resized);
    event_free(screen->stopped);
    event_free(screen->continued);
    write_now(LEAVE);
}

/* As many bytes of a line as have this many characters. */
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

bool screen_show(const char *text)
{
    struct winsize size = {.ws_row = 24, .ws_col = 80};
    ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    size_t rows = size.ws_row > 0 ? size.ws_row : 24;
    size_t columns = size.ws_col > 0 ? size.ws_col : 80;
    fputs(HOME, stdout);
    for (size_t i = 0; i < rows && *text; i++) {
        size_t len = strcspn(text, "\n");
        printf("%s%.*s" ERASE, i == 0 ? "" : "\r\n", (int)bytes_of(text, len, columns),
               text);
        text += len + (text[len] == '\n');
    }
    fputs(CLEAR, stdout);
    return cli_flush();
}
