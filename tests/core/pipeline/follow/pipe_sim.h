/*
 * A pipeline-parallel job on GPUs with a slow driver, in virtual time: the test environment of
 * trackers and plan controllers. Its operations stretch with the clock at every moment. It shares
 * no code with the emulated node. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TESTS_CORE_PIPELINE_FOLLOW_PIPE_SIM_H
#define LULL_TESTS_CORE_PIPELINE_FOLLOW_PIPE_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "core/pipeline/follow/plan_controller.h"
#include "core/pipeline/model/plan.h"

enum { PIPE_SIM_POINTS = 11, PIPE_SIM_DEVICES = 16, PIPE_SIM_ITERATIONS = 1024 };

struct pipe_sim_config {
    const char *schedule;
    uint32_t devices;  /* stages of a copy of the pipeline */
    uint32_t replicas; /* data parallel copies, which meet at the end of an iteration */
    uint32_t microbatches;
    double forward_ms; /* at the highest clock */
    double backward_ms;
    double last_ratio; /* of the last stage */
    double latency_ms;
    double optimizer_ms;
    double jitter;      /* relative standard deviation of each operation */
    double stall_share; /* of the operations: they take longer, ... */
    double stall_ms;    /* ... by up to so much */
    double call_ms;     /* of the driver, median; serialised over GPUs */
    double call_spread; /* of its logarithm, up to four times the median; 0: always the same */
    double settle_ms;
    double settle_spread_ms; /* uniform on top */
    double slow_settle_ms;   /* instead, one time in a hundred; 0: never */
    uint32_t iterations;
    bool sees_transfers;   /* reports sends and receives; else sections */
    double joins_ms;       /* no event before that is used */
    uint32_t odd_at;       /* in this iteration the first device says a section too many; 0 never */
    bool ignores_lowering; /* the driver says yes and does nothing */
    uint64_t seed;
    /* From this iteration on and before that one, a device takes longer by slow_factor, and the
     * other copies of the pipeline end their iteration only peer_ms after the start of this one's.
     */
    uint32_t straggle_from;
    uint32_t straggle_to;
    uint32_t slow_device;
    double slow_factor; /* 1: none */
    double peer_ms;     /* 0: no other copies */
    /* Called after every iteration that a plan controller reports, if it is not NULL; begin_ns,
     * end_ns: of each of its operations. energy_j: of all devices since the previously reported
     * one. */
    void (*on_iteration)(void *context, const struct lull_plan_controller_iteration *iteration,
                         const int64_t *begin_ns, const int64_t *end_ns, double energy_j);
    void *context;
};

struct pipe_sim_result {
    uint64_t begins; /* operations begun */
    uint64_t below;  /* ... while the clock was below what the plan says of them */
    double below_ms; /* time that operations ran so */
    double plan_ms;  /* mean iteration at the plan, at the highest clocks */
    double highest_ms;
    double longest_plan_ms; /* of all at the plan */
    double plan_j;          /* mean energy of those */
    double highest_j;
    uint64_t commands;
    uint64_t wrong; /* edges that the tracker reported wrongly */
    uint64_t edges;
    double worst_edge_ms;                        /* largest error of their times */
    uint64_t first_told;                         /* iteration of the first edge */
    int32_t iteration_plan[PIPE_SIM_ITERATIONS]; /* as the plan controller reported */
    uint32_t iterations_told;
    double low_while_lost_ms; /* longest time that a lost GPU stayed lowered */
};

struct pipe_sim; /* a world with its problem */

void pipe_sim_config_default(struct pipe_sim_config *config);

struct pipe_sim *pipe_sim_create(const struct pipe_sim_config *config);
void pipe_sim_destroy(struct pipe_sim *sim);

const struct lull_pipeline_problem *pipe_sim_problem(const struct pipe_sim *sim);

/* Adds a plan of one option per operation (an option is a point) to a plan controller. */
int pipe_sim_add_plan(const struct pipe_sim *sim, struct lull_plan_controller *plan_controller,
                      const uint32_t *option, double slowdown_ratio);

/* The same as a detour. */
int pipe_sim_detour(const struct pipe_sim *sim, struct lull_plan_controller *plan_controller,
                    const uint32_t *option);

struct lull_plan_controller *
pipe_sim_plan_controller(const struct pipe_sim *sim,
                         const struct lull_plan_controller_config *config);

/* Runs the job; the plan controller may be NULL: only trackers look on. */
void pipe_sim_run(struct pipe_sim *sim, struct lull_plan_controller *plan_controller,
                  struct pipe_sim_result *result_out);

#endif
