/*
 * The server that tests of serving in virtual time run: Llama-3.1-8B on one H100.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TESTS_SIMULATOR_SERVING_RUN_H
#define LULL_TESTS_SIMULATOR_SERVING_RUN_H

#include "../emulator/check.h"

#include "simulator/serving/serving.h"

static inline struct lull_serving_run serving_run_of(const struct lull_server_arrivals *arrivals)
{
    const struct lull_objective objective = {.ttft_s = 0.5, .tpot_s = 0.05, .share = 0.99};

    return (struct lull_serving_run){
        .pool_count = 1,
        .pools = {{.setup = {.gpu = lull_gpu_model_find("H100", 4),
                             .llm = lull_llm_find("Llama-3.1-8B"),
                             .gpus = 1},
                   .max_sequences = 256,
                   .max_batched_tokens = 512,
                   .objective = objective}},
        .arrivals = arrivals,
        .objective = objective,
        .park_after_ns = MS(500),
        .wake_s = INFINITY,
        .seed = 1,
    };
}

#endif
