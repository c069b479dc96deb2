/*
 * Properties of the emulated GPU that must hold whatever is done to it. Random runs print their
 * seed. SPDX-License-Identifier: Apache-2.0
 */
#include "check.h"

#include "emulator/noise.h"
#include "emulator/physics/physics.h"

static struct lull_physics gpu;
static struct lull_physics other;

static const struct lull_gpu_model *find_model(const char *name)
{
    return lull_gpu_model_find(name, (uint32_t)strlen(name));
}

static uint32_t next_below(uint64_t *random, uint32_t limit)
{
    return (uint32_t)(lull_noise_next(random) * limit);
}

static void ask(struct lull_physics *physics, bool is_locked, uint32_t step)
{
    const struct lull_clock_setting setting = {.is_locked = is_locked, .max_step = step};

    lull_physics_ask_clocks(physics, &setting, 1);
}

/* One random operation at the GPU's present time. */
static void disturb(struct lull_physics *physics, uint64_t *random)
{
    const struct lull_gpu_model *model = &physics->model;
    const uint32_t context = next_below(random, 3);
    const uint32_t what = next_below(random, 8);
    const double amount = lull_noise_next(random);
    const bool is_live = physics->contexts[context].is_live;

    if (what == 0 && physics->context_count < 3)
        lull_physics_open(physics, 1, 0);
    else if (what == 1 && amount < 0.3)
        lull_physics_close(physics, (int)context);
    else if (what == 2)
        ask(physics, true, (uint32_t)(amount * lull_gpu_model_step_count(model)));
    else if (what == 3)
        ask(physics, false, 0);
    else if (what == 4)
        lull_physics_set_limit(physics, model->limit_min_w +
                                            amount * (model->limit_max_w - model->limit_min_w));
    else if (what == 5 && is_live)
        lull_physics_transfer_begin(physics, (int)context, amount * 5e9, 20, 8);
    else if (what == 6 && is_live)
        lull_physics_transfer_end(physics, (int)context);
    else if (is_live)
        lull_physics_launch(physics, (int)context, amount * 0.3,
                            &model->profiles[next_below(random, model->profile_count)]);
}

static bool is_on_grid(const struct lull_physics *physics)
{
    const uint32_t step = lull_gpu_model_nearest_step(&physics->model, physics->mhz);

    return physics->mhz == lull_gpu_model_step_mhz(&physics->model, step) ||
           physics->mhz == physics->cap_mhz; /* the limiter dithers between steps */
}

static void check_invariants(const struct lull_physics *physics, double last_j, uint64_t last_mj)
{
    const struct lull_gpu_model *model = &physics->model;

    assert_true(is_on_grid(physics));
    assert_true(physics->mhz >= model->sm_min_mhz && physics->mhz <= model->sm_max_mhz);
    assert_true(lull_physics_energy_j(physics) > last_j);
    assert_true(lull_physics_published_mj(physics) >= last_mj);
    assert_true(lull_physics_power_w(physics) > 0.5 * model->idle_w);
    assert_true(lull_physics_temperature_c(physics) > 0 &&
                lull_physics_temperature_c(physics) < 150);
    assert_true(physics->utilization_percent <= 100);
    assert_true(physics->kernels_started_low <= physics->kernels_started);
    assert_true(physics->next_ns > physics->now_ns);
    for (int i = 0; i < LULL_PHYSICS_CONTEXTS; i++)
        assert_true(physics->contexts[i].transfer.bytes >= 0);
}

static void test_invariants_hold_under_random_operations(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        const struct lull_gpu_model *model = &lull_gpu_models[seed % lull_gpu_model_count];
        uint64_t random = seed;
        int64_t now_ns = 0;

        printf("seed %llu: %s\n", (unsigned long long)seed, model->name);
        fflush(stdout);
        lull_physics_init(&gpu, model, seed, 0);
        for (int i = 0; i < 500; i++) {
            const double last_j = lull_physics_energy_j(&gpu);
            const uint64_t last_mj = lull_physics_published_mj(&gpu);

            disturb(&gpu, &random);
            now_ns += MS(0.01 + 60 * lull_noise_next(&random));
            lull_physics_advance(&gpu, now_ns);
            check_invariants(&gpu, last_j, last_mj);
        }
    }
}

