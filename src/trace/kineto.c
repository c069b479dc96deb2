/*
 * A trace's objects are described by tables: which keys are wanted, of what kind, and where they
 * go. Everything else is passed over. An object is judged when it is complete, so the order of its
 * keys does not matter.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "trace/kineto.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "trace/array.h"
#include "trace/chrome.h"
#include "trace/communication.h"
#include "trace/json_fields.h"
#include "trace/string_set.h"

enum { MAX_DEVICES = 64 };

/* One of the events, as far as it has been read. */
struct kineto_event {
    int64_t ts_ns;
    int64_t dur_ns;
    int64_t device;
    int64_t stream;
    int64_t correlation;
    int64_t elements;
    int64_t ranks;
    char phase[4];
    char category[24];
    char collective[48];
    char dtype[24];
    char group[LULL_STRING_SET_BYTES + 1];
    char name[LULL_JSON_MAX_TEXT + 1];
};

struct kineto_device {
    int64_t id;
    char name[64];
};

struct kineto_reading {
    const char *name; /* of the text, for messages */
    struct lull_error *err;
    struct lull_trace *trace;
    struct kineto_device devices[MAX_DEVICES];
    uint32_t device_count;
    const regex_t *others; /* further names that communicate; null: none */
    bool *computing;       /* of the names seen so far: they compute */
    size_t computing_count;
    struct kineto_event event; /* being read */
};

/* ---- what is kept ---- */

/* Returns the bytes of elements of a PyTorch type ("Float", "BFloat16"); -1: unknown. */
static int64_t bytes_of(int64_t elements, const char *dtype)
{
    static const struct {
        const char *dtype;
        int64_t bytes;
    } sizes[] = {
        {"Float", 4}, {"Half", 2}, {"BFloat16", 2}, {"Double", 8}, {"Long", 8},         {"Int", 4},
        {"Short", 2}, {"Char", 1}, {"Byte", 1},     {"Bool", 1},   {"ComplexFloat", 8},
    };

    if (strncmp(dtype, "Float8", strlen("Float8")) == 0)
        return elements;
    if (elements < 0 || elements > INT64_MAX / 16)
        return -1;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        if (strcmp(sizes[i].dtype, dtype) == 0)
            return elements * sizes[i].bytes;
    return -1;
}

static void begin_event(struct kineto_event *event)
{
    event->ts_ns = event->dur_ns = event->device = event->stream = LULL_TRACE_UNKNOWN;
    event->correlation = event->elements = event->ranks = LULL_TRACE_UNKNOWN;
    event->phase[0] = event->category[0] = event->name[0] = '\0';
    event->collective[0] = event->dtype[0] = event->group[0] = '\0';
}

/* Finds out what a kernel communicates, null for nothing. Most kernels compute, and their names are
 * looked at once. */
static int find_operation(struct kineto_reading *reading, uint32_t name, const char **operation_out)
{
    const struct kineto_event *const event = &reading->event;

    while (reading->computing_count <= name) {
        static const bool unknown = false;
        const int rc = lull_trace_append(&reading->computing, &reading->computing_count, &unknown,
                                         sizeof(unknown), reading->name, reading->err);

        if (rc < 0)
            return rc;
    }
    *operation_out = NULL;
    if (!reading->computing[name])
        *operation_out = lull_communication_of(event->name, event->collective, reading->others);
    reading->computing[name] = *operation_out == NULL;
    return 0;
}

/* Of copies only those that communicate, between peers, are kept. */
static int add_kernel(struct kineto_reading *reading, bool is_copy)
{
    const struct kineto_event *const event = &reading->event;
    struct lull_trace *const trace = reading->trace;
    struct lull_trace_kernel kernel = {
        .begin_ns = event->ts_ns,
        .end_ns = event->ts_ns + event->dur_ns,
        .bytes = bytes_of(event->elements, event->dtype),
        .ranks = event->ranks,
        .device = event->device,
        .stream = event->stream,
        .correlation = event->correlation,
    };
    int rc =
        lull_string_set_add(trace->strings, event->name, &kernel.name, reading->name, reading->err);

    if (rc < 0)
        return rc;
    rc = find_operation(reading, kernel.name, &kernel.operation);
    if (rc < 0)
        return rc;
    if (is_copy && kernel.operation == NULL)
        return 0;
    rc = lull_string_set_add(trace->strings, event->group, &kernel.group, reading->name,
                             reading->err);
    if (rc < 0)
        return rc;
    return lull_trace_append(&trace->kernels, &trace->kernel_count, &kernel, sizeof(kernel),
                             reading->name, reading->err);
}

