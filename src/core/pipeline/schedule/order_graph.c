/* Makes task graphs of orders. SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>

#include "base/array.h"
#include "core/pipeline/schedule/order.h"
#include "core/pipeline/schedule/order_action.h"

#define NOBODY UINT32_MAX

/* The operations of one stage and micro-batch, by their numbers within a copy. */
struct order_graph_cell {
    uint32_t forward;
    uint32_t gradient; /* operation that computes the input's: backward, input or overlap */
    uint32_t weight;   /* a weight gradient of its own */
    uint32_t recompute;
};

struct build {
    const struct lull_pipeline_order *order;
    const struct lull_pipeline_links *links;
    const struct lull_pipeline_replicas *replicas;
    struct lull_pipeline_fit *fit;
    struct lull_pipeline_graph *graph;
    struct lull_error *err;
    struct order_graph_cell *cells;
    uint32_t *device_of;       /* per stage */
    uint32_t *chunk_of;        /* per stage: which of its device's chunks it is */
    uint32_t *classes;         /* per action of a copy */
    uint32_t *known;           /* per stage and kind: the class found last, or NOBODY */
    uint32_t *end_of;          /* per device: the number of its last operation, plus 1 */
    struct lull_memory memory; /* of the tables above */
    uint32_t per_copy;         /* the operations of a copy of the pipeline without syncs */
};

static struct order_graph_cell *order_graph_cell_of(const struct build *build, uint32_t stage,
                                                    uint32_t microbatch)
{
    assert(stage < build->order->stages && microbatch < build->order->microbatches);
    return &build->cells[(size_t)stage * build->order->microbatches + microbatch];
}

/* ---- tables ---- */

/* Notes which operation does each part of a stage's micro-batch; the data edges follow from that.
 * */
static void order_graph_enter(struct build *build, const struct lull_pipeline_action *action,
                              uint32_t op)
{
    uint32_t stage;
    uint32_t microbatch;

    if (lull_pipeline_action_is_forward(action))
        order_graph_cell_of(build, action->stage, action->microbatch)->forward = op;
    if (lull_pipeline_action_backward(action, &stage, &microbatch))
        order_graph_cell_of(build, stage, microbatch)->gradient = op;
    if (action->kind == LULL_PIPELINE_WEIGHT)
        order_graph_cell_of(build, action->stage, action->microbatch)->weight = op;
    if (action->kind == LULL_PIPELINE_RECOMPUTE)
        order_graph_cell_of(build, action->stage, action->microbatch)->recompute = op;
}

static void number_chunks(struct build *build)
{
    uint32_t *const chunks = build->end_of; /* not in use yet */

    for (uint32_t d = 0; d < build->order->devices; d++)
        chunks[d] = 0;
    for (uint32_t s = 0; s < build->order->stages; s++)
        build->chunk_of[s] = chunks[build->device_of[s]]++;
}

/* Remembers the class found last for a stage and kind, because looking it up for each of thousands
 * of operations would take quadratic time. */
static int order_graph_class_of(struct build *build, const struct lull_pipeline_action *action)
{
    uint32_t *const known =
        &build->known[(size_t)action->stage * LULL_PIPELINE_KINDS + action->kind];
    int found;

    if (*known != NOBODY && build->fit->fitted->classes[*known].partner == action->partner_stage)
        return (int)*known;
    found = lull_pipeline_fit_class(build->fit, action->stage, action->kind, action->partner_stage,
                                    build->err);
    if (found >= 0)
        *known = (uint32_t)found;
    return found;
}

/* Finds the classes of all operations of a copy, device by device. */
static int find_classes(struct build *build)
{
    const struct lull_pipeline_order *order = build->order;
    uint32_t op = 0;

    for (size_t i = 0; i < (size_t)order->stages * LULL_PIPELINE_KINDS; i++)
        build->known[i] = NOBODY;
    for (uint32_t d = 0; d < order->devices; d++) {
        for (size_t i = 0; i < order->rows[d].count; i++, op++) {
            const int found = order_graph_class_of(build, &order->rows[d].actions[i]);

            if (found < 0)
                return found;
            build->classes[op] = (uint32_t)found;
        }
    }
    return 0;
}

