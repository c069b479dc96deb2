/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/kineto_reading.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "trace/array.h"
#include "trace/communication.h"
#include "trace/serving_mark.h"

/* An end is searched among all started calls. Deeper nesting is not a real call stack. */
enum { MAX_BEGUN = 1024 };

/* So that no sum or difference of two of them overflows; times since 1970 are within it. */
static const int64_t max_ns = INT64_MAX / 4;
/* No kernel runs for longer; NCCL gives up after ten minutes. */
static const int64_t longest_ns = INT64_C(3600000000000);

/* ---- storing events ---- */

/* Returns the bytes of elements of a PyTorch type ("Float", "BFloat16"); -1: unknown. */
static int64_t kineto_keep_bytes_of(int64_t elements, const char *dtype)
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

static int add_string(struct lull_kineto_reading *reading, const char *text, uint32_t *number_out)
{
    return lull_string_set_add(reading->trace->strings, text, number_out, reading->name,
                               reading->err);
}

/* Two further values in the list of operations: a name that has not been
 * classified yet, and a kernel that computes but has a collective's name. */
static const char unlooked[] = "unlooked";
static const char likely[] = "likely";

static const char *kineto_keep_classify_event(const struct lull_kineto_reading *reading)
{
    const char *const name = reading->event.name;
    const char *const operation = lull_communication_of(name, reading->others);

    return operation == NULL && lull_communication_is_likely(name) ? likely : operation;
}

/* Finds the operation of a communication kernel, null for other kernels. Each name is classified
 * once. */
static int kineto_keep_find_operation(struct lull_kineto_reading *reading, uint32_t name,
                                      const char **operation_out)
{
    struct lull_trace_loss *const loss = &reading->trace->loss;
    const char *collective = NULL;

    while (reading->operation_count <= name) {
        const char *const none = unlooked;
        const int rc = lull_trace_append(&reading->operations, &reading->operation_count, &none,
                                         sizeof(none), reading->name, reading->err);

        if (rc < 0)
            return rc;
    }
    if (reading->operations[name] == unlooked)
        reading->operations[name] = kineto_keep_classify_event(reading);
    *operation_out = reading->operations[name];
    if (*operation_out == likely) {
        *operation_out = NULL;
        if (loss->likely++ == 0)
            loss->likely_name = name;
    } else if (*operation_out != NULL && reading->event.collective[0] != '\0') {
        collective = lull_communication_of_collective(reading->event.collective);
    }
    if (collective != NULL)
        *operation_out = collective;
    return 0;
}

/* The number at the end of a text, "Stream 7"; unknown: there is none, or it is too large. */
static int64_t number_in(const char *text)
{
    size_t at = strlen(text);
    int64_t number;

    while (at > 0 && text[at - 1] >= '0' && text[at - 1] <= '9')
        at--;
    return lull_text_parse_int(text + at, 0, INT64_MAX, &number) == 0 ? number : LULL_TRACE_UNKNOWN;
}

/* If ranks were merged, their pids are texts that begin alike: "[TP00] 900". 0: a number alone.
 */
static int kineto_keep_find_label(struct lull_kineto_reading *reading, uint32_t *label_out)
{
    char label[sizeof(reading->event.process)];
    size_t length = strlen(reading->event.process);

    while (length > 0 && strchr("0123456789-", reading->event.process[length - 1]) != NULL)
        length--;
    memcpy(label, reading->event.process, length);
    label[length] = '\0';
    return add_string(reading, label, label_out);
}

/* Writes the index of the GPU that an event ran on; LULL_TRACE_GPUS: there are too many. */
static int kineto_keep_find_gpu(struct lull_kineto_reading *reading, uint32_t *gpu_out)
{
    const struct lull_kineto_event *const event = &reading->event;
    struct lull_trace *const trace = reading->trace;
    struct lull_trace_gpu gpu = {.device = event->device};
    int rc = add_string(reading, event->process, &gpu.process);

    if (rc < 0)
        return rc;
    if (gpu.device == LULL_TRACE_UNKNOWN && strspn(event->process, "0123456789-") == 0)
        gpu.device = number_in(event->process);
    for (*gpu_out = 0; *gpu_out < trace->gpu_count; ++*gpu_out)
        if (trace->gpus[*gpu_out].process == gpu.process &&
            trace->gpus[*gpu_out].device == gpu.device)
            return 0;
    if (trace->gpu_count == LULL_TRACE_GPUS)
        return 0;
    rc = kineto_keep_find_label(reading, &gpu.label);
    if (rc < 0)
        return rc;
    return lull_trace_append(&trace->gpus, &trace->gpu_count, &gpu, sizeof(gpu), reading->name,
                             reading->err);
}

