/*
 * 32 GPUs of eight jobs under changing caps, in virtual time. This file has
 * its own model of the GPUs, and its own bound on the work under a cap: the linear program in which
 * every GPU mixes all its clocks freely, max sum speed so that sum power <= cap, solved by its
 * dual. SPDX-License-Identifier: Apache-2.0
 */
#include "cluster/core/power/power_steer.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/stats/random.h"

enum {
    GPUS = 32,
    JOBS = 8,
    GROUPS = 5, /* the cluster and its nodes */
    TICKS_PER_S = 10,
    LOWEST_MHZ = 210,
    HIGHEST_MHZ = 1410,
    CLOCKS = 81,
};

struct gpu {
    double static_w;
    double dynamic_w; /* at the highest clock, beyond the static part */
    double clock_bound;
    uint32_t clock_mhz; /* that it runs at */
    uint32_t next_mhz;  /* that it runs at after this tick */
    uint32_t cap_mhz;   /* that is in force... */
    uint32_t next_cap_mhz;
    uint32_t since_cap_mhz; /* ...and was when it was looked at last */
    double limit_w, next_limit_w;
    double sum_w; /* of the ticks since it was looked at */
    uint32_t ticks;
};

struct world {
    struct lull_random random;
    struct gpu gpus[GPUS];
    struct lull_power_steer *steer;
    struct lull_steered_gpu facts[GPUS];
    struct lull_steer_update update[GPUS];
    struct lull_power_group groups[GROUPS];
    struct lull_steered_job jobs[JOBS];
    uint64_t tick;
    double noise;
    double excess_w; /* as reported in the last round */
    double now_w;
};

/* The voltage is flat up to three fifths of the highest clock and then rises, as on an A100. */
static double power_w(const struct gpu *gpu, double mhz)
{
    const double x = mhz / HIGHEST_MHZ;
    const double volts = x < 0.6 ? 0.72 : 0.72 + 0.28 * (x - 0.6) / 0.4;

    return gpu->static_w + gpu->dynamic_w * x * volts * volts;
}

static double speed(const struct gpu *gpu, double mhz)
{
    return 1.0 / (1.0 - gpu->clock_bound + gpu->clock_bound * HIGHEST_MHZ / mhz);
}

static void make_world(struct world *world, uint64_t seed)
{
    memset(world, 0, sizeof(*world));
    lull_random_init(&world->random, seed);
    world->noise = 0.02;
    for (uint32_t j = 0; j < JOBS; j++)
        world->jobs[j] = (struct lull_steered_job){.weight = 1.0, .clock_bound = 1.0};
    for (uint32_t g = 0; g < GROUPS; g++)
        world->groups[g] =
            (struct lull_power_group){INFINITY, g == 0 ? (uint32_t)LULL_POWER_NO_GROUP : 0};
    for (uint32_t i = 0; i < GPUS; i++) {
        const uint32_t job = i / (GPUS / JOBS);

        world->gpus[i] = (struct gpu){
            .static_w = 70.0 + 6.0 * (job % 4),
            .dynamic_w = 200.0 + 15.0 * (job % 5) + 10.0 * lull_random_uniform(&world->random),
            .clock_bound = 0.8 + 0.2 * (job % 3) / 2.0,
            .clock_mhz = HIGHEST_MHZ,
            .next_mhz = HIGHEST_MHZ,
        };
        world->facts[i] = (struct lull_steered_gpu){.lowest_mhz = LOWEST_MHZ,
                                                    .highest_mhz = HIGHEST_MHZ,
                                                    .lowest_limit_w = 100.0,
                                                    .unknown_w = 400.0,
                                                    .group = 1 + i / 8};
        world->update[i].job = job;
    }
    assert_int_equal(lull_power_steer_create(world->facts, GPUS, &world->steer), 0);
}

/* A node's daemon looks at its GPUs once a second, each node at another time. */
static void look(struct world *world, uint32_t index)
{
    struct gpu *gpu = &world->gpus[index];

    if (world->tick % TICKS_PER_S != world->facts[index].group * 2 % TICKS_PER_S || gpu->ticks == 0)
        return;
    if (gpu->since_cap_mhz == gpu->cap_mhz) {
        world->update[index].power_w = gpu->sum_w / gpu->ticks;
        world->update[index].looks++;
        world->update[index].cap_mhz = gpu->cap_mhz;
    }
    gpu->since_cap_mhz = gpu->cap_mhz;
    gpu->sum_w = 0.0;
    gpu->ticks = 0;
}

