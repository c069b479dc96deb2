/* SPDX-License-Identifier: Apache-2.0 */
#include "simulator/summary.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/amount.h"
#include "core/stats/quantile.h"

static int cluster_summary_compare(const void *left, const void *right)
{
    const double a = *(const double *)left;
    const double b = *(const double *)right;

    return (a > b) - (a < b);
}

int lull_cluster_summarise_times(const double *completion_s, size_t count,
                                 struct lull_cluster_summary *summary)
{
    double *sorted = malloc((count + 1) * sizeof(*sorted));
    double sum_s = 0.0;

    if (sorted == NULL)
        return -ENOMEM;
    memcpy(sorted, completion_s, count * sizeof(*sorted));
    qsort(sorted, count, sizeof(*sorted), cluster_summary_compare);
    for (size_t i = 0; i < count; i++)
        sum_s += sorted[i];
    summary->average_completion_s = count > 0 ? sum_s / (double)count : 0.0;
    summary->p99_completion_s = count > 0 ? lull_quantile_of_sorted(sorted, count, 0.99) : 0.0;
    free(sorted);
    return 0;
}

static const double j_per_kwh = 3.6e6;

double lull_cluster_summary_energy_j(const struct lull_cluster_summary *summary)
{
    return summary->run_j + summary->idle_j + summary->turn_on_j;
}

void lull_cluster_summary_print(const struct lull_cluster_summary *summary, FILE *out)
{
    fprintf(out, "jobs                %s, %s rejected, %s after their deadline\n",
            lull_amount_count(summary->jobs).text, lull_amount_count(summary->rejected).text,
            lull_amount_count(summary->deadline_misses).text);
    fprintf(out, "completion          %s on average, %s for 99 of 100\n",
            lull_amount_seconds(summary->average_completion_s).text,
            lull_amount_seconds(summary->p99_completion_s).text);
    fprintf(out, "last end            %s\n", lull_amount_seconds(summary->makespan_s).text);
    fprintf(out, "energy              %s",
            lull_amount_energy(lull_cluster_summary_energy_j(summary)).text);
    if (lull_cluster_summary_energy_j(summary) >= j_per_kwh)
        fprintf(
            out, " (%s kWh)",
            lull_amount_count((uint64_t)(lull_cluster_summary_energy_j(summary) / j_per_kwh)).text);
    fprintf(out, ": running %s, idle %s, turning on %s\n", lull_amount_energy(summary->run_j).text,
            lull_amount_energy(summary->idle_j).text, lull_amount_energy(summary->turn_on_j).text);
    if (!isnan(summary->bound_j))
        fprintf(out, "bound               no schedule as good as this one needs less than %s\n",
                lull_amount_energy(summary->bound_j).text);
    if (isfinite(summary->certificate_ratio))
        fprintf(out,
                summary->is_of_gains
                    ? "certificate         the optimum gains at most %.3f times as much\n"
                    : "certificate         at most %.3f times the optimum\n",
                summary->certificate_ratio);
}

/* JSON has neither NAN nor INFINITY: both become null. */
static json_t *cluster_summary_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *lull_cluster_summary_json(const struct lull_cluster_summary *summary)
{
    return json_pack("{s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:o, s:o}", "jobs",
                     (json_int_t)summary->jobs, "rejected", (json_int_t)summary->rejected,
                     "average_completion_s", summary->average_completion_s, "p99_completion_s",
                     summary->p99_completion_s, "makespan_s", summary->makespan_s, "energy_j",
                     lull_cluster_summary_energy_j(summary), "run_j", summary->run_j, "idle_j",
                     summary->idle_j, "turn_on_j", summary->turn_on_j, "deadline_misses",
                     (json_int_t)summary->deadline_misses, "bound_j",
                     cluster_summary_number(summary->bound_j), "certificate_ratio",
                     cluster_summary_number(summary->certificate_ratio));
}

int lull_cluster_print_json(json_t *document)
{
    int result = 0;

    if (document == NULL || json_dumpf(document, stdout, JSON_INDENT(2)) < 0)
        result = -ENOMEM;
    else
        putchar('\n');
    json_decref(document);
    return result;
}

int lull_cluster_summary_print_json(const struct lull_cluster_summary *summary, json_t *more)
{
    json_t *root = lull_cluster_summary_json(summary);

    if (root == NULL || more == NULL || json_object_update(root, more) < 0) {
        json_decref(root);
        root = NULL;
    }
    json_decref(more);
    return lull_cluster_print_json(root);
}
