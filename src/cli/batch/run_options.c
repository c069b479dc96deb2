/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/batch/run_options.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cli/shared/command.h"

static int parse_job(const char *text, void *place, struct lull_error *err)
{
    struct lull_batch_job *const job = place;

    (void)err;
    if (text[0] == '\0' || strlen(text) >= sizeof(job->name))
        return -EINVAL;
    snprintf(job->name, sizeof(job->name), "%s", text);
    return 0;
}

static int batch_options_add_size(const char *word, struct lull_batch_job *job,
                                  struct lull_error *err)
{
    const uint32_t last = job->size_count > 0 ? job->sizes[job->size_count - 1] : 0;
    int64_t size;

    if (lull_text_parse_int(word, 1, UINT32_MAX, &size) < 0)
        return lull_error_set(err, -EINVAL, "invalid batch size %s: must be a whole number", word);
    if (job->size_count == LULL_BATCH_SIZES)
        return lull_error_set(err, -EINVAL, "give %d sizes at most", LULL_BATCH_SIZES);
    if (size == last)
        return lull_error_set(err, -EINVAL, "%s is there twice", word);
    if (size < last)
        return lull_error_set(err, -EINVAL, "must be in ascending order: %s follows %u", word,
                              last);
    job->sizes[job->size_count++] = (uint32_t)size;
    return 0;
}

static int batch_options_parse_sizes(const char *text, void *place, struct lull_error *err)
{
    struct lull_batch_job *const job = place;
    char *const copy = strdup(text);
    char *rest = copy;
    int rc = copy == NULL ? -ENOMEM : 0;

    job->size_count = 0;
    for (char *word = strsep(&rest, ","); word != NULL && rc == 0; word = strsep(&rest, ","))
        rc = batch_options_add_size(word, job, err);
    free(copy);
    return rc;
}

static int batch_options_parse_beta(const char *text, void *beta_ratio, struct lull_error *err)
{
    (void)err;
    return lull_text_parse_at_least(text, 1.0, beta_ratio);
}

static const char *const rules[] = {[LULL_RATE_SQRT] = "sqrt", [LULL_RATE_LINEAR] = "linear", NULL};

#define INTO(field) LULL_INTO(struct lull_batch_run_options, field)
#define GIVEN(field) LULL_GIVEN(struct lull_batch_run_options, field)

const struct lull_option lull_batch_run_rows[] = {
    LULL_VALUE("job", "NAME", OWN, struct lull_batch_run_options, job,
               "The name by which the runs of this job are known.", .parse = parse_job,
               .expected = "a name of 1 to 127 bytes", .environment = "LULL_BATCH_JOB",
               .is_required = true, .more = "Slurm's --lull-batch-job sets the variable."),
    LULL_VALUE("sizes", "N,N,...", OWN, struct lull_batch_run_options, job,
               "The batch sizes to choose from, ascending.", .parse = batch_options_parse_sizes,
               .is_required = true),
    LULL_VALUE("metric", "REGEX", TEXT, struct lull_batch_run_options, pattern,
               "A POSIX extended regular expression with one group, which is the metric in a line "
               "of the command's output.",
               .is_required = true,
               .more = "Lines of standard output and standard error count; each that matches ends "
                       "an epoch."),
    LULL_VALUE("target", "X", NUMBER, struct lull_batch_run_options, attempt.target,
               "The run is done when the metric is X or better.", .least = -INFINITY,
               .expected = "a number", .is_required = true),
    LULL_FLAG("lower-is-better", struct lull_batch_run_options, attempt.is_lower_better,
              "A lower metric is better, as for a loss."),
    LULL_VALUE("default-size", "N", WHOLE, struct lull_batch_run_options, job.default_size,
               "The batch size that the job uses today.", .least = 1,
               .otherwise = "the first of --sizes"),
    LULL_VALUE("epochs-max", "N", WHOLE, struct lull_batch_run_options, attempt.max_epochs,
               "Stop a run, as failed, after this many values of the metric.", .least = 1,
               .otherwise = "a run is never stopped for that"),
    LULL_VALUE("tries", "N", WHOLE, struct lull_batch_run_options, tries,
               "Repeat a run that missed the target with another size, up to this many runs.",
               .least = 1, .most = LULL_BATCH_TRIES, .default_value = "3"),
    LULL_QUIET_ROW(struct lull_batch_run_options, is_quiet),

    LULL_GROUP("The learning rate"),
    LULL_VALUE("lr", "X", NUMBER, struct lull_batch_run_options, rate,
               "The learning rate at the default size; {lr} in COMMAND becomes the one for the "
               "size of the run.",
               .is_open = true, .needs = "lr-rule"),
    LULL_VALUE("lr-rule", NULL, WORD, struct lull_batch_run_options, rule,
               "How {lr} follows the batch size: with its square root, for Adam and similar "
               "optimizers, or linearly, for SGD.",
               .words = rules, .needs = "lr"),

    LULL_GROUP("The search"),
    LULL_CLI_ETA_ROW(struct lull_batch_run_options, job.price.eta_ratio, .default_value = "0.5"),
    LULL_VALUE("beta", "X", OWN, struct lull_batch_run_options, job.beta_ratio,
               "Stop a run that costs X times the least cost that is known; inf: never.",
               .parse = batch_options_parse_beta, .expected = "a number from 1 on, or inf",
               .default_value = "2", .more = "eta and beta are fixed by the job's first run."),
    LULL_VALUE("seed", "N", WHOLE, struct lull_batch_run_options, job.seed,
               "Seed of the search's random draws, fixed by the job's first run.", GIVEN(has_seed),
               .otherwise = "made from the job's name"),
    LULL_VALUE("grace", "S", TIME, struct lull_batch_run_options, attempt.grace_ns,
               "How long a run that is stopped has between SIGTERM and SIGKILL.", .most = 86400.0,
               .default_value = "30"),
    LULL_BATCH_STORE_ROW(struct lull_batch_run_options, store),
    {0},
};

