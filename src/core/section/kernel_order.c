/* SPDX-License-Identifier: Apache-2.0 */
#include "core/section/kernel_order.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/minmax.h"
#include "core/section/iteration.h"
#include "core/section/rounds.h"

enum { MAX_PERIOD = LULL_ORDER_MAX_PERIOD, RECENT = LULL_ROUNDS_SEEN * MAX_PERIOD + 1 };

/* Symbols after which the times are looked at first, and then between two looks at most. */
enum { FIRST_LOOK = 32, LOOK_SPACING = 1024 };
/* Iterations that show where one begins: a stall in one of them must not. */
enum { PHASE_TURNS = 8 };

struct kernel {
    uint32_t number;
    uint64_t signature;
    int64_t begin_ns;
};

struct lull_kernel_order {
    struct lull_iteration_finder *finder;
    struct kernel held[LULL_ORDER_HELD + 1]; /* by number */
    uint32_t held_count;
    struct kernel recent[RECENT]; /* symbols; number i of them at i % RECENT */
    uint64_t symbols;
    uint32_t newest; /* highest number taken */
    bool has_newest;

    bool is_following;
    bool was_left;           /* since then nothing has been followed */
    uint32_t left_at;        /* number that did not fit */
    uint32_t period;         /* 0: none has been found yet */
    uint32_t finders_period; /* the finder's, when it was found */
    uint32_t multiple;       /* of the finder's period */
    uint32_t stride;
    uint32_t base; /* number of position 0 of base_iteration */
    int64_t base_iteration;
    uint32_t offsets[MAX_PERIOD]; /* numbers from position 0, ascending */
    uint64_t signatures[MAX_PERIOD];
    double intervals_ms[RECENT]; /* of a look at the times, the newest first */
};

struct lull_kernel_order *lull_kernel_order_create(void)
{
    struct lull_kernel_order *order = calloc(1, sizeof(*order));

    if (order == NULL)
        return NULL;
    order->multiple = 1;
    order->finder = lull_iteration_finder_create();
    if (order->finder == NULL) {
        free(order);
        return NULL;
    }
    return order;
}

void lull_kernel_order_destroy(struct lull_kernel_order *order)
{
    if (order == NULL)
        return;
    lull_iteration_finder_destroy(order->finder);
    free(order);
}

/* Distance by which number a comes after b; negative: before it. Numbers may wrap. */
static int32_t kernel_order_distance(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b);
}

/* ---- standing ---------------------------------------------------------------------------- */

static bool find_offset(const struct lull_kernel_order *order, uint32_t offset,
                        uint32_t *position_out)
{
    uint32_t first = 0;
    uint32_t last = order->period - 1;

    while (first < last) {
        const uint32_t middle = first + (last - first) / 2;

        if (order->offsets[middle] < offset)
            first = middle + 1;
        else
            last = middle;
    }
    *position_out = first;
    return order->offsets[first] == offset;
}

/* Iterations from the base to a number, and its offset within its own. */
static int64_t kernel_order_divide(const struct lull_kernel_order *order, uint32_t number,
                                   uint32_t *offset_out)
{
    const int64_t stride = order->stride;

    assert(stride > 0 && order->period >= 1);
    const int64_t from_base = kernel_order_distance(number, order->base);
    const int64_t iterations =
        from_base >= 0 ? from_base / stride : -((stride - 1 - from_base) / stride);

    *offset_out = (uint32_t)(from_base - iterations * stride);
    return iterations;
}

bool lull_kernel_order_locate(const struct lull_kernel_order *order, uint32_t number,
                              struct lull_standing *standing_out)
{
    uint32_t offset;
    uint32_t position;
    int64_t iterations;

    if (!order->is_following)
        return false;
    iterations = kernel_order_divide(order, number, &offset);
    if (!find_offset(order, offset, &position))
        return false;
    *standing_out = (struct lull_standing){order->base_iteration + iterations, position};
    return true;
}

uint32_t lull_kernel_order_period(const struct lull_kernel_order *order)
{
    return order->period;
}

bool lull_kernel_order_goes_by_times(const struct lull_kernel_order *order)
{
    return order->multiple > 1;
}

int64_t lull_kernel_order_newest(const struct lull_kernel_order *order)
{
    uint32_t offset;

    return order->period == 0
               ? 0
               : order->base_iteration + kernel_order_divide(order, order->newest, &offset);
}

/* Moves the base on, so that numbers stay near it. */
static void move_base(struct lull_kernel_order *order)
{
    uint32_t offset;
    const int64_t iterations = kernel_order_divide(order, order->newest, &offset);

    order->base_iteration += iterations;
    order->base = order->newest - offset;
}

static bool kernel_order_fits(const struct lull_kernel_order *order, uint32_t number,
                              uint64_t signature)
{
    struct lull_standing standing;

    return lull_kernel_order_locate(order, number, &standing) &&
           order->signatures[standing.position] == signature;
}

/* ---- into the order of numbers ----------------------------------------------------------- */

