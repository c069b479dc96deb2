/*
 * Task of `lull plan`: a pipeline put together from measured profiles and a schedule, as the user
 * names them. Profiles are read once; any number of tasks may be built on them. Threads: any.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_PLAN_TASK_H
#define LULL_CLI_PLAN_TASK_H

#include <stdint.h>

#include "base/error.h"
#include "core/pipeline/model/plan.h"

/* The blocking power where --blocking-w is not given: Kareus' authors measured it on an A100
 * (2025). */
#define LULL_PLAN_BLOCKING_W 85.0

enum { LULL_PLAN_COPY_PROFILES = 63 };

/* The pipeline as the options name it. */
struct lull_plan_source {
    const char *profile;                         /* the profile's file; "-" is standard input */
    const char *copies[LULL_PLAN_COPY_PROFILES]; /* profiles' files of the second copy and on */
    uint32_t copy_count;  /* the copies beyond these have the first one's profile */
    const char *schedule; /* as core/pipeline/schedule/schedule.h parses it; null with a graph */
    const char *graph;    /* a file with torch's schedule or operations as JSON lines, or null */
    const char
        *blocking; /* watts, one for all or one per stage, or a GPU model; null: the default */
    int64_t stages;
    int64_t microbatches;
    int64_t replicas;
    double latency_ms; /* of a transfer between stages */
    const char *sync;  /* ms at the end of each device, one for all or one per device; null: none */
};

/* The measured profiles of a source. */
struct lull_plan_profiles {
    struct lull_pipeline_profile measured; /* of the first copy, and of copies without their own */
    struct lull_pipeline_profile copies[LULL_PLAN_COPY_PROFILES]; /* of the second copy and on */
    uint32_t copy_count;
};

/* Reads a profile and reports merged and skipped parts on standard error. Errors: those of
 * lull_pipeline_profile_read. */
int lull_plan_profile_read(const char *path, struct lull_pipeline_profile *profile_out,
                           struct lull_error *err);

/* Reads every profile that the source names. The caller owns the contents of *profiles_out after a
 * success. Errors: those of lull_pipeline_profile_read. */
int lull_plan_profiles_read(const struct lull_plan_source *source,
                            struct lull_plan_profiles *profiles_out, struct lull_error *err);
void lull_plan_profiles_fini(struct lull_plan_profiles *profiles);

struct lull_plan_task {
    const struct lull_plan_source *source;     /* borrowed */
    const struct lull_plan_profiles *profiles; /* borrowed */
    char title[128];
    uint32_t stages;                      /* the devices of one copy */
    int64_t parts;                        /* model chunks per device that share a measured stage */
    struct lull_pipeline_profile profile; /* fitted to the pipeline */
    struct lull_pipeline_graph graph;
    double *blocking_w; /* of every device */
    double blocking_sum_w;
    struct lull_pipeline_problem problem;
    uint32_t *highest; /* the plan of every operation at its highest clock */
    struct lull_pipeline_cost all_max;
    int64_t shortest_ns; /* no plan is faster: every operation at its fastest option */
};

/*
 * Builds the pipeline that the source names on its profiles; both must outlive the task. On success
 * the caller owns the contents of *task_out. Errors: those of the generators and of the graph's
 * reader; -EINVAL: the text of an option is invalid.
 */
int lull_plan_task_init(const struct lull_plan_source *source,
                        const struct lull_plan_profiles *profiles, struct lull_plan_task *task_out,
                        struct lull_error *err);
void lull_plan_task_fini(struct lull_plan_task *task);

#endif
