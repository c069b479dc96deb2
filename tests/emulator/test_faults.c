/*
 * The faults that the emulated node injects, as seen by a client of the emulated NVML.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "nvml_client.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/clock.h"

static int start(void **state)
{
    (void)state;
    return start_nvml("2xA100-SXM4-40GB");
}

static void inject(const char *text)
{
    assert_int_equal(lull_node_set_faults(node, text, NULL), 0);
}

static int read_power(nvmlDevice_t gpu)
{
    unsigned mw;

    return NVML(DeviceGetPowerUsage, (nvmlDevice_t, unsigned *), gpu, &mw);
}

static int lock_900(nvmlDevice_t gpu)
{
    return lock_clocks(gpu, 900, 900);
}

struct hung_call {
    int (*call)(nvmlDevice_t gpu);
    int code;
};

static void *call_gpu_0(void *context)
{
    struct hung_call *call = context;

    call->code = call->call(device);
    return NULL;
}

/* Makes the same call for GPU 0, which hangs for 1 s, and meanwhile for GPU 1, which must not. */
static void check_hang(const char *fault, int (*call)(nvmlDevice_t gpu))
{
    const int64_t begin_ns = lull_now_ns();
    struct hung_call hung = {call, -1};
    pthread_t thread;
    double other_ms;

    inject(fault);
    assert_int_equal(pthread_create(&thread, NULL, call_gpu_0, &hung), 0);
    usleep(50000); /* lets the other thread be the first to call; correct also if it is not */
    assert_int_equal(call(handle(1)), 0);
    other_ms = lull_ms_from_ns(lull_now_ns() - begin_ns);
    pthread_join(thread, NULL);
    assert_int_equal(hung.code, 0);
    check_within("the call for GPU 1, ms", other_ms, 0, 900);
    check_within("the hung call for GPU 0, ms", lull_ms_from_ns(lull_now_ns() - begin_ns), 1000,
                 60000);
}

static void test_f10_a_hung_set_delays_its_caller_alone(void **state)
{
    (void)state;
    if (geteuid() != 0)
        inject("any_user");
    check_hang("0:hang_ms=1000x1", lock_900);
}

static void test_f47_a_hung_reading_delays_its_caller_alone(void **state)
{
    (void)state;
    check_hang("0:read_hang_ms=1000x1", read_power);
}

static void be_allowed_to_set(void)
{
    if (geteuid() != 0)
        inject("any_user");
}

static int init_again(void)
{
    NVML(Shutdown, (void));
    return NVML(Init_v2, (void));
}

/* Repeats a call until it gives this code, for at most 20 s of real time. */
static void wait_for_code(int (*call)(nvmlDevice_t gpu), nvmlDevice_t gpu, int wanted)
{
    const int64_t until_ns = lull_now_ns() + 20 * LULL_NS_PER_S;
    int code = call(gpu);

    while (code != wanted && lull_now_ns() < until_ns) {
        usleep(5000);
        code = call(gpu);
    }
    assert_int_equal(code, wanted);
}

static int get_uuid(nvmlDevice_t gpu)
{
    char text[96];

    return NVML(DeviceGetUUID, (nvmlDevice_t, char *, unsigned), gpu, text, sizeof(text));
}

static int get_by_index_0(nvmlDevice_t gpu)
{
    nvmlDevice_t found;

    (void)gpu;
    return NVML(DeviceGetHandleByIndex_v2, (unsigned, nvmlDevice_t *), 0, &found);
}

static void test_f07_a_lost_gpu_refuses_every_call_and_returns(void **state)
{
    (void)state;
    be_allowed_to_set();
    inject("0:lost_ms=300x1");
    assert_int_equal(read_power(device), NVML_GPU_IS_LOST);
    assert_int_equal(get_uuid(device), NVML_GPU_IS_LOST);
    assert_int_equal(get_by_index_0(NULL), NVML_GPU_IS_LOST);
    assert_int_equal(lock_900(device), NVML_GPU_IS_LOST);
    assert_int_equal(read_power(handle(1)), 0);
    wait_for_code(read_power, device, 0);
    assert_int_equal(lock_900(device), 0);
}

struct event_client {
    void *set;
    struct nvml_event event;
};

