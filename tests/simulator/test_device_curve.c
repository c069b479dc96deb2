/*
 * The product's curves of GPUs against those of the emulator, which share the figures of
 * data/gpu_models.json and no code.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/energy/device_curve.h"
#include "emulator/gpu_model.h"

static void assert_near(double got, double wanted)
{
    if (!(fabs(got - wanted) <= 1e-9 * fmax(fabs(wanted), 1.0)))
        fail_msg("%.12g is not %.12g", got, wanted);
}

static const struct lull_device_curve *find(const char *name)
{
    return lull_device_curve_find(name, strlen(name));
}

static struct lull_device_clock clocks[LULL_DEVICE_CURVE_CLOCKS];

/* ---- against the emulator ----------------------------------------------------------------- */

static void check_kernels(const struct lull_gpu_model *model, const struct lull_device_curve *curve,
                          const struct lull_device_clock *clock)
{
    assert_int_equal(curve->kernel_count, model->profile_count);
    for (uint32_t k = 0; k < model->profile_count; k++) {
        const struct lull_gpu_profile *const profile = &model->profiles[k];
        const struct lull_device_kernel *const kernel =
            lull_device_curve_kernel(curve, profile->name);

        assert_non_null(kernel);
        assert_near(lull_device_kernel_time(clock, kernel) *
                        lull_gpu_model_speed(model, profile->memory_ratio, clock->mhz),
                    1.0);
        assert_near(lull_device_kernel_w(clock, kernel),
                    lull_gpu_model_kernel_w(model, profile, clock->mhz));
    }
}

static void check_transfers(const struct lull_gpu_model *model,
                            const struct lull_device_curve *curve, double mhz)
{
    static const double links_gbs[] = {3.125, 25.0, 200.0, 600.0};

    for (uint32_t channels = 1; channels <= 32; channels *= 2)
        for (size_t i = 0; i < sizeof(links_gbs) / sizeof(links_gbs[0]); i++) {
            const double gbs = lull_gpu_model_transfer_gbs(model, links_gbs[i], channels, mhz);

            assert_near(lull_device_transfer_gbs(curve, links_gbs[i], channels, mhz), gbs);
            assert_near(lull_device_transfer_w(curve, gbs, channels, mhz),
                        lull_gpu_model_transfer_w(model, gbs, channels, mhz));
        }
}

static void test_is_what_the_emulator_does(void **state)
{
    (void)state;
    assert_int_equal(lull_device_curve_count, lull_gpu_model_count);
    for (uint32_t i = 0; i < lull_gpu_model_count; i++) {
        const struct lull_gpu_model *const model = &lull_gpu_models[i];
        const struct lull_device_curve *const curve = find(model->name);
        const uint32_t count = lull_device_clocks(curve, clocks);

        assert_int_equal(count, lull_gpu_model_step_count(model));
        assert_near(curve->switch_ms, model->api_ms + model->settle_ms);
        for (uint32_t c = 0; c < count; c++) {
            assert_near(clocks[c].mhz, lull_gpu_model_step_mhz(model, count - 1 - c));
            assert_near(clocks[c].waiting_w,
                        lull_gpu_curve_at(&model->active_idle_w, clocks[c].mhz));
            check_kernels(model, curve, &clocks[c]);
            check_transfers(model, curve, clocks[c].mhz);
        }
    }
}

/* The highest step, of those that are not above the one requested, whose power is within a limit:
 * looked for from below, by the emulator's power. */
static double highest_within(const struct lull_gpu_model *model,
                             const struct lull_gpu_profile *profile, double limit_w,
                             double asked_mhz)
{
    double best_mhz = model->sm_min_mhz;

    for (uint32_t step = 0; step < lull_gpu_model_step_count(model); step++) {
        const double mhz = lull_gpu_model_step_mhz(model, step);

        if (mhz > asked_mhz || lull_gpu_model_kernel_w(model, profile, mhz) > limit_w)
            break;
        best_mhz = mhz;
    }
    return best_mhz;
}

