/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/report/timeline.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"

/* Rows of one GPU in the picture. */
enum { ROW_SECTIONS = 1, ROW_CLOCKS = 2 };

static double us(int64_t time_ns, int64_t origin_ns)
{
    return (double)(time_ns - origin_ns) * 1e-3;
}

static void write_names(FILE *out, uint32_t gpu, const char *name)
{
    fprintf(
        out,
        "{\"ph\":\"M\",\"pid\":%u,\"name\":\"process_name\",\"args\":{\"name\":\"GPU %u %s\"}},\n"
        "{\"ph\":\"M\",\"pid\":%u,\"tid\":%d,\"name\":\"thread_name\","
        "\"args\":{\"name\":\"communication\"}},\n"
        "{\"ph\":\"M\",\"pid\":%u,\"tid\":%d,\"name\":\"thread_name\","
        "\"args\":{\"name\":\"lowered clock\"}},\n",
        gpu, gpu, name, gpu, ROW_SECTIONS, gpu, ROW_CLOCKS);
}

static void write_sections(FILE *out, uint32_t gpu, const struct lull_spans *spans,
                           int64_t origin_ns)
{
    for (size_t i = 0; i < spans->count; i++) {
        const struct lull_span *span = &spans->items[i];

        fprintf(out,
                "{\"ph\":\"X\",\"pid\":%u,\"tid\":%d,\"name\":\"%s\",\"ts\":%.3f,\"dur\":%.3f},\n",
                gpu, ROW_SECTIONS, lull_operation_name((enum lull_operation)span->index),
                us(span->begin_ns, origin_ns), us(span->end_ns, span->begin_ns));
    }
}

static void write_lowered(FILE *out, uint32_t gpu, const struct lull_spans *spans,
                          int64_t origin_ns)
{
    for (size_t i = 0; i < spans->count; i++) {
        const struct lull_span *span = &spans->items[i];

        fprintf(out,
                "{\"ph\":\"X\",\"pid\":%u,\"tid\":%d,\"name\":\"%u MHz\",\"ts\":%.3f,"
                "\"dur\":%.3f},\n",
                gpu, ROW_CLOCKS, span->index, us(span->begin_ns, origin_ns),
                us(span->end_ns, span->begin_ns));
    }
}

static void write_samples(FILE *out, uint32_t gpu, const struct lull_samples *samples,
                          int64_t origin_ns)
{
    for (size_t i = 0; i < samples->count; i++) {
        const struct lull_sample *sample = &samples->items[i];

        if (sample->reading.valid & LULL_READING_POWER)
            fprintf(out,
                    "{\"ph\":\"C\",\"pid\":%u,\"name\":\"power W\",\"ts\":%.3f,"
                    "\"args\":{\"W\":%.1f}},\n",
                    gpu, us(sample->time_ns, origin_ns), sample->reading.power_mw * 1e-3);
        if (sample->reading.valid & LULL_READING_SM_CLOCK)
            fprintf(out,
                    "{\"ph\":\"C\",\"pid\":%u,\"name\":\"SM clock MHz\",\"ts\":%.3f,"
                    "\"args\":{\"MHz\":%u}},\n",
                    gpu, us(sample->time_ns, origin_ns), sample->reading.sm_mhz);
    }
}

static int64_t earliest_ns(const struct lull_control *control)
{
    int64_t earliest = INT64_MAX;

    for (uint32_t i = 0; i < lull_control_gpu_count(control); i++) {
        const struct lull_samples *samples = &lull_control_log(control, i)->samples;

        if (samples->count > 0 && samples->items[0].time_ns < earliest)
            earliest = samples->items[0].time_ns;
    }
    return earliest == INT64_MAX ? 0 : earliest;
}

int lull_timeline_write(struct lull_devices *devices, const struct lull_control *control,
                        const char *directory, struct lull_error *err)
{
    int64_t origin_ns = earliest_ns(control);
    char path[PATH_MAX];
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    int result;

    if (out == NULL ||
        (size_t)snprintf(path, sizeof(path), "%s/trace.json", directory) >= sizeof(path))
        return lull_error_set(err, -ENOMEM, "%s: no memory for the timeline", directory);
    fprintf(out, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
    for (uint32_t i = 0; i < lull_control_gpu_count(control); i++) {
        const struct lull_run_log *log = lull_control_log(control, i);
        uint32_t device = lull_control_gpu(control, i)->device;

        write_names(out, device, lull_device_info(devices, device)->name);
        write_sections(out, device, &log->sections, origin_ns);
        write_lowered(out, device, &log->lowered, origin_ns);
        write_samples(out, device, &log->samples, origin_ns);
    }
    /* JSON allows no comma at the end: the last entry is a harmless one. */
    fprintf(out, "{\"ph\":\"M\",\"pid\":0,\"name\":\"process_sort_index\",\"args\":{}}\n]}\n");
    if (fclose(out) != 0) {
        free(text);
        return lull_error_set(err, -ENOMEM, "%s: no memory for the timeline", path);
    }
    result = lull_file_write_atomic(path, text, size, 0644, err);
    free(text);
    return result;
}
