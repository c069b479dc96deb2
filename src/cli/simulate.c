/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/clock.h"
#include "base/smaller.h"
#include "cli/analyze/verdict.h"
#include "cli/command.h"
#include "cli/play/source.h"
#include "device/device.h"
#include "emulator/oracle_play.h"
#include "governor/report/frontier_report.h"
#include "simulator/fixed.h"
#include "simulator/node.h"

struct simulate_arguments {
    struct lull_play_source source;
    uint32_t periods;
    uint32_t nodes;
    const struct lull_gpu_model *listed; /* the model as the table has it */
    struct lull_gpu_model model;         /* the same with the latencies of --call-settle-ms */
    double call_ms;                      /* below 0: the model's latencies */
    double settle_ms;
    double look_ms;
    double tolerance_ratio;
    double swing_ratio;
    uint64_t seed;
    bool is_json;
};

static const struct lull_option rows[] = {
    LULL_PLAY_PRESET_ROW(struct simulate_arguments, source.preset),
    LULL_PLAY_RANKS_ROW(struct simulate_arguments, source.ranks),
    LULL_VALUE("straggler", "RANK,FACTOR[,FROM[,TO]]", OWN, struct simulate_arguments,
               source.straggler,
               "One rank computes FACTOR times as long, from period FROM on, until before TO.",
               .parse = lull_play_parse_straggler, .expected = lull_play_straggler_expected,
               .more = "Without them it does so from the first period to the last. The other ranks "
                       "wait for it unless they play traces."),
    LULL_VALUE(
        "nodes", "N", WHOLE, struct simulate_arguments, nodes,
        "So many nodes share the ranks, each with a governor and a driver of its own, and talk "
        "to each other as under `lull run --together`.",
        .least = 1, .most = LULL_SIMULATION_NODES, .usual = "1"),
    LULL_CLI_MODEL_ROW(struct simulate_arguments, listed, "The GPU model of all ranks.",
                       .aliases = "gpu", .usual = "A100-SXM4-40GB"),
    LULL_CLI_TOLERANCE_ROW(struct simulate_arguments, tolerance_ratio),
    LULL_VALUE("swing", "RATIO", RATIO, struct simulate_arguments, swing_ratio,
               "How much wider than at the highest clock the GPUs' power may swing in mode auto "
               "before gaps are left alone, as under `lull run`.",
               .is_slowdown = true, .usual = "5%",
               .more = "The modes of one lever alone give nothing up."),
    LULL_CLI_CALL_SETTLE_ROW(struct simulate_arguments, call_ms),
    LULL_VALUE(
        "look-ms", "MS", NUMBER, struct simulate_arguments, look_ms,
        "How often a clock is read after it was set, as lulld does between two calls; 0: the "
        "driver tells when it has followed.",
        .most = 1000, .usual = "1.5"),
    LULL_VALUE("periods", "N", WHOLE, struct simulate_arguments, periods,
               "How often the job's period is played.", .least = 20, .most = 1000000,
               .usual = "400"),
    LULL_SEED_ROW(struct simulate_arguments, seed,
                  "Seed of the latencies that the driver draws from the model's."),
    LULL_JSON_ROW(struct simulate_arguments, is_json),
    {0},
};

/* How long a word takes from one governor to another, beside the 50 ms between two looks of either.
 * Its network looks for words to send every 20 ms (governor/peers/peer_network.c). */
static const int64_t way_ns = 10 * LULL_NS_PER_MS;

/* ---- what is compared -------------------------------------------------------------------- */

enum { HIGHEST, FIXED_CLOCK, POWER_LIMIT, REACTIVE, FEED_FORWARD, STEADY, AUTO, POLICIES };

static const char *const policy_names[POLICIES] = {
    "highest", "fixed_clock", "power_limit", "reactive", "feed_forward", "steady", "auto"};

