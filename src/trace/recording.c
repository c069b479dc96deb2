/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/recording.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "trace/array.h"
#include "trace/chrome.h"

/* A node has 64 GPUs, and each a few operations and some hundred clocks. A file with more is not a
 * recording. */
enum { MAX_GPUS = 64, MAX_KINDS = 64 * 512 };

/* An event as far as it has been read. */
struct recording_event {
    int64_t ts_ns;
    int64_t dur_ns;
    int64_t process;
    int64_t milliwatts;
    int64_t mhz;
    char phase[4];
    char category[24];
    char name[32];
    char process_name[96];
};

struct recording_reading {
    const char *name; /* of the text, for messages */
    struct lull_error *err;
    struct lull_trace *trace;
    struct lull_run_recording *recording;
    struct recording_event event; /* being read */
};

bool lull_recording_sniff(const char *head, size_t size)
{
    static const char mark[] = "\"producer\":\"lull run\"";

    return lull_chrome_sniff(head, size) && memmem(head, size, mark, strlen(mark)) != NULL;
}

/* ---- GPUs -------------------------------------------------------------------------------- */

/* The GPU of a process: processes count from 1. NULL: none has that number. */
static struct lull_recorded_gpu *recording_find_gpu(struct lull_run_recording *recording,
                                                    int64_t process)
{
    for (size_t i = 0; i < recording->gpu_count; i++)
        if (recording->gpus[i].index == process - 1)
            return &recording->gpus[i];
    return NULL;
}

/* "GPU 3 NVIDIA A100-SXM4-40GB" */
static int recording_add_gpu(struct recording_reading *reading)
{
    struct lull_run_recording *const recording = reading->recording;
    struct lull_recorded_gpu gpu = {.index = reading->event.process - 1,
                                    .begin_ns = INT64_MAX,
                                    .watts.last_ns = LULL_TRACE_UNKNOWN,
                                    .mhz.last_ns = LULL_TRACE_UNKNOWN};
    const char *const text = reading->event.process_name;
    int end = 0;

    if (sscanf(text, "GPU %*u %n", &end) < 0 || end == 0 || gpu.index < 0 ||
        recording_find_gpu(recording, reading->event.process) != NULL ||
        recording->gpu_count == MAX_GPUS)
        return 0;
    snprintf(gpu.name, sizeof(gpu.name), "%s", text + end);
    return lull_trace_append(&recording->gpus, &recording->gpu_count, &gpu, sizeof(gpu),
                             reading->name, reading->err);
}

static void recording_extend(struct lull_recorded_gpu *gpu, int64_t begin_ns, int64_t end_ns)
{
    gpu->begin_ns = lull_earlier_ns(gpu->begin_ns, begin_ns);
    gpu->end_ns = lull_later_ns(gpu->end_ns, end_ns);
}

/* ---- events ------------------------------------------------------------------------------ */

static int recording_refuse(const struct recording_reading *reading, const char *what)
{
    return lull_error_set(reading->err, LULL_E_FORMAT,
                          "%s: event %llu %s; it is not as lull run writes it", reading->name,
                          (unsigned long long)reading->trace->events, what);
}

static int add_span(struct recording_reading *reading, struct lull_recorded_gpu *gpu,
                    bool is_lowered)
{
    const struct recording_event *const event = &reading->event;
    struct lull_run_recording *const recording = reading->recording;
    struct lull_recorded_kind kind = {
        .gpu = gpu->index, .is_lowered = is_lowered, .count = 1, .total_ns = event->dur_ns};

    recording_extend(gpu, event->ts_ns, event->ts_ns + event->dur_ns);
    for (size_t i = 0; i < recording->kind_count; i++) {
        struct lull_recorded_kind *const known = &recording->kinds[i];

        if (known->gpu != gpu->index || known->is_lowered != is_lowered ||
            strcmp(known->name, event->name) != 0)
            continue;
        if (known->total_ns > INT64_MAX - event->dur_ns)
            return recording_refuse(reading, "takes too long");
        known->count++;
        known->total_ns += event->dur_ns;
        return 0;
    }
    if (recording->kind_count == MAX_KINDS)
        return recording_refuse(reading, "is one of too many kinds");
    memcpy(kind.name, event->name, sizeof(kind.name));
    return lull_trace_append(&recording->kinds, &recording->kind_count, &kind, sizeof(kind),
                             reading->name, reading->err);
}

/* Adds a reading, at value, to an integral over time. One that is no later than the one before is
 * left out. */
static void recording_integrate(struct lull_recorded_integral *integral, int64_t time_ns,
                                double value)
{
    const int64_t length_ns = time_ns - integral->last_ns;

    if (length_ns <= 0)
        return;
    if (integral->last_ns >= 0) {
        integral->known_ns += length_ns;
        integral->value_s += 0.5 * (integral->last + value) * (double)length_ns * 1e-9;
    }
    integral->last_ns = time_ns;
    integral->last = value;
}

static void add_readings(const struct recording_event *event, struct lull_recorded_gpu *gpu)
{
    recording_extend(gpu, event->ts_ns, event->ts_ns);
    if (event->milliwatts >= 0)
        recording_integrate(&gpu->watts, event->ts_ns, (double)event->milliwatts * 1e-3);
    if (event->mhz >= 0)
        recording_integrate(&gpu->mhz, event->ts_ns, (double)event->mhz);
}

