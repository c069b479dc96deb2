/*
 * The search for a power limit: against the exhaustive choice on the published power-limit logs
 * (LULL_ZEUS_DATA), and its rules on synthetic jobs. SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <math.h>

#include "core/tuning/limit_search.h"
#include "core/tuning/thermal.h"
#include "power_log.h"

enum { MAX_POINTS = 16 };

static struct lull_limit_search *create(const struct lull_limit_search_config *config,
                                        const struct lull_limit_point *settings, uint32_t count)
{
    struct lull_limit_search *search = NULL;
    struct lull_error err = {0};

    assert_int_equal(lull_limit_search_create(config, settings, count, &search, &err), 0);
    return search;
}

static uint32_t choice_of(const struct lull_limit_search *search,
                          const struct lull_job_selector *selector)
{
    struct lull_error err = {0};
    uint32_t measured;
    uint32_t count;
    uint32_t best = UINT32_MAX;
    const struct lull_limit_measure *measures =
        lull_limit_search_measures(search, &measured, &count);

    assert_int_equal(lull_limit_choose(selector, measures, measured, &best, &err), 0);
    return best;
}

static double measure_of(const struct lull_limit_search *search, uint32_t index)
{
    uint32_t measured;
    uint32_t count;

    return lull_limit_search_measures(search, &measured, &count)[index].point.limit_w;
}

/* ---- the published logs ------------------------------------------------------------------ */

static const struct lull_job_selector selectors[] = {
    {.aim = LULL_JOB_ENERGY},
    {.aim = LULL_JOB_TIME},
    {.aim = LULL_JOB_DELAY},
    {.aim = LULL_JOB_COST, .price.eta_ratio = 0.5},
    {.aim = LULL_JOB_SLOWDOWN, .slowdown_ratio = 0.05},
    {.aim = LULL_JOB_SLOWDOWN, .slowdown_ratio = 0.10},
    {.aim = LULL_JOB_SLOWDOWN, .slowdown_ratio = 0.20},
};

enum { SELECTORS = sizeof(selectors) / sizeof(selectors[0]) };

struct tally {
    unsigned choices;
    unsigned differing;
    double searched_s;
    double exhaustive_s;
};

static void search_log(const struct lull_cost_point *points, uint32_t count,
                       const struct lull_job_selector *selector,
                       const struct lull_device_curve *curve, struct tally *tally)
{
    struct lull_limit_search_config config = {.selector = *selector,
                                              .slice_s = 1e-3,
                                              .budget_s = 1e6,
                                              .curve = curve,
                                              .gpu_count = selector->price.gpu_count};
    struct lull_limit_point settings[MAX_POINTS];
    struct lull_limit_search *search;
    uint32_t next = 0;
    size_t exhaustive;

    for (uint32_t i = 0; i < count; i++) {
        settings[i] = (struct lull_limit_point){.limit_w = points[i].level};
        tally->exhaustive_s += points[i].time_s;
    }
    search = create(&config, settings, count);
    while (lull_limit_search_now(search) != NULL) {
        const struct lull_cost_point *point = points;

        while (point->level != lull_limit_search_now(search)->limit_w)
            point++;
        tally->searched_s += point >= &points[next] ? point->time_s : 0.0; /* the way up is free */
        next = point >= &points[next] ? (uint32_t)(point - points) + 1 : next;
        assert_true(lull_limit_search_take(search, 1, point->time_s, point->energy_j, NAN));
    }
    assert_int_equal(lull_job_select(selector, points, count, &exhaustive, NULL), 0);
    tally->choices++;
    tally->differing += measure_of(search, choice_of(search, selector)) != points[exhaustive].level;
    lull_limit_search_destroy(search);
}

/* Of the GPU that the name of a log begins with. */
static const struct lull_device_curve *curve_of(const char *log)
{
    return lull_device_curve_find(log, strcspn(log, "_"));
}

static void search_all(char *line, bool has_curve, struct tally *tally)
{
    struct lull_cost_point points[MAX_POINTS];
    const char *const log = lull_lines_cell(&line);
    const size_t count = power_log_read(log, points, MAX_POINTS);
    const double gpus = power_log_number(lull_lines_cell(&line));

    for (size_t i = 0; i < SELECTORS; i++) {
        struct lull_job_selector selector = selectors[i];

        selector.price.max_power_w = points[0].level;
        selector.price.gpu_count = (uint32_t)gpus;
        search_log(points, (uint32_t)count, &selector, has_curve ? curve_of(log) : NULL, tally);
    }
}

