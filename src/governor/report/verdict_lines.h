/*
 * The three lines at the end of a run: energy saved, slowdown, next step. The terminal, report.json
 * and the page have the same ones.
 *
 * Threads: one; the controls are stopped. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_REPORT_VERDICT_LINES_H
#define LULL_GOVERNOR_REPORT_VERDICT_LINES_H

#include "governor/report/report_parts.h"

enum { LULL_VERDICT_LINE_SIZE = 1024, LULL_VERDICT_EXIT_SIZE = 128 };

/* Energy saved by the run; below 0: more was used. */
struct lull_verdict_saved {
    double joules;       /* NAN: not known */
    uint64_t iterations; /* that it covers; 0: whole runs were compared */
    const char *basis;   /* NULL: not known */
    const char *reason;  /* why it is not known; NULL: it is */
};

struct lull_verdict_lines {
    struct lull_verdict_saved saved;
    char energy[LULL_VERDICT_LINE_SIZE];
    char time[LULL_VERDICT_LINE_SIZE];
    char next[LULL_VERDICT_LINE_SIZE];
};

/* Writes the lines, without their ends. gain: of lull_verdict_gain(). */
void lull_verdict_lines_make(const struct lull_report *report, const struct lull_report_gain *gain,
                             struct lull_verdict_lines *lines_out);

/* Returns whether the lines contain the first finding, if there is one. */
bool lull_verdict_lines_have_finding(const struct lull_report *report,
                                     const struct lull_report_gain *gain);

/* Returns what has not been lowered: "no clocks lowered". Static. */
const char *lull_verdict_unlowered_text(const struct lull_report *report);

/* Writes how the job ended: "the job exited with status 3". status: not 0. Returns text. */
const char *lull_verdict_exit_text(int status, char text[LULL_VERDICT_EXIT_SIZE]);

#endif
