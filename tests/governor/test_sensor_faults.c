/*
 * Energies from sensors that go wrong, against the truth of the emulated node: within 2 %, or
 * unknown. Thirty faults of the sensors of each vendor. The power of Intel's GPUs is the growth of
 * their counter, so faults of power do not apply to them, and a counter that is wrong by a small
 * factor is not detected. Usage: test_sensor_faults VENDOR. SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "device/device.h"
#include "emulator/node.h"
#include "governor/energy/accounting.h"

/* A fault from the start or, with a count behind x and a number of readings behind @, later on:
 * power is read each tenth of a second and the counter each tenth of them. */
static const struct fault {
    const char *text;
    bool is_known;  /* the energy must be known all the same, on GPUs that have both sensors */
    bool is_hidden; /* a counter alone does not show it */
} faults[] = {
    {"", true},
    {"power_w=3700000", true},
    {"power_w=3700000x1@40", true},
    {"power_w=3700000x20@30", true},
    {"power_w=65535x5@50", true},
    {"power_w=0", true},
    {"power_w=0x40@60", true},
    {"power_w=0.5", true},
    {"power_factor=10", true},
    {"power_factor=1000", true},
    {"power_factor=0.001", true},
    {"power_factor=2x3@20", true},
    {"power_factor=0.25", false},
    {"power_factor=0.5", false},
    {"power_w=25", false},
    {"energy_stuck_j=0", true},
    {"energy_stuck_j=200x1@6", true},
    {"energy_stuck_j=200x2@9", true},
    {"energy_stuck_j=18000000000x1@8", true},
    {"energy_stuck_j=0x1@10", true},
    {"energy_stuck_j=1000000@9", true},
    {"energy_factor=0.25", false, true},
    {"energy_factor=0.5", false, true},
    {"energy_factor=2", false, true},
    {"energy_factor=4", false},
    {"energy_factor=1000", false},
    {"energy_factor=0.001", false},
    {"no_energy", true},
    {"no_energy=1@8", true},
    {"energy_factor=0.25,power_w=3700000x30@20", false, true},
};

enum {
    FAULTS = sizeof(faults) / sizeof(faults[0]),
    TENTHS = 240, /* of a virtual second that each case takes */
    LEAD = 5,     /* readings before the time that counts */
    SCALE = 4,    /* virtual seconds per second: a busy host may read late */
};

static const struct vendor {
    const char *name;
    const char *model;
    bool has_power; /* of its own */
} vendors[] = {
    {"nvidia", "A100-SXM4-40GB", true}, {"amd", "MI300X", true}, {"intel", "Max1550", false}};

static const struct vendor *vendor;

static void take(struct lull_node *node, struct lull_devices *devices, uint32_t gpu, uint32_t tenth,
                 struct lull_accounting *accounting)
{
    const uint32_t wanted =
        tenth % 10 == 0 ? LULL_READING_POWER | LULL_READING_ENERGY : LULL_READING_POWER;
    struct lull_sample sample = {.time_ns = lull_node_now_ns(node)};

    lull_device_read(devices, gpu, wanted, &sample.reading);
    lull_accounting_take(accounting, gpu, &sample);
}

/* Compares the accounted energy of a GPU with the true one, and prints a difference. */
static bool is_right(const struct fault *fault, const struct lull_accounting *accounting,
                     uint32_t gpu, double drawn_j)
{
    struct lull_accounting_gpu found;
    double energy_j;
    bool is_near;

    lull_accounting_gpu(accounting, gpu, &found);
    energy_j = found.total.sum.joules;
    is_near = !found.total.is_known || fabs(energy_j / drawn_j - 1.0) <= 0.02;
    if (fault->is_hidden && !vendor->has_power)
        return true;
    if (is_near && (!vendor->has_power || found.total.is_known == fault->is_known))
        return true;
    if (found.total.is_known)
        print_error("%s: %.0f J, and %.0f J were drawn\n", fault->text, energy_j, drawn_j);
    else
        print_error("%s: not known (doubt %d)\n", fault->text, (int)found.doubt);
    return false;
}

