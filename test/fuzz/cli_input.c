#include "cli_input.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cli/args.h"
#include "cli/writer.h"
#include "cli_replaced.h"
#include "fuzz.h"

#define BLOCKS_MAX 65536 /* a file has no more bytes, and a block takes one or more */

static jmp_buf ended;
static struct {
    const char *bytes;
    size_t len;
} file;
static redlock_settings *settings; /* of this run */

/* --- memory --- */

static void *blocks[BLOCKS_MAX];
static size_t count;

static void *note(void *block)
{
    FUZZ_CHECK(block && count < BLOCKS_MAX);
    blocks[count++] = block;
    return block;
}

static void drop(const void *block)
{
    for (size_t i = count; block && i-- > 0;)
        if (blocks[i] == block) {
            blocks[i] = blocks[--count];
            return;
        }
}

void *fuzz_malloc(size_t size)
{
    return note(malloc(size));
}

void *fuzz_calloc(size_t n, size_t size)
{
    return note(calloc(n, size));
}

char *fuzz_strdup(const char *text)
{
    return note(strdup(text));
}

int fuzz_vasprintf(char **to, const char *format, va_list arguments)
{
    int len = vasprintf(to, format, arguments);
    note(*to);
    return len;
}

int fuzz_asprintf(char **to, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int len = fuzz_vasprintf(to, format, arguments);
    va_end(arguments);
    return len;
}

void fuzz_free(void *block)
{
    drop(block);
    free(block);
}

/* --- files --- */

int fuzz_open(const char *name, int flags)
{
    if (strcmp(name, INPUT_FILE) != 0)
        return open(name, flags);
    int fd = memfd_create(INPUT_FILE, MFD_CLOEXEC);
    FUZZ_CHECK(fd >= 0 && pwrite(fd, file.bytes, file.len, 0) == (ssize_t)file.len);
    return fd;
}

/* No other file, and not the environment: the input alone decides. */
redlock_code fuzz_settings_read(const char *name, const char *nodes,
                                redlock_settings **ret_settings)
{
    char path[32] = "/no/such/file";
    int fd = -1;
    if (!name || strcmp(name, INPUT_FILE) == 0)
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd = fuzz_open(INPUT_FILE, 0));
    redlock_code code = redlock_settings_read(path, nodes, &settings);
    if (code == REDLOCK_OK)
        *ret_settings = settings;
    if (fd >= 0)
        close(fd);
    return code;
}

/* A message is one line, and has no control character that could reach a terminal. */
void writer_message(const char *line, size_t len)
{
    const unsigned char *text = (const unsigned char *)line;
    FUZZ_CHECK(len > 0 && text[len - 1] == '\n');
    for (size_t i = 0; i + 1 < len; i++)
        FUZZ_CHECK(text[i] >= ' ' && text[i] != 0x7f);
}

void writer_result(int fd, const char *bytes, size_t len)
{
    (void)bytes;
    FUZZ_CHECK(fd == STDOUT_FILENO && len > 0);
}

int writer_error(int fd)
{
    (void)fd;
    return 0;
}

int writer_flush(int fd, void (*meanwhile)(void *arg), void *arg)
{
    (void)meanwhile;
    (void)arg;
    return writer_error(fd);
}

int writer_signal(void)
{
    return 0;
}

void cli_need_files(const struct cli *cli, size_t nodes)
{
    (void)cli;
    (void)nodes;
}

_Noreturn void fuzz_exit(int code)
{
    longjmp(ended, 1 + code);
}

/* --- a run --- */

void cli_input_set(const char *bytes, size_t len)
{
    file.bytes = bytes;
    file.len = len;
}

int cli_input_run(const char *bytes, size_t len, void (*run)(struct cli *cli, void *arg),
                  void *arg)
{
    static const struct cli_help help = {"", ""};
    static const struct cli_command acquire = {
        .name = "acquire", .help = &help, .operands_least = 1, .operands_most = 1};
    static struct cli cli;
    json_set_alloc_funcs(fuzz_malloc, fuzz_free);
    cli_input_set(bytes, len);
    cli_init(&cli);
    cli.command = &acquire;
    int end = setjmp(ended);
    if (end == 0)
        run(&cli, arg);
    redlock_settings_free(settings);
    settings = NULL;
    while (count > 0)
        fuzz_free(blocks[count - 1]);
    FUZZ_CHECK(end == 0 || end == 1 + CLI_OK || end == 1 + CLI_USAGE ||
               end == 1 + CLI_CONFIG);
    return end - 1;
}
