/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/minmax.h"
#include "base/progress.h"
#include "cli/commands.h"
#include "cli/shared/command.h"
#include "cli/play/source.h"
#include "base/printable.h"
#include "cli/simulate_report.h"
#include "cli/simulate_server.h"
#include "cli/trace_notes.h"
#include "core/energy/device_curve.h"
#include "device/device.h"
#include "simulator/fixed.h"

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
    uint32_t modes; /* bits of what is played: policies, and ORACLES */
    bool is_json;
    bool power_profiles;
    struct lull_simulate_server server;
};

enum { ORACLES = LULL_SIMULATE_POLICIES, ORACLE };
static const uint32_t all_modes = (UINT32_C(2) << ORACLE) - 1;
static const uint32_t min_modes = UINT32_C(1) << LULL_SIMULATE_HIGHEST | UINT32_C(1)
                                                                             << LULL_SIMULATE_AUTO;

static const char *mode_name(uint32_t index)
{
    if (index < LULL_SIMULATE_POLICIES)
        return lull_simulate_policy_names[index];
    if (index == ORACLES)
        return "oracles";
    return index == ORACLE ? "oracle" : NULL;
}

/* Parses a list of modes into the bits at place. */
static int parse_modes(const char *text, void *place, struct lull_error *err)
{
    uint32_t *modes = place;

    (void)err;
    *modes = min_modes;
    if (strcmp(text, "all") == 0) {
        *modes = all_modes;
        return 0;
    }
    for (;;) {
        const size_t length = strcspn(text, ",");
        uint32_t index = 0;

        while (mode_name(index) != NULL &&
               (strncmp(mode_name(index), text, length) != 0 || mode_name(index)[length] != '\0'))
            index++;
        if (mode_name(index) == NULL)
            return -EINVAL;
        *modes |= UINT32_C(1) << index;
        if (text[length] == '\0')
            return 0;
        text += length + 1;
    }
}

static bool simulate_is_wanted(const struct simulate_arguments *arguments, uint32_t mode)
{
    return (arguments->modes >> mode & 1) != 0;
}

static bool simulate_wants_oracle(const struct simulate_arguments *arguments)
{
    return simulate_is_wanted(arguments, ORACLES) || simulate_is_wanted(arguments, ORACLE);
}

/* The modes of a server beside full clocks and Lull, which are those of a job of like name. */
static uint32_t server_modes(const struct simulate_arguments *arguments)
{
    uint32_t modes = 0;

    if (simulate_is_wanted(arguments, LULL_SIMULATE_FIXED_CLOCK))
        modes |= 1U << LULL_SERVER_FIXED_CLOCK;
    if (simulate_is_wanted(arguments, LULL_SIMULATE_POWER_LIMIT))
        modes |= 1U << LULL_SERVER_POWER_LIMIT;
    if (simulate_wants_oracle(arguments))
        modes |= 1U << LULL_SERVER_ORACLE;
    if (simulate_is_wanted(arguments, ORACLES))
        modes |= 1U << LULL_SERVER_IDEAL;
    return modes;
}

