/*
 * The rule of plausible readings, and accounts with wrong readings against the true energy.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/energy/plausible.h"

#include <float.h>
#include <stdio.h>

#include "core/energy/account.h"

#include "../property.h"

enum { CASES = 2000, RUNS = 400 };

static double between(struct lull_random *random, double low, double high)
{
    return low + (high - low) * lull_random_uniform(random);
}

/* ---- the rule ---------------------------------------------------------------------------- */

static void test_a_power_is_plausible_within_its_range_alone(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= CASES; seed++) {
        struct lull_random random;
        struct lull_power_range range;
        double limit_w;

        lull_random_init(&random, seed);
        limit_w = between(&random, 20.0, 2000.0);
        range = lull_power_range_of_gpu(limit_w);
        holds(range.lowest_w > 0.0 && range.lowest_w < 5.0, seed);
        holds(range.highest_w > limit_w && range.highest_w < 1.5 * limit_w, seed);
        holds(lull_power_is_plausible(&range, between(&random, 5.0, limit_w)), seed);
        holds(lull_power_is_plausible(&range, range.highest_w), seed);
        holds(!lull_power_is_plausible(&range, range.highest_w * between(&random, 1.001, 9e6)),
              seed);
        holds(!lull_power_is_plausible(&range, range.lowest_w * between(&random, -9.0, 0.999)),
              seed);
    }
}

static void test_what_is_no_number_is_no_power(void **state)
{
    const struct lull_power_range unlimited = lull_power_range_of_gpu(0.0);

    (void)state;
    assert_false(lull_power_is_plausible(&unlimited, (double)NAN));
    assert_false(lull_power_is_plausible(&unlimited, (double)INFINITY));
    assert_false(lull_power_is_plausible(&unlimited, 0.0));
    assert_true(lull_power_is_plausible(&unlimited, 1200.0));
    assert_false(lull_power_is_plausible(&unlimited, 3.7e6));
}

/* Healthy evidence of a board, by random. */
static struct lull_energy_evidence draw_evidence(struct lull_random *random)
{
    const double seconds = between(random, 5.0, 500.0);
    const double power_w = between(random, 50.0, 300.0);

    return (struct lull_energy_evidence){
        .range = lull_power_range_of_gpu(400.0),
        .seconds = seconds,
        .energy_j = power_w * seconds,
        .counted_j = power_w * seconds,
        .counted_s = seconds,
        .polled_j = power_w * seconds * between(random, 0.95, 1.05),
        .polled_ratio = 0.02,
        .edge_s = 0.3,
    };
}

static void test_sensors_that_differ_by_a_factor_contradict_each_other(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= CASES; seed++) {
        struct lull_energy_evidence evidence;
        struct lull_random random;
        double factor;

        lull_random_init(&random, seed);
        evidence = draw_evidence(&random);
        holds(lull_energy_judge(&evidence) == LULL_ENERGY_CREDIBLE, seed);
        factor = between(&random, 1.5, 20.0);
        evidence.polled_j *= factor;
        holds(lull_energy_judge(&evidence) == LULL_ENERGY_CONTRADICTED, seed);
        evidence.polled_j /= factor * factor;
        holds(lull_energy_judge(&evidence) == LULL_ENERGY_CONTRADICTED, seed);
        evidence.polled_ratio = 10.0; /* the power is hardly known */
        holds(lull_energy_judge(&evidence) == LULL_ENERGY_CREDIBLE, seed);
        evidence.polled_ratio = 0.02;
        evidence.counted_s = 1.0;
        holds(lull_energy_judge(&evidence) == LULL_ENERGY_CREDIBLE, seed);
    }
}

static void test_energies_that_a_board_cannot_draw(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= CASES; seed++) {
        struct lull_energy_evidence evidence;
        struct lull_random random;

        lull_random_init(&random, seed);
        evidence = draw_evidence(&random);
        evidence.counted_s = 0.0;
        evidence.energy_j = evidence.seconds * between(&random, 550.0, 1e6);
        holds(lull_energy_judge(&evidence) == LULL_ENERGY_TOO_HIGH, seed);
        evidence.energy_j = evidence.seconds * between(&random, 0.0, 1.8);
        holds(lull_energy_judge(&evidence) == LULL_ENERGY_TOO_LOW, seed);
        evidence.leaps = 2;
        holds(lull_energy_judge(&evidence) == LULL_ENERGY_LEAPING, seed);
        evidence.blind_s = evidence.seconds * 0.2;
        holds(lull_energy_judge(&evidence) == LULL_ENERGY_BLIND, seed);
    }
}

/* ---- sensors that go wrong --------------------------------------------------------------- */

/* The reading of a faulty device at a time, from that of a healthy one. n counts its readings. */
struct sensors {
    double time_s;
    uint32_t n;
    double counter_j;
    double power_w;
    bool has_counter;
    bool has_power;
};

