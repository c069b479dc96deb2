/* SPDX-License-Identifier: Apache-2.0 */
#include "core/tuning/limit_search.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/stats/student.h"
#include "core/tuning/limit_bounds.h"

/* Margins by which an operating point must be worse for that not to be noise, as shares: at most,
 * at least, and for the point that ends the way down: where a limit begins to bind, the limiter
 * makes a hump (test_limit_choice has what 400 jobs lose by it). All were judged on the twelve
 * power-limit logs published with Zeus, on which no choice of seven selectors changes
 * (limit_search.h). */
static const double widest_margin = 0.05;
static const double narrowest_margin = 0.02;
static const double hump_margin = 0.08;
/* Excess over a bound on slowdown that an operating point may have once, and one that it may never
 * have. */
static const double over_margin = 0.02;
static const double far_over_margin = 0.10;
/* Two pieces that agree to this share show that the job has settled. */
static const double steady_margin = 0.01;
/* A limit binds where the GPUs draw less than at the reference by this share. */
static const double binding_margin = 0.05;
/* Largest deviation of a job from its curves, beside the noise, and the margin by which a limit
 * must be worse than the best to be skipped. Judged by docs/research/measurements/power-limits.md.
 */
static const double model_margin = 0.03;
static const double dominated_margin = 0.02;
/* The typical settling time, in units of settle_s. */
static const double typical_settling = 1.5;

/* Operating points in a row that are too bad, settle_s that settling may take, and ways up. */
enum { STRIKES = 2, PATIENCE = 3, MAX_ROUNDS = 8 };

enum limit_search_direction {
    DOWN,
    TO_BEST, /* an operating point would end the way down: again what it is compared with... */
    TO_LAST, /* ...and it, since noise may last longer than a visit */
    UP,
};

struct lull_limit_search {
    struct lull_limit_search_config config;
    struct lull_limit_measure measures[LULL_LIMIT_SEARCH_POINTS];
    uint32_t count;
    uint32_t first;    /* of this descent: the limits', or the clocks' */
    uint32_t measured; /* this many, the first ones, have been visited */
    uint32_t end;      /* count, or fewer: pruned */
    uint32_t now;      /* held; count: the end */
    enum limit_search_direction direction;
    double settled_s; /* in this visit of the present operating point */
    double last_s;    /* an iteration of the piece before; 0: none in this visit */
    bool is_settled;
    double visit_s; /* measured in it */
    double spent_s;
    double previous; /* value of the operating point before; INFINITY none */
    uint32_t worse;  /* operating points that were worse and worse */
    uint32_t over;   /* in a row over the bound of slowdown */
    uint32_t rounds; /* ways up that have ended */
    struct lull_limit_visits visits;
    struct lull_limit_bounds *bounds; /* NULL: no limit is skipped, or none any more */
    struct lull_limit_skip skips[LULL_LIMIT_SEARCH_POINTS];
    uint32_t skip_count;
};

const struct lull_limit_search_config lull_limit_search_defaults = {
    .selector = {.aim = LULL_JOB_COST, .price = {.eta_ratio = 0.5, .gpu_count = 1}},
    .slice_s = 5.0,
    .settle_s = 1.0,
    .budget_s = 100.0,
    .precision_ratio = 0.005,
};

uint32_t lull_limit_search_ladder(double highest_w, double lowest_w, double step_w,
                                  struct lull_limit_point *points_out)
{
    const double widest = (highest_w - lowest_w) / (LULL_LIMIT_SEARCH_POINTS - 1);
    const double step = fmax(step_w, widest);
    uint32_t count = 0;

    while (count < LULL_LIMIT_SEARCH_POINTS - 1 && highest_w - count * step > lowest_w) {
        points_out[count] = (struct lull_limit_point){.limit_w = highest_w - count * step};
        count++;
    }
    points_out[count++] = (struct lull_limit_point){.limit_w = lowest_w};
    return count;
}

int lull_limit_search_create(const struct lull_limit_search_config *config,
                             const struct lull_limit_point *points, uint32_t count,
                             struct lull_limit_search **search_out, struct lull_error *err)
{
    const struct lull_cost_point probe = {.level = 1.0, .energy_j = 1.0, .time_s = 1.0};
    struct lull_limit_search *search;
    size_t chosen;
    int result = lull_job_select(&config->selector, &probe, 1, &chosen, err);

