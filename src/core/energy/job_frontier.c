/* SPDX-License-Identifier: Apache-2.0 */
#include "core/energy/job_frontier.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>

#include "core/energy/job_frontier_curve.h"
#include "core/energy/saving.h"
#include "core/stats/student.h"

const double lull_job_frontier_budgets[LULL_JOB_FRONTIER_BUDGETS] = {0.0,  0.002, 0.005,
                                                                     0.01, 0.02,  0.05};

/* Counters and sensors are up to 0.1 s old (docs/user/energy.md), so a reading represents a block's
 * points only from this time after the block's begin. */
static const int64_t late_ns = INT64_C(100000000);
/* At the end of a block energy is read between two samples, 0.1 s apart, of which the later one
 * covers part of the next block, too. Half of that interval may be misplaced. */
static const double misplaced_s = 0.05;
/* An iteration that is longer than the median of the last ones by this factor
 * is left out. No clock that is tried for long slows iterations down so much. */
static const double stalled_ratio = 1.25;
static const double two_sided = 0.975;
static const double ns_per_s = 1e9;

enum { REFERENCE, CANDIDATE };

/* ---- pairs of blocks --------------------------------------------------------------------- */

static void add_weighted(struct lull_job_frontier_mean *mean, double value, double weight)
{
    const double away = value - mean->mean;

    assert(weight > 0.0);
    mean->count++;
    mean->weight += weight;
    mean->mean += away * weight / mean->weight;
    /* Rounding may give the two distances of equal values different signs. */
    mean->squares += fmax(weight * away * (value - mean->mean), 0.0);
}

/* The setting of a candidate; NULL: there are too many. */
static struct lull_job_frontier_setting *job_frontier_setting_of(struct lull_job_frontier *frontier,
                                                                 const struct lull_visit *visit)
{
    for (uint32_t i = 0; i < frontier->setting_count; i++) {
        struct lull_job_frontier_setting *setting = &frontier->settings[i];

        if (setting->others == visit->others && setting->point == visit->point)
            return setting;
    }
    if (frontier->setting_count == LULL_JOB_FRONTIER_SETTINGS)
        return NULL;
    frontier->settings[frontier->setting_count] =
        (struct lull_job_frontier_setting){.others = visit->others, .point = visit->point};
    return &frontier->settings[frontier->setting_count++];
}

/* The precision of the difference of two means, as the number
 * of iterations of one mean of the same precision. */
static double weight_of(const struct lull_job_frontier_side sides[2])
{
    return 1.0 /
           (1.0 / (double)sides[REFERENCE].iterations + 1.0 / (double)sides[CANDIDATE].iterations);
}

static double log_ratio(const struct lull_job_frontier_side sides[2], double reference,
                        double candidate)
{
    return log(candidate / (double)sides[CANDIDATE].iterations) -
           log(reference / (double)sides[REFERENCE].iterations);
}

static void add_energies(const struct lull_job_frontier_side sides[2],
                         struct lull_job_frontier_setting *setting)
{
    const double weight = weight_of(sides);

    if (!(sides[REFERENCE].energy_j > 0.0) || !(sides[CANDIDATE].energy_j > 0.0))
        return;
    add_weighted(&setting->energy,
                 log_ratio(sides, sides[REFERENCE].energy_j, sides[CANDIDATE].energy_j), weight);
    add_weighted(&setting->blur,
                 misplaced_s / sides[REFERENCE].seconds + misplaced_s / sides[CANDIDATE].seconds,
                 weight);
    for (int i = 0; i < 2; i++) {
        setting->sums[i].iterations += sides[i].iterations;
        setting->sums[i].seconds += sides[i].seconds;
        setting->sums[i].energy_j += sides[i].energy_j;
    }
}

static bool has_both(const struct lull_job_frontier_side sides[2])
{
    return sides[REFERENCE].iterations > 0 && sides[CANDIDATE].iterations > 0;
}

