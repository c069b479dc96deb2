/* Power smoothing of the emulated driver: its settings, its fields, and the power that it burns.
 * SPDX-License-Identifier: Apache-2.0 */
#include "nvml_client.h"

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

/* The floor holds for the hysteresis after the work, and not without work. */
static void test_the_floor_burns_power(void **state)
{
    static struct lull_physics gpu;
    struct lull_physics_smoothing smoothing;
    const double floor_w = 400;
    int context;
    int64_t end_ns;

    (void)state;
    lull_physics_init(&gpu, lull_gpu_model_find("B200", 4), 0, 0);
    smoothing = gpu.smoothing;
    smoothing.is_enabled = true;
    smoothing.presets[0].floor_ratio = floor_w / gpu.model.limit_max_w;
    smoothing.presets[0].hysteresis_s = 0.25;
    lull_physics_set_smoothing(&gpu, &smoothing);
    assert_true(gpu.power_w < 200);
    context = lull_physics_open(&gpu, 1, 1);
    lull_physics_launch(&gpu, context, 1.0, lull_gpu_model_profile(&gpu.model, "llm_decode"));
    end_ns = lull_physics_queue_end_ns(&gpu, context);
    lull_physics_advance(&gpu, end_ns - 1000);
    assert_true(gpu.power_w > floor_w);
    lull_physics_advance(&gpu, end_ns + 1000);
    assert_true(gpu.power_w == floor_w);
    lull_physics_advance(&gpu, end_ns + lull_ns_from_ms(249));
    assert_true(gpu.power_w == floor_w);
    lull_physics_advance(&gpu, end_ns + lull_ns_from_ms(251));
    assert_true(gpu.power_w < floor_w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_settings_show_in_fields),
        cmocka_unit_test(test_bad_settings_are_refused),
        cmocka_unit_test(test_the_floor_burns_power),
    };

    if (start_nvml("1xB200,1xH100") < 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, stop_nvml);
}
