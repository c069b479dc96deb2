/*
 * Path of a call to the stream. A call is appended to the group of its thread, and its CollApi or
 * P2pApi event is reported. When the outermost group ends, every work is enqueued, and then the
 * Group, Coll and P2p events are reported. All of this is on the application thread.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "emulator/nccl/nccl_library.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "emulator/stream.h"

enum { LARGEST_RESERVED_STREAM = 4096 }; /* smaller handles are CUDA's default streams */

/* A communicator that is to be initialised when the group ends. */
struct pending_init {
    struct lull_nccl_comm *comm;
    pthread_t thread;
    bool is_running;
    struct pending_init *next;
};

/* The group that this thread has open. */
static _Thread_local struct {
    int depth; /* nesting depth of the user's groups */
    struct lull_nccl_work *first;
    struct lull_nccl_work **last;
    struct pending_init *inits;
    void *group_api; /* its GroupApi event; NULL: not reported to the plugin */
    void *coll_api;  /* the last CollApi event; NCCL 2.28 to 2.31 never clears it, which is a bug */
    int error;
} group;

static _Atomic uint64_t work_count;

/* ---- on the GPU ---- */

static void on_began(void *context, int64_t gpu_ns)
{
    struct lull_nccl_work *work = context;
    struct lull_nccl_comm *comm = work->comm;

    pthread_mutex_lock(&comm->mutex);
    atomic_store(&work->begin_ns, gpu_ns);
    pthread_cond_broadcast(&comm->changed);
    pthread_mutex_unlock(&comm->mutex);
}

static void on_ended(void *context, int64_t gpu_ns)
{
    struct lull_nccl_work *work = context;
    struct lull_nccl_comm *comm = work->comm;

    pthread_mutex_lock(&comm->mutex);
    atomic_store(&work->end_ns, gpu_ns);
    comm->running--;
    pthread_cond_broadcast(&comm->changed);
    pthread_mutex_unlock(&comm->mutex);
    nccl_work_release(work);
}

/* Runs a work without a player: it begins and ends now. */
static void run_at_once(struct lull_nccl_work *work)
{
    struct timespec now;
    int64_t now_ns;

    clock_gettime(CLOCK_REALTIME, &now);
    now_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    on_began(work, now_ns);
    on_ended(work, now_ns);
}

static int nccl_work_enqueue(struct lull_nccl_work *work)
{
    struct lull_stream *stream = work->stream;
    const struct lull_stream_work shown = {.function = work->function,
                                           .bytes = work->bytes,
                                           .peer = work->peer,
                                           .began = on_began,
                                           .ended = on_ended,
                                           .context = work};

    pthread_mutex_lock(&work->comm->mutex);
    work->comm->running++;
    pthread_mutex_unlock(&work->comm->mutex);
    atomic_fetch_add(&work->references, 1);
    if ((uintptr_t)stream < LARGEST_RESERVED_STREAM || stream->magic != LULL_STREAM_MAGIC) {
        run_at_once(work);
        return NCCL_SUCCESS;
    }
    if (stream->enqueue(stream, &shown) == 0)
        return NCCL_SUCCESS;
    run_at_once(work);
    return NCCL_SYSTEM_ERROR;
}

/* ---- a call ---- */

static bool is_point_to_point(enum nccl_function function)
{
    return function == NCCL_SEND || function == NCCL_RECV;
}

/* Returns whether the call is reported to the plugin as Sends and Recvs. */
static bool is_expanded(enum nccl_function function)
{
    return function == NCCL_ALL_TO_ALL || function == NCCL_GATHER || function == NCCL_SCATTER;
}

/* A Broadcast of NCCL 2.29 and 2.30 runs as AllGatherV, which loses its mask and handles. */
static bool loses_mask(enum nccl_function function)
{
    return function == NCCL_BROADCAST && nccl_version() >= 22900 && nccl_version() < 23100;
}

