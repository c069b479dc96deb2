/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/core/bound/preemptive_alone.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>

/* Chosen with the two below so that a search ends near the best value; not measured individually,
 * since any value proves a bound. */
enum { MAX_TRIALS = 10 };

/* The first step from the last search's value, as a share of the distance between the least value
 * and it. */
static const double first_step = 0.02;

/* Margin above the best value at which a job requests the slots of that cost, as a share of the
 * value. Default: it only guides the search. */
static const double min_above = 1e-6;

/* The search ends if the requested progress is this close to 1, where the bound is highest. */
static const double close_enough = 0.01;

/* One search. */
struct alone_search {
    const struct lull_preemptive_job *job;
    const struct lull_preemptive_slots *slots;
    const double *gpu_w;
    double *use;                           /* NULL: only look */
    double use_ratio;                      /* the share of the request that counts as use */
    double own_j[LULL_CLUSTER_MAX_POINTS]; /* of a unit in each operating point, with no prices */
    double min_j;                          /* nothing is requested at this value or less */
    double bound_j;                        /* the best */
    double worth_j;                        /* value at which the bound is best */
};

/* The request of a job as a function of the value of a unit of progress. */
struct preemptive_alone_asked {
    double loss_j;
    double progress;
    double time_s;
};

const struct lull_preemptive_point *
lull_preemptive_best_point(const struct lull_preemptive_job *job, double *cost_j_out)
{
    const struct lull_preemptive_point *best = NULL;

    *cost_j_out = INFINITY;
    for (uint32_t i = 0; i < job->point_count; i++) {
        const double cost_j = job->points[i].energy_j + job->second_j * job->points[i].time_s;

        if (cost_j < *cost_j_out) {
            *cost_j_out = cost_j;
            best = &job->points[i];
        }
    }
    return best;
}

/* ---- one value ---------------------------------------------------------------------------- */

/* Computes the cost of a unit of progress in each operating point, without the wait until then.
 * Returns the least. */
static double price_units(const struct alone_search *search, uint32_t slot, double *unit_j_out)
{
    double min_j = INFINITY;

    for (uint32_t i = 0; i < search->job->point_count; i++) {
        const struct lull_preemptive_point *point = &search->job->points[i];

        unit_j_out[i] = search->own_j[i] + point->gpu_s * search->gpu_w[point->row + slot];
        min_j = fmin(min_j, unit_j_out[i]);
    }
    return min_j;
}

/* Adds half of the progress that the best operating point would make in a time, at a value per
 * unit: the trapezoid over a slot is half of the request at its start and half of the request at
 * its end. */
static void alone_ask_slot(struct alone_search *search, uint32_t slot, const double *unit_j,
                           double worth_j, double time_s, struct preemptive_alone_asked *asked)
{
    const struct lull_preemptive_point *best = NULL;
    double most_w = -INFINITY;

    for (uint32_t i = 0; i < search->job->point_count; i++) {
        const struct lull_preemptive_point *point = &search->job->points[i];
        const double gain_w = (worth_j - unit_j[i]) * point->rate;

        if (gain_w > most_w) {
            most_w = gain_w;
            best = point;
        }
    }
    assert(best != NULL);
    asked->loss_j += 0.5 * time_s * fmax(most_w, 0.0);
    asked->progress += 0.5 * time_s * best->rate;
    asked->time_s += 0.5 * time_s;
    if (search->use != NULL)
        search->use[best->row + slot] +=
            search->use_ratio * 0.5 * time_s * best->gpu_s * best->rate;
}

static struct preemptive_alone_asked alone_ask_all(struct alone_search *search, double worth_j)
{
    const struct lull_preemptive_job *job = search->job;
    const struct lull_preemptive_slots *slots = search->slots;
    double unit_j[LULL_CLUSTER_MAX_POINTS];
    struct preemptive_alone_asked asked = {0};
    double at_s = job->arrival_s;

    for (uint32_t slot = (uint32_t)fmin(at_s / slots->slot_s, slots->slots); slot < slots->slots;
         slot++) {
        const double left_j = worth_j - job->second_j * (at_s - job->arrival_s);
        const double end_s = fmin((slot + 1.0) * slots->slot_s, job->deadline_s);
        double gain_j;

        if (left_j <= search->min_j || at_s >= job->deadline_s)
            break;
        gain_j = left_j - price_units(search, slot, unit_j);
        if (gain_j > 0.0 && end_s > at_s) {
            const double time_s = fmin(end_s - at_s, gain_j / job->second_j);

            alone_ask_slot(search, slot, unit_j, left_j, time_s, &asked);
            alone_ask_slot(search, slot, unit_j, left_j - job->second_j * time_s, time_s, &asked);
        }
        at_s = fmax(at_s, end_s);
    }
    return asked;
}

