/*
 * The faults that the emulated node injects, as a client of the emulated NVML meets them.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "nvml_client.h"

#include <pthread.h>

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

#define WITH_NODE(test) cmocka_unit_test_setup_teardown(test, start, stop_nvml)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_NODE(test_f10_a_hung_set_delays_its_caller_alone),
        WITH_NODE(test_f47_a_hung_reading_delays_its_caller_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
