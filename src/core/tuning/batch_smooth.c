/*
 * The search for the batch size. The logarithm of a size's mean cost lies on a smooth curve over
 * the logarithm of the size, so every size that was run informs the estimates of the others. All
 * share one noise, so that two alike results do not look like certainty. Thompson sampling on that
 * curve, among the sizes that have reached the target and their next neighbours: the search walks
 * outwards as long as it pays, and a size is not visited twice to be dropped. What was chosen but
 * for luck repeats the best size.
 *
 * docs/research/measurements/batch-jobs.md has the reason for each number.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>

#include "core/tuning/batch_state.h"
#include "core/tuning/curve.h"
#include "core/stats/random.h"

enum {
    TRIES = 3,   /* attempts of a recurrence; from this one on there is no bound */
    GIVE_UP = 2, /* results after which a size that never reached the target is left */
};

/* x counts octaves of batch size, values are logarithms of cost.
 * docs/research/measurements/batch-jobs.md says what was tried.
 */
static const struct lull_curve_prior prior = {
    .length = 3.0, .amplitude = 0.7, .height = 1.0, .roughness = 0.08};

/* Deviations of the curve count this much in a draw: the horizon of a job is some hundred runs, and
 * Thompson sampling is made for longer ones. docs/research/measurements/batch-jobs.md has the
 * results. */
static const double boldness_ratio = 0.7;

struct outlook {
    struct lull_batch_summary summaries[LULL_BATCH_SIZES];
    struct lull_curve curve;
    double noise_variance;
    bool is_candidate[LULL_BATCH_SIZES];
    bool is_out[LULL_BATCH_SIZES]; /* it crashes, or has crashed in this recurrence */
    int best; /* of those that have reached the target and are not out; -1: none */
};

/* Candidates are the sizes that have reached the target and their neighbours; a size that has
 * failed and never reached it is given up. */
static void find_candidates(const struct lull_batch *batch, struct outlook *outlook)
{
    const struct lull_batch_summary *s = outlook->summaries;
    const size_t count = batch->config.size_count;

    for (size_t i = 0; i < count; i++) {
        const bool is_near =
            (i > 0 && s[i - 1].reached_count > 0) || (i + 1 < count && s[i + 1].reached_count > 0);

        outlook->is_candidate[i] =
            !outlook->is_out[i] && (s[i].reached_count > 0 || (is_near && s[i].count < GIVE_UP));
    }
}

/* Finds the sizes that crash, and those that have crashed in the recurrence of the run that is
 * repeated. */
static void find_out(const struct lull_batch *batch, const struct lull_batch_run *before,
                     struct outlook *outlook)
{
    for (uint32_t i = 0; i < batch->config.size_count; i++)
        outlook->is_out[i] = lull_batch_has_crashed(batch, i);
    for (; before != NULL; before = lull_batch_find_run(batch, before->retry_of))
        if (before->has_crashed)
            outlook->is_out[before->arm] = true;
}

/* Fits the curve to all results, and finds the candidates and the best of them. before: the run
 * that is repeated; null: none. Returns false if nothing has been seen since the last change. */
static bool batch_curve_fit(const struct lull_batch *batch, const struct lull_batch_run *before,
                            struct outlook *outlook)
{
    const size_t count = batch->config.size_count;
    struct lull_curve_point points[LULL_BATCH_SIZES];
    size_t observed = 0;

    outlook->noise_variance = lull_batch_summarize(batch, outlook->summaries);
    for (size_t i = 0; i < count; i++) {
        points[i] = (struct lull_curve_point){.x = log2(batch->sizes[i]),
                                              .count = outlook->summaries[i].count,
                                              .value = outlook->summaries[i].mean_log};
        observed += points[i].count > 0;
    }
    outlook->best = -1;
    find_out(batch, before, outlook);
    if (observed == 0)
        return false;
    lull_curve_fit(&prior, points, count, outlook->noise_variance, &outlook->curve);
    find_candidates(batch, outlook);
    for (size_t i = 0; i < count; i++)
        if (outlook->summaries[i].reached_count > 0 && !outlook->is_out[i] &&
            (outlook->best < 0 || outlook->curve.mean[i] < outlook->curve.mean[outlook->best]))
            outlook->best = (int)i;
    return true;
}

/* Finds the size to use where there is nothing to learn, or nothing is known. */
static uint32_t batch_curve_fallback(const struct lull_batch *batch)
{
    const int cheapest = lull_batch_cheapest_arm(batch);

    if (cheapest < 0)
        return batch->default_arm;
    return (uint32_t)cheapest;
}

