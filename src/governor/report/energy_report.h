/*
 * What the report says of energy: the whole run, and the program's windows. docs/report.md explains
 * every field. Threads: one; the accounts have ended. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_REPORT_ENERGY_REPORT_H
#define LULL_GOVERNOR_REPORT_ENERGY_REPORT_H

#include <stdio.h>

#include <jansson.h>

#include "governor/energy/accounting.h"

struct lull_energy_report {
    const struct lull_accounting *managed;   /* NULL: nothing was measured */
    const struct lull_accounting *unmanaged; /* NULL: not compared */
    const char *node_reason; /* why processors and memory were not read; "" they were */
};

/* The value of "energy"; a new reference. */
json_t *lull_energy_report_json(const struct lull_energy_report *report);

/* The table for people. */
void lull_energy_report_print(const struct lull_energy_report *report, FILE *out);

#endif