    if (result < 0)
        return result;
    if (count == 0 || count > LULL_LIMIT_SEARCH_POINTS || !(config->slice_s > 0.0) ||
        (config->curve != NULL && config->gpu_count == 0) || !(config->settle_s >= 0.0) ||
        !(config->budget_s > 0.0) || !(config->precision_ratio >= 0.0))
        return lull_error_set(err, -EINVAL,
                              "%u operating points, slices of %g s: give 1 to %d operating points",
                              count, config->slice_s, LULL_LIMIT_SEARCH_POINTS);
    for (uint32_t i = 0; i < count; i++)
        if (!(points[i].limit_w > 0.0) || !isfinite(points[i].limit_w) ||
            (i > 0 && !(points[i].limit_w < points[i - 1].limit_w)))
            return lull_error_set(err, -EINVAL, "%g W: give limits from the highest down",
                                  points[i].limit_w);
    search = calloc(1, sizeof(*search));
    if (search == NULL)
        return lull_error_set(err, -ENOMEM, "no memory to profile power limits");
    search->config = *config;
    search->count = count;
    search->end = count;
    search->previous = INFINITY;
    for (uint32_t i = 0; i < count; i++)
        search->measures[i].point = points[i];
    if (config->curve != NULL) {
        search->bounds = lull_limit_bounds_create(config->curve);
        if (search->bounds == NULL) {
            free(search);
            return lull_error_set(err, -ENOMEM, "no memory to profile power limits");
        }
    }
    lull_limit_visits_begin(&search->visits, 0);
    *search_out = search;
    return 0;
}

void lull_limit_search_destroy(struct lull_limit_search *search)
{
    if (search == NULL)
        return;
    lull_limit_bounds_destroy(search->bounds);
    free(search);
}

const struct lull_limit_point *lull_limit_search_now(const struct lull_limit_search *search)
{
    if (search->now >= search->count)
        return NULL;
    return &search->measures[search->now].point;
}

const struct lull_limit_measure *lull_limit_search_measures(const struct lull_limit_search *search,
                                                            uint32_t *measured_out,
                                                            uint32_t *count_out)
{
    *measured_out = search->measured;
    *count_out = search->count + search->skip_count;
    return search->measures;
}

const struct lull_limit_skip *lull_limit_search_skips(const struct lull_limit_search *search,
                                                      uint32_t *count_out)
{
    *count_out = search->skip_count;
    return search->skips;
}

double lull_limit_search_spent_s(const struct lull_limit_search *search)
{
    return search->spent_s;
}

/* ---- values -------------------------------------------------------------------------------- */

double lull_limit_half_width(const struct lull_moments *pieces)
{
    const double degrees = (double)pieces->count - 1.0;

    if (pieces->count < 2)
        return INFINITY;
    return lull_student_quantile(0.975, degrees) *
           sqrt(lull_moments_variance(pieces) / (double)pieces->count);
}

static double mean_s(const struct lull_limit_measure *measure)
{
    return measure->seconds / (double)measure->iterations;
}

static double mean_j(const struct lull_limit_measure *measure)
{
    return measure->joules / (double)measure->iterations;
}

static double mean_w(const struct lull_limit_measure *measure)
{
    return measure->joules / measure->seconds;
}

/* Value of an iteration for the aim, without regard to a bound on slowdown. The root of the
 * energy-delay product is taken, so that one per cent of energy or time weighs alike for all aims.
 */
static double value_at(const struct lull_job_selector *selector, double energy_j, double time_s)
{
    const double value = lull_job_value(selector, energy_j, time_s);

    return selector->aim == LULL_JOB_DELAY ? sqrt(value) : value;
}

static double limit_search_value_of(const struct lull_limit_search *search,
                                    const struct lull_limit_measure *measure)
{
    return value_at(&search->config.selector, mean_j(measure), mean_s(measure));
}

