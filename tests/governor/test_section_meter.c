/*
 * The section meter against a plain computation for the same random sections in small time
 * steps; and its results for nested sections, late readings and short
 * sections.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "governor/control/section_meter.h"

static const struct lull_metered_section allreduce = {.kind = LULL_LIVE_COMMUNICATION,
                                                      .operation = 2};
static const struct lull_metered_section forward = {.kind = LULL_LIVE_FORWARD, .name = 3};

static int64_t ms(int64_t count)
{
    return LULL_NS_PER_S + count * LULL_NS_PER_MS;
}

static void sections_and_computation_alternate(void **state)
{
    struct lull_section_meter meter = {0};

    (void)state;
    lull_section_meter_leave(&meter,
                             ms(0)); /* its rank has arrived, and has reported nothing yet */
    assert_int_equal(meter.now.kind, LULL_LIVE_NO_SECTION);
    for (int i = 0; i < 10; i++) {
        lull_section_meter_begin(&meter, ms(100 * i + 50), &allreduce);
        assert_int_equal(meter.now.operation, 2);
        lull_section_meter_end(&meter, ms(100 * i + 80));
        assert_int_equal(meter.now.kind, LULL_LIVE_COMPUTATION);
    }
    assert_int_equal(meter.sections[LULL_LIVE_COMMUNICATION].count, 10);
    assert_true(fabs(meter.sections[LULL_LIVE_COMMUNICATION].seconds - 0.3) < 1e-9);
    assert_int_equal(meter.sections[LULL_LIVE_COMPUTATION].count, 9); /* one continues */
    assert_true(fabs(meter.sections[LULL_LIVE_COMPUTATION].seconds - 0.63) < 1e-9);
    lull_section_meter_leave(&meter, ms(1000));
    assert_int_equal(meter.sections[LULL_LIVE_COMPUTATION].count, 10);
    assert_int_equal(meter.sections[LULL_LIVE_NO_SECTION].count, 0);
    lull_section_meter_end(&meter, ms(1100)); /* of a rank that is gone: nothing is open */
    assert_int_equal(meter.now.kind, LULL_LIVE_NO_SECTION);
}

static void the_innermost_section_counts(void **state)
{
    struct lull_section_meter meter = {0};

    (void)state;
    lull_section_meter_begin(&meter, ms(0), &forward);
    lull_section_meter_begin(&meter, ms(10), &allreduce);
    lull_section_meter_begin(&meter, ms(12), &allreduce); /* a call within a call */
    lull_section_meter_end(&meter, ms(15));
    lull_section_meter_end(&meter, ms(20));
    assert_int_equal(meter.now.kind, LULL_LIVE_FORWARD);
    assert_int_equal(meter.now.name, 3);
    lull_section_meter_end(&meter, ms(50));
    assert_int_equal(meter.sections[LULL_LIVE_COMMUNICATION].count, 1);
    assert_true(fabs(meter.sections[LULL_LIVE_COMMUNICATION].seconds - 0.010) < 1e-9);
    assert_true(fabs(meter.sections[LULL_LIVE_FORWARD].seconds - 0.040) < 1e-9);
}

static void deeper_than_is_kept(void **state)
{
    struct lull_section_meter meter = {0};

    (void)state;
    for (int i = 0; i < 3 * LULL_SECTION_METER_DEPTH; i++)
        lull_section_meter_begin(&meter, ms(i), i % 2 == 0 ? &allreduce : &forward);
    for (int i = 0; i < 3 * LULL_SECTION_METER_DEPTH; i++)
        lull_section_meter_end(&meter, ms(100 + i));
    assert_int_equal(meter.depth, 0);
    assert_int_equal(meter.now.kind, LULL_LIVE_COMPUTATION);
}

/* Readings come up to two ticks after their time. */
static void a_reading_counts_for_the_section_of_its_time(void **state)
{
    struct lull_section_meter meter = {0};
    enum lull_live_unknown reason;

    (void)state;
    lull_section_meter_begin(&meter, ms(0), &allreduce);
    lull_section_meter_end(&meter, ms(30));
    lull_section_meter_begin(&meter, ms(50), &allreduce);
    lull_section_meter_take_power(&meter, ms(20), 60.0);
    lull_section_meter_take_power(&meter, ms(30), 200.0);
    lull_section_meter_take_power(&meter, ms(49), 300.0);
    lull_section_meter_take_power(&meter, ms(-1), 999.0); /* before anything is known */
    assert_true(meter.sections[LULL_LIVE_COMMUNICATION].power_w.mean == 60.0);
    assert_true(meter.sections[LULL_LIVE_COMPUTATION].power_w.mean == 250.0);
    assert_true(
        isnan(lull_section_meter_energy_j(&meter, LULL_LIVE_COMMUNICATION, 0.025, &reason)));
    assert_int_equal(reason, LULL_LIVE_TOO_EARLY);
    for (int i = 0; i < 9; i++)
        lull_section_meter_take_power(&meter, ms(10), 60.0);
    assert_true(fabs(lull_section_meter_energy_j(&meter, LULL_LIVE_COMMUNICATION, 0.025, &reason) -
                     0.030 * 60.0) < 1e-9);
    assert_int_equal(reason, LULL_LIVE_KNOWN);
    assert_true(
        isnan(lull_section_meter_energy_j(&meter, LULL_LIVE_COMMUNICATION, 0.031, &reason)));
    assert_int_equal(reason, LULL_LIVE_TOO_SHORT);
    assert_true(isnan(lull_section_meter_energy_j(&meter, LULL_LIVE_BUBBLE, 0.0, &reason)));
}

/* The same sections, by asking at the middle of each millisecond what is open. */
static void random_sections_against_a_walk_through_time(void **state)
{
    const unsigned seed = (unsigned)lull_now_ns();
    uint32_t stack[LULL_SECTION_METER_DEPTH];
    uint32_t depth = 0;
    int64_t spent_ms[LULL_LIVE_SECTION_COUNT] = {0};
    struct lull_section_meter meter = {0};

    (void)state;
    print_message("seed %u\n", seed);
    srand(seed);
    lull_section_meter_begin(&meter, ms(0), &allreduce);
    stack[depth++] = LULL_LIVE_COMMUNICATION;
    for (int64_t now = 0; now < 20000; now++) {
        const uint32_t kind = LULL_LIVE_COMMUNICATION + (uint32_t)rand() % 4;

        if (now > 0 && rand() % 3 == 0 && depth < LULL_SECTION_METER_DEPTH) {
            lull_section_meter_begin(&meter, ms(now), &(struct lull_metered_section){.kind = kind});
            stack[depth++] = kind;
        } else if (now > 0 && rand() % 3 == 0 && depth > 0) {
            lull_section_meter_end(&meter, ms(now));
            depth--;
        }
        spent_ms[depth > 0 ? stack[depth - 1] : LULL_LIVE_COMPUTATION]++;
    }
    lull_section_meter_leave(&meter, ms(20000));
    for (uint32_t kind = 0; kind < LULL_LIVE_SECTION_COUNT; kind++)
        assert_true(fabs(meter.sections[kind].seconds - (double)spent_ms[kind] * 1e-3) < 1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sections_and_computation_alternate),
        cmocka_unit_test(the_innermost_section_counts),
        cmocka_unit_test(deeper_than_is_kept),
        cmocka_unit_test(a_reading_counts_for_the_section_of_its_time),
        cmocka_unit_test(random_sections_against_a_walk_through_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