/* ---- the best value ----------------------------------------------------------------------- */

static struct preemptive_alone_asked alone_evaluate(struct alone_search *search, double worth_j)
{
    const struct preemptive_alone_asked asked = alone_ask_all(search, worth_j);
    const double bound_j =
        worth_j - asked.loss_j - 0.5 * search->job->second_j * search->job->tau_s;

    if (bound_j > search->bound_j) {
        search->bound_j = bound_j;
        search->worth_j = worth_j;
    }
    return asked;
}

static bool ends_within_slots(const struct alone_search *search)
{
    return search->job->deadline_s <= search->slots->slot_s * search->slots->slots;
}

/* The least first step, as a share of the highest value. With a deadline the highest value is far
 * above any likely one, and a job that waits at no cost starts at the least. */
static double least_step(const struct alone_search *search)
{
    return ends_within_slots(search) ? 1e-4 : 1e-9;
}

/* The bound rises with the value as long as less than the whole progress is requested. The search
 * starts where the last one ended, takes increasing steps until the bound falls, and then bisects.
 * Above max_j all progress would be requested after the slots. */
static void alone_climb(struct alone_search *search, double max_j)
{
    double low_j = search->min_j;
    double high_j = max_j;
    double at_j = fmin(fmax(search->job->worth_j, low_j), max_j);
    double step_j = first_step * (at_j - low_j) + least_step(search) * max_j;

    for (int i = 0; i < MAX_TRIALS && high_j > low_j; i++) {
        const double progress = alone_evaluate(search, at_j).progress;

        if (fabs(progress - 1.0) < close_enough || search->bound_j >= search->job->value_j)
            break;
        if (progress < 1.0) {
            low_j = at_j;
            at_j = fmin(at_j + step_j, 0.5 * (low_j + high_j));
        } else {
            high_j = at_j;
            at_j = fmax(at_j - step_j, 0.5 * (low_j + high_j));
        }
        step_j *= 4.0;
    }
}

/* The highest useful value: the cost of doing all the work after the slots, where GPUs are free. If
 * the deadline forbids that, it is a multiple of the cost of leaving the job out (default: any
 * value proves a bound there). */
static double most_worth_j(const struct alone_search *search)
{
    const double end_s = search->slots->slot_s * search->slots->slots;

    if (ends_within_slots(search) && !isinf(search->job->value_j))
        return search->min_j + 4.0 * (search->job->value_j + fabs(search->min_j));
    return search->min_j + search->job->second_j * fmax(end_s - search->job->arrival_s, 0.0);
}

static void set_own(struct alone_search *search)
{
    const struct lull_preemptive_job *job = search->job;

    search->min_j = INFINITY;
    for (uint32_t i = 0; i < job->point_count; i++) {
        search->own_j[i] =
            job->points[i].energy_j + job->second_j * fmin(job->points[i].time_s, job->tau_s);
        search->min_j = fmin(search->min_j, search->own_j[i]);
    }
}

/* Adds the GPU-seconds that the job would take at the value where the bound is highest. Without a
 * cost of waiting many slots cost the same. At exactly that value no slot is requested, and
 * slightly above it all of them are; the job then takes a share of each. */
static struct preemptive_alone_asked add_use(struct alone_search *search, double *use)
{
    double worth_j = search->worth_j;

    search->use_ratio = 1.0;
    if (ends_within_slots(search)) {
        worth_j += min_above * (fabs(worth_j) + fabs(search->min_j));
        search->use_ratio = 1.0 / fmax(alone_ask_all(search, worth_j).progress, 1.0);
    }
    search->use = use;
    return alone_ask_all(search, worth_j);
}

double lull_preemptive_alone_j(struct lull_preemptive_job *job,
                               const struct lull_preemptive_slots *slots, const double *gpu_w,
                               double *use)
{
    struct alone_search search = {.job = job, .slots = slots, .gpu_w = gpu_w, .bound_j = -INFINITY};
    double alone_j;
    const struct lull_preemptive_point *best = lull_preemptive_best_point(job, &alone_j);
    struct preemptive_alone_asked asked;

    if (job->tau_s <= 0.0) {
        job->tau_s = best->time_s;
        job->worth_j = alone_j + 0.5 * job->second_j * job->tau_s;
    }
    set_own(&search);
    alone_climb(&search, most_worth_j(&search));
    if (fmax(search.bound_j, alone_j) >= job->value_j)
        return 0.0;
    asked = add_use(&search, use);
    job->worth_j = search.worth_j;
    if (asked.progress > 0.0)
        job->tau_s = asked.time_s / asked.progress;
    return fmax(search.bound_j, alone_j) - (isinf(job->value_j) ? 0.0 : job->value_j);
}
