/*
 * The combined cost of time and energy, and the choice of an operating point by it (Zeus, NSDI'23,
 * section 3: equation 2). Pure; any thread. Energies are those of all GPUs of the job added up,
 * times those of the slowest; so the power that weighs time counts each GPU too.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_TUNING_COST_H
#define LULL_CORE_TUNING_COST_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Weights of time and energy in a job's cost. */
struct lull_job_price {
    double eta_ratio;   /* 0: time only ... 1: energy only */
    double max_power_w; /* of one GPU: its highest power limit; >= 0 */
    uint32_t gpu_count; /* of the whole job, all nodes and ranks; > 0 */
};

/* -EINVAL: a member is beyond its range; err names it. */
int lull_job_price_check(const struct lull_job_price *price, struct lull_error *err);

/* C = eta E + (1 - eta) (max_power_w gpu_count) T, in joules. energy_j: of all gpu_count GPUs. */
double lull_job_cost(const struct lull_job_price *price, double energy_j, double time_s);

/* The measurement at one power limit (or one clock, with another meaning of level). */
struct lull_cost_point {
    double level;    /* W or MHz; the point with the highest one is the reference */
    double energy_j; /* of all GPUs of the job, for the same work at each point; >= 0 */
    double time_s;   /* > 0 */
};

enum lull_job_aim {
    LULL_JOB_COST,     /* least C */
    LULL_JOB_ENERGY,   /* least E */
    LULL_JOB_TIME,     /* least T */
    LULL_JOB_SLOWDOWN, /* least E among those with T <= (1 + slowdown_ratio) T(highest level) */
    LULL_JOB_DELAY,    /* least energy-delay product E T */
};

struct lull_job_selector {
    enum lull_job_aim aim;
    struct lull_job_price price; /* LULL_JOB_COST only */
    double slowdown_ratio;       /* LULL_JOB_SLOWDOWN only; >= 0, 0.05: at most 5 % slower */
};

/* The quantity that the aim minimises: C, E, T or E T, without a bound on slowdown. */
double lull_job_value(const struct lull_job_selector *selector, double energy_j, double time_s);

/*
 * Index of the best point for the aim; of equal ones the first. It always exists, since the highest
 * level meets every bound on slowdown. Errors: -EINVAL no point, or a value beyond its range (with
 * the point's level); *index_out is written on success only.
 */
int lull_job_select(const struct lull_job_selector *selector, const struct lull_cost_point *points,
                    size_t count, size_t *index_out, struct lull_error *err);

/* The names that commands and files use: cost, energy, time, slowdown, energy-delay. */
const char *lull_job_aim_name(enum lull_job_aim aim);

/* -EINVAL: no such name. */
int lull_job_aim_parse(const char *name, enum lull_job_aim *aim_out);

#endif
