/*
 * Inside straggler response; shared by straggler_response.c (what is done) and straggler_report.c
 * (what came of it). Nobody else includes this. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_PLAN_STRAGGLER_RESPONSE_STATE_H
#define LULL_GOVERNOR_PLAN_STRAGGLER_RESPONSE_STATE_H

#include "core/pipeline/online/replan.h"
#include "core/pipeline/online/straggler.h"
#include "governor/plan/straggler_response.h"

enum { MAX_EPISODES = 256 };

struct response_copy {
    uint32_t copy; /* of the job's */
    struct lull_straggler *straggler;
    uint32_t *option; /* while it is stretched */
};

/* From the first odd iteration to the way back. */
struct response_episode {
    uint64_t began;
    uint64_t ended; /* 0: not yet */
};

struct lull_straggler_response {
    int32_t plan; /* that is prepared for, -1 none */
    const struct lull_plan_file *base;
    struct lull_pipeline_problem problem;
    struct lull_replan *replan;
    struct lull_pipeline_switching switching;
    uint32_t copy_count; /* that are whole here */
    struct response_copy copies[LULL_CONDUCTOR_MAX_GPUS];
    int32_t detour;     /* that holds, -1 none */
    bool is_due;        /* a detour could not be begun yet */
    bool was_stretched; /* the iteration before */
    bool has_failed;
    size_t seen;        /* recorded iterations */
    uint64_t suspected; /* the first of the latest iterations that are odd, 0 none */
    uint32_t replans;
    double slowest_ms;
    double lost_ms; /* of plans before this one */
    uint32_t refuted;
    uint32_t episode_count;
    struct response_episode episodes[MAX_EPISODES];
};

/* By how much iterations took longer since the plan is prepared for: copies share them. */
double response_lost_ms(const struct lull_straggler_response *response);

#endif
