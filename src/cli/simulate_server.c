/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/simulate_server.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/progress.h"
#include "cli/server_options.h"
#include "cli/shared/command.h"
#include "emulator/spec.h"
#include "simulator/serving/gpus.h"

/* A model is held by GPUs that keep at least so many tokens beside its weights: a batch of 64
 * requests of a thousand tokens. */
static const double least_cache_tokens = 65536.0;
/* Models that compute more parameters than this per token get the wider default objective. */
static const double small_params = 20e9;

/* ---- options ------------------------------------------------------------------------------ */

static int parse_gpus(const char *text, void *place, struct lull_error *err)
{
    struct lull_node_spec spec = {0};
    struct lull_simulate_gpus *gpus = place;
    const int result = lull_node_spec_parse(text, &spec, err);
    bool is_one_model = true;

    if (result < 0)
        return result;
    for (uint32_t i = 1; i < spec.gpu_count; i++)
        is_one_model = is_one_model && spec.models[i] == spec.models[0];
    if (!is_one_model || spec.gpu_count > LULL_SERVING_GPUS ||
        (spec.gpu_count & (spec.gpu_count - 1)) != 0)
        return -EINVAL;
    *gpus = (struct lull_simulate_gpus){spec.models[0], spec.gpu_count};
    return 0;
}

static int parse_slo(const char *text, void *place, struct lull_error *err)
{
    struct lull_simulate_slo *slo = place;

    slo->text = text;
    return lull_objective_parse(text, &slo->objective, err);
}

const struct lull_option lull_simulate_server_rows[] = {
    LULL_GROUP("Server"),
    LULL_CLI_SERVER_ROW(struct lull_simulate_server, llm,
                        "Simulate an inference server of this language model instead of a job.",
                        .excludes = "preset|ranks|straggler|nodes|comm-kernels|model|swing|"
                                    "look-ms|periods"),
    LULL_VALUE("on", "COUNTxMODEL", OWN, struct lull_simulate_server, gpus,
               "The GPUs of the tensor-parallel server.", .parse = parse_gpus,
               .expected = "1, 2, 4 or 8 GPUs of one model, such as 4xH100", .needs = "server",
               .otherwise = "the fewest H100-SXM5 that hold the model"),
    LULL_VALUE("prefill-on", "COUNTxMODEL", OWN, struct lull_simulate_server, prefill,
               "The GPUs of a prefill pool; those of --on decode.", .parse = parse_gpus,
               .expected = "1, 2, 4 or 8 GPUs of one model, such as 4xH100", .needs = "server",
               .otherwise = "one pool does both",
               .more = "The prefill pool keeps the bound of ttft, the decode pool that of tpot."),
    LULL_VALUE("handover-gbs", "GB/S", NUMBER, struct lull_simulate_server, handover_gbs,
               "The rate at which keys and values go from the prefill pool to the decode pool.",
               .least = 0.001, .most = 1e5, .needs = "prefill-on",
               .otherwise = "NCCL's between GPUs of one node, as measured"),
    LULL_VALUE("slo", "OBJECTIVE", OWN, struct lull_simulate_server, slo,
               "The latency objective, such as ttft=500ms,tpot=50ms@p99.", .parse = parse_slo,
               .needs = "server",
               .otherwise = "ttft=500ms,tpot=50ms, or ttft=1s,tpot=100ms for models that compute "
                            "more than 20 billion parameters per token"),
    LULL_CLI_ARRIVALS_ROW(struct lull_simulate_server, arrivals, .otherwise = "a Poisson process"),
    LULL_CLI_PROMPT_TOKENS_ROW(struct lull_simulate_server, prompt_tokens, .needs = "server"),
    LULL_CLI_OUTPUT_TOKENS_ROW(struct lull_simulate_server, output_tokens, .needs = "server"),
    LULL_CLI_LOAD_ROW(struct lull_simulate_server, load_ratio, .default_value = "0.5"),
    LULL_CLI_REQUEST_RATE_ROW(struct lull_simulate_server, rate_per_s,
                              .otherwise = "it follows from --load"),
    LULL_VALUE("duration", "S", TIME, struct lull_simulate_server, duration_ns,
               "How long requests arrive.", .least = 10, .most = 1e6, .default_value = "600",
               .needs = "server"),
    LULL_CLI_MAX_SEQUENCES_ROW(struct lull_simulate_server, max_sequences),
    LULL_CLI_MAX_BATCHED_TOKENS_ROW(struct lull_simulate_server, max_batched_tokens),
    LULL_FLAG("by-steps", struct lull_simulate_server, is_of_steps,
              "Lull sees when steps end, and no metrics.", .needs = "slo",
              .more = "The objective must be a bound of tpot alone."),
    {0},
};