static uint32_t batch_curve_draw(const struct lull_batch *batch, const struct outlook *outlook)
{
    const struct lull_curve *curve = &outlook->curve;
    struct lull_random random;
    double normals[LULL_BATCH_SIZES];
    double least = INFINITY;
    uint32_t best = (uint32_t)outlook->best;

    lull_random_init(&random, lull_batch_draw_seed(batch));
    for (size_t i = 0; i < curve->count; i++) {
        double value = curve->mean[i];

        normals[i] = lull_random_normal(&random, 0.0, 1.0);
        for (size_t k = 0; k <= i; k++)
            value += boldness_ratio * curve->factor[i][k] * normals[k];
        if (outlook->is_candidate[i] && value < least) {
            least = value;
            best = (uint32_t)i;
        }
    }
    return best;
}

/* One run at a time finds out whether a size works at all. */
static bool is_being_tried(const struct lull_batch *batch, uint32_t arm)
{
    for (size_t i = 0; i < batch->run_count; i++)
        if (batch->runs[i].arm == arm && !batch->runs[i].is_over)
            return true;
    return false;
}

/* beta times what the best size costs; the best size's own runs are given what luck may request. */
static double batch_curve_find_bound(const struct lull_batch *batch, const struct outlook *outlook,
                                     uint32_t arm)
{
    const double luck = 3.0;
    const double best_log = outlook->curve.mean[outlook->best];
    const double bound = batch->config.beta_ratio * exp(best_log);

    if ((int)arm != outlook->best)
        return bound;
    return fmax(bound, exp(best_log + luck * sqrt(outlook->noise_variance)));
}

/* If nothing has reached the target, sizes are tried in turn, from the default on, those tried
 * least first. Sizes that are out come last. */
static uint32_t try_in_turn(const struct lull_batch *batch, const struct outlook *outlook)
{
    uint32_t least = batch->default_arm;

    for (uint32_t i = 0; i < batch->config.size_count; i++) {
        const bool is_better = outlook->is_out[least] && !outlook->is_out[i];
        const bool is_worse = outlook->is_out[i] && !outlook->is_out[least];

        if (is_better ||
            (!is_worse && outlook->summaries[i].count + lull_batch_crashes(batch, i) <
                              outlook->summaries[least].count + lull_batch_crashes(batch, least)))
            least = i;
    }
    return least;
}

void lull_batch_smooth_choose(const struct lull_batch *batch, const struct lull_batch_run *before,
                              struct lull_batch_choice *choice)
{
    struct outlook outlook;
    const bool is_known = batch_curve_fit(batch, before, &outlook);
    const uint32_t attempt = before->attempt + 1;
    uint32_t arm;

    choice->bound = INFINITY;
    if (outlook.best < 0) {
        const bool has_ever = lull_batch_cheapest_arm(batch) >= 0;

        arm = batch_curve_fallback(batch);
        if ((is_known && !has_ever) || outlook.is_out[arm])
            arm = try_in_turn(batch, &outlook);
        choice->is_exploring = !has_ever;
    } else {
        arm = batch_curve_draw(batch, &outlook);
        if (attempt > 1 || (outlook.summaries[arm].count == 0 && is_being_tried(batch, arm)))
            arm = (uint32_t)outlook.best;
        choice->is_exploring = (int)arm != outlook.best;
        if (attempt < TRIES)
            choice->bound = batch_curve_find_bound(batch, &outlook, arm);
    }
    choice->size = batch->sizes[arm];
}

uint32_t lull_batch_smooth_best(const struct lull_batch *batch)
{
    struct outlook outlook;

    batch_curve_fit(batch, NULL, &outlook);
    if (outlook.best < 0)
        return batch_curve_fallback(batch);
    return (uint32_t)outlook.best;
}

/* Returns whether there is an untried size that may well be better than the best. */
bool lull_batch_is_exploring(const struct lull_batch *batch)
{
    const double doubt = 2.0; /* deviations */
    struct outlook outlook;

    if (!batch_curve_fit(batch, NULL, &outlook) || outlook.best < 0)
        return true;
    for (size_t i = 0; i < batch->config.size_count; i++)
        if (outlook.is_candidate[i] && outlook.summaries[i].count == 0 &&
            outlook.curve.mean[i] - doubt * outlook.curve.deviation[i] <
                outlook.curve.mean[outlook.best])
            return true;
    return false;
}

void lull_batch_smooth_accept(const struct lull_batch *batch, uint32_t arm,
                              struct lull_batch_belief *belief)
{
    struct outlook outlook;
    const bool is_known = batch_curve_fit(batch, NULL, &outlook);

    *belief = (struct lull_batch_belief){.is_candidate = true, .mean = NAN, .deviation = NAN};
    if (!is_known) {
        belief->is_candidate = !outlook.is_out[arm];
        return;
    }
    belief->count = outlook.summaries[arm].count;
    belief->mean = exp(outlook.curve.mean[arm]);
    belief->deviation = belief->mean * outlook.curve.deviation[arm];
    belief->is_candidate = !outlook.is_out[arm] && (outlook.best < 0 || outlook.is_candidate[arm]);
}
