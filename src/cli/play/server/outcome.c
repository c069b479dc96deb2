/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/play/server/outcome.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/array.h"

void lull_model_server_outcome_fini(struct lull_model_server_outcome *outcome)
{
    free(outcome->ttft_s.items);
    free(outcome->tpot_s.items);
    *outcome = (struct lull_model_server_outcome){0};
}

/* ---- taking tokens ----------------------------------------------------------------------- */

static void add_time(struct lull_model_server_times *times, double time_s)
{
    if (isnan(time_s) ||
        lull_array_reserve(&times->items, &times->room, times->count, sizeof(times->items[0])) < 0)
        return;
    times->items[times->count++] = time_s;
}

/* Judges a request by its last token. A request with one token has no TPOT. */
static void judge_request(struct lull_model_server_outcome *outcome,
                          const struct lull_engine_token *last)
{
    outcome->judged++;
    outcome->missed +=
        last->ttft_s > outcome->objective.ttft_s || last->tpot_s > outcome->objective.tpot_s;
}

void lull_model_server_outcome_take(struct lull_model_server_outcome *outcome,
                                    const struct lull_engine_token *tokens, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (tokens[i].is_first)
            add_time(&outcome->ttft_s, tokens[i].ttft_s);
        add_time(&outcome->tpot_s, tokens[i].tpot_s);
        if (tokens[i].is_last && outcome->has_objective)
            judge_request(outcome, &tokens[i]);
    }
}

/* ---- figures ----------------------------------------------------------------------------- */