struct results {
    struct lull_simulation_outcome outcomes[POLICIES];
    double limit_w; /* of power_limit */
    struct lull_oracle_play_answer oracle;
    struct lull_job_frontier trials; /* of auto */
    struct lull_job_frontier_point frontier[LULL_JOB_FRONTIER_BUDGETS];
};

static double saving(const struct results *results, int policy)
{
    return 1.0 - results->outcomes[policy].energy_j / results->outcomes[HIGHEST].energy_j;
}

static double slowdown(const struct results *results, int policy)
{
    return lull_simulation_slowdown(&results->outcomes[policy], &results->outcomes[HIGHEST]);
}

/* The play as those see it who know everything: each of their periods is like those that are
 * measured. */
static struct lull_play known_play(const struct simulate_arguments *arguments,
                                   const struct lull_play *play)
{
    struct lull_play known = *play;

    if (known.straggler.from > arguments->periods - arguments->periods / 4 ||
        known.straggler.to < arguments->periods)
        known.straggler.factor = 0.0;
    known.straggler.from = 0;
    known.straggler.to = UINT64_MAX;
    return known;
}

/* The oracle keeps Lull's rule: computation begins at a low clock in at most 1 % of iterations. */
static int ask_oracle(const struct simulate_arguments *arguments, const struct lull_play *play,
                      struct lull_oracle_play_answer *answer_out, struct lull_error *err)
{
    const struct lull_play known = known_play(arguments, play);
    const struct lull_oracle_play_question question = {
        .play = &known,
        .model = &arguments->model,
        .call_ms = arguments->call_ms,
        .settle_ms = arguments->settle_ms,
        .tolerance_ratio = arguments->tolerance_ratio,
        .late_iterations_ratio = 0.01,
        .stride = 3,
    };

    return lull_oracle_ask_play(&question, answer_out, err);
}

/* Plays what a user without Lull would do: one clock, or one power limit, for the whole job. */
static int simulate_fixed(const struct lull_simulation_options *simulation, double tolerance_ratio,
                          struct results *results, struct lull_error *err)
{
    const struct lull_simulation_outcome *highest = &results->outcomes[HIGHEST];
    double clock_mhz; /* its outcome has that, too */
    int result = lull_simulate_fixed(simulation, LULL_FIXED_CLOCK, tolerance_ratio, highest,
                                     &results->outcomes[FIXED_CLOCK], &clock_mhz, err);

    if (result == 0)
        result = lull_simulate_fixed(simulation, LULL_FIXED_LIMIT, tolerance_ratio, highest,
                                     &results->outcomes[POWER_LIMIT], &results->limit_w, err);
    return result;
}

/* Fills in what other tolerances would save, as far as the trials of auto tell. */
static void find_frontier(const struct simulate_arguments *arguments, uint32_t ranks,
                          struct results *results)
{
    const uint32_t count =
        lull_smaller_u32(lull_gpu_model_step_count(&arguments->model), LULL_DEVICE_MAX_CLOCKS);
    uint32_t clocks_mhz[LULL_DEVICE_MAX_CLOCKS];

    for (uint32_t i = 0; i < count; i++)
        clocks_mhz[i] = (uint32_t)rint(lull_gpu_model_step_mhz(&arguments->model, count - 1 - i));
    lull_job_frontier_answer(&results->trials, results->outcomes[AUTO].kept_others, clocks_mhz,
                             count, ranks, results->frontier);
}

static int simulate(const struct simulate_arguments *arguments, const struct lull_play *play,
                    struct results *results_out, struct lull_error *err)
{
    struct lull_simulation_options simulation = {
        .play = play,
        .model = &arguments->model,
        .periods = arguments->periods,
        .measured = arguments->periods / 4,
        .exposure = true,
        .look_ns = lull_ns_from_ms(arguments->look_ms),
        .seed = arguments->seed,
        .nodes = arguments->nodes,
        .way_ns = way_ns,
    };
    const struct lull_play known = known_play(arguments, play);
    int result = ask_oracle(arguments, play, &results_out->oracle, err);

