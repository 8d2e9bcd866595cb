/* What redlock.conf(5) and the environment set. The default file is here "default.conf". */
#include "redlock/settings.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "alloc_faults.h"

static bool is_set_user_id;

/* In place of the C library's, which gives a set-user-ID program nothing. */
char *secure_getenv(const char *name)
{
    return is_set_user_id ? NULL : getenv(name);
}

static char folder[] = "/tmp/redlock-settings-XXXXXX";

static void begin(void)
{
    clearenv();
    cr_assert(mkdtemp(folder) && chdir(folder) == 0);
}

static void write_file(const char *name, const char *text)
{
    FILE *file = fopen(name, "w");
    cr_assert(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

static void end(void)
{
    unlink("default.conf");
    unlink("other");
    unlink("password");
    cr_assert(chdir("/") == 0 && rmdir(folder) == 0);
}

TestSuite(settings, .init = begin, .fini = end);

static redlock_settings *read_settings(const char *file, const char *nodes)
{
    redlock_settings *settings = NULL;
    redlock_code code = redlock_settings_read(file, nodes, &settings);
    cr_assert_eq(code, REDLOCK_OK, "%s", redlock_last_error()->text);
    return settings;
}

static const redlock_options *options_of(const redlock_settings *settings)
{
    static redlock_options options;
    cr_assert_eq(redlock_settings_options(settings, &options), REDLOCK_OK);
    return &options;
}

static void refused(const char *file, redlock_code code, redlock_reason reason,
                    const char *text)
{
    redlock_settings *settings = NULL;
    const redlock_error *why = redlock_last_error();
    cr_assert_eq(redlock_settings_read(file, NULL, &settings), code);
    cr_assert_eq(why->reason, reason, "%s", redlock_reason_name(why->reason));
    cr_assert_str_eq(why->text, text);
    cr_assert_null(settings);
}

static void line_refused(const char *line, redlock_reason reason, const char *text)
{
    write_file("other", line);
    refused("other", REDLOCK_BAD_OPTION, reason, text);
}

Test(settings, defaults)
{
    redlock_settings *settings = read_settings(NULL, "unix:///a");
    redlock_options defaults;
    redlock_options_init(&defaults);
    cr_assert_eq(memcmp(options_of(settings), &defaults, sizeof(defaults)), 0);
    cr_assert_eq(settings->ttl_ms, REDLOCK_TTL_MS);
    cr_assert_eq(settings->wait_ms, REDLOCK_FOREVER);
    cr_assert_eq(settings->count, 1);
    cr_assert_str_eq(settings->uris[0], "unix:///a");
    redlock_settings_free(settings);
    redlock_settings_free(NULL);
}

Test(settings, each_key_of_the_file)
{
    write_file("password", "secret\n");
    write_file("other",
               "nodes = unix:///a, redis://b ,rediss://c\nttl = 1.5s\nwait = 0\n"
               "username = me\npassword-file = password\nprefix = p:\n"
               "timeout = 5s\nmax-ttl = 1m\ndrift-ppm = 7\ndurable = yes\n"
               "tls = yes\ncacert = ca\ncacertdir = dir\ncert = crt\nkey = k\n"
               "sni = name\ninsecure = yes\n");
    redlock_settings *settings = read_settings("other", NULL);
    const redlock_options *options = options_of(settings);
    cr_assert_eq(settings->count, 3);
    cr_assert_str_eq(settings->uris[1], "redis://b");
    cr_assert(settings->ttl_ms == 1500 && settings->wait_ms == 0);
    cr_assert_str_eq(options->username, "me");
    cr_assert_null(options->password);
    cr_assert_str_eq(options->password_file, "password");
    cr_assert_str_eq(options->prefix, "p:");
    cr_assert(options->node_timeout_ms == 5000 && options->connect_timeout_ms == 5000);
    cr_assert(options->max_ttl_ms == 60000 && options->drift_ppm == 7);
    cr_assert(options->durable && options->tls && options->tls_insecure);
    cr_assert_str_eq(options->tls_ca_file, "ca");
    cr_assert_str_eq(options->tls_ca_dir, "dir");
    cr_assert_str_eq(options->tls_cert_file, "crt");
    cr_assert_str_eq(options->tls_key_file, "k");
    cr_assert_str_eq(options->tls_name, "name");
    redlock_settings_free(settings);
}

/* The first of these that is there: the argument, REDLOCK_CONFIG, the default file. */
Test(settings, which_file)
{
    refused(NULL, REDLOCK_BAD_NODES, REDLOCK_REASON_EMPTY,
            "no nodes: set REDLOCK_NODES, or nodes in redlock.conf(5)");
    write_file("default.conf", "nodes = unix:///default\n");
    write_file("other", "nodes = unix:///other\n");
    const char *const cases[][3] = {
        {NULL, NULL, "unix:///default"},
        {NULL, "", "unix:///default"},
        {"", "other", "unix:///other"},
        {NULL, "other", "unix:///other"},
        {"default.conf", "other", "unix:///default"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (cases[i][1])
            setenv("REDLOCK_CONFIG", cases[i][1], 1);
        redlock_settings *settings = read_settings(cases[i][0], NULL);
        cr_assert_str_eq(settings->uris[0], cases[i][2]);
        redlock_settings_free(settings);
    }
    setenv("REDLOCK_CONFIG", "/dev/null", 1);
    refused(NULL, REDLOCK_BAD_NODES, REDLOCK_REASON_EMPTY,
            "no nodes: set REDLOCK_NODES, or nodes in redlock.conf(5)");
    setenv("REDLOCK_CONFIG", "absent", 1);
    refused(NULL, REDLOCK_BAD_OPTION, REDLOCK_REASON_NONE,
            "absent: No such file or directory");
    refused(".", REDLOCK_BAD_OPTION, REDLOCK_REASON_NONE, ".: Is a directory");
}

Test(settings, a_default_file_that_cannot_be_read_is_no_absent_file)
{
    cr_assert_eq(mkdir("default.conf", 0700), 0);
    refused(NULL, REDLOCK_BAD_OPTION, REDLOCK_REASON_NONE, "default.conf: Is a directory");
    cr_assert_eq(rmdir("default.conf"), 0);
}

/* Who starts such a program must choose neither its nodes nor its authorities. */
Test(settings, a_set_user_id_program_takes_nothing_from_the_environment)
{
    static const char *const variables[][2] = {
        {"REDLOCK_CONFIG", "other"},
        {"REDLOCK_NODES", "unix:///variable"},
        {"REDLOCK_TTL", "2s"},
        {"REDLOCK_WAIT", "3s"},
        {"REDLOCK_USERNAME", "me"},
        {"REDLOCK_PASSWORD", "hush"},
        {"REDLOCK_PASSWORD_FILE", "password"},
        {"REDLOCK_PREFIX", "p:"},
        {"REDLOCK_LABEL", "team"},
        {"REDLOCK_CACERT", "ca"},
        {"REDLOCK_CACERTDIR", "dir"},
        {"REDLOCK_CERT", "crt"},
        {"REDLOCK_CERT_KEY", "k"},
    };
    redlock_options defaults;
    redlock_options_init(&defaults);
    write_file("default.conf", "nodes = unix:///default\n");
    write_file("other", "nodes = unix:///other\n");
    write_file("password", "secret\n");
    for (size_t i = 0; i < 2 * sizeof(variables) / sizeof(variables[0]); i++) {
        const char *const *variable = variables[i / 2];
        is_set_user_id = i % 2;
        setenv(variable[0], variable[1], 1);
        redlock_settings *settings = read_settings(NULL, NULL);
        bool is_default = settings->ttl_ms == REDLOCK_TTL_MS &&
                          settings->wait_ms == REDLOCK_FOREVER &&
                          strcmp(settings->uris[0], "unix:///default") == 0 &&
                          memcmp(options_of(settings), &defaults, sizeof(defaults)) == 0;
        cr_assert_eq(is_default, is_set_user_id, "%s", variable[0]);
        redlock_settings_free(settings);
        unsetenv(variable[0]);
    }
}

Test(settings, the_environment_overrides_the_file)
{
    write_file("default.conf", "nodes = unix:///file\nttl = 1s\npassword-file = /absent\n");
    setenv("REDLOCK_NODES", "unix:///variable", 1);
    setenv("REDLOCK_TTL", "2s", 1);
    setenv("REDLOCK_WAIT", "", 1);
    setenv("REDLOCK_PASSWORD", "hush", 1);
    redlock_settings *settings = read_settings(NULL, NULL);
    cr_assert_str_eq(settings->uris[0], "unix:///variable");
    cr_assert(settings->ttl_ms == 2000 && settings->wait_ms == REDLOCK_FOREVER);
    cr_assert_str_eq(options_of(settings)->password, "hush");
    cr_assert_null(options_of(settings)->password_file);
    redlock_settings_free(settings);
    settings = read_settings(NULL, "unix:///argument");
    cr_assert_str_eq(settings->uris[0], "unix:///argument");
    redlock_settings_free(settings);
    write_file("default.conf", "\n ttl = 25h\n");
    refused(NULL, REDLOCK_BAD_OPTION, REDLOCK_REASON_OUT_OF_RANGE,
            "default.conf:2: ttl: \"25h\" must be from 1 to 86400000 ms");
}

Test(settings, lines_that_are_refused)
{
    char text[700];
    line_refused("ttl\n", REDLOCK_REASON_MALFORMED, "other:1: the line is not key = value");
    line_refused("\n\npassword = hush\n", REDLOCK_REASON_MALFORMED,
                 "other:3: no setting \"password\": redlock.conf(5) lists them");
    line_refused("redis://u:se=cret@b\n", REDLOCK_REASON_MALFORMED,
                 "other:1: no setting \"redis\": redlock.conf(5) lists them");
    line_refused("ttl = 1s\nttl = 1s\n", REDLOCK_REASON_TWICE,
                 "other:2: \"ttl\" is already set in line 1");
    line_refused("ttl =\n", REDLOCK_REASON_EMPTY, "other:1: ttl: \"\" is empty");
    line_refused("durable = on\n", REDLOCK_REASON_MALFORMED,
                 "other:1: durable: \"on\" is neither yes nor no");
    line_refused("drift-ppm = -1\n", REDLOCK_REASON_MALFORMED,
                 "other:1: drift-ppm: \"-1\" is not a number");
    line_refused("drift-ppm = 500001\n", REDLOCK_REASON_OUT_OF_RANGE,
                 "other:1: drift-ppm: \"500001\" must be from 0 to 500000");
    line_refused("wait = a\tb\n", REDLOCK_REASON_MALFORMED,
                 "other:1: wait: \"a?b\" is not a duration (250ms, 30s, 5m, 1h, 1d; a bare "
                 "number is seconds)");
    line_refused("wait = 1000d\n", REDLOCK_REASON_OUT_OF_RANGE,
                 "other:1: wait: \"1000d\" must be from 0 to 31622400000 ms");
    line_refused("timeout = 400d\n", REDLOCK_REASON_OUT_OF_RANGE,
                 "other:1: timeout: \"400d\" must be from 0 to 31622400000 ms");
    line_refused("max-ttl = 2d\n", REDLOCK_REASON_OUT_OF_RANGE,
                 "other:1: max-ttl: \"2d\" must be from 0 to 86400000 ms");
    line_refused("nodes = unix:///a,,\n", REDLOCK_REASON_EMPTY,
                 "nodes: an empty URI in the list");
    line_refused("password-file = /absent\n", REDLOCK_REASON_NONE,
                 "password file /absent: No such file or directory");
    snprintf(text, sizeof(text), "prefix = %0512d\n", 0);
    line_refused(
        text, REDLOCK_REASON_OUT_OF_RANGE,
        "other:1: prefix: \"000000000000000000000000000000000000000000000000000000000"
        "0000000\" must have from 1 to 511 bytes");
    FILE *file = fopen("other", "w");
    cr_assert(file && fwrite("ttl = 1\0s\n", 1, 10, file) == 10 && fclose(file) == 0);
    refused("other", REDLOCK_BAD_OPTION, REDLOCK_REASON_MALFORMED, "other:1: a NUL byte");
}

/* An open pipe, whose name is "/dev/fd/N", with these bytes. */
static const char *pipe_with(const char *text, int ends[2])
{
    static char name[32];
    cr_assert(pipe(ends) == 0 && write(ends[1], text, strlen(text)) >= 0);
    snprintf(name, sizeof(name), "/dev/fd/%d", ends[0]);
    return name;
}

Test(settings, a_pipe_is_read_once_and_must_end)
{
    char text[100];
    int ends[2];
    const char *name = pipe_with("nodes = unix:///pipe\nttl = 7s", ends);
    snprintf(text, sizeof(text), "%s: has no end after 5 s", name);
    refused(name, REDLOCK_BAD_OPTION, REDLOCK_REASON_NONE, text);
    close(ends[0]);
    close(ends[1]);
    name = pipe_with("nodes = unix:///pipe\nttl = 7s", ends);
    close(ends[1]);
    redlock_settings *settings = read_settings(name, NULL);
    cr_assert_str_eq(settings->uris[0], "unix:///pipe");
    cr_assert_eq(settings->ttl_ms, 7000);
    redlock_settings_free(settings);
    close(ends[0]);
    cr_assert_eq(mkfifo("other", 0600), 0);
    refused("other", REDLOCK_BAD_OPTION, REDLOCK_REASON_NONE,
            "other: has no end after 5 s");
}

Test(settings, at_most_64_kib)
{
    static char text[65536 + 2] = "nodes = unix:///a\n#";
    memset(text + strlen(text), 'x', 65536 - strlen(text));
    write_file("other", text);
    redlock_settings_free(read_settings("other", NULL));
    text[65536] = '\n';
    line_refused(text, REDLOCK_REASON_NONE, "other: is longer than 64 KiB");
    refused("/dev/zero", REDLOCK_BAD_OPTION, REDLOCK_REASON_NONE,
            "/dev/zero: is longer than 64 KiB");
}

Test(settings, who_may_write_the_file)
{
    write_file("other", "nodes = unix:///a\n");
    cr_assert_eq(chmod("other", 0644), 0);
    redlock_settings *settings = read_settings("other", NULL);
    cr_assert_null(settings->warning);
    redlock_settings_free(settings);
    cr_assert_eq(chmod("other", 0664), 0);
    settings = read_settings("other", NULL);
    cr_assert_str_eq(settings->warning, "other: the group may write it: chmod g-w");
    redlock_settings_free(settings);
    cr_assert_eq(chmod("other", 0602), 0);
    refused("other", REDLOCK_BAD_OPTION, REDLOCK_REASON_NONE,
            "other: all users may write it: chmod o-w");
    cr_assert(symlink("other", "default.conf") == 0);
    refused(NULL, REDLOCK_BAD_OPTION, REDLOCK_REASON_NONE,
            "default.conf: all users may write it: chmod o-w");
    if (geteuid() != 0)
        return;
    cr_assert(chmod(".", 0711) == 0 && chown("other", 4711, 0) == 0);
    cr_assert_eq(chmod("other", 0600), 0);
    refused("other", REDLOCK_BAD_OPTION, REDLOCK_REASON_NONE,
            "other: belongs to another user: chown it");
    cr_assert_eq(seteuid(4711), 0);
    redlock_settings_free(read_settings("other", NULL));
    cr_assert_eq(seteuid(0), 0);
}

Test(settings, variables_that_are_refused)
{
    setenv("REDLOCK_TTL", "soon\n", 1);
    refused(
        NULL, REDLOCK_BAD_OPTION, REDLOCK_REASON_MALFORMED,
        "REDLOCK_TTL: \"soon?\" is not a duration (250ms, 30s, 5m, 1h, 1d; a bare number "
        "is seconds)");
    setenv("REDLOCK_TTL", "0", 1);
    refused(NULL, REDLOCK_BAD_OPTION, REDLOCK_REASON_OUT_OF_RANGE,
            "REDLOCK_TTL: \"0\" must be from 1 to 86400000 ms");
}

Test(settings, no_nodes)
{
    char list[33 * 8 + 1] = "";
    for (unsigned i = 0; i < 33; i++)
        strcat(list, i ? ",unix:/a" : "unix:/a");
    setenv("REDLOCK_NODES", list, 1);
    refused(NULL, REDLOCK_BAD_NODES, REDLOCK_REASON_OUT_OF_RANGE,
            "nodes are 33, and must be from 1 to 32");
    list[strlen(list) - strlen(",unix:/a")] = '\0';
    setenv("REDLOCK_NODES", list, 1);
    redlock_settings *settings = read_settings(NULL, NULL);
    cr_assert_eq(settings->count, REDLOCK_NODES_MAX);
    redlock_settings_free(settings);
}

Test(settings, durations)
{
    const struct {
        const char *text;
        int64_t ms;
    } cases[] = {
        {"0", 0},        {"7", 7000},         {"250ms", 250}, {"0.5s", 500}, {"5m", 300000},
        {"1h", 3600000}, {"1d", 86400000},    {"1.5", 1500},  {"", -1},      {"soon", -1},
        {"-1", -1},      {"1 s", -1},         {".5s", -1},    {"1.s", -1},   {"0.5ms", -1},
        {"1w", -1},      {"999999999999", -1}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int64_t ms = -1;
        redlock_code code = redlock_duration_read(cases[i].text, &ms);
        cr_assert_eq(ms, cases[i].ms, "%s", cases[i].text);
        cr_assert_eq(code, cases[i].ms < 0 ? REDLOCK_BAD_OPTION : REDLOCK_OK);
        if (code != REDLOCK_OK)
            cr_assert_str_eq(redlock_last_error()->field, "text");
    }
}

/* A program of an earlier release, which has less options, must not ignore one. */
Test(settings, an_option_that_the_program_does_not_know)
{
    enum { KNOWN = offsetof(redlock_options, durable) };
    redlock_options options = {.size = 77, .durable = true};
    write_file("other", "nodes = unix:///a\nmax-ttl = 60s\n");
    redlock_settings *settings = read_settings("other", NULL);
    cr_assert_eq(redlock_settings_options_sized(settings, &options, KNOWN), REDLOCK_OK);
    cr_assert(options.size == KNOWN && options.max_ttl_ms == 60000 && options.durable);
    redlock_settings_free(settings);
    write_file("other", "nodes = unix:///a\ndurable = yes\n");
    settings = read_settings("other", NULL);
    cr_assert_eq(redlock_settings_options_sized(settings, &options, KNOWN),
                 REDLOCK_UNSUPPORTED);
    cr_assert(options.max_ttl_ms == 60000, "it is unchanged");
    redlock_settings_free(settings);
}

Test(settings, one_allocation_fails)
{
    write_file("other", "nodes = unix:///a\nprefix = p:\n");
    setenv("REDLOCK_USERNAME", "me", 1);
    size_t after = 0;
    for (bool failed = true; failed; after++) {
        redlock_settings *settings = NULL;
        long live = alloc_faults_live();
        alloc_faults_begin(after, 1);
        alloc_faults_enter();
        redlock_code code = redlock_settings_read("other", NULL, &settings);
        alloc_faults_leave();
        failed = alloc_faults_end();
        if (code != REDLOCK_OK) /* the C library can read a file without a buffer */
            cr_assert(failed && code == REDLOCK_NO_MEMORY &&
                      redlock_last_error()->code == code && !settings);
        redlock_settings_free(settings);
        cr_assert_eq(alloc_faults_live(), live);
    }
    cr_assert_gt(after, 5);
}
