/* Detection of a straggler, its request, and its end.
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/pipeline/follow/straggler_detector.h"
#include "../../property.h"

enum { DEVICES = 4, SPAN = 1000000, GAP = 50000 };

struct world {
    struct lull_straggler_detector *straggler;
    struct lull_random random;
    double noise;
    double others;          /* iteration length of the slowest other copy, of SPAN; 0 none */
    double serial;          /* something behind the iteration, of SPAN */
    double factor[DEVICES]; /* slowness of devices */
    double asked[DEVICES];
    double extra; /* that the copy takes longer, of SPAN */
    uint32_t asks;
    uint32_t returns;
};

static void begin(struct world *world, uint64_t seed)
{
    struct lull_straggler_detector_config config;

    *world = (struct world){.noise = 0.001};
    lull_straggler_detector_config_default(&config);
    world->straggler = lull_straggler_detector_create(&config, DEVICES);
    assert_non_null(world->straggler);
    lull_random_init(&world->random, seed);
    for (int i = 0; i < DEVICES; i++)
        world->factor[i] = 1.0;
}

static double noisy(struct world *world, double value)
{
    return value * (1.0 + lull_random_normal(&world->random, 0.0, world->noise));
}

/* The slowest device decides how long the copy takes, as if all were on its critical path. */
static double slowest(const struct world *world)
{
    double most = 1.0;

    for (int i = 0; i < DEVICES; i++)
        most = fmax(most, world->factor[i]);
    return most;
}

static enum lull_straggler_detector_verdict iterate(struct world *world)
{
    const bool is_stretched = lull_straggler_detector_is_stretched(world->straggler);
    const double own = slowest(world) + (is_stretched ? world->extra : 0.0);
    const double span = noisy(world, own * SPAN);
    const double end = fmax(span, noisy(world, world->others * SPAN));
    double slowness[DEVICES];
    const struct lull_straggler_detector_sample sample = {
        .kind = is_stretched ? LULL_STRAGGLER_STRETCHED : LULL_STRAGGLER_PLANNED,
        .span_ns = (int64_t)span,
        .gap_ns = (int64_t)(end - span + noisy(world, world->serial * SPAN + GAP)),
        .slowness = slowness,
    };
    enum lull_straggler_detector_verdict verdict;

    for (int i = 0; i < DEVICES; i++)
        slowness[i] = noisy(world, 1.03 * world->factor[i]); /* the profile is not exact */
    verdict = lull_straggler_detector_take(world->straggler, &sample);
    if (verdict == LULL_STRAGGLER_STRETCH) {
        world->asks++;
        world->extra =
            (double)lull_straggler_detector_request(world->straggler, world->asked) / SPAN;
        lull_straggler_detector_answer(world->straggler, true);
    }
    world->returns += verdict == LULL_STRAGGLER_RETURN;
    return verdict;
}

static void iterate_often(struct world *world, int count)
{
    for (int i = 0; i < count; i++)
        iterate(world);
}

static void test_quiet_jobs_are_left_alone(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        struct world world;

        begin(&world, seed);
        world.noise = 0.002;
        iterate_often(&world, 1000);
        holds(world.asks == 0, seed);
        lull_straggler_detector_destroy(world.straggler);
    }
}

/* Asked within three iterations, with time left over; taken back in the iteration that ends it. */
static void test_other_copies_are_late(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        struct world world;

        begin(&world, seed);
        iterate_often(&world, 20);
        world.others = 1.05 + 0.5 * lull_random_uniform(&world.random);
        iterate_often(&world, 3);
        holds(world.asks == 1, seed);
        holds(world.extra > 0 && world.extra < world.others - 1.0 - 0.005, seed);
        holds(world.extra > world.others - 1.0 - 0.03, seed);
        iterate_often(&world, 100);
        holds(world.asks == 1 && world.returns == 0, seed);
        holds(lull_straggler_detector_lost_ns(world.straggler) == 0, seed);
        world.others = 0;
        holds(iterate(&world) == LULL_STRAGGLER_RETURN, seed);
        holds(!lull_straggler_detector_is_stretched(world.straggler), seed);
        holds((double)lull_straggler_detector_lost_ns(world.straggler) <
                  (world.extra + 0.02) * SPAN,
              seed);
        iterate_often(&world, 100);
        holds(world.asks == 1, seed);
        lull_straggler_detector_destroy(world.straggler);
    }
}