    lull_controller_config_default(&simulation.control);
    simulation.control.tolerance_ratio = arguments->tolerance_ratio;
    if (result == 0)
        result = lull_simulate_node(&simulation, &results_out->outcomes[HIGHEST], err);
    simulation.play = &known;
    if (result == 0)
        result = simulate_fixed(&simulation, arguments->tolerance_ratio, results_out, err);
    simulation.play = play;
    for (int policy = REACTIVE; policy < POLICIES && result == 0; policy++) {
        simulation.managed = true;
        simulation.frontier = policy == AUTO ? &results_out->trials : NULL;
        simulation.control.reactive = policy == REACTIVE;
        simulation.control.only_steady = policy == STEADY;
        simulation.control.only_sections = policy == REACTIVE || policy == FEED_FORWARD;
        simulation.control.swing_ratio = policy == AUTO ? arguments->swing_ratio : INFINITY;
        result = lull_simulate_node(&simulation, &results_out->outcomes[policy], err);
    }
    if (result == 0)
        find_frontier(arguments, play->rank_count, results_out);
    return result;
}

/* ---- output ------------------------------------------------------------------------------ */

/* Tells how widely the power swings, where that is known, and what auto has given up for it. */
static void print_swings(const struct results *results)
{
    const struct lull_simulation_outcome *highest = &results->outcomes[HIGHEST];
    const struct lull_simulation_outcome *managed = &results->outcomes[AUTO];

    if (highest->swing.mean_w.count > 0 && managed->swing.mean_w.count > 0)
        printf("swings of power in 1 s: %.0f W peak to peak at the highest clock, %.0f W in auto; "
               "from 1 Hz on %.1f and %.1f W\n",
               highest->swing.peak_to_peak_w.mean, managed->swing.peak_to_peak_w.mean,
               highest->swing.band_w.mean, managed->swing.band_w.mean);
    if (managed->given_up.gaps)
        printf("auto leaves gaps at the steady clock, because lowering them would widen the swings "
               "by more than --swing\n");
}

/* Writes in one line what `lull run` without options does with this job. */
static const char *write_verdict(const struct results *results, const char *model, char *text,
                                 size_t size)
{
    if (results->outcomes[AUTO].settled_in == 0)
        snprintf(text, size,
                 "auto has not settled within these periods, so its figures are of the search: "
                 "give more --periods");
    else if (saving(results, AUTO) < LULL_VERDICT_LEAST_RATIO)
        snprintf(text, size, "nothing to gain: all levers together save %.1f %% on %s",
                 100.0 * fmax(saving(results, AUTO), 0.0), model);
    else
        snprintf(text, size, "saves %.1f %% for %.2f %% of time on %s; run: lull run -- COMMAND",
                 100.0 * saving(results, AUTO), 100.0 * slowdown(results, AUTO), model);
    return text;
}

/* Prints what the figures assume, since `lull analyze` assumes something else of the same job. */
static void print_assumed(const struct lull_gpu_model *model)
{
    printf("Assumed: a call takes %.1f ms and a clock %.1f ms more to settle, mostly, and both "
           "vary as measured%s; power follows\nthe temperature; auto, steady, feed_forward and "
           "reactive pay for their own search and proof, the oracles know all\nbeforehand. The "
           "oracle of gaps, and gaps at once, lower nothing else, so auto, which has a steady "
           "clock as well, may\nsave more. `lull analyze` takes latencies as constant and "
           "foresight as perfect, and tells a range for that.\n",
           model->api_ms, model->settle_ms, model->api_sigma > 0.0 ? "" : " (here: constant)");
}

