/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json_string.h"
#include "base/text.h"
#include "lab/reproduce/ada_srsf/shared_gpus.h"
#include "lab/reproduce/ada_srsf/training_jobs.h"
#include "lab/reproduce/command.h"
#include "simulator/summary.h"

struct shared_options {
    struct lull_shared_setup setup;
    const char *variant;
    bool more_errors[2];   /* those of --error, by number */
    const char *transfers; /* this and the next as the user has named them */
    const char *place;
    double run_w;  /* power of a GPU that computes */
    double idle_w; /* power of a GPU that does not */
    bool is_json;
    const char *jobs_out; /* null: no table is written */
};

/* The errors of the released code, by number. */
static const char *const error_names[] = {"asking-moves-transfers", "skips-after-removal", NULL};

/* One run: its options and results. */
struct shared_run {
    const struct shared_options *options;
    const char *path;                   /* a folder or a file of jobs */
    struct lull_training_job *reported; /* as the file has them */
    struct lull_shared_job *jobs;       /* as the simulation takes them, in the same order */
    size_t count;
    struct lull_shared_result result;
};

static bool has_run(const struct shared_run *run, size_t job)
{
    return run->result.completion_ms[job] >= 0;
}

/* ---- summary ------------------------------------------------------------------------------ */

static int ada_srsf_summarize(const struct shared_run *run, struct lull_cluster_summary *summary)
{
    const struct lull_shared_setup *setup = &run->options->setup;
    const double gpu_s =
        (double)setup->nodes * setup->gpus_per_node * (double)run->result.makespan_ms * 1e-3;
    double *completion_s = malloc((run->count + 1) * sizeof(*completion_s));
    size_t done = 0;
    int rc;

    *summary = (struct lull_cluster_summary){
        .jobs = run->count,
        .makespan_s = (double)run->result.makespan_ms * 1e-3,
        .run_j = run->result.busy_ratio * gpu_s * run->options->run_w,
        .idle_j = (1.0 - run->result.busy_ratio) * gpu_s * run->options->idle_w,
        .bound_j = NAN,
        .certificate_ratio = NAN,
    };
    if (completion_s == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < run->count; i++)
        if (has_run(run, i))
            completion_s[done++] = (double)run->result.completion_ms[i] * 1e-3;
    summary->rejected = run->count - done;
    rc = lull_cluster_summarise_times(completion_s, done, summary);
    free(completion_s);
    return rc;
}

static json_t *ada_srsf_errors_json(const struct lull_shared_setup *setup)
{
    json_t *list = json_array();

    if (setup->asking_moves_transfers)
        json_array_append_new(list, lull_json_string(error_names[0]));
    if (setup->skips_after_removal)
        json_array_append_new(list, lull_json_string(error_names[1]));
    return list;
}

static json_t *ada_srsf_details_json(const struct shared_run *run)
{
    const struct lull_shared_setup *setup = &run->options->setup;

    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:f, s:I, s:I, s:f, s:f, s:f, s:f, s:f}", "policy",
                     "ada-srsf", "transfers", lull_json_string(run->options->transfers), "place",
                     lull_json_string(run->options->place), "variant",
                     lull_json_string(run->options->variant), "errors", ada_srsf_errors_json(setup),
                     "busy_ratio", run->result.busy_ratio, "nodes", (json_int_t)setup->nodes,
                     "gpus_per_node", (json_int_t)setup->gpus_per_node, "memory_mb",
                     setup->memory_mb, "beta_ms", setup->beta_ms, "eta_ms", setup->eta_ms, "run_w",
                     run->options->run_w, "idle_w", run->options->idle_w);
}

/* Prints the summary for users, or as one JSON document. Errors: -ENOMEM. */
static int ada_srsf_print(const struct shared_run *run, struct lull_error *err)
{
    struct lull_cluster_summary summary;
    int rc = ada_srsf_summarize(run, &summary);

    if (rc == 0 && run->options->is_json)
        rc = lull_cluster_summary_print_json(&summary, ada_srsf_details_json(run));
    if (rc < 0)
        return lull_error_set(err, rc, "not enough memory for the summary");
    if (run->options->is_json)
        return 0;
    lull_cluster_summary_print(&summary, stdout);
    printf("GPUs                computing %.1f %% of the time\n", 100.0 * run->result.busy_ratio);
    return 0;
}

