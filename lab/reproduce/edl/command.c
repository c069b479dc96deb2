/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json_string.h"
#include "lab/reproduce/command.h"
#include "lab/reproduce/edl/online.h"
#include "lab/reproduce/edl/tasks.h"
#include "simulator/summary.h"

struct edl_options {
    struct lull_edl_config config;
    const char *variant;  /* the name of config.errors, but for those of --error */
    unsigned more_errors; /* of --error */
    const char *range;    /* the name of config.range */
    const char *path;     /* of the tasks; null: they are drawn at random */
    double utilisation;   /* of drawn tasks */
    int64_t seed;
    int64_t first; /* only this many of the tasks; 0: all of them */
    int64_t gpus;  /* 0: there is no limit */
    bool is_online;
    bool is_frugal;
    bool is_at_base; /* no task runs at other clocks */
    double idle_w;
    double turn_on_j;
    bool is_json;
    const char *jobs_out; /* null: no table is written */
};

/* One run: its options and results. */
struct edl_run {
    const struct edl_options *options;
    struct lull_edl_job *jobs; /* in the order of the tasks */
    size_t count;
    struct lull_edl_outcome outcome;
};

/* ---- summary ------------------------------------------------------------------------------ */

static int edl_command_summarize(const struct edl_run *run, struct lull_cluster_summary *summary)
{
    double *completion_s = malloc((run->count + 1) * sizeof(*completion_s));
    int rc;

    *summary = (struct lull_cluster_summary){
        .jobs = run->count,
        .run_j = run->outcome.run_j,
        .idle_j = run->outcome.idle_s * run->options->idle_w,
        .turn_on_j = (double)run->outcome.turn_ons * run->options->turn_on_j,
        .deadline_misses = run->outcome.misses,
        .bound_j = NAN,
        .certificate_ratio = NAN,
    };
    if (completion_s == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < run->count; i++) {
        completion_s[i] = run->jobs[i].finish_s - run->jobs[i].task->arrival_s;
        summary->makespan_s = fmax(summary->makespan_s, run->jobs[i].finish_s);
    }
    rc = lull_cluster_summarise_times(completion_s, run->count, summary);
    free(completion_s);
    return rc;
}

static json_t *edl_command_errors_json(unsigned errors)
{
    json_t *list = json_array();
    const char *name;

    for (unsigned i = 0; (name = lull_edl_error_name(i)) != NULL; i++)
        if (errors & (1U << i))
            json_array_append_new(list, lull_json_string(name));
    return list;
}

static json_t *edl_command_details_json(const struct edl_run *run)
{
    return json_pack(
        "{s:s, s:o, s:o, s:b, s:b, s:o, s:f, s:b, s:I, s:I, s:f, s:f, s:f, s:I, s:I}", "policy",
        "edl", "variant", lull_json_string(run->options->variant), "errors",
        edl_command_errors_json(run->options->config.errors), "is_online", run->options->is_online,
        "has_dvfs", run->options->config.has_dvfs, "range", lull_json_string(run->options->range),
        "theta_ratio", run->options->config.theta_ratio, "is_frugal", run->options->is_frugal,
        "gpus", (json_int_t)run->options->gpus, "gpus_per_node",
        (json_int_t)run->options->config.gpus_per_node, "idle_w", run->options->idle_w,
        "node_turn_on_j", run->options->turn_on_j, "idle_gpu_s", run->outcome.idle_s, "turn_ons",
        (json_int_t)run->outcome.turn_ons, "most_nodes_on", (json_int_t)run->outcome.max_nodes);
}

/* Prints the summary for users, or as one JSON document. Errors: -ENOMEM. */
static int edl_command_print(const struct edl_run *run, struct lull_error *err)
{
    struct lull_cluster_summary summary;
    int rc = edl_command_summarize(run, &summary);

    if (rc == 0 && run->options->is_json)
        rc = lull_cluster_summary_print_json(&summary, edl_command_details_json(run));
    if (rc < 0)
        return lull_error_set(err, rc, "not enough memory for the summary");
    if (run->options->is_json)
        return 0;
    lull_cluster_summary_print(&summary, stdout);
    printf("nodes               %llu turned on, %llu on at a time, %u GPUs each\n",
           (unsigned long long)run->outcome.turn_ons, (unsigned long long)run->outcome.max_nodes,
           run->options->config.gpus_per_node);
    return 0;
}

/* ---- the table of --jobs-out --------------------------------------------------------------- */

