/* SPDX-License-Identifier: Apache-2.0 */
#include "lab/reproduce/zeus/golden.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "lab/reproduce/zeus/recurrence.h"
#include "lab/reproduce/zeus/series.h"

struct golden_checker {
    const struct lull_batch_trace *trace;
    double eta_ratio;
    struct lull_zeus *search;
    struct lull_golden_verdict verdict;
    struct lull_batch_golden_row row;
    uint32_t next_arm; /* the arm of the row whose draw comes next */
    bool is_wrong;     /* this step differs */
    uint32_t recurrence;
    uint32_t attempt;
    bool has_run[LULL_BATCH_TRACE_SIZES];
};

static void golden_expect(struct golden_checker *checker, bool is_so, const char *column)
{
    struct lull_golden_verdict *verdict = &checker->verdict;

    if (is_so || checker->is_wrong)
        return;
    checker->is_wrong = true;
    if (verdict->mismatches++ > 0)
        return;
    verdict->first_mismatch = checker->row.step;
    snprintf(verdict->first_what, sizeof(verdict->first_what), "%s", column);
}

/* Expects two numbers whose difference is at most 1e-9 of scale. */
static void expect_number(struct golden_checker *checker, double actual, double expected,
                          double scale, const char *column)
{
    const double limit_ratio = 1e-9;
    double error_ratio = actual == expected ? 0.0 : fabs(actual - expected) / fabs(scale);

    /* One number is infinite and the other is not, or the scale is 0. */
    if (!isfinite(error_ratio))
        error_ratio = 1.0;
    if (error_ratio > checker->verdict.max_relative_error)
        checker->verdict.max_relative_error = error_ratio;
    golden_expect(checker, error_ratio <= limit_ratio, column);
}

/* ---- recorded draws ----------------------------------------------------------------------- */

static uint32_t arm_of(const struct golden_checker *checker, uint32_t size)
{
    uint32_t arm = 0;

    while (arm < checker->trace->size_count && checker->trace->sizes[arm].size != size)
        arm++;
    return arm;
}

/* Puts the arms into the recorded order, if that is an order of the same arms. */
static void replay_order(void *context, uint32_t *arms, size_t count)
{
    struct golden_checker *const checker = context;
    const struct lull_batch_golden_row *row = &checker->row;
    bool is_open[LULL_BATCH_TRACE_SIZES + 1] = {false};

    for (size_t i = 0; i < count; i++)
        is_open[arms[i]] = true;
    golden_expect(checker, row->order_count == count, "perm");
    for (size_t i = 0; i < count && !checker->is_wrong; i++) {
        const uint32_t arm = arm_of(checker, row->order[i]);

        golden_expect(checker, is_open[arm], "perm");
        is_open[arm] = false;
    }
    for (size_t i = 0; i < count && !checker->is_wrong; i++)
        arms[i] = arm_of(checker, row->order[i]);
}

static double replay_normal(void *context, uint32_t arm, double mean, double deviation)
{
    struct golden_checker *const checker = context;
    const struct lull_batch_golden_row *row = &checker->row;
    const struct lull_batch_golden_arm *recorded = &row->arms[checker->next_arm];

    golden_expect(checker,
                  checker->next_arm < row->arm_count &&
                      checker->trace->sizes[arm].size == recorded->size,
                  "arms");
    if (checker->next_arm >= row->arm_count)
        return mean;
    checker->next_arm++;
    expect_number(checker, -mean, recorded->mean, recorded->mean, "mean");
    expect_number(checker, deviation, recorded->deviation, recorded->mean, "sd");
    return -recorded->sample;
}

/* ---- one run ------------------------------------------------------------------------------ */

static void check_choice(struct golden_checker *checker, const struct lull_batch_choice *choice)
{
    const struct lull_batch_golden_row *row = &checker->row;

    golden_expect(checker, row->step == checker->verdict.steps, "step");
    golden_expect(checker, row->recurrence == checker->recurrence, "recurrence");
    golden_expect(checker, row->attempt == checker->attempt, "attempt");
    golden_expect(checker, checker->next_arm == row->arm_count, "arms");
    golden_expect(checker, choice->size == row->size, "bs");
    expect_number(checker, choice->bound, row->bound, row->bound, "cost_ub");
}

/* A quotient that is nearly an integer may be rounded either way; the recorded epochs count then.
 */
static void check_epochs(struct golden_checker *checker, struct lull_recurrence_run *run)
{
    const double margin = 1e-9;
    const double quotient =
        run->bound / lull_recurrence_epoch_cost(run->size, run->limit, checker->eta_ratio);
    const uint32_t recorded = checker->row.max_epochs;
    const bool is_close = fabs(quotient - round(quotient)) <= margin &&
                          (recorded == run->max_epochs || recorded + 1 == run->max_epochs);

    golden_expect(checker, recorded == run->max_epochs || is_close, "max_epochs");
}

static void check_run(struct golden_checker *checker, const struct lull_recurrence_run *run)
{
    const struct lull_batch_golden_row *row = &checker->row;

    golden_expect(checker, run->limit->limit_w == row->limit_w, "pl");
    golden_expect(checker, run->is_profiling == row->is_profiling, "profile_power");
    golden_expect(checker, run->size->path_count == row->path_count, "n_paths");
    golden_expect(checker, run->has_reached == row->has_reached, "reached");
    expect_number(checker, run->energy_j, row->energy_j, row->energy_j, "energy_j");
    expect_number(checker, run->time_s, row->time_s, row->time_s, "time_s");
}

