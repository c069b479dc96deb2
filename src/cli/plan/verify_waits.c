/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/plan/verify_waits.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>

static const double close_ratio = 1e-9; /* energies are printed with 9 decimals */

/* What the check knows of the device at hand, place by place. */
struct verify_waits_check {
    const struct lull_plan_file *plan;
    const int64_t *begin_ns;
    const int64_t *end_ns;
    size_t next; /* the next of the plan's waits, which stand by device and time */
    double saved_j;
    bool has_change;  /* whether the device's clock has changed yet */
    int64_t first_ns; /* when it first changed */
    int64_t last_ns;  /* when it last changed */
    char *reason;
    size_t size;
};

static int refuse(const struct verify_waits_check *check, uint32_t device, int64_t time_ns,
                  const char *what)
{
    snprintf(check->reason, check->size, "device %u waits at %.6f s: %s", device,
             (double)time_ns * 1e-9, what);
    return 1;
}

static uint32_t clock_of(const struct lull_plan_file *plan, uint32_t op)
{
    return plan->profile.classes[plan->graph.ops[op].class_index].points[plan->option[op]].sm_mhz;
}

static int change_clock(struct verify_waits_check *check, uint32_t device, int64_t time_ns)
{
    if (check->has_change && time_ns - check->last_ns < check->plan->switching.dwell_ns)
        return refuse(check, device, time_ns, "its clock changes sooner than the dwell allows");
    if (!check->has_change)
        check->first_ns = time_ns;
    check->has_change = true;
    check->last_ns = time_ns;
    return 0;
}

/* Checks a wait against its gap, which lasts from free_ns to gap_end_ns. */
static int check_wait(struct verify_waits_check *check, const struct lull_pipeline_wait *wait,
                      int64_t free_ns, int64_t gap_end_ns)
{
    const struct lull_pipeline_waiting_point *const point =
        &check->plan->waiting_points[wait->point];
    const int64_t low_ns = wait->wake_ns - wait->begin_ns - point->down_ns;
    int result;

    if (wait->begin_ns < free_ns)
        return refuse(check, wait->device, wait->begin_ns, "it is still at work then");
    if (low_ns < 0 || wait->wake_ns + point->up_ns > gap_end_ns)
        return refuse(check, wait->device, wait->begin_ns, "the gap is too short for it");
    check->saved_j +=
        (check->plan->blocking_w[wait->device] - point->power_w) * (double)low_ns * 1e-9 -
        point->switch_j;
    result = change_clock(check, wait->device, wait->begin_ns);
    return result != 0 ? result : change_clock(check, wait->device, wait->wake_ns);
}

static int check_device(struct verify_waits_check *check, uint32_t device)
{
    const struct lull_plan_file *const plan = check->plan;
    const struct lull_pipeline_graph *const graph = &plan->graph;
    const uint32_t end = graph->first_on[device + 1];
    int64_t free_ns = 0;
    uint32_t mhz = 0;
    int result = 0;

    check->has_change = false;
    for (uint32_t k = graph->first_on[device]; k < end; k++)
        if (clock_of(plan, graph->on_device[k]) > 0)
            mhz = clock_of(plan, graph->on_device[k]);
    for (uint32_t k = graph->first_on[device]; k <= end && result == 0; k++) {
        const uint32_t op = k < end ? graph->on_device[k] : UINT32_MAX;
        const uint32_t next_mhz = k < end ? clock_of(plan, op) : 0;
        const struct lull_pipeline_wait *const wait =
            check->next < plan->wait_count ? &plan->waits[check->next] : NULL;

        if (wait != NULL && wait->device == device && wait->before_op == op) {
            result =
                check_wait(check, wait, free_ns, k < end ? check->begin_ns[op] : plan->period_ns);
            check->next++;
        } else if (next_mhz > 0 && next_mhz != mhz) {
            result = change_clock(check, device, free_ns);
        }
        mhz = next_mhz > 0 ? next_mhz : mhz;
        free_ns = k < end ? check->end_ns[op] : free_ns;
    }
    if (result == 0 && check->has_change && check->first_ns != check->last_ns)
        result = change_clock(check, device, plan->period_ns + check->first_ns);
    return result;
}

int lull_plan_verify_waits(const struct lull_plan_file *plan, const int64_t *begin_ns,
                           const int64_t *end_ns, double *saved_out, char *reason,
                           size_t reason_size)
{
    struct verify_waits_check check = {.plan = plan,
                                       .begin_ns = begin_ns,
                                       .end_ns = end_ns,
                                       .reason = reason,
                                       .size = reason_size};
    int result = 0;

    if (plan->wait_count == 0 && plan->waiting_saved_j <= 0.0)
        return 0;
    for (uint32_t device = 0; device < plan->graph.device_count && result == 0; device++)
        result = check_device(&check, device);
    if (result == 0 && check.next < plan->wait_count)
        result = refuse(&check, plan->waits[check.next].device, plan->waits[check.next].begin_ns,
                        "the plan has no such gap, or names it out of order");
    if (result == 0 && !(fabs(check.saved_j - plan->waiting_saved_j) <=
                         close_ratio * (fabs(check.saved_j) + plan->energy_j))) {
        snprintf(reason, reason_size, "it says that waiting saves %.6f J, it saves %.6f J",
                 plan->waiting_saved_j, check.saved_j);
        result = 1;
    }
    if (result == 0)
        *saved_out = check.saved_j;
    return result;
}
