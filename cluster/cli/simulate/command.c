/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/amount.h"
#include "base/error.h"
#include "base/progress.h"
#include "cluster/cli/simulate/compare.h"
#include "cluster/cli/simulate/explain.h"
#include "cluster/cli/simulate/gantt.h"
#include "cluster/cli/simulate/report.h"
#include "cluster/cli/simulate/tables.h"
#include "cluster/cli/commands.h"
#include "cli/shared/command.h"

#define COMMAND "simulate cluster"

/* ---- jobs in queues ----------------------------------------------------------------------- */

static void cluster_command_progress(void *user, size_t gone, size_t jobs)
{
    if (lull_progress_is_due(user))
        lull_progress_draw("lull: %s of %s jobs", lull_amount_count(gone).text,
                           lull_amount_count(jobs).text);
}

static int cluster_command_write_files(const struct lull_scenario_output_options *output,
                                       const struct lull_scenario_model *model,
                                       const struct lull_scenario_run *run, struct lull_error *err)
{
    int rc = 0;

    if (output->jobs_out != NULL)
        rc = lull_tables_write_jobs(output->jobs_out, model, run->run, err);
    if (rc == 0 && output->power_out != NULL)
        rc = lull_tables_write_power(output->power_out, model, run->run, err);
    if (rc == 0 && output->gantt != NULL)
        rc = lull_gantt_write(output->gantt, model, run->policy, run->run, err);
    return rc;
}

/* Prints the run; for users either what explains one job or the summary. */
static int cluster_command_print_result(const struct lull_scenario_output_options *output,
                                        const struct lull_scenario *scenario,
                                        const struct lull_scenario_run *run, struct lull_error *err)
{
    struct lull_explained explained;
    json_t *document = NULL;

    if (output->explain != NULL) {
        const int rc = lull_explain_job(&scenario->model, run->policy, run->run, output->explain,
                                        &explained, err);

        if (rc < 0)
            return rc;
        if (!output->is_json) {
            lull_explain_print(&explained, stdout);
            return 0;
        }
        document = lull_explain_json(&explained);
    }
    if (output->is_json)
        return lull_cluster_report_print_json(scenario, run, document, err);
    return lull_cluster_report_print(scenario, run, err);
}

static int run_one(const struct lull_scenario_options *options, struct lull_scenario *scenario,
                   const struct lull_cluster_policy_ops *policy, struct lull_error *err)
{
    struct lull_progress progress = lull_progress_begin();
    struct lull_scenario_run run;
    int rc;

    scenario->conditions.tell = cluster_command_progress;
    scenario->conditions.user = &progress;
    rc = lull_scenario_run_init(&run, scenario, policy, &options->policy, err);
    scenario->conditions.user = NULL;
    lull_progress_end(&progress);
    if (rc == 0)
        rc = cluster_command_write_files(&options->output, &scenario->model, &run, err);
    if (rc == 0)
        rc = cluster_command_print_result(&options->output, scenario, &run, err);
    lull_scenario_run_fini(&run);
    return rc;
}

static int cluster_command_simulate(const struct lull_scenario_options *options,
                                    struct lull_error *err)
{
    const struct lull_cluster_policy_ops *policy = options->policy.ops;
    struct lull_cluster_policy_ops set;
    struct lull_scenario scenario;
    int rc;

    if (options->policy.has_knob) {
        rc = lull_cluster_policy_set(policy, options->policy.knob, &set, err);
        if (rc < 0)
            return rc;
        policy = &set;
    }
    rc = lull_scenario_init(&scenario, options, err);
    if (rc == 0 && (options->policy.compare != NULL || options->policy.sweep != NULL))
        rc =
            lull_cluster_compare(&scenario, policy, &options->policy, options->output.is_json, err);
    else if (rc == 0)
        rc = run_one(options, &scenario, policy, err);
    lull_scenario_fini(&scenario);
    return rc;
}

/* ---- the command line --------------------------------------------------------------------- */

static void cluster_command_print_policies(FILE *out)
{
    const struct lull_cluster_policy_ops *const *ops = lull_cluster_policy_all();
    const int column = 25;

    for (; *ops != NULL; ops++) {
        fprintf(out, "  %-22s ", (*ops)->name);
        lull_option_print_wrapped((*ops)->summary, column, column, out);
        fputc('\n', out);
        if ((*ops)->parameter == NULL)
            continue;
        fprintf(out, "%*s--knob: ", column, "");
        lull_option_print_wrapped((*ops)->parameter->what, column + 8, column, out);
        fprintf(out, " (%g)\n", (*ops)->parameter->default_value);
    }
}

static void print_all_policies(FILE *out)
{
    fprintf(out, "\nPolicies:\n");
    cluster_command_print_policies(out);
}

static int cluster_command_check(void *given, const struct lull_operands *operands,
                                 struct lull_error *err)
{
    struct lull_scenario_options *const options = given;

    options->model.path = operands->words[0];
    return lull_scenario_options_check(options, err);
}

static int cluster_command_run(void *options, const struct lull_operands *operands)
{
    struct lull_error err = {0};

    (void)operands;
    return cluster_command_simulate(options, &err) < 0 ? lull_cli_fail(COMMAND, &err)
                                                       : LULL_EXIT_OK;
}

const struct lull_program_command lull_cluster_command = {
    .name = COMMAND,
    .summary = "run many jobs on a cluster in virtual time, under a policy",
    .arguments = "JOBS.csv",
    .about = "Runs jobs that need their GPUs all at once, each as long as its table says, in "
             "queues, one per virtual cluster, in virtual time.",
    .print_after = print_all_policies,
    .tables = {{lull_scenario_rows, 0}},
    .operands = {.least = 1, .most = 1, .missing = "missing job table, or - for standard input"},
    .size = sizeof(struct lull_scenario_options),
    .prepare = lull_scenario_options_prepare,
    .check = cluster_command_check,
    .run = cluster_command_run,
};