static int add_launch(struct kineto_reading *reading)
{
    const struct kineto_event *const event = &reading->event;
    const struct lull_trace_launch launch = {event->correlation, event->ts_ns,
                                             event->ts_ns + event->dur_ns};

    return lull_trace_append(&reading->trace->launches, &reading->trace->launch_count, &launch,
                             sizeof(launch), reading->name, reading->err);
}

static int add_step(struct kineto_reading *reading, int64_t number)
{
    const struct kineto_event *const event = &reading->event;
    const struct lull_trace_step step = {number, event->ts_ns, event->ts_ns + event->dur_ns};

    return lull_trace_append(&reading->trace->steps, &reading->trace->step_count, &step,
                             sizeof(step), reading->name, reading->err);
}

static bool is_launch(const struct kineto_event *event)
{
    return event->correlation >= 0 &&
           (strncasecmp(event->category, "cuda_", strlen("cuda_")) == 0 ||
            strcasecmp(event->category, "runtime") == 0) &&
           strstr(event->name, "Launch") != NULL;
}

/* Only the marks on the CPU count: their shadows on the GPU's timeline have another length. */
static bool is_step(const struct kineto_event *event, int64_t *number_out)
{
    static const char prefix[] = "ProfilerStep#";

    return strncmp(event->name, prefix, strlen(prefix)) == 0 &&
           strncasecmp(event->category, "gpu_", strlen("gpu_")) != 0 &&
           lull_text_parse_int(event->name + strlen(prefix), 0, INT64_MAX, number_out) == 0;
}

/* Only complete events (phase X) have a duration; kernels without usable times are counted, because
 * a trace of many is not to be trusted. */
static int keep_event(struct kineto_reading *reading)
{
    const struct kineto_event *const event = &reading->event;
    /* Times are at most INT64_MAX / 2, so their sums are times too. */
    const bool has_times = event->ts_ns >= 0 && event->dur_ns >= 0;
    const bool is_kernel = strcasecmp(event->category, "kernel") == 0;
    int64_t number;

    reading->trace->events++;
    if (strcmp(event->phase, "X") != 0)
        return 0;
    reading->trace->unusable_kernels += is_kernel && !has_times;
    if (!has_times)
        return 0;
    if (is_kernel || strcasecmp(event->category, "gpu_memcpy") == 0)
        return add_kernel(reading, !is_kernel);
    if (is_launch(event))
        return add_launch(reading);
    if (is_step(event, &number))
        return add_step(reading, number);
    return 0;
}

/* ---- the tables ---- */

static int read_event(struct lull_json_reader *reader, void *object)
{
    static const struct lull_json_field arguments[] = {
        {LULL_JSON_INTEGER("device", struct kineto_event, device, 0)},
        {LULL_JSON_INTEGER("stream", struct kineto_event, stream, 0)},
        {LULL_JSON_INTEGER("correlation", struct kineto_event, correlation, 0)},
        {LULL_JSON_TEXT("Collective name", struct kineto_event, collective)},
        {LULL_JSON_INTEGER("In msg nelems", struct kineto_event, elements, 0)},
        {LULL_JSON_TEXT("dtype", struct kineto_event, dtype)},
        {LULL_JSON_INTEGER("Group size", struct kineto_event, ranks, 0)},
        {LULL_JSON_TEXT("Process Group Name", struct kineto_event, group)},
        {NULL},
    };
    static const struct lull_json_field fields[] = {
        {LULL_JSON_TEXT("ph", struct kineto_event, phase)},
        {LULL_JSON_TEXT("cat", struct kineto_event, category)},
        {LULL_JSON_TEXT("name", struct kineto_event, name)},
        {LULL_JSON_SCALED("ts", struct kineto_event, ts_ns, 3, 0)},
        {LULL_JSON_SCALED("dur", struct kineto_event, dur_ns, 3, 0)},
        {LULL_JSON_OBJECT("args", arguments)},
        {NULL},
    };
    struct kineto_reading *const reading = reader->context;
    int rc;

    (void)object;
    begin_event(&reading->event);
    rc = lull_json_read_fields(reader, fields, &reading->event);
    return rc < 0 ? rc : keep_event(reading);
}

static int read_device(struct lull_json_reader *reader, void *object)
{
    static const struct lull_json_field fields[] = {
        {LULL_JSON_INTEGER("id", struct kineto_device, id, 0)},
        {LULL_JSON_TEXT("name", struct kineto_device, name)},
        {NULL},
    };
    struct kineto_reading *const reading = reader->context;
    struct kineto_device device = {.id = LULL_TRACE_UNKNOWN};
    const int rc = lull_json_read_fields(reader, fields, &device);

    (void)object;
    if (rc >= 0 && reading->device_count < MAX_DEVICES)
        reading->devices[reading->device_count++] = device;
    return rc;
}

