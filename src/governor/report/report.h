/*
 * The report of a run: report.json, the timeline trace.json (Chrome's trace format, which Perfetto
 * and chrome://tracing show), and the table for the terminal. docs/reference/report-json.md
 * explains every field.
 *
 * Threads: one; the controls are stopped. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_REPORT_REPORT_H
#define LULL_GOVERNOR_REPORT_REPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "governor/peers/peers.h"
#include "governor/control/control.h"
#include "governor/energy/accounting.h"
#include "governor/limits/power_limits.h"
#include "governor/plan/online.h"
#include "governor/plan/straggler_response.h"
#include "governor/report/energy_price.h"
#include "governor/serving/serving.h"
#include "governor/run/run_comparison.h"
#include "governor/run/run_frontier.h"
#include "governor/run/run_hang.h"
#include "governor/run/run_prospect.h"
#include "governor/limits/power_smoothing.h"
#include "governor/run/run_swing.h"

/* The measured energy of the last pass of each side. */
struct lull_energy_report {
    const struct lull_accounting *managed;   /* NULL: nothing was measured */
    const struct lull_accounting *unmanaged; /* NULL: not compared, or that run failed */
    const char *node_reason; /* why processors and memory were not read; "": they were */
};

struct lull_report {
    char *const *command; /* NULL-terminated */
    int status;           /* of the last run, managed or not */
    double tolerance_ratio;
    double confidence;
    bool verbose;                       /* the tables are printed, too */
    struct lull_devices *devices;       /* NULL: no GPU was found */
    const struct lull_control *managed; /* the last managed run; NULL: nothing was managed */
    double managed_s;                   /* its wall time */
    const struct lull_run_comparison *comparison; /* NULL: not compared */
    const struct lull_peers_summary *peers;       /* NULL: the job has one node */
    const char *const *notes;                     /* notes for the user; NULL-terminated */
    const char *const *findings;      /* those of the notes not yet reported; NULL-terminated */
    const struct lull_online *online; /* NULL: no pipeline was profiled */
    const struct lull_plan_runner *runner;          /* NULL: there was no plan */
    const struct lull_straggler_response *response; /* NULL: stragglers were not looked for */
    const struct lull_limits *limits;               /* NULL: power limits were left unchanged */
    const struct lull_serving *serving;             /* NULL: no server was managed */
    const struct lull_run_swing *swing;             /* NULL: nothing was managed */
    double swing_ratio;                             /* permitted increase of managed swings */
    const struct lull_power_smoothing_summary *smoothing; /* NULL: swings are not bounded by it */
    const struct lull_run_frontier *frontier;             /* NULL: nothing was managed */
    const struct lull_run_prospect *prospect;             /* NULL: no right is missing */
    const struct lull_run_hangs *hangs;                   /* of the last managed run */
    struct lull_energy_price price;
    const char *folder; /* folder of the written report; NULL: it was not written */
    struct lull_energy_report energy;
};

/* Writes DIR/report.json and DIR/trace.json, each atomically. Errors: -errno, the path. */
int lull_report_write(const struct lull_report *report, const char *directory,
                      struct lull_error *err);

/* Prints the lines at the end of a run; if the report is verbose, the tables before them. */
void lull_report_print(const struct lull_report *report, FILE *out);

#endif
