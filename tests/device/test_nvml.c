/*
 * NVIDIA's GPUs as described by a mock library: functions that are
 * missing or fail, fields, and the locks that each generation
 * supports. SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "device/library.h"
#include "device/nvml.h"

static void fake_bind(void *table);

#define lull_library_open_driver(variable, names, ...) ((void)(names), 0)
#define lull_library_bind(library, table, symbols, count) ((void)(symbols), fake_bind(table))

#include "device/nvml_library.c"

static struct lull_nvml made_up; /* the functions that the library has */

static void fake_bind(void *table)
{
    memcpy((char *)table + sizeof(void *), (char *)&made_up + sizeof(void *),
           offsetof(struct lull_nvml, library_name) - sizeof(void *));
}

struct gpu {
    unsigned int architecture;
    unsigned int clocks_mhz[3]; /* by NVML's number of the clock */
    unsigned int power_mw, limit_mw, celsius, percent;
    unsigned long long energy_mj, reasons;
    struct {
        unsigned int id;
        int status;
        int type;
        unsigned long long value;
    } fields[2];
    uint64_t module_mw; /* power in the scope of the module; 0: the driver does not know it */
    unsigned int locked_mhz[2], memory_mhz[2];
    int code;     /* of every call that reads */
    int set_code; /* and that sets */
    int handle_code;
};

static struct gpu gpus[3];
static unsigned int gpu_count;
static int count_code, init_code;
static int find_code;
static uint32_t shutdowns;

static int fake_init(void)
{
    return init_code;
}

static int fake_shutdown(void)
{
    shutdowns++;
    return 0;
}

static int fake_version(char *text, unsigned int size)
{
    snprintf(text, size, "550.54.15");
    return gpus[0].code;
}

static int fake_count(unsigned int *count)
{
    *count = gpu_count;
    return count_code;
}

static int fake_handle(unsigned int index, void **handle_out)
{
    *handle_out = &gpus[index % 3];
    return gpus[index % 3].handle_code;
}

/* A GPU that has come back answers at another place. */
static int fake_find(const char *uuid, void **handle_out)
{
    if (strcmp(uuid, "GPU-0") != 0 || find_code != 0)
        return find_code != 0 ? find_code : 6;
    *handle_out = &gpus[2];
    return 0;
}

static int fake_name(void *gpu, char *text, unsigned int size)
{
    snprintf(text, size, "a GPU");
    return ((struct gpu *)gpu)->code;
}

static int fake_uuid(void *gpu, char *text, unsigned int size)
{
    snprintf(text, size, "GPU-%d", (int)((struct gpu *)gpu - gpus));
    return ((struct gpu *)gpu)->code;
}

static int fake_pci(void *gpu, struct lull_nvml_pci_info *info)
{
    snprintf(info->bus_id, sizeof(info->bus_id), "00000000:2A:00.0");
    return ((struct gpu *)gpu)->code;
}

#define READ(name, type, member)                                                                   \
    static int name(void *gpu, type *value)                                                        \
    {                                                                                              \
        *value = ((struct gpu *)gpu)->member;                                                      \
        return ((struct gpu *)gpu)->code;                                                          \
    }
READ(fake_architecture, unsigned int, architecture)
READ(fake_power, unsigned int, power_mw)
READ(fake_limit, unsigned int, limit_mw)
READ(fake_energy, unsigned long long, energy_mj)
READ(fake_reasons, unsigned long long, reasons)

static int fake_default(void *gpu, unsigned int *value)
{
    *value = 400000;
    return ((struct gpu *)gpu)->code;
}

static int fake_range(void *gpu, unsigned int *first, unsigned int *second)
{
    *first = 100000;
    *second = 450000;
    return ((struct gpu *)gpu)->code;
}

static int fake_memory_clocks(void *gpu, unsigned int *count, unsigned int *values)
{
    assert_int_equal(*count, 16);
    *count = 2;
    values[0] = 800;
    values[1] = 1200;
    return ((struct gpu *)gpu)->code;
}

