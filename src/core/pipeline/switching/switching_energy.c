/*
 * Cost of switching that is fed forward: the clocks that a plan controller requests, and the clocks
 * that operations then run at. SPDX-License-Identifier: Apache-2.0
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "core/pipeline/switching/switching_state.h"
#include "core/pipeline/rounding/driver_calls.h"

/* The operations of a device, one iteration after the other. */
struct switching_energy_part {
    const struct lull_pipeline_timed_plan *plan;
    const uint32_t *ops; /* in the device's order */
    uint32_t count;
};

/* Places count on through the iterations: place `count` is the first operation of the next one. */
static uint32_t switch_energy_op_at(const struct switching_energy_part *part, uint32_t place)
{
    return part->ops[place % part->count];
}

static const struct lull_pipeline_point *
switch_energy_point_at(const struct switching_energy_part *part, uint32_t place)
{
    return lull_pipeline_point_of(part->plan->problem, part->plan->point,
                                  switch_energy_op_at(part, place));
}

static uint32_t mhz_at(const struct switching_energy_part *part, uint32_t place)
{
    return switch_energy_point_at(part, place)->sm_mhz;
}

static int64_t end_at(const struct switching_energy_part *part, uint32_t place)
{
    return part->plan->end_ns[switch_energy_op_at(part, place)] +
           place / part->count * part->plan->period_ns;
}

static int64_t switch_energy_begin_at(const struct switching_energy_part *part, uint32_t place)
{
    return end_at(part, place) - switch_energy_point_at(part, place)->time_ns;
}

/* The clock that is requested, one that still holds, and when the operation before really ended. */
struct switching_energy_asked {
    uint32_t mhz;
    uint32_t held_mhz;
    int64_t held_until_ns;
    int64_t ended_ns;
};

/* Returns whether an operation's lower clock can take effect before the next raising is requested.
 */
static bool is_worth_lowering(const struct switching_energy_part *part, uint32_t place,
                              const struct switching_energy_asked *asked)
{
    const int64_t needed_ns =
        asked->ended_ns + part->plan->switching->down_ns + part->plan->switching->up_ns;

    for (uint32_t next = place + 1; next <= place + part->count; next++) {
        if (mhz_at(part, next) > mhz_at(part, place))
            return switch_energy_begin_at(part, next) >= needed_ns;
        if (switch_energy_begin_at(part, next) >= needed_ns)
            return true;
    }
    return true;
}

/* Requests the clock of an operation, unless it is a lowering that is not worth it. */
static void switch_energy_request(const struct switching_energy_part *part, uint32_t place,
                                  struct switching_energy_asked *asked)
{
    const uint32_t wanted = mhz_at(part, place);

    if (wanted >= asked->mhz) {
        asked->mhz = wanted;
    } else if (is_worth_lowering(part, place, asked)) {
        asked->held_mhz = asked->mhz;
        asked->held_until_ns = asked->ended_ns + part->plan->switching->down_ns;
        asked->mhz = wanted;
    }
}

/* The operating point of an operation at a clock that the device has, not its own. */
static const struct lull_pipeline_point *at_clock(const struct switching_energy_part *part,
                                                  uint32_t op, uint32_t mhz)
{
    const struct lull_pipeline_class *class = lull_pipeline_class_of(part->plan->problem, op);

    return &class->points[lull_switching_point_below(class, mhz)];
}

static double effective_nj(const struct switching_energy_part *part, uint32_t op, uint32_t mhz)
{
    const struct lull_pipeline_problem *problem = part->plan->problem;

    return lull_pipeline_effective_nj(at_clock(part, op, mhz),
                                      problem->blocking_w[problem->graph->ops[op].device]);
}

static double switch_energy_time_of(const struct switching_energy_part *part, uint32_t op,
                                    uint32_t mhz)
{
    return (double)at_clock(part, op, mhz)->time_ns;
}

/*
 * Additional energy of an operation, compared with the plan's clock: it begins at the clock that
 * still holds, and ends at the clock that the next operation wants. It ends before its time by
 * that; the next operation begins at its time nevertheless.
 */
static double more_nj(const struct switching_energy_part *part, uint32_t place,
                      struct switching_energy_asked *asked)
{
    const uint32_t op = switch_energy_op_at(part, place);
    const uint32_t next_mhz = mhz_at(part, place + 1);
    const double raised_ns =
        (double)(switch_energy_begin_at(part, place + 1) - part->plan->switching->early_ns -
                 switch_energy_begin_at(part, place));
    double spent_ns = 0.0;
    double held = 0.0;
    double own;

