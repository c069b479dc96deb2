/*
 * lull batch run: one recurrence of a job, which is one run or, where that misses the target, a
 * few. If nothing can be measured or stored, the command still runs, with its default size.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "cli/batch/run_options.h"
#include "cli/commands.h"
#include "cli/shared/command.h"

struct recurrence {
    struct lull_batch_run_options options;
    struct lull_energy_meter meter;
    bool has_meter;
    struct lull_batch_jobs *jobs; /* null: nothing can be learnt from this run */
};

static void batch_run_warn(const char *what, const struct lull_error *err)
{
    lull_log(LULL_LOG_WARNING, "batch run", "%s: %s", what, err->text);
}

static void batch_run_open_all(struct recurrence *recurrence)
{
    struct lull_batch_job *job = &recurrence->options.job;
    struct lull_error err = {0};

    if (lull_energy_meter_open(&recurrence->meter, &err) < 0) {
        batch_run_warn("nothing is learnt from this run", &err);
        return;
    }
    recurrence->has_meter = true;
    job->price.gpu_count = recurrence->meter.gpu_count;
    job->price.max_power_w = recurrence->meter.max_power_w;
    snprintf(job->gpu_name, sizeof(job->gpu_name), "%s", recurrence->meter.name);
    if (lull_batch_jobs_open(recurrence->options.store, true, &recurrence->jobs, &err) < 0) {
        recurrence->jobs = NULL;
        batch_run_warn("nothing is learnt from this run", &err);
    }
}

static void close_all(struct recurrence *recurrence)
{
    lull_batch_jobs_close(recurrence->jobs);
    if (recurrence->has_meter)
        lull_energy_meter_close(&recurrence->meter);
    lull_metric_destroy((struct lull_metric *)recurrence->options.attempt.metric);
}

/* ---- one run ------------------------------------------------------------------------------- */

/*
 * Without a store, or where it fails, the default size is run. -EEXIST alone is an error: the job
 * is stored with other sizes or GPUs, its runs cannot be compared, and the user has to decide.
 */
static int batch_run_choose_size(struct recurrence *recurrence, uint64_t retry_of,
                                 struct lull_batch_ticket *ticket, struct lull_error *err)
{
    const struct lull_batch_job *job = &recurrence->options.job;
    int result;

    *ticket = (struct lull_batch_ticket){.choice = {.size = job->default_size, .bound = INFINITY}};
    if (recurrence->jobs == NULL)
        return 0;
    result = lull_batch_jobs_submit(recurrence->jobs, job, retry_of, ticket, err);
    if (result == 0 || result == -EEXIST)
        return result;
    batch_run_warn("nothing is learnt from this run", err);
    lull_batch_jobs_close(recurrence->jobs);
    recurrence->jobs = NULL;
    return 0;
}

static void batch_run_log_begin(const struct recurrence *recurrence,
                                const struct lull_batch_ticket *ticket)
{
    if (recurrence->options.is_quiet)
        return;
    if (ticket->lost_count > 0)
        fprintf(stderr, "lull batch run: %u earlier run%s died without a result\n",
                ticket->lost_count, ticket->lost_count == 1 ? "" : "s");
    fprintf(stderr, "lull batch run: run %" PRIu64 " of %s: batch size %u%s", ticket->run,
            recurrence->options.job.name, ticket->choice.size,
            ticket->choice.is_exploring ? " (tried to learn more)" : "");
    if (isfinite(ticket->choice.bound))
        fprintf(stderr, ", at most %.1f J", ticket->choice.bound);
    fputc('\n', stderr);
}