/* Finds the classes of a copy from its own profile, or from the first copy's where it has none. */
static int find_classes_of_copy(struct build *build, uint32_t copy)
{
    const struct lull_pipeline_replicas *replicas = build->replicas;
    struct lull_pipeline_fit own = *build->fit;
    struct lull_pipeline_fit *const common = build->fit;
    int rc;

    if (replicas->measured == NULL)
        return 0; /* The first copy's serve all. */
    if (replicas->measured[copy] != NULL) {
        own.measured = replicas->measured[copy];
        own.copy = copy;
    }
    build->fit = &own;
    rc = find_classes(build);
    build->fit = common;
    return rc;
}

/* Numbers all operations of a copy, device by device, and finds their classes. */
static int fill_tables(struct build *build)
{
    const struct lull_pipeline_order *order = build->order;
    uint32_t op = 0;

    for (size_t i = 0; i < (size_t)order->stages * order->microbatches; i++)
        build->cells[i] = (struct order_graph_cell){NOBODY, NOBODY, NOBODY, NOBODY};
    for (uint32_t d = 0; d < order->devices; d++)
        for (size_t i = 0; i < order->rows[d].count; i++)
            build->device_of[order->rows[d].actions[i].stage] = d;
    number_chunks(build);
    for (uint32_t d = 0; d < order->devices; d++) {
        for (size_t i = 0; i < order->rows[d].count; i++, op++)
            order_graph_enter(build, &order->rows[d].actions[i], op);
        build->end_of[d] = op;
    }
    return find_classes(build);
}

/* ---- operations and edges ---- */

static int order_graph_out_of_memory(const struct build *build, int code)
{
    return lull_error_set(build->err, code, "no room for a graph of %zu operations",
                          (size_t)build->per_copy * build->replicas->count);
}

/* Every copy has operations of its own in the same order, so that its numbers are those of the
 * first copy plus a constant. */
static int order_graph_add_copy(struct build *build, uint32_t copy)
{
    const struct lull_pipeline_order *order = build->order;
    uint32_t number = 0;

    for (uint32_t d = 0; d < order->devices; d++) {
        for (size_t i = 0; i < order->rows[d].count; i++, number++) {
            const struct lull_pipeline_action *action = &order->rows[d].actions[i];
            const struct lull_pipeline_op op = {
                .device = copy * order->devices + d,
                .class_index = build->classes[number],
                .microbatch = action->microbatch,
                .chunk = build->chunk_of[action->stage],
            };
            const int64_t rc = lull_pipeline_graph_add(build->graph, &op);

            if (rc < 0)
                return order_graph_out_of_memory(build, (int)rc);
        }
    }
    return 0;
}

/* Makes `to` wait for `from`. Within a device the order already implies this. If
 * the order contradicts it, the edge makes a cycle, which the graph reports. */
static int order_graph_depend(struct build *build, uint32_t copy, uint32_t from, uint32_t to,
                              int64_t latency_ns, bool is_same_device)
{
    const uint32_t first = copy * build->per_copy;
    int rc;

    if (from == NOBODY || to == NOBODY || (is_same_device && from < to))
        return 0;
    rc = lull_pipeline_graph_connect(build->graph, first + from, first + to, latency_ns);
    if (rc == -EINVAL)
        return lull_error_set(build->err, rc, "a transfer of %.9g s: between 0 and 100 s only",
                              (double)latency_ns * 1e-9);
    if (rc < 0)
        return order_graph_out_of_memory(build, rc);
    return 0;
}

static int64_t latency_after(const struct build *build, uint32_t stage)
{
    const struct lull_pipeline_links *links = build->links;

    if (links->count == 0 || build->device_of[stage] == build->device_of[stage + 1])
        return 0;
    return links->latency_ns[links->count == 1 ? 0 : stage];
}

