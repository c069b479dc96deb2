/*
 * lull batch list, show and forget: the stored data of recurring jobs.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_string.h"
#include "cli/batch/run_options.h"
#include "cli/commands.h"
#include "cli/shared/command.h"
#include "store/batch_jobs.h"

struct show_arguments {
    const char *store; /* null: the state directory */
    bool is_json;
};

static const struct lull_option rows[] = {
    LULL_BATCH_STORE_ROW(struct show_arguments, store),
    LULL_JSON_ROW(struct show_arguments, is_json),
    {0},
};

/* ---- one job ------------------------------------------------------------------------------- */

/* Holds what the store knows of one job. */
struct knowledge {
    struct lull_batch_job job;
    struct lull_batch_entry *entries;
    size_t count;
    struct lull_batch *batch;
    struct lull_batch_arm arms[LULL_BATCH_SIZES];
    size_t arm_count;
};

static int batch_show_load(struct lull_batch_jobs *jobs, const char *name,
                           struct knowledge *knowledge, struct lull_error *err)
{
    const int result = lull_batch_jobs_load(jobs, name, &knowledge->job, &knowledge->entries,
                                            &knowledge->count, &knowledge->batch, err);

    if (result == 0)
        knowledge->arm_count = lull_batch_arms(knowledge->batch, knowledge->arms, LULL_BATCH_SIZES);
    return result;
}

static void batch_show_free(struct knowledge *knowledge)
{
    free(knowledge->entries);
    lull_batch_destroy(knowledge->batch);
}

static const char *batch_show_state_text(const struct lull_batch_entry *entry)
{
    static const char *const texts[] = {[LULL_BATCH_SUBMITTED] = "?",
                                        [LULL_BATCH_REACHED] = "reached",
                                        [LULL_BATCH_MISSED] = "missed",
                                        [LULL_BATCH_LOST] = "lost",
                                        [LULL_BATCH_CRASHED] = "failed"};

    if (entry->is_over)
        return texts[entry->over.event];
    return entry->is_alive ? "running" : "died";
}

static json_t *batch_show_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *batch_show_job_json(const struct knowledge *knowledge)
{
    const struct lull_batch_job *job = &knowledge->job;
    const uint32_t best = lull_batch_best_size(knowledge->batch);
    json_t *sizes = json_array();

    for (size_t i = 0; i < job->size_count; i++)
        json_array_append_new(sizes, json_integer(job->sizes[i]));
    return json_pack(
        "{s:o, s:o, s:I, s:o, s:o, s:f, s:o, s:o, s:I, s:f, s:I, s:b, s:I}", "job",
        lull_json_string(job->name), "sizes", sizes, "default_size", (json_int_t)job->default_size,
        "best_size", best != 0 ? json_integer(best) : json_null(), "least_cost_j",
        batch_show_number(lull_batch_min_cost(knowledge->batch)), "eta_ratio", job->price.eta_ratio,
        "beta_ratio", batch_show_number(job->beta_ratio), "gpu", lull_json_string(job->gpu_name),
        "gpu_count", (json_int_t)job->price.gpu_count, "max_power_w", job->price.max_power_w,
        "run_count", (json_int_t)knowledge->count, "exploring",
        lull_batch_is_exploring(knowledge->batch), "changes",
        (json_int_t)lull_batch_change_count(knowledge->batch));
}

static json_t *arm_json(const struct lull_batch_arm *arm)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:o, s:o, s:b}", "size", (json_int_t)arm->size, "runs",
                     (json_int_t)arm->run_count, "missed", (json_int_t)arm->missed_count,
                     "failed_in_row", (json_int_t)arm->crashed_count, "cost_j",
                     batch_show_number(arm->mean_cost), "cost_deviation_j",
                     batch_show_number(arm->deviation_cost), "candidate", arm->is_candidate);
}

