/*
 * The controller on a small server of this test's own, in virtual time.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdlib.h>
#include <string.h>

#include "../property.h"
#include "core/serving/controller_state.h"
#include "serving_plant.h"

enum { ROOM = 20000 };

static const struct lull_objective objective = {0.5, 0.05, 0.99};

struct scene {
    struct plant_config plant;
    struct plant_request *requests;
    size_t count;
    struct lull_serving_config config;
};

/* A server with a load of `rate` requests per second. */
static struct scene scene_make(double rate, double seconds, uint64_t seed)
{
    struct scene scene = {
        .plant = plant_small(lull_device_curve_find("H100-SXM5", strlen("H100-SXM5"))),
        .requests = calloc(ROOM, sizeof(struct plant_request)),
    };
    struct lull_random random;

    assert_non_null(scene.requests);
    lull_random_init(&random, seed);
    scene.count = plant_arrivals(scene.requests, ROOM, 0.0, seconds, rate, 500.0, 150.0, &random);
    scene.config = plant_controller_config(&scene.plant, &objective);
    return scene;
}

static struct plant_result scene_run(struct scene *scene, double seconds,
                                     const struct plant_faults *faults, plant_watch_fn *watch,
                                     void *user)
{
    struct lull_serving_controller *const controller =
        lull_serving_controller_create(&scene->config);
    struct plant_result result;

    assert_non_null(controller);
    result = plant_run(&scene->plant, scene->requests, scene->count, seconds, controller, 0.0,
                       faults, watch, user);
    lull_serving_controller_destroy(controller);
    return result;
}

static double scene_misses(const struct scene *scene)
{
    double missed = 0.0;

    for (size_t i = 0; i < scene->count; i++)
        missed += plant_missed(&scene->requests[i], &objective);
    return missed / (double)scene->count;
}

/* A decode-heavy load: most of the energy that a lower clock saves is saved, and misses stay. */
static void test_it_saves_energy_and_keeps_the_objective(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct scene scene = scene_make(3.0, 900.0, seed);
        const struct plant_result full =
            plant_run(&scene.plant, scene.requests, scene.count, 900.0, NULL,
                      scene.plant.curve->sm_max_mhz, NULL, NULL, NULL);
        const double missed = scene_misses(&scene);
        const struct plant_result lull = scene_run(&scene, 900.0, NULL, NULL, NULL);

        holds(lull.first_lower_s < 10.0, seed);
        holds(1.0 - lull.joules / full.joules > 0.36, seed);
        holds(scene_misses(&scene) < missed + 0.005, seed);
        free(scene.requests);
    }
}

/* A server with random times and powers. */
static struct scene scene_of_random_server(double seconds, uint64_t seed)
{
    struct lull_random random;
    struct scene scene;
    double rate;

    lull_random_init(&random, seed);
    rate = 0.3 + 5.0 * lull_random_uniform(&random);
    scene = scene_make(rate, seconds, seed);
    scene.plant.host_s = 0.0005 + 0.002 * lull_random_uniform(&random);
    scene.plant.step_s = 0.004 + 0.006 * lull_random_uniform(&random);
    scene.plant.prompt_s = (0.5 + lull_random_uniform(&random)) / 25000.0;
    scene.plant.decode_memory_ratio = 0.6 + 0.35 * lull_random_uniform(&random);
    scene.plant.prefill_memory_ratio = 0.3 * lull_random_uniform(&random);
    scene.plant.base_w = 70.0 + 60.0 * lull_random_uniform(&random);
    scene.plant.decode_w = 60.0 + 100.0 * lull_random_uniform(&random);
    scene.plant.prefill_w = 150.0 + 150.0 * lull_random_uniform(&random);
    return scene;
}

/* The estimate of saved energy has a mean error below 1.5 points, and at most one of ten servers is
 * off by more than 5. */
static void test_estimated_saving_of_random_servers(void **state)
{
    enum { SERVERS = 20 };
    double sum = 0.0;
    int far = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= SERVERS; seed++) {
        struct scene scene = scene_of_random_server(400.0, seed);
        const struct plant_result full =
            plant_run(&scene.plant, scene.requests, scene.count, 400.0, NULL,
                      scene.plant.curve->sm_max_mhz, NULL, NULL, NULL);
        const struct plant_result lull = scene_run(&scene, 400.0, NULL, NULL, NULL);
        const double error = lull.state.saved_ratio - (1.0 - lull.joules / full.joules);

        print_message("server %2d: saved %5.1f %%, error of the estimate %+5.1f points\n",
                      (int)seed, 100.0 * (1.0 - lull.joules / full.joules), 100.0 * error);
        holds(fabs(error) < 0.1, seed);
        sum += error;
        far += fabs(error) > 0.05;
        free(scene.requests);
    }
    print_message("mean %+.2f points, %d of %d beyond 5 points\n", 100.0 * sum / SERVERS, far,
                  SERVERS);
    assert_true(fabs(sum) < 0.015 * SERVERS);
    assert_true(far <= SERVERS / 10);
}

