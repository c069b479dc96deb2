/*
 * AMD's dies as described by a mock library: numbers that are not reported, units that differ
 * by version, modules of two dies. SPDX-License-Identifier: Apache-2.0
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

#include "device/amdsmi_library.h"

static struct lull_amdsmi made_up; /* the functions that the library has */

#define lull_library_open_driver(variable, names, ...) ((void)(names), 0)
#define lull_library_bind(library, table, symbols, count)                                          \
    (memcpy((char *)(table) + sizeof(void *), (char *)&made_up + sizeof(void *),                   \
            offsetof(struct lull_amdsmi, library_name) - sizeof(void *)),                          \
     (void)(symbols))

#include "device/amdsmi_library.c"
#undef lull_library_open_driver
#undef lull_library_bind
#include "device/amdsmi.c"

struct die {
    struct amdsmi_clock_info clock;
    struct amdsmi_clock_info memory;
    struct amdsmi_power_cap_info cap;
    struct amdsmi_od_info od;
    const char *name;
    uint32_t power[4]; /* words of its structure */
    uint32_t activity;
    uint32_t hip_id;
    uint64_t count;
    float resolution_uj;
    int64_t celsius;
    uint64_t limits_mhz[2];
    uint32_t floor_calls;
    int level;
    uint64_t cap_set_uw;
    int code;     /* of every call that reads */
    int set_code; /* and that sets */
    int floor_code;
};

static struct die dies[4];
static uint32_t die_count;
static uint32_t version, minor_version;
static int list_code, init_code;
static uint32_t shut_downs;
static uint32_t listed; /* dies */

static int fake_init(uint64_t flags)
{
    assert_int_equal(flags, AMDSMI_INIT_GPUS);
    return init_code;
}

static int fake_shut_down(void)
{
    shut_downs++;
    return 0;
}

static int fake_version(union amdsmi_room *room)
{
    room->words[0] = version;
    room->words[1] = minor_version;
    return 0;
}

static int fake_sockets(uint32_t *count, void **handles)
{
    for (uint32_t i = 0; i < die_count; i++)
        handles[i] = &dies[i];
    *count = die_count;
    listed = 0;
    return list_code;
}

static int fake_processors(void *socket, uint32_t *count, void **handles)
{
    /* As there is room for, or, later, as many as a socket can have. */
    assert_int_equal(*count, LULL_DEVICE_MAX_GPUS - (listed < die_count ? listed : 0));
    *count = 1;
    handles[0] = socket;
    listed++;
    return ((struct die *)socket)->code;
}

#define READ(name, member)                                                                         \
    static int name(void *gpu, union amdsmi_room *room)                                            \
    {                                                                                              \
        memcpy(room, &((struct die *)gpu)->member, sizeof(((struct die *)gpu)->member));           \
        return ((struct die *)gpu)->code;                                                          \
    }
READ(fake_od, od)
READ(fake_power, power)
READ(fake_activity, activity)

static int fake_asic(void *gpu, union amdsmi_room *room)
{
    snprintf(room->text, sizeof(room->text), "%s", ((struct die *)gpu)->name);
    return ((struct die *)gpu)->code;
}

static int fake_driver(void *gpu, union amdsmi_room *room)
{
    (void)gpu;
    snprintf(room->text, sizeof(room->text), "6.8");
    return 0;
}

static int fake_enumeration(void *gpu, union amdsmi_room *room)
{
    room->enumeration.hip_id = ((struct die *)gpu)->hip_id;
    return ((struct die *)gpu)->code;
}

static int fake_clock(void *gpu, uint32_t which, union amdsmi_room *room)
{
    const struct die *die = gpu;

    room->clock = which == AMDSMI_CLOCK_GFX ? die->clock : die->memory;
    return die->code;
}

static int fake_cap(void *gpu, uint32_t sensor, union amdsmi_room *room)
{
    assert_int_equal(sensor, 0);
    room->cap = ((struct die *)gpu)->cap;
    return ((struct die *)gpu)->code;
}

