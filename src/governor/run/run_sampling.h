/*
 * Run sampling: errors of the power sensors of a run's GPUs whose sampling is synchronous with its
 * iterations (core/energy/strobe.h).
 *
 * Threads: one; the control is stopped. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_RUN_RUN_SAMPLING_H
#define LULL_GOVERNOR_RUN_RUN_SAMPLING_H

#include <stdint.h>

#include "core/energy/strobe.h"
#include "core/stats/moments.h"
#include "governor/control/control.h"

/* Zero-initialised is empty. */
struct lull_run_sampling {
    struct lull_energy_strobe strobe;
    struct lull_moments powers_w; /* as they were read, of all GPUs of the job */
};

/* Adds the iterations from boundary first to boundary last. */
void lull_run_sampling_add(struct lull_run_sampling *sampling, const struct lull_control *control,
                           const struct lull_boundaries *boundaries, size_t first, size_t last);

/*
 * Returns the standard deviation of the job's energy by such sampling, over that energy: 0 where no
 * sensor leaves a gap between its windows. The sections of leading_gpu determine when the job
 * waits. GPUs refresh at times of their own, so that their errors are independent.
 */
double lull_run_sampling_ratio(const struct lull_run_sampling *sampling,
                               const struct lull_control *control, uint32_t leading_gpu,
                               double iteration_ms);

#endif
