/*
 * Energy accounts against integrals by brute force: synthetic power curves on a grid of 1 ms, read
 * through a counter and a power sensor that refresh and average as real ones do.
 * `test_energy report` prints coverage and widths. SPDX-License-Identifier: Apache-2.0
 */
#include "core/energy/account.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/energy/account_state.h"

#include "../property.h"

enum { GRID_MS = 80000, CASES = 300, LEAD_MS = 2000 };

static const int64_t ms = 1000000;

/* ---- curves ------------------------------------------------------------------------------ */

/* energy_j[i]: drawn before millisecond i. */
static double energy_j[GRID_MS + 1];

static double between(struct lull_random *random, double low, double high)
{
    return low + (high - low) * lull_random_uniform(random);
}

static double spread(struct lull_random *random, double low, double high)
{
    return exp(between(random, log(low), log(high)));
}

/* Power held for random lengths: a job's phases. */
static void draw_steps(struct lull_random *random, double shortest_ms, double longest_ms)
{
    double left_ms = 0.0;
    double power_w = 100.0;

    for (int i = 0; i < GRID_MS; i++, left_ms--) {
        if (left_ms <= 0.0) {
            left_ms = spread(random, shortest_ms, longest_ms);
            power_w = between(random, 50.0, 400.0);
        }
        energy_j[i + 1] = energy_j[i] + power_w * 1e-3;
    }
}

/* Iterations of one length, with a part at low power: training and its communication. */
static void draw_iterations(struct lull_random *random)
{
    const double period_ms = spread(random, 8.0, 5000.0);
    const double share = between(random, 0.05, 0.6);
    const double high_w = between(random, 150.0, 400.0);
    const double low_w = between(random, 50.0, high_w);

    for (int i = 0; i < GRID_MS; i++)
        energy_j[i + 1] =
            energy_j[i] + 1e-3 * (fmod(i, period_ms) < share * period_ms ? low_w : high_w);
}

static void draw_wave(struct lull_random *random)
{
    const double period_ms = spread(random, 50.0, 60000.0);
    const double mean_w = between(random, 150.0, 300.0);
    const double swing_w = between(random, 0.0, 100.0);

    for (int i = 0; i < GRID_MS; i++)
        energy_j[i + 1] =
            energy_j[i] + 1e-3 * (mean_w + swing_w * sin(6.283185307 * i / period_ms));
}

static void draw_curve(struct lull_random *random)
{
    switch (lull_random_below(random, 4)) {
    case 0:
        draw_steps(random, 5.0, 10000.0);
        break;
    case 1:
        draw_steps(random, 300.0, 20000.0);
        break;
    case 2:
        draw_wave(random);
        break;
    default:
        draw_iterations(random);
    }
}

static double drawn_j(double from_ms, double to_ms)
{
    double sums[2];
    const double at_ms[2] = {from_ms, to_ms};

    for (int i = 0; i < 2; i++) {
        const int whole = (int)at_ms[i];

        sums[i] = energy_j[whole] + (at_ms[i] - whole) * (energy_j[whole + 1] - energy_j[whole]);
    }
    return sums[1] - sums[0];
}

/* ---- a device that is read --------------------------------------------------------------- */

struct device {
    double counter_ms; /* refresh */
    double power_ms;   /* refresh */
    double window_ms;
    double counter_phase_ms;
    double power_phase_ms;
    double reset_ms; /* the counter starts again; below 0: never */
};

static double refreshed_ms(double at_ms, double period_ms, double phase_ms)
{
    return phase_ms + period_ms * floor((at_ms - phase_ms) / period_ms);
}

static double counter_j(const struct device *device, double at_ms)
{
    const double seen_ms = refreshed_ms(at_ms, device->counter_ms, device->counter_phase_ms);

    if (device->reset_ms >= 0.0 && at_ms >= device->reset_ms)
        return seen_ms <= device->reset_ms ? 0.0 : drawn_j(device->reset_ms, seen_ms);
    return floor(1e3 * drawn_j(0.0, seen_ms)) * 1e-3 + 12345.0;
}

static double power_w(const struct device *device, double at_ms)
{
    const double seen_ms = refreshed_ms(at_ms, device->power_ms, device->power_phase_ms);

    return floor(1e6 * drawn_j(seen_ms - device->window_ms, seen_ms) / device->window_ms) * 1e-3;
}

