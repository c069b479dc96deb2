/*
 * The emulated libnvidia-ml.so.1 as seen by a C client: symbols, idioms, strings, codes.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "nvml_client.h"

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static int start(void **state)
{
    (void)state;
    return start_nvml("2xA100-SXM4-40GB,H100,V100");
}

static void test_before_init_only_a_few_calls_work(void **state)
{
    unsigned value;
    int version;
    char text[80];

    (void)state;
    assert_int_equal(NVML(Shutdown, (void)), 0);
    assert_int_equal(NVML(DeviceGetCount_v2, (unsigned *), &value), 1);
    assert_int_equal(NVML(DeviceGetPowerUsage, (nvmlDevice_t, unsigned *), device, &value), 1);
    assert_int_equal(NVML(DeviceGetAccountingMode, (nvmlDevice_t, int *), device, &version), 1);
    assert_int_equal(
        NVML(DeviceGetClock, (nvmlDevice_t, int, int, unsigned *), device, 1, 9, &value), 1);
    assert_int_equal(
        NVML(DeviceGetFanSpeed_v2, (nvmlDevice_t, unsigned, unsigned *), device, 9, &value), 1);
    assert_int_equal(NVML(DeviceGetHandleByUUIDV, (void *, nvmlDevice_t *), NULL, NULL), 1);
    assert_int_equal(NVML(EventSetFree, (void *), NULL), 1);
    assert_int_equal(NVML(SystemGetNVMLVersion, (char *, unsigned), text, sizeof(text)), 0);
    assert_int_equal(NVML(SystemGetCudaDriverVersion, (int *), &version), 0);
    assert_int_equal(version % 10, 0);
    assert_int_equal(NVML(Shutdown, (void)), 0); /* surplus shutdowns are not an error */
    assert_int_equal(NVML(Init_v2, (void)), 0);
    assert_int_equal(NVML(Init, (void)), 0);
    assert_int_equal(NVML(Shutdown, (void)), 0);
    assert_int_equal(NVML(DeviceGetCount, (unsigned *), &value), 0);
    assert_int_equal(value, 4);
}

static void test_without_a_node_the_driver_is_not_loaded(void **state)
{
    int status;

    (void)state;
    if (fork() == 0) {
        char *const arguments[] = {"test_nvml", "--without-node", NULL};

        unsetenv(LULL_EMULATED_NODE_VARIABLE);
        execv("/proc/self/exe", arguments);
        _exit(1);
    }
    wait(&status);
    assert_int_equal(WEXITSTATUS(status), NVML_DRIVER_NOT_LOADED);
}

static void test_names_are_spelled_as_nvidia_spells_them(void **state)
{
    char text[96];
    struct nvml_pci_info pci;
    nvmlDevice_t same = NULL;

    (void)state;
    assert_int_equal(NVML(DeviceGetName, (nvmlDevice_t, char *, unsigned), device, text, 96), 0);
    assert_string_equal(text, "NVIDIA A100-SXM4-40GB");
    assert_int_equal(NVML(DeviceGetName, (nvmlDevice_t, char *, unsigned), device, text, 21),
                     NVML_INSUFFICIENT_SIZE);
    assert_int_equal(NVML(DeviceGetUUID, (nvmlDevice_t, char *, unsigned), device, text, 96), 0);
    assert_int_equal(strlen(text), 40);
    assert_int_equal(strspn(text + 4, "0123456789abcdef-"), 36);
    assert_int_equal(NVML(DeviceGetHandleByUUID, (const char *, nvmlDevice_t *), text, &same), 0);
    assert_ptr_equal(same, device);
    assert_int_equal(
        NVML(DeviceGetPciInfo_v3, (nvmlDevice_t, struct nvml_pci_info *), device, &pci), 0);
    assert_string_equal(pci.bus_id, "00000000:07:00.0");
    assert_string_equal(pci.legacy_bus_id, "0000:07:00.0");
    assert_int_equal(
        NVML(DeviceGetHandleByPciBusId_v2, (const char *, nvmlDevice_t *), "0000:07:00.0", &same),
        0);
    assert_int_equal(
        NVML(DeviceGetHandleByPciBusId_v2, (const char *, nvmlDevice_t *), "07:00.0", &same), 0);
    assert_int_equal(NVML(DeviceGetHandleByUUID, (const char *, nvmlDevice_t *), "GPU-0", &same),
                     NVML_NOT_FOUND);
    assert_string_equal(((const char *(*)(int))find("nvmlErrorString"))(4),
                        "Insufficient Permissions");
}