static json_t *entry_json(const struct knowledge *knowledge, const struct lull_batch_entry *entry)
{
    const double cost =
        lull_job_cost(&knowledge->job.price, entry->over.energy_j, entry->over.time_s);

    return json_pack(
        "{s:I, s:o, s:I, s:o, s:b, s:o, s:I, s:o, s:f, s:o, s:I, s:o}", "run",
        (json_int_t)entry->submitted.run, "retry_of",
        entry->submitted.retry_of != 0 ? json_integer((json_int_t)entry->submitted.retry_of)
                                       : json_null(),
        "size", (json_int_t)entry->submitted.size, "bound_j",
        batch_show_number(entry->submitted.bound), "exploring", entry->is_exploring, "state",
        lull_json_string(batch_show_state_text(entry)), "submitted_s",
        (json_int_t)entry->submitted_s, "energy_j", batch_show_number(entry->over.energy_j),
        "time_s", entry->over.time_s, "cost_j", batch_show_number(cost), "epochs",
        (json_int_t)entry->epochs, "metric", batch_show_number(entry->metric));
}

static void show_json(const struct knowledge *knowledge)
{
    json_t *document = batch_show_job_json(knowledge);
    json_t *arms = json_array();
    json_t *runs = json_array();

    for (size_t i = 0; i < knowledge->arm_count; i++)
        json_array_append_new(arms, arm_json(&knowledge->arms[i]));
    for (size_t i = 0; i < knowledge->count; i++)
        json_array_append_new(runs, entry_json(knowledge, &knowledge->entries[i]));
    json_object_set_new(document, "by_size", arms);
    json_object_set_new(document, "runs", runs);
    lull_cli_print_json(document, JSON_REAL_PRECISION(12));
}

static void print_value(int width, int digits, double value)
{
    if (isfinite(value))
        printf(" %*.*f", width, digits, value);
    else
        printf(" %*s", width, "-");
}

static void show_text(const struct knowledge *knowledge)
{
    const struct lull_batch_job *job = &knowledge->job;

    printf("%s: %u x %s, eta %g, default size %u, best size ", job->name, job->price.gpu_count,
           job->gpu_name, job->price.eta_ratio, job->default_size);
    if (lull_batch_best_size(knowledge->batch) != 0)
        printf("%u\n", lull_batch_best_size(knowledge->batch));
    else
        printf("not known yet\n");
    printf("\n%8s %6s %7s %7s %12s %12s\n", "size", "runs", "missed", "failed", "cost J",
           "deviation");
    for (size_t i = 0; i < knowledge->arm_count; i++) {
        const struct lull_batch_arm *arm = &knowledge->arms[i];

        printf("%8u %6u %7u %7u", arm->size, arm->run_count, arm->missed_count, arm->crashed_count);
        print_value(12, 1, arm->mean_cost);
        print_value(12, 1, arm->deviation_cost);
        putchar('\n');
    }
    printf("\n%8s %8s %-8s %12s %10s %12s %7s %10s\n", "run", "size", "state", "energy J", "time s",
           "cost J", "epochs", "metric");
    for (size_t i = 0; i < knowledge->count; i++) {
        const struct lull_batch_entry *entry = &knowledge->entries[i];

        printf("%8" PRIu64 " %8u %-8s", entry->submitted.run, entry->submitted.size,
               batch_show_state_text(entry));
        print_value(12, 1, entry->over.energy_j);
        print_value(10, 1, entry->over.time_s);
        print_value(12, 1, lull_job_cost(&job->price, entry->over.energy_j, entry->over.time_s));
        printf(" %7u", entry->epochs);
        print_value(10, 4, entry->metric);
        putchar('\n');
    }
}

static int batch_show_main(void *options, const struct lull_operands *names)
{
    const struct show_arguments *const arguments = options;
    struct knowledge knowledge = {0};
    struct lull_batch_jobs *jobs = NULL;
    struct lull_error err = {0};
    int result = lull_batch_jobs_open(arguments->store, false, &jobs, &err);

    if (result == 0)
        result = batch_show_load(jobs, names->words[0], &knowledge, &err);
    lull_batch_jobs_close(jobs);
    if (result < 0)
        return lull_cli_fail("batch show", &err);
    if (arguments->is_json)
        show_json(&knowledge);
    else
        show_text(&knowledge);
    batch_show_free(&knowledge);
    return LULL_EXIT_OK;
}

/* ---- all jobs ------------------------------------------------------------------------------ */

struct names {
    char **names;
    size_t count;
};

static int batch_show_take_name(void *context, const char *name)
{
    struct names *names = context;
    char **longer = realloc(names->names, (names->count + 1) * sizeof(*longer));

    if (longer == NULL)
        return -ENOMEM;
    names->names = longer;
    names->names[names->count] = strdup(name);
    return names->names[names->count++] == NULL ? -ENOMEM : 0;
}

