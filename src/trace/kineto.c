/*
 * A trace's objects are described by tables: which keys are wanted, of what kind, and where they
 * go. Everything else is skipped. An object is judged when it is complete, so the order of its
 * keys does not matter.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "trace/kineto.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/chrome.h"
#include "trace/json_fields.h"
#include "trace/kineto_reading.h"
#include "trace/plausible.h"

static void kineto_begin_event(struct lull_kineto_event *event)
{
    event->ts_ns = event->dur_ns = LULL_KINETO_MISSING;
    event->device = event->stream = LULL_TRACE_UNKNOWN;
    event->correlation = event->elements = event->ranks = LULL_TRACE_UNKNOWN;
    event->step = event->chunk = LULL_TRACE_UNKNOWN;
    event->phase[0] = event->category[0] = event->name[0] = '\0';
    event->process[0] = event->thread[0] = event->id[0] = '\0';
    event->label[0] = event->description[0] = '\0';
    event->collective[0] = event->dtype[0] = event->group[0] = '\0';
}

/* ---- the tables ---- */

static int kineto_read_event(struct lull_json_reader *reader, void *object)
{
    static const struct lull_json_field arguments[] = {
        {LULL_JSON_INTEGER("device", struct lull_kineto_event, device, 0)},
        {LULL_JSON_INTEGER("stream", struct lull_kineto_event, stream, 0)},
        {LULL_JSON_INTEGER("correlation", struct lull_kineto_event, correlation, 0)},
        {LULL_JSON_TEXT("Collective name", struct lull_kineto_event, collective)},
        {LULL_JSON_INTEGER("In msg nelems", struct lull_kineto_event, elements, 0)},
        {LULL_JSON_TEXT("dtype", struct lull_kineto_event, dtype)},
        {LULL_JSON_INTEGER("Group size", struct lull_kineto_event, ranks, 0)},
        {LULL_JSON_TEXT("Process Group Name", struct lull_kineto_event, group)},
        {LULL_JSON_INTEGER("step", struct lull_kineto_event, step, 0)},
        {LULL_JSON_INTEGER("model_chunk", struct lull_kineto_event, chunk, 0)},
        {LULL_JSON_TEXT("name", struct lull_kineto_event, label)},
        {LULL_JSON_TEXT("desc", struct lull_kineto_event, description)},
        {NULL},
    };
    static const struct lull_json_field fields[] = {
        {LULL_JSON_TEXT("ph", struct lull_kineto_event, phase)},
        {LULL_JSON_TEXT("cat", struct lull_kineto_event, category)},
        {LULL_JSON_TEXT("name", struct lull_kineto_event, name)},
        {LULL_JSON_TEXT("pid", struct lull_kineto_event, process)},
        {LULL_JSON_TEXT("tid", struct lull_kineto_event, thread)},
        {LULL_JSON_TEXT("id", struct lull_kineto_event, id)},
        {LULL_JSON_SCALED("ts", struct lull_kineto_event, ts_ns, 3, 0)},
        {LULL_JSON_SCALED("dur", struct lull_kineto_event, dur_ns, 3, 0)},
        {LULL_JSON_OBJECT("args", arguments)},
        {NULL},
    };
    struct lull_kineto_reading *const reading = reader->context;
    int rc;

    (void)object;
    kineto_begin_event(&reading->event);
    rc = lull_json_read_fields(reader, fields, &reading->event);
    return rc < 0 ? rc : lull_kineto_keep(reading);
}

static int read_events(struct lull_json_reader *reader, void *object)
{
    struct lull_kineto_reading *const reading = reader->context;
    struct lull_json_text text;
    const int token = lull_json_next(reader->json, &text, reader->err);

    if (token == LULL_JSON_OBJECT_BEGIN)
        return lull_json_leave(reader->json, reader->err);
    if (token != LULL_JSON_ARRAY_BEGIN)
        return token < 0 ? token : 0;
    reading->contents.has_list = true;
    return lull_json_read_events(reader, kineto_read_event, object);
}

static int read_graph(struct lull_json_reader *reader, void *object)
{
    struct lull_kineto_reading *const reading = reader->context;

    (void)object;
    reading->contents.has_graph = true;
    return lull_json_skip(reader->json, reader->err);
}

static int read_rocprofiler(struct lull_json_reader *reader, void *object)
{
    struct lull_kineto_reading *const reading = reader->context;

    (void)object;
    reading->contents.has_rocprofiler = true;
    return lull_json_skip(reader->json, reader->err);
}

static int kineto_read_device(struct lull_json_reader *reader, void *object)
{
    static const struct lull_json_field fields[] = {
        {LULL_JSON_INTEGER("id", struct lull_kineto_device, id, 0)},
        {LULL_JSON_TEXT("name", struct lull_kineto_device, name)},
        {NULL},
    };
    struct lull_kineto_reading *const reading = reader->context;
    struct lull_kineto_device device = {.id = LULL_TRACE_UNKNOWN};
    const int rc = lull_json_read_fields(reader, fields, &device);

    (void)object;
    if (rc >= 0 && reading->device_count < LULL_KINETO_DEVICES)
        reading->devices[reading->device_count++] = device;
    return rc;
}

/* ---- the end of the text ---- */

/* A node's trace lists all its GPUs; one without a number is taken for the first. */
static void kineto_name_gpus(struct lull_kineto_reading *reading)
{
    struct lull_trace *const trace = reading->trace;

    for (size_t i = 0; i < trace->gpu_count && reading->device_count > 0; i++) {
        uint32_t found = 0;

        for (uint32_t d = 0; d < reading->device_count; d++)
            if (reading->devices[d].id == trace->gpus[i].device)
                found = d;
        memcpy(trace->gpus[i].name, reading->devices[found].name, sizeof(trace->gpus[i].name));
    }
    if (trace->gpu_count > 0)
        memcpy(trace->gpu, trace->gpus[0].name, sizeof(trace->gpu));
    else if (reading->device_count > 0)
        memcpy(trace->gpu, reading->devices[0].name, sizeof(trace->gpu));
}

