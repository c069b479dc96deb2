/* SPDX-License-Identifier: Apache-2.0 */
#include "emulator/server/model_server.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/thread.h"
#include "emulator/node.h"
#include "emulator/workload.h"

/*
 * A step is formed this long before the one before ends, or once that one has begun. A longer time
 * keeps delays of a busy host out of more steps; a shorter one lets a request that comes meanwhile
 * join the next step. The requests of a trace are known before, so none of them waits.
 */
#define LEAD_NS (3 * LULL_NS_PER_MS)
#define TRACE_LEAD_NS (20 * LULL_NS_PER_MS)

const double lull_model_server_token_bounds[LULL_MODEL_SERVER_TOKEN_BUCKETS] = {
    1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, INFINITY};

/* A request that has come, or whose client has left, since the engine was last looked at. */
struct note {
    uint64_t request;
    uint32_t prompt_tokens; /* 0: cancel it */
    uint32_t output_tokens;
    int64_t time_ns; /* of a request that is handed over, it may be still to come */
    int64_t sent_ns; /* by its client */
    bool is_handover;
};

struct lull_model_server {
    struct lull_model_server_options options;
    struct lull_gpu_model model;
    struct lull_step_setup setup;
    struct lull_emulated_gpu *gpus[LULL_MODEL_SERVER_GPUS];
    struct lull_node *node; /* of the first GPU */
    int64_t lead_ns;
    double most_tokens;
    int64_t start_ns;
    double start_j;
    pthread_t thread;
    bool has_thread;
    _Atomic bool is_stopping;
    _Atomic bool is_done;

    /* Of the thread. */
    struct lull_engine *engine;
    struct lull_engine *ahead; /* a copy that forms a step before the one before has ended */
    struct lull_engine_token *tokens;
    int64_t newest_ns; /* arrival of the engine's latest request */
    uint64_t steps;    /* enqueued so far; on each GPU a step is one work, which has its number */
    size_t arrived;    /* requests of the trace that the engine has */
    size_t ended;      /* of these */
    struct lull_step_batch batch;             /* of the latest step that was enqueued */
    int64_t late_ns;                          /* by which it begins late */
    struct lull_model_server_reading reading; /* but for what lull_model_server_read() adds */

    pthread_mutex_t mutex; /* guards what follows */
    struct note *notes;
    size_t note_count;
    size_t note_room;
    uint64_t cancelled;
    struct lull_model_server_reading published;
};

/* ---- the GPUs ---- */

/* What one GPU says about a step. */
struct step_look {
    int64_t end_ns;   /* NEVER: it has not begun */
    int64_t until_ns; /* what is said may change then */
    uint32_t gpu;
    uint32_t generation;
};

/* The number of a GPU of the group on the node. */
static uint32_t node_gpu(const struct lull_model_server *server, uint32_t gpu)
{
    return server->options.first_gpu + gpu;
}

static struct step_look server_look(const struct lull_model_server *server, uint32_t index,
                                    uint64_t step)
{
    const int context = lull_emulated_gpu_context(server->gpus[index]);
    const uint32_t gpu = node_gpu(server, index);
    struct step_look look = {.gpu = gpu, .end_ns = LULL_PHYSICS_NEVER};
    const struct lull_physics *const physics = lull_node_begin(server->node, gpu);
    const struct lull_physics_kernel *const work = lull_physics_find_work(physics, context, step);

    look.generation = lull_node_generation(server->node, gpu);
    look.until_ns =
        lull_earlier_ns(lull_physics_work_change_ns(physics), lull_physics_rate_change_ns(physics));
    if (work == NULL) /* the node has closed the context */
        look.end_ns = physics->now_ns;
    else if (work->state == LULL_WORK_RUNNING || work->state == LULL_WORK_ENDED)
        look.end_ns = work->end_ns;
    lull_node_end(server->node, gpu, false);
    return look;
}

/* Sleeps until the lead before the end of a step on the slowest GPU. Returns that end, which a
 * change of clocks may still move unless the lead is 0. */
