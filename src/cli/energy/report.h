/*
 * Results of `lull energy` from power logs, and their output. Threads: one.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_ENERGY_REPORT_H
#define LULL_CLI_ENERGY_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/energy/log_energy.h"
#include "trace/power_log.h"

/* One GPU and window of a file. */
struct lull_energy_row {
    size_t gpu;       /* of the log */
    const char *name; /* of the window; null: the whole log, or --from and --to */
    uint64_t count;   /* of windows of this name */
    struct lull_log_energy energy;
};

struct lull_energy_file {
    const char *path; /* borrowed */
    struct lull_power_log log;
    struct lull_energy_row *rows;
    size_t count;
};

/* Makes the rows of file->log; windows of one name and GPU are one row. from_ns and to_ns hold for
 * logs that are integrated. Errors: -ENOMEM. */
int lull_energy_file_integrate(struct lull_energy_file *file, int64_t from_ns, int64_t to_ns);
void lull_energy_file_fini(struct lull_energy_file *file);

/* Returns whether the energy of one row or more is known. */
bool lull_energy_is_known(const struct lull_energy_file *files, size_t count);

/* Prints a table, and below it what was dropped. */
void lull_energy_print(const struct lull_energy_file *files, size_t count);

/* Prints the document. -1: standard output cannot be written. */
int lull_energy_print_json(const struct lull_energy_file *files, size_t count);

#endif