static int compare_times(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The smallest time that is not exceeded by this share of the sorted times. */
static double quantile_s(const struct lull_model_server_times *times, double share)
{
    return times->items[(size_t)fmax(ceil(share * (double)times->count) - 1, 0)];
}

static void sort_times(struct lull_model_server_outcome *outcome)
{
    if (outcome->ttft_s.count > 0)
        qsort(outcome->ttft_s.items, outcome->ttft_s.count, sizeof(double), compare_times);
    if (outcome->tpot_s.count > 0)
        qsort(outcome->tpot_s.items, outcome->tpot_s.count, sizeof(double), compare_times);
}

static json_t *times_json(const struct lull_model_server_times *times)
{
    double sum_s = 0;

    if (times->count == 0)
        return json_null();
    for (size_t i = 0; i < times->count; i++)
        sum_s += times->items[i];
    return json_pack("{s:f, s:f, s:f, s:f}", "mean_s", sum_s / (double)times->count, "p50_s",
                     quantile_s(times, 0.5), "p90_s", quantile_s(times, 0.9), "p99_s",
                     quantile_s(times, 0.99));
}

/* A quotient, or null where there is nothing to divide by. */
static json_t *quotient_json(double value, double by)
{
    return by > 0 ? json_real(value / by) : json_null();
}

static json_t *energy_json(const struct lull_model_server_outcome *outcome,
                           const struct lull_model_server_reading *reading)
{
    const double output_tokens = (double)reading->engine.output_tokens;

    return json_pack(
        "{s:f, s:o, s:o, s:o, s:o}", "total_j", outcome->energy_j, "mean_w",
        quotient_json(outcome->energy_j, (double)reading->time_ns * 1e-9), "per_output_token_j",
        quotient_json(outcome->energy_j, output_tokens), "per_request_j",
        quotient_json(outcome->energy_j, (double)reading->engine.finished), "unknown",
        output_tokens > 0 ? json_null() : json_string_nocheck("no token was generated"));
}

static json_t *requests_json(const struct lull_model_server_reading *reading)
{
    const struct lull_engine_statistics *const engine = &reading->engine;

    return json_pack(
        "{s:I, s:I, s:I, s:I, s:I}", "finished", (json_int_t)engine->finished, "cancelled",
        (json_int_t)reading->cancelled, "refused", (json_int_t)reading->refused, "unfinished",
        (json_int_t)engine->running + engine->waiting, "preempted", (json_int_t)engine->preempted);
}

/* The pools; null: there are none. */
static json_t *pools_json(const struct lull_model_server_outcome *outcome)
{
    json_t *const pools = outcome->pool_count > 0 ? json_array() : json_null();

    for (uint32_t i = 0; i < outcome->pool_count; i++) {
        const struct lull_model_server_pool *const pool = &outcome->pools[i];
        const struct lull_engine_statistics *const engine = &pool->reading.engine;

        json_array_append_new(
            pools,
            json_pack("{s:s, s:I, s:I, s:I, s:I, s:f, s:o}", "name", pool->name, "finished",
                      (json_int_t)engine->finished, "steps", (json_int_t)engine->steps, "preempted",
                      (json_int_t)engine->preempted, "late_steps",
                      (json_int_t)pool->reading.late_steps, "energy_j", pool->energy_j, "mean_w",
                      quotient_json(pool->energy_j, (double)pool->reading.time_ns * 1e-9)));
    }
    return pools;
}

json_t *lull_model_server_outcome_json(struct lull_model_server_outcome *outcome,
                                       const struct lull_model_server_reading *reading)
{
    sort_times(outcome);
    return json_pack(
        "{s:f, s:o, s:I, s:I, s:I, s:I, s:f, s:o, s:o, s:o, s:o, s:o}", "time_s",
        (double)reading->time_ns * 1e-9, "requests", requests_json(reading), "prompt_tokens",
        (json_int_t)reading->engine.prompt_tokens, "output_tokens",
        (json_int_t)reading->engine.output_tokens, "steps", (json_int_t)reading->engine.steps,
        "late_steps", (json_int_t)reading->late_steps, "late_s", reading->late_s, "ttft",
        times_json(&outcome->ttft_s), "tpot", times_json(&outcome->tpot_s), "missed_ratio",
        quotient_json((double)outcome->missed, (double)outcome->judged), "energy",
        energy_json(outcome, reading), "pools", pools_json(outcome));
}

/* ---- for people -------------------------------------------------------------------------- */

static void print_times(const char *name, const struct lull_model_server_times *times)
{
    if (times->count > 0)
        printf("%s: median %.1f ms, p90 %.1f ms, p99 %.1f ms\n", name, 1e3 * quantile_s(times, 0.5),
               1e3 * quantile_s(times, 0.9), 1e3 * quantile_s(times, 0.99));
}

void lull_model_server_outcome_print(struct lull_model_server_outcome *outcome,
                                     const struct lull_model_server_reading *reading)
{
    const struct lull_engine_statistics *const engine = &reading->engine;

    sort_times(outcome);
    printf("Requests: %" PRIu64 " finished, %" PRIu64 " cancelled, %" PRIu64 " refused, %u "
           "unfinished, in %.1f s\n",
           engine->finished, reading->cancelled, reading->refused,
           engine->running + engine->waiting, (double)reading->time_ns * 1e-9);
    printf("Tokens: %" PRIu64 " of prompts, %" PRIu64 " of outputs, in %" PRIu64 " steps\n",
           engine->prompt_tokens, engine->output_tokens, engine->steps);
    print_times("TTFT", &outcome->ttft_s);
    print_times("TPOT", &outcome->tpot_s);
    if (outcome->has_objective && outcome->judged > 0)
        printf("Objective: missed by %" PRIu64 " of %" PRIu64 " requests\n", outcome->missed,
               outcome->judged);
    printf("Energy: %.1f J, mean power %.1f W", outcome->energy_j,
           outcome->energy_j / fmax((double)reading->time_ns * 1e-9, 1e-9));
    if (engine->output_tokens > 0)
        printf(", %.4f J per output token", outcome->energy_j / (double)engine->output_tokens);
    putchar('\n');
    for (uint32_t i = 0; i < outcome->pool_count; i++)
        printf("  %s: %.1f J, mean power %.1f W, %" PRIu64 " steps\n", outcome->pools[i].name,
               outcome->pools[i].energy_j,
               outcome->pools[i].energy_j / fmax((double)reading->time_ns * 1e-9, 1e-9),
               outcome->pools[i].reading.engine.steps);
    if (reading->late_steps > 0)
        printf("The host was late for %" PRIu64 " of %" PRIu64 " steps, by %.1f ms in all\n",
               reading->late_steps, engine->steps, reading->late_s * 1e3);
}