static int64_t server_await_end(struct lull_model_server *server, uint64_t step, int64_t lead_ns)
{
    for (;;) {
        struct step_look slowest = server_look(server, 0, step);

        for (uint32_t gpu = 1; gpu < server->options.gpus; gpu++) {
            const struct step_look look = server_look(server, gpu, step);

            if (look.end_ns > slowest.end_ns)
                slowest = look;
        }
        if (slowest.end_ns - lead_ns <= lull_node_now_ns(server->node))
            return slowest.end_ns;
        if (slowest.end_ns != LULL_PHYSICS_NEVER)
            slowest.until_ns = lull_earlier_ns(slowest.until_ns, slowest.end_ns - lead_ns);
        lull_node_sleep(server->node, slowest.gpu, slowest.generation, slowest.until_ns);
    }
}

/* Enqueues the next step on one GPU, to begin host_s after at_ns, when the slowest GPU ends the one
 * before. Returns by how much later it begins because the host is late. */
static int64_t server_enqueue(const struct lull_model_server *server, uint32_t index,
                              const struct lull_step_cost *cost, int64_t at_ns)
{
    const int context = lull_emulated_gpu_context(server->gpus[index]);
    const uint32_t gpu = node_gpu(server, index);
    struct lull_physics_work work = {
        .after = {LULL_PHYSICS_NO_WORK, LULL_PHYSICS_NO_WORK},
        .delay_ns = llround(cost->host_s * 1e9),
        .duration_s = cost->gpu_s,
        .profile = cost->profile,
    };
    struct lull_physics *const physics = lull_node_begin(server->node, gpu);
    const int64_t late_ns = physics->now_ns - at_ns - work.delay_ns;
    const struct lull_physics_kernel *before = NULL;

    work.earliest_ns = at_ns + work.delay_ns;
    if (server->steps > 0)
        before = lull_physics_find_work(physics, context, server->steps - 1);
    if (before != NULL && before->state != LULL_WORK_ENDED) {
        work.after[0] = server->steps - 1;
        if (before->state == LULL_WORK_RUNNING && before->end_ns == at_ns)
            work.earliest_ns = 0; /* its end may still move, and this step with it */
    }
    lull_physics_enqueue(physics, context, &work);
    lull_node_end(server->node, gpu, true);
    return late_ns;
}

static double server_energy_j(const struct lull_model_server *server)
{
    double sum_j = 0;

    for (uint32_t gpu = 0; gpu < server->options.gpus; gpu++) {
        sum_j += lull_physics_energy_j(lull_node_begin(server->node, node_gpu(server, gpu)));
        lull_node_end(server->node, node_gpu(server, gpu), false);
    }
    return sum_j;
}

/* ---- what the engine learns ---- */

/* The time at which the next request of the trace arrives. */
static int64_t server_next_arrival_ns(const struct lull_model_server *server)
{
    if (server->arrived == server->options.arrival_count)
        return LULL_PHYSICS_NEVER;
    return server->start_ns + server->options.arrivals[server->arrived].time_ns;
}

/* Queues a request, unless it is longer than the cache, or memory runs out. */
static void server_queue(struct lull_model_server *server, const struct note *note)
{
    if (lull_engine_receive(server->engine, note->request, note->prompt_tokens, note->output_tokens,
                            note->sent_ns, note->time_ns) < 0) {
        server->reading.refused++;
        server->ended += note->request >= LULL_MODEL_SERVER_TRACE;
    }
    server->newest_ns = lull_later_ns(server->newest_ns, note->time_ns);
}

/* Queues the requests of the trace that have arrived by a time. */
static void server_take_arrivals(struct lull_model_server *server, int64_t until_ns)
{
    while (server_next_arrival_ns(server) <= until_ns) {
        const struct lull_server_arrival *const arrival =
            &server->options.arrivals[server->arrived];

        server_queue(server, &(struct note){.request = LULL_MODEL_SERVER_TRACE + server->arrived,
                                            .prompt_tokens = arrival->prompt_tokens,
                                            .output_tokens = arrival->output_tokens,
                                            .time_ns = server_next_arrival_ns(server),
                                            .sent_ns = server_next_arrival_ns(server)});
        server->arrived++;
    }
}

