/* What many runs have shown together. */
#ifndef SIM_REPORT_H
#define SIM_REPORT_H

#include <stdbool.h>
#include <stdint.h>

struct figures;

/* `took`: seconds; `jobs`: processes at a time. */
void report_print(uint64_t from, double took);
bool report_write_json(const char *path, uint64_t from, double took);

/* How often each fault struck. False: one never did, in many runs. */
bool report_print_faults(void);

/* Adds the figures of another process. */
void report_add(const struct figures *more);

#endif
