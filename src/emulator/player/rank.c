/*
 * The two sides of a rank: the host is a thread that makes the calls ahead of time; the GPU's side
 * is the first thread of the process, which follows the emulated GPU and reports its events.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "emulator/player/rank.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "emulator/node.h"
#include "emulator/player/enqueue.h"
#include "emulator/player/liblull.h"
#include "emulator/player/rendezvous.h"
#include "emulator/workload.h"

enum {
    CALLS_AHEAD = 1024, /* the host runs ahead about as many launches as a real driver accepts */
    WORKS_PER_CALL = 8,
    EVENTS_AT_ONCE = 4 * LULL_PHYSICS_KERNELS, /* more than can happen between two polls */
    POLL_MS = 1,
};

/* The work that the emulated libraries put on a stream during the call of one operation. */
struct call {
    uint32_t count;
    struct {
        struct lull_stream_work work;
        bool is_kernel; /* false: a write to memory */
        bool is_behind; /* a kernel of the same call precedes it */
    } works[WORKS_PER_CALL];
};

struct play_rank {
    const struct lull_play_part *part;
    const struct lull_play_rank *ops;
    struct lull_play_nccl *nccl;
    /* lull_section_begin() and _end() of liblull; null: sections are not reported. */
    void (*begin_section)(const char *name);
    void (*end_section)(const char *name);
    struct lull_emulated_gpu *handle;
    struct lull_node *node;
    int context;
    struct lull_play_enqueue *feed;
    struct lull_stream streams[LULL_PLAY_STREAMS];
    struct call calls[CALLS_AHEAD]; /* operation n has calls[n % CALLS_AHEAD] */
    _Atomic uint64_t enqueued; /* the host has made the calls of all operations below this number */
    int64_t realtime_offset_ns;
    lull_emulated_kernel_function report_kernel;

    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t changed;
    uint64_t begun; /* all operations below this number have started */
    uint64_t ended; /* all operations below this number have ended */
    struct lull_error host_error;

    /* Counters of the GPU thread; no other thread accesses them. */
    int64_t first_ns;
    int64_t step_ns;
    int64_t last_ns;
    double *step_ms;
    uint64_t step_count;
    bool is_step_low;
    struct lull_play_outcome outcome;
};

/* ---- the host ---- */

/* The call that this thread is making. Within it the libraries call play_rank_enqueue(), which
 * cannot learn the operation otherwise. */
static _Thread_local struct call *current_call;

static int play_rank_enqueue(struct lull_stream *stream, const struct lull_stream_work *work)
{
    struct call *call = current_call;
    const bool is_kernel = strcmp(work->function, "WriteValue") != 0;
    bool is_behind = false;

    (void)stream;
    if (call == NULL || call->count == WORKS_PER_CALL)
        return -EINVAL;
    for (uint32_t i = 0; i < call->count; i++)
        is_behind |= call->works[i].is_kernel;
    call->works[call->count].work = *work;
    call->works[call->count].is_kernel = is_kernel;
    call->works[call->count++].is_behind = is_behind;
    return 0;
}

static int make_call(struct play_rank *rank, uint64_t number, struct lull_error *err)
{
    const struct lull_play_op *op = &rank->ops->ops[number % rank->ops->count];
    struct call *call = &rank->calls[number % CALLS_AHEAD];
    int result;

    call->count = 0;
    if (op->kind != LULL_PLAY_COMMUNICATION || rank->nccl == NULL)
        return 0;
    current_call = call;
    result = lull_play_nccl_call(rank->nccl, rank->part->play, op, &rank->streams[op->stream], err);
    current_call = NULL;
    return result;
}

static bool may_enqueue(const struct play_rank *rank, uint64_t number)
{
    const uint64_t gate = rank->part->gates[number % rank->ops->count];

    return number < rank->ended + CALLS_AHEAD &&
           (gate == 0 || gate > number || rank->begun > number - gate);
}

/* Waits until the GPU has come near enough to operation `number`. The GPU is woken first, so that
 * it takes up what has been enqueued. */
static void play_rank_await_turn(struct play_rank *rank, uint64_t number)
{
    pthread_mutex_lock(&rank->mutex);
    if (!may_enqueue(rank, number))
        lull_node_wake(rank->node, rank->part->rank);
    while (!may_enqueue(rank, number))
        pthread_cond_wait(&rank->changed, &rank->mutex);
    pthread_mutex_unlock(&rank->mutex);
}

static void *run_host(void *argument)
{
    struct play_rank *rank = argument;
    const uint64_t total = lull_play_enqueue_total(rank->feed);
    struct lull_error err = {0};

    for (uint64_t number = 0; number < total; number++) {
        play_rank_await_turn(rank, number);
        if (make_call(rank, number, &err) < 0) {
            pthread_mutex_lock(&rank->mutex);
            rank->host_error = err;
            pthread_mutex_unlock(&rank->mutex);
            break;
        }
        atomic_store(&rank->enqueued, number + 1);
    }
    lull_node_wake(rank->node, rank->part->rank);
    return NULL;
}

