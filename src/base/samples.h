/* Samples in the text format of Prometheus: what is written, and how labels are escaped. */
#ifndef RL_SAMPLES_H
#define RL_SAMPLES_H

#include "redlock/stats.h"

/* Beyond its room the text is only counted. */
struct rl_samples {
    char *bytes;
    size_t room, len;
    const redlock_label *labels; /* of all samples */
    size_t label_count;
    bool is_labelled; /* the sample that is being written has a label */
};

/* HELP and TYPE of a metric, before its samples. */
void rl_samples_head(struct rl_samples *text, const char *name, const char *type,
                     const char *help);

/* A sample: its name and a suffix, its labels, and its value. */
void rl_samples_begin(struct rl_samples *text, const char *name, const char *suffix);
void rl_samples_label(struct rl_samples *text, const char *name, const char *value);
void rl_samples_end(struct rl_samples *text, uint64_t value);
void rl_samples_end_text(struct rl_samples *text, const char *value);

#endif
