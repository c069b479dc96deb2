/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/play/server/server.h"

#include <errno.h>
#include <math.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "cli/play/server/front.h"
#include "cli/play/server/outcome.h"
#include "cli/server_options.h"
#include "cli/shared/command.h"
#include "cli/shared/stop_signals.h"
#include "emulator/player/liblull.h"
#include "simulator/serving/hindsight.h"

#define LOOK_NS                                                                                    \
    (LULL_NS_PER_S / 10) /* interval of checks for the end, and for clients that left              \
                          */
#define DEFAULT_S 60.0   /* of requests that are drawn or taken from a trace */

/* Ports of the pools' metrics, beyond that of the clients: as in vLLM's examples. */
enum { PREFILL_PORT = 100, DECODE_PORT = 200 };

static const char *const pool_names[] = {"prefill", "decode"};

/* ---- options ----------------------------------------------------------------------------- */

static int parse_objective(const char *text, void *place, struct lull_error *err)
{
    return lull_objective_parse(text, place, err);
}

const struct lull_option lull_play_server_rows[] = {
    LULL_GROUP("An inference server, with vLLM's metrics"),
    LULL_CLI_SERVER_ROW(struct lull_play_server, llm,
                        "Serve this language model over HTTP, on GPUs of the emulated node.",
                        .excludes = "preset|schedule|oracle"),
    LULL_VALUE("tensor-parallel", "N", WHOLE, struct lull_play_server, gpus,
               "Share the model between this many GPUs: 1, 2, 4 or 8.", .least = 1,
               .most = LULL_MODEL_SERVER_GPUS, .default_value = "1", .needs = "server"),
    LULL_VALUE("prefill-gpus", "N", WHOLE, struct lull_play_server, prefill_gpus,
               "Compute prompts in a pool of its own, on the first N GPUs: 1, 2, 4 or 8. The next "
               "--tensor-parallel GPUs decode.",
               .least = 1, .most = LULL_MODEL_SERVER_GPUS, .otherwise = "the same GPUs do both",
               .needs = "server",
               .more = "Each pool has vLLM's metrics on a port of its own: --port plus 100 "
                       "(prefill) and plus 200 (decode)."),
    LULL_VALUE("handover-gbs", "GB/S", NUMBER, struct lull_play_server, handover_gbs,
               "The rate at which keys and values go from the prefill pool to the decode pool.",
               .least = 0.001, .most = 1e5, .needs = "prefill-gpus",
               .otherwise = "NCCL's between GPUs of one node, as measured"),
    LULL_CLI_MAX_SEQUENCES_ROW(struct lull_play_server, max_sequences),
    LULL_CLI_MAX_BATCHED_TOKENS_ROW(struct lull_play_server, max_batched_tokens),
    LULL_VALUE("port", "PORT", WHOLE, struct lull_play_server, port,
               "Listen on this port of 127.0.0.1; 0: any that is free.", .letter = 'p',
               .most = 65535, .default_value = "8000", .needs = "server"),
    LULL_VALUE("duration", "S", NUMBER, struct lull_play_server, duration_s,
               "Serve for this long; if requests arrive by themselves, until they are finished.",
               .is_open = true, .otherwise = "until a signal; 60 s of arrivals", .needs = "server"),
    LULL_CLI_ARRIVALS_ROW(struct lull_play_server, arrivals,
                          .otherwise = "only requests of HTTP clients, or a Poisson process"),
    LULL_CLI_REQUEST_RATE_ROW(struct lull_play_server, rate_per_s,
                              .otherwise = "that of --load, or of --arrivals"),
    LULL_CLI_LOAD_ROW(struct lull_play_server, load_ratio,
                      .otherwise = "the rate of --rate, or of --arrivals"),
    LULL_CLI_PROMPT_TOKENS_ROW(struct lull_play_server, prompt_tokens, .needs = "rate|load"),
    LULL_CLI_OUTPUT_TOKENS_ROW(struct lull_play_server, output_tokens, .needs = "rate|load"),
    LULL_SEED_ROW(struct lull_play_server, seed,
                  "Seed of a Poisson process; or where in the trace requests begin, 1: at its "
                  "begin."),
    LULL_VALUE("slo", "OBJECTIVE", OWN, struct lull_play_server, objective,
               "Count the requests that miss this objective, such as ttft=500ms,tpot=50ms.",
               LULL_GIVEN(struct lull_play_server, has_objective), .parse = parse_objective,
               .expected = "bounds such as ttft=500ms,tpot=50ms@p99", .needs = "server"),
    {0},
};

