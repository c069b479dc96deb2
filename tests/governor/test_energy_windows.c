/*
 * The table of windows: rows against sums by hand, with any events of processes.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "governor/energy/energy_windows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../core/property.h"

enum { GPUS = 3, SLOTS = 4, STEPS = 3000 };

static const int64_t ms = 1000000;
static const struct lull_energy_source source = {0.1, 0.1, 0.025, 400.0};

/* Each GPU draws a power of its own, all the time. */
static double power_of(uint32_t gpu)
{
    return 100.0 + 50.0 * gpu;
}

static void read_gpus(struct lull_energy_windows *windows, struct lull_energy_account *accounts,
                      int64_t time_ms, bool is_final)
{
    for (uint32_t i = 0; i < GPUS; i++) {
        lull_energy_account_take(
            &accounts[i],
            &(struct lull_energy_reading){.time_ns = time_ms * ms,
                                          .has_counter = true,
                                          .has_power = true,
                                          .counter_j = power_of(i) * 1e-3 * (double)time_ms,
                                          .power_w = power_of(i)});
        lull_energy_windows_settle(windows, i, &accounts[i], is_final);
    }
}

struct model {
    bool is_open[SLOTS][LULL_JOB_MAX_WINDOWS];
    uint64_t numbers[SLOTS][LULL_JOB_MAX_WINDOWS];
    int64_t begin_ms[SLOTS][LULL_JOB_MAX_WINDOWS];
    uint32_t names[SLOTS][LULL_JOB_MAX_WINDOWS];
    uint64_t lost;
    uint64_t counts[5];
    double seconds[5];
    double joules[5];
};

/* Slot 0 is on all GPUs, the others on one each. */
static void open_one(struct lull_energy_windows *windows, struct model *model,
                     struct lull_random *random, uint32_t slot, int64_t time_ms)
{
    const uint64_t place = lull_random_below(random, LULL_JOB_MAX_WINDOWS);
    const uint64_t number = place + LULL_JOB_MAX_WINDOWS * lull_random_below(random, 1 << 20);
    const uint32_t name = (uint32_t)lull_random_below(random, 5);
    char text[16];

    snprintf(text, sizeof(text), "name %u", name);
    lull_energy_windows_open(windows,
                             &(struct lull_energy_window){.slot = slot,
                                                          .number = number,
                                                          .name = text,
                                                          .begin_ns = time_ms * ms,
                                                          .first_gpu = slot == 0 ? 0 : slot - 1,
                                                          .gpu_count = slot == 0 ? GPUS : 1});
    model->lost += model->is_open[slot][place];
    model->is_open[slot][place] = true;
    model->numbers[slot][place] = number;
    model->begin_ms[slot][place] = time_ms;
    model->names[slot][place] = name;
}

/* Closes a window; of one on all GPUs this one alone remains, unless it is GPUS. */
static void end(struct lull_energy_windows *windows, uint32_t slot, uint64_t number, uint32_t only,
                int64_t time_ns)
{
    const struct lull_energy_window entry = {
        .slot = slot,
        .number = number,
        .first_gpu = only < GPUS ? only : 0,
        .gpu_count = only < GPUS ? 1 : GPUS,
    };

    lull_energy_windows_close(windows, &entry, time_ns);
}

static void close_one(struct lull_energy_windows *windows, struct model *model,
                      struct lull_random *random, uint32_t slot, int64_t time_ms)
{
    const uint64_t place = lull_random_below(random, LULL_JOB_MAX_WINDOWS);
    const uint32_t name = model->names[slot][place];
    const double seconds = 1e-3 * (double)(time_ms - model->begin_ms[slot][place]);
    uint32_t only = GPUS;

    if (lull_random_below(random, 10) == 0 || !model->is_open[slot][place]) {
        end(windows, slot, model->numbers[slot][place] + LULL_JOB_MAX_WINDOWS, 0, time_ms * ms);
        model->lost++;
        return;
    }
    if (slot == 0 && lull_random_below(random, 2) == 0)
        only = (uint32_t)lull_random_below(random, GPUS);
    end(windows, slot, model->numbers[slot][place], only, time_ms * ms);
    model->is_open[slot][place] = false;
    model->counts[name]++;
    for (uint32_t i = 0; i < GPUS; i++) {
        if ((slot != 0 && i != slot - 1) || (only < GPUS && i != only))
            continue;
        model->seconds[name] += seconds;
        model->joules[name] += seconds * power_of(i);
    }
}

