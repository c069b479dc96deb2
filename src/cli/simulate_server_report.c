/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include <jansson.h>

#include "base/json_string.h"
#include "base/printable.h"
#include "cli/analyze/verdict.h"
#include "cli/shared/command.h"
#include "cli/simulate_server.h"

static const char *const mode_names[LULL_SERVER_MODES] = {"highest", "fixed_clock", "power_limit",
                                                          "lull",    "oracle",      "ideal"};

/* Why two pools have neither fixed settings nor oracles. */
static const char no_reference[] = "they are not searched for two pools";
static const char *const pool_names[LULL_SERVING_POOLS] = {"prefill", "decode"};

static uint32_t pool_count(const struct lull_server_results *results)
{
    return results->server->prefill.count > 0 ? 2 : 1;
}

bool lull_server_is_played(const struct lull_server_results *results, enum lull_server_mode mode)
{
    const uint32_t always = 1U << LULL_SERVER_HIGHEST | 1U << LULL_SERVER_LULL;
    const uint32_t more = pool_count(results) > 1 ? 0 : results->played;

    return ((more | always) >> mode & 1U) != 0;
}

/* ---- figures ------------------------------------------------------------------------------ */

static double quotient(double value, uint64_t by)
{
    return by > 0 ? value / (double)by : NAN;
}

static double energy_per_token_j(const struct lull_serving_outcome *outcome)
{
    return quotient(outcome->energy_j, outcome->output_tokens);
}

static double energy_per_request_j(const struct lull_serving_outcome *outcome)
{
    return quotient(outcome->energy_j, outcome->done);
}

/* The energy that a pool saves per output token, relative to full clocks. */
static double pool_saving(const struct lull_server_results *results, enum lull_server_mode mode,
                          uint32_t pool)
{
    const struct lull_serving_outcome *outcome = &results->modes[mode];
    const struct lull_serving_outcome *highest = &results->modes[LULL_SERVER_HIGHEST];

    return 1.0 - quotient(outcome->pools[pool].energy_j, outcome->output_tokens) /
                     quotient(highest->pools[pool].energy_j, highest->output_tokens);
}

/* The requests that miss the bound of a pool. */
static uint64_t pool_missed(const struct lull_serving_outcome *outcome, uint32_t pool)
{
    return pool == 0 ? outcome->missed_ttft : outcome->missed_tpot;
}

double lull_server_saving(const struct lull_server_results *results, enum lull_server_mode mode)
{
    return 1.0 - energy_per_token_j(&results->modes[mode]) /
                     energy_per_token_j(&results->modes[LULL_SERVER_HIGHEST]);
}

static bool keeps_promise(const struct lull_server_results *results, enum lull_server_mode mode)
{
    return (double)results->modes[mode].missed <=
           (double)results->modes[LULL_SERVER_HIGHEST].missed + results->allowance;
}

/* The requests that one mode misses and another does not. */
static uint64_t count_missed_only(const struct lull_serving_outcome *outcome,
                                  const struct lull_serving_outcome *other, size_t count)
{
    uint64_t missed = 0;

    for (size_t i = 0; i < count; i++)
        missed += outcome->requests[i].is_missed && !other->requests[i].is_missed;
    return missed;
}

/* ---- verdict ------------------------------------------------------------------------------ */

/* "1 x H100-SXM5", and before it the GPUs of a prefill pool. */
static const char *write_gpus(const struct lull_simulate_server *server, char *text, size_t size)
{
    int length = 0;

    if (server->prefill.count > 0)
        length = snprintf(text, size, "%" PRIu32 " x %s (prefill) and ", server->prefill.count,
                          server->prefill.model->name);
    snprintf(text + length, size - (size_t)length, "%" PRIu32 " x %s%s", server->gpus.count,
             server->gpus.model->name, server->prefill.count > 0 ? " (decode)" : "");
    return text;
}

/* An attach for each pool of the server that was simulated. */
static const char *write_attaches(const struct lull_simulate_server *server, char *text,
                                  size_t size)
{
    const struct lull_objective *objective = &server->slo.objective;

    snprintf(text, size,
             "lull attach --slo ttft=%gms@p%g --metrics PREFILL-URL --gpus LIST; lull attach --slo "
             "tpot=%gms@p%g --metrics DECODE-URL --gpus LIST",
             1e3 * objective->ttft_s, 100.0 * objective->share, 1e3 * objective->tpot_s,
             100.0 * objective->share);
    return text;
}

/* "lull run --slo ... -- vllm serve ...", for the server that was simulated. */
static const char *write_command(const struct lull_simulate_server *server, char *text, size_t size)
{
    char parallel[48] = "";

    if (server->prefill.count > 0)
        return write_attaches(server, text, size);
    if (server->gpus.count > 1)
        snprintf(parallel, sizeof(parallel), " --tensor-parallel-size %" PRIu32,
                 server->gpus.count);
    snprintf(text, size, "lull run --slo %s -- vllm serve %s%s",
             lull_printable(server->slo.text).text, server->llm->name, parallel);
    return text;
}