/* ---- defaults ----------------------------------------------------------------------------- */

static void choose_gpus(struct lull_simulate_server *server)
{
    struct lull_step_setup setup = {.gpu = lull_gpu_model_find("H100-SXM5", 9), .llm = server->llm};

    if (server->gpus.count > 0)
        return;
    for (setup.gpus = 1; setup.gpus < LULL_SERVING_GPUS; setup.gpus *= 2)
        if (lull_step_cache_tokens(&setup) >= least_cache_tokens)
            break;
    server->gpus = (struct lull_simulate_gpus){setup.gpu, setup.gpus};
}

static int choose_slo(struct lull_simulate_server *server, struct lull_error *err)
{
    const bool is_small = lull_llm_active_params(server->llm) <= small_params;
    const struct lull_objective *objective = &server->slo.objective;

    if (server->slo.text == NULL) {
        server->slo.text = is_small ? "ttft=500ms,tpot=50ms" : "ttft=1s,tpot=100ms";
        return lull_objective_parse(server->slo.text, &server->slo.objective, err);
    }
    if (server->is_of_steps && (isfinite(objective->ttft_s) || server->prefill.count > 0))
        return lull_error_set(err, -EINVAL,
                              "--by-steps: steps show no TTFT, and are those of one pool. Give "
                              "--slo with tpot alone, without --prefill-on.");
    if (server->prefill.count == 0 || (isfinite(objective->ttft_s) && isfinite(objective->tpot_s)))
        return 0;
    return lull_error_set(err, -EINVAL,
                          "--slo: two pools need a bound each. Give ttft for the prefill pool and "
                          "tpot for the decode pool.");
}

static struct lull_serving_pool describe_pool(const struct lull_simulate_server *server,
                                              const struct lull_simulate_gpus *gpus)
{
    return (struct lull_serving_pool){
        .setup = {.gpu = gpus->model, .llm = server->llm, .gpus = gpus->count},
        .max_sequences = server->max_sequences,
        .max_batched_tokens = server->max_batched_tokens,
        .objective = server->slo.objective,
    };
}

static struct lull_serving_run describe_run(const struct lull_simulate_server *server,
                                            uint64_t seed)
{
    struct lull_serving_run run = {
        .pool_count = 1,
        .objective = server->slo.objective,
        .park_after_ns = LULL_NS_PER_S / 2,
        .wake_s = INFINITY,
        .handover_gbs = server->handover_gbs,
        .is_of_steps = server->is_of_steps,
        .seed = seed,
    };

    run.pools[0] = describe_pool(server, &server->gpus);
    if (server->prefill.count == 0)
        return run;
    run.pool_count = 2;
    run.pools[1] = run.pools[0];
    run.pools[0] = describe_pool(server, &server->prefill);
    run.pools[0].objective.tpot_s = INFINITY;
    run.pools[1].objective.ttft_s = INFINITY;
    if (run.handover_gbs <= 0.0)
        run.handover_gbs = lull_step_handover_gbs(&run.pools[0].setup, &run.pools[1].setup);
    return run;
}

/* ---- simulating --------------------------------------------------------------------------- */

/* Simulates one mode beside the results so far. */
static int simulate_server_mode(struct lull_serving_run *run, struct lull_server_results *results,
                                enum lull_server_mode mode, struct lull_error *err)
{
    const struct lull_serving_outcome *highest = &results->modes[LULL_SERVER_HIGHEST];
    const struct lull_serving_outcome *lull = &results->modes[LULL_SERVER_LULL];
    const uint64_t missed = lull->missed > highest->missed ? lull->missed : highest->missed;
    struct lull_serving_outcome *outcome = &results->modes[mode];