static int fake_graphics_clocks(void *gpu, unsigned int of, unsigned int *count,
                                unsigned int *values)
{
    assert_int_equal(of, 1200); /* at the highest memory clock */
    assert_int_equal(*count, LULL_DEVICE_MAX_CLOCKS);
    *count = 3;
    values[0] = 300;
    values[1] = 1400;
    values[2] = 900;
    return ((struct gpu *)gpu)->set_code;
}

static int fake_clock(void *gpu, int which, unsigned int *value)
{
    *value = ((struct gpu *)gpu)->clocks_mhz[which];
    return ((struct gpu *)gpu)->code;
}

static int fake_temperature(void *gpu, int sensor, unsigned int *value)
{
    assert_int_equal(sensor, NVML_TEMPERATURE_GPU);
    *value = ((struct gpu *)gpu)->celsius;
    return ((struct gpu *)gpu)->code;
}

static int fake_utilization(void *gpu, struct lull_nvml_utilization *out)
{
    *out = (struct lull_nvml_utilization){((struct gpu *)gpu)->percent, 99};
    return ((struct gpu *)gpu)->code;
}

static int fake_fields(void *handle, int count, struct nvml_field_value *value)
{
    const struct gpu *gpu = handle;

    assert_int_equal(count, 1);
    value->status = 3;
    if (value->scope == 1 && value->field == NVML_FIELD_POWER_INSTANT && gpu->module_mw != 0) {
        value->status = 0;
        value->value.u64 = gpu->module_mw;
    }
    for (uint32_t i = 0; i < 2; i++)
        if (gpu->fields[i].id == value->field && value->scope == 0) {
            value->status = gpu->fields[i].status;
            value->value_type = gpu->fields[i].type;
            value->value.u64 = gpu->fields[i].value;
        }
    return gpu->code;
}

static int fake_lock(void *gpu, unsigned int first, unsigned int second)
{
    ((struct gpu *)gpu)->locked_mhz[0] = first;
    ((struct gpu *)gpu)->locked_mhz[1] = second;
    return ((struct gpu *)gpu)->set_code;
}

static int fake_lock_memory(void *gpu, unsigned int first, unsigned int second)
{
    ((struct gpu *)gpu)->memory_mhz[0] = first;
    ((struct gpu *)gpu)->memory_mhz[1] = second;
    return ((struct gpu *)gpu)->set_code;
}

static int fake_reset(void *gpu)
{
    return fake_lock(gpu, 0, 0);
}

static int fake_reset_memory(void *gpu)
{
    return fake_lock_memory(gpu, 0, 0);
}

static int fake_set_limit(void *gpu, unsigned int value)
{
    ((struct gpu *)gpu)->limit_mw = value;
    return ((struct gpu *)gpu)->set_code;
}

static unsigned int computing[LULL_DEVICE_MAX_PROCESSES + 1]; /* processes, MPS's behind */
static unsigned int computing_count, mps_count;

static int fake_list(unsigned int first, unsigned int total, unsigned int *count,
                     struct nvml_process *list)
{
    const unsigned int room = *count;

    *count = total;
    if (total > room)
        return 7;
    for (unsigned int i = 0; i < total; i++)
        list[i] = (struct nvml_process){.pid = computing[first + i], .used_bytes = 1};
    return NVML_SUCCESS;
}

static int fake_processes(void *gpu, unsigned int *count, struct nvml_process *list)
{
    const int code = fake_list(0, computing_count, count, list);

    return ((struct gpu *)gpu)->set_code != 0 ? ((struct gpu *)gpu)->set_code : code;
}

static int fake_mps_processes(void *gpu, unsigned int *count, struct nvml_process *list)
{
    (void)gpu;
    return fake_list(computing_count, mps_count, count, list);
}