/* Number of channels, and so of blocks, of a kernel. The sizes are guessed. */
static uint8_t channels_for(const struct lull_nccl_task *task)
{
    if (is_point_to_point(task->function))
        return task->bytes < 65536 ? 1 : 2;
    if (task->bytes < 65536)
        return 1;
    if (task->bytes < 1 << 20)
        return 2;
    if (task->bytes < 16 << 20)
        return 8;
    return NCCL_MAX_CHANNELS;
}

static void start_group_api(const struct lull_nccl_call *call)
{
    const struct lull_nccl_report event = {
        .type = NCCL_EVENT_GROUP_API, .comm = call->comm, .depth = group.depth + 1};

    if (group.group_api != NULL || !(nccl_plugin_mask() & NCCL_EVENT_GROUP_API))
        return;
    group.group_api = nccl_plugin_start(&event);
    if (group.depth > 0)
        nccl_plugin_state(group.group_api, NCCL_STATE_GROUP_START_STOP, NULL);
}

/* Reports the event of the call itself, which indicates only that something was enqueued. */
static void nccl_work_report_call(const struct lull_nccl_call *call, struct lull_nccl_task *task)
{
    const bool is_p2p = is_point_to_point(task->function);
    const struct lull_nccl_report event = {.type =
                                               is_p2p ? NCCL_EVENT_P2P_API : NCCL_EVENT_COLL_API,
                                           .parent = group.group_api,
                                           .comm = call->comm,
                                           .task = task,
                                           .stream = call->stream};

    if (call->comm->context == NULL)
        return;
    if (task->mask & (int)event.type) {
        task->api_handle = nccl_plugin_start(&event);
        if (!is_p2p)
            group.coll_api = task->api_handle;
        nccl_plugin_stop(task->api_handle);
    }
    if (!(nccl_faults() & NCCL_FAULT_STALE_STOP))
        group.coll_api = NULL;
    else if (!is_p2p && !(task->mask & NCCL_EVENT_COLL_API))
        nccl_plugin_stop(group.coll_api);
}

static void fill_task(const struct lull_nccl_call *call, enum nccl_function function, int peer,
                      struct lull_nccl_task *task)
{
    *task = (struct lull_nccl_task){
        .function = function,
        .send = call->send,
        .receive = call->receive,
        .count = call->count,
        .datatype = call->datatype,
        .peer = peer,
        .bytes = call->count * nccl_datatype_bytes(call->datatype),
        .mask = call->comm->context != NULL ? nccl_plugin_mask() : 0,
    };
    task->channels = channels_for(task);
    if (!is_point_to_point(function))
        task->sequence = call->comm->sequences[function]++;
}

static uint32_t task_count(const struct lull_nccl_call *call)
{
    const bool is_root = call->comm->rank == call->peer;

    /* One-sided operations are no kernels, and NCCL documents no events for them. */
    if (call->function >= NCCL_PUT_SIGNAL)
        return 0;
    if (call->function == NCCL_ALL_TO_ALL)
        return 2 * (uint32_t)call->comm->ranks;
    if (is_expanded(call->function))
        return is_root ? (uint32_t)call->comm->ranks + 1 : 1;
    return 1;
}

/* Fills in the Sends and Recvs of an AlltoAll, Gather or Scatter, as many as task_count() says. */
static void nccl_work_expand(const struct lull_nccl_call *call, struct lull_nccl_work *work)
{
    const bool is_all = call->function == NCCL_ALL_TO_ALL;
    const bool sends_to_all = is_all || call->function == NCCL_SCATTER;
    uint32_t i = 0;

    if (!is_all)
        fill_task(call, sends_to_all ? NCCL_RECV : NCCL_SEND, call->peer, &work->tasks[i++]);
    for (int peer = 0; i < work->task_count; peer++) {
        if (is_all || sends_to_all)
            fill_task(call, NCCL_SEND, peer, &work->tasks[i++]);
        if (is_all || !sends_to_all)
            fill_task(call, NCCL_RECV, peer, &work->tasks[i++]);
    }
}

