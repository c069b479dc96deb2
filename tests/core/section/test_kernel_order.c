/* SPDX-License-Identifier: Apache-2.0 */
#include "../property.h"

#include <stdlib.h>

#include "core/section/kernel_order.h"

enum { MAX_KERNELS = 1 << 13, MAX_PATTERN = 40 };
/* So many kernels of one iteration make sure that it is no inner loop (iteration.h: blocks). */
enum { CERTAIN = 2100 };

struct kernel {
    uint32_t number;
    uint64_t signature;
    uint32_t iteration;
    uint32_t position; /* in the pattern as laid out */
    double time;
};

static struct kernel kernels[MAX_KERNELS];
static uint32_t kernel_count;

/* An iteration: what it enqueues, in order, and what each skips of the numbers before it. */
struct pattern {
    uint32_t length;
    uint32_t first_number;
    uint64_t signatures[MAX_PATTERN];
    uint32_t skips[MAX_PATTERN];
};

static struct pattern random_pattern(struct lull_random *random, bool has_skips)
{
    struct pattern pattern = {.length = 2 + (uint32_t)lull_random_below(random, MAX_PATTERN - 1),
                              .first_number = (uint32_t)lull_random_below(random, UINT32_MAX)};

    if (lull_random_below(random, 4) == 0)
        pattern.first_number = UINT32_MAX - 100; /* wraps soon */
    for (uint32_t i = 0; i < pattern.length; i++) {
        pattern.signatures[i] = i % 3 == 2 ? pattern.signatures[i - 1] : 10 + i;
        if (has_skips && lull_random_below(random, 8) == 0)
            pattern.skips[i] = 1 + (uint32_t)lull_random_below(random, 3);
    }
    return pattern;
}

static int compare_times(const void *a, const void *b)
{
    const struct kernel *x = a;
    const struct kernel *y = b;

    return (x->time > y->time) - (x->time < y->time);
}

/* Kernels overtake each other by up to `overtake` of them. */
static void lay_out(const struct pattern *pattern, uint32_t iterations, double overtake,
                    struct lull_random *random)
{
    uint32_t number = pattern->first_number;

    kernel_count = 0;
    for (uint32_t i = 0; i < iterations; i++)
        for (uint32_t p = 0; p < pattern->length; p++) {
            number += pattern->skips[p];
            kernels[kernel_count] =
                (struct kernel){number++, pattern->signatures[p], i, p,
                                kernel_count + overtake * lull_random_uniform(random)};
            kernel_count++;
        }
    kernels[0].time = -1.0; /* the first one is not overtaken */
    qsort(kernels, kernel_count, sizeof(kernels[0]), compare_times);
}

/* Plays everything; the kernels taken until the iteration was found. Positions are a rotation of
 * the pattern's, the same one throughout, and iterations are distinguished. */
static uint32_t check_standing(const struct pattern *pattern, uint64_t seed)
{
    struct lull_kernel_order *order = lull_kernel_order_create();
    struct lull_standing standing;
    uint32_t rotation = 0;
    int64_t number_of_first = 0;
    uint32_t found_at = 0;

    for (uint32_t i = 0; i < kernel_count; i++) {
        const struct kernel *kernel = &kernels[i];
        const enum lull_kernel_order_event event =
            lull_kernel_order_take(order, kernel->number, kernel->signature, 0);
        int64_t iteration;

        holds(event != LULL_ORDER_LEFT, seed);
        holds((event == LULL_ORDER_FOUND) == (found_at == 0 && event != LULL_ORDER_SEARCHING),
              seed);
        if (event == LULL_ORDER_SEARCHING)
            continue;
        holds(lull_kernel_order_locate(order, kernel->number, &standing), seed);
        holds(lull_kernel_order_period(order) == pattern->length, seed);
        if (event == LULL_ORDER_FOUND) {
            found_at = i + 1;
            rotation = (kernel->position + pattern->length - standing.position) % pattern->length;
        }
        holds((standing.position + rotation) % pattern->length == kernel->position, seed);
        iteration = (int64_t)kernel->iteration - (kernel->position < rotation);
        if (event == LULL_ORDER_FOUND)
            number_of_first = standing.iteration - iteration;
        holds(standing.iteration - iteration == number_of_first, seed);
        holds(lull_kernel_order_newest(order) >= standing.iteration, seed);
    }
    lull_kernel_order_destroy(order);
    return found_at;
}