/* Fills in all of a kernel but its end. */
static int describe_kernel(struct lull_kineto_reading *reading, struct lull_trace_kernel *kernel)
{
    const struct lull_kineto_event *const event = &reading->event;
    int rc;

    *kernel = (struct lull_trace_kernel){
        .begin_ns = event->ts_ns,
        .bytes = kineto_keep_bytes_of(event->elements, event->dtype),
        .ranks = event->ranks,
        .stream = event->stream,
        .correlation = event->correlation,
    };
    if (kernel->stream == LULL_TRACE_UNKNOWN)
        kernel->stream = number_in(event->thread);
    rc = add_string(reading, event->name, &kernel->name);
    if (rc >= 0)
        rc = kineto_keep_find_operation(reading, kernel->name, &kernel->operation);
    if (rc >= 0)
        rc = add_string(reading, event->group, &kernel->group);
    return rc < 0 ? rc : kineto_keep_find_gpu(reading, &kernel->gpu);
}

static bool is_timed(int64_t begin_ns, int64_t length_ns)
{
    return begin_ns >= -max_ns && begin_ns <= max_ns && length_ns >= 0 && length_ns <= max_ns;
}

/* Of copies only those that communicate, between peers, are kept. */
static int kineto_keep_kernel(struct lull_kineto_reading *reading, enum lull_kineto_class class,
                              const struct lull_trace_kernel *kernel)
{
    struct lull_trace *const trace = reading->trace;
    const int64_t length_ns = kernel->end_ns - kernel->begin_ns;

    if ((class == LULL_KINETO_COPY && kernel->operation == NULL) ||
        (kernel->operation != NULL && strcmp(kernel->operation, LULL_COMMUNICATION_COPY) == 0)) {
        trace->loss.copies++;
        return 0;
    }
    if (length_ns > longest_ns || (kernel->begin_ns == 0 && length_ns == 0) ||
        kernel->gpu == LULL_TRACE_GPUS) {
        trace->loss.no_times++;
        return 0;
    }
    return lull_trace_append(&trace->kernels, &trace->kernel_count, kernel, sizeof(*kernel),
                             reading->name, reading->err);
}

/* Kernels without usable times are counted, because a trace with many of them is not reliable. */
static int kineto_keep_add_kernel(struct lull_kineto_reading *reading, enum lull_kineto_class class)
{
    const struct lull_kineto_event *const event = &reading->event;
    struct lull_trace_kernel kernel;
    int rc;

    if (!is_timed(event->ts_ns, event->dur_ns)) {
        reading->trace->loss.no_times += class == LULL_KINETO_KERNEL;
        return 0;
    }
    rc = describe_kernel(reading, &kernel);
    kernel.end_ns = event->ts_ns + event->dur_ns;
    return rc < 0 ? rc : kineto_keep_kernel(reading, class, &kernel);
}

static int kineto_keep_add_launch(struct lull_kineto_reading *reading)
{
    const struct lull_kineto_event *const event = &reading->event;
    struct lull_trace_launch launch = {.correlation = event->correlation,
                                       .begin_ns = event->ts_ns,
                                       .end_ns = event->ts_ns + event->dur_ns,
                                       .is_graph = strstr(event->name, "Graph") != NULL};
    const int rc = kineto_keep_find_label(reading, &launch.label);

    if (rc < 0)
        return rc;
    return lull_trace_append(&reading->trace->launches, &reading->trace->launch_count, &launch,
                             sizeof(launch), reading->name, reading->err);
}

static int add_step(struct lull_kineto_reading *reading, int64_t number)
{
    const struct lull_kineto_event *const event = &reading->event;
    struct lull_trace_step step = {number, event->ts_ns, event->ts_ns + event->dur_ns, 0};
    const int rc = kineto_keep_find_label(reading, &step.label);

    if (rc < 0)
        return rc;
    return lull_trace_append(&reading->trace->steps, &reading->trace->step_count, &step,
                             sizeof(step), reading->name, reading->err);
}

