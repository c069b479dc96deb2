/*
 * Chakra execution traces (MLCommons; schema et_def.proto, package ChakraProtoMsg): the operations
 * of one rank, as a graph of dependent nodes. Two forms are read: a stream of protocol buffers,
 * each behind its length (name.<rank>.et), and JSON (workload_graph); plain or gzip, detected by
 * their first bytes. They are read node by node, so that a trace needs no more memory than its
 * graph.
 *
 * A node's data dependencies are the nodes that it waits for. In traces made from PyTorch's, its
 * control dependencies name its caller: they define no order and may have cycles. Chakra's own
 * feeder ignores them; here they are counted.
 *
 * Threads: a graph belongs to its caller. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_TRACE_CHAKRA_H
#define LULL_CLUSTER_TRACE_CHAKRA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum {
    LULL_CHAKRA_MAX_NODES = 1 << 24,
    LULL_CHAKRA_MAX_DEPENDENCIES = 1 << 28,
    LULL_CHAKRA_MAX_MESSAGE = 1 << 26, /* bytes of one node */
};

enum lull_chakra_kind { /* as numbered in the schema */
                        LULL_CHAKRA_INVALID,
                        LULL_CHAKRA_METADATA,
                        LULL_CHAKRA_LOAD, /* of memory */
                        LULL_CHAKRA_STORE,
                        LULL_CHAKRA_COMPUTE,
                        LULL_CHAKRA_SEND,
                        LULL_CHAKRA_RECEIVE,
                        LULL_CHAKRA_COLLECTIVE,
};

enum lull_chakra_collective { /* as numbered in the schema */
                              LULL_CHAKRA_ALL_REDUCE,
                              LULL_CHAKRA_REDUCE,
                              LULL_CHAKRA_ALL_GATHER,
                              LULL_CHAKRA_GATHER,
                              LULL_CHAKRA_SCATTER,
                              LULL_CHAKRA_BROADCAST,
                              LULL_CHAKRA_ALL_TO_ALL,
                              LULL_CHAKRA_REDUCE_SCATTER,
                              LULL_CHAKRA_REDUCE_SCATTER_BLOCK,
                              LULL_CHAKRA_BARRIER,
                              LULL_CHAKRA_COLLECTIVES,
                              LULL_CHAKRA_UNTOLD = LULL_CHAKRA_COLLECTIVES,
};

struct lull_chakra_node {
    uint64_t id;    /* of the trace */
    uint32_t name;  /* lull_chakra_name */
    uint32_t group; /* process group, a name; UINT32_MAX: not reported */
    enum lull_chakra_kind kind;
    bool is_host;        /* runs on the CPU: of communication only the launch */
    int64_t duration_ns; /* >= 0 */
    enum lull_chakra_collective collective;
    int64_t size_bytes;   /* that communication moves; -1: not reported */
    int64_t tensor_bytes; /* that computation touches; -1: not reported */
    int64_t operations;   /* that computation does; -1: not reported */
    int64_t source;       /* ranks of send and receive, and their tag; -1: not reported */
    int64_t target;
    int64_t tag;
    size_t first_dependency; /* of the graph's */
    uint32_t dependency_count;
};

struct lull_chakra_graph {
    struct lull_chakra_node *nodes; /* in the order of the file */
    size_t count;
    uint32_t *dependencies; /* nodes that must have ended, by place */
    size_t dependency_count;
    size_t control_count; /* control dependencies, which are not among them */
    size_t missing;       /* dependencies on nodes that are not in the trace, left out */
    uint32_t *order;      /* all nodes, each behind those that it depends on */
    struct lull_string_set *names;
};

/*
 * Reads a file ("-" is standard input). Errors, with the byte of the text, or the node:
 * LULL_E_FORMAT neither form, damaged, a number out of its range, an id that is there twice, nodes
 * that depend on each other in a circle, no nodes, more than the limits above; -ENOMEM; those of
 * lull_source_open. The graph is left empty then.
 */
int lull_chakra_read(const char *path, struct lull_chakra_graph *graph_out, struct lull_error *err);
void lull_chakra_fini(struct lull_chakra_graph *graph);

/* The text of a name; "" for UINT32_MAX. Lives as long as the graph. */
const char *lull_chakra_name(const struct lull_chakra_graph *graph, uint32_t name);

/* Returns whether a node is communication itself, not its launch. */
bool lull_chakra_communicates(const struct lull_chakra_node *node);

#endif
