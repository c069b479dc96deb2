/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/cli/simulate/report.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/amount.h"
#include "base/json_string.h"
#include "cluster/cli/simulate/totals.h"

/* A run and the figures that are reported of it. */
struct findings {
    const struct lull_scenario *scenario;
    const struct lull_scenario_run *run;
    struct lull_cluster_totals *pools;
    const struct lull_cluster_totals *all; /* of all pools */
    struct lull_cluster_summary summary;
    uint64_t job_failures; /* failures of nodes on which a job ran */
    double lost_s;         /* work since the last checkpoint of jobs whose nodes failed */
    size_t sharing_jobs;   /* jobs that ran longer for sharing links or the storage */
    double shared_s;       /* by how much longer */
};

/* Sums up the cost of failures and sharing for the jobs. */
static void count_delays(struct findings *findings)
{
    const struct lull_cluster_outcome *outcomes = lull_cluster_run_outcomes(findings->run->run);

    for (size_t i = 0; i < findings->scenario->model.jobs.count; i++) {
        findings->job_failures += outcomes[i].failures;
        findings->lost_s += (double)outcomes[i].lost_ns * 1e-9;
        findings->sharing_jobs += outcomes[i].shared_ns > 0;
        findings->shared_s += (double)outcomes[i].shared_ns * 1e-9;
    }
}

/* The caller frees findings_out->pools in any case. Errors: -ENOMEM. */
static int cluster_report_collect(const struct lull_scenario *scenario,
                                  const struct lull_scenario_run *run,
                                  struct findings *findings_out)
{
    const struct lull_scenario_model *model = &scenario->model;
    const size_t pools = model->cluster.pool_count;
    struct lull_cluster_summary *const summary = &findings_out->summary;
    int rc;

    *findings_out = (struct findings){.scenario = scenario, .run = run};
    findings_out->pools = malloc((pools + 1) * sizeof(*findings_out->pools));
    if (findings_out->pools == NULL)
        return -ENOMEM;
    findings_out->all = &findings_out->pools[pools];
    count_delays(findings_out);
    rc = lull_cluster_totals_summarise(model, run, findings_out->pools, summary);
    if (rc < 0)
        return rc;
    if (run->is_bounded) {
        const double all_j = run->bound.all_j;

        summary->bound_j = all_j;
        summary->is_of_gains = false;
        if (all_j > 0.0)
            summary->certificate_ratio = lull_cluster_summary_energy_j(summary) / all_j;
    }
    return 0;
}

static double mean_completion_s(const struct lull_cluster_totals *totals)
{
    return totals->done > 0 ? totals->completion_s / (double)totals->done : 0.0;
}

/* A pool without GPUs is reported only if it has jobs: those that no other pool takes. */
static bool is_shown(const struct lull_cluster_totals *totals)
{
    return totals->gpus > 0 || totals->jobs > 0;
}

/* ---- for programs ------------------------------------------------------------------------- */

static json_t *pools_json(const struct findings *findings)
{
    const struct lull_scenario_model *model = &findings->scenario->model;
    json_t *const pools = json_array();

    for (uint32_t i = 0; i < model->cluster.pool_count; i++) {
        const struct lull_cluster_totals *pool = &findings->pools[i];

        if (!is_shown(pool))
            continue;
        json_array_append_new(
            pools, json_pack("{s:o, s:I, s:I, s:I, s:f, s:f, s:f, s:I}", "pool",
                             lull_scenario_pool_json(model, i), "gpus", (json_int_t)pool->gpus,
                             "jobs", (json_int_t)pool->jobs, "rejected", (json_int_t)pool->rejected,
                             "average_queue_s", lull_cluster_totals_mean_wait_s(pool),
                             "average_completion_s", mean_completion_s(pool), "utilisation_ratio",
                             lull_cluster_totals_utilisation(pool, findings->summary.makespan_s),
                             "deadline_misses", (json_int_t)pool->misses));
    }
    return pools;
}