/* Cancels a request that the engine has, that is among the first notes, or that was handed over.
 * Returns how many of these notes are left. */
static size_t server_cancel(struct lull_model_server *server, const struct note *cancel,
                            size_t first)
{
    for (size_t i = 0; i < first; i++) {
        if (server->notes[i].request != cancel->request)
            continue;
        memmove(&server->notes[i], &server->notes[i + 1],
                (first - i - 1) * sizeof(server->notes[0]));
        return first - 1;
    }
    if (!lull_engine_cancel(server->engine, cancel->request, cancel->time_ns) &&
        server->options.next != NULL)
        lull_model_server_cancel(server->options.next, cancel->request);
    return first;
}

/* Takes the notes up to a time; those of requests that come later stay. */
static void server_take_notes(struct lull_model_server *server, int64_t until_ns)
{
    const int64_t last_ns = lull_later_ns(until_ns, lull_node_now_ns(server->node));
    size_t left = 0;

    pthread_mutex_lock(&server->mutex);
    for (size_t i = 0; i < server->note_count; i++) {
        const struct note note = server->notes[i];

        if (note.prompt_tokens == 0)
            left = server_cancel(server, &note, left);
        else if (note.time_ns <= last_ns)
            server_queue(server, &note);
        else
            server->notes[left++] = note;
    }
    server->note_count = left;
    pthread_mutex_unlock(&server->mutex);
}

/* The time at which the next request arrives, as far as it is known. */
static int64_t server_next_ns(struct lull_model_server *server)
{
    int64_t next_ns = server_next_arrival_ns(server);

    pthread_mutex_lock(&server->mutex);
    for (size_t i = 0; i < server->note_count; i++)
        if (server->notes[i].is_handover)
            next_ns = lull_earlier_ns(next_ns, server->notes[i].time_ns);
    pthread_mutex_unlock(&server->mutex);
    return next_ns;
}

static int server_add_note(struct lull_model_server *server, const struct note *note)
{
    int result;

    pthread_mutex_lock(&server->mutex);
    result = lull_array_reserve(&server->notes, &server->note_room, server->note_count,
                                sizeof(server->notes[0]));
    if (result == 0)
        server->notes[server->note_count++] = *note;
    server->cancelled += note->prompt_tokens == 0;
    pthread_mutex_unlock(&server->mutex);
    lull_node_wake(server->node, node_gpu(server, 0));
    return result;
}

/* Sends keys and values of computed prompts to the next server. */
static void server_hand_over(const struct lull_model_server *server,
                             const struct lull_engine_token *tokens, uint32_t count, int64_t end_ns)
{
    struct lull_model_server *const next = server->options.next;

    for (uint32_t i = 0; i < count; i++) {
        const struct lull_engine_token *const token = &tokens[i];
        const double handover_s = lull_step_handover_s(server->options.llm, token->prompt_tokens,
                                                       server->options.handover_gbs);

        (void)server_add_note(next, &(struct note){.request = token->request,
                                                   .prompt_tokens = token->prompt_tokens,
                                                   .output_tokens = token->output_tokens,
                                                   .time_ns = end_ns + llround(handover_s * 1e9),
                                                   .sent_ns = end_ns - llround(token->ttft_s * 1e9),
                                                   .is_handover = true});
    }
}

/* ---- the steps ---- */

/* Puts the batch of a step, which begins at a time, on all GPUs. */
static void server_enqueue_batch(struct lull_model_server *server, int64_t at_ns)
{
    struct lull_step_cost cost;

    lull_step_cost(&server->setup, &server->batch, &cost);
    server->late_ns = 0;
    for (uint32_t gpu = 0; gpu < server->options.gpus; gpu++)
        server->late_ns = lull_later_ns(server->late_ns, server_enqueue(server, gpu, &cost, at_ns));
    server->steps++;
}

