/*
 * A server under a closed loop: as soon as a request is finished, the next one begins. Expected
 * values over the number of prompts that a step takes in, which is Poisson distributed, under the
 * board's power limit. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TESTS_EMULATOR_CLOSED_LOOP_H
#define LULL_TESTS_EMULATOR_CLOSED_LOOP_H

#include <stdbool.h>

#include "emulator/server/step.h"
#include "emulator/server/step_gpu.h"

struct closed_loop {
    struct lull_step_setup setup;
    double batch;         /* requests in flight, on average */
    double output_tokens; /* of a request */
    double prompt_tokens;
    double host_s;        /* of each step, beyond the model's */
    double prompt_host_s; /* of each prompt: decoding of images, their encoder */
};

struct closed_loop_result {
    double median_s; /* between two tokens of a request */
    double mean_s;
    double gpu_w; /* average of each GPU */
    double mhz;   /* the clock that the power limit leaves */
    double busy_ratio;
};

struct closed_loop_result closed_loop_run(const struct lull_step_gpu *params,
                                          const struct closed_loop *loop);

/* One kernel that is repeated, at the clock that the board's power limit leaves or at the highest
 * one: its time and power. */
struct closed_loop_result closed_loop_kernel(const struct lull_gpu_model *gpu,
                                             const struct lull_step_cost *cost, bool is_limited);

/* The parameters of a GPU. */
const struct lull_step_gpu *closed_loop_params(const char *gpu);

#endif
