/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cluster/cluster.h"

#include <stdbool.h>
#include <string.h>

#include "base/amount.h"
#include "base/error.h"
#include "base/watch.h"
#include "cli/cluster/compare.h"
#include "cli/cluster/explain.h"
#include "cli/cluster/gantt.h"
#include "cli/cluster/report.h"
#include "cli/cluster/tables.h"
#include "cli/command.h"

#define COMMAND "simulate cluster"

/* ---- jobs in queues ----------------------------------------------------------------------- */

static void tell(void *user, size_t gone, size_t jobs)
{
    if (lull_watch_is_due(user))
        lull_watch_draw("lull: %s of %s jobs", lull_amount_count(gone).text,
                        lull_amount_count(jobs).text);
}

static int write_files(const struct lull_scenario_output_options *output,
                       const struct lull_scenario_model *model, const struct lull_scenario_run *run,
                       struct lull_error *err)
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

/* Prints the run; for people either what explains one job or the summary. */
static int print(const struct lull_scenario_output_options *output,
                 const struct lull_scenario *scenario, const struct lull_scenario_run *run,
                 struct lull_error *err)
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
    struct lull_watch watch = lull_watch_begin();
    struct lull_scenario_run run;
    int rc;

    scenario->conditions.tell = tell;
    scenario->conditions.user = &watch;
    rc = lull_scenario_run_init(&run, scenario, policy, &options->policy, err);
    lull_watch_end(&watch);
    if (rc == 0)
        rc = write_files(&options->output, &scenario->model, &run, err);
    if (rc == 0)
        rc = print(&options->output, scenario, &run, err);
    lull_scenario_run_fini(&run);
    return rc;
}

/* policy: null where the command line has --compare. */
static int simulate(const struct lull_scenario_options *options,
                    const struct lull_cluster_policy_ops *policy, struct lull_error *err)
{
    struct lull_cluster_policy_ops set;
    struct lull_scenario scenario;
    int rc;

    if (options->policy.has_parameter) {
        rc = lull_cluster_policy_set(policy, options->policy.parameter, &set, err);
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

/* name: of a policy of core/cluster/policy/policy.h; null: the command line has --compare. */
static int run_queues(const char *name, int argc, char **argv)
{
    const struct lull_cluster_policy_ops *policy = NULL;
    struct lull_scenario_options options;
    struct lull_error err = {0};

    if (name != NULL)
        policy = lull_cluster_policy_find(name);
    lull_scenario_options_parse(argc, argv, name != NULL, &options);
    if (simulate(&options, policy, &err) < 0)
        return lull_cli_fail(COMMAND, &err);
    return LULL_EXIT_OK;
}

/* ---- which policy ------------------------------------------------------------------------- */

/* Policies that are no longer here: lull-reproduce has a command of the same name for each. */
static const char *const reproduced[] = {"edl", "ada-srsf"};

enum { REPRODUCED_COUNT = sizeof(reproduced) / sizeof(reproduced[0]) };

static void print_parameter(const struct lull_cluster_policy_ops *ops, FILE *out)
{
    if (ops->parameter != NULL)
        fprintf(out, "  %-22s --knob: %s (%g)\n", "", ops->parameter->what, ops->parameter->usual);
}

static void print_policies(const struct lull_cluster_policy_ops *const *ops, FILE *out)
{
    for (; *ops != NULL; ops++) {
        fprintf(out, "  %-22s %s\n", (*ops)->name, (*ops)->summary);
        print_parameter(*ops, out);
    }
}

static void print_usage(FILE *out)
{
    fprintf(out,
            "Usage: lull " COMMAND " --policy NAME [OPTION...] FILE\n"
            "  or:  lull " COMMAND " --compare NAME,NAME... [OPTION...] FILE\n"
            "Runs many jobs on a cluster in virtual time, under a policy for gangs in queues:\n\n");
    print_policies(lull_cluster_policy_all(), out);
    fprintf(out, "\nor for those with a value:\n\n");
    print_policies(lull_cluster_policy_of_values(), out);
    fprintf(out, "\n`lull " COMMAND " --policy NAME --help` tells its options.\n");
}

/* Takes --policy NAME, in one word or two, out of argv. Null: it is not there, or has no name. */
static const char *take_policy(int *argc, char **argv)
{
    static const char option[] = "--policy";
    const size_t length = sizeof(option) - 1;

    for (int i = 1; i < *argc; i++) {
        const char *name = argv[i] + length;
        int words = 1;

        if (strncmp(argv[i], option, length) != 0 || (*name != '=' && *name != '\0'))
            continue;
        if (*name++ == '\0') {
            name = argv[i + 1]; /* null after the last word */
            if (name != NULL)
                words = 2;
        }
        memmove(&argv[i], &argv[i + words], (size_t)(*argc - i - words + 1) * sizeof(*argv));
        *argc -= words;
        return name;
    }
    return NULL;
}

static bool is_comparison(int argc, char **argv)
{
    static const char option[] = "--compare";

    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], option, sizeof(option) - 1) == 0)
            return true;
    return false;
}

static int refuse_reproduced(const char *name)
{
    fprintf(stderr,
            "lull " COMMAND ": the policy %s is now a command of a program of its own, "
            "with the same options; type: lull-reproduce %s\n",
            name, name);
    return LULL_EXIT_USAGE;
}

static int run(const char *wanted, int argc, char **argv)
{
    for (int i = 0; i < REPRODUCED_COUNT; i++)
        if (strcmp(reproduced[i], wanted) == 0)
            return refuse_reproduced(wanted);
    if (lull_cluster_policy_find(wanted) != NULL)
        return run_queues(wanted, argc, argv);
    fprintf(stderr, "lull " COMMAND ": there is no policy %s; see --help\n", wanted);
    return LULL_EXIT_USAGE;
}

int lull_cluster_main(int argc, char **argv)
{
    static char name[96];
    const char *const wanted = take_policy(&argc, argv);
    bool is_help;

    if (wanted != NULL) {
        snprintf(name, sizeof(name), "lull " COMMAND " --policy %s", wanted);
        argv[0] = name;
        return run(wanted, argc, argv);
    }
    if (is_comparison(argc, argv)) {
        snprintf(name, sizeof(name), "lull " COMMAND);
        argv[0] = name;
        return run_queues(NULL, argc, argv);
    }
    is_help = argc >= 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-?") == 0);

    print_usage(is_help ? stdout : stderr);
    return is_help ? LULL_EXIT_OK : LULL_EXIT_USAGE;
}
