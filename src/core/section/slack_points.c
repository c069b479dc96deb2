/* By how many points each GPU is lowered for what it waits. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/minmax.h"
#include "core/section/slack_state.h"

/* Waits below this share of the iteration count as none. */
static const double min_wait = 0.002;
/* So many times the spread of the waits is kept between the least of them and none. With half of it
 * one of eight ranks of `lull simulate --preset resnet50-ddp` being slower by a tenth, the others'
 * jitter costs 0.3 % of time, and no steady point is left within a tolerance of 1 %. */
static const double kept_spread = 1.0;
/* A GPU for which a less lowered one waits for this share of what it had waited for itself is
 * raised at once: a rank that has recovered waits for about as long. */
static const double recovered_share = 0.5;
/* A point is never taken to cost less than this share of what it costs at most. If a rank cannot
 * run ahead of others by more than a layer (FSDP), its longest wait stays the same until nearly all
 * of its slack is used up, and says nothing of what a point costs. With a 32nd instead, one of
 * eight such ranks being slower by a tenth, the job of `lull simulate --preset gpt-fsdp` became
 * slower by more than a third. */
static const double min_cost_share = 0.5;
/* If no single wait pays for a point, as many points are tried as this share of all waits together
 * would pay for: all would be too many if the waits are one and the same lag. Fewer than the least
 * cannot be distinguished from jitter. Chosen with `lull simulate --preset moe-alltoall -n 8`, one
 * rank being slower by a tenth: of 10 points that all waits pay for, two are tried. */
static const double tried_share = 0.5;
static const double min_tried = 2.0;
/* Waits have become shorter where their means differ by more than this share of their spread, about
 * two standard deviations of what the means of LULL_SLACK_WINDOW waits differ by. */
static const double reported_share = 0.5;
/* A GPU is lowered by at most so many times its points at once where waits are extrapolated. */
static const double max_growth = 2.0;
/* If no single wait paid for a point, a rank that has recovered waits in each collective, and not
 * only in one: for this share of all waits that there were, at least. Without it jitter of a
 * pipeline's stages raised a tensor-parallel partner of the slow rank of `megatron-3d` time and
 * again. */
static const double recovered_all_share = 0.25;
/* The longest time for which a GPU that came last is not lowered, in iterations. */
enum { LONGEST_HOLD = 512 };

/* ---- raising ----------------------------------------------------------------------------- */

bool lull_slack_is_waited_for(const struct lull_slack_gpu *gpu, double now_ms, double all_ms)
{
    if (now_ms <= recovered_share * gpu->had_waited_ms)
        return false;
    return gpu->had_waited_ms >= gpu->point_ratio * gpu->typical_ms ||
           all_ms > recovered_all_share * gpu->had_all_ms;
}

/* Its points change, so that what was seen at those before does not count any more. */
static void change_points(struct lull_slack_gpu *gpu, uint32_t points)
{
    gpu->points = points;
    gpu->era++;
    gpu->is_answered = false;
    gpu->own.count = 0;
    gpu->job.count = 0;
    if (points == 0)
        gpu->rests_on_nodes = false;
}

static void slack_points_hold(struct lull_slack_gpu *gpu)
{
    gpu->hold = lull_max_u32(gpu->hold, gpu->next_hold);
    gpu->next_hold = lull_min_u32(gpu->next_hold * 2, LONGEST_HOLD);
    gpu->own.count = 0;
    gpu->job.count = 0;
}

void lull_slack_raise_at_once(struct lull_slack_gpu *gpu)
{
    change_points(gpu, 0);
    gpu->is_in_force = false;
    gpu->record.recoveries++;
    slack_points_hold(gpu);
}

void lull_slack_raise(struct lull_slack_gpu *gpu)
{
    const uint32_t points = UINT32_C(1) << lull_min_u32(gpu->late, 8);

    change_points(gpu, gpu->points - lull_min_u32(points, gpu->points));
    gpu->late++;
    slack_points_hold(gpu);
}

void lull_slack_back_off(struct lull_slack *slack, uint32_t points)
{
    for (uint32_t i = 0; i < slack->gpu_count; i++) {
        struct lull_slack_gpu *gpu = &slack->gpus[i];

        if (gpu->points == 0)
            continue;
        change_points(gpu, gpu->points - lull_min_u32(points, gpu->points));
        gpu->is_in_force = false;
        slack_points_hold(gpu);
    }
}

/* ---- lowering ---------------------------------------------------------------------------- */

/* One kind of wait, as the last iterations have shown it. */
struct slack_seen {
    double min_ms;
    double mean_ms;
    double spread_ms;
    double kept_ms; /* of the least, because of the spread */
};