int lull_play_server_check(const struct lull_play_server *options, struct lull_error *err)
{
    if ((options->gpus & (options->gpus - 1)) != 0)
        return lull_error_set(err, -EINVAL, "--tensor-parallel must be 1, 2, 4 or 8");
    if ((options->prefill_gpus & (options->prefill_gpus - 1)) != 0)
        return lull_error_set(err, -EINVAL, "--prefill-gpus must be 1, 2, 4 or 8");
    if (options->prefill_gpus > 0 && options->port > UINT16_MAX - DECODE_PORT)
        return lull_error_set(err, -EINVAL, "--port must be at most %d with --prefill-gpus",
                              UINT16_MAX - DECODE_PORT);
    if (options->load_ratio > 0 && !options->has_objective)
        return lull_error_set(err, -EINVAL,
                              "--load needs --slo: it is relative to the rate that meets it");
    return 0;
}

/* ---- the requests that arrive by themselves ---------------------------------------------- */

/* The pools on GPUs of the node; a server without pools is one. */
struct described {
    struct lull_gpu_model gpus[LULL_SERVING_POOLS];
    struct lull_serving_run run;
};

static int describe_run(const struct lull_play_server *options, struct described *described,
                        struct lull_error *err)
{
    const bool has_pools = options->prefill_gpus > 0;
    const uint32_t counts[] = {has_pools ? options->prefill_gpus : options->gpus, options->gpus};
    struct lull_serving_run *const run = &described->run;
    int result = 0;

    *run = (struct lull_serving_run){
        .pool_count = has_pools ? 2 : 1,
        .objective = options->objective,
        .handover_gbs = options->handover_gbs,
        .wake_s = INFINITY,
    };
    for (uint32_t i = 0; i < run->pool_count && result == 0; i++) {
        result = lull_model_server_find_gpu(i * counts[0], &described->gpus[i], err);
        run->pools[i] = (struct lull_serving_pool){
            .setup = {.gpu = &described->gpus[i], .llm = options->llm, .gpus = counts[i]},
            .max_sequences = options->max_sequences,
            .max_batched_tokens = options->max_batched_tokens,
        };
    }
    if (result == 0 && has_pools && !(run->handover_gbs > 0.0))
        run->handover_gbs = lull_step_handover_gbs(&run->pools[0].setup, &run->pools[1].setup);
    return result;
}

/* Finds the rate that is the given share of what the server can do, in virtual time. */
static int find_rate(const struct lull_play_server *options,
                     const struct lull_serving_source *source, double *rate_per_s_out,
                     struct lull_error *err)
{
    struct described described;
    int result = describe_run(options, &described, err);

    if (result < 0)
        return result;
    result = lull_serving_find_rate(&described.run, source, rate_per_s_out, err);
    *rate_per_s_out *= options->load_ratio;
    return result;
}

static int make_arrivals(const struct lull_play_server *options,
                         const struct lull_server_arrivals *trace,
                         struct lull_server_arrivals *arrivals_out, struct lull_error *err)
{
    const struct lull_serving_source source = {
        .trace = options->arrivals != NULL ? trace : NULL,
        .prompt_tokens = options->prompt_tokens,
        .output_tokens = options->output_tokens,
        .duration_ns = (int64_t)(1e9 * (options->duration_s > 0 ? options->duration_s : DEFAULT_S)),
        .seed = options->seed,
    };
    double rate_per_s = options->rate_per_s;
    int result = 0;

    if (options->load_ratio > 0)
        result = find_rate(options, &source, &rate_per_s, err);
    else if (!(rate_per_s > 0))
        rate_per_s = lull_server_arrivals_rate(trace);
    if (result < 0)
        return result;
    if (lull_serving_make_arrivals(&source, rate_per_s, arrivals_out) < 0)
        return lull_error_set(err, -ENOMEM, "no memory for the requests");
    return 0;
}

