/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/analyze/timeline.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <jansson.h>

#include "base/json_string.h"
#include "cli/analyze/verdict.h"
#include "cli/shared/command.h"
#include "governor/report/report_fields.h"

/* Timelines name no GPU. Without --model and --watts, GPUs are taken to draw what the data's own
 * table takes: computing in production jobs is below a benchmark's power, and waiting spins. */
static const struct lull_analyze_watts typical_watts = {300.0, 111.0, 80.0};

/* ---- power ---- */

static double known_w(double given_w, double otherwise_w)
{
    return given_w >= 0.0 ? given_w : otherwise_w;
}

static void choose_watts(const struct lull_prediction_setup *setup,
                         const struct lull_analyze_watts *given,
                         const struct lull_prediction_clocks *clocks,
                         struct lull_analyzed_timeline *analyzed)
{
    struct lull_analyze_watts watts = typical_watts;

    if (setup->model != NULL)
        watts =
            (struct lull_analyze_watts){clocks->clocks[0].compute_w, clocks->clocks[0].waiting_w,
                                        clocks->clocks[clocks->count - 1].waiting_w};
    analyzed->watts = (struct lull_analyze_watts){known_w(given->compute_w, watts.compute_w),
                                                  known_w(given->wait_w, watts.wait_w),
                                                  known_w(given->low_w, watts.low_w)};
}

/* The curves are the model's, scaled so that they go through the watts. */
static struct lull_timeline_point
analyze_timeline_point_at(const struct lull_analyzed_timeline *analyzed,
                          const struct lull_prediction_clocks *clocks, uint32_t index)
{
    const struct lull_prediction_clock *const at = &clocks->clocks[index];
    const struct lull_prediction_clock *const high = &clocks->clocks[0];
    const double low_w = clocks->clocks[clocks->count - 1].waiting_w;
    const double share =
        high->waiting_w > low_w ? (at->waiting_w - low_w) / (high->waiting_w - low_w) : 1.0;

    return (struct lull_timeline_point){
        .mhz = at->mhz,
        .speed_ratio = at->speed_ratio,
        .compute_w = analyzed->watts.compute_w * at->compute_w / high->compute_w,
        .wait_w = analyzed->watts.low_w + share * (analyzed->watts.wait_w - analyzed->watts.low_w),
    };
}

/* Lists the clocks from the highest to the one at which computing costs least beyond a low wait. If
 * the power limit binds, the first clocks compute at the same speed and differ only in waiting. */
static uint32_t list_points(const struct lull_analyzed_timeline *analyzed,
                            const struct lull_prediction_clocks *clocks,
                            struct lull_timeline_point *points)
{
    double least = INFINITY;
    uint32_t count = 0;

    while (count < clocks->count) {
        const struct lull_timeline_point point = analyze_timeline_point_at(analyzed, clocks, count);
        const double cost = (point.compute_w - analyzed->watts.low_w) / point.speed_ratio;

        if (cost > least)
            break;
        least = cost;
        points[count++] = point;
    }
    return count;
}

/* ---- the work ---- */

static int analyze_timeline_simulate(struct lull_analyzed_timeline *analyzed,
                                     const struct lull_prediction_clocks *clocks, double driver_ms,
                                     bool only_gaps, struct lull_error *err)
{
    struct lull_timeline_point points[LULL_DEVICE_CURVE_CLOCKS];
    struct lull_timeline_question question = {.job = &analyzed->job,
                                              .driver_ms = driver_ms,
                                              .tolerance_ratio = analyzed->tolerance_ratio,
                                              .only_gaps = only_gaps};

    question.power = (struct lull_timeline_power){points, list_points(analyzed, clocks, points),
                                                  analyzed->watts.low_w};
    return lull_timeline_ask(&question, &analyzed->answer, err);
}

int lull_analyze_timeline(const struct lull_prediction_setup *setup,
                          const struct lull_analyze_watts *watts, bool only_gaps,
                          const struct lull_operation_timeline *timeline,
                          struct lull_analyzed_timeline *analyzed_out, struct lull_error *err)
{
    struct lull_analyzed_timeline analyzed = {.timeline = timeline,
                                              .tolerance_ratio = setup->tolerance_ratio};
    struct lull_prediction_clocks clocks;
    struct lull_prediction latency;
    int rc;

    lull_predict_model(setup, "", &latency);
    analyzed.model = latency.model;
    analyzed.is_model_assumed = latency.is_model_assumed;
    /* Operations are long against what a limiter averages over. */
    lull_predict_clocks(analyzed.model, lull_predict_limit_w(analyzed.model), &clocks);
    choose_watts(setup, watts, &clocks, &analyzed);
    rc = lull_timeline_job_init(&analyzed.job, timeline, err);
    if (rc < 0)
        return rc;
    rc = lull_what_if_ask(&analyzed.job, &analyzed.what_if, err);
    if (rc == 0)
        rc = analyze_timeline_simulate(&analyzed, &clocks, latency.down_ms, only_gaps, err);
    if (rc < 0)
        lull_analyzed_timeline_fini(&analyzed);
    else
        *analyzed_out = analyzed;
    return rc;
}