static void print_table(const struct results *results, const struct lull_gpu_model *model)
{
    char text[1024];

    printf("%s\n", write_verdict(results, model->name, text, sizeof(text)));

    printf("%-14s %12s %12s %9s %9s %8s %8s %6s %6s\n", "", "ms/period", "J/period", "saves",
           "slower", "low", "settled", "steady", "lowest");
    for (int policy = 0; policy < POLICIES; policy++) {
        const struct lull_simulation_outcome *outcome = &results->outcomes[policy];

        printf("%-14s %12.2f %12.2f %8.2f%% %8.2f%% %7.2f%% %8" PRIu64 " %6.0f %6.0f\n",
               policy_names[policy], outcome->period_ms, outcome->energy_j,
               saving(results, policy) * 100.0, slowdown(results, policy) * 100.0,
               outcome->late_ratio * 100.0, outcome->settled_in, outcome->steady_mhz,
               outcome->point_mhz);
    }
    printf("%-14s %12s %12s %8.2f%% %8.2f%%\n", "oracle of gaps", "", "",
           results->oracle.real.saving_ratio * 100.0, results->oracle.real.slowdown_ratio * 100.0);
    printf("%-14s %12s %12s %8.2f%% %8.2f%% %8s %8s %6.0f\n", "joint oracle", "", "",
           results->oracle.joint.saving_ratio * 100.0, results->oracle.joint.slowdown_ratio * 100.0,
           "", "", results->oracle.joint_mhz);
    printf("%-14s %12s %12s %8.2f%% %8.2f%%\n", "oracle of slack", "", "",
           results->oracle.slack.saving_ratio * 100.0,
           results->oracle.slack.slowdown_ratio * 100.0);
    printf("%-14s %12s %12s %8.2f%%\n", "gaps at once", "", "",
           results->oracle.ideal.saving_ratio * 100.0);
    print_swings(results);
    printf("%s\n", lull_job_frontier_report_text(results->frontier, text, sizeof(text)));
    print_assumed(model);
}

/* Unknown is null: no second of the measured periods has been read. */
static json_t *swing_json(const struct lull_simulation_outcome *outcome)
{
    if (outcome->swing.mean_w.count == 0)
        return json_null();
    return json_pack("{s:I, s:f, s:f, s:f, s:b}", "pieces", (json_int_t)outcome->swing.mean_w.count,
                     "average_power_w", outcome->swing.mean_w.mean, "peak_to_peak_w",
                     outcome->swing.peak_to_peak_w.mean, "band_w", outcome->swing.band_w.mean,
                     "gaps_given_up", outcome->given_up.gaps);
}

static json_t *policy_json(const struct results *results, int policy)
{
    const struct lull_simulation_outcome *outcome = &results->outcomes[policy];

    return json_pack(
        "{s:s, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:f, s:f, s:f, s:I, s:o}", "name",
        policy_names[policy], "period_ms", outcome->period_ms, "energy_j", outcome->energy_j,
        "saving_ratio", saving(results, policy), "slowdown_ratio", slowdown(results, policy),
        "low_ratio", outcome->late_ratio, "driver_calls", (json_int_t)outcome->calls,
        "settled_in_period", (json_int_t)outcome->settled_in, "steady_mhz", outcome->steady_mhz,
        "below_ratio", outcome->below_ratio, "sm_mhz", outcome->point_mhz, "switched_sections",
        (json_int_t)outcome->switched, "swing", swing_json(outcome));
}

static json_t *joint_json(const struct lull_oracle_play_answer *oracle, uint32_t ranks)
{
    json_t *rank_mhz = json_array();

    for (uint32_t i = 0; i < ranks; i++)
        json_array_append_new(rank_mhz, json_real(oracle->joint_rank_mhz[i]));
    return json_pack("{s:f, s:f, s:f, s:o}", "saving_ratio", oracle->joint.saving_ratio,
                     "slowdown_ratio", oracle->joint.slowdown_ratio, "steady_mhz",
                     oracle->joint_mhz, "rank_mhz", rank_mhz);
}

