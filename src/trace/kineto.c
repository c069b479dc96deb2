/*
 * A trace's objects are described by tables: which keys are wanted, of what kind, and where they
 * go. Everything else is passed over. An object is judged when it is complete, so the order of its
 * keys does not matter.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "trace/kineto.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "trace/communication.h"
#include "trace/decimal.h"
#include "trace/json.h"
#include "trace/source.h"
#include "trace/string_set.h"

enum { MAX_DEVICES = 64 };

/* One of the events, as far as it has been read. */
struct kineto_event {
    int64_t ts_ns;
    int64_t dur_ns;
    int64_t device;
    int64_t stream;
    int64_t correlation;
    int64_t external_id;
    int64_t elements;
    int64_t ranks;
    char phase[4];
    char category[24];
    char collective[48];
    char dtype[24];
    char group[LULL_STRING_SET_BYTES + 1];
    char name[LULL_JSON_MAX_TEXT + 1];
};

struct device {
    int64_t id;
    char name[64];
};

struct kineto_reader {
    const char *name; /* of the text, for messages */
    struct lull_json *json;
    struct lull_error *err;
    struct lull_trace trace;
    size_t kernel_capacity;
    size_t launch_capacity;
    size_t step_capacity;
    struct device device; /* being read */
    struct device devices[MAX_DEVICES];
    uint32_t device_count;
    struct kineto_event event;
};

/* ---- the tables ---- */

enum kineto_kind { KIND_NUMBER, KIND_MICROSECONDS, KIND_TEXT, KIND_OBJECT, KIND_LIST };

struct shape;

struct kineto_field {
    const char *key;
    size_t length; /* of the key */
    enum kineto_kind kind;
    size_t offset; /* in struct kineto_reader: an int64_t, or text with its end */
    size_t size;
    const struct shape *shape; /* of an object, or of the objects in a list */
};

struct shape {
    const struct kineto_field *fields;
    size_t count;
    void (*begin)(struct kineto_reader *reader);
    int (*end)(struct kineto_reader *reader);
};

#define FIELD(key, kind, offset, size, shape)                                                      \
    {                                                                                              \
        key, sizeof(key) - 1, kind, offset, size, shape                                            \
    }
#define NUMBER(key, member) FIELD(key, KIND_NUMBER, offsetof(struct kineto_reader, member), 0, NULL)
#define MICROSECONDS(key, member)                                                                  \
    FIELD(key, KIND_MICROSECONDS, offsetof(struct kineto_reader, member), 0, NULL)
#define TEXT(key, member)                                                                          \
    FIELD(key, KIND_TEXT, offsetof(struct kineto_reader, member),                                  \
          sizeof(((struct kineto_reader *)0)->member), NULL)
#define OBJECT(key, shape) FIELD(key, KIND_OBJECT, 0, 0, shape)
#define LIST(key, shape) FIELD(key, KIND_LIST, 0, 0, shape)
#define SHAPE(fields, begin, end)                                                                  \
    {                                                                                              \
        fields, sizeof(fields) / sizeof(fields[0]), begin, end                                     \
    }

static void begin_event(struct kineto_reader *reader);
static int end_event(struct kineto_reader *reader);
static void begin_device(struct kineto_reader *reader);
static int end_device(struct kineto_reader *reader);

static const struct kineto_field argument_fields[] = {
    NUMBER("External id", event.external_id),
    NUMBER("device", event.device),
    NUMBER("stream", event.stream),
    NUMBER("correlation", event.correlation),
    TEXT("Collective name", event.collective),
    NUMBER("In msg nelems", event.elements),
    TEXT("dtype", event.dtype),
    NUMBER("Group size", event.ranks),
    TEXT("Process Group Name", event.group),
};
static const struct shape arguments = SHAPE(argument_fields, NULL, NULL);

static const struct kineto_field event_fields[] = {
    TEXT("ph", event.phase),         TEXT("cat", event.category),       TEXT("name", event.name),
    MICROSECONDS("ts", event.ts_ns), MICROSECONDS("dur", event.dur_ns), OBJECT("args", &arguments),
};
static const struct shape events = SHAPE(event_fields, begin_event, end_event);

static const struct kineto_field device_fields[] = {NUMBER("id", device.id),
                                                    TEXT("name", device.name)};
static const struct shape devices = SHAPE(device_fields, begin_device, end_device);

static const struct kineto_field distributed_fields[] = {NUMBER("rank", trace.rank),
                                                         NUMBER("world_size", trace.world_size)};
static const struct shape distributed = SHAPE(distributed_fields, NULL, NULL);

