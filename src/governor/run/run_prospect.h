/*
 * Run prospect: what a run without the right to set clocks would have saved with it, from the
 * recorded gaps between its kernels, its measured energy and the curves of its GPUs' model
 * (trace/prediction.h, whose assumptions apply). Gaps are taken as evenly spread over the
 * iteration. Waiting ranks are left out, because one run without trials does not show what they can
 * lose.
 *
 * Threads: one; the control is stopped. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_RUN_RUN_PROSPECT_H
#define LULL_GOVERNOR_RUN_RUN_PROSPECT_H

#include "governor/run/run_pass.h"
#include "trace/prediction.h"

struct lull_run_prospect {
    const char *right;  /* the missing right */
    const char *reason; /* why the figures below are not known; NULL: they are */
    double tolerance_ratio;
    struct lull_prediction_range range; /* shares of the energy of an iteration */
    double energy_j;                    /* of an iteration, all GPUs of the job: measured... */
    double model_j;                     /* ...and by the model, in the median time */
    double compute_ratio;               /* share of the time in which the GPUs compute */
    struct lull_prediction assumed;     /* of the first GPU: model and latencies */
};

/* Computes it for a pass that has ended. False: no right is missing. */
bool lull_run_prospect_compute(const struct lull_run_pass *pass,
                               struct lull_run_prospect *prospect_out);

#endif
