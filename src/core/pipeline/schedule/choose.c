/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pipeline/schedule/choose.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/minmax.h"
#include "core/pipeline/frontier/frontier.h"

/* Bounds of the work, a few seconds; commit eafc37d chose them. */
enum {
    MAX_TRIED = 64,
    TRIED_OPS = 20000, /* about as many operations have all frontiers together */
    MIN_TRIED = 5,
    MAX_SEARCHED = 64, /* with more devices, r_s are not searched for one by one */
};

struct choosing {
    const struct lull_pipeline_order_options *options;
    struct lull_error *err;
    int tries_left;
};

/* ---- one order --------------------------------------------------------------------------- */

/* Memory is counted in micro-batches whose activations a device holds, the unit in which users know
 * their limits. */
static int count_in_flight(const struct choosing *it, struct lull_pipeline_choice *choice)
{
    const struct lull_pipeline_order_options *options = it->options;
    struct lull_pipeline_order order;
    const int rc = lull_pipeline_schedule_order(&choice->schedule, options->shape,
                                                options->measured, &order, it->err);

    if (rc < 0)
        return rc;
    choice->in_flight = 0;
    choice->fits = true;
    for (uint32_t d = 0; d < order.devices; d++) {
        const uint32_t count = lull_pipeline_order_in_flight(&order, d);

        choice->in_flight = lull_max_u32(count, choice->in_flight);
        choice->fits = choice->fits && count <= options->in_flight[d];
    }
    lull_pipeline_order_fini(&order);
    return 0;
}

/* Finds the least energy at the deadline, or at an earlier time where that is cheaper. */
static int order_choice_find_energy(const struct choosing *it,
                                    const struct lull_pipeline_problem *problem,
                                    struct lull_pipeline_choice *choice)
{
    const struct lull_pipeline_order_options *options = it->options;
    struct lull_frontier *frontier = lull_frontier_create(problem, it->err);
    struct lull_frontier_point point;
    int rc;

    if (frontier == NULL)
        return -ENOMEM;
    if (options->straggler_ns > 0)
        rc = lull_frontier_seek(frontier, options->deadline_ns);
    else
        rc = lull_frontier_seek_cheapest_within(frontier, options->deadline_ns);
    point = lull_frontier_here(frontier);
    lull_frontier_destroy(frontier);
    choice->is_in_time = rc == 0;
    choice->energy_j = point.energy_j;
    for (uint32_t d = 0; d < problem->graph->device_count; d++)
        if (options->straggler_ns > point.time_ns)
            choice->energy_j +=
                problem->blocking_w[d] * (double)(options->straggler_ns - point.time_ns) * 1e-9;
    if (rc == -ERANGE)
        return 0;
    return rc;
}

/* An order that does not fit into memory is not solved, because it cannot run. */
static int try_order(struct choosing *it, struct lull_pipeline_choice *choice)
{
    const struct lull_pipeline_order_options *options = it->options;
    struct lull_pipeline_profile fitted;
    struct lull_pipeline_graph graph;
    int rc = count_in_flight(it, choice);

    choice->is_in_time = false;
    choice->energy_j = (double)INFINITY;
    if (rc < 0 || !choice->fits)
        return rc;
    it->tries_left--;
    rc = lull_pipeline_schedule_build(&choice->schedule, options->shape, options->measured, &fitted,
                                      &graph, it->err);
    if (rc < 0)
        return rc;
    rc = order_choice_find_energy(
        it, &(struct lull_pipeline_problem){&fitted, &graph, options->blocking_w}, choice);
    lull_pipeline_graph_fini(&graph);
    lull_pipeline_profile_fini(&fitted);
    return rc;
}

static bool order_choice_is_better(const struct lull_pipeline_choice *one,
                                   const struct lull_pipeline_choice *other)
{
    return one->is_in_time && (!other->is_in_time || one->energy_j < other->energy_j);
}

/* ---- EnvPipe's warm-up ------------------------------------------------------------------- */

/* Finds how many additional forwards EnvPipe's formula and the memory allow, one number for each
 * device. */
static int most_hoist(const struct choosing *it, struct lull_pipeline_schedule *schedule)
{
    const struct lull_pipeline_shape *shape = it->options->shape;
    uint32_t hoist[LULL_PIPELINE_MAX_LIMITS];
    int rc;

    *schedule = (struct lull_pipeline_schedule){
        .family = LULL_PIPELINE_ENVPIPE, .chunks = 1, .limits = shape->devices};
    for (uint32_t d = 0; d < shape->devices; d++) {
        const uint32_t own = lull_min_u32(shape->devices - d, shape->microbatches);

        schedule->limit[d] = lull_max_u32(it->options->in_flight[d], own) - own;
    }
    rc = lull_pipeline_envpipe_hoist(schedule, shape, it->options->measured, hoist, it->err);
    for (uint32_t d = 0; rc == 0 && d < shape->devices; d++)
        schedule->limit[d] = hoist[d];
    return rc;
}

/* Takes the changed limits if that order needs less energy. Returns 1 then, 0 if not. */
static int try_limits(struct choosing *it, const struct lull_pipeline_schedule *schedule,
                      struct lull_pipeline_choice *best)
{
    struct lull_pipeline_choice choice = {.schedule = *schedule};
    int rc;

    if (it->tries_left <= 0)
        return 0;
    rc = try_order(it, &choice);
    if (rc < 0 || !order_choice_is_better(&choice, best))
        return rc;
    *best = choice;
    return 1;
}

/* Tries one more or one less on a device and, where need be, on its neighbours, so that r_s never
 * rises from one device to the next. */
static int order_choice_step(struct choosing *it, const uint32_t *most, uint32_t device, int way,
                             struct lull_pipeline_choice *best)
{
    struct lull_pipeline_schedule next = best->schedule;
    const uint32_t devices = it->options->shape->devices;