static void test_one_jump_gives_what_many_steps_give(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        const struct lull_gpu_model *model = &lull_gpu_models[seed % lull_gpu_model_count];
        uint64_t random = seed;
        uint64_t same_random = seed;
        int64_t now_ns = 0;

        printf("seed %llu: %s\n", (unsigned long long)seed, model->name);
        fflush(stdout);
        lull_physics_init(&gpu, model, seed, 0);
        lull_physics_init(&other, model, seed, 0);
        for (int i = 0; i < 100; i++) {
            const int64_t until_ns = now_ns + MS(200) + 1;

            disturb(&gpu, &random);
            disturb(&other, &same_random);
            lull_physics_advance(&gpu, until_ns);
            for (; now_ns < until_ns; now_ns += MS(0.37))
                lull_physics_advance(&other, now_ns);
            now_ns = until_ns;
            lull_physics_advance(&other, until_ns);
            assert_memory_equal(&gpu, &other, sizeof(gpu));
        }
    }
}

/* Boards read up to some percent wrong, and all of them settle where their own reading is right. */
/* As an emulated node does: each operation works on a copy over what was two operations ago. */
static void test_copies_go_on_as_the_state_does(void **state)
{
    static struct lull_physics slots[2];

    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        const struct lull_gpu_model *model = &lull_gpu_models[seed % lull_gpu_model_count];
        uint64_t random = seed;
        uint64_t same_random = seed;

        printf("seed %llu: %s\n", (unsigned long long)seed, model->name);
        fflush(stdout);
        lull_physics_init(&gpu, model, seed, 0);
        lull_physics_init(&slots[0], model, seed, 0);
        memset(&slots[1], 0x5a, sizeof(slots[1]));
        for (int i = 0; i < 300; i++) {
            struct lull_physics *const copy = &slots[1 - i % 2];

            lull_physics_copy(copy, &slots[i % 2]);
            disturb(&gpu, &random);
            disturb(copy, &same_random);
            lull_physics_advance(&gpu, MS(20) * i);
            lull_physics_advance(copy, MS(20) * i);
            assert_memory_equal(&gpu, copy, offsetof(struct lull_physics, contexts));
            for (int c = 0; c < LULL_PHYSICS_CONTEXTS; c++) {
                assert_int_equal(gpu.contexts[c].is_live, copy->contexts[c].is_live);
                if (gpu.contexts[c].is_live)
                    assert_memory_equal(&gpu.contexts[c], &copy->contexts[c],
                                        sizeof(gpu.contexts[c]));
            }
        }
    }
}

static void test_the_limiter_goes_by_the_boards_own_sensor(void **state)
{
    const struct lull_gpu_model *model = find_model("H100");
    const double limit_w = 400;
    double largest_error_ratio = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        double read_w;

        lull_physics_init(&gpu, model, seed, 0);
        lull_physics_open(&gpu, 1, 0);
        lull_physics_set_limit(&gpu, limit_w);
        lull_physics_launch(&gpu, 0, 60, lull_gpu_model_profile(model, "llm_fwd"));
        lull_physics_advance(&gpu, S(20));
        read_w = lull_physics_published_mw(&gpu, &gpu.usage) * 1e-3;
        printf("seed %llu: gain %.4f, reads %.1f W\n", (unsigned long long)seed, gpu.gain_ratio,
               read_w);
        check_within("reading against the limit, ratio",
                     read_w / (limit_w * model->limit_settle_ratio), 0.98, 1.02);
        largest_error_ratio = fmax(largest_error_ratio, fabs(gpu.gain_ratio - 1));
    }
    assert_true(largest_error_ratio > 0.02); /* otherwise nothing was tested */
}