static void kernel_order_hold(struct lull_kernel_order *order, uint32_t number, uint64_t signature,
                              int64_t begin_ns)
{
    uint32_t place = order->held_count;

    assert(order->held_count <= LULL_ORDER_HELD);
    for (; place > 0 && kernel_order_distance(order->held[place - 1].number, number) > 0; place--)
        order->held[place] = order->held[place - 1];
    order->held[place] = (struct kernel){number, signature, begin_ns};
    order->held_count++;
}

/* The kernel that came `back` symbols before the last one. */
static const struct kernel *kernel_order_symbol(const struct lull_kernel_order *order,
                                                uint64_t back)
{
    assert(back < order->symbols && back < RECENT);
    return &order->recent[(order->symbols - 1 - back) % RECENT];
}

/* The first held kernel may go: it follows the last symbol, or has been waiting for too long. */
static bool may_go(const struct lull_kernel_order *order)
{
    if (order->held_count == 0)
        return false;
    return order->symbols == 0 || order->held_count > LULL_ORDER_HELD ||
           kernel_order_distance(order->held[0].number, kernel_order_symbol(order, 0)->number) == 1;
}

static struct lull_iteration_state kernel_order_release(struct lull_kernel_order *order)
{
    const struct kernel kernel = order->held[0];

    order->held_count--;
    memmove(&order->held[0], &order->held[1], order->held_count * sizeof(order->held[0]));
    order->recent[order->symbols++ % RECENT] = kernel;
    return lull_iteration_push(order->finder, kernel.signature);
}

/* ---- longer iterations, by their times --------------------------------------------------- */

/* Time from the kernel before to the one that came `back` symbols before the last one. */
static int64_t interval_ns(const struct lull_kernel_order *order, uint64_t back)
{
    return kernel_order_symbol(order, back)->begin_ns -
           kernel_order_symbol(order, back + 1)->begin_ns;
}

/* Number of known intervals. */
static uint32_t interval_count(const struct lull_kernel_order *order)
{
    assert(order->symbols > 0);
    if (order->symbols < RECENT)
        return (uint32_t)order->symbols - 1;
    return RECENT - 1;
}

/* Number of symbols from the end of the longest time between two kernels to the last symbol, in the
 * last few periods: there an iteration begins, on all ranks alike. */
static uint32_t longest_back(const struct lull_kernel_order *order, uint32_t period)
{
    const uint32_t turns = lull_min_u32(interval_count(order) / period, PHASE_TURNS);
    int64_t longest_ns = INT64_MIN;
    uint32_t longest = 0;

    assert(period >= 1 && turns >= 1);
    for (uint32_t i = 0; i < period; i++) {
        int64_t sum_ns = 0;

        for (uint32_t turn = 0; turn < turns; turn++)
            sum_ns += interval_ns(order, i + turn * period);
        if (sum_ns > longest_ns) {
            longest_ns = sum_ns;
            longest = i;
        }
    }
    return longest;
}

static uint32_t find_multiple(struct lull_kernel_order *order)
{
    const uint32_t count = interval_count(order);

    for (uint32_t i = 0; i < count; i++)
        order->intervals_ms[i] = (double)interval_ns(order, i) * 1e-6;
    return lull_rounds_find(order->intervals_ms, count, order->finders_period, order->multiple);
}

/* Kernels that are alike say nothing of an iteration that has lost or gained some: only their
 * times do. */
static bool is_in_phase(const struct lull_kernel_order *order)
{
    struct lull_standing standing;

    return lull_kernel_order_locate(
               order, kernel_order_symbol(order, longest_back(order, order->period))->number,
               &standing) &&
           standing.position == 0;
}

/* Soon, so that little is decided by inner loops, and then now and then. */
static bool is_time_to_look(const struct lull_kernel_order *order)
{
    const bool is_doubled = (order->symbols & (order->symbols - 1)) == 0;

    return order->symbols % LOOK_SPACING == 0 || (is_doubled && order->symbols >= FIRST_LOOK);
}

/* Looks whether the iteration is longer than the finder's period. True: it is of another length
 * now, or begins elsewhere, so the one that was followed ends. */
static bool change_multiple(struct lull_kernel_order *order)
{
    const uint32_t before = order->multiple;

    if (!is_time_to_look(order))
        return false;
    order->multiple = find_multiple(order);
    return order->multiple != before || (order->multiple > 1 && !is_in_phase(order));
}

/* ---- finding ----------------------------------------------------------------------------- */

/* Number of symbols from the last occurrence of a position to the newest symbol, at
 * newest_position. */
static uint32_t back_of(uint32_t period, uint32_t newest_position, uint32_t position)
{
    return (newest_position + period - position) % period;
}

/* Returns whether the numbers advance by one amount, the stride, from each kernel to its
 * counterpart.
 */
static bool is_regular(const struct lull_kernel_order *order, uint32_t period, uint32_t *stride_out)
{
    if (order->symbols < 2 * (uint64_t)period)
        return false;
    *stride_out =
        kernel_order_symbol(order, 0)->number - kernel_order_symbol(order, period)->number;
    for (uint32_t i = 1; i < period; i++)
        if (kernel_order_symbol(order, i)->number -
                kernel_order_symbol(order, i + period)->number !=
            *stride_out)
            return false;
    return true;
}