static int add_mark(struct lull_kineto_reading *reading, struct lull_trace_mark *mark)
{
    const struct lull_kineto_event *const event = &reading->event;
    const int rc = kineto_keep_find_label(reading, &mark->label);

    mark->begin_ns = event->ts_ns;
    mark->end_ns = event->ts_ns + event->dur_ns;
    mark->is_on_gpu = strncasecmp(event->category, "gpu_", strlen("gpu_")) == 0;
    if (rc < 0)
        return rc;
    return lull_trace_append(&reading->trace->marks, &reading->trace->mark_count, mark,
                             sizeof(*mark), reading->name, reading->err);
}

/* ---- kinds of events ---- */

/* Returns the meaning of one word of a category. A category is a comma-separated list of words. */
static enum lull_kineto_class classify_word(const char *word, size_t length, bool is_stream)
{
    static const struct {
        const char *word;
        size_t length;
        enum lull_kineto_class class;
    } words[] = {
        {"kernel", 6, LULL_KINETO_KERNEL},      {"gpu_op", 6, LULL_KINETO_KERNEL},
        {"gpu_kernel", 10, LULL_KINETO_KERNEL}, {"gpu_memcpy", 10, LULL_KINETO_COPY},
        {"gpu_memset", 10, LULL_KINETO_COPY},
    };

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (words[i].length == length && strncasecmp(words[i].word, word, length) == 0)
            return words[i].class;
    if (is_stream && length == strlen("cuda") && strncasecmp(word, "cuda", length) == 0)
        return LULL_KINETO_KERNEL;
    return LULL_KINETO_OTHER;
}

static enum lull_kineto_class kineto_keep_classify(const struct lull_kineto_reading *reading)
{
    const struct lull_kineto_event *const event = &reading->event;
    const bool is_stream = strncasecmp(event->thread, "Stream", strlen("Stream")) == 0;
    const char *word = event->category;
    enum lull_kineto_class class;

    if (*word == '\0' && lull_tracks_is_stream(reading->tracks, event->process, event->thread) &&
        strncmp(event->description, "UserMarker", strlen("UserMarker")) != 0)
        return LULL_KINETO_KERNEL;
    for (;; word++) {
        const char *const comma = strchrnul(word, ',');

        word += *word == ' ';
        class = classify_word(word, (size_t)(comma - word), is_stream);
        if (class != LULL_KINETO_OTHER || *comma == '\0')
            return class;
        word = comma;
    }
}

static bool is_launch(const struct lull_kineto_event *event)
{
    return event->correlation >= 0 &&
           (strncasecmp(event->category, "cuda_", strlen("cuda_")) == 0 ||
            strcasecmp(event->category, "runtime") == 0) &&
           strstr(event->name, "Launch") != NULL;
}

/* Only the marks on the CPU count: their shadows on the GPU's timeline have another length. */
static bool kineto_keep_is_step(const struct lull_kineto_event *event, int64_t *number_out)
{
    static const char prefix[] = "ProfilerStep#";

    return strncmp(event->name, prefix, strlen(prefix)) == 0 &&
           strncasecmp(event->category, "gpu_", strlen("gpu_")) != 0 &&
           lull_text_parse_int(event->name + strlen(prefix), 0, INT64_MAX, number_out) == 0;
}

/* An operation of a timeline has a step, and no category. */
static int add_operation(struct lull_kineto_reading *reading)
{
    const struct lull_kineto_event *const event = &reading->event;
    const bool has_times =
        is_timed(event->ts_ns, 0) && event->dur_ns >= -max_ns && event->dur_ns <= max_ns;
    const struct lull_timeline_event operation = {
        .name = event->name,
        .process = event->process,
        .thread = event->thread,
        .ts_ns = has_times ? event->ts_ns : LULL_KINETO_MISSING,
        .dur_ns = has_times ? event->dur_ns : LULL_KINETO_MISSING,
        .step = event->step,
        .chunk = event->chunk,
    };

    if (event->category[0] != '\0' && event->step < 0)
        return 0;
    return lull_timeline_add_event(reading->timeline, &operation, reading->err);
}

static int kineto_keep_complete(struct lull_kineto_reading *reading)
{
    const struct lull_kineto_event *const event = &reading->event;
    const enum lull_kineto_class class = kineto_keep_classify(reading);
    struct lull_trace_mark mark = {0};
    int64_t number;

    if (class != LULL_KINETO_OTHER)
        return kineto_keep_add_kernel(reading, class);
    lull_contents_add(&reading->contents, event->phase, event->category);
    if (is_timed(event->ts_ns, event->dur_ns) && is_launch(event))
        return kineto_keep_add_launch(reading);
    if (is_timed(event->ts_ns, event->dur_ns) && kineto_keep_is_step(event, &number))
        return add_step(reading, number);
    if (is_timed(event->ts_ns, event->dur_ns) && lull_serving_mark_parse(event->name, &mark))
        return add_mark(reading, &mark);
    return add_operation(reading);
}

