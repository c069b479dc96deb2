/*
 * Estimated savings, against a driver that is simulated tick by tick, and against all ways of
 * merging. SPDX-License-Identifier: Apache-2.0
 */
#include "core/section/savings_estimate.h"

#include <stdbool.h>

#include "../property.h"

enum { MAX = 9, TICK_NS = 1000000 }; /* a tick is 1 ms */

struct scene {
    struct lull_gap gaps[MAX];
    size_t count;
    int64_t lengths[MAX];  /* ticks */
    int64_t computes[MAX]; /* ticks of computation before each gap */
    struct lull_switch_latency latency;
    int64_t down;
    int64_t up;
};

static int64_t between(struct lull_random *random, int64_t least, int64_t most)
{
    return least + (int64_t)lull_random_below(random, (uint64_t)(most - least + 1));
}

static void draw(struct lull_random *random, int64_t shortest_gap, struct scene *scene)
{
    int64_t now = 100;

    *scene = (struct scene){.count = (size_t)between(random, 1, MAX),
                            .down = between(random, 0, 12),
                            .up = between(random, 0, 12)};
    scene->latency = (struct lull_switch_latency){scene->down * TICK_NS, scene->up * TICK_NS};
    for (size_t i = 0; i < scene->count; i++) {
        scene->computes[i] = between(random, 1, 10);
        scene->lengths[i] = between(random, shortest_gap, 60);
        now += scene->computes[i];
        scene->gaps[i] = (struct lull_gap){now * TICK_NS, (now + scene->lengths[i]) * TICK_NS, 0};
        scene->gaps[i].communication_ns = between(random, 0, scene->lengths[i]) * TICK_NS;
        now += scene->lengths[i];
    }
}

static bool pays(const struct scene *scene, int64_t length)
{
    return 4 * length > 5 * (scene->down + scene->up); /* a quarter more than both */
}

static void test_alone(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 2000; seed++) {
        struct lull_switchable alone;
        struct lull_random random;
        struct scene scene;
        double gap_ms = 0.0;
        double communication_ms = 0.0;
        uint64_t sections = 0;

        lull_random_init(&random, seed);
        draw(&random, 1, &scene);
        for (size_t i = 0; i < scene.count; i++) {
            const double low = (double)(scene.lengths[i] - scene.down - scene.up);

            if (!pays(&scene, scene.lengths[i]))
                continue;
            sections++;
            gap_ms += low;
            communication_ms +=
                low * (double)scene.gaps[i].communication_ns / (double)(scene.lengths[i] * TICK_NS);
        }
        lull_switchable_alone(scene.gaps, scene.count, &scene.latency, &alone);
        holds(alone.sections == sections, seed);
        holds(fabs(alone.gap_ms - gap_ms) < 1e-6, seed);
        holds(fabs(alone.communication_ms - communication_ms) < 1e-6, seed);
        holds(alone.slowed_ms <= 0.0, seed);
    }
}

/* The clock falls `down` ticks after it was asked to; the driver takes one request at a time. */
static int64_t simulate_feed_forward(const struct scene *scene, uint64_t seed)
{
    int64_t free_at = 0; /* the driver has done what it was asked */
    int64_t low = 0;

    for (size_t i = 0; i < scene->count; i++) {
        const int64_t begin = scene->gaps[i].begin_ns / TICK_NS;
        const int64_t end = scene->gaps[i].end_ns / TICK_NS;
        int64_t ask = begin - scene->down;

        if (scene->lengths[i] <= scene->down + scene->up)
            continue;
        if (ask < free_at)
            ask = free_at;
        for (int64_t t = ask; t < end; t++) {
            const bool is_low = t >= ask + scene->down;

            holds(!is_low || (t >= begin && t < end), seed);
            low += is_low;
        }
        holds(end - scene->up >= ask + scene->down, seed); /* then the raising is requested */
        free_at = end;
    }
    return low;
}

static void test_feed_forward(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 2000; seed++) {
        struct lull_switchable forward;
        struct lull_switchable ideal;
        struct lull_random random;
        struct scene scene;

        lull_random_init(&random, seed);
        draw(&random, 1, &scene);
        lull_switchable_feed_forward(scene.gaps, scene.count, &scene.latency, &forward);
        lull_switchable_ideal(scene.gaps, scene.count, &ideal);
        holds(fabs(forward.gap_ms - (double)simulate_feed_forward(&scene, seed)) < 1e-6, seed);
        holds(forward.gap_ms <= ideal.gap_ms + 1e-9 && forward.slowed_ms <= 0.0, seed);
    }
}