int lull_limit_choose(const struct lull_job_selector *selector,
                      const struct lull_limit_measure *measures, uint32_t count,
                      uint32_t *index_out, struct lull_error *err)
{
    struct lull_cost_point points[LULL_LIMIT_SEARCH_POINTS];
    size_t best;
    int result;

    if (count > LULL_LIMIT_SEARCH_POINTS)
        return lull_error_set(err, -EINVAL, "%u operating points: at most %d", count,
                              LULL_LIMIT_SEARCH_POINTS);
    for (uint32_t i = 0; i < count; i++)
        points[i] = (struct lull_cost_point){
            .level = (double)(count - i), /* the first one is the reference */
            .energy_j = mean_j(&measures[i]),
            .time_s = mean_s(&measures[i]),
        };
    result = lull_job_select(selector, points, count, &best, err);
    if (result != 0)
        return result;
    *index_out = (uint32_t)best;
    return 0;
}

/* The best of the measured operating points; null: there are none. */
static const struct lull_limit_measure *
limit_search_find_best(const struct lull_limit_search *search)
{
    uint32_t best;

    if (search->measured == 0 || lull_limit_choose(&search->config.selector, search->measures,
                                                   search->measured, &best, NULL) < 0)
        return NULL;
    return &search->measures[best];
}

static double relative_width(const struct lull_moments *pieces)
{
    if (pieces->count < LULL_LIMIT_SEARCH_PIECES)
        return INFINITY;
    return lull_limit_half_width(pieces) / pieces->mean;
}

/* The share by which one must be over the other for that not to be noise, at least `least`. */
static double margin_between(const struct lull_limit_measure *a, const struct lull_limit_measure *b,
                             double least)
{
    const double time = hypot(relative_width(&a->iteration_s), relative_width(&b->iteration_s));
    const double energy = hypot(relative_width(&a->iteration_j), relative_width(&b->iteration_j));

    return fmin(fmax(fmax(time, energy), least), widest_margin);
}

/* ---- one operating point ------------------------------------------------------------------- */

/* Returns whether it is far worse than the best even if both intervals lie at their near ends. */
static bool limit_search_is_hopeless(const struct lull_limit_search *search,
                                     const struct lull_limit_measure *measure)
{
    const struct lull_limit_measure *best = limit_search_find_best(search);
    const double time_s = mean_s(measure) - lull_limit_half_width(&measure->iteration_s);
    const double energy_j = mean_j(measure) - lull_limit_half_width(&measure->iteration_j);

    return best != NULL && time_s > 0.0 && energy_j > 0.0 &&
           value_at(&search->config.selector, energy_j, time_s) >
               LULL_LIMIT_SEARCH_FAR * limit_search_value_of(search, best);
}

/* Returns whether it may turn out to be the best after all. The first time with some margin, for
 * what would look different at another temperature or a minute later. */
static bool is_contender(const struct lull_limit_search *search,
                         const struct lull_limit_measure *measure,
                         const struct lull_limit_measure *best)
{
    const struct lull_job_selector *selector = &search->config.selector;
    const struct lull_limit_measure *reference = &search->measures[0];
    const double over = mean_s(measure) / mean_s(reference) - 1.0 - selector->slowdown_ratio;
    double max_over = over_margin;
    double min_margin = narrowest_margin;

    if (search->rounds > 0) {
        max_over = fmin(over_margin, margin_between(measure, reference, 0.0));
        min_margin = 0.0;
    }
    if (selector->aim == LULL_JOB_SLOWDOWN && over > max_over)
        return false;
    return limit_search_value_of(search, measure) <=
           limit_search_value_of(search, best) * (1.0 + margin_between(measure, best, min_margin));
}

/* Number of visits of half a slice for which there is still time. */
static double affordable_visits(const struct lull_limit_search *search)
{
    const struct lull_limit_search_config *config = &search->config;

    return (config->budget_s - search->spent_s) /
           (typical_settling * config->settle_s + 0.5 * config->slice_s);
}

/* Returns whether a point is visited again on the way up: it is one of the best contenders still
 * above, of which there are as many as there is time for. */
static bool is_worth_another_visit(const struct lull_limit_search *search, uint32_t index)
{
    const struct lull_limit_measure *best = limit_search_find_best(search);
    const double own = limit_search_value_of(search, &search->measures[index]);
    uint32_t better = 0;

    if (!is_contender(search, &search->measures[index], best))
        return false;
    for (uint32_t i = search->first; i < search->now; i++)
        better += is_contender(search, &search->measures[i], best) &&
                  limit_search_value_of(search, &search->measures[i]) < own;
    return better == 0 || better < affordable_visits(search);
}

