/* What status and break share: a key on every node, as the library surveyed it. */
#ifndef CLI_SURVEY_H
#define CLI_SURVEY_H

#include "cli.h"

enum survey_state {
    SURVEY_HELD,  /* a quorum stores one value */
    SURVEY_FREE,  /* a quorum stores none: whoever asks gets the lock */
    SURVEY_SPLIT, /* neither: nobody is known to hold it, and maybe nobody can take it */
    SURVEY_NO_QUORUM,
    SURVEY_DENIED,
};

struct survey {
    redlock_survey found;
    redlock_node nodes[REDLOCK_NODES_MAX];
    bool done;
};

/* A redlock_survey_fn; `arg` is a struct survey. */
void survey_take(redlock_client *client, const redlock_survey *found, void *arg);

enum survey_state survey_state(const struct survey *survey);
const char *survey_name(enum survey_state state);

/* One line per node on stdout: URI, state, holder and remaining time. */
void survey_print_nodes(const struct cli *cli, const struct survey *survey,
                        const char *word_for_held);

/* {"key", "state", "holder", ...} */
json_t *survey_json(const struct survey *survey, const char *key);

#endif