static int recording_keep_event(struct recording_reading *reading)
{
    const struct recording_event *const event = &reading->event;
    const bool is_lowered = strcmp(event->category, "lowered") == 0;
    struct lull_recorded_gpu *gpu;

    reading->trace->events++;
    if (strcmp(event->phase, "M") == 0)
        return strcmp(event->name, "process_name") == 0 ? recording_add_gpu(reading) : 0;
    if (strcmp(event->phase, "X") != 0 && strcmp(event->phase, "C") != 0)
        return 0;
    gpu = recording_find_gpu(reading->recording, event->process);
    if (gpu == NULL)
        return recording_refuse(reading, "belongs to a process that is not a GPU");
    if (event->ts_ns < 0)
        return recording_refuse(reading, "has no usable ts");
    if (event->phase[0] == 'C') {
        add_readings(event, gpu);
        return 0;
    }
    /* Times are at most INT64_MAX / 2, so their sums are times too. */
    if (event->dur_ns < 0)
        return recording_refuse(reading, "has no usable dur");
    if (is_lowered || strcmp(event->category, "communication") == 0)
        return add_span(reading, gpu, is_lowered);
    return 0;
}

/* ---- the tables -------------------------------------------------------------------------- */

static int recording_read_event(struct lull_json_reader *reader, void *object)
{
    static const struct lull_json_field arguments[] = {
        {LULL_JSON_TEXT("name", struct recording_event, process_name)},
        {LULL_JSON_SCALED("W", struct recording_event, milliwatts, 3, 0)},
        {LULL_JSON_INTEGER("MHz", struct recording_event, mhz, 0)},
        {NULL},
    };
    static const struct lull_json_field fields[] = {
        {LULL_JSON_TEXT("ph", struct recording_event, phase)},
        {LULL_JSON_INTEGER("pid", struct recording_event, process, 0)},
        {LULL_JSON_TEXT("cat", struct recording_event, category)},
        {LULL_JSON_TEXT("name", struct recording_event, name)},
        {LULL_JSON_SCALED("ts", struct recording_event, ts_ns, 3, 0)},
        {LULL_JSON_SCALED("dur", struct recording_event, dur_ns, 3, 0)},
        {LULL_JSON_OBJECT("args", arguments)},
        {NULL},
    };
    struct recording_reading *const reading = reader->context;
    int rc;

    (void)object;
    reading->event = (struct recording_event){.ts_ns = LULL_TRACE_UNKNOWN,
                                              .dur_ns = LULL_TRACE_UNKNOWN,
                                              .process = LULL_TRACE_UNKNOWN,
                                              .milliwatts = LULL_TRACE_UNKNOWN,
                                              .mhz = LULL_TRACE_UNKNOWN};
    rc = lull_json_read_fields(reader, fields, &reading->event);
    return rc < 0 ? rc : recording_keep_event(reading);
}

/* ---- order ------------------------------------------------------------------------------- */

static int recording_compare_gpus(const void *left, const void *right)
{
    const struct lull_recorded_gpu *const a = left;
    const struct lull_recorded_gpu *const b = right;

    return (a->index > b->index) - (a->index < b->index);
}

static int compare_kinds(const void *left, const void *right)
{
    const struct lull_recorded_kind *const a = left;
    const struct lull_recorded_kind *const b = right;

    if (a->gpu != b->gpu)
        return a->gpu < b->gpu ? -1 : 1;
    if (a->is_lowered != b->is_lowered)
        return a->is_lowered ? 1 : -1;
    if (a->total_ns != b->total_ns)
        return a->total_ns > b->total_ns ? -1 : 1;
    return strcmp(a->name, b->name);
}

static void recording_finish(struct lull_run_recording *recording)
{
    if (recording->gpu_count > 1)
        qsort(recording->gpus, recording->gpu_count, sizeof(*recording->gpus),
              recording_compare_gpus);
    if (recording->kind_count > 1)
        qsort(recording->kinds, recording->kind_count, sizeof(*recording->kinds), compare_kinds);
    for (size_t i = 0; i < recording->gpu_count; i++)
        if (recording->gpus[i].begin_ns == INT64_MAX)
            recording->gpus[i].begin_ns = 0;
}

/* ---- the whole --------------------------------------------------------------------------- */

int lull_recording_read(struct lull_source *source, const char *path,
                        const struct lull_trace_options *options, struct lull_trace *trace,
                        struct lull_error *err)
{
    static const struct lull_json_field other[] = {
        {LULL_JSON_TEXT("verdict", struct lull_run_recording, sentence)},
        {NULL},
    };
    static const struct lull_json_field fields[] = {
        {LULL_JSON_OBJECT("otherData", other)},
        {LULL_JSON_OBJECTS("traceEvents", recording_read_event)},
        {NULL},
    };
    struct recording_reading reading = {.name = path,
                                        .err = err,
                                        .trace = trace,
                                        .recording = calloc(1, sizeof(*trace->recording))};
    const struct lull_chrome_reading chrome = {fields, recording_read_event, reading.recording,
                                               &reading};
    struct lull_json_loss loss;
    int rc;

    trace->recording = reading.recording;
    if (reading.recording == NULL)
        return lull_error_set(err, -ENOMEM, "%s: not enough memory to read it", path);
    rc = lull_chrome_read(source, path, options, &chrome, &loss, &trace->text_bytes, err);
    if (rc >= 0)
        recording_finish(reading.recording);
    return rc;
}

void lull_recording_destroy(struct lull_run_recording *recording)
{
    if (recording == NULL)
        return;
    free(recording->gpus);
    free(recording->kinds);
    free(recording);
}