static void check_rows(const struct lull_energy_windows *windows, const struct model *model,
                       uint64_t seed)
{
    uint64_t open = 0;

    holds(lull_energy_windows_lost(windows) == model->lost, seed);
    for (uint32_t i = 0; i < SLOTS; i++)
        for (uint32_t j = 0; j < LULL_JOB_MAX_WINDOWS; j++)
            open += model->is_open[i][j];
    holds(lull_energy_windows_open_windows(windows) == open, seed);
    for (uint32_t i = 0; i < lull_energy_windows_row_count(windows); i++) {
        const struct lull_accounting_row *row = lull_energy_windows_row(windows, i);
        const unsigned name = (unsigned)(row->name[5] - '0');

        holds(name < 5 && row->count == model->counts[name] && row->unmeasured == 0, seed);
        assert_near(row->all.seconds, model->seconds[name], 1e-6);
        assert_near(row->all.joules, model->joules[name], 1e-6 * (1.0 + model->joules[name]));
    }
}

static void rows_are_sums(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 5; seed++) {
        struct lull_energy_windows *windows = lull_energy_windows_create(GPUS);
        static struct lull_energy_account accounts[GPUS];
        static struct model model;
        struct lull_random random;

        assert_non_null(windows);
        memset(&model, 0, sizeof(model));
        lull_random_init(&random, seed);
        for (uint32_t i = 0; i < GPUS; i++)
            lull_energy_account_init(&accounts[i], &source);
        read_gpus(windows, accounts, 0, false);
        for (int64_t i = 1; i < STEPS; i++) {
            const uint32_t slot = (uint32_t)lull_random_below(&random, SLOTS);

            if (lull_random_below(&random, 2) == 0)
                open_one(windows, &model, &random, slot, i * 10);
            else
                close_one(windows, &model, &random, slot, i * 10);
            if (i % 10 == 0)
                read_gpus(windows, accounts, i * 10, false);
        }
        read_gpus(windows, accounts, STEPS * 10, true);
        lull_energy_windows_end(windows);
        check_rows(windows, &model, seed);
        lull_energy_windows_destroy(windows);
    }
}

static void names_and_waiting_windows_are_bounded(void **state)
{
    struct lull_energy_windows *windows = lull_energy_windows_create(1);
    const struct lull_accounting_row *rest;
    uint64_t count = 0;

    (void)state;
    assert_non_null(windows);
    for (uint64_t i = 0; i < 10000; i++) {
        char name[16];

        snprintf(name, sizeof(name), "%u", (unsigned)(i % 200));
        lull_energy_windows_open(windows,
                                 &(struct lull_energy_window){.slot = 1000, /* any number */
                                                              .number = i,
                                                              .name = name,
                                                              .begin_ns = INT64_MIN,
                                                              .gpu_count = 1});
        end(windows, 1000, i, GPUS, INT64_MAX);
    }
    lull_energy_windows_end(windows);
    assert_int_equal(lull_energy_windows_row_count(windows), LULL_ACCOUNTING_MAX_ROWS);
    for (uint32_t i = 0; i < LULL_ACCOUNTING_MAX_ROWS; i++) {
        count += lull_energy_windows_row(windows, i)->count;
        assert_int_equal(lull_energy_windows_row(windows, i)->count,
                         lull_energy_windows_row(windows, i)->unmeasured);
    }
    assert_int_equal(count, 10000);
    rest = lull_energy_windows_row(windows, LULL_ACCOUNTING_MAX_ROWS - 1);
    assert_string_equal(rest->name, "other");
    lull_energy_windows_destroy(windows);
    lull_energy_windows_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_sums),
        cmocka_unit_test(names_and_waiting_windows_are_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