static const struct lull_option rows[] = {
    LULL_PLAY_PRESET_ROW(struct simulate_arguments, source.preset),
    LULL_PLAY_RANKS_ROW(struct simulate_arguments, source.ranks),
    LULL_VALUE(
        "straggler", "RANK,FACTOR[,FROM[,TO]]", OWN, struct simulate_arguments, source.straggler,
        "One rank computes FACTOR times as long, from period FROM to before period TO.",
        .parse = lull_play_parse_straggler, .expected = lull_play_straggler_expected,
        .more = "Default: all periods. The other ranks wait for it unless they play traces."),
    LULL_VALUE("nodes", "N", WHOLE, struct simulate_arguments, nodes,
               "Number of nodes that share the ranks. Each has its own governor and driver; they "
               "communicate as in `lull run --together`.",
               .least = 1, .most = LULL_SIMULATION_NODES, .default_value = "1"),
    LULL_CLI_COMM_KERNELS_ROW(struct simulate_arguments, source.kernels_text),
    LULL_CLI_MODEL_ROW(struct simulate_arguments, listed, "The GPU model of all ranks.",
                       .otherwise = "the model in the first trace, or A100-SXM4-40GB"),
    LULL_CLI_TOLERANCE_ROW(struct simulate_arguments, tolerance_ratio),
    LULL_VALUE("swing", "RATIO", RATIO, struct simulate_arguments, swing_ratio,
               "How much more than at the highest clock the GPUs' power may fluctuate in mode auto "
               "before gaps are not lowered, as in `lull run`.",
               .is_slowdown = true, .default_value = "5%",
               .more = "Modes with a single lever ignore it."),
    LULL_FLAG("power-profiles", struct simulate_arguments, power_profiles,
              "Mode auto may request the power profile max-q, as `lull run` does. Its effect is "
              "borrowed: the best case that NVIDIA publishes for B200."),
    LULL_CLI_CALL_SETTLE_ROW(struct simulate_arguments, call_ms),
    LULL_VALUE("look-ms", "MS", NUMBER, struct simulate_arguments, look_ms,
               "How often a clock is read after it was set, as lulld does between two calls; 0: "
               "the driver reports when it has changed.",
               .most = 1000, .default_value = "1.5"),
    LULL_VALUE("periods", "N", WHOLE, struct simulate_arguments, periods,
               "Number of times the job's period is played.", .least = LULL_SIMULATE_MIN_PERIODS,
               .most = 1000000, .default_value = "400"),
    LULL_VALUE("modes", "NAME[,NAME...]", OWN, struct simulate_arguments, modes,
               "Play only these modes, plus highest and auto; oracles selects all oracles. With "
               "--server, auto is lull, and oracle excludes the ideal one.",
               .parse = parse_modes,
               .expected = "a list of fixed_clock, power_limit, reactive, feed_forward, steady, "
                           "auto, oracle and oracles",
               .word_at = mode_name, .otherwise = "all",
               .more = "auto alone takes a fraction of the time."),
    LULL_SEED_ROW(
        struct simulate_arguments, seed,
        "Seed of the driver's latencies and of the coins that order trials: the same seed "
        "gives the same result."),
    LULL_JSON_ROW(struct simulate_arguments, is_json),
    {0},
};

/* Latency of a message between governors, in addition to their polling interval of 50 ms. The
 * network polls for messages to send every 20 ms (governor/peers/peer_network.c). */
static const int64_t way_ns = 10 * LULL_NS_PER_MS;

/* ---- playing ----------------------------------------------------------------------------- */

/* The progress that a terminal shows while a mode is played. */
struct simulate_progress {
    struct lull_progress watch;
    const char *mode;
    uint64_t periods;
};

static void simulate_show_progress(void *context, uint32_t rank, uint64_t period, double sm_mhz)
{
    struct simulate_progress *progress = context;

    (void)sm_mhz;
    if (rank == 0 && lull_progress_is_due(&progress->watch))
        lull_progress_draw("%s: period %" PRIu64 " of %" PRIu64, progress->mode, period,
                           progress->periods);
}

struct simulate_run {
    const struct simulate_arguments *arguments;
    const struct lull_play *play;
    struct lull_simulation_options simulation;
    struct lull_simulation_course *reference; /* of the run at the highest clock */
    struct simulate_progress progress;
    struct lull_simulate_results *results;
};

/* The play as the oracles see it, which have full knowledge of the run: each of their periods is
 * like the last quarter of the run. */
static struct lull_play known_play(const struct simulate_run *run)
{
    const uint32_t periods = run->arguments->periods;
    struct lull_play known = *run->play;

    if (known.straggler.from > periods - periods / 4 || known.straggler.to < periods)
        known.straggler.factor = 0.0;
    known.straggler.from = 0;
    known.straggler.to = UINT64_MAX;
    return known;
}