static void test_lists_tell_their_size_first(void **state)
{
    unsigned count = 0;
    unsigned clocks[100];
    unsigned memory;

    (void)state;
    assert_int_equal(NVML(DeviceGetSupportedMemoryClocks, (nvmlDevice_t, unsigned *, unsigned *),
                          device, &count, NULL),
                     NVML_INSUFFICIENT_SIZE);
    assert_int_equal(count, 1);
    assert_int_equal(NVML(DeviceGetSupportedMemoryClocks, (nvmlDevice_t, unsigned *, unsigned *),
                          device, &count, &memory),
                     0);
    count = 0;
    assert_int_equal(NVML(DeviceGetSupportedGraphicsClocks,
                          (nvmlDevice_t, unsigned, unsigned *, unsigned *), device, memory, &count,
                          NULL),
                     NVML_INSUFFICIENT_SIZE);
    assert_int_equal(count, 81);
    count = 100;
    assert_int_equal(NVML(DeviceGetSupportedGraphicsClocks,
                          (nvmlDevice_t, unsigned, unsigned *, unsigned *), device, memory, &count,
                          clocks),
                     0);
    assert_int_equal(count, 81);
    assert_int_equal(clocks[0], 1410);
    assert_int_equal(clocks[80], 210);
    assert_int_equal(NVML(DeviceGetSupportedGraphicsClocks,
                          (nvmlDevice_t, unsigned, unsigned *, unsigned *), device, 1, &count,
                          clocks),
                     NVML_NOT_FOUND);
}

static void test_processes_in_old_and_new_shape(void **state)
{
    const int64_t owner = getpid();
    struct nvml_process_v1 old[4];
    struct nvml_process_v2 new[4];
    struct nvml_process_utilization samples[4];
    unsigned count = 0;

    (void)state;
    assert_int_equal(NVML(DeviceGetComputeRunningProcesses_v3, (nvmlDevice_t, unsigned *, void *),
                          device, &count, NULL),
                     0);
    assert_int_equal(count, 0);
    assert_int_equal(NVML(DeviceGetProcessUtilization,
                          (nvmlDevice_t, void *, unsigned *, unsigned long long), device, NULL,
                          &count, 0),
                     NVML_NOT_FOUND);
    lull_physics_open(lull_node_begin(node, 0), owner, 0);
    lull_node_end(node, 0, true);
    count = 0;
    assert_int_equal(NVML(DeviceGetComputeRunningProcesses_v3, (nvmlDevice_t, unsigned *, void *),
                          device, &count, NULL),
                     NVML_INSUFFICIENT_SIZE);
    assert_int_equal(count, 1);
    count = 4;
    assert_int_equal(NVML(DeviceGetComputeRunningProcesses_v3, (nvmlDevice_t, unsigned *, void *),
                          device, &count, new),
                     0);
    assert_int_equal(count, 1);
    assert_int_equal(new[0].pid, owner);
    assert_int_equal(new[0].gpu_instance, UINT32_MAX);
    count = 4;
    assert_int_equal(NVML(DeviceGetComputeRunningProcesses, (nvmlDevice_t, unsigned *, void *),
                          device, &count, old),
                     0);
    assert_int_equal(old[0].pid, owner);
    count = 4;
    assert_int_equal(NVML(DeviceGetProcessUtilization,
                          (nvmlDevice_t, void *, unsigned *, unsigned long long), device, samples,
                          &count, 0),
                     0);
    assert_int_equal(samples[0].pid, owner);
}

static void test_versioned_structs_are_checked(void **state)
{
    struct nvml_memory_v2 memory = {.version = 2};
    struct nvml_temperature temperature = {.version = NVML_VERSION_WORD(temperature, 1u)};

    (void)state;
    assert_int_equal(NVML(DeviceGetMemoryInfo_v2, (nvmlDevice_t, void *), device, &memory),
                     NVML_VERSION_MISMATCH);
    memory.version = 0x2000028;
    assert_int_equal(NVML(DeviceGetMemoryInfo_v2, (nvmlDevice_t, void *), device, &memory), 0);
    assert_true(memory.total == memory.reserved + memory.used + memory.available);
    assert_int_equal(NVML(DeviceGetTemperatureV, (nvmlDevice_t, void *), device, &temperature), 0);
    assert_true(temperature.celsius > 20 && temperature.celsius < 50);
}