static int set_up(void **state)
{
    (void)state;
    gpu_count = 1;
    count_code = init_code = 0;
    shutdowns = 0;
    made_up = (struct lull_nvml){
        .init = fake_init,
        .shutdown = fake_shutdown,
        .driver_version = fake_version,
        .count = fake_count,
        .handle = fake_handle,
        .find = fake_find,
        .name = fake_name,
        .uuid = fake_uuid,
        .pci_info = fake_pci,
        .architecture = fake_architecture,
        .memory_clocks = fake_memory_clocks,
        .graphics_clocks = fake_graphics_clocks,
        .clock = fake_clock,
        .power_usage = fake_power,
        .power_limit = fake_limit,
        .power_limit_default = fake_default,
        .power_limit_range = fake_range,
        .energy = fake_energy,
        .temperature = fake_temperature,
        .reasons = fake_reasons,
        .utilization = fake_utilization,
        .fields = fake_fields,
        .lock_sm = fake_lock,
        .reset_sm = fake_reset,
        .lock_memory = fake_lock_memory,
        .reset_memory = fake_reset_memory,
        .set_power_limit = fake_set_limit,
    };
    for (uint32_t i = 0; i < 3; i++)
        gpus[i] = (struct gpu){
            .architecture = 9,
            .clocks_mhz = {1, 1400, 1200},
            .power_mw = 250000,
            .limit_mw = 390000,
            .celsius = 61,
            .percent = 73,
            .energy_mj = UINT64_C(5000000000),
            .reasons = 0x25,
            .fields = {{NVML_FIELD_POWER_INSTANT, 0, 1, 260000},
                       {NVML_FIELD_MEMORY_CLOCK_SWITCH, 0, 1, 1}},
        };
    return 0;
}

static struct lull_nvml *opened;
static const uint32_t everything = LULL_CAPABILITY_SM_LOCK | LULL_CAPABILITY_MEMORY_LOCK |
                                   LULL_CAPABILITY_POWER_LIMIT | LULL_CAPABILITY_ENERGY_COUNTER |
                                   LULL_CAPABILITY_INSTANT_POWER;

static int open_gpus(void)
{
    struct lull_error error = {0};
    uint32_t count = 0;
    void *state;
    const int result = lull_nvml_vendor.open(&state, &count, &error);

    opened = result == 0 ? state : NULL;
    return result < 0 ? result : (int)count;
}

static struct lull_device_info describe_gpu(void)
{
    struct lull_device_info info = {.name = ""};

    assert_int_equal(open_gpus(), gpu_count);
    lull_nvml_vendor.describe(opened, 0, &info, NULL);
    return info;
}

static void close_gpus(void)
{
    lull_nvml_vendor.close(opened);
}

static uint32_t capabilities_of_gpu(void)
{
    const uint32_t capabilities = describe_gpu().capabilities;

    close_gpus();
    return capabilities;
}

static struct lull_device_reading read_gpu(uint32_t wanted)
{
    struct lull_device_reading reading = {0};

    for (uint32_t field = 1; field <= LULL_READING_ALL; field <<= 1)
        if ((wanted & field) != 0 &&
            lull_nvml_vendor.read(opened, 0, (enum lull_reading_field)field, &reading))
            reading.valid |= field;
    return reading;
}

static struct lull_device_update check_gpu(void)
{
    struct lull_device_update update = {0};

    assert_int_equal(lull_nvml_vendor.check(opened, 0, &update, NULL), 0);
    return update;
}

static void processes_are_listed_those_of_mps_as_well(void **state)
{
    struct lull_device_update update;

    (void)state;
    for (unsigned int i = 0; i <= LULL_DEVICE_MAX_PROCESSES; i++)
        computing[i] = 1000 + i;
    computing_count = 2;
    mps_count = 1;
    assert_int_equal(open_gpus(), 1);
    assert_false(check_gpu().processes.is_known); /* the driver has no such function */
    close_gpus();
    made_up.processes = fake_processes;
    assert_int_equal(open_gpus(), 1);
    update = check_gpu();
    assert_true(update.processes.is_known);
    assert_int_equal(update.processes.count, 2);
    assert_int_equal(update.processes.pids[1], 1001);
    close_gpus();
    made_up.mps_processes = fake_mps_processes;
    assert_int_equal(open_gpus(), 1);
    update = check_gpu();
    assert_int_equal(update.processes.count, 3);
    assert_int_equal(update.processes.pids[2], 1002);
    gpus[0].set_code = 3;
    update = check_gpu();
    assert_false(update.processes.is_known);
    assert_int_equal(update.processes.count, 0);
    gpus[0].set_code = 0;
    computing_count = LULL_DEVICE_MAX_PROCESSES;
    assert_int_equal(check_gpu().processes.count, LULL_DEVICE_MAX_PROCESSES);
    computing_count++;
    assert_false(check_gpu().processes.is_known); /* unknown, rather than a part */
    close_gpus();
}

