/*
 * Task graph of one pipeline iteration: operations on devices, in the order in which each device
 * runs them, and the data that they wait for. Nothing that works on a graph knows a schedule.
 *
 * An operation belongs to a class of the profile (profile.h) and runs on one device (a stage's GPUs
 * together). Its *order* on the device is an edge of latency 0 like any other; a data edge may
 * have a latency, the transfer's.
 *
 * Built once, then read: init, add operations and edges, finish. Pure. Threads: any for a finished
 * graph. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_PIPELINE_MODEL_GRAPH_H
#define LULL_CORE_PIPELINE_MODEL_GRAPH_H

#include <stddef.h>
#include <stdint.h>

#include "base/array.h"
#include "base/error.h"
#include "core/pipeline/model/profile.h"

/* Bounds of a graph's operations, devices and edges, which keep sums of times within int64_t. */
enum {
    LULL_PIPELINE_MAX_OPS = 1 << 24,
    LULL_PIPELINE_MAX_DEVICES = 1 << 16,
    LULL_PIPELINE_MAX_EDGES = 1 << 26
};

struct lull_pipeline_op {
    uint32_t device;
    uint32_t class_index; /* into the profile's classes */
    uint32_t microbatch;  /* for pictures and plan files */
    uint32_t chunk;       /* which of the device's model chunks it is of; also for these */
};

struct lull_pipeline_edge {
    uint32_t from; /* operations */
    uint32_t to;
    int64_t latency_ns; /* >= 0, between the end of from and the start of to */
};

struct lull_pipeline_graph {
    struct lull_pipeline_op *ops;
    size_t op_count;
    struct lull_pipeline_edge *edges; /* finished: in topological order of `from` */
    size_t edge_count;
    uint32_t device_count; /* the largest device + 1 */

    /* The rest is there once the graph is finished. */
    struct lull_memory memory; /* of the arrays below */
    uint32_t *topological;     /* operations, each after all that it waits for */
    uint32_t *first_in;  /* op_count + 1: edges into op i are in_edges[first_in[i]..[i + 1]] */
    uint32_t *in_edges;  /* indices into edges */
    uint32_t *first_out; /* the same for edges out of op i */
    uint32_t *out_edges;
    uint32_t *first_on;  /* device_count + 1: device d's operations, in its order, are */
    uint32_t *on_device; /* on_device[first_on[d]..first_on[d + 1]] */
};

void lull_pipeline_graph_init(struct lull_pipeline_graph *graph);
void lull_pipeline_graph_fini(struct lull_pipeline_graph *graph);

/*
 * Adds an operation and returns its index. The operations of a device are added in its order;
 * finish adds the edge from the one before. Errors: -E2BIG there are too many operations, or the
 * device is LULL_PIPELINE_MAX_DEVICES or more; -ENOMEM.
 */
int64_t lull_pipeline_graph_add(struct lull_pipeline_graph *graph,
                                const struct lull_pipeline_op *op);

/* Errors: -EINVAL no such operation, a negative latency or one above LULL_PIPELINE_MAX_TIME_NS;
 * -E2BIG too many edges; -ENOMEM. An edge from an operation to itself is a cycle, found by finish.
 */
int lull_pipeline_graph_connect(struct lull_pipeline_graph *graph, uint32_t from, uint32_t to,
                                int64_t latency_ns);

/*
 * Adds the order edges, drops edges that repeat one of at least their latency, sorts, and finds a
 * topological order. Errors: -ELOOP, the text names a cycle by its operations (device,
 * kind, microbatch); -EINVAL no operations at all, or a class that the profile lacks; -E2BIG too
 * many edges; -ENOMEM. After an error the graph is only good for fini. O(n log n).
 */
int lull_pipeline_graph_finish(struct lull_pipeline_graph *graph,
                               const struct lull_pipeline_profile *profile, struct lull_error *err);

/*
 * Finds when each operation begins at the earliest, for given durations (op_count of them, ns), and
 * returns the makespan, the longest path. begin_out may be null; the function then allocates
 * memory, and returns -ENOMEM where there is none. O(n).
 */
int64_t lull_pipeline_earliest(const struct lull_pipeline_graph *graph, const int64_t *duration_ns,
                               int64_t *begin_out);

#endif
