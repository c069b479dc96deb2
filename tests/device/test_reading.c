/* The stored part of a reading. SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "device/device.h"

enum { EVERYTHING = LULL_READING_ALL | LULL_READING_XIDS };

/* A reading whose members are all the same number. */
static struct lull_device_reading make_reading(uint32_t valid, uint32_t number)
{
    return (struct lull_device_reading){
        .valid = valid,
        .sm_mhz = number,
        .memory_mhz = number,
        .power_mw = number,
        .energy_mj = number,
        .temperature_c = number,
        .reasons = number,
        .power_limit_mw = number,
        .utilization_percent = number,
        .xid_count = number,
        .last_xid = number,
    };
}

static void check_member(uint32_t valid, uint32_t field, uint64_t found, uint64_t expected)
{
    if ((valid & field) != 0)
        assert_int_equal(found, expected);
}

/* Tries what is kept against all sets of fields that were wanted, and told. */
static void test_all_sets(void **state)
{
    const uint32_t kept_valid = LULL_READING_ALL & ~(uint32_t)LULL_READING_ENERGY;

    (void)state;
    for (uint32_t wanted = 0; wanted <= EVERYTHING; wanted++) {
        for (uint32_t reported = 0; reported <= EVERYTHING; reported += 7) {
            const struct lull_device_reading reading = make_reading(reported, 2);
            struct lull_device_reading kept = make_reading(kept_valid, 1);
            const uint32_t new = wanted &reported;
            const uint32_t valid = (kept_valid & ~wanted) | new;

            lull_device_keep_reading(&kept, wanted, &reading);
            assert_int_equal(kept.valid, valid);
#define CHECK(FIELD, MEMBER) check_member(valid, FIELD, kept.MEMBER, (new &(FIELD)) != 0 ? 2 : 1)
            CHECK(LULL_READING_SM_CLOCK, sm_mhz);
            CHECK(LULL_READING_MEMORY_CLOCK, memory_mhz);
            CHECK(LULL_READING_POWER, power_mw);
            CHECK(LULL_READING_ENERGY, energy_mj);
            CHECK(LULL_READING_TEMPERATURE, temperature_c);
            CHECK(LULL_READING_REASONS, reasons);
            CHECK(LULL_READING_POWER_LIMIT, power_limit_mw);
            CHECK(LULL_READING_UTILIZATION, utilization_percent);
            CHECK(LULL_READING_XIDS, xid_count);
            CHECK(LULL_READING_XIDS, last_xid);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_sets)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