static const struct kineto_field root_fields[] = {
    LIST("traceEvents", &events),
    LIST("deviceProperties", &devices),
    OBJECT("distributedInfo", &distributed),
    NUMBER("baseTimeNanoseconds", trace.base_ns),
};
static const struct shape root = SHAPE(root_fields, NULL, NULL);

/* ---- reading by them ---- */

static int read_object(struct kineto_reader *reader, const struct shape *shape);
static int read_list(struct kineto_reader *reader, const struct shape *shape);

static const struct kineto_field *find_field(const struct shape *shape,
                                             const struct lull_json_text *key)
{
    for (size_t i = 0; i < shape->count; i++) {
        const struct kineto_field *const field = &shape->fields[i];

        if (field->length == key->length && memcmp(field->key, key->bytes, key->length) == 0)
            return field;
    }
    return NULL;
}

/* A value that is not what its key promises is as good as missing. */
static void store(struct kineto_reader *reader, const struct kineto_field *field,
                  const struct lull_json_text *text)
{
    void *const place = (char *)reader + field->offset;

    if (field->kind == KIND_TEXT) {
        const size_t length = text->length < field->size ? text->length : field->size - 1;

        memcpy(place, text->bytes, length);
        ((char *)place)[length] = '\0';
    } else if (field->kind == KIND_NUMBER) {
        (void)lull_decimal_parse(text->bytes, text->length, 0, place);
    } else if (field->kind == KIND_MICROSECONDS) {
        (void)lull_decimal_parse(text->bytes, text->length, 3, place);
    }
}

static int read_field(struct kineto_reader *reader, const struct kineto_field *field)
{
    struct lull_json_text text;
    const int token = lull_json_next(reader->json, &text, reader->err);

    switch (token) {
    case LULL_JSON_OBJECT_BEGIN:
        return field->kind == KIND_OBJECT ? read_object(reader, field->shape)
                                          : lull_json_leave(reader->json, reader->err);
    case LULL_JSON_ARRAY_BEGIN:
        return field->kind == KIND_LIST ? read_list(reader, field->shape)
                                        : lull_json_leave(reader->json, reader->err);
    case LULL_JSON_STRING:
    case LULL_JSON_SCALAR:
        store(reader, field, &text);
        return 0;
    default:
        return token;
    }
}

/* The rest of an object that has just begun. */
static int read_object(struct kineto_reader *reader, const struct shape *shape)
{
    if (shape->begin != NULL)
        shape->begin(reader);
    for (;;) {
        struct lull_json_text key;
        const int token = lull_json_next(reader->json, &key, reader->err);
        const struct kineto_field *field;
        int result;

        if (token < 0)
            return token;
        if (token != LULL_JSON_KEY) /* the end */
            return shape->end != NULL ? shape->end(reader) : 0;
        field = find_field(shape, &key);
        result =
            field != NULL ? read_field(reader, field) : lull_json_skip(reader->json, reader->err);
        if (result < 0)
            return result;
    }
}

/* The rest of an array that has just begun; what is no object in it is passed over. */
static int read_list(struct kineto_reader *reader, const struct shape *shape)
{
    for (;;) {
        struct lull_json_text text;
        int result = lull_json_next(reader->json, &text, reader->err);

        if (result == LULL_JSON_ARRAY_END)
            return 0;
        if (result == LULL_JSON_OBJECT_BEGIN)
            result = read_object(reader, shape);
        else if (result == LULL_JSON_ARRAY_BEGIN)
            result = lull_json_leave(reader->json, reader->err);
        if (result < 0)
            return result;
    }
}

static int read_text(struct kineto_reader *reader)
{
    struct lull_json_text text;
    int result = lull_json_next(reader->json, &text, reader->err);

    if (result == LULL_JSON_OBJECT_BEGIN)
        result = read_object(reader, &root);
    else if (result == LULL_JSON_ARRAY_BEGIN)
        result = read_list(reader, &events);
    else if (result >= 0)
        return lull_error_set(reader->err, LULL_E_FORMAT,
                              "%s: byte 0, line 1: this is no trace: it should begin with { or [",
                              reader->name);
    return result < 0 ? result : lull_json_next(reader->json, &text, reader->err);
}

/* ---- what is kept ---- */

static int no_memory(const struct kineto_reader *reader)
{
    return lull_error_set(reader->err, -ENOMEM, "%s: no memory for more than %zu kernels",
                          reader->name, reader->trace.kernel_count);
}

/* The array with room for one more; NULL: no memory, and the array is as it was. */
static void *with_room(void *array, size_t count, size_t *capacity, size_t size)
{
    const size_t larger = *capacity > 0 ? 2 * *capacity : 1024;
    void *moved;

    if (count < *capacity)
        return array;
    if (larger > SIZE_MAX / 2 / size)
        return NULL;
    moved = realloc(array, larger * size);
    if (moved != NULL)
        *capacity = larger;
    return moved;
}

