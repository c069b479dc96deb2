/*
 * The energy of several GPUs at one time.
 *
 * GPUs are read one after the other. A sum of energies of different times would make the power
 * between two sums jump. So the sum is taken at the earliest of the last times, with each GPU's
 * energy on the line through its last two readings.
 *
 * Pure; caller's storage; begin with {0}; one thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_SERVING_JOINT_ENERGY_H
#define LULL_CORE_SERVING_JOINT_ENERGY_H

#include <stdint.h>

enum { LULL_JOINT_ENERGY_GPUS = 64 };

struct lull_joint_energy {
    uint32_t gpu_count;
    struct lull_energy_points {
        struct {
            int64_t time_ns; /* 0: none */
            double energy_j;
        } last, before;
    } gpus[LULL_JOINT_ENERGY_GPUS];
};

/* Takes the energy of a GPU since any fixed time, J, up to a time above 0; NAN: it is unknown, and
 * earlier readings do not count any more. A time that is not later than the last one is ignored. */
void lull_joint_energy_take(struct lull_joint_energy *joint, uint32_t gpu, int64_t time_ns,
                            double energy_j);

/* Returns the energy of all GPUs that were taken, J, and its time; NAN: one has fewer than two
 * readings. */
double lull_joint_energy_find(const struct lull_joint_energy *joint, int64_t *time_ns_out);

#endif
