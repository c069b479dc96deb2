/*
 * The time and energy of a job as a function of its number of GPUs and their clock. Policies that
 * choose both use it (PowerFlow, arXiv 2304.06381, section 4), and operating points are made from
 * it (operating_points.h).
 *
 * A job's work has three parts: kernels, whose time and power at a clock come from the curves of
 * the GPU's model (core/energy/device_curve.h); host time, in which the GPU waits; and exposed
 * communication, which only slows down once the clock can no longer feed the link. Where a kernel
 * draws more than the power limit, the GPU runs at the highest clock that keeps the limit.
 *
 * Pure. Threads: any for const objects. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CORE_MODEL_JOB_SURFACE_H
#define LULL_CLUSTER_CORE_MODEL_JOB_SURFACE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/energy/device_curve.h"

enum {
    LULL_JOB_MAX_CLOCKS = LULL_DEVICE_CURVE_CLOCKS,
    LULL_JOB_MAX_PARTS = 4,
    LULL_JOB_MAX_RATES = 16,
};

/* ---- a GPU -------------------------------------------------------------------------------- */

/* The exposed communication of a job at one clock. */
struct lull_job_transfer {
    double rate_ratio; /* to that at the highest clock; > 0, at most 1 */
    double watts;      /* beyond waiting; >= 0 */
};

struct lull_job_gpu {
    const struct lull_device_clock *clocks;    /* the highest first */
    const struct lull_job_transfer *transfers; /* of each clock */
    uint32_t clock_count;                      /* 1 to LULL_JOB_MAX_CLOCKS */
    double limit_w;                            /* power limit of the board; > 0, may be INFINITY */
};

/* ---- the work of a job -------------------------------------------------------------------- */

struct lull_job_part {
    struct lull_device_kernel kernel; /* on one model of GPU */
    double share_ratio;               /* of the job's time without communication; >= 0 */
};

struct lull_job_work {
    struct lull_job_part parts[LULL_JOB_MAX_PARTS];
    uint32_t part_count;
    /* The share of the time in which the GPU waits for the host. With the shares of the parts it
       adds up to 1. */
    double host_ratio;
    /* Exposed communication: its share of the time with LULL_JOB_SYNC_GPUS GPUs; 0 to below 1. */
    double sync_ratio;
};

/* With how many GPUs communication shares were measured; with n GPUs a ring moves (n - 1) / n. */
enum { LULL_JOB_SYNC_GPUS = 8 };

/*
 * The scaling of a second of work at the highest clock to
 * another clock; made once per kind of work, model of GPU and
 * clock.
 */
struct lull_job_tempo {
    uint32_t sm_mhz;
    double compute_ratio;  /* time, of all but communication; 1 at the highest clock */
    double compute_w;      /* on average over that time */
    double transfer_ratio; /* time of communication; 1 at the highest clock */
    double transfer_w;     /* all that a GPU draws then */
    double waiting_w;      /* with nothing to do */
};

/* tempo_out: gpu->clock_count places, in the order of the clocks. */
void lull_job_tempo(const struct lull_job_gpu *gpu, const struct lull_job_work *work,
                    struct lull_job_tempo *tempo_out);

/* ---- time and energy ---------------------------------------------------------------------- */

/* Rates that were measured with several numbers of GPUs, all else equal; numbers rising. */
struct lull_job_rates {
    uint32_t count; /* 0: none */
    struct {
        uint32_t gpus;
        double rate; /* > 0, in any unit */
    } rows[LULL_JOB_MAX_RATES];
};

/* The rate with this many GPUs; 0: it was not measured. */
double lull_job_rate_with(const struct lull_job_rates *rates, uint32_t gpus);

struct lull_job_surface {
    const struct lull_job_tempo *tempo; /* of one type of GPU */
    uint32_t clock_count;
    double sync_ratio;                  /* of the work */
    const struct lull_job_rates *rates; /* NULL: from sync_ratio */
    uint32_t gpus;                      /* that time_ns is with, at the highest clock; > 0 */
    int64_t time_ns;                    /* > 0 */
    double read_mb_s; /* that a GPU reads from a storage while it computes then; >= 0 */
};

struct lull_job_surface_point {
    int64_t time_ns;      /* at least 1, at most LULL_CLUSTER_MAX_NS */
    double energy_j;      /* of all its GPUs */
    double exposed_ratio; /* share of its time in which it only communicates */
    double waiting_w;     /* of all its GPUs when they wait for others' transfers */
    double read_mb_s;     /* by all of them, on average */
};

/*
 * The point of this many GPUs (> 0) at clock number `clock` (0: the highest), O(1).
 *
 * The job's batch is constant, so that each of n GPUs computes the n-th part. With
 * measured rates, the time beyond that, relative to the fewest GPUs of the table, is
 * exposed communication. Returns false and writes nothing if a table lacks this number of
 * GPUs or the job's own. Without a table communication follows the ring: it takes
 * sync_ratio of the time at LULL_JOB_SYNC_GPUS GPUs, if each had the work of one GPU in
 * this job.
 */
bool lull_job_surface_at(const struct lull_job_surface *surface, uint32_t gpus, uint32_t clock,
                         struct lull_job_surface_point *point_out);

#endif