void lull_analyzed_timeline_fini(struct lull_analyzed_timeline *analyzed)
{
    lull_timeline_job_fini(&analyzed->job);
    free(analyzed->what_if.stage_ratios);
    analyzed->what_if.stage_ratios = NULL;
}

/* ---- the verdict ---- */

static double analyze_timeline_saving(const struct lull_analyzed_timeline *analyzed,
                                      enum lull_timeline_lever_kind kind)
{
    double most = 0.0;

    for (uint32_t i = 0; i < analyzed->answer.lever_count; i++) {
        const struct lull_timeline_lever *const lever = &analyzed->answer.levers[i];

        /* Gaps are listed at several latencies; the driver's own comes last, and only that one
         * counts. */
        if (lever->kind == kind && (kind == LULL_LEVER_GAPS || lever->saving_ratio > most))
            most = lever->saving_ratio;
    }
    return most;
}

static const char *levers_text(double rank_gaps, double operation)
{
    if (rank_gaps <= 0.0)
        return "low clocks in gaps";
    return operation > rank_gaps
               ? "a clock for each rank and low clocks in gaps, most with a clock "
                 "for each forward and backward"
               : "a clock for each rank and low clocks in gaps";
}

static const char *analyze_timeline_write_verdict(const struct lull_analyzed_timeline *analyzed,
                                                  char *text, size_t size)
{
    const double rank_gaps = analyze_timeline_saving(analyzed, LULL_LEVER_RANK_GAPS);
    const double operation = analyze_timeline_saving(analyzed, LULL_LEVER_OPERATION);
    const double gaps = analyze_timeline_saving(analyzed, LULL_LEVER_GAPS);
    const struct lull_analyze_verdict verdict = {
        .min_ratio = fmax(fmin(rank_gaps, operation), gaps),
        .max_ratio = fmax(fmax(rank_gaps, operation), gaps),
        .likely_ratio = NAN,
        .tolerance_ratio = analyzed->tolerance_ratio,
        .compute_ratio = analyzed->answer.compute_ratio,
        .gaps_ratio = gaps,
        .levers = levers_text(rank_gaps, operation),
    };

    return lull_analyze_verdict_write(&verdict, text, size);
}

/* ---- JSON ---- */

static const char *const lever_keys[] = {
    [LULL_LEVER_GAPS] = "gaps",
    [LULL_LEVER_STEADY] = "steady",
    [LULL_LEVER_RANK] = "steady_per_rank",
    [LULL_LEVER_RANK_GAPS] = "steady_per_rank_and_gaps",
    [LULL_LEVER_OPERATION] = "clocks_per_operation",
};

static json_t *analyze_timeline_lever_json(const struct lull_timeline_lever *lever)
{
    json_t *const object = json_object();
    char name[48];

    if (lever->kind == LULL_LEVER_GAPS)
        snprintf(name, sizeof(name), "%s_%.4gms", lever_keys[lever->kind], lever->latency_ms);
    else
        snprintf(name, sizeof(name), "%s", lever_keys[lever->kind]);
    lull_field_text(object, "name", name);
    lull_field_number(object, "tolerance_ratio", lever->tolerance_ratio);
    lull_field_number(object, "saving_ratio", lever->saving_ratio);
    lull_field_number(object, "slowdown_ratio", lever->slowdown_ratio);
    lull_field_known(object, "latency_ms", lever->latency_ms, lever->latency_ms > 0.0);
    return object;
}

static json_t *timeline_json(const struct lull_analyzed_timeline *analyzed)
{
    const struct lull_what_if *const what_if = &analyzed->what_if;
    json_t *const object = json_object();
    json_t *const stages = json_object();
    json_t *const operations = json_object();
    json_t *const levers = json_array();

    for (uint32_t s = 0; s < analyzed->job.stages; s++) {
        char key[16];

        if (what_if->stage_ratios[s] <= 0.0)
            continue;
        snprintf(key, sizeof(key), "%" PRIu32, s);
        lull_field_number(stages, key, what_if->stage_ratios[s]);
    }
    for (int kind = 0; kind < LULL_TIMELINE_KINDS; kind++)
        if (what_if->kind_ratios[kind] > 0.0)
            lull_field_number(operations, lull_timeline_operation((enum lull_timeline_kind)kind),
                              what_if->kind_ratios[kind]);
    for (uint32_t i = 0; i < analyzed->answer.lever_count; i++)
        json_array_append_new(levers, analyze_timeline_lever_json(&analyzed->answer.levers[i]));
    lull_field_number(object, "what_if_slowdown_ratio", what_if->slowdown_ratio);
    lull_field_json(object, "by_stage", stages);
    lull_field_json(object, "by_operation", operations);
    lull_field_json(object, "levers", levers);
    lull_field_number(object, "frontier_gap_ratio", analyzed->answer.frontier_gap_ratio);
    lull_field_number(object, "replay_ratio", analyzed->answer.replay_ratio);
    lull_field_number(object, "compute_ratio", analyzed->answer.compute_ratio);
    lull_field_integer(object, "ranks", (json_int_t)analyzed->timeline->rank_count);
    lull_field_integer(object, "steps", (json_int_t)analyzed->timeline->step_count);
    lull_field_integer(object, "operations", (json_int_t)analyzed->timeline->op_count);
    lull_field_integer(object, "unusable_operations", (json_int_t)analyzed->timeline->unusable_ops);
    return object;
}