/* Clocks and voltage are ratios to the base point, times are in seconds. */
static int edl_command_write_rows(const void *context, FILE *file)
{
    const struct edl_run *run = context;

    fputs("job_id,voltage,fc,fm,time,power_w,start,finish,node,gpu\n", file);
    for (size_t i = 0; i < run->count; i++) {
        const struct lull_edl_job *job = &run->jobs[i];

        fprintf(file, "%llu,%.2f,%.6f,%.6f,%.6f,%.4f,%.6f,%.6f,%u,%u\n",
                (unsigned long long)job->task->id, job->point.voltage_ratio, job->point.core_ratio,
                job->point.memory_ratio, job->point.time_s, job->point.power_w, job->start_s,
                job->finish_s, job->node, job->gpu);
    }
    return 0;
}

/* ---- the run ------------------------------------------------------------------------------ */

static int edl_command_draw(const struct edl_options *options, struct lull_dvfs_task **tasks_out,
                            size_t *count_out, struct lull_error *err)
{
    const size_t count = lull_edl_tasks_count(options->utilisation, options->is_online);
    struct lull_dvfs_task *tasks = malloc((count + 1) * sizeof(*tasks));

    if (tasks == NULL)
        return lull_error_set(err, -ENOMEM, "not enough memory for %zu tasks", count);
    lull_edl_tasks_draw(options->utilisation, options->is_online, (uint64_t)options->seed, tasks);
    *tasks_out = tasks;
    *count_out = count;
    return 0;
}

static int find_tasks(const struct edl_options *options, struct lull_dvfs_task **tasks_out,
                      size_t *count_out, struct lull_error *err)
{
    int rc;

    if (options->path == NULL)
        rc = edl_command_draw(options, tasks_out, count_out, err);
    else
        rc = lull_dvfs_tasks_read(options->path, tasks_out, count_out, err);
    if (rc == 0 && options->first > 0 && (uint64_t)options->first < *count_out)
        *count_out = (size_t)options->first;
    return rc;
}

static int edl_command_schedule(struct edl_run *run, const struct lull_dvfs_task *tasks,
                                struct lull_error *err)
{
    const struct lull_edl_config *config = &run->options->config;
    int rc;

    run->jobs = calloc(run->count + 1, sizeof(*run->jobs));
    if (run->jobs == NULL)
        return lull_error_set(err, -ENOMEM, "not enough memory for %zu tasks", run->count);
    if (run->options->is_online)
        rc = lull_edl_simulate(config, tasks, run->count, run->jobs, &run->outcome, err);
    else
        rc = lull_edl_schedule(config, tasks, run->count, run->jobs, &run->outcome, err);
    if (rc < 0)
        return rc;
    if (run->options->jobs_out != NULL)
        rc = lull_file_write_with(run->options->jobs_out, edl_command_write_rows, run, err);
    if (rc < 0)
        return rc;
    return edl_command_print(run, err);
}

/* ---- the command line --------------------------------------------------------------------- */

static int edl_command_parse_error(const char *text, void *errors, struct lull_error *err)
{
    const char *name;

    (void)err;
    for (uint32_t i = 0; (name = lull_edl_error_name(i)) != NULL; i++)
        if (strcmp(name, text) == 0) {
            *(unsigned *)errors |= 1U << i;
            return 0;
        }
    return -EINVAL;
}

static const char *const variants[] = {"published", "repaired", "repaired-shared", NULL};
static const char *const orders[] = {[LULL_EDL_EDF] = "edf", [LULL_EDL_LPT] = "lpt", NULL};
static const char *const places[] = {[LULL_EDL_SPT] = "spt",
                                     [LULL_EDL_BF] = "bf",
                                     [LULL_EDL_WF] = "wf",
                                     [LULL_EDL_FF] = "ff",
                                     [LULL_EDL_BIN] = "bin",
                                     [LULL_EDL_PACK] = "pack",
                                     NULL};
static const char *const ranges[] = {"assumed", "measured", NULL};

