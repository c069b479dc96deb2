/*
 * Intel's cards as described by a mock library: parts on stacks,
 * missing functions, readings that fail, rates computed from
 * counters. SPDX-License-Identifier: Apache-2.0
 */
#include <dlfcn.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "device/levelzero_library.h"

static struct lull_levelzero made_up; /* the functions that the library has */

#define lull_library_open_driver(variable, names, ...) ((void)(names), 0)
#define lull_library_bind(library, table, symbols, count)                                          \
    (memcpy((char *)(table) + sizeof(void *), (char *)&made_up + sizeof(void *),                   \
            offsetof(struct lull_levelzero, library_name) - sizeof(void *)),                       \
     (void)(symbols))

#include "device/levelzero_library.c"
#include "device/levelzero.c"

/* A part of a card: a frequency or power domain, a sensor, an engine group. */
struct part {
    int32_t kind;
    uint8_t is_on_stack;
    uint8_t can_control;
    double clock_mhz;
    uint32_t reasons;
    struct zes_counter counter;
    double celsius;
    struct zes_power_limit limits[ZES_MAX_LIMITS + 2];
    uint32_t limit_count;
    struct zes_frequency_range range;
    int code; /* result of every call about it */
};

struct parts {
    struct part of[ZES_MAX_DOMAINS];
    uint32_t count;
};

struct card {
    uint32_t type;
    uint32_t flags;
    struct parts clocks, powers, sensors, engines;
    int32_t default_mw, min_mw, max_mw;
    int code;
};

static struct card cards[3];
static uint32_t card_count;
static int init_code, driver_code, device_code, clock_list_code;
static uint32_t offered_clocks;
static uint32_t sick_driver;

static int fake_init(uint32_t flags)
{
    assert_int_equal(flags, 0);
    return init_code;
}

static int fake_drivers(uint32_t *count, void **handles)
{
    *count = 2;
    handles[sick_driver] = NULL;
    handles[1 - sick_driver] = &cards;
    return driver_code;
}

static int fake_devices(void *driver, uint32_t *count, void **handles)
{
    if (driver == NULL)
        return 1;
    for (uint32_t i = 0; i < card_count; i++)
        handles[i] = &cards[i];
    *count = card_count;
    return device_code;
}

static int fake_device_properties(void *device, struct zes_head *head)
{
    struct zes_device_properties *out = (struct zes_device_properties *)head;
    const struct card *card = device;

    assert_int_equal(head->type, ZES_TYPE_DEVICE_PROPERTIES);
    out->core.type = card->type;
    out->core.flags = card->flags;
    for (uint8_t i = 0; i < 16; i++)
        out->core.uuid[i] = (uint8_t)(0x10 + i);
    snprintf(out->core.name, sizeof(out->core.name), "a card");
    snprintf(out->driver_version, sizeof(out->driver_version), "1.2.3");
    return card->code;
}

static int fake_pci(void *device, struct zes_head *head)
{
    struct zes_pci_properties *out = (struct zes_pci_properties *)head;

    (void)device;
    out->domain = 1;
    out->bus = 0x2a;
    out->device = 3;
    out->function = 4;
    return ZE_OK;
}

static int list_parts(struct parts *parts, uint32_t *count, void **handles)
{
    assert_int_equal(*count, ZES_MAX_DOMAINS);
    for (uint32_t i = 0; i < parts->count; i++)
        handles[i] = &parts->of[i];
    *count = parts->count;
    return ZE_OK;
}

#define LIST(name, member)                                                                         \
    static int name(void *device, uint32_t *count, void **handles)                                 \
    {                                                                                              \
        return list_parts(&((struct card *)device)->member, count, handles);                       \
    }
LIST(fake_clocks, clocks)
LIST(fake_powers, powers)
LIST(fake_sensors, sensors)
LIST(fake_engines, engines)

static int fake_clock_properties(void *handle, struct zes_head *head)
{
    struct zes_frequency_properties *out = (struct zes_frequency_properties *)head;
    const struct part *part = handle;

    out->kind = part->kind;
    out->can_control = part->can_control;
    return part->code;
}