static void batch_run_log_end(const struct recurrence *recurrence,
                              const struct lull_batch_ticket *ticket,
                              const struct lull_batch_attempt *attempt)
{
    static const char *const texts[] = {
        [LULL_BATCH_END_TARGET] = "reached the target",
        [LULL_BATCH_END_BOUND] = "stopped, it became too dear: its cost passed the bound",
        [LULL_BATCH_END_EPOCHS] = "stopped: it missed the target in --epochs-max epochs",
        [LULL_BATCH_END_OWN] = "ended short of the target",
        [LULL_BATCH_END_BLIND] = "ended without a value of the metric",
        [LULL_BATCH_END_CRASHED] = "failed",
        [LULL_BATCH_END_INTERRUPTED] = "interrupted",
    };
    const struct lull_batch_progress *progress = &attempt->progress;

    if (recurrence->options.is_quiet && attempt->end != LULL_BATCH_END_BLIND)
        return;
    fprintf(stderr, "lull batch run: run %" PRIu64 ": %s", ticket->run, texts[attempt->end]);
    if (attempt->end == LULL_BATCH_END_BLIND && attempt->unread[0] != '\0')
        fprintf(stderr, ": --metric matched '%s', which is not a number", attempt->unread);
    else if (attempt->end == LULL_BATCH_END_BLIND)
        fputs(": no line matched --metric; check the expression", stderr);
    if (progress->epochs > 0)
        fprintf(stderr, ", metric %g after %u", progress->metric, progress->epochs);
    if (isfinite(progress->energy_j))
        fprintf(
            stderr, ", %.1f J in %.1f s, cost %.1f J", progress->energy_j, progress->time_s,
            lull_job_cost(&recurrence->options.job.price, progress->energy_j, progress->time_s));
    if (isfinite(progress->energy_j) && attempt->estimated_s > 0.0)
        fprintf(stderr,
                "; %.1f s of it by polled power, since an energy counter stood still or went "
                "back",
                attempt->estimated_s);
    fputc('\n', stderr);
}

/* Reports once that a crashing size is given up. */
static void batch_run_log_given_up(struct recurrence *recurrence,
                                   const struct lull_batch_ticket *ticket)
{
    struct lull_batch_arm arms[LULL_BATCH_SIZES];
    struct lull_batch_entry *entries = NULL;
    struct lull_batch *batch = NULL;
    struct lull_batch_job job;
    size_t count;

    if (recurrence->options.is_quiet || recurrence->jobs == NULL ||
        lull_batch_jobs_load(recurrence->jobs, recurrence->options.job.name, &job, &entries, &count,
                             &batch, NULL) < 0)
        return;
    count = lull_batch_arms(batch, arms, LULL_BATCH_SIZES);
    for (size_t i = 0; i < count; i++)
        if (arms[i].size == ticket->choice.size && arms[i].crashed_count > 1 &&
            !arms[i].is_candidate)
            fprintf(
                stderr,
                "lull batch run: batch size %u has failed %u times in a row while others ran: it "
                "is not tried again\n",
                arms[i].size, arms[i].crashed_count);
    lull_batch_destroy(batch);
    free(entries);
}

static void batch_run_store_result(struct recurrence *recurrence,
                                   const struct lull_batch_ticket *ticket,
                                   const struct lull_batch_attempt *attempt)
{
    struct lull_error err = {0};

    if (recurrence->jobs != NULL &&
        lull_batch_jobs_end(recurrence->jobs, recurrence->options.job.name, ticket->run,
                            attempt->event, &attempt->progress, &err) < 0)
        batch_run_warn("the result of this run is not stored", &err);
}

static int batch_run_once(struct recurrence *recurrence, const struct lull_batch_ticket *ticket,
                          struct lull_batch_attempt *attempt_out, struct lull_error *err)
{
    struct lull_batch_run_options *options = &recurrence->options;
    const double rate = isfinite(options->rate)
                            ? lull_rate_scale(options->rule, options->rate, ticket->choice.size,
                                              options->job.default_size)
                            : NAN;
    char **command = lull_arguments_fill(options->command, ticket->choice.size, rate);
    int result;

    if (command == NULL)
        return lull_error_set(err, -ENOMEM, "not enough memory to run the command");
    options->attempt.command = command;
    options->attempt.bound = ticket->choice.bound;
    options->attempt.price = options->job.price;
    result =
        lull_batch_attempt_run(&options->attempt, recurrence->has_meter ? &recurrence->meter : NULL,
                               recurrence->jobs, options->job.name, ticket->run, attempt_out, err);
    lull_arguments_free(command);
    return result;
}