static int fake_bdf(void *gpu, uint64_t *value)
{
    *value = UINT64_C(0x12342a0) << 4 | 3 << 3 | 5;
    return ((struct die *)gpu)->code;
}

static int fake_uuid(void *gpu, unsigned int *size, char *text)
{
    snprintf(text, *size, "uuid-%d", (int)((struct die *)gpu - dies));
    return ((struct die *)gpu)->code;
}

static int fake_energy(void *gpu, uint64_t *count, float *resolution_uj, uint64_t *time_ns)
{
    *count = ((struct die *)gpu)->count;
    *resolution_uj = ((struct die *)gpu)->resolution_uj;
    *time_ns = 1;
    return ((struct die *)gpu)->code;
}

static int fake_temperature(void *gpu, int sensor, int metric, int64_t *celsius)
{
    assert_int_equal(sensor, AMDSMI_TEMPERATURE_HOTSPOT);
    assert_int_equal(metric, AMDSMI_TEMPERATURE_CURRENT);
    *celsius = ((struct die *)gpu)->celsius;
    return ((struct die *)gpu)->code;
}

static int fake_limit(void *gpu, int clock, int limit, uint64_t mhz)
{
    struct die *die = gpu;
    const int code = limit == AMDSMI_LIMIT_MIN ? die->floor_code : die->set_code;

    assert_int_equal(clock, AMDSMI_CLOCK_GFX);
    die->floor_calls += limit == AMDSMI_LIMIT_MIN;
    if (code == 0)
        die->limits_mhz[limit] = mhz;
    return code;
}

static int fake_level(void *gpu, int level)
{
    ((struct die *)gpu)->level = level;
    return ((struct die *)gpu)->set_code;
}

static int fake_set_cap(void *gpu, uint32_t sensor, uint64_t uw)
{
    assert_int_equal(sensor, 0);
    ((struct die *)gpu)->cap_set_uw = uw;
    return ((struct die *)gpu)->set_code;
}

static int set_up(void **state)
{
    (void)state;
    die_count = 1;
    version = 26;
    minor_version = 0;
    list_code = init_code = 0;
    shut_downs = 0;
    made_up = (struct lull_amdsmi){
        .init = fake_init,
        .shut_down = fake_shut_down,
        .version = fake_version,
        .sockets = fake_sockets,
        .processors = fake_processors,
        .asic_info = fake_asic,
        .driver_info = fake_driver,
        .enumeration_info = fake_enumeration,
        .od_info = fake_od,
        .power_info = fake_power,
        .activity = fake_activity,
        .clock_info = fake_clock,
        .power_cap_info = fake_cap,
        .bdf = fake_bdf,
        .uuid = fake_uuid,
        .energy = fake_energy,
        .temperature = fake_temperature,
        .set_clock_limit = fake_limit,
        .set_level = fake_level,
        .set_power_cap = fake_set_cap,
    };
    for (uint32_t i = 0; i < 4; i++)
        dies[i] = (struct die){
            .clock = {900, 500, 560},
            .memory = {1300, 0, 1600},
            .cap = {.cap_uw = 500000999,
                    .default_uw = 600000999,
                    .min_uw = 100000999,
                    .max_uw = 700000999},
            .name = "a die",
            .power = {0, 0, 300, 280},
            .activity = 73,
            .hip_id = i,
            .count = 2000,
            .resolution_uj = 15.0F,
            .celsius = 61,
            .level = 9,
        };
    return 0;
}

static struct lull_amdsmi *opened;

static int open_dies(void)
{
    struct lull_error error = {0};
    uint32_t count = 0;
    void *state;
    const int result = lull_amdsmi_vendor.open(&state, &count, &error);

    opened = result == 0 ? state : NULL;
    return result < 0 ? result : (int)count;
}

static void open_die(void)
{
    assert_int_equal(open_dies(), die_count);
}