static int fake_power_properties(void *handle, struct zes_head *head)
{
    struct zes_power_properties *out = (struct zes_power_properties *)head;
    const struct part *part = handle;

    out->is_on_subdevice = part->is_on_stack;
    out->can_control = part->can_control;
    out->default_mw = cards[0].default_mw;
    out->min_mw = cards[0].min_mw;
    out->max_mw = cards[0].max_mw;
    return part->code;
}

static int fake_part_properties(void *handle, struct zes_head *head)
{
    struct zes_part_properties *out = (struct zes_part_properties *)head;
    const struct part *part = handle;

    out->kind = part->kind;
    out->is_on_subdevice = part->is_on_stack;
    return part->code;
}

static int fake_available(void *domain, uint32_t *count, double *mhz)
{
    (void)domain;
    for (uint32_t i = 0; i < offered_clocks && i < *count; i++)
        mhz[i] = 300.4 + 50.0 * i; /* ascending, not whole */
    *count = offered_clocks;
    return clock_list_code;
}

static int fake_range(void *handle, const struct zes_frequency_range *range)
{
    struct part *part = handle;

    if (part->code == ZE_OK)
        part->range = *range;
    return part->code;
}

static int fake_state(void *handle, struct zes_head *head)
{
    struct zes_frequency_state *out = (struct zes_frequency_state *)head;
    const struct part *part = handle;

    out->actual_mhz = part->clock_mhz;
    out->reasons = part->reasons;
    return part->code;
}

static int fake_counter(void *handle, struct zes_counter *counter)
{
    const struct part *part = handle;

    *counter = part->counter;
    return part->code;
}

static int fake_limits(void *handle, uint32_t *count, struct zes_power_limit *limits)
{
    const struct part *part = handle;

    for (uint32_t i = 0; i < part->limit_count && i < ZES_MAX_LIMITS; i++)
        limits[i] = part->limits[i];
    *count = part->limit_count;
    return part->code;
}

static int fake_set_limits(void *handle, uint32_t *count, struct zes_power_limit *limits)
{
    struct part *part = handle;

    assert_int_equal(*count, part->limit_count);
    memcpy(part->limits, limits, sizeof(limits[0]) * *count);
    return part->code;
}

static int fake_temperature(void *handle, double *celsius)
{
    const struct part *part = handle;

    *celsius = part->celsius;
    return part->code;
}

static int set_up(void **state)
{
    (void)state;
    memset(cards, 0, sizeof(cards));
    card_count = 1;
    init_code = driver_code = device_code = clock_list_code = ZE_OK;
    offered_clocks = 4;
    made_up = (struct lull_levelzero){
        .init = fake_init,
        .drivers = fake_drivers,
        .devices = fake_devices,
        .device_properties = fake_device_properties,
        .pci_properties = fake_pci,
        .frequency_domains = fake_clocks,
        .frequency_properties = fake_clock_properties,
        .available_clocks = fake_available,
        .set_range = fake_range,
        .frequency_state = fake_state,
        .power_domains = fake_powers,
        .power_properties = fake_power_properties,
        .energy = fake_counter,
        .limits = fake_limits,
        .set_limits = fake_set_limits,
        .temperature_sensors = fake_sensors,
        .temperature_properties = fake_part_properties,
        .temperature = fake_temperature,
        .engine_groups = fake_engines,
        .engine_properties = fake_part_properties,
        .activity = fake_counter,
    };
    for (uint32_t i = 0; i < 3; i++) {
        struct card *card = &cards[i];

        card->type = ZE_DEVICE_GPU;
        card->default_mw = 600000;
        card->min_mw = 100000;
        card->max_mw = 650000;
        card->clocks =
            (struct parts){{{.kind = ZES_FREQUENCY_GPU, .can_control = 1, .clock_mhz = 900.5},
                            {.kind = ZES_FREQUENCY_MEMORY, .clock_mhz = 1600.0},
                            {.kind = ZES_FREQUENCY_GPU, .can_control = 1, .clock_mhz = 899.0}},
                           3};
        card->powers = (struct parts){{{.can_control = 1, .counter = {5000999, 1000}}}, 1};
        card->powers.of[0].limit_count = 2;
        card->powers.of[0].limits[0] = (struct zes_power_limit){.level = 0, .unit = ZES_UNIT_POWER};
        card->powers.of[0].limits[1] = (struct zes_power_limit){
            .level = ZES_LEVEL_SUSTAINED, .unit = ZES_UNIT_POWER, .limit = 500000};
        card->sensors = (struct parts){{{.kind = ZES_SENSOR_GPU, .celsius = 61.5}}, 1};
        card->engines = (struct parts){{{.kind = ZES_ENGINE_ALL}}, 1};
    }
    return 0;
}

