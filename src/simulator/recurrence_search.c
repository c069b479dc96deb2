/* What a recurring job could save at most. SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <stddef.h>

#include "core/job/cost.h"
#include "simulator/recurrence.h"

/* Mean over the repetitions that reach the target in time; NAN: none does. */
static double mean_epochs(const struct lull_batch_trace_size *size, uint32_t max_epochs)
{
    double sum = 0.0;
    uint32_t count = 0;

    for (uint32_t i = 0; i < size->path_count; i++)
        if (size->paths[i].epochs <= max_epochs) {
            sum += size->paths[i].epochs;
            count++;
        }
    return count == 0 ? NAN : sum / count;
}

static void take_if(struct lull_recurrence_knobs *best, double best_value,
                    const struct lull_recurrence_knobs *knobs, double value)
{
    if (best->size == 0 || value < best_value)
        *best = *knobs;
}

static void consider(struct lull_recurrence_potential *potential,
                     const struct lull_recurrence_knobs *knobs, uint32_t default_size,
                     bool is_highest)
{
    struct lull_recurrence_potential *const p = potential;

    take_if(&p->least_energy, p->least_energy.energy_j, knobs, knobs->energy_j);
    take_if(&p->least_time, p->least_time.time_s, knobs, knobs->time_s);
    take_if(&p->least_cost, p->least_cost.cost, knobs, knobs->cost);
    if (is_highest)
        take_if(&p->best_size, p->best_size.energy_j, knobs, knobs->energy_j);
    if (knobs->size == default_size)
        take_if(&p->best_limit, p->best_limit.energy_j, knobs, knobs->energy_j);
    if (is_highest && knobs->size == default_size)
        p->base = *knobs;
}

int lull_recurrence_search(const struct lull_batch_trace *trace, double eta_ratio,
                           struct lull_recurrence_potential *potential_out, struct lull_error *err)
{
    const struct lull_job_price price = {eta_ratio, trace->max_power_w, 1};
    struct lull_recurrence_potential potential = {0};

    for (uint32_t i = 0; i < trace->size_count; i++) {
        const struct lull_batch_trace_size *size = &trace->sizes[i];
        const double epochs = mean_epochs(size, trace->job.max_epochs);

        for (uint32_t k = 0; k < size->limit_count && !isnan(epochs); k++) {
            const struct lull_batch_trace_limit *limit = &size->limits[k];
            struct lull_recurrence_knobs knobs = {
                .size = size->size,
                .limit_w = limit->limit_w,
                .energy_j = epochs * limit->time_s * limit->power_w,
                .time_s = epochs * limit->time_s,
            };

            knobs.cost = lull_job_cost(&price, knobs.energy_j, knobs.time_s);
            consider(&potential, &knobs, trace->job.default_size,
                     limit->limit_w == trace->max_power_w);
        }
    }
    if (potential.base.size == 0)
        return lull_error_set(
            err, -ENODATA, "%s: batch size %u at %g W never reaches the target %g",
            trace->job.dataset, trace->job.default_size, trace->max_power_w, trace->job.target);
    *potential_out = potential;
    return 0;
}

double lull_recurrence_least_cost(const struct lull_batch_trace *trace, double eta_ratio)
{
    const struct lull_job_price price = {eta_ratio, trace->max_power_w, 1};
    double least = INFINITY;

    for (uint32_t i = 0; i < trace->size_count; i++) {
        const struct lull_batch_trace_size *size = &trace->sizes[i];
        const struct lull_batch_trace_limit *limit = lull_recurrence_choose_limit(size, eta_ratio);
        double epochs = 0.0;
        uint32_t reached = 0;

        for (uint32_t k = 0; k < size->path_count; k++) {
            const bool has_reached = size->paths[k].epochs <= trace->job.max_epochs;

            epochs += has_reached ? size->paths[k].epochs : trace->job.max_epochs;
            reached += has_reached;
        }
        if (reached > 0)
            least = fmin(least,
                         epochs / reached *
                             lull_job_cost(&price, limit->time_s * limit->power_w, limit->time_s));
    }
    return least;
}
