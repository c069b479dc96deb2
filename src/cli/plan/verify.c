/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/plan/verify.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/plan/task.h"
#include "core/pipeline/model/fit.h"
#include "trace/pipeline_profile.h"
#include "trace/plan_file.h"

static const double close_ratio = 1e-9; /* energies are printed with 9 decimals */

/* The result of the replay of a plan. */
struct verify_replay {
    int64_t time_ns;
    double energy_j;
    double bound_j;
    double saved_j;   /* saving by clocks for waiting, which is not in energy_j */
    char reason[288]; /* why the plan does not hold; empty: it does */
};

static struct lull_pipeline_problem problem_of(const struct lull_plan_file *plan)
{
    return (struct lull_pipeline_problem){&plan->profile, &plan->graph, plan->blocking_w};
}

/* ---- another profile --------------------------------------------------------------------- */

static int copy_options(const struct lull_pipeline_class *from,
                        const struct lull_pipeline_class *as, struct lull_pipeline_profile *profile,
                        struct lull_error *err)
{
    for (size_t i = 0; i < from->point_count; i++) {
        const int result = lull_pipeline_profile_add(profile, 0, as->stage, as->kind, as->partner,
                                                     &from->points[i], err);

        if (result < 0)
            return result;
    }
    return 0;
}

/* Fits the plan's classes, in their order, from a measured profile. */
static int fit_classes(const struct lull_plan_file *plan,
                       const struct lull_pipeline_profile *measured,
                       struct lull_pipeline_profile *replaced, struct lull_error *err)
{
    struct lull_pipeline_profile fitted;
    struct lull_pipeline_fit fit = {.measured = measured,
                                    .fitted = &fitted,
                                    .stages = lull_pipeline_profile_stages(&plan->profile),
                                    .parts = (uint32_t)plan->parts,
                                    .input_ratio = 0.5};
    int result = 0;

    lull_pipeline_profile_init(&fitted);
    for (size_t i = 0; i < plan->profile.class_count && result >= 0; i++) {
        const struct lull_pipeline_class *const class = &plan->profile.classes[i];

        if (class->copy != 0)
            result = lull_error_set(err, -EINVAL,
                                    "copies of this plan have profiles of their own: verify it "
                                    "without --profile");
        if (result < 0)
            break;
        if (class->kind == LULL_PIPELINE_FIXED) {
            result = copy_options(class, class, replaced, err);
            continue;
        }
        result = lull_pipeline_fit_class(&fit, class->stage, class->kind, class->partner, err);
        if (result >= 0)
            result = copy_options(&fitted.classes[result], class, replaced, err);
    }
    lull_pipeline_profile_fini(&fitted);
    return result < 0 ? result : 0;
}

/* Finds the plan's clocks among the options of another profile. */
static int plan_verify_translate(struct lull_plan_file *plan,
                                 const struct lull_pipeline_profile *replaced, const char *name,
                                 struct lull_error *err)
{
    for (size_t op = 0; op < plan->graph.op_count; op++) {
        const uint32_t index = plan->graph.ops[op].class_index;
        const struct lull_pipeline_class *const class = &replaced->classes[index];
        const uint32_t mhz = plan->profile.classes[index].points[plan->option[op]].sm_mhz;
        const uint32_t option = lull_pipeline_point_at(class, mhz);

        if (option == UINT32_MAX)
            return lull_error_set(err, LULL_E_FORMAT,
                                  "%s: has no %u MHz for %s of stage %u, which the plan runs at",
                                  name, mhz, lull_pipeline_kind_name(class->kind), class->stage);
        plan->option[op] = option;
    }
    return 0;
}

/* The plan keeps its clocks; only their times and energies are those of the other profile. */
static int replace_profile(struct lull_plan_file *plan, const char *path, struct lull_error *err)
{
    struct lull_pipeline_profile measured;
    struct lull_pipeline_profile replaced;
    struct lull_pipeline_profile before;
    int result = lull_plan_profile_read(path, &measured, err);

    if (result < 0)
        return result;
    lull_pipeline_profile_init(&replaced);
    result = fit_classes(plan, &measured, &replaced, err);
    if (result < 0)
        goto done;
    result = plan_verify_translate(plan, &replaced, path, err);
    if (result < 0)
        goto done;
    before = plan->profile;
    plan->profile = replaced;
    replaced = before;
done:
    lull_pipeline_profile_fini(&replaced);
    lull_pipeline_profile_fini(&measured);
    return result;
}