static void healthy(struct sensors *now)
{
    (void)now;
}

static void power_garbage(struct sensors *now)
{
    if (now->n % 7 == 3)
        now->power_w = 3.7e6;
}

static void power_garbage_once(struct sensors *now)
{
    if (now->n == 50)
        now->power_w = 65535.0;
}

static void power_negative(struct sensors *now)
{
    if (now->n % 5 == 1)
        now->power_w = -20.0;
}

static void power_no_number(struct sensors *now)
{
    if (now->n % 4 == 1)
        now->power_w = (double)NAN;
}

static void power_zero(struct sensors *now)
{
    now->power_w = 0.0;
}

static void power_zero_later(struct sensors *now)
{
    if (now->time_s > 12.0)
        now->power_w = 0.0;
}

static void power_milli(struct sensors *now)
{
    now->power_w *= 1e-3;
}

static void power_absent(struct sensors *now)
{
    now->has_power = false;
}

static void power_tenfold(struct sensors *now)
{
    now->power_w *= 10.0;
}

static void power_third(struct sensors *now)
{
    now->power_w /= 3.0;
}

static void power_stuck(struct sensors *now)
{
    now->power_w = 40.0;
}

static void counter_quarter(struct sensors *now)
{
    now->counter_j *= 0.25;
}

static void counter_half(struct sensors *now)
{
    now->counter_j *= 0.5;
}

static void counter_double(struct sensors *now)
{
    now->counter_j *= 2.0;
}

static void counter_fourfold(struct sensors *now)
{
    now->counter_j *= 4.0;
}

static void counter_thousandfold(struct sensors *now)
{
    now->counter_j *= 1e3;
}

static void counter_thousandth(struct sensors *now)
{
    now->counter_j *= 1e-3;
}

static void counter_drops_once(struct sensors *now)
{
    if (now->n == 90)
        now->counter_j = 200.0;
}

static void counter_drops_often(struct sensors *now)
{
    if (now->n / 10 % 9 == 5)
        now->counter_j = 200.0;
}

static void counter_leaps_once(struct sensors *now)
{
    if (now->n == 90)
        now->counter_j = 1.8e13;
}

static void counter_resets(struct sensors *now)
{
    if (now->time_s > 11.5)
        now->counter_j -= 50000.0;
}

static void counter_is_zero(struct sensors *now)
{
    now->counter_j = 0.0;
}

static void counter_sticks(struct sensors *now)
{
    if (now->time_s > 8.0)
        now->counter_j = 51234.0;
}

static void counter_vanishes(struct sensors *now)
{
    now->has_counter = now->has_counter && now->time_s < 9.0;
}

static void counter_absent(struct sensors *now)
{
    now->has_counter = false;
}

static void all_vanish(struct sensors *now)
{
    now->has_counter = now->has_counter && (now->time_s < 9.0 || now->time_s > 18.0);
    now->has_power = now->time_s < 9.0 || now->time_s > 18.0;
}

static void all_zero(struct sensors *now)
{
    counter_is_zero(now);
    power_zero(now);
}

static void counter_sticks_without_power(struct sensors *now)
{
    counter_sticks(now);
    power_zero(now);
}

static void counter_drops_without_power(struct sensors *now)
{
    counter_drops_once(now);
    power_absent(now);
}

static void quarter_and_garbage(struct sensors *now)
{
    counter_quarter(now);
    power_garbage(now);
}

/* Expected result despite a fault: the energy must be known, must be unknown, or may be either. */
enum outcome { KNOWN, UNKNOWN, EITHER };

static const struct fault {
    const char *name;
    void (*spoil)(struct sensors *now);
    enum outcome outcome;
} faults[] = {
    {"healthy", healthy, KNOWN},
    {"power garbage", power_garbage, KNOWN},
    {"power garbage once", power_garbage_once, KNOWN},
    {"power negative", power_negative, KNOWN},
    {"power no number", power_no_number, KNOWN},
    {"power zero", power_zero, KNOWN},
    {"power zero later", power_zero_later, KNOWN},
    {"power in kW", power_milli, KNOWN},
    {"power absent", power_absent, KNOWN},
    {"power tenfold", power_tenfold, KNOWN},
    {"power a third", power_third, UNKNOWN},
    {"power stuck", power_stuck, UNKNOWN},
    {"counter a quarter", counter_quarter, UNKNOWN},
    {"counter a half", counter_half, UNKNOWN},
    {"counter double", counter_double, UNKNOWN},
    {"counter fourfold", counter_fourfold, UNKNOWN},
    {"counter thousandfold", counter_thousandfold, UNKNOWN},
    {"counter a thousandth", counter_thousandth, UNKNOWN},
    {"counter drops once", counter_drops_once, KNOWN},
    {"counter drops often", counter_drops_often, KNOWN},
    {"counter leaps once", counter_leaps_once, KNOWN},
    {"counter resets", counter_resets, KNOWN},
    {"counter is zero", counter_is_zero, KNOWN},
    {"counter sticks", counter_sticks, KNOWN},
    {"counter vanishes", counter_vanishes, KNOWN},
    {"counter absent", counter_absent, KNOWN},
    {"all vanish for a time", all_vanish, EITHER},
    {"all zero", all_zero, UNKNOWN},
    {"counter sticks without power", counter_sticks_without_power, UNKNOWN},
    {"counter drops without power", counter_drops_without_power, KNOWN},
    {"counter a quarter and garbage", quarter_and_garbage, UNKNOWN},
};

