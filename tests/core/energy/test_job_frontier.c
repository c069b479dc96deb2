/* The frontier of random jobs against the true values: iteration after iteration in virtual time,
 * with counters that are refreshed ten times a second and read as often, and noise between
 * iterations. SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../property.h"
#include "core/energy/job_frontier.h"

enum { CLOCKS = 81, JOBS = 400, STEP_MHZ = 15, TOP_MHZ = 1410, MOST_UNTOLD = 80 };

static const double refresh_s = 0.1;
static const double tolerance_ratio = 0.01;

/* ---- a job and its truth ----------------------------------------------------------------- */

/* In each iteration it computes and then waits. */
struct job {
    double compute_ms;   /* at the highest clock */
    double memory_ratio; /* of computing, that does not follow the clock */
    double wait_ms;
    double compute_w;
    double constant_ratio; /* of the power of computing */
    double floor_mhz;      /* below it the voltage falls no further */
    double wait_w;
    double wait_low_w; /* if gaps are lowered as well */
    double noise_ratio;
    double stalls_ratio; /* of iterations, which then take twice as long */
    bool lowers_gaps;
};

static uint32_t mhz_of(uint32_t point)
{
    return TOP_MHZ - STEP_MHZ * point;
}

static double compute_ms(const struct job *job, uint32_t point)
{
    return job->compute_ms *
           (job->memory_ratio + (1.0 - job->memory_ratio) * TOP_MHZ / mhz_of(point));
}

static double compute_w(const struct job *job, uint32_t point)
{
    const double clock = (double)mhz_of(point) / TOP_MHZ;
    const double voltage = 0.4 + 0.6 * fmax(mhz_of(point), job->floor_mhz) / TOP_MHZ;

    return job->compute_w *
           (job->constant_ratio + (1.0 - job->constant_ratio) * clock * voltage * voltage);
}

static double wait_w(const struct job *job, bool is_low)
{
    return is_low && job->lowers_gaps ? job->wait_low_w : job->wait_w;
}

static double energy_j(const struct job *job, uint32_t point, bool is_low)
{
    return (compute_ms(job, point) * compute_w(job, point) + job->wait_ms * wait_w(job, is_low)) *
           1e-3;
}

static double slowdown(const struct job *job, uint32_t point)
{
    return (compute_ms(job, point) + job->wait_ms) / (compute_ms(job, 0) + job->wait_ms) - 1.0;
}

static double true_saving(const struct job *job, double budget)
{
    double best = 0.0;

    for (uint32_t point = 0; point < CLOCKS; point++)
        if (slowdown(job, point) <= budget + 1e-12)
            best = fmax(best, 1.0 - energy_j(job, point, true) / energy_j(job, 0, false));
    return best;
}

static struct job draw_job(struct lull_random *random)
{
    const double iteration_ms = 30.0 * pow(30.0, lull_random_uniform(random));
    const double waiting = 0.5 * lull_random_uniform(random);
    const double idle_w = 60.0 + 40.0 * lull_random_uniform(random);

    return (struct job){
        .compute_ms = iteration_ms * (1.0 - waiting),
        .memory_ratio = 0.8 * lull_random_uniform(random),
        .wait_ms = iteration_ms * waiting,
        .compute_w = 200.0 + 200.0 * lull_random_uniform(random),
        .constant_ratio = 0.1 + 0.3 * lull_random_uniform(random),
        .floor_mhz = 700.0 + 400.0 * lull_random_uniform(random),
        .wait_w = idle_w,
        .wait_low_w = idle_w * 0.8,
        .noise_ratio = 0.005 * lull_random_uniform(random),
        .stalls_ratio = fmax(0.1 * lull_random_uniform(random) - 0.05, 0.0),
        .lowers_gaps = lull_random_uniform(random) < 0.5,
    };
}

/* ---- a run ------------------------------------------------------------------------------- */

enum { MAX_MARKS = 200000 };

