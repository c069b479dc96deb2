/*
 * An iteration of a job as tasks of computation and communication that wait for each other, and its
 * list schedule.
 *
 * A task occupies one unit of a resource: a device computes, a link carries one transfer at a time,
 * a group of equal machines (units > 1) takes as many tasks as it has. Whenever a unit is free and
 * tasks of its resource are ready, one begins: that of the highest *upward rank*, the longest path
 * from its start to the end of the iteration (HEFT: Topcuoglu, Hariri and Wu, 2002), or, on links,
 * the shortest. Of equals the higher rank, then the lower number. Nothing is preempted.
 *
 * For independent tasks on m equal machines such a schedule is at most (2 - 1/m) times as long as
 * the best (Graham 1966); for a chain, and where all orders are given by edges, it is the best.
 *
 * It is built once, by adding resources, tasks and edges and finishing it, and then only read.
 * Pure. Threads: any for a finished graph. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CORE_MODEL_JOB_GRAPH_H
#define LULL_CLUSTER_CORE_MODEL_JOB_GRAPH_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "cluster/core/model/job_surface.h"

enum {
    LULL_JOB_MAX_TASKS = 1 << 22,
    LULL_JOB_MAX_EDGES = 1 << 24,
    LULL_JOB_MAX_RESOURCES = 1 << 20,
};
/* The longest task: 1000 s, so that no path overflows. */
#define LULL_JOB_MAX_TASK_NS INT64_C(1000000000000)

enum lull_job_task_kind {
    LULL_JOB_COMPUTE, /* follows the clock */
    LULL_JOB_TRANSFER,
    LULL_JOB_HOST, /* work of the host or a copy of memory, whose time is constant; on a separate
                      device */
};

enum lull_job_order {
    LULL_JOB_BY_RANK,
    LULL_JOB_SHORTEST_FIRST,
};

struct lull_job_resource {
    uint32_t units; /* > 0: tasks at a time */
    enum lull_job_order order;
};

struct lull_job_task {
    enum lull_job_task_kind kind;
    uint32_t resource;
    uint32_t
        device; /* the resource whose time it takes; for a transfer, the one that waits for it */
    int64_t time_ns; /* 0 to LULL_JOB_MAX_TASK_NS */
    uint32_t work;   /* of computation: its kind, which defines how it follows the clock; else 0 */
};

struct lull_job_edge {
    uint32_t from;
    uint32_t to;
};

/* Zero-initialised it is empty. */
struct lull_job_graph {
    struct lull_job_resource *resources;
    size_t resource_count;
    size_t resource_room;
    struct lull_job_task *tasks;
    size_t task_count;
    size_t task_room;
    struct lull_job_edge *edges; /* sorted by `from` once the graph is finished */
    size_t edge_count;
    size_t edge_room;

    /* These are only there once the graph is finished. */
    uint32_t *first_out; /* task_count + 1: edges out of task i are edges[first_out[i]..[i + 1]] */
    uint32_t *waits_for; /* number of edges into a task */
    uint32_t *topological; /* tasks, each after all that it waits for */
};

void lull_job_graph_fini(struct lull_job_graph *graph);

/* Add a resource or a task, and return its index. Errors: -EINVAL no units, a time out of range, or
 * an unknown resource or device; -E2BIG; -ENOMEM. */
int64_t lull_job_graph_add_resource(struct lull_job_graph *graph,
                                    const struct lull_job_resource *resource);
int64_t lull_job_graph_add(struct lull_job_graph *graph, const struct lull_job_task *task);

/* Makes the task `to` wait for the task `from`. Errors: -EINVAL there is no such task; -E2BIG;
 * -ENOMEM. */
int lull_job_graph_connect(struct lull_job_graph *graph, uint32_t from, uint32_t to);

/* Errors: -EINVAL no tasks; -ELOOP tasks that wait for each other, one of them in the text;
 * -ENOMEM. After an error the graph is only good for fini. O(tasks + edges). */
int lull_job_graph_finish(struct lull_job_graph *graph, struct lull_error *err);

/* ---- schedule ----------------------------------------------------------------------------- */

/*
 * The list schedule for given durations (task_count of them, ns, as in task). begin_out: task_count
 * places, may be NULL. Returns the makespan, or -ENOMEM. O((tasks + edges) log tasks).
 */
int64_t lull_job_graph_schedule(const struct lull_job_graph *graph, const int64_t *duration_ns,
                                int64_t *begin_out);

/* The use of a device's time; on a device of one unit the three add up to the makespan. */
struct lull_job_usage {
    int64_t compute_ns;
    int64_t exposed_ns; /* it does not compute, but waits for a transfer under way */
    int64_t bubble_ns;  /* neither computation nor a transfer is under way */
};

/* usage_out: resource_count places, of which those of devices are filled in. O(n log n). -ENOMEM.
 */
int lull_job_graph_usage(const struct lull_job_graph *graph, const int64_t *duration_ns,
                         const int64_t *begin_ns, int64_t makespan_ns,
                         struct lull_job_usage *usage_out);

/* ---- an iteration with all GPUs at one clock ------------------------------------------------- */

/* The durations of the tasks at a clock, tempo as in lull_job_iterate. duration_out: task_count
 * places. */
void lull_job_graph_durations(const struct lull_job_graph *graph,
                              const struct lull_job_tempo *tempo, int64_t *duration_out);

struct lull_job_iteration {
    int64_t time_ns;
    double energy_j; /* of all GPUs */
    /* Parts of the time of an average device; they add up to 1. */
    double compute_ratio;
    double exposed_ratio; /* communication */
    double bubble_ratio;
};

/*
 * Resources 0 to devices - 1 (devices > 0) compute; each represents `gpus` (>
 * 0) identical GPUs. The graph is finished, and its durations are not all 0. tempo: one for each
 * kind of work of the graph's tasks. Computation takes the compute_ratio of its kind as long and
 * draws its compute_w; transfers take transfer_ratio of the first, a GPU draws transfer_w in
 * exposed communication and waiting_w in bubbles. -ENOMEM. As long as one schedule.
 */
int lull_job_iterate(const struct lull_job_graph *graph, uint32_t devices, uint64_t gpus,
                     const struct lull_job_tempo *tempo, struct lull_job_iteration *iteration_out);

#endif