static void close_die(void)
{
    lull_amdsmi_vendor.close(opened);
}

static struct lull_device_reading read_die(uint32_t gpu, uint32_t wanted)
{
    struct lull_device_reading reading = {0};

    for (uint32_t field = 1; field <= LULL_READING_ALL; field <<= 1)
        if ((wanted & field) != 0 &&
            lull_amdsmi_vendor.read(opened, gpu, (enum lull_reading_field)field, &reading))
            reading.valid |= field;
    return reading;
}

static struct lull_device_info describe_die(void)
{
    struct lull_device_info info = {.name = ""};

    lull_amdsmi_vendor.describe(opened, 0, &info, NULL);
    return info;
}

static void a_die_is_described(void **state)
{
    struct lull_device_info info;

    (void)state;
    open_die();
    info = describe_die();
    assert_string_equal(info.name, "a die");
    assert_string_equal(info.uuid, "uuid-0");
    assert_string_equal(info.pci_bus_id, "00001234:2A:03.5");
    assert_string_equal(lull_amdsmi_vendor.driver_version(opened), "6.8");
    assert_int_equal(info.sm_clock_count, 4);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(info.sm_clocks_mhz[i], 560 - 20 * i);
    assert_int_equal(info.memory_clock_count, 1);
    assert_int_equal(info.memory_clocks_mhz[0], 1600);
    dies[0].memory.max_mhz = UINT16_MAX;
    assert_int_equal(describe_die().memory_clock_count, 0);
    assert_int_equal(info.power_limit_min_mw, 100000);
    assert_int_equal(info.power_limit_max_mw, 700000);
    assert_int_equal(info.power_limit_default_mw, 600000);
    assert_int_equal(info.capabilities, LULL_CAPABILITY_SM_LOCK | LULL_CAPABILITY_POWER_LIMIT |
                                            LULL_CAPABILITY_ENERGY_COUNTER |
                                            LULL_CAPABILITY_INSTANT_POWER);
    close_die();
    assert_int_equal(shut_downs, 1);
}

/* The clock's own range may have been narrowed; the overdrive table has what is possible. */
static void the_widest_range_counts(void **state)
{
    static const struct {
        struct amdsmi_clock_info clock;
        uint64_t od[4]; /* now, limits */
        uint32_t lowest_mhz, highest_mhz;
    } rows[] = {
        {{0, 500, 560}, {0, 0, 0, 0}, 500, 560},
        {{0, 500, 560}, {400, 600, 0, 0}, 400, 600},
        {{0, 500, 560}, {400000000, 600000000, 0, 0}, 400, 600}, /* in Hz */
        {{0, 500, 560}, {510, 550, 300, 700}, 300, 700},
        {{0, 500, 560}, {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX}, 500, 560},
        {{0, UINT16_MAX, UINT16_MAX}, {400, 600, 0, 0}, 400, 600}, /* not reported */
        {{0, UINT32_MAX, UINT32_MAX}, {400, 600, 0, 0}, 400, 600},
        {{0, 500, 560}, {999999, 1000000, 0, 0}, 500, 560},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct lull_device_info info;

        dies[0].clock = rows[i].clock;
        dies[0].od.ranges[0] = (struct amdsmi_range){.low = rows[i].od[0], .high = rows[i].od[1]};
        dies[0].od.ranges[2] = (struct amdsmi_range){.low = rows[i].od[2], .high = rows[i].od[3]};
        open_die();
        info = describe_die();
        assert_int_equal(info.sm_clocks_mhz[0], rows[i].highest_mhz);
        assert_int_equal(info.sm_clocks_mhz[info.sm_clock_count - 1], rows[i].lowest_mhz);
        close_die();
    }
    assert_int_equal(as_mhz(999999), 999999);
    assert_int_equal(as_mhz(1000000), 1);
    assert_int_equal(as_mhz(2099999999), 2099);
}

