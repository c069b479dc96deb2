/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/analyze/recording.h"

#include <inttypes.h>
#include <stdio.h>

#include <jansson.h>

#include "base/clock.h"
#include "base/json_string.h"
#include "cli/shared/command.h"
#include "governor/report/report_fields.h"

static double analyze_recording_seconds(int64_t ns)
{
    return lull_ms_from_ns(ns) * 1e-3;
}

static int64_t span_ns(const struct lull_recorded_gpu *gpu)
{
    return gpu->end_ns - gpu->begin_ns;
}

/* Sums up the kinds of a GPU: its communication, or its lowered stretches. */
static struct lull_recorded_kind analyze_recording_sum(const struct lull_run_recording *recording,
                                                       int64_t gpu, bool is_lowered)
{
    struct lull_recorded_kind all = {.gpu = gpu, .is_lowered = is_lowered};

    for (size_t i = 0; i < recording->kind_count; i++)
        if (recording->kinds[i].gpu == gpu && recording->kinds[i].is_lowered == is_lowered) {
            all.count += recording->kinds[i].count;
            all.total_ns += recording->kinds[i].total_ns;
        }
    return all;
}

static double analyze_recording_ratio(int64_t part_ns, const struct lull_recorded_gpu *gpu)
{
    return (double)part_ns / (double)span_ns(gpu);
}

/* ---- JSON -------------------------------------------------------------------------------- */

static json_t *kinds_json(const struct lull_run_recording *recording, int64_t gpu, bool is_lowered)
{
    json_t *const array = json_array();

    for (size_t i = 0; i < recording->kind_count; i++) {
        const struct lull_recorded_kind *const kind = &recording->kinds[i];
        json_t *object;

        if (kind->gpu != gpu || kind->is_lowered != is_lowered)
            continue;
        object = json_object();
        lull_field_text(object, "name", kind->name);
        lull_field_integer(object, "count", (json_int_t)kind->count);
        lull_field_number(object, "total_ms", lull_ms_from_ns(kind->total_ns));
        json_array_append_new(array, object);
    }
    return array;
}

static json_t *analyze_recording_gpu_json(const struct lull_run_recording *recording,
                                          const struct lull_recorded_gpu *gpu)
{
    const int64_t communication_ns = analyze_recording_sum(recording, gpu->index, false).total_ns;
    const int64_t lowered_ns = analyze_recording_sum(recording, gpu->index, true).total_ns;
    json_t *const object = json_object();

    lull_field_integer(object, "index", gpu->index);
    lull_field_text(object, "name", gpu->name);
    lull_field_number(object, "span_ms", lull_ms_from_ns(span_ns(gpu)));
    lull_field_known(object, "communication_ratio", analyze_recording_ratio(communication_ns, gpu),
                     span_ns(gpu) > 0);
    lull_field_known(object, "lowered_ratio", analyze_recording_ratio(lowered_ns, gpu),
                     span_ns(gpu) > 0);
    lull_field_known(object, "average_power_w",
                     gpu->watts.value_s / analyze_recording_seconds(gpu->watts.known_ns),
                     gpu->watts.known_ns > 0);
    lull_field_known(object, "average_sm_mhz",
                     gpu->mhz.value_s / analyze_recording_seconds(gpu->mhz.known_ns),
                     gpu->mhz.known_ns > 0);
    lull_field_json(object, "communication", kinds_json(recording, gpu->index, false));
    lull_field_json(object, "lowered", kinds_json(recording, gpu->index, true));
    return object;
}

int lull_analyze_recording_print_json(const struct lull_run_recording *recording)
{
    json_t *const document = json_object();
    json_t *const gpus = json_array();

    for (size_t i = 0; i < recording->gpu_count; i++)
        json_array_append_new(gpus, analyze_recording_gpu_json(recording, &recording->gpus[i]));
    lull_field_json(document, "verdict",
                    recording->sentence[0] != '\0' ? lull_json_string(recording->sentence)
                                                   : json_null());
    lull_field_json(document, "recording", json_pack("{s:o}", "gpus", gpus));
    return lull_cli_print_json(document, JSON_REAL_PRECISION(12));
}

/* ---- for people -------------------------------------------------------------------------- */

static void print_kinds(const struct lull_run_recording *recording,
                        const struct lull_recorded_gpu *gpu)
{
    for (size_t i = 0; i < recording->kind_count; i++) {
        const struct lull_recorded_kind *const kind = &recording->kinds[i];

        if (kind->gpu == gpu->index)
            printf("%5s %-24s %9" PRIu64 " %11.3f %9.2f %%\n", "", kind->name, kind->count,
                   lull_ms_from_ns(kind->total_ns) / (double)kind->count,
                   100.0 * analyze_recording_ratio(kind->total_ns, gpu));
    }
}

static void analyze_recording_print_gpu(const struct lull_run_recording *recording,
                                        const struct lull_recorded_gpu *gpu)
{
    printf("\nGPU %" PRId64 ": %s, %.1f s", gpu->index, gpu->name,
           analyze_recording_seconds(span_ns(gpu)));
    if (gpu->watts.known_ns > 0)
        printf(", %.1f W on average",
               gpu->watts.value_s / analyze_recording_seconds(gpu->watts.known_ns));
    if (gpu->mhz.known_ns > 0)
        printf(", %.0f MHz on average",
               gpu->mhz.value_s / analyze_recording_seconds(gpu->mhz.known_ns));
    putchar('\n');
    if (span_ns(gpu) <= 0)
        return;
    printf("%5s %-24s %9s %11s %11s\n", "", "", "count", "ms each", "of the time");
    print_kinds(recording, gpu);
    if (analyze_recording_sum(recording, gpu->index, false).count == 0)
        printf("%5s no communication was seen\n", "");
    if (analyze_recording_sum(recording, gpu->index, true).count == 0)
        printf("%5s its clock was never lowered\n", "");
}

void lull_analyze_recording_print_text(const struct lull_run_recording *recording)
{
    printf("%s\n", recording->sentence[0] != '\0' ? recording->sentence
                                                  : "a run of lull without a verdict in this file");
    for (size_t i = 0; i < recording->gpu_count; i++)
        analyze_recording_print_gpu(recording, &recording->gpus[i]);
    puts("\nThis is a recording of lull run. Power is from readings; report.json next to it has "
         "the trials,\nthe energy from counters and the uncertainty of each figure. Computation is "
         "not recorded: to predict\nfurther savings, use a trace of the PyTorch profiler.");
}