static void make_device(struct lull_random *random, struct device *device)
{
    static const double sensors[][3] = {
        {20.0, 20.0, 10.0}, {100.0, 100.0, 100.0}, {100.0, 100.0, 25.0}, {100.0, 100.0, 1000.0}};
    const double *sensor = sensors[lull_random_below(random, 4)];

    *device = (struct device){.counter_ms = sensor[0] * between(random, 0.95, 1.0),
                              .power_ms = sensor[1] * between(random, 0.95, 1.0),
                              .window_ms = sensor[2],
                              .reset_ms = -1.0};
    device->counter_phase_ms = between(random, 0.0, device->counter_ms);
    device->power_phase_ms = between(random, 0.0, device->power_ms);
}

static struct lull_energy_source source_of(const struct device *device)
{
    return (struct lull_energy_source){
        .counter_refresh_s = (device->counter_ms > 50.0 ? 100.0 : 20.0) * 1e-3,
        .power_refresh_s = (device->power_ms > 50.0 ? 100.0 : 20.0) * 1e-3,
        .power_window_s = device->window_ms * 1e-3,
        .highest_w = 400.0,
    };
}

/* ---- windows ------------------------------------------------------------------------------ */

/* Ways of reading: those of governors (both), of liblull (at the edges), and of old GPUs. */
enum reading {
    COUNTER_AND_POWER,
    COUNTER_ALONE,
    AT_THE_EDGES,
    POWER_ALONE,
    POWER_LATE,
    WITH_RESET,
    MODES
};

static const char *const mode_names[MODES] = {
    "counter at 1 Hz, power at 10 Hz", "counter at 1 Hz alone",
    "counter at the edges alone",      "power at 10 Hz alone",
    "power alone on a busy host",      "counter reset in the window"};

struct outcome {
    double true_j;
    double zeus_j; /* as Zeus works it out: reference 2.2 and 2.3 */
    double seconds;
    struct lull_energy_figure figure;
};

static void read_device(struct lull_energy_account *account, const struct device *device,
                        double at_ms, bool has_counter, bool has_power)
{
    const struct lull_energy_reading reading = {
        .time_ns = (int64_t)(at_ms * (double)ms),
        .has_counter = has_counter,
        .has_power = has_power,
        .counter_j = has_counter ? counter_j(device, at_ms) : 0.0,
        .power_w = has_power ? power_w(device, at_ms) : 0.0,
    };

    lull_energy_account_take(account, &reading);
}

/* Trapezoids over the readings inside the window that differ from the one before. */
struct ramps {
    double last_ms;
    double last_w;
    uint32_t kept;
    double joules;
};

static void add_ramp(struct ramps *ramps, double at_ms, double watts)
{
    if (ramps->kept > 0 && watts == ramps->last_w)
        return;
    if (ramps->kept++ > 0)
        ramps->joules += 0.5e-3 * (watts + ramps->last_w) * (at_ms - ramps->last_ms);
    ramps->last_ms = at_ms;
    ramps->last_w = watts;
}

static void settle(struct lull_energy_account *account, double at_ms, struct lull_energy_edge *edge,
                   bool *is_known, uint64_t seed)
{
    const int64_t time_ns = (int64_t)(at_ms * (double)ms);

    if (*is_known || lull_energy_account_settled_ns(account) < time_ns)
        return;
    holds(lull_energy_account_at(account, time_ns, edge), seed);
    *is_known = true;
}

static bool is_by_power(enum reading mode)
{
    return mode == POWER_ALONE || mode == POWER_LATE;
}

static void measure(struct lull_random *random, enum reading mode, uint64_t seed,
                    struct outcome *outcome)
{
    struct lull_energy_account account;
    struct lull_energy_edge edges[2];
    bool known[2] = {false, false};
    struct lull_energy_source source;
    struct device device;
    double length_ms = spread(random, 300.0, 60000.0);
    double begin_ms = between(random, LEAD_MS + 1200.0, GRID_MS - length_ms - 6000.0);
    double at_ms = LEAD_MS;
    struct ramps ramps = {0};
    int polls = 0;