static struct lull_levelzero *opened;

static int open_cards(uint32_t *count_out)
{
    struct lull_error error = {0};
    void *state;
    const int result = lull_levelzero_vendor.open(&state, count_out, &error);

    opened = result == 0 ? state : NULL;
    return result;
}

static void open_card(void)
{
    uint32_t count = 0;

    assert_int_equal(open_cards(&count), 0);
    assert_int_equal(count, card_count);
}

static void close_card(void)
{
    lull_levelzero_vendor.close(opened);
}

static struct lull_device_reading read_card(uint32_t wanted)
{
    struct lull_device_reading reading = {0};

    for (uint32_t field = 1; field <= LULL_READING_ALL; field <<= 1)
        if ((wanted & field) != 0 &&
            lull_levelzero_vendor.read(opened, 0, (enum lull_reading_field)field, &reading))
            reading.valid |= field;
    return reading;
}

static struct lull_device_info describe_card(void)
{
    struct lull_device_info info = {.name = ""};

    lull_levelzero_vendor.describe(opened, 0, &info, NULL);
    return info;
}

static void a_card_is_described(void **state)
{
    struct lull_device_info info;

    (void)state;
    open_card();
    info = describe_card();
    assert_string_equal(info.name, "a card");
    assert_string_equal(info.uuid, "10111213-1415-1617-1819-1a1b1c1d1e1f");
    assert_string_equal(info.pci_bus_id, "00000001:2A:03.4");
    assert_string_equal(lull_levelzero_vendor.driver_version(opened), "1.2.3");
    assert_int_equal(info.sm_clock_count, 4);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(info.sm_clocks_mhz[i], 450 - 50 * i);
    assert_int_equal(info.memory_clock_count, 4);
    assert_int_equal(info.memory_clocks_mhz[3], 300);
    assert_int_equal(info.power_limit_max_mw, 650000);
    assert_int_equal(info.power_limit_min_mw, 100000);
    assert_int_equal(info.power_limit_default_mw, 600000);
    assert_int_equal(info.capabilities, LULL_CAPABILITY_SM_LOCK | LULL_CAPABILITY_POWER_LIMIT |
                                            LULL_CAPABILITY_ENERGY_COUNTER |
                                            LULL_CAPABILITY_INSTANT_POWER);
    close_card();
}

static void what_is_missing_is_a_capability_less(void **state)
{
    struct lull_device_info info;

    (void)state;
    made_up.set_range = NULL;
    made_up.set_limits = NULL;
    made_up.energy = NULL;
    made_up.pci_properties = NULL;
    open_card();
    info = describe_card();
    assert_int_equal(info.capabilities, 0);
    assert_string_equal(info.pci_bus_id, "");
    assert_int_equal(lull_levelzero_vendor.lock_sm(opened, 0, 300, 300, NULL), LULL_E_UNSUPPORTED);
    assert_int_equal(lull_levelzero_vendor.set_power_limit(opened, 0, 400000, NULL),
                     LULL_E_UNSUPPORTED);
    close_card();
    set_up(NULL);
    cards[0].clocks.of[2].can_control = 0; /* one of its stacks cannot */
    cards[0].powers.of[0].can_control = 0;
    cards[0].powers.of[0].code = ZE_OK;
    open_card();
    info = describe_card();
    assert_int_equal(info.capabilities,
                     LULL_CAPABILITY_ENERGY_COUNTER | LULL_CAPABILITY_INSTANT_POWER);
    close_card();
    set_up(NULL);
    clock_list_code = 1; /* no list, no lock */
    cards[0].max_mw = 0;
    cards[0].min_mw = -1;
    open_card();
    info = describe_card();
    assert_int_equal(info.sm_clock_count, 0);
    assert_int_equal(info.capabilities & LULL_CAPABILITY_SM_LOCK, 0);
    assert_int_equal(info.power_limit_max_mw, 600000); /* the default, where no other is reported */
    assert_int_equal(info.power_limit_min_mw, 150000);
    close_card();
    set_up(NULL);
    offered_clocks = LULL_DEVICE_MAX_CLOCKS + 3;
    cards[0].max_mw = cards[0].default_mw = -1;
    open_card();
    info = describe_card();
    assert_int_equal(info.sm_clock_count, LULL_DEVICE_MAX_CLOCKS);
    assert_int_equal(info.memory_clock_count, 16);
    assert_int_equal(info.power_limit_max_mw, 0);
    assert_int_equal(info.power_limit_default_mw, 0);
    assert_int_equal(info.capabilities & LULL_CAPABILITY_POWER_LIMIT, 0);
    close_card();
}

