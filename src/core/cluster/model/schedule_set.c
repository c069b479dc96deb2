/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cluster/model/schedule_set.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/cluster/policy/posted_prices.h"

static int64_t slots_of(int64_t time_ns)
{
    return (time_ns + LULL_SCHEDULE_SLOT_NS - 1) / LULL_SCHEDULE_SLOT_NS;
}

/* Turns an operating point into a window of starts in whole slots; false: none of its starts ends
 * in time, or the job has no value that it could gain. */
static bool convert(const struct lull_cluster *cluster, const struct lull_cluster_job *job,
                    uint32_t at, uint32_t known, struct lull_slot_point *point_out)
{
    const struct lull_cluster_point *point = &job->points[at];
    const int64_t first = slots_of(job->arrival_ns);
    const int64_t slots = slots_of(point->time_ns);
    int64_t last = job->deadline_ns / LULL_SCHEDULE_SLOT_NS - slots;

    if (job->deadline_ns == LULL_CLUSTER_NEVER)
        last = first > known ? first : known;
    if (job->value_j <= 0.0 || last < first || last + slots > LULL_SLOTS_MOST ||
        !lull_cluster_has_memory(job, &cluster->types[point->type]))
        return false;
    *point_out = (struct lull_slot_point){
        .type = job->pool * cluster->type_count + point->type,
        .gpus = point->gpus,
        .slots = (uint32_t)slots,
        .first = (uint32_t)first,
        .last = (uint32_t)last,
        .cost_j = -lull_cluster_gain_j(job, at, job->arrival_ns, 0.0),
    };
    return true;
}

void lull_schedule_set_make(const struct lull_cluster *cluster, const struct lull_cluster_job *job,
                            uint32_t known, struct lull_schedule_set *set_out)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < job->point_count; i++)
        if (convert(cluster, job, i, known, &set_out->points[count]))
            set_out->numbers[count++] = i;
    set_out->job = (struct lull_slot_job){.point_count = count, .points = set_out->points};
}

void lull_schedule_set_laws(const struct lull_cluster *cluster,
                            const struct lull_cluster_jobs *jobs, struct lull_price_law *laws_out)
{
    memset(laws_out, 0, lull_cluster_group_count(cluster) * sizeof(*laws_out));
    for (uint32_t i = 0; i < cluster->node_count; i++) {
        const struct lull_cluster_node *node = &cluster->nodes[i];

        laws_out[lull_cluster_group(cluster, node->pool, node->type)].gpus += node->gpus;
    }
    for (size_t i = 0; i < jobs->count; i++) {
        struct lull_schedule_set set;

        lull_schedule_set_make(cluster, &jobs->all[i], 0, &set);
        lull_bid_widen(&set.job, laws_out);
    }
}

/* Whether a schedule that would gain takes all GPUs that there are of its type. */
static bool takes_all(const struct lull_slot_job *job, const struct lull_price_law *laws)
{
    for (uint32_t i = 0; i < job->point_count; i++)
        if (job->points[i].gpus == laws[job->points[i].type].gpus && job->points[i].cost_j < 0.0)
            return true;
    return false;
}

int lull_schedule_set_theorem(const struct lull_cluster *cluster,
                              const struct lull_cluster_jobs *jobs,
                              struct lull_schedule_set_theorem *theorem_out)
{
    const uint32_t types = cluster->pool_count * cluster->type_count;
    struct lull_price_law *laws = calloc(types, sizeof(*laws));

    if (laws == NULL)
        return -ENOMEM;
    lull_schedule_set_laws(cluster, jobs, laws);
    *theorem_out = (struct lull_schedule_set_theorem){.ratio = lull_bid_ratio(laws, types)};
    for (size_t i = 0; i < jobs->count; i++) {
        const struct lull_cluster_job *job = &jobs->all[i];
        struct lull_schedule_set set;

        theorem_out->without_value += job->value_j <= 0.0;
        theorem_out->without_deadline +=
            job->value_j > 0.0 && job->deadline_ns == LULL_CLUSTER_NEVER;
        lull_schedule_set_make(cluster, job, 0, &set);
        theorem_out->of_all_gpus += takes_all(&set.job, laws);
    }
    free(laws);
    return 0;
}
