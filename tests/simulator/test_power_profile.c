/*
 * The power profile in virtual time: kept where it saves within the tolerance, removed otherwise.
 * Its effect on time and energy is set here. SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "emulator/player/presets.h"
#include "simulator/node.h"

enum { RANKS = 2, PERIODS = 1800, MEASURED = 100 };

/* What the profile does to kernels, and what the job tolerates. */
struct profile_case {
    const char *model;
    double speed_ratio;
    double energy_ratio;
    double tolerance_ratio;
};

static struct lull_play *make_play(void)
{
    const struct lull_play_preset *preset = lull_play_find_preset("bert-ddp");
    struct lull_play *play;

    assert_non_null(preset);
    assert_int_equal(lull_play_preset_create(preset, RANKS, &play, NULL), 0);
    return play;
}

static struct lull_simulation_outcome simulate(const struct profile_case *profile, bool managed,
                                               bool offered)
{
    struct lull_gpu_model model =
        *lull_gpu_model_find(profile->model, (uint32_t)strlen(profile->model));
    struct lull_play *play = make_play();
    struct lull_job_frontier frontier = {0};
    struct lull_simulation_options options = {
        .play = play,
        .model = &model,
        .periods = PERIODS,
        .measured = MEASURED,
        .managed = managed,
        .exposure = true,
        .offers_profile = offered,
        .frontier = &frontier,
    };
    struct lull_simulation_outcome outcome;

    model.max_q_speed_ratio = profile->speed_ratio;
    model.max_q_energy_ratio = profile->energy_ratio;
    lull_controller_config_default(&options.control);
    options.control.tolerance_ratio = profile->tolerance_ratio;
    assert_int_equal(lull_simulate_node(&options, &outcome, NULL), 0);
    lull_play_destroy(play);
    return outcome;
}

/* The effect that NVIDIA publishes for B200: 15 % less energy at 97 % of the performance. */
static const struct profile_case published = {"B200", 0.97, 0.85, 0.05};

static void test_a_profile_that_saves_is_kept(void **state)
{
    const struct lull_simulation_outcome highest = simulate(&published, false, false);
    const struct lull_simulation_outcome without = simulate(&published, true, false);
    const struct lull_simulation_outcome with = simulate(&published, true, true);

    (void)state;
    assert_false(without.keeps_profile);
    assert_true(isnan(without.profile_saving.ratio));
    assert_true(with.keeps_profile);
    assert_true(with.settled_in > 0);
    assert_true(with.profile_saving.low_ratio > 0.0);
    assert_true(with.energy_j < 0.95 * without.energy_j);
    assert_true(lull_simulation_slowdown(&with, &highest) < published.tolerance_ratio);
}

static void assert_removed(const struct profile_case *profile, enum lull_settle_reason reason)
{
    const struct lull_simulation_outcome highest = simulate(profile, false, false);
    const struct lull_simulation_outcome with = simulate(profile, true, true);
    const struct lull_simulation_outcome without = simulate(profile, true, false);

    assert_false(with.keeps_profile);
    assert_int_equal(with.profile_reason, reason);
    assert_true(with.settled_in > 0);
    /* The clocks are found all the same. */
    assert_true(fabs(with.energy_j / without.energy_j - 1.0) < 0.02);
    assert_true(lull_simulation_slowdown(&with, &highest) < profile->tolerance_ratio);
}

static void test_a_profile_that_is_too_slow_is_removed(void **state)
{
    struct profile_case profile = published;

    (void)state;
    profile.speed_ratio = 0.9;
    profile.tolerance_ratio = 0.01;
    assert_removed(&profile, LULL_REASON_DEGRADES_BELOW);
}

static void test_a_profile_that_saves_nothing_is_removed(void **state)
{
    struct profile_case profile = published;

    (void)state;
    profile.speed_ratio = 0.99;
    profile.energy_ratio = 1.0;
    assert_removed(&profile, LULL_REASON_SAVES_NOTHING);
}

static void test_a_gpu_without_profiles_tests_none(void **state)
{
    const struct profile_case profile = {"A100-SXM4-40GB", 1.0, 1.0, 0.05};
    const struct lull_simulation_outcome with = simulate(&profile, true, true);
    const struct lull_simulation_outcome without = simulate(&profile, true, false);

    (void)state;
    assert_false(with.keeps_profile);
    assert_int_equal(with.profile_reason, LULL_REASON_NONE);
    assert_true(with.energy_j == without.energy_j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_profile_that_saves_is_kept),
        cmocka_unit_test(test_a_profile_that_is_too_slow_is_removed),
        cmocka_unit_test(test_a_profile_that_saves_nothing_is_removed),
        cmocka_unit_test(test_a_gpu_without_profiles_tests_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