/* Of every choice: what it is worth to merging, and the computation that runs low. */
struct choices {
    const struct scene *scene;
    double slowed_most;
    double best;
};

static void try_choices(struct choices *choices, size_t i, bool is_low, double worth, double slowed)
{
    const struct scene *const scene = choices->scene;

    if (i == scene->count) {
        if (slowed <= choices->slowed_most + 1e-9 && worth > choices->best)
            choices->best = worth;
        return;
    }
    const double length = (double)scene->lengths[i];
    const double switches = 1.25 * (double)(scene->down + scene->up);

    try_choices(choices, i + 1, false, worth, slowed);
    try_choices(choices, i + 1, true, worth + length - switches, slowed);
    if (is_low)
        try_choices(choices, i + 1, true, worth + length, slowed + (double)scene->computes[i]);
}

/*
 * Gaps are long enough to hold each switch, so that low time is gap time less the switches. No
 * choice that slows as little as the one found is worth more.
 */
static void test_merged_is_the_best_of_what_slows_so_much(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 1000; seed++) {
        struct lull_switchable merged;
        struct lull_switchable alone;
        struct lull_random random;
        struct scene scene;

        lull_random_init(&random, seed);
        draw(&random, 13, &scene);
        const double allowed = (double)between(&random, 0, 30);

        lull_switchable_alone(scene.gaps, scene.count, &scene.latency, &alone);
        assert_int_equal(
            lull_switchable_merged(scene.gaps, scene.count, &scene.latency, allowed, &merged), 0);
        holds(merged.slowed_ms <= allowed + 1e-6, seed);
        holds(merged.gap_ms >= alone.gap_ms - 1e-6, seed);

        struct choices choices = {&scene, merged.slowed_ms, 0.0};
        const double worth =
            merged.gap_ms - 0.25 * (double)(scene.down + scene.up) * (double)merged.sections;
        try_choices(&choices, 0, false, 0.0, 0.0);
        holds(worth >= choices.best - 1e-6, seed);
    }
}

static void test_merging_joins_what_is_too_short_alone(void **state)
{
    const struct lull_switch_latency latency = {20 * TICK_NS, 20 * TICK_NS};
    const struct lull_gap gaps[] = {{0, 40 * TICK_NS, 0}, {41 * TICK_NS, 90 * TICK_NS, 0}};
    struct lull_switchable sum;

    (void)state;
    lull_switchable_alone(gaps, 2, &latency, &sum);
    assert_int_equal(sum.sections, 0);
    assert_int_equal(lull_switchable_merged(gaps, 2, &latency, 0.5, &sum), 0);
    assert_int_equal(sum.sections, 0);
    assert_int_equal(lull_switchable_merged(gaps, 2, &latency, 1.0, &sum), 0);
    assert_int_equal(sum.sections, 1);
    assert_near(sum.gap_ms, 49.0, 1e-6); /* 90 - 40, less 1 of computation */
    assert_near(sum.slowed_ms, 1.0, 1e-6);
    assert_int_equal(lull_switchable_merged(gaps, 0, &latency, 1.0, &sum), 0);
    assert_near(sum.gap_ms, 0.0, 0.0);
}

static void test_energy(void **state)
{
    const struct lull_exposure exposure = {.span_ns = 10000000000,
                                           .compute_ns = 4000000000,
                                           .communication_ns = 3000000000,
                                           .overlap_ns = 1000000000,
                                           .exposed_ns = 2000000000,
                                           .idle_ns = 4000000000};
    const struct lull_power_levels levels = {{300, 100, 20}, {150, 70, 5}, 0.5};
    const struct lull_switchable switchable = {1, 5000, 1000, 100};

    (void)state;
    /* 4 s of 300 W, 6 s of 100 W, 3 s of 20 W more. */
    assert_near(lull_exposure_energy_j(&exposure, &levels), 1860.0, 1e-9);
    /* 5 s at 30 W less, 1 s at 15 W less, 0.1 s at 300 W that become 0.2 s at 150 W. */
    assert_near(lull_savings_estimate_j(&switchable, &levels), 165.0, 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alone),
        cmocka_unit_test(test_feed_forward),
        cmocka_unit_test(test_merged_is_the_best_of_what_slows_so_much),
        cmocka_unit_test(test_merging_joins_what_is_too_short_alone),
        cmocka_unit_test(test_energy),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
