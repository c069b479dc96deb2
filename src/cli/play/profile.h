/*
 * Simulated measurements of a pipeline's operations, by a sweep over a GPU model's clocks: on the
 * emulator's physics in virtual time, a nominal unit, each clock locked. Perseus' CSV format.
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_PLAY_PROFILE_H
#define LULL_CLI_PLAY_PROFILE_H

#include "cli/play/pipeline.h"
#include "emulator/gpu_model.h"

struct lull_play_profile_question {
    const struct lull_play_pipeline *pipeline;
    const struct lull_gpu_model *model;
    /* The GPU is as warm as a job of this many watts leaves it; 0: as each operation leaves it. */
    double heat_w;
    uint32_t stride; /* only every stride-th clock from the highest down is measured, >= 1 */
};

/*
 * Writes the profile to path ("-": standard output), every stage and both directions, from the
 * highest clock to half of it. *blocking_w_out: what waiting for another stage draws at the highest
 * clock. Errors: -errno.
 */
int lull_play_profile_write(const struct lull_play_profile_question *question, const char *path,
                            double *blocking_w_out, struct lull_error *err);

#endif
