/* SPDX-License-Identifier: Apache-2.0 */
#include "lab/core/sweep_order.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "core/stats/moments.h"
#include "core/stats/random.h"

/* A neighbour of the cheapest clock is nearly as cheap within this; a knee is where the slope of
 * log power over log clock changes by this between two neighbours. The first is the protocol's
 * (docs/research/dataset.md); */
static const double near_ratio = 0.05;
static const double knee_slope = 0.5;

enum { NONE = UINT32_MAX };

/* A kernel at a point over all repeats; the moments are of those that all points have. */
struct cell {
    bool is_wanted;
    bool is_fresh;   /* it was added in this round of bisection, and does not count in it yet */
    bool wants_more; /* its repeats disagree, so that one more is wanted */
    uint32_t done;   /* a bit for each repeat */
    struct lull_moments time_ms; /* of visits that are valid */
    struct lull_moments power_w;
    double time_least, time_most, power_least, power_most;
};

struct lull_sweep_order {
    struct lull_sweep_grid grid;
    const double *sm_mhz;
    struct cell *cells; /* kernels x points */
    uint32_t *queue;    /* kernels, and points: orders are made in it */
    uint32_t *points;
    bool dropped[LULL_SWEEP_KERNELS];
    uint32_t refined;    /* clocks that bisection has added to the kernel at hand */
    uint32_t kernel;     /* whose block is under way; NONE */
    uint32_t repeat;     /* of it */
    uint32_t since_base; /* visits of other points since that of the base */
};

static struct cell *sweep_order_cell_of(const struct lull_sweep_order *order, uint32_t kernel,
                                        uint32_t point)
{
    return &order->cells[(size_t)kernel * order->grid.points + point];
}

/* ---- beginning ----------------------------------------------------------------------------- */

/* Requests some points of the line, evenly spread by their number, and all points off it. */
static void sweep_order_request(struct lull_sweep_order *order, uint32_t kernel)
{
    const struct lull_sweep_grid *const grid = &order->grid;

    for (uint32_t p = 0; p < grid->points; p++)
        sweep_order_cell_of(order, kernel, p)->is_wanted =
            p >= grid->line_points || !grid->is_coarse;
    if (!grid->is_coarse)
        return;
    for (uint32_t i = 0; i < grid->coarse; i++)
        sweep_order_cell_of(order, kernel, (grid->line_points - 1) * i / (grid->coarse - 1))
            ->is_wanted = true;
}

struct lull_sweep_order *lull_sweep_order_create(const struct lull_sweep_grid *grid,
                                                 const double *sm_mhz)
{
    struct lull_sweep_order *const order = calloc(1, sizeof(*order));

    assert(grid->kernels > 0 && grid->kernels <= LULL_SWEEP_KERNELS);
    assert(grid->points > 0 && grid->points <= LULL_SWEEP_POINTS);
    assert(grid->line_points > 0 && grid->line_points <= grid->points);
    assert(grid->base == grid->line_points - 1);
    assert(grid->repeats > 0 && grid->repeats <= LULL_SWEEP_REPEATS);
    assert(!grid->is_coarse || grid->coarse > 1);
    if (order == NULL)
        return NULL;
    order->grid = *grid;
    order->sm_mhz = sm_mhz;
    order->cells = calloc((size_t)grid->kernels * grid->points, sizeof(*order->cells));
    order->queue = calloc(grid->kernels, sizeof(*order->queue));
    order->points = calloc(grid->points, sizeof(*order->points));
    order->kernel = NONE;
    if (order->cells == NULL || order->queue == NULL || order->points == NULL) {
        lull_sweep_order_destroy(order);
        return NULL;
    }
    for (uint32_t k = 0; k < grid->kernels; k++)
        sweep_order_request(order, k);
    return order;
}

void lull_sweep_order_destroy(struct lull_sweep_order *order)
{
    if (order == NULL)
        return;
    free(order->points);
    free(order->queue);
    free(order->cells);
    free(order);
}

void lull_sweep_order_drop(struct lull_sweep_order *order, uint32_t kernel)
{
    order->dropped[kernel] = true;
    if (order->kernel == kernel)
        order->kernel = NONE;
}