/* The visits that are to be made yet, including this one; on the way down, as if half of the
 * operating points were contenders. */
static double visits_left(const struct lull_limit_search *search)
{
    uint32_t above = 0;

    if (search->direction != UP)
        return search->end - search->measured + 0.5 * (search->end - search->first);
    for (uint32_t i = search->first; i < search->now; i++)
        above += is_worth_another_visit(search, i);
    return above + 1.0;
}

/* The visits that are left share what is left of the budget. */
static double visit_limit_s(const struct lull_limit_search *search)
{
    const double left_s =
        search->config.budget_s - search->spent_s + search->visit_s + search->settled_s;

    return fmin(0.5 * search->config.slice_s,
                left_s / visits_left(search) - search->config.settle_s);
}

static bool limit_search_is_measured(const struct lull_limit_search *search,
                                     const struct lull_limit_measure *measure)
{
    const double precision = search->config.precision_ratio;

    return search->visit_s >= visit_limit_s(search) ||
           (relative_width(&measure->iteration_s) <= precision &&
            relative_width(&measure->iteration_j) <= precision) ||
           limit_search_is_hopeless(search, measure);
}

/* ---- the order of operating points --------------------------------------------------------- */

/* Returns whether it passes the bound so far that lower limits need not be tried. */
static bool is_too_slow(struct lull_limit_search *search, const struct lull_limit_measure *measure)
{
    const double over = mean_s(measure) / mean_s(&search->measures[0]) - 1.0 -
                        search->config.selector.slowdown_ratio;

    search->over++;
    if (!(over > over_margin))
        search->over = 0;
    return over > far_over_margin || search->over >= STRIKES;
}

/* Two worse points in a row are requested, because where a limit begins to bind the limiter makes a
 * hump that lower limits may come down from. */
static bool is_too_bad(struct lull_limit_search *search, const struct lull_limit_measure *measure)
{
    const struct lull_limit_measure *best = limit_search_find_best(search);
    const double now = limit_search_value_of(search, measure);
    double over = 0.0;

    if (best != NULL)
        over = now / limit_search_value_of(search, best) - 1.0;
    if (over > LULL_LIMIT_SEARCH_FAR - 1.0)
        return true;
    if (best == NULL || over <= margin_between(measure, best, narrowest_margin))
        search->worse = 0;
    else if (now > search->previous)
        search->worse++;
    search->previous = now;
    return search->worse >= STRIKES && over > hump_margin;
}

/* Returns whether the GPUs draw less than at the reference. */
static bool is_binding(const struct lull_limit_search *search,
                       const struct lull_limit_measure *measure)
{
    return mean_w(measure) < (1.0 - binding_margin) * mean_w(&search->measures[0]);
}

static bool is_last(struct lull_limit_search *search, const struct lull_limit_measure *measure)
{
    if (!is_binding(search, measure))
        return false;
    if (search->config.selector.aim == LULL_JOB_SLOWDOWN && is_too_slow(search, measure))
        return true;
    /* The savings of a point that is too slow to be chosen are no evidence. */
    return search->over == 0 && is_too_bad(search, measure);
}

/* Returns the measurement with which an operating point that ends the search is compared. */
static uint32_t find_measure_of_last(const struct lull_limit_search *search)
{
    const struct lull_limit_measure *best = limit_search_find_best(search);

    if (search->config.selector.aim == LULL_JOB_SLOWDOWN || best == NULL)
        return 0;
    return (uint32_t)(best - search->measures);
}

/* Returns whether what was seen twice still says that nothing below can be better. */
static bool is_still_last(const struct lull_limit_search *search,
                          const struct lull_limit_measure *last)
{
    const struct lull_job_selector *selector = &search->config.selector;
    const struct lull_limit_measure *best = limit_search_find_best(search);

    if (selector->aim == LULL_JOB_SLOWDOWN &&
        mean_s(last) / mean_s(&search->measures[0]) - 1.0 - selector->slowdown_ratio > over_margin)
        return true;
    return best != NULL && limit_search_value_of(search, last) >
                               (1.0 + hump_margin) * limit_search_value_of(search, best);
}