static void test_field_values_carry_their_own_codes(void **state)
{
    struct nvml_field fields[] = {
        {.id = 83}, {.id = 186}, {.id = 185}, {.id = 186, .scope = 1}, {.id = 9999}};

    (void)state;
    assert_int_equal(NVML(DeviceGetFieldValues, (nvmlDevice_t, int, void *), device, 5, fields), 0);
    assert_int_equal(fields[0].code, 0);
    assert_int_equal(fields[0].type, NVML_VALUE_ULONGLONG);
    assert_int_equal(fields[1].code, 0);
    assert_int_equal(fields[1].type, NVML_VALUE_UINT);
    assert_true(fields[1].value.as_uint > 30000);
    assert_int_equal(fields[2].code, NVML_NOT_SUPPORTED); /* no average on GA100 */
    assert_int_equal(fields[3].code, NVML_NOT_SUPPORTED);
    assert_int_equal(fields[4].code, NVML_NOT_SUPPORTED);
    assert_int_equal(NVML(DeviceGetFieldValues, (nvmlDevice_t, int, void *), handle(2), 5, fields),
                     0);
    assert_int_equal(fields[2].code, 0);
}

static void test_power_of_a_module_is_not_the_gpus(void **state)
{
    struct nvml_field fields[] = {{.id = 186}, {.id = 186, .scope = 1}};
    unsigned gpu_mw = 0;
    unsigned module_mw = 0;

    (void)state;
    assert_int_equal(NVML(DeviceGetPowerUsage, (nvmlDevice_t, unsigned *), device, &gpu_mw), 0);
    lull_node_set_fault(node, 0, LULL_FAULT_MODULE_W,
                        &(struct lull_fault){500, LULL_FAULT_ALWAYS, 0});
    assert_int_equal(NVML(DeviceGetFieldValues, (nvmlDevice_t, int, void *), device, 2, fields), 0);
    assert_int_equal(fields[0].code, NVML_NOT_SUPPORTED);
    assert_int_equal(fields[1].code, 0);
    assert_in_range(fields[1].value.as_uint, gpu_mw + 400000, gpu_mw + 600000);
    assert_int_equal(NVML(DeviceGetPowerUsage, (nvmlDevice_t, unsigned *), device, &module_mw), 0);
    assert_in_range(module_mw, gpu_mw + 400000, gpu_mw + 600000);
    lull_node_set_fault(node, 0, LULL_FAULT_MODULE_W, &(struct lull_fault){0, 0, 0});
}

static unsigned read_clock(nvmlDevice_t gpu)
{
    unsigned mhz = 0;

    assert_int_equal(NVML(DeviceGetClockInfo, (nvmlDevice_t, int, unsigned *), gpu, 1, &mhz), 0);
    return mhz;
}

static void test_locking_rounds_clamps_and_resets(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        print_message("skipped: only root may set the emulated clocks\n");
        skip();
    }
    for (uint32_t i = 0; i < 4; i++) {
        lull_physics_open(lull_node_begin(node, i), getpid(), 0);
        lull_node_end(node, i, true);
    }
    assert_int_equal(lock_clocks(device, 900, 600), NVML_INVALID_ARGUMENT);
    assert_int_equal(lock_clocks(device, NVML_CLOCK_LIMIT_TDP, 900), NVML_INVALID_ARGUMENT);
    assert_int_equal(lock_clocks(device, 0, 908), 0);
    assert_int_equal(lock_clocks(handle(3), 142, 142), 0);
    usleep(150000);
    assert_int_equal(read_clock(device), 915);
    assert_int_equal(read_clock(handle(3)), 142); /* 142.5, printed rounded down */
    assert_int_equal(lock_clocks(device, 99999, 99999), 0);
    usleep(100000);
    assert_int_equal(read_clock(device), 1410);
    assert_int_equal(lock_clocks(device, 300, 300), 0);
    assert_int_equal(lock_clocks(device, NVML_CLOCK_LIMIT_UNLIMITED, NVML_CLOCK_LIMIT_UNLIMITED),
                     0);
    usleep(150000);
    assert_int_equal(read_clock(device), 1410);
    assert_int_equal(lock_clocks(device, 300, 300), 0);
    assert_int_equal(NVML(DeviceResetGpuLockedClocks, (nvmlDevice_t), device), 0);
    usleep(150000);
    assert_int_equal(read_clock(device), 1410);
}

