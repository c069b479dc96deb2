/*
 * Reports the last iterations of the job as they were: per GPU its sections, the stretches at
 * lowered clocks, and the readings of clock and power. trace.json has the whole run.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/clock.h"
#include "base/json_string.h"
#include "governor/report/report_fields.h"
#include "governor/report/report_parts.h"
#include "governor/run/run_statistics.h"

/* At most this many spans of each kind are written per GPU. A picture cannot show more, and the
 * document stays small. */
enum { MAX_SPANS = 400 };

/* Minimum length of the reported stretch, if the run has enough iterations. Sensors are read ten
 * times a second, so a shorter stretch would contain hardly any readings. Chosen. */
static const int64_t min_ns = 2 * LULL_NS_PER_S;
enum { MAX_ITERATIONS = 200 };

struct reported_stretch {
    int64_t begin_ns;
    int64_t end_ns;
    size_t first; /* the boundaries in it: first to last */
    size_t last;
};

/* Finds the last iterations that follow each other. False: not one is whole. */
static bool find_stretch(const struct lull_boundaries *boundaries,
                         struct reported_stretch *stretch_out)
{
    size_t last;
    size_t first;

    if (boundaries == NULL || boundaries->count < 2)
        return false;
    last = boundaries->count - 1;
    while (last > 0 && boundaries->items[last].first)
        last--; /* no iteration ends there */
    if (last == 0)
        return false;
    first = last - 1;
    while (first > 0 && !boundaries->items[first].first && last - first < MAX_ITERATIONS &&
           boundaries->items[last].time_ns - boundaries->items[first].time_ns < min_ns)
        first--;
    *stretch_out = (struct reported_stretch){boundaries->items[first].time_ns,
                                             boundaries->items[last].time_ns, first, last};
    return true;
}

static double ms_in(const struct reported_stretch *stretch, int64_t time_ns)
{
    return lull_ms_from_ns(time_ns - stretch->begin_ns);
}

/* The place of the first span that ends behind the start of the stretch; spans come in the order of
 * their ends. */
static size_t first_span(const struct lull_spans *spans, const struct reported_stretch *stretch)
{
    size_t low = 0;
    size_t high = spans->count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (spans->items[middle].end_ns > stretch->begin_ns)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Makes an array of [begin_ms, end_ms, what] of the spans within the stretch; *cut_out says how
 * many are left out. */
static json_t *spans_json(const struct lull_spans *spans, const struct reported_stretch *stretch,
                          json_t *(*what)(uint32_t index), uint64_t *cut_out)
{
    json_t *array = json_array();

    for (size_t i = first_span(spans, stretch); i < spans->count; i++) {
        const struct lull_span *span = &spans->items[i];
        json_t *item;

        if (span->begin_ns >= stretch->end_ns)
            break;
        if (json_array_size(array) == MAX_SPANS) {
            (*cut_out)++;
            continue;
        }
        item = json_array();
        json_array_append_new(
            item, json_real(ms_in(stretch, lull_later_ns(span->begin_ns, stretch->begin_ns))));
        json_array_append_new(
            item, json_real(ms_in(stretch, lull_earlier_ns(span->end_ns, stretch->end_ns))));
        json_array_append_new(item, what(span->index));
        json_array_append_new(array, item);
    }
    return array;
}

static json_t *operation_json(uint32_t index)
{
    return lull_json_string(lull_operation_name((enum lull_operation)index));
}

static json_t *mhz_json(uint32_t index)
{
    return json_integer(index);
}

/* Makes an array of [ms, W, MHz] of the readings within the stretch; what was not read is null. */
static json_t *samples_json(const struct lull_samples *samples,
                            const struct reported_stretch *stretch)
{
    json_t *array = json_array();

    for (size_t i = 0; i < samples->count && json_array_size(array) < MAX_SPANS; i++) {
        const struct lull_sample *sample = &samples->items[i];
        const uint32_t valid = sample->reading.valid;
        json_t *item;

        if (sample->time_ns < stretch->begin_ns || sample->time_ns > stretch->end_ns)
            continue;
        item = json_array();
        json_array_append_new(item, json_real(ms_in(stretch, sample->time_ns)));
        json_array_append_new(item, (valid & LULL_READING_POWER) != 0
                                        ? json_real(sample->reading.power_mw * 1e-3)
                                        : json_null());
        json_array_append_new(item, (valid & LULL_READING_SM_CLOCK) != 0
                                        ? json_integer(sample->reading.sm_mhz)
                                        : json_null());
        json_array_append_new(array, item);
    }
    return array;
}

static json_t *timeline_report_gpu_json(const struct lull_report *report, uint32_t gpu,
                                        const struct reported_stretch *stretch)
{
    const struct lull_run_log *log = lull_control_log(report->managed, gpu);
    json_t *object = json_object();
    uint64_t cut = 0;

    lull_field_integer(object, "index", lull_control_gpu(report->managed, gpu)->device);
    lull_field_json(object, "sections", spans_json(&log->sections, stretch, operation_json, &cut));
    lull_field_json(object, "lowered", spans_json(&log->lowered, stretch, mhz_json, &cut));
    lull_field_json(object, "samples", samples_json(&log->samples, stretch));
    lull_field_integer(object, "left_out", (json_int_t)cut);
    return object;
}

json_t *lull_timeline_report_json(const struct lull_report *report)
{
    const struct lull_boundaries *boundaries;
    struct reported_stretch stretch;
    json_t *object;
    json_t *starts;
    json_t *gpus;

    if (report->managed == NULL)
        return json_null();
    boundaries = lull_run_statistics_boundaries(report->managed);
    if (!find_stretch(boundaries, &stretch))
        return json_null();
    object = json_object();
    starts = json_array();
    gpus = json_array();
    for (size_t i = stretch.first; i < stretch.last; i++)
        json_array_append_new(starts, json_real(ms_in(&stretch, boundaries->items[i].time_ns)));
    for (uint32_t i = 0; i < lull_control_gpu_count(report->managed); i++)
        if (lull_control_gpu(report->managed, i)->process >= 0)
            json_array_append_new(gpus, timeline_report_gpu_json(report, i, &stretch));
    lull_field_number(object, "length_ms", ms_in(&stretch, stretch.end_ns));
    lull_field_json(object, "iterations_ms", starts);
    lull_field_json(object, "gpus", gpus);
    return object;
}
