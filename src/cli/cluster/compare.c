/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cluster/compare.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/amount.h"
#include "cli/cluster/cluster.h"
#include "cli/cluster/tally.h"
#include "base/watch.h"
#include "core/cluster/dual_search.h"

enum { MOST_ROWS = 100000 };

struct row {
    struct lull_cluster_policy_ops policy;
    struct lull_cluster_summary summary;
    struct lull_cluster_tally all;
};

struct table {
    struct row *rows;
    size_t count;
    size_t room;
};

static int add_row(struct table *table, const struct lull_cluster_policy_ops *policy,
                   struct lull_error *err)
{
    if (table->count == table->room) {
        const size_t wanted = table->room == 0 ? 16 : 2 * table->room;
        struct row *const larger = reallocarray(table->rows, wanted, sizeof(*larger));

        if (larger == NULL)
            return lull_error_set(err, -ENOMEM, "no memory to compare policies");
        table->rows = larger;
        table->room = wanted;
    }
    table->rows[table->count++] = (struct row){.policy = *policy};
    return 0;
}

/* ---- which policies ----------------------------------------------------------------------- */

static void add_names(const struct lull_cluster_policy_ops *const *ops, char *text, size_t size)
{
    for (; *ops != NULL; ops++) {
        const size_t length = strlen(text);

        snprintf(text + length, size - length, "%s%s", length > 0 ? ", " : "", (*ops)->name);
    }
}

static int refuse_policy(const char *name, struct lull_error *err)
{
    char known[512] = "";

    add_names(lull_cluster_policy_all(), known, sizeof(known));
    add_names(lull_cluster_policy_of_values(), known, sizeof(known));
    return lull_error_set(err, -EINVAL, "%s: no such policy; there are %s", name, known);
}

static int add_named(struct table *table, const char *names, struct lull_error *err)
{
    char *const copy = strdup(names);
    char *rest = NULL;
    int result = copy == NULL ? lull_error_set(err, -ENOMEM, "no memory to compare policies") : 0;

    for (char *name = result == 0 ? strtok_r(copy, ",", &rest) : NULL; name != NULL && result == 0;
         name = strtok_r(NULL, ",", &rest)) {
        const struct lull_cluster_policy_ops *policy = lull_cluster_policy_find(name);

        result = policy == NULL ? refuse_policy(name, err) : add_row(table, policy, err);
    }
    free(copy);
    if (result == 0 && table->count == 0)
        return refuse_policy(names, err);
    return result;
}

static int add_each(struct table *table, const struct lull_cluster_policy_ops *const *ops,
                    struct lull_error *err)
{
    int result = 0;

    for (; *ops != NULL && result == 0; ops++)
        result = add_row(table, *ops, err);
    return result;
}

static int add_all(struct table *table, bool has_values, struct lull_error *err)
{
    const int result = add_each(table, lull_cluster_policy_all(), err);

    return result == 0 && has_values ? add_each(table, lull_cluster_policy_of_values(), err)
                                     : result;
}

/* ---- which settings ----------------------------------------------------------------------- */

struct range {
    double from;
    double to;
    int64_t count;
};

/* "COUNT": a hundredth to a hundred times what is usual, or 1 where that is 0; "FROM:TO:COUNT".
 * -EINVAL. */
static int parse_range(const char *text, const struct lull_cluster_knob *knob,
                       struct range *range_out)
{
    const double middle = knob->usual != 0.0 ? fabs(knob->usual) : 1.0;
    struct range range = {fmax(knob->least, middle / 100.0), fmin(knob->most, middle * 100.0), 0};
    char from[64];
    char to[64];
    char count[64];