static json_t *cluster_report_real_or_null(double value, bool is_known)
{
    return is_known ? json_real(value) : json_null();
}

static json_t *integer_or_null(size_t value, bool is_known)
{
    return is_known ? json_integer((json_int_t)value) : json_null();
}

/* The results for nodes, power and the network; null if not requested. */
static json_t *conditions_json(const struct findings *findings)
{
    const struct lull_cluster_conditions *conditions = &findings->scenario->conditions;
    const struct lull_cluster_node_counts nodes = lull_cluster_run_nodes(findings->run->run);
    const struct lull_power_meter *meter = lull_cluster_run_meter(findings->run->run);
    const bool is_shared = lull_contention_is_on(&conditions->contention);

    return json_pack(
        "{s:I, s:I, s:I, s:I, s:f, s:o, s:o, s:o, s:o, s:o, s:o}", "turn_ons",
        (json_int_t)nodes.turn_ons, "turn_offs", (json_int_t)nodes.turn_offs, "node_failures",
        (json_int_t)nodes.failures, "job_failures", (json_int_t)findings->job_failures, "lost_s",
        findings->lost_s, "price",
        cluster_report_real_or_null(lull_power_meter_price(meter), conditions->price != NULL),
        "carbon_g",
        cluster_report_real_or_null(lull_power_meter_carbon(meter), conditions->carbon != NULL),
        "power_cap_w",
        cluster_report_real_or_null(conditions->cap.cluster_w, conditions->cap.cluster_w > 0.0),
        "node_cap_w",
        cluster_report_real_or_null(conditions->cap.node_w, conditions->cap.node_w > 0.0),
        "shared_s", cluster_report_real_or_null(findings->shared_s, is_shared), "sharing_jobs",
        integer_or_null(findings->sharing_jobs, is_shared));
}

static int add_bound(const struct findings *findings, json_t *root)
{
    const struct lull_scenario *scenario = findings->scenario;
    const char *notes[LULL_CLUSTER_BOUND_NOTES];
    json_t *const texts = json_array();
    const size_t count =
        lull_cluster_bound_notes(&scenario->model.jobs, &scenario->conditions, notes);

    for (size_t i = 0; i < count; i++)
        json_array_append_new(texts, lull_json_string(notes[i]));
    if (json_object_set_new(root, "not_bounded", texts) < 0)
        return -ENOMEM;
    return json_object_set_new(root, "run_bound_j", json_real(findings->run->bound.run_j));
}

static int add_quality(const struct findings *findings, json_t *root)
{
    const struct lull_scenario_run *run = findings->run;

    if (run->is_certified) {
        if (json_object_set_new(root, "cost_j", json_real(run->certificate.cost_j)) < 0 ||
            json_object_set_new(root, "cost_bound_j", json_real(run->certificate.bound_j)) < 0)
            return -ENOMEM;
    }
    return run->is_bounded ? add_bound(findings, root) : 0;
}

/* The fields beside those of the summary. Takes what explains a job. null: out of memory. */
static json_t *more_json(const struct findings *findings, json_t *explained)
{
    const struct lull_scenario_model *model = &findings->scenario->model;
    const struct lull_cluster_totals *all = findings->all;
    json_t *conditions;
    json_t *const root = json_pack(
        "{s:o, s:f, s:f, s:I, s:f, s:f, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:o, s:o*}",
        "policy", lull_json_string(findings->run->policy->name), "value_j", all->value_j,
        "offered_j", all->offered_j, "never_started",
        (json_int_t)(all->jobs - all->done - all->rejected), "average_queue_s",
        lull_cluster_totals_mean_wait_s(all), "utilisation_ratio",
        lull_cluster_totals_utilisation(all, findings->summary.makespan_s), "preemptions",
        (json_int_t)all->preemptions, "without_gpus", (json_int_t)model->table.without_gpus,
        "without_submission", (json_int_t)model->table.without_submission, "without_duration",
        (json_int_t)model->table.without_duration, "of_no_duration",
        (json_int_t)model->table.of_no_duration, "nodes", (json_int_t)model->cluster.node_count,
        "run_w", model->options->run_w, "idle_w", model->types[0].idle_w, "pools",
        pools_json(findings), "explained", explained);

    if (root == NULL)
        return NULL;
    if (model->options->type_count > 0)
        json_object_set_new(root, "job_modes",
                            lull_scenario_points_json(&model->points, model->jobs.count));
    conditions = conditions_json(findings);
    if (add_quality(findings, root) < 0 || json_object_update(root, conditions) < 0) {
        json_decref(conditions);
        json_decref(root);
        return NULL;
    }
    json_decref(conditions);
    return root;
}

