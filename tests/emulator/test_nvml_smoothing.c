/* Power smoothing of the emulated driver: its settings, its fields, and the power that it burns.
 * SPDX-License-Identifier: Apache-2.0 */
#include "nvml_client.h"

#include <math.h>

#include "base/clock.h"

enum { FLOOR, RAMP_UP, RAMP_DOWN, HYSTERESIS };

static int set_state(nvmlDevice_t gpu, int is_enabled)
{
    const struct nvml_smoothing_state state = {NVML_VERSION_WORD(state, 1u), is_enabled};

    return NVML(DevicePowerSmoothingSetState, (nvmlDevice_t, const struct nvml_smoothing_state *),
                gpu, &state);
}

static int set_parameter(uint32_t preset, uint32_t parameter, double value)
{
    const struct nvml_smoothing_preset request = {NVML_VERSION_WORD(request, 1u), preset, parameter,
                                                  value};

    return NVML(DevicePowerSmoothingUpdatePresetProfileParam,
                (nvmlDevice_t, const struct nvml_smoothing_preset *), device, &request);
}

static int activate(uint32_t preset)
{
    const struct nvml_smoothing_preset request = {NVML_VERSION_WORD(request, 1u), preset};

    return NVML(DevicePowerSmoothingActivatePresetProfile,
                (nvmlDevice_t, const struct nvml_smoothing_preset *), device, &request);
}

static unsigned read_field(uint32_t id, uint32_t scope)
{
    struct nvml_field field = {.id = id, .scope = scope};

    assert_int_equal(
        NVML(DeviceGetFieldValues, (nvmlDevice_t, int, struct nvml_field *), device, 1, &field),
        NVML_SUCCESS);
    assert_int_equal(field.code, NVML_SUCCESS);
    return field.value.as_uint;
}

static void test_settings_show_in_fields(void **state)
{
    (void)state;
    assert_int_equal(read_field(251, 0), 0);
    assert_int_equal(read_field(259, 0), 5);
    assert_int_equal(set_parameter(3, FLOOR, 50), NVML_SUCCESS);
    assert_int_equal(set_parameter(3, RAMP_UP, 700), NVML_SUCCESS);
    assert_int_equal(set_parameter(3, RAMP_DOWN, 800), NVML_SUCCESS);
    assert_int_equal(set_parameter(3, HYSTERESIS, 250), NVML_SUCCESS);
    assert_int_equal(read_field(260, 3), 50);
    assert_int_equal(read_field(261, 3), 700000);
    assert_int_equal(read_field(262, 3), 800000);
    assert_int_equal(read_field(263, 3), 250);
    assert_int_equal(read_field(260, 2), 0);
    assert_int_equal(activate(3), NVML_SUCCESS);
    assert_int_equal(read_field(264, 0), 3);
    assert_int_equal(read_field(255, 0), 0); /* it is off */
    assert_int_equal(set_state(device, 1), NVML_SUCCESS);
    assert_int_equal(read_field(251, 0), 1);
    assert_int_equal(read_field(255, 0), 500);
    lull_node_reset_settings(node, 0);
    assert_int_equal(read_field(251, 0), 0);
}

static void test_bad_settings_are_refused(void **state)
{
    (void)state;
    assert_int_equal(set_parameter(5, FLOOR, 50), NVML_INVALID_ARGUMENT);
    assert_int_equal(set_parameter(0, FLOOR, 91), NVML_INVALID_ARGUMENT);
    assert_int_equal(set_parameter(0, FLOOR, -1), NVML_INVALID_ARGUMENT);
    assert_int_equal(set_parameter(0, 9, 1), NVML_INVALID_ARGUMENT);
    assert_int_equal(activate(5), NVML_INVALID_ARGUMENT);
    assert_int_equal(set_state(device, 2), NVML_INVALID_ARGUMENT);
    assert_int_equal(set_state(handle(1), 1), NVML_NOT_SUPPORTED); /* before Blackwell */
}