/* ---- the recurrence ------------------------------------------------------------------------ */

static bool has_missed(const struct lull_batch_attempt *attempt)
{
    return attempt->end == LULL_BATCH_END_BOUND || attempt->end == LULL_BATCH_END_EPOCHS ||
           attempt->end == LULL_BATCH_END_OWN;
}

/* Returns whether another run may do better: the target was missed, or a size failed and there are
 * others. Without a store the size would be the same. */
static bool can_try_again(const struct recurrence *recurrence,
                          const struct lull_batch_attempt *attempt, uint32_t failed)
{
    if (attempt->end == LULL_BATCH_END_CRASHED)
        return recurrence->jobs != NULL && failed < recurrence->options.job.size_count;
    return has_missed(attempt);
}

static int batch_run_repeat(struct recurrence *recurrence, struct lull_error *err)
{
    struct lull_batch_attempt attempt = {.event = LULL_BATCH_LOST,
                                         .progress = {.energy_j = NAN, .metric = NAN}};
    uint64_t retry_of = 0;
    uint32_t failed = 0;
    int result = 0;

    for (uint32_t i = 0; i < recurrence->options.tries; i++) {
        struct lull_batch_ticket ticket;

        result = batch_run_choose_size(recurrence, retry_of, &ticket, err);
        if (result < 0)
            return lull_cli_fail("batch run", err);
        batch_run_log_begin(recurrence, &ticket);
        result = batch_run_once(recurrence, &ticket, &attempt, err);
        batch_run_store_result(recurrence, &ticket, &attempt);
        if (result < 0)
            return lull_cli_fail_to_start("batch run", err);
        batch_run_log_end(recurrence, &ticket, &attempt);
        if (attempt.end == LULL_BATCH_END_CRASHED) {
            failed++;
            batch_run_log_given_up(recurrence, &ticket);
        }
        if (!can_try_again(recurrence, &attempt, failed))
            break;
        retry_of = ticket.run;
    }
    if (attempt.end == LULL_BATCH_END_TARGET)
        return LULL_EXIT_OK;
    return attempt.status != 0 && !has_missed(&attempt) ? attempt.status : LULL_EXIT_FAILED;
}

static void batch_run_prepare(void *options)
{
    ((struct recurrence *)options)->options.rate = NAN;
}

static int batch_run_check(void *options, const struct lull_operands *operands,
                           struct lull_error *err)
{
    struct recurrence *const recurrence = options;

    recurrence->options.command = operands->command;
    return lull_batch_run_options_check(&recurrence->options, err);
}

static int batch_run_command(void *options, const struct lull_operands *operands)
{
    struct recurrence *const recurrence = options;
    struct lull_error err = {0};
    int status;

    (void)operands;
    batch_run_open_all(recurrence);
    status = batch_run_repeat(recurrence, &err);
    close_all(recurrence);
    return status;
}

const struct lull_program_command lull_batch_run_command = {
    .name = "batch run",
    .summary = "run a job with the recommended batch size",
    .arguments = "-- COMMAND [ARG...]",
    .about =
        "Runs COMMAND, a recurring job, with the recommended batch size or one that is worth "
        "trying, and learns from its cost. In COMMAND, {batch} is replaced by the batch size and "
        "{lr} by the learning rate. Its output is passed through unchanged. COMMAND is stopped "
        "when the metric reaches the target or the cost exceeds the bound. A run that failed or "
        "missed the target is repeated with another size. The exit status is 0 if the target was "
        "reached, the command's status if its last run failed, and 1 otherwise.",
    .after = "Example:\n"
             "  lull batch run --job nightly --sizes 32,64,128 --metric 'val_acc=([0-9.]+)' "
             "--target 0.93 -- python train.py --batch-size {batch}",
    .tables = {{lull_batch_run_rows, offsetof(struct recurrence, options)}},
    .operands = {.takes_command = true,
                 .needs_command = true,
                 .missing = "missing command; put it after --"},
    .size = sizeof(struct recurrence),
    .returns_jobs_status = true,
    .prepare = batch_run_prepare,
    .check = batch_run_check,
    .run = batch_run_command,
};
