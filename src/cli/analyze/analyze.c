/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <regex.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/analyze/recording.h"
#include "cli/analyze/report.h"
#include "cli/analyze/timeline.h"
#include "cli/commands.h"
#include "cli/shared/command.h"
#include "cli/trace_notes.h"
#include "trace/prediction.h"
#include "base/array.h"
#include "base/progress.h"
#include "trace/trace.h"

/* A replay that differs more from the recorded time is reported. Default: recorded jobs differ by
 * 0.5 and 1.9 %. */
#define MAX_UNEXPLAINED_RATIO 0.05

struct analyze_arguments {
    bool is_json;
    bool is_quick;
    struct lull_prediction_setup setup;
    struct lull_analyze_watts watts;
    bool has_watts;
    const char *kernels_text; /* of --comm-kernels; null: not given */
    regex_t kernels;
    const regex_t *communicates; /* that expression; null: there is none */
};

/* Takes three numbers of watts. */
static int parse_watts(const char *text, void *place, struct lull_error *err)
{
    struct lull_analyze_watts watts;
    char end;

    (void)err;
    if (sscanf(text, "%lf,%lf,%lf%c", &watts.compute_w, &watts.wait_w, &watts.low_w, &end) != 3 ||
        !(watts.low_w >= 0.0 && watts.low_w <= watts.wait_w && watts.wait_w <= watts.compute_w &&
          watts.compute_w <= 10000.0))
        return -EINVAL;
    *(struct lull_analyze_watts *)place = watts;
    return 0;
}

static const struct lull_option rows[] = {
    LULL_CLI_CURVE_ROW(struct analyze_arguments, setup.model,
                       "The GPU model whose power is assumed.",
                       .otherwise = "the model in the trace, or A100-SXM4-40GB"),
    LULL_VALUE("switch-ms", "DOWN,UP", OWN, struct analyze_arguments, setup.down_ms,
               "Time until a lower clock and until a higher clock takes effect.",
               .parse = lull_cli_parse_times, .expected = LULL_CLI_TIMES,
               .otherwise = "measured values of the model"),
    LULL_CLI_TOLERANCE_ROW(struct analyze_arguments, setup.tolerance_ratio),
    LULL_FLAG("quick", struct analyze_arguments, is_quick,
              "For a timeline, report only what-if and gaps; do not search for clocks of ranks and "
              "operations."),
    LULL_CLI_COMM_KERNELS_ROW(struct analyze_arguments, kernels_text),
    LULL_VALUE("watts", "COMPUTE,WAIT,LOW", OWN, struct analyze_arguments, watts,
               "Power of a timeline's GPU: computing and waiting at the highest clock, and waiting "
               "in a lowered gap.",
               LULL_GIVEN(struct analyze_arguments, has_watts), .parse = parse_watts,
               .expected = "three numbers of watts in descending order",
               .otherwise = "300,111,80, or the values of --model"),
    LULL_JSON_ROW(struct analyze_arguments, is_json),
    {0},
};

/* ---- progress ---- */

struct progress {
    const char *file;
    struct lull_progress watch;
};

static void analyze_show_progress(void *context, int64_t text_bytes, double done_ratio)
{
    struct progress *const progress = context;

    if (!lull_progress_is_due(&progress->watch))
        return;
    if (done_ratio >= 0.0)
        lull_progress_draw("lull: reading %s: %.0f MB, %.0f %%", progress->file,
                           (double)text_bytes * 1e-6, 100.0 * done_ratio);
    else
        lull_progress_draw("lull: reading %s: %.0f MB", progress->file, (double)text_bytes * 1e-6);
}

static int analyze_read_trace(const char *file, const regex_t *communicates,
                              struct lull_trace *trace, struct lull_error *err)
{
    struct progress progress = {.file = file, .watch = lull_progress_begin()};
    const struct lull_trace_progress tell = {analyze_show_progress, &progress};
    const struct lull_trace_options options = {isatty(STDERR_FILENO) ? &tell : NULL, communicates};
    const int result = lull_trace_read(file, &options, trace, err);

    lull_progress_end(&progress.watch);
    return result;
}

/* ---- the work ---- */

/* The ranks that have been analysed; a file may hold several. */
struct analyzed_ranks {
    struct lull_analyzed_rank *list;
    size_t count;
};

static int analyze_phases(const struct lull_prediction_setup *setup, const struct lull_trace *one,
                          struct lull_analyzed_rank *rank, struct lull_error *err)
{
    const int result = lull_phases_find(one, &rank->phases);