static void decide(struct world *world)
{
    struct lull_steer_order orders[GPUS];

    assert_int_equal(lull_power_steer_decide(world->steer,
                                             &(struct lull_steer_view){world->update, world->groups,
                                                                       GROUPS, world->jobs, JOBS},
                                             orders, &world->excess_w),
                     0);
    for (uint32_t i = 0; i < GPUS; i++) {
        struct gpu *gpu = &world->gpus[i];

        gpu->next_mhz = HIGHEST_MHZ;
        if (orders[i].max_mhz != 0) /* the next clock of the device below */
            gpu->next_mhz = LOWEST_MHZ + (orders[i].max_mhz - LOWEST_MHZ) / 15 * 15;
        gpu->next_cap_mhz = orders[i].max_mhz;
        gpu->next_limit_w = orders[i].limit_w;
    }
}

/* One tick: power is drawn and read; decisions are made once a second and are in force a tick
 * later. */
static void run_tick(struct world *world)
{
    world->now_w = 0.0;
    for (uint32_t i = 0; i < GPUS; i++) {
        struct gpu *gpu = &world->gpus[i];
        double w;

        gpu->clock_mhz = gpu->next_mhz;
        gpu->cap_mhz = gpu->next_cap_mhz;
        gpu->limit_w = gpu->next_limit_w;
        w = power_w(gpu, gpu->clock_mhz) * lull_random_normal(&world->random, 1.0, world->noise);
        if (gpu->limit_w > 0.0)
            w = fmin(w, gpu->limit_w);
        world->now_w += w;
        gpu->sum_w += w;
        gpu->ticks++;
        look(world, i);
    }
    if (world->tick % TICKS_PER_S == 0)
        decide(world);
    world->tick++;
}

static double speed_of_all(const struct world *world)
{
    double sum = 0.0;

    for (uint32_t i = 0; i < GPUS; i++)
        sum += speed(&world->gpus[i], world->gpus[i].clock_mhz);
    return sum;
}

static double free_w(const struct world *world)
{
    double sum_w = 0.0;

    for (uint32_t i = 0; i < GPUS; i++)
        sum_w += power_w(&world->gpus[i], HIGHEST_MHZ);
    return sum_w;
}

/* The linear program's value: its dual, min over the price of a watt of price * cap + what each GPU
 * makes of that price, which is convex in the price. */
static double dual(const struct world *world, double cap_w, double price)
{
    double sum = price * cap_w;

    for (uint32_t i = 0; i < GPUS; i++) {
        double best = -INFINITY;

        for (uint32_t k = 0; k < CLOCKS; k++) {
            const double mhz = LOWEST_MHZ + 15.0 * k;

            best = fmax(best, speed(&world->gpus[i], mhz) - price * power_w(&world->gpus[i], mhz));
        }
        sum += best;
    }
    return sum;
}

static double linear_program(const struct world *world, double cap_w)
{
    double low = 0.0, high = 1.0;

    for (uint32_t step = 0; step < 60; step++) {
        const double a = low + (high - low) / 3.0, b = high - (high - low) / 3.0;

        if (dual(world, cap_w, a) < dual(world, cap_w, b))
            high = b;
        else
            low = a;
    }
    return dual(world, cap_w, low);
}

/* A cap that steps down and up ten times. */
static void test_cap_that_moves(void **state)
{
    static const double ratios[] = {0.8,  1.1, 0.65, 0.9, 0.55, 1.2, 0.7, 0.85, 0.6,  0.95,
                                    0.75, 1.1, 0.5,  0.8, 0.6,  0.9, 0.7, 1.0,  0.65, 0.85};
    struct world world;
    double done = 0.0, possible = 0.0, worst = 0.0;
    uint32_t most_ticks = 0, late_ticks = 0;

    (void)state;
    make_world(&world, 7);
    for (uint32_t t = 0; t < 5 * TICKS_PER_S; t++)
        run_tick(&world);
    for (uint32_t s = 0; s < sizeof(ratios) / sizeof(ratios[0]); s++) {
        const double cap_w = ratios[s] * free_w(&world);
        const double bound = linear_program(&world, cap_w);
        uint32_t over_ticks = 0;

        world.groups[0].cap_w = cap_w;
        for (uint32_t t = 0; t < 30 * TICKS_PER_S + 3;
             t++) { /* steps come at any time of a round */
            run_tick(&world);
            done += speed_of_all(&world);
            possible += bound;
            over_ticks += world.now_w > 1.01 * cap_w;
            late_ticks += t >= 2 * TICKS_PER_S && world.now_w > 1.01 * cap_w;
            if (t >= 2 * TICKS_PER_S)
                worst = fmax(worst, world.now_w / cap_w);
        }
        assert_true(world.excess_w == 0.0);
        most_ticks = over_ticks > most_ticks ? over_ticks : most_ticks;
    }
    printf("cap: %.2f %% of the linear program; above 101 %% of it for %.1f s of a step at most, "
           "and for %.1f s in all later than 2 s after one: up to %.2f %%\n",
           100.0 * done / possible, most_ticks / (double)TICKS_PER_S,
           late_ticks / (double)TICKS_PER_S, 100.0 * worst);
    assert_true(done >= 0.95 * possible);
    assert_true(most_ticks <= 2 * TICKS_PER_S);
    lull_power_steer_destroy(world.steer);
}

