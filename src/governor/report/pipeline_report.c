/* Reports what a pipeline's plan promised, what came of it, and what was done about stragglers.
 * SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "governor/report/report_fields.h"
#include "governor/report/report_parts.h"
#include "governor/run/run_statistics.h"

enum { REFERENCE, PLANNED, SIDES };

/* The measured iterations at the reference, or at the plan. */
struct side {
    uint64_t iterations;
    double time_s;
    double energy_j;
    bool has_energy;
};

struct outcome {
    struct side sides[SIDES];
    struct lull_guard_estimate slowdown;
};

/* ---- measurements ------------------------------------------------------------------------ */

static void pipeline_report_add_stretch(const struct lull_control *control,
                                        const struct lull_plan_controller_iteration *first,
                                        const struct lull_plan_controller_iteration *last,
                                        struct side *side)
{
    double energy_j;

    if (!lull_run_statistics_energy_between(control, first->begin_ns, last->end_ns, &energy_j))
        return;
    side->has_energy = true;
    side->iterations += (uint64_t)(last - first) + 1;
    side->time_s += (double)(last->end_ns - first->begin_ns) * 1e-9;
    side->energy_j += energy_j;
}

/* Measures neighbouring iterations of one kind as one stretch, because the energy counter is
 * coarse. */
static struct outcome pipeline_report_measure(const struct lull_control *control,
                                              const struct lull_plan_runner *runner)
{
    const int32_t plan = lull_plan_controller_plan(lull_plan_runner_plan_controller(runner));
    struct outcome outcome = {.slowdown = {.slowdown_ratio = NAN, .upper_ratio = NAN}};
    size_t count;
    const struct lull_plan_controller_iteration *iterations =
        lull_plan_runner_recorded(runner, &count);

    for (size_t i = 0; i < count;) {
        const size_t first = i;

        while (i < count && iterations[i].is_measured && iterations[i].is_whole &&
               iterations[i].plan == iterations[first].plan &&
               (i == first || iterations[i].begin_ns == iterations[i - 1].end_ns))
            i++;
        if (i == first)
            i++;
        else if (iterations[first].plan < 0 || iterations[first].plan == plan)
            pipeline_report_add_stretch(
                control, &iterations[first], &iterations[i - 1],
                &outcome.sides[iterations[first].plan < 0 ? REFERENCE : PLANNED]);
    }
    lull_plan_controller_slowdown(lull_plan_runner_plan_controller(runner), &outcome.slowdown);
    return outcome;
}

static double pipeline_report_saving(const struct outcome *outcome)
{
    const struct side *reference = &outcome->sides[REFERENCE];
    const struct side *planned = &outcome->sides[PLANNED];

    if (!reference->has_energy || !planned->has_energy)
        return NAN;
    return 1.0 - planned->energy_j / (double)planned->iterations /
                     (reference->energy_j / (double)reference->iterations);
}

bool lull_pipeline_report_is_kept(const struct lull_report *report)
{
    const struct lull_plan_controller *plan_controller =
        lull_plan_runner_plan_controller(report->runner);

    return plan_controller != NULL &&
           lull_plan_controller_phase(plan_controller) == LULL_PLAN_CONTROLLER_KEPT;
}

/* ---- the plan ---------------------------------------------------------------------------- */

/* Returns why the plan was withdrawn, now or before; empty: it never was. */
static const char *trouble_text(const struct lull_plan_controller *plan_controller,
                                uint32_t *withdrawals_out)
{
    static const char *const texts[] = {
        [LULL_PLAN_CONTROLLER_NO_TROUBLE] = "",
        [LULL_PLAN_CONTROLLER_BLOCKS] = "driver calls block for too long",
        [LULL_PLAN_CONTROLLER_DISOBEYS] = "a GPU's clock does not follow",
    };

    return texts[lull_plan_controller_trouble(plan_controller, withdrawals_out)];
}

static const char *pipeline_report_state_text(const struct lull_plan_runner *runner)
{
    static const char *const texts[] = {
        [LULL_PLAN_CONTROLLER_WAITING] = "no iteration was found",
        [LULL_PLAN_CONTROLLER_WARMING] = "the run ended before it was tried",
        [LULL_PLAN_CONTROLLER_TRYING] = "the run ended while it was tried",
        [LULL_PLAN_CONTROLLER_KEPT] = "kept",
        [LULL_PLAN_CONTROLLER_GIVEN_UP] = "rejected: a slowdown could not be ruled out",
        [LULL_PLAN_CONTROLLER_WITHDRAWN] = "withdrawn: the driver is not reliable",
    };

    if (lull_plan_runner_plan_controller(runner) == NULL)
        return "not executed";
    return texts[lull_plan_controller_phase(lull_plan_runner_plan_controller(runner))];
}

