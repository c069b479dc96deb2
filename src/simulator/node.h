/*
 * A node in virtual time: a play on emulated GPUs, managed by the same decisions that `lull run`
 * makes. What takes a job minutes takes seconds here, without the noise of a machine.
 *
 * The controller, the gap maps and the physics are the real ones; the driver is driver.h. Not
 * simulated: the wire, lulld, the granularity of reading clocks back.
 *
 * Deterministic. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_SIMULATOR_NODE_H
#define LULL_SIMULATOR_NODE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "core/section/controller/controller.h"
#include "emulator/gpu_model.h"
#include "emulator/player/play.h"

struct lull_simulation_options {
    const struct lull_play *play; /* finished */
    const struct lull_gpu_model *model;
    uint64_t periods;  /* of the play, > 0 */
    uint64_t measured; /* of each rank the last so many of them count, 1..periods */
    bool managed;      /* false: the highest clock throughout */
    bool exposure;     /* compute kernels are recorded in a window */
    struct lull_controller_config control;
    uint64_t seed; /* of the driver's latencies */
};

struct lull_simulation_outcome {
    /* Means of one period over the measured ones. */
    double period_ms;    /* mean over the ranks: those that wait for nobody differ */
    double energy_j;     /* of all GPUs together */
    double late_ratio;   /* iterations in which a compute kernel began on a lowered clock */
    uint64_t calls;      /* of the driver, in all */
    uint64_t settled_in; /* period in which the descent had settled; 0: not */
    bool is_steady;      /* one point for the whole iteration */
    double point_mhz;    /* of the target that takes longest; highest: none */
    uint32_t switched;   /* sections switched in each pass, of the first GPU */
};

/* Errors: -EINVAL; -EDEADLK the play's ranks wait for each other for ever; -ENOMEM. */
int lull_simulate_node(const struct lull_simulation_options *options,
                       struct lull_simulation_outcome *outcome_out, struct lull_error *err);

#endif
