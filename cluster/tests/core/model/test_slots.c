/*
 * Problems in slots: each number at its bounds and just beyond them; the use and cost of a
 * schedule, against a table of every slot. SPDX-License-Identifier: Apache-2.0
 */
#include "cluster/core/model/slots.h"

#include <errno.h>
#include <string.h>

#include "tests/core/property.h"
#include "slot_cost.h"

/* ---- ranges -------------------------------------------------------------------------------- */

/* A problem of two jobs, of which the second has two modes, all as large as they may be. */
struct full {
    uint32_t gpus[2];
    struct lull_slot_point point;     /* of the first job */
    struct lull_slot_point points[2]; /* of the second */
    struct lull_slot_job jobs[2];
    struct lull_slot_problem problem;
};

static void fill(struct full *full)
{
    const struct lull_slot_point most = {
        .type = 1,
        .gpus = LULL_SLOTS_MOST_GPUS,
        .slots = 3,
        .first = LULL_SLOTS_MOST - 3,
        .last = LULL_SLOTS_MOST - 3,
        .cost_j = LULL_SLOTS_MAX_J,
        .delay_j = LULL_SLOTS_MAX_J,
    };

    *full = (struct full){
        .gpus = {1, LULL_SLOTS_MOST_GPUS},
        .point = most,
        .points = {most, most},
        .jobs = {{LULL_SLOTS_MANDATORY, 1, &full->point}, {LULL_SLOTS_MAX_J, 2, full->points}},
        .problem = {.slots = LULL_SLOTS_MOST,
                    .type_count = 2,
                    .gpus = full->gpus,
                    .cap_w = LULL_SLOTS_MOST_CAP_W,
                    .job_count = 2,
                    .jobs = full->jobs},
    };
}

#define CHANGED(what, value)                                                                       \
    do {                                                                                           \
        fill(&full);                                                                               \
        full.what = (value);                                                                       \
        rc = lull_slot_problem_check(&full.problem, &err);                                         \
    } while (0)