static struct lull_nccl_work *new_work(const struct lull_nccl_call *call)
{
    const uint32_t count = task_count(call);
    struct lull_nccl_work *work = calloc(1, sizeof(*work) + count * sizeof(work->tasks[0]));

    if (work == NULL)
        return NULL;
    work->references = 1;
    work->comm = call->comm;
    work->stream = call->stream;
    work->function = nccl_function_names[call->function];
    work->bytes = call->count * nccl_datatype_bytes(call->datatype);
    work->peer = call->peer;
    work->number = atomic_fetch_add(&work_count, 1);
    work->task_count = count;
    atomic_fetch_add(&call->comm->references, 1);
    if (is_expanded(call->function))
        nccl_work_expand(call, work);
    else if (count == 1)
        fill_task(call, call->function, call->peer, &work->tasks[0]);
    return work;
}

int nccl_call(const struct lull_nccl_call *call)
{
    struct lull_nccl_work *work;
    int result = NCCL_INVALID_ARGUMENT;

    if (call->comm == NULL || nccl_datatype_bytes(call->datatype) == 0)
        goto fail;
    if (call->peer < -1 || call->peer >= call->comm->ranks)
        goto fail;
    result = NCCL_SYSTEM_ERROR;
    work = new_work(call);
    if (work == NULL)
        goto fail;
    if (work->task_count > 0 && work->tasks[0].mask != 0)
        start_group_api(call);
    for (uint32_t i = 0; i < work->task_count; i++) {
        nccl_work_report_call(call, &work->tasks[i]);
        if (loses_mask(work->tasks[i].function))
            work->tasks[i].mask &= NCCL_EVENT_COLL_API | NCCL_EVENT_GROUP_API;
    }
    if (group.first == NULL)
        group.last = &group.first;
    *group.last = work;
    group.last = &work->next;
    group.depth++; /* every call is an implicit group */
    return nccl_group_end(false);
fail:
    if (group.depth > 0)
        group.error = result;
    return result;
}

/* ---- a group ---- */

int nccl_group_begin(void)
{
    group.depth++;
    return NCCL_SUCCESS;
}

static void nccl_work_launch(struct lull_nccl_work *work)
{
    const struct lull_nccl_report event = {.type = NCCL_EVENT_KERNEL_LAUNCH,
                                           .parent = group.group_api,
                                           .comm = work->comm,
                                           .stream = work->stream};
    void *handle = NULL;
    int result;

    if (work->task_count > 0 && work->tasks[0].mask & NCCL_EVENT_KERNEL_LAUNCH)
        handle = nccl_plugin_start(&event);
    result = nccl_work_enqueue(work);
    nccl_plugin_stop(handle);
    if (result != NCCL_SUCCESS)
        group.error = result;
}

/* NCCL reports collectives by size, the largest first, then Sends and Recvs in the order of the
 * calls. */
static int compare_tasks(const struct lull_nccl_task *a, const struct lull_nccl_task *b)
{
    const bool a_is_p2p = is_point_to_point(a->function);
    const bool b_is_p2p = is_point_to_point(b->function);

    if (a_is_p2p || b_is_p2p)
        return a_is_p2p - b_is_p2p;
    return (a->bytes < b->bytes) - (a->bytes > b->bytes);
}

/* All tasks of a communicator in the group in the order in which they are reported. The caller
 * frees the array. */
static struct lull_nccl_task **sorted_tasks(const struct lull_nccl_comm *comm, uint32_t *count_out)
{
    struct lull_nccl_task **tasks;
    uint32_t count = 0;

    for (struct lull_nccl_work *work = group.first; work != NULL; work = work->next)
        count += work->comm == comm ? work->task_count : 0;
    tasks = malloc((count + 1) * sizeof(struct lull_nccl_task *));
    *count_out = 0;
    for (struct lull_nccl_work *work = group.first; tasks != NULL && work != NULL;
         work = work->next) {
        for (uint32_t i = 0; work->comm == comm && i < work->task_count; i++) {
            uint32_t at = (*count_out)++;

            for (; at > 0 && compare_tasks(tasks[at - 1], &work->tasks[i]) > 0; at--)
                tasks[at] = tasks[at - 1];
            tasks[at] = &work->tasks[i];
        }
    }
    return tasks;
}

