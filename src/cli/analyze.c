/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/analyze.h"

#include <argp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/analyze_report.h"
#include "cli/command.h"
#include "cli/prediction.h"
#include "base/watch.h"
#include "emulator/spec.h"
#include "trace/trace.h"

struct arguments {
    char **files;
    size_t file_count;
    bool is_json;
    struct lull_prediction_setup setup;
};

/* ---- the command line ---- */

enum { KEY_GPU = 'g', KEY_SWITCH = 's', KEY_JSON = 'j' };

static const struct argp_option options[] = {
    {"gpu", KEY_GPU, "MODEL", 0,
     "Take its power, e.g. A100-SXM4-40GB (default: the GPU that the trace names)", 0},
    {"switch-ms", KEY_SWITCH, "DOWN,UP", 0,
     "Until a lower and a higher clock has effect (default: the model's)", 0},
    {"json", KEY_JSON, NULL, 0, "Print one JSON document", 0},
    {0},
};

/* Exits where the model is not known, with the list of those that are. */
static const struct lull_gpu_model *parse_model(const char *text)
{
    struct lull_node_spec spec = {0};
    struct lull_error err = {0};

    if (lull_node_spec_parse(text, &spec, &err) < 0)
        exit(lull_cli_fail("analyze", &err));
    return spec.models[0];
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct arguments *const arguments = state->input;

    switch (key) {
    case KEY_GPU:
        arguments->setup.model = parse_model(arg);
        break;
    case KEY_SWITCH:
        if (lull_cli_parse_latency(arg, &arguments->setup.down_ms, &arguments->setup.up_ms) < 0)
            argp_error(state, "--switch-ms %s: give two numbers from 0 to 10000, as in 15,20", arg);
        break;
    case KEY_JSON:
        arguments->is_json = true;
        break;
    case ARGP_KEY_ARGS:
        arguments->files = state->argv + state->next;
        arguments->file_count = (size_t)(state->argc - state->next);
        break;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "no trace; give the files that the PyTorch profiler wrote, one per rank");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const struct argp parser = {
    .options = options,
    .parser = parse_option,
    .args_doc = "TRACE...",
    .doc = "Reads traces of the PyTorch profiler, one per rank, and tells how long each rank "
           "computed, communicated and idled, and what lower clocks would have saved.\v"
           "TRACE is JSON as the profiler exports it, plain or gzip; - is standard input. Neither "
           "a GPU nor root is needed.\n\n"
           "Examples:\n"
           "  lull analyze trace-rank*.json.gz\n"
           "  lull analyze --gpu H100 --switch-ms 15,20 --json trace.json",
};

/* ---- progress ---- */

struct progress {
    const char *file;
    struct lull_watch watch;
};

static void show_progress(void *context, int64_t text_bytes, double done_ratio)
{
    struct progress *const progress = context;

    if (!lull_watch_is_due(&progress->watch))
        return;
    if (done_ratio >= 0.0)
        lull_watch_draw("lull: reading %s: %.0f MB, %.0f %%", progress->file,
                        (double)text_bytes * 1e-6, 100.0 * done_ratio);
    else
        lull_watch_draw("lull: reading %s: %.0f MB", progress->file, (double)text_bytes * 1e-6);
}

static int read_trace(const char *file, struct lull_trace *trace, struct lull_error *err)
{
    struct progress progress = {.file = file, .watch = lull_watch_begin()};
    const struct lull_trace_progress tell = {show_progress, &progress};
    const int result = lull_trace_read(file, isatty(STDERR_FILENO) ? &tell : NULL, trace, err);

    lull_watch_end(&progress.watch);
    return result;
}

/* ---- the work ---- */

static int analyze_trace(const struct lull_prediction_setup *setup, const char *file,
                         const struct lull_trace *trace, struct lull_analyzed_rank *rank,
                         struct lull_error *err)
{
    int result = lull_analysis_init(trace, &rank->analysis, err);

    rank->file = file;
    rank->rank = trace->rank;
    rank->world_size = trace->world_size;
    rank->unusable_kernels = trace->unusable_kernels;
    memcpy(rank->gpu, trace->gpu, sizeof(rank->gpu));
    if (result == 0)
        result = lull_predict(setup, trace, &rank->analysis, &rank->prediction, err);
    lull_analysis_drop_gaps(&rank->analysis);
    return result;
}

static int fail(const char *file, const struct lull_error *err, bool names_file)
{
    fprintf(stderr, "lull analyze: %s%s%s\n", names_file ? "" : file, names_file ? "" : ": ",
            err->text);
    /* To a format there is nothing that the command line could do. */
    return err->code == LULL_E_FORMAT ? LULL_EXIT_FAILED : (int)lull_error_exit_status(err->code);
}

static void note(const struct lull_analyzed_rank *rank)
{
    const struct lull_analysis *const analysis = &rank->analysis;

    if (rank->unusable_kernels > 0)
        fprintf(stderr, "lull analyze: %s: %llu kernels without usable ts and dur are left out\n",
                rank->file, (unsigned long long)rank->unusable_kernels);
    if (analysis->communication_kernel_count == 0)
        fprintf(stderr,
                "lull analyze: %s: none of its %llu kernels communicates%s: there is nothing to "
                "find in it but idle time\n",
                rank->file, (unsigned long long)analysis->kernel_count,
                rank->world_size == 1 ? " (it is the only rank)" : "");
}

static int analyze_file(const struct lull_prediction_setup *setup, const char *file,
                        struct lull_analyzed_rank *rank)
{
    struct lull_error err = {0};
    struct lull_trace trace;
    int result = read_trace(file, &trace, &err);

    if (result < 0)
        return fail(file, &err, true);
    result = analyze_trace(setup, file, &trace, rank, &err);
    lull_trace_fini(&trace);
    if (result < 0)
        return fail(file, &err, false);
    note(rank);
    return LULL_EXIT_OK;
}

static int print(const struct arguments *arguments, const struct lull_analyzed_rank *ranks)
{
    int result = 0;

    if (arguments->is_json)
        result = lull_analyze_print_json(ranks, arguments->file_count);
    else
        lull_analyze_print_text(ranks, arguments->file_count);
    return result == 0 && fflush(stdout) == 0 ? LULL_EXIT_OK : LULL_EXIT_FAILED;
}

int lull_analyze_main(int argc, char **argv)
{
    struct arguments arguments = {.setup = {.down_ms = -1.0, .up_ms = -1.0}};
    struct lull_analyzed_rank *ranks;
    int status = LULL_EXIT_OK;

    argp_parse(&parser, argc, argv, 0, NULL, &arguments);
    ranks = calloc(arguments.file_count, sizeof(*ranks));
    if (ranks == NULL) {
        fprintf(stderr, "lull analyze: no memory for %zu traces\n", arguments.file_count);
        return LULL_EXIT_FAILED;
    }
    for (size_t i = 0; i < arguments.file_count && status == LULL_EXIT_OK; i++)
        status = analyze_file(&arguments.setup, arguments.files[i], &ranks[i]);
    if (status == LULL_EXIT_OK)
        status = print(&arguments, ranks);
    for (size_t i = 0; i < arguments.file_count; i++)
        lull_analysis_fini(&ranks[i].analysis);
    free(ranks);
    return status;
}