static void search_logs(bool has_curve, struct tally *tally)
{
    struct lull_lines *lines = NULL;
    char *line = NULL;

    if (lull_lines_open(PROFILES "EXPECTED.csv", &lines, NULL) < 0)
        skip();
    assert_int_equal(lull_lines_next(lines, &line, NULL), 1);
    while (lull_lines_next(lines, &line, NULL) == 1)
        search_all(line, has_curve, tally);
    lull_lines_close(lines);
    print_message("%u choices, %u differ; %.0f of %.0f s\n", tally->choices, tally->differing,
                  tally->searched_s, tally->exhaustive_s);
    assert_int_equal(tally->choices, 12 * SELECTORS);
    assert_int_equal(tally->differing, 0);
}

/* The curves of the GPUs skip limits, and the choices are the same. */
static void test_the_published_logs_are_searched_as_if_exhaustively(void **state)
{
    struct tally without = {0};
    struct tally with = {0};

    (void)state;
    search_logs(false, &without);
    search_logs(true, &with);
    assert_true(without.searched_s < 0.8 * without.exhaustive_s);
    assert_true(with.searched_s < without.searched_s);
}

/* ---- made-up jobs ------------------------------------------------------------------------ */

/* A job whose time grows as the limit falls below what it would draw. */
struct job {
    double free_s;
    double free_w;
    double noise_ratio; /* standard deviation, of a piece */
    struct lull_random random;
};

static void iterate(struct job *job, double limit_w, double *seconds_out, double *joules_out)
{
    const double draw_w = fmin(limit_w, job->free_w);
    /* Static power of 60 W; the clock goes with the cube root of what is left. */
    const double speed = cbrt((draw_w - 60.0) / (job->free_w - 60.0));
    const double noise = lull_random_normal(&job->random, 1.0, job->noise_ratio);

    *seconds_out = job->free_s / speed * noise;
    *joules_out = *seconds_out * draw_w;
}

/* Runs pieces of so many iterations until the search is over; returns how many pieces. */
static uint32_t run_job(struct lull_limit_search *search, struct job *job, uint64_t iterations)
{
    uint32_t pieces = 0;

    while (lull_limit_search_now(search) != NULL) {
        double seconds;
        double joules;

        iterate(job, lull_limit_search_now(search)->limit_w, &seconds, &joules);
        lull_limit_search_take(search, iterations, seconds * (double)iterations,
                               joules * (double)iterations, NAN);
        assert_true(++pieces < 100000);
    }
    return pieces;
}

static struct lull_limit_search_config config_of(enum lull_job_aim aim, uint32_t gpus)
{
    struct lull_limit_search_config config = lull_limit_search_defaults;

    config.selector.aim = aim;
    config.selector.price.max_power_w = 400.0;
    config.selector.price.gpu_count = gpus;
    config.selector.slowdown_ratio = 0.05;
    return config;
}

static void test_steady_jobs_need_short_slices(void **state)
{
    const struct lull_limit_search_config config = config_of(LULL_JOB_COST, 1);
    struct lull_limit_point settings[LULL_LIMIT_SEARCH_POINTS];
    const uint32_t count = lull_limit_search_ladder(400.0, 100.0, 25.0, settings);
    double spent_s[2];

    (void)state;
    assert_int_equal(count, 13);
    for (int noisy = 0; noisy < 2; noisy++) {
        struct job job = {.free_s = 0.1, .free_w = 380.0, .noise_ratio = noisy ? 0.02 : 0.0001};
        struct lull_limit_search *search = create(&config, settings, count);

        lull_random_init(&job.random, 7);
        run_job(search, &job, 5);
        spent_s[noisy] = lull_limit_search_spent_s(search);
        lull_limit_search_destroy(search);
    }
    assert_true(spent_s[0] < 13 * 4.5);
    assert_true(spent_s[0] < spent_s[1]);
    assert_true(spent_s[1] < 120.0);
}

static void test_hopeless_limits_are_given_up_early(void **state)
{
    const struct lull_limit_search_config config = config_of(LULL_JOB_COST, 1);
    struct lull_limit_point settings[LULL_LIMIT_SEARCH_POINTS];
    const uint32_t count = lull_limit_search_ladder(400.0, 75.0, 25.0, settings);
    struct job job = {.free_s = 0.1, .free_w = 380.0, .noise_ratio = 0.001};
    struct lull_limit_search *search = create(&config, settings, count);
    uint32_t measured;
    uint32_t all;

    (void)state;
    lull_random_init(&job.random, 3);
    run_job(search, &job, 5);
    lull_limit_search_measures(search, &measured, &all);
    assert_int_equal(all, count);
    assert_true(measured < count - 1);
    lull_limit_search_destroy(search);
}