static void test_energy_is_the_integral_of_power(void **state)
{
    const int64_t step_ns = MS(0.05);
    uint64_t random = 3;
    double integral_j = 0;
    int64_t now_ns = 0;

    (void)state;
    lull_physics_init(&gpu, find_model("A100-SXM4-40GB"), 5, 0);
    for (int i = 0; i < 200; i++) {
        disturb(&gpu, &random);
        for (int k = 0; k < 1000; k++) {
            lull_physics_advance(&gpu, now_ns + step_ns / 2);
            integral_j += lull_physics_power_w(&gpu) * (double)step_ns * 1e-9;
            now_ns += step_ns;
            lull_physics_advance(&gpu, now_ns);
        }
    }
    check_within("energy / integral of power", lull_physics_energy_j(&gpu) / integral_j, 0.9999,
                 1.0001);
}

static int64_t run_kernel_ns(const char *profile, double mhz)
{
    int64_t begin_ns;

    lull_physics_init(&gpu, find_model("A100-SXM4-40GB"), 0, 0);
    assert_int_equal(lull_physics_open(&gpu, 1, 0), 0);
    ask(&gpu, true, lull_gpu_model_nearest_step(&gpu.model, mhz));
    begin_ns = S(1);
    lull_physics_advance(&gpu, begin_ns);
    lull_physics_launch(&gpu, 0, 0.1, lull_gpu_model_profile(&gpu.model, profile));
    return lull_physics_queue_end_ns(&gpu, 0) - begin_ns;
}

static void test_kernels_stretch_with_the_clock(void **state)
{
    (void)state;
    check_within("dgemm at 1410, ms", (double)run_kernel_ns("lammps", 1410) * 1e-6, 100, 100.001);
    check_within("dgemm at 705, ms", (double)run_kernel_ns("dgemm", 705) * 1e-6, 199.9, 200.1);
    check_within("stream at 1110, ms", (double)run_kernel_ns("stream", 1110) * 1e-6, 100, 100.1);
}

static void test_two_contexts_share_in_turns(void **state)
{
    const struct lull_gpu_profile *profile;

    (void)state;
    lull_physics_init(&gpu, find_model("A100-SXM4-40GB"), 0, 0);
    profile = lull_gpu_model_profile(&gpu.model, "lammps");
    assert_int_equal(lull_physics_open(&gpu, 1, 0), 0);
    assert_int_equal(lull_physics_open(&gpu, 2, 0), 1);
    lull_physics_launch(&gpu, 0, 0.1, profile);
    lull_physics_launch(&gpu, 1, 0.3, profile);
    lull_physics_advance(&gpu, S(0.199));
    assert_int_equal(gpu.contexts[0].count, 1);
    lull_physics_advance(&gpu, S(0.2) + 10);
    assert_int_equal(gpu.contexts[0].count, 0);
    lull_physics_advance(&gpu, S(0.399));
    assert_int_equal(gpu.contexts[1].count, 1);
    lull_physics_advance(&gpu, S(0.4) + 10);
    assert_int_equal(gpu.contexts[1].count, 0);
}

static void test_a_request_takes_effect_after_settling(void **state)
{
    const struct lull_gpu_model *model = find_model("A100-SXM4-40GB");
    const uint32_t low = lull_gpu_model_nearest_step(model, 900);

    (void)state;
    lull_physics_init(&gpu, model, 1, 0);
    assert_int_equal(lull_physics_open(&gpu, 1, 0), 0);
    ask(&gpu, true, low);
    assert_true(gpu.mhz == 1410);
    ask(&gpu, false, 0);
    assert_int_equal(gpu.pending_count, 2);
    assert_true(gpu.pending[0].effective_ns <= gpu.pending[1].effective_ns);
    ask(&gpu, true, low);
    lull_physics_advance(&gpu, S(1));
    assert_true(gpu.mhz == 900);
    assert_int_equal(lull_physics_published_mhz(&gpu), 900);
}

