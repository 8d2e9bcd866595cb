#include "cli.h"
#include "visible.h"
#include "writer.h"

#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TOKEN_BASE32 "abcdefghijklmnopqrstuvwxyz234567"
#define TOKEN_DIGITS 32

char *cli_printable_bytes(const char *bytes, size_t len)
{
    char *text = cli_need_memory(malloc(4 * len + 1));
    visible_text(bytes, len, text);
    return text;
}

char *cli_printable(const char *text)
{
    return cli_printable_bytes(text, strlen(text));
}

/* A token that was given in the place of another word stays secret: "p***@host". */
static void hide_tokens(char *text)
{
    for (char *at = text; *at; at++) {
        size_t len = strspn(at, TOKEN_BASE32);
        if (len == TOKEN_DIGITS || len == TOKEN_DIGITS + 1) /* "f:2h...", "p2h..." */
            memset(at + len - TOKEN_DIGITS, '*', TOKEN_DIGITS);
        at += len > 0 ? len - 1 : 0;
    }
}

static char last_complaint[1024];

const char *cli_last_complaint(void)
{
    return last_complaint;
}

void cli_complain(const char *format, ...)
{
    static const char no_memory[] = "redlock: out of memory\n";
    char *text = NULL, *line = NULL;
    va_list arguments;
    va_start(arguments, format);
    int len = vasprintf(&text, format, arguments);
    va_end(arguments);
    if (len < 0) {
        writer_message(no_memory, sizeof(no_memory) - 1);
        exit(CLI_FAILED);
    }
    char *printable = cli_printable(text);
    hide_tokens(printable);
    len = asprintf(&line, "redlock: %s\n", printable);
    if (len > 0)
        writer_message(line, (size_t)len);
    free(line);
    snprintf(last_complaint, sizeof(last_complaint), "%s", printable);
    free(printable);
    free(text);
}

void *cli_need_memory(void *memory)
{
    if (!memory)
        cli_fail(CLI_FAILED, "out of memory");
    return memory;
}

char *cli_format(const char *format, ...)
{
    char *text;
    va_list arguments;
    va_start(arguments, format);
    int len = vasprintf(&text, format, arguments);
    va_end(arguments);
    return cli_need_memory(len < 0 ? NULL : text);
}

FILE *cli_text_begin(struct cli_text *text)
{
    text->to = cli_need_memory(open_memstream(&text->bytes, &text->size));
    return text->to;
}

char *cli_text_end(struct cli_text *text)
{
    return cli_need_memory(fclose(text->to) == 0 ? text->bytes : NULL);
}

