/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/energy/window_meter.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "governor/energy/energy_meter.h"
#include "governor/run/run_log.h"
#include "governor/run/visible_gpus.h"

enum { MAX_SOURCES = LULL_DEVICE_MAX_GPUS + LULL_RAPL_KINDS };

/* The time between readings of a counter. At this rate a
 * counter that polling disturbs reads 2 % too low. */
static const int64_t counter_period_ns = LULL_NS_PER_S;
/* The shortest time between them at the end of a long window: a refresh of the slowest counter. */
static const int64_t counter_refresh_ns = 100 * LULL_NS_PER_MS;
/* If the last reading is this old at the end of a window, its energy is not known. */
static const double max_unread_s = 5.0;

struct meter_window {
    struct meter_window *next;
    int64_t number;
    int64_t begin_ns;
    bool has_begun[MAX_SOURCES]; /* the energy at its begin is known */
    struct lull_energy_edge begin[MAX_SOURCES];
};

struct lull_window_meter {
    struct lull_devices *devices;
    struct lull_visible_gpus gpus;
    struct lull_rapl *rapl;       /* NULL: processors and memory are not measured */
    struct lull_error node_error; /* why they are not */
    /* One per GPU, then one per kind of RAPL. */
    struct lull_energy_account accounts[MAX_SOURCES];
    int64_t counted_ns; /* when the counters were read last; 0: never */
    int64_t next_number;
    uint32_t open_count;
    struct meter_window *windows;
};

static uint32_t source_count(const struct lull_window_meter *meter)
{
    return meter->gpus.count + LULL_RAPL_KINDS;
}

/* ---- opening ----------------------------------------------------------------------------- */

static void window_meter_open_node(struct lull_window_meter *meter)
{
    if (lull_rapl_open(NULL, &meter->rapl, &meter->node_error) < 0) {
        meter->rapl = NULL;
        return;
    }
    for (enum lull_rapl_kind kind = 0; kind < LULL_RAPL_KINDS; kind++) {
        const struct lull_energy_source source =
            lull_energy_source_of_node(lull_rapl_zone_count(meter->rapl, kind));

        lull_energy_account_init(&meter->accounts[meter->gpus.count + kind], &source);
    }
}

int lull_window_meter_open(struct lull_window_meter **meter_out, struct lull_error *err)
{
    struct lull_window_meter *meter = calloc(1, sizeof(*meter));
    int result;

    if (meter == NULL)
        return lull_error_set(err, -ENOMEM, "not enough memory for the energy of windows");
    result = lull_devices_open(&meter->devices, err);
    if (result == 0) {
        lull_visible_gpus(meter->devices, &meter->gpus);
        if (meter->gpus.count == 0)
            result = lull_error_set(err, LULL_E_NO_DEVICE, "no GPU is visible; check %s",
                                    lull_visible_gpus_variable(meter->devices));
    }
    if (result < 0) {
        lull_window_meter_close(meter);
        return result;
    }
    for (uint32_t i = 0; i < meter->gpus.count; i++) {
        const struct lull_energy_source source =
            lull_energy_source_of_gpu(lull_device_info(meter->devices, meter->gpus.gpus[i]));

        lull_energy_account_init(&meter->accounts[i], &source);
    }
    window_meter_open_node(meter);
    *meter_out = meter;
    return 0;
}

void lull_window_meter_close(struct lull_window_meter *meter)
{
    while (meter->windows != NULL)
        lull_window_meter_cancel(meter, meter->windows->number);
    if (meter->rapl != NULL)
        lull_rapl_close(meter->rapl);
    if (meter->devices != NULL)
        lull_devices_close(meter->devices);
    free(meter);
}

uint32_t lull_window_meter_gpu_count(const struct lull_window_meter *meter)
{
    return meter->gpus.count;
}

uint32_t lull_window_meter_gpu_index(const struct lull_window_meter *meter, uint32_t gpu)
{
    return meter->gpus.gpus[gpu];
}

const struct lull_device_info *lull_window_meter_gpu_info(const struct lull_window_meter *meter,
                                                          uint32_t gpu)
{
    return lull_device_info(meter->devices, meter->gpus.gpus[gpu]);
}

const char *lull_window_meter_node_reason(const struct lull_window_meter *meter)
{
    return meter->rapl == NULL ? meter->node_error.text : NULL;
}

bool lull_window_meter_is_open(const struct lull_window_meter *meter)
{
    return meter->windows != NULL;
}

/* ---- readings ---------------------------------------------------------------------------- */

/* Looks up where windows began, once no later reading can change that. */
static void settle_begins(struct lull_window_meter *meter, uint32_t source)
{
    const int64_t settled_ns = lull_energy_account_settled_ns(&meter->accounts[source]);

    for (struct meter_window *window = meter->windows; window != NULL; window = window->next)
        if (!window->has_begun[source] && window->begin_ns <= settled_ns)
            window->has_begun[source] = lull_energy_account_at(
                &meter->accounts[source], window->begin_ns, &window->begin[source]);
}

static void window_meter_read_gpu(struct lull_window_meter *meter, uint32_t gpu, uint32_t wanted)
{
    struct lull_sample sample;
    struct lull_energy_reading reading;

    lull_device_read(meter->devices, meter->gpus.gpus[gpu], wanted, &sample.reading);
    sample.time_ns = lull_now_ns();
    reading = lull_sample_energy_reading(&sample);
    lull_energy_account_take(&meter->accounts[gpu], &reading);
    settle_begins(meter, gpu);
}