void lull_sweep_order_interrupt(struct lull_sweep_order *order)
{
    order->kernel = NONE;
}

/* ---- results ------------------------------------------------------------------------------- */

static void sweep_order_add_moment(struct lull_moments *moments, double *least, double *most,
                                   double value)
{
    *least = moments->count == 0 ? value : fmin(*least, value);
    *most = moments->count == 0 ? value : fmax(*most, value);
    lull_moments_add(moments, value);
}

static bool sweep_order_disagrees(const struct lull_sweep_order *order, const struct cell *cell)
{
    const double ratio = 1.0 + order->grid.disagreement_ratio;

    return cell->time_most > cell->time_least * ratio ||
           (cell->power_w.count > 0 && cell->power_most > cell->power_least * ratio);
}

static bool sweep_order_is_done(const struct cell *cell, uint32_t repeat)
{
    return (cell->done >> repeat & 1) != 0;
}

static bool sweep_order_is_repeated(const struct lull_sweep_order *order, const struct cell *cell)
{
    const uint32_t all = (UINT32_C(1) << order->grid.repeats) - 1;

    return (cell->done & all) == all;
}

bool lull_sweep_order_found(struct lull_sweep_order *order, const struct lull_sweep_visit *visit,
                            const struct lull_sweep_found *found)
{
    struct cell *cell;

    if (visit->kernel >= order->grid.kernels || visit->point >= order->grid.points ||
        visit->repeat > order->grid.repeats)
        return false;
    cell = sweep_order_cell_of(order, visit->kernel, visit->point);
    if (visit->point == order->grid.base)
        order->since_base = 0;
    else
        order->since_base++;
    /* Further visits of the base in a repeat measure drift, not the base. */
    if (sweep_order_is_done(cell, visit->repeat))
        return true;
    cell->done |= UINT32_C(1) << visit->repeat;
    /* A further repeat may show which one was right, but earlier decisions stay. */
    if (found->is_valid && visit->repeat < order->grid.repeats) {
        sweep_order_add_moment(&cell->time_ms, &cell->time_least, &cell->time_most, found->time_ms);
        if (!isnan(found->power_w))
            sweep_order_add_moment(&cell->power_w, &cell->power_least, &cell->power_most,
                                   found->power_w);
    }
    cell->wants_more = order->grid.repeats > 1 && sweep_order_is_repeated(order, cell) &&
                       sweep_order_disagrees(order, cell);
    return true;
}

/* ---- finer clocks -------------------------------------------------------------------------- */

/* Returns whether a point counts: one that was measured but is not needed yet does not. */
static bool has_say(const struct cell *cell)
{
    return cell->is_wanted && !cell->is_fresh;
}

/* The nearest point of the line on one side that counts; NONE. */
static uint32_t sweep_order_neighbour(const struct lull_sweep_order *order, uint32_t kernel,
                                      uint32_t point, int step)
{
    for (int64_t p = (int64_t)point + step; p >= 0 && p < order->grid.line_points; p += step)
        if (has_say(sweep_order_cell_of(order, kernel, (uint32_t)p)))
            return (uint32_t)p;
    return NONE;
}

static bool sweep_order_is_known(const struct cell *cell)
{
    return has_say(cell) && cell->time_ms.count > 0 && cell->power_w.count > 0;
}

static double sweep_order_energy_of(const struct cell *cell)
{
    return cell->time_ms.mean * cell->power_w.mean;
}

/* Requests the point half way between two, if there is one and it has not been requested yet. */
static void sweep_order_bisect(struct lull_sweep_order *order, uint32_t kernel, uint32_t a,
                               uint32_t b)
{
    const uint32_t middle = (a + b) / 2;
    struct cell *const cell = sweep_order_cell_of(order, kernel, middle);

    if (cell->is_wanted || order->refined == LULL_SWEEP_MAX_REFINED)
        return;
    cell->is_wanted = true;
    cell->is_fresh = true;
    order->refined++;
}