static void test_kernels_that_begin_low_are_counted(void **state)
{
    const struct lull_gpu_profile *profile;

    (void)state;
    lull_physics_init(&gpu, find_model("A100-SXM4-40GB"), 0, 0);
    profile = lull_gpu_model_profile(&gpu.model, "lammps");
    assert_int_equal(lull_physics_open(&gpu, 1, 0), 0);
    lull_physics_launch(&gpu, 0, 0.01, profile);
    lull_physics_advance(&gpu, S(1));
    assert_int_equal(gpu.kernels_started_low, 0);
    ask(&gpu, true, 10);
    lull_physics_advance(&gpu, S(2));
    lull_physics_launch(&gpu, 0, 0.01, profile);
    lull_physics_launch(&gpu, 0, 0.01, profile);
    lull_physics_advance(&gpu, S(3));
    assert_int_equal(gpu.kernels_started, 3);
    assert_int_equal(gpu.kernels_started_low, 2);
    assert_true(gpu.kernel_low_ns > S(0.02));
}

static void test_clock_decays_without_a_context(void **state)
{
    (void)state;
    lull_physics_init(&gpu, find_model("A100-SXM4-40GB"), 0, 0);
    assert_true(gpu.mhz == 210 && gpu.reasons == LULL_REASON_IDLE);
    assert_int_equal(lull_physics_open(&gpu, 1, 0), 0);
    assert_true(gpu.mhz == 1410 && gpu.reasons == 0);
    lull_physics_close(&gpu, 0);
    assert_true(gpu.mhz == 360);
    lull_physics_advance(&gpu, S(2));
    assert_true(gpu.mhz == 210);
    lull_physics_advance(&gpu, S(100));
    check_within("idle power, W", lull_physics_power_w(&gpu), 59.6, 59.8);
}

static void test_slow_targets_belong_to_the_unit(void **state)
{
    const struct lull_gpu_model *model = find_model("H100");
    uint32_t slow = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 100; seed++)
        for (uint32_t step = 0; step < 100; step++)
            slow += lull_physics_is_slow_step(model, seed, step);
    check_within("share of slow targets", slow / 1e4, 0.04, 0.06);
}

static void test_a_channel_bound_transfer_slows_with_the_clock(void **state)
{
    const struct lull_gpu_model *model = find_model("A100-SXM4-40GB");

    (void)state;
    check_within("16 channels at 1410, GB/s", lull_gpu_model_transfer_gbs(model, 230, 16, 1410),
                 230, 230);
    check_within("16 channels at 1005, GB/s", lull_gpu_model_transfer_gbs(model, 230, 16, 1005),
                 230, 230);
    check_within("16 channels at 600, GB/s", lull_gpu_model_transfer_gbs(model, 230, 16, 600), 150,
                 220);
}

/* ---- what the units do, and what the driver keeps of it ---- */

/* Launches kernels of one profile for so many seconds at fmax. */
static int load(const struct lull_gpu_profile *profile, double seconds)
{
    const int context = lull_physics_open(&gpu, 1, 0);

    for (int i = 0; i < 16; i++)
        assert_true(lull_physics_launch(&gpu, context, seconds / 16, profile));
    return context;
}

/* The mean of the power samples of the latest second. */
static double sampled_w(void)
{
    const uint32_t count = (uint32_t)(S(1) / gpu.instant.period_ns);
    double sum_w = 0;

    for (uint32_t i = 1; i <= count; i++)
        sum_w += gpu.samples.power_mw[(gpu.instant.refreshes - i) % LULL_PHYSICS_SAMPLES] * 1e-3;
    return sum_w / count;
}

static void check_agreement(const struct lull_gpu_model *model,
                            const struct lull_gpu_profile *profile, uint64_t seed)
{
    double from_mj;
    double energy_w;

    lull_physics_init(&gpu, model, seed, 0);
    load(profile, 20);
    lull_physics_advance(&gpu, S(6));
    from_mj = (double)lull_physics_published_mj(&gpu);
    lull_physics_advance(&gpu, S(7));
    energy_w = ((double)lull_physics_published_mj(&gpu) - from_mj) * 1e-3;
    if (fabs(sampled_w() / energy_w - 1) > 0.02)
        fail_msg("%s, %s: samples %.1f W, energy %.1f W", model->name, profile->name, sampled_w(),
                 energy_w);
    assert_int_equal(gpu.utilization_percent, 100);
    assert_true(
        fabs((double)gpu.samples.busy_percent[(gpu.samples.count - 1) % LULL_PHYSICS_SAMPLES] -
             100) <= 2);
}