static void check_limit(const struct lull_gpu_model *model, uint32_t profile, double limit_w)
{
    const struct lull_device_curve *const curve = find(model->name);
    const struct lull_gpu_profile *const own = &model->profiles[profile];
    const struct lull_device_kernel *const kernel = lull_device_curve_kernel(curve, own->name);
    const uint32_t count = lull_device_clocks(curve, clocks);
    const double highest_mhz = highest_within(model, own, limit_w, model->sm_max_mhz);

    for (uint32_t asked = 0; asked < count; asked += 7) {
        const double mhz = highest_within(model, own, limit_w, clocks[asked].mhz);
        const struct lull_device_run run =
            lull_device_kernel_run(clocks, count, kernel, limit_w, asked);

        assert_near(clocks[lull_device_kernel_limited(clocks, count, kernel, limit_w, asked)].mhz,
                    mhz);
        assert_near(run.watts, lull_gpu_model_kernel_w(model, own, mhz));
        assert_near(run.time_ratio, lull_gpu_model_speed(model, own->memory_ratio, highest_mhz) /
                                        lull_gpu_model_speed(model, own->memory_ratio, mhz));
        assert_true(mhz == model->sm_min_mhz || run.watts <= limit_w);
    }
}

/* A limit lowers the clock; time and power are those of the lower one. */
static void test_limits_lower_the_clock(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < lull_gpu_model_count; i++)
        for (uint32_t k = 0; k < lull_gpu_models[i].profile_count; k++)
            for (int share = 0; share <= 4; share++)
                check_limit(&lull_gpu_models[i], k,
                            lull_gpu_models[i].limit_min_w + 0.25 * share *
                                                                 (lull_gpu_models[i].limit_max_w -
                                                                  lull_gpu_models[i].limit_min_w));
}

/* ---- names -------------------------------------------------------------------------------- */

static void check_product(const char *product, const char *name, const char *borrower)
{
    const char *borrowed;
    const struct lull_device_curve *const curve = lull_device_curve_of_product(product, &borrowed);

    if (name == NULL) {
        assert_null(curve);
        return;
    }
    assert_non_null(curve);
    assert_string_equal(curve->name, name);
    if (borrower == NULL)
        assert_null(borrowed);
    else
        assert_string_equal(borrowed, borrower);
}

static void test_names(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < lull_gpu_model_count; i++)
        for (uint32_t a = 0; a < lull_gpu_models[i].alias_count; a++)
            assert_string_equal(find(lull_gpu_models[i].aliases[a])->name, lull_gpu_models[i].name);
    assert_string_equal(find("a100-sxm4-80gb")->name, "A100-SXM4-80GB");
    assert_string_equal(lull_device_curve_find("A100-SXM4-80GB:8", 14)->name, "A100-SXM4-80GB");
    assert_null(find("A100-SXM4-8"));
    assert_null(find(""));
    check_product("NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB", NULL);
    check_product("nvidia h100 80gb hbm3", "H100-SXM5", NULL);
    check_product("NVIDIA B200", "B200-SXM", NULL);
    check_product("NVIDIA B300", "B200-SXM", "B300");
    check_product("NVIDIA L40S", "A40", "L40S");
    check_product("NVIDIA GB200", "B200-SXM", "GB200");
    check_product("NVIDIA RTX PRO 6000 Blackwell Server Edition", NULL, NULL); /* guessed */
    check_product("NVIDIA RTX A4000", NULL, NULL);                             /* it is no A40 */
    check_product("NVIDIA XA40", NULL, NULL);
    check_product("", NULL, NULL);
}

static void test_usual_kernel(void **state)
{
    const struct lull_device_curve *const a100 = find("A100-SXM4-40GB");
    const struct lull_device_curve *const rtx = find("RTX3090");

    (void)state;
    assert_ptr_equal(lull_device_curve_default(a100), lull_device_curve_kernel(a100, "training"));
    assert_ptr_equal(lull_device_curve_default(rtx), lull_device_curve_kernel(rtx, "llm_fwd"));
    assert_null(lull_device_curve_kernel(rtx, "unheard-of"));
    assert_null(lull_device_curve_kernel(rtx, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_is_what_the_emulator_does),
        cmocka_unit_test(test_limits_lower_the_clock),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_usual_kernel),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