/* Reports the Group, Coll and P2p events of one communicator. NCCL reports them after the
 * launch. */
static void nccl_work_report_enqueued(struct lull_nccl_comm *comm)
{
    struct lull_nccl_report event = {.type = NCCL_EVENT_GROUP, .comm = comm};
    uint32_t count;
    struct lull_nccl_task **tasks = sorted_tasks(comm, &count);
    bool has_group = false;

    for (uint32_t i = 0; i < count; i++)
        has_group = has_group || tasks[i]->mask & NCCL_EVENT_GROUP;
    if (has_group)
        event.group = nccl_plugin_start(&event);
    for (uint32_t i = 0; i < count; i++) {
        struct lull_nccl_task *task = tasks[i];

        event.type = is_point_to_point(task->function) ? NCCL_EVENT_P2P : NCCL_EVENT_COLL;
        event.parent = task->api_handle;
        event.task = task;
        if (task->mask & (int)event.type)
            task->handle = nccl_plugin_start(&event);
    }
    for (uint32_t i = 0; i < count; i++)
        nccl_plugin_stop(tasks[i]->handle);
    nccl_plugin_stop(event.group);
    free(tasks);
}

static bool is_first_of_comm(const struct lull_nccl_work *work)
{
    for (const struct lull_nccl_work *before = group.first; before != work; before = before->next)
        if (before->comm == work->comm)
            return false;
    return true;
}

static void launch_all(void)
{
    for (struct lull_nccl_work *work = group.first; work != NULL; work = work->next)
        nccl_work_launch(work);
    for (struct lull_nccl_work *work = group.first; work != NULL; work = work->next)
        if (work->comm->context != NULL && is_first_of_comm(work))
            nccl_work_report_enqueued(work->comm);
    while (group.first != NULL) {
        struct lull_nccl_work *work = group.first;

        group.first = work->next;
        nccl_progress_post(work);
        nccl_work_release(work);
    }
}

/* ---- communicators of a group ---- */

static void *nccl_work_run_init(void *argument)
{
    struct lull_nccl_comm *comm = argument;

    nccl_plugin_init(comm);
    nccl_progress_start(comm);
    return NULL;
}

int nccl_group_init(struct lull_nccl_comm *comm)
{
    struct pending_init *init = calloc(1, sizeof(*init));

    if (init == NULL)
        return NCCL_SYSTEM_ERROR;
    init->comm = comm;
    init->next = group.inits;
    group.inits = init;
    group.depth++;
    return nccl_group_end(false);
}

static void run_inits(void)
{
    for (struct pending_init *init = group.inits; init != NULL; init = init->next) {
        init->is_running = pthread_create(&init->thread, NULL, nccl_work_run_init, init->comm) == 0;
        if (!init->is_running)
            group.error = NCCL_SYSTEM_ERROR;
    }
    while (group.inits != NULL) {
        struct pending_init *init = group.inits;

        if (init->is_running)
            pthread_join(init->thread, NULL);
        group.inits = init->next;
        free(init);
    }
}

int nccl_group_end(bool is_users)
{
    int result;

    if (group.depth == 0)
        return NCCL_INVALID_USAGE;
    if (group.depth > 1) {
        group.depth--;
        return NCCL_SUCCESS;
    }
    run_inits();
    if (is_users)
        nccl_plugin_state(group.group_api, NCCL_STATE_GROUP_END_START, NULL);
    launch_all();
    nccl_plugin_stop(group.group_api);
    group.group_api = NULL;
    group.depth = 0;
    result = group.error;
    group.error = NCCL_SUCCESS;
    return result;
}