/* ---- the GPU: reports ---- */

static int64_t gpu_time_ns(const struct play_rank *rank, int64_t virtual_ns)
{
    return lull_node_real_ns(rank->node, virtual_ns) + rank->realtime_offset_ns;
}

static void play_rank_notify_libraries(struct play_rank *rank, const struct lull_play_event *event)
{
    const struct call *call = &rank->calls[event->number % CALLS_AHEAD];
    const int64_t now_ns = gpu_time_ns(rank, event->is_end ? event->end_ns : event->begin_ns);

    for (uint32_t i = 0; i < call->count; i++) {
        const struct lull_stream_work *work = &call->works[i].work;
        const bool is_kernel = call->works[i].is_kernel;
        const bool is_write = !is_kernel && call->works[i].is_behind == event->is_end;

        if (work->began != NULL && (is_write || (is_kernel && !event->is_end)))
            work->began(work->context, now_ns);
        if (work->ended != NULL && (is_write || (is_kernel && event->is_end)))
            work->ended(work->context, now_ns);
    }
}

/* Reports a kernel to the emulated CUPTI, with a name as in real CUPTI records. */
static void play_rank_notify_profiler(struct play_rank *rank, const struct lull_play_event *event)
{
    const struct lull_play_op *op = event->op;
    char name[64];

    if (rank->report_kernel == NULL || !event->is_end)
        return;
    if (op->kind == LULL_PLAY_COMMUNICATION)
        snprintf(name, sizeof(name), "ncclDevKernel_%s", lull_play_function_name(op->function));
    else
        snprintf(name, sizeof(name), "%s_kernel", op->profile != NULL ? op->profile : "compute");
    rank->report_kernel(name, op->stream, gpu_time_ns(rank, event->begin_ns),
                        gpu_time_ns(rank, event->end_ns));
}

/* Reports to liblull which part of the program begins or ends. Like a program, it uses the public C
 * API. */
static void play_rank_send_section(const struct play_rank *rank, const char *name, bool is_end)
{
    void (*const tell)(const char *) = is_end ? rank->end_section : rank->begin_section;

    if (name != NULL && tell != NULL)
        tell(name);
}

/* A profiler may load CUPTI at any time, so every iteration checks for it. */
static void play_rank_find_profiler(struct play_rank *rank)
{
    void *library;

    if (rank->report_kernel != NULL)
        return;
    library = dlopen("libcupti.so.12", RTLD_NOW | RTLD_NOLOAD);
    if (library == NULL)
        return;
    *(void **)&rank->report_kernel = dlsym(library, "lull_emulated_kernel");
    dlclose(library); /* it stays loaded: the profiler holds a reference of its own */
}

/* The rank that comes last releases all ranks that have met, each on its own GPU. */
static void play_rank_meet(struct play_rank *rank, const struct lull_play_event *event)
{
    const struct lull_play_part *part = rank->part;
    struct lull_play_release release;

    if (!lull_play_join(part->collectives, part->play, part->rank, event->number, event->begin_ns,
                        &release))
        return;
    for (uint32_t i = 0; i < release.count; i++) {
        const uint32_t peer = release.members[i].rank;

        lull_physics_release(lull_node_begin(rank->node, peer), part->shared->contexts[peer],
                             release.members[i].number, release.at_ns);
        lull_node_end(rank->node, peer, true);
    }
}

/* ---- the GPU: counters ---- */

static void end_step(struct play_rank *rank, int64_t end_ns)
{
    rank->step_ms[rank->step_count++] = lull_ms_from_ns(end_ns - rank->step_ns);
    rank->outcome.iterations_low += rank->is_step_low;
    rank->is_step_low = false;
}

static void count_event(struct play_rank *rank, const struct lull_play_event *event)
{
    if (event->is_end) {
        if (event->end_ns > rank->last_ns)
            rank->last_ns = event->end_ns;
        if (event->op->kind == LULL_PLAY_COMPUTE) {
            rank->outcome.compute_ops++;
            rank->outcome.compute_ops_low += event->is_low;
            rank->is_step_low |= event->is_low;
        }
        return;
    }
    if (event->number == 0)
        rank->first_ns = event->begin_ns;
    if (!event->op->begins_step)
        return;
    if (rank->step_ns >= 0)
        end_step(rank, event->begin_ns);
    else
        rank->is_step_low = false;
    rank->step_ns = event->begin_ns;
    play_rank_find_profiler(rank);
}