struct danger {
    double from_s;
    double to_s;
    double late_s;  /* readings in this time at which the clock was not the highest */
    double first_s; /* when it was first; INFINITY: never */
    double highest_mhz;
    enum lull_serving_mode mode; /* of the last reading before to_s */
    char reason[160];
};

static void watch_danger(void *user, double now_s, double clock_mhz,
                         const struct lull_serving_reading *reading,
                         const struct lull_serving_state *at)
{
    struct danger *const danger = user;

    (void)reading;
    if (now_s < danger->from_s || now_s >= danger->to_s)
        return;
    danger->mode = at->mode;
    strncpy(danger->reason, at->reason, sizeof(danger->reason) - 1);
    if (clock_mhz < danger->highest_mhz)
        danger->late_s += 0.1;
    else if (danger->first_s > now_s)
        danger->first_s = now_s;
}

static struct danger danger_between(const struct scene *scene, double from_s, double to_s)
{
    return (struct danger){.from_s = from_s,
                           .to_s = to_s,
                           .first_s = INFINITY,
                           .highest_mhz = scene->plant.curve->sm_max_mhz};
}

/* Ten times the load for five seconds: the highest clock within a reading or two. */
static void test_it_raises_in_a_burst(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        struct scene scene = scene_make(3.0, 120.0, seed);
        struct lull_random random;
        struct danger danger = danger_between(&scene, 120.0, 125.0);

        lull_random_init(&random, seed + 100);
        scene.count += plant_arrivals(scene.requests + scene.count, ROOM - scene.count, 120.0,
                                      125.0, 50.0, 500.0, 150.0, &random);
        scene_run(&scene, 130.0, NULL, watch_danger, &danger);
        holds(danger.first_s < 120.6, seed);
        free(scene.requests);
    }
}

static void test_missing_metrics_raise_it(void **state)
{
    struct scene scene = scene_make(3.0, 200.0, 1);
    const struct plant_faults faults = {.vanish_from_s = 100.0, .vanish_to_s = 110.0};
    struct danger danger = danger_between(&scene, 100.45, 110.0);

    (void)state;
    scene_run(&scene, 200.0, &faults, watch_danger, &danger);
    assert_near(danger.late_s, 0.0, 0.0);
    assert_int_equal(danger.mode, LULL_SERVING_BLIND);
    assert_string_equal(danger.reason, "The server's metrics are missing.");
    danger = danger_between(&scene, 150.0, 190.0);
    scene_run(&scene, 200.0, &faults, watch_danger, &danger);
    assert_true(danger.late_s > 30.0);
    free(scene.requests);
}

static void test_frozen_metrics_raise_it(void **state)
{
    struct scene scene = scene_make(3.0, 200.0, 1);
    const struct plant_faults faults = {.freeze_from_s = 100.0, .freeze_to_s = 115.0};
    struct danger danger = danger_between(&scene, 101.5, 115.0);

    (void)state;
    scene_run(&scene, 200.0, &faults, watch_danger, &danger);
    assert_near(danger.late_s, 0.0, 0.0);
    assert_int_equal(danger.mode, LULL_SERVING_BLIND);
    free(scene.requests);
}

/* A restarted server is another server: it is learned from the beginning. */
static void test_a_restart_raises_it(void **state)
{
    struct scene scene = scene_make(3.0, 200.0, 1);
    const struct plant_faults faults = {.restart_s = 100.0};
    struct danger danger = danger_between(&scene, 100.15, 101.5);

    (void)state;
    scene_run(&scene, 200.0, &faults, watch_danger, &danger);
    assert_near(danger.late_s, 0.0, 0.0);
    assert_int_equal(danger.mode, LULL_SERVING_LEARNING);
    free(scene.requests);
}

