/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "simulator/node.h"

enum { PERIODS = 100, MEASURED = 25, RANKS = 2 };

static const double lengths_ms[RANKS] = {10.0, 12.0};

/* Each rank computes on and on, period after period, and waits for nobody. */
static struct lull_simulation_outcome simulate(const double *compute_ms, uint32_t ranks)
{
    struct lull_simulation_options options = {
        .model = lull_gpu_model_find("A100-SXM4-40GB", 14),
        .periods = PERIODS,
        .measured = MEASURED,
    };
    struct lull_simulation_outcome outcome;
    struct lull_play *play;

    assert_int_equal(lull_play_create(ranks, &play, NULL), 0);
    for (uint32_t rank = 0; rank < ranks; rank++) {
        const struct lull_play_op compute = {
            .kind = LULL_PLAY_COMPUTE,
            .depends = {0, LULL_PLAY_NONE},
            .duration_ms = compute_ms[rank],
            .begins_step = true,
            .profile = "training",
            .kernels = 1,
        };

        assert_int_equal(lull_play_add(play, rank, &compute, NULL), 0);
    }
    assert_int_equal(lull_play_finish(play, NULL), 0);
    options.play = play;
    assert_int_equal(lull_simulate_node(&options, &outcome, NULL), 0);
    lull_play_destroy(play);
    return outcome;
}

/* By the measured part the quicker rank is periods ahead: that is neither time nor energy of it. */
static void test_each_rank_counts_as_if_alone(void **state)
{
    const struct lull_simulation_outcome both = simulate(lengths_ms, RANKS);
    struct lull_simulation_outcome alone[RANKS];

    (void)state;
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        alone[rank] = simulate(&lengths_ms[rank], 1);
        assert_true(fabs(alone[rank].period_ms - lengths_ms[rank]) < 1e-3);
    }
    assert_true(fabs(both.period_ms - (alone[0].period_ms + alone[1].period_ms) / RANKS) < 1e-6);
    assert_true(fabs(both.energy_j - (alone[0].energy_j + alone[1].energy_j)) <
                1e-6 * both.energy_j);
    assert_true(both.late_ratio == 0.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_rank_counts_as_if_alone)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