/* ---- order ---- */

static int compare(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int compare_kernels(const void *left, const void *right)
{
    const struct lull_trace_kernel *const a = left;
    const struct lull_trace_kernel *const b = right;
    int order = compare(a->begin_ns, b->begin_ns);

    if (order == 0)
        order = compare(a->end_ns, b->end_ns);
    if (order == 0)
        order = compare(a->stream, b->stream);
    return order;
}

static int compare_launches(const void *left, const void *right)
{
    const struct lull_trace_launch *const a = left;
    const struct lull_trace_launch *const b = right;
    const int order = compare(a->correlation, b->correlation);

    return order != 0 ? order : compare(a->begin_ns, b->begin_ns);
}

static int compare_step_numbers(const void *left, const void *right)
{
    const struct lull_trace_step *const a = left;
    const struct lull_trace_step *const b = right;
    const int order = compare(a->number, b->number);

    return order != 0 ? order : compare(a->begin_ns, b->begin_ns);
}

static int compare_step_begins(const void *left, const void *right)
{
    const struct lull_trace_step *const a = left;
    const struct lull_trace_step *const b = right;

    return compare(a->begin_ns, b->begin_ns);
}

/* qsort must not be given a null array. */
static void sort(void *array, size_t count, size_t size, int (*order)(const void *, const void *))
{
    if (count > 1)
        qsort(array, count, size, order);
}

/* A step may be marked by several threads; the earliest mark of each number is kept. */
static void sort_steps(struct lull_trace *trace)
{
    size_t kept = 0;

    sort(trace->steps, trace->step_count, sizeof(*trace->steps), compare_step_numbers);
    for (size_t i = 0; i < trace->step_count; i++)
        if (kept == 0 || trace->steps[i].number != trace->steps[kept - 1].number)
            trace->steps[kept++] = trace->steps[i];
    trace->step_count = kept;
    sort(trace->steps, trace->step_count, sizeof(*trace->steps), compare_step_begins);
}

/* A node's trace lists all its GPUs, so the name is that of the device that the first kernel ran
 * on. */
static void find_gpu(struct kineto_reading *reading)
{
    struct lull_trace *const trace = reading->trace;
    uint32_t found = 0;

    if (reading->device_count == 0)
        return;
    for (uint32_t i = 0; i < reading->device_count; i++)
        if (trace->kernel_count > 0 && reading->devices[i].id == trace->kernels[0].device)
            found = i;
    memcpy(trace->gpu, reading->devices[found].name, sizeof(trace->gpu));
}

static void finish(struct kineto_reading *reading)
{
    struct lull_trace *const trace = reading->trace;

    sort(trace->kernels, trace->kernel_count, sizeof(*trace->kernels), compare_kernels);
    sort(trace->launches, trace->launch_count, sizeof(*trace->launches), compare_launches);
    sort_steps(trace);
    find_gpu(reading);
}

/* ---- the whole ---- */

int lull_kineto_read(struct lull_source *source, const char *path,
                     const struct lull_trace_options *options, struct lull_trace *trace,
                     struct lull_error *err)
{
    static const struct lull_json_field distributed[] = {
        {LULL_JSON_INTEGER("rank", struct lull_trace, rank, 0)},
        {LULL_JSON_INTEGER("world_size", struct lull_trace, world_size, 0)},
        {NULL},
    };
    static const struct lull_json_field fields[] = {
        {LULL_JSON_OBJECTS("traceEvents", read_event)},
        {LULL_JSON_OBJECTS("deviceProperties", read_device)},
        {LULL_JSON_OBJECT("distributedInfo", distributed)},
        {NULL},
    };
    struct kineto_reading *const reading = calloc(1, sizeof(*reading));
    const struct lull_chrome_reading chrome = {fields, read_event, trace, reading};
    int rc;

    if (reading == NULL)
        return lull_error_set(err, -ENOMEM, "%s: there is no memory to read it", path);
    reading->name = path;
    reading->err = err;
    reading->trace = trace;
    reading->others = options != NULL ? options->communicates : NULL;
    rc = lull_chrome_read(source, path, options, &chrome, &trace->text_bytes, err);
    if (rc >= 0)
        finish(reading);
    free(reading->computing);
    free(reading);
    return rc;
}
