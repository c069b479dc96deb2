/*
 * Jobs whose iteration was recorded: the file of one rank becomes a task graph (job_graph.h), that
 * is scheduled at every clock of a type of GPU, and operating points of any job that runs it again
 * and again. Two forms are read, distinguished by how the file begins:
 *
 * A Chakra execution trace (chakra.h). Computation on the GPU follows the clock, one kernel at a
 * time. Communication, of each process group on a link of its own, which sends and receives in both
 * directions, keeps its recorded time until the clock can no longer feed the link; what of it was
 * waiting for other ranks is part of that time. Operations of the host, one at a time, and copies
 * of memory (loads and stores, and kernels called Memcpy) keep their time: the GPU waits meanwhile.
 * Nodes of other types take no time.
 *
 * PyTorch's traces link each operation on the GPU only to the host operation that launched it:
 * events between streams are missing. Where a trace has no dependency between two nodes on the GPU,
 * streams are assumed to behave as in c10d: kernels and copies run in the order of their launch,
 * communication behind the kernels launched before it (and behind what its group did before), and
 * what is launched behind the last communication (an optimizer) waits for all of it.
 *
 * A SimAI text (simai.h), in which the layers of all micro-batches are listed. One pass forward,
 * then backward: each layer's collective of its outputs and of its input's gradient holds the next
 * one up; that of its weights' gradient runs beside the computation. A collective of M bytes among
 * n GPUs takes (n - 1) (a + b M / n), an all-reduce twice that; within 8 GPUs that are neighbours
 * (tensor, then expert, then data parallel) over the node's link, else between nodes. With pipeline
 * stages, all like this one: micro-batches that are alike, 1F1B (interleaved with vpp > 1 where the
 * micro-batches divide by the stages), gradients behind the last backward (job_parallel.h). GPUs as
 * reported by all_gpus, else the job's.
 *
 * Threads: any for a workload that was read. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_SIMULATOR_JOB_WORKLOAD_H
#define LULL_CLUSTER_SIMULATOR_JOB_WORKLOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "cluster/core/model/job.h"
#include "cluster/simulator/job_classes.h"
#include "cluster/core/model/operating_points.h"

struct lull_job_workload; /* opaque */

/*
 * Reads a file, plain or gzip; not standard input, since it is opened twice. Errors, with the file
 * and the place in it: LULL_E_FORMAT neither form, damaged, no computation on a GPU that takes
 * time, a task of over 1000 s or all of over 3 years, more tasks or edges than job_graph.h takes;
 * -ENOMEM; those of lull_chakra_read and lull_simai_read.
 */
int lull_job_workload_read(const char *path, struct lull_job_workload **workload_out,
                           struct lull_error *err);
void lull_job_workload_destroy(struct lull_job_workload *workload);

/* "Chakra" or "SimAI". */
const char *lull_job_workload_form(const struct lull_job_workload *workload);

/* Returns whether the graph depends on the number of GPUs. */
bool lull_job_workload_needs_gpus(const struct lull_job_workload *workload);

/* The GPUs that a workload runs on. */
struct lull_job_setting {
    const struct lull_job_type *type;
    uint32_t job_class; /* whose kernels it computes with */
    enum lull_job_network network;
    uint32_t gpus;   /* of the job, > 0 */
    bool has_clocks; /* all of the type's; else the highest */
};

struct lull_job_recorded {
    int64_t step_ns; /* of an iteration at the highest clock, > 0 */
    /* Of one GPU, the average one of all stages. No lower clock is faster than the highest. All
     * communication that the GPU waits for counts as if it went to other nodes. */
    struct lull_job_points points;
    struct lull_job_points relaxed; /* for bounds */
};

/*
 * Schedules an iteration at the clocks of the setting: all of them up to 2^17 tasks or so, then
 * every so many. Errors: LULL_E_FORMAT stages or copies that do not fit the job's
 * GPUs, pipelines that job_parallel.h rejects; -ENOMEM.
 */
int lull_job_workload_make(const struct lull_job_workload *workload,
                           const struct lull_job_setting *setting,
                           struct lull_job_recorded *recorded_out, struct lull_error *err);

/*
 * The operating points, chosen or relaxed, of a job that runs for time_ns at the highest clock.
 * points_out: room for LULL_CLUSTER_MAX_POINTS. Returns how many.
 */
uint32_t lull_job_recorded_points(const struct lull_job_points *points, int64_t time_ns,
                                  uint32_t type, uint32_t gpus,
                                  struct lull_cluster_point *points_out);

#endif