/* When a cap rises, the effect of the last orders is not awaited, even if the other groups have no
 * cap.
 */
static void test_a_cap_that_rises_is_followed_at_once(void **state)
{
    static const double ratios[] = {0.7, 0.6, 0.9};
    static const uint32_t ticks[] = {200, 10, 9}; /* at last, one round */
    struct world world;
    double free_before_w;

    (void)state;
    make_world(&world, 3);
    free_before_w = free_w(&world);
    for (uint32_t s = 0; s < 3; s++) {
        world.groups[0].cap_w = ratios[s] * free_before_w;
        for (uint32_t t = 0; t < ticks[s]; t++)
            run_tick(&world);
    }
    assert_true(world.now_w > 0.75 * free_before_w);
    assert_true(world.now_w < 0.92 * free_before_w);
    lull_power_steer_destroy(world.steer);
}

struct event_result {
    double met_s; /* from the start of the event on */
    uint32_t late_ticks;
};

/* One event of a grid. No job may be below its minimum, and a target that cannot be met is
 * reported. */
static struct event_result run_event(struct world *world, double target_w, uint32_t length_s)
{
    struct event_result result = {.met_s = -1.0};

    world->groups[0].cap_w = target_w;
    for (uint32_t t = 0; t < length_s * TICKS_PER_S; t++) {
        run_tick(world);
        if (result.met_s < 0.0 && world->now_w <= target_w)
            result.met_s = t / (double)TICKS_PER_S;
        result.late_ticks += t >= 10 * TICKS_PER_S && world->now_w > 1.01 * target_w;
        for (uint32_t i = 0; i < GPUS; i++)
            assert_true(world->gpus[i].clock_mhz >=
                        world->jobs[world->update[i].job].min_ratio * HIGHEST_MHZ - 15.0);
    }
    world->groups[0].cap_w = INFINITY;
    return result;
}

static void test_grid_events(void **state)
{
    struct world world;
    double slowest_s = 0.0;
    uint32_t unwilling = 0;

    (void)state;
    printf("seed 11\n");
    make_world(&world, 11);
    for (uint32_t e = 0; e < 200; e++) {
        const double depth = 0.1 + 0.3 * lull_random_uniform(&world.random);
        const uint32_t length_s = 20 + (uint32_t)lull_random_below(&world.random, 100);
        struct event_result result;

        for (uint32_t j = 0; j < JOBS; j++)
            world.jobs[j].min_ratio = (double)lull_random_below(&world.random, 2) * 0.8 *
                                      lull_random_uniform(&world.random);
        for (uint32_t t = 0; t < 10 * TICKS_PER_S; t++)
            run_tick(&world);
        for (uint32_t i = 0; i < GPUS; i++) {
            assert_int_equal(world.gpus[i].clock_mhz, HIGHEST_MHZ);
            assert_true(world.gpus[i].limit_w == 0.0);
        }
        result = run_event(&world, (1.0 - depth) * free_w(&world), length_s);
        if (world.excess_w > 0.0) {
            unwilling++;
            continue;
        }
        assert_true(result.met_s >= 0.0 && result.met_s <= 10.0);
        assert_int_equal(result.late_ticks, 0);
        slowest_s = fmax(slowest_s, result.met_s);
    }
    printf("grid: 200 events, the slowest met after %.1f s; %u beyond what the jobs bear\n",
           slowest_s, unwilling);
    assert_true(unwilling < 20);
    lull_power_steer_destroy(world.steer);
}

/* If clocks do not suffice, power limits are used, except for jobs that have declared a minimum
 * clock. */
