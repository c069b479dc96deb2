/*
 * Weighted completion time and energy: highest density first. A job's density is its weight by its
 * GPU time; the densest run. A job goes to the type of GPU where it adds least to
 *
 *   rho (weighted completion times) + energy,
 *
 * as Devanur and Huang dispatch to unrelated machines (SODA'14): its own delay
 * behind denser jobs, the delay of less dense ones behind it, its energy. Clocks follow the weight
 * that is not done: the slowest with P >= rho W, W by GPU (Bansal, Chan, Pruhs, "Speed scaling with
 * an arbitrary power function", SODA'09). SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "cluster/core/policy/ranked_state.h"
#include "cluster/core/policy/single.h"

/* Classes of density, eight to an octave, the densest first: 64 octaves hold any density, and
 * within a class jobs differ by a tenth at most. */
enum { CLASSES = 512 };

struct classes {
    double work[CLASSES]; /* GPU seconds of jobs that are not done */
    double weight[CLASSES];
};

struct hdf {
    const struct lull_cluster *cluster;
    const struct lull_cluster_jobs *jobs;
    size_t group_count;
    struct classes *groups[]; /* [pool * types + type]; NULL: nothing yet */
};

static double hdf_rank(const struct lull_cluster_job *job, uint32_t gpus, int64_t full_ns,
                       int64_t need_ns)
{
    (void)need_ns;
    return (double)full_ns * gpus / job->weight;
}

/* ---- clocks -------------------------------------------------------------------------------- */

static double hdf_gpu_power_w(const struct lull_cluster_point *point)
{
    return point->energy_j / ((double)point->time_ns * 1e-9) / point->gpus;
}

/* The power of a GPU, W, that the unfinished weight of a queue is worth. */
static double hdf_level(const struct lull_ranked *policy, const struct lull_queue_stats *queue)
{
    return policy->setting * queue->weight / fmax((double)queue->gpus, 1.0);
}

static double hdf_cost(const struct lull_ranked *policy, uint32_t job, uint32_t point,
                       const struct lull_queue_stats *queue, int64_t now_ns)
{
    const struct hdf *hdf = policy->more;
    const double power_w = hdf_gpu_power_w(&hdf->jobs->all[job].points[point]);
    const double min_w = hdf_level(policy, queue);

    (void)now_ns;
    /* Chooses the operating point of least power that is enough; if none is, the one of most power.
     */
    return power_w >= min_w ? power_w : 1e15 - power_w;
}

/* ---- dispatch ------------------------------------------------------------------------------ */

/* The class of a job's density in an operating point. */
static uint32_t hdf_class_of(const struct lull_cluster_job *job,
                             const struct lull_cluster_point *point)
{
    const double octaves = log2(fmax(hdf_rank(job, point->gpus, point->time_ns, 0), 1.0));

    return (uint32_t)fmin(octaves * 8.0, CLASSES - 1);
}

/* The increase of the total cost if a job is assigned to its operating point's type. */
static double added_cost(const struct hdf *hdf, double rho_w, const struct lull_cluster_job *job,
                         const struct lull_cluster_point *point,
                         const struct lull_queue_stats *queue)
{
    const struct classes *queued =
        hdf->groups[lull_cluster_group(hdf->cluster, job->pool, point->type)];
    const double time_s = (double)point->time_ns * 1e-9;
    const uint32_t own = hdf_class_of(job, point);
    double ahead_gpu_s = 0.0;
    double behind = 0.0;

    for (uint32_t i = 0; queued != NULL && i < CLASSES; i++) {
        ahead_gpu_s += i <= own ? queued->work[i] : 0.0;
        behind += i > own ? queued->weight[i] : 0.0;
    }
    return point->energy_j + rho_w * (job->weight * (ahead_gpu_s / (double)queue->gpus + time_s) +
                                      behind * time_s * point->gpus / (double)queue->gpus);
}

/* Counts a job into the classes of a group, or out of them. */
static void hdf_enter(struct hdf *hdf, const struct lull_cluster_job *job,
                      const struct lull_cluster_point *point, double sign)
{
    struct classes **queued =
        &hdf->groups[lull_cluster_group(hdf->cluster, job->pool, point->type)];
    const uint32_t own = hdf_class_of(job, point);

    /* Without memory the job does not count when others are dispatched. */
    if (*queued == NULL)
        *queued = calloc(1, sizeof(**queued));
    if (*queued == NULL)
        return;
    (*queued)->work[own] += sign * (double)point->time_ns * 1e-9 * point->gpus;
    (*queued)->weight[own] += sign * job->weight;
}

static uint32_t hdf_dispatch(const struct lull_ranked *policy, uint32_t job,
                             const struct lull_queue_stats *queues)
{
    struct hdf *const hdf = policy->more;
    const struct lull_cluster_job *asked = &hdf->jobs->all[job];
    const struct lull_cluster_point *best = NULL;
    double least = INFINITY;

    for (uint32_t type = 0; type < hdf->cluster->type_count; type++) {
        const uint32_t point = lull_cluster_first_point(
            asked, type, hdf->cluster, lull_cluster_state_groups(policy->copy)->gpus);
        double added;

        if (point == asked->point_count)
            continue;
        added = added_cost(hdf, policy->setting, asked, &asked->points[point], &queues[type]);
        if (added < least) {
            least = added;
            best = &asked->points[point];
        }
    }
    if (best == NULL)
        return UINT32_MAX;
    hdf_enter(hdf, asked, best, 1.0);
    return best->type;
}

static void hdf_job_ended(struct lull_ranked *policy, uint32_t job, uint32_t type)
{
    struct hdf *const hdf = policy->more;
    const struct lull_cluster_job *asked = &hdf->jobs->all[job];

    hdf_enter(hdf, asked,
              &asked->points[lull_cluster_first_point(
                  asked, type, hdf->cluster, lull_cluster_state_groups(policy->copy)->gpus)],
              -1.0);
}

/* ---- policy -------------------------------------------------------------------------------- */

static int hdf_create(const struct lull_cluster *cluster, const struct lull_cluster_jobs *jobs,
                      void **more_out)
{
    const size_t groups = lull_cluster_group_count(cluster);
    struct hdf *hdf = calloc(1, sizeof(*hdf) + groups * sizeof(hdf->groups[0]));

    if (hdf == NULL)
        return -ENOMEM;
    hdf->cluster = cluster;
    hdf->jobs = jobs;
    hdf->group_count = groups;
    *more_out = hdf;
    return 0;
}

static void hdf_destroy(void *more)
{
    struct hdf *const hdf = more;

    for (size_t i = 0; i < hdf->group_count; i++)
        free(hdf->groups[i]);
}

const struct lull_cluster_ranking lull_hdf_ranking = {
    .reason = "had the most weight for its GPU time",
    .create = hdf_create,
    .destroy = hdf_destroy,
    .rank = hdf_rank,
    .is_fixed = true,
    .cost = hdf_cost,
    .level = hdf_level,
    .dispatch = hdf_dispatch,
    .ended = hdf_job_ended,
};
