/* What the writer of the command prints while nobody reads, and afterwards. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/writer.h"

#define LINES     10000
#define PIPE_SIZE 4096
#define LOOK_MS   5
#define TEXT_MAX  (1 << 20)

static char text[TEXT_MAX + 1];

/* Puts a pipe in the place of stdout, of stderr, or of both; returns the end to read. */
static int replace(const int *fds, size_t count)
{
    int ends[2];
    cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
    cr_assert_geq(fcntl(ends[1], F_SETPIPE_SZ, PIPE_SIZE), PIPE_SIZE);
    for (size_t i = 0; i < count; i++)
        cr_assert_eq(dup2(ends[1], fds[i]), fds[i]);
    close(ends[1]);
    return ends[0];
}

static int replace_one(int fd)
{
    return replace(&fd, 1);
}

static void message(int number)
{
    char line[32];
    writer_message(line,
                   (size_t)snprintf(line, sizeof(line), "redlock: line %d\n", number));
}

static void result(int fd, int number)
{
    char line[32];
    writer_result(fd, line, (size_t)snprintf(line, sizeof(line), "result %d\n", number));
}

/* Appends what can be read to `text`; false: the file has ended. */
static bool read_part(int fd)
{
    size_t size = strlen(text);
    ssize_t more = read(fd, text + size, TEXT_MAX - size);
    cr_assert_geq(more, 0);
    text[size + (size_t)more] = '\0';
    return more > 0;
}

/* Until `text` ends in `last`, or, if that is NULL, until the file ends. */
static void read_until(int fd, const char *last)
{
    size_t len = last ? strlen(last) : 0;
    while (read_part(fd))
        if (last && strlen(text) >= len && strcmp(text + strlen(text) - len, last) == 0)
            return;
    cr_assert_null(last, "the file ended before \"%s\"", last);
}

/* The lines `format` with the numbers from `first` on; returns how many, and what follows.
 */
static int count_lines(const char **at, const char *format, int first)
{
    int count = 0;
    for (;; count++) {
        char line[32];
        int len = snprintf(line, sizeof(line), format, first + count);
        if (strncmp(*at, line, (size_t)len) != 0)
            return count;
        *at += len;
    }
}

Test(writer, drops_messages_that_nobody_reads_and_says_how_many)
{
    int reader = replace_one(STDERR_FILENO), dropped = 0;
    for (int i = 0; i < LINES; i++)
        message(i);
    /* The pipe and the queue are full, so what was printed is a beginning of the lines. */
    while (!writer_is_idle())
        if (poll(&(struct pollfd){.fd = reader, .events = POLLIN}, 1, LOOK_MS) == 1)
            read_part(reader);
    message(LINES);
    char last[32];
    snprintf(last, sizeof(last), "redlock: line %d\n", LINES);
    read_until(reader, last);
    cr_assert_geq(strlen(text), 65536 - 64);
    cr_assert_leq(strlen(text), 65536 + 4 * PIPE_SIZE);
    const char *at = text;
    int next = count_lines(&at, "redlock: line %d\n", 0);
    for (; *at; next += count_lines(&at, "redlock: line %d\n", next)) {
        cr_assert_eq(sscanf(at, "redlock: %d line%*[s ]dropped", &dropped), 1, "%.80s", at);
        at = strchr(at, '\n') + 1;
        next += dropped;
    }
    cr_assert_gt(dropped, 0);
    cr_assert_eq(next, LINES + 1);
}

/* A child prints and exits; returns its pid. */
static pid_t child(void (*print)(void))
{
    pid_t pid = fork();
    cr_assert_geq(pid, 0);
    if (pid == 0) {
        print();
        exit(0);
    }
    return pid;
}

static void ends_with(pid_t pid, int code)
{
    int status;
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == code, "status %x", status);
}

static void print_results(void)
{
    for (int i = 0; i < LINES; i++)
        result(STDOUT_FILENO, i);
}

