/*
 * What-if: how much slower a recorded job is than the same job with all operations of a kind
 * equally long, S, and what each stage and each kind of operation alone contributes (reference:
 * "Understanding Stragglers in Large Model Training Using What-if Analysis", OSDI 2025).
 *
 * Equally long: the mean of computing operations, the median of the others.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_SIMULATOR_TIMELINE_WHAT_IF_H
#define LULL_SIMULATOR_TIMELINE_WHAT_IF_H

#include "simulator/timeline/job.h"

struct lull_what_if {
    double slowdown_ratio; /* S >= 0: the time of the job over that with equal lengths */
    double *stage_ratios;  /* job->stages: the same with only this stage as recorded; 0: no rank
                            * of it was recorded */
    double kind_ratios[LULL_TIMELINE_KINDS]; /* with only this kind, a send and its receive are one;
                                              * 0: there is none */
};

/* Fills the answer, whose stage_ratios the caller frees. Errors: -ENOMEM; LULL_E_FORMAT the job
 * takes no time. */
int lull_what_if_ask(const struct lull_timeline_job *job, struct lull_what_if *answer_out,
                     struct lull_error *err);

/* The kind that represents a kind's operation: that of the send for a receive. */
enum lull_timeline_kind lull_what_if_kind(enum lull_timeline_kind kind);

#endif