static void test_overtaking_changes_nothing(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct lull_random random;
        struct pattern pattern;
        uint32_t found_at;

        lull_random_init(&random, seed);
        pattern = random_pattern(&random, false);
        lay_out(&pattern, 12, 25.0 * (double)(seed % 3) / 2.0, &random);
        found_at = check_standing(&pattern, seed);
        holds(found_at > 0 && found_at <= 3 * pattern.length + 26, seed);
    }
}

static void test_operations_without_a_kernel(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct lull_random random;
        struct pattern pattern;
        uint32_t found_at;

        lull_random_init(&random, seed);
        pattern = random_pattern(&random, true);
        lay_out(&pattern, 40, 5.0, &random);
        found_at = check_standing(&pattern, seed);
        holds(found_at > 0 && found_at <= 3 * pattern.length + LULL_ORDER_HELD + 6, seed);
    }
}

static enum lull_kernel_order_event take_all(struct lull_kernel_order *order, uint32_t from,
                                             uint32_t to)
{
    enum lull_kernel_order_event event = LULL_ORDER_SEARCHING;

    for (uint32_t i = from; i < to; i++)
        event = lull_kernel_order_take(order, kernels[i].number, kernels[i].signature, 0);
    return event;
}

/* A kernel that is never reported has no effect. */
static void test_a_lost_kernel(void **state)
{
    struct lull_kernel_order *order = lull_kernel_order_create();
    struct pattern pattern;
    struct lull_random random;

    (void)state;
    lull_random_init(&random, 7);
    pattern = random_pattern(&random, false);
    lay_out(&pattern, 60, 4.0, &random);
    assert_int_equal(take_all(order, 0, 10 * pattern.length), LULL_ORDER_FOLLOWING);
    for (uint32_t i = 10 * pattern.length + 3; i < kernel_count; i++)
        assert_int_equal(lull_kernel_order_take(order, kernels[i].number, kernels[i].signature, 0),
                         LULL_ORDER_FOLLOWING);
    lull_kernel_order_destroy(order);
}

/* An extra operation is noticed at once; one whole iteration later the known one is back. */
static void test_an_extra_operation(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        struct lull_kernel_order *order = lull_kernel_order_create();
        struct pattern pattern;
        struct lull_random random;
        uint32_t from;
        uint32_t resumed_at = 0;

        lull_random_init(&random, seed);
        pattern = random_pattern(&random, false);
        from = (CERTAIN / pattern.length + 1) * pattern.length;
        lay_out(&pattern, from / pattern.length + 3, 0.0, &random);
        holds(take_all(order, 0, from) == LULL_ORDER_FOLLOWING, seed);
        holds(lull_kernel_order_take(order, kernels[from].number, 77, 0) == LULL_ORDER_LEFT, seed);
        for (uint32_t i = from; i < kernel_count && resumed_at == 0; i++) {
            const enum lull_kernel_order_event event =
                lull_kernel_order_take(order, kernels[i].number + 1, kernels[i].signature, 0);

            holds(event == LULL_ORDER_SEARCHING || event == LULL_ORDER_RESUMED, seed);
            if (event == LULL_ORDER_RESUMED)
                resumed_at = i + 1 - from;
        }
        holds(resumed_at >= pattern.length && resumed_at <= pattern.length + 1, seed);
        lull_kernel_order_destroy(order);
    }
}