enum { TENTHS = 300 }; /* of a second */

/* Polls a device whose power takes steps: power each tenth of a second, the counter each tenth of
 * them. Returns the truth of what the account has taken. */
static double poll(const struct fault *fault, uint64_t seed, struct lull_energy_account *account)
{
    const struct lull_power_range range = lull_power_range_of_gpu(400.0);
    const struct lull_energy_source source = {.counter_refresh_s = 0.1,
                                              .power_refresh_s = 0.1,
                                              .power_window_s = 0.025,
                                              .lowest_w = range.lowest_w,
                                              .highest_w = range.highest_w};
    struct lull_random random;
    double drawn_j = 0.0;
    double power_w;

    lull_random_init(&random, seed);
    power_w = between(&random, 230.0, 320.0);
    lull_energy_account_init(account, &source);
    for (uint32_t n = 0; n <= TENTHS; n++) {
        struct sensors now = {.time_s = n * 0.1,
                              .n = n,
                              .counter_j = 50000.0 + drawn_j,
                              .power_w = power_w,
                              .has_counter = n % 10 == 0,
                              .has_power = true};

        fault->spoil(&now);
        lull_energy_account_take(account,
                                 &(struct lull_energy_reading){.time_ns = (int64_t)n * 100000000,
                                                               .has_counter = now.has_counter,
                                                               .has_power = now.has_power,
                                                               .counter_j = now.counter_j,
                                                               .power_w = now.power_w});
        if (n % 20 == 19)
            power_w = between(&random, 230.0, 320.0);
        if (n < TENTHS)
            drawn_j += 0.1 * power_w;
    }
    return drawn_j;
}

static void test_energies_of_faulty_sensors_are_right_or_unknown(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
        for (uint64_t seed = 1; seed <= RUNS; seed++) {
            static struct lull_energy_account account;
            const double drawn_j = poll(&faults[i], seed, &account);
            const enum lull_energy_doubt doubt = lull_energy_account_doubt(&account);
            double energy_j = 0.0;
            const bool is_known =
                lull_energy_account_last(&account, (int64_t)TENTHS * 100000000, &energy_j) &&
                doubt == LULL_ENERGY_CREDIBLE;

            if (faults[i].outcome != EITHER && is_known != (faults[i].outcome == KNOWN))
                fail_msg("%s, seed %" PRIu64 ": doubt %d, %.0f J of %.0f J", faults[i].name, seed,
                         (int)doubt, energy_j, drawn_j);
            if (is_known && fabs(energy_j / drawn_j - 1.0) > 0.02)
                fail_msg("%s, seed %" PRIu64 ": %.0f J of %.0f J", faults[i].name, seed, energy_j,
                         drawn_j);
        }
}

static void test_refused_powers_are_counted(void **state)
{
    static struct lull_energy_account account;

    (void)state;
    poll(&faults[1], 1, &account);
    assert_int_equal(account.refused_powers, 43);
    assert_int_equal(account.resets, 0);
    poll(&faults[0], 1, &account);
    assert_int_equal(account.refused_powers, 0);
}

static void test_wrong_readings_of_a_counter_are_no_resets(void **state)
{
    static struct lull_energy_account account;

    (void)state;
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        if (faults[i].spoil != counter_drops_once && faults[i].spoil != counter_leaps_once)
            continue;
        poll(&faults[i], 1, &account);
        assert_int_equal(account.glitches, 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_power_is_plausible_within_its_range_alone),
        cmocka_unit_test(test_what_is_no_number_is_no_power),
        cmocka_unit_test(test_sensors_that_differ_by_a_factor_contradict_each_other),
        cmocka_unit_test(test_energies_that_a_board_cannot_draw),
        cmocka_unit_test(test_energies_of_faulty_sensors_are_right_or_unknown),
        cmocka_unit_test(test_refused_powers_are_counted),
        cmocka_unit_test(test_wrong_readings_of_a_counter_are_no_resets),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