/* The overdrive table's possible SM range is elsewhere in version 27, and unknown in some. */
static void the_possible_range_depends_on_the_version(void **state)
{
    static const struct {
        uint32_t major, minor;
        uint32_t index; /* of the SM's possible range; 0: it is not used */
    } rows[] = {{24, 7, 2}, {25, 3, 2}, {26, 0, 2}, {26, 1, 2}, {26, 2, 0},
                {26, 5, 0}, {27, 0, 3}, {27, 1, 3}, {28, 0, 3}};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct lull_device_info info;

        version = rows[i].major;
        minor_version = rows[i].minor;
        dies[0].clock = (struct amdsmi_clock_info){0, 500, 560};
        memset(&dies[0].od, 0, sizeof(dies[0].od));
        for (uint32_t range = 1; range < 6; range++) /* of other clocks */
            dies[0].od.ranges[range] = (struct amdsmi_range){.low = 1, .high = 9000};
        if (rows[i].index != 0)
            dies[0].od.ranges[rows[i].index] = (struct amdsmi_range){.low = 300, .high = 700};
        open_die();
        info = describe_die();
        assert_int_equal(info.sm_clocks_mhz[0], rows[i].index != 0 ? 700 : 560);
        assert_int_equal(info.sm_clocks_mhz[info.sm_clock_count - 1],
                         rows[i].index != 0 ? 300 : 500);
        close_die();
    }
}

static uint32_t count_clocks(uint32_t lowest_mhz, uint32_t highest_mhz, uint32_t *last_mhz_out)
{
    const struct amdsmi_die die = {.lowest_mhz = lowest_mhz, .highest_mhz = highest_mhz};
    struct lull_device_info info = {.name = ""};

    amdsmi_list_clocks(&die, &info);
    for (uint32_t i = 1; i < info.sm_clock_count; i++)
        assert_true(info.sm_clocks_mhz[i] < info.sm_clocks_mhz[i - 1]);
    if (info.sm_clock_count > 0)
        *last_mhz_out = info.sm_clocks_mhz[info.sm_clock_count - 1];
    return info.sm_clock_count;
}

static void clocks_are_listed_in_steps(void **state)
{
    uint32_t last_mhz = 0;

    (void)state;
    assert_int_equal(count_clocks(500, 501, &last_mhz), 2);
    assert_int_equal(count_clocks(500, 520, &last_mhz), 2);
    assert_int_equal(count_clocks(500, 521, &last_mhz), 3);
    assert_int_equal(last_mhz, 500);
    assert_int_equal(count_clocks(500, 500, &last_mhz), 0);
    assert_int_equal(count_clocks(501, 500, &last_mhz), 0);
    assert_int_equal(count_clocks(0, 500, &last_mhz), 0);
    assert_int_equal(count_clocks(1, 30, &last_mhz), 3);
    assert_int_equal(last_mhz, 1);
    assert_int_equal(count_clocks(1, 1000000, &last_mhz), LULL_DEVICE_MAX_CLOCKS);
    assert_int_equal(last_mhz, 1);
}