int64_t cli_clock_us(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t cli_ms(int64_t us)
{
    return us < 0 ? us : us / 1000;
}

const char *cli_span(char buffer[CLI_SPAN], int64_t ms)
{
    if (ms < 0)
        snprintf(buffer, CLI_SPAN, "unknown");
    else if (ms < 1000)
        snprintf(buffer, CLI_SPAN, "%d ms", (int)ms);
    else if (ms < 60000)
        snprintf(buffer, CLI_SPAN, "%d.%d s", (int)(ms / 1000), (int)(ms % 1000 / 100));
    else if (ms < 3600000)
        snprintf(buffer, CLI_SPAN, "%d min %d s", (int)(ms / 60000), (int)(ms / 1000 % 60));
    else if (ms < 360000000)
        snprintf(buffer, CLI_SPAN, "%d h %d min", (int)(ms / 3600000),
                 (int)(ms / 60000 % 60));
    else
        snprintf(buffer, CLI_SPAN, "%lld d %d h", (long long)(ms / 86400000),
                 (int)(ms / 3600000 % 24));
    return buffer;
}

void cli_print_time(void)
{
    char text[32];
    time_t now = time(NULL);
    struct tm utc;
    strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    cli_print("%s ", text);
}

static ssize_t write_results(void *cookie, const char *bytes, size_t len)
{
    (void)cookie;
    writer_result(STDOUT_FILENO, bytes, len);
    return (ssize_t)len;
}

FILE *cli_stdout(void)
{
    static FILE *results;
    if (!results)
        results = fopencookie(NULL, "w", (cookie_io_functions_t){.write = write_results});
    return cli_need_memory(results);
}

void cli_print(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vfprintf(cli_stdout(), format, arguments);
    va_end(arguments);
}

bool cli_print_text(const char *text)
{
    cli_print("%s\n", text);
    return cli_flush();
}

bool cli_hand_on(void)
{
    fflush(cli_stdout());
    errno = writer_error(STDOUT_FILENO);
    return errno == 0;
}

bool cli_flush_with(void (*meanwhile)(void *arg), void *arg)
{
    fflush(cli_stdout());
    errno = writer_flush(STDOUT_FILENO, meanwhile, arg);
    if (errno != 0)
        return false;
    /* Some file systems report a full disk only at close. */
    int fd = dup(STDOUT_FILENO);
    return fd >= 0 && close(fd) == 0;
}

bool cli_flush(void)
{
    return cli_flush_with(NULL, NULL);
}

int cli_exit_printed(bool printed, int exit_code)
{
    if (printed)
        return exit_code;
    if (errno == EINTR)
        return CLI_SIGNALLED + writer_signal();
    cli_complain("stdout: %s", strerror(errno));
    return CLI_FAILED;
}

int cli_exit_streamed(bool printed)
{
    return !printed && errno == EPIPE ? CLI_SIGNALLED + SIGPIPE
                                      : cli_exit_printed(printed, CLI_OK);
}

/* --- JSON --- */

static bool json_lacked_memory;

static void *json_allocate(size_t size)
{
    void *block = malloc(size);
    json_lacked_memory |= !block;
    return block;
}

void cli_json_begin(void)
{
    json_set_alloc_funcs(json_allocate, free);
}

bool cli_json_check(void)
{
    if (!json_lacked_memory)
        return true;
    json_lacked_memory = false;
    errno = ENOMEM;
    return false;
}

/* The bytes with \xNN for those that are not ASCII. */
static json_t *escaped_json(const char *bytes, size_t len)
{
    char *escaped = cli_need_memory(malloc(4 * len + 1)), *to = escaped;
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)bytes[i] >= 0x80)
            to += sprintf(to, "\\x%02x", (unsigned char)bytes[i]);
        else
            *to++ = bytes[i];
    json_t *string = json_stringn(escaped, (size_t)(to - escaped));
    free(escaped);
    return string;
}

json_t *cli_json_bytes(const char *bytes, size_t len)
{
    json_t *string = json_stringn(bytes, len);
    return string ? string : escaped_json(bytes, len);
}

json_t *cli_json_text(const char *text)
{
    return cli_json_bytes(text, strlen(text));
}

char *cli_json_dump(const json_t *object)
{
    char *json = object ? json_dumps(object, JSON_COMPACT) : NULL;
    size_t len = json ? strlen(json) : 0;
    char *visible = json ? malloc(6 * len + 1) : NULL;
    if (visible)
        visible_json(json, len, visible);
    free(json);
    /* The monitor keeps many while clients do not read: most bytes need one, not six. */
    char *fitting = visible ? realloc(visible, strlen(visible) + 1) : NULL;
    return fitting ? fitting : visible;
}

json_t *cli_json_known_text(const char *text)
{
    return text[0] ? cli_json_text(text) : json_null();
}

json_t *cli_json_known(int64_t number)
{
    return number < 0 ? json_null() : json_integer(number);
}

json_t *cli_json_kind(const char *token)
{
    bool is_fenced;
    redlock_kind kind = redlock_token_kind(token, &is_fenced);
    if (!token || !token[0])
        return json_pack("{s:n, s:n}", "kind", "fenced");
    return json_pack("{s:s, s:b}", "kind", redlock_kind_name(kind), "fenced", is_fenced);
}

