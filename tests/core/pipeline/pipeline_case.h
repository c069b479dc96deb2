/*
 * Pipelines for tests of planners: 1F1B of measured profiles, random task graphs of random
 * profiles. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TESTS_CORE_PIPELINE_PIPELINE_CASE_H
#define LULL_TESTS_CORE_PIPELINE_PIPELINE_CASE_H

#include <stdbool.h>

#include "core/pipeline/model/plan.h"
#include "core/stats/random.h"

/* Of an A100-SXM, what the reference's numbers are for. */
#define PIPELINE_CASE_A100_W 83.64

/* A problem and what it points to. */
struct pipeline_case {
    struct lull_pipeline_profile profile;
    struct lull_pipeline_graph graph;
    double *blocking_w;
    struct lull_pipeline_problem problem;
};

void pipeline_case_fini(struct pipeline_case *it);

/* Adds the rows of a profile in Perseus's format for every stage of the pipeline that they
 * represent (stages 0 to 6 alike, 7 the last one's). False: the file cannot be read, errno says
 * why. */
bool pipeline_case_profile(struct lull_pipeline_profile *profile, const char *path,
                           uint32_t stages);

/*
 * 1F1B of stages and micro-batches from such a profile, the same blocking power everywhere. False:
 * the file cannot be read, errno says why.
 */
bool pipeline_case_1f1b(struct pipeline_case *it, const char *profile_path, uint32_t stages,
                        uint32_t microbatches, double blocking_w);

struct pipeline_case_random {
    uint32_t ops;     /* at most */
    uint32_t points;  /* of a class, at most */
    uint32_t devices; /* at most */
};

/* A random profile (single options, repeated times, rows that are not monotone, fixed operations),
 * a random graph with latencies, a blocking power for every device. */
void pipeline_case_draw(struct pipeline_case *it, struct lull_random *random,
                        const struct pipeline_case_random *size);

#endif
