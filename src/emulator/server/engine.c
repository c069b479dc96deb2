/*
 * Requests lie in one pool, linked by index: the queue is a list in the order of arrival, and the
 * batch an array in the order of admission. The scheduling rules are those of vLLM V1
 * (vllm/v1/core/sched/scheduler.py), with the cache counted in tokens instead of blocks of 16.
 *
 * If only ends are reported, the first requests of the batch are steady: each got a token in the
 * latest step. They all get one in the next step, so the engine counts them together. Their fields
 * are those of the step in which they became steady.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "emulator/server/engine.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/minmax.h"

#define NO_PLACE UINT32_MAX

/* The buckets of vLLM V1 (vllm/v1/metrics/loggers.py). Tokens and requests share those of time per
 * output token; queue and end-to-end latency share theirs. */
static const double ttft_bounds_s[] = {0.001, 0.005, 0.01, 0.02, 0.04,  0.06,  0.08,    0.1,
                                       0.25,  0.5,   0.75, 1.0,  2.5,   5.0,   7.5,     10.0,
                                       20.0,  40.0,  80.0, 160., 640.0, 2560., INFINITY};
static const double token_bounds_s[] = {0.01, 0.025, 0.05, 0.075, 0.1,  0.15,    0.2,
                                        0.3,  0.4,   0.5,  0.75,  1.0,  2.5,     5.0,
                                        7.5,  10.0,  20.0, 40.0,  80.0, INFINITY};
static const double latency_bounds_s[] = {0.3,   0.5,   0.8,   1.0,   1.5,    2.0,     2.5,  5.0,
                                          10.0,  15.0,  20.0,  30.0,  40.0,   50.0,    60.0, 120.0,
                                          240.0, 480.0, 960.0, 1920., 7680.0, INFINITY};

struct engine_request {
    uint64_t number;
    uint32_t prompt_tokens;
    uint32_t output_tokens;
    uint32_t produced;  /* output tokens so far */
    uint32_t computed;  /* tokens whose keys and values are in the cache */
    uint32_t scheduled; /* tokens that the step under way adds to them */
    uint64_t steady_at; /* steps that had ended when it became steady */
    uint32_t next;      /* in the queue, or among the free places */
    bool is_received;   /* the prompt was computed elsewhere, and is not lost */
    bool is_cancelled;  /* while a step computed it */
    bool has_started;
    int64_t sent_ns; /* by its client */
    int64_t arrival_ns;
    int64_t start_ns; /* when a step took it for the first time */
    int64_t first_ns; /* of its tokens */
    int64_t last_ns;
};

struct lull_engine {
    struct lull_engine_config config;
    struct engine_request *requests; /* the pool */
    size_t room;
    size_t taken;       /* places that have been in use */
    uint32_t free;      /* the first free one of them */
    uint32_t queue;     /* the first that waits */
    uint32_t queue_end; /* the last one */
    uint32_t *running;
    struct lull_engine_token *tokens;
    uint64_t used_tokens; /* of the cache */
    bool is_stepping;
    uint32_t steady;         /* the first so many of the batch */
    uint64_t steady_context; /* sum of their tokens in the cache */
    int64_t steady_ns;       /* time of their latest token */
    uint64_t *ends;          /* [steady] the number of the step that gives the last token */
    uint64_t first_end;      /* the least of them */
    struct lull_engine_statistics statistics;
};

/* ---- statistics --------------------------------------------------------------------------- */

static void init_histogram(struct lull_engine_histogram *histogram, const double *bound_s,
                           size_t count)
{
    assert(count <= LULL_ENGINE_BUCKETS);
    histogram->bound_s = bound_s;
    histogram->count = (uint32_t)count;
}

static void add_values(const struct lull_engine *engine, struct lull_engine_histogram *histogram,
                       double value_s, uint32_t count)
{
    if (engine->config.no_histograms)
        return;
    for (uint32_t i = histogram->count; i > 0 && value_s <= histogram->bound_s[i - 1]; i--)
        histogram->total[i - 1] += count;
    histogram->sum_s += value_s * count;
}