static void bisect_around_cheapest(struct lull_sweep_order *order, uint32_t kernel)
{
    uint32_t best = NONE;

    for (uint32_t p = 0; p < order->grid.line_points; p++) {
        const struct cell *const cell = sweep_order_cell_of(order, kernel, p);

        if (sweep_order_is_known(cell) &&
            (best == NONE || sweep_order_energy_of(cell) <
                                 sweep_order_energy_of(sweep_order_cell_of(order, kernel, best))))
            best = p;
    }
    for (int step = -1; step <= 1 && best != NONE; step += 2) {
        const uint32_t other = sweep_order_neighbour(order, kernel, best, step);

        /* Beyond a clock that could not be set, the cheapest one that can be set may be in
         * between. */
        if (other != NONE && (!sweep_order_is_known(sweep_order_cell_of(order, kernel, other)) ||
                              sweep_order_energy_of(sweep_order_cell_of(order, kernel, other)) <
                                  (1.0 + near_ratio) * sweep_order_energy_of(sweep_order_cell_of(
                                                           order, kernel, best))))
            sweep_order_bisect(order, kernel, best, other);
    }
}

/* Slope of log power over log clock between two points. */
static double sweep_order_slope(const struct lull_sweep_order *order, uint32_t kernel, uint32_t a,
                                uint32_t b)
{
    return log(sweep_order_cell_of(order, kernel, b)->power_w.mean /
               sweep_order_cell_of(order, kernel, a)->power_w.mean) /
           log(order->sm_mhz[b] / order->sm_mhz[a]);
}

static void bisect_around_knee(struct lull_sweep_order *order, uint32_t kernel)
{
    double sharpest = knee_slope;
    uint32_t knee[3] = {NONE, NONE, NONE};

    for (uint32_t p = 0; p < order->grid.line_points; p++) {
        const uint32_t left = sweep_order_neighbour(order, kernel, p, -1);
        const uint32_t right = sweep_order_neighbour(order, kernel, p, 1);
        double turn;

        if (left == NONE || right == NONE ||
            !sweep_order_is_known(sweep_order_cell_of(order, kernel, p)) ||
            !sweep_order_is_known(sweep_order_cell_of(order, kernel, left)) ||
            !sweep_order_is_known(sweep_order_cell_of(order, kernel, right)))
            continue;
        turn =
            sweep_order_slope(order, kernel, p, right) - sweep_order_slope(order, kernel, left, p);
        if (turn <= sharpest)
            continue;
        sharpest = turn;
        knee[0] = left;
        knee[1] = p;
        knee[2] = right;
    }
    if (knee[1] == NONE)
        return;
    sweep_order_bisect(order, kernel, knee[0], knee[1]);
    sweep_order_bisect(order, kernel, knee[1], knee[2]);
}

static bool sweep_order_is_measured(const struct lull_sweep_order *order, uint32_t kernel)
{
    for (uint32_t p = 0; p < order->grid.points; p++) {
        const struct cell *const cell = sweep_order_cell_of(order, kernel, p);

        if (cell->is_wanted && !sweep_order_is_repeated(order, cell))
            return false;
    }
    return true;
}

/*
 * Determines the points needed of a kernel, starting from the coarse clocks, as far as they have
 * been measured. It starts again each time, so that a resumed sweep needs the same points as an
 * uninterrupted one.
 */
static void refine_kernel(struct lull_sweep_order *order, uint32_t kernel)
{
    uint32_t before;

    sweep_order_request(order, kernel);
    order->refined = 0;
    do {
        before = order->refined;
        if (!sweep_order_is_measured(order, kernel))
            return;
        bisect_around_cheapest(order, kernel);
        bisect_around_knee(order, kernel);
        for (uint32_t p = 0; p < order->grid.line_points; p++)
            sweep_order_cell_of(order, kernel, p)->is_fresh = false;
    } while (order->refined > before);
}

static void sweep_order_refine(struct lull_sweep_order *order)
{
    for (uint32_t k = 0; k < order->grid.kernels; k++)
        if (order->grid.is_coarse && !order->dropped[k])
            refine_kernel(order, k);
}

/* ---- next visit ---------------------------------------------------------------------------- */