static void test_others_become_slower_still(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        struct world world;
        double before;

        begin(&world, seed);
        iterate_often(&world, 20);
        world.others = 1.1;
        iterate_often(&world, 10);
        before = world.extra;
        world.others = 1.2;
        iterate_often(&world, 10);
        holds(world.asks == 2 && world.extra > before + 0.08 && world.extra < 0.195, seed);
        holds(world.returns == 0, seed);
        lull_straggler_detector_destroy(world.straggler);
    }
}

static void test_a_device_is_slow(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        const uint32_t device = (uint32_t)(seed % DEVICES);
        struct world world;

        begin(&world, seed);
        iterate_often(&world, 20);
        world.factor[device] = 1.06 + 0.5 * lull_random_uniform(&world.random);
        iterate_often(&world, 3);
        holds(world.asks == 1 && world.extra <= 0, seed);
        for (uint32_t i = 0; i < DEVICES; i++)
            holds(i == device ? fabs(world.asked[i] - world.factor[i]) < 0.02 : world.asked[i] <= 1,
                  seed);
        iterate_often(&world, 100);
        holds(world.asks == 1 && world.returns == 0, seed);
        world.factor[device] = 1.0;
        holds(iterate(&world) == LULL_STRAGGLER_RETURN, seed);
        lull_straggler_detector_destroy(world.straggler);
    }
}

/* A longer optimizer looks like waiting once, costs one iteration, and is then known. */
static void test_what_is_no_waiting(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        struct world world;

        begin(&world, seed);
        iterate_often(&world, 20);
        world.serial = 0.05 + 0.2 * lull_random_uniform(&world.random);
        iterate_often(&world, 200);
        holds(world.asks == 1 && world.returns == 1, seed);
        holds(lull_straggler_detector_refuted(world.straggler) == 1, seed);
        holds((double)lull_straggler_detector_lost_ns(world.straggler) <
                  (world.extra + 0.02) * SPAN,
              seed);
        lull_straggler_detector_destroy(world.straggler);
    }
}

/* An intermittent straggler needs more and more evidence. */
static void test_a_straggler_that_comes_and_goes(void **state)
{
    struct world world;

    (void)state;
    begin(&world, 1);
    iterate_often(&world, 20);
    for (int i = 0; i < 200; i++) {
        world.others = 1.2;
        iterate_often(&world, 4);
        world.others = 0;
        iterate_often(&world, 4);
    }
    assert_true(world.asks >= 1 && world.asks <= 3);
    lull_straggler_detector_destroy(world.straggler);
}

static void test_nothing_to_win_is_asked_rarely(void **state)
{
    struct world world;
    uint32_t asks = 0;

    (void)state;
    begin(&world, 1);
    iterate_often(&world, 20);
    world.factor[1] = 1.3;
    for (int i = 0; i < 1000; i++)
        if (iterate(&world) == LULL_STRAGGLER_STRETCH) {
            asks++;
            lull_straggler_detector_answer(world.straggler, false);
        }
    assert_true(asks >= 1 && asks < 25);
    lull_straggler_detector_destroy(world.straggler);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quiet_jobs_are_left_alone),
        cmocka_unit_test(test_other_copies_are_late),
        cmocka_unit_test(test_others_become_slower_still),
        cmocka_unit_test(test_a_device_is_slow),
        cmocka_unit_test(test_what_is_no_waiting),
        cmocka_unit_test(test_a_straggler_that_comes_and_goes),
        cmocka_unit_test(test_nothing_to_win_is_asked_rarely),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
