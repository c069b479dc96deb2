/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/timeline.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/array.h"
#include "trace/chrome.h"

/* Rows in the order of the kinds. */
static const struct {
    const char *name;
    const char *operation;
    enum lull_timeline_scope scope;
} kinds[LULL_TIMELINE_KINDS] = {
    [LULL_TIMELINE_FORWARD] = {"forward-compute", "forward-compute", LULL_SCOPE_RANK},
    [LULL_TIMELINE_BACKWARD] = {"backward-compute", "backward-compute", LULL_SCOPE_RANK},
    [LULL_TIMELINE_FORWARD_SEND] = {"forward-send", "forward-pp-comm", LULL_SCOPE_PAIR},
    [LULL_TIMELINE_FORWARD_RECEIVE] = {"forward-recv", "forward-pp-comm", LULL_SCOPE_PAIR},
    [LULL_TIMELINE_BACKWARD_SEND] = {"backward-send", "backward-pp-comm", LULL_SCOPE_PAIR},
    [LULL_TIMELINE_BACKWARD_RECEIVE] = {"backward-recv", "backward-pp-comm", LULL_SCOPE_PAIR},
    [LULL_TIMELINE_PARAMETERS] = {"params-all-gather", "params-all-gather", LULL_SCOPE_COPIES},
    [LULL_TIMELINE_GRADIENTS] = {"grads-reduce-scatter", "grads-reduce-scatter", LULL_SCOPE_COPIES},
    [LULL_TIMELINE_EMBEDDING] = {"embedding-grads-all-reduce", "embedding-grads-all-reduce",
                                 LULL_SCOPE_ENDS},
    [LULL_TIMELINE_LAYERNORM] = {"layernorm-grads-all-reduce", "layernorm-grads-all-reduce",
                                 LULL_SCOPE_RANK},
    [LULL_TIMELINE_CLIP] = {"optimizer-clip-main-grad", "optimizer-clip-main-grad",
                            LULL_SCOPE_STEP},
    [LULL_TIMELINE_OPTIMIZER] = {"optimizer", "optimizer", LULL_SCOPE_RANK},
    [LULL_TIMELINE_GARBAGE] = {"gc", "gc", LULL_SCOPE_RANK},
    [LULL_TIMELINE_OTHER] = {"", "other", LULL_SCOPE_RANK},
};

/* An event as far as it has been read. */
struct timeline_event {
    int64_t ts_ns;
    int64_t dur_ns;
    int64_t process;
    int64_t thread;
    int64_t step;
    int64_t chunk;
    char phase[4];
    char name[48];
    char thread_name[64];
};

/* A thread that a record has named. */
struct timeline_thread {
    int64_t process;
    int64_t thread;
    struct lull_timeline_rank rank;
    enum lull_timeline_stream stream;
    uint32_t rank_index; /* known at the end */
};

/* No pipeline has more stages; what a thread's name says beyond it is no rank. */
enum { MAX_STAGES = 4096 };

/* An operation whose thread may be named later. */
struct timeline_record {
    int64_t process;
    int64_t thread;
    int64_t step;
    struct lull_timeline_op op;
};

struct timeline_reading {
    const char *name; /* of the text, for messages */
    struct lull_error *err;
    struct lull_trace *trace;
    struct lull_operation_timeline *timeline;
    struct timeline_thread *threads;
    size_t thread_count;
    struct timeline_record *records;
    size_t record_count;
    struct timeline_event event; /* being read */
};

const char *lull_timeline_operation(enum lull_timeline_kind kind)
{
    return kinds[kind].operation;
}

enum lull_timeline_scope lull_timeline_scope(enum lull_timeline_kind kind)
{
    return kinds[kind].scope;
}

bool lull_timeline_sniff(const char *head, size_t size)
{
    static const char *const words[] = {"\"forward-", "\"backward-", "\"grads-reduce-",
                                        "\"params-all-", "PP rank "};

    if (!lull_chrome_sniff(head, size))
        return false;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (memmem(head, size, words[i], strlen(words[i])) != NULL)
            return true;
    return false;
}

/* ---- events ---- */

static enum lull_timeline_kind find_kind(const char *name)
{
    int kind = 0;

    while (kind < LULL_TIMELINE_OTHER && strcmp(name, kinds[kind].name) != 0)
        kind++;
    return (enum lull_timeline_kind)kind;
}

static bool parse_thread(const char *text, struct timeline_thread *thread)
{
    static const char *const streams[] = {[LULL_STREAM_COMPUTE] = "compute",
                                          [LULL_STREAM_PIPELINE] = "pp-comm",
                                          [LULL_STREAM_TENSOR] = "tp-comm",
                                          [LULL_STREAM_DATA] = "dp-comm",
                                          [LULL_STREAM_MISC] = "misc"};
    unsigned stage;
    unsigned tensor;
    int end = 0;

    if (sscanf(text, "PP rank %9u, TP rank %9u, %n", &stage, &tensor, &end) < 2 || end == 0 ||
        stage >= MAX_STAGES)
        return false;
    thread->rank = (struct lull_timeline_rank){thread->process, stage, tensor};
    for (size_t i = 0; i < sizeof(streams) / sizeof(streams[0]); i++)
        if (strcmp(text + end, streams[i]) == 0) {
            thread->stream = (enum lull_timeline_stream)i;
            return true;
        }
    return false;
}