static void what_is_not_told_is_not_valid(void **state)
{
    static const uint32_t untold[] = {0, UINT16_MAX, UINT32_MAX};

    (void)state;
    assert_true(is_reported(1) && is_reported(UINT16_MAX - 1) && is_reported(UINT16_MAX + 1));
    open_die();
    assert_int_equal(read_die(0, LULL_READING_ALL).valid, LULL_READING_ALL & ~LULL_READING_REASONS);
    for (size_t i = 0; i < 3; i++) {
        set_up(NULL);
        dies[0].clock.now_mhz = dies[0].memory.now_mhz = untold[i];
        dies[0].power[2] = dies[0].power[3] = untold[i];
        assert_int_equal(
            read_die(0, LULL_READING_SM_CLOCK | LULL_READING_MEMORY_CLOCK | LULL_READING_POWER)
                .valid,
            0);
        dies[0].power[3] = 280; /* an average is better than nothing */
        assert_int_equal(read_die(0, LULL_READING_POWER).power_mw, 280000);
    }
    dies[0].celsius = -1;
    assert_int_equal(read_die(0, LULL_READING_TEMPERATURE).valid, 0);
    dies[0].celsius = 0;
    assert_int_equal(read_die(0, LULL_READING_TEMPERATURE).valid, LULL_READING_TEMPERATURE);
    dies[0].celsius = 1000;
    assert_int_equal(read_die(0, LULL_READING_TEMPERATURE).temperature_c, 1000);
    dies[0].celsius = 1001;
    assert_int_equal(read_die(0, LULL_READING_TEMPERATURE).valid, 0);
    dies[0].activity = 100;
    assert_int_equal(read_die(0, LULL_READING_UTILIZATION).utilization_percent, 100);
    dies[0].activity = 101;
    assert_int_equal(read_die(0, LULL_READING_UTILIZATION).valid, 0);
    dies[0].cap.max_uw = 0;
    assert_int_equal(read_die(0, LULL_READING_POWER_LIMIT).valid, 0);
    dies[0].cap.max_uw = UINT64_MAX;
    assert_int_equal(read_die(0, LULL_READING_POWER_LIMIT).valid, 0);
    dies[0].cap.max_uw = 1;
    assert_int_equal(read_die(0, LULL_READING_POWER_LIMIT).power_limit_mw, 500000);
    dies[0].count = 0;
    assert_int_equal(read_die(0, LULL_READING_ENERGY).valid, 0);
    dies[0].count = UINT64_MAX;
    assert_int_equal(read_die(0, LULL_READING_ENERGY).valid, 0);
    dies[0].count = 1000;
    assert_int_equal(read_die(0, LULL_READING_ENERGY).energy_mj, 15);
    dies[0].resolution_uj = 0.0F;
    assert_int_equal(read_die(0, LULL_READING_ENERGY).valid, 0);
    set_up(NULL);
    dies[0].code = 7;
    assert_int_equal(read_die(0, LULL_READING_ALL).valid, 0);
    close_die();
}

static void power_lies_elsewhere_in_newer_versions(void **state)
{
    static const uint32_t versions[] = {24, 25, 26, 27};

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        version = versions[i];
        dies[0].power[0] = 100;
        dies[0].power[1] = 90;
        open_die();
        assert_int_equal(read_die(0, LULL_READING_POWER).power_mw, i == 0 ? 100000 : 300000);
        close_die();
    }
    dies[0].power[2] = 0; /* only an average is reported */
    open_die();
    assert_int_equal(read_die(0, LULL_READING_POWER).power_mw, 280000);
    assert_int_equal(describe_die().capabilities & LULL_CAPABILITY_INSTANT_POWER, 0);
    close_die();
}

static void two_dies_of_a_module_share_their_counters(void **state)
{
    (void)state;
    die_count = 3;
    dies[1].count = 0;
    dies[2].count = 0; /* a third one belongs to no module */
    open_die();
    assert_int_equal(read_die(0, LULL_READING_ENERGY).energy_mj, 15);
    assert_int_equal(read_die(1, LULL_READING_ENERGY).energy_mj, 15);
    assert_int_equal(read_die(0, LULL_READING_POWER).power_mw, 150000);
    assert_int_equal(read_die(1, LULL_READING_POWER).power_mw, 150000);
    assert_int_equal(read_die(2, LULL_READING_ENERGY).valid, 0);
    assert_int_equal(read_die(2, LULL_READING_POWER).power_mw, 300000);
    close_die();
    dies[1].name = "another";
    open_die();
    assert_int_equal(read_die(0, LULL_READING_ENERGY).energy_mj, 30);
    assert_int_equal(read_die(1, LULL_READING_ENERGY).valid, 0);
    close_die();
}

/* A die without a counter of its own is counted by the one before it, if that has one for it alone.
 */
