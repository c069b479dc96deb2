/*
 * Output of `lull simulate`: a verdict, a table or a JSON document. All figures of a mode are of
 * the whole run, its search included; those of its settled part are labelled.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_SIMULATE_REPORT_H
#define LULL_CLI_SIMULATE_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/energy/job_frontier.h"
#include "emulator/oracle_play.h"
#include "simulator/course.h"
#include "simulator/node.h"

enum {
    LULL_SIMULATE_MIN_PERIODS = 20, /* of a run, and of a beginning of it that is judged */
    LULL_SIMULATE_MIN_SETTLED = 10, /* periods of a settled part. */
};

enum lull_simulate_policy {
    LULL_SIMULATE_HIGHEST,
    LULL_SIMULATE_FIXED_CLOCK,
    LULL_SIMULATE_POWER_LIMIT,
    LULL_SIMULATE_REACTIVE,
    LULL_SIMULATE_FEED_FORWARD,
    LULL_SIMULATE_STEADY,
    LULL_SIMULATE_AUTO,
    LULL_SIMULATE_POLICIES,
};

extern const char *const lull_simulate_policy_names[LULL_SIMULATE_POLICIES];

struct lull_simulate_mode {
    struct lull_simulation_outcome outcome;
    struct lull_course_change whole; /* the whole run against that at the highest clock */
    double worst_ratio;              /* slowdown of its worst beginning */
    bool has_settled_part;
    struct lull_course_change settled; /* from outcome.settled_in to the end, where there is one */
};

struct lull_simulate_results {
    const struct lull_gpu_model *model;
    double tolerance_ratio;
    uint64_t periods;
    uint32_t ranks;
    uint32_t played; /* a bit for each policy: it was played */
    bool has_oracles;
    struct lull_simulate_mode modes[LULL_SIMULATE_POLICIES];
    double limit_w; /* of power_limit */
    struct lull_oracle_play_answer oracle;
    struct lull_job_frontier_point frontier[LULL_JOB_FRONTIER_BUDGETS];
};

/* Returns whether no figure of the mode is beyond the tolerance: neither the whole run, nor any
 * beginning of it, nor its settled part. */
bool lull_simulate_is_within(const struct lull_simulate_results *results,
                             const struct lull_simulate_mode *mode);

/* Writes in one line, without its end, what `lull run` without options does with this job. It
 * recommends `lull run` only where auto is within the tolerance, has settled, and saves. Returns
 * text. */
const char *lull_simulate_verdict(const struct lull_simulate_results *results, char *text,
                                  size_t size);

/* Prints the results on standard output. */
void lull_simulate_report_print(const struct lull_simulate_results *results);
void lull_simulate_report_json(const struct lull_simulate_results *results);

#endif