static const struct lull_option rows[] = {
    LULL_VALUE(
        "variant", "NAME", TEXT, struct edl_options, variant,
        "The errors of the released code that it makes: published (all), repaired (no task is late "
        "that need not be) or repaired-shared (nor do tasks at time 0 get a GPU each).",
        .words = variants, .default_value = "repaired-shared"),
    LULL_VALUE("error", "NAME", OWN, struct edl_options, more_errors,
               "Make one more error of the released code; may be given again.",
               .parse = edl_command_parse_error, .word_at = lull_edl_error_name),
    LULL_VALUE("order", NULL, WORD, struct edl_options, config.order,
               "Whether the task of the earliest deadline or of the longest time goes first.",
               .words = orders, .default_value = "edf"),
    LULL_VALUE("place", "RULE", WORD, struct edl_options, config.place,
               "Which GPU a task gets: spt (the one that is free first, clocks readjusted to the "
               "deadline), of those that meet the deadline bf (the most loaded), wf (the least "
               "loaded) or ff (the first), bin (wf at time 0, then ff) or pack (ff, then spt).",
               .words = places, .default_value = "spt"),
    LULL_VALUE("theta", "RATIO", RATIO, struct edl_options, config.theta_ratio,
               "A task gets at least this share of its best time.", .default_value = "100%"),
    LULL_FLAG("frugal", struct edl_options, is_frugal,
              "Readjust a task only where that costs no more than another node would."),
    LULL_FLAG("no-dvfs", struct edl_options, is_at_base, "Run every task at the base clocks."),
    LULL_VALUE("range", NULL, TEXT, struct edl_options, range,
               "Which voltages and clocks are searched.", .words = ranges,
               .default_value = "assumed",
               .more = "assumed: V 0.5 to 1.25, fm 0.5 to 1.2, as published; measured: V 0.8 to "
                       "1.25, fm 0.8 to 1.1, where the GTX 1080 Ti was."),
    LULL_VALUE("gpus", "N", WHOLE, struct edl_options, gpus,
               "GPUs of the cluster; 0: there is no limit.", .most = LULL_GPU_POOL_MAX,
               .default_value = "2048",
               .more = "Where all nodes are on, a task waits for the GPU that is free first and "
                       "runs as fast as its deadline requires."),
    LULL_VALUE("gpus-per-node", "N", WHOLE, struct edl_options, config.gpus_per_node,
               "GPUs of a node.", .least = 1, .most = 1024, .default_value = "1"),
    LULL_FLAG("online", struct edl_options, is_online,
              "Tasks become known when they arrive, and idle nodes are turned off.",
              .more = "Without this option all tasks must arrive at 0."),
    LULL_VALUE("idle-w", "W", NUMBER, struct edl_options, idle_w,
               "Power of a GPU without a task in a node that is on.", .most = 1e6,
               .default_value = "37"),
    LULL_VALUE("turn-on-j", "J", NUMBER, struct edl_options, turn_on_j,
               "Energy of turning a node on.", .most = 1e9, .default_value = "90"),
    LULL_VALUE("draw", "U", NUMBER, struct edl_options, utilisation,
               "Draw random tasks of the published ranges instead of reading a file: 2048 times U "
               "of them, and 819 more with --online.",
               .least = 1e-3, .most = 100.0),
    LULL_SEED_ROW(struct edl_options, seed, "Seed of the tasks that --draw draws."),
    LULL_VALUE("first", "N", WHOLE, struct edl_options, first, "Schedule only the first N tasks.",
               .least = 1, .otherwise = "all of them"),
    LULL_VALUE("jobs-out", "FILE", TEXT, struct edl_options, jobs_out,
               "Write where, when and at which clocks each task runs (CSV).",
               .hint = LULL_OPTION_FILE),
    LULL_JSON_ROW(struct edl_options, is_json),
    {0},
};

static void edl_command_prepare(void *options)
{
    lull_edl_config_default(&((struct edl_options *)options)->config);
}

static int edl_command_check(void *given, const struct lull_operands *operands,
                             struct lull_error *err)
{
    struct edl_options *const options = given;
    struct lull_edl_config *const config = &options->config;

    if ((operands->count == 0) == (options->utilisation == 0.0))
        return lull_error_set(err, -EINVAL, "give either a file of tasks or --draw");
    if (options->gpus % config->gpus_per_node != 0)
        return lull_error_set(err, -EINVAL, "--gpus is not a multiple of --gpus-per-node");
    options->path = operands->words[0];
    lull_edl_find_variant(options->variant, &config->errors);
    config->errors |= options->more_errors;
    config->has_dvfs = !options->is_at_base;
    if (strcmp(options->range, "measured") == 0)
        config->range = lull_dvfs_measured;
    if (options->is_frugal) {
        config->turn_on_j = options->turn_on_j;
        config->idle_w = options->idle_w;
    }
    config->node_limit = (uint32_t)options->gpus / config->gpus_per_node;
    return 0;
}

static int edl_command_run(void *options, const struct lull_operands *operands)
{
    struct edl_run run = {.options = options};
    struct lull_dvfs_task *tasks = NULL;
    struct lull_error err = {0};
    int rc = find_tasks(options, &tasks, &run.count, &err);

    (void)operands;
    if (rc == 0)
        rc = edl_command_schedule(&run, tasks, &err);
    free(run.jobs);
    free(tasks);
    return rc < 0 ? lull_program_fail("lull-reproduce edl", &err) : LULL_EXIT_OK;
}

const struct lull_program_command lull_edl_command = {
    .name = "edl",
    .summary = "tasks of one GPU with deadlines; clocks by least energy, readjusted (TPDS 2022)",
    .arguments = "[TASKS.csv]",
    .about = "Schedules tasks of one GPU each, with deadlines and a model of their time and power, "
             "so that energy is least: EDL with theta readjustment and nodes that are turned off.",
    .tables = {{rows, 0}},
    .operands = {.most = 1},
    .size = sizeof(struct edl_options),
    .prepare = edl_command_prepare,
    .check = edl_command_check,
    .run = edl_command_run,
};