static void test_implausible_readings_raise_it(void **state)
{
    struct scene scene = scene_make(3.0, 60.0, 1);
    struct lull_serving_controller *const controller =
        lull_serving_controller_create(&scene.config);
    struct lull_serving_reading reading = {.time_ns = INT64_C(61000000000), .running = 1.0};
    struct lull_serving_state at;

    (void)state;
    plant_run(&scene.plant, scene.requests, scene.count, 60.0, controller, 0.0, NULL, NULL, NULL);
    lull_serving_controller_take(controller, &reading); /* counters fall without a restart */
    assert_near(lull_serving_controller_poll(controller, reading.time_ns), 1980.0, 0.0);
    lull_serving_controller_state(controller, &at);
    assert_int_equal(at.mode, LULL_SERVING_BLIND);
    reading.running = NAN;
    lull_serving_controller_take(controller, &reading);
    assert_near(lull_serving_controller_poll(controller, reading.time_ns), 1980.0, 0.0);
    lull_serving_controller_destroy(controller);
    free(scene.requests);
}

/* An idle server is parked within a second, at the lowest clock that the first token can bear. */
static void test_idle_servers_are_parked(void **state)
{
    const double bounds_s[] = {INFINITY, 0.02, 0.0};

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct scene scene = scene_make(3.0, 60.0, 1);
        struct danger danger;

        scene.config.wake_s = bounds_s[i];
        danger = danger_between(&scene, 100.0, 160.0);
        scene_run(&scene, 160.0, NULL, watch_danger, &danger);
        assert_int_equal(danger.mode, LULL_SERVING_IDLE);
        if (bounds_s[i] > 0.0)
            assert_true(danger.late_s > 59.0);
        else
            assert_near(danger.late_s, 0.0, 0.0);
        free(scene.requests);
    }
}

/* Lull does not know the product: cautious, but it works. */
static void test_an_unknown_product(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct scene scene = scene_make(3.0, 600.0, seed);
        struct plant_result lull;

        scene.config.curve = NULL;
        lull = scene_run(&scene, 600.0, NULL, NULL, NULL);
        assert_true(lull.clock_s / lull.seconds < 0.6);
        assert_true(scene_misses(&scene) < 0.01);
        free(scene.requests);
    }
}

/* Counts values that are below the middle bound of three. */
static void count_values(struct lull_serving_histogram *histogram, double bound_s, double count)
{
    const double bounds_s[] = {bound_s / 2.0, bound_s, INFINITY};

    histogram->count = 3;
    for (int i = 0; i < 3; i++) {
        histogram->bound_s[i] = bounds_s[i];
        histogram->total[i] += count;
    }
    histogram->sum_s += count * bound_s / 4.0;
}

/* Runs a controller for a minute on readings that grow evenly. Returns its state at the end. */
static struct lull_serving_state run_pool(const struct lull_objective *bounds,
                                          void (*grow)(struct lull_serving_reading *reading))
{
    struct scene scene = scene_make(1.0, 1.0, 1);
    struct lull_serving_controller *controller;
    struct lull_serving_reading reading = {.time_ns = 1000000000};
    struct lull_serving_state at;

    scene.config.objective = *bounds;
    controller = lull_serving_controller_create(&scene.config);
    assert_non_null(controller);
    for (int i = 0; i < 600; i++) {
        const double before_mhz = lull_serving_controller_poll(controller, reading.time_ns);

        reading.time_ns += 100000000;
        grow(&reading);
        lull_serving_controller_take(controller, &reading);
        lull_serving_controller_take_clock(controller, reading.time_ns, before_mhz);
    }
    lull_serving_controller_state(controller, &at);
    lull_serving_controller_destroy(controller);
    free(scene.requests);
    return at;
}

static void grow_prefill(struct lull_serving_reading *reading)
{
    reading->running = reading->time_ns / 100000000 % 3 != 0; /* short gaps */
    reading->steps += 3.0;
    reading->prompt_tokens += 1000.0;
    reading->output_tokens += 1.0;
    reading->finished += 1.0;
    count_values(&reading->ttft, 0.5, 1.0);
    reading->tpot.count = 0;
}

static void grow_decode(struct lull_serving_reading *reading)
{
    reading->running = 4.0;
    reading->steps += 10.0;
    reading->output_tokens += 40.0;
    reading->finished += 1.0;
    reading->prompt_tokens += 1000.0;
    count_values(&reading->ttft, 0.5, 1.0);
    count_values(&reading->itl, 0.05, 40.0);
}

/* A pool has one bound and one latency: TTFT, or the time between tokens alone. */
static void test_pools_are_lowered(void **state)
{
    const struct lull_objective first = {0.5, INFINITY, 0.99};
    const struct lull_objective token = {INFINITY, 0.05, 0.99};
    const struct lull_serving_state prefill = run_pool(&first, grow_prefill);
    const struct lull_serving_state decode = run_pool(&token, grow_decode);

    (void)state;
    assert_true(prefill.clock_mhz < 1980.0);
    assert_near(prefill.requests, 599.0, 1.0);
    assert_true(isnan(prefill.predicted_tpot_s));
    assert_true(decode.clock_mhz < 1980.0);
    assert_near(decode.requests, 40.0 * 599.0, 40.0);
    assert_near(decode.missed_ratio, 0.0, 0.0);
}

