/*
 * A data-parallel job on GPUs with a slow driver, in virtual time: the test environment of the
 * controller's decisions. It shares no code with the emulated node. SPDX-License-Identifier:
 * Apache-2.0
 */
#ifndef LULL_TESTS_CORE_SECTION_JOB_SIM_H
#define LULL_TESTS_CORE_SECTION_JOB_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "core/section/controller/controller.h"

enum { JOB_SIM_MAX_POINTS = 128, JOB_SIM_MAX_GPUS = 16, JOB_SIM_MAX_NODES = 4 };

struct job_sim_config {
    uint32_t gpus;
    uint32_t idle_gpus; /* of each node, before those that ranks use */
    uint32_t points;    /* clocks from fmax downwards in equal steps to fmax / 7 */
    uint32_t iterations;
    double compute_ms;    /* at the highest clock */
    double memory_share;  /* of the computation that does not care for the clock */
    double exposed_ms;    /* collective at a clock that feeds the link */
    double overlapped_ms; /* of it hidden behind computation: the wait returns at once */
    uint32_t knee_point;  /* lowest clock that still feeds the link; points - 1: all do */
    double jitter;        /* relative standard deviation of each phase */
    double call_ms;       /* of the driver; serialised over GPUs */
    double slow_call_ms;  /* instead, from some time on: */
    double slow_from_ms;
    uint32_t slow_every; /* every so many calls; 0 never */
    uint32_t slow_most;  /* and so often; 0 for ever */
    int32_t slow_gpu;    /* for this GPU alone; -1 any */
    double settle_ms;
    double settle_spread_ms; /* uniform on top */
    double readback_ms;      /* granularity of the clock reading */
    uint32_t odd_every; /* an extra call (a checkpoint barrier) every so many iterations; 0 never */
    uint32_t stop_obeying;  /* from this iteration on the device ignores lowerings; 0 never */
    uint32_t knee_moves_at; /* iteration at which knee_point becomes knee_after; 0 never */
    uint32_t knee_after;
    uint32_t bound_every; /* an iteration whose collective follows the clock; 0 never */
    uint32_t change_at;   /* iteration at which the job gets another shape; 0 never */
    bool uneven;          /* ranks differ in what they compute and in what they transfer: */
    double compute_scale[JOB_SIM_MAX_GPUS]; /* of compute_ms */
    uint32_t own_knee[JOB_SIM_MAX_GPUS];    /* instead of knee_point */
    bool uncoupled; /* ranks do not wait for each other: each transfers for itself */
    uint64_t seed;
};

struct job_sim_result {
    double settled_iteration_ms;
    double settled_energy_j; /* per iteration, all GPUs */
    uint64_t settled_iterations;
    double rank_iteration_ms[JOB_SIM_MAX_GPUS]; /* settled, of each rank */
    double total_ms;
    uint64_t computed;     /* computation phases begun... */
    uint64_t computed_low; /* ...of which on a lowered clock */
    uint64_t commands;
    uint64_t calls; /* of the driver */
    uint64_t slow_calls;
    double longest_low_ms; /* longest stretch below the highest clock */
    uint32_t
        ran_at[JOB_SIM_MAX_POINTS]; /* collectives of GPU 0 by the point in force in their middle */
    uint32_t last_ran_at;           /* of the last one */
};

/* 4 GPUs, 81 clocks, 200 ms of computation, 300 ms of exposed collective, A100-like latency. */
void job_sim_config_default(struct job_sim_config *config);

/* Runs the job under a controller (NULL: unmanaged; then every iteration counts as settled). */
void job_sim_run(const struct job_sim_config *config, struct lull_controller *controller,
                 struct job_sim_result *result_out);

/*
 * The same on several nodes, each with a controller and a driver of its own and gpus / node_count
 * GPUs. exchange is called ten times a second with the time.
 */
struct job_sim_nodes {
    uint32_t node_count;
    struct lull_controller *controllers[JOB_SIM_MAX_NODES];
    void (*exchange)(void *context, int64_t now_ns);
    void *context;
};

void job_sim_run_nodes(const struct job_sim_config *config, const struct job_sim_nodes *nodes,
                       struct job_sim_result *result_out);

/* A controller for the GPUs of such a job. */
struct lull_controller *job_sim_create_controller(const struct job_sim_config *config,
                                                  const struct lull_controller_config *control);

/* Of the settled iterations: energy saved, time lost. */
double job_sim_saving(const struct job_sim_result *unmanaged, const struct job_sim_result *managed);
double job_sim_slowdown(const struct job_sim_result *unmanaged,
                        const struct job_sim_result *managed);

/* Energy per iteration if the section ran at this point with instant switching, J. */
double job_sim_ideal_energy_j(const struct job_sim_config *config, uint32_t point);

#endif
