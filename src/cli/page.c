#include "page.h"

#include "page_made.h"

#include <string.h>

const size_t cli_page_len = sizeof(cli_page);
const char cli_page_policy[] = PAGE_POLICY;

/* No text of the data can end the element that they are in. */
static void write_data(const char *json, FILE *stream)
{
    for (const char *at; (at = strchr(json, '<')) != NULL; json = at + 1) {
        fwrite(json, 1, (size_t)(at - json), stream);
        fputs("\\u003c", stream);
    }
    fputs(json, stream);
}

void cli_page_write(const char *json, FILE *stream)
{
    const char *after = &cli_page[PAGE_DATA_AT + PAGE_DATA_LEN];
    fwrite(cli_page, 1, PAGE_DATA_AT, stream);
    write_data(json, stream);
    fwrite(after, 1, (size_t)(&cli_page[cli_page_len] - after), stream);
}