static int open_arrivals(const struct lull_play_server *options,
                         struct lull_server_arrivals *arrivals_out, struct lull_error *err)
{
    struct lull_server_arrivals trace = {0};
    uint64_t skipped;
    int result = 0;

    if (options->arrivals == NULL && !(options->rate_per_s > 0) && !(options->load_ratio > 0))
        return 0;
    if (options->arrivals != NULL)
        result = lull_cli_read_arrivals("play", options->arrivals, &trace, &skipped, err);
    if (result == 0)
        result = make_arrivals(options, &trace, arrivals_out, err);
    lull_server_arrivals_fini(&trace);
    return result;
}

/* ---- serving ----------------------------------------------------------------------------- */

struct served {
    const struct lull_play_server *options;
    bool is_json;
    struct lull_stop_signals stop;
    struct lull_server_arrivals arrivals;
    struct lull_front *front;
    void (*end_step)(void); /* lull_step() of liblull; NULL: steps are not reported */
    struct lull_model_server *servers[LULL_FRONT_POOLS]; /* the second one: of a decode pool */
    struct lull_model_server_outcome outcome;
    struct lull_model_server_reading last;
};

static uint32_t pool_count(const struct served *served)
{
    return served->options->prefill_gpus > 0 ? LULL_FRONT_POOLS : 0;
}

static void served_deliver(void *context, const struct lull_engine_token *tokens, uint32_t count)
{
    struct served *const served = context;

    if (served->end_step != NULL)
        served->end_step();
    lull_model_server_outcome_take(&served->outcome, tokens, count);
    lull_front_deliver(served->front, tokens, count);
}

/* The requests that are on their way from the first pool to the second one. */
static uint32_t count_moving(const struct lull_model_server_reading *first,
                             const struct lull_model_server_reading *second, uint64_t over)
{
    const uint64_t arrived = over + second->engine.running + second->engine.waiting;

    if (arrived >= first->engine.finished) /* the second one was read later */
        return 0;
    return (uint32_t)(first->engine.finished - arrived);
}

/* Reads the pools: what clients see is the prompts of the first and the outputs of the last. */
static void served_read_pools(struct served *served)
{
    struct lull_model_server_pool *const pools = served->outcome.pools;
    struct lull_model_server_reading *const all = &served->last;
    const struct lull_model_server_reading *const first = &pools[0].reading;
    uint64_t over;

    for (uint32_t i = 0; i < LULL_FRONT_POOLS; i++) {
        lull_model_server_read(served->servers[i], &pools[i].reading);
        pools[i].name = pool_names[i];
        pools[i].energy_j = lull_model_server_energy_j(served->servers[i]);
    }
    *all = pools[1].reading;
    over = all->engine.finished + all->refused + all->cancelled;
    all->is_done = first->is_done && over >= first->engine.finished;
    all->engine.waiting += count_moving(first, all, over);
    all->engine.prompt_tokens = first->engine.prompt_tokens;
    all->engine.running += first->engine.running;
    all->engine.waiting += first->engine.waiting;
    all->engine.preempted += first->engine.preempted;
    all->engine.steps += first->engine.steps;
    all->cancelled = first->cancelled;
    all->refused += first->refused;
    all->late_steps += first->late_steps;
    all->late_s += first->late_s;
    served->outcome.pool_count = LULL_FRONT_POOLS;
    served->outcome.energy_j = pools[0].energy_j + pools[1].energy_j;
}

static void served_read(struct served *served)
{
    if (pool_count(served) > 0) {
        served_read_pools(served);
        return;
    }
    lull_model_server_read(served->servers[0], &served->last);
    served->outcome.energy_j = lull_model_server_energy_j(served->servers[0]);
}

static bool served_has_ended(struct served *served)
{
    const bool has_trace = served->arrivals.count > 0;

    served_read(served);
    if (has_trace)
        return served->last.is_done && served->last.time_ns >= served->arrivals.period_ns;
    return served->options->duration_s > 0 &&
           (double)served->last.time_ns * 1e-9 >= served->options->duration_s;
}