static void a_gpu_is_described(void **state)
{
    struct lull_device_info info = describe_gpu();

    (void)state;
    assert_string_equal(info.name, "a GPU");
    assert_string_equal(info.uuid, "GPU-0");
    assert_string_equal(info.pci_bus_id, "00000000:2A:00.0");
    assert_string_equal(lull_nvml_vendor.driver_version(opened), "550.54.15");
    assert_int_equal(info.architecture, 9);
    assert_int_equal(info.sm_clock_count, 3);
    assert_int_equal(info.sm_clocks_mhz[0], 1400);
    assert_int_equal(info.sm_clocks_mhz[2], 300);
    assert_int_equal(info.memory_clock_count, 2);
    assert_int_equal(info.memory_clocks_mhz[1], 800);
    assert_int_equal(info.power_limit_min_mw, 100000);
    assert_int_equal(info.power_limit_max_mw, 450000);
    assert_int_equal(info.power_limit_default_mw, 400000);
    assert_int_equal(info.capabilities, everything);
    close_gpus();
    assert_int_equal(shutdowns, 1);
    gpus[0].architecture = UINT32_MAX; /* unknown */
    info = describe_gpu();
    assert_int_equal(info.architecture, 0);
    close_gpus();
    gpus[0].code = 3; /* a GPU that reports nothing */
    info = describe_gpu();
    assert_string_equal(info.name, "");
    assert_string_equal(info.uuid, "");
    assert_string_equal(info.pci_bus_id, "");
    assert_string_equal(lull_nvml_vendor.driver_version(opened), "");
    assert_int_equal(info.architecture, 0);
    assert_int_equal(info.sm_clock_count, 0);
    assert_int_equal(info.power_limit_default_mw, 0);
    assert_int_equal(info.capabilities, 0);
    assert_int_equal(read_gpu(LULL_READING_ALL).valid, 0);
    close_gpus();
}

static void generations_differ_in_what_can_be_locked(void **state)
{
    static const struct {
        unsigned int architecture;
        uint32_t locks;
    } rows[] = {
        {4, 0},
        {5, LULL_CAPABILITY_SM_LOCK}, /* Volta */
        {6, LULL_CAPABILITY_SM_LOCK},
        {7, LULL_CAPABILITY_SM_LOCK | LULL_CAPABILITY_MEMORY_LOCK}, /* Ampere */
        {10, LULL_CAPABILITY_SM_LOCK | LULL_CAPABILITY_MEMORY_LOCK},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        gpus[0].architecture = rows[i].architecture;
        assert_int_equal(capabilities_of_gpu() &
                             (LULL_CAPABILITY_SM_LOCK | LULL_CAPABILITY_MEMORY_LOCK),
                         rows[i].locks);
    }
    gpus[0].fields[1].value = 0; /* the field says that it cannot */
    assert_int_equal(capabilities_of_gpu(), everything & ~(uint32_t)LULL_CAPABILITY_MEMORY_LOCK);
    gpus[0].fields[1].status = 3; /* an older driver does not have it: nothing shows that it can */
    assert_int_equal(capabilities_of_gpu(), everything & ~(uint32_t)LULL_CAPABILITY_MEMORY_LOCK);
    gpus[0].fields[1].status = 0;
    gpus[0].fields[1].value = 1;
    gpus[0].set_code = 3; /* no list of clocks */
    assert_int_equal(capabilities_of_gpu(), everything & ~(uint32_t)LULL_CAPABILITY_SM_LOCK);
}

