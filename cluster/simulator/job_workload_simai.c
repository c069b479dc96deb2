/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "cluster/core/model/job_parallel.h"
#include "cluster/simulator/job_workload_graph.h"

/* Resources of one stage: layers wait for the tasks on OWN_LINK; only the end waits for the others.
 */
enum { GPU, OWN_LINK, GRADIENT_LINK, RESOURCES };

enum { NEIGHBOURS = 8 }; /* GPUs of a node */

/* The number of GPUs of a collective, and the distance between two of them. */
struct ranks {
    uint32_t count;
    uint32_t stride;
};

/* A workload of so many GPUs. */
struct layout {
    const struct lull_simai_workload *workload;
    const char *name;
    const struct lull_job_links *links;
    uint32_t tensor;
    uint32_t expert;
    uint32_t pipeline;
    uint32_t data;
    struct lull_error *err;
};

/* ---- checking ----------------------------------------------------------------------------- */

enum group { TENSOR, EXPERT, DATA, DATA_OF_EXPERTS, GROUPS };

static enum group simai_job_group_of(const struct lull_simai_workload *workload,
                                     const struct lull_simai_work *work, int part)
{
    static const char *const names[GROUPS] = {"TP", "EP", "DP", "DP_EP"};
    enum group group = TENSOR;

    if (work->group == UINT32_MAX)
        return part == LULL_SIMAI_WEIGHT_GRADIENT ? DATA : TENSOR;
    while (group < GROUPS && strcmp(lull_simai_name(workload, work->group), names[group]) != 0)
        group++;
    return group;
}

static int check_part(const struct lull_simai_workload *workload, size_t layer, int part,
                      const char *name, struct lull_error *err)
{
    const struct lull_simai_work *work = &workload->layers[layer].parts[part];

    if (work->compute_ns > LULL_JOB_MAX_TASK_NS)
        return lull_error_set(err, LULL_E_FORMAT, "%s: layer %zu (%.60s) computes over 1000 s",
                              name, layer + 1,
                              lull_simai_name(workload, workload->layers[layer].name));
    if (simai_job_group_of(workload, work, part) == GROUPS)
        return lull_error_set(err, LULL_E_FORMAT,
                              "%s: layer %zu: a collective among %.60s, not TP, EP, DP or DP_EP",
                              name, layer + 1, lull_simai_name(workload, work->group));
    return 0;
}

int lull_job_simai_check(const struct lull_simai_workload *workload, const char *name,
                         struct lull_error *err)
{
    int64_t compute_ns = 0;

    for (size_t i = 0; i < workload->count; i++)
        for (int part = 0; part < LULL_SIMAI_PARTS; part++) {
            const int rc = check_part(workload, i, part, name, err);

            if (rc < 0)
                return rc;
            compute_ns += workload->layers[i].parts[part].compute_ns;
        }
    return compute_ns > 0
               ? 0
               : lull_error_set(err, LULL_E_FORMAT, "%s: no layer computes for any time", name);
}

/* ---- ranks of a collective ---------------------------------------------------------------- */

/* A number of the workload, or 1 where it has none. */
static int64_t at_least_one(int64_t number)
{
    return number > 1 ? number : 1;
}

static int simai_job_lay_out(struct layout *layout, uint32_t gpus)
{
    const struct lull_simai_workload *workload = layout->workload;
    const int64_t all = workload->gpus > 0 ? workload->gpus : gpus;
    const int64_t tensor = at_least_one(workload->tensor_parallel);
    const int64_t pipeline = at_least_one(workload->pipeline_parallel);
    const int64_t expert = at_least_one(workload->expert_parallel);

    if (all > UINT32_MAX || tensor > all || pipeline > all / tensor ||
        all % (tensor * pipeline) != 0)
        return lull_error_set(layout->err, LULL_E_FORMAT,
                              "%s: %lld GPUs are no copies of %lld tensor parallel GPUs times %lld "
                              "stages",
                              layout->name, (long long)all, (long long)tensor, (long long)pipeline);
    layout->tensor = (uint32_t)tensor;
    layout->pipeline = (uint32_t)pipeline;
    layout->data = (uint32_t)(all / (tensor * pipeline));
    /* Experts lie on data parallel GPUs. */
    layout->expert = expert < layout->data ? (uint32_t)expert : layout->data;
    return 0;
}

