/*
 * Earlier job placements. They are passed at each look to policies that learn from past jobs
 * (recall() of cluster/core/policy/policy.h). A job's record is its decision in the journal
 * (report.h), so that a killed client continues with the same history.
 *
 * One thread. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_SLURM_SCHEDULE_PAST_H
#define LULL_CLUSTER_SLURM_SCHEDULE_PAST_H

#include <stdint.h>

#include <jansson.h>

#include "cluster/core/model/job.h"
#include "cluster/trace/point_table.h"

/* Number of past jobs kept, the last ones by submission: several times the number
 * used for prices (LULL_FLUID_PRICE_SEEN), and few enough not to lengthen a round. */
enum { LULL_PAST_MAX = 1000 };

struct lull_past_point {
    char type[LULL_POINT_TABLE_NAME]; /* of GPU */
    uint32_t sm_mhz;                  /* 0: full clocks */
    int64_t time_ns;                  /* 1 to LULL_CLUSTER_MAX_NS */
    double energy_j;                  /* >= 0; 0 also where it is not known */
};

struct lull_past_job {
    uint32_t id;
    int64_t submit_s;
    uint32_t gpus;
    uint32_t chosen; /* among the points */
    uint32_t point_count;
    struct lull_past_point points[];
};

/* Zero-initialised: nothing is remembered. */
struct lull_past {
    struct lull_past_job **jobs; /* in the order of submission, then of their ids */
    uint32_t count;
};

/* Adds a start as written by lull_report_decision(). It replaces an earlier one of the same job.
 * Invalid documents are skipped. -ENOMEM. */
int lull_past_add(struct lull_past *past, const json_t *decision);
void lull_past_fini(struct lull_past *past);

#endif