static void readings_are_rounded(void **state)
{
    struct lull_device_reading now;

    (void)state;
    open_card();
    now = read_card(LULL_READING_ALL);
    assert_int_equal(now.valid,
                     LULL_READING_ALL & ~(uint32_t)(LULL_READING_POWER | LULL_READING_UTILIZATION));
    assert_int_equal(now.sm_mhz, 901); /* of the fastest stack */
    assert_int_equal(now.memory_mhz, 1600);
    assert_int_equal(now.energy_mj, 5000);
    assert_int_equal(now.temperature_c, 62);
    assert_int_equal(now.power_limit_mw, 500000);
    assert_int_equal(now.reasons, 0);
    assert_int_equal(read_card(0).valid, 0);
    cards[0].powers.of[0].counter = (struct zes_counter){5000999 + 2500, 1010}; /* 250 W */
    cards[0].engines.of[0].counter = (struct zes_counter){5, 10};
    now = read_card(LULL_READING_POWER | LULL_READING_UTILIZATION);
    assert_int_equal(now.valid, LULL_READING_POWER | LULL_READING_UTILIZATION);
    assert_int_equal(now.power_mw, 250000);
    assert_int_equal(now.utilization_percent, 50);
    now = read_card(LULL_READING_POWER); /* the same snapshot has the same rate */
    assert_int_equal(now.power_mw, 250000);
    cards[0].powers.of[0].counter.value = 7; /* the counter was reset */
    cards[0].powers.of[0].counter.time_us = 2000;
    assert_int_equal(read_card(LULL_READING_POWER).power_mw, 250000);
    cards[0].powers.of[0].counter = (struct zes_counter){7 + 100, 2100};
    assert_int_equal(read_card(LULL_READING_POWER).power_mw, 1000);
    cards[0].powers.of[0].counter.time_us = 2200; /* nothing drawn */
    assert_int_equal(read_card(LULL_READING_POWER).power_mw, 0);
    cards[0].engines.of[0].counter = (struct zes_counter){15 + 1000, 20};
    assert_int_equal(read_card(LULL_READING_UTILIZATION).utilization_percent, 100);
    cards[0].engines.of[0].counter = (struct zes_counter){1015 + 10, 30};
    assert_int_equal(read_card(LULL_READING_UTILIZATION).utilization_percent, 100);
    close_card();
}

static void what_cannot_be_read_is_not_valid(void **state)
{
    static const struct {
        double celsius;
        bool is_valid;
    } rows[] = {{-0.1, false}, {0.0, true}, {999.4, true}, {1000.0, false}};

    (void)state;
    open_card();
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        cards[0].sensors.of[0].celsius = rows[i].celsius;
        assert_int_equal(read_card(LULL_READING_TEMPERATURE).valid != 0, rows[i].is_valid);
    }
    cards[0].clocks.of[2].clock_mhz = -1.0; /* one stack does not report it */
    assert_int_equal(read_card(LULL_READING_SM_CLOCK | LULL_READING_REASONS).valid, 0);
    cards[0].clocks.of[2].clock_mhz = 0.0;
    cards[0].clocks.of[0].clock_mhz = 0.0;
    assert_int_equal(read_card(LULL_READING_SM_CLOCK).valid, LULL_READING_SM_CLOCK);
    assert_int_equal(read_card(LULL_READING_REASONS).reasons, LULL_CLOCK_REASON_IDLE);
    cards[0].clocks.of[2].code = 1;
    assert_int_equal(read_card(LULL_READING_SM_CLOCK).valid, 0);
    cards[0].clocks.of[1].code = cards[0].powers.of[0].code = cards[0].engines.of[0].code =
        cards[0].sensors.of[0].code = 1;
    assert_int_equal(read_card(LULL_READING_ALL).valid, 0);
    close_card();
    set_up(NULL);
    cards[0].clocks.count = cards[0].powers.count = cards[0].engines.count =
        cards[0].sensors.count = 0;
    open_card();
    assert_int_equal(read_card(LULL_READING_ALL).valid, 0);
    close_card();
}