static struct slack_seen slack_points_inspect(const struct lull_slack_gpu *gpu,
                                              const double waits_ms[])
{
    double min_ms = waits_ms[0];
    double max_ms = waits_ms[0];
    double sum_ms = waits_ms[0];

    for (uint32_t i = 1; i < LULL_SLACK_WINDOW; i++) {
        min_ms = fmin(min_ms, waits_ms[i]);
        max_ms = fmax(max_ms, waits_ms[i]);
        sum_ms += waits_ms[i];
    }
    return (struct slack_seen){
        .min_ms = min_ms,
        .mean_ms = sum_ms / LULL_SLACK_WINDOW,
        .kept_ms = fmax(min_wait * gpu->typical_ms, kept_spread * (max_ms - min_ms)),
        .spread_ms = max_ms - min_ms,
    };
}

/* Learns from the longest waits what a point has cost since the GPU was lowered last. */
static void learn_point(struct lull_slack_gpu *gpu, double min_ms)
{
    const double max_ms = gpu->point_ratio * gpu->typical_ms;

    if (gpu->point_ms == 0.0 || gpu->before >= gpu->points) {
        gpu->point_ms = max_ms;
        return;
    }
    gpu->point_ms = (gpu->before_ms - min_ms) / (double)(gpu->points - gpu->before);
    gpu->point_ms = fmin(fmax(gpu->point_ms, min_cost_share * max_ms), 2.0 * max_ms);
}

/* Points that fill what is left of waits that the GPU's points have shortened so far; 0: they have
 * not been shortened by more than jitter. */
static double fill_rest(const struct slack_seen *seen, double had_ms, uint32_t points)
{
    const double fallen_ms = had_ms - seen->mean_ms;

    if (fallen_ms <= reported_share * seen->spread_ms)
        return 0.0;
    return fmax(seen->min_ms - seen->kept_ms, 0.0) * points / fallen_ms;
}

/* Points that fill all waits of an iteration together. */
static double fill_all(const struct lull_slack_gpu *gpu, const struct slack_seen *longest,
                       const struct slack_seen *all)
{
    const double max_ms = gpu->point_ratio * gpu->typical_ms;

    if (gpu->points == 0) {
        const double tried = tried_share * (all->min_ms - all->kept_ms) / max_ms;

        return tried < 1.0 ? 0.0 : fmax(fmin(tried, gpu->tried_most), min_tried);
    }
    return fmin(fmin(fill_rest(longest, gpu->had_longest_ms, gpu->points),
                     fill_rest(all, gpu->had_all_ms, gpu->points)),
                max_growth * gpu->points);
}

/* The GPU has waited in each of the last iterations: lowers it by what fills that. */
static void slack_points_lower(struct lull_slack *slack, struct lull_slack_gpu *gpu,
                               const struct lull_slack_waits *waits)
{
    const struct slack_seen longest = slack_points_inspect(gpu, waits->longest_ms);
    const struct slack_seen all = slack_points_inspect(gpu, waits->all_ms);
    const bool is_by_job = waits == &gpu->job;
    uint32_t points;

    if (is_by_job != gpu->was_by_job)
        gpu->point_ms = 0.0;
    learn_point(gpu, longest.min_ms);
    points = (uint32_t)fmax(fmax((longest.min_ms - longest.kept_ms) / gpu->point_ms, 0.0),
                            fill_all(gpu, &longest, &all));
    points = lull_min_u32(points, gpu->most - gpu->points);
    if (points == 0)
        return;
    gpu->had_waited_ms = fmax(gpu->points == 0 ? 0.0 : gpu->had_waited_ms, longest.min_ms);
    gpu->before_ms = longest.min_ms;
    if (gpu->points == 0) {
        gpu->had_longest_ms = longest.mean_ms;
        gpu->had_all_ms = all.mean_ms;
    }
    gpu->before = gpu->points;
    gpu->was_by_job = is_by_job;
    gpu->rests_on_nodes |= is_by_job;
    change_points(gpu, gpu->points + points);
    gpu->record.most = lull_max_u32(gpu->record.most, gpu->points);
    slack->descents += points > 1;
}

void lull_slack_note_wait(struct lull_slack *slack, struct lull_slack_gpu *gpu,
                          struct lull_slack_waits *waits, double longest_ms, double all_ms)
{
    if (gpu->hold > 0)
        return;
    waits->longest_ms[waits->count] = longest_ms;
    waits->all_ms[waits->count++] = all_ms;
    if (waits->count < LULL_SLACK_WINDOW)
        return;
    waits->count = 0;
    slack_points_lower(slack, gpu, waits);
}