/* Root without CAP_SYS_ADMIN sets no clocks, but in a container that lacks it permanently. */
static int lock_without_capability(bool is_container)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3];

    if (is_container && prctl(PR_CAPBSET_DROP, CAP_SYS_ADMIN) < 0)
        return 99;
    if (syscall(SYS_capget, &header, sets) < 0)
        return 99;
    sets[CAP_TO_INDEX(CAP_SYS_ADMIN)].effective &= ~CAP_TO_MASK(CAP_SYS_ADMIN);
    if (syscall(SYS_capset, &header, sets) < 0)
        return 99;
    return lock_clocks(device, 300, 300);
}

static void test_sets_need_root(void **state)
{
    int status;

    (void)state;
    if (geteuid() != 0) {
        print_message("skipped: only root may set the emulated clocks\n");
        skip();
    }
    if (fork() == 0)
        _exit(seteuid(65534) == 0 ? lock_clocks(device, 300, 300) : 99);
    wait(&status);
    assert_int_equal(WEXITSTATUS(status), NVML_NO_PERMISSION);
    if (fork() == 0)
        _exit(lock_without_capability(false));
    wait(&status);
    assert_int_equal(WEXITSTATUS(status), NVML_NO_PERMISSION);
    if (fork() == 0)
        _exit(lock_without_capability(true));
    wait(&status);
    assert_int_equal(WEXITSTATUS(status), 0);
    lull_node_set_fault(node, 0, LULL_FAULT_NO_PERMISSION, &(struct lull_fault){1, 1, 0});
    assert_int_equal(lock_clocks(device, 300, 300), NVML_NO_PERMISSION);
    assert_int_equal(lock_clocks(device, 300, 300), 0);
}

/* Sets a power limit, ends the last client, and returns the limit that the next one reads. */
static unsigned limit_after_last_client(int persistence)
{
    unsigned limit = 0;

    assert_int_equal(NVML(DeviceSetPersistenceMode, (nvmlDevice_t, int), device, persistence), 0);
    assert_int_equal(NVML(DeviceSetPowerManagementLimit, (nvmlDevice_t, unsigned), device, 250000),
                     0);
    assert_int_equal(NVML(Shutdown, (void)), 0);
    assert_int_equal(NVML(Init_v2, (void)), 0);
    assert_int_equal(NVML(DeviceGetEnforcedPowerLimit, (nvmlDevice_t, unsigned *), device, &limit),
                     0);
    return limit;
}

static void test_settings_without_persistence_end_with_the_last_client(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        print_message("skipped: only root may set the emulated clocks\n");
        skip();
    }
    assert_int_equal(limit_after_last_client(1), 250000);
    assert_int_equal(limit_after_last_client(0), 400000);
}

static void test_power_limits_are_bounded(void **state)
{
    unsigned limit = 0;

    (void)state;
    if (geteuid() != 0) {
        print_message("skipped: only root may set the emulated clocks\n");
        skip();
    }
    assert_int_equal(NVML(DeviceSetPowerManagementLimit, (nvmlDevice_t, unsigned), device, 250000),
                     0);
    assert_int_equal(NVML(DeviceGetEnforcedPowerLimit, (nvmlDevice_t, unsigned *), device, &limit),
                     0);
    assert_int_equal(limit, 250000);
    assert_int_equal(NVML(DeviceSetPowerManagementLimit, (nvmlDevice_t, unsigned), device, 99000),
                     NVML_INVALID_ARGUMENT);
}

static void test_what_a_board_lacks_is_not_supported(void **state)
{
    unsigned value;
    unsigned long long energy;

    (void)state;
    assert_int_equal(NVML(DeviceGetFanSpeed, (nvmlDevice_t, unsigned *), device, &value), 3);
    assert_int_equal(
        NVML(DeviceSetMemoryLockedClocks, (nvmlDevice_t, unsigned, unsigned), device, 1215, 1215),
        geteuid() == 0 ? 3 : 4);
    assert_int_equal(
        NVML(DeviceGetMigMode, (nvmlDevice_t, unsigned *, unsigned *), handle(3), &value, &value),
        3);
    lull_node_set_fault(node, 0, LULL_FAULT_NO_ENERGY,
                        &(struct lull_fault){1, LULL_FAULT_ALWAYS, 0});
    assert_int_equal(NVML(DeviceGetTotalEnergyConsumption, (nvmlDevice_t, unsigned long long *),
                          device, &energy),
                     3);
    assert_int_equal(NVML(DeviceGetTotalEnergyConsumption, (nvmlDevice_t, unsigned long long *),
                          handle(1), &energy),
                     0);
}