    draw_curve(random);
    make_device(random, &device);
    if (mode == WITH_RESET)
        device.reset_ms = between(random, begin_ms, begin_ms + length_ms);
    source = source_of(&device);
    lull_energy_account_init(&account, &source);
    if (mode == AT_THE_EDGES) {
        read_device(&account, &device, begin_ms, true, false);
        read_device(&account, &device, begin_ms + length_ms, true, false);
    }
    while (mode != AT_THE_EDGES && !known[1] && at_ms < GRID_MS - 100.0) {
        const bool is_counted = !is_by_power(mode) && polls++ % 10 == 0;

        if (at_ms >= begin_ms && at_ms <= begin_ms + length_ms)
            add_ramp(&ramps, at_ms, power_w(&device, at_ms));
        if (mode != COUNTER_ALONE || is_counted)
            read_device(&account, &device, at_ms, is_counted, mode != COUNTER_ALONE);
        settle(&account, begin_ms, &edges[0], &known[0], seed);
        settle(&account, begin_ms + length_ms, &edges[1], &known[1], seed);
        at_ms += 100.0 + between(random, -5.0, 5.0);
        if (mode == POWER_LATE && lull_random_below(random, 5) == 0)
            at_ms += between(random, 100.0, 1500.0);
    }
    for (int i = 0; i < 2; i++)
        if (!known[i])
            holds(lull_energy_account_at(
                      &account, (int64_t)((begin_ms + i * length_ms) * (double)ms), &edges[i]),
                  seed);
    outcome->true_j = drawn_j(begin_ms, begin_ms + length_ms);
    outcome->zeus_j = is_by_power(mode)
                          ? ramps.joules
                          : counter_j(&device, begin_ms + length_ms) - counter_j(&device, begin_ms);
    outcome->seconds = length_ms * 1e-3;
    outcome->figure = lull_energy_between(&account, &edges[0], &edges[1]);
    holds(outcome->figure.joules >= 0.0 && isfinite(outcome->figure.joules), seed);
    holds(outcome->figure.uncertainty_j >= 0.0 && isfinite(outcome->figure.uncertainty_j), seed);
    holds(fabs(outcome->figure.seconds - outcome->seconds) < 1e-6, seed);
}

/* ---- coverage and width ------------------------------------------------------------------- */

static int compare(const void *left, const void *right)
{
    const double a = *(const double *)left;
    const double b = *(const double *)right;

    return (a > b) - (a < b);
}

struct summary {
    double covered;      /* share of windows whose interval holds the truth */
    double missed_twice; /* share of windows for which twice that interval does not */
    double median_j;     /* of the half intervals */
    double median_ratio; /* of half interval to energy, windows over 5 s */
    double error95_j;    /* 95 % of the errors are smaller */
    double zeus95_j;     /* of Zeus's errors */
};

static struct summary summarize(enum reading mode)
{
    static double widths[CASES];
    static double ratios[CASES];
    static double errors[CASES];
    static double zeus[CASES];
    struct summary summary = {0};
    uint32_t inside = 0;
    uint32_t outside_twice = 0;
    uint32_t count = 0;

    for (uint64_t seed = 0; seed < CASES; seed++) {
        struct lull_random random;
        struct outcome outcome;

        lull_random_init(&random, seed * MODES + mode);
        measure(&random, mode, seed, &outcome);
        errors[seed] = fabs(outcome.figure.joules - outcome.true_j);
        zeus[seed] = fabs(outcome.zeus_j - outcome.true_j);
        widths[seed] = outcome.figure.uncertainty_j;
        inside += errors[seed] <= widths[seed];
        outside_twice += errors[seed] > 2.0 * widths[seed];
        if (outcome.seconds > 5.0)
            ratios[count++] = widths[seed] / outcome.true_j;
    }
    qsort(widths, CASES, sizeof(*widths), compare);
    qsort(errors, CASES, sizeof(*errors), compare);
    qsort(zeus, CASES, sizeof(*zeus), compare);
    qsort(ratios, count, sizeof(*ratios), compare);
    summary.zeus95_j = zeus[CASES * 95 / 100];
    summary.covered = (double)inside / CASES;
    summary.missed_twice = (double)outside_twice / CASES;
    summary.median_j = widths[CASES / 2];
    summary.median_ratio = ratios[count / 2];
    summary.error95_j = errors[CASES * 95 / 100];
    return summary;
}

/* ---- single readings ---------------------------------------------------------------------- */

static bool takes(struct lull_energy_account *account, struct lull_energy_reading reading)
{
    const uint64_t before = account->count;

    lull_energy_account_take(account, &reading);
    return account->count == before + 1;
}

static void what_is_no_reading_is_ignored(void **state)
{
    const struct lull_energy_source source = {0.1, 0.1, 0.1, 400.0};
    struct lull_energy_account account;

    (void)state;
    lull_energy_account_init(&account, &source);
    assert_false(takes(&account, (struct lull_energy_reading){.time_ns = 1}));
    assert_false(takes(&account, (struct lull_energy_reading){1, true, false, NAN, 0.0}));
    assert_false(takes(&account, (struct lull_energy_reading){1, false, true, 0.0, INFINITY}));
    assert_false(takes(&account, (struct lull_energy_reading){1, false, true, 0.0, -1.0}));
    assert_true(takes(&account, (struct lull_energy_reading){-500 * ms, false, true, 0.0, 0.0}));
    assert_false(takes(&account, (struct lull_energy_reading){-501 * ms, false, true, 0.0, 100.0}));
    assert_true(takes(&account, (struct lull_energy_reading){-500 * ms, false, true, 0.0, 100.0}));
    assert_true(takes(&account, (struct lull_energy_reading){500 * ms, false, true, 0.0, 100.0}));
    assert_int_equal(account.resets, 0);
}