static void test_utilisation_power_and_energy_agree(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < lull_gpu_model_count; i++)
        for (uint32_t p = 0; p < lull_gpu_models[i].profile_count; p++)
            for (uint64_t seed = 0; seed < 4; seed++)
                check_agreement(&lull_gpu_models[i], &lull_gpu_models[i].profiles[p], seed);
}

static void test_units_work_as_much_as_their_kernels(void **state)
{
    const struct lull_gpu_model *model = find_model("H100");
    const struct lull_gpu_profile *profile = lull_gpu_model_profile(model, "llm_decode");
    struct lull_physics_activity activity;

    (void)state;
    lull_physics_init(&gpu, model, 0, 0);
    load(profile, 2);
    lull_physics_advance(&gpu, S(3));
    activity = lull_physics_activity_of(&gpu);
    check_within("SMs, s", activity.sm, 1.999, 2.001);
    check_within("memory, s", activity.memory / profile->memory_ratio, 1.999, 2.001);
    check_within("tensor cores, s", activity.tensor / (1 - profile->memory_ratio), 1.999, 2.001);
    assert_true(activity.nvlink_bytes == 0 && activity.pcie_bytes == 0);
    lull_physics_transfer_begin(&gpu, 0, 3e9, 300, 16); /* to a GPU over NVLink */
    lull_physics_advance(&gpu, S(5));
    lull_physics_transfer_begin(&gpu, 0, 2e9, 23, 4); /* to a network adapter over PCIe */
    lull_physics_advance(&gpu, S(7));
    activity = lull_physics_activity_of(&gpu);
    check_within("GB over NVLink", activity.nvlink_bytes * 1e-9, 2.999, 3.001);
    check_within("GB over PCIe", activity.pcie_bytes * 1e-9, 1.999, 2.001);
}

static void test_half_a_load_is_half_a_utilisation(void **state)
{
    struct lull_physics_work work = {.after = {LULL_PHYSICS_NO_WORK, LULL_PHYSICS_NO_WORK},
                                     .duration_s = 0.05,
                                     .delay_ns = MS(50)};
    const struct lull_gpu_model *model = find_model("H100");

    (void)state;
    work.profile = *lull_gpu_model_profile(model, "llm_decode");
    lull_physics_init(&gpu, model, 0, 0);
    assert_int_equal(lull_physics_open(&gpu, 1, 0), 0);
    for (uint64_t i = 0; i < 20; i++) {
        assert_true(lull_physics_enqueue(&gpu, 0, &work));
        work.after[0] = i;
    }
    lull_physics_advance(&gpu, S(1.01));
    check_within("utilisation, %", gpu.utilization_percent, 48, 52);
    check_within("memory utilisation, %", gpu.memory_percent, 39, 43); /* 0.82 of it */
    assert_int_equal(gpu.contexts[0].use.busy_percent, gpu.utilization_percent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_invariants_hold_under_random_operations),
        cmocka_unit_test(test_one_jump_gives_what_many_steps_give),
        cmocka_unit_test(test_copies_go_on_as_the_state_does),
        cmocka_unit_test(test_the_limiter_goes_by_the_boards_own_sensor),
        cmocka_unit_test(test_energy_is_the_integral_of_power),
        cmocka_unit_test(test_kernels_stretch_with_the_clock),
        cmocka_unit_test(test_two_contexts_share_in_turns),
        cmocka_unit_test(test_a_request_takes_effect_after_settling),
        cmocka_unit_test(test_kernels_that_begin_low_are_counted),
        cmocka_unit_test(test_clock_decays_without_a_context),
        cmocka_unit_test(test_slow_targets_belong_to_the_unit),
        cmocka_unit_test(test_a_channel_bound_transfer_slows_with_the_clock),
        cmocka_unit_test(test_utilisation_power_and_energy_agree),
        cmocka_unit_test(test_units_work_as_much_as_their_kernels),
        cmocka_unit_test(test_half_a_load_is_half_a_utilisation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