static void reasons_are_translated(void **state)
{
    static const struct {
        uint32_t zes;
        uint64_t reasons;
    } rows[] = {
        {0x1, LULL_CLOCK_REASON_POWER_CAP},
        {0x2, LULL_CLOCK_REASON_POWER_CAP},
        {0x4, LULL_CLOCK_REASON_HARDWARE_SLOWDOWN},
        {0x8, LULL_CLOCK_REASON_THERMAL},
        {0x10, LULL_CLOCK_REASON_POWER_BRAKE},
        {0x20, LULL_CLOCK_REASON_SETTING},
        {0x40, 0},
        {0x80, LULL_CLOCK_REASON_HARDWARE_SLOWDOWN},
        {0x100, LULL_CLOCK_REASON_THERMAL},
        {0x200, LULL_CLOCK_REASON_POWER_CAP},
        {0x21, LULL_CLOCK_REASON_SETTING | LULL_CLOCK_REASON_POWER_CAP},
    };

    (void)state;
    open_card();
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        cards[0].clocks.of[0].reasons = rows[i].zes;
        assert_int_equal(read_card(LULL_READING_REASONS).reasons, rows[i].reasons);
    }
    cards[0].clocks.of[0].reasons = 0x1;
    cards[0].clocks.of[2].reasons = 0x8; /* of any stack */
    assert_int_equal(read_card(LULL_READING_REASONS).reasons,
                     LULL_CLOCK_REASON_POWER_CAP | LULL_CLOCK_REASON_THERMAL);
    close_card();
}

/* A card's own parts come before those of its stacks; the stacks' counters are summed up. */
static void parts_of_the_card_come_before_those_of_its_stacks(void **state)
{
    struct card *card = &cards[0];

    (void)state;
    card->powers = (struct parts){
        {{.is_on_stack = 1, .counter = {4000, 20}}, {.is_on_stack = 1, .counter = {3000, 10}}}, 2};
    card->sensors = (struct parts){{{.kind = 77, .celsius = 1.0},
                                    {.kind = ZES_SENSOR_GPU, .is_on_stack = 1, .celsius = 50.0},
                                    {.kind = ZES_SENSOR_GLOBAL, .is_on_stack = 1, .celsius = 51.0}},
                                   3};
    card->engines = (struct parts){{{.kind = ZES_ENGINE_COMPUTE_ALL, .is_on_stack = 1},
                                    {.kind = ZES_ENGINE_ALL, .counter = {1, 1}}},
                                   2};
    open_card();
    assert_int_equal(read_card(LULL_READING_ENERGY).energy_mj, 7);
    assert_int_equal(read_card(LULL_READING_POWER_LIMIT).valid, 0); /* ambiguous: two of them */
    assert_int_equal(lull_levelzero_vendor.set_power_limit(opened, 0, 400000, NULL),
                     LULL_E_UNSUPPORTED);
    assert_int_equal(read_card(LULL_READING_TEMPERATURE).temperature_c, 50); /* the first */
    read_card(LULL_READING_UTILIZATION | LULL_READING_POWER);
    card->engines.of[1].counter = (struct zes_counter){3, 11};
    card->powers.of[0].counter = (struct zes_counter){4500, 30}; /* its time is the latest */
    card->powers.of[1].counter = (struct zes_counter){3500, 25};
    assert_int_equal(read_card(LULL_READING_UTILIZATION).utilization_percent, 20);
    assert_int_equal(read_card(LULL_READING_POWER).power_mw, 100000);
    close_card();
    card->powers.of[0].code = 1; /* one that cannot be described is passed over */
    card->powers.of[2] = (struct part){.counter = {9000, 1}};
    card->powers.count = 3;
    card->sensors.of[2].is_on_stack = 0;
    card->clocks.of[0].code = 1;
    card->clocks.of[3] = (struct part){.kind = ZES_FREQUENCY_MEMORY, .clock_mhz = 5.0};
    card->clocks.count = 4;
    open_card();
    assert_int_equal(opened->cards[0].clock_count, 1);
    assert_int_equal(opened->cards[0].counter_count, 1);
    assert_int_equal(read_card(LULL_READING_ENERGY).energy_mj, 9);
    assert_int_equal(read_card(LULL_READING_TEMPERATURE).temperature_c, 51);
    assert_int_equal(read_card(LULL_READING_MEMORY_CLOCK).memory_mhz, 1600); /* the first */
    close_card();
}