/* The largest plausible jump of a counter: twice what the device can draw until the next refresh.
 */
static void leaps_of_the_counter(void **state)
{
    static const struct {
        double counter_j;
        uint32_t resets;
    } rows[] = {{1000.0, 0}, {999.9, 1}, {1880.0, 0}, {1880.1, 1}, {0.0, 1}};
    const struct lull_energy_source source = {0.1, 0.1, 0.1, 400.0};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct lull_energy_account account;

        lull_energy_account_init(&account, &source);
        takes(&account, (struct lull_energy_reading){0, true, false, 1000.0, 0.0});
        takes(&account, (struct lull_energy_reading){1000 * ms, true, false, rows[i].counter_j, 0});
        assert_int_equal(account.resets, rows[i].resets);
    }
}

static void intervals_hold_the_truth_and_are_not_wide(void **state)
{
    static const double widest[MODES] = {1.5, 4.0, 1.5, 2.5, 2.5, 1.6};

    (void)state;
    for (enum reading mode = 0; mode < MODES; mode++) {
        const struct summary summary = summarize(mode);

        if (summary.covered < 0.95)
            fail_msg("%s: %.1f %% covered", mode_names[mode], 100.0 * summary.covered);
        if (summary.missed_twice > 0.005)
            fail_msg("%s: %.2f %% far outside", mode_names[mode], 100.0 * summary.missed_twice);
        /* Without power readings for a second only the device's range says where energy lies;
         * without a counter the part hidden by an average over a second is unknown. */
        if (summary.median_j > summary.error95_j * widest[mode])
            fail_msg("%s: half interval %.1f J, errors %.1f J", mode_names[mode], summary.median_j,
                     summary.error95_j);
        /* Zeus has no answer for a reset, ramps for polled power, and at the edges the same. */
        if (mode == WITH_RESET || mode == POWER_ALONE)
            assert_true(summary.zeus95_j > 2.0 * summary.error95_j);
        if (mode == AT_THE_EDGES)
            assert_true(summary.error95_j < 1.1 * summary.zeus95_j);
        /* Readings that are half a second late leave much of the energy unseen. */
        if (summary.median_ratio > (mode == POWER_LATE ? 0.12 : 0.03))
            fail_msg("%s: %.1f %%", mode_names[mode], 100.0 * summary.median_ratio);
    }
}

/* Many short windows that keep time with the work: one part of each of 40 iterations. */
static void measure_parts(struct lull_random *random, uint64_t seed, struct lull_energy_sum *sum,
                          double *true_j)
{
    const double period_ms = spread(random, 150.0, 1500.0);
    const double share = between(random, 0.1, 0.9);
    const double high_w = between(random, 150.0, 400.0);
    const double low_w = between(random, 50.0, high_w);
    const double first_ms = LEAD_MS + 1500.0;
    double at_ms = LEAD_MS;
    struct lull_energy_account account;
    struct lull_energy_source source;
    struct device device;
    int polls = 0;

    for (int i = 0; i < GRID_MS; i++)
        energy_j[i + 1] =
            energy_j[i] +
            1e-3 * (fmod(fmax(0.0, i - first_ms), period_ms) < share * period_ms ? low_w : high_w);
    make_device(random, &device);
    source = source_of(&device);
    lull_energy_account_init(&account, &source);
    *sum = (struct lull_energy_sum){0};
    *true_j = 0.0;
    for (int i = 0; i < 40; i++) {
        const double begin_ms = first_ms + i * period_ms;
        const double end_ms = begin_ms + share * period_ms;
        struct lull_energy_edge edges[2];
        bool known[2] = {false, false};
        struct lull_energy_figure figure;

        while (!known[1]) {
            settle(&account, begin_ms, &edges[0], &known[0], seed);
            settle(&account, end_ms, &edges[1], &known[1], seed);
            if (known[1])
                break;
            read_device(&account, &device, at_ms, polls++ % 10 == 0, true);
            at_ms += 100.0 + between(random, -5.0, 5.0);
        }
        figure = lull_energy_between(&account, &edges[0], &edges[1]);
        lull_energy_sum_add(sum, &figure);
        *true_j += drawn_j(begin_ms, end_ms);
    }
}