    switch (mode) {
    case LULL_SERVER_FIXED_CLOCK:
        return lull_serving_find_fixed(run, LULL_SERVING_AT_CLOCK, missed, outcome,
                                       &results->clock_mhz, err);
    case LULL_SERVER_POWER_LIMIT:
        return lull_serving_find_fixed(run, LULL_SERVING_AT_LIMIT, missed, outcome,
                                       &results->limit_w, err);
    case LULL_SERVER_LULL:
        run->policy = LULL_SERVING_UNDER_LULL;
        return lull_serving_simulate(run, outcome, err);
    case LULL_SERVER_ORACLE:
        return lull_serving_ask_oracle(run, highest, lull_serving_change_ns(&run->pools[0]), NULL,
                                       outcome, &results->oracle, err);
    case LULL_SERVER_IDEAL:
        return lull_serving_ask_oracle(run, highest, 0, &results->oracle, outcome, &results->ideal,
                                       err);
    case LULL_SERVER_HIGHEST:
    case LULL_SERVER_MODES:
        break;
    }
    run->policy = LULL_SERVING_AT_HIGHEST;
    return lull_serving_simulate(run, outcome, err);
}

static int simulate_all_modes(struct lull_serving_run *run, struct lull_server_results *results,
                              struct lull_error *err)
{
    /* The fixed settings may miss as many requests as Lull does, so Lull comes before them. */
    static const enum lull_server_mode order[LULL_SERVER_MODES] = {
        LULL_SERVER_HIGHEST,     LULL_SERVER_LULL,   LULL_SERVER_FIXED_CLOCK,
        LULL_SERVER_POWER_LIMIT, LULL_SERVER_ORACLE, LULL_SERVER_IDEAL};
    struct lull_progress progress = lull_progress_begin();
    int result = 0;

    for (int i = 0; i < LULL_SERVER_MODES && result == 0; i++) {
        if (lull_progress_is_due(&progress))
            lull_progress_draw("mode %d of %d", i + 1, LULL_SERVER_MODES);
        if (lull_server_is_played(results, order[i]))
            result = simulate_server_mode(run, results, order[i], err);
    }
    lull_progress_end(&progress);
    results->allowance = lull_serving_allowance(run, &results->modes[LULL_SERVER_HIGHEST]);
    return result;
}

static int simulate_server(const struct lull_simulate_server *server,
                           const struct lull_server_arrivals *trace,
                           struct lull_server_results *results, struct lull_error *err)
{
    struct lull_serving_run run = describe_run(server, results->seed);
    const struct lull_serving_source source = {
        .trace = trace->count > 0 ? trace : NULL,
        .prompt_tokens = server->prompt_tokens,
        .output_tokens = server->output_tokens,
        .duration_ns = server->duration_ns,
        .seed = results->seed,
    };
    struct lull_server_arrivals arrivals = {0};
    int result = 0;

    results->handover_gbs = run.handover_gbs;
    results->rate_per_s = server->rate_per_s;
    results->capacity_per_s = NAN;
    if (server->rate_per_s <= 0.0) {
        result = lull_serving_find_rate(&run, &source, &results->capacity_per_s, err);
        results->rate_per_s = results->capacity_per_s * server->load_ratio;
    }
    if (result < 0)
        return result;
    if (lull_serving_make_arrivals(&source, results->rate_per_s, &arrivals) < 0)
        return lull_error_set(err, -ENOMEM, "simulation: no memory");
    run.arrivals = &arrivals;
    results->requests = arrivals.count;
    result = simulate_all_modes(&run, results, err);
    lull_server_arrivals_fini(&arrivals);
    if (result == 0 && results->modes[LULL_SERVER_HIGHEST].done == 0)
        return lull_error_set(err, -EINVAL,
                              "no request arrived and was served. Use a longer --duration, or a "
                              "higher --rate.");
    return result;
}

int lull_simulate_server_run(struct lull_simulate_server *server, uint32_t played, uint64_t seed,
                             bool is_json)
{
    struct lull_server_results results = {.server = server, .played = played, .seed = seed};
    struct lull_server_arrivals trace = {0};
    struct lull_error err = {0};
    int result;

    choose_gpus(server);
    result = choose_slo(server, &err);
    if (result == 0 && server->arrivals != NULL)
        result =
            lull_cli_read_arrivals("simulate", server->arrivals, &trace, &results.skipped, &err);
    if (result == 0)
        result = simulate_server(server, &trace, &results, &err);
    if (result == 0 && is_json)
        lull_server_report_json(&results);
    else if (result == 0)
        lull_server_report_print(&results);
    for (int mode = 0; mode < LULL_SERVER_MODES; mode++)
        free(results.modes[mode].requests);
    lull_server_arrivals_fini(&trace);
    if (result < 0)
        return lull_cli_fail("simulate", &err);
    return LULL_EXIT_OK;
}