_Static_assert(LULL_BATCH_JOB_NAME_BYTES == 128, "what --job expects names this number");

/* ---- the command -------------------------------------------------------------------------- */

static const char size_place[] = "{batch}";
static const char rate_place[] = "{lr}";

double lull_rate_scale(enum lull_rate_rule rule, double rate, uint32_t size, uint32_t default_size)
{
    const double ratio = (double)size / (double)default_size;

    return rate * (rule == LULL_RATE_SQRT ? sqrt(ratio) : ratio);
}

static bool has_place(char *const *command, const char *place)
{
    for (; *command != NULL; command++)
        if (strstr(*command, place) != NULL)
            return true;
    return false;
}

static char *fill_word(const char *word, const char *size, const char *rate)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);

    if (out == NULL)
        return NULL;
    while (*word != '\0') {
        if (strncmp(word, size_place, strlen(size_place)) == 0) {
            fputs(size, out);
            word += strlen(size_place);
        } else if (strncmp(word, rate_place, strlen(rate_place)) == 0 && rate[0] != '\0') {
            fputs(rate, out);
            word += strlen(rate_place);
        } else {
            fputc(*word++, out);
        }
    }
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

char **lull_arguments_fill(char *const *command, uint32_t size, double rate)
{
    char size_text[16];
    char rate_text[32] = "";
    size_t count = 0;
    char **arguments;

    while (command[count] != NULL)
        count++;
    arguments = calloc(count + 1, sizeof(*arguments));
    if (arguments == NULL)
        return NULL;
    snprintf(size_text, sizeof(size_text), "%u", size);
    if (isfinite(rate))
        snprintf(rate_text, sizeof(rate_text), "%.8g", rate);
    for (size_t i = 0; i < count; i++) {
        arguments[i] = fill_word(command[i], size_text, rate_text);
        if (arguments[i] == NULL) {
            lull_arguments_free(arguments);
            return NULL;
        }
    }
    return arguments;
}

void lull_arguments_free(char **arguments)
{
    if (arguments == NULL)
        return;
    for (char **word = arguments; *word != NULL; word++)
        free(*word);
    free(arguments);
}

/* ---- what goes together -------------------------------------------------------------------- */

static int check_command(const struct lull_batch_run_options *options, struct lull_error *err)
{
    const bool has_rate = has_place(options->command, rate_place);

    if (!has_place(options->command, size_place))
        return lull_error_set(err, -EINVAL,
                              "the command has no placeholder for its batch size; add {batch}");
    if (has_rate && !isfinite(options->rate))
        return lull_error_set(err, -EINVAL, "{lr} in the command needs --lr and --lr-rule");
    if (!has_rate && isfinite(options->rate))
        return lull_error_set(err, -EINVAL,
                              "--lr needs {lr} in the command, where the learning rate goes");
    return 0;
}

static int create_metric(struct lull_batch_run_options *options, struct lull_error *err)
{
    struct lull_metric *metric = NULL;
    struct lull_error why = {0};

    if (lull_metric_create(options->pattern, &metric, &why) < 0)
        return lull_error_set(err, -EINVAL, "--metric %s: %s", options->pattern, why.text);
    options->attempt.metric = metric;
    return 0;
}

int lull_batch_run_options_check(struct lull_batch_run_options *options, struct lull_error *err)
{
    struct lull_batch_job *const job = &options->job;
    bool has_default = false;
    int rc;

    if (job->default_size == 0)
        job->default_size = job->sizes[0];
    for (size_t i = 0; i < job->size_count; i++)
        has_default |= job->sizes[i] == job->default_size;
    if (!has_default)
        return lull_error_set(err, -EINVAL, "--default-size %u is not among --sizes",
                              job->default_size);
    if (!options->has_seed)
        job->seed = lull_text_hash(job->name);
    rc = check_command(options, err);
    return rc < 0 ? rc : create_metric(options, err);
}