static double seconds_between(int64_t from_ns, int64_t to_ns)
{
    return (double)(to_ns - from_ns) * 1e-9;
}

static void engine_update_cache(struct lull_engine *engine)
{
    engine->statistics.cache_ratio = (double)engine->used_tokens / engine->config.cache_tokens;
}

/* ---- pool and queue ----------------------------------------------------------------------- */

static struct engine_request *request_at(struct lull_engine *engine, uint32_t place)
{
    return &engine->requests[place];
}

/* A free place; NO_PLACE: no memory. */
static uint32_t engine_take_place(struct lull_engine *engine)
{
    const uint32_t place = engine->free;

    if (place != NO_PLACE) {
        engine->free = request_at(engine, place)->next;
        return place;
    }
    if (lull_array_reserve(&engine->requests, &engine->room, engine->taken,
                           sizeof(*engine->requests)) < 0)
        return NO_PLACE;
    return (uint32_t)engine->taken++;
}

static void engine_free_place(struct lull_engine *engine, uint32_t place)
{
    request_at(engine, place)->next = engine->free;
    engine->free = place;
}

static void queue_append(struct lull_engine *engine, uint32_t place)
{
    request_at(engine, place)->next = NO_PLACE;
    if (engine->queue == NO_PLACE)
        engine->queue = place;
    else
        request_at(engine, engine->queue_end)->next = place;
    engine->queue_end = place;
    engine->statistics.waiting++;
}

static void queue_put_first(struct lull_engine *engine, uint32_t place)
{
    if (engine->queue == NO_PLACE)
        engine->queue_end = place;
    request_at(engine, place)->next = engine->queue;
    engine->queue = place;
    engine->statistics.waiting++;
}

/* Takes the request behind `before` out of the queue; NO_PLACE: the first one. */
static void queue_remove(struct lull_engine *engine, uint32_t before)
{
    uint32_t *link = before == NO_PLACE ? &engine->queue : &request_at(engine, before)->next;

    if (*link == engine->queue_end)
        engine->queue_end = before;
    *link = request_at(engine, *link)->next;
    engine->statistics.waiting--;
}

/* ---- the cache ---------------------------------------------------------------------------- */

/* Tokens whose content is known: prompt and output so far. */
static uint32_t known_tokens(const struct engine_request *request)
{
    return request->prompt_tokens + request->produced;
}

static void engine_release_cache(struct lull_engine *engine, struct engine_request *request)
{
    engine->used_tokens -= request->computed + request->scheduled;
    request->computed = 0;
    request->scheduled = 0;
}

static bool has_room(const struct lull_engine *engine, uint64_t tokens)
{
    return (double)(engine->used_tokens + tokens) <= engine->config.cache_tokens;
}

/* ---- steady requests ---------------------------------------------------------------------- */

/* Brings the fields of a steady request up to date. */
static void engine_settle_one(struct lull_engine *engine, struct engine_request *request)
{
    const uint32_t tokens = (uint32_t)(engine->statistics.steps - request->steady_at);

    request->produced += tokens;
    request->computed += tokens;
    request->steady_at += tokens;
    request->last_ns = engine->steady_ns;
}

/* Lets no request be steady any more. */
static void engine_settle(struct lull_engine *engine)
{
    for (uint32_t i = 0; i < engine->steady; i++) {
        struct engine_request *request = request_at(engine, engine->running[i]);

        engine_settle_one(engine, request);
        request->scheduled = engine->is_stepping;
    }
    engine->steady = 0;
    engine->steady_context = 0;
    engine->first_end = UINT64_MAX;
}

/* Adds a request that just got a token, and whose place in the batch is behind the steady ones. */
static void engine_add_steady(struct lull_engine *engine, struct engine_request *request)
{
    const uint64_t end = engine->statistics.steps + request->output_tokens - request->produced;

    request->steady_at = engine->statistics.steps;
    engine->steady_context += request->computed;
    engine->ends[engine->steady++] = end;
    if (end < engine->first_end)
        engine->first_end = end;
}

/* ---- forming a batch ---------------------------------------------------------------------- */