/* Without the histogram of a judged latency the clock stays the highest, with the reason. */
static void test_an_absent_histogram_is_named(void **state)
{
    const struct plant_faults faults[] = {{.lacks_ttft = true}, {.lacks_tpot = true}};
    const char *const names[] = {"no histogram of TTFT", "no histogram of TPOT"};

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct scene scene = scene_make(3.0, 60.0, 1);
        struct danger danger = danger_between(&scene, 0.0, 60.0);
        struct plant_result result;

        scene.config.park_after_ns = INT64_MAX;
        result = scene_run(&scene, 60.0, &faults[i], watch_danger, &danger);
        assert_near(danger.late_s, 0.0, 0.0);
        assert_true(isinf(result.first_lower_s));
        assert_int_equal(danger.mode, LULL_SERVING_BLIND);
        assert_non_null(strstr(danger.reason, names[i]));
        free(scene.requests);
    }
}

/* A histogram that the objective does not need may be absent. */
static void test_only_judged_latencies_are_needed(void **state)
{
    const struct plant_faults faults = {.lacks_ttft = true};
    struct scene scene = scene_make(3.0, 60.0, 1);

    (void)state;
    scene.config.objective.ttft_s = INFINITY;
    assert_true(scene_run(&scene, 60.0, &faults, NULL, NULL).first_lower_s < 20.0);
    free(scene.requests);
}

/* Whether the controller calls readings missing so long after the last one. */
static bool is_blind_after(double period_s, double age_s)
{
    struct scene scene = scene_make(3.0, 60.0, 1);
    struct lull_serving_controller *const controller =
        lull_serving_controller_create(&scene.config);
    struct lull_serving_state at;

    plant_run(&scene.plant, scene.requests, scene.count, 60.0, controller, 0.0, NULL, NULL, NULL);
    lull_serving_controller_set_period(controller, (int64_t)(period_s * 1e9));
    lull_serving_controller_poll(controller, (int64_t)((60.0 + age_s) * 1e9));
    lull_serving_controller_state(controller, &at);
    lull_serving_controller_destroy(controller);
    free(scene.requests);
    return at.mode == LULL_SERVING_BLIND;
}

static void test_slow_pages_are_not_missing(void **state)
{
    (void)state;
    assert_true(is_blind_after(0.1, 0.5));
    assert_false(is_blind_after(0.3, 0.5));
    assert_true(is_blind_after(0.3, 1.1));
    assert_false(is_blind_after(4.0, 5.5));
    assert_true(is_blind_after(4.0, 6.5));
}

/* Three requests arrive at three readings; the first one finds nothing lost. */
static void test_the_oldest_pending_request_counts(void **state)
{
    struct lull_serving_controller *const controller = calloc(1, sizeof(*controller));
    struct lull_serving_lost *const lost = &controller->lost;

    (void)state;
    assert_non_null(controller);
    for (uint64_t i = 0; i < 4; i++) {
        lost->kept[i].arrived = (double)i;
        lost->kept[i].caught_up_s = 0.1 * (double)i;
    }
    lost->count = 4;
    lost->arrived = 3.0;
    lost->caught_up_s = 0.3;
    lost->now_s = 0.5;
    controller->load.pending = 3.0;
    assert_near(lull_serving_pending_lost_s(controller), 0.5, 1e-9);
    controller->load.pending = 1.0;
    assert_near(lull_serving_pending_lost_s(controller), 0.3, 1e-9);
    controller->load.pending = 0.0;
    assert_near(lull_serving_pending_lost_s(controller), 0.2, 1e-9);
    free(controller);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_saves_energy_and_keeps_the_objective),
        cmocka_unit_test(test_estimated_saving_of_random_servers),
        cmocka_unit_test(test_it_raises_in_a_burst),
        cmocka_unit_test(test_missing_metrics_raise_it),
        cmocka_unit_test(test_frozen_metrics_raise_it),
        cmocka_unit_test(test_a_restart_raises_it),
        cmocka_unit_test(test_implausible_readings_raise_it),
        cmocka_unit_test(test_idle_servers_are_parked),
        cmocka_unit_test(test_an_unknown_product),
        cmocka_unit_test(test_pools_are_lowered),
        cmocka_unit_test(test_an_absent_histogram_is_named),
        cmocka_unit_test(test_only_judged_latencies_are_needed),
        cmocka_unit_test(test_slow_pages_are_not_missing),
        cmocka_unit_test(test_the_oldest_pending_request_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