struct run {
    const struct job *job;
    struct lull_random random;
    double now_s;
    double true_j;
    double counter_s; /* next refresh of the counter */
    double counter_j; /* its value */
    double sample_s;  /* its next reading */
    double last_s;    /* the last reading, and what was read */
    double last_j;
    uint32_t waiting; /* marks since then, which get their energy with the next reading */
    uint32_t count;
    uint64_t pair;
    struct lull_job_frontier_mark marks[MAX_MARKS];
};

/* Marks between two readings get their energy in proportion to time. */
static void read_counter(struct run *run)
{
    for (uint32_t i = run->count - run->waiting; i < run->count; i++) {
        const double at_s = (double)run->marks[i].time_ns * 1e-9;

        run->marks[i].energy_j = run->last_j + (run->counter_j - run->last_j) *
                                                   (at_s - run->last_s) /
                                                   (run->sample_s - run->last_s);
    }
    run->waiting = 0;
    run->last_s = run->sample_s;
    run->last_j = run->counter_j;
    run->sample_s += refresh_s * (0.95 + 0.1 * lull_random_uniform(&run->random));
}

static void draw_power(struct run *run, double seconds, double power_w)
{
    const double end_s = run->now_s + seconds;

    while (fmin(run->counter_s, run->sample_s) < end_s) {
        const double at_s = fmin(run->counter_s, run->sample_s);

        run->true_j += (at_s - run->now_s) * power_w;
        run->now_s = at_s;
        if (run->counter_s <= run->sample_s) {
            run->counter_j = run->true_j;
            run->counter_s += refresh_s;
        } else {
            read_counter(run);
        }
    }
    run->true_j += (end_s - run->now_s) * power_w;
    run->now_s = end_s;
}

static void iterate(struct run *run, const struct lull_visit *visit)
{
    const struct job *job = run->job;
    const uint32_t point = visit->is_candidate ? visit->point : 0;
    const double stretch = 1.0 + job->noise_ratio * (2.0 * lull_random_uniform(&run->random) - 1.0);

    assert_true(run->count < MAX_MARKS);
    run->marks[run->count++] =
        (struct lull_job_frontier_mark){.time_ns = (int64_t)(run->now_s * 1e9), .visit = *visit};
    run->waiting++;
    draw_power(run, compute_ms(job, point) * stretch * 1e-3, compute_w(job, point));
    draw_power(run, job->wait_ms * stretch * 1e-3, wait_w(job, visit->is_candidate));
    if (lull_random_uniform(&run->random) < job->stalls_ratio)
        draw_power(run, (job->compute_ms + job->wait_ms) * 1e-3, job->wait_w);
}

static void block(struct run *run, uint32_t point, bool is_candidate, uint32_t iterations)
{
    for (uint32_t i = 0; i <= iterations; i++)
        iterate(run, &(struct lull_visit){.is_measured = i > 0,
                                          .is_candidate = is_candidate,
                                          .point = is_candidate ? point : 0,
                                          .others = is_candidate && run->job->lowers_gaps ? 1 : 0,
                                          .pair = run->pair});
}

/* Pairs of blocks of 300 ms and two iterations at least, as trials have them. */
static void trial(struct run *run, uint32_t point, uint32_t pairs, uint32_t stretch)
{
    const uint32_t iterations =
        (uint32_t)fmax(ceil(300.0 / (run->job->compute_ms + run->job->wait_ms)), 2.0);

    for (uint32_t pair = 0; pair < pairs; pair++) {
        const bool is_first = lull_random_uniform(&run->random) < 0.5;

        run->pair++;
        block(run, point, is_first, is_first ? iterations * stretch : iterations);
        block(run, point, !is_first, is_first ? iterations : iterations * stretch);
    }
}