    if (result < 0)
        return lull_error_set(err, result, "no memory for the phases of %zu kernels",
                              one->kernel_count);
    for (int i = 0; i < LULL_TRACE_PHASES; i++)
        lull_predict_phase(&rank->prediction, &rank->phases.phases[i], (enum lull_trace_phase)i,
                           setup->tolerance_ratio, &rank->predicted_phases[i]);
    return 0;
}

static int analyze_gpu(const struct lull_prediction_setup *setup, const char *file,
                       const struct lull_trace *trace, size_t gpu, struct lull_analyzed_rank *rank,
                       struct lull_error *err)
{
    const struct lull_trace one = lull_trace_of_gpu(trace, gpu);
    int result = lull_analysis_init(&one, &rank->analysis, err);

    if (result < 0)
        return result;
    rank->file = file;
    rank->is_part = trace->gpu_count > 1;
    rank->rank = rank->is_part ? LULL_TRACE_UNKNOWN : one.rank;
    rank->world_size = one.world_size;
    rank->device = one.gpus->device;
    rank->begin_ns = one.kernels[0].begin_ns;
    snprintf(rank->process, sizeof(rank->process), "%s",
             lull_trace_string(&one, one.gpus->process));
    if (gpu == 0)
        rank->loss = one.loss;
    memcpy(rank->gpu, one.gpu, sizeof(rank->gpu));
    result = lull_predict(setup, &one, &rank->analysis, &rank->prediction, err);
    lull_analysis_drop_gaps(&rank->analysis);
    return result < 0 ? result : analyze_phases(setup, &one, rank, err);
}

static int analyze_trace(const struct lull_prediction_setup *setup, const char *file,
                         const struct lull_trace *trace, struct analyzed_ranks *ranks,
                         struct lull_error *err)
{
    int result = lull_trace_require_kernels(trace, err);

    for (size_t i = 0; i < trace->gpu_count && result == 0; i++) {
        const struct lull_analyzed_rank none = {0};

        result = lull_array_grow(&ranks->list, ranks->count, sizeof(none));
        if (result < 0)
            return lull_error_set(err, result, "no memory for %zu ranks", ranks->count + 1);
        ranks->list[ranks->count] = none;
        result = analyze_gpu(setup, file, trace, i, &ranks->list[ranks->count++], err);
    }
    return result;
}

static int analyze_fail(const char *file, const struct lull_error *err, bool names_file)
{
    fprintf(stderr, "lull analyze: %s%s%s\n", names_file ? "" : file, names_file ? "" : ": ",
            err->text);
    /* A file in a wrong format is no mistake in the command line, so its exit status is not that of
     * one. */
    return err->code == LULL_E_FORMAT ? LULL_EXIT_FAILED : (int)lull_error_exit_status(err->code);
}

static void note_silence(const struct lull_analyzed_rank *rank)
{
    const struct lull_analysis *const analysis = &rank->analysis;

    if (analysis->communication_kernel_count == 0 && rank->phases.source == LULL_PHASES_UNKNOWN)
        fprintf(stderr,
                "lull analyze: %s: none of its %llu kernels communicates%s: only idle time can be "
                "analysed%s\n",
                rank->file, (unsigned long long)analysis->kernel_count,
                rank->world_size == 1 ? " (it is the only rank)" : "",
                rank->world_size == 1
                    ? ""
                    : "; use --comm-kernels to name kernels of an unknown library");
}

/* ---- several files ---- */

static bool is_same_recording(const struct lull_analyzed_rank *a,
                              const struct lull_analyzed_rank *b)
{
    return a->rank == b->rank && a->device == b->device && a->begin_ns == b->begin_ns &&
           a->analysis.kernel_count == b->analysis.kernel_count &&
           a->analysis.exposure.span_ns == b->analysis.exposure.span_ns;
}

/* A rank that is given again, with the same kernels, counts once. */
static void analyze_drop_doubled(struct analyzed_ranks *ranks)
{
    size_t kept = 0;

    for (size_t i = 0; i < ranks->count; i++) {
        struct lull_analyzed_rank *const rank = &ranks->list[i];
        size_t other = 0;

        while (other < kept &&
               (rank->is_part || rank->rank < 0 || !is_same_recording(&ranks->list[other], rank)))
            other++;
        if (other < kept) {
            fprintf(stderr,
                    "lull analyze: %s: rank %lld is also in %s, with the same kernels; it is "
                    "counted once\n",
                    rank->file, (long long)rank->rank, ranks->list[other].file);
            lull_analysis_fini(&rank->analysis);
            continue;
        }
        ranks->list[kept++] = *rank;
    }
    ranks->count = kept;
}