Test(writer, keeps_results_until_they_are_read_and_the_process_waits)
{
    int reader = replace_one(STDOUT_FILENO);
    pid_t pid = child(print_results);
    close(STDOUT_FILENO);
    read_until(reader, NULL);
    const char *at = text;
    cr_assert_eq(count_lines(&at, "result %d\n", 0), LINES);
    cr_assert_eq(*at, '\0');
    ends_with(pid, 0);
}

static void print_in_turn(void)
{
    for (int i = 0; i < 100; i++) {
        result(STDOUT_FILENO, 2 * i);
        char line[32];
        writer_message(line,
                       (size_t)snprintf(line, sizeof(line), "result %d\n", 2 * i + 1));
    }
}

Test(writer, keeps_the_order_if_stdout_and_stderr_are_one_pipe)
{
    const int both[] = {STDOUT_FILENO, STDERR_FILENO};
    int kept = dup(STDERR_FILENO), reader = replace(both, 2);
    pid_t pid = child(print_in_turn);
    close(STDOUT_FILENO);
    dup2(kept, STDERR_FILENO);
    read_until(reader, NULL);
    const char *at = text;
    cr_assert_eq(count_lines(&at, "result %d\n", 0), 200);
    ends_with(pid, 0);
}

Test(writer, waits_where_another_process_has_set_o_nonblock)
{
    int reader = replace_one(STDOUT_FILENO);
    cr_assert_eq(fcntl(STDOUT_FILENO, F_SETFL, O_WRONLY | O_NONBLOCK), 0);
    pid_t pid = child(print_results);
    close(STDOUT_FILENO);
    read_until(reader, NULL);
    const char *at = text;
    cr_assert_eq(count_lines(&at, "result %d\n", 0), LINES);
    ends_with(pid, 0);
}

Test(writer, sets_no_flag_of_the_file)
{
    int reader = replace_one(STDERR_FILENO), flags = fcntl(STDERR_FILENO, F_GETFL);
    for (int i = 0; i < LINES; i++)
        message(i);
    cr_assert_eq(fcntl(STDERR_FILENO, F_GETFL), flags);
    cr_assert_not(flags & O_NONBLOCK);
    close(reader);
}

Test(writer, returns_the_error_of_a_reader_that_has_gone)
{
    close(replace_one(STDOUT_FILENO));
    cr_assert_eq(writer_error(STDOUT_FILENO), 0);
    result(STDOUT_FILENO, 0);
    cr_assert_eq(writer_flush(STDOUT_FILENO, NULL, NULL), EPIPE);
    cr_assert_eq(writer_error(STDOUT_FILENO), EPIPE);
}

static int meanwhiles;

static void send_term(void *arg)
{
    (void)arg;
    if (++meanwhiles == 3)
        raise(SIGTERM);
}

static void ignore(int number)
{
    (void)number;
}

Test(writer, drops_results_when_a_signal_ends_the_process)
{
    int reader = replace_one(STDOUT_FILENO);
    signal(SIGTERM, ignore);
    for (int i = 0; i < 1000; i++) /* more than the pipe takes */
        result(STDOUT_FILENO, i);
    cr_assert_eq(writer_flush(STDOUT_FILENO, send_term, NULL), EINTR);
    cr_assert_geq(meanwhiles, 3);
    cr_assert_eq(writer_signal(), SIGTERM);
    print_results(); /* returns */
    close(reader);
}

/* The thread of the parent does not write what a child prints, nor a child what waited. */
Test(writer, a_forked_process_writes_only_its_own_lines)
{
    int reader = replace_one(STDOUT_FILENO);
    for (int i = 0; i < 1000; i++)
        result(STDOUT_FILENO, i);
    int other[2];
    cr_assert_eq(pipe2(other, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(other[1], STDOUT_FILENO);
        result(STDOUT_FILENO, 5000);
        exit(0);
    }
    ends_with(pid, 0);
    read_until(other[0], "result 5000\n");
    cr_assert_str_eq(text, "result 5000\n");
    text[0] = '\0';
    read_until(reader, "result 999\n");
    const char *at = text;
    cr_assert_eq(count_lines(&at, "result %d\n", 0), 1000);
}
