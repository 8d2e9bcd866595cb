/* Answers in JSON, and labels in Prometheus' text. */
#include "monitor.h"

#include <stdlib.h>
#include <string.h>

static void free_text(const void *text, size_t len, void *arg)
{
    (void)text, (void)len;
    free(arg);
}

static int write_object(struct evbuffer *body, json_t *object, int status)
{
    char *text = cli_json_dump(object);
    bool is_whole = cli_json_check() && text;
    if (!is_whole || evbuffer_add_reference(body, text, strlen(text), free_text, text) != 0)
        free(text);
    json_decref(object);
    return is_whole ? status : 503;
}

int monitor_answer(struct evbuffer *body, const char *name, json_t *object)
{
    json_t *whole =
        json_pack("{s: o}", "schema", json_sprintf("redlock.monitor.%s/1", name));
    if (whole && object)
        json_object_update(whole, object);
    json_decref(object);
    return write_object(body, whole, 200);
}

int monitor_refuse(struct evbuffer *body, const char *error)
{
    return write_object(body, json_pack("{s:s}", "error", error), 400);
}

void monitor_write_label(const char *value, FILE *to)
{
    fputc('"', to);
    for (const char *at = value; *at; at++)
        if (*at == '\n')
            fputs("\\n", to);
        else
            fprintf(to, "%s%c", *at == '"' || *at == '\\' ? "\\" : "", *at);
    fputc('"', to);
}