static void each_missing_function_is_one_ability_less(void **state)
{
    static const struct {
        size_t offset;
        uint32_t lost;
        uint32_t unread;
    } rows[] = {
        {offsetof(struct lull_nvml, lock_sm), LULL_CAPABILITY_SM_LOCK, 0},
        {offsetof(struct lull_nvml, reset_sm), LULL_CAPABILITY_SM_LOCK, 0},
        {offsetof(struct lull_nvml, graphics_clocks), LULL_CAPABILITY_SM_LOCK, 0},
        {offsetof(struct lull_nvml, memory_clocks), LULL_CAPABILITY_SM_LOCK, 0},
        {offsetof(struct lull_nvml, architecture),
         LULL_CAPABILITY_SM_LOCK | LULL_CAPABILITY_MEMORY_LOCK, 0},
        {offsetof(struct lull_nvml, lock_memory), LULL_CAPABILITY_MEMORY_LOCK, 0},
        {offsetof(struct lull_nvml, reset_memory), LULL_CAPABILITY_MEMORY_LOCK, 0},
        {offsetof(struct lull_nvml, set_power_limit), LULL_CAPABILITY_POWER_LIMIT, 0},
        {offsetof(struct lull_nvml, power_limit_range), LULL_CAPABILITY_POWER_LIMIT, 0},
        {offsetof(struct lull_nvml, energy), LULL_CAPABILITY_ENERGY_COUNTER, LULL_READING_ENERGY},
        {offsetof(struct lull_nvml, fields),
         LULL_CAPABILITY_INSTANT_POWER | LULL_CAPABILITY_MEMORY_LOCK, 0},
        {offsetof(struct lull_nvml, power_limit_default), 0, 0},
        {offsetof(struct lull_nvml, name), 0, 0},
        {offsetof(struct lull_nvml, pci_info), 0, 0},
        {offsetof(struct lull_nvml, driver_version), 0, 0},
        {offsetof(struct lull_nvml, temperature), 0, LULL_READING_TEMPERATURE},
        {offsetof(struct lull_nvml, reasons), 0, LULL_READING_REASONS},
        {offsetof(struct lull_nvml, power_limit), 0, LULL_READING_POWER_LIMIT},
        {offsetof(struct lull_nvml, utilization), 0, LULL_READING_UTILIZATION},
        {offsetof(struct lull_nvml, power_usage), 0, 0}, /* the field has it */
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        set_up(NULL);
        memset((char *)&made_up + rows[i].offset, 0, sizeof(void *));
        assert_int_equal(describe_gpu().capabilities, everything & ~rows[i].lost);
        assert_int_equal(read_gpu(LULL_READING_ALL).valid, LULL_READING_ALL & ~rows[i].unread);
        close_gpus();
    }
}

static void readings_are_passed_on(void **state)
{
    struct lull_device_reading now;

    (void)state;
    describe_gpu();
    now = read_gpu(LULL_READING_ALL);
    assert_int_equal(now.valid, LULL_READING_ALL);
    assert_int_equal(now.sm_mhz, 1400);
    assert_int_equal(now.memory_mhz, 1200);
    assert_int_equal(now.power_mw, 260000);
    assert_true(now.energy_mj == UINT64_C(5000000000));
    assert_int_equal(now.temperature_c, 61);
    assert_int_equal(now.reasons, 0x25);
    assert_int_equal(now.power_limit_mw, 390000);
    assert_int_equal(now.utilization_percent, 73);
    for (uint32_t field = 1; field <= LULL_READING_UTILIZATION; field <<= 1)
        assert_int_equal(read_gpu(field).valid, field);
    assert_int_equal(read_gpu(0).valid, 0);
    gpus[0].fields[0].status = 21; /* the field fails for once: the plain call has to do */
    assert_int_equal(read_gpu(LULL_READING_POWER).power_mw, 250000);
    gpus[0].fields[0].status = 0;
    gpus[0].fields[0].value = UINT64_C(0x100000007);
    assert_int_equal(read_gpu(LULL_READING_POWER).power_mw, 7); /* of 32 bits... */
    close_gpus();
    describe_gpu();
    {
        uint64_t value = 0;

        gpus[0].fields[0].type = NVML_VALUE_UNSIGNED_LONG_LONG; /* ...unless it says 64 */
        assert_int_equal(
            lull_nvml_read_field(opened, &gpus[0], NVML_FIELD_POWER_INSTANT, 0, &value), 0);
        assert_true(value == UINT64_C(0x100000007));
    }
    close_gpus();
    gpus[0].fields[0].status = 3; /* no such field on this GPU */
    describe_gpu();
    gpus[0].fields[0].status = 0;
    assert_int_equal(read_gpu(LULL_READING_POWER).power_mw, 250000);
    opened->power_usage = NULL;
    assert_int_equal(read_gpu(LULL_READING_POWER).valid, 0);
    close_gpus();
}