    if (strchr(text, ':') == NULL) {
        if (lull_text_parse_int(text, 1, MOST_ROWS, &range.count) < 0)
            return -EINVAL;
    } else if (sscanf(text, "%63[^:]:%63[^:]:%63s", from, to, count) != 3 ||
               lull_text_parse_number(from, &range.from) < 0 ||
               lull_text_parse_number(to, &range.to) < 0 ||
               lull_text_parse_int(count, 1, MOST_ROWS, &range.count) < 0) {
        return -EINVAL;
    }
    *range_out = range;
    return 0;
}

/* By equal factors where the range spans a decade, else by equal steps. */
static double setting_at(const struct range *range, int64_t i)
{
    const double part = range->count > 1 ? (double)i / (double)(range->count - 1) : 0.0;
    const double low = fmin(range->from, range->to);

    if (i == range->count - 1 && i > 0)
        return range->to;
    if (low > 0.0 && fmax(range->from, range->to) > 10.0 * low)
        return range->from * pow(range->to / range->from, part);
    return range->from + part * (range->to - range->from);
}

static int add_settings(struct table *table, const struct lull_cluster_policy_ops *policy,
                        const char *sweep, struct lull_error *err)
{
    struct range range;

    if (policy->knob == NULL)
        return lull_error_set(err, -EINVAL, "policy %s has no knob to sweep", policy->name);
    if (parse_range(sweep, policy->knob, &range) < 0)
        return lull_error_set(err, -EINVAL, "--sweep %s: give COUNT or FROM:TO:COUNT", sweep);
    for (int64_t i = 0; i < range.count; i++) {
        struct lull_cluster_policy_ops set;
        int result = lull_cluster_policy_set(policy, setting_at(&range, i), &set, err);

        if (result == 0)
            result = add_row(table, &set, err);
        if (result < 0)
            return result;
    }
    return 0;
}

/* ---- running ------------------------------------------------------------------------------ */

static int certify_row(const struct lull_gangs *gangs, const struct lull_cluster_run *run,
                       struct row *row, struct lull_error *err)
{
    struct lull_cluster_certificate certificate;
    const int result = lull_gangs_certify(gangs, &row->policy, run, &certificate, err);

    if (result == 0) {
        row->summary.bound_j = certificate.bound_j;
        row->summary.certificate_ratio = lull_dual_ratio(certificate.bound_j, certificate.cost_j);
    }
    return result;
}

static int run_row(const struct lull_gangs *gangs, struct lull_cluster_tally *tallies,
                   struct row *row, struct lull_error *err)
{
    struct lull_cluster_run *run = NULL;
    int result = lull_gangs_run(gangs, &row->policy, &run, err);

    if (result < 0)
        return result;
    lull_cluster_tally(&gangs->cluster, &gangs->jobs, run, tallies);
    row->all = tallies[gangs->cluster.pool_count];
    result = lull_cluster_summarise(&gangs->jobs, run, &row->all, &row->summary);
    if (result < 0)
        lull_error_set(err, result, "no memory for the summary");
    else if (lull_gangs_is_certified(&row->policy))
        result = certify_row(gangs, run, row, err);
    lull_cluster_run_destroy(run);
    return result;
}

static int run_all(const struct lull_gangs *gangs, struct table *table, struct lull_error *err)
{
    struct lull_watch watch = lull_watch_begin();
    struct lull_cluster_tally *tallies =
        calloc((size_t)gangs->cluster.pool_count + 1, sizeof(*tallies));
    int result = tallies == NULL ? lull_error_set(err, -ENOMEM, "no memory for the summary") : 0;

    for (size_t i = 0; i < table->count && result == 0; i++) {
        if (lull_watch_is_due(&watch))
            lull_watch_draw("lull: %s, %zu of %zu", table->rows[i].policy.name, i + 1,
                            table->count);
        result = run_row(gangs, tallies, &table->rows[i], err);
    }
    lull_watch_end(&watch);
    free(tallies);
    return result;
}

/* ---- telling ------------------------------------------------------------------------------ */

static double mean_wait_s(const struct row *row)
{
    return row->all.done > 0 ? row->all.wait_s / (double)row->all.done : 0.0;
}