/* ---- the table of --jobs-out --------------------------------------------------------------- */

/* Writes node:GPUs in the order of choice; neighbours on the same node are written together. */
static void write_placement(const uint32_t *gpus, uint32_t count, uint32_t per_node, FILE *file)
{
    for (uint32_t from = 0, to = 0; from < count; from = to) {
        while (to < count && gpus[to] / per_node == gpus[from] / per_node)
            to++;
        fprintf(file, "%s%u:%u", from > 0 ? " " : "", gpus[from] / per_node, to - from);
    }
}

/* A comma within a name would begin another cell of the table. */
static void ada_srsf_write_name(const char *name, FILE *file)
{
    for (; *name != '\0'; name++)
        fputc(*name == ',' ? ';' : *name, file);
}

static const char *reason_of(const struct shared_run *run, size_t job)
{
    const struct lull_shared_setup *setup = &run->options->setup;

    if (lull_shared_is_possible(setup, &run->jobs[job]))
        return "";
    return run->jobs[job].memory_mb > setup->memory_mb ? "more memory than a GPU has"
                                                       : "more GPUs than there are";
}

static void ada_srsf_write_job(const struct shared_run *run, size_t job, const uint32_t *gpus,
                               FILE *file)
{
    const struct lull_training_job *reported = &run->reported[job];
    const struct lull_shared_result *result = &run->result;

    fprintf(file, "%lld,", (long long)reported->id);
    ada_srsf_write_name(reported->net, file);
    fprintf(file, ",%u,%s,%.3f,", reported->workers, has_run(run, job) ? "done" : "rejected",
            (double)reported->arrival_ms * 1e-3);
    if (has_run(run, job)) {
        fprintf(file, "%.3f,%.3f,", (double)result->placed_ms[job] * 1e-3,
                (double)(reported->arrival_ms + result->completion_ms[job]) * 1e-3);
        write_placement(gpus, reported->workers, run->options->setup.gpus_per_node, file);
    } else {
        fputs(",,", file);
    }
    fprintf(file, ",%s\n", reason_of(run, job));
}

static int ada_srsf_write_rows(const void *context, FILE *file)
{
    const struct shared_run *run = context;
    const uint32_t *gpus = run->result.gpus;

    fputs("job_id,net,gpus,fate,submit_s,start_s,end_s,placement,reason\n", file);
    for (size_t i = 0; i < run->count; i++) {
        ada_srsf_write_job(run, i, gpus, file);
        gpus += run->reported[i].workers;
    }
    return 0;
}

/* ---- the run ------------------------------------------------------------------------------ */

static int ada_srsf_make_jobs(struct shared_run *run, struct lull_error *err)
{
    size_t workers = 0;

    run->jobs = calloc(run->count, sizeof(*run->jobs));
    for (size_t i = 0; i < run->count && run->jobs != NULL; i++) {
        const struct lull_training_job *reported = &run->reported[i];

        workers += reported->workers;
        run->jobs[i] = (struct lull_shared_job){
            .arrival_ms = reported->arrival_ms,
            .workers = reported->workers,
            .iterations = reported->iterations,
            .forward_ms = reported->forward_ms,
            .backward_ms = reported->backward_ms,
            .model_mb = reported->model_mb,
            .memory_mb = reported->memory_mb,
        };
    }
    run->result.completion_ms = calloc(run->count, sizeof(*run->result.completion_ms));
    run->result.placed_ms = calloc(run->count, sizeof(*run->result.placed_ms));
    run->result.gpus = calloc(workers + 1, sizeof(*run->result.gpus));
    if (run->jobs == NULL || run->result.completion_ms == NULL || run->result.placed_ms == NULL ||
        run->result.gpus == NULL)
        return lull_error_set(err, -ENOMEM, "not enough memory for %zu jobs", run->count);
    return 0;
}