/* The search of a steady point, a proof of it and a watch, as the controller has them. */
static void search(struct run *run)
{
    uint32_t good = 0;
    uint32_t bad = CLOCKS;

    if (run->job->lowers_gaps)
        trial(run, 0, 10, 1);
    for (uint32_t stride = 1; bad - good > 1;) {
        const uint32_t next = bad == CLOCKS ? good + stride : good + (bad - good) / 2;
        const uint32_t point = next < CLOCKS ? next : CLOCKS - 1;

        trial(run, point, 4, 1);
        if (slowdown(run->job, point) > tolerance_ratio)
            bad = point;
        else
            good = point;
        if (good == CLOCKS - 1)
            break;
        stride *= 2;
    }
    if (good > 0) {
        trial(run, good, 10, 1);
        trial(run, good, 3, 8);
    }
}

/* ---- properties -------------------------------------------------------------------------- */

static struct run course; /* too large for a stack */
static struct lull_job_frontier frontier;

static void answer(const struct job *job, uint64_t seed, struct lull_job_frontier_point *points_out)
{
    uint32_t clocks_mhz[CLOCKS];

    for (uint32_t i = 0; i < CLOCKS; i++)
        clocks_mhz[i] = mhz_of(i);
    course = (struct run){.job = job, .sample_s = refresh_s, .pair = 1};
    lull_random_init(&course.random, seed);
    course.counter_s = refresh_s * lull_random_uniform(&course.random);
    search(&course);
    frontier = (struct lull_job_frontier){0};
    for (uint32_t i = 0; i < course.count - course.waiting; i++)
        lull_job_frontier_take(&frontier, &course.marks[i]);
    lull_job_frontier_answer(&frontier, job->lowers_gaps ? 1 : 0, clocks_mhz, CLOCKS, 1,
                             points_out);
}

static void test_intervals_hold_the_truth(void **state)
{
    uint32_t held[LULL_JOB_FRONTIER_BUDGETS] = {0};
    uint32_t untold[LULL_JOB_FRONTIER_BUDGETS] = {0};
    uint32_t measured[LULL_JOB_FRONTIER_BUDGETS] = {0};
    double width[LULL_JOB_FRONTIER_BUDGETS] = {0};
    double missed[LULL_JOB_FRONTIER_BUDGETS] = {0};

    (void)state;
    for (uint64_t seed = 0; seed < JOBS; seed++) {
        struct lull_job_frontier_point points[LULL_JOB_FRONTIER_BUDGETS];
        struct lull_random random;
        struct job job;

        lull_random_init(&random, seed);
        job = draw_job(&random);
        answer(&job, seed, points);
        for (int b = 0; b < LULL_JOB_FRONTIER_BUDGETS; b++) {
            const double truth = true_saving(&job, points[b].slowdown_ratio);

            if (points[b].reason != NULL) {
                untold[b]++;
                continue;
            }
            holds(points[b].low_ratio <= points[b].saving_ratio &&
                      points[b].saving_ratio <= points[b].high_ratio,
                  seed);
            held[b] += points[b].low_ratio <= truth + 1e-9 && truth <= points[b].high_ratio + 1e-9;
            measured[b] += points[b].is_measured;
            width[b] += (points[b].high_ratio - points[b].low_ratio) / JOBS;
            missed[b] += fabs(points[b].saving_ratio - truth) / JOBS;
        }
    }
    for (int b = 0; b < LULL_JOB_FRONTIER_BUDGETS; b++) {
        print_message("%.1f %% of time: %u of %u intervals hold the truth, %u measured, %u untold; "
                      "%.2f points "
                      "wide, %.2f off\n",
                      100.0 * lull_job_frontier_budgets[b], held[b], JOBS, measured[b], untold[b],
                      100.0 * width[b], 100.0 * missed[b]);
    }
    for (int b = 0; b < LULL_JOB_FRONTIER_BUDGETS; b++)
        assert_true(100 * held[b] >= 95 * (JOBS - untold[b]) && untold[b] <= MOST_UNTOLD);
    /* The intervals are useful: narrow near visited clocks, and where they are finite. */
    assert_true(width[3] < 0.12 && missed[3] < 0.018);
    assert_true(width[5] < 0.4 && missed[5] < 0.08);
}