/* Counts the operations of one kind on a device by their clock, the highest clock first. */
static json_t *clocks_json(const struct lull_plan_file *plan, uint32_t device,
                           enum lull_pipeline_kind kind)
{
    const struct lull_pipeline_graph *graph = &plan->graph;
    json_t *clocks = json_array();
    uint32_t below_mhz = UINT32_MAX;

    for (;;) {
        uint32_t highest_mhz = 0;
        json_int_t count = 0;
        json_t *object;

        for (uint32_t i = graph->first_on[device]; i < graph->first_on[device + 1]; i++) {
            const uint32_t op = graph->on_device[i];
            const struct lull_pipeline_class *class =
                &plan->profile.classes[graph->ops[op].class_index];
            const uint32_t mhz = class->points[plan->option[op]].sm_mhz;

            if (class->kind != kind || mhz >= below_mhz || mhz < highest_mhz)
                continue;
            count = mhz > highest_mhz ? 1 : count + 1;
            highest_mhz = mhz;
        }
        if (highest_mhz == 0)
            return clocks;
        object = json_object();
        lull_field_integer(object, "sm_mhz", highest_mhz);
        lull_field_integer(object, "operations", count);
        json_array_append_new(clocks, object);
        below_mhz = highest_mhz;
    }
}

static json_t *stage_json(const struct lull_plan_file *plan, uint32_t gpu, uint32_t device)
{
    json_t *object = json_object();
    json_t *clocks = json_object();

    for (enum lull_pipeline_kind kind = 0; kind < LULL_PIPELINE_KINDS; kind++) {
        json_t *of_kind = clocks_json(plan, device, kind);

        if (kind == LULL_PIPELINE_FIXED || json_array_size(of_kind) == 0)
            json_decref(of_kind);
        else
            lull_field_json(clocks, lull_pipeline_kind_name(kind), of_kind);
    }
    lull_field_integer(object, "gpu", gpu);
    lull_field_integer(object, "device", device);
    lull_field_json(object, "clocks", clocks);
    return object;
}

static json_t *stages_json(const struct lull_report *report, const struct lull_plan_file *plan)
{
    json_t *stages = json_array();

    for (uint32_t i = 0; i < lull_control_gpu_count(report->managed); i++) {
        const int32_t device = lull_plan_runner_device(report->runner, i);
        const uint32_t gpu = lull_control_gpu(report->managed, i)->device;

        if (device >= 0)
            json_array_append_new(stages, stage_json(plan, gpu, (uint32_t)device));
    }
    return stages;
}

static double highest_time_s(const struct lull_plan_file *plan, double *energy_out)
{
    const struct lull_pipeline_problem problem = {&plan->profile, &plan->graph, plan->blocking_w};
    uint32_t *highest = calloc(plan->graph.op_count, sizeof(highest[0]));
    struct lull_pipeline_cost cost = {.time_ns = 0, .energy_j = NAN};

    if (highest != NULL) {
        lull_pipeline_plan_highest(&problem, highest);
        cost = lull_pipeline_plan_cost(&problem, highest, 0);
    }
    free(highest);
    *energy_out = cost.energy_j;
    return (double)cost.time_ns * 1e-9;
}

static json_t *predicted_json(const struct lull_plan_file *plan)
{
    double highest_j;
    const double highest_s = highest_time_s(plan, &highest_j);
    const double time_s = (double)plan->time_ns * 1e-9;
    json_t *object = json_object();

    lull_field_number(object, "time_s", time_s);
    lull_field_number(object, "energy_j", plan->energy_j);
    lull_field_number(object, "all_max_time_s", highest_s);
    lull_field_number(object, "all_max_energy_j", highest_j);
    lull_field_number(object, "saving_ratio", 1.0 - plan->energy_j / highest_j);
    lull_field_number(object, "slowdown_ratio", time_s / highest_s - 1.0);
    return object;
}

static json_t *pipeline_report_side_json(const struct side *side)
{
    const double count = (double)side->iterations;
    json_t *object = json_object();

    lull_field_integer(object, "iterations", (json_int_t)side->iterations);
    lull_field_number(object, "iteration_ms", side->time_s * 1e3 / count);
    lull_field_known(object, "energy_per_iteration_j", side->energy_j / count, side->has_energy);
    return object;
}

