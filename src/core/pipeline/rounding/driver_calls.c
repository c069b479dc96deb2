/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pipeline/rounding/driver_calls.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/minmax.h"
#include "core/pipeline/switching/switching_state.h"

int lull_pipeline_queue_init(struct lull_pipeline_queue *queue,
                             const struct lull_pipeline_problem *problem)
{
    const size_t ops = problem->graph->op_count;

    *queue = (struct lull_pipeline_queue){.stages = lull_pipeline_stages(problem)};
    queue->calls = lull_memory_take(&queue->memory, ops, sizeof(*queue->calls));
    queue->order = lull_memory_take(&queue->memory, ops, sizeof(*queue->order));
    queue->busy_ns = lull_memory_take(&queue->memory, ops, sizeof(*queue->busy_ns));
    return queue->memory.has_failed ? -ENOMEM : 0;
}

static uint32_t driver_calls_mhz_of(const struct lull_pipeline_timed_plan *timed, uint32_t op)
{
    return lull_pipeline_point_of(timed->problem, timed->point, op)->sm_mhz;
}

/* ---- calls ------------------------------------------------------------------------------- */

static uint32_t count_drivers(const struct lull_pipeline_switching *switching)
{
    return lull_max_u32(switching->drivers, 1);
}

/* The driver of a device. Ranks stand as the governor's pilot places them: rank = replica +
 * replicas * stage. */
static uint32_t driver_of(const struct lull_pipeline_queue *queue,
                          const struct lull_pipeline_timed_plan *timed, uint32_t device)
{
    const uint32_t devices = timed->problem->graph->device_count;
    const uint32_t rank =
        device / queue->stages + device % queue->stages * (devices / queue->stages);

    return (uint32_t)((uint64_t)rank * count_drivers(timed->switching) / devices);
}

/* A raising has a latest begin, so that its clock holds in time; a lowering an earliest one, so
 * that the operation before does not run below its clock. */
static void add_call(struct lull_pipeline_queue *queue,
                     const struct lull_pipeline_timed_plan *timed, uint32_t before, uint32_t op,
                     int64_t wrap_ns)
{
    const bool is_raising = driver_calls_mhz_of(timed, op) > driver_calls_mhz_of(timed, before);
    const int64_t begin_ns =
        timed->end_ns[op] - lull_pipeline_point_of(timed->problem, timed->point, op)->time_ns;

    assert(queue->count < timed->problem->graph->op_count);
    queue->calls[queue->count++] = (struct lull_pipeline_call){
        .op = op,
        .before = before,
        .driver = driver_of(queue, timed, timed->problem->graph->ops[op].device),
        .is_raising = is_raising,
        .want_ns =
            is_raising ? begin_ns - timed->switching->up_ns : timed->end_ns[before] - wrap_ns,
    };
}

/* Adds the changes of a device, in its order. The first operation's change follows the last
 * operation of the iteration before. */
static void driver_calls_add_device(struct lull_pipeline_queue *queue,
                                    const struct lull_pipeline_timed_plan *timed, uint32_t device)
{
    const struct lull_pipeline_graph *graph = timed->problem->graph;
    uint32_t before = UINT32_MAX;
    uint32_t first = UINT32_MAX;

    for (uint32_t k = graph->first_on[device]; k < graph->first_on[device + 1]; k++) {
        const uint32_t op = graph->on_device[k];

        if (driver_calls_mhz_of(timed, op) == 0)
            continue;
        if (before == UINT32_MAX)
            first = op;
        before = op;
    }
    if (first == UINT32_MAX)
        return;
    for (uint32_t k = graph->first_on[device]; k < graph->first_on[device + 1]; k++) {
        const uint32_t op = graph->on_device[k];

        if (driver_calls_mhz_of(timed, op) == 0)
            continue;
        if (driver_calls_mhz_of(timed, op) != driver_calls_mhz_of(timed, before))
            add_call(queue, timed, before, op, op == first ? timed->period_ns : 0);
        before = op;
    }
}

