/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/timeline.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "trace/array.h"

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

/* A thread that a record has named. */
struct timeline_thread {
    int64_t process;
    int64_t thread;
    struct lull_timeline_rank rank;
    enum lull_timeline_stream stream;
    uint32_t rank_index; /* known at the end */
};

/* No pipeline has more stages; a larger number in a thread's name is not a rank. */
enum { MAX_STAGES = 4096 };

/* An operation whose thread may be named later. */
struct timeline_record {
    int64_t process;
    int64_t thread;
    int64_t step;
    struct lull_timeline_op op;
};

struct lull_timeline_reading {
    const char *name; /* of the text, for messages */
    struct timeline_thread *threads;
    size_t thread_count;
    struct timeline_record *records;
    size_t record_count;
    uint64_t named;    /* operations of a known name */
    uint64_t unusable; /* operations */
};

const char *lull_timeline_operation(enum lull_timeline_kind kind)
{
    return kinds[kind].operation;
}

enum lull_timeline_scope lull_timeline_scope(enum lull_timeline_kind kind)
{
    return kinds[kind].scope;
}

/* ---- events ---- */

static enum lull_timeline_kind timeline_read_find_kind(const char *name)
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

/* -1: it is not a number. */
static int64_t parse_number(const char *text)
{
    int64_t number;

    return lull_text_parse_int(text, 0, INT64_MAX, &number) == 0 ? number : -1;
}

int lull_timeline_add_thread(struct lull_timeline_reading *reading, const char *process,
                             const char *thread, const char *name, struct lull_error *err)
{
    struct timeline_thread named = {.process = parse_number(process),
                                    .thread = parse_number(thread)};

    if (named.process < 0 || !parse_thread(name, &named))
        return 0;
    return lull_trace_append(&reading->threads, &reading->thread_count, &named, sizeof(named),
                             reading->name, err);
}

int lull_timeline_add_event(struct lull_timeline_reading *reading,
                            const struct lull_timeline_event *event, struct lull_error *err)
{
    const enum lull_timeline_kind kind = timeline_read_find_kind(event->name);
    const struct timeline_record record = {
        .process = parse_number(event->process),
        .thread = parse_number(event->thread),
        .step = event->step,
        .op = {.begin_ns = event->ts_ns,
               /* Clocks of several ranks are fitted to each other, so that short ones may end
                * before they begin. */
               .duration_ns = event->dur_ns > 0 ? event->dur_ns : 0,
               .chunk = event->chunk,
               .kind = kind},
    };

    reading->named += kind != LULL_TIMELINE_OTHER;
    if (event->ts_ns == INT64_MIN || event->dur_ns == INT64_MIN || event->step < 0) {
        reading->unusable++;
        return 0;
    }
    return lull_trace_append(&reading->records, &reading->record_count, &record, sizeof(record),
                             reading->name, err);
}

bool lull_timeline_is_one(const struct lull_timeline_reading *reading)
{
    return reading->thread_count > 0 || reading->named > 0;
}

/* ---- order ---- */

static int timeline_read_compare(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int compare_ranks(const void *left, const void *right)
{
    const struct lull_timeline_rank *const a = left;
    const struct lull_timeline_rank *const b = right;
    int order = timeline_read_compare(a->copy, b->copy);

    if (order == 0)
        order = timeline_read_compare(a->stage, b->stage);
    return order != 0 ? order : timeline_read_compare(a->tensor, b->tensor);
}

static int compare_threads(const void *left, const void *right)
{
    const struct timeline_thread *const a = left;
    const struct timeline_thread *const b = right;
    const int order = timeline_read_compare(a->process, b->process);

    return order != 0 ? order : timeline_read_compare(a->thread, b->thread);
}

static int compare_numbers(const void *left, const void *right)
{
    return timeline_read_compare(*(const int64_t *)left, *(const int64_t *)right);
}

static int compare_ops(const void *left, const void *right)
{
    const struct lull_timeline_op *const a = left;
    const struct lull_timeline_op *const b = right;
    int order = timeline_read_compare(a->step, b->step);

    if (order == 0)
        order = timeline_read_compare(a->begin_ns, b->begin_ns);
    if (order == 0)
        order = timeline_read_compare(a->begin_ns + a->duration_ns, b->begin_ns + b->duration_ns);
    return order != 0 ? order : timeline_read_compare(a->rank, b->rank);
}

/* Sorts an array and removes duplicates. Returns how many elements are left. */
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

static int list_ranks(struct lull_timeline_reading *reading,
                      struct lull_operation_timeline *timeline)
{

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

static int list_steps(const struct lull_timeline_reading *reading,
                      struct lull_operation_timeline *timeline)
{

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
static const struct timeline_thread *find_thread(const struct lull_timeline_reading *reading,
                                                 const struct timeline_record *record)
{
    const struct timeline_thread key = {.process = record->process, .thread = record->thread};

    if (reading->thread_count == 0)
        return NULL;
    return bsearch(&key, reading->threads, reading->thread_count, sizeof(key), compare_threads);
}

/* Times are counted from the earliest where that is below 0. */
static int64_t timeline_read_first_ns(const struct lull_timeline_reading *reading)
{
    int64_t first = 0;

    for (size_t i = 0; i < reading->record_count; i++)
        first = lull_earlier_ns(first, reading->records[i].op.begin_ns);
    return first;
}

static int list_ops(const struct lull_timeline_reading *reading,
                    struct lull_operation_timeline *timeline)
{
    const int64_t origin_ns = timeline_read_first_ns(reading);

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
        op->begin_ns -= origin_ns;
        op->step = (uint32_t)(step - timeline->steps);
        op->rank = thread->rank_index;
        op->stream = thread->stream;
        timeline->op_count++;
    }
    qsort(timeline->ops, timeline->op_count, sizeof(*timeline->ops), compare_ops);
    return 0;
}

/* ---- the whole ---- */

struct lull_timeline_reading *lull_timeline_reading_create(const char *name)
{
    struct lull_timeline_reading *const reading = calloc(1, sizeof(*reading));

    if (reading != NULL)
        reading->name = name;
    return reading;
}

void lull_timeline_reading_destroy(struct lull_timeline_reading *reading)
{
    if (reading == NULL)
        return;
    free(reading->threads);
    free(reading->records);
    free(reading);
}

int lull_timeline_finish(struct lull_timeline_reading *reading, uint64_t events,
                         struct lull_operation_timeline **timeline_out, struct lull_error *err)
{
    struct lull_operation_timeline *const timeline = calloc(1, sizeof(*timeline));
    int rc = timeline == NULL ? -ENOMEM : list_ranks(reading, timeline);

    if (rc == 0)
        rc = list_steps(reading, timeline);
    if (rc == 0)
        rc = list_ops(reading, timeline);
    if (rc < 0) {
        lull_error_set(err, rc, "%s: not enough memory to read it", reading->name);
    } else if (timeline->op_count == 0) {
        rc = lull_error_set(err, LULL_E_FORMAT,
                            "%s: no operation of a rank is among its %llu events; complete events "
                            "(ph X) need args.step, and thread_name records name their threads "
                            "\"PP rank 0, TP rank 0, compute\"",
                            reading->name, (unsigned long long)events);
    } else {
        timeline->unusable_ops += reading->unusable;
        *timeline_out = timeline;
        return 0;
    }
    lull_timeline_destroy(timeline);
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