/* Enqueues what follows the step under way, which ends at a time. False: nothing does. */
static bool server_enqueue_next(struct lull_model_server *server, int64_t end_ns)
{
    const struct lull_engine_token *tokens;

    server_take_notes(server, end_ns);
    server_take_arrivals(server, end_ns);
    if (lull_engine_copy(server->ahead, server->engine) < 0)
        return false; /* no memory: the next step is formed when this one has ended */
    (void)lull_engine_end_step(server->ahead, end_ns, &tokens);
    if (!lull_engine_begin_step(server->ahead, end_ns, &server->batch))
        return false;
    server_enqueue_batch(server, end_ns);
    return true;
}

/* Counts a step that ends. */
static void server_count_step(struct lull_model_server *server, const struct lull_step_batch *batch,
                              int64_t late_ns)
{
    struct lull_model_server_reading *const reading = &server->reading;
    const double tokens = (double)batch->prefill_tokens + batch->decoding;

    for (uint32_t i = 0; i < LULL_MODEL_SERVER_TOKEN_BUCKETS; i++)
        reading->step_tokens.total[i] += tokens <= lull_model_server_token_bounds[i];
    reading->step_tokens.sum += tokens;
    if (late_ns <= 0)
        return;
    reading->late_steps++;
    reading->late_s += (double)late_ns * 1e-9;
}

/* Shows readers what the engine knows. */
static void server_publish(struct lull_model_server *server)
{
    server->reading.engine = *lull_engine_statistics(server->engine);
    pthread_mutex_lock(&server->mutex);
    server->published = server->reading;
    pthread_mutex_unlock(&server->mutex);
}

static void server_deliver(struct lull_model_server *server, const struct lull_engine_token *tokens,
                           uint32_t count, int64_t end_ns)
{
    for (uint32_t i = 0; i < count; i++)
        server->ended += tokens[i].is_last && tokens[i].request >= LULL_MODEL_SERVER_TRACE;
    if (server->options.next != NULL)
        server_hand_over(server, tokens, count, end_ns);
    else if (server->options.deliver != NULL)
        server->options.deliver(server->options.context, tokens, count);
}

/* Ends the step under way, and begins the one that is enqueued, if there is one. */
static void server_advance(struct lull_model_server *server, int64_t end_ns, bool has_next)
{
    const struct lull_engine_token *tokens;
    const uint32_t count = lull_engine_end_step(server->engine, end_ns, &tokens);
    struct lull_step_batch batch;

    memcpy(server->tokens, tokens, count * sizeof(tokens[0]));
    /* The engine has the same requests as the copy had, so it forms the same batch. */
    if (has_next) {
        const bool has_begun = lull_engine_begin_step(
            server->engine, lull_later_ns(end_ns, server->newest_ns), &batch);

        assert(has_begun);
    }
    server_publish(server);
    server_deliver(server, server->tokens, count, end_ns);
}

/* Runs steps until there is nothing to do. */
static void server_run_steps(struct lull_model_server *server)
{
    bool has_next = true;

    while (has_next && !atomic_load(&server->is_stopping)) {
        const uint64_t step = server->steps - 1;
        const struct lull_step_batch batch = server->batch;
        const int64_t late_ns = server->late_ns;

        has_next = server_enqueue_next(server, server_await_end(server, step, server->lead_ns));
        server_count_step(server, &batch, late_ns);
        server_advance(server, server_await_end(server, step, 0), has_next);
    }
}

/* Begins a step of an idle server. False: there is nothing to do. */
static bool server_begin(struct lull_model_server *server, int64_t at_ns)
{
    server_take_notes(server, at_ns);
    server_take_arrivals(server, at_ns);
    if (!lull_engine_begin_step(server->engine, at_ns, &server->batch))
        return false;
    server_enqueue_batch(server, at_ns);
    lull_sleep_until_ns(lull_node_real_ns(server->node, at_ns));
    server_publish(server);
    return true;
}