static int read_uint(const char *name, nvmlDevice_t gpu, unsigned *value_out)
{
    return ((int (*)(nvmlDevice_t, unsigned *))find(name))(gpu, value_out);
}

static void test_enums_and_refusals_are_those_of_the_header(void **state)
{
    unsigned value = 9;
    int status = 9;

    (void)state;
    for (unsigned i = 0; i < 3; i++) { /* two A100 with NVLink 3.1, one H100 with 4.0 */
        assert_int_equal(NVML(DeviceGetNvLinkVersion, (nvmlDevice_t, unsigned, unsigned *),
                              handle(i), 0, &value),
                         0);
        assert_int_equal(value, i < 2 ? 5 : 6);
    }
    assert_int_equal(read_uint("nvmlDeviceGetPcieLinkMaxSpeed", device, &value), 0);
    assert_int_equal(value, 4);
    assert_int_equal(read_uint("nvmlDeviceGetNumFans", device, &value), NVML_NOT_SUPPORTED);
    assert_int_equal(read_uint("nvmlDeviceGetNumaNodeId", device, &value), NVML_NOT_SUPPORTED);
    assert_int_equal(read_uint("nvmlDeviceGetAttributes_v2", device, &value), NVML_NOT_SUPPORTED);
    assert_int_equal(NVML(DeviceGetP2PStatus, (nvmlDevice_t, nvmlDevice_t, int, int *), device,
                          handle(1), 9, &status),
                     NVML_INVALID_ARGUMENT);
    value = 0;
    assert_int_equal(NVML(DeviceGetTopologyNearestGpus, (nvmlDevice_t, int, unsigned *, void *),
                          device, 20, &value, NULL),
                     0);
    assert_int_equal(value, 1); /* the GPU below the same switch */
    assert_null(dlsym(library, "nvml_ready"));
}

static void test_foreign_handles_are_refused(void **state)
{
    unsigned value;

    (void)state;
    assert_int_equal(NVML(DeviceGetPowerUsage, (nvmlDevice_t, unsigned *), NULL, &value), 2);
    assert_int_equal(NVML(DeviceGetPowerUsage, (nvmlDevice_t, unsigned *),
                          (nvmlDevice_t)(uintptr_t)4096, &value),
                     2);
    assert_int_equal(NVML(DeviceGetPowerUsage, (nvmlDevice_t, unsigned *), device, NULL), 2);
}

