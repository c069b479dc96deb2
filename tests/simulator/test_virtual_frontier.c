/* The frontier that a managed run reports, against the cost and saving of its clocks when each of
 * them is held for the whole run: random jobs with the emulator's physics and the real controller.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>

#include "../core/property.h"
#include "simulator/node.h"

enum { JOBS = 24, PERIODS = 400, MEASURED = 20, FIXED_PERIODS = 60, CLOCKS = 40, TOP_MHZ = 1410 };

/* A rank computes, by kernels of two kinds, and then communicates. */
static struct lull_play *draw_play(struct lull_random *random)
{
    static const char *const profiles[] = {"training", "stream"};
    struct lull_play *play;
    int communicator;

    assert_int_equal(lull_play_create(1, &play, NULL), 0);
    communicator = lull_play_add_communicator(play, "all", 1, NULL);
    assert_true(communicator >= 0);
    for (int32_t i = 0; i < 3; i++) {
        const struct lull_play_op op = {
            .kind = i < 2 ? LULL_PLAY_COMPUTE : LULL_PLAY_COMMUNICATION,
            .depends = {LULL_PLAY_NONE, LULL_PLAY_NONE},
            .duration_ms = 20.0 + 100.0 * lull_random_uniform(random),
            .begins_step = i == 0,
            .profile = profiles[i % 2],
            .kernels = 1,
            .function = LULL_PLAY_ALL_REDUCE,
            .communicator = (uint32_t)communicator,
            .bytes = UINT64_C(1) << 26,
            .link_gbs = 10.0,
            .channels = 4,
        };

        assert_int_equal(lull_play_add(play, 0, &op, NULL), i);
    }
    play->jitter_ratio = 0.004 * lull_random_uniform(random);
    assert_int_equal(lull_play_finish(play, NULL), 0);
    return play;
}

struct truth {
    double slowdown_ratio[CLOCKS];
    double saving_ratio[CLOCKS];
};

static struct truth sweep(const struct lull_play *play)
{
    struct lull_play even = *play;
    struct lull_simulation_options options = {
        .play = &even,
        .model = lull_gpu_model_find("A100-SXM4-40GB", 14),
        .periods = FIXED_PERIODS,
        .measured = MEASURED,
        .seed = 1,
    };
    struct lull_simulation_outcome outcomes[CLOCKS];
    struct truth truth;

    even.jitter_ratio = 0.0;
    for (uint32_t i = 0; i < CLOCKS; i++) {
        options.steps_below = i;
        assert_int_equal(lull_simulate_node(&options, &outcomes[i], NULL), 0);
        truth.slowdown_ratio[i] = outcomes[i].period_ms / outcomes[0].period_ms - 1.0;
        truth.saving_ratio[i] = 1.0 - outcomes[i].energy_j / outcomes[0].energy_j;
    }
    return truth;
}

static double true_saving(const struct truth *truth, double budget)
{
    double best = 0.0;

    for (uint32_t i = 0; i < CLOCKS; i++)
        if (truth->slowdown_ratio[i] <= budget + 1e-6)
            best = fmax(best, truth->saving_ratio[i]);
    return best;
}

static void tell(const struct lull_play *play, struct lull_job_frontier_point *points_out)
{
    struct lull_job_frontier *frontier = malloc(sizeof(*frontier));
    struct lull_simulation_options options = {
        .play = play,
        .model = lull_gpu_model_find("A100-SXM4-40GB", 14),
        .periods = PERIODS,
        .measured = MEASURED,
        .managed = true,
        .exposure = true,
        .seed = 1,
        .frontier = frontier,
    };
    struct lull_simulation_outcome outcome;
    uint32_t clocks_mhz[CLOCKS];

    assert_non_null(frontier);
    for (uint32_t i = 0; i < CLOCKS; i++)
        clocks_mhz[i] = TOP_MHZ - 15 * i;
    lull_controller_config_default(&options.control);
    options.control.only_steady = true;
    *frontier = (struct lull_job_frontier){0};
    assert_int_equal(lull_simulate_node(&options, &outcome, NULL), 0);
    lull_job_frontier_answer(frontier, outcome.kept_others, clocks_mhz, CLOCKS, 1, points_out);
    free(frontier);
}

static void test_intervals_hold_what_fixed_clocks_save(void **state)
{
    uint32_t held[LULL_JOB_FRONTIER_BUDGETS] = {0};
    double off = 0.0;

    (void)state;
    for (uint64_t seed = 0; seed < JOBS; seed++) {
        struct lull_job_frontier_point points[LULL_JOB_FRONTIER_BUDGETS];
        struct lull_random random;
        struct lull_play *play;
        struct truth truth;

        lull_random_init(&random, seed);
        play = draw_play(&random);
        truth = sweep(play);
        tell(play, points);
        lull_play_destroy(play);
        for (int b = 0; b < LULL_JOB_FRONTIER_BUDGETS; b++) {
            const double saving = true_saving(&truth, points[b].slowdown_ratio);

            holds(points[b].reason == NULL, seed);
            held[b] +=
                points[b].low_ratio - 1e-6 <= saving && saving <= points[b].high_ratio + 1e-6;
            if (lull_job_frontier_budgets[b] == 0.01)
                off += fabs(points[b].saving_ratio - saving) / JOBS;
        }
    }
    for (int b = 0; b < LULL_JOB_FRONTIER_BUDGETS; b++) {
        print_message("%.1f %% of time: %u of %u\n", 100.0 * lull_job_frontier_budgets[b], held[b],
                      JOBS);
    }
    print_message("at 1 %% of time %.2f points off\n", 100.0 * off);
    for (int b = 0; b < LULL_JOB_FRONTIER_BUDGETS; b++)
        assert_true(held[b] * 10 >= JOBS * 9);
    assert_true(off < 0.015);
}

/* Without lowered clocks there is no comparison. */
static void test_an_unmanaged_run_tells_why_it_knows_nothing(void **state)
{
    struct lull_job_frontier_point points[LULL_JOB_FRONTIER_BUDGETS];
    struct lull_job_frontier *frontier = malloc(sizeof(*frontier));
    const uint32_t clock_mhz = TOP_MHZ;

    (void)state;
    assert_non_null(frontier);
    *frontier = (struct lull_job_frontier){0};
    lull_job_frontier_answer(frontier, 0, &clock_mhz, 1, 1, points);
    free(frontier);
    for (int b = 0; b < LULL_JOB_FRONTIER_BUDGETS; b++) {
        assert_true(isnan(points[b].saving_ratio));
        assert_string_equal(points[b].reason, "no trial has compared clocks with the highest ones");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_intervals_hold_what_fixed_clocks_save),
        cmocka_unit_test(test_an_unmanaged_run_tells_why_it_knows_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