static void *server_run(void *argument)
{
    struct lull_model_server *const server = argument;

    lull_thread_set_realtime();
    while (!atomic_load(&server->is_stopping)) {
        /* Read before the notes: a request that comes after this ends the sleep. */
        const uint32_t gpu = node_gpu(server, 0);
        const uint32_t generation = lull_node_generation(server->node, gpu);
        const int64_t now_ns = lull_node_now_ns(server->node);
        const int64_t next_ns = server_next_ns(server);
        int64_t at_ns = now_ns;

        if (next_ns - server->lead_ns <= now_ns)
            at_ns = next_ns;
        if (server_begin(server, lull_later_ns(at_ns, server->newest_ns)))
            server_run_steps(server);
        atomic_store(&server->is_done, server->ended == server->options.arrival_count);
        lull_node_sleep(server->node, gpu, generation, server_next_ns(server) - server->lead_ns);
    }
    return NULL;
}

/* ---- requests ---- */

uint32_t lull_model_server_most_tokens(const struct lull_model_server *server)
{
    const struct lull_model_server *const next = server->options.next;
    double most_tokens = server->most_tokens;

    if (next != NULL)
        most_tokens = fmin(most_tokens, next->most_tokens);
    return (uint32_t)fmin(most_tokens, UINT32_MAX);
}

int lull_model_server_submit(struct lull_model_server *server, uint64_t request,
                             uint32_t prompt_tokens, uint32_t output_tokens)
{
    const int64_t now_ns = lull_node_now_ns(server->node);

    if (prompt_tokens == 0 || output_tokens == 0 ||
        (double)prompt_tokens + output_tokens > lull_model_server_most_tokens(server))
        return -EINVAL;
    return server_add_note(server, &(struct note){.request = request,
                                                  .prompt_tokens = prompt_tokens,
                                                  .output_tokens = output_tokens,
                                                  .time_ns = now_ns,
                                                  .sent_ns = now_ns});
}

void lull_model_server_cancel(struct lull_model_server *server, uint64_t request)
{
    (void)server_add_note(
        server, &(struct note){.request = request, .time_ns = lull_node_now_ns(server->node)});
}

void lull_model_server_read(struct lull_model_server *server,
                            struct lull_model_server_reading *reading_out)
{
    pthread_mutex_lock(&server->mutex);
    *reading_out = server->published;
    reading_out->cancelled = server->cancelled;
    pthread_mutex_unlock(&server->mutex);
    reading_out->time_ns = lull_node_now_ns(server->node) - server->start_ns;
    reading_out->is_done = atomic_load(&server->is_done);
}

double lull_model_server_energy_j(const struct lull_model_server *server)
{
    return server_energy_j(server) - server->start_j;
}

/* ---- start and stop ---- */

static int report_no_node(struct lull_error *err)
{
    return lull_error_set(err, LULL_E_NO_DEVICE,
                          "there is no emulated node: use lull emulate SPEC -- lull play "
                          "--server ...");
}

int lull_model_server_find_gpu(uint32_t gpu, struct lull_gpu_model *model_out,
                               struct lull_error *err)
{
    const char *const path = getenv(LULL_EMULATED_NODE_VARIABLE);
    struct lull_node *node;
    int result;

    if (path == NULL || *path == '\0')
        return report_no_node(err);
    result = lull_node_open(path, &node, err);
    if (result < 0)
        return result;
    if (gpu < lull_node_gpu_count(node)) {
        *model_out = lull_node_begin(node, gpu)->model;
        lull_node_end(node, gpu, false);
    } else {
        result = lull_error_set(err, -ENODEV, "emulated GPU %u: the node has %u GPUs", gpu,
                                lull_node_gpu_count(node));
    }
    lull_node_close(node);
    return result;
}

static int server_open_gpus(struct lull_model_server *server, struct lull_error *err)
{
    for (uint32_t gpu = 0; gpu < server->options.gpus; gpu++) {
        const int result = lull_emulated_gpu_open(node_gpu(server, gpu), &server->gpus[gpu], err);

        if (result < 0)
            return result;
        if (server->gpus[gpu] == NULL)
            return report_no_node(err);
    }
    server->node = lull_emulated_gpu_node(server->gpus[0]);
    server->model = lull_node_begin(server->node, node_gpu(server, 0))->model;
    lull_node_end(server->node, node_gpu(server, 0), false);
    return 0;
}