/* Makes a GPU compute for longer than the test takes. */
static void begin_job(struct lull_node *node, uint32_t gpu)
{
    struct lull_physics *physics = lull_node_begin(node, gpu);
    const int context = lull_physics_open(physics, getpid(), 0);

    for (int i = 0; i < 20; i++)
        lull_physics_launch(physics, context, 30.0, lull_gpu_model_profile(&physics->model, NULL));
    lull_node_end(node, gpu, true);
}

/* Lets each GPU's sensors go wrong in their way. */
static void set_faults(struct lull_node *node)
{
    struct lull_error error = {0};

    for (uint32_t gpu = 0; gpu < FAULTS; gpu++) {
        char entries[128] = "";

        for (const char *at = faults[gpu].text; *at != '\0'; at += strcspn(at, ",")) {
            at += *at == ',';
            snprintf(entries + strlen(entries), sizeof(entries) - strlen(entries), "%s%u:%.*s",
                     entries[0] != '\0' ? "," : "", gpu, (int)strcspn(at, ","), at);
        }
        if (lull_node_set_faults(node, entries, &error) < 0)
            fail_msg("%s", error.text);
    }
}

static double drawn_j(struct lull_node *node, uint32_t gpu)
{
    struct lull_node_truth truth;

    lull_node_read_truth(node, gpu, &truth);
    return truth.energy_j * truth.gain_ratio;
}

static void test_energies_are_right_or_unknown(void **state)
{
    struct lull_node_spec spec = {.seed = 0, .time_scale = SCALE};
    struct lull_accounting *accounting;
    struct lull_devices *devices;
    struct lull_error error = {0};
    struct lull_node *node;
    double before_j[FAULTS];
    uint32_t gpus[FAULTS];
    char text[96];
    int64_t begin_ns;
    int right = 0;

    (void)state;
    snprintf(text, sizeof(text), "%dx%s", FAULTS, vendor->model);
    assert_int_equal(lull_node_spec_parse(text, &spec, NULL), 0);
    assert_int_equal(lull_node_create(&spec, &node, NULL), 0);
    setenv(LULL_EMULATED_NODE_VARIABLE, lull_node_path(node), 1);
    setenv("LULL_VENDOR", vendor->name, 1);
    for (uint32_t gpu = 0; gpu < FAULTS; gpu++) {
        begin_job(node, gpu);
        gpus[gpu] = gpu;
    }
    lull_sleep_until_ns(lull_now_ns() + 10 * LULL_NS_PER_S / SCALE);
    if (lull_devices_open(&devices, &error) < 0)
        fail_msg("%s", error.text);
    assert_int_equal(lull_devices_count(devices), FAULTS);
    accounting = lull_accounting_create(devices, gpus, FAULTS);
    set_faults(node);
    begin_ns = lull_now_ns();
    for (uint32_t tenth = 0; tenth <= TENTHS; tenth++) {
        lull_sleep_until_ns(begin_ns + tenth * (LULL_NS_PER_S / 10 / SCALE));
        if (tenth == LEAD)
            lull_accounting_begin(accounting, lull_node_now_ns(node), NULL);
        for (uint32_t gpu = 0; gpu < FAULTS; gpu++) {
            if (tenth == LEAD)
                before_j[gpu] = drawn_j(node, gpu);
            take(node, devices, gpu, tenth, accounting);
        }
    }
    lull_accounting_end(accounting, lull_node_now_ns(node));
    for (uint32_t gpu = 0; gpu < FAULTS; gpu++)
        right += is_right(&faults[gpu], accounting, gpu, drawn_j(node, gpu) - before_j[gpu]);
    lull_accounting_destroy(accounting);
    lull_devices_close(devices);
    lull_node_remove(node);
    assert_int_equal(right, FAULTS);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_energies_are_right_or_unknown)};

    for (size_t i = 0; i < sizeof(vendors) / sizeof(vendors[0]); i++)
        if (argc == 2 && strcmp(argv[1], vendors[i].name) == 0)
            vendor = &vendors[i];
    if (vendor == NULL)
        return 2;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