static json_t *slowdown_json(const struct lull_guard_estimate *slowdown, double confidence,
                             uint64_t seed)
{
    json_t *object = json_object();

    lull_field_known(object, "slowdown_ratio", slowdown->slowdown_ratio, slowdown->pairs > 0);
    lull_field_known(object, "slowdown_upper_ratio", slowdown->upper_ratio, slowdown->pairs >= 2);
    lull_field_integer(object, "pairs", (json_int_t)slowdown->pairs);
    lull_field_number(object, "confidence_ratio", confidence);
    lull_field_integer(object, "seed", (json_int_t)seed);
    return object;
}

/* ---- stragglers -------------------------------------------------------------------------- */

static json_t *stragglers_json(const struct lull_report *report)
{
    struct lull_straggler_response_summary summary;
    json_t *object;

    if (report->response == NULL)
        return json_null();
    object = json_object();
    lull_straggler_response_summary(report->response, report->managed, report->runner, &summary);
    lull_field_integer(object, "replans", summary.replans);
    lull_field_integer(object, "iterations", (json_int_t)summary.iterations);
    lull_field_number(object, "slowest_replan_ms", summary.slowest_ms);
    lull_field_number(object, "saved_j", summary.saved_j);
    lull_field_number(object, "saving_ratio", summary.saved_ratio);
    lull_field_number(object, "lost_ms", summary.lost_ms);
    lull_field_integer(object, "refuted", summary.refuted);
    return object;
}

static void print_stragglers(const struct lull_report *report, FILE *out)
{
    struct lull_straggler_response_summary summary;

    if (report->response == NULL)
        return;
    lull_straggler_response_summary(report->response, report->managed, report->runner, &summary);
    if (summary.replans == 0)
        return;
    fprintf(out,
            "    stragglers: replanned %u time%s, within %.1f ms; %" PRIu64 " iterations stretched",
            summary.replans, summary.replans == 1 ? "" : "s", summary.slowest_ms,
            summary.iterations);
    if (isfinite(summary.saved_j))
        fprintf(out, ", saved %.0f J (%.1f %%)", summary.saved_j, 100.0 * summary.saved_ratio);
    fprintf(out, ", lost at most %.0f ms\n", summary.lost_ms);
}

/* ---- all together ------------------------------------------------------------------------ */

/* Returns the plan that was executed, or the last one that was given up; NULL: none was tried.
 */
static const struct lull_plan_file *find_plan(const struct lull_plan_runner *runner)
{
    const int32_t index = lull_plan_controller_plan(lull_plan_runner_plan_controller(runner));
    const struct lull_plan_file *plan = NULL;

    if (index >= 0)
        return lull_plan_runner_plan(runner, (uint32_t)index);
    for (uint32_t i = 0; i < LULL_PLAN_RUNNER_MAX_CONDUCTED; i++)
        if (lull_plan_runner_plan(runner, i) != NULL)
            plan = lull_plan_runner_plan(runner, i);
    return plan;
}

/* A plan is accepted if it exceeds its own predicted time by less than the tolerance. */
static double pipeline_report_allowed_of(const struct lull_report *report,
                                         const struct lull_plan_file *plan)
{
    double highest_j;

    if (plan == NULL)
        return (double)NAN;
    return (double)plan->time_ns * 1e-9 / highest_time_s(plan, &highest_j) - 1.0 +
           report->tolerance_ratio;
}

struct lull_report_gain lull_pipeline_report_gain(const struct lull_report *report)
{
    struct lull_report_gain gain = lull_report_no_gain(
        "no iterations with and without the plan were measured together; use --compare");
    struct outcome outcome;

    if (!lull_pipeline_report_is_kept(report))
        return gain;
    outcome = pipeline_report_measure(report->managed, report->runner);
    gain.allowed_ratio = pipeline_report_allowed_of(report, find_plan(report->runner));
    if (isfinite(pipeline_report_saving(&outcome))) {
        gain.basis = "iterations at the plan and at the highest clocks in between";
        gain.saving_ratio = pipeline_report_saving(&outcome);
        gain.saving_reason = NULL;
    }
    if (outcome.slowdown.pairs >= 2) {
        gain.slowdown_ratio = outcome.slowdown.slowdown_ratio;
        gain.slowdown_upper_ratio = outcome.slowdown.upper_ratio;
        gain.slowdown_reason = NULL;
    }
    return gain;
}