const char *lull_server_verdict(const struct lull_server_results *results, char *text, size_t size)
{
    const struct lull_simulate_server *server = results->server;
    const double missed = 100.0 * lull_serving_missed_ratio(&results->modes[LULL_SERVER_LULL]);
    const double before = 100.0 * lull_serving_missed_ratio(&results->modes[LULL_SERVER_HIGHEST]);
    const double saving = lull_server_saving(results, LULL_SERVER_LULL);
    char gpus[128];
    char command[256];

    write_gpus(server, gpus, sizeof(gpus));

    if (!keeps_promise(results, LULL_SERVER_LULL))
        snprintf(
            text, size,
            "misses more than allowed: %.2f %% of requests miss the objective, %.2f %% at full "
            "clocks, on %s; do not run this server under lull",
            missed, before, gpus);
    else if (saving < LULL_VERDICT_MIN_RATIO)
        snprintf(text, size, "nothing to gain: Lull saves %.1f %% of the energy, on %s",
                 100.0 * fmax(saving, 0.0), gpus);
    else
        snprintf(text, size,
                 "saves %.1f %% of the energy per token; %.2f %% of requests miss the objective, "
                 "%.2f %% at full clocks, on %s; run: %s",
                 100.0 * saving, missed, before, gpus,
                 write_command(server, command, sizeof(command)));
    return text;
}

/* ---- table -------------------------------------------------------------------------------- */

static void print_server_mode(const struct lull_server_results *results, enum lull_server_mode mode)
{
    const struct lull_serving_outcome *outcome = &results->modes[mode];
    char setting[32] = "";

    if (mode == LULL_SERVER_FIXED_CLOCK)
        snprintf(setting, sizeof(setting), "%.0f MHz", results->clock_mhz);
    if (mode == LULL_SERVER_POWER_LIMIT)
        snprintf(setting, sizeof(setting), "%.0f W", results->limit_w);
    printf("%-12s %9s %9.4f %9.1f %7.1f%% %7.2f%% %8.0f %8.0f %7.1f %7.1f", mode_names[mode],
           setting, energy_per_token_j(outcome), energy_per_request_j(outcome),
           100.0 * lull_server_saving(results, mode), 100.0 * lull_serving_missed_ratio(outcome),
           1e3 * outcome->ttft_p50_s, 1e3 * outcome->ttft_p99_s, 1e3 * outcome->tpot_p50_s,
           1e3 * outcome->tpot_p99_s);
    if (pool_count(results) == 1)
        printf(" %6.0f", outcome->pools[0].mean_mhz);
    printf("%s\n", keeps_promise(results, mode) ? "" : "  more misses than allowed");
}

/* The part of one pool in a mode: its energy and clock, and the requests that miss its bound. */
static void print_pool(const struct lull_server_results *results, enum lull_server_mode mode,
                       uint32_t pool)
{
    const struct lull_serving_outcome *outcome = &results->modes[mode];
    const struct lull_serving_pool_outcome *own = &outcome->pools[pool];

    printf("  %-10s %9s %9.4f %9.1f %7.1f%% %7.2f%% %41.0f\n", pool_names[pool], "",
           quotient(own->energy_j, outcome->output_tokens), quotient(own->energy_j, outcome->done),
           100.0 * pool_saving(results, mode, pool),
           100.0 * quotient((double)pool_missed(outcome, pool), outcome->done), own->mean_mhz);
}

static void print_modes(const struct lull_server_results *results)
{
    for (enum lull_server_mode mode = 0; mode < LULL_SERVER_MODES; mode++) {
        if (!lull_server_is_played(results, mode))
            continue;
        print_server_mode(results, mode);
        for (uint32_t pool = 0; pool < pool_count(results) && pool_count(results) > 1; pool++)
            print_pool(results, mode, pool);
    }
}

static void print_scene(const struct lull_server_results *results)
{
    const struct lull_simulate_server *server = results->server;
    const struct lull_serving_outcome *highest = &results->modes[LULL_SERVER_HIGHEST];
    char gpus[128];

    printf("%s on %s, objective %s; %" PRIu64 " requests in %.0f s, %.3g per second",
           server->llm->name, write_gpus(server, gpus, sizeof(gpus)),
           lull_printable(server->slo.text).text, highest->done, 1e-9 * (double)server->duration_ns,
           results->rate_per_s);
    if (isfinite(results->capacity_per_s))
        printf(" (%.0f %% of what full clocks bear)", 100.0 * server->load_ratio);
    printf("\n");
    if (highest->refused > 0)
        printf("%" PRIu64 " requests are longer than the cache and were refused\n",
               highest->refused);
}

