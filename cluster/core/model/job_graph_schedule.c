/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "cluster/core/model/job_graph.h"

/* ---- upward rank -------------------------------------------------------------------------- */

/* The upward rank of each task: the longest path from its start to the end of the iteration. */
static void fill_ranks(const struct lull_job_graph *graph, const int64_t *duration_ns,
                       int64_t *rank_ns)
{
    for (size_t i = graph->task_count; i-- > 0;) {
        const uint32_t task = graph->topological[i];
        int64_t longest = 0;

        for (uint32_t k = graph->first_out[task]; k < graph->first_out[task + 1]; k++) {
            const int64_t behind = rank_ns[graph->edges[k].to];

            longest = behind > longest ? behind : longest;
        }
        rank_ns[task] = longest + duration_ns[task];
    }
}

/* ---- schedule ----------------------------------------------------------------------------- */

/* Ready tasks of a resource; equal keys come out by number, so numbers are places in an order that
 * already has the rest. */
struct ready_queue {
    struct lull_heap ready;
    uint32_t free_units;
    bool is_asked; /* is in the list of resources to check */
};

struct job_graph_schedule_run {
    const struct lull_job_graph *graph;
    const int64_t *duration_ns;
    int64_t *begin_ns;
    uint32_t *place;   /* of a task among all, by rank */
    uint32_t *by_rank; /* tasks, the highest rank first */
    uint32_t *left;    /* edges that still hold a task up */
    struct ready_queue *queues;
    uint32_t *asked; /* resources to look at */
    size_t asked_count;
    struct lull_heap ends;
};

struct ranked {
    int64_t rank_ns;
    uint32_t task;
};

static int graph_run_by_rank(const void *left, const void *right)
{
    const struct ranked *a = left;
    const struct ranked *b = right;

    if (a->rank_ns != b->rank_ns)
        return a->rank_ns > b->rank_ns ? -1 : 1;
    return (a->task > b->task) - (a->task < b->task);
}

static int sort_by_rank(struct job_graph_schedule_run *run)
{
    const size_t count = run->graph->task_count;
    struct ranked *ranked = malloc(count * sizeof(*ranked));
    int64_t *rank_ns = malloc(count * sizeof(*rank_ns));

    if (ranked == NULL || rank_ns == NULL) {
        free(ranked);
        free(rank_ns);
        return -ENOMEM;
    }
    fill_ranks(run->graph, run->duration_ns, rank_ns);
    for (size_t i = 0; i < count; i++)
        ranked[i] = (struct ranked){rank_ns[i], (uint32_t)i};
    qsort(ranked, count, sizeof(*ranked), graph_run_by_rank);
    for (size_t i = 0; i < count; i++) {
        run->by_rank[i] = ranked[i].task;
        run->place[ranked[i].task] = (uint32_t)i;
    }
    free(ranked);
    free(rank_ns);
    return 0;
}

static void graph_run_request(struct job_graph_schedule_run *run, uint32_t resource)
{
    struct ready_queue *queue = &run->queues[resource];

    if (!queue->is_asked)
        run->asked[run->asked_count++] = resource;
    queue->is_asked = true;
}

static int graph_run_make_ready(struct job_graph_schedule_run *run, uint32_t task)
{
    const uint32_t resource = run->graph->tasks[task].resource;
    const bool is_short_first = run->graph->resources[resource].order == LULL_JOB_SHORTEST_FIRST;

    graph_run_request(run, resource);
    return lull_heap_add(&run->queues[resource].ready, is_short_first ? run->duration_ns[task] : 0,
                         run->place[task]);
}

/* Starts ready tasks on the resources that have changed, as long as they have free units. */
static int start_tasks(struct job_graph_schedule_run *run, int64_t now_ns)
{
    while (run->asked_count > 0) {
        const uint32_t resource = run->asked[--run->asked_count];
        struct ready_queue *queue = &run->queues[resource];
        struct lull_heap_entry next;

        queue->is_asked = false;
        while (queue->free_units > 0 && lull_heap_take(&queue->ready, INT64_MAX, &next)) {
            const uint32_t task = run->by_rank[next.number];

            queue->free_units--;
            run->begin_ns[task] = now_ns;
            if (lull_heap_add(&run->ends, now_ns + run->duration_ns[task], task) < 0)
                return -ENOMEM;
        }
    }
    return 0;
}

static int end_task(struct job_graph_schedule_run *run, uint32_t task)
{
    const struct lull_job_graph *graph = run->graph;
    const uint32_t resource = graph->tasks[task].resource;

    run->queues[resource].free_units++;
    graph_run_request(run, resource);
    for (uint32_t k = graph->first_out[task]; k < graph->first_out[task + 1]; k++) {
        const uint32_t to = graph->edges[k].to;

        if (--run->left[to] == 0 && graph_run_make_ready(run, to) < 0)
            return -ENOMEM;
    }
    return 0;
}