static json_t *carried_out_json(const struct lull_report *report, const struct lull_plan_file *plan)
{
    const struct lull_plan_controller *plan_controller =
        lull_plan_runner_plan_controller(report->runner);
    const struct outcome outcome = pipeline_report_measure(report->managed, report->runner);
    uint32_t withdrawals;
    const char *const trouble = trouble_text(plan_controller, &withdrawals);
    json_t *object = json_object();

    lull_field_text(object, "plan", plan->title);
    lull_field_text(object, "planner", plan->planner[0] != '\0' ? plan->planner : NULL);
    lull_field_text(object, "state", pipeline_report_state_text(report->runner));
    lull_field_integer(object, "plan_index", lull_plan_controller_plan(plan_controller));
    lull_field_json(object, "predicted", predicted_json(plan));
    lull_field_json(object, "stages", stages_json(report, plan));
    lull_field_number(object, "saving_ratio", pipeline_report_saving(&outcome));
    lull_field_json(object, "reference", pipeline_report_side_json(&outcome.sides[REFERENCE]));
    lull_field_json(object, "planned", pipeline_report_side_json(&outcome.sides[PLANNED]));
    lull_field_json(object, "slowdown",
                    slowdown_json(&outcome.slowdown, report->confidence,
                                  lull_plan_controller_seed(plan_controller)));
    lull_field_integer(object, "late_raisings",
                       (json_int_t)lull_plan_controller_late(plan_controller));
    lull_field_integer(object, "withdrawals", withdrawals);
    lull_field_text(object, "trouble", trouble);
    return object;
}

static json_t *state_json(const char *state)
{
    json_t *object = json_object();

    lull_field_text(object, "state", state);
    return object;
}

json_t *lull_pipeline_report_json(const struct lull_report *report)
{
    const struct lull_plan_file *plan;
    uint32_t profiled = 0;
    bool is_done = true;
    json_t *object;

    if (report->managed == NULL || report->runner == NULL)
        return json_null();
    if (lull_plan_runner_plan_controller(report->runner) == NULL)
        return state_json(pipeline_report_state_text(report->runner));
    if (report->online != NULL)
        profiled = lull_online_iterations(report->online, &is_done);
    plan = is_done ? find_plan(report->runner) : NULL;
    if (plan == NULL)
        object = state_json("the run ended while it was profiled");
    else
        object = carried_out_json(report, plan);
    if (report->online != NULL)
        lull_field_integer(object, "profiled_iterations", profiled);
    if (plan != NULL)
        lull_field_json(object, "stragglers", stragglers_json(report));
    return object;
}

static void pipeline_report_print_outcome(const struct outcome *outcome, FILE *out)
{
    const struct lull_guard_estimate *slowdown = &outcome->slowdown;

    if (!isfinite(pipeline_report_saving(outcome)))
        return;
    fprintf(
        out,
        "    energy per iteration against iterations at the highest clock in between: %.2f %% %s",
        fabs(pipeline_report_saving(outcome)) * 100.0,
        pipeline_report_saving(outcome) < 0.0 ? "more" : "less");
    if (slowdown->pairs >= 2)
        fprintf(out, ", slowdown %+.2f %% (at most %.2f %%)", slowdown->slowdown_ratio * 100.0,
                slowdown->upper_ratio * 100.0);
    fprintf(out, "\n");
}

void lull_pipeline_report_print(const struct lull_report *report, FILE *out)
{
    const struct lull_plan_runner *runner = report->runner;
    const struct lull_plan_file *plan = NULL;
    struct outcome outcome;
    uint32_t withdrawals;
    const char *trouble;

    if (runner == NULL)
        return;
    if (lull_plan_runner_plan_controller(runner) != NULL)
        plan = find_plan(runner);
    if (plan != NULL && plan->planner[0] != '\0')
        fprintf(out, "  pipeline plan of %s: %s\n", plan->planner,
                pipeline_report_state_text(runner));
    else
        fprintf(out, "  pipeline plan: %s\n", pipeline_report_state_text(runner));
    if (lull_plan_runner_plan_controller(runner) == NULL)
        return;
    trouble = trouble_text(lull_plan_runner_plan_controller(runner), &withdrawals);
    if (withdrawals > 0)
        fprintf(out, "    withdrawn %u time%s: %s\n", withdrawals, withdrawals > 1 ? "s" : "",
                trouble);
    outcome = pipeline_report_measure(report->managed, runner);
    pipeline_report_print_outcome(&outcome, out);
    print_stragglers(report, out);
}
