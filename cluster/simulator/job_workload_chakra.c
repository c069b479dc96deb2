/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/simulator/job_workload_graph.h"

/* Resources; links follow. */
enum { GPU, HOST, COPIES, MARKS, LINKS };

/* A link is used in both directions at once, so that sends and receives do not wait for each other.
 */
enum job_workload_chakra_direction { TOGETHER, OUT, IN };

enum { MAX_LINKS = 4096 };

struct chakra_link {
    uint32_t group;
    enum job_workload_chakra_direction direction;
    int64_t last; /* the last node launched on it; -1: none */
};

struct chakra_builder {
    const struct lull_chakra_graph *trace;
    const char *name;
    struct lull_job_graph graph; /* task i is node i */
    struct chakra_link *links;
    size_t link_count;
    struct lull_error *err;
};

static int chakra_job_refuse(const struct chakra_builder *builder, int rc)
{
    if (rc == -ENOMEM)
        return lull_error_set(builder->err, rc, "%s: no memory for its tasks", builder->name);
    return lull_error_set(builder->err, LULL_E_FORMAT,
                          "%s: more than %d nodes, or %d dependencies, are not scheduled",
                          builder->name, LULL_JOB_MAX_TASKS, LULL_JOB_MAX_EDGES);
}

static int chakra_job_connect(struct chakra_builder *builder, int64_t from, size_t to)
{
    const int rc =
        from < 0 ? 0 : lull_job_graph_connect(&builder->graph, (uint32_t)from, (uint32_t)to);

    return rc < 0 ? chakra_job_refuse(builder, rc) : 0;
}

/* ---- resources ---------------------------------------------------------------------------- */

static int add_resource(struct chakra_builder *builder, uint32_t units)
{
    const struct lull_job_resource resource = {units, LULL_JOB_BY_RANK};
    const int64_t index = lull_job_graph_add_resource(&builder->graph, &resource);

    return index < 0 ? chakra_job_refuse(builder, (int)index) : 0;
}

static enum job_workload_chakra_direction direction_of(const struct lull_chakra_node *node)
{
    if (node->kind == LULL_CHAKRA_SEND)
        return OUT;
    return node->kind == LULL_CHAKRA_RECEIVE ? IN : TOGETHER;
}

/* Finds the link of a communication; link_count: there is none yet. A search from end to end will
 * do, because process groups are few. */
static size_t find_link(const struct chakra_builder *builder, const struct lull_chakra_node *node)
{
    const enum job_workload_chakra_direction direction = direction_of(node);
    size_t i = 0;

    while (i < builder->link_count &&
           (builder->links[i].group != node->group || builder->links[i].direction != direction))
        i++;
    return i;
}

static int add_link(struct chakra_builder *builder, const struct lull_chakra_node *node)
{
    struct chakra_link *links;

    if (find_link(builder, node) < builder->link_count)
        return 0;
    if (builder->link_count == MAX_LINKS)
        return lull_error_set(builder->err, LULL_E_FORMAT, "%s: more than %d process groups",
                              builder->name, MAX_LINKS);
    links = realloc(builder->links, (builder->link_count + 1) * sizeof(*links));
    if (links == NULL)
        return chakra_job_refuse(builder, -ENOMEM);
    builder->links = links;
    links[builder->link_count++] = (struct chakra_link){node->group, direction_of(node), -1};
    return add_resource(builder, 1);
}