/* Sends the latest request of the batch back to the head of the queue. */
static void engine_preempt_last(struct lull_engine *engine)
{
    const uint32_t place = engine->running[--engine->statistics.running];
    struct engine_request *request = request_at(engine, place);

    engine_release_cache(engine, request);
    request->is_received = false;
    queue_put_first(engine, place);
    engine->statistics.preempted++;
}

/* Lets the step compute the next tokens of a request. */
static void engine_schedule(struct lull_engine *engine, struct engine_request *request,
                            uint32_t tokens, struct lull_step_batch *batch)
{
    const uint32_t context = request->computed + tokens;
    const bool is_last_token = context == known_tokens(request);

    request->scheduled = tokens;
    engine->used_tokens += tokens;
    if (tokens == 1 && is_last_token && (request->produced > 0 || request->is_received)) {
        batch->decoding++;
        batch->decode_context += context;
    } else {
        batch->prefill_tokens += tokens;
        batch->prompts++;
        batch->prefill_context += tokens * (request->computed + (tokens + 1.0) / 2.0);
    }
    batch->sampled += is_last_token;
}

/* Takes the next token of each steady request. Without room for all of them none stays steady. */
static void engine_continue_steady(struct lull_engine *engine, uint32_t *budget,
                                   struct lull_step_batch *batch)
{
    const uint32_t steady = engine->steady;

    if (steady > *budget || !has_room(engine, steady)) {
        engine_settle(engine);
        return;
    }
    engine->used_tokens += steady;
    engine->steady_context += steady;
    batch->decoding += steady;
    batch->decode_context += (double)engine->steady_context;
    batch->sampled += steady;
    *budget -= steady;
}

/* Takes the next tokens of the batch's requests. Returns whether one had to leave. */
static bool engine_continue_batch(struct lull_engine *engine, uint32_t *budget,
                                  struct lull_step_batch *batch)
{
    bool has_preempted = false;

    engine_continue_steady(engine, budget, batch);
    for (uint32_t i = engine->steady; i<engine->statistics.running && * budget> 0; i++) {
        struct engine_request *request = request_at(engine, engine->running[i]);
        const uint32_t tokens = lull_min_u32(known_tokens(request) - request->computed, *budget);

        while (i < engine->statistics.running && !has_room(engine, tokens)) {
            engine_preempt_last(engine);
            has_preempted = true;
        }
        if (i == engine->statistics.running)
            break;
        engine_schedule(engine, request, tokens, batch);
        *budget -= tokens;
    }
    return has_preempted;
}

/* Admits the first request of the queue. False: it has to wait. */
static bool engine_admit_first(struct lull_engine *engine, uint32_t *budget, int64_t now_ns,
                               struct lull_step_batch *batch)
{
    const uint32_t place = engine->queue;
    struct engine_request *request = request_at(engine, place);
    const uint32_t received = request->is_received ? request->prompt_tokens - 1 : 0;
    const uint32_t tokens = lull_min_u32(known_tokens(request) - received, *budget);

    if (!has_room(engine, received + tokens))
        return false;
    queue_remove(engine, NO_PLACE);
    engine->running[engine->statistics.running++] = place;
    if (!request->has_started) {
        request->has_started = true;
        request->start_ns = now_ns;
    }
    request->computed = received;
    engine->used_tokens += received;
    engine_schedule(engine, request, tokens, batch);
    *budget -= tokens;
    return true;
}

bool lull_engine_begin_step(struct lull_engine *engine, int64_t now_ns,
                            struct lull_step_batch *batch_out)
{
    struct lull_step_batch batch = {0};
    uint32_t budget = engine->config.max_batched_tokens;
    bool is_full;

    assert(!engine->is_stepping);
    is_full = engine_continue_batch(engine, &budget, &batch);
    while (!is_full && budget > 0 && engine->queue != NO_PLACE &&
           engine->statistics.running < engine->config.max_sequences)
        is_full = !engine_admit_first(engine, &budget, now_ns, &batch);
    engine_update_cache(engine);
    engine->is_stepping = budget < engine->config.max_batched_tokens;
    if (engine->is_stepping)
        *batch_out = batch;
    return engine->is_stepping;
}