/* Contenders of this descent that have been measured. */
static uint32_t count_contenders(const struct lull_limit_search *search)
{
    const struct lull_limit_measure *best = limit_search_find_best(search);
    uint32_t contenders = 0;

    for (uint32_t i = search->first; i < search->measured; i++)
        contenders += is_contender(search, &search->measures[i], best);
    return contenders;
}

static uint32_t next_above(const struct lull_limit_search *search)
{
    for (uint32_t i = search->now; i-- > search->first;)
        if (is_worth_another_visit(search, i))
            return i;
    return search->count;
}

/* On the way up: the next one, as long as there is time; at the top, up again from the bottom until
 * one is left. count: the end. */
static uint32_t find_above(struct lull_limit_search *search)
{
    uint32_t next;

    if (search->config.budget_s - search->spent_s <= search->config.settle_s)
        return search->count;
    next = next_above(search);
    if (next < search->count)
        return next;
    search->now = search->measured;
    if (++search->rounds > MAX_ROUNDS || count_contenders(search) < 2)
        return search->count;
    return next_above(search);
}

/* A limiter may take its time: until two pieces agree, but not for ever. */
static bool limit_search_has_settled(struct lull_limit_search *search, double seconds,
                                     double iteration_s)
{
    const double settle_s = search->config.settle_s;
    const bool agrees = fabs(iteration_s - search->last_s) <= steady_margin * iteration_s;

    if (!search->is_settled)
        search->is_settled = (search->settled_s >= settle_s && (agrees || settle_s == 0.0)) ||
                             search->settled_s >= PATIENCE * settle_s;
    if (!search->is_settled)
        search->settled_s += seconds;
    search->last_s = iteration_s;
    return search->is_settled;
}

static void begin_visit(struct lull_limit_search *search)
{
    search->settled_s = 0.0;
    search->last_s = 0.0;
    search->is_settled = false;
    search->visit_s = 0.0;
    lull_limit_visits_begin(&search->visits, search->now);
}

/* ---- dominated limits ----------------------------------------------------------------------- */

static struct lull_limit_known known_of(const struct lull_limit_search *search,
                                        const struct lull_limit_measure *measure)
{
    const double width =
        fmax(relative_width(&measure->iteration_s), relative_width(&measure->iteration_j));

    return (struct lull_limit_known){
        .limit_w = measure->point.limit_w,
        .time_s = mean_s(measure),
        .energy_j = mean_j(measure) / search->config.gpu_count,
        .tolerance_ratio = model_margin + fmin(width, widest_margin),
    };
}

/* Takes a limit that was not visited off the list. */
static void limit_search_skip(struct lull_limit_search *search, uint32_t index, double excess)
{
    struct lull_limit_measure *const at = &search->measures[index];

    search->skips[search->skip_count++] =
        (struct lull_limit_skip){.limit_w = at->point.limit_w, .over_ratio = excess};
    memmove(at, at + 1, (search->count - index - 1) * sizeof(*at));
    search->count--;
    search->end--;
}

/* Skips what lies below and is dominated by what was measured. */
static void skip_dominated(struct lull_limit_search *search)
{
    struct lull_limit_known known[LULL_LIMIT_SEARCH_POINTS];
    const struct lull_limit_aim aim = {&search->config.selector, search->config.gpu_count,
                                       over_margin};
    uint32_t i = search->measured;

    if (search->bounds == NULL || search->first > 0 || search->end < search->count)
        return;
    for (uint32_t m = 0; m < search->measured; m++)
        known[m] = known_of(search, &search->measures[m]);
    lull_limit_bounds_learn(search->bounds, known, search->measured);
    while (i < search->end) {
        const double excess = lull_limit_bounds_excess(
            search->bounds, &aim, known, search->measured, search->measures[i].point.limit_w);

        if (excess > dominated_margin)
            limit_search_skip(search, i, excess);
        else
            i++;
    }
}

static void limit_search_continue_down(struct lull_limit_search *search)
{
    skip_dominated(search);
    search->now = search->measured;
    search->direction = DOWN;
    if (search->measured == search->end)
        search->direction = UP;
}

