/* The results of many runs. */
#ifndef SIM_REPORT_H
#define SIM_REPORT_H

#include <stdbool.h>
#include <stdint.h>

struct figures;

/* `took`: seconds; `jobs`: processes at a time. */
void report_print(uint64_t from, double took);
bool report_write_json(const char *path, uint64_t from, double took);

/* Prints how often each fault struck. `all_kinds`: the runs were of all kinds. Returns
 * false if a fault never struck in many such runs; one kind of run does not have all
 * faults. */
bool report_print_faults(bool all_kinds);

/* Adds the figures of another process. */
void report_add(const struct figures *more);

#endif