static int wait_for_event(struct event_client *client, unsigned timeout_ms)
{
    return NVML(EventSetWait_v2, (void *, struct nvml_event *, unsigned), client->set,
                &client->event, timeout_ms);
}

static void open_events(struct event_client *client, unsigned long long types)
{
    assert_int_equal(NVML(EventSetCreate, (void **), &client->set), 0);
    assert_int_equal(NVML(DeviceRegisterEvents, (nvmlDevice_t, unsigned long long, void *), device,
                          types, client->set),
                     0);
}

static void close_events(struct event_client *client)
{
    assert_int_equal(NVML(EventSetFree, (void *), client->set), 0);
}

static void test_f08_an_xid_reaches_those_who_wait_for_it(void **state)
{
    struct event_client client;
    struct event_client other;

    (void)state;
    open_events(&client, NVML_EVENT_XID);
    open_events(&other, NVML_EVENT_MIG);
    assert_int_equal(wait_for_event(&client, 30), NVML_TIMEOUT);
    inject("0:xid=79x1,1:xid=31x1");
    assert_int_equal(wait_for_event(&client, 20000), 0);
    assert_ptr_equal(client.event.device, device);
    assert_int_equal(client.event.type, NVML_EVENT_XID);
    assert_int_equal(client.event.data, 79);
    assert_int_equal(wait_for_event(&client, 30), NVML_TIMEOUT);
    assert_int_equal(wait_for_event(&other, 0), NVML_TIMEOUT);
    inject("0:xid=79x1,0:lost_ms=60000x1");
    assert_int_equal(wait_for_event(&client, 20000), 0);
    assert_int_equal(wait_for_event(&client, 20000), NVML_GPU_IS_LOST);
    close_events(&other);
    close_events(&client);
    assert_int_equal(NVML(EventSetFree, (void *), client.set), NVML_INVALID_ARGUMENT);
    assert_int_equal(NVML(EventSetFree, (void *), &client), NVML_INVALID_ARGUMENT);
}

static void test_f14_mig_is_switched_and_told(void **state)
{
    struct event_client client;
    unsigned current = 9;
    unsigned pending = 9;
    unsigned most = 9;

    (void)state;
    open_events(&client, NVML_EVENT_MIG);
    NVML(DeviceGetMaxMigDeviceCount, (nvmlDevice_t, unsigned *), device, &most);
    assert_int_equal(most, 0);
    inject("0:mig=2x1");
    assert_int_equal(
        NVML(DeviceGetMigMode, (nvmlDevice_t, unsigned *, unsigned *), device, &current, &pending),
        0);
    assert_int_equal(current, 1);
    NVML(DeviceGetMaxMigDeviceCount, (nvmlDevice_t, unsigned *), device, &most);
    assert_int_equal(most, 7);
    assert_int_equal(wait_for_event(&client, 20000), 0);
    assert_int_equal(client.event.type, NVML_EVENT_MIG);
    inject("0:mig=0x1");
    assert_int_equal(wait_for_event(&client, 20000), 0);
    NVML(DeviceGetMigMode, (nvmlDevice_t, unsigned *, unsigned *), device, &current, &pending);
    assert_int_equal(current, 0);
    close_events(&client);
}

static struct lull_node_truth truth_of(uint32_t gpu)
{
    struct lull_node_truth truth;

    lull_node_read_truth(node, gpu, &truth);
    return truth;
}

static unsigned limit_of(nvmlDevice_t gpu)
{
    unsigned mw = 0;

    NVML(DeviceGetPowerManagementLimit, (nvmlDevice_t, unsigned *), gpu, &mw);
    return mw;
}

static void test_f12_a_reloaded_driver_wants_a_new_init(void **state)
{
    (void)state;
    be_allowed_to_set();
    assert_int_equal(lock_900(device), 0);
    inject("1:reload_ms=300x1");
    assert_int_equal(read_power(handle(0)), 0); /* the handle of GPU 1 has not been used yet */
    assert_int_equal(
        NVML(DeviceGetHandleByIndex_v2, (unsigned, nvmlDevice_t *), 1, &(nvmlDevice_t){NULL}),
        NVML_LIBRARY_MISMATCH);
    assert_int_equal(read_power(device), NVML_LIBRARY_MISMATCH);
    assert_int_equal(NVML(Init_v2, (void)), NVML_LIBRARY_MISMATCH);
    wait_for_code(read_power, device, NVML_UNINITIALIZED);
    assert_int_equal(init_again(), 0);
    assert_int_equal(read_power(device), 0);
    assert_false(truth_of(0).is_locked);
}