/* The present operating point is known; on to the next one, unless it shows that none can be
 * better. */
static void limit_search_conclude(struct lull_limit_search *search)
{
    const struct lull_limit_measure *measure = &search->measures[search->now];

    search->measures[search->now].is_done = true;
    switch (search->direction) {
    case DOWN:
        search->measured++;
        if (is_last(search, measure)) {
            search->direction = TO_BEST;
            search->now = find_measure_of_last(search);
        } else {
            limit_search_continue_down(search);
        }
        break;
    case TO_BEST:
        search->direction = TO_LAST;
        search->now = search->measured - 1;
        break;
    case TO_LAST:
        if (is_still_last(search, measure))
            search->end = search->measured;
        search->worse = 0;
        limit_search_continue_down(search);
        break;
    case UP:
        break;
    }
    if (search->direction == UP)
        search->now = find_above(search);
    if (search->now < search->count)
        begin_visit(search);
}

static enum lull_limit_kind limit_search_kind_of(const struct lull_limit_search *search,
                                                 const struct lull_limit_measure *measure)
{
    if (measure->point.sm_mhz != 0)
        return LULL_LIMIT_LOCKED;
    if (is_binding(search, measure))
        return LULL_LIMIT_BOUND;
    return LULL_LIMIT_FREE;
}

/* Updates all operating points, now that the visits show more about the effect of temperature. */
static void limit_search_update_measures(struct lull_limit_search *search)
{
    enum lull_limit_kind kinds[LULL_LIMIT_SEARCH_POINTS];
    double seconds[LULL_LIMIT_SEARCH_POINTS];
    double joules[LULL_LIMIT_SEARCH_POINTS];

    for (uint32_t i = 0; i < search->count; i++)
        kinds[i] = limit_search_kind_of(search, &search->measures[i]);
    lull_limit_visits_settle(&search->visits, kinds, search->count, seconds, joules);
    for (uint32_t i = 0; i < search->count; i++) {
        search->measures[i].seconds = seconds[i];
        search->measures[i].joules = joules[i];
    }
}

bool lull_limit_search_take(struct lull_limit_search *search, uint64_t iterations, double seconds,
                            double joules, double temperature_c)
{
    struct lull_limit_measure *measure = &search->measures[search->now];

    if (search->now >= search->count || iterations == 0 || !(seconds > 0.0) || !(joules >= 0.0) ||
        !isfinite(seconds) || !isfinite(joules))
        return false;
    search->spent_s += seconds;
    lull_limit_visits_feel(&search->visits, seconds, joules / seconds, temperature_c);
    if (!limit_search_has_settled(search, seconds, seconds / (double)iterations))
        return false;
    search->visit_s += seconds;
    measure->iterations += iterations;
    lull_limit_visits_take(&search->visits, iterations, seconds, joules, temperature_c);
    limit_search_update_measures(search);
    lull_moments_add(&measure->iteration_s, seconds / (double)iterations);
    lull_moments_add(&measure->iteration_j, joules / (double)iterations);
    if (!limit_search_is_measured(search, measure))
        return false;
    limit_search_conclude(search);
    return true;
}

int lull_limit_search_refine(struct lull_limit_search *search, const uint32_t *clocks_mhz,
                             uint32_t count, struct lull_error *err)
{
    uint32_t best = 0;
    int result = 0;

    if (search->now < search->count || count > LULL_LIMIT_SEARCH_POINTS - search->measured)
        return lull_error_set(err, -EINVAL, "%u clocks: at most %u, after the limits", count,
                              LULL_LIMIT_SEARCH_POINTS - search->measured);
    result =
        lull_limit_choose(&search->config.selector, search->measures, search->measured, &best, err);
    if (result < 0)
        return result;
    for (uint32_t i = 0; i < count; i++)
        search->measures[search->measured + i] = (struct lull_limit_measure){
            .point = {search->measures[best].point.limit_w, clocks_mhz[i]}};
    search->count = search->measured + count;
    search->end = search->count;
    search->first = search->measured;
    search->now = search->measured;
    search->direction = DOWN;
    search->config.budget_s += search->spent_s;
    search->previous = INFINITY;
    search->worse = 0;
    search->over = 0;
    search->rounds = 0;
    begin_visit(search);
    return 0;
}