/* The oracle keeps Lull's rule: computation begins at a low clock in at most 1 % of iterations. */
static int simulate_run_oracle(struct simulate_run *run, struct lull_error *err)
{
    const struct simulate_arguments *arguments = run->arguments;
    const struct lull_play known = known_play(run);
    const struct lull_oracle_play_question question = {
        .play = &known,
        .model = &arguments->model,
        .call_ms = arguments->call_ms,
        .settle_ms = arguments->settle_ms,
        .tolerance_ratio = arguments->tolerance_ratio,
        .late_iterations_ratio = 0.01,
        .stride = 3,
        .watch = lull_cli_show_oracle,
        .watch_context = &run->progress.watch,
    };

    return lull_oracle_ask_play(&question, &run->results->oracle, err);
}

static void take_figures(const struct simulate_run *run,
                         const struct lull_simulation_course *course,
                         struct lull_simulate_mode *mode)
{
    const uint64_t periods = run->arguments->periods;
    const uint64_t settled_in = mode->outcome.settled_in;

    mode->whole = lull_simulation_course_compare(course, run->reference, 0, periods);
    mode->worst_ratio =
        lull_simulation_course_worst(course, run->reference, LULL_SIMULATE_MIN_PERIODS);
    mode->has_settled_part =
        settled_in > 0 && settled_in + LULL_SIMULATE_MIN_SETTLED <= periods + 1;
    if (mode->has_settled_part)
        mode->settled =
            lull_simulation_course_compare(course, run->reference, settled_in - 1, periods);
}

/* Plays a mode, with settings of run->simulation, and compares its course with the reference; the
 * first one is the reference. */
static int play_mode(struct simulate_run *run, enum lull_simulate_policy policy,
                     int (*simulate)(struct simulate_run *run, struct lull_simulate_mode *mode,
                                     struct lull_error *err),
                     struct lull_error *err)
{
    struct lull_simulate_mode *mode = &run->results->modes[policy];
    struct lull_simulation_course *course =
        lull_simulation_course_create(run->play->rank_count, run->arguments->periods);
    int result;

    if (course == NULL)
        return lull_error_set(err, -ENOMEM, "simulation: no memory");
    run->progress.mode = lull_simulate_policy_names[policy];
    run->simulation.course = course;
    result = simulate(run, mode, err);
    run->simulation.course = NULL;
    if (result < 0) {
        lull_simulation_course_destroy(course);
        return result;
    }
    if (run->reference == NULL)
        run->reference = course;
    take_figures(run, course, mode);
    if (run->reference != course)
        lull_simulation_course_destroy(course);
    return 0;
}

static int simulate_mode(struct simulate_run *run, struct lull_simulate_mode *mode,
                         struct lull_error *err)
{
    return lull_simulate_node(&run->simulation, &mode->outcome, err);
}

/* Simulates a user without Lull: the best fixed clock for the whole job. */
static int simulate_clock(struct simulate_run *run, struct lull_simulate_mode *mode,
                          struct lull_error *err)
{
    double clock_mhz; /* its outcome has that, too */

    return lull_simulate_fixed(&run->simulation, LULL_FIXED_CLOCK, run->arguments->tolerance_ratio,
                               &run->results->modes[LULL_SIMULATE_HIGHEST].outcome, &mode->outcome,
                               &clock_mhz, err);
}

static int simulate_limit(struct simulate_run *run, struct lull_simulate_mode *mode,
                          struct lull_error *err)
{
    return lull_simulate_fixed(&run->simulation, LULL_FIXED_LIMIT, run->arguments->tolerance_ratio,
                               &run->results->modes[LULL_SIMULATE_HIGHEST].outcome, &mode->outcome,
                               &run->results->limit_w, err);
}

/* Fills in what other tolerances would save, as far as known from the trials of auto. */
static void simulate_find_frontier(const struct simulate_run *run,
                                   const struct lull_job_frontier *trials)
{
    const struct lull_gpu_model *model = &run->arguments->model;
    const uint32_t count = lull_min_u32(lull_gpu_model_step_count(model), LULL_DEVICE_MAX_CLOCKS);
    uint32_t clocks_mhz[LULL_DEVICE_MAX_CLOCKS];

    for (uint32_t i = 0; i < count; i++)
        clocks_mhz[i] = (uint32_t)rint(lull_gpu_model_step_mhz(model, count - 1 - i));
    lull_job_frontier_answer(trials, run->results->modes[LULL_SIMULATE_AUTO].outcome.kept_others,
                             clocks_mhz, count, run->play->rank_count, run->results->frontier);
}