static void test_f15_a_foreign_writer_changes_clock_and_limit(void **state)
{
    (void)state;
    be_allowed_to_set();
    assert_int_equal(lock_900(device), 0);
    inject("0:foreign_mhz=600x1,0:foreign_limit_w=200x1");
    assert_int_equal(limit_of(device), 200000);
    assert_true(truth_of(0).asked_mhz == 600);
    inject("0:foreign_mhz=0x1");
    read_power(device);
    assert_false(truth_of(0).is_locked);
    assert_int_equal(limit_of(handle(1)), 400000);
}

static int reset_clock(nvmlDevice_t gpu)
{
    return NVML(DeviceResetGpuLockedClocks, (nvmlDevice_t), gpu);
}

static void test_f46_a_reset_of_an_idle_gpu_does_nothing(void **state)
{
    int context;

    (void)state;
    be_allowed_to_set();
    inject("0:idle_reset");
    assert_int_equal(lock_900(device), 0);
    assert_int_equal(reset_clock(device), 0);
    assert_true(truth_of(0).is_locked);
    context = lull_physics_open(lull_node_begin(node, 0), getpid(), 0);
    lull_node_end(node, 0, true);
    lull_physics_launch(lull_node_begin(node, 0), context, 30,
                        lull_gpu_model_profile(lull_gpu_model_find("A100", 4), "lammps"));
    lull_node_end(node, 0, true);
    assert_int_equal(reset_clock(device), 0);
    assert_false(truth_of(0).is_locked);
}

static void *poll_power(void *is_over)
{
    const int64_t until_ns = lull_now_ns() + 20 * LULL_NS_PER_S;

    while (!atomic_load((atomic_bool *)is_over) && lull_now_ns() < until_ns)
        read_power(device);
    return NULL;
}

static void test_a_shutdown_beside_polling_threads_is_survived(void **state)
{
    enum { pollers = 3, rounds = 2000 };
    pthread_t threads[pollers];
    atomic_bool is_over = false;

    (void)state;
    for (int i = 0; i < pollers; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, poll_power, &is_over), 0);
    for (int i = 0; i < rounds; i++)
        assert_int_equal(init_again(), 0);
    atomic_store(&is_over, true);
    for (int i = 0; i < pollers; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(read_power(device), 0);
}

/* In a process of an ordinary user: what it may do on a node that root made. */
static int act_as_user(void)
{
    struct lull_node *own;
    nvmlDevice_t gpu;
    int context;

    if (setuid(65534) < 0 || NVML(Shutdown, (void)) != 0 || NVML(Init_v2, (void)) != 0)
        return 1;
    if (NVML(DeviceGetHandleByIndex_v2, (unsigned, nvmlDevice_t *), 0, &gpu) != 0 ||
        read_power(gpu) != 0)
        return 2;
    if (lock_900(gpu) != NVML_NO_PERMISSION || reset_clock(gpu) != NVML_NO_PERMISSION ||
        NVML(DeviceSetPowerManagementLimit, (nvmlDevice_t, unsigned), gpu, 300000) !=
            NVML_NO_PERMISSION)
        return 3;
    if (lull_node_open(lull_node_path(node), &own, NULL) < 0)
        return 4;
    context = lull_node_open_context(own, 0); /* a job of the user */
    lull_node_close(own);
    return context >= 0 && truth_of(0).contexts == 1 ? 0 : 5;
}

