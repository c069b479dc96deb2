/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/trace/chakra_build.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "trace/array.h"
#include "trace/string_set.h"

static int chakra_build_out_of_memory(const struct lull_chakra_building *building)
{
    return lull_error_set(building->err, -ENOMEM, "%s: not enough memory for its graph",
                          building->name);
}

static int chakra_build_refuse(const struct lull_chakra_building *building, const char *what)
{
    return lull_error_set(building->err, LULL_E_FORMAT, "%s: %s", building->name, what);
}

void lull_chakra_node_init(struct lull_chakra_node *node)
{
    *node = (struct lull_chakra_node){
        .name = UINT32_MAX,
        .group = UINT32_MAX,
        .collective = LULL_CHAKRA_UNTOLD,
        .size_bytes = -1,
        .tensor_bytes = -1,
        .operations = -1,
        .source = -1,
        .target = -1,
        .tag = -1,
    };
}

/* ---- nodes in the order of the file ------------------------------------------------------- */

int lull_chakra_want(struct lull_chakra_building *building, uint64_t id, bool is_control)
{
    if (is_control) {
        building->graph->control_count++;
        return 0;
    }
    if (building->wanted_count == LULL_CHAKRA_MAX_DEPENDENCIES)
        return chakra_build_refuse(building, "there are more than 268 million dependencies");
    return lull_trace_append(&building->wanted, &building->wanted_count, &id, sizeof(id),
                             building->name, building->err);
}

int lull_chakra_add_name(struct lull_chakra_building *building, const char *bytes, size_t length,
                         uint32_t *name_out)
{
    char text[LULL_STRING_SET_BYTES + 1];
    const size_t kept = length < sizeof(text) - 1 ? length : sizeof(text) - 1;

    memcpy(text, bytes, kept);
    text[kept] = '\0';
    return lull_string_set_add(building->graph->names, text, name_out, building->name,
                               building->err);
}

int lull_chakra_add(struct lull_chakra_building *building, struct lull_chakra_node *node)
{
    struct lull_chakra_graph *const graph = building->graph;

    if (graph->count == LULL_CHAKRA_MAX_NODES)
        return chakra_build_refuse(building, "there are more than 16 million nodes");
    node->first_dependency = 0;
    if (graph->count > 0) {
        const struct lull_chakra_node *const last = &graph->nodes[graph->count - 1];

        node->first_dependency = last->first_dependency + last->dependency_count;
    }
    node->dependency_count = (uint32_t)(building->wanted_count - node->first_dependency);
    return lull_trace_append(&graph->nodes, &graph->count, node, sizeof(*node), building->name,
                             building->err);
}

/* ---- which nodes the ids mean ------------------------------------------------------------ */

struct id_place {
    uint64_t id;
    uint32_t at;
};

static int chakra_build_compare(const void *left, const void *right)
{
    const struct id_place *a = left;
    const struct id_place *b = right;

    return (a->id > b->id) - (a->id < b->id);
}

/* Ids are the trace's own and need not be consecutive; sorted, each dependency is found in log n
 * steps. */
static int sort_ids(const struct lull_chakra_building *building, struct id_place *places)
{
    const struct lull_chakra_graph *graph = building->graph;

    for (size_t i = 0; i < graph->count; i++)
        places[i] = (struct id_place){graph->nodes[i].id, (uint32_t)i};
    qsort(places, graph->count, sizeof(*places), chakra_build_compare);
    for (size_t i = 1; i < graph->count; i++)
        if (places[i].id == places[i - 1].id)
            return lull_error_set(building->err, LULL_E_FORMAT,
                                  "%s: two nodes have the id %" PRIu64, building->name,
                                  places[i].id);
    return 0;
}

/* A dependency on a node that is not in the trace is left out and counted: traces are often cut at
 * an iteration's border. */
static void chakra_build_resolve(struct lull_chakra_building *building,
                                 const struct id_place *places)
{
    struct lull_chakra_graph *const graph = building->graph;
    size_t kept = 0;

    for (size_t i = 0; i < graph->count; i++) {
        struct lull_chakra_node *const node = &graph->nodes[i];
        const size_t first = node->first_dependency;

        node->first_dependency = kept;
        for (size_t k = first; k < first + node->dependency_count; k++) {
            const struct id_place wanted = {building->wanted[k], 0};
            const struct id_place *found =
                bsearch(&wanted, places, graph->count, sizeof(*places), chakra_build_compare);

            if (found != NULL)
                graph->dependencies[kept++] = found->at;
        }
        node->dependency_count = (uint32_t)(kept - node->first_dependency);
    }
    graph->dependency_count = kept;
    graph->missing = building->wanted_count - kept;
}