/* ---- ending a step ------------------------------------------------------------------------ */

/* Times between tokens that follow each other and are equal, because tokens of one step are. */
struct equal_gaps {
    double gap_s;
    uint32_t count;
};

static void engine_note_gap(struct lull_engine *engine, struct equal_gaps *gaps, double gap_s)
{
    if (gaps->count > 0 && gap_s == gaps->gap_s) {
        gaps->count++;
        return;
    }
    add_values(engine, &engine->statistics.itl, gaps->gap_s, gaps->count);
    *gaps = (struct equal_gaps){gap_s, 1};
}

/* Counts a request that has all its tokens. vLLM gives one with a single token the TPOT 0. */
static void engine_count_finished(struct lull_engine *engine, const struct engine_request *request,
                                  struct lull_engine_token *token)
{
    struct lull_engine_statistics *statistics = &engine->statistics;

    if (request->produced > 1)
        token->tpot_s =
            seconds_between(request->first_ns, request->last_ns) / (request->produced - 1);
    token->ttft_s = seconds_between(request->sent_ns, request->first_ns);
    token->prompt_tokens = request->prompt_tokens;
    token->output_tokens = request->output_tokens;
    add_values(engine, &statistics->tpot, request->produced > 1 ? token->tpot_s : 0.0, 1);
    add_values(engine, &statistics->queue, seconds_between(request->arrival_ns, request->start_ns),
               1);
    add_values(engine, &statistics->latency, seconds_between(request->arrival_ns, request->last_ns),
               1);
    statistics->finished++;
}

/* The request gets a token. It is filled in place, because copies of it took most of a step. */
static void engine_produce(struct lull_engine *engine, struct engine_request *request,
                           int64_t now_ns, struct equal_gaps *gaps, struct lull_engine_token *token)
{
    token->request = request->number;
    token->is_first = request->produced == 0;
    token->ttft_s = NAN;
    token->tpot_s = NAN;
    if (token->is_first) {
        token->ttft_s = seconds_between(request->sent_ns, now_ns);
        add_values(engine, &engine->statistics.ttft, seconds_between(request->arrival_ns, now_ns),
                   1);
        engine->statistics.prompt_tokens += request->prompt_tokens;
        request->first_ns = now_ns;
    } else {
        engine_note_gap(engine, gaps, seconds_between(request->last_ns, now_ns));
    }
    request->last_ns = now_ns;
    request->produced++;
    engine->statistics.output_tokens++;
    token->is_last =
        request->produced == request->output_tokens || engine->config.role == LULL_ENGINE_PREFILL;
    if (token->is_last)
        engine_count_finished(engine, request, token);
}

/* Ends a steady request with its last token. */
static void engine_end_steady_one(struct lull_engine *engine, uint32_t place,
                                  struct lull_engine_token *token)
{
    struct engine_request *request = request_at(engine, place);

    engine_settle_one(engine, request);
    engine->steady_context -= request->computed;
    *token = (struct lull_engine_token){
        .request = request->number, .is_last = true, .ttft_s = NAN, .tpot_s = NAN};
    engine_count_finished(engine, request, token);
    engine_release_cache(engine, request);
    engine_free_place(engine, place);
}

/* Ends the steady requests whose last token this is; the others keep their order. Returns the
 * number of tokens that it writes. */
static uint32_t engine_end_steady(struct lull_engine *engine)
{
    const uint64_t step = engine->statistics.steps;
    const uint32_t steady = engine->steady;
    uint32_t *const running = engine->running;
    uint64_t *const ends = engine->ends;
    uint64_t first_end = UINT64_MAX;
    uint32_t count = 0;

    for (uint32_t i = 0; i < steady; i++) {
        if (ends[i] == step) {
            engine_end_steady_one(engine, running[i], &engine->tokens[count++]);
            continue;
        }
        first_end = ends[i] < first_end ? ends[i] : first_end;
        ends[i - count] = ends[i];
        running[i - count] = running[i];
    }
    engine->first_end = first_end;
    engine->steady = steady - count;
    return count;
}