static void test_f27_a_user_reads_and_works_and_only_root_sets(void **state)
{
    struct stat info;
    int status = -1;
    pid_t child;

    (void)state;
    assert_int_equal(stat(lull_node_path(node), &info), 0);
    assert_int_equal(info.st_mode & 0777, 0666);
    if (geteuid() != 0) {
        print_message("skipped: only root may become another user\n");
        skip();
    }
    child = fork();
    if (child == 0)
        _exit(act_as_user());
    waitpid(child, &status, 0);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static int start_amd(void **state)
{
    struct lull_node_spec spec = {.seed = 0, .time_scale = 1};

    (void)state;
    if (lull_node_spec_parse("MI300X", &spec, NULL) < 0 || lull_node_create(&spec, &node, NULL) < 0)
        return -1;
    setenv(LULL_EMULATED_NODE_VARIABLE, lull_node_path(node), 1);
    library = dlopen(LULL_EMULATED_AMDSMI, RTLD_NOW | RTLD_LOCAL);
    return library == NULL;
}

static int stop_amd(void **state)
{
    (void)state;
    dlclose(library);
    lull_node_remove(node);
    return 0;
}

/* Calls an AMD SMI function by its name and argument types. */
#define AMDSMI(name, types, ...) (((int(*) types)find("amdsmi_" #name))(__VA_ARGS__))

static unsigned memory_limit_of(void *die)
{
    const int memory = 4;
    struct {
        uint32_t mhz, min_mhz, max_mhz;
        uint32_t rest[5];
    } clock = {0};

    assert_int_equal(AMDSMI(get_clock_info, (void *, int, void *), die, memory, &clock), 0);
    return clock.max_mhz;
}

static void test_f52_an_sm_clock_undoes_the_memory_clock(void **state)
{
    const int memory = 4;
    const int graphics = 0;
    uint32_t count = 1;
    void *die;

    (void)state;
    be_allowed_to_set();
    assert_int_equal(AMDSMI(init, (uint64_t), 2), 0);
    assert_int_equal(AMDSMI(get_socket_handles, (uint32_t *, void **), &count, &die), 0);
    assert_int_equal(AMDSMI(set_gpu_clk_limit, (void *, int, int, uint64_t), die, memory, 1, 1000),
                     0);
    assert_int_equal(
        AMDSMI(set_gpu_clk_limit, (void *, int, int, uint64_t), die, graphics, 1, 1500), 0);
    assert_int_equal(memory_limit_of(die), 1000);
    inject("0:sm_resets_memory=1x1");
    assert_int_equal(
        AMDSMI(set_gpu_clk_limit, (void *, int, int, uint64_t), die, graphics, 1, 1600), 0);
    assert_int_not_equal(memory_limit_of(die), 1000);
    assert_int_equal(AMDSMI(shut_down, (void)), 0);
}

#define WITH_NODE(test) cmocka_unit_test_setup_teardown(test, start, stop_nvml)

static int reset_clocks(nvmlDevice_t gpu)
{
    return NVML(DeviceResetGpuLockedClocks, (nvmlDevice_t), gpu);
}

static void test_a_fault_of_one_call_spares_the_others(void **state)
{
    unsigned mw;
    int64_t begin_ns;

    (void)state;
    be_allowed_to_set();
    inject("0:deny=nvmlDeviceSetGpuLockedClocks,0:deny=nvmlDeviceGetPowerUsage/3x1");
    assert_int_equal(lock_900(device), NVML_NO_PERMISSION);
    assert_int_equal(lock_900(handle(1)), 0);
    assert_int_equal(reset_clocks(device), 0);
    assert_int_equal(read_power(device), NVML_NOT_SUPPORTED);
    assert_int_equal(read_power(device), 0);
    inject("deny=off,call_hang_ms=nvmlDeviceGetEnforcedPowerLimit/300x1");
    assert_int_equal(lock_900(device), 0);
    begin_ns = lull_now_ns();
    assert_int_equal(NVML(DeviceGetEnforcedPowerLimit, (nvmlDevice_t, unsigned *), device, &mw), 0);
    check_within("the hung call, ms", lull_ms_from_ns(lull_now_ns() - begin_ns), 300, 60000);
}

static void test_a_fault_of_a_call_holds_for_all_its_names(void **state)
{
    unsigned value;

    (void)state;
    inject("0:deny=nvmlDeviceGetPowerState/3x1");
    assert_int_equal(NVML(DeviceGetPowerState, (nvmlDevice_t, unsigned *), device, &value), 3);
    inject("0:deny=nvmlDeviceGetCurrentClocksThrottleReasons/3x1");
    assert_int_equal(NVML(DeviceGetCurrentClocksEventReasons, (nvmlDevice_t, unsigned long long *),
                          device, (unsigned long long[]){0}),
                     3);
}

static unsigned long long count_errors(int type, int counter)
{
    unsigned long long count = 99;

    assert_int_equal(NVML(DeviceGetTotalEccErrors, (nvmlDevice_t, int, int, unsigned long long *),
                          device, type, counter, &count),
                     0);
    return count;
}

static void test_memory_errors_are_counted_and_reported(void **state)
{
    struct event_client client;
    unsigned rows[4];

    (void)state;
    be_allowed_to_set();
    open_events(&client, NVML_EVENT_XID);
    inject("0:ecc_corrected=5,0:ecc_uncorrected=2,0:row_remap=1");
    assert_int_equal(wait_for_event(&client, 20000), 0);
    assert_int_equal(client.event.data, 48);
    assert_int_equal(wait_for_event(&client, 20000), 0);
    assert_int_equal(client.event.data, 63);
    close_events(&client);
    assert_int_equal(count_errors(0, 0), 5);
    assert_int_equal(count_errors(1, 1), 2);
    assert_int_equal(NVML(DeviceGetRemappedRows,
                          (nvmlDevice_t, unsigned *, unsigned *, unsigned *, unsigned *), device,
                          &rows[0], &rows[1], &rows[2], &rows[3]),
                     0);
    assert_int_equal(rows[1], 1);
    assert_int_equal(rows[2], 1);
    inject("0:reload_ms=20x1");
    wait_for_code(read_power, device, NVML_LIBRARY_MISMATCH);
    for (int i = 0; i < 200 && init_again() != 0; i++)
        usleep(10000);
    assert_int_equal(count_errors(0, 0), 0);
    assert_int_equal(count_errors(0, 1), 5);
}

static void test_a_gpu_off_the_bus_is_lost_until_it_returns(void **state)
{
    struct event_client client;

    (void)state;
    open_events(&client, NVML_EVENT_XID);
    inject("0:off_bus");
    assert_int_equal(wait_for_event(&client, 20000), 0);
    assert_int_equal(client.event.data, 79);
    assert_int_equal(read_power(device), NVML_GPU_IS_LOST);
    inject("0:off_bus=0");
    assert_int_equal(read_power(device), 0);
    close_events(&client);
}

/* ---- every kind has an effect that a client sees ---- */

static int start_three(void **state)
{
    (void)state;
    return start_nvml("A100-SXM4-40GB,H100-SXM5,B200-SXM");
}

/* Makes a call without root. */
static int call_as_user(int (*call)(nvmlDevice_t gpu), nvmlDevice_t gpu)
{
    const bool is_root = geteuid() == 0;
    int code;

    if (is_root)
        assert_int_equal(seteuid(65534), 0);
    code = call(gpu);
    if (is_root)
        assert_int_equal(seteuid(0), 0);
    return code;
}

static int set_limit(nvmlDevice_t gpu)
{
    return NVML(DeviceSetPowerManagementLimit, (nvmlDevice_t, unsigned), gpu, 300000);
}

static int change_profiles(nvmlDevice_t gpu)
{
    const struct nvml_workload_update nothing = {.operation = 1};

    return NVML(DeviceWorkloadPowerProfileUpdateProfiles_v1,
                (nvmlDevice_t, const struct nvml_workload_update *), gpu, &nothing);
}

static int sample_metrics(nvmlDevice_t gpu)
{
    void *sample = NULL;
    int code;

    assert_int_equal(NVML(GpmSampleAlloc, (void **), &sample), 0);
    code = NVML(GpmSampleGet, (nvmlDevice_t, void *), gpu, sample);
    assert_int_equal(NVML(GpmSampleFree, (void *), sample), 0);
    return code;
}

static int look_at_set(void)
{
    return set_limit(device);
}

static int look_at_limit(void)
{
    unsigned mw;

    assert_int_equal(set_limit(device), 0);
    mw = limit_of(device);
    assert_int_equal(NVML(DeviceSetPowerManagementLimit, (nvmlDevice_t, unsigned), device, 400000),
                     0);
    return (int)mw / 1000;
}

static int look_whether_settling_lasts(void)
{
    const struct lull_physics *physics;
    bool is_long;

    assert_int_equal(lock_900(device), 0);
    physics = lull_node_begin(node, 0);
    is_long = physics->pending_count > 0 &&
              physics->pending[physics->pending_count - 1].effective_ns - physics->now_ns >
                  2 * LULL_NS_PER_S;
    lull_node_end(node, 0, false);
    assert_int_equal(reset_clock(device), 0);
    return is_long;
}

static int look_at_reset(void)
{
    return reset_clock(device);
}

static int look_at_set_of_user(void)
{
    return call_as_user(set_limit, device);
}

static int look_at_metrics_of_user(void)
{
    return call_as_user(sample_metrics, handle(1));
}

static int look_at_profiles_of_user(void)
{
    return call_as_user(change_profiles, handle(2));
}

static int look_at_power(void)
{
    return read_power(device);
}

static int look_at_watts(void)
{
    unsigned mw = 0;

    NVML(DeviceGetPowerUsage, (nvmlDevice_t, unsigned *), device, &mw);
    return mw == 123000 ? 123 : mw != 0;
}

static int look_at_joules(void)
{
    unsigned long long mj = 0;
    const int code =
        NVML(DeviceGetTotalEnergyConsumption, (nvmlDevice_t, unsigned long long *), device, &mj);

    if (code != 0)
        return -code;
    return mj == 5000 ? 5 : mj != 0;
}

static int look_at_processes(void)
{
    unsigned count = 0;

    return NVML(DeviceGetComputeRunningProcesses_v3, (nvmlDevice_t, unsigned *, void *), device,
                &count, NULL);
}

static int look_at_module(void)
{
    enum { POWER_INSTANT = 186, MODULE = 1 };
    struct nvml_field field = {.id = POWER_INSTANT, .scope = MODULE};

    assert_int_equal(
        NVML(DeviceGetFieldValues, (nvmlDevice_t, int, struct nvml_field *), device, 1, &field), 0);
    return (int)field.code;
}

static int look_at_virtualization(void)
{
    int mode = -1;

    assert_int_equal(NVML(DeviceGetVirtualizationMode, (nvmlDevice_t, int *), device, &mode), 0);
    return mode != 0;
}

static const struct fault_effect {
    enum lull_fault_kind kind;
    const char *fault;
    int (*look)(void);
    int without;
    int with;
} fault_effects[] = {
    {LULL_FAULT_SET_CODE, "set_code=3", look_at_set, 0, 3},
    {LULL_FAULT_NO_EFFECT, "no_effect", look_at_limit, 300, 400},
    {LULL_FAULT_SETTLE_FACTOR, "settle_factor=1000", look_whether_settling_lasts, 0, 1},
    {LULL_FAULT_NO_PERMISSION, "no_permission", look_at_set, 0, 4},
    {LULL_FAULT_NO_ENERGY, "no_energy", look_at_joules, 1, -3},
    {LULL_FAULT_NO_PROCESSES, "no_processes", look_at_processes, 0, 3},
    {LULL_FAULT_GET_CODE, "get_code=999", look_at_power, 0, 999},
    {LULL_FAULT_ANY_USER, "any_user", look_at_set_of_user, 4, 0},
    {LULL_FAULT_RESET_CODE, "reset_code=999", look_at_reset, 0, 999},
    {LULL_FAULT_ENERGY_WRAP_J, "energy_wrap_j=0.001", look_at_joules, 1, 0},
    {LULL_FAULT_ENERGY_STUCK_J, "energy_stuck_j=5", look_at_joules, 1, 5},
    {LULL_FAULT_ENERGY_FACTOR, "energy_factor=0", look_at_joules, 1, 0},
    {LULL_FAULT_POWER_W, "power_w=123", look_at_watts, 1, 123},
    {LULL_FAULT_POWER_FACTOR, "power_factor=0", look_at_watts, 1, 0},
    {LULL_FAULT_MODULE_W, "module_w=150", look_at_module, 3, 0},
    {LULL_FAULT_VGPU, "vgpu", look_at_virtualization, 0, 1},
    {LULL_FAULT_RESTRICTED_PROFILING, "restricted_profiling", look_at_metrics_of_user, 0, 4},
    {LULL_FAULT_WPPS, "wpps", look_at_profiles_of_user, 4, 0},
};

/* Kinds that other tests of this file check. */
static const enum lull_fault_kind checked_elsewhere[] = {
    LULL_FAULT_HANG_MS,
    LULL_FAULT_READ_HANG_MS,
    LULL_FAULT_XID,
    LULL_FAULT_LOST_MS,
    LULL_FAULT_MIG,
    LULL_FAULT_RELOAD_MS,
    LULL_FAULT_FOREIGN_MHZ,
    LULL_FAULT_FOREIGN_LIMIT_W,
    LULL_FAULT_IDLE_RESET,
    LULL_FAULT_SM_RESETS_MEMORY,
    LULL_FAULT_OFF_BUS,
    LULL_FAULT_ECC_CORRECTED,
    LULL_FAULT_ECC_UNCORRECTED,
    LULL_FAULT_ROW_REMAP,
    LULL_FAULT_DENY,
    LULL_FAULT_CALL_HANG_MS,
};

static void wait_for_energy(void)
{
    const int64_t until_ns = lull_now_ns() + 20 * LULL_NS_PER_S;

    while (look_at_joules() == 0 && lull_now_ns() < until_ns)
        usleep(10000);
}

static void test_each_kind_has_an_effect(void **state)
{
    bool is_checked[LULL_FAULT_KINDS] = {false};

    (void)state;
    wait_for_energy();
    for (size_t i = 0; i < sizeof(checked_elsewhere) / sizeof(checked_elsewhere[0]); i++)
        is_checked[checked_elsewhere[i]] = true;
    for (size_t i = 0; i < sizeof(fault_effects) / sizeof(fault_effects[0]); i++) {
        const struct fault_effect *const row = &fault_effects[i];
        char off[64];

        is_checked[row->kind] = true;
        if (geteuid() != 0 && row->kind != LULL_FAULT_ANY_USER && row->kind != LULL_FAULT_WPPS)
            inject("any_user");
        snprintf(off, sizeof(off), "%s=off", lull_fault_name(row->kind));
        assert_int_equal(row->look(), row->without);
        inject(row->fault);
        assert_int_equal(row->look(), row->with);
        inject(off);
        if (row->kind != LULL_FAULT_SETTLE_FACTOR) /* what is settling still settles slowly */
            assert_int_equal(row->look(), row->without);
        inject("any_user=off");
    }
    for (int kind = 0; kind < LULL_FAULT_KINDS; kind++)
        if (!is_checked[kind])
            fail_msg("no test checks the fault %s", lull_fault_name((enum lull_fault_kind)kind));
}

/* VALUExCOUNT@AFTER: after that many calls, so many times. */
static void test_a_fault_begins_after_some_calls(void **state)
{
    (void)state;
    inject("0:get_code=999x2@2");
    for (int call = 1; call <= 5; call++)
        assert_int_equal(read_power(device), call == 3 || call == 4 ? 999 : 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_NODE(test_f10_a_hung_set_delays_its_caller_alone),
        WITH_NODE(test_f47_a_hung_reading_delays_its_caller_alone),
        WITH_NODE(test_f07_a_lost_gpu_refuses_every_call_and_returns),
        WITH_NODE(test_f08_an_xid_reaches_those_who_wait_for_it),
        WITH_NODE(test_f14_mig_is_switched_and_told),
        WITH_NODE(test_f12_a_reloaded_driver_wants_a_new_init),
        WITH_NODE(test_f15_a_foreign_writer_changes_clock_and_limit),
        WITH_NODE(test_f46_a_reset_of_an_idle_gpu_does_nothing),
        WITH_NODE(test_a_fault_of_one_call_spares_the_others),
        WITH_NODE(test_a_fault_begins_after_some_calls),
        cmocka_unit_test_setup_teardown(test_each_kind_has_an_effect, start_three, stop_nvml),
        WITH_NODE(test_a_fault_of_a_call_holds_for_all_its_names),
        WITH_NODE(test_memory_errors_are_counted_and_reported),
        WITH_NODE(test_a_gpu_off_the_bus_is_lost_until_it_returns),
        WITH_NODE(test_f27_a_user_reads_and_works_and_only_root_sets),
        cmocka_unit_test_setup_teardown(test_f52_an_sm_clock_undoes_the_memory_clock, start_amd,
                                        stop_amd),
        WITH_NODE(test_a_shutdown_beside_polling_threads_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