/* Tried clocks are reported with intervals that contain their true
 * values. The watch, whose blocks are longest, has the narrowest
 * interval. */
static void test_what_was_tried_holds_the_truth(void **state)
{
    enum { DRAWN = 100 };
    static struct lull_job_frontier_tried tried[LULL_JOB_FRONTIER_SETTINGS];
    uint32_t reported = 0;
    uint32_t held = 0;
    uint32_t in_time = 0;

    (void)state;
    for (uint64_t seed = 0; seed < DRAWN; seed++) {
        struct lull_job_frontier_point points[LULL_JOB_FRONTIER_BUDGETS];
        struct lull_random random;
        struct job job;
        uint32_t count;

        lull_random_init(&random, seed);
        job = draw_job(&random);
        answer(&job, seed, points);
        count = lull_job_frontier_list(&frontier, 1, tried);
        holds(count > 0 && count <= LULL_JOB_FRONTIER_SETTINGS, seed);
        for (uint32_t i = 0; i < count; i++) {
            const double truth =
                1.0 - energy_j(&job, tried[i].point, true) / energy_j(&job, 0, false);

            holds(tried[i].others == (job.lowers_gaps ? 1 : 0) && tried[i].pairs >= 2, seed);
            if (!isfinite(tried[i].saving_ratio))
                continue;
            reported++;
            holds(tried[i].low_ratio <= tried[i].saving_ratio &&
                      tried[i].saving_ratio <= tried[i].high_ratio,
                  seed);
            held += tried[i].low_ratio <= truth && truth <= tried[i].high_ratio;
            in_time += fabs(tried[i].slowdown_ratio - slowdown(&job, tried[i].point)) <=
                       tried[i].slowdown_half_ratio;
        }
    }
    print_message("%u settings: %u intervals of energy and %u of time hold the truth\n", reported,
                  held, in_time);
    assert_true(reported > 3 * DRAWN);
    assert_true(100 * held >= 95 * reported && 100 * in_time >= 93 * reported);
}

/* Iterations of 40 ms that draw 100 W at the highest clock and 80 W at 1395 MHz; the counter is
 * late by two of them. Every tenth one stalls. */
static void take_late_blocks(uint64_t others)
{
    enum { BLOCK = 20, BLOCKS = 12, LATE = 2 };
    double powers_w[LATE] = {100.0, 100.0};
    double energy_j = 0.0;
    double now_s = 0.0;

    frontier = (struct lull_job_frontier){0};
    for (uint32_t block = 0; block < BLOCKS; block++)
        for (uint32_t i = 0; i < BLOCK; i++) {
            const bool is_candidate = block % 2 == 1;
            const double seconds = (is_candidate ? 0.04024 : 0.04) * (i % 10 == 9 ? 3.0 : 1.0);

            lull_job_frontier_take(&frontier,
                                   &(struct lull_job_frontier_mark){
                                       .time_ns = (int64_t)(now_s * 1e9),
                                       .energy_j = energy_j,
                                       .visit = {i > 0, is_candidate, is_candidate,
                                                 is_candidate ? others : 0, block / 2 + 1}});
            energy_j += powers_w[i % LATE] * seconds;
            powers_w[i % LATE] = is_candidate ? 80.0 : 100.0;
            now_s += seconds;
        }
}

static void test_what_is_late_or_stalls_does_not_count(void **state)
{
    const uint32_t clocks_mhz[] = {1410, 1395};
    struct lull_job_frontier_point points[LULL_JOB_FRONTIER_BUDGETS];

    (void)state;
    take_late_blocks(0);
    lull_job_frontier_answer(&frontier, 0, clocks_mhz, 2, 1, points);
    assert_near(points[5].saving_ratio, 1.0 - 0.8 * 1.006, 1e-3);
    assert_true(points[5].is_measured);
    assert_true(points[0].saving_ratio == 0.0 && points[2].saving_ratio == 0.0);
    assert_true(points[3].saving_ratio > 0.19);
}