int lull_cluster_report_print_json(const struct lull_scenario *scenario,
                                   const struct lull_scenario_run *run, json_t *explained,
                                   struct lull_error *err)
{
    struct findings findings;
    int rc = cluster_report_collect(scenario, run, &findings);

    if (rc == 0)
        rc = lull_cluster_summary_print_json(&findings.summary, more_json(&findings, explained));
    else
        json_decref(explained);
    free(findings.pools);
    return rc < 0 ? lull_error_set(err, rc, "no memory for the summary") : 0;
}

/* ---- for users ---------------------------------------------------------------------------- */

static void print_conditions(const struct findings *findings)
{
    const struct lull_cluster_conditions *conditions = &findings->scenario->conditions;
    const struct lull_cluster_node_counts nodes = lull_cluster_run_nodes(findings->run->run);
    const struct lull_power_meter *meter = lull_cluster_run_meter(findings->run->run);

    if (conditions->turns_nodes_off)
        printf("nodes               turned off %llu times, on %llu times\n",
               (unsigned long long)nodes.turn_offs, (unsigned long long)nodes.turn_ons);
    if (findings->scenario->has_failures)
        printf("failures            %llu of nodes; they hit jobs %llu times, which lost %.1f h of "
               "work\n",
               (unsigned long long)nodes.failures, (unsigned long long)findings->job_failures,
               findings->lost_s / 3600.0);
    if (lull_contention_is_on(&conditions->contention))
        printf("sharing             made %zu jobs run %.1f h longer\n", findings->sharing_jobs,
               findings->shared_s / 3600.0);
    if (conditions->price != NULL)
        printf("price               %.2f\n", lull_power_meter_price(meter));
    if (conditions->carbon != NULL)
        printf("carbon              %.3f t\n", lull_power_meter_carbon(meter) * 1e-6);
}

/* Prints the policy's objective and the bound on it; as a gain where values exceed the cost. */
static void print_cost(const struct lull_cluster_certificate *certificate, bool has_values)
{
    const double cost_j = certificate->cost_j;
    const double bound_j = certificate->bound_j;
    char seconds[128] = "";

    if (certificate->second_j > 0.0)
        snprintf(seconds, sizeof(seconds), " and %s per second from each job's arrival to its end",
                 lull_amount_energy(certificate->second_j).text);
    if (cost_j < 0.0)
        printf("gain                %s: values less energy%s; no schedule of "
               "these jobs gains more than %s\n",
               lull_amount_energy(-cost_j).text, seconds, lull_amount_energy(-bound_j).text);
    else
        printf("cost                %s: energy%s%s; no schedule of these jobs that meets the "
               "deadlines met here costs less than %s\n",
               lull_amount_energy(cost_j).text, seconds, has_values ? ", less values" : "",
               lull_amount_energy(bound_j).text);
}