/* The pair under way is over. */
static void conclude_pair(struct lull_job_frontier *frontier)
{
    struct lull_job_frontier_setting *setting = NULL;

    if (frontier->is_paired && has_both(frontier->times))
        setting = job_frontier_setting_of(frontier, &frontier->candidate);
    if (setting != NULL) {
        const struct lull_job_frontier_side *times = frontier->times;

        add_weighted(&setting->time,
                     log_ratio(times, times[REFERENCE].seconds, times[CANDIDATE].seconds),
                     weight_of(times));
        if (has_both(frontier->energies))
            add_energies(frontier->energies, setting);
    }
    frontier->is_paired = false;
    for (int i = 0; i < 2; i++) {
        frontier->times[i] = (struct lull_job_frontier_side){0};
        frontier->energies[i] = (struct lull_job_frontier_side){0};
    }
}

/* Returns whether an iteration of this length counts, which also becomes one of the last. */
static bool is_typical(struct lull_job_frontier *frontier, double seconds)
{
    const double median_s = lull_quantile_get(&frontier->lengths_s, 0.5);

    lull_quantile_add(&frontier->lengths_s, seconds);
    return !(seconds > stalled_ratio * median_s); /* the first one always does */
}

/* The iteration that began with the last mark has ended. */
static void job_frontier_take_iteration(struct lull_job_frontier *frontier,
                                        const struct lull_job_frontier_mark *begin,
                                        const struct lull_job_frontier_mark *end)
{
    const int side = begin->visit.is_candidate ? CANDIDATE : REFERENCE;
    const double seconds = (double)(end->time_ns - begin->time_ns) / ns_per_s;
    const double energy_j = end->energy_j - begin->energy_j;

    if (!begin->visit.is_measured || seconds <= 0.0 || !is_typical(frontier, seconds))
        return;
    frontier->is_paired = true;
    if (begin->visit.is_candidate)
        frontier->candidate = begin->visit;
    frontier->times[side].iterations++;
    frontier->times[side].seconds += seconds;
    if (!isfinite(energy_j) || begin->time_ns - frontier->changed_ns < late_ns)
        return;
    frontier->energies[side].iterations++;
    frontier->energies[side].seconds += seconds;
    frontier->energies[side].energy_j += energy_j;
}

static bool job_frontier_is_same(const struct lull_visit *left, const struct lull_visit *right)
{
    return left->is_candidate == right->is_candidate &&
           (!left->is_candidate || (left->point == right->point && left->others == right->others));
}

void lull_job_frontier_take(struct lull_job_frontier *frontier,
                            const struct lull_job_frontier_mark *mark)
{
    const struct lull_job_frontier_mark *last = &frontier->last;

    if (frontier->has_last && !mark->is_first)
        job_frontier_take_iteration(frontier, last, mark);
    if (!frontier->has_last || mark->visit.pair != last->visit.pair)
        conclude_pair(frontier);
    if (!frontier->has_last || mark->is_first || !job_frontier_is_same(&mark->visit, &last->visit))
        frontier->changed_ns = mark->time_ns;
    frontier->last = *mark;
    frontier->has_last = true;
}

/* ---- means and intervals ----------------------------------------------------------------- */

/* The variance of a ratio's logarithm of one iteration on each side, pooled. */
struct scatter {
    double squares;
    double degrees;
};

static void job_frontier_pool(struct scatter *scatter, const struct lull_job_frontier_mean *mean)
{
    scatter->squares += mean->squares;
    scatter->degrees += mean->count > 0 ? mean->count - 1.0 : 0.0;
}

/* Half of the 95 % interval of a mean; INFINITY: nothing says how much its values scatter. */
static double half_width(const struct scatter *scatter, const struct lull_job_frontier_mean *mean)
{
    if (scatter->degrees < 1.0)
        return INFINITY;
    return lull_student_quantile(two_sided, scatter->degrees) *
           sqrt(scatter->squares / scatter->degrees / mean->weight);
}