/* Plays the modes that Lull manages. */
static int simulate_managed(struct simulate_run *run, struct lull_error *err)
{
    struct lull_job_frontier trials = {0};
    int result = 0;

    run->simulation.managed = true;
    for (int policy = LULL_SIMULATE_REACTIVE; policy <= LULL_SIMULATE_AUTO && result == 0;
         policy++) {
        struct lull_controller_config *control = &run->simulation.control;

        if (!simulate_is_wanted(run->arguments, (uint32_t)policy))
            continue;
        run->simulation.frontier = policy == LULL_SIMULATE_AUTO ? &trials : NULL;
        run->simulation.offers_profile =
            policy == LULL_SIMULATE_AUTO && run->arguments->power_profiles;
        control->reactive = policy == LULL_SIMULATE_REACTIVE;
        control->only_steady = policy == LULL_SIMULATE_STEADY;
        control->only_sections =
            policy == LULL_SIMULATE_REACTIVE || policy == LULL_SIMULATE_FEED_FORWARD;
        control->swing_ratio =
            policy == LULL_SIMULATE_AUTO ? run->arguments->swing_ratio : INFINITY;
        result = play_mode(run, (enum lull_simulate_policy)policy, simulate_mode, err);
    }
    if (result == 0)
        simulate_find_frontier(run, &trials);
    return result;
}

static int simulate_job(const struct simulate_arguments *arguments, const struct lull_play *play,
                        struct lull_simulate_results *results_out, struct lull_error *err)
{
    struct simulate_run run = {
        .arguments = arguments,
        .play = play,
        .simulation =
            {
                .play = play,
                .model = &arguments->model,
                .periods = arguments->periods,
                .measured = arguments->periods,
                .swings = arguments->periods / 4,
                .exposure = true,
                .look_ns = lull_ns_from_ms(arguments->look_ms),
                .seed = arguments->seed,
                .nodes = arguments->nodes,
                .way_ns = way_ns,
                .watch = simulate_show_progress,
                .watch_context = &run.progress,
            },
        .progress = {.watch = lull_progress_begin(), .periods = arguments->periods},
        .results = results_out,
    };
    int result;

    lull_controller_config_default(&run.simulation.control);
    run.simulation.control.tolerance_ratio = arguments->tolerance_ratio;
    run.simulation.control.seed = arguments->seed;
    result = play_mode(&run, LULL_SIMULATE_HIGHEST, simulate_mode, err);
    if (result == 0 && simulate_wants_oracle(arguments))
        result = simulate_run_oracle(&run, err);
    if (result == 0 && simulate_is_wanted(arguments, LULL_SIMULATE_FIXED_CLOCK))
        result = play_mode(&run, LULL_SIMULATE_FIXED_CLOCK, simulate_clock, err);
    if (result == 0 && simulate_is_wanted(arguments, LULL_SIMULATE_POWER_LIMIT))
        result = play_mode(&run, LULL_SIMULATE_POWER_LIMIT, simulate_limit, err);
    if (result == 0)
        result = simulate_managed(&run, err);
    lull_simulation_course_destroy(run.reference);
    lull_progress_end(&run.progress.watch);
    return result;
}

/* ---- the command ------------------------------------------------------------------------- */

static void simulate_prepare(void *options)
{
    struct simulate_arguments *const arguments = options;

    arguments->source.command = "simulate";
    arguments->source.jitter_ratio = -1.0;
    arguments->call_ms = -1.0;
    arguments->modes = all_modes;
}

static int simulate_check(void *options, const struct lull_operands *traces, struct lull_error *err)
{
    struct simulate_arguments *const arguments = options;

    arguments->source.traces = traces->words;
    arguments->source.trace_count = traces->count;
    if (arguments->server.llm != NULL && traces->count > 0)
        return lull_error_set(err, -EINVAL,
                              "--server plays no traces of jobs. Pass requests with --arrivals.");
    if (arguments->server.llm == NULL && (arguments->source.preset == NULL) == (traces->count == 0))
        return lull_error_set(err, -EINVAL, "pass either traces or --preset, or --server");
    return 0;
}