/* ---- raisings ---------------------------------------------------------------------------- */

/* Sorts the calls of a driver and a kind into order[], by when they are wanted. Returns their
 * number. */
static size_t sort_calls(struct lull_pipeline_queue *queue, uint32_t driver, bool is_raising)
{
    const struct lull_pipeline_call *calls = queue->calls;
    size_t count = 0;

    for (uint32_t i = 0; i < queue->count; i++) {
        size_t place = count;

        if (calls[i].driver != driver || calls[i].is_raising != is_raising)
            continue;
        for (; place > 0 && calls[queue->order[place - 1]].want_ns > calls[i].want_ns; place--)
            queue->order[place] = queue->order[place - 1];
        queue->order[place] = i;
        count++;
    }
    return count;
}

/* Packs a driver's raisings, backwards through two iterations, since the second one's first
 * raisings may have to begin in the first. Returns how many there are. */
static size_t pack_raisings(struct lull_pipeline_queue *queue,
                            const struct lull_pipeline_timed_plan *timed, uint32_t driver)
{
    const size_t count = sort_calls(queue, driver, true);
    int64_t next_ns = INT64_MAX;

    for (size_t i = 2 * count; i-- > 0;) {
        struct lull_pipeline_call *call = &queue->calls[queue->order[i % count]];
        const int64_t lap_ns = i >= count ? timed->period_ns : 0;

        if (next_ns != INT64_MAX) /* there is a later call */
            next_ns -= timed->switching->call_ns;
        if (call->want_ns + lap_ns < next_ns)
            next_ns = call->want_ns + lap_ns;
        call->begin_ns = next_ns - lap_ns;
    }
    for (size_t i = 0; i < count; i++)
        queue->busy_ns[i] = queue->calls[queue->order[i]].begin_ns;
    return count;
}

/* ---- lowerings --------------------------------------------------------------------------- */

/* Begin of the driver's i-th raising, counted on through the iterations. */
static int64_t raising_ns(const struct lull_pipeline_queue *queue,
                          const struct lull_pipeline_timed_plan *timed, size_t count, size_t i)
{
    return queue->busy_ns[i % count] + (int64_t)(i / count) * timed->period_ns;
}

/* Places each lowering at the first time when the driver is free; through two iterations, of which
 * the second counts. */
static void place_lowerings(struct lull_pipeline_queue *queue,
                            const struct lull_pipeline_timed_plan *timed, uint32_t driver,
                            size_t raisings)
{
    const int64_t call_ns = timed->switching->call_ns;
    const size_t count = sort_calls(queue, driver, false);
    int64_t free_ns = INT64_MIN;
    size_t next = 0;

    for (size_t i = 0; i < 2 * count; i++) {
        /* NOLINTNEXTLINE(clang-analyzer-core.DivideZero): i < 2 * count, so count is not 0. */
        struct lull_pipeline_call *call = &queue->calls[queue->order[i % count]];
        const int64_t lap_ns = i >= count ? timed->period_ns : 0;
        int64_t begin_ns = call->want_ns + lap_ns;

        if (begin_ns < free_ns)
            begin_ns = free_ns;
        for (; raisings > 0 && next < 4 * raisings; next++) {
            const int64_t raise_ns = raising_ns(queue, timed, raisings, next);

            if (raise_ns >= begin_ns + call_ns)
                break;
            if (raise_ns + call_ns > begin_ns)
                begin_ns = raise_ns + call_ns;
        }
        call->begin_ns = begin_ns - lap_ns;
        free_ns = begin_ns + call_ns;
    }
}

/* ---- the verdict ------------------------------------------------------------------------- */

/* When the device's next change after this one is served, or wanted where it is a lowering; it may
 * be the next iteration's. Calls of a device stand next to each other. */