    assert(device < devices && devices <= LULL_PIPELINE_MAX_LIMITS);
    if ((way > 0 && next.limit[device] >= most[device]) || (way < 0 && next.limit[device] == 0))
        return 0;
    next.limit[device] = next.limit[device] + (uint32_t)way;
    for (uint32_t d = device; d-- > 0;)
        if (next.limit[d] < next.limit[device])
            next.limit[d] = next.limit[device];
    for (uint32_t d = device + 1; d < devices; d++)
        if (next.limit[d] > next.limit[device])
            next.limit[d] = next.limit[device];
    return try_limits(it, &next, best);
}

/* Searches from one limit for all devices, and from as much as there is room for, to a vector that
 * no single step makes better. */
static int search_hoist(struct choosing *it, struct lull_pipeline_choice *best)
{
    const uint32_t devices = it->options->shape->devices;
    struct lull_pipeline_schedule most;
    int changed = 1;
    int rc = most_hoist(it, &most);

    if (rc < 0)
        return rc;
    *best = (struct lull_pipeline_choice){.schedule = most};
    rc = try_order(it, best);
    for (uint32_t limit = 1; rc >= 0 && devices > 0 && limit < most.limit[0]; limit *= 2) {
        struct lull_pipeline_schedule next = most;

        for (uint32_t d = 0; d < devices; d++)
            next.limit[d] = lull_min_u32(most.limit[d], limit);
        rc = try_limits(it, &next, best);
    }
    while (rc >= 0 && changed > 0 && devices <= MAX_SEARCHED) {
        changed = 0;
        for (uint32_t d = 0; rc >= 0 && d < devices; d++)
            for (int way = -1; rc >= 0 && way <= 1; way += 2) {
                rc = order_choice_step(it, most.limit, d, way, best);
                changed += rc > 0;
            }
    }
    return rc < 0 ? rc : 0;
}

/* ---- all schedules ----------------------------------------------------------------------- */

/* Reports why no order is usable, if none is. Memory is reported first, because more time would not
 * help then.
 * */
static int order_choice_conclude(const struct choosing *it, struct lull_pipeline_choices *choices)
{
    const struct lull_pipeline_choice *first = &choices->choices[0];
    bool fits = false;

    for (size_t i = 0; i < choices->count; i++) {
        fits = fits || choices->choices[i].fits;
        if (order_choice_is_better(&choices->choices[i], &choices->choices[choices->best]))
            choices->best = i;
    }
    if (!fits)
        return lull_error_set(it->err, -ERANGE,
                              "no order fits into this memory: 1f1b has up to %u micro-batches in "
                              "flight, of %u devices",
                              first->in_flight, it->options->shape->devices);
    if (!choices->choices[choices->best].is_in_time)
        return lull_error_set(it->err, -ERANGE,
                              "no order that fits into this memory holds %.6f ms; allow more time",
                              (double)it->options->deadline_ns * 1e-6);
    return 0;
}

static bool order_choice_has(const struct lull_pipeline_profile *measured,
                             enum lull_pipeline_kind kind)
{
    return lull_pipeline_profile_find(measured, 0, 0, kind, 0) >= 0;
}

/* Compares a family that has no parameters. */
static int add_family(struct choosing *it, enum lull_pipeline_family family,
                      struct lull_pipeline_choices *choices)
{
    struct lull_pipeline_choice *choice = &choices->choices[choices->count++];

    *choice = (struct lull_pipeline_choice){.schedule = {.family = family, .chunks = 1}};
    return try_order(it, choice);
}

/* Compares every order that the profile allows, 1F1B first. */
static int order_choice_compare_all(struct choosing *it, struct lull_pipeline_choices *choices)
{
    const struct lull_pipeline_order_options *options = it->options;
    int rc = add_family(it, LULL_PIPELINE_1F1B, choices);

    if (rc < 0)
        return rc;
    rc = add_family(it, LULL_PIPELINE_GPIPE, choices);
    if (rc < 0)
        return rc;
    if (order_choice_has(options->measured, LULL_PIPELINE_INPUT) &&
        order_choice_has(options->measured, LULL_PIPELINE_WEIGHT)) {
        rc = add_family(it, LULL_PIPELINE_ZB_H1, choices);
        if (rc < 0)
            return rc;
    }
    if (options->shape->devices > LULL_PIPELINE_MAX_LIMITS || !choices->choices[0].fits ||
        !order_choice_has(options->measured, LULL_PIPELINE_BACKWARD))
        return 0;
    return search_hoist(it, &choices->choices[choices->count++]);
}

/* The number of tries follows from the size, so that choosing takes seconds for any pipeline. */
int lull_pipeline_choose_order(const struct lull_pipeline_order_options *options,
                               struct lull_pipeline_choices *choices_out, struct lull_error *err)
{
    const uint64_t ops = 2 * (uint64_t)options->shape->devices * options->shape->microbatches *
                         options->shape->replicas.count;
    struct lull_pipeline_choices *const choices = calloc(1, sizeof(*choices));
    struct choosing it = {.options = options, .err = err, .tries_left = MIN_TRIED};
    int rc;

    if (choices == NULL)
        return lull_error_set(err, -ENOMEM, "no memory for orders");
    if (ops > 0 && TRIED_OPS / ops > MIN_TRIED)
        it.tries_left = (int)lull_min_size(TRIED_OPS / ops, MAX_TRIED);
    rc = order_choice_compare_all(&it, choices);
    if (rc < 0)
        goto done;
    rc = order_choice_conclude(&it, choices);
    if (rc < 0)
        goto done;
    *choices_out = *choices;
done:
    free(choices);
    return rc;
}
