/*
 * Slack of ranks that wait, against ranks of a synchronous job in virtual time.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/section/slack.h"
#include "core/stats/random.h"

enum { GPUS = 4, LAST = 3, CLOCKS = 81, MEETINGS = 3 };

static const int64_t collective_ns = 5000000;
static const double busy_ms = 100.0;
/* Slowdown of computation by one point. The slack assumes 1.14 % at first. */
static const double point_cost = 0.0105;
/* No wait of an iteration with so many collectives pays for a point by itself. */
enum { MANY = 12 };

struct job {
    struct lull_slack slack;
    struct lull_random random;
    double factors[GPUS]; /* of each rank's computation */
    double jitter;
    uint32_t collectives; /* in an iteration */
    bool waits_at_once;   /* ranks compute on only after each collective, not after the last */
    int64_t now_ns;
    double iteration_ms; /* of the last one */
    uint64_t raised;     /* in it */
};

static void init(struct job *job, double jitter)
{
    static const uint32_t clocks[GPUS] = {CLOCKS, CLOCKS, CLOCKS, CLOCKS};

    *job = (struct job){
        .jitter = jitter, .collectives = MEETINGS, .factors = {1.0, 1.0, 1.0, 1.0}, .now_ns = 1000};
    lull_random_init(&job->random, 7);
    lull_slack_init(&job->slack, GPUS, clocks);
}

static struct lull_call edge_at(int64_t time_ns, bool begin)
{
    return (struct lull_call){.time_ns = time_ns,
                              .bytes = 1000,
                              .ranks = GPUS,
                              .peer = -1,
                              .operation = 1,
                              .begin = begin};
}

/* Computation of each rank, in as many parts as there are collectives. */
static void compute(struct job *job, int64_t ready_ns[GPUS], const uint32_t points[GPUS])
{
    for (uint32_t i = 0; i < GPUS; i++) {
        const double noise = 1.0 + lull_random_normal(&job->random, 0.0, job->jitter);

        ready_ns[i] += (int64_t)(busy_ms / job->collectives * job->factors[i] * noise *
                                 (1.0 + point_cost * points[i]) * 1e6);
    }
}

/* All enter as they come and leave together. */
static int64_t meet(struct job *job, const int64_t ready_ns[GPUS])
{
    int64_t end_ns = 0;

    for (uint32_t i = 0; i < GPUS; i++) {
        const struct lull_call begin = edge_at(ready_ns[i], true);

        assert_int_equal(lull_slack_take(&job->slack, i, &begin), 0);
        end_ns = ready_ns[i] > end_ns ? ready_ns[i] : end_ns;
    }
    end_ns += collective_ns;
    for (uint32_t i = 0; i < GPUS; i++) {
        const struct lull_call end = edge_at(end_ns, false);

        job->raised |= lull_slack_take(&job->slack, i, &end);
    }
    return end_ns;
}

static void iterate(struct job *job, uint32_t iterations)
{
    for (uint32_t n = 0; n < iterations; n++) {
        const int64_t begin_ns = job->now_ns;
        int64_t ready_ns[GPUS];
        uint32_t points[GPUS];

        job->raised = 0;
        for (uint32_t i = 0; i < GPUS; i++) {
            points[i] = lull_slack_points(&job->slack, i);
            lull_slack_begin_iteration(&job->slack, i, points[i], true);
            lull_slack_take_switch(&job->slack, i, points[i]);
            ready_ns[i] = begin_ns;
        }
        for (uint32_t k = 0; k < job->collectives; k++) {
            compute(job, ready_ns, points);
            job->now_ns = meet(job, ready_ns);
            for (uint32_t i = 0; i < GPUS && job->waits_at_once; i++)
                ready_ns[i] = job->now_ns;
        }
        job->iteration_ms = (double)(job->now_ns - begin_ns) * 1e-6;
        for (uint32_t i = 0; i < GPUS; i++)
            lull_slack_end_iteration(&job->slack, i, n, job->iteration_ms);
    }
}

static double mean_ms(struct job *job, uint32_t iterations)
{
    double sum_ms = 0.0;

    for (uint32_t i = 0; i < iterations; i++) {
        iterate(job, 1);
        sum_ms += job->iteration_ms;
    }
    return sum_ms / iterations;
}