static struct ranks ranks_of(const struct layout *layout, enum group group)
{
    const struct ranks all[GROUPS] = {
        [TENSOR] = {layout->tensor, 1},
        [EXPERT] = {layout->expert, layout->tensor},
        [DATA] = {layout->data, layout->tensor},
        [DATA_OF_EXPERTS] = {layout->data / layout->expert, layout->tensor * layout->expert},
    };

    return all[group];
}

/* Returns the time of a collective: two rounds of a ring for an all-reduce, one for all others. */
static int64_t collective_ns(const struct layout *layout, const struct lull_simai_work *work,
                             int part)
{
    const struct ranks ranks = ranks_of(layout, simai_job_group_of(layout->workload, work, part));
    const struct lull_job_link *link = (uint64_t)ranks.count * ranks.stride <= NEIGHBOURS
                                           ? &layout->links->inside
                                           : &layout->links->between;
    int64_t two_rounds_ns;

    if (work->collective == LULL_CHAKRA_UNTOLD || work->size_bytes == 0 || ranks.count == 1)
        return 0;
    two_rounds_ns = lull_job_all_reduce_ns(link, (double)work->size_bytes, ranks.count);
    return work->collective == LULL_CHAKRA_ALL_REDUCE ? two_rounds_ns : two_rounds_ns / 2;
}

/* ---- one stage: layer by layer ------------------------------------------------------------ */

struct simai_builder {
    const struct layout *layout;
    struct lull_job_graph graph;
    int64_t last; /* task that the next one waits for; -1: none */
    int rc;       /* the first error */
};

/* Adds a task that waits for the task `behind`. Returns its number, or `behind` where it would take
 * no time and so is left out. */
static int64_t simai_job_add(struct simai_builder *builder, enum lull_job_task_kind kind,
                             uint32_t resource, int64_t time_ns, int64_t behind)
{
    const struct lull_job_task task = {kind, resource, GPU, time_ns, 0};
    int64_t index;

    if (time_ns == 0 || builder->rc < 0)
        return behind;
    index = lull_job_graph_add(&builder->graph, &task);
    if (index < 0)
        builder->rc = (int)index;
    else if (behind >= 0)
        builder->rc = lull_job_graph_connect(&builder->graph, (uint32_t)behind, (uint32_t)index);
    return index;
}

static void simai_job_add_part(struct simai_builder *builder, size_t layer, int part)
{
    const struct lull_simai_work *work = &builder->layout->workload->layers[layer].parts[part];
    const int64_t link_ns = collective_ns(builder->layout, work, part);
    const bool is_gradient = part == LULL_SIMAI_WEIGHT_GRADIENT;
    int64_t sent;

    builder->last = simai_job_add(builder, LULL_JOB_COMPUTE, GPU, work->compute_ns, builder->last);
    sent = simai_job_add(builder, LULL_JOB_TRANSFER, is_gradient ? GRADIENT_LINK : OWN_LINK,
                         link_ns, builder->last);
    if (!is_gradient)
        builder->last = sent;
}

static void add_layers(struct simai_builder *builder)
{
    const size_t count = builder->layout->workload->count;

    for (size_t i = 0; i < count; i++)
        simai_job_add_part(builder, i, LULL_SIMAI_FORWARD);
    for (size_t i = count; i-- > 0;) {
        simai_job_add_part(builder, i, LULL_SIMAI_INPUT_GRADIENT);
        simai_job_add_part(builder, i, LULL_SIMAI_WEIGHT_GRADIENT);
    }
}

static int simai_job_refuse(const struct layout *layout, int rc)
{
    if (rc == -ENOMEM)
        return lull_error_set(layout->err, rc, "%s: no memory for its tasks", layout->name);
    return lull_error_set(layout->err, LULL_E_FORMAT,
                          "%s: a collective of over 1000 s, or more than %d tasks", layout->name,
                          LULL_JOB_MAX_TASKS);
}

static int build_stage(const struct layout *layout, struct lull_job_graph *graph_out)
{
    const struct lull_job_resource resource = {1, LULL_JOB_BY_RANK};
    struct simai_builder builder = {.layout = layout, .last = -1};

    for (int i = 0; i < RESOURCES && builder.rc == 0; i++)
        if (lull_job_graph_add_resource(&builder.graph, &resource) < 0)
            builder.rc = -ENOMEM;
    add_layers(&builder);
    if (builder.rc < 0)
        builder.rc = simai_job_refuse(layout, builder.rc);
    else
        builder.rc = lull_job_graph_finish(&builder.graph, layout->err);
    if (builder.rc < 0)
        lull_job_graph_fini(&builder.graph);
    else
        *graph_out = builder.graph;
    return builder.rc;
}