static bool has_launched_twice(const struct lull_trace *trace)
{
    for (size_t i = 1; i < trace->launch_count; i++)
        if (trace->launches[i].correlation == trace->launches[i - 1].correlation &&
            trace->launches[i].label == trace->launches[i - 1].label)
            return true;
    return false;
}

/* Distinguishes text of several writers from faulty text of one writer: keys of the header are
 * among the events, events are duplicates, or many cannot be read. */
static int refuse_several_writers(const struct lull_kineto_reading *reading,
                                  const struct lull_json_loss *loss)
{
    enum { MANY = 10, MANY_RATIO = 20 };
    const struct lull_trace *const trace = reading->trace;

    if (loss->events == 0 ||
        (loss->strangers == 0 && trace->loss.doubled == 0 && !has_launched_twice(trace) &&
         (loss->events < MANY || loss->events < trace->events / MANY_RATIO)))
        return 0;
    return lull_error_set(reading->err, LULL_E_FORMAT,
                          "%s: were several ranks writing this file? %" PRIu64
                          " events are not JSON, and others are duplicates; the first: %s",
                          reading->name, loss->events, trace->loss.first_fault);
}

/* For a truncated text: reports how much of it was read. */
static int refuse_cut(const struct lull_kineto_reading *reading, const struct lull_error *err)
{
    const struct lull_error fault = *err;

    return lull_error_set(reading->err, fault.code, "%s; %zu kernels could be read before it",
                          fault.text, reading->trace->kernel_count);
}

static void note_loss(struct lull_kineto_reading *reading, const struct lull_json_loss *loss)
{
    struct lull_trace *const trace = reading->trace;
    const size_t file = strlen(reading->name);
    const char *fault = loss->first.text;

    if (strncmp(fault, reading->name, file) == 0 && strncmp(fault + file, ": ", 2) == 0)
        fault += file + 2;
    trace->loss.events = loss->events;
    trace->loss.has_no_end = loss->has_no_end;
    snprintf(trace->loss.first_fault, sizeof(trace->loss.first_fault), "%.*s",
             (int)sizeof(trace->loss.first_fault) - 1, fault);
    for (size_t i = 0; i < reading->begun_count; i++)
        trace->loss.unpaired += reading->begun[i].class == LULL_KINETO_KERNEL;
}

static int kineto_finish(struct lull_kineto_reading *reading, const struct lull_json_loss *loss)
{
    struct lull_trace *const trace = reading->trace;
    int rc;

    note_loss(reading, loss);
    if (trace->kernel_count == 0 && lull_timeline_is_one(reading->timeline)) {
        trace->gpu_count = 0; /* those of kernels that were left out */
        return lull_timeline_finish(reading->timeline, trace->events, &trace->timeline,
                                    reading->err);
    }
    lull_plausible_sift(trace);
    rc = refuse_several_writers(reading, loss);
    kineto_name_gpus(reading);
    if (trace->kernel_count == 0)
        lull_contents_explain(&reading->contents, trace, trace->contents, sizeof(trace->contents));
    return rc;
}

/* ---- the whole ---- */

static int kineto_prepare(struct lull_kineto_reading *reading, const char *path,
                          const struct lull_trace_options *options, struct lull_trace *trace,
                          struct lull_error *err)
{
    uint32_t empty;

    reading->name = path;
    reading->err = err;
    reading->trace = trace;
    reading->others = options != NULL ? options->communicates : NULL;
    reading->tracks = lull_tracks_create(path);
    reading->timeline = lull_timeline_reading_create(path);
    if (reading->tracks == NULL || reading->timeline == NULL)
        return lull_error_set(err, -ENOMEM, "%s: not enough memory to read it", path);
    /* Number 0, which represents "unknown". */
    return lull_string_set_add(trace->strings, "", &empty, path, err);
}

static void kineto_destroy(struct lull_kineto_reading *reading)
{
    lull_tracks_destroy(reading->tracks);
    lull_timeline_reading_destroy(reading->timeline);
    free(reading->operations);
    free(reading->begun);
    free(reading);
}

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
        {LULL_JSON_OTHER("traceEvents", read_events)},
        {LULL_JSON_OBJECTS("deviceProperties", kineto_read_device)},
        {LULL_JSON_OBJECT("distributedInfo", distributed)},
        {LULL_JSON_OTHER("nodes", read_graph)},
        {LULL_JSON_OTHER("rocprofiler-sdk-tool", read_rocprofiler)},
        {NULL},
    };
    struct lull_kineto_reading *const reading = calloc(1, sizeof(*reading));
    const struct lull_chrome_reading chrome = {fields, kineto_read_event, trace, reading};
    struct lull_json_loss loss = {0};
    struct lull_error own = {0};
    int rc;

    if (reading == NULL)
        return lull_error_set(err, -ENOMEM, "%s: not enough memory to read it", path);
    if (err == NULL)
        err = &own;
    rc = kineto_prepare(reading, path, options, trace, err);
    if (rc >= 0) {
        rc = lull_chrome_read(source, path, options, &chrome, &loss, &trace->text_bytes, err);
        if (rc == LULL_E_FORMAT && trace->kernel_count > 0)
            rc = refuse_cut(reading, err);
        else if (rc >= 0)
            rc = kineto_finish(reading, &loss);
    }
    kineto_destroy(reading);
    return rc;
}