static int ada_srsf_simulate(struct shared_run *run, struct lull_error *err)
{
    const char *const path = run->path;
    int rc = lull_training_jobs_read(path, &run->reported, &run->count, err);

    if (rc == 0)
        rc = ada_srsf_make_jobs(run, err);
    if (rc < 0)
        return rc;
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the jobs are freed with the run. */
    rc = lull_shared_simulate(&run->options->setup, run->jobs, run->count, &run->result);
    if (rc == -EOVERFLOW)
        return lull_error_set(
            err, rc,
            "%s: the jobs take more than %lld slots of 1 ms, the most that are simulated; give "
            "fewer iterations",
            path, (long long)LULL_SHARED_MAX_SLOTS);
    if (rc < 0)
        return lull_error_set(err, rc, "%s: not enough memory for its %zu jobs", path, run->count);
    if (run->options->jobs_out != NULL)
        rc = lull_file_write_with(run->options->jobs_out, ada_srsf_write_rows, run, err);
    if (rc < 0)
        return rc;
    return ada_srsf_print(run, err);
}

/* ---- the command line --------------------------------------------------------------------- */

enum { MAX_NODES = 4096, MAX_NODE_GPUS = 64, MAX_AT_ONCE = 1000 };

/* The number behind a word such as srsf in srsf3. */
static int ada_srsf_parse_count(const char *text, const char *word, int64_t most,
                                uint32_t *count_out)
{
    const size_t length = strlen(word);
    int64_t count;

    if (strncmp(text, word, length) != 0 || lull_text_parse_int(text + length, 1, most, &count) < 0)
        return -EINVAL;
    *count_out = (uint32_t)count;
    return 0;
}

static int parse_transfers(const char *text, void *place, struct lull_error *err)
{
    struct shared_options *const options = place;
    struct lull_shared_setup *const setup = &options->setup;

    (void)err;
    options->transfers = text;
    setup->at_once = 1;
    if (strcmp(text, "adadual") == 0) {
        setup->rule = LULL_SHARED_ADADUAL;
        return 0;
    }
    if (strcmp(text, "ours") == 0) {
        setup->rule = LULL_SHARED_SRTF;
        return 0;
    }
    setup->rule = LULL_SHARED_SRSF;
    return ada_srsf_parse_count(text, "srsf", MAX_AT_ONCE, &setup->at_once);
}

static int parse_place(const char *text, void *place, struct lull_error *err)
{
    struct shared_options *const options = place;
    uint32_t *const kappa = &options->setup.kappa;

    (void)err;
    options->place = text;
    if (strcmp(text, "ff") == 0) {
        *kappa = LULL_SHARED_FIRST_FIT;
        return 0;
    }
    if (strcmp(text, "random") == 0) {
        *kappa = LULL_SHARED_RANDOM;
        return 0;
    }
    return ada_srsf_parse_count(text, "lwf-", (int64_t)MAX_NODES * MAX_NODE_GPUS, kappa);
}

static int ada_srsf_parse_error(const char *text, void *errors, struct lull_error *err)
{
    (void)err;
    for (uint32_t i = 0; error_names[i] != NULL; i++)
        if (strcmp(error_names[i], text) == 0) {
            ((bool *)errors)[i] = true;
            return 0;
        }
    return -EINVAL;
}

static const char *const variants[] = {"published", "repaired", "repaired-lists", NULL};