/* ---- replaying --------------------------------------------------------------------------- */

static uint32_t plan_verify_clock_of(const struct lull_plan_file *plan, uint32_t op)
{
    return plan->profile.classes[plan->graph.ops[op].class_index].points[plan->option[op]].sm_mhz;
}

/* Checks that a device keeps each clock for at least its dwell. It changes its clock where one
 * operation ends and the next one needs another clock, and for the first one where the iteration
 * begins. */
static void check_dwell(const struct lull_plan_file *plan, uint32_t device, const int64_t *end_ns,
                        struct verify_replay *replay)
{
    const struct lull_pipeline_graph *const graph = &plan->graph;
    const uint32_t first = graph->first_on[device];
    const uint32_t last = graph->first_on[device + 1];
    int64_t changed_ns = INT64_MIN / 2;

    for (uint32_t i = first; i < last; i++) {
        const uint32_t before = graph->on_device[i == first ? last - 1 : i - 1];
        const int64_t now_ns = i == first ? 0 : end_ns[before];

        if (plan_verify_clock_of(plan, before) == plan_verify_clock_of(plan, graph->on_device[i]))
            continue;
        if (now_ns - changed_ns < plan->switching.dwell_ns)
            snprintf(replay->reason, sizeof(replay->reason),
                     "device %u changes its clock at %.6f s and again at %.6f s, sooner than the "
                     "dwell of %.6f s",
                     device, (double)changed_ns * 1e-9, (double)now_ns * 1e-9,
                     (double)plan->switching.dwell_ns * 1e-9);
        changed_ns = now_ns;
    }
}

/* ---- clocks in gaps ----------------------------------------------------------------------- */

/* State of the check for the current device, place by place. */
struct verify_waits_check {
    const struct lull_plan_file *plan;
    const int64_t *begin_ns;
    const int64_t *end_ns;
    size_t next; /* the next of the plan's waits, which stand by device and time */
    double saved_j;
    bool has_change;  /* the device's clock has changed already */
    int64_t first_ns; /* when it first changed */
    int64_t last_ns;  /* when it last changed */
    struct verify_replay *replay;
};

static int refuse_wait(const struct verify_waits_check *check, uint32_t device, int64_t time_ns,
                       const char *what)
{
    snprintf(check->replay->reason, sizeof(check->replay->reason), "device %u waits at %.6f s: %s",
             device, (double)time_ns * 1e-9, what);
    return 1;
}

static int plan_verify_change_clock(struct verify_waits_check *check, uint32_t device,
                                    int64_t time_ns)
{
    if (check->has_change && time_ns - check->last_ns < check->plan->switching.dwell_ns)
        return refuse_wait(check, device, time_ns,
                           "its clock changes sooner than the dwell allows");
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
        return refuse_wait(check, wait->device, wait->begin_ns, "it is still at work then");
    if (low_ns < 0 || wait->wake_ns + point->up_ns > gap_end_ns)
        return refuse_wait(check, wait->device, wait->begin_ns, "the gap is too short for it");
    check->saved_j +=
        (check->plan->blocking_w[wait->device] - point->power_w) * (double)low_ns * 1e-9 -
        point->switch_j;
    result = plan_verify_change_clock(check, wait->device, wait->begin_ns);
    return result != 0 ? result : plan_verify_change_clock(check, wait->device, wait->wake_ns);
}

/* Walks through the device's gaps as a job would: the clock changes at a wait's two ends, or where
 * the next operation has another clock. */