static void test_what_was_tried_is_listed(void **state)
{
    static struct lull_job_frontier_tried tried[LULL_JOB_FRONTIER_SETTINGS];

    (void)state;
    take_late_blocks(7);
    assert_int_equal(lull_job_frontier_list(&frontier, 1, tried), 1);
    assert_true(tried[0].point == 1 && tried[0].others == 7 && tried[0].pairs == 5);
    assert_near(tried[0].slowdown_ratio, 0.006, 1e-6);
    assert_near(tried[0].saving_ratio, 1.0 - 0.8 * 1.006, 1e-3);
    assert_true(tried[0].low_ratio < tried[0].saving_ratio);
    assert_true(tried[0].high_ratio > tried[0].saving_ratio);
    frontier = (struct lull_job_frontier){0};
    assert_int_equal(lull_job_frontier_list(&frontier, 1, tried), 0);
}

/* Pairs with other points of sections are not used for the accepted ones. */
static void test_other_sections_are_told_apart(void **state)
{
    const uint32_t clocks_mhz[] = {1410, 1395};
    struct lull_job_frontier_point points[LULL_JOB_FRONTIER_BUDGETS];

    (void)state;
    take_late_blocks(7);
    lull_job_frontier_answer(&frontier, 0, clocks_mhz, 2, 1, points);
    assert_true(isnan(points[5].saving_ratio));
    assert_non_null(points[5].reason);
    lull_job_frontier_answer(&frontier, 7, clocks_mhz, 2, 1, points);
    assert_string_equal(points[0].reason, "no clock was visited that costs so little");
    assert_string_equal(
        points[5].reason,
        "only one steady clock was tested with the accepted clocks in sections and gaps");
}

/* A budget whose best clock is the kept one gets the saving and the interval of the kept clock.
 * Other budgets keep their own. */
static void test_what_is_kept_has_one_interval(void **state)
{
    static struct lull_job_frontier_tried tried[LULL_JOB_FRONTIER_SETTINGS];
    uint32_t same = 0;
    uint32_t widened = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 100; seed++) {
        struct lull_job_frontier_point before[LULL_JOB_FRONTIER_BUDGETS];
        struct lull_job_frontier_point after[LULL_JOB_FRONTIER_BUDGETS];
        const struct lull_job_frontier_tried *kept;
        struct lull_random random;
        struct job job;

        lull_random_init(&random, seed);
        job = draw_job(&random);
        answer(&job, seed, before);
        memcpy(after, before, sizeof(after));
        kept = &tried[lull_job_frontier_list(&frontier, 1, tried) - 1]; /* the watch's */
        lull_job_frontier_include(kept, INFINITY, after);
        for (int b = 0; b < LULL_JOB_FRONTIER_BUDGETS; b++) {
            const bool is_kept =
                before[b].reason == NULL && before[b].is_measured && before[b].point == kept->point;

            if (!is_kept) {
                holds(memcmp(&before[b], &after[b], sizeof(after[b])) == 0, seed);
                continue;
            }
            same++;
            widened += before[b].high_ratio > kept->high_ratio + 1e-6;
            holds(fabs(before[b].saving_ratio - kept->saving_ratio) < 1e-12, seed);
            holds(after[b].saving_ratio == kept->saving_ratio, seed);
            holds(after[b].low_ratio == kept->low_ratio, seed);
            holds(after[b].high_ratio == kept->high_ratio, seed);
        }
    }
    print_message("%u budgets have the kept clock, %u with another interval before\n", same,
                  widened);
    assert_true(same > 30 && widened > 10);
}