static int add_resources(struct chakra_builder *builder)
{
    for (uint32_t i = 0; i < LINKS; i++) {
        const int rc = add_resource(builder, i == MARKS ? UINT32_MAX : 1);

        if (rc < 0)
            return rc;
    }
    for (size_t i = 0; i < builder->trace->count; i++) {
        int rc;

        if (!lull_chakra_communicates(&builder->trace->nodes[i]))
            continue;
        rc = add_link(builder, &builder->trace->nodes[i]);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* ---- tasks -------------------------------------------------------------------------------- */

static bool is_copy(const struct chakra_builder *builder, const struct lull_chakra_node *node)
{
    static const char called[] = "Memcpy";

    return node->kind == LULL_CHAKRA_LOAD || node->kind == LULL_CHAKRA_STORE ||
           strncmp(lull_chakra_name(builder->trace, node->name), called, strlen(called)) == 0;
}

static struct lull_job_task task_of(const struct chakra_builder *builder,
                                    const struct lull_chakra_node *node)
{
    if (node->kind == LULL_CHAKRA_INVALID || node->kind == LULL_CHAKRA_METADATA)
        return (struct lull_job_task){LULL_JOB_HOST, MARKS, MARKS, 0, 0};
    if (node->is_host)
        return (struct lull_job_task){LULL_JOB_HOST, HOST, HOST, node->duration_ns, 0};
    if (lull_chakra_communicates(node))
        return (struct lull_job_task){LULL_JOB_TRANSFER, LINKS + (uint32_t)find_link(builder, node),
                                      GPU, node->duration_ns, 0};
    if (is_copy(builder, node))
        return (struct lull_job_task){LULL_JOB_HOST, COPIES, COPIES, node->duration_ns, 0};
    return (struct lull_job_task){LULL_JOB_COMPUTE, GPU, GPU, node->duration_ns, 0};
}

static int chakra_job_add_task(struct chakra_builder *builder, const struct lull_chakra_node *node)
{
    const struct lull_job_task task = task_of(builder, node);
    const int64_t index = lull_job_graph_add(&builder->graph, &task);

    if (index == -EINVAL)
        return lull_error_set(builder->err, LULL_E_FORMAT, "%s: node %" PRIu64 " takes over 1000 s",
                              builder->name, node->id);
    return index < 0 ? chakra_job_refuse(builder, (int)index) : 0;
}

static int add_tasks(struct chakra_builder *builder)
{
    const struct lull_chakra_graph *trace = builder->trace;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < trace->count; i++)
        rc = chakra_job_add_task(builder, &trace->nodes[i]);
    for (size_t i = 0; rc == 0 && i < trace->count; i++)
        for (uint32_t k = 0; rc == 0 && k < trace->nodes[i].dependency_count; k++)
            rc = chakra_job_connect(builder,
                                    trace->dependencies[trace->nodes[i].first_dependency + k], i);
    return rc;
}

static int check_computes(const struct chakra_builder *builder)
{
    for (size_t i = 0; i < builder->graph.task_count; i++)
        if (builder->graph.tasks[i].kind == LULL_JOB_COMPUTE && builder->graph.tasks[i].time_ns > 0)
            return 0;
    return lull_error_set(builder->err, LULL_E_FORMAT,
                          "%s: no computation on a GPU that takes time; a trace of the host alone, "
                          "or one that was not timed, contains no information on clocks",
                          builder->name);
}

/* ---- streams ------------------------------------------------------------------------------ */

static bool is_on_gpu(const struct lull_chakra_node *node)
{
    return !node->is_host && node->kind >= LULL_CHAKRA_LOAD;
}

/* Returns whether the trace itself has dependencies between operations on the GPU. */
static bool has_device_order(const struct lull_chakra_graph *trace)
{
    for (size_t i = 0; i < trace->count; i++)
        for (uint32_t k = 0; is_on_gpu(&trace->nodes[i]) && k < trace->nodes[i].dependency_count;
             k++)
            if (is_on_gpu(&trace->nodes[trace->dependencies[trace->nodes[i].first_dependency + k]]))
                return true;
    return false;
}

/* Converters write nodes as they were launched; if a node precedes one that it waits for, the
 * file is not in that order, and any order that keeps dependencies is used. */
static bool is_file_order(const struct lull_chakra_graph *trace)
{
    for (size_t i = 0; i < trace->count; i++)
        for (uint32_t k = 0; k < trace->nodes[i].dependency_count; k++)
            if (trace->dependencies[trace->nodes[i].first_dependency + k] > i)
                return false;
    return true;
}

/* The number of nodes of an order up to and including the last communication. */
static size_t count_to_last_communication(const struct lull_chakra_graph *trace,
                                          const uint32_t *order)
{
    size_t count = trace->count;

    while (count > 0 &&
           !lull_chakra_communicates(&trace->nodes[order != NULL ? order[count - 1] : count - 1]))
        count--;
    return count;
}

/* A communication waits for what its link did before, and for the kernels so far. */
static int launch_communication(struct chakra_builder *builder, size_t node, int64_t last_kernel)
{
    struct chakra_link *link = &builder->links[find_link(builder, &builder->trace->nodes[node])];
    const int rc = chakra_job_connect(builder, last_kernel, node);
    const int64_t before = link->last;

    if (rc < 0)
        return rc;
    link->last = (int64_t)node;
    return chakra_job_connect(builder, before, node);
}

static int wait_for_links(struct chakra_builder *builder, size_t node)
{
    for (size_t i = 0; i < builder->link_count; i++) {
        const int rc = chakra_job_connect(builder, builder->links[i].last, node);

        if (rc < 0)
            return rc;
    }
    return 0;
}

static int order_streams(struct chakra_builder *builder)
{
    const struct lull_chakra_graph *trace = builder->trace;
    const uint32_t *order = is_file_order(trace) ? NULL : trace->order;
    const size_t until = count_to_last_communication(trace, order);
    bool has_waited = false;
    int64_t last_kernel = -1;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < trace->count; i++) {
        const size_t node = order != NULL ? order[i] : i;

        if (lull_chakra_communicates(&trace->nodes[node])) {
            rc = launch_communication(builder, node, last_kernel);
        } else if (is_on_gpu(&trace->nodes[node])) {
            rc = chakra_job_connect(builder, last_kernel, node);
            if (rc == 0 && i >= until && !has_waited)
                rc = wait_for_links(builder, node);
            has_waited |= i >= until;
            last_kernel = (int64_t)node;
        }
    }
    return rc;
}

/* ---- all of it ---------------------------------------------------------------------------- */

static int chakra_job_build(struct chakra_builder *builder)
{
    int rc = add_resources(builder);

    if (rc < 0)
        return rc;
    rc = add_tasks(builder);
    if (rc < 0)
        return rc;
    rc = check_computes(builder);
    if (rc < 0)
        return rc;
    rc = has_device_order(builder->trace) ? 0 : order_streams(builder);
    if (rc < 0)
        return rc;
    return lull_job_graph_finish(&builder->graph, builder->err);
}

int lull_job_chakra_build(const struct lull_chakra_graph *trace, const char *name,
                          struct lull_job_graph *graph_out, struct lull_error *err)
{
    struct chakra_builder builder = {.trace = trace, .name = name, .err = err};
    int rc;

    rc = chakra_job_build(&builder);
    free(builder.links);
    if (rc < 0)
        lull_job_graph_fini(&builder.graph);
    else
        *graph_out = builder.graph;
    return rc;
}