const char *cli_cause_name(redlock_code code, char buffer[CLI_CAUSE])
{
    snprintf(buffer, CLI_CAUSE, "%s", redlock_code_name(code));
    for (char *at = buffer; *at; at++)
        *at = (char)tolower((unsigned char)*at);
    return buffer;
}

json_t *cli_cause(redlock_code code)
{
    char name[CLI_CAUSE];
    return json_string(cli_cause_name(code, name));
}

/* The caller frees it. NULL, with errno: there was no memory. */
static char *line_of(const struct cli *cli, json_t *object)
{
    json_t *whole =
        json_pack("{s: o}", "schema", json_sprintf("redlock.%s/1", cli->command->name));
    char *text = NULL, *line = NULL;
    if (whole && object && json_object_update(whole, object) == 0)
        text = cli_json_dump(whole);
    if (cli_json_check() && text)
        line = cli_format("%s\n", text);
    free(text);
    json_decref(object);
    json_decref(whole);
    return line;
}

bool cli_write_json(const struct cli *cli, json_t *object, FILE *stream)
{
    char *line = line_of(cli, object);
    bool written = line && fputs(line, stream) >= 0;
    free(line);
    return written;
}

bool cli_print_json(const struct cli *cli, json_t *object)
{
    return cli_write_json(cli, object, cli_stdout()) && cli_flush();
}

void cli_tell_json(const struct cli *cli, json_t *object)
{
    char *line = line_of(cli, object);
    if (line)
        writer_result(STDERR_FILENO, line, strlen(line));
    free(line);
}

/* Omits a node's raw value: it may be the token of a held lock. */
json_t *cli_nodes_json(const redlock_node *nodes, size_t count)
{
    json_t *array = json_array();
    for (size_t i = 0; i < count; i++) {
        const redlock_node *node = &nodes[i];
        json_t *object = json_pack(
            "{s:o, s:s, s:s, s:s, s:b, s:o, s:o, s:o}", "uri", cli_json_text(node->uri),
            "verdict", redlock_verdict_name(node->verdict), "fault",
            redlock_fault_name(node->fault), "text", node->text, "denied", node->denied,
            "latency_us", cli_json_known(node->latency_us), "remaining_ms",
            cli_json_known(cli_ms(node->remaining_us)), "holder",
            cli_json_known_text(node->holder));
        json_array_append_new(array, object);
    }
    return array;
}

void cli_add_outcome(json_t *object, const struct cli_outcome *outcome)
{
    json_object_set_new(object, "granted", json_integer(outcome->result.granted));
    json_object_set_new(object, "quorum", json_integer(outcome->result.quorum));
    json_object_set_new(object, "nodes", cli_nodes_json(outcome->nodes, outcome->count));
}

void cli_say_nodes(const struct cli *cli, const redlock_node *nodes, size_t count)
{
    char span[CLI_SPAN];
    for (size_t i = 0; cli->verbose > 0 && i < count; i++) {
        const redlock_node *node = &nodes[i];
        bool faulty = node->fault != REDLOCK_FAULT_NONE;
        bool timed = node->latency_us >= 0, held = node->holder[0] != '\0';
        double latency_ms = (double)node->latency_us / 1000;
        char took[32] = "";
        if (timed)
            snprintf(took, sizeof(took), " after %.1f ms", latency_ms);
        cli_say(cli, "%s: %s%s%s%s%s%s%s%s", node->uri, redlock_verdict_name(node->verdict),
                took, faulty ? ", " : "", faulty ? node->text : "", held ? ", by " : "",
                node->holder, held ? ", remaining: " : "",
                held ? cli_span(span, cli_ms(node->remaining_us)) : "");
    }
}

void cli_say_record(const struct cli *cli)
{
    if (cli->verbose < 2 || !cli->client)
        return;
    size_t room = redlock_client_record(cli->client, NULL, 0) + 1;
    char *text = cli_need_memory(malloc(room)), *rest = text;
    redlock_client_record(cli->client, text, room);
    for (char *line; (line = strsep(&rest, "\n")) && line[0];)
        cli_say(cli, "%s", line);
    free(text);
}