/* Gives each steady request its token. Returns the number of tokens that it writes. */
static uint32_t engine_produce_steady(struct lull_engine *engine, int64_t now_ns,
                                      struct equal_gaps *gaps)
{
    if (engine->steady == 0)
        return 0;
    *gaps = (struct equal_gaps){seconds_between(engine->steady_ns, now_ns), engine->steady};
    engine->steady_ns = now_ns;
    engine->statistics.output_tokens += engine->steady;
    if (engine->statistics.steps < engine->first_end)
        return 0;
    return engine_end_steady(engine);
}

/* Ends the step for a request that is not steady. Its token is written to *token. Returns whether
 * it got one. */
static bool engine_end_one(struct lull_engine *engine, struct engine_request *request,
                           int64_t now_ns, struct equal_gaps *gaps, struct lull_engine_token *token)
{
    const bool is_computed = request->scheduled > 0 && !request->is_cancelled;

    request->computed += request->scheduled;
    request->scheduled = 0;
    if (!is_computed || request->computed != known_tokens(request))
        return false;
    engine_produce(engine, request, now_ns, gaps, token);
    return true;
}

uint32_t lull_engine_end_step(struct lull_engine *engine, int64_t now_ns,
                              const struct lull_engine_token **tokens_out)
{
    const bool ends_only = engine->config.ends_only;
    const uint32_t steady = engine->steady;
    struct equal_gaps gaps = {0};
    uint32_t count;
    uint32_t kept;

    assert(engine->is_stepping);
    engine->statistics.steps++;
    count = engine_produce_steady(engine, now_ns, &gaps);
    kept = engine->steady;
    for (uint32_t i = steady; i < engine->statistics.running; i++) {
        const uint32_t place = engine->running[i];
        struct engine_request *request = request_at(engine, place);
        struct lull_engine_token *token = &engine->tokens[count];
        const bool has_token = engine_end_one(engine, request, now_ns, &gaps, token);

        count += has_token && (!ends_only || token->is_first || token->is_last);
        if (request->is_cancelled || (has_token && token->is_last)) {
            engine_release_cache(engine, request);
            engine_free_place(engine, place);
            continue;
        }
        engine->running[kept++] = place;
        if (ends_only && has_token && engine->steady == kept - 1)
            engine_add_steady(engine, request);
    }
    if (engine->steady > 0)
        engine->steady_ns = now_ns;
    add_values(engine, &engine->statistics.itl, gaps.gap_s, gaps.count);
    engine->statistics.running = kept;
    engine->is_stepping = false;
    engine_update_cache(engine);
    *tokens_out = engine->tokens;
    return count;
}

/* ---- requests ----------------------------------------------------------------------------- */

int lull_engine_submit(struct lull_engine *engine, uint64_t request, uint32_t prompt_tokens,
                       uint32_t output_tokens, int64_t now_ns)
{
    return lull_engine_receive(engine, request, prompt_tokens, output_tokens, now_ns, now_ns);
}

int lull_engine_receive(struct lull_engine *engine, uint64_t request, uint32_t prompt_tokens,
                        uint32_t output_tokens, int64_t sent_ns, int64_t now_ns)
{
    uint32_t place;

    /* The last token's keys and values are not needed. */
    if (prompt_tokens == 0 || output_tokens == 0 ||
        (double)prompt_tokens + output_tokens - 1.0 > engine->config.cache_tokens ||
        output_tokens > UINT32_MAX - prompt_tokens)
        return -EINVAL;
    place = engine_take_place(engine);
    if (place == NO_PLACE)
        return -ENOMEM;
    *request_at(engine, place) = (struct engine_request){
        .number = request,
        .prompt_tokens = prompt_tokens,
        .output_tokens = output_tokens,
        .is_received = engine->config.role == LULL_ENGINE_DECODE,
        .sent_ns = sent_ns,
        .arrival_ns = now_ns,
    };
    queue_append(engine, place);
    return 0;
}

static bool engine_cancel_waiting(struct lull_engine *engine, uint64_t number)
{
    uint32_t before = NO_PLACE;

    for (uint32_t place = engine->queue; place != NO_PLACE;
         before = place, place = request_at(engine, place)->next) {
        if (request_at(engine, place)->number != number)
            continue;
        queue_remove(engine, before);
        engine_free_place(engine, place);
        return true;
    }
    return false;
}