static int play_rank_compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;

    return (x > y) - (x < y);
}

static void play_rank_summarize(struct play_rank *rank, double energy_j)
{
    struct lull_play_outcome *outcome = &rank->outcome;
    double sum_ms = 0;

    end_step(rank, rank->last_ns);
    qsort(rank->step_ms, rank->step_count, sizeof(rank->step_ms[0]), play_rank_compare_doubles);
    for (uint64_t i = 0; i < rank->step_count; i++)
        sum_ms += rank->step_ms[i];
    outcome->iterations = rank->step_count;
    outcome->iteration_mean_ms = sum_ms / (double)rank->step_count;
    outcome->iteration_p50_ms = rank->step_ms[rank->step_count / 2];
    outcome->iteration_p99_ms = rank->step_ms[(rank->step_count * 99) / 100];
    outcome->span_ms = lull_ms_from_ns(rank->last_ns - rank->first_ns);
    outcome->energy_j = energy_j;
}

/* ---- the GPU: its loop ---- */

static void play_rank_show_progress(struct play_rank *rank)
{
    pthread_mutex_lock(&rank->mutex);
    rank->begun = lull_play_enqueue_begun(rank->feed);
    rank->ended = lull_play_enqueue_ended(rank->feed);
    pthread_cond_signal(&rank->changed);
    pthread_mutex_unlock(&rank->mutex);
}

static void play_rank_serve(struct play_rank *rank, const struct lull_play_event *events,
                            uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!events[i].is_end && events[i].op->collective != LULL_PLAY_NO_COLLECTIVE)
            play_rank_meet(rank, &events[i]);
        play_rank_notify_libraries(rank, &events[i]);
        play_rank_notify_profiler(rank, &events[i]);
        play_rank_send_section(rank, events[i].op->section, events[i].is_end);
        count_event(rank, &events[i]);
    }
    if (count > 0)
        play_rank_show_progress(rank);
}

/* Feeds the queue and collects the events since the last look; *until_ns is when to look again. */
static uint32_t play_rank_poll(struct play_rank *rank, struct lull_play_event *events,
                               uint32_t *generation_out, int64_t *until_ns)
{
    const uint32_t gpu = rank->part->rank;
    struct lull_physics *physics = lull_node_begin(rank->node, gpu);
    uint32_t count = 0;
    uint64_t limit;

    /* The generation must be read before `enqueued`: then whatever the host enqueues after this
     * look changes the generation and ends the sleep that follows. */
    *generation_out = lull_node_generation(rank->node, gpu);
    limit = atomic_load(&rank->enqueued);
    do /* an end frees a place in the queue; what begins at once must be reported at once */
        while (lull_play_enqueue_next(rank->feed, physics, rank->context, &events[count]))
            count++;
    while (lull_play_enqueue_enqueue(rank->feed, physics, rank->context, limit));
    *until_ns = lull_physics_rate_change_ns(physics);
    lull_node_end(rank->node, gpu, false);
    return count;
}

static int host_result(struct play_rank *rank, struct lull_error *err)
{
    int code;

    pthread_mutex_lock(&rank->mutex);
    code = rank->host_error.code;
    if (code != 0 && err != NULL)
        *err = rank->host_error;
    pthread_mutex_unlock(&rank->mutex);
    return code;
}

static int run_gpu(struct play_rank *rank, struct lull_error *err)
{
    static struct lull_play_event events[EVENTS_AT_ONCE];

    while (!lull_play_enqueue_is_done(rank->feed)) {
        uint32_t generation;
        int64_t until_ns;
        const uint32_t count = play_rank_poll(rank, events, &generation, &until_ns);
        int result;

        play_rank_serve(rank, events, count);
        result = host_result(rank, err);
        if (result < 0)
            return result;
        if (count == 0)
            lull_node_sleep(rank->node, rank->part->rank, generation, until_ns);
    }
    return 0;
}

static double play_rank_energy_j(struct play_rank *rank)
{
    const double j = lull_physics_energy_j(lull_node_begin(rank->node, rank->part->rank));

    lull_node_end(rank->node, rank->part->rank, false);
    return j;
}

/* ---- setting up ---- */

/* Joins a communicator, if the rank is a member. Its first member makes the id for all. */
static int play_rank_join(struct play_rank *rank, uint32_t index, struct lull_error *err)
{
    const struct lull_play_part *part = rank->part;
    const uint32_t members = part->play->communicators[index].members;
    struct lull_play_nccl_id id;

    if ((members >> part->rank & 1) == 0)
        return 0;
    if (lull_play_rank_in(&part->play->communicators[index], part->rank) == 0) {
        const int result = lull_play_nccl_id(rank->nccl, &id, err);

        if (result < 0)
            return result;
        part->shared->ids[index].id = id;
        atomic_store(&part->shared->ids[index].is_set, true);
    }
    while (!atomic_load(&part->shared->ids[index].is_set))
        lull_sleep_until_ns(lull_now_ns() + POLL_MS * LULL_NS_PER_MS);
    id = part->shared->ids[index].id;
    return lull_play_nccl_join(rank->nccl, part->play, index, part->rank, &id, err);
}