/* In a process of its own: what nvmlInit says when there is no emulated node. */
static int init_without_node(void)
{
    library = dlopen(LULL_EMULATED_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    return library != NULL ? NVML(Init_v2, (void)) : 99;
}

#define WITH_NODE(test) cmocka_unit_test_setup_teardown(test, start, stop_nvml)

static void launch(uint32_t gpu, double seconds)
{
    struct lull_physics *physics = lull_node_begin(node, gpu);
    const int context = lull_physics_open(physics, getpid(), 0);

    assert_true(lull_physics_launch(physics, context, seconds,
                                    lull_gpu_model_profile(&physics->model, "llm_decode")));
    lull_node_end(node, gpu, true);
}

static int get_samples(int type, unsigned long long last_us, unsigned *count,
                       struct nvml_sample *samples)
{
    int value_type;

    return NVML(DeviceGetSamples,
                (nvmlDevice_t, int, unsigned long long, int *, unsigned *, struct nvml_sample *),
                device, type, last_us, &value_type, count, samples);
}

static void test_samples_go_back_and_are_listed_once(void **state)
{
    struct nvml_sample samples[LULL_PHYSICS_SAMPLES];
    unsigned count = 0;

    (void)state;
    assert_int_equal(get_samples(0, 0, &count, NULL), 0);
    assert_int_equal(count, LULL_PHYSICS_SAMPLES);
    usleep(600000);
    for (int type = 0; type <= 6; type++) {
        count = LULL_PHYSICS_SAMPLES;
        assert_int_equal(get_samples(type, 0, &count, samples), 0);
        assert_true(count >= 2 && count < LULL_PHYSICS_SAMPLES);
        assert_true(samples[0].time_us + 20000 < samples[1].time_us);
    }
    assert_int_equal(samples[0].value.as_uint, 1215); /* MHz of the memory */
    count = LULL_PHYSICS_SAMPLES;
    assert_int_equal(get_samples(1, 0, &count, samples), 0);
    const unsigned long long last_us = samples[count - 1].time_us;

    count = LULL_PHYSICS_SAMPLES;
    if (get_samples(1, last_us, &count, samples) == 0)
        assert_true(samples[0].time_us > last_us + 100000);
    assert_int_equal(get_samples(7, 0, &count, samples), NVML_NOT_SUPPORTED);
    count = 0;
    assert_int_equal(get_samples(0, 0, &count, samples), NVML_INVALID_ARGUMENT);
}

static void test_gpm_metrics_are_those_between_two_samples(void **state)
{
    enum { METRICS = 7 };
    static const uint32_t ids[METRICS] = {1, 2, 5, 10, 20, 60, 3};
    struct nvml_gpm_request *request =
        calloc(1, sizeof(*request) + METRICS * sizeof(request->metrics[0]));
    struct nvml_gpm_support support = {.version = 1};

    (void)state;
    assert_int_equal(NVML(GpmQueryDeviceSupport, (nvmlDevice_t, void *), device, &support), 0);
    assert_int_equal(support.is_supported, 0); /* an A100 */
    assert_int_equal(NVML(GpmQueryDeviceSupport, (nvmlDevice_t, void *), handle(2), &support), 0);
    assert_int_equal(support.is_supported, 1);
    launch(2, 60);
    *request = (struct nvml_gpm_request){.version = 1, .count = METRICS};
    for (int i = 0; i < METRICS; i++)
        request->metrics[i].id = ids[i];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(NVML(GpmSampleAlloc, (void *), &request->samples[i]), 0);
        assert_int_equal(NVML(GpmSampleGet, (nvmlDevice_t, void *), handle(2), request->samples[i]),
                         0);
        usleep(150000);
    }
    assert_int_equal(NVML(GpmMetricsGet, (void *), request), 0);
    check_within("graphics, %", request->metrics[0].value, 99, 101);
    check_within("SM, %", request->metrics[1].value, 99, 101);
    check_within("tensor, %", request->metrics[2].value, 10, 25);
    check_within("memory, %", request->metrics[3].value, 70, 90);
    assert_true(request->metrics[4].value == 0);
    assert_true(request->metrics[5].value == 0);
    assert_int_equal(request->metrics[6].code, NVML_NOT_SUPPORTED);
    assert_int_equal(NVML(GpmSampleFree, (void *), request->samples[0]), 0);
    assert_int_equal(NVML(GpmSampleFree, (void *), request->samples[0]), NVML_INVALID_ARGUMENT);
    assert_int_equal(NVML(GpmMetricsGet, (void *), request), NVML_INVALID_ARGUMENT);
    free(request);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        WITH_NODE(test_before_init_only_a_few_calls_work),
        WITH_NODE(test_without_a_node_the_driver_is_not_loaded),
        WITH_NODE(test_names_are_spelled_as_nvidia_spells_them),
        WITH_NODE(test_lists_tell_their_size_first),
        WITH_NODE(test_processes_in_old_and_new_shape),
        WITH_NODE(test_versioned_structs_are_checked),
        WITH_NODE(test_field_values_carry_their_own_codes),
        WITH_NODE(test_power_of_a_module_is_not_the_gpus),
        WITH_NODE(test_locking_rounds_clamps_and_resets),
        WITH_NODE(test_sets_need_root),
        WITH_NODE(test_settings_without_persistence_end_with_the_last_client),
        WITH_NODE(test_power_limits_are_bounded),
        WITH_NODE(test_what_a_board_lacks_is_not_supported),
        WITH_NODE(test_enums_and_refusals_are_those_of_the_header),
        WITH_NODE(test_foreign_handles_are_refused),
        WITH_NODE(test_samples_go_back_and_are_listed_once),
        WITH_NODE(test_gpm_metrics_are_those_between_two_samples),
    };

    if (argc > 1 && strcmp(argv[1], "--without-node") == 0)
        return init_without_node();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