/* Numbers and signatures of a job that lies: nothing is found, or something, but nothing breaks. */
static void test_any_numbers(void **state)
{
    struct lull_random random;
    struct lull_kernel_order *order = lull_kernel_order_create();
    struct lull_standing standing;

    (void)state;
    lull_random_init(&random, 3);
    for (uint32_t i = 0; i < 20000; i++) {
        const uint32_t number = lull_random_below(&random, 4) == 0
                                    ? (uint32_t)lull_random_below(&random, UINT32_MAX)
                                    : i / 2;

        lull_kernel_order_take(order, number, lull_random_below(&random, 2), 0);
        if (lull_kernel_order_locate(order, number, &standing))
            assert_true(standing.position < lull_kernel_order_period(order));
    }
    lull_kernel_order_destroy(order);
}

/* ---- layers that are alike ----------------------------------------------------------------- */

enum { LAYERS = 12, LAYER_ROUNDS = 200 };

/* Equal kernels, of which the last half of each step takes longer and the first waits for longest;
 * each step skips `lost` kernels. Counts the times when an iteration was found or left. */
struct layers {
    struct lull_kernel_order *order;
    uint32_t number;
    int64_t now_ns;
    uint32_t found;
    uint32_t left;
};

static void play_steps(struct layers *layers, uint32_t steps, uint32_t count, int64_t longer_ns)
{
    for (uint32_t i = 0; i < steps * count; i++) {
        enum lull_kernel_order_event event;

        layers->now_ns += 10000000 + (i % count >= count / 2 ? longer_ns : 0);
        layers->now_ns += i % count == 0 ? 3 * longer_ns : 0;
        event = lull_kernel_order_take(layers->order, layers->number++, 7, layers->now_ns);
        layers->found += event == LULL_ORDER_FOUND;
        layers->left += event == LULL_ORDER_LEFT;
    }
}

static void test_layers_that_are_alike_make_a_step(void **state)
{
    struct layers layers = {.order = lull_kernel_order_create()};
    struct lull_standing standing;

    (void)state;
    assert_non_null(layers.order);
    play_steps(&layers, LAYER_ROUNDS, LAYERS, 2000000);
    assert_int_equal(lull_kernel_order_period(layers.order), LAYERS);
    assert_int_equal(layers.found, 2);
    assert_int_equal(layers.left, 1);
    assert_true(lull_kernel_order_locate(layers.order, layers.number, &standing));
    assert_int_equal(standing.position, 0); /* a step begins with the kernel that waits longest */
    /* A step of one kernel more: the numbers fit, the times do not, so the step begins elsewhere.
     */
    play_steps(&layers, 1, LAYERS + 1, 2000000);
    play_steps(&layers, LAYER_ROUNDS, LAYERS, 2000000);
    assert_int_equal(lull_kernel_order_period(layers.order), LAYERS);
    assert_int_equal(layers.left, 2);
    assert_true(lull_kernel_order_locate(layers.order, layers.number, &standing));
    assert_int_equal(standing.position, 0);
    lull_kernel_order_destroy(layers.order);
}

/* A few percent of a layer are the noise of a job. */
static void test_layers_that_hardly_differ_are_iterations(void **state)
{
    struct layers layers = {.order = lull_kernel_order_create()};

    (void)state;
    assert_non_null(layers.order);
    play_steps(&layers, LAYER_ROUNDS, LAYERS, 400000);
    assert_int_equal(lull_kernel_order_period(layers.order), 1);
    assert_int_equal(layers.left, 0);
    lull_kernel_order_destroy(layers.order);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_overtaking_changes_nothing),
        cmocka_unit_test(test_operations_without_a_kernel),
        cmocka_unit_test(test_a_lost_kernel),
        cmocka_unit_test(test_an_extra_operation),
        cmocka_unit_test(test_any_numbers),
        cmocka_unit_test(test_layers_that_are_alike_make_a_step),
        cmocka_unit_test(test_layers_that_hardly_differ_are_iterations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