/* Returns whether the last kernels are one iteration of the one that is known. */
static bool kernel_order_is_known(const struct lull_kernel_order *order,
                                  const struct lull_iteration_state *state)
{
    const uint32_t base = kernel_order_symbol(order, 0)->number - order->offsets[state->position];

    if (state->period != order->period)
        return false;
    for (uint32_t position = 0; position < order->period; position++) {
        const struct kernel *kernel =
            kernel_order_symbol(order, back_of(order->period, state->position, position));
        const uint32_t before = position > state->position ? order->stride : 0;

        if (kernel->signature != order->signatures[position] ||
            kernel->number != base + order->offsets[position] - before)
            return false;
    }
    return true;
}

static void kernel_order_learn(struct lull_kernel_order *order,
                               const struct lull_iteration_state *state, uint32_t stride)
{
    const uint32_t base = kernel_order_symbol(order, state->position)->number;

    order->period = state->period;
    order->stride = stride;
    for (uint32_t position = 0; position < state->period; position++) {
        const struct kernel *kernel =
            kernel_order_symbol(order, back_of(state->period, state->position, position));
        const uint32_t before = position > state->position ? stride : 0;

        order->offsets[position] = kernel->number - base + before;
        order->signatures[position] = kernel->signature;
    }
}

static void start_following(struct lull_kernel_order *order, uint32_t position)
{
    order->base = kernel_order_symbol(order, 0)->number - order->offsets[position];
    order->base_iteration++; /* the count before is of no use: it only must not repeat */
    order->is_following = true;
    order->was_left = false;
    move_base(order);
}

/* The finder has a period, with the last symbol at state's position. */
static enum lull_kernel_order_event kernel_order_enter(struct lull_kernel_order *order,
                                                       struct lull_iteration_state *state)
{
    uint32_t stride;

    if (state->period != order->finders_period)
        order->multiple = 1;
    order->finders_period = state->period;
    if (order->multiple > 1) {
        state->period *= order->multiple;
        state->position = longest_back(order, state->period);
    }

    if (order->was_left &&
        kernel_order_distance(kernel_order_symbol(order, 0)->number, order->left_at) < 0)
        return LULL_ORDER_SEARCHING;
    assert(state->period <= MAX_PERIOD);
    if (kernel_order_is_known(order, state)) {
        start_following(order, state->position);
        return LULL_ORDER_RESUMED;
    }
    if (!is_regular(order, state->period, &stride) || stride == 0)
        return LULL_ORDER_SEARCHING;
    kernel_order_learn(order, state, stride);
    start_following(order, state->position);
    return LULL_ORDER_FOUND;
}

/* Kernels that are still held back have started, too. */
static bool do_held_fit(const struct lull_kernel_order *order)
{
    for (uint32_t i = 0; i < order->held_count; i++)
        if (!kernel_order_fits(order, order->held[i].number, order->held[i].signature))
            return false;
    return true;
}

static enum lull_kernel_order_event kernel_order_search(struct lull_kernel_order *order,
                                                        bool may_enter)
{
    enum lull_kernel_order_event event = LULL_ORDER_SEARCHING;

    while (may_go(order)) {
        struct lull_iteration_state state = kernel_order_release(order);

        if (!may_enter || order->is_following || state.period == 0)
            continue;
        event = kernel_order_enter(order, &state);
        if (order->is_following && !do_held_fit(order)) {
            order->is_following = false;
            event = LULL_ORDER_SEARCHING;
        }
    }
    return event;
}

/* True unless the kernel shows that the iteration is not followed any more. */
static bool kernel_order_continue(struct lull_kernel_order *order, uint32_t number,
                                  uint64_t signature)
{
    if (!order->is_following || kernel_order_fits(order, number, signature))
        return true;
    order->is_following = false;
    order->was_left = true;
    order->left_at = number;
    return false;
}

enum lull_kernel_order_event lull_kernel_order_take(struct lull_kernel_order *order,
                                                    uint32_t number, uint64_t signature,
                                                    int64_t begin_ns)
{
    const bool was_following = order->is_following;
    const bool goes_on = kernel_order_continue(order, number, signature);
    enum lull_kernel_order_event event;

    if (!order->has_newest || kernel_order_distance(number, order->newest) > 0)
        order->newest = number;
    order->has_newest = true;
    if (order->symbols == 0 ||
        kernel_order_distance(number, kernel_order_symbol(order, 0)->number) > 0)
        kernel_order_hold(order, number, signature, begin_ns);
    event = kernel_order_search(order, goes_on);
    if (order->is_following)
        move_base(order);
    if (was_following && goes_on && change_multiple(order)) {
        order->is_following = false;
        return LULL_ORDER_LEFT;
    }
    if (!goes_on)
        return LULL_ORDER_LEFT;
    if (was_following)
        return LULL_ORDER_FOLLOWING;
    return event;
}
