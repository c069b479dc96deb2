/* The emulated driver's workload power profiles: which there are, which hold, and what they do.
 * SPDX-License-Identifier: Apache-2.0 */
#include "nvml_client.h"

enum { MAX_P = 1 << 0, MAX_Q = 1 << 1, NETWORK = 1 << 4, TRAINING = 1 << 7, UNKNOWN = 1 << 30 };
enum { OPERATION_REMOVE = 0, OPERATION_ADD = 1, OPERATION_REPLACE = 2 };

static struct nvml_workload_state read_state(void)
{
    struct nvml_workload_state state = {.version = NVML_VERSION_WORD(state, 1u)};

    assert_int_equal(NVML(DeviceWorkloadPowerProfileGetCurrentProfiles,
                          (nvmlDevice_t, struct nvml_workload_state *), device, &state),
                     NVML_SUCCESS);
    return state;
}

static int update(int operation, uint32_t profiles)
{
    const struct nvml_workload_update update = {operation, {{profiles}}};

    return NVML(DeviceWorkloadPowerProfileUpdateProfiles_v1,
                (nvmlDevice_t, const struct nvml_workload_update *), device, &update);
}

static void check_state(uint32_t requested, uint32_t enforced)
{
    const struct nvml_workload_state state = read_state();

    assert_int_equal(state.supported.words[0], 0xff);
    assert_int_equal(state.requested.words[0], requested);
    assert_int_equal(state.enforced.words[0], enforced);
}

static void test_rivals_do_not_hold_together(void **state)
{
    (void)state;
    check_state(0, 0);
    assert_int_equal(update(OPERATION_ADD, MAX_Q | TRAINING), NVML_SUCCESS);
    check_state(MAX_Q | TRAINING, MAX_Q | TRAINING);
    assert_int_equal(update(OPERATION_ADD, MAX_P | NETWORK), NVML_SUCCESS);
    check_state(MAX_P | MAX_Q | NETWORK | TRAINING, MAX_P | NETWORK);
    assert_int_equal(update(OPERATION_REMOVE, MAX_P), NVML_SUCCESS);
    check_state(MAX_Q | NETWORK | TRAINING, MAX_Q | NETWORK);
    assert_int_equal(update(OPERATION_REPLACE, TRAINING), NVML_SUCCESS);
    check_state(TRAINING, TRAINING);
    assert_int_equal(update(OPERATION_ADD, UNKNOWN), NVML_INVALID_ARGUMENT);
    assert_int_equal(update(3, TRAINING), NVML_INVALID_ARGUMENT);
    assert_int_equal(update(OPERATION_REPLACE, 0), NVML_SUCCESS);
    check_state(0, 0);
}

static void test_older_calls_add_and_remove(void **state)
{
    struct nvml_workload_request request = {NVML_VERSION_WORD(request, 1u), {{MAX_Q}}};

    (void)state;
    assert_int_equal(NVML(DeviceWorkloadPowerProfileSetRequestedProfiles,
                          (nvmlDevice_t, struct nvml_workload_request *), device, &request),
                     NVML_SUCCESS);
    check_state(MAX_Q, MAX_Q);
    assert_int_equal(NVML(DeviceWorkloadPowerProfileClearRequestedProfiles,
                          (nvmlDevice_t, struct nvml_workload_request *), device, &request),
                     NVML_SUCCESS);
    check_state(0, 0);
}

static void test_information_names_the_rivals(void **state)
{
    static struct nvml_workload_profiles info;

    (void)state;
    info.version = NVML_VERSION_WORD(info, 1u);
    assert_int_equal(NVML(DeviceWorkloadPowerProfileGetProfilesInfo,
                          (nvmlDevice_t, struct nvml_workload_profiles *), device, &info),
                     NVML_SUCCESS);
    for (uint32_t a = 0; a < 8; a++)
        for (uint32_t b = 0; b < 8; b++) {
            const bool is_excluded = (info.profiles[a].excludes.words[0] >> b & 1) != 0;

            assert_int_equal(info.profiles[a].number, a);
            assert_int_equal(is_excluded, a != b && (a < 2) == (b < 2));
        }
}

/* A board before Blackwell has no profiles. */
static void test_other_boards_refuse(void **state)
{
    struct nvml_workload_state read = {.version = NVML_VERSION_WORD(read, 1u)};

    (void)state;
    assert_int_equal(NVML(DeviceWorkloadPowerProfileGetCurrentProfiles,
                          (nvmlDevice_t, struct nvml_workload_state *), handle(1), &read),
                     NVML_NOT_SUPPORTED);
}

static void test_settings_are_lost_with_the_driver(void **state)
{
    (void)state;
    assert_int_equal(update(OPERATION_ADD, MAX_Q), NVML_SUCCESS);
    lull_node_reset_settings(node, 0);
    check_state(0, 0);
}

/* Runs a kernel that stays below the power limit at full clocks; returns its time and energy. */
static void run_kernel(struct lull_physics *gpu, double *s_out, double *j_out)
{
    const int context = lull_physics_open(gpu, 1, 1);
    const double before_j = lull_physics_energy_j(gpu);
    const int64_t begin_ns = gpu->now_ns;
    int64_t end_ns;

    lull_physics_launch(gpu, context, 1.0, lull_gpu_model_profile(&gpu->model, "llm_decode"));
    end_ns = lull_physics_queue_end_ns(gpu, context);
    lull_physics_advance(gpu, end_ns);
    *s_out = (double)(end_ns - begin_ns) * 1e-9;
    *j_out = lull_physics_energy_j(gpu) - before_j;
    lull_physics_close(gpu, context);
}

static void test_max_q_saves_as_published(void **state)
{
    static struct lull_physics gpu;
    double s[2];
    double j[2];

    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        lull_physics_init(&gpu, lull_gpu_model_find("B200", 4), 0, 0);
        lull_physics_request_profiles(&gpu, i == 0 ? 0 : MAX_Q);
        run_kernel(&gpu, &s[i], &j[i]);
    }
    assert_true(fabs(s[0] / s[1] - 0.97) < 1e-6);
    /* Temperatures, and with them the leakage, differ a little. */
    assert_true(fabs(j[1] / j[0] - 0.85) < 0.02);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rivals_do_not_hold_together),
        cmocka_unit_test(test_older_calls_add_and_remove),
        cmocka_unit_test(test_information_names_the_rivals),
        cmocka_unit_test(test_other_boards_refuse),
        cmocka_unit_test(test_settings_are_lost_with_the_driver),
        cmocka_unit_test(test_max_q_saves_as_published),
    };

    if (start_nvml("1xB200,1xH100") < 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, stop_nvml);
}