bool lull_engine_cancel(struct lull_engine *engine, uint64_t request, int64_t now_ns)
{
    uint32_t i = 0;

    (void)now_ns;
    if (engine_cancel_waiting(engine, request))
        return true;
    engine_settle(engine);
    while (i < engine->statistics.running &&
           request_at(engine, engine->running[i])->number != request)
        i++;
    if (i == engine->statistics.running)
        return false;
    request_at(engine, engine->running[i])->is_cancelled = true;
    if (engine->is_stepping) /* the step still holds it */
        return true;
    engine_release_cache(engine, request_at(engine, engine->running[i]));
    engine_free_place(engine, engine->running[i]);
    engine->statistics.running--;
    memmove(&engine->running[i], &engine->running[i + 1],
            (engine->statistics.running - i) * sizeof(engine->running[0]));
    engine_update_cache(engine);
    return true;
}

/* ---- life --------------------------------------------------------------------------------- */

struct lull_engine *lull_engine_create(const struct lull_engine_config *config)
{
    struct lull_engine *engine = calloc(1, sizeof(*engine));

    assert(config->max_sequences > 0 && config->max_batched_tokens > 0);
    if (engine == NULL)
        return NULL;
    engine->config = *config;
    engine->free = NO_PLACE;
    engine->queue = NO_PLACE;
    engine->queue_end = NO_PLACE;
    engine->running = calloc(config->max_sequences, sizeof(engine->running[0]));
    engine->tokens = calloc(config->max_sequences, sizeof(engine->tokens[0]));
    engine->ends = calloc(config->max_sequences, sizeof(engine->ends[0]));
    engine->first_end = UINT64_MAX;
    if (engine->running == NULL || engine->tokens == NULL || engine->ends == NULL) {
        lull_engine_destroy(engine);
        return NULL;
    }
    init_histogram(&engine->statistics.ttft, ttft_bounds_s,
                   sizeof(ttft_bounds_s) / sizeof(ttft_bounds_s[0]));
    init_histogram(&engine->statistics.tpot, token_bounds_s,
                   sizeof(token_bounds_s) / sizeof(token_bounds_s[0]));
    init_histogram(&engine->statistics.itl, token_bounds_s,
                   sizeof(token_bounds_s) / sizeof(token_bounds_s[0]));
    init_histogram(&engine->statistics.queue, latency_bounds_s,
                   sizeof(latency_bounds_s) / sizeof(latency_bounds_s[0]));
    init_histogram(&engine->statistics.latency, latency_bounds_s,
                   sizeof(latency_bounds_s) / sizeof(latency_bounds_s[0]));
    return engine;
}

void lull_engine_destroy(struct lull_engine *engine)
{
    if (engine == NULL)
        return;
    free(engine->requests);
    free(engine->running);
    free(engine->tokens);
    free(engine->ends);
    free(engine);
}

int lull_engine_copy(struct lull_engine *to, const struct lull_engine *from)
{
    struct engine_request *requests = to->requests;
    struct lull_engine kept;

    assert(to->config.max_sequences == from->config.max_sequences);
    if (to->room < from->room) {
        requests = realloc(to->requests, from->room * sizeof(*requests));
        if (requests == NULL)
            return -ENOMEM;
        to->requests = requests;
        to->room = from->room;
    }
    kept = *to;
    *to = *from;
    to->requests = requests;
    to->room = kept.room;
    to->running = kept.running;
    to->tokens = kept.tokens;
    to->ends = kept.ends;
    if (from->taken > 0)
        memcpy(to->requests, from->requests, from->taken * sizeof(*requests));
    memcpy(to->running, from->running, from->statistics.running * sizeof(from->running[0]));
    memcpy(to->ends, from->ends, from->steady * sizeof(from->ends[0]));
    return 0;
}

const struct lull_engine_statistics *lull_engine_statistics(const struct lull_engine *engine)
{
    return &engine->statistics;
}