static int keep_thread(struct timeline_reading *reading)
{
    const struct timeline_event *const event = &reading->event;
    struct timeline_thread thread = {.process = event->process, .thread = event->thread};

    if (event->process < 0 || !parse_thread(event->thread_name, &thread))
        return 0;
    return lull_trace_append(&reading->threads, &reading->thread_count, &thread, sizeof(thread),
                             reading->name, reading->err);
}

static int keep_event(struct timeline_reading *reading)
{
    const struct timeline_event *const event = &reading->event;
    const struct timeline_record record = {
        .process = event->process,
        .thread = event->thread,
        .step = event->step,
        .op = {.begin_ns = event->ts_ns,
               /* Clocks of several ranks are fitted to each other, so that short ones may end
                * before they begin. */
               .duration_ns = event->dur_ns > 0 ? event->dur_ns : 0,
               .chunk = event->chunk,
               .kind = find_kind(event->name)},
    };

    reading->trace->events++;
    if (strcmp(event->phase, "M") == 0 && strcmp(event->name, "thread_name") == 0)
        return keep_thread(reading);
    if (strcmp(event->phase, "X") != 0)
        return 0;
    if (event->ts_ns < 0 || event->dur_ns == INT64_MIN || event->step < 0) {
        reading->timeline->unusable_ops++;
        return 0;
    }
    return lull_trace_append(&reading->records, &reading->record_count, &record, sizeof(record),
                             reading->name, reading->err);
}

static int read_event(struct lull_json_reader *reader, void *object)
{
    static const struct lull_json_field arguments[] = {
        {LULL_JSON_INTEGER("step", struct timeline_event, step, 0)},
        {LULL_JSON_INTEGER("model_chunk", struct timeline_event, chunk, 0)},
        {LULL_JSON_TEXT("name", struct timeline_event, thread_name)},
        {NULL},
    };
    static const struct lull_json_field fields[] = {
        {LULL_JSON_TEXT("ph", struct timeline_event, phase)},
        {LULL_JSON_TEXT("name", struct timeline_event, name)},
        {LULL_JSON_INTEGER("pid", struct timeline_event, process, 0)},
        {LULL_JSON_INTEGER("tid", struct timeline_event, thread, 0)},
        {LULL_JSON_SCALED("ts", struct timeline_event, ts_ns, 3, 0)},
        {LULL_JSON_SCALED("dur", struct timeline_event, dur_ns, 3, 0)},
        {LULL_JSON_OBJECT("args", arguments)},
        {NULL},
    };
    struct timeline_reading *const reading = reader->context;
    struct timeline_event *const event = &reading->event;
    int rc;

    (void)object;
    event->ts_ns = event->step = event->chunk = LULL_TRACE_UNKNOWN;
    event->dur_ns = INT64_MIN;
    event->process = event->thread = LULL_TRACE_UNKNOWN;
    event->phase[0] = event->name[0] = event->thread_name[0] = '\0';
    rc = lull_json_read_fields(reader, fields, event);
    return rc < 0 ? rc : keep_event(reading);
}

/* ---- order ---- */