static int64_t next_change_ns(const struct lull_pipeline_queue *queue,
                              const struct lull_pipeline_timed_plan *timed, size_t index)
{
    const struct lull_pipeline_graph *graph = timed->problem->graph;
    const uint32_t device = graph->ops[queue->calls[index].op].device;
    size_t next = index + 1;
    int64_t lap_ns = 0;

    if (next == queue->count || graph->ops[queue->calls[next].op].device != device) {
        for (next = index; next > 0 && graph->ops[queue->calls[next - 1].op].device == device;)
            next--;
        lap_ns = timed->period_ns;
    }
    return lap_ns + (queue->calls[next].is_raising ? queue->calls[next].begin_ns
                                                   : queue->calls[next].want_ns);
}

/* Energy cost of running an operation at the higher clock of another one for this long, nJ. */
static double stray_nj(const struct lull_pipeline_timed_plan *timed, uint32_t op, uint32_t at,
                       int64_t for_ns)
{
    return lull_switching_stray_nj(timed->problem, op, timed->point[op],
                                   driver_calls_mhz_of(timed, at), for_ns);
}

/* A raising is never late by construction, but costs energy when it is served early; a lowering may
 * be late, and then the plan cannot be delivered. */
static struct lull_pipeline_queue_verdict
driver_calls_check(struct lull_pipeline_queue *queue, const struct lull_pipeline_timed_plan *timed)
{
    struct lull_pipeline_queue_verdict verdict = {0};

    for (size_t i = 0; i < queue->count; i++) {
        struct lull_pipeline_call *call = &queue->calls[i];
        int64_t missing_ns;

        if (call->is_raising) {
            verdict.more_nj +=
                stray_nj(timed, call->before, call->op, call->want_ns - call->begin_ns);
            continue;
        }
        call->next_ns = next_change_ns(queue, timed, i);
        missing_ns = call->begin_ns + timed->switching->call_ns - call->next_ns;
        if (missing_ns > 0)
            verdict.short_ns += missing_ns;
        verdict.more_nj += stray_nj(timed, call->op, call->before, call->begin_ns - call->want_ns);
    }
    return verdict;
}

struct lull_pipeline_queue_verdict
lull_pipeline_queue_walk(struct lull_pipeline_queue *queue,
                         const struct lull_pipeline_timed_plan *timed)
{
    const struct lull_pipeline_switching *switching = timed->switching;
    const uint32_t drivers = count_drivers(switching);

    queue->count = 0;
    if (switching->call_ns == 0 || !switching->is_fed_forward)
        return (struct lull_pipeline_queue_verdict){0};
    for (uint32_t device = 0; device < timed->problem->graph->device_count; device++)
        driver_calls_add_device(queue, timed, device);
    for (uint32_t driver = 0; driver < drivers; driver++) {
        const size_t raisings = pack_raisings(queue, timed, driver);

        place_lowerings(queue, timed, driver, raisings);
    }
    return driver_calls_check(queue, timed);
}

/* ---- delivering -------------------------------------------------------------------------- */

/* The operating point with the lowest clock that is not below mhz; the highest clock's where there
 * is none.
 */
static uint32_t point_from(const struct lull_pipeline_class *class, uint32_t mhz)
{
    uint32_t best = LULL_PIPELINE_HIGHEST;

    for (uint32_t i = 0; i < class->point_count; i++)
        if (class->points[i].sm_mhz >= mhz && class->points[i].sm_mhz < class->points[best].sm_mhz)
            best = i;
    return best;
}

/* The place of the device's next operation with another clock, round the end of the iteration. */
static uint32_t next_place(const struct lull_pipeline_timed_plan *timed, uint32_t place,
                           uint32_t first, uint32_t last)
{
    const uint32_t *on_device = timed->problem->graph->on_device;
    const uint32_t mhz = driver_calls_mhz_of(timed, on_device[place]);

    do
        place = place + 1 < last ? place + 1 : first;
    while (driver_calls_mhz_of(timed, on_device[place]) == mhz ||
           driver_calls_mhz_of(timed, on_device[place]) == 0);
    return place;
}