/* Connects what a stage and the next one do for one micro-batch. */
static int connect_stages(struct build *build, uint32_t copy, uint32_t stage, uint32_t microbatch)
{
    const struct order_graph_cell *here = order_graph_cell_of(build, stage, microbatch);
    const struct order_graph_cell *next = order_graph_cell_of(build, stage + 1, microbatch);
    const bool is_same = build->device_of[stage] == build->device_of[stage + 1];
    const int64_t latency_ns = latency_after(build, stage);
    const int rc =
        order_graph_depend(build, copy, here->forward, next->forward, latency_ns, is_same);

    if (rc < 0)
        return rc;
    return order_graph_depend(build, copy, next->gradient, here->gradient, latency_ns, is_same);
}

/* Within a stage a gradient waits for the forward, a weight gradient for the input's, and a
 * recomputation lies between forward and gradient. */
static int connect_cell(struct build *build, uint32_t copy, uint32_t stage, uint32_t microbatch)
{
    const struct order_graph_cell *cell = order_graph_cell_of(build, stage, microbatch);
    const uint32_t pairs[][2] = {{cell->forward, cell->gradient},
                                 {cell->gradient, cell->weight},
                                 {cell->forward, cell->recompute},
                                 {cell->recompute, cell->gradient}};

    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        const int rc = order_graph_depend(build, copy, pairs[i][0], pairs[i][1], 0, true);

        if (rc < 0)
            return rc;
    }
    if (stage + 1 == build->order->stages)
        return 0;
    return connect_stages(build, copy, stage, microbatch);
}

static int connect_copy(struct build *build, uint32_t copy)
{
    for (uint32_t s = 0; s < build->order->stages; s++) {
        for (uint32_t m = 0; m < build->order->microbatches; m++) {
            const int rc = connect_cell(build, copy, s, m);

            if (rc < 0)
                return rc;
        }
    }
    return 0;
}

/* The place of a device in the tables of syncs. */
static size_t sync_place(const struct lull_pipeline_replicas *replicas, uint32_t device)
{
    return replicas->sync_count == 1 ? 0 : device;
}

static int64_t sync_ns(const struct lull_pipeline_replicas *replicas, uint32_t device)
{
    if (replicas->sync_count == 0)
        return 0;
    return replicas->sync_ns[sync_place(replicas, device)];
}

/* A device's sync waits for that device of every copy. */
static int add_sync(struct build *build, uint32_t copy, uint32_t device)
{
    const struct lull_pipeline_replicas *replicas = build->replicas;
    struct lull_pipeline_op op = {.device = copy * build->order->devices + device};
    int64_t energy_nj = 0;
    int64_t added;
    int class_index;

    assert(build->end_of[device] > 0);
    if (replicas->sync_energy_nj != NULL)
        energy_nj = replicas->sync_energy_nj[sync_place(replicas, device)];
    class_index = lull_pipeline_fit_fixed(build->fit, device, sync_ns(replicas, device), energy_nj,
                                          build->err);
    if (class_index < 0)
        return class_index;
    op.class_index = (uint32_t)class_index;
    added = lull_pipeline_graph_add(build->graph, &op);
    if (added < 0)
        return order_graph_out_of_memory(build, (int)added);
    for (uint32_t other = 0; other < replicas->count; other++) {
        const uint32_t last = other * build->per_copy + build->end_of[device] - 1;
        int rc;

        if (other == copy)
            continue;
        rc = lull_pipeline_graph_connect(build->graph, last, (uint32_t)added, 0);
        if (rc < 0)
            return order_graph_out_of_memory(build, rc);
    }
    return 0;
}

/* A sync is the last operation of its device, hence added after all others. */
static int add_syncs(struct build *build)
{
    for (uint32_t copy = 0; copy < build->replicas->count; copy++) {
        for (uint32_t d = 0; d < build->order->devices; d++) {
            int rc;

            if (build->order->rows[d].count == 0 || sync_ns(build->replicas, d) == 0)
                continue;
            rc = add_sync(build, copy, d);
            if (rc < 0)
                return rc;
        }
    }
    return 0;
}