static void test_even_ranks_are_left_alone(void **state)
{
    struct job job;

    (void)state;
    init(&job, 0.01);
    for (int n = 0; n < 400; n++) {
        iterate(&job, 1);
        for (uint32_t i = 0; i < GPUS; i++)
            assert_int_equal(lull_slack_points(&job.slack, i), 0);
    }
}

/* Behind computation one lag is seen over and over; where each collective is waited for, lags are
 * short, and each counts. */
static void check_straggler(bool waits_at_once)
{
    struct job job;
    double before_ms;

    init(&job, 0.001);
    job.waits_at_once = waits_at_once;
    job.factors[LAST] = 1.1;
    before_ms = mean_ms(&job, 5);
    iterate(&job, 80);
    assert_true(mean_ms(&job, 100) < 1.001 * before_ms);
    for (uint32_t i = 0; i < LAST; i++)
        assert_in_range(lull_slack_points(&job.slack, i), waits_at_once ? 6 : 7, 9);
    assert_int_equal(lull_slack_points(&job.slack, LAST), 0);
}

static void test_ranks_that_wait_fill_their_slack(void **state)
{
    (void)state;
    check_straggler(false);
    check_straggler(true);
}

static void test_a_straggler_comes_and_goes(void **state)
{
    struct job job;

    (void)state;
    init(&job, 0.001);
    iterate(&job, 50);
    job.factors[LAST] = 1.1;
    iterate(&job, 80);
    for (uint32_t i = 0; i < LAST; i++)
        assert_in_range(lull_slack_points(&job.slack, i), 7, 9);
    job.factors[LAST] = 1.0;
    iterate(&job, 1);
    assert_int_equal(job.raised, (1 << LAST) - 1);
    for (uint32_t i = 0; i < GPUS; i++)
        assert_int_equal(lull_slack_points(&job.slack, i), 0);
    /* As after any change, it has to wait for a while in a row first. */
    job.factors[LAST] = 1.1;
    iterate(&job, 3);
    assert_int_equal(lull_slack_points(&job.slack, 0), 0);
    iterate(&job, 80);
    assert_in_range(lull_slack_points(&job.slack, 0), 7, 9);
}

/* The slowest rank changes: the GPU that was lowered most is raised, because its rank no longer
 * waits. */
/* One rank is slower by a tenth, which 9 points fill. Then it is slower by 5 %, so that those
 * lowered for it hold the job up, and then no more. */
static void test_many_short_waits_are_filled_together(void **state)
{
    struct job job;
    double common_ms;

    (void)state;
    init(&job, 0.005);
    job.collectives = MANY;
    job.waits_at_once = true;
    job.factors[LAST] = 1.1;
    common_ms = mean_ms(&job, LULL_SLACK_WINDOW);
    iterate(&job, 200);
    for (uint32_t i = 0; i < LAST; i++)
        assert_in_range(lull_slack_points(&job.slack, i), 6, 9);
    assert_int_equal(lull_slack_points(&job.slack, LAST), 0);
    assert_true(mean_ms(&job, 200) <= 1.005 * common_ms);

    job.factors[LAST] = 1.05;
    iterate(&job, 30);
    for (uint32_t i = 0; i < LAST; i++)
        assert_in_range(lull_slack_points(&job.slack, i), 0, 4);
    assert_true(mean_ms(&job, 20) < common_ms - 0.04 * busy_ms);

    job.factors[LAST] = 1.0;
    iterate(&job, 20);
    for (uint32_t i = 0; i < GPUS; i++)
        assert_in_range(lull_slack_points(&job.slack, i), 0, 0);
}

/* All of them are back in the iteration in which it has recovered. */
static void test_many_short_waits_end_at_once(void **state)
{
    struct job job;

    (void)state;
    init(&job, 0.005);
    job.collectives = MANY;
    job.waits_at_once = true;
    job.factors[LAST] = 1.1;
    iterate(&job, 200);
    job.factors[LAST] = 1.0;
    iterate(&job, 1);
    assert_int_equal(job.raised, (1 << LAST) - 1);
    for (uint32_t i = 0; i < GPUS; i++)
        assert_int_equal(lull_slack_points(&job.slack, i), 0);
}

/* Waits of the same length again and again are one lag where ranks compute on: less than a point
 * pays for is lost for a few iterations at most. */