static void print_json(const struct results *results, const struct lull_gpu_model *model,
                       uint32_t ranks)
{
    char text[256];
    json_t *root = json_object();
    json_t *modes = json_array();

    json_object_set_new(root, "verdict",
                        json_string(write_verdict(results, model->name, text, sizeof(text))));
    for (int policy = 0; policy < POLICIES; policy++)
        json_array_append_new(modes, policy_json(results, policy));
    json_object_set_new(json_array_get(modes, POWER_LIMIT), "limit_w", json_real(results->limit_w));
    json_object_set_new(root, "modes", modes);
    json_object_set_new(root, "joint_oracle", joint_json(&results->oracle, ranks));
    json_object_set_new(root, "oracle",
                        json_pack("{s:f, s:f, s:f, s:f, s:f, s:f}", "saving_ratio",
                                  results->oracle.real.saving_ratio, "slowdown_ratio",
                                  results->oracle.real.slowdown_ratio, "ideal_saving_ratio",
                                  results->oracle.ideal.saving_ratio, "steady_saving_ratio",
                                  results->oracle.steady.saving_ratio, "slack_saving_ratio",
                                  results->oracle.slack.saving_ratio, "gap_ratio",
                                  results->oracle.gap_ratio));
    json_object_set_new(root, "frontier", lull_job_frontier_report_json(results->frontier));
    lull_cli_print_json(root, JSON_REAL_PRECISION(9));
}

static void prepare(void *options)
{
    struct simulate_arguments *const arguments = options;

    arguments->source.jitter_ratio = -1.0;
    arguments->call_ms = -1.0;
}

static int check(void *options, const struct lull_operands *traces, struct lull_error *err)
{
    struct simulate_arguments *const arguments = options;

    arguments->source.traces = traces->words;
    arguments->source.trace_count = traces->count;
    if ((arguments->source.preset == NULL) == (traces->count == 0))
        return lull_error_set(err, -EINVAL, "give either traces or --preset");
    arguments->model = *arguments->listed;
    if (arguments->call_ms >= 0.0) /* these latencies are constant, while those of the model vary */
        lull_gpu_model_fix_latency(&arguments->model, arguments->call_ms, arguments->settle_ms);
    return 0;
}

static int run(void *options, const struct lull_operands *operands)
{
    const struct simulate_arguments *const arguments = options;
    struct lull_play *play = NULL;
    struct lull_error err = {0};
    struct results results = {0};
    uint32_t ranks = 0;
    int result = lull_play_source_open(&arguments->source, &play, &err);

    (void)operands;
    if (result == 0)
        result = simulate(arguments, play, &results, &err);
    if (play != NULL)
        ranks = play->rank_count;
    lull_play_destroy(play);
    if (result < 0)
        return lull_cli_fail("simulate", &err);
    if (arguments->is_json)
        print_json(&results, &arguments->model, ranks);
    else
        print_table(&results, &arguments->model);
    return LULL_EXIT_OK;
}

const struct lull_program_command lull_simulate_command = {
    .name = "simulate",
    .summary = "run a job and the decisions about it in virtual time",
    .arguments = "[TRACE...]",
    .about =
        "Plays a recorded job, or a preset, in virtual time on emulated GPUs: at the highest "
        "clock; at the one clock, and the one power limit, that a user would choose who knows what "
        "they cost; with clocks that react to its gaps, with clocks that are ahead of them, at one "
        "steady clock, below which ranks run that wait for others, and with all of these together, "
        "as `lull run` does without options (auto); beside them what oracles reach that know "
        "everything beforehand: of gaps alone, of ranks that wait (slack), and of all that on top "
        "of a steady clock (joint). `lull help simulate cluster` is "
        "about many jobs on a cluster.",
    .tables = {{rows, 0}},
    .operands = {.most = UINT32_MAX},
    .size = sizeof(struct simulate_arguments),
    .prepare = prepare,
    .check = check,
    .run = run,
};