/* Leaves a lowering out: its operations keep the clock from before, or take the clock that follows
 * if that lies between. */
static void driver_calls_exclude(const struct lull_pipeline_timed_plan *timed,
                                 const struct lull_pipeline_call *call, uint32_t *point)
{
    const struct lull_pipeline_graph *graph = timed->problem->graph;
    const uint32_t device = graph->ops[call->op].device;
    const uint32_t first = graph->first_on[device];
    const uint32_t last = graph->first_on[device + 1];
    const uint32_t was_mhz = driver_calls_mhz_of(timed, call->op);
    uint32_t to_mhz = driver_calls_mhz_of(timed, call->before);
    uint32_t place = first;
    uint32_t end;

    while (graph->on_device[place] != call->op)
        place++;
    end = next_place(timed, place, first, last);
    if (driver_calls_mhz_of(timed, graph->on_device[end]) > was_mhz &&
        driver_calls_mhz_of(timed, graph->on_device[end]) < to_mhz)
        to_mhz = driver_calls_mhz_of(timed, graph->on_device[end]);
    for (; place != end; place = place + 1 < last ? place + 1 : first) {
        const uint32_t op = graph->on_device[place];

        if (driver_calls_mhz_of(timed, op) > 0)
            point[op] = point_from(lull_pipeline_class_of(timed->problem, op), to_mhz);
    }
}

/* The lowering that comes too late by most; null if none does. */
static const struct lull_pipeline_call *find_late(const struct lull_pipeline_queue *queue,
                                                  int64_t call_ns)
{
    const struct lull_pipeline_call *worst = NULL;

    for (size_t i = 0; i < queue->count; i++) {
        const struct lull_pipeline_call *call = &queue->calls[i];

        if (call->is_raising || call->begin_ns + call_ns <= call->next_ns)
            continue;
        if (worst == NULL || call->begin_ns - call->next_ns > worst->begin_ns - worst->next_ns)
            worst = call;
    }
    return worst;
}

/* Finds the times of a plan and plans its calls. Returns by how much they are late all together, or
 * -ENOMEM. end_ns: the plan's own, to be written. */
static int64_t driver_calls_walk(struct lull_pipeline_queue *queue,
                                 struct lull_pipeline_timed_plan *timed, int64_t *end_ns)
{
    timed->period_ns = lull_pipeline_switching_timeline(timed->problem, timed->switching,
                                                        timed->point, NULL, end_ns);
    if (timed->period_ns < 0)
        return timed->period_ns;
    return lull_pipeline_queue_walk(queue, timed).short_ns;
}

/* Leaving a lowering out makes no operation slower, so the loop ends: each round removes a lowering
 * that was too late. */
int lull_pipeline_queue_deliver(const struct lull_pipeline_problem *problem,
                                const struct lull_pipeline_switching *switching,
                                uint32_t *point_inout)
{
    int64_t *end_ns = malloc(problem->graph->op_count * sizeof(*end_ns));
    struct lull_pipeline_timed_plan timed = {problem, switching, point_inout, end_ns, 0};
    struct lull_pipeline_queue queue;
    const int rc = lull_pipeline_queue_init(&queue, problem);
    int64_t short_ns = -ENOMEM;

    if (rc == 0 && end_ns != NULL)
        short_ns = driver_calls_walk(&queue, &timed, end_ns);
    while (short_ns > 0) {
        const struct lull_pipeline_call *late = find_late(&queue, switching->call_ns);

        assert(late != NULL);
        driver_calls_exclude(&timed, late, point_inout);
        short_ns = driver_calls_walk(&queue, &timed, end_ns);
    }
    lull_memory_free(&queue.memory);
    free(end_ns);
    return (int)short_ns;
}