static void begin_event(struct kineto_reader *reader)
{
    struct kineto_event *const event = &reader->event;

    event->ts_ns = event->dur_ns = event->device = event->stream = LULL_TRACE_UNKNOWN;
    event->correlation = event->external_id = LULL_TRACE_UNKNOWN;
    event->elements = event->ranks = LULL_TRACE_UNKNOWN;
    event->phase[0] = event->category[0] = event->name[0] = '\0';
    event->collective[0] = event->dtype[0] = event->group[0] = '\0';
}

/* Times are at most INT64_MAX / 2, so their sums are times too. */
static bool has_times(const struct kineto_event *event)
{
    return event->ts_ns >= 0 && event->dur_ns >= 0;
}

static int add_kernel(struct kineto_reader *reader)
{
    const struct kineto_event *const event = &reader->event;
    struct lull_trace *const trace = &reader->trace;
    struct lull_trace_kernel *kernels;
    int64_t name;
    int64_t group;

    if (!has_times(event)) {
        trace->unusable_kernels++;
        return 0;
    }
    kernels =
        with_room(trace->kernels, trace->kernel_count, &reader->kernel_capacity, sizeof(*kernels));
    if (kernels == NULL)
        return no_memory(reader);
    trace->kernels = kernels;
    name = lull_string_set_add(trace->strings, event->name);
    group = lull_string_set_add(trace->strings, event->group);
    if (name < 0 || group < 0)
        return no_memory(reader);
    kernels[trace->kernel_count++] = (struct lull_trace_kernel){
        .begin_ns = event->ts_ns,
        .end_ns = event->ts_ns + event->dur_ns,
        .operation = lull_communication_operation(event->name, event->collective),
        .bytes = lull_communication_bytes(event->elements, event->dtype),
        .ranks = event->ranks,
        .device = event->device,
        .stream = event->stream,
        .correlation = event->correlation,
        .external_id = event->external_id,
        .name = (uint32_t)name,
        .group = (uint32_t)group,
    };
    return 0;
}

static int add_launch(struct kineto_reader *reader)
{
    const struct kineto_event *const event = &reader->event;
    struct lull_trace *const trace = &reader->trace;
    struct lull_trace_launch *const launches = with_room(
        trace->launches, trace->launch_count, &reader->launch_capacity, sizeof(*launches));

    if (launches == NULL)
        return no_memory(reader);
    trace->launches = launches;
    launches[trace->launch_count++] =
        (struct lull_trace_launch){event->correlation, event->ts_ns, event->ts_ns + event->dur_ns};
    return 0;
}

static int add_step(struct kineto_reader *reader, int64_t number)
{
    const struct kineto_event *const event = &reader->event;
    struct lull_trace *const trace = &reader->trace;
    struct lull_trace_step *const steps =
        with_room(trace->steps, trace->step_count, &reader->step_capacity, sizeof(*steps));

    if (steps == NULL)
        return no_memory(reader);
    trace->steps = steps;
    steps[trace->step_count++] =
        (struct lull_trace_step){number, event->ts_ns, event->ts_ns + event->dur_ns};
    return 0;
}

static bool is_launch(const struct kineto_event *event)
{
    return event->correlation >= 0 &&
           (strncasecmp(event->category, "cuda_", strlen("cuda_")) == 0 ||
            strcasecmp(event->category, "runtime") == 0) &&
           strstr(event->name, "Launch") != NULL;
}

/* Marks of the CPU only: their shadows on the GPU's timeline are of another length. */
static bool is_step(const struct kineto_event *event, int64_t *number_out)
{
    static const char prefix[] = "ProfilerStep#";

    return strncmp(event->name, prefix, strlen(prefix)) == 0 &&
           strncasecmp(event->category, "gpu_", strlen("gpu_")) != 0 &&
           lull_text_parse_int(event->name + strlen(prefix), 0, INT64_MAX, number_out) == 0;
}

static int end_event(struct kineto_reader *reader)
{
    const struct kineto_event *const event = &reader->event;
    int64_t number;

    reader->trace.events++;
    if (strcmp(event->phase, "X") != 0)
        return 0;
    if (strcasecmp(event->category, "kernel") == 0)
        return add_kernel(reader);
    if (!has_times(event))
        return 0;
    if (is_launch(event))
        return add_launch(reader);
    if (is_step(event, &number))
        return add_step(reader, number);
    return 0;
}

static void begin_device(struct kineto_reader *reader)
{
    reader->device = (struct device){.id = LULL_TRACE_UNKNOWN};
}