#define assert_accepted(what, value)                                                               \
    do {                                                                                           \
        CHANGED(what, value);                                                                      \
        if (rc != 0)                                                                               \
            fail_msg("%s of %s is refused: %s", #what, #value, err.text);                          \
    } while (0)

#define assert_refused(what, value)                                                                \
    do {                                                                                           \
        CHANGED(what, value);                                                                      \
        if (rc != -EINVAL)                                                                         \
            fail_msg("%s of %s is accepted", #what, #value);                                       \
    } while (0)

static void test_sizes_of_a_problem(void **state)
{
    struct lull_error err = {0};
    struct full full;
    int rc;

    (void)state;
    assert_accepted(problem.slots, LULL_SLOTS_MOST);
    assert_refused(problem.slots, LULL_SLOTS_MOST + 1);
    assert_refused(problem.slots, 0);
    assert_refused(problem.type_count, 0);
    assert_refused(problem.type_count, LULL_SLOTS_MAX_TYPES + 1);
    assert_accepted(gpus[0], 0);
    assert_refused(gpus[0], LULL_SLOTS_MOST_GPUS + 1);
    assert_refused(gpus[1], LULL_SLOTS_MOST_GPUS + 1);
    assert_accepted(problem.cap_w, 0);
    assert_accepted(problem.cap_w, LULL_SLOTS_UNCAPPED);
    assert_refused(problem.cap_w, -1);
    assert_refused(problem.cap_w, LULL_SLOTS_MOST_CAP_W + 1);
    assert_refused(problem.cap_w, LULL_SLOTS_UNCAPPED - 1);
}

static void test_numbers_of_jobs(void **state)
{
    static struct lull_slot_point many[LULL_SLOTS_MAX_POINTS + 1];
    struct lull_error err = {0};
    struct full full;
    int rc;

    (void)state;
    assert_accepted(jobs[0].reject_j, -LULL_SLOTS_MAX_J);
    assert_refused(jobs[0].reject_j, 2 * LULL_SLOTS_MAX_J);
    assert_refused(jobs[0].reject_j, (double)-INFINITY);
    assert_refused(jobs[0].reject_j, (double)NAN);
    assert_refused(jobs[0].point_count, 0);
    assert_accepted(jobs[1].point_count, 0); /* it can only be left out */
    for (size_t i = 0; i < sizeof(many) / sizeof(many[0]); i++)
        many[i] = (struct lull_slot_point){.gpus = 1};
    fill(&full);
    full.jobs[0] = (struct lull_slot_job){0.0, LULL_SLOTS_MAX_POINTS, many};
    assert_int_equal(lull_slot_problem_check(&full.problem, &err), 0);
    full.jobs[0].point_count++;
    assert_int_equal(lull_slot_problem_check(&full.problem, &err), -EINVAL);
}

/* The numbers are those of the first job's only mode, and of the last job's last one. */
static void test_numbers_of_modes(void **state)
{
    struct lull_error err = {0};
    struct full full;
    int rc;

    (void)state;
    assert_refused(point.type, 2);
    assert_refused(points[1].type, 2);
    assert_non_null(strstr(err.text, "job 1: "));
    assert_accepted(point.gpus, 1);
    assert_refused(point.gpus, 0);
    assert_refused(point.gpus, LULL_SLOTS_MOST_GPUS + 1);
    assert_accepted(point.first, 0);
    assert_refused(point.first, LULL_SLOTS_MOST - 2);
    assert_refused(point.last, LULL_SLOTS_MOST - 2);
    assert_accepted(point.slots, 0);
    assert_refused(point.slots, 4);
    assert_refused(point.slots, UINT32_MAX); /* the end does not fit into 32 bits */
    assert_accepted(point.cost_j, -LULL_SLOTS_MAX_J);
    assert_refused(point.cost_j, -2 * LULL_SLOTS_MAX_J);
    assert_refused(point.cost_j, (double)NAN);
    assert_accepted(point.delay_j, 0.0);
    assert_refused(point.delay_j, -1.0);
    assert_refused(point.delay_j, 2 * LULL_SLOTS_MAX_J);
    assert_refused(point.delay_j, (double)NAN);
}

/* ---- costs --------------------------------------------------------------------------------- */

enum { JOBS = 4, SLOTS = 6, TYPES = 2 };

/* Adds up the cost of the choices slot by slot; -ERANGE where some slot has too little. */
static int cost_of_slots(const struct lull_slot_problem *problem,
                         const struct lull_slot_choice *choices, double *cost_j_out)
{
    *cost_j_out = 0.0;
    for (uint32_t i = 0; i < JOBS; i++)
        *cost_j_out += choices[i].point == LULL_SLOT_REJECTED
                           ? problem->jobs[i].reject_j
                           : problem->jobs[i].points[0].cost_j +
                                 problem->jobs[i].points[0].delay_j *
                                     ((double)choices[i].start - problem->jobs[i].points[0].first);
    for (uint32_t t = 0; t < SLOTS; t++) {
        int64_t gpus[TYPES] = {0};
        int64_t power_w = 0;

        for (uint32_t i = 0; i < JOBS; i++) {
            const struct lull_slot_point *point = &problem->jobs[i].points[0];

            if (choices[i].point == LULL_SLOT_REJECTED || t < choices[i].start ||
                t >= choices[i].start + point->slots)
                continue;
            gpus[point->type] += point->gpus;
            power_w += point->power_w;
        }
        if (gpus[0] > problem->gpus[0] || gpus[1] > problem->gpus[1] || power_w > problem->cap_w)
            return -ERANGE;
    }
    return 0;
}

static void test_a_schedule_is_what_its_slots_are(void **state)
{
    uint32_t outcomes[2] = {0};

    (void)state;
    for (uint64_t seed = 1; seed <= 3000; seed++) {
        struct lull_slot_point points[JOBS];
        struct lull_slot_job jobs[JOBS];
        struct lull_slot_choice choices[JOBS];
        const uint32_t gpus[TYPES] = {4, 3};
        struct lull_slot_problem problem = {SLOTS, TYPES, gpus, 9, JOBS, jobs};
        struct lull_random random;
        double cost_j = NAN;
        double expected_j;
        int expected;

        lull_random_init(&random, seed);
        for (uint32_t i = 0; i < JOBS; i++) {
            struct lull_slot_point *point = &points[i];

            point->slots = (uint32_t)lull_random_below(&random, 4);
            point->first = (uint32_t)lull_random_below(&random, SLOTS - point->slots + 1);
            point->last = SLOTS - point->slots;
            point->type = (uint32_t)lull_random_below(&random, TYPES);
            point->gpus = 1 + (uint32_t)lull_random_below(&random, 3);
            point->power_w = (uint32_t)lull_random_below(&random, 6);
            point->cost_j = (double)lull_random_below(&random, 9) - 4.0;
            point->delay_j = (double)lull_random_below(&random, 3);
            jobs[i] = (struct lull_slot_job){(double)lull_random_below(&random, 5), 1, point};
            choices[i].point = lull_random_below(&random, 4) == 0 ? LULL_SLOT_REJECTED : 0;
            choices[i].start =
                point->first + (uint32_t)lull_random_below(&random, point->last - point->first + 1);
        }
        holds(lull_slot_problem_check(&problem, NULL) == 0, seed);
        expected = cost_of_slots(&problem, choices, &expected_j);
        holds(slot_cost(&problem, choices, &cost_j) == expected, seed);
        holds(expected < 0 ? isnan(cost_j) : cost_j == expected_j, seed);
        outcomes[expected < 0]++;
    }
    assert_true(outcomes[0] > 500 && outcomes[1] > 500);
}

static void test_choices_that_are_none(void **state)
{
    const struct lull_slot_point point = {.gpus = 1, .slots = 2, .first = 1, .last = 3};
    struct lull_slot_job job = {LULL_SLOTS_MANDATORY, 1, &point};
    const uint32_t gpus[1] = {1};
    const struct lull_slot_problem problem = {5, 1, gpus, LULL_SLOTS_UNCAPPED, 1, &job};
    const struct {
        struct lull_slot_choice choice;
        int rc;
    } cases[] = {
        {{0, 0}, -EINVAL}, {{0, 1}, 0},       {{0, 3}, 0},
        {{0, 4}, -EINVAL}, {{1, 1}, -EINVAL}, {{LULL_SLOT_REJECTED, 1}, -EINVAL},
    };
    double cost_j;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(slot_cost(&problem, &cases[i].choice, &cost_j), cases[i].rc);
    job.reject_j = 2.0;
    assert_int_equal(slot_cost(&problem, &cases[5].choice, &cost_j), 0);
    assert_near(cost_j, 2.0, 0.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes_of_a_problem),
        cmocka_unit_test(test_numbers_of_jobs),
        cmocka_unit_test(test_numbers_of_modes),
        cmocka_unit_test(test_a_schedule_is_what_its_slots_are),
        cmocka_unit_test(test_choices_that_are_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