static int check_waits_of_device(struct verify_waits_check *check, uint32_t device)
{
    const struct lull_plan_file *const plan = check->plan;
    const struct lull_pipeline_graph *const graph = &plan->graph;
    const uint32_t end = graph->first_on[device + 1];
    int64_t free_ns = 0;
    uint32_t mhz = 0;
    int result = 0;

    check->has_change = false;
    for (uint32_t k = graph->first_on[device]; k < end; k++)
        if (plan_verify_clock_of(plan, graph->on_device[k]) > 0)
            mhz = plan_verify_clock_of(plan, graph->on_device[k]);
    for (uint32_t k = graph->first_on[device]; k <= end && result == 0; k++) {
        const uint32_t op = k < end ? graph->on_device[k] : UINT32_MAX;
        const uint32_t next_mhz = k < end ? plan_verify_clock_of(plan, op) : 0;
        const struct lull_pipeline_wait *const wait =
            check->next < plan->wait_count ? &plan->waits[check->next] : NULL;

        if (wait != NULL && wait->device == device && wait->before_op == op) {
            result =
                check_wait(check, wait, free_ns, k < end ? check->begin_ns[op] : plan->period_ns);
            check->next++;
        } else if (next_mhz > 0 && next_mhz != mhz) {
            result = plan_verify_change_clock(check, device, free_ns);
        }
        mhz = next_mhz > 0 ? next_mhz : mhz;
        free_ns = k < end ? check->end_ns[op] : free_ns;
    }
    if (result == 0 && check->has_change && check->first_ns != check->last_ns)
        result = plan_verify_change_clock(check, device, plan->period_ns + check->first_ns);
    return result;
}

/*
 * Finds every wait's gap in the replayed times of operations, checks that the device can wait there
 * as the plan says, and adds up what it saves in replay->saved_j; otherwise reports the reason.
 */
static void check_waits(const struct lull_plan_file *plan, const int64_t *begin_ns,
                        const int64_t *end_ns, struct verify_replay *replay)
{
    struct verify_waits_check check = {
        .plan = plan, .begin_ns = begin_ns, .end_ns = end_ns, .replay = replay};

    if (plan->wait_count == 0 && plan->waiting_saved_j <= 0.0)
        return;
    for (uint32_t device = 0; device < plan->graph.device_count; device++)
        if (check_waits_of_device(&check, device) != 0)
            return;
    if (check.next < plan->wait_count) {
        refuse_wait(&check, plan->waits[check.next].device, plan->waits[check.next].begin_ns,
                    "the plan has no such gap, or names it out of order");
        return;
    }
    if (!(fabs(check.saved_j - plan->waiting_saved_j) <=
          close_ratio * (fabs(check.saved_j) + plan->energy_j))) {
        snprintf(replay->reason, sizeof(replay->reason),
                 "it says that waiting saves %.6f J, it saves %.6f J", plan->waiting_saved_j,
                 check.saved_j);
        return;
    }
    replay->saved_j = check.saved_j;
}

/* ---- the replay --------------------------------------------------------------------------- */

/* Times come only from the replay. They are compared with the claims of the file later. */
static int replay_time(const struct lull_plan_file *plan, struct verify_replay *replay)
{
    const struct lull_pipeline_problem problem = problem_of(plan);
    int64_t *const begin_ns = calloc(plan->graph.op_count, sizeof(*begin_ns));
    int64_t *const end_ns = calloc(plan->graph.op_count, sizeof(*end_ns));

    replay->time_ns = -ENOMEM;
    if (begin_ns != NULL && end_ns != NULL)
        replay->time_ns = lull_pipeline_switching_timeline(&problem, &plan->switching, plan->option,
                                                           begin_ns, end_ns);
    for (uint32_t device = 0; device < plan->graph.device_count && replay->time_ns >= 0; device++)
        check_dwell(plan, device, end_ns, replay);
    if (replay->time_ns >= 0 && replay->reason[0] == '\0')
        check_waits(plan, begin_ns, end_ns, replay);
    free(begin_ns);
    free(end_ns);
    return replay->time_ns < 0 ? (int)replay->time_ns : 0;
}

static void replay_proof(const struct lull_plan_file *plan, struct verify_replay *replay)
{
    const struct lull_pipeline_problem problem = problem_of(plan);
    struct lull_error err = {0};

    if (lull_certificate_check(&plan->certificate, &plan->graph, &err) < 0) {
        snprintf(replay->reason, sizeof(replay->reason), "its flow proves nothing: %.200s",
                 err.text);
        return;
    }
    replay->bound_j =
        lull_certificate_bound(&plan->certificate, &problem, replay->time_ns) +
        (plan->period_ns > replay->time_ns ? lull_pipeline_blocking_sum_w(&problem) *
                                                 (double)(plan->period_ns - replay->time_ns) * 1e-9
                                           : 0.0);
}

