/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/plan_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "trace/plan_file_text.h"
#include "trace/plan_file_waits.h"
#include "trace/source.h"

struct resolver {
    const char *name;
    struct lull_error *err;
    const struct lull_plan_text *text;
    struct lull_plan_file *plan;
};

static int fail(const struct resolver *resolver, const char *what, size_t number)
{
    return lull_error_set(resolver->err, LULL_E_FORMAT, "%s: %s (number %zu)", resolver->name, what,
                          number);
}

static int no_memory(const struct resolver *resolver)
{
    return lull_error_set(resolver->err, -ENOMEM, "%s: no memory", resolver->name);
}

/* ---- resolving --------------------------------------------------------------------------- */

static int64_t find_option(const struct lull_pipeline_class *operations, int64_t sm_mhz)
{
    for (size_t i = 0; i < operations->point_count; i++)
        if (operations->points[i].sm_mhz == sm_mhz)
            return (int64_t)i;
    return -1;
}

static int resolve_operation(const struct resolver *resolver, size_t i)
{
    struct lull_plan_file *const plan = resolver->plan;
    const struct lull_plan_text_operation *const operation = &resolver->text->operations[i];
    const int class_index = lull_pipeline_profile_find_copy(
        &plan->profile, (uint32_t)operation->copy, (uint32_t)operation->stage, operation->kind,
        (uint32_t)operation->partner);
    struct lull_pipeline_op op = {operation->device, 0, (uint32_t)operation->microbatch,
                                  (uint32_t)operation->chunk};
    int64_t option;

    if (class_index < 0)
        return fail(resolver, "an operation of no class in \"classes\"", i);
    option = find_option(&plan->profile.classes[class_index], operation->sm_mhz);
    if (option < 0)
        return fail(resolver, "an operation at a clock that its class does not have", i);
    plan->option[i] = (uint32_t)option;
    op.class_index = (uint32_t)class_index;
    if (lull_pipeline_graph_add(&plan->graph, &op) < 0)
        return fail(resolver, "too many operations or devices", i);
    return 0;
}

static int resolve_operations(const struct resolver *resolver)
{
    const size_t count = resolver->text->operation_count;
    int result = 0;

    if (count == 0)
        return lull_error_set(resolver->err, LULL_E_FORMAT, "%s: a plan without operations",
                              resolver->name);
    resolver->plan->option = calloc(count, sizeof(*resolver->plan->option));
    if (resolver->plan->option == NULL)
        return no_memory(resolver);
    for (size_t i = 0; i < count && result == 0; i++)
        result = resolve_operation(resolver, i);
    return result;
}

static int resolve_edges(const struct resolver *resolver)
{
    const struct lull_plan_text *const text = resolver->text;
    const int64_t count = (int64_t)text->operation_count;
    struct lull_plan_file *const plan = resolver->plan;

    for (size_t i = 0; i < text->edge_count; i++) {
        const struct lull_plan_text_edge *const edge = &text->edges[i];

        if (edge->from >= count || edge->to >= count ||
            lull_pipeline_graph_connect(&plan->graph, (uint32_t)edge->from, (uint32_t)edge->to,
                                        edge->latency_ns) < 0)
            return fail(resolver, "an edge between operations that there are not", i);
    }
    return lull_pipeline_graph_finish(&plan->graph, &plan->profile, resolver->err);
}

/* The finished graph has its own order of edges, and one for every pair of operations. */
static void resolve_edge_flow(const struct resolver *resolver,
                              const struct lull_plan_text_edge *edge)
{
    const struct lull_pipeline_graph *const graph = &resolver->plan->graph;

    for (uint32_t k = graph->first_out[edge->from]; k < graph->first_out[edge->from + 1]; k++)
        if (graph->edges[graph->out_edges[k]].to == edge->to)
            resolver->plan->certificate.edge_flow[graph->out_edges[k]] = edge->flow;
}

static int resolve_flow(const struct resolver *resolver)
{
    const struct lull_plan_text *const text = resolver->text;
    struct lull_certificate *const certificate = &resolver->plan->certificate;

    if (lull_certificate_init(certificate, &resolver->plan->graph) < 0)
        return no_memory(resolver);
    if (!(text->flow_unit_w > 0.0))
        return lull_error_set(resolver->err, LULL_E_FORMAT, "%s: flow.unit_w must be positive",
                              resolver->name);
    certificate->unit_w = text->flow_unit_w;
    certificate->value = text->flow_value;
    for (size_t i = 0; i < text->operation_count; i++)
        certificate->op_flow[i] = text->operations[i].flow;
    for (size_t i = 0; i < text->edge_count; i++)
        resolve_edge_flow(resolver, &text->edges[i]);
    return 0;
}

/* ---- all together ------------------------------------------------------------------------ */

void lull_plan_file_fini(struct lull_plan_file *plan)
{
    lull_certificate_fini(&plan->certificate);
    lull_pipeline_graph_fini(&plan->graph);
    lull_pipeline_profile_fini(&plan->profile);
    free(plan->blocking_w);
    free(plan->option);
    free(plan->waiting_points);
    free(plan->waits);
}

static int resolve(const struct resolver *resolver)
{
    int result = resolve_operations(resolver);

    if (result == 0)
        result = resolve_edges(resolver);
    if (result == 0)
        result = lull_plan_waits_resolve(resolver->name, resolver->plan, resolver->err);
    if (result == 0)
        result = resolve_flow(resolver);
    return result;
}

static int read_from(const char *name, lull_json_fill fill, void *context,
                     struct lull_plan_file *plan_out, struct lull_error *err)
{
    struct lull_json *const json = lull_json_create(name, fill, context);
    struct lull_plan_text text;
    const struct resolver resolver = {name, err, &text, &text.plan};
    int result;

    if (json == NULL)
        return lull_error_set(err, -ENOMEM, "%s: no memory", name);
    result = lull_plan_text_read(json, name, &text, err);
    if (result == 0)
        result = resolve(&resolver);
    if (result == 0) {
        *plan_out = text.plan;
        text.plan = (struct lull_plan_file){0};
    }
    lull_plan_text_fini(&text);
    lull_json_destroy(json);
    return result;
}

static ssize_t fill_from_file(void *context, char *buffer, size_t size, struct lull_error *err)
{
    return lull_source_read(context, buffer, size, err);
}

int lull_plan_file_read(const char *path, struct lull_plan_file *plan_out, struct lull_error *err)
{
    struct lull_source *source;
    int result = lull_source_open(path, &source, err);

    if (result < 0)
        return result;
    result = read_from(path, fill_from_file, source, plan_out, err);
    lull_source_close(source);
    return result;
}

struct rest {
    const char *bytes;
    size_t size;
};

static ssize_t fill_from_memory(void *context, char *buffer, size_t size, struct lull_error *err)
{
    struct rest *const rest = context;
    const size_t count = size < rest->size ? size : rest->size;

    (void)err;
    memcpy(buffer, rest->bytes, count);
    rest->bytes += count;
    rest->size -= count;
    return (ssize_t)count;
}

int lull_plan_file_read_memory(const char *name, const char *text, size_t size,
                               struct lull_plan_file *plan_out, struct lull_error *err)
{
    struct rest rest = {text, size};

    return read_from(name, fill_from_memory, &rest, plan_out, err);
}