static int end_device(struct kineto_reader *reader)
{
    if (reader->device_count < MAX_DEVICES)
        reader->devices[reader->device_count++] = reader->device;
    return 0;
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
    return order != 0 ? order : compare(a->stream, b->stream);
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

/* qsort must not be given NULL. */
static void sort(void *array, size_t count, size_t size, int (*order)(const void *, const void *))
{
    if (count > 1)
        qsort(array, count, size, order);
}

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

static void find_gpu(struct kineto_reader *reader)
{
    struct lull_trace *const trace = &reader->trace;
    uint32_t found = 0;

    if (reader->device_count == 0)
        return;
    for (uint32_t i = 0; i < reader->device_count; i++)
        if (trace->kernel_count > 0 && reader->devices[i].id == trace->kernels[0].device)
            found = i;
    memcpy(trace->gpu, reader->devices[found].name, sizeof(trace->gpu));
}

static void finish(struct kineto_reader *reader)
{
    struct lull_trace *const trace = &reader->trace;

    sort(trace->kernels, trace->kernel_count, sizeof(*trace->kernels), compare_kernels);
    sort(trace->launches, trace->launch_count, sizeof(*trace->launches), compare_launches);
    sort_steps(trace);
    find_gpu(reader);
    trace->text_bytes = lull_json_offset(reader->json);
}

/* ---- where the text comes from ---- */

static int read_trace(const char *name, lull_json_fill fill, void *context,
                      struct lull_trace *trace_out, struct lull_error *err)
{
    struct kineto_reader *const reader = calloc(1, sizeof(*reader));
    int result = -ENOMEM;

    if (reader == NULL)
        return lull_error_set(err, -ENOMEM, "%s: no memory", name);
    reader->name = name;
    reader->err = err;
    reader->trace.rank = reader->trace.world_size = reader->trace.base_ns = LULL_TRACE_UNKNOWN;
    reader->trace.strings = lull_string_set_create();
    reader->json = lull_json_create(name, fill, context);
    if (reader->trace.strings == NULL || reader->json == NULL)
        lull_error_set(err, -ENOMEM, "%s: no memory", name);
    else
        result = read_text(reader);
    if (result < 0) {
        lull_trace_fini(&reader->trace);
    } else {
        finish(reader);
        *trace_out = reader->trace;
    }
    lull_json_destroy(reader->json);
    free(reader);
    return result;
}

struct file {
    struct lull_source *source;
    const struct lull_trace_progress *progress; /* NULL: nobody wants to know */
    int64_t text_bytes;
};

static ssize_t fill_from_file(void *context, char *buffer, size_t size, struct lull_error *err)
{
    struct file *const file = context;
    const ssize_t got = lull_source_read(file->source, buffer, size, err);

    if (got > 0 && file->progress != NULL) {
        file->text_bytes += got;
        file->progress->tell(file->progress->context, file->text_bytes,
                             lull_source_done_ratio(file->source));
    }
    return got;
}

int lull_trace_read(const char *path, const struct lull_trace_progress *progress,
                    struct lull_trace *trace_out, struct lull_error *err)
{
    struct file file = {.progress = progress};
    int result = lull_source_open(path, &file.source, err);

    if (result < 0)
        return result;
    result = read_trace(path, fill_from_file, &file, trace_out, err);
    lull_source_close(file.source);
    return result;
}

static ssize_t fill_from_memory(void *context, char *buffer, size_t size, struct lull_error *err)
{
    struct lull_json_text *const rest = context;
    const size_t length = rest->length < size ? rest->length : size;

    (void)err;
    memcpy(buffer, rest->bytes, length);
    rest->bytes += length;
    rest->length -= length;
    return (ssize_t)length;
}

int lull_trace_read_memory(const char *name, const char *text, size_t size,
                           struct lull_trace *trace_out, struct lull_error *err)
{
    struct lull_json_text rest = {text, size};

    return read_trace(name, fill_from_memory, &rest, trace_out, err);
}

void lull_trace_fini(struct lull_trace *trace)
{
    if (trace == NULL)
        return;
    free(trace->kernels);
    free(trace->launches);
    free(trace->steps);
    lull_string_set_destroy(trace->strings);
}

/* ---- looking things up ---- */

const char *lull_trace_string(const struct lull_trace *trace, uint32_t index)
{
    return lull_string_set_get(trace->strings, index);
}

const struct lull_trace_launch *lull_trace_find_launch(const struct lull_trace *trace,
                                                       int64_t correlation)
{
    size_t low = 0;
    size_t high = trace->launch_count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (trace->launches[middle].correlation < correlation)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == trace->launch_count || trace->launches[low].correlation != correlation)
        return NULL;
    return &trace->launches[low];
}