/* Warns of files that cannot be ranks of one job, whose sums mean little. */
static void note_mixture(const struct analyzed_ranks *ranks)
{
    const struct lull_analyzed_rank *const first = &ranks->list[0];

    for (size_t i = 1; i < ranks->count; i++) {
        const struct lull_analyzed_rank *const rank = &ranks->list[i];

        if (rank->world_size >= 0 && first->world_size >= 0 &&
            rank->world_size != first->world_size) {
            fprintf(stderr,
                    "lull analyze: %s: the files are not ranks of one job: %lld ranks, but %lld in "
                    "%s; pass the files of one job\n",
                    rank->file, (long long)rank->world_size, (long long)first->world_size,
                    first->file);
            break;
        }
    }
    for (size_t i = 1; i < ranks->count; i++) {
        const struct lull_analyzed_rank *const rank = &ranks->list[i];

        if (strcmp(rank->gpu, first->gpu) != 0) {
            fprintf(stderr,
                    "lull analyze: %s: a different GPU than in %s; each is predicted separately\n",
                    rank->file, first->file);
            break;
        }
    }
    for (size_t i = 1; i < ranks->count; i++)
        for (size_t k = 0; k < i && ranks->list[i].rank >= 0; k++)
            if (ranks->list[k].rank == ranks->list[i].rank) {
                fprintf(stderr,
                        "lull analyze: %s: rank %lld is also in %s; both are counted, as two "
                        "recordings\n",
                        ranks->list[i].file, (long long)ranks->list[i].rank, ranks->list[k].file);
                break;
            }
}

static int analyze_timeline(const struct analyze_arguments *arguments, const char *file,
                            const struct lull_operation_timeline *timeline)
{
    struct lull_analyzed_timeline analyzed;
    struct lull_error err = {0};
    int status = LULL_EXIT_OK;

    if (lull_analyze_timeline(&arguments->setup, &arguments->watts, arguments->is_quick, timeline,
                              &analyzed, &err) < 0)
        return analyze_fail(file, &err, false);
    if (timeline->unusable_ops > 0)
        fprintf(stderr,
                "lull analyze: %s: %llu operations without a step, usable ts and dur, or a named "
                "thread are skipped\n",
                file, (unsigned long long)timeline->unusable_ops);
    if (fabs(analyzed.answer.replay_ratio - 1.0) > MAX_UNEXPLAINED_RATIO)
        fprintf(stderr,
                "lull analyze: %s: replayed by its dependencies, the job takes %.0f %% of the "
                "recorded time, so its predicted savings are doubtful\n",
                file, 100.0 * analyzed.answer.replay_ratio);
    if (!arguments->is_json)
        lull_analyze_timeline_print_text(&analyzed);
    else if (lull_analyze_timeline_print_json(&analyzed) < 0)
        status = LULL_EXIT_FAILED;
    lull_analyzed_timeline_fini(&analyzed);
    return status;
}

/* Shows a recording of `lull run`. It contains the measured saving, so nothing is predicted. */
static int analyze_recording(const struct analyze_arguments *arguments,
                             const struct lull_run_recording *recording)
{
    if (arguments->is_json)
        return lull_analyze_recording_print_json(recording) < 0 ? LULL_EXIT_FAILED : LULL_EXIT_OK;
    lull_analyze_recording_print_text(recording);
    return LULL_EXIT_OK;
}

/* Shows a file that holds all ranks of a job; no other file may be given beside it. */
static int analyze_whole(const struct analyze_arguments *arguments, const char *file, bool is_alone,
                         const struct lull_trace *trace)
{
    if (!is_alone) {
        fprintf(stderr, "lull analyze: %s: this is %s; pass it alone\n", file,
                trace->timeline != NULL ? "a timeline of operations of all ranks"
                                        : "a recording of all GPUs of a run, made by lull run");
        return LULL_EXIT_USAGE;
    }
    return trace->timeline != NULL ? analyze_timeline(arguments, file, trace->timeline)
                                   : analyze_recording(arguments, trace->recording);
}

/* One of several files that has no kernels, as of a process that only coordinates, is left out. */
static int analyze_file(const struct analyze_arguments *arguments, const char *file, bool is_alone,
                        struct analyzed_ranks *ranks)
{
    const size_t before = ranks->count;
    struct lull_error err = {0};
    struct lull_trace trace;
    int status = LULL_EXIT_OK;

