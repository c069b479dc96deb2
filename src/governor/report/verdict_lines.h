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

/* Append formatted text; an amount of energy as "4.21 MJ (1.17 kWh, 0.351 EUR)", without a sign;
 * and the step that a message names, with what it is the answer to. */
void lull_verdict_append(char line[LULL_VERDICT_LINE_SIZE], const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void lull_verdict_append_joules(char line[LULL_VERDICT_LINE_SIZE], double joules,
                                const struct lull_energy_price *price);
void lull_verdict_append_step(char line[LULL_VERDICT_LINE_SIZE], const char *message,
                              bool has_reason);

/* Returns whether the lines contain the first finding, if there is one. */
bool lull_verdict_lines_have_finding(const struct lull_report *report,
                                     const struct lull_report_gain *gain);

/* Returns what has not been lowered: "no clocks lowered". Static. */
const char *lull_verdict_unlowered_text(const struct lull_report *report);

/* Writes how the job ended: "the job exited with status 3". status: not 0. Returns text. */
const char *lull_verdict_exit_text(int status, char text[LULL_VERDICT_EXIT_SIZE]);

#endif