static void served_run(struct served *served)
{
    FILE *const out = served->is_json ? stderr : stdout;

    fprintf(out, "http://127.0.0.1:%u/\n", lull_front_port(served->front, 0));
    for (uint32_t i = 0; i < pool_count(served); i++)
        fprintf(out, "http://127.0.0.1:%u/metrics (%s)\n", lull_front_port(served->front, i + 1),
                pool_names[i]);
    fflush(out);
    while (!served_has_ended(served) && !lull_is_stopped(&served->stop)) {
        lull_sleep_until_ns(lull_now_ns() + LOOK_NS);
        lull_front_check_clients(served->front);
    }
}

/* Starts the decode pool, then the prefill pool, which sends requests to it. */
static int served_start_pools(struct served *served, struct lull_model_server_options *server,
                              struct lull_error *err)
{
    const struct lull_play_server *const options = served->options;
    struct described described;
    struct lull_model_server_options decode = *server;
    int result = describe_run(options, &described, err);

    if (result < 0)
        return result;
    decode.role = LULL_ENGINE_DECODE;
    decode.first_gpu = options->prefill_gpus;
    decode.arrivals = NULL;
    decode.arrival_count = 0;
    result = lull_model_server_start(&decode, &served->servers[1], err);
    if (result < 0)
        return result;
    server->role = LULL_ENGINE_PREFILL;
    server->gpus = options->prefill_gpus;
    server->next = served->servers[1];
    server->handover_gbs = described.run.handover_gbs;
    return lull_model_server_start(server, &served->servers[0], err);
}

static int served_start_servers(struct served *served, struct lull_error *err)
{
    const struct lull_play_server *const options = served->options;
    struct lull_model_server_options server = {
        .llm = options->llm,
        .gpus = options->gpus,
        .max_sequences = options->max_sequences,
        .max_batched_tokens = options->max_batched_tokens,
        .arrivals = served->arrivals.items,
        .arrival_count = served->arrivals.count,
        .deliver = served_deliver,
        .context = served,
    };

    if (options->prefill_gpus > 0)
        return served_start_pools(served, &server, err);
    return lull_model_server_start(&server, &served->servers[0], err);
}

/* Opens the port of clients, and those of the pools' metrics. */
static int served_open_ports(struct served *served, struct lull_error *err)
{
    static const uint16_t beyond[LULL_FRONT_POOLS] = {PREFILL_PORT, DECODE_PORT};
    const uint16_t port = (uint16_t)served->options->port;
    int result = lull_front_open(served->front, served->servers[0], port, err);

    for (uint32_t i = 0; i < pool_count(served) && result == 0; i++)
        result = lull_front_open_pool(served->front, served->servers[i],
                                      port > 0 ? (uint16_t)(port + beyond[i]) : 0, err);
    return result;
}

static int served_start(struct served *served, struct lull_error *err)
{
    const struct lull_play_server *const options = served->options;
    int result = open_arrivals(options, &served->arrivals, err);

    if (result < 0)
        return result;
    served->outcome.objective = options->objective;
    served->outcome.has_objective = options->has_objective;
    lull_play_find_liblull("lull_step", &served->end_step);
    served->front = lull_front_create(options->llm->name);
    if (served->front == NULL)
        return lull_error_set(err, -ENOMEM, "no memory for the server");
    result = served_start_servers(served, err);
    if (result < 0)
        return result;
    return served_open_ports(served, err);
}

/* Each client has a connection, which is a descriptor. */
static void raise_descriptors(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

int lull_play_server_run(const struct lull_play_server *options, bool is_json,
                         struct lull_error *err)
{
    struct served served = {.options = options, .is_json = is_json};
    int result;

    raise_descriptors();
    lull_stop_signals_begin(&served.stop);
    result = served_start(&served, err);
    if (result == 0)
        served_run(&served);
    lull_front_close(served.front);
    lull_model_server_stop(served.servers[0]);
    lull_model_server_stop(served.servers[1]);
    lull_front_destroy(served.front);
    lull_server_arrivals_fini(&served.arrivals);
    if (result == 0 && is_json &&
        lull_cli_print_json(lull_model_server_outcome_json(&served.outcome, &served.last), 0) < 0)
        result = lull_error_set(err, -EIO, "cannot print the outcome");
    else if (result == 0 && !is_json)
        lull_model_server_outcome_print(&served.outcome, &served.last);
    lull_model_server_outcome_fini(&served.outcome);
    return result;
}