static void who_shares_a_counter(void **state)
{
    static const struct {
        uint64_t counts[4];
        uint32_t sharers[4];
        uint32_t counters[4];
    } rows[] = {
        {{9, 0, 9, 0}, {2, 2, 2, 2}, {0, 0, 2, 2}}, {{9, 9, 9, 9}, {1, 1, 1, 1}, {0, 1, 2, 3}},
        {{9, 0, 0, 9}, {2, 2, 1, 1}, {0, 0, 2, 3}}, {{0, 0, 0, 0}, {1, 1, 1, 1}, {0, 1, 2, 3}},
        {{0, 9, 0, 0}, {1, 2, 2, 1}, {0, 1, 1, 3}}, {{0, 0, 9, 9}, {1, 1, 1, 1}, {0, 1, 2, 3}},
    };

    (void)state;
    die_count = 4;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (uint32_t die = 0; die < 4; die++)
            dies[die].count = rows[i].counts[die];
        assert_int_equal(open_dies(), 4);
        for (uint32_t die = 0; die < 4; die++) {
            assert_int_equal(opened->dies[die].sharers, rows[i].sharers[die]);
            assert_int_equal(opened->dies[die].counter, rows[i].counters[die]);
        }
        close_die();
    }
}

static void dies_are_counted_as_hip_does(void **state)
{
    struct lull_device_info info = {0};
    struct lull_error error = {0};

    (void)state;
    die_count = 3;
    dies[0].hip_id = 2;
    dies[1].hip_id = 0;
    dies[2].hip_id = 1;
    open_die();
    assert_ptr_equal(opened->dies[0].handle, &dies[1]);
    assert_ptr_equal(opened->dies[1].handle, &dies[2]);
    assert_ptr_equal(opened->dies[2].handle, &dies[0]);
    close_die();
    dies[1].code = 7; /* a sick one keeps its number, */
    open_die();
    assert_ptr_equal(opened->dies[0].handle, NULL);
    assert_ptr_equal(opened->dies[1].handle, &dies[2]);
    assert_ptr_equal(opened->dies[2].handle, &dies[0]);
    assert_string_equal(lull_amdsmi_vendor.driver_version(opened), "6.8");
    assert_int_equal(lull_amdsmi_vendor.describe(opened, 0, &info, &error), -EAGAIN);
    assert_string_equal(error.text, "the call failed (AMD SMI 7)");
    dies[1].code = 0; /* and is opened when it is well. */
    assert_int_equal(lull_amdsmi_vendor.describe(opened, 0, &info, &error), 0);
    assert_ptr_equal(opened->dies[0].handle, &dies[1]);
    close_die();
    for (uint32_t i = 0; i < 3; i++)
        dies[i].code = 30;
    assert_int_equal(open_dies(), -EAGAIN);
    dies[0].code = dies[2].code = 0;
    made_up.enumeration_info = NULL; /* the library's own order */
    dies[1].code = 0;
    open_die();
    assert_ptr_equal(opened->dies[0].handle, &dies[0]);
    close_die();
}