static void test_one_lag_is_not_filled_over_and_over(void **state)
{
    struct job job;
    double common_ms;

    (void)state;
    init(&job, 0.0005);
    job.collectives = MANY;
    job.factors[LAST] = 1.008;
    common_ms = mean_ms(&job, LULL_SLACK_WINDOW);
    assert_true(mean_ms(&job, 300) <= 1.002 * common_ms);
}

static void test_another_rank_becomes_the_slowest(void **state)
{
    struct job job;
    double before_ms;

    (void)state;
    init(&job, 0.001);
    job.factors[LAST] = 1.1;
    before_ms = mean_ms(&job, 5);
    iterate(&job, 80);
    job.factors[LAST] = 1.0;
    job.factors[0] = 1.1;
    iterate(&job, 120);
    assert_true(mean_ms(&job, 100) < 1.002 * before_ms);
    assert_int_equal(lull_slack_points(&job.slack, 0), 0);
    for (uint32_t i = 1; i < GPUS; i++)
        assert_in_range(lull_slack_points(&job.slack, i), 7, 9);
}

static void test_what_is_not_proven_goes_back(void **state)
{
    struct job job;
    uint32_t points;

    (void)state;
    init(&job, 0.001);
    job.factors[LAST] = 1.1;
    iterate(&job, 100);
    points = lull_slack_points(&job.slack, 0);
    lull_slack_back_off(&job.slack, 4);
    assert_int_equal(lull_slack_points(&job.slack, 0), points - 4);
    lull_slack_back_off(&job.slack, 16);
    assert_int_equal(lull_slack_points(&job.slack, 0), 0);
    iterate(&job, 8);
    assert_int_equal(lull_slack_points(&job.slack, 0), 0);
    iterate(&job, 120);
    assert_in_range(lull_slack_points(&job.slack, 0), 7, 9);
    lull_slack_forget(&job.slack, 0);
    assert_int_equal(lull_slack_points(&job.slack, 0), 0);
}

/* A rank joins, or joins again, in the middle of the others' collectives, and is compared in the
 * same ones as they are. */
static void test_a_rank_joins_later(void **state)
{
    struct job job;

    (void)state;
    init(&job, 0.001);
    job.factors[LAST] = 1.1;
    iterate(&job, 100);
    for (uint32_t i = 0; i < 2; i++) {
        struct lull_call edge = edge_at(job.now_ns + 1000, true);

        lull_slack_take(&job.slack, i, &edge);
        edge = edge_at(job.now_ns + 2000000, false);
        lull_slack_take(&job.slack, i, &edge);
    }
    job.now_ns += 3000000;
    for (uint32_t i = 2; i < GPUS; i++) /* that rank has not been reported to them */
        lull_slack_forget(&job.slack, i);
    iterate(&job, 120);
    for (uint32_t i = 0; i < LAST; i++)
        assert_in_range(lull_slack_points(&job.slack, i), 7, 9);
    for (uint32_t k = 0; k < LULL_SLACK_KINDS; k++)
        for (uint32_t i = 1; i < GPUS && job.slack.kinds[k].signature != 0; i++)
            assert_int_equal(job.slack.kinds[k].numbers[i], job.slack.kinds[k].numbers[0]);
}

/* Each GPU has one collective or send of its own, which the last GPU enters later. */
static void exchange(struct job *job, uint32_t kind, int32_t peer)
{
    for (uint32_t i = 0; i < GPUS; i++) {
        struct lull_call call = edge_at(job->now_ns + (i == LAST ? 19000000 : 0), true);

        call.peer = peer;
        call.operation = (uint16_t)kind;
        lull_slack_begin_iteration(&job->slack, i, 0, true);
        lull_slack_take(&job->slack, i, &call);
        call.time_ns = job->now_ns + 20000000;
        call.begin = false;
        lull_slack_take(&job->slack, i, &call);
        lull_slack_end_iteration(&job->slack, i, 0, 100.0);
    }
    job->now_ns += 100000000;
}

/* A send ends with its receiver, not with all ranks, so it does
 * not show which rank is late; and the number of kinds is limited. */