    if (analyze_read_trace(file, arguments->communicates, &trace, &err) < 0)
        return analyze_fail(file, &err, true);
    if (trace.timeline != NULL || trace.recording != NULL) {
        lull_cli_note_loss("analyze", file, &trace);
        status = analyze_whole(arguments, file, is_alone, &trace);
    } else if (trace.kernel_count == 0 && !is_alone) {
        fprintf(stderr, "lull analyze: %s: no GPU kernels, so it is skipped: %s\n", file,
                trace.contents);
    } else if (analyze_trace(&arguments->setup, file, &trace, ranks, &err) < 0) {
        status = analyze_fail(file, &err, false);
    } else {
        lull_cli_note_loss("analyze", file, &trace);
        for (size_t i = before; i < ranks->count; i++)
            note_silence(&ranks->list[i]);
        if (arguments->has_watts)
            fprintf(stderr,
                    "lull analyze: %s: --watts is for timelines of operations; a trace of "
                    "kernels has the curves of --model\n",
                    file);
    }
    lull_trace_fini(&trace);
    return status;
}

static int analyze_print_all(bool is_json, const struct lull_analyzed_rank *ranks, size_t count)
{
    if (is_json)
        return lull_analyze_print_json(ranks, count) == 0 ? LULL_EXIT_OK : LULL_EXIT_FAILED;
    lull_analyze_print_text(ranks, count);
    return LULL_EXIT_OK;
}

static void analyze_prepare(void *options)
{
    struct analyze_arguments *const arguments = options;

    arguments->setup.down_ms = -1.0;
    arguments->setup.up_ms = -1.0;
    arguments->watts = (struct lull_analyze_watts){-1.0, -1.0, -1.0};
}

static int analyze_check(void *options, const struct lull_operands *files, struct lull_error *err)
{
    struct analyze_arguments *const arguments = options;
    int result = 0;

    (void)files;
    if (arguments->kernels_text == NULL)
        return 0;
    result = lull_cli_compile_kernels(arguments->kernels_text, &arguments->kernels, err);
    if (result == 0)
        arguments->communicates = &arguments->kernels;
    return result;
}

/* A file that cannot be read does not cost the others, but the exit status. */
static int analyze_files(const struct analyze_arguments *arguments,
                         const struct lull_operands *files, struct analyzed_ranks *ranks)
{
    const bool is_alone = files->count == 1;
    int worst = LULL_EXIT_OK;

    for (uint32_t i = 0; i < files->count; i++) {
        const int status = analyze_file(arguments, files->words[i], is_alone, ranks);

        if (status == LULL_EXIT_USAGE)
            return status;
        if (worst == LULL_EXIT_OK)
            worst = status;
    }
    if (ranks->count == 0 && !is_alone && worst == LULL_EXIT_OK) {
        fprintf(stderr, "lull analyze: none of these files has GPU kernels\n");
        worst = LULL_EXIT_FAILED;
    }
    return worst;
}

static int analyze_execute(void *options, const struct lull_operands *files)
{
    struct analyze_arguments *const arguments = options;
    struct analyzed_ranks ranks = {0};
    int status = analyze_files(arguments, files, &ranks);

    if (status != LULL_EXIT_USAGE && ranks.count > 0) {
        analyze_drop_doubled(&ranks);
        note_mixture(&ranks);
        if (analyze_print_all(arguments->is_json, ranks.list, ranks.count) != LULL_EXIT_OK)
            status = LULL_EXIT_FAILED;
    }
    for (size_t i = 0; i < ranks.count; i++)
        lull_analysis_fini(&ranks.list[i].analysis);
    free(ranks.list);
    if (arguments->communicates != NULL)
        regfree(&arguments->kernels);
    return status;
}

const struct lull_program_command lull_analyze_command = {
    .name = "analyze",
    .summary = "predict savings from profiler traces",
    .arguments = "TRACE...",
    .about =
        "Predicts what lower clocks would have saved, per lever. Reads PyTorch profiler traces, "
        "one per rank, or a timeline of operations of a whole job. Also reports how long each rank "
        "computed, communicated and idled. For trace.json of lull run, reports communication and "
        "clocks. TRACE is JSON, plain or gzip; - is standard input. Requires no GPU and no root.",
    .after = "Examples:\n"
             "  lull analyze trace-rank*.json.gz\n"
             "  lull analyze --model H100 --switch-ms 15,20 --json trace.json",
    .tables = {{rows, 0}},
    .operands = {.least = 1,
                 .most = UINT32_MAX,
                 .missing = "no trace given; pass the files of the PyTorch profiler, one per rank"},
    .size = sizeof(struct analyze_arguments),
    .prepare = analyze_prepare,
    .check = analyze_check,
    .run = analyze_execute,
};