static void locks_set_the_floor_once_and_the_ceiling_each_time(void **state)
{
    struct die *die = &dies[0];
    struct lull_error error;

    (void)state;
    open_die();
    describe_die();
    assert_int_equal(lull_amdsmi_vendor.lock_sm(opened, 0, 520, 520, &error), 0);
    assert_int_equal(die->limits_mhz[AMDSMI_LIMIT_MIN], 500);
    assert_int_equal(die->limits_mhz[AMDSMI_LIMIT_MAX], 520);
    assert_int_equal(lull_amdsmi_vendor.lock_sm(opened, 0, 1, 1, &error), 0);
    assert_int_equal(die->limits_mhz[AMDSMI_LIMIT_MAX], 500);
    assert_int_equal(lull_amdsmi_vendor.lock_sm(opened, 0, 1, 9000, &error), 0);
    assert_int_equal(die->limits_mhz[AMDSMI_LIMIT_MAX], 560);
    assert_int_equal(die->floor_calls, 1);
    assert_int_equal(lull_amdsmi_vendor.lock_sm(opened, 0, 521, 520, &error), -EINVAL);
    die->set_code = 30;
    assert_int_equal(lull_amdsmi_vendor.lock_sm(opened, 0, 520, 520, &error), -EAGAIN);
    assert_non_null(strstr(error.text, "30"));
    die->set_code = 0; /* another program may have raised the floor */
    assert_int_equal(lull_amdsmi_vendor.lock_sm(opened, 0, 520, 520, &error), 0);
    assert_int_equal(die->floor_calls, 2);
    assert_int_equal(lull_amdsmi_vendor.reset_sm(opened, 0, &error), 0);
    assert_int_equal(die->level, AMDSMI_LEVEL_AUTO);
    die->floor_code = 10;
    assert_int_equal(lull_amdsmi_vendor.lock_sm(opened, 0, 540, 540, &error), -EPERM);
    assert_int_equal(die->floor_calls, 3);
    assert_int_equal(die->limits_mhz[AMDSMI_LIMIT_MAX], 520);
    assert_int_equal(lull_amdsmi_vendor.set_power_limit(opened, 0, 400000, &error), 0);
    assert_true(die->cap_set_uw == 400000000);
    close_die();
    made_up.set_level = NULL; /* a limit alone cannot be taken back */
    open_die();
    assert_int_equal(describe_die().capabilities & LULL_CAPABILITY_SM_LOCK, 0);
    close_die();
    made_up.set_clock_limit = NULL;
    made_up.set_power_cap = NULL;
    made_up.energy = NULL;
    open_die();
    assert_int_equal(describe_die().capabilities, LULL_CAPABILITY_INSTANT_POWER);
    assert_int_equal(lull_amdsmi_vendor.lock_sm(opened, 0, 520, 520, &error), LULL_E_UNSUPPORTED);
    assert_int_equal(lull_amdsmi_vendor.reset_sm(opened, 0, &error), LULL_E_UNSUPPORTED);
    assert_int_equal(lull_amdsmi_vendor.set_power_limit(opened, 0, 1, &error), LULL_E_UNSUPPORTED);
    close_die();
}

static void what_a_library_lacks(void **state)
{
    const size_t offsets[] = {
        offsetof(struct lull_amdsmi, init),       offsetof(struct lull_amdsmi, shut_down),
        offsetof(struct lull_amdsmi, version),    offsetof(struct lull_amdsmi, sockets),
        offsetof(struct lull_amdsmi, processors), offsetof(struct lull_amdsmi, uuid),
        offsetof(struct lull_amdsmi, clock_info),
    };
    struct lull_device_info info;

    (void)state;
    for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
        set_up(NULL);
        memset((char *)&made_up + offsets[i], 0, sizeof(void *));
        assert_int_equal(open_dies(), LULL_E_UNSUPPORTED);
    }
    assert_int_equal(shut_downs, 0);
    set_up(NULL);
    made_up.asic_info = made_up.driver_info = made_up.od_info = NULL;
    made_up.power_info = made_up.activity = NULL;
    made_up.power_cap_info = NULL;
    made_up.bdf = NULL;
    made_up.temperature = NULL;
    open_die();
    info = describe_die();
    assert_string_equal(info.name, "");
    assert_string_equal(info.pci_bus_id, "");
    assert_string_equal(lull_amdsmi_vendor.driver_version(opened), "");
    assert_int_equal(info.capabilities, LULL_CAPABILITY_SM_LOCK | LULL_CAPABILITY_ENERGY_COUNTER);
    assert_int_equal(read_die(0, LULL_READING_ALL).valid,
                     LULL_READING_SM_CLOCK | LULL_READING_MEMORY_CLOCK | LULL_READING_ENERGY);
    close_die();
    set_up(NULL);
    die_count = 0;
    assert_int_equal(open_dies(), LULL_E_NO_DEVICE);
    assert_int_equal(shut_downs, 1);
    list_code = 10;
    assert_int_equal(open_dies(), -EPERM);
    init_code = 34;
    assert_int_equal(open_dies(), LULL_E_NO_DEVICE);
    assert_int_equal(shut_downs, 2);
}