static const struct lull_option rows[] = {
    LULL_OWN("transfers", "RULE", parse_transfers,
             "Which transfers may start: adadual, srsfN (while fewer than N are on each of the "
             "job's nodes) or ours (one at a time, which gives way to that of a job that is done "
             "sooner).",
             .expected = "adadual, ours, or srsf and a number from 1 to 1000",
             .default_value = "adadual"),
    LULL_OWN("place", "RULE", parse_place,
             "Which GPUs a job gets: lwf-K (least workload first; gangs of up to K may spread), "
             "ff (first fit) or random.",
             .expected = "ff, random, or lwf- and a number of GPUs", .default_value = "lwf-1"),
    LULL_VALUE(
        "variant", "NAME", TEXT, struct shared_options, variant,
        "The errors of the released code that it makes: published (all), repaired (transfers move "
        "only as fast as the network) or repaired-lists (nor is an entry of a list passed over).",
        .words = variants, .default_value = "repaired"),
    LULL_VALUE("error", "NAME", OWN, struct shared_options, more_errors,
               "Make one more error of the released code; may be given again.",
               .parse = ada_srsf_parse_error, .words = error_names),
    LULL_VALUE("nodes", "N", WHOLE, struct shared_options, setup.nodes, "The number of nodes.",
               .least = 1, .most = MAX_NODES, .default_value = "16"),
    LULL_VALUE("gpus-per-node", "N", WHOLE, struct shared_options, setup.gpus_per_node,
               "GPUs of a node.", .least = 1, .most = MAX_NODE_GPUS, .default_value = "4"),
    LULL_VALUE("memory-mb", "MB", NUMBER, struct shared_options, setup.memory_mb,
               "Memory of a GPU.", .least = 1.0, .most = 1e9, .default_value = "32768"),
    LULL_VALUE("beta-ms", "MS", NUMBER, struct shared_options, setup.beta_ms,
               "How long a MB takes alone on the network.", .least = 1e-6, .most = 1e6,
               .default_value = "0.856",
               .more = "Where k transfers meet it takes k beta + (k - 1) eta."),
    LULL_VALUE("eta-ms", "MS", NUMBER, struct shared_options, setup.eta_ms,
               "How much longer a MB takes for each transfer beside it.", .most = 1e6,
               .default_value = "0.235"),
    LULL_SEED_ROW(struct shared_options, setup.seed, "Seed of random placement."),
    LULL_VALUE("run-w", "W", NUMBER, struct shared_options, run_w, "Power of a GPU that computes.",
               .most = 1e6, .default_value = "350"),
    LULL_VALUE("idle-w", "W", NUMBER, struct shared_options, idle_w,
               "Power of a GPU that does not compute; nodes stay on.", .most = 1e6,
               .default_value = "60"),
    LULL_VALUE("jobs-out", "FILE", TEXT, struct shared_options, jobs_out,
               "Write when and where each job ran (CSV).", .hint = LULL_OPTION_FILE),
    LULL_JSON_ROW(struct shared_options, is_json),
    {0},
};

static void ada_srsf_prepare(void *options)
{
    ((struct shared_options *)options)->setup = lull_shared_published;
}

static int ada_srsf_check(void *given, const struct lull_operands *operands, struct lull_error *err)
{
    struct shared_options *const options = given;
    struct lull_shared_setup *const setup = &options->setup;

    (void)operands;
    (void)err;
    setup->asking_moves_transfers =
        options->more_errors[0] || strcmp(options->variant, "published") == 0;
    setup->skips_after_removal =
        options->more_errors[1] || strcmp(options->variant, "repaired-lists") != 0;
    return 0;
}

static int ada_srsf_run(void *options, const struct lull_operands *operands)
{
    struct shared_run run = {.options = options, .path = operands->words[0]};
    struct lull_error err = {0};
    const int rc = ada_srsf_simulate(&run, &err);

    free(run.reported);
    free(run.jobs);
    free(run.result.completion_ms);
    free(run.result.placed_ms);
    free(run.result.gpus);
    return rc < 0 ? lull_program_fail("lull-reproduce ada-srsf", &err) : LULL_EXIT_OK;
}

const struct lull_program_command lull_shared_command = {
    .name = "ada-srsf",
    .summary = "gangs that share GPUs in time and a network by contention (arXiv 2002.10105)",
    .arguments = "JOBS",
    .about = "Runs data-parallel jobs that share GPUs in time and a network by contention: "
             "placement by least workload, transfers by AdaDUAL and others. JOBS is a folder with "
             "a file per job, or a table.",
    .tables = {{rows, 0}},
    .operands = {.least = 1, .most = 1, .missing = "give a folder or file of jobs"},
    .size = sizeof(struct shared_options),
    .prepare = ada_srsf_prepare,
    .check = ada_srsf_check,
    .run = ada_srsf_run,
};
