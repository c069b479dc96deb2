/*
 * Scalars: the numbers of an active run, once a second, for TensorBoard and readers of
 * scalars.jsonl. One table has their names and meanings (scalars.c); a test compares
 * docs/user/scalars.md with it. All are of this node's GPUs that a rank of the job uses, each
 * counted once.
 *
 * Threads: the main thread of `lull run`. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_REPORT_SCALARS_H
#define LULL_GOVERNOR_REPORT_SCALARS_H

#include "governor/control/control.h"
#include "governor/report/scalar_files.h"
#include "governor/run/run_frontier.h"

/* The state between two rows, zero-initialised. */
struct lull_scalars {
    const struct lull_boundaries *from; /* those of the rank that had had most iterations */
    size_t boundaries;                  /* number of boundaries */
};

/* Lists the scalars of a control's GPUs, in the order of a row's values. scalars_out:
 * LULL_SCALARS_MAX of them. Returns how many there are. */
uint32_t lull_scalars_list(const struct lull_control *control, struct lull_scalar *scalars_out);

/*
 * Makes the values of a row; what is not known is NAN. To be called while the control is locked.
 * trials: those that the progress takes as well; NULL: what is saved is not known so.
 */
void lull_scalars_take(struct lull_scalars *scalars, const struct lull_control *control,
                       struct lull_run_trials *trials, int64_t now_ns,
                       struct lull_scalar_row *row_out);

#endif