/* The accepted setting of a run is in the frontier with the
 * same figures, and no budget from the tolerance on saves less. */
static void test_what_is_proven_is_in_the_frontier(void **state)
{
    struct lull_job_frontier_point points[LULL_JOB_FRONTIER_BUDGETS];
    struct lull_job_frontier_tried kept = {
        .point = 5, .saving_ratio = NAN, .low_ratio = 0.101, .high_ratio = INFINITY};

    (void)state;
    for (int b = 0; b < LULL_JOB_FRONTIER_BUDGETS; b++)
        points[b] = (struct lull_job_frontier_point){.slowdown_ratio = lull_job_frontier_budgets[b],
                                                     .saving_ratio = 0.123,
                                                     .low_ratio = 0.1,
                                                     .high_ratio = 0.15};
    points[4].reason = "a single clock was tried";
    points[5].saving_ratio = 0.21;
    lull_job_frontier_include(&kept, tolerance_ratio, points);
    assert_near(points[3].saving_ratio, 0.123, 0.0);
    kept.saving_ratio = 0.133;
    lull_job_frontier_include(&kept, tolerance_ratio, points);
    assert_near(points[3].saving_ratio, 0.133, 0.0);
    assert_true(isnan(points[3].low_ratio) && isnan(points[3].high_ratio));
    kept.high_ratio = 0.165;
    lull_job_frontier_include(&kept, tolerance_ratio, points);
    assert_near(points[2].saving_ratio, 0.123, 0.0); /* 0.5 % */
    for (int b = 3; b <= 4; b++) {
        assert_near(points[b].saving_ratio, 0.133, 0.0);
        assert_near(points[b].low_ratio, 0.101, 0.0);
        assert_near(points[b].high_ratio, 0.165, 0.0);
        assert_true(points[b].is_measured && points[b].reason == NULL);
    }
    assert_near(points[5].saving_ratio, 0.21, 0.0);
    assert_false(points[5].is_measured);
}

/* If the accepted setting saves little, a budget without other
 * data saves as much as a smaller one. */
static void test_a_larger_budget_saves_no_less(void **state)
{
    const struct lull_job_frontier_tried kept = {
        .point = 2, .saving_ratio = 0.068, .low_ratio = 0.035, .high_ratio = 0.108};
    struct lull_job_frontier_point points[LULL_JOB_FRONTIER_BUDGETS];

    (void)state;
    for (int b = 0; b < LULL_JOB_FRONTIER_BUDGETS; b++)
        points[b] = (struct lull_job_frontier_point){.slowdown_ratio = lull_job_frontier_budgets[b],
                                                     .saving_ratio = b < 2 ? 0.05 : 0.136,
                                                     .low_ratio = -0.002,
                                                     .high_ratio = 0.277,
                                                     .point = b < 2 ? 2 : 1,
                                                     .is_measured = true};
    points[5].reason = "the interval is wide";
    lull_job_frontier_include(&kept, tolerance_ratio, points);
    assert_true(points[1].saving_ratio == 0.068 && points[1].high_ratio == 0.108);
    for (int b = 2; b < LULL_JOB_FRONTIER_BUDGETS; b++) {
        assert_true(points[b].slowdown_ratio == lull_job_frontier_budgets[b]);
        assert_true(points[b].saving_ratio == 0.136 && points[b].high_ratio == 0.277);
        assert_true(points[b].reason == NULL && points[b].point == 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_intervals_hold_the_truth),
        cmocka_unit_test(test_what_was_tried_holds_the_truth),
        cmocka_unit_test(test_what_was_tried_is_listed),
        cmocka_unit_test(test_what_is_late_or_stalls_does_not_count),
        cmocka_unit_test(test_other_sections_are_told_apart),
        cmocka_unit_test(test_what_is_kept_has_one_interval),
        cmocka_unit_test(test_what_is_proven_is_in_the_frontier),
        cmocka_unit_test(test_a_larger_budget_saves_no_less),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