static void test_a_slowdown_that_is_passed_ends_the_search(void **state)
{
    const struct lull_limit_search_config config = config_of(LULL_JOB_SLOWDOWN, 1);
    struct lull_limit_point settings[LULL_LIMIT_SEARCH_POINTS];
    const uint32_t count = lull_limit_search_ladder(400.0, 100.0, 25.0, settings);
    struct job job = {.free_s = 0.1, .free_w = 380.0, .noise_ratio = 0.0005};
    struct lull_limit_search *search = create(&config, settings, count);
    const struct lull_limit_measure *measures;
    uint32_t measured;
    uint32_t all;
    uint32_t best;

    (void)state;
    lull_random_init(&job.random, 3);
    run_job(search, &job, 5);
    measures = lull_limit_search_measures(search, &measured, &all);
    best = choice_of(search, &config.selector);
    assert_true(measured <= best + 4);
    assert_true(measures[best].iteration_s.mean <= 1.05 * measures[0].iteration_s.mean);
    assert_true(measures[best].point.limit_w < 380.0);
    lull_limit_search_destroy(search);
}

/* Two limits are slow while they are seen for the first time; seen again, the second is not. */
static void test_a_slowdown_that_does_not_come_again_ends_nothing(void **state)
{
    struct lull_limit_search_config config = config_of(LULL_JOB_SLOWDOWN, 1);
    struct lull_limit_point settings[LULL_LIMIT_SEARCH_POINTS];
    const uint32_t count = lull_limit_search_ladder(400.0, 200.0, 50.0, settings);
    struct lull_limit_search *search;
    bool is_seen[5] = {false};
    uint32_t measured;
    uint32_t all;

    (void)state;
    assert_int_equal(count, 5);
    config.settle_s = 0.0;
    search = create(&config, settings, count);
    while (lull_limit_search_now(search) != NULL) {
        const double limit_w = lull_limit_search_now(search)->limit_w;
        const long i = lround((400.0 - limit_w) / 50.0);
        const double seconds = !is_seen[i] && (i == 1 || i == 2) ? 1.08 : 1.0;

        is_seen[i] =
            lull_limit_search_take(search, 1, seconds, 0.9 * limit_w * seconds, NAN) || is_seen[i];
    }
    lull_limit_search_measures(search, &measured, &all);
    assert_int_equal(all, 5);
    assert_int_equal(measured, all);
    lull_limit_search_destroy(search);
}

/* Returns the relative excess of the found point over the best one, in energy or cost by the aim.
 */
static double regret(const struct lull_job_selector *selector, const struct lull_cost_point *found,
                     const struct lull_cost_point *best)
{
    if (selector->aim == LULL_JOB_ENERGY)
        return found->energy_j / best->energy_j - 1.0;
    return lull_job_cost(&selector->price, found->energy_j, found->time_s) /
               lull_job_cost(&selector->price, best->energy_j, best->time_s) -
           1.0;
}

static void test_noise_misleads_little(void **state)
{
    struct lull_limit_point settings[LULL_LIMIT_SEARCH_POINTS];
    const uint32_t count = lull_limit_search_ladder(400.0, 100.0, 25.0, settings);
    double worst = 0.0;

    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        const struct lull_limit_search_config config =
            config_of(seed % 2 == 0 ? LULL_JOB_COST : LULL_JOB_ENERGY, 4);
        struct lull_limit_search *search = create(&config, settings, count);
        struct job job = {.free_s = 0.2, .free_w = 330.0, .noise_ratio = 0.01};
        struct job silent = job;
        struct lull_cost_point points[LULL_LIMIT_SEARCH_POINTS];
        size_t exact;
        uint32_t found;

        lull_random_init(&job.random, seed);
        run_job(search, &job, 3);
        found = choice_of(search, &config.selector);
        silent.noise_ratio = 0.0;
        lull_random_init(&silent.random, 0);
        for (uint32_t i = 0; i < count; i++) {
            points[i].level = settings[i].limit_w;
            iterate(&silent, settings[i].limit_w, &points[i].time_s, &points[i].energy_j);
        }
        lull_job_select(&config.selector, points, count, &exact, NULL);
        worst = fmax(worst, regret(&config.selector, &points[found], &points[exact]));
        lull_limit_search_destroy(search);
    }
    print_message("at worst %.2f %% over the best\n", worst * 100.0);
    assert_true(worst < 0.015);
}

