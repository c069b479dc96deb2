/*
 * Holds what GPUs draw within the caps of cluster, racks and nodes, by measurements: about once a
 * second it gets the power of each GPU, and returns the highest clock and power limit that each may
 * have.
 *
 * Clocks come first: jobs share the watts by power_share.h, based on the measured power of their
 * GPUs (power_draw.h). If the lowest clocks that the jobs accept do not suffice, power limits
 * follow, for GPUs whose job has not declared a minimum. A remaining excess is reported and
 * accepted: no job is put below its declared minimum.
 *
 * Lowerings are ordered at once. A raising waits until it is worth a level, and until the effect of
 * the last orders has been measured.
 *
 * Pure; one thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CORE_POWER_POWER_STEER_H
#define LULL_CLUSTER_CORE_POWER_POWER_STEER_H

#include <stdbool.h>
#include <stdint.h>

#include "cluster/core/power/power_draw.h"
#include "cluster/core/power/power_share.h"

/* The target as a share of each cap: the rest allows for fluctuations of power. Measured with
 * cluster/tests/core/power/test_power_steer.c, 32 GPUs with 2 % of noise each: with 0.995 their sum
 * was never above 101 % of the cap later than 2 s after a step, in means of 0.1 s. */
#define LULL_POWER_STEER_AIM 0.995

/* The same in the first rounds after a cap has fallen: GPUs that were faster before are warm, and
 * draw up to 5 % more than they did at the same clock (measured on 16 emulated A100). Without it 32
 * of them were above 101 % of a cap for up to 1.7 s, with it for 0.6 s. */
#define LULL_POWER_STEER_CAREFUL_AIM 0.96

/* The constant properties of a GPU. */
struct lull_steered_gpu {
    uint32_t lowest_mhz; /* of the clocks that can be set; 0: none can */
    uint32_t highest_mhz;
    double lowest_limit_w; /* of the power limits that can be set; 0: none can */
    double unknown_w;      /* its assumed power without readings */
    uint32_t group;        /* the innermost one that it is in */
    uint32_t cap_mhz;      /* its cap before; 0: none */
};

/* The state of one GPU that a node reports in a round. */
struct lull_steer_update {
    double power_w;   /* its recent power draw; 0: unknown */
    uint32_t looks;   /* changes with each new one */
    uint32_t cap_mhz; /* the cap during the reading; 0: none. Readings under an older order are not
                         used */
    uint32_t clock_mhz; /* that it ran at; 0: unknown */
    uint32_t floor_mhz; /* lowest clock of its lease; 0: any */
    uint32_t job;       /* GPUs with the same number run one job; below job_count */
    bool is_away;       /* its node does not answer, so no order reaches it */
};

struct lull_steered_job {
    double weight;      /* > 0 */
    double min_ratio;   /* its minimum clock, as a share of the highest; 0: any */
    double clock_bound; /* the share of its time that depends on the clock, 0 to 1 */
};

struct lull_steer_order {
    uint32_t max_mhz; /* 0: any */
    double limit_w;   /* 0: any */
};

struct lull_power_steer; /* opaque */

/* Copies the GPUs. -ENOMEM. */
int lull_power_steer_create(const struct lull_steered_gpu *gpus, uint32_t gpu_count,
                            struct lull_power_steer **steer_out);
void lull_power_steer_destroy(struct lull_power_steer *steer);

/* The input of a round. Groups and jobs may differ from round to round. */
struct lull_steer_view {
    const struct lull_steer_update *update; /* [gpu] */
    const struct lull_power_group *groups;
    uint32_t group_count;
    const struct lull_steered_job *jobs;
    uint32_t job_count;
};

/*
 * Takes a round's view, and writes orders [gpu] by the caps of the groups. *excess_w_out: the most
 * by which a cap is likely to be exceeded, because no job accepts less. -ENOMEM: the orders are
 * unchanged.
 */
int lull_power_steer_decide(struct lull_power_steer *steer, const struct lull_steer_view *view,
                            struct lull_steer_order *orders_out, double *excess_w_out);

#endif