/* Plays the iteration from end to end of tasks. All tasks that end at one time end before any
 * begins, so that the one of highest rank is chosen among all that are ready then. */
static int64_t graph_run_play(struct job_graph_schedule_run *run)
{
    const struct lull_job_graph *graph = run->graph;
    int64_t now_ns = 0;

    for (uint32_t i = 0; i < graph->task_count; i++)
        if (run->left[i] == 0 && graph_run_make_ready(run, i) < 0)
            return -ENOMEM;
    if (start_tasks(run, 0) < 0)
        return -ENOMEM;
    while (run->ends.count > 0) {
        struct lull_heap_entry ended;

        now_ns = run->ends.entries[0].key;
        while (lull_heap_take(&run->ends, now_ns, &ended))
            if (end_task(run, (uint32_t)ended.number) < 0)
                return -ENOMEM;
        if (start_tasks(run, now_ns) < 0)
            return -ENOMEM;
    }
    return now_ns;
}

static void run_fini(struct job_graph_schedule_run *run)
{
    for (size_t i = 0; run->queues != NULL && i < run->graph->resource_count; i++)
        lull_heap_fini(&run->queues[i].ready);
    lull_heap_fini(&run->ends);
    free(run->queues);
    free(run->place);
    free(run->by_rank);
    free(run->left);
    free(run->asked);
    free(run->begin_ns);
}

static int graph_run_init(struct job_graph_schedule_run *run)
{
    const struct lull_job_graph *graph = run->graph;

    run->queues = calloc(graph->resource_count, sizeof(*run->queues));
    run->asked = malloc(graph->resource_count * sizeof(*run->asked));
    run->place = malloc(graph->task_count * sizeof(*run->place));
    run->by_rank = malloc(graph->task_count * sizeof(*run->by_rank));
    run->left = malloc(graph->task_count * sizeof(*run->left));
    run->begin_ns = malloc(graph->task_count * sizeof(*run->begin_ns));
    if (run->queues == NULL || run->asked == NULL || run->place == NULL || run->by_rank == NULL ||
        run->left == NULL || run->begin_ns == NULL)
        return -ENOMEM;
    memcpy(run->left, graph->waits_for, graph->task_count * sizeof(*run->left));
    for (size_t i = 0; i < graph->resource_count; i++)
        run->queues[i].free_units = graph->resources[i].units;
    return sort_by_rank(run);
}

int64_t lull_job_graph_schedule(const struct lull_job_graph *graph, const int64_t *duration_ns,
                                int64_t *begin_out)
{
    struct job_graph_schedule_run run = {.graph = graph, .duration_ns = duration_ns};
    int64_t makespan_ns = graph_run_init(&run);

    if (makespan_ns == 0)
        makespan_ns = graph_run_play(&run);
    if (makespan_ns >= 0 && begin_out != NULL)
        memcpy(begin_out, run.begin_ns, graph->task_count * sizeof(*begin_out));
    run_fini(&run);
    return makespan_ns;
}

/* ---- usage -------------------------------------------------------------------------------- */

struct stretch {
    uint32_t device;
    enum lull_job_task_kind kind;
    int64_t begin_ns;
    int64_t end_ns;
};

static int graph_run_by_begin(const void *left, const void *right)
{
    const struct stretch *a = left;
    const struct stretch *b = right;

    if (a->device != b->device)
        return a->device < b->device ? -1 : 1;
    return (a->begin_ns > b->begin_ns) - (a->begin_ns < b->begin_ns);
}

/* Adds up how long the stretches of one device, from `first` on, cover: those of computation, and
 * those of any kind. Returns the first stretch behind them. */
static size_t graph_run_cover(const struct stretch *all, size_t first, size_t count,
                              int64_t *compute_ns, int64_t *both_ns)
{
    int64_t compute_until = 0;
    int64_t until = 0;
    size_t i = first;

    for (; i < count && all[i].device == all[first].device; i++) {
        const struct stretch *here = &all[i];

        if (here->end_ns > until) {
            *both_ns += here->end_ns - (here->begin_ns > until ? here->begin_ns : until);
            until = here->end_ns;
        }
        if (here->kind == LULL_JOB_COMPUTE && here->end_ns > compute_until) {
            *compute_ns +=
                here->end_ns - (here->begin_ns > compute_until ? here->begin_ns : compute_until);
            compute_until = here->end_ns;
        }
    }
    return i;
}

int lull_job_graph_usage(const struct lull_job_graph *graph, const int64_t *duration_ns,
                         const int64_t *begin_ns, int64_t makespan_ns,
                         struct lull_job_usage *usage_out)
{
    struct stretch *all = malloc(graph->task_count * sizeof(*all));