/* Other programs slow the job down at the second and third limit, whenever they are visited. */
static void test_limits_above_the_draw_do_not_end_the_search(void **state)
{
    const struct lull_limit_search_config config = config_of(LULL_JOB_DELAY, 1);
    struct lull_limit_point settings[LULL_LIMIT_SEARCH_POINTS];
    const uint32_t count = lull_limit_search_ladder(400.0, 100.0, 25.0, settings);
    struct job job = {.free_s = 0.1, .free_w = 320.0, .noise_ratio = 0.001};
    struct lull_limit_search *search = create(&config, settings, count);

    (void)state;
    lull_random_init(&job.random, 3);
    while (lull_limit_search_now(search) != NULL) {
        const double limit_w = lull_limit_search_now(search)->limit_w;
        double seconds;
        double joules;

        iterate(&job, limit_w, &seconds, &joules);
        if (limit_w > 340.0 && limit_w < 400.0) {
            seconds *= 1.1 + 0.001 * (400.0 - limit_w);
            joules *= 1.1;
        }
        lull_limit_search_take(search, 5, 5.0 * seconds, 5.0 * joules, NAN);
    }
    assert_true(settings[choice_of(search, &config.selector)].limit_w < 320.0);
    lull_limit_search_destroy(search);
}

/* Energy and time of the bench's job on the emulated H100, by lull-oracle: where the limit begins
 * to bind the product is 6 % higher than without a limit, and 4 % lower far below. */
static const double hump[][2] = {
    {1.000, 1.000}, {1.000, 1.000}, {1.000, 1.000}, {1.009, 1.017}, {1.005, 1.047}, {0.991, 1.063},
    {0.980, 1.081}, {0.963, 1.099}, {0.934, 1.120}, {0.904, 1.142}, {0.875, 1.166}, {0.845, 1.192},
    {0.815, 1.221}, {0.784, 1.254}, {0.753, 1.291}, {0.722, 1.333}, {0.693, 1.386}, {0.666, 1.458},
    {0.656, 1.595}, {0.634, 1.703}, {0.600, 1.797},
};

static void test_a_hump_does_not_end_the_search(void **state)
{
    const struct lull_limit_search_config config = config_of(LULL_JOB_DELAY, 1);
    struct lull_limit_point settings[LULL_LIMIT_SEARCH_POINTS];
    const uint32_t count = lull_limit_search_ladder(700.0, 200.0, 25.0, settings);

    (void)state;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        struct lull_limit_search *search = create(&config, settings, count);
        struct lull_random random;

        lull_random_init(&random, seed);
        while (lull_limit_search_now(search) != NULL) {
            const double limit_w = lull_limit_search_now(search)->limit_w;
            const double *truth = hump[lround((700.0 - limit_w) / 25.0)];

            lull_limit_search_take(search, 2,
                                   0.4 * truth[1] * lull_random_normal(&random, 1.0, 0.02),
                                   480.0 * truth[0] * lull_random_normal(&random, 1.0, 0.02), NAN);
        }
        assert_true(settings[choice_of(search, &config.selector)].limit_w < 425.0);
        lull_limit_search_destroy(search);
    }
}

static void test_clocks_are_searched_under_the_best_limit(void **state)
{
    struct lull_limit_search_config config = config_of(LULL_JOB_ENERGY, 1);
    const struct lull_limit_point settings[] = {{.limit_w = 300.0}, {.limit_w = 200.0}};
    const uint32_t clocks[] = {1200, 1100, 1000};
    const double joules[] = {100.0, 90.0, 85.0, 80.0, 88.0};
    struct lull_limit_search *search;
    const struct lull_limit_measure *measures;
    uint32_t measured;
    uint32_t count;

    (void)state;
    config.slice_s = 0.5;
    config.settle_s = 0.0;
    search = create(&config, settings, 2);
    assert_int_equal(lull_limit_search_refine(search, clocks, 3, NULL), -EINVAL);
    for (int i = 0; i < 2; i++)
        assert_true(lull_limit_search_take(search, 1, 1.0, joules[i], NAN));
    assert_true(
        lull_limit_search_take(search, 1, 1.0, joules[1], NAN)); /* once more on the way up */
    assert_int_equal(lull_limit_search_refine(search, clocks, 3, NULL), 0);
    for (int i = 2; i < 5; i++) {
        assert_near(lull_limit_search_now(search)->limit_w, 200.0, 0.0);
        assert_int_equal(lull_limit_search_now(search)->sm_mhz, clocks[i - 2]);
        assert_true(lull_limit_search_take(search, 1, 1.0, joules[i], NAN));
    }
    assert_int_equal(lull_limit_search_now(search)->sm_mhz, 1100);
    assert_true(lull_limit_search_take(search, 1, 1.0, joules[3], NAN));
    assert_null(lull_limit_search_now(search));
    measures = lull_limit_search_measures(search, &measured, &count);
    assert_int_equal(measured, 5);
    assert_int_equal(measures[choice_of(search, &config.selector)].point.sm_mhz, 1100);
    lull_limit_search_destroy(search);
}