static uint32_t parts_covered(uint32_t cases, double *median_ratio_out)
{
    static double ratios[CASES];
    uint32_t inside = 0;

    for (uint64_t seed = 0; seed < cases; seed++) {
        struct lull_random random;
        struct lull_energy_sum sum;
        double true_j;

        lull_random_init(&random, seed + 1000000);
        measure_parts(&random, seed, &sum, &true_j);
        inside += fabs(sum.joules - true_j) <= lull_energy_sum_uncertainty_j(&sum);
        ratios[seed] = lull_energy_sum_uncertainty_j(&sum) / true_j;
    }
    qsort(ratios, cases, sizeof(*ratios), compare);
    *median_ratio_out = ratios[cases / 2];
    return inside;
}

static void sums_of_parts_of_iterations_hold_the_truth(void **state)
{
    double ratio;
    const uint32_t inside = parts_covered(CASES, &ratio);

    (void)state;
    if (inside < CASES * 95 / 100 || ratio > 0.5)
        fail_msg("%u of %d covered, half interval %.1f %%", inside, CASES, 100.0 * ratio);
}

/* ---- known errors of Zeus ------------------------------------------------------------------- */

static struct lull_energy_figure figure_between(const struct lull_energy_account *account,
                                                int64_t from_ms, int64_t to_ms)
{
    struct lull_energy_edge begin;
    struct lull_energy_edge end;

    assert_true(lull_energy_account_at(account, from_ms * ms, &begin));
    assert_true(lull_energy_account_at(account, to_ms * ms, &end));
    return lull_energy_between(account, &begin, &end);
}

static void take(struct lull_energy_account *account, int64_t time_ms, double counted_j,
                 double power)
{
    lull_energy_account_take(account, &(struct lull_energy_reading){.time_ns = time_ms * ms,
                                                                    .has_counter = counted_j >= 0.0,
                                                                    .has_power = power >= 0.0,
                                                                    .counter_j = counted_j,
                                                                    .power_w = power});
}

/* The trapezoid over changed values that reference B9 describes. */
static double ramp_j(const double *changed_s, const double *changed_w, int count)
{
    double sum = 0.0;

    for (int i = 1; i < count; i++)
        sum += 0.5 * (changed_w[i - 1] + changed_w[i]) * (changed_s[i] - changed_s[i - 1]);
    return sum;
}

static const struct lull_energy_source a100 = {0.1, 0.1, 0.025, 400.0, 2.0};

/* 10 s at 50 W, then 300 W. */
static void b9_a_power_that_holds_is_a_step(void **state)
{
    struct lull_energy_account account;
    struct lull_energy_figure figure;

    (void)state;
    assert_near(ramp_j((double[]){0.0, 10.0}, (double[]){50.0, 300.0}, 2), 1750.0, 1e-9);
    lull_energy_account_init(&account, &a100);
    for (int64_t i = 0; i <= 120; i++) /* at 10 Hz; the ring forgets the beginning */
        take(&account, i * 100, -1.0, i < 100 ? 50.0 : 300.0);
    figure = figure_between(&account, 6000, 10000);
    assert_near(figure.joules, 200.0, figure.uncertainty_j);
    assert_true(figure.uncertainty_j < 40.0);
    /* Only changes were kept: still a step. */
    lull_energy_account_init(&account, &a100);
    take(&account, 0, -1.0, 50.0);
    take(&account, 10000, -1.0, 300.0);
    assert_near(account.points[1].energy_j, 500.0, 15.0);
}

/* Windows whose edges fall between samples lose nothing (B9), and pieces add up to the whole. */
static void b9_edges_between_samples_count(void **state)
{
    struct lull_energy_account account;
    double sum = 0.0;

    (void)state;
    lull_energy_account_init(&account, &a100);
    for (int64_t i = 0; i <= 50; i++)
        take(&account, i * 100, -1.0, 200.0);
    assert_near(figure_between(&account, 1033, 1077).joules, 200.0 * 0.044, 1e-6);
    for (int64_t from = 1033; from < 4033; from += 50)
        sum += figure_between(&account, from, from + 50).joules;
    assert_near(sum, figure_between(&account, 1033, 4033).joules, 1e-6);
    assert_near(sum, 600.0, 1e-6);
}

/* The driver is reloaded: a plain difference would be negative. */
static void b14_a_counter_that_begins_anew(void **state)
{
    struct lull_energy_account account;
    struct lull_energy_figure figure;

    (void)state;
    lull_energy_account_init(&account, &a100);
    for (int64_t i = 0; i <= 50; i++) {
        const double truth_j = 250.0 * 0.1 * (double)i;

        take(&account, i * 100,
             i % 10 != 0 ? -1.0
             : i <= 20   ? 90000.0 + truth_j
                         : truth_j - 560.0,
             250.0);
    }
    assert_int_equal(account.resets, 1);
    figure = figure_between(&account, 500, 4500);
    assert_near(figure.joules, 1000.0, figure.uncertainty_j);
    assert_true(figure.uncertainty_j < 60.0);
    /* A window before the reset does not pay for it. */
    assert_true(figure_between(&account, 500, 1500).uncertainty_j < 30.0);
}