static void golden_execute(struct golden_checker *checker, uint32_t arm, double bound,
                           struct lull_recurrence_run *run)
{
    const struct lull_batch_trace_size *size = &checker->trace->sizes[arm];
    const struct lull_batch_golden_row *row = &checker->row;
    const bool is_known = row->path_index < size->path_count;
    const struct lull_batch_trace_path none = {.epochs = NAN};
    const struct lull_batch_trace_path *path = is_known ? &size->paths[row->path_index] : &none;

    *run = (struct lull_recurrence_run){
        .size = size,
        .limit = lull_recurrence_choose_limit(size, checker->eta_ratio),
        .epochs = path->epochs,
        .bound = bound,
        .is_profiling = !checker->has_run[arm],
    };
    golden_expect(checker, !is_known || path->run == row->path_run, "run");
    golden_expect(checker,
                  path->epochs == row->epochs || (isnan(path->epochs) && isnan(row->epochs)),
                  "target_epoch");
    lull_recurrence_execute(run, checker->eta_ratio, checker->trace->job.max_epochs);
    check_epochs(checker, run);
    check_run(checker, run);
    checker->has_run[arm] = true;
}

/* Enters the result into the history, and continues to the next recurrence after a success. */
static int golden_learn(struct golden_checker *checker, const struct lull_recurrence_run *run,
                        struct lull_error *err)
{
    const struct lull_job_price price = {checker->eta_ratio, checker->trace->max_power_w, 1};
    const struct lull_batch_record ended = {
        .event = run->has_reached ? LULL_BATCH_REACHED : LULL_BATCH_MISSED,
        .run = checker->verdict.steps + 1u,
        .energy_j = run->energy_j,
        .time_s = run->time_s,
    };

    expect_number(checker, lull_job_cost(&price, run->energy_j, run->time_s), checker->row.cost,
                  checker->row.cost, "cost_seen");
    checker->recurrence += run->has_reached;
    checker->attempt = run->has_reached ? 1 : checker->attempt + 1;
    return lull_zeus_apply(checker->search, &ended, err);
}

static int check_row(struct golden_checker *checker, struct lull_error *err)
{
    const uint32_t arm = arm_of(checker, checker->row.size);
    const uint32_t before = checker->attempt > 1 ? checker->verdict.steps : 0;
    struct lull_batch_choice choice;
    struct lull_recurrence_run run;
    int rc;

    checker->is_wrong = false;
    checker->next_arm = 0;
    golden_expect(checker, checker->row.is_pruning == lull_zeus_is_pruning(checker->search),
                  "phase");
    lull_zeus_choose(checker->search, before, &choice);
    check_choice(checker, &choice);
    if (arm == checker->trace->size_count)
        return lull_error_set(err, LULL_E_FORMAT, "step %u: batch size %u is not in the traces",
                              checker->row.step, checker->row.size);
    rc = lull_zeus_apply(checker->search,
                         &(struct lull_batch_record){.event = LULL_BATCH_SUBMITTED,
                                                     .run = checker->verdict.steps + 1u,
                                                     .retry_of = before,
                                                     .size = checker->row.size,
                                                     .bound = choice.bound},
                         err);
    if (rc < 0)
        return rc;
    golden_execute(checker, arm, choice.bound, &run);
    rc = golden_learn(checker, &run, err);
    checker->verdict.steps++;
    return rc;
}

static int create_search(struct golden_checker *checker, const struct lull_golden_setting *setting,
                         struct lull_error *err)
{
    uint32_t sizes[LULL_BATCH_TRACE_SIZES];
    struct lull_zeus_config config;

    for (uint32_t i = 0; i < checker->trace->size_count; i++)
        sizes[i] = checker->trace->sizes[i].size;
    lull_zeus_config_default(&config, true);
    config.batch.sizes = sizes;
    config.batch.size_count = checker->trace->size_count;
    config.batch.default_size = checker->trace->job.default_size;
    config.batch.price.eta_ratio = setting->eta_ratio;
    config.batch.price.max_power_w = checker->trace->max_power_w;
    config.batch.beta_ratio = setting->beta_ratio;
    config.batch.window = setting->window;
    config.draws = (struct lull_zeus_draws){checker, replay_order, replay_normal};
    return lull_zeus_create(&config, &checker->search, err);
}

int lull_golden_check(const struct lull_batch_trace *trace,
                      const struct lull_golden_setting *setting, struct lull_lines *lines,
                      struct lull_golden_verdict *verdict_out, struct lull_error *err)
{
    struct golden_checker checker = {.trace = trace, .eta_ratio = setting->eta_ratio, .attempt = 1};
    int rc = lull_batch_golden_begin(lines, err);

    if (rc == 0)
        rc = create_search(&checker, setting, err);
    while (rc >= 0 && (rc = lull_batch_golden_next(lines, &checker.row, err)) > 0)
        rc = check_row(&checker, err);
    lull_zeus_destroy(checker.search);
    if (rc < 0)
        return rc;
    *verdict_out = checker.verdict;
    return 0;
}