static bool sweep_order_is_wanted(const struct lull_sweep_order *order, uint32_t kernel,
                                  uint32_t point, uint32_t repeat)
{
    const struct cell *const cell = sweep_order_cell_of(order, kernel, point);

    if (order->dropped[kernel] || !cell->is_wanted || sweep_order_is_done(cell, repeat))
        return false;
    return repeat < order->grid.repeats || cell->wants_more;
}

static bool wants_any(const struct lull_sweep_order *order, uint32_t kernel, uint32_t repeat)
{
    for (uint32_t p = 0; p < order->grid.points; p++)
        if (sweep_order_is_wanted(order, kernel, p, repeat))
            return true;
    return false;
}

/* A random order of 0..count-1, the same for the same numbers. */
static void sweep_order_shuffle(uint32_t *list, uint32_t count, uint64_t seed, uint64_t a,
                                uint64_t b)
{
    struct lull_random random;

    lull_random_init(&random, seed);
    lull_random_init(&random, lull_random_next(&random) ^ (a << 32 | b));
    for (uint32_t i = 0; i < count; i++)
        list[i] = i;
    for (uint32_t i = count; i-- > 1;) {
        const uint32_t other = (uint32_t)lull_random_below(&random, i + 1);
        const uint32_t kept = list[i];

        list[i] = list[other];
        list[other] = kept;
    }
}

/* Finds the block that is to be begun. */
static bool sweep_order_begin_block(struct lull_sweep_order *order)
{
    const struct lull_sweep_grid *const grid = &order->grid;

    for (uint32_t r = 0; r <= grid->repeats; r++) {
        sweep_order_shuffle(order->queue, grid->kernels, grid->seed, r, UINT32_MAX);
        for (uint32_t i = 0; i < grid->kernels; i++)
            if (wants_any(order, order->queue[i], r)) {
                order->kernel = order->queue[i];
                order->repeat = r;
                order->since_base = LULL_SWEEP_GROUP; /* so that the base comes first */
                return true;
            }
    }
    return false;
}

/* The next point of the block beside the base; NONE. */
static uint32_t sweep_order_next_point(const struct lull_sweep_order *order)
{
    const struct lull_sweep_grid *const grid = &order->grid;

    sweep_order_shuffle(order->points, grid->points, grid->seed, order->repeat, order->kernel);
    for (uint32_t i = 0; i < grid->points; i++)
        if (order->points[i] != grid->base &&
            sweep_order_is_wanted(order, order->kernel, order->points[i], order->repeat))
            return order->points[i];
    return NONE;
}

bool lull_sweep_order_next(struct lull_sweep_order *order, struct lull_sweep_visit *visit_out)
{
    for (;;) {
        uint32_t point = order->grid.base;

        if (order->kernel == NONE) {
            sweep_order_refine(order);
            if (!sweep_order_begin_block(order))
                return false;
        } else {
            const uint32_t next = sweep_order_next_point(order);

            if (next == NONE && order->since_base == 0) {
                order->kernel = NONE;
                continue;
            }
            if (next != NONE && order->since_base < LULL_SWEEP_GROUP)
                point = next;
        }
        *visit_out = (struct lull_sweep_visit){order->kernel, point, order->repeat};
        return true;
    }
}

/* Returns the number of remaining visits of a block. The base follows every group and the last of
 * the others, and it is visited once at the beginning of a block that is not under way. */
static uint64_t left_of(const struct lull_sweep_order *order, uint32_t kernel, uint32_t repeat)
{
    const bool is_under_way = kernel == order->kernel && repeat == order->repeat;
    const uint64_t since = is_under_way ? order->since_base : 0;
    uint64_t others = 0;

    for (uint32_t p = 0; p < order->grid.points; p++)
        others += p != order->grid.base && sweep_order_is_wanted(order, kernel, p, repeat);
    if (others + since == 0)
        return sweep_order_is_wanted(order, kernel, order->grid.base, repeat);
    return others + (others + since + LULL_SWEEP_GROUP - 1) / LULL_SWEEP_GROUP + !is_under_way;
}

uint64_t lull_sweep_order_left(const struct lull_sweep_order *order)
{
    uint64_t left = 0;

    for (uint32_t k = 0; k < order->grid.kernels; k++)
        for (uint32_t r = 0; r <= order->grid.repeats; r++)
            left += left_of(order, k, r);
    return left;
}