/* Reports the first claim that does not hold. Later failures mostly follow from it. */
static void plan_verify_judge(const struct lull_plan_file *plan, struct verify_replay *replay)
{
    char *const reason = replay->reason;
    const size_t size = sizeof(replay->reason);

    if (replay->time_ns != plan->time_ns)
        snprintf(reason, size, "it says that it takes %.9f s, it takes %.9f s",
                 (double)plan->time_ns * 1e-9, (double)replay->time_ns * 1e-9);
    else if (replay->time_ns > plan->deadline_ns)
        snprintf(reason, size, "it takes %.9f s, its deadline is %.9f s",
                 (double)replay->time_ns * 1e-9, (double)plan->deadline_ns * 1e-9);
    else if (!(fabs(replay->energy_j - plan->energy_j) <= close_ratio * fabs(replay->energy_j)))
        snprintf(reason, size, "it says that it needs %.6f J, it needs %.6f J", plan->energy_j,
                 replay->energy_j);
    else if (!(plan->bound_j <= replay->bound_j + close_ratio * fabs(replay->bound_j)))
        snprintf(reason, size, "it says that none needs less than %.6f J, its flow proves %.6f J",
                 plan->bound_j, replay->bound_j);
}

static int replay_plan(const struct lull_plan_file *plan, struct verify_replay *replay)
{
    const struct lull_pipeline_problem problem = problem_of(plan);
    const int result = replay_time(plan, replay);
    struct lull_pipeline_cost cost;

    if (result < 0)
        return result;
    cost = lull_pipeline_plan_cost(&problem, plan->option,
                                   plan->period_ns > replay->time_ns ? plan->period_ns
                                                                     : replay->time_ns);
    if (cost.time_ns < 0)
        return (int)cost.time_ns;
    replay->energy_j =
        cost.energy_j + lull_pipeline_switching_energy_j(&problem, &plan->switching, plan->option);
    if (replay->reason[0] == '\0')
        replay_proof(plan, replay);
    if (replay->reason[0] == '\0')
        plan_verify_judge(plan, replay);
    return 0;
}

/* ---- telling ----------------------------------------------------------------------------- */

static void plan_verify_print_json(const struct lull_plan_file *plan,
                                   const struct verify_replay *replay)
{
    const bool holds = replay->reason[0] == '\0';

    printf("{\"holds\": %s, \"time_s\": %.9f, \"energy_j\": %.9f, \"bound_j\": %.9f, "
           "\"gap_ratio\": %.9g",
           holds ? "true" : "false", (double)replay->time_ns * 1e-9, replay->energy_j,
           replay->bound_j, replay->bound_j > 0.0 ? replay->energy_j / replay->bound_j - 1.0 : 0.0);
    if (plan->waiting_point_count > 0)
        printf(", \"waiting_saved_j\": %.9f", replay->saved_j);
    if (!holds)
        printf(", \"reason\": \"%s\"", replay->reason);
    printf("}\n");
}

static void plan_verify_print_text(const char *path, const struct lull_plan_file *plan,
                                   const struct verify_replay *replay)
{
    if (plan->title[0] != '\0')
        printf("%s\n", plan->title);
    printf("%zu operations on %u devices: %.6f s, %.3f J", plan->graph.op_count,
           plan->graph.device_count, (double)replay->time_ns * 1e-9, replay->energy_j);
    if (replay->saved_j > 0.0)
        printf(", %.3f J less by clocks for waiting", replay->saved_j);
    if (replay->reason[0] == '\0')
        printf("; no plan as fast needs less than %.3f J (%.3f %% below)\n%s holds.\n",
               replay->bound_j, 100.0 * (1.0 - replay->bound_j / replay->energy_j), path);
    else
        printf("\n");
}

int lull_plan_verify(const char *path, const char *profile, bool is_json, struct lull_error *err)
{
    struct lull_plan_file plan;
    struct verify_replay replay = {0};
    int result = lull_plan_file_read(path, &plan, err);

    if (result < 0)
        return result;
    if (profile != NULL) {
        result = replace_profile(&plan, profile, err);
        if (result < 0)
            goto done;
    }
    result = replay_plan(&plan, &replay);
    if (result < 0)
        goto done;
    if (is_json)
        plan_verify_print_json(&plan, &replay);
    else
        plan_verify_print_text(path, &plan, &replay);
    if (replay.reason[0] != '\0') {
        fprintf(stderr, "lull plan: %s does not hold: %s\n", path, replay.reason);
        result = 1;
    }
done:
    if (result == -ENOMEM)
        lull_error_set(err, result, "%s: no memory to replay it", path);
    lull_plan_file_fini(&plan);
    return result;
}