/* Returns how far the log of the ratio of energies may be off because of the sensors' offsets and
 * levels. */
static double sensor_half_width(const struct lull_job_frontier_setting *setting, uint32_t gpus)
{
    struct lull_energy_side sides[2];
    struct lull_energy_saving saving;

    for (int i = 0; i < 2; i++)
        sides[i] = (struct lull_energy_side){.gpus = gpus,
                                             .iterations = setting->sums[i].iterations,
                                             .seconds = setting->sums[i].seconds,
                                             .energy_j = setting->sums[i].energy_j};
    if (!lull_energy_saving_compute(&sides[REFERENCE], &sides[CANDIDATE], &saving))
        return INFINITY;
    return lull_energy_saving_shared_log(&saving);
}

static void job_frontier_add_node(const struct lull_job_frontier_setting *setting,
                                  const struct scatter *times, const struct scatter *energies,
                                  uint32_t gpus, struct lull_job_frontier_curve *curve)
{
    const double power_log = setting->energy.mean - setting->time.mean;

    lull_job_frontier_curve_add(curve,
                                &(struct lull_job_frontier_node){
                                    .point = setting->point,
                                    .time = expm1(setting->time.mean),
                                    .time_half = half_width(times, &setting->time),
                                    .energy_log = setting->energy.mean,
                                    .power_log = power_log,
                                    .energy_half = hypot(half_width(energies, &setting->energy),
                                                         sensor_half_width(setting, gpus)),
                                    .blur = fmin(setting->blur.mean, 1.0) * fabs(power_log),
                                });
}

/* Pools the scatter of the ratios over all pairs. */
static void pool_all(const struct lull_job_frontier *frontier, struct scatter *times,
                     struct scatter *energies)
{
    for (uint32_t i = 0; i < frontier->setting_count; i++) {
        job_frontier_pool(times, &frontier->settings[i].time);
        job_frontier_pool(energies, &frontier->settings[i].energy);
    }
}

/* Collects what was visited with these points of sections and gaps; returns why nothing can be
 * concluded from it, or NULL. */
static const char *job_frontier_collect(const struct lull_job_frontier *frontier, uint64_t others,
                                        uint32_t gpus, struct lull_job_frontier_curve *curve)
{
    struct scatter times = {0};
    struct scatter energies = {0};
    bool has_times = false;

    pool_all(frontier, &times, &energies);
    if (others == 0)
        lull_job_frontier_curve_add_reference(curve);
    for (uint32_t i = 0; i < frontier->setting_count; i++) {
        const struct lull_job_frontier_setting *setting = &frontier->settings[i];

        if (setting->others != others || setting->point >= curve->clock_count)
            continue;
        has_times = true;
        if (setting->energy.count > 0 && (setting->point > 0 || others != 0))
            job_frontier_add_node(setting, &times, &energies, gpus, curve);
    }
    if (!has_times)
        return "no trial has compared clocks with the highest ones";
    if (curve->node_count == (others == 0 ? 1 : 0))
        return "the GPUs' energy within the trials is not known: their blocks are too short for "
               "the sensors";
    if (times.degrees < 1.0 || energies.degrees < 1.0)
        return "one pair of blocks does not show their spread";
    return NULL;
}

void lull_job_frontier_answer(const struct lull_job_frontier *frontier, uint64_t others,
                              const uint32_t *clocks_mhz, uint32_t clock_count, uint32_t gpus,
                              struct lull_job_frontier_point *points_out)
{
    struct lull_job_frontier_curve curve = {.clocks_mhz = clocks_mhz, .clock_count = clock_count};
    const char *reason;

    assert(clock_count >= 1 && gpus >= 1);
    reason = job_frontier_collect(frontier, others, gpus, &curve);
    if (reason == NULL)
        lull_job_frontier_curve_fit(&curve);
    for (int b = 0; b < LULL_JOB_FRONTIER_BUDGETS; b++) {
        struct lull_job_frontier_point *point = &points_out[b];

        *point = (struct lull_job_frontier_point){.slowdown_ratio = lull_job_frontier_budgets[b],
                                                  .saving_ratio = NAN,
                                                  .low_ratio = NAN,
                                                  .high_ratio = NAN,
                                                  .reason = reason};
        if (reason == NULL)
            lull_job_frontier_curve_ask(&curve, point);
    }
}