/* ---- pairs of begin and end ---- */

/* Asynchronous pairs (phases b and e) belong to their id, others to their thread. */
static uint64_t kineto_keep_track_of(const struct lull_kineto_event *event)
{
    const bool is_asynchronous = event->phase[0] >= 'a';
    char text[sizeof(event->process) + sizeof(event->thread) + 8];

    snprintf(text, sizeof(text), "%s\n%s%s", event->process, is_asynchronous ? "id " : "",
             is_asynchronous ? event->id : event->thread);
    return lull_text_hash(text);
}

static int kineto_keep_begin(struct lull_kineto_reading *reading)
{
    const struct lull_kineto_event *const event = &reading->event;
    struct lull_kineto_begun begun = {.track = kineto_keep_track_of(event),
                                      .class = kineto_keep_classify(reading)};
    int rc = 0;

    if (begun.class == LULL_KINETO_OTHER)
        lull_contents_add(&reading->contents, event->phase, event->category);
    if (reading->begun_count == MAX_BEGUN) {
        reading->trace->loss.unpaired += begun.class == LULL_KINETO_KERNEL;
        return 0;
    }
    begun.is_timed = is_timed(event->ts_ns, 0);
    if (begun.class != LULL_KINETO_OTHER && begun.is_timed)
        rc = describe_kernel(reading, &begun.kernel);
    if (rc < 0)
        return rc;
    return lull_trace_append(&reading->begun, &reading->begun_count, &begun, sizeof(begun),
                             reading->name, reading->err);
}

/* An end belongs to the latest begin on its thread, or with its id. */
static int kineto_keep_end(struct lull_kineto_reading *reading)
{
    const struct lull_kineto_event *const event = &reading->event;
    const uint64_t track = kineto_keep_track_of(event);
    struct lull_kineto_begun begun;
    size_t at = reading->begun_count;

    while (at > 0 && reading->begun[at - 1].track != track)
        at--;
    if (at == 0) {
        reading->trace->loss.unpaired += kineto_keep_classify(reading) == LULL_KINETO_KERNEL;
        lull_contents_add(&reading->contents, event->phase, "");
        return 0;
    }
    begun = reading->begun[at - 1];
    memmove(reading->begun + at - 1, reading->begun + at,
            (reading->begun_count - at) * sizeof(*reading->begun));
    reading->begun_count--;
    if (begun.class == LULL_KINETO_OTHER)
        return 0;
    if (!begun.is_timed || !is_timed(event->ts_ns, 0) || event->ts_ns < begun.kernel.begin_ns) {
        reading->trace->loss.no_times += begun.class == LULL_KINETO_KERNEL;
        return 0;
    }
    begun.kernel.end_ns = event->ts_ns;
    return kineto_keep_kernel(reading, begun.class, &begun.kernel);
}

static int kineto_keep_name(struct lull_kineto_reading *reading)
{
    const struct lull_kineto_event *const event = &reading->event;
    int rc;

    if (strcmp(event->name, "process_name") == 0)
        return lull_tracks_name_process(reading->tracks, event->process, event->label,
                                        reading->err);
    if (strcmp(event->name, "thread_name") != 0)
        return 0;
    rc = lull_tracks_name_thread(reading->tracks, event->process, event->thread, event->label,
                                 reading->err);
    if (rc < 0)
        return rc;
    return lull_timeline_add_thread(reading->timeline, event->process, event->thread, event->label,
                                    reading->err);
}

int lull_kineto_keep(struct lull_kineto_reading *reading)
{
    const struct lull_kineto_event *const event = &reading->event;

    reading->trace->events++;
    if (strcmp(event->phase, "X") == 0)
        return kineto_keep_complete(reading);
    if (strcmp(event->phase, "B") == 0 || strcmp(event->phase, "b") == 0)
        return kineto_keep_begin(reading);
    if (strcmp(event->phase, "E") == 0 || strcmp(event->phase, "e") == 0)
        return kineto_keep_end(reading);
    if (strcmp(event->phase, "M") == 0)
        return kineto_keep_name(reading);
    lull_contents_add(&reading->contents, event->phase, event->category);
    return 0;
}
