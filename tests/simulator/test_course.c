/*
 * Courses of random runs: slowdown and saving of their parts equal those
 * of a replay period by period, which shares no code with the tested one. SPDX-License-Identifier:
 * Apache-2.0
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "simulator/course.h"

enum { MOST_RANKS = 5, MOST_PERIODS = 40, RUNS = 300 };

/* Lengths and energies of single periods. */
struct lived {
    uint32_t ranks;
    uint32_t periods;
    int64_t lengths_ns[MOST_PERIODS][MOST_RANKS];
    double energies_j[MOST_PERIODS][MOST_RANKS];
};

static uint32_t below(uint32_t limit)
{
    return (uint32_t)rand() % limit; /* NOLINT(cert-msc30-c,cert-msc50-cpp): a seeded test */
}

static struct lived live(uint32_t ranks, uint32_t periods)
{
    struct lived lived = {.ranks = ranks, .periods = periods};

    for (uint32_t i = 0; i < periods; i++)
        for (uint32_t rank = 0; rank < ranks; rank++) {
            lived.lengths_ns[i][rank] = 900 + (int64_t)below(200);
            lived.energies_j[i][rank] = 1.0 + below(100) * 0.01;
        }
    return lived;
}

static struct lull_simulation_course *note(const struct lived *lived)
{
    struct lull_simulation_course *course =
        lull_simulation_course_create(lived->ranks, lived->periods);

    assert_non_null(course);
    for (uint32_t rank = 0; rank < lived->ranks; rank++) {
        int64_t now_ns = 5 + (int64_t)below(50); /* a rank may begin late */
        double now_j = 0.5;

        for (uint32_t i = 0; i <= lived->periods; i++) {
            /* Values of an earlier run are replaced and do not count. */
            lull_simulation_course_note(course, rank, i, 77, 1e6);
            lull_simulation_course_note(course, rank, i, now_ns, now_j);
            if (i == lived->periods)
                break;
            now_ns += lived->lengths_ns[i][rank];
            now_j += lived->energies_j[i][rank];
        }
    }
    return course;
}

static double slowdown_of(const struct lived *run, const struct lived *reference, uint32_t from,
                          uint32_t to)
{
    double most = -1.0;

    for (uint32_t rank = 0; rank < run->ranks; rank++) {
        int64_t sums_ns[2] = {0, 0};

        for (uint32_t i = from; i < to; i++) {
            sums_ns[0] += run->lengths_ns[i][rank];
            sums_ns[1] += reference->lengths_ns[i][rank];
        }
        most = fmax(most, (double)(sums_ns[0] - sums_ns[1]) / (double)sums_ns[1]);
    }
    return most;
}

static double saving_of(const struct lived *run, const struct lived *reference, uint32_t from,
                        uint32_t to)
{
    double sums_j[2] = {0.0, 0.0};

    for (uint32_t i = from; i < to; i++)
        for (uint32_t rank = 0; rank < run->ranks; rank++) {
            sums_j[0] += run->energies_j[i][rank];
            sums_j[1] += reference->energies_j[i][rank];
        }
    return (sums_j[1] - sums_j[0]) / sums_j[1];
}

static void test_parts_are_compared_as_lived(void **state)
{
    (void)state;
    srand(1);
    for (int i = 0; i < RUNS; i++) {
        const uint32_t ranks = 1 + below(MOST_RANKS);
        const uint32_t periods = 1 + below(MOST_PERIODS);
        const uint32_t from = below(periods);
        const uint32_t to = from + 1 + below(periods - from);
        const uint32_t least = 1 + below(periods);
        const struct lived run = live(ranks, periods);
        const struct lived reference = live(ranks, periods);
        struct lull_simulation_course *course = note(&run);
        struct lull_simulation_course *other = note(&reference);
        const struct lull_course_change change =
            lull_simulation_course_compare(course, other, from, to);
        double worst = -1.0;

        for (uint32_t end = least; end <= periods; end++)
            worst = fmax(worst, slowdown_of(&run, &reference, 0, end));
        assert_true(fabs(change.slowdown_ratio - slowdown_of(&run, &reference, from, to)) < 1e-12);
        assert_true(fabs(change.saving_ratio - saving_of(&run, &reference, from, to)) < 1e-9);
        assert_true(fabs(lull_simulation_course_worst(course, other, least) - worst) < 1e-12);
        lull_simulation_course_destroy(course);
        lull_simulation_course_destroy(other);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_parts_are_compared_as_lived)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
