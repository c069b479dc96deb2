/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/report/timeline.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include <jansson.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json_string.h"

/* Rows of one GPU in the picture. Numbers of processes and threads are each used once: viewers
 * treat thread numbers as unique on one machine, and 0 as the kernel's. */
enum { ROW_SECTIONS, ROW_CLOCKS, ROWS };

struct timeline_text {
    struct lull_devices *devices;
    const struct lull_control *control;
    const char *sentence;
    int64_t origin_ns;
};

static double timeline_file_to_us(int64_t time_ns, int64_t origin_ns)
{
    return (double)(time_ns - origin_ns) * 1e-3;
}

static uint32_t process_of(uint32_t gpu)
{
    return gpu + 1;
}

static uint32_t thread_of(uint32_t gpu, uint32_t row)
{
    return LULL_DEVICE_MAX_GPUS + 1 + gpu * ROWS + row;
}

/* Writes a text as a JSON string; "" if memory runs out for it. */
static void write_quoted(FILE *out, const char *text)
{
    json_t *const string = lull_json_string(text);
    char *const quoted = json_dumps(string, JSON_ENCODE_ANY);

    fputs(quoted != NULL ? quoted : "\"\"", out);
    free(quoted);
    json_decref(string);
}

static void timeline_file_write_name(FILE *out, uint32_t gpu, uint32_t row, const char *name)
{
    fprintf(out,
            ",\n{\"ph\":\"M\",\"pid\":%u,\"tid\":%u,\"name\":\"thread_name\","
            "\"args\":{\"name\":\"%s\"}}",
            process_of(gpu), thread_of(gpu, row), name);
}

/* The first event of all has no comma before it. */
static void write_names(FILE *out, uint32_t gpu, const char *name, bool is_first)
{
    char title[32 + sizeof(((struct lull_device_info *)0)->name)];

    snprintf(title, sizeof(title), "GPU %u %s", gpu, name);
    fprintf(out, "%s\n{\"ph\":\"M\",\"pid\":%u,\"name\":\"process_name\",\"args\":{\"name\":",
            is_first ? "" : ",", process_of(gpu));
    write_quoted(out, title);
    fprintf(out,
            "}},\n{\"ph\":\"M\",\"pid\":%u,\"name\":\"process_sort_index\","
            "\"args\":{\"sort_index\":%u}}",
            process_of(gpu), gpu);
    timeline_file_write_name(out, gpu, ROW_SECTIONS, "communication");
    timeline_file_write_name(out, gpu, ROW_CLOCKS, "lowered clock");
}

static void write_sections(FILE *out, uint32_t gpu, const struct lull_spans *spans,
                           int64_t origin_ns)
{
    for (size_t i = 0; i < spans->count; i++) {
        const struct lull_span *span = &spans->items[i];

        fprintf(out,
                ",\n{\"ph\":\"X\",\"pid\":%u,\"tid\":%u,\"cat\":\"communication\","
                "\"name\":\"%s\",\"ts\":%.3f,\"dur\":%.3f}",
                process_of(gpu), thread_of(gpu, ROW_SECTIONS),
                lull_operation_name((enum lull_operation)span->index),
                timeline_file_to_us(span->begin_ns, origin_ns),
                timeline_file_to_us(span->end_ns, span->begin_ns));
    }
}

static void write_lowered(FILE *out, uint32_t gpu, const struct lull_spans *spans,
                          int64_t origin_ns)
{
    for (size_t i = 0; i < spans->count; i++) {
        const struct lull_span *span = &spans->items[i];

        fprintf(out,
                ",\n{\"ph\":\"X\",\"pid\":%u,\"tid\":%u,\"cat\":\"lowered\","
                "\"name\":\"%u MHz\",\"ts\":%.3f,\"dur\":%.3f}",
                process_of(gpu), thread_of(gpu, ROW_CLOCKS), span->index,
                timeline_file_to_us(span->begin_ns, origin_ns),
                timeline_file_to_us(span->end_ns, span->begin_ns));
    }
}

static void write_samples(FILE *out, uint32_t gpu, const struct lull_samples *samples,
                          int64_t origin_ns)
{
    for (size_t i = 0; i < samples->count; i++) {
        const struct lull_sample *sample = &samples->items[i];

        if (sample->reading.valid & LULL_READING_POWER)
            fprintf(out,
                    ",\n{\"ph\":\"C\",\"pid\":%u,\"name\":\"power W\",\"ts\":%.3f,"
                    "\"args\":{\"W\":%.1f}}",
                    process_of(gpu), timeline_file_to_us(sample->time_ns, origin_ns),
                    sample->reading.power_mw * 1e-3);
        if (sample->reading.valid & LULL_READING_SM_CLOCK)
            fprintf(out,
                    ",\n{\"ph\":\"C\",\"pid\":%u,\"name\":\"SM clock MHz\",\"ts\":%.3f,"
                    "\"args\":{\"MHz\":%u}}",
                    process_of(gpu), timeline_file_to_us(sample->time_ns, origin_ns),
                    sample->reading.sm_mhz);
    }
}

static int64_t earliest_ns(const struct lull_control *control)
{
    int64_t earliest = INT64_MAX;

    for (uint32_t i = 0; i < lull_control_gpu_count(control); i++) {
        const struct lull_run_log *log = lull_control_log(control, i);

        if (log->samples.count > 0)
            earliest = lull_earlier_ns(earliest, log->samples.items[0].time_ns);
        if (log->sections.count > 0)
            earliest = lull_earlier_ns(earliest, log->sections.items[0].begin_ns);
        if (log->lowered.count > 0)
            earliest = lull_earlier_ns(earliest, log->lowered.items[0].begin_ns);
    }
    return earliest == INT64_MAX ? 0 : earliest;
}

static void write_sentence(FILE *out, const char *sentence)
{
    fputs(",\"verdict\":", out);
    write_quoted(out, sentence);
}

static int write_timeline(const void *context, FILE *out)
{
    const struct timeline_text *const timeline = context;
    const int64_t origin_ns = timeline->origin_ns;

    fprintf(out, "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"producer\":\"lull run\"");
    if (timeline->sentence != NULL)
        write_sentence(out, timeline->sentence);
    fprintf(out, "},\"traceEvents\":[");
    for (uint32_t i = 0; i < lull_control_gpu_count(timeline->control); i++) {
        const struct lull_run_log *log = lull_control_log(timeline->control, i);
        const uint32_t device = lull_control_gpu(timeline->control, i)->device;

        write_names(out, device, lull_device_info(timeline->devices, device)->name, i == 0);
        write_sections(out, device, &log->sections, origin_ns);
        write_lowered(out, device, &log->lowered, origin_ns);
        write_samples(out, device, &log->samples, origin_ns);
    }
    fprintf(out, "\n]}\n");
    return 0;
}

int lull_timeline_write(struct lull_devices *devices, const struct lull_control *control,
                        const char *sentence, const char *directory, struct lull_error *err)
{
    const struct timeline_text timeline = {devices, control, sentence, earliest_ns(control)};
    char path[PATH_MAX];

    if ((size_t)snprintf(path, sizeof(path), "%s/trace.json", directory) >= sizeof(path))
        return lull_error_set(err, -ENAMETOOLONG, "%s: the path is too long", directory);
    return lull_file_write_with(path, write_timeline, &timeline, err);
}