/* Readings of whole degrees of a GPU that goes from one temperature to another; returns seconds. */
static double warm_up(double from_c, double to_c, double tau_s)
{
    struct lull_warmth warmth = {0};
    double seconds = 0.0;

    for (;; seconds += 0.05) {
        const int64_t now_ns = 1000 + (int64_t)(seconds * 1e9);
        const double celsius = to_c + (from_c - to_c) * exp(-seconds / tau_s);

        if (lull_warmth_is_due(&warmth, now_ns) &&
            lull_warmth_take(&warmth, now_ns, floor(celsius)))
            return seconds;
    }
}

static void test_nothing_is_measured_before_the_gpu_is_warm(void **state)
{
    (void)state;
    assert_near(warm_up(60.0, 60.0, 20.0), LULL_WARMTH_SPAN_S, 0.5);
    for (int sign = -1; sign <= 1; sign += 2) {
        const double seconds = warm_up(60.0 - sign * 30.0, 60.0, 20.0);

        /* Two degrees in five seconds leave seven: 2 % of the power. */
        assert_true(30.0 * exp(-seconds / 20.0) < 7.1);
        assert_true(seconds < LULL_WARMTH_MAX_S);
    }
    assert_near(warm_up(0.0, 1000.0, 200.0), LULL_WARMTH_MAX_S, 1.0); /* never in sight */
}

static void test_ladders_include_both_ends(void **state)
{
    struct lull_limit_point settings[LULL_LIMIT_SEARCH_POINTS];

    (void)state;
    for (double step_w = 0.5; step_w < 500.0; step_w *= 1.3) {
        const uint32_t count = lull_limit_search_ladder(350.0, 100.0, step_w, settings);

        assert_true(count >= 2 && count <= LULL_LIMIT_SEARCH_POINTS);
        assert_near(settings[0].limit_w, 350.0, 0.0);
        assert_near(settings[count - 1].limit_w, 100.0, 0.0);
        for (uint32_t i = 1; i < count; i++)
            assert_true(settings[i].limit_w < settings[i - 1].limit_w);
    }
    assert_int_equal(lull_limit_search_ladder(250.0, 250.0, 25.0, settings), 1);
}

static void test_nonsense_is_refused(void **state)
{
    struct lull_limit_search_config config = config_of(LULL_JOB_COST, 1);
    const struct lull_limit_point rising[] = {{.limit_w = 100.0}, {.limit_w = 200.0}};
    struct lull_limit_search *search = NULL;
    struct lull_error err = {0};

    (void)state;
    assert_int_equal(lull_limit_search_create(&config, rising, 0, &search, &err), -EINVAL);
    assert_int_equal(lull_limit_search_create(&config, rising, 2, &search, &err), -EINVAL);
    config.selector.price.eta_ratio = 2.0;
    assert_int_equal(lull_limit_search_create(&config, rising, 1, &search, &err), -EINVAL);
    config.selector.price.eta_ratio = 0.5;
    search = create(&config, rising, 1);
    assert_false(lull_limit_search_take(search, 0, 10.0, 1.0, NAN));
    assert_false(lull_limit_search_take(search, 1, -1.0, 1.0, NAN));
    assert_false(lull_limit_search_take(search, 1, NAN, 1.0, NAN));
    assert_false(lull_limit_search_take(search, 1, 10.0, -1.0, NAN)); /* a counter that was reset */
    assert_near(lull_limit_search_spent_s(search), 0.0, 0.0);
    lull_limit_search_destroy(search);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_published_logs_are_searched_as_if_exhaustively),
        cmocka_unit_test(test_steady_jobs_need_short_slices),
        cmocka_unit_test(test_hopeless_limits_are_given_up_early),
        cmocka_unit_test(test_a_slowdown_that_is_passed_ends_the_search),
        cmocka_unit_test(test_a_slowdown_that_does_not_come_again_ends_nothing),
        cmocka_unit_test(test_noise_misleads_little),
        cmocka_unit_test(test_limits_above_the_draw_do_not_end_the_search),
        cmocka_unit_test(test_a_hump_does_not_end_the_search),
        cmocka_unit_test(test_clocks_are_searched_under_the_best_limit),
        cmocka_unit_test(test_nothing_is_measured_before_the_gpu_is_warm),
        cmocka_unit_test(test_ladders_include_both_ends),
        cmocka_unit_test(test_nonsense_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