static void the_limit_that_lasts_is_the_one(void **state)
{
    struct part *power = &cards[0].powers.of[0];
    struct lull_error error;

    (void)state;
    open_card();
    assert_int_equal(lull_levelzero_vendor.set_power_limit(opened, 0, 400000, &error), 0);
    assert_int_equal(power->limits[1].limit, 400000);
    assert_int_equal(power->limits[1].is_enabled, 1);
    assert_int_equal(power->limits[0].limit, 0);
    assert_int_equal(power->limits[0].is_enabled, 0);
    assert_int_equal(lull_levelzero_vendor.set_power_limit(opened, 0, INT32_MAX, &error), 0);
    assert_int_equal(
        lull_levelzero_vendor.set_power_limit(opened, 0, (uint32_t)INT32_MAX + 1, &error),
        LULL_E_UNSUPPORTED);
    power->limits[1].limit = 1;
    assert_int_equal(read_card(LULL_READING_POWER_LIMIT).power_limit_mw, 1);
    power->limits[1].limit = 0; /* none is set */
    assert_int_equal(read_card(LULL_READING_POWER_LIMIT).valid, 0);
    power->limits[1].limit = 5;
    power->limits[1].unit = 1; /* not in watts */
    assert_int_equal(read_card(LULL_READING_POWER_LIMIT).valid, 0);
    power->limits[0].level = ZES_LEVEL_SUSTAINED;
    power->limits[0].limit = 7;
    assert_int_equal(read_card(LULL_READING_POWER_LIMIT).power_limit_mw, 7);
    power->limits[0].level = 0;
    power->limits[ZES_MAX_LIMITS] =
        (struct zes_power_limit){.level = ZES_LEVEL_SUSTAINED, .unit = ZES_UNIT_POWER, .limit = 9};
    power->limit_count = ZES_MAX_LIMITS + 1; /* more than there is room for */
    assert_int_equal(read_card(LULL_READING_POWER_LIMIT).valid, 0);
    close_card();
}

static void ranges_are_set_on_all_stacks(void **state)
{
    struct part *clocks = cards[0].clocks.of;
    struct lull_error error;

    (void)state;
    open_card();
    assert_int_equal(lull_levelzero_vendor.lock_sm(opened, 0, 300, 450, &error), 0);
    for (uint32_t i = 0; i < 3; i += 2) {
        assert_true(clocks[i].range.min_mhz == 300.0 && clocks[i].range.max_mhz == 450.0);
    }
    assert_true(clocks[1].range.max_mhz == 0.0);
    assert_int_equal(lull_levelzero_vendor.reset_sm(opened, 0, &error), 0);
    assert_true(clocks[2].range.min_mhz == -1.0 && clocks[2].range.max_mhz == -1.0);
    clocks[0].code = 0x70010000;
    assert_int_equal(lull_levelzero_vendor.lock_sm(opened, 0, 300, 450, &error), -EPERM);
    assert_true(clocks[2].range.min_mhz == -1.0); /* the first failure ends it */
    close_card();
    cards[0].clocks.count = 0;
    open_card();
    assert_int_equal(lull_levelzero_vendor.lock_sm(opened, 0, 300, 450, &error),
                     LULL_E_UNSUPPORTED);
    close_card();
}