static void window_meter_read_node(struct lull_window_meter *meter)
{
    struct lull_rapl_reading reading;
    const int64_t now_ns = lull_now_ns();

    if (meter->rapl == NULL)
        return;
    lull_rapl_read(meter->rapl, &reading);
    for (enum lull_rapl_kind kind = 0; kind < LULL_RAPL_KINDS; kind++) {
        if (reading.is_valid[kind])
            lull_energy_account_take(
                &meter->accounts[meter->gpus.count + kind],
                &(struct lull_energy_reading){
                    .time_ns = now_ns, .has_counter = true, .counter_j = reading.energy_j[kind]});
        settle_begins(meter, meter->gpus.count + kind);
    }
}

/* Reads powers, and counters if the last time is as long ago as that. */
static void read_due(struct lull_window_meter *meter, int64_t period_ns)
{
    const int64_t now_ns = lull_now_ns();
    const bool has_counters = meter->counted_ns == 0 || now_ns - meter->counted_ns >= period_ns;
    const uint32_t wanted = LULL_READING_POWER | (has_counters ? LULL_READING_ENERGY : 0);

    if (has_counters)
        meter->counted_ns = now_ns;
    for (uint32_t i = 0; i < meter->gpus.count; i++)
        window_meter_read_gpu(meter, i, wanted);
    window_meter_read_node(meter);
}

void lull_window_meter_read(struct lull_window_meter *meter)
{
    read_due(meter, counter_period_ns);
}

/* ---- windows ----------------------------------------------------------------------------- */

int64_t lull_window_meter_begin(struct lull_window_meter *meter)
{
    struct meter_window *window;

    if (meter->open_count == LULL_WINDOW_METER_MAX_OPEN)
        return -ENOSPC;
    window = calloc(1, sizeof(*window));
    if (window == NULL)
        return -ENOMEM;
    read_due(meter, counter_period_ns);
    window->number = meter->next_number++;
    window->begin_ns = lull_now_ns();
    window->next = meter->windows;
    meter->windows = window;
    meter->open_count++;
    return window->number;
}

/* Returns the place of an open window of that number; its content is NULL if there is none. */
static struct meter_window **window_meter_find(struct lull_window_meter *meter, int64_t number)
{
    struct meter_window **place = &meter->windows;

    while (*place != NULL && (*place)->number != number)
        place = &(*place)->next;
    return place;
}

int lull_window_meter_cancel(struct lull_window_meter *meter, int64_t number)
{
    struct meter_window **place = window_meter_find(meter, number);
    struct meter_window *window = *place;

    if (window == NULL)
        return -ENOENT;
    assert(meter->open_count > 0);
    *place = window->next;
    meter->open_count--;
    free(window);
    return 0;
}

/* Writes the reason why the energy of a source is unknown; false: there is none. */
static bool describe_doubt(const struct lull_energy_account *account, int64_t end_ns, char *text,
                           size_t size)
{
    const int64_t settled_ns = lull_energy_account_settled_ns(account);
    const double unread_s = (double)(end_ns - settled_ns) * 1e-9;

    if (settled_ns == INT64_MIN)
        snprintf(text, size, "neither its counter nor its power could be read");
    else if (unread_s > max_unread_s)
        snprintf(text, size, "it could not be read in the last %.0f s of the window", unread_s);
    else if (lull_energy_account_doubt(account) != LULL_ENERGY_CREDIBLE)
        snprintf(text, size,
                 "its sensors contradict each other or the power that it can draw; `lull run` "
                 "reports which of them");
    else
        return false;
    return true;
}

static void measure_source(const struct lull_window_meter *meter, struct meter_window *window,
                           uint32_t source, int64_t end_ns,
                           struct lull_window_meter_figure *figure_out)
{
    const struct lull_energy_account *account = &meter->accounts[source];
    struct lull_energy_edge end;

    *figure_out = (struct lull_window_meter_figure){.is_known = false};
    if (source >= meter->gpus.count && meter->rapl == NULL) {
        snprintf(figure_out->reason, sizeof(figure_out->reason), "%.150s", meter->node_error.text);
        return;
    }
    if (describe_doubt(account, end_ns, figure_out->reason, sizeof(figure_out->reason)))
        return;
    if (!window->has_begun[source])
        window->has_begun[source] =
            lull_energy_account_at(account, window->begin_ns, &window->begin[source]);
    if (!window->has_begun[source] || !lull_energy_account_at(account, end_ns, &end)) {
        snprintf(figure_out->reason, sizeof(figure_out->reason),
                 "it could not be read when the window began");
        return;
    }
    figure_out->energy = lull_energy_between(account, &window->begin[source], &end);
    figure_out->is_known = true;
}

int lull_window_meter_end(struct lull_window_meter *meter, int64_t number, double *seconds_out,
                          struct lull_window_meter_figure *figures_out)
{
    const int64_t end_ns = lull_now_ns();
    struct meter_window *window = *window_meter_find(meter, number);
    bool is_long;

    if (window == NULL)
        return -ENOENT;
    is_long = end_ns - window->begin_ns >= counter_period_ns;
    read_due(meter, is_long ? counter_refresh_ns : counter_period_ns);
    *seconds_out = (double)(end_ns - window->begin_ns) * 1e-9;
    for (uint32_t i = 0; i < source_count(meter); i++)
        measure_source(meter, window, i, end_ns, &figures_out[i]);
    return lull_window_meter_cancel(meter, number);
}
