/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/cli/simulate/compare.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/amount.h"
#include "base/json_string.h"
#include "base/text.h"
#include "base/progress.h"
#include "cluster/cli/simulate/scenario.h"
#include "cluster/cli/simulate/totals.h"

enum { MAX_ROWS = 100000 };

struct compared {
    struct lull_cluster_policy_ops policy;
    char label[32]; /* the setting of the knob where it is swept, else the policy's name */
    struct lull_cluster_summary summary;
    struct lull_cluster_totals all;
};

struct comparison {
    struct compared *rows;
    size_t count;
};

static int cluster_compare_add_row(struct comparison *table,
                                   const struct lull_cluster_policy_ops *policy,
                                   struct lull_error *err)
{
    struct compared *const rows = reallocarray(table->rows, table->count + 1, sizeof(*table->rows));
    struct compared *row;

    if (rows == NULL)
        return lull_error_set(err, -ENOMEM, "no memory to compare policies");
    table->rows = rows;
    row = &rows[table->count++];
    *row = (struct compared){.policy = *policy};
    if (policy->is_set)
        snprintf(row->label, sizeof(row->label), "%g", policy->setting);
    else
        snprintf(row->label, sizeof(row->label), "%s", policy->name);
    return 0;
}

/* ---- which policies ----------------------------------------------------------------------- */

static int refuse_policy(const char *name, struct lull_error *err)
{
    const struct lull_cluster_policy_ops *const *ops = lull_cluster_policy_all();
    char known[512] = "";
    size_t used = 0;

    for (; *ops != NULL && used < sizeof(known); ops++)
        used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%s", used > 0 ? ", " : "",
                                 (*ops)->name);
    return lull_error_set(err, -EINVAL, "%s: no such policy; there are %s", name, known);
}

static int add_all(struct comparison *table, struct lull_error *err)
{
    const struct lull_cluster_policy_ops *const *ops = lull_cluster_policy_all();
    int rc = 0;

    for (; rc == 0 && *ops != NULL; ops++)
        rc = cluster_compare_add_row(table, *ops, err);
    return rc;
}

static int add_named(struct comparison *table, const char *names, struct lull_error *err)
{
    char *const copy = strdup(names);
    char *rest = NULL;
    int rc = 0;

    if (copy == NULL)
        return lull_error_set(err, -ENOMEM, "no memory to compare policies");
    for (char *name = strtok_r(copy, ",", &rest); name != NULL && rc == 0;
         name = strtok_r(NULL, ",", &rest)) {
        const struct lull_cluster_policy_ops *policy = lull_cluster_policy_find(name);

        rc =
            policy == NULL ? refuse_policy(name, err) : cluster_compare_add_row(table, policy, err);
    }
    free(copy);
    if (rc == 0 && table->count == 0)
        return refuse_policy(names, err);
    return rc;
}

/* ---- which settings ----------------------------------------------------------------------- */

struct sweep_range {
    double from;
    double to;
    int64_t count;
};

/* Parses "FROM:TO:COUNT" or "COUNT", which spans 0.01 to 100 times the default (of 1, if that is
 * 0). Errors: -EINVAL. */
static int parse_range(const char *text, const struct lull_policy_parameter *parameter,
                       struct sweep_range *range_out)
{
    const double middle = parameter->default_value != 0.0 ? fabs(parameter->default_value) : 1.0;
    struct sweep_range range = {fmax(parameter->least, middle / 100.0),
                                fmin(parameter->most, middle * 100.0), 0};
    char from[64];
    char to[64];
    char count[64];

    if (strchr(text, ':') == NULL) {
        if (lull_text_parse_int(text, 1, MAX_ROWS, &range.count) < 0)
            return -EINVAL;
    } else if (sscanf(text, "%63[^:]:%63[^:]:%63s", from, to, count) != 3 ||
               lull_text_parse_number(from, &range.from) < 0 ||
               lull_text_parse_number(to, &range.to) < 0 ||
               lull_text_parse_int(count, 1, MAX_ROWS, &range.count) < 0) {
        return -EINVAL;
    }
    *range_out = range;
    return 0;
}

/* Settings grow by equal factors where the range spans a decade, else by equal steps. */
static double setting_at(const struct sweep_range *range, int64_t i)
{
    const double part = range->count > 1 ? (double)i / (double)(range->count - 1) : 0.0;
    const double low = fmin(range->from, range->to);

    if (i == range->count - 1 && i > 0)
        return range->to;
    if (low > 0.0 && fmax(range->from, range->to) > 10.0 * low)
        return range->from * pow(range->to / range->from, part);
    return range->from + part * (range->to - range->from);
}