static int compare(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int compare_ranks(const void *left, const void *right)
{
    const struct lull_timeline_rank *const a = left;
    const struct lull_timeline_rank *const b = right;
    int order = compare(a->copy, b->copy);

    if (order == 0)
        order = compare(a->stage, b->stage);
    return order != 0 ? order : compare(a->tensor, b->tensor);
}

static int compare_threads(const void *left, const void *right)
{
    const struct timeline_thread *const a = left;
    const struct timeline_thread *const b = right;
    const int order = compare(a->process, b->process);

    return order != 0 ? order : compare(a->thread, b->thread);
}

static int compare_numbers(const void *left, const void *right)
{
    return compare(*(const int64_t *)left, *(const int64_t *)right);
}

static int compare_ops(const void *left, const void *right)
{
    const struct lull_timeline_op *const a = left;
    const struct lull_timeline_op *const b = right;
    int order = compare(a->step, b->step);

    if (order == 0)
        order = compare(a->begin_ns, b->begin_ns);
    if (order == 0)
        order = compare(a->begin_ns + a->duration_ns, b->begin_ns + b->duration_ns);
    return order != 0 ? order : compare(a->rank, b->rank);
}

/* Sorts an array and keeps one of what is equal. Returns how many are kept. */
static size_t sort_unique(void *array, size_t count, size_t size,
                          int (*order)(const void *, const void *))
{
    char *const bytes = array;
    size_t kept = 0;

    if (count == 0)
        return 0;
    qsort(array, count, size, order);
    for (size_t i = 1; i < count; i++)
        if (order(bytes + kept * size, bytes + i * size) != 0)
            memmove(bytes + ++kept * size, bytes + i * size, size);
    return kept + 1;
}

static int list_ranks(struct timeline_reading *reading)
{
    struct lull_operation_timeline *const timeline = reading->timeline;

    reading->thread_count = sort_unique(reading->threads, reading->thread_count,
                                        sizeof(*reading->threads), compare_threads);
    timeline->ranks = calloc(reading->thread_count + 1, sizeof(*timeline->ranks));
    if (timeline->ranks == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < reading->thread_count; i++)
        timeline->ranks[i] = reading->threads[i].rank;
    timeline->rank_count = sort_unique(timeline->ranks, reading->thread_count,
                                       sizeof(*timeline->ranks), compare_ranks);
    for (size_t i = 0; i < reading->thread_count; i++) {
        struct timeline_thread *const thread = &reading->threads[i];
        const struct lull_timeline_rank *const rank =
            bsearch(&thread->rank, timeline->ranks, timeline->rank_count, sizeof(*timeline->ranks),
                    compare_ranks);

        thread->rank_index = (uint32_t)(rank - timeline->ranks);
    }
    return 0;
}

static int list_steps(struct timeline_reading *reading)
{
    struct lull_operation_timeline *const timeline = reading->timeline;

    timeline->steps = calloc(reading->record_count + 1, sizeof(*timeline->steps));
    if (timeline->steps == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < reading->record_count; i++)
        timeline->steps[i] = reading->records[i].step;
    timeline->step_count = sort_unique(timeline->steps, reading->record_count,
                                       sizeof(*timeline->steps), compare_numbers);
    return 0;
}

/* bsearch() takes no NULL, which is the list of a trace that names no thread. */
static const struct timeline_thread *find_thread(const struct timeline_reading *reading,
                                                 const struct timeline_record *record)
{
    const struct timeline_thread key = {.process = record->process, .thread = record->thread};

    if (reading->thread_count == 0)
        return NULL;
    return bsearch(&key, reading->threads, reading->thread_count, sizeof(key), compare_threads);
}

static int list_ops(struct timeline_reading *reading)
{
    struct lull_operation_timeline *const timeline = reading->timeline;

    timeline->ops = calloc(reading->record_count + 1, sizeof(*timeline->ops));
    if (timeline->ops == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < reading->record_count; i++) {
        const struct timeline_record *const record = &reading->records[i];
        const struct timeline_thread *const thread = find_thread(reading, record);
        const int64_t *const step = bsearch(&record->step, timeline->steps, timeline->step_count,
                                            sizeof(*timeline->steps), compare_numbers);
        struct lull_timeline_op *const op = &timeline->ops[timeline->op_count];

        if (thread == NULL) {
            timeline->unusable_ops++;
            continue;
        }
        *op = record->op;
        op->step = (uint32_t)(step - timeline->steps);
        op->rank = thread->rank_index;
        op->stream = thread->stream;
        timeline->op_count++;
    }
    qsort(timeline->ops, timeline->op_count, sizeof(*timeline->ops), compare_ops);
    return 0;
}

static int finish(struct timeline_reading *reading)
{
    int rc = list_ranks(reading);

    if (rc == 0)
        rc = list_steps(reading);
    if (rc == 0)
        rc = list_ops(reading);
    if (rc < 0)
        return lull_error_set(reading->err, rc, "%s: there is no memory to read it", reading->name);
    if (reading->timeline->op_count == 0)
        return lull_error_set(
            reading->err, LULL_E_FORMAT,
            "%s: no operation of a rank is among its %llu events; complete events "
            "(ph X) need args.step, and thread_name records name their threads "
            "\"PP rank 0, TP rank 0, compute\"",
            reading->name, (unsigned long long)reading->trace->events);
    return 0;
}

/* ---- the whole ---- */

int lull_timeline_read(struct lull_source *source, const char *path,
                       const struct lull_trace_options *options, struct lull_trace *trace,
                       struct lull_error *err)
{
    static const struct lull_json_field fields[] = {
        {LULL_JSON_OBJECTS("traceEvents", read_event)},
        {NULL},
    };
    struct timeline_reading reading = {
        .name = path, .err = err, .trace = trace, .timeline = calloc(1, sizeof(*trace->timeline))};
    const struct lull_chrome_reading chrome = {fields, read_event, trace, &reading};
    int rc;

    trace->timeline = reading.timeline;
    if (reading.timeline == NULL)
        return lull_error_set(err, -ENOMEM, "%s: there is no memory to read it", path);
    rc = lull_chrome_read(source, path, options, &chrome, &trace->text_bytes, err);
    if (rc >= 0)
        rc = finish(&reading);
    free(reading.threads);
    free(reading.records);
    return rc;
}

void lull_timeline_destroy(struct lull_operation_timeline *timeline)
{
    if (timeline == NULL)
        return;
    free(timeline->ops);
    free(timeline->ranks);
    free(timeline->steps);
    free(timeline);
}