/* Takes the memory that weights and cache need on each GPU. */
static int server_load(struct lull_model_server *server, struct lull_error *err)
{
    const double memory_ratio = 0.9; /* as lull_step_cache_tokens() has it */
    const struct lull_gpu_model *const model = &server->model;

    server->most_tokens = lull_step_cache_tokens(&server->setup);
    if (!(server->most_tokens >= 1))
        return lull_error_set(err, -ENOSPC,
                              "the weights of %s do not fit in %u GPUs of %u MiB: give a larger "
                              "--tensor-parallel, or a node with larger GPUs",
                              server->options.llm->name, server->options.gpus, model->memory_mib);
    for (uint32_t gpu = 0; gpu < server->options.gpus; gpu++)
        lull_emulated_gpu_allocate(server->gpus[gpu], (uint32_t)(memory_ratio * model->memory_mib));
    return 0;
}

static int server_create_engine(struct lull_model_server *server, struct lull_error *err)
{
    const struct lull_engine_config config = {
        .role = server->options.role,
        .max_sequences = server->options.max_sequences,
        .max_batched_tokens = server->options.max_batched_tokens,
        .cache_tokens = server->most_tokens,
    };

    server->engine = lull_engine_create(&config);
    server->ahead = lull_engine_create(&config);
    server->tokens = calloc(config.max_sequences, sizeof(server->tokens[0]));
    if (server->engine == NULL || server->ahead == NULL || server->tokens == NULL)
        return lull_error_set(err, -ENOMEM, "no memory for the server");
    return 0;
}

/* The lead in virtual time, which may pass faster than the host's. */
static int64_t find_lead_ns(const struct lull_model_server *server)
{
    const int64_t real_ns =
        lull_node_real_ns(server->node, LULL_NS_PER_S) - lull_node_real_ns(server->node, 0);
    const int64_t lead_ns = server->options.arrival_count > 0 ? TRACE_LEAD_NS : LEAD_NS;

    return (int64_t)((double)lead_ns * (double)LULL_NS_PER_S / (double)real_ns);
}

static int server_open(struct lull_model_server *server, struct lull_error *err)
{
    int result = server_open_gpus(server, err);

    if (result < 0)
        return result;
    server->setup = (struct lull_step_setup){
        .gpu = &server->model, .llm = server->options.llm, .gpus = server->options.gpus};
    result = server_load(server, err);
    if (result < 0)
        return result;
    result = server_create_engine(server, err);
    if (result < 0)
        return result;
    server->lead_ns = find_lead_ns(server);
    server_publish(server);
    server->start_ns = lull_node_now_ns(server->node);
    server->start_j = server_energy_j(server);
    result = lull_thread_start(&server->thread, server_run, server);
    if (result < 0)
        return lull_error_set(err, result, "cannot start the server's thread: %s",
                              strerror(-result));
    server->has_thread = true;
    return 0;
}

int lull_model_server_start(const struct lull_model_server_options *options,
                            struct lull_model_server **server_out, struct lull_error *err)
{
    struct lull_model_server *const server = calloc(1, sizeof(*server));
    int result;

    if (server == NULL)
        return lull_error_set(err, -ENOMEM, "no memory for the server");
    server->options = *options;
    pthread_mutex_init(&server->mutex, NULL);
    result = server_open(server, err);
    if (result < 0) {
        lull_model_server_stop(server);
        return result;
    }
    *server_out = server;
    return 0;
}

void lull_model_server_stop(struct lull_model_server *server)
{
    if (server == NULL)
        return;
    atomic_store(&server->is_stopping, true);
    if (server->has_thread) {
        lull_node_wake(server->node, node_gpu(server, 0));
        pthread_join(server->thread, NULL);
    }
    for (uint32_t gpu = 0; gpu < server->options.gpus; gpu++)
        lull_emulated_gpu_close(server->gpus[gpu]);
    lull_engine_destroy(server->engine);
    lull_engine_destroy(server->ahead);
    free(server->tokens);
    free(server->notes);
    pthread_mutex_destroy(&server->mutex);
    free(server);
}