static int add_settings(struct comparison *table, const struct lull_cluster_policy_ops *policy,
                        const char *sweep, struct lull_error *err)
{
    struct sweep_range range;

    if (policy->parameter == NULL)
        return lull_error_set(err, -EINVAL, "policy %s has no knob to sweep", policy->name);
    if (parse_range(sweep, policy->parameter, &range) < 0)
        return lull_error_set(err, -EINVAL,
                              "--sweep %s: give COUNT, or FROM:TO:COUNT, with a COUNT of 1 or more",
                              sweep);
    for (int64_t i = 0; i < range.count; i++) {
        struct lull_cluster_policy_ops set;
        int rc = lull_cluster_policy_set(policy, setting_at(&range, i), &set, err);

        if (rc == 0)
            rc = cluster_compare_add_row(table, &set, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* ---- running ------------------------------------------------------------------------------ */

/* Runs the scenario for one row of the table. totals has room for one per pool and one more. */
static int run_row(const struct lull_scenario *scenario,
                   const struct lull_scenario_policy_options *options,
                   struct lull_cluster_totals *totals, struct compared *row, struct lull_error *err)
{
    struct lull_scenario_run run;
    int rc = lull_scenario_run_init(&run, scenario, &row->policy, options, err);

    if (rc < 0)
        goto end;
    rc = lull_cluster_totals_summarise(&scenario->model, &run, totals, &row->summary);
    if (rc < 0)
        lull_error_set(err, rc, "no memory for the summary");
    row->all = totals[scenario->model.cluster.pool_count];
end:
    lull_scenario_run_fini(&run);
    return rc;
}

static int cluster_compare_run_all(const struct lull_scenario *scenario,
                                   const struct lull_scenario_policy_options *options,
                                   struct comparison *table, struct lull_error *err)
{
    struct lull_progress progress = lull_progress_begin();
    struct lull_cluster_totals *totals =
        calloc((size_t)scenario->model.cluster.pool_count + 1, sizeof(*totals));
    int rc = 0;

    if (totals == NULL)
        return lull_error_set(err, -ENOMEM, "no memory for the summary");
    for (size_t i = 0; i < table->count && rc == 0; i++) {
        if (lull_progress_is_due(&progress))
            lull_progress_draw("lull: %s, %zu of %zu", table->rows[i].policy.name, i + 1,
                               table->count);
        rc = run_row(scenario, options, totals, &table->rows[i], err);
    }
    lull_progress_end(&progress);
    free(totals);
    return rc;
}

/* ---- telling ------------------------------------------------------------------------------ */

static json_t *cluster_compare_row_json(const struct compared *row)
{
    json_t *const root = lull_cluster_summary_json(&row->summary);
    json_t *const setting = row->policy.is_set ? json_real(row->policy.setting) : json_null();
    json_t *const more = json_pack(
        "{s:o, s:o, s:f, s:f, s:f, s:f, s:I}", "policy", lull_json_string(row->policy.name),
        "setting", setting, "value_j", row->all.value_j, "offered_j", row->all.offered_j,
        "average_queue_s", lull_cluster_totals_mean_wait_s(&row->all), "utilisation_ratio",
        lull_cluster_totals_utilisation(&row->all, row->summary.makespan_s), "preemptions",
        (json_int_t)row->all.preemptions);

    if (root != NULL && more != NULL)
        json_object_update(root, more);
    json_decref(more);
    return root;
}

static int cluster_compare_print_json(const struct comparison *table)
{
    json_t *const rows = json_array();

    for (size_t i = 0; i < table->count; i++)
        json_array_append_new(rows, cluster_compare_row_json(&table->rows[i]));
    return lull_cluster_print_json(json_pack("{s:o}", "compared", rows));
}

static void cluster_compare_print_row(const struct compared *row, int width)
{
    printf("%-*s %10s %10s %10s %10s %10s %6.1f %% %8s %8s\n", width, row->label,
           lull_amount_time(row->summary.average_completion_s).text,
           lull_amount_time(row->summary.p99_completion_s).text,
           lull_amount_time(lull_cluster_totals_mean_wait_s(&row->all)).text,
           lull_amount_time(row->summary.makespan_s).text,
           lull_amount_energy(lull_cluster_summary_energy_j(&row->summary)).text,
           100.0 * lull_cluster_totals_utilisation(&row->all, row->summary.makespan_s),
           lull_amount_count(row->summary.rejected).text,
           lull_amount_count(row->summary.deadline_misses).text);
}

/* swept: the policy whose knob has other values in each row; null: rows are policies. */
static void cluster_compare_print(const struct comparison *table,
                                  const struct lull_cluster_policy_ops *swept, size_t job_count)
{
    const char *const first = swept != NULL ? "setting" : "policy";
    int width = (int)strlen("setting");

    assert(table->count > 0);
    for (size_t i = 0; i < table->count; i++) {
        const int length = (int)strlen(table->rows[i].label);

        width = length > width ? length : width;
    }
    if (swept != NULL)
        printf("%s: %s\n", swept->name, swept->parameter->what);
    printf("%-*s %10s %10s %10s %10s %10s %8s %8s %8s\n", width, first, "completion", "p99",
           "queue", "last end", "energy", "busy", "rejected", "late");
    for (size_t i = 0; i < table->count; i++)
        cluster_compare_print_row(&table->rows[i], width);
    printf("\n%s jobs on %s GPUs; completion and queue are means\n",
           lull_amount_count(job_count).text, lull_amount_count(table->rows[0].all.gpus).text);
}

int lull_cluster_compare(const struct lull_scenario *scenario,
                         const struct lull_cluster_policy_ops *policy,
                         const struct lull_scenario_policy_options *options, bool is_json,
                         struct lull_error *err)
{
    struct comparison table = {0};
    int rc;

    if (options->sweep != NULL)
        rc = add_settings(&table, policy, options->sweep, err);
    else if (strcmp(options->compare, "all") == 0)
        rc = add_all(&table, err);
    else
        rc = add_named(&table, options->compare, err);
    if (rc < 0)
        goto end;
    rc = cluster_compare_run_all(scenario, options, &table, err);
    if (rc < 0)
        goto end;
    if (is_json) {
        rc = cluster_compare_print_json(&table);
        if (rc < 0)
            lull_error_set(err, rc, "no memory for the table");
    } else {
        cluster_compare_print(&table, options->sweep != NULL ? policy : NULL,
                              scenario->model.jobs.count);
    }
end:
    free(table.rows);
    return rc;
}