/* ---- several stages: micro-batches that are alike ----------------------------------------- */

/* The times of all layers added up, by part; the layers of all micro-batches are among them. */
struct sums {
    int64_t compute_ns[LULL_SIMAI_PARTS];
    int64_t link_ns[LULL_SIMAI_PARTS];
};

static struct sums simai_job_sum(const struct layout *layout)
{
    struct sums sums = {0};

    for (size_t i = 0; i < layout->workload->count; i++)
        for (int part = 0; part < LULL_SIMAI_PARTS; part++) {
            const struct lull_simai_work *work = &layout->workload->layers[i].parts[part];

            sums.compute_ns[part] += work->compute_ns;
            sums.link_ns[part] += collective_ns(layout, work, part);
        }
    return sums;
}

/* Virtual stages where Megatron-LM would take them. */
static struct lull_pipeline_schedule choose_schedule(const struct layout *layout,
                                                     uint32_t microbatches)
{
    const int64_t chunks = layout->workload->virtual_stages;

    if (chunks > 1 && chunks <= LULL_PIPELINE_MAX_CHUNKS && microbatches % layout->pipeline == 0)
        return (struct lull_pipeline_schedule){.family = LULL_PIPELINE_INTERLEAVED,
                                               .chunks = (uint32_t)chunks};
    return (struct lull_pipeline_schedule){.family = LULL_PIPELINE_1F1B, .chunks = 1};
}

static int build_pipeline(const struct layout *layout, struct lull_job_graph *graph_out)
{
    const struct sums sums = simai_job_sum(layout);
    const int64_t microbatches = at_least_one(layout->workload->micro_batches);
    struct lull_job_parallel parallel = {
        .data = layout->data,
        .tensor = 1, /* the sums include what its GPUs send */
        .pipeline = layout->pipeline,
        .microbatches = (uint32_t)microbatches,
        .stage_bytes = (double)layout->workload->pipeline_bytes,
        .stage_link = layout->links->between,
        .gradient_link_ns = sums.link_ns[LULL_SIMAI_WEIGHT_GRADIENT],
        .buckets = 1,
    };
    struct lull_error why = {0};
    int64_t actions;
    int rc;

    if (microbatches > LULL_JOB_MAX_TASKS)
        return simai_job_refuse(layout, -E2BIG);
    parallel.schedule = choose_schedule(layout, parallel.microbatches);
    actions = microbatches * parallel.schedule.chunks;
    parallel.forward_ns = at_least_one(sums.compute_ns[LULL_SIMAI_FORWARD] / actions);
    parallel.backward_ns = at_least_one(
        (sums.compute_ns[LULL_SIMAI_INPUT_GRADIENT] + sums.compute_ns[LULL_SIMAI_WEIGHT_GRADIENT]) /
        actions);
    parallel.forward_link_ns = sums.link_ns[LULL_SIMAI_FORWARD] / actions;
    parallel.backward_link_ns = sums.link_ns[LULL_SIMAI_INPUT_GRADIENT] / actions;
    rc = lull_job_parallel_build(&parallel, graph_out, &why);
    if (rc < 0)
        return lull_error_set(layout->err, rc == -ENOMEM ? rc : LULL_E_FORMAT,
                              "%s: as a pipeline: %s", layout->name, why.text);
    return 0;
}

int lull_job_simai_build(const struct lull_simai_workload *workload, const char *name,
                         uint32_t gpus, const struct lull_job_links *links,
                         struct lull_job_graph *graph_out, uint32_t *devices_out,
                         struct lull_error *err)
{
    struct layout layout = {.workload = workload, .name = name, .links = links, .err = err};
    int rc = simai_job_lay_out(&layout, gpus);

    if (rc < 0)
        return rc;
    rc = layout.pipeline > 1 ? build_pipeline(&layout, graph_out) : build_stage(&layout, graph_out);
    if (rc < 0)
        return rc;
    *devices_out = layout.pipeline;
    return 0;
}