/* ---- settings tried ---------------------------------------------------------------------- */

static struct lull_job_frontier_tried tried_of(const struct lull_job_frontier_setting *setting,
                                               const struct scatter *times,
                                               const struct scatter *energies, uint32_t gpus)
{
    const double mean = setting->energy.mean;
    struct lull_job_frontier_tried tried = {
        .others = setting->others,
        .point = setting->point,
        .pairs = setting->time.count,
        .slowdown_ratio = expm1(setting->time.mean),
        .slowdown_half_ratio = half_width(times, &setting->time),
        .saving_ratio = NAN,
        .low_ratio = NAN,
        .high_ratio = NAN,
    };
    double half;
    double blur;

    if (setting->energy.count == 0)
        return tried;
    half = hypot(half_width(energies, &setting->energy), sensor_half_width(setting, gpus));
    blur = fmin(setting->blur.mean, 1.0) * fabs(mean - setting->time.mean);
    tried.saving_ratio = -expm1(mean);
    tried.low_ratio = -expm1(mean + half);
    tried.high_ratio = -expm1(mean - half - blur);
    return tried;
}

uint32_t lull_job_frontier_list(const struct lull_job_frontier *frontier, uint32_t gpus,
                                struct lull_job_frontier_tried *tried_out)
{
    struct scatter times = {0};
    struct scatter energies = {0};
    uint32_t count = 0;

    assert(gpus >= 1);
    pool_all(frontier, &times, &energies);
    for (uint32_t i = 0; i < frontier->setting_count; i++)
        if (frontier->settings[i].time.count > 0)
            tried_out[count++] = tried_of(&frontier->settings[i], &times, &energies, gpus);
    return count;
}

/* A setting within one budget is within every larger one, so no
 * known saving is smaller than that of a smaller budget. */
static void make_savings_rise(struct lull_job_frontier_point *points)
{
    for (int b = 1; b < LULL_JOB_FRONTIER_BUDGETS; b++) {
        const double slowdown_ratio = points[b].slowdown_ratio;

        if (points[b].reason != NULL || points[b - 1].reason != NULL ||
            points[b].saving_ratio >= points[b - 1].saving_ratio)
            continue;
        points[b] = points[b - 1];
        points[b].slowdown_ratio = slowdown_ratio;
    }
}

/* A proven setting is a budget's best clock if it saves more
 * than the best clock so far, or if nothing else is known. */
static bool is_best(const struct lull_job_frontier_tried *kept, double tolerance_ratio,
                    const struct lull_job_frontier_point *point)
{
    if (point->reason == NULL && point->is_measured && point->point == kept->point)
        return true;
    return point->slowdown_ratio >= tolerance_ratio &&
           (point->reason != NULL || point->saving_ratio < kept->saving_ratio);
}

void lull_job_frontier_include(const struct lull_job_frontier_tried *kept, double tolerance_ratio,
                               struct lull_job_frontier_point *points)
{
    const bool has_interval = isfinite(kept->low_ratio) && isfinite(kept->high_ratio);

    if (!isfinite(kept->saving_ratio))
        return;
    for (int b = 0; b < LULL_JOB_FRONTIER_BUDGETS; b++) {
        struct lull_job_frontier_point *point = &points[b];

        if (!is_best(kept, tolerance_ratio, point))
            continue;
        point->saving_ratio = kept->saving_ratio;
        point->low_ratio = has_interval ? kept->low_ratio : NAN;
        point->high_ratio = has_interval ? kept->high_ratio : NAN;
        point->point = kept->point;
        point->is_measured = true;
        point->reason = NULL;
    }
    make_savings_rise(points);
}