static void only_cards_are_counted(void **state)
{
    struct lull_device_info info = {0};
    struct lull_error error = {0};
    uint32_t count = 0;

    (void)state;
    card_count = 3;
    for (sick_driver = 2; sick_driver-- > 0;) {
        assert_int_equal(open_cards(&count), 0);
        assert_int_equal(count, 3);
        close_card();
    }
    sick_driver = 0;
    cards[0].type = 2;                   /* no GPU */
    cards[1].flags = ZE_FLAG_INTEGRATED; /* inside a CPU */
    assert_int_equal(open_cards(&count), 0);
    assert_int_equal(count, 1);
    close_card();
    cards[2].code = 0x70000001; /* a sick one */
    assert_int_equal(open_cards(&count), LULL_E_NO_DEVICE);
    cards[2].code = 1;
    assert_int_equal(open_cards(&count), -EAGAIN);
    cards[1].flags = 2;
    cards[1].code = 1; /* keeps its number, */
    cards[2].code = ZE_OK;
    assert_int_equal(open_cards(&count), 0);
    assert_int_equal(count, 2);
    assert_ptr_equal(opened->cards[1].device, &cards[2]);
    assert_int_equal(lull_levelzero_vendor.describe(opened, 0, &info, &error), -EAGAIN);
    assert_string_equal(error.text, "not ready (Level Zero 0x1)");
    assert_string_equal(info.uuid, "");
    cards[1].code = ZE_OK; /* and is opened when it is ready. */
    assert_int_equal(lull_levelzero_vendor.describe(opened, 0, &info, &error), 0);
    assert_true(info.uuid[0] != '\0');
    close_card();
    device_code = 1;
    assert_int_equal(open_cards(&count), -EAGAIN);
    driver_code = 0x78000004;
    assert_int_equal(open_cards(&count), -EINVAL);
    init_code = 0x70010000;
    assert_int_equal(open_cards(&count), -EPERM);
}

static void the_basic_functions_must_be_there(void **state)
{
    const size_t offsets[] = {
        offsetof(struct lull_levelzero, init),
        offsetof(struct lull_levelzero, drivers),
        offsetof(struct lull_levelzero, devices),
        offsetof(struct lull_levelzero, device_properties),
        offsetof(struct lull_levelzero, frequency_domains),
        offsetof(struct lull_levelzero, frequency_properties),
        offsetof(struct lull_levelzero, frequency_state),
    };
    uint32_t count;

    (void)state;
    for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
        set_up(NULL);
        memset((char *)&made_up + offsets[i], 0, sizeof(void *));
        assert_int_equal(open_cards(&count), LULL_E_UNSUPPORTED);
    }
    set_up(NULL);
    made_up.available_clocks = NULL;
    made_up.power_domains = NULL;
    made_up.temperature_sensors = NULL;
    made_up.engine_properties = NULL;
    made_up.limits = NULL;
    open_card();
    assert_int_equal(describe_card().sm_clock_count, 0);
    assert_int_equal(read_card(LULL_READING_ALL).valid,
                     LULL_READING_SM_CLOCK | LULL_READING_REASONS | LULL_READING_MEMORY_CLOCK);
    close_card();
    set_up(NULL);
    made_up.power_properties = NULL;
    made_up.temperature = NULL;
    made_up.activity = NULL;
    open_card();
    assert_int_equal(read_card(LULL_READING_POWER | LULL_READING_ENERGY | LULL_READING_TEMPERATURE |
                               LULL_READING_UTILIZATION)
                         .valid,
                     0);
    close_card();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_card_is_described, set_up),
        cmocka_unit_test_setup(what_is_missing_is_a_capability_less, set_up),
        cmocka_unit_test_setup(readings_are_rounded, set_up),
        cmocka_unit_test_setup(what_cannot_be_read_is_not_valid, set_up),
        cmocka_unit_test_setup(reasons_are_translated, set_up),
        cmocka_unit_test_setup(parts_of_the_card_come_before_those_of_its_stacks, set_up),
        cmocka_unit_test_setup(the_limit_that_lasts_is_the_one, set_up),
        cmocka_unit_test_setup(ranges_are_set_on_all_stacks, set_up),
        cmocka_unit_test_setup(only_cards_are_counted, set_up),
        cmocka_unit_test_setup(the_basic_functions_must_be_there, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