static void print_quality(const struct findings *findings)
{
    const struct lull_scenario *scenario = findings->scenario;
    const struct lull_scenario_run *run = findings->run;
    const char *notes[LULL_CLUSTER_BOUND_NOTES];
    size_t count;

    if (scenario->model.has_values)
        printf("value               %s of %s by jobs that ended in time\n",
               lull_amount_energy(findings->all->value_j).text,
               lull_amount_energy(findings->all->offered_j).text);
    if (run->is_certified)
        print_cost(&run->certificate, scenario->model.has_values);
    if (!run->is_bounded)
        return;
    printf("bound of running    %s\n", lull_amount_energy(run->bound.run_j).text);
    count = lull_cluster_bound_notes(&scenario->model.jobs, &scenario->conditions, notes);
    for (size_t i = 0; i < count; i++)
        printf("not in the bound    %s\n", notes[i]);
}

static void print_pools(const struct findings *findings)
{
    const struct lull_scenario_model *model = &findings->scenario->model;

    printf("\n%-16s %9s %9s %9s %12s %14s %7s %9s\n", "pool", "GPUs", "jobs", "rejected", "queue",
           "completion", "busy", "late");
    for (uint32_t i = 0; i < model->cluster.pool_count; i++) {
        const struct lull_cluster_totals *pool = &findings->pools[i];

        if (!is_shown(pool))
            continue;
        printf("%-16s %9s %9s %9s %12s %14s %5.1f %% %9s\n", lull_scenario_pool_name(model, i).text,
               lull_amount_count(pool->gpus).text, lull_amount_count(pool->jobs).text,
               lull_amount_count(pool->rejected).text,
               lull_amount_time(lull_cluster_totals_mean_wait_s(pool)).text,
               lull_amount_time(mean_completion_s(pool)).text,
               100.0 * lull_cluster_totals_utilisation(pool, findings->summary.makespan_s),
               lull_amount_count(pool->misses).text);
    }
}

/* Prints which rows of the table were not run. */
static void print_left_out(const struct lull_job_table *table)
{
    printf("left out            %s jobs without GPUs, %s of unknown duration",
           lull_amount_count(table->without_gpus).text,
           lull_amount_count(table->without_duration).text);
    if (table->without_submission > 0)
        printf(", %s of unknown submission", lull_amount_count(table->without_submission).text);
    if (table->of_no_duration > 0)
        printf(", %s that took 0 s", lull_amount_count(table->of_no_duration).text);
    if (table->job_steps > 0)
        printf("; %s rows are steps of jobs", lull_amount_count(table->job_steps).text);
    putchar('\n');
    if (table->has_processors)
        printf("processors          of the trace (SWF) are counted as GPUs\n");
}

static void cluster_report_print(struct findings *findings)
{
    const struct lull_scenario_model *model = &findings->scenario->model;
    const struct lull_cluster_totals *all = findings->all;

    /* The bound of a certificate is on cost, not on energy alone: print_cost() prints it. */
    if (!findings->run->is_bounded)
        findings->summary.bound_j = NAN;
    lull_cluster_summary_print(&findings->summary, stdout);
    print_conditions(findings);
    printf("queue               %s on average; %s never started\n",
           lull_amount_seconds(lull_cluster_totals_mean_wait_s(all)).text,
           lull_amount_count(all->jobs - all->done - all->rejected).text);
    printf("GPUs                %s on %s node%s, busy for %.1f %% of the time\n",
           lull_amount_count(all->gpus).text, lull_amount_count(model->cluster.node_count).text,
           model->cluster.node_count == 1 ? "" : "s",
           100.0 * lull_cluster_totals_utilisation(all, findings->summary.makespan_s));
    print_quality(findings);
    print_left_out(&model->table);
    if (model->options->type_count > 0)
        lull_scenario_points_print(&model->points, model->jobs.count);
    if (model->pools.rows != NULL)
        print_pools(findings);
}

int lull_cluster_report_print(const struct lull_scenario *scenario,
                              const struct lull_scenario_run *run, struct lull_error *err)
{
    struct findings findings;
    const int rc = cluster_report_collect(scenario, run, &findings);

    if (rc == 0)
        cluster_report_print(&findings);
    free(findings.pools);
    return rc < 0 ? lull_error_set(err, rc, "no memory for the summary") : 0;
}