    if (all == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < graph->task_count; i++)
        all[i] = (struct stretch){graph->tasks[i].device, graph->tasks[i].kind, begin_ns[i],
                                  begin_ns[i] + duration_ns[i]};
    qsort(all, graph->task_count, sizeof(*all), graph_run_by_begin);
    memset(usage_out, 0, graph->resource_count * sizeof(*usage_out));
    for (size_t i = 0; i < graph->task_count;) {
        struct lull_job_usage *usage = &usage_out[all[i].device];
        int64_t both_ns = 0;

        i = graph_run_cover(all, i, graph->task_count, &usage->compute_ns, &both_ns);
        usage->exposed_ns = both_ns - usage->compute_ns;
        usage->bubble_ns = makespan_ns - both_ns;
    }
    free(all);
    return 0;
}

/* ---- an iteration -------------------------------------------------------------------------- */

void lull_job_graph_durations(const struct lull_job_graph *graph,
                              const struct lull_job_tempo *tempo, int64_t *duration_out)
{
    for (size_t i = 0; i < graph->task_count; i++) {
        const struct lull_job_task *task = &graph->tasks[i];
        double ratio = 1.0;

        if (task->kind == LULL_JOB_COMPUTE)
            ratio = tempo[task->work].compute_ratio;
        else if (task->kind == LULL_JOB_TRANSFER)
            ratio = tempo->transfer_ratio;
        duration_out[i] = llround((double)task->time_ns * ratio);
    }
}

/* The power of a GPU of each device while it computes: the mean over its tasks, weighted by time.
 */
static void fill_compute_w(const struct lull_job_graph *graph, const struct lull_job_tempo *tempo,
                           const int64_t *duration_ns, uint32_t devices, double *compute_w,
                           double *time_ns)
{
    for (size_t i = 0; i < graph->task_count; i++) {
        const struct lull_job_task *task = &graph->tasks[i];

        if (task->kind != LULL_JOB_COMPUTE || task->device >= devices)
            continue;
        compute_w[task->device] += (double)duration_ns[i] * tempo[task->work].compute_w;
        time_ns[task->device] += (double)duration_ns[i];
    }
    for (uint32_t d = 0; d < devices; d++)
        compute_w[d] /= fmax(time_ns[d], 1.0);
}

static void graph_run_sum(const struct lull_job_usage *usage, uint32_t devices, uint64_t gpus,
                          const struct lull_job_tempo *tempo, const double *compute_w,
                          struct lull_job_iteration *iteration)
{
    for (uint32_t d = 0; d < devices; d++) {
        iteration->energy_j += (double)gpus * 1e-9 *
                               ((double)usage[d].compute_ns * compute_w[d] +
                                (double)usage[d].exposed_ns * tempo->transfer_w +
                                (double)usage[d].bubble_ns * tempo->waiting_w);
        iteration->compute_ratio += (double)usage[d].compute_ns;
        iteration->exposed_ratio += (double)usage[d].exposed_ns;
        iteration->bubble_ratio += (double)usage[d].bubble_ns;
    }
    iteration->compute_ratio /= (double)iteration->time_ns * devices;
    iteration->exposed_ratio /= (double)iteration->time_ns * devices;
    iteration->bubble_ratio /= (double)iteration->time_ns * devices;
}

int lull_job_iterate(const struct lull_job_graph *graph, uint32_t devices, uint64_t gpus,
                     const struct lull_job_tempo *tempo, struct lull_job_iteration *iteration_out)
{
    int64_t *duration_ns = malloc(graph->task_count * sizeof(*duration_ns));
    int64_t *begin_ns = malloc(graph->task_count * sizeof(*begin_ns));
    struct lull_job_usage *usage = malloc(graph->resource_count * sizeof(*usage));
    double *compute_w = calloc(devices, 2 * sizeof(*compute_w)); /* and the time behind it */
    int64_t makespan_ns = -ENOMEM;
    int rc = -ENOMEM;

    if (duration_ns != NULL && begin_ns != NULL && usage != NULL && compute_w != NULL) {
        lull_job_graph_durations(graph, tempo, duration_ns);
        makespan_ns = lull_job_graph_schedule(graph, duration_ns, begin_ns);
    }
    if (makespan_ns >= 0)
        rc = lull_job_graph_usage(graph, duration_ns, begin_ns, makespan_ns, usage);
    if (rc == 0) {
        *iteration_out = (struct lull_job_iteration){.time_ns = makespan_ns};
        fill_compute_w(graph, tempo, duration_ns, devices, compute_w, &compute_w[devices]);
        graph_run_sum(usage, devices, gpus, tempo, compute_w, iteration_out);
    }
    free(duration_ns);
    free(begin_ns);
    free(usage);
    free(compute_w);
    return rc;
}