static void test_limits_come_second(void **state)
{
    struct world world;
    struct event_result result;
    double target_w;

    (void)state;
    make_world(&world, 3);
    for (uint32_t i = 0; i < GPUS; i++) /* a clock that cannot be lowered any further */
        world.gpus[i].static_w = 250.0;
    for (uint32_t t = 0; t < 5 * TICKS_PER_S; t++)
        run_tick(&world);
    target_w = 0.5 * free_w(&world);
    result = run_event(&world, target_w, 40);
    assert_true(result.met_s >= 0.0 && result.met_s <= 10.0);
    assert_int_equal(result.late_ticks, 0);
    assert_true(world.gpus[0].limit_w >= 100.0 && world.excess_w == 0.0);
    for (uint32_t t = 0; t < 10 * TICKS_PER_S; t++)
        run_tick(&world);
    assert_true(world.gpus[0].limit_w == 0.0 && world.gpus[0].clock_mhz == HIGHEST_MHZ);
    world.jobs[0].min_ratio = 0.5;
    world.update[4].floor_mhz = 900;
    for (uint32_t j = 2; j < JOBS; j++)
        world.jobs[j].min_ratio = 0.9;
    run_event(&world, target_w, 40);
    assert_true(world.excess_w > 0.0);
    for (uint32_t i = 0; i < GPUS; i++)
        assert_true(world.gpus[i].limit_w == 0.0 || i / 4 == 1);
    assert_true(world.gpus[4].limit_w == 0.0 && world.gpus[4].clock_mhz >= 900);
    lull_power_steer_destroy(world.steer);
}

/* The assumed power of a GPU at its lowest clock was too high: its limit is lifted
 * as soon as readings show less. A GPU whose power no limit can lower has none. */
static void test_limits_that_hold_nothing_go(void **state)
{
    struct world world;

    (void)state;
    make_world(&world, 5);
    for (uint32_t i = 0; i < GPUS; i++)
        world.gpus[i].static_w = i % 8 == 0 ? 250.0 : 40.0; /* those of 250 W can be reduced */
    world.groups[0].cap_w = 1.0;
    for (uint32_t t = 0; t < 5 * TICKS_PER_S; t++)
        run_tick(&world);
    for (uint32_t i = 0; i < GPUS; i++) {
        assert_int_equal(world.gpus[i].clock_mhz, LOWEST_MHZ);
        assert_true((world.gpus[i].limit_w == 0.0) ==
                    (power_w(&world.gpus[i], LOWEST_MHZ) < 100.0));
    }
    assert_true(world.excess_w > 0.0);
    lull_power_steer_destroy(world.steer);
}

/* A job that begins under a cap is detected, and so is a node that disappears with its power. */
static void test_changes_of_work(void **state)
{
    struct world world;
    double cap_w;

    (void)state;
    make_world(&world, 5);
    for (uint32_t i = 0; i < 8; i++)
        world.gpus[i].dynamic_w = 0.0;
    cap_w = 0.8 * free_w(&world);
    world.groups[0].cap_w = cap_w;
    for (uint32_t t = 0; t < 30 * TICKS_PER_S; t++)
        run_tick(&world);
    for (uint32_t i = 0; i < 8; i++)
        world.gpus[i].dynamic_w = 260.0;
    for (uint32_t t = 0; t < 30 * TICKS_PER_S; t++) {
        run_tick(&world);
        assert_true(t < 4 * TICKS_PER_S || world.now_w <= 1.01 * cap_w);
    }
    for (uint32_t i = 8; i < 16; i++) {
        world.update[i].is_away = true;
        world.update[i].power_w = 0.0;
    }
    world.groups[0].cap_w = 0.8 * cap_w;
    for (uint32_t t = 0; t < 30 * TICKS_PER_S; t++) {
        const uint32_t before_mhz = world.gpus[8].next_mhz;

        run_tick(&world);
        assert_int_equal(world.gpus[8].next_mhz, before_mhz);
        assert_true(t < 10 * TICKS_PER_S || world.now_w <= 0.81 * cap_w);
    }
    lull_power_steer_destroy(world.steer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cap_that_moves),
        cmocka_unit_test(test_a_cap_that_rises_is_followed_at_once),
        cmocka_unit_test(test_grid_events),
        cmocka_unit_test(test_limits_come_second),
        cmocka_unit_test(test_limits_that_hold_nothing_go),
        cmocka_unit_test(test_changes_of_work),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
