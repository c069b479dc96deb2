/*
 * Private to job_workload*.c: what was recorded as a task graph. SPDX-License-Identifier:
 * Apache-2.0
 */
#ifndef LULL_CLUSTER_SIMULATOR_JOB_WORKLOAD_GRAPH_H
#define LULL_CLUSTER_SIMULATOR_JOB_WORKLOAD_GRAPH_H

#include "cluster/core/model/job_graph.h"
#include "cluster/simulator/job_classes.h"
#include "cluster/trace/chakra.h"
#include "cluster/trace/simai.h"

/* The finished graph, whose resource 0 is the GPU; written on success, then the caller's to fini.
 * name: of the file, for messages. Errors: LULL_E_FORMAT, -ENOMEM. */
int lull_job_chakra_build(const struct lull_chakra_graph *trace, const char *name,
                          struct lull_job_graph *graph_out, struct lull_error *err);

/* Checks for errors that do not depend on the number of GPUs. LULL_E_FORMAT. */
int lull_job_simai_check(const struct lull_simai_workload *workload, const char *name,
                         struct lull_error *err);

/* The same as above of a job of so many GPUs; resources 0 to *devices_out - 1 are GPUs. */
int lull_job_simai_build(const struct lull_simai_workload *workload, const char *name,
                         uint32_t gpus, const struct lull_job_links *links,
                         struct lull_job_graph *graph_out, uint32_t *devices_out,
                         struct lull_error *err);

#endif