/* All copies' operations come before any edge, since a sync connects copies. */
static int order_graph_fill(struct build *build)
{
    int rc = fill_tables(build);

    if (rc < 0)
        return rc;
    for (uint32_t copy = 0; copy < build->replicas->count; copy++) {
        rc = find_classes_of_copy(build, copy);
        if (rc < 0)
            return rc;
        rc = order_graph_add_copy(build, copy);
        if (rc < 0)
            return rc;
    }
    for (uint32_t copy = 0; copy < build->replicas->count; copy++) {
        rc = connect_copy(build, copy);
        if (rc < 0)
            return rc;
    }
    rc = add_syncs(build);
    if (rc < 0)
        return rc;
    return lull_pipeline_graph_finish(build->graph, build->fit->fitted, build->err);
}

/* ---- building ---- */

static int check_replicas(const struct build *build)
{
    const struct lull_pipeline_replicas *replicas = build->replicas;

    if (replicas->sync_count > 1 && replicas->sync_count != build->order->devices)
        return lull_error_set(build->err, -EINVAL,
                              "%zu syncs of %u devices: give one for all, or %u",
                              replicas->sync_count, build->order->devices, build->order->devices);
    for (size_t i = 0; i < replicas->sync_count; i++)
        if (replicas->sync_ns[i] < 0)
            return lull_error_set(build->err, -EINVAL, "a sync of %.9g s: no negative time",
                                  (double)replicas->sync_ns[i] * 1e-9);
    if (replicas->count == 0 ||
        (uint64_t)replicas->count * build->per_copy > LULL_PIPELINE_MAX_ACTIONS)
        return lull_error_set(
            build->err, -EINVAL,
            "%u copies of %u operations: at least one copy, at most %d operations", replicas->count,
            build->per_copy, LULL_PIPELINE_MAX_ACTIONS);
    return 0;
}

static int check_surroundings(const struct build *build)
{
    const size_t links = build->links->count;

    if (links > 1 && links != (size_t)build->order->stages - 1)
        return lull_error_set(build->err, -EINVAL,
                              "%zu latencies between %u stages: give one for all, or %u", links,
                              build->order->stages, build->order->stages - 1);
    return check_replicas(build);
}

static int order_graph_allocate(struct build *build)
{
    const struct lull_pipeline_order *order = build->order;
    struct lull_memory *const memory = &build->memory;
    const size_t stages = order->stages;

    build->cells = lull_memory_take(memory, stages * order->microbatches, sizeof(*build->cells));
    build->device_of = lull_memory_take(memory, stages, sizeof(*build->device_of));
    build->chunk_of = lull_memory_take(memory, stages, sizeof(*build->chunk_of));
    build->classes = lull_memory_take(memory, build->per_copy, sizeof(*build->classes));
    build->known = lull_memory_take(memory, stages * LULL_PIPELINE_KINDS, sizeof(*build->known));
    build->end_of = lull_memory_take(memory, order->devices, sizeof(*build->end_of));
    return memory->has_failed ? order_graph_out_of_memory(build, -ENOMEM) : 0;
}

/* The order is checked first, because the tables below are indexed by its numbers without another
 * check. */
int lull_pipeline_order_build(const struct lull_pipeline_order *order,
                              const struct lull_pipeline_links *links,
                              const struct lull_pipeline_replicas *replicas,
                              struct lull_pipeline_fit *fit, struct lull_pipeline_graph *graph_out,
                              struct lull_error *err)
{
    struct lull_pipeline_graph graph;
    struct build build = {.order = order,
                          .links = links,
                          .replicas = replicas,
                          .fit = fit,
                          .graph = &graph,
                          .err = err};
    int rc = lull_pipeline_order_check(order, NULL, err);

    if (rc < 0)
        return rc;
    fit->stages = order->stages;
    build.per_copy = (uint32_t)lull_pipeline_order_actions(order);
    rc = check_surroundings(&build);
    if (rc < 0)
        return rc;
    lull_pipeline_graph_init(&graph);
    rc = order_graph_allocate(&build);
    if (rc >= 0)
        rc = order_graph_fill(&build);
    lull_memory_free(&build.memory);
    if (rc < 0) {
        lull_pipeline_graph_fini(&graph);
        return rc;
    }
    *graph_out = graph;
    return 0;
}