static const double floor_w = 400;

/* A B200 with power smoothing and a kernel of a second, which ends at *end_ns_out. */
static void start_smoothed(struct lull_physics *gpu, const struct lull_physics_preset *preset,
                           int64_t *end_ns_out)
{
    struct lull_physics_smoothing smoothing;
    int context;

    lull_physics_init(gpu, lull_gpu_model_find("B200", 4), 0, 0);
    smoothing = gpu->smoothing;
    smoothing.is_enabled = true;
    smoothing.presets[0] = *preset;
    smoothing.presets[0].floor_ratio = floor_w / gpu->model.limit_max_w;
    lull_physics_set_smoothing(gpu, &smoothing);
    assert_true(gpu->power_w < 200); /* no floor before work */
    context = lull_physics_open(gpu, 1, 1);
    lull_physics_launch(gpu, context, 1.0, lull_gpu_model_profile(&gpu->model, "llm_decode"));
    *end_ns_out = lull_physics_queue_end_ns(gpu, context);
}

/* The floor holds for the hysteresis after the work, and then falls along its ramp. */
static void test_the_floor_burns_power(void **state)
{
    const struct lull_physics_preset preset = {
        .ramp_up_w = 1e6, .ramp_down_w = 1000, .hysteresis_s = 0.25};
    static struct lull_physics gpu;
    double energy_j;
    int64_t end_ns;

    (void)state;
    start_smoothed(&gpu, &preset, &end_ns);
    lull_physics_advance(&gpu, end_ns - 1000);
    assert_true(gpu.power_w > floor_w);
    lull_physics_advance(&gpu, end_ns + 1000);
    assert_true(gpu.power_w == floor_w);
    energy_j = lull_physics_energy_j(&gpu);
    lull_physics_advance(&gpu, end_ns + lull_ns_from_ms(249));
    assert_true(gpu.power_w == floor_w);
    /* The GPU is colder than at this power for long, so it leaks less. */
    assert_true(lull_physics_energy_j(&gpu) - energy_j < 0.249 * floor_w);
    assert_true(lull_physics_energy_j(&gpu) - energy_j > 0.9 * 0.249 * floor_w);
    lull_physics_advance(&gpu, end_ns + lull_ns_from_ms(351));
    assert_true(fabs(gpu.power_w - (floor_w - 100)) < 11);
    lull_physics_advance(&gpu, end_ns + lull_ns_from_ms(700));
    assert_true(gpu.power_w < floor_w - 100);
    assert_true(gpu.smoothing.held_w == 0);
}

/* Power rises along its ramp by a lower clock, which costs time. */
static void test_power_ramps_up(void **state)
{
    const struct lull_physics_preset fast = {.ramp_up_w = 1e6, .ramp_down_w = 1e6};
    const struct lull_physics_preset slow = {.ramp_up_w = 1000, .ramp_down_w = 1e6};
    static struct lull_physics gpu;
    int64_t fast_end_ns;
    int64_t end_ns;
    double before_w;

    (void)state;
    start_smoothed(&gpu, &fast, &fast_end_ns);
    start_smoothed(&gpu, &slow, &end_ns);
    before_w = gpu.power_w;
    for (int ms = 10; ms <= 200; ms += 10) {
        lull_physics_advance(&gpu, lull_ns_from_ms(ms));
        assert_true(gpu.power_w - before_w < 10.1);
        before_w = gpu.power_w;
    }
    lull_physics_advance(&gpu, fast_end_ns);
    assert_true(lull_physics_is_busy(&gpu)); /* it has run at lower clocks */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_settings_show_in_fields),
        cmocka_unit_test(test_bad_settings_are_refused),
        cmocka_unit_test(test_the_floor_burns_power),
        cmocka_unit_test(test_power_ramps_up),
    };

    if (start_nvml("1xB200,1xH100") < 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, stop_nvml);
}