/* ---- an order ----------------------------------------------------------------------------- */

/* Nodes that depend on each node: those of node i are all[begin[i]] up to all[begin[i + 1]]. */
struct trackers {
    size_t *begin;
    uint32_t *all;
    uint32_t *waits; /* dependencies that a node still waits for */
};

/* Counts first and then fills, so that one array holds the lists of all nodes. */
static void list_trackers(const struct lull_chakra_graph *graph, struct trackers *trackers)
{
    for (size_t i = 0; i < graph->dependency_count; i++)
        trackers->begin[graph->dependencies[i] + 2]++;
    for (size_t i = 2; i < graph->count + 2; i++)
        trackers->begin[i] += trackers->begin[i - 1];
    for (size_t i = 0; i < graph->count; i++) {
        const struct lull_chakra_node *node = &graph->nodes[i];

        trackers->waits[i] = node->dependency_count;
        for (uint32_t k = 0; k < node->dependency_count; k++) {
            const uint32_t ahead = graph->dependencies[node->first_dependency + k];

            trackers->all[trackers->begin[ahead + 1]++] = (uint32_t)i;
        }
    }
}

/* Orders the nodes and returns how many could be: fewer than there are if some wait in a circle. */
static size_t chakra_build_walk(struct lull_chakra_graph *graph, struct trackers *trackers)
{
    size_t count = 0;

    for (size_t i = 0; i < graph->count; i++)
        if (trackers->waits[i] == 0)
            graph->order[count++] = (uint32_t)i;
    for (size_t i = 0; i < count; i++) {
        const uint32_t node = graph->order[i];

        for (size_t k = trackers->begin[node]; k < trackers->begin[node + 1]; k++)
            if (--trackers->waits[trackers->all[k]] == 0)
                graph->order[count++] = trackers->all[k];
    }
    return count;
}

/* Names any remaining node: all of them wait for the cycle, or lie on it. */
static int refuse_circle(const struct lull_chakra_building *building,
                         const struct trackers *trackers)
{
    size_t node = 0;

    while (trackers->waits[node] == 0)
        node++;
    return lull_error_set(building->err, LULL_E_FORMAT,
                          "%s: node %" PRIu64 " (%.60s) waits for a circle of dependencies",
                          building->name, building->graph->nodes[node].id,
                          lull_chakra_name(building->graph, building->graph->nodes[node].name));
}

static int find_order(struct lull_chakra_building *building)
{
    struct lull_chakra_graph *const graph = building->graph;
    struct lull_memory memory = {0};
    struct trackers trackers = {
        .begin = lull_memory_take(&memory, graph->count + 2, sizeof(*trackers.begin)),
        .all = lull_memory_take(&memory, graph->dependency_count, sizeof(*trackers.all)),
        .waits = lull_memory_take(&memory, graph->count, sizeof(*trackers.waits)),
    };
    int rc = 0;

    graph->order = calloc(graph->count, sizeof(*graph->order));
    if (memory.has_failed || graph->order == NULL) {
        rc = chakra_build_out_of_memory(building);
    } else {
        list_trackers(graph, &trackers);
        if (chakra_build_walk(graph, &trackers) < graph->count)
            rc = refuse_circle(building, &trackers);
    }
    lull_memory_free(&memory);
    return rc;
}

int lull_chakra_finish(struct lull_chakra_building *building)
{
    struct lull_chakra_graph *const graph = building->graph;
    struct id_place *places;
    int rc;

    if (graph->count == 0)
        return chakra_build_refuse(building, "the trace has no nodes");
    places = calloc(graph->count, sizeof(*places));
    graph->dependencies = calloc(building->wanted_count + 1, sizeof(*graph->dependencies));
    if (places == NULL || graph->dependencies == NULL)
        rc = chakra_build_out_of_memory(building);
    else
        rc = sort_ids(building, places);
    if (rc >= 0)
        chakra_build_resolve(building, places);
    free(places);
    return rc < 0 ? rc : find_order(building);
}

/* ---- the graph ---------------------------------------------------------------------------- */

void lull_chakra_fini(struct lull_chakra_graph *graph)
{
    free(graph->nodes);
    free(graph->dependencies);
    free(graph->order);
    lull_string_set_destroy(graph->names);
    *graph = (struct lull_chakra_graph){0};
}

const char *lull_chakra_name(const struct lull_chakra_graph *graph, uint32_t name)
{
    return name == UINT32_MAX ? "" : lull_string_set_get(graph->names, name);
}

bool lull_chakra_communicates(const struct lull_chakra_node *node)
{
    return !node->is_host && node->kind >= LULL_CHAKRA_SEND;
}