/* Chooses the model as `lull analyze` does: the given one, else the one of the product name, else a
 * default. Use of the default is reported. */
static void choose_model(struct simulate_arguments *arguments, const char *product)
{
    static const char typical[] = "A100-SXM4-40GB";
    const struct lull_device_curve *curve;
    const char *borrower = NULL;

    if (arguments->listed == NULL) {
        curve = lull_device_curve_of_product(product, &borrower);
        if (curve != NULL)
            arguments->listed = lull_gpu_model_find(curve->name, (uint32_t)strlen(curve->name));
        if (curve != NULL && borrower != NULL)
            fprintf(stderr,
                    "lull simulate: %s has no measured curves; those of %s are used instead\n",
                    borrower, curve->name);
    }
    if (arguments->listed == NULL) {
        arguments->listed = lull_gpu_model_find(typical, (uint32_t)strlen(typical));
        if (arguments->source.preset == NULL)
            fprintf(stderr, "lull simulate: the traces name no known GPU%s%s; played on %s\n",
                    product[0] != '\0' ? ": " : "", lull_printable(product).text, typical);
    }
    if (arguments->listed->borrowed[0] != '\0')
        fprintf(stderr, "lull simulate: %s has no measured curves; those of %s are scaled to it\n",
                arguments->listed->name, arguments->listed->borrowed);
    arguments->model = *arguments->listed;
    if (arguments->call_ms >= 0.0) /* these latencies are constant, while those of the model vary */
        lull_gpu_model_fix_latency(&arguments->model, arguments->call_ms, arguments->settle_ms);
}

static int simulate_command(void *options, const struct lull_operands *operands)
{
    struct simulate_arguments *const arguments = options;
    struct lull_play *play = NULL;
    struct lull_error err = {0};
    struct lull_simulate_results results = {
        .model = &arguments->model,
        .tolerance_ratio = arguments->tolerance_ratio,
        .periods = arguments->periods,
        .played = arguments->modes,
        .has_oracles = simulate_wants_oracle(arguments),
    };
    int result;

    (void)operands;
    if (arguments->server.llm != NULL)
        return lull_simulate_server_run(&arguments->server, server_modes(arguments),
                                        arguments->seed, arguments->is_json);
    result = lull_play_source_open(&arguments->source, &play, &err);
    if (result == 0)
        choose_model(arguments, play->product);
    if (result == 0)
        result = simulate_job(arguments, play, &results, &err);
    if (play != NULL)
        results.ranks = play->rank_count;
    lull_play_destroy(play);
    if (result < 0)
        return lull_cli_fail("simulate", &err);
    if (arguments->is_json)
        lull_simulate_report_json(&results);
    else
        lull_simulate_report_print(&results);
    return LULL_EXIT_OK;
}

const struct lull_program_command lull_simulate_command = {
    .name = "simulate",
    .summary = "simulate a job under Lull in virtual time",
    .arguments = "[TRACE...]",
    .about =
        "Plays a recorded job, or a preset, in virtual time on emulated GPUs. The modes are: the "
        "highest clock; the best single clock and the best single power limit; clocks that react "
        "to gaps; clocks that are changed ahead of gaps; one steady clock, with lower clocks on "
        "ranks that wait for others; and all of these together, as `lull run` does without options "
        "(auto). Oracles are upper references with full knowledge of the run: of gaps alone, of "
        "ranks that wait (slack), and of both on top of a steady clock (joint). --server simulates "
        "an inference server under a latency objective instead. `lull help simulate cluster` "
        "describes the simulation of many jobs on a cluster.",
    .tables = {{rows, 0}, {lull_simulate_server_rows, offsetof(struct simulate_arguments, server)}},
    .operands = {.most = UINT32_MAX},
    .size = sizeof(struct simulate_arguments),
    .prepare = simulate_prepare,
    .check = simulate_check,
    .run = simulate_command,
};