/* Without power readings, anything between what is counted again and the most that the device
 * draws.
 */
static void b14_a_counter_that_begins_anew_with_no_power(void **state)
{
    const struct {
        double counted_j; /* after the reset */
        double min_j;
    } cases[] = {{300.0, 300.0}, {1599.0, 1599.0}, {1601.0, 0.0}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const double max_j = 400.0 * 4.0; /* in 4 s */
        struct lull_energy_account account;

        lull_energy_account_init(&account, &a100);
        take(&account, 1000, 9000.0, -1.0);
        take(&account, 5000, cases[i].counted_j, -1.0);
        assert_int_equal(account.resets, 1);
        assert_near(account.points[1].energy_j, 0.5 * (cases[i].min_j + max_j), 1e-6);
        assert_near(account.points[1].variance_j2, pow(max_j - cases[i].min_j, 2.0) / 12.0, 1e-3);
    }
}

static void a_counter_that_leaps_is_not_believed(void **state)
{
    struct lull_energy_account account;
    struct lull_energy_figure figure;

    (void)state;
    lull_energy_account_init(&account, &a100);
    for (int64_t i = 0; i <= 5; i++)
        take(&account, i * 1000, (i < 3 ? 0.0 : 1e15) + 200.0 * (double)i, 200.0);
    assert_int_equal(account.resets, 1);
    figure = figure_between(&account, 1000, 4500);
    assert_near(figure.joules, 700.0, figure.uncertainty_j);
}

/* ---- counters that fail -------------------------------------------------------------------- */

enum counter_failure { STANDS_STILL, WANTING, RESUMES_BEHIND, RESUMES_AHEAD, WRAPS, FAILURES };

/* The reading of the counter if the true energy is truth_j, t s after the start; below 0: no
 * reading. Between 10 and 30 s it fails. */
static double failing_counter(enum counter_failure failure, double t, double truth_j)
{
    const double stuck_j = 10.0 * 200.0;

    if (failure == WRAPS)
        return fmod(truth_j + 600.0, 1000.0);
    if (t <= 10.0)
        return truth_j;
    switch (failure) {
    case WANTING:
        return -1.0;
    case RESUMES_BEHIND: /* it has slept */
        return t <= 30.0 ? stuck_j : truth_j - (30.0 * 200.0 - stuck_j);
    case RESUMES_AHEAD: /* only its readings have hung */
        return t <= 30.0 ? stuck_j : truth_j;
    default:
        return stuck_j;
    }
}

/* The power changes while the counter fails, so the power before is no estimate. */
static double power_at(double t)
{
    return t <= 15.0 ? 200.0 : 300.0;
}

static double truth_at(double t)
{
    return 200.0 * fmin(t, 15.0) + 300.0 * fmax(0.0, t - 15.0);
}

static void test_f19_power_stands_in_for_a_counter_that_fails(void **state)
{
    (void)state;
    for (enum counter_failure failure = 0; failure < FAILURES; failure++) {
        struct lull_energy_account account;
        struct lull_energy_figure figure;
        double last_j = 0.0;

        lull_energy_account_init(&account, &a100);
        for (int64_t i = 0; i <= 450; i++) {
            const double t = 0.1 * (double)i;
            const struct lull_energy_point *point;

            take(&account, i * 100, i % 10 == 0 ? failing_counter(failure, t, truth_at(t)) : -1.0,
                 power_at(t));
            point = lull_energy_last(&account);
            assert_true(point->energy_j >= last_j); /* it never runs backwards */
            last_j = point->energy_j;
        }
        assert_near(last_j, truth_at(45.0), 10.0);
        figure = figure_between(&account, 40000, 43500);
        assert_near(figure.joules, 1050.0, figure.uncertainty_j);
        assert_true(figure.uncertainty_j < 300.0);
        switch (failure) {
        case STANDS_STILL:
        case WANTING:
            assert_true(figure.is_estimate);
            assert_near(account.estimated_s, 35.0, 2.0);
            break;
        case WRAPS:
            assert_true(account.resets > 5);
            break;
        default:
            assert_false(figure.is_estimate);
            assert_near(account.estimated_s, 20.0, 2.0);
            break;
        }
    }
}