static bool play_rank_has_sections(const struct lull_play_rank *ops)
{
    for (uint32_t i = 0; i < ops->count; i++)
        if (ops->ops[i].section != NULL)
            return true;
    return false;
}

static int open_libraries(struct play_rank *rank, struct lull_error *err)
{
    int result = lull_play_nccl_open(&rank->nccl, err);

    if (play_rank_has_sections(rank->ops)) {
        lull_play_find_liblull("lull_section_begin", &rank->begin_section);
        lull_play_find_liblull("lull_section_end", &rank->end_section);
    }
    if (result < 0 || rank->nccl == NULL)
        return result;
    for (uint32_t i = 0; i < rank->part->play->communicator_count; i++) {
        result = play_rank_join(rank, i, err);
        if (result < 0)
            return result;
    }
    return 0;
}

static int open_gpu(struct play_rank *rank, struct lull_error *err)
{
    const int result = lull_emulated_gpu_open(rank->part->rank, &rank->handle, err);

    if (result < 0)
        return result;
    if (rank->handle == NULL)
        return lull_error_set(
            err, LULL_E_NO_DEVICE,
            "this process is not on an emulated node: use lull emulate SPEC -- lull play ...");
    rank->node = lull_emulated_gpu_node(rank->handle);
    rank->context = lull_emulated_gpu_context(rank->handle);
    rank->part->shared->contexts[rank->part->rank] = rank->context;
    return 0;
}

static int64_t realtime_offset_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * LULL_NS_PER_S + now.tv_nsec - lull_now_ns();
}

static int play_rank_run(struct play_rank *rank, struct lull_error *err)
{
    pthread_t host;
    double begin_j;
    int result;

    /* All ranks begin together. If one fails, the parent notices and ends the others, which wait
     * here. */
    atomic_fetch_add(&rank->part->shared->ready, 1);
    while (atomic_load(&rank->part->shared->ready) < rank->part->play->rank_count)
        lull_sleep_until_ns(lull_now_ns() + POLL_MS * LULL_NS_PER_MS);
    result = lull_play_enqueue_create(rank->part->play, rank->part->rank, rank->part->periods,
                                      lull_node_now_ns(rank->node), &rank->feed, err);
    if (result < 0)
        return result;
    begin_j = play_rank_energy_j(rank);
    result = -pthread_create(&host, NULL, run_host, rank);
    if (result < 0)
        return lull_error_set(err, result, "rank %u: cannot start its host thread: %s",
                              rank->part->rank, strerror(-result));
    result = run_gpu(rank, err);
    if (result < 0)
        return result;
    pthread_join(host, NULL);
    play_rank_summarize(rank, play_rank_energy_j(rank) - begin_j);
    rank->part->shared->outcomes[rank->part->rank] = rank->outcome;
    return 0;
}

int lull_play_rank(const struct lull_play_part *part, struct lull_error *err)
{
    const struct lull_play_rank *ops = &part->play->ranks[part->rank];
    struct play_rank *rank = calloc(1, sizeof(*rank));
    int result;

    if (rank == NULL)
        return lull_error_set(err, -ENOMEM, "play: no memory");
    rank->part = part;
    rank->ops = ops;
    rank->step_ns = -1;
    rank->realtime_offset_ns = realtime_offset_ns();
    for (uint32_t i = 0; i < LULL_PLAY_STREAMS; i++)
        rank->streams[i] = (struct lull_stream){LULL_STREAM_MAGIC, play_rank_enqueue, rank};
    pthread_mutex_init(&rank->mutex, NULL);
    pthread_cond_init(&rank->changed, NULL);
    rank->step_ms = calloc(part->periods * ops->steps + 1, sizeof(rank->step_ms[0]));
    if (rank->step_ms == NULL)
        return lull_error_set(err, -ENOMEM, "play: no memory for its iterations");
    /* After an error nothing is freed, since the host thread may still be at work; the process
     * ends. */
    result = open_gpu(rank, err);
    if (result < 0)
        return result;
    result = open_libraries(rank, err);
    if (result < 0)
        return result;
    result = play_rank_run(rank, err);
    if (result < 0)
        return result;
    lull_play_nccl_close(rank->nccl);
    lull_emulated_gpu_close(rank->handle);
    lull_play_enqueue_destroy(rank->feed);
    free(rank->step_ms);
    free(rank);
    return 0;
}