/* F07: one that is lost is found again by its UUID, before the next call that sets something. */
static void f07_a_lost_gpu_is_found_by_its_uuid(void **state)
{
    struct lull_error error;

    (void)state;
    describe_gpu();
    gpus[0].set_code = 15;
    find_code = 15;
    gpus[2].set_code = 0;
    for (int i = 0; i < 2; i++)
        assert_int_equal(lull_nvml_vendor.lock_sm(opened, 0, 300, 900, &error), LULL_E_NO_DEVICE);
    assert_int_equal(gpus[2].locked_mhz[1], 0);
    find_code = 0;
    assert_int_equal(lull_nvml_vendor.lock_sm(opened, 0, 300, 800, &error), 0);
    assert_int_equal(gpus[2].locked_mhz[1], 800);
    assert_int_equal(gpus[0].locked_mhz[1], 900);
    find_code = 15; /* not searched for while it answers */
    assert_int_equal(lull_nvml_vendor.lock_sm(opened, 0, 300, 700, &error), 0);
    assert_int_equal(gpus[2].locked_mhz[1], 700);
    find_code = 0;
    close_gpus();
}

static void what_is_set_and_what_fails(void **state)
{
    struct lull_error error;

    (void)state;
    describe_gpu();
    for (int code = 0; code <= 4; code += 4) {
        const int wanted = code == 0 ? 0 : -EPERM;

        gpus[0].set_code = code;
        assert_int_equal(lull_nvml_vendor.lock_sm(opened, 0, 300, 900, &error), wanted);
        assert_int_equal(gpus[0].locked_mhz[0], 300);
        assert_int_equal(gpus[0].locked_mhz[1], 900);
        assert_int_equal(lull_nvml_vendor.reset_sm(opened, 0, &error), wanted);
        assert_int_equal(gpus[0].locked_mhz[1], 0);
        assert_int_equal(lull_nvml_vendor.reset_memory(opened, 0, &error), wanted);
        assert_int_equal(lull_nvml_vendor.set_power_limit(opened, 0, 300000, &error), wanted);
        assert_int_equal(gpus[0].limit_mw, 300000);
    }
    assert_non_null(strstr(error.text, "GPU 0: cannot set the power limit"));
    assert_non_null(strstr(error.text, "NVML 4"));
    opened->lock_sm = NULL;
    opened->lock_memory = NULL;
    opened->reset_sm = opened->reset_memory = NULL;
    opened->set_power_limit = NULL;
    assert_int_equal(lull_nvml_vendor.lock_sm(opened, 0, 1, 2, &error), LULL_E_UNSUPPORTED);
    assert_int_equal(lull_nvml_vendor.reset_sm(opened, 0, &error), LULL_E_UNSUPPORTED);
    assert_int_equal(lull_nvml_vendor.reset_memory(opened, 0, &error), LULL_E_UNSUPPORTED);
    assert_int_equal(lull_nvml_vendor.set_power_limit(opened, 0, 1, &error), LULL_E_UNSUPPORTED);
    close_gpus();
}