/* Without power readings the energy beside a counter that hangs is unknown, so the interval
 * says anything from nothing to the most. */
static void test_f19_a_counter_that_stands_still_without_power(void **state)
{
    struct lull_energy_account account;
    struct lull_energy_figure figure;

    (void)state;
    lull_energy_account_init(&account, &a100);
    for (int64_t i = 0; i <= 10; i++)
        take(&account, i * 1000, i < 5 ? 100.0 * (double)i : 400.0, -1.0);
    figure = figure_between(&account, 5500, 8500);
    assert_true(figure.is_estimate);
    assert_true(figure.joules - figure.uncertainty_j <= 0.0);
    assert_true(figure.joules + figure.uncertainty_j >= 0.9 * 400.0 * 3.0);
    assert_false(figure_between(&account, 500, 2500).is_estimate);
}

/* A processor's counter may hang: its zone is off, or draws nothing that counts. */
static void test_f19_a_device_that_may_draw_nothing(void **state)
{
    struct lull_energy_source source = a100;
    struct lull_energy_account account;

    (void)state;
    source.lowest_w = 0.0;
    lull_energy_account_init(&account, &source);
    for (int64_t i = 0; i <= 10; i++)
        take(&account, i * 1000, 400.0, -1.0);
    assert_near(account.estimated_s, 0.0, 1e-9);
    assert_near(figure_between(&account, 1000, 9000).joules, 0.0, 1e-9);
}

/* ---- sensors that see less than all --------------------------------------------------------- */

/* A section that is shorter than the averaging window of the power
 * cannot be measured. Its energy is still computed, and flagged. */
static void test_f20_short_windows_are_estimates(void **state)
{
    const struct {
        double refresh_s;
        double window_s;
        int64_t shortest_ms; /* that is measured */
    } sensors[] = {{0.1, 1.0, 1100}, {0.1, 0.025, 125}, {0.02, 0.01, 30}};

    (void)state;
    for (size_t i = 0; i < sizeof(sensors) / sizeof(sensors[0]); i++) {
        struct lull_energy_source source = a100;
        struct lull_energy_account account;

        source.power_refresh_s = sensors[i].refresh_s;
        source.power_window_s = sensors[i].window_s;
        lull_energy_account_init(&account, &source);
        for (int64_t k = 0; k <= 60; k++)
            take(&account, k * 100, k % 10 == 0 ? 20.0 * (double)k : -1.0, 200.0);
        assert_true(figure_between(&account, 2010, 2010 + sensors[i].shortest_ms - 5).is_estimate);
        assert_false(figure_between(&account, 2010, 2010 + sensors[i].shortest_ms + 5).is_estimate);
        assert_true(figure_between(&account, 2010, 2011).joules > 0.0);
    }
}

/* Without power a window that lies between two readings of the counter is laid out evenly. */
static void test_f20_windows_between_two_counts_are_estimates(void **state)
{
    struct lull_energy_account account;
    struct lull_energy_sum sum = {0};
    struct lull_energy_figure figure;

    (void)state;
    lull_energy_account_init(&account, &a100);
    for (int64_t i = 0; i <= 5; i++)
        take(&account, i * 1000, 200.0 * (double)i, -1.0);
    figure = figure_between(&account, 2100, 2600);
    assert_true(figure.is_estimate);
    lull_energy_sum_add(&sum, &figure);
    figure = figure_between(&account, 1100, 3600);
    assert_false(figure.is_estimate);
    lull_energy_sum_add(&sum, &figure);
    assert_int_equal(sum.estimates, 1);
    assert_int_equal(sum.count, 2);
}

/* Windows shorter than the counter's refresh: never 0 J (Zeus warns, and says 0). */
static void a_window_shorter_than_a_refresh(void **state)
{
    struct lull_energy_account account;
    struct lull_energy_figure figure;

    (void)state;
    lull_energy_account_init(&account, &a100);
    for (int64_t i = 0; i <= 50; i++)
        take(&account, i * 100, i % 10 == 0 ? 20.0 * (double)i : -1.0, 200.0);
    figure = figure_between(&account, 2330, 2360);
    assert_near(figure.joules, 6.0, 0.1);
    assert_true(figure.uncertainty_j >= 6.0 - 1e-9); /* and it says how little that means */
}

/* Powers give information on the gap between two energies if they were read in it, or a refresh
 * outside. */
