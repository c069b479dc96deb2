/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cluster/slotted.h"

#include <errno.h>
#include <stdlib.h>

struct slotter {
    const struct lull_cluster *cluster;
    const struct lull_slotting *slotting;
    struct lull_slotted *slotted;
    uint64_t *gpus_of; /* [pool * type_count + type] */
    size_t mode_count;
};

static void count_gpus(const struct slotter *slotter)
{
    const struct lull_cluster *cluster = slotter->cluster;

    for (uint32_t i = 0; i < cluster->node_count; i++) {
        const struct lull_cluster_node *node = &cluster->nodes[i];

        slotter->gpus_of[(size_t)node->pool * cluster->type_count + node->type] += node->gpus;
    }
    for (uint32_t i = 0; i < slotter->slotted->problem.type_count; i++)
        slotter->slotted->gpus[i] = (uint32_t)slotter->gpus_of[i];
}

static double seconds(int64_t ns)
{
    return (double)ns * 1e-9;
}

static void add_mode(struct slotter *slotter, const struct lull_cluster_job *job, uint32_t number)
{
    const struct lull_cluster_mode *mode = &job->modes[number];
    const int64_t horizon_ns = slotter->slotting->horizon_ns;
    const int64_t until_ns = job->deadline_ns < horizon_ns ? job->deadline_ns : horizon_ns;
    const int64_t slot_ns = slotter->slotting->slot_ns;
    const int64_t first = job->arrival_ns / slot_ns;
    const double count_w = slotter->slotting->completion_w * job->weight;
    struct lull_slot_mode *out = &slotter->slotted->modes[slotter->mode_count];

    if (until_ns - mode->time_ns < job->arrival_ns ||
        !lull_cluster_mode_is_possible(job, number, slotter->cluster, slotter->gpus_of))
        return;
    *out = (struct lull_slot_mode){
        .type = job->pool * slotter->cluster->type_count + mode->type,
        .gpus = mode->gpus,
        .slots = (uint32_t)(mode->time_ns / slot_ns),
        .first = (uint32_t)first,
        .last = (uint32_t)((until_ns - mode->time_ns) / slot_ns),
        .power_w = (uint32_t)fmin(floor(mode->energy_j / seconds(mode->time_ns)), UINT32_MAX),
        .cost_j = mode->energy_j - job->value_j +
                  count_w * (seconds(first * slot_ns - job->arrival_ns) + seconds(mode->time_ns)),
        .delay_j = count_w * seconds(slot_ns),
    };
    if (job->is_preemptible) {
        out->slots = 0;
        out->last = out->first;
    }
    slotter->mode_count++;
}

static int add_jobs(struct slotter *slotter, const struct lull_cluster_jobs *jobs,
                    struct lull_error *err)
{
    for (size_t i = 0; i < jobs->count; i++) {
        const size_t before = slotter->mode_count;

        for (uint32_t m = 0; m < jobs->all[i].mode_count; m++)
            add_mode(slotter, &jobs->all[i], m);
        if (slotter->mode_count == before && jobs->all[i].value_j <= 0.0)
            return lull_error_set(err, -EINVAL,
                                  "job %zu fits nowhere between its arrival and its deadline", i);
        slotter->slotted->jobs[i] = (struct lull_slot_job){
            .reject_j = jobs->all[i].value_j > 0.0 ? 0.0 : LULL_SLOTS_MANDATORY,
            .mode_count = (uint32_t)(slotter->mode_count - before),
            .modes = slotter->slotted->modes + before,
        };
    }
    return lull_slot_problem_check(&slotter->slotted->problem, err);
}

static int check_sizes(const struct lull_cluster *cluster, const struct lull_slotting *slotting,
                       struct lull_error *err)
{
    if (slotting->horizon_ns / slotting->slot_ns > LULL_SLOTS_MOST)
        return lull_error_set(err, -ERANGE, "over %d slots; take longer ones", LULL_SLOTS_MOST);
    if ((uint64_t)cluster->pool_count * cluster->type_count > LULL_SLOTS_MOST_TYPES)
        return lull_error_set(err, -ERANGE, "over %d types of GPU in pools", LULL_SLOTS_MOST_TYPES);
    return 0;
}

static int make_room(struct slotter *slotter, const struct lull_cluster_jobs *jobs)
{
    struct lull_slotted *slotted = slotter->slotted;
    const size_t types = (size_t)slotter->cluster->pool_count * slotter->cluster->type_count;
    const int64_t slots = slotter->slotting->horizon_ns / slotter->slotting->slot_ns;
    size_t modes = 0;

    for (size_t i = 0; i < jobs->count; i++)
        modes += jobs->all[i].mode_count;
    slotter->gpus_of = calloc(types, sizeof(*slotter->gpus_of));
    slotted->gpus = calloc(types, sizeof(*slotted->gpus));
    slotted->jobs = calloc(jobs->count + 1, sizeof(*slotted->jobs));
    slotted->modes = calloc(modes + 1, sizeof(*slotted->modes));
    slotted->problem = (struct lull_slot_problem){
        .slots = slots > 0 ? (uint32_t)slots : 1,
        .type_count = (uint32_t)types,
        .gpus = slotted->gpus,
        .cap_w = slotter->slotting->cap_w,
        .job_count = jobs->count,
        .jobs = slotted->jobs,
    };
    return slotter->gpus_of == NULL || slotted->gpus == NULL || slotted->jobs == NULL ||
                   slotted->modes == NULL
               ? -ENOMEM
               : 0;
}

int lull_slotted_create(const struct lull_cluster *cluster, const struct lull_cluster_jobs *jobs,
                        const struct lull_slotting *slotting, struct lull_slotted *slotted_out,
                        struct lull_error *err)
{
    struct slotter slotter = {.cluster = cluster, .slotting = slotting, .slotted = slotted_out};
    int result = check_sizes(cluster, slotting, err);

    *slotted_out = (struct lull_slotted){0};
    if (result < 0)
        return result;
    result = make_room(&slotter, jobs);
    if (result == 0) {
        count_gpus(&slotter);
        result = add_jobs(&slotter, jobs, err);
    } else {
        lull_error_set(err, result, "no memory for %zu jobs in slots", jobs->count);
    }
    free(slotter.gpus_of);
    if (result < 0)
        lull_slotted_fini(slotted_out);
    return result;
}

void lull_slotted_fini(struct lull_slotted *slotted)
{
    free(slotted->gpus);
    free(slotted->jobs);
    free(slotted->modes);
    *slotted = (struct lull_slotted){0};
}