int lull_analyze_timeline_print_json(const struct lull_analyzed_timeline *analyzed)
{
    json_t *const document = json_object();
    char text[512];

    lull_field_text(document, "verdict",
                    analyze_timeline_write_verdict(analyzed, text, sizeof(text)));
    lull_field_json(document, "timeline", timeline_json(analyzed));
    lull_field_json(document, "assumptions",
                    json_pack("{s:o, s:b, s:f, s:f, s:f, s:f, s:f}", "gpu",
                              lull_json_string(analyzed->model->name), "gpu_assumed",
                              analyzed->is_model_assumed, "compute_w", analyzed->watts.compute_w,
                              "wait_w", analyzed->watts.wait_w, "low_w", analyzed->watts.low_w,
                              "driver_ms", analyzed->answer.driver_ms, "tolerance_ratio",
                              analyzed->tolerance_ratio));
    return lull_cli_print_json(document, JSON_REAL_PRECISION(12));
}

/* ---- for people ---- */

static const char *const lever_texts[] = {
    [LULL_LEVER_GAPS] = "low clock in gaps",
    [LULL_LEVER_STEADY] = "one clock for all ranks",
    [LULL_LEVER_RANK] = "a clock for each rank",
    [LULL_LEVER_RANK_GAPS] = "the same, and gaps",
    [LULL_LEVER_OPERATION] = "a clock for each operation",
};

static void print_levers(const struct lull_analyzed_timeline *analyzed)
{
    printf("\n%-28s %11s %9s %9s %9s\n", "lever", "latency ms", "at most", "saves", "slower");
    for (uint32_t i = 0; i < analyzed->answer.lever_count; i++) {
        const struct lull_timeline_lever *const lever = &analyzed->answer.levers[i];
        char latency[16] = "";

        if (lever->latency_ms > 0.0)
            snprintf(latency, sizeof(latency), "%.4g", lever->latency_ms);
        printf("%-28s %11s %7.2g %% %7.2f %% %7.2f %%\n", lever_texts[lever->kind], latency,
               100.0 * lever->tolerance_ratio, 100.0 * lever->saving_ratio,
               100.0 * lever->slowdown_ratio);
    }
    if (!isnan(analyzed->answer.frontier_gap_ratio))
        printf("No plan with a clock per operation saves more than another %.2g %% (proven).\n",
               100.0 * analyzed->answer.frontier_gap_ratio);
}

static void print_what_if(const struct lull_analyzed_timeline *analyzed)
{
    const struct lull_what_if *const what_if = &analyzed->what_if;

    printf("\nReplayed, the job takes %.1f %% of the recorded time (delays without a dependency "
           "are omitted).\n",
           100.0 * analyzed->answer.replay_ratio);
    printf("The job takes %.3f times as long as if all operations of a kind were equally long.\n",
           what_if->slowdown_ratio);
    printf("With only this as recorded:");
    for (uint32_t s = 0; s < analyzed->job.stages; s++)
        if (what_if->stage_ratios[s] > 0.0)
            printf(" stage %" PRIu32 " %.3f", s, what_if->stage_ratios[s]);
    putchar('\n');
    for (int kind = 0; kind < LULL_TIMELINE_KINDS; kind++)
        if (what_if->kind_ratios[kind] > 0.0)
            printf("  %-28s %6.3f\n", lull_timeline_operation((enum lull_timeline_kind)kind),
                   what_if->kind_ratios[kind]);
}

void lull_analyze_timeline_print_text(const struct lull_analyzed_timeline *analyzed)
{
    char text[512];

    printf("%s\n", analyze_timeline_write_verdict(analyzed, text, sizeof(text)));
    print_levers(analyzed);
    print_what_if(analyzed);
    printf("\n%zu operations of %zu ranks in %zu steps; ranks compute %.1f %% of the "
           "time.\nAssumed: clocks and curves of %s%s; a rank draws %.0f W when it computes and "
           "%.0f W when it\nwaits at the highest clock, %.0f W in a lowered gap; a clock takes "
           "effect after %.1f ms (--model, --watts,\n--switch-ms change that).\n",
           analyzed->timeline->op_count, analyzed->timeline->rank_count,
           analyzed->timeline->step_count, 100.0 * analyzed->answer.compute_ratio,
           analyzed->model->name, analyzed->is_model_assumed ? " (a timeline names no GPU)" : "",
           analyzed->watts.compute_w, analyzed->watts.wait_w, analyzed->watts.low_w,
           analyzed->answer.driver_ms);
}