static double variance_with_power_at(int64_t time_ms)
{
    const struct lull_energy_source source = {0.1, 0.1, 0.0, 400.0};
    struct lull_energy_account account;
    struct lull_energy_edge edge;

    lull_energy_account_init(&account, &source);
    if (time_ms < 1000) {
        take(&account, 0, 0.0, 200.0);
        take(&account, time_ms, -1.0, 400.0);
    }
    for (int64_t at = 1000; at <= 2000; at += 250)
        take(&account, at, at % 1000 == 0 ? 0.2 * (double)at : -1.0, 200.0);
    if (time_ms > 2000)
        take(&account, time_ms, -1.0, 400.0);
    take(&account, 3000, 600.0, 200.0);
    assert_true(lull_energy_account_at(&account, 1500 * ms, &edge));
    return edge.edge_j2;
}

static void powers_a_refresh_outside_the_gap_count(void **state)
{
    (void)state;
    assert_near(variance_with_power_at(2100) / variance_with_power_at(2099), 1.0, 0.1);
    assert_true(variance_with_power_at(2100) > 2.0 * variance_with_power_at(2101));
    assert_near(variance_with_power_at(900) / variance_with_power_at(901), 1.0, 0.1);
    assert_true(variance_with_power_at(900) > 2.0 * variance_with_power_at(899));
}

static void what_is_not_known_is_not_told(void **state)
{
    struct lull_energy_account account;
    struct lull_energy_edge edge;

    (void)state;
    lull_energy_account_init(&account, &a100);
    assert_false(lull_energy_account_at(&account, 0, &edge));
    take(&account, 0, -1.0, -1.0);
    assert_int_equal(account.count, 0);
    for (int64_t i = 10; i < 200; i++)
        take(&account, i * 1000, 100.0 * (double)i, NAN);
    assert_false(lull_energy_account_at(&account, 0, &edge));
    assert_false(lull_energy_account_at(&account, 100 * 1000 * ms, &edge)); /* forgotten */
    assert_true(lull_energy_account_at(&account, 190 * 1000 * ms, &edge));
    take(&account, 150 * 1000, 0.0, 0.0); /* from the past: ignored */
    assert_int_equal(account.count, 190);
    assert_int_equal(account.resets, 0);
}

static void counter_and_power_are_compared(void **state)
{
    struct lull_energy_account account;
    double ratio;

    (void)state;
    lull_energy_account_init(&account, &a100);
    for (int64_t i = 0; i <= 60; i++)
        take(&account, i * 100, i % 10 == 0 ? 20.0 * (double)i : -1.0, 220.0);
    assert_true(lull_energy_account_check(&account, &ratio));
    assert_near(ratio, 0.1, 1e-6);
}

static void report(void)
{
    uint32_t inside;
    double ratio;

    for (enum reading mode = 0; mode < MODES; mode++) {
        const struct summary summary = summarize(mode);

        printf("%-34s covered %.1f %%, twice %.2f missed, median half interval %.1f J (windows "
               "over 5 s: %.2f %%), "
               "95 %% of errors below %.1f J (Zeus: %.1f J)\n",
               mode_names[mode], 100.0 * summary.covered, 100.0 * summary.missed_twice,
               summary.median_j, 100.0 * summary.median_ratio, summary.error95_j, summary.zeus95_j);
    }
    inside = parts_covered(CASES, &ratio);
    printf("sums of 40 parts of iterations: covered %.1f %%, median half interval %.1f %%\n",
           100.0 * inside / CASES, 100.0 * ratio);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_reading_is_ignored),
        cmocka_unit_test(leaps_of_the_counter),
        cmocka_unit_test(intervals_hold_the_truth_and_are_not_wide),
        cmocka_unit_test(sums_of_parts_of_iterations_hold_the_truth),
        cmocka_unit_test(b9_a_power_that_holds_is_a_step),
        cmocka_unit_test(b9_edges_between_samples_count),
        cmocka_unit_test(b14_a_counter_that_begins_anew),
        cmocka_unit_test(b14_a_counter_that_begins_anew_with_no_power),
        cmocka_unit_test(a_counter_that_leaps_is_not_believed),
        cmocka_unit_test(test_f19_power_stands_in_for_a_counter_that_fails),
        cmocka_unit_test(test_f19_a_counter_that_stands_still_without_power),
        cmocka_unit_test(test_f19_a_device_that_may_draw_nothing),
        cmocka_unit_test(test_f20_short_windows_are_estimates),
        cmocka_unit_test(test_f20_windows_between_two_counts_are_estimates),
        cmocka_unit_test(a_window_shorter_than_a_refresh),
        cmocka_unit_test(powers_a_refresh_outside_the_gap_count),
        cmocka_unit_test(what_is_not_known_is_not_told),
        cmocka_unit_test(counter_and_power_are_compared),
    };

    if (argc > 1 && strcmp(argv[1], "report") == 0) {
        report();
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
