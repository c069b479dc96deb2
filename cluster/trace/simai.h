/*
 * Workloads of SimAI and ASTRA-sim as text, from the view of one rank: the parallelism of the job,
 * then layer by layer the forward, the input gradient and the weight gradient, each with its
 * computing time, and then its collective with the number of bytes.
 *
 *   STRATEGY model_parallel_NPU_group: 8 ep: 1 pp: 1 vpp: 1 ga: 2 all_gpus: 64 ... pp_comm 4096
 *   3
 *   name -1 TIME KIND BYTES TIME KIND BYTES TIME KIND BYTES DELAY
 *
 * The format does not specify its unit of time; SimAI's own examples read as nanoseconds.
 *
 * Threads: a workload belongs to its caller. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_TRACE_SIMAI_H
#define LULL_CLUSTER_TRACE_SIMAI_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "cluster/trace/chakra.h"

enum { LULL_SIMAI_MAX_LAYERS = 1 << 20 };

enum lull_simai_part {
    LULL_SIMAI_FORWARD,
    LULL_SIMAI_INPUT_GRADIENT,
    LULL_SIMAI_WEIGHT_GRADIENT,
    LULL_SIMAI_PARTS,
};

struct lull_simai_work {
    int64_t compute_ns;                     /* >= 0 */
    enum lull_chakra_collective collective; /* LULL_CHAKRA_UNTOLD: none */
    uint32_t group;     /* a name, such as EP or DP_EP; UINT32_MAX: the part's typical one */
    int64_t size_bytes; /* >= 0 */
};

struct lull_simai_layer {
    uint32_t name; /* lull_simai_name */
    struct lull_simai_work parts[LULL_SIMAI_PARTS];
};

struct lull_simai_workload {
    int64_t tensor_parallel; /* 0: not reported, as with the six numbers after it */
    int64_t expert_parallel;
    int64_t pipeline_parallel;
    int64_t virtual_stages;
    int64_t micro_batches;
    int64_t gpus;
    int64_t pipeline_bytes; /* between stages */
    struct lull_simai_layer *layers;
    size_t count; /* > 0 */
    struct lull_string_set *names;
};

/*
 * Reads a file, plain or gzip ("-" is standard input). Errors, with file and line: LULL_E_FORMAT a
 * line of another form, a number out of its range, an unknown collective, a number of layers that
 * differs from the stated one; -ENOMEM; those of lull_lines_open. The workload is left empty then.
 */
int lull_simai_read(const char *path, struct lull_simai_workload *workload_out,
                    struct lull_error *err);
void lull_simai_fini(struct lull_simai_workload *workload);

/* The text of a name; "" for UINT32_MAX. Lives as long as the workload. */
const char *lull_simai_name(const struct lull_simai_workload *workload, uint32_t name);

#endif