static json_t *row_json(const struct row *row)
{
    json_t *const root = lull_cluster_summary_json(&row->summary);
    json_t *const setting = row->policy.is_set ? json_real(row->policy.setting) : json_null();
    json_t *const more =
        json_pack("{s:s, s:o, s:f, s:f, s:f, s:f, s:I}", "policy", row->policy.name, "setting",
                  setting, "value_j", row->all.value_j, "offered_j", row->all.offered_j,
                  "average_queue_s", mean_wait_s(row), "utilisation_ratio",
                  lull_cluster_tally_utilisation(&row->all, row->summary.makespan_s), "preemptions",
                  (json_int_t)row->all.preemptions);

    if (root != NULL && more != NULL)
        json_object_update(root, more);
    json_decref(more);
    return root;
}

static int print_json(const struct table *table)
{
    json_t *const rows = json_array();

    for (size_t i = 0; i < table->count; i++)
        json_array_append_new(rows, row_json(&table->rows[i]));
    return lull_cluster_print_json(json_pack("{s:o}", "compared", rows));
}

struct label {
    char text[32];
};

static struct label label_of(const struct row *row)
{
    struct label label;

    if (row->policy.is_set)
        snprintf(label.text, sizeof(label.text), "%g", row->policy.setting);
    else
        snprintf(label.text, sizeof(label.text), "%s", row->policy.name);
    return label;
}

static void print_row(const struct row *row, int width)
{
    const double energy_j = row->summary.run_j + row->summary.idle_j + row->summary.turn_on_j;

    printf("%-*s %10s %10s %10s %10s %10s %6.1f %% %8s %8s\n", width, label_of(row).text,
           lull_amount_time(row->summary.average_completion_s).text,
           lull_amount_time(row->summary.p99_completion_s).text,
           lull_amount_time(mean_wait_s(row)).text, lull_amount_time(row->summary.makespan_s).text,
           lull_amount_energy(energy_j).text,
           100.0 * lull_cluster_tally_utilisation(&row->all, row->summary.makespan_s),
           lull_amount_count(row->summary.rejected).text,
           lull_amount_count(row->summary.deadline_misses).text);
}

static void print(const struct lull_gangs *gangs, const struct table *table)
{
    int width = (int)strlen("setting");

    for (size_t i = 0; i < table->count; i++) {
        const int length = (int)strlen(label_of(&table->rows[i]).text);

        width = length > width ? length : width;
    }
    if (gangs->wish->sweep != NULL)
        printf("%s: %s\n", gangs->policy->name, gangs->policy->knob->what);
    printf("%-*s %10s %10s %10s %10s %10s %8s %8s %8s\n", width,
           gangs->wish->sweep != NULL ? "setting" : "policy", "completion", "p99", "queue",
           "last end", "energy", "busy", "rejected", "late");
    for (size_t i = 0; i < table->count; i++)
        print_row(&table->rows[i], width);
    printf("\n%s jobs on %s GPUs; completion and queue are means\n",
           lull_amount_count(gangs->jobs.count).text,
           lull_amount_count(table->rows[0].all.gpus).text);
}

int lull_gangs_compare(const struct lull_gangs *gangs, struct lull_error *err)
{
    const char *const names = gangs->wish->compare;
    struct table table = {0};
    int result;

    if (names == NULL)
        result = add_settings(&table, gangs->policy, gangs->wish->sweep, err);
    else if (strcmp(names, "all") == 0)
        result = add_all(&table, gangs->has_values, err);
    else
        result = add_named(&table, names, err);
    if (result == 0)
        result = run_all(gangs, &table, err);
    if (result == 0 && gangs->wish->is_json) {
        result = print_json(&table);
        if (result < 0)
            lull_error_set(err, result, "no memory for the table");
    } else if (result == 0) {
        print(gangs, &table);
    }
    free(table.rows);
    return result;
}