static void one_sick_gpu_does_not_hide_the_others(void **state)
{
    static const size_t needed[] = {
        offsetof(struct lull_nvml, init),  offsetof(struct lull_nvml, shutdown),
        offsetof(struct lull_nvml, count), offsetof(struct lull_nvml, handle),
        offsetof(struct lull_nvml, uuid),  offsetof(struct lull_nvml, clock),
    };
    struct lull_device_info info = {0};
    struct lull_device_update update = {0};
    struct lull_error error = {0};

    (void)state;
    gpu_count = 3;
    gpus[1].handle_code = 15;
    assert_int_equal(open_gpus(), 3); /* each has its number, */
    assert_ptr_equal(opened->devices[1], NULL);
    assert_ptr_equal(opened->devices[2], &gpus[2]);
    assert_int_equal(lull_nvml_vendor.describe(opened, 1, &info, &error), LULL_E_NO_DEVICE);
    assert_string_equal(info.uuid, "");
    assert_string_equal(error.text, "the GPU is lost; the node may need a restart (NVML 15)");
    gpus[1].handle_code = 0; /* and it is opened when it is back. */
    assert_int_equal(lull_nvml_vendor.describe(opened, 1, &info, &error), 0);
    assert_true(info.uuid[0] != '\0');
    assert_int_equal(lull_nvml_vendor.check(opened, 1, &update, &error), 0);
    close_gpus();
    gpus[0].handle_code = 4;
    gpus[1].handle_code = 15;
    gpus[2].handle_code = 15;
    assert_int_equal(open_gpus(), LULL_E_NO_DEVICE);
    gpu_count = 1;
    assert_int_equal(open_gpus(), -EPERM);
    gpu_count = 0;
    assert_int_equal(open_gpus(), LULL_E_NO_DEVICE);
    count_code = 10;
    assert_int_equal(open_gpus(), -EAGAIN);
    assert_int_equal(shutdowns, 5);
    init_code = 9;
    assert_int_equal(open_gpus(), LULL_E_NO_DRIVER);
    assert_int_equal(shutdowns, 5);
    set_up(NULL);
    gpu_count = LULL_DEVICE_MAX_GPUS + 1; /* more than there is room for */
    assert_int_equal(open_gpus(), LULL_DEVICE_MAX_GPUS);
    close_gpus();
    for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
        set_up(NULL);
        memset((char *)&made_up + needed[i], 0, sizeof(void *));
        assert_int_equal(open_gpus(), LULL_E_UNSUPPORTED);
    }
}

/* On a module of a GPU and a CPU, only what is the GPU's counts as the GPU's. */
static void a_module_is_not_its_gpu(void **state)
{
    struct lull_device_info info;

    (void)state;
    gpus[0].module_mw = 410000; /* The plain call may be the module's. */
    gpus[0].power_mw = 400000;
    info = describe_gpu();
    assert_false(info.has_only_module_power);
    assert_int_equal(info.capabilities, everything);
    assert_int_equal(read_gpu(LULL_READING_POWER).power_mw, 260000);
    gpus[0].fields[0].status = 21; /* It does not stand in for a field that fails for once. */
    assert_int_equal(read_gpu(LULL_READING_POWER).valid, 0);
    close_gpus();
    gpus[0].fields[0].status = 3; /* The driver does not know the GPU's power at all. */
    info = describe_gpu();
    assert_true(info.has_only_module_power);
    assert_int_equal(info.capabilities,
                     everything ^ (LULL_CAPABILITY_INSTANT_POWER | LULL_CAPABILITY_POWER_LIMIT));
    assert_int_equal(read_gpu(LULL_READING_POWER).valid, 0);
    assert_int_equal(read_gpu(LULL_READING_ENERGY).valid, LULL_READING_ENERGY);
    close_gpus();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(processes_are_listed_those_of_mps_as_well, set_up),
        cmocka_unit_test_setup(a_gpu_is_described, set_up),
        cmocka_unit_test_setup(generations_differ_in_what_can_be_locked, set_up),
        cmocka_unit_test_setup(each_missing_function_is_one_ability_less, set_up),
        cmocka_unit_test_setup(readings_are_passed_on, set_up),
        cmocka_unit_test_setup(a_module_is_not_its_gpu, set_up),
        cmocka_unit_test_setup(f07_a_lost_gpu_is_found_by_its_uuid, set_up),
        cmocka_unit_test_setup(what_is_set_and_what_fails, set_up),
        cmocka_unit_test_setup(one_sick_gpu_does_not_hide_the_others, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