static int print_jobs(struct lull_batch_jobs *jobs, bool is_json, struct lull_error *err)
{
    struct names names = {0};
    json_t *array = json_array();
    int result = lull_batch_jobs_walk(jobs, batch_show_take_name, &names, err);

    if (!is_json && result == 0)
        printf("%-24s %6s %8s %8s %12s  %s\n", "job", "runs", "default", "best", "least cost J",
               "GPUs");
    for (size_t i = 0; i < names.count; i++) {
        struct knowledge knowledge = {0};

        if (result == 0)
            result = batch_show_load(jobs, names.names[i], &knowledge, err);
        free(names.names[i]);
        if (result < 0)
            continue;
        if (is_json) {
            json_array_append_new(array, batch_show_job_json(&knowledge));
        } else {
            const uint32_t best = lull_batch_best_size(knowledge.batch);

            printf("%-24s %6zu %8u %8u", knowledge.job.name, knowledge.count,
                   knowledge.job.default_size, best);
            print_value(12, 1, lull_batch_min_cost(knowledge.batch));
            printf("  %u x %s\n", knowledge.job.price.gpu_count, knowledge.job.gpu_name);
        }
        batch_show_free(&knowledge);
    }
    free(names.names);
    if (is_json && result == 0)
        lull_cli_print_json(json_pack("{s:o}", "jobs", array), JSON_REAL_PRECISION(12));
    else
        json_decref(array);
    return result;
}

static int batch_show_list(void *options, const struct lull_operands *operands)
{
    const struct show_arguments *const arguments = options;
    struct lull_batch_jobs *jobs = NULL;
    struct lull_error err = {0};
    int result = lull_batch_jobs_open(arguments->store, false, &jobs, &err);

    (void)operands;
    if (result == -ENOENT) { /* no job was ever kept */
        if (arguments->is_json)
            lull_cli_print_json(json_pack("{s:[]}", "jobs"), JSON_REAL_PRECISION(12));
        return LULL_EXIT_OK;
    }
    if (result == 0)
        result = print_jobs(jobs, arguments->is_json, &err);
    lull_batch_jobs_close(jobs);
    return result < 0 ? lull_cli_fail("batch list", &err) : LULL_EXIT_OK;
}

static int forget_job(void *options, const struct lull_operands *names)
{
    const struct show_arguments *const arguments = options;
    struct lull_batch_jobs *jobs = NULL;
    struct lull_error err = {0};
    int result = lull_batch_jobs_open(arguments->store, false, &jobs, &err);

    if (result == 0)
        result = lull_batch_jobs_forget(jobs, names->words[0], &err);
    lull_batch_jobs_close(jobs);
    if (result < 0)
        return lull_cli_fail("batch forget", &err);
    if (arguments->is_json)
        lull_cli_print_json(json_pack("{s:o}", "forgotten", lull_json_string(names->words[0])),
                            JSON_REAL_PRECISION(12));
    return LULL_EXIT_OK;
}

/* ---- the commands -------------------------------------------------------------------------- */

#define ONE_NAME                                                                                   \
    {                                                                                              \
        .least = 1, .most = 1,                                                                     \
        .missing = "missing job name; list the names with `lull batch list`"                       \
    }

const struct lull_program_command lull_batch_show_command = {
    .name = "batch show",
    .summary = "show the history of a job",
    .arguments = "NAME",
    .about = "Shows the runs of a recurring job and the results of its batch sizes.",
    .tables = {{rows, 0}},
    .operands = ONE_NAME,
    .size = sizeof(struct show_arguments),
    .run = batch_show_main,
};

const struct lull_program_command lull_batch_list_command = {
    .name = "batch list",
    .summary = "list the jobs that are known",
    .about = "Lists the recurring jobs that are known.",
    .tables = {{rows, 0}},
    .size = sizeof(struct show_arguments),
    .run = batch_show_list,
};

const struct lull_program_command lull_batch_forget_command = {
    .name = "batch forget",
    .summary = "forget a job with all its runs",
    .arguments = "NAME",
    .about = "Forgets a recurring job with all its runs.",
    .tables = {{rows, 0}},
    .operands = ONE_NAME,
    .size = sizeof(struct show_arguments),
    .run = forget_job,
};