void lull_server_report_print(const struct lull_server_results *results)
{
    char text[512];

    printf("%s\n", lull_server_verdict(results, text, sizeof(text)));
    print_scene(results);
    printf("%-12s %9s %9s %9s %8s %8s %17s %15s %6s\n", "", "", "J per", "J per", "", "",
           "TTFT, ms", "TPOT, ms", "mean");
    printf("%-12s %9s %9s %9s %8s %8s %8s %8s %7s %7s %6s\n", "mode", "setting", "token", "request",
           "saves", "missed", "p50", "p99", "p50", "p99", "MHz");
    print_modes(results);
    if (pool_count(results) > 1) {
        printf("prefill misses count the bound of ttft, decode misses that of tpot. Keys and "
               "values are handed over at %.4g GB/s.\nNo fixed setting and no oracle: %s. Lull's "
               "figures include its learning.\n",
               results->handover_gbs, no_reference);
        return;
    }
    printf(
        "fixed_clock and power_limit are the best of 24 settings, chosen with hindsight, with no "
        "more misses than Lull. The oracle\nknows all requests and adds no miss; ideal is one "
        "whose driver takes no time. Lull's figures include its learning.\n");
}

/* ---- JSON --------------------------------------------------------------------------------- */

/* A number; null where it is unknown. */
static json_t *number_json(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static void add_oracle(json_t *object, const struct lull_serving_oracle *oracle)
{
    json_object_update_new(object, json_pack("{s:f, s:f, s:I}", "prefill_mhz", oracle->prefill_mhz,
                                             "decode_mhz", oracle->decode_mhz, "added_misses",
                                             (json_int_t)oracle->added));
}

static json_t *pool_mode_json(const struct lull_server_results *results, enum lull_server_mode mode,
                              uint32_t pool)
{
    const struct lull_serving_outcome *outcome = &results->modes[mode];
    const struct lull_serving_pool_outcome *own = &outcome->pools[pool];
    const uint64_t missed = pool_missed(outcome, pool);

    return json_pack("{s:s, s:f, s:o, s:o, s:I, s:o, s:o, s:I}", "name", pool_names[pool],
                     "energy_j", own->energy_j, "energy_per_token_j",
                     number_json(quotient(own->energy_j, outcome->output_tokens)), "saving_ratio",
                     number_json(pool_saving(results, mode, pool)), "missed", (json_int_t)missed,
                     "missed_ratio", number_json(quotient((double)missed, outcome->done)),
                     "mean_mhz", number_json(own->mean_mhz), "driver_calls",
                     (json_int_t)own->calls);
}

/* Adds the mean clock; of two pools each has its own. */
static void add_pools(json_t *object, const struct lull_server_results *results,
                      enum lull_server_mode mode)
{
    json_t *pools = json_null();

    if (pool_count(results) > 1) {
        pools = json_array();
        for (uint32_t pool = 0; pool < pool_count(results); pool++)
            json_array_append_new(pools, pool_mode_json(results, mode, pool));
        json_object_set_new(object, "mean_mhz", json_null());
    }
    json_object_set_new(object, "pools", pools);
}

static json_t *server_mode_json(const struct lull_server_results *results,
                                enum lull_server_mode mode)
{
    const struct lull_serving_outcome *highest = &results->modes[LULL_SERVER_HIGHEST];
    const struct lull_serving_outcome *outcome = &results->modes[mode];
    json_t *object = json_pack("{s:o, s:o, s:o, s:o, s:f, s:I, s:o, s:b}", "name",
                               lull_json_string(mode_names[mode]), "energy_per_token_j",
                               number_json(energy_per_token_j(outcome)), "energy_per_request_j",
                               number_json(energy_per_request_j(outcome)), "saving_ratio",
                               number_json(lull_server_saving(results, mode)), "energy_j",
                               outcome->energy_j, "missed", (json_int_t)outcome->missed,
                               "missed_ratio", number_json(lull_serving_missed_ratio(outcome)),
                               "within_promise", keeps_promise(results, mode));

    json_object_update_new(object, json_pack("{s:o, s:o, s:o, s:o, s:o, s:I}", "ttft_p50_ms",
                                             number_json(1e3 * outcome->ttft_p50_s), "ttft_p99_ms",
                                             number_json(1e3 * outcome->ttft_p99_s), "tpot_p50_ms",
                                             number_json(1e3 * outcome->tpot_p50_s), "tpot_p99_ms",
                                             number_json(1e3 * outcome->tpot_p99_s), "mean_mhz",
                                             number_json(outcome->pools[0].mean_mhz),
                                             "driver_calls", (json_int_t)outcome->calls));
    json_object_update_new(
        object, json_pack("{s:I, s:I, s:o}", "missed_only_here",
                          (json_int_t)count_missed_only(outcome, highest, results->requests),
                          "missed_only_at_highest",
                          (json_int_t)count_missed_only(highest, outcome, results->requests),
                          "long_gap_ratio",
                          number_json(quotient((double)outcome->long_gaps, outcome->gaps))));
    json_object_set_new(object, "reason", json_null());
    add_pools(object, results, mode);
    if (mode == LULL_SERVER_FIXED_CLOCK)
        json_object_set_new(object, "clock_mhz", json_real(results->clock_mhz));
    if (mode == LULL_SERVER_POWER_LIMIT)
        json_object_set_new(object, "limit_w", json_real(results->limit_w));
    if (mode == LULL_SERVER_ORACLE)
        add_oracle(object, &results->oracle);
    if (mode == LULL_SERVER_IDEAL)
        add_oracle(object, &results->ideal);
    return object;
}

/* A mode that is not simulated: its figures are unknown. */
static json_t *absent_mode_json(const struct lull_server_results *results,
                                enum lull_server_mode mode)
{
    json_t *object = server_mode_json(results, LULL_SERVER_HIGHEST);
    const char *key;
    json_t *value;
    void *next;

    json_object_foreach_safe(object, next, key, value)
        json_object_set_new(object, key, json_null());
    json_object_set_new(object, "name", lull_json_string(mode_names[mode]));
    json_object_set_new(object, "reason", lull_json_string(no_reference));
    return object;
}

static json_t *objective_json(const struct lull_objective *objective)
{
    return json_pack("{s:o, s:o, s:f}", "ttft_ms", number_json(1e3 * objective->ttft_s), "tpot_ms",
                     number_json(1e3 * objective->tpot_s), "share_ratio", objective->share);
}

/* Names the pools and their GPUs; null: there is only one pool. */
static json_t *pools_json(const struct lull_simulate_server *server)
{
    const struct lull_simulate_gpus *gpus[LULL_SERVING_POOLS] = {&server->prefill, &server->gpus};
    json_t *pools;

    if (server->prefill.count == 0)
        return json_null();
    pools = json_array();
    for (uint32_t pool = 0; pool < LULL_SERVING_POOLS; pool++)
        json_array_append_new(pools,
                              json_pack("{s:s, s:o, s:I}", "name", pool_names[pool], "gpu_model",
                                        lull_json_string(gpus[pool]->model->name), "gpus",
                                        (json_int_t)gpus[pool]->count));
    return pools;
}

void lull_server_report_json(const struct lull_server_results *results)
{
    const struct lull_simulate_server *server = results->server;
    const struct lull_serving_outcome *highest = &results->modes[LULL_SERVER_HIGHEST];
    json_t *modes = json_array();
    char text[512];
    json_t *root;

    for (enum lull_server_mode mode = 0; mode < LULL_SERVER_MODES; mode++) {
        if (lull_server_is_played(results, mode))
            json_array_append_new(modes, server_mode_json(results, mode));
        else if ((results->played >> mode & 1U) != 0)
            json_array_append_new(modes, absent_mode_json(results, mode));
    }
    root = json_pack(
        "{s:o, s:b, s:o, s:o, s:I, s:o}", "verdict",
        lull_json_string(lull_server_verdict(results, text, sizeof(text))), "within_promise",
        keeps_promise(results, LULL_SERVER_LULL), "server", lull_json_string(server->llm->name),
        "gpu_model", lull_json_string(server->gpus.model->name), "gpus",
        (json_int_t)server->gpus.count, "objective", objective_json(&server->slo.objective));
    json_object_update_new(
        root, json_pack("{s:o, s:f, s:f, s:o, s:o, s:I, s:I, s:I, s:I, s:I}", "arrivals",
                        lull_json_string_or_null(server->arrivals), "duration_s",
                        1e-9 * (double)server->duration_ns, "rate_per_s", results->rate_per_s,
                        "capacity_per_s", number_json(results->capacity_per_s), "load_ratio",
                        number_json(results->rate_per_s / results->capacity_per_s), "requests",
                        (json_int_t)highest->done, "refused", (json_int_t)highest->refused,
                        "skipped_rows", (json_int_t)results->skipped, "output_tokens",
                        (json_int_t)highest->output_tokens, "seed", (json_int_t)results->seed));
    json_object_set_new(root, "pools", pools_json(server));
    json_object_set_new(root, "handover_gbs",
                        number_json(pool_count(results) > 1 ? results->handover_gbs : NAN));
    json_object_set_new(root, "modes", modes);
    lull_cli_print_json(root, JSON_REAL_PRECISION(9));
}