/* The library that the user names, else the first of the list that is there. */
static void libraries_are_found_by_name(void **state)
{
    static const char *const names[] = {"/nonexistent/a.so", "libm.so.6", "libc.so.6", NULL};
    static const struct lull_library_symbol wanted[] = {
        {0, "cos", NULL},
        {sizeof(void *), "no_such_function", "sin"},
        {2 * sizeof(void *), "no_such_function", NULL},
    };
    void *table[3] = {NULL, NULL, &table};
    struct lull_error error = {0};
    char name[32] = "";
    void *library;

    (void)state;
    unsetenv("LULL_TEST_LIBRARY");
    for (int round = 0; round < 2; round++) {
        assert_int_equal(lull_library_open("LULL_TEST_LIBRARY", names, "test", &library, name,
                                           sizeof(name), &error),
                         0);
        assert_string_equal(name, "libm.so.6");
        lull_library_bind(library, table, wanted, 3);
        assert_ptr_equal(table[0], dlsym(library, "cos"));
        assert_ptr_equal(table[1], dlsym(library, "sin"));
        assert_null(table[2]);
        dlclose(library);
        setenv("LULL_TEST_LIBRARY", "", 1); /* as if it were not set */
    }
    setenv("LULL_TEST_LIBRARY", "/nonexistent/b.so", 1);
    assert_int_equal(
        lull_library_open("LULL_TEST_LIBRARY", names, "test", &library, name, sizeof(name), &error),
        -ENOENT);
    assert_non_null(strstr(error.text, "/nonexistent/b.so"));
    unsetenv("LULL_TEST_LIBRARY");
    assert_int_equal(lull_library_open("LULL_TEST_LIBRARY", &names[3], "test", &library, name,
                                       sizeof(name), &error),
                     -ENOENT);
}

static void clocks_are_sorted_from_the_highest(void **state)
{
    uint32_t clocks_mhz[] = {300, 900, 300, 1200, 100};
    static const uint32_t sorted_mhz[] = {1200, 900, 300, 300, 100};

    (void)state;
    lull_library_sort_clocks(clocks_mhz, 5);
    assert_memory_equal(clocks_mhz, sorted_mhz, sizeof(sorted_mhz));
}

static void the_lowest_limit_is_never_0(void **state)
{
    (void)state;
    assert_int_equal(lull_library_min_limit_mw(0, 400000), 100000);
    assert_int_equal(lull_library_min_limit_mw(1, 400000), 1);
    assert_int_equal(lull_library_min_limit_mw(400000, 400000), 400000);
    assert_int_equal(lull_library_min_limit_mw(400001, 400000), 100000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_die_is_described, set_up),
        cmocka_unit_test_setup(the_widest_range_counts, set_up),
        cmocka_unit_test_setup(the_possible_range_depends_on_the_version, set_up),
        cmocka_unit_test_setup(clocks_are_listed_in_steps, set_up),
        cmocka_unit_test_setup(what_is_not_told_is_not_valid, set_up),
        cmocka_unit_test_setup(power_lies_elsewhere_in_newer_versions, set_up),
        cmocka_unit_test_setup(two_dies_of_a_module_share_their_counters, set_up),
        cmocka_unit_test_setup(who_shares_a_counter, set_up),
        cmocka_unit_test_setup(dies_are_counted_as_hip_does, set_up),
        cmocka_unit_test_setup(locks_set_the_floor_once_and_the_ceiling_each_time, set_up),
        cmocka_unit_test_setup(what_a_library_lacks, set_up),
        cmocka_unit_test(libraries_are_found_by_name),
        cmocka_unit_test(clocks_are_sorted_from_the_highest),
        cmocka_unit_test_setup(the_lowest_limit_is_never_0, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