    if (asked->held_mhz > asked->mhz &&
        asked->held_until_ns > switch_energy_begin_at(part, place)) {
        spent_ns = fmin((double)(asked->held_until_ns - switch_energy_begin_at(part, place)),
                        switch_energy_time_of(part, op, asked->held_mhz));
        held = spent_ns / switch_energy_time_of(part, op, asked->held_mhz);
    }
    own = 1.0 - held;
    if (next_mhz > asked->mhz)
        own = fmin(own,
                   fmax(raised_ns - spent_ns, 0.0) / switch_energy_time_of(part, op, asked->mhz));
    asked->ended_ns = switch_energy_begin_at(part, place) +
                      (int64_t)(spent_ns + own * switch_energy_time_of(part, op, asked->mhz) +
                                (1.0 - held - own) * switch_energy_time_of(part, op, next_mhz));
    return held * effective_nj(part, op, asked->held_mhz) +
           own * effective_nj(part, op, asked->mhz) +
           (1.0 - held - own) * effective_nj(part, op, next_mhz) -
           effective_nj(part, op, mhz_at(part, place));
}

/* Returns whether an operation runs at its own clock from its start to its end. */
static bool is_undisturbed(const struct switching_energy_part *part, uint32_t place,
                           const struct switching_energy_asked *asked)
{
    const uint32_t own = mhz_at(part, place);

    return own == asked->mhz && mhz_at(part, place + 1) <= own &&
           (asked->held_mhz <= own || asked->held_until_ns <= switch_energy_begin_at(part, place));
}

/* Adds up one iteration, from an operation at the highest clock on: there it is certain which clock
 * is requested. */
static double switch_energy_device_nj(const struct switching_energy_part *part)
{
    struct switching_energy_asked asked = {0};
    uint32_t first = 0;
    double sum_nj = 0.0;

    for (uint32_t place = 0; place < part->count; place++)
        if (mhz_at(part, place) > asked.mhz) {
            asked.mhz = mhz_at(part, place);
            first = place;
        }
    assert(part->count > 0);
    asked.ended_ns = end_at(part, first);
    for (uint32_t place = first + 1; place <= first + part->count; place++) {
        if (mhz_at(part, place) == 0) {
            asked.ended_ns = end_at(part, place);
            continue;
        }
        switch_energy_request(part, place, &asked);
        if (is_undisturbed(part, place, &asked))
            asked.ended_ns = end_at(part, place);
        else
            sum_nj += more_nj(part, place, &asked);
    }
    return sum_nj;
}

double lull_switching_switching_nj(const struct lull_pipeline_timed_plan *plan,
                                   double *device_nj_out)
{
    const struct lull_pipeline_graph *graph = plan->problem->graph;
    double sum_nj = 0.0;

    for (uint32_t device = 0; device < graph->device_count; device++) {
        const struct switching_energy_part part = {
            .plan = plan,
            .ops = &graph->on_device[graph->first_on[device]],
            .count = graph->first_on[device + 1] - graph->first_on[device],
        };
        double nj = 0.0;

        if (plan->switching->is_fed_forward && part.count > 0)
            nj = switch_energy_device_nj(&part);
        sum_nj += nj;
        if (device_nj_out != NULL)
            device_nj_out[device] = nj;
    }
    return sum_nj;
}

/* The cost of clocks on their way and the cost of the drivers' queues are independent, so they are
 * added. */
double lull_pipeline_switching_energy_j(const struct lull_pipeline_problem *problem,
                                        const struct lull_pipeline_switching *switching,
                                        const uint32_t *point)
{
    struct lull_pipeline_timed_plan plan = {problem, switching, point, NULL, 0};
    struct lull_pipeline_queue queue;
    int64_t *end_ns;
    double sum_nj = NAN;

    if (!switching->is_fed_forward)
        return 0.0;
    end_ns = malloc(problem->graph->op_count * sizeof(*end_ns));
    if (lull_pipeline_queue_init(&queue, problem) < 0 || end_ns == NULL)
        goto done;
    plan.end_ns = end_ns;
    plan.period_ns = lull_pipeline_switching_timeline(problem, switching, point, NULL, end_ns);
    if (plan.period_ns < 0)
        goto done;
    sum_nj =
        lull_switching_switching_nj(&plan, NULL) + lull_pipeline_queue_walk(&queue, &plan).more_nj;
done:
    lull_memory_free(&queue.memory);
    free(end_ns);
    return sum_nj * 1e-9;
}