static void test_sends_and_too_many_kinds_do_not_count(void **state)
{
    struct job job;

    (void)state;
    init(&job, 0.0);
    for (int n = 0; n < 20; n++)
        exchange(&job, 1, 2);
    for (uint32_t kind = 1; kind <= LULL_SLACK_KINDS; kind++)
        exchange(&job, kind, -1);
    lull_slack_back_off(&job.slack, CLOCKS);
    for (int n = 0; n < 100; n++)
        exchange(&job, LULL_SLACK_KINDS + 1, -1);
    for (uint32_t i = 0; i < GPUS; i++)
        assert_int_equal(lull_slack_points(&job.slack, i), 0);
    for (int n = 0; n < 100; n++)
        exchange(&job, LULL_SLACK_KINDS, -1);
    assert_true(lull_slack_points(&job.slack, 0) > 0);
}

/* A rank that is not seen any more gives no reason to keep others low. */
static void test_what_is_not_seen_goes_back(void **state)
{
    struct job job;

    (void)state;
    init(&job, 0.001);
    job.factors[LAST] = 1.1;
    iterate(&job, 80);
    assert_in_range(lull_slack_points(&job.slack, 0), 7, 9);
    for (int n = 0; n < 6; n++) {
        lull_slack_begin_iteration(&job.slack, 0, lull_slack_points(&job.slack, 0), true);
        lull_slack_take_switch(&job.slack, 0, lull_slack_points(&job.slack, 0));
        lull_slack_begin_iteration(&job.slack, 0, lull_slack_points(&job.slack, 0), true);
        lull_slack_end_iteration(&job.slack, 0, 0, 100.0);
    }
    assert_int_equal(lull_slack_points(&job.slack, 0), 0);
}

/* The cost of a point is learnt from the waits before and after the last lowering, limited to
 * between half and twice the ratio of the clocks. The remaining wait is used for the next points.
 */
static void test_the_cost_of_a_point_is_learnt(void **state)
{
    static const struct {
        double before_ms, known_ms;
        uint32_t before, most;
        double point_ms;
        uint32_t points;
    } cases[] = {
        {13.0, 1.5, 2, 80, 1.5, 4 + 6}, {10.2, 1.5, 2, 80, 1.0, 4 + 9},
        {30.0, 1.5, 2, 80, 4.0, 4 + 2}, {13.0, 0.0, 2, 80, 2.0, 4 + 4},
        {13.0, 1.5, 4, 80, 2.0, 4 + 4}, {13.0, 1.5, 2, 9, 1.5, 4 + 5},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct job job;
        struct lull_slack_gpu *gpu = &job.slack.gpus[0];

        init(&job, 0.0);
        gpu->is_in_force = true;
        gpu->joined = 1;
        gpu->wait_ms = 10.0;
        for (uint32_t wait = 0; wait < LULL_SLACK_WINDOW; wait++)
            gpu->own.longest_ms[wait] = 10.0;
        gpu->own.count = LULL_SLACK_WINDOW - 1;
        gpu->point_ratio = 0.02;
        gpu->point_ms = cases[i].known_ms;
        gpu->points = 4;
        gpu->before = cases[i].before;
        gpu->before_ms = cases[i].before_ms;
        gpu->most = cases[i].most;
        lull_slack_end_iteration(&job.slack, 0, 0, busy_ms);
        assert_true(fabs(gpu->point_ms - cases[i].point_ms) < 1e-9);
        assert_int_equal(gpu->points, cases[i].points);
        assert_int_equal(gpu->before, 4);
        assert_int_equal(gpu->own.count, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_cost_of_a_point_is_learnt),
        cmocka_unit_test(test_even_ranks_are_left_alone),
        cmocka_unit_test(test_ranks_that_wait_fill_their_slack),
        cmocka_unit_test(test_a_straggler_comes_and_goes),
        cmocka_unit_test(test_many_short_waits_are_filled_together),
        cmocka_unit_test(test_many_short_waits_end_at_once),
        cmocka_unit_test(test_one_lag_is_not_filled_over_and_over),
        cmocka_unit_test(test_another_rank_becomes_the_slowest),
        cmocka_unit_test(test_what_is_not_proven_goes_back),
        cmocka_unit_test(test_sends_and_too_many_kinds_do_not_count),
        cmocka_unit_test(test_what_is_not_seen_goes_back),
        cmocka_unit_test(test_a_rank_joins_later),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
