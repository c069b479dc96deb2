/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/plan/proof.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/watch.h"
#include "core/pipeline/prove/prove.h"

static bool show_progress(void *user, const struct lull_proof_report *report)
{
    if (lull_watch_is_due(user))
        lull_watch_draw("lull plan: %" PRIu64 " branchings, more than %.3f J is proven",
                        report->branchings, report->proven_j);
    return true;
}

static void print_json(int64_t deadline_ns, double energy_j, const struct lull_proof_report *report,
                       const struct lull_pipeline_cost *found)
{
    static const char *const outcomes[] = {"none", "found", "undecided"};

    printf("{\"deadline_s\": %.9f, \"prove_j\": %.9f, \"outcome\": \"%s\", \"bound_j\": %.9f, "
           "\"proven_j\": %.9f, \"branchings\": %" PRIu64 ", \"closed\": %" PRIu64
           ", \"done_ratio\": %.9g",
           (double)deadline_ns * 1e-9, energy_j, outcomes[report->outcome], report->bound_j,
           report->proven_j, report->branchings, report->closed, report->done_ratio);
    if (report->outcome == LULL_PROOF_FOUND)
        printf(", \"time_s\": %.9f, \"energy_j\": %.9f", (double)found->time_ns * 1e-9,
               found->energy_j);
    printf("}\n");
}

static void print_text(const struct lull_plan_task *task, int64_t deadline_ns, double energy_j,
                       const struct lull_proof_report *report,
                       const struct lull_pipeline_cost *found)
{
    printf("%s\n\n", task->title);
    switch (report->outcome) {
    case LULL_PROOF_NONE:
        printf("Proven: no plan within %.6f s needs %.3f J or less (the flow alone proves %.3f J",
               (double)deadline_ns * 1e-9, energy_j, report->bound_j);
        break;
    case LULL_PROOF_FOUND:
        printf("There is such a plan: %.6f s, %.3f J (the flow proves %.3f J",
               (double)found->time_ns * 1e-9, found->energy_j, report->bound_j);
        break;
    default:
        printf("Not decided: whether a plan within %.6f s needs %.3f J or less (the flow proves "
               "%.3f J, the search %.3f J so far",
               (double)deadline_ns * 1e-9, energy_j, report->bound_j, report->proven_j);
    }
    printf("; %" PRIu64 " branchings).\n", report->branchings);
}

int lull_plan_prove(const struct lull_plan_task *task, int64_t deadline_ns, double energy_j,
                    uint64_t branchings_limit, bool is_json, struct lull_error *err)
{
    uint32_t *option = calloc(task->graph.op_count, sizeof(*option));
    const struct lull_proof_limits limits = {branchings_limit, LULL_PROOF_WINDOW_OPS};
    struct lull_watch watch = lull_watch_begin();
    struct lull_proof_report report;
    struct lull_pipeline_cost found = {0};
    int result = option == NULL
                     ? -ENOMEM
                     : lull_pipeline_prove(&task->problem, deadline_ns, energy_j, &limits,
                                           show_progress, &watch, option, &report, err);

    lull_watch_end(&watch);
    if (result == 0 && report.outcome == LULL_PROOF_FOUND) {
        found = lull_pipeline_plan_cost(&task->problem, option, 0);
        result = found.time_ns < 0 ? (int)found.time_ns : 0;
    }
    free(option);
    if (result < 0)
        return result;
    if (is_json)
        print_json(deadline_ns, energy_j, &report, &found);
    else
        print_text(task, deadline_ns, energy_j, &report, &found);
    return report.outcome == LULL_PROOF_UNDECIDED ? 1 : 0;
}
