/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/report/pipeline_report.h"

#include <math.h>
#include <stdlib.h>

#include "base/clock.h"

enum { REFERENCE, PLANNED, SIDES };

/* Iterations of one side that were measured. */
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

static json_t *number_or_null(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

/* ---- what was measured ------------------------------------------------------------------- */

bool lull_pipeline_energy_between(const struct lull_control *control, int64_t begin_ns,
                                  int64_t end_ns, double *energy_out)
{
    double sum_j = 0.0;

    for (uint32_t i = 0; i < lull_control_gpu_count(control); i++) {
        double begin_j;
        double end_j;

        if (lull_control_gpu(control, i)->process < 0)
            continue;
        if (!lull_run_log_energy_j(lull_control_log(control, i), begin_ns, &begin_j) ||
            !lull_run_log_energy_j(lull_control_log(control, i), end_ns, &end_j))
            return false;
        sum_j += end_j - begin_j;
    }
    *energy_out = sum_j;
    return true;
}

static void add_stretch(const struct lull_control *control,
                        const struct lull_conductor_iteration *first,
                        const struct lull_conductor_iteration *last, struct side *side)
{
    double energy_j;

    if (!lull_pipeline_energy_between(control, first->begin_ns, last->end_ns, &energy_j))
        return;
    side->has_energy = true;
    side->iterations += (uint64_t)(last - first) + 1;
    side->time_s += (double)(last->end_ns - first->begin_ns) * 1e-9;
    side->energy_j += energy_j;
}

/* Neighbours of one kind are one stretch: the energy counter is coarse. */
static struct outcome measure(const struct lull_control *control,
                              const struct lull_plan_runner *runner)
{
    const int32_t plan = lull_conductor_plan(lull_plan_runner_conductor(runner));
    struct outcome outcome = {.slowdown = {.slowdown_ratio = NAN, .upper_ratio = NAN}};
    size_t count;
    const struct lull_conductor_iteration *iterations = lull_plan_runner_recorded(runner, &count);

    for (size_t i = 0; i < count;) {
        const size_t first = i;

        while (i < count && iterations[i].is_measured && iterations[i].is_whole &&
               iterations[i].plan == iterations[first].plan &&
               (i == first || iterations[i].begin_ns == iterations[i - 1].end_ns))
            i++;
        if (i == first)
            i++;
        else if (iterations[first].plan < 0 || iterations[first].plan == plan)
            add_stretch(control, &iterations[first], &iterations[i - 1],
                        &outcome.sides[iterations[first].plan < 0 ? REFERENCE : PLANNED]);
    }
    lull_conductor_slowdown(lull_plan_runner_conductor(runner), &outcome.slowdown);
    return outcome;
}

static double saving(const struct outcome *outcome)
{
    const struct side *reference = &outcome->sides[REFERENCE];
    const struct side *planned = &outcome->sides[PLANNED];

    if (!reference->has_energy || !planned->has_energy)
        return NAN;
    return 1.0 - planned->energy_j / (double)planned->iterations /
                     (reference->energy_j / (double)reference->iterations);
}

/* ---- what was planned -------------------------------------------------------------------- */

/* Of a plan that was withdrawn, now or before; empty: none was. */
static const char *trouble_text(const struct lull_conductor *conductor, uint32_t *withdrawals_out)
{
    static const char *const texts[] = {
        [LULL_CONDUCTOR_NO_TROUBLE] = "",
        [LULL_CONDUCTOR_BLOCKS] = "driver calls block for too long",
        [LULL_CONDUCTOR_DISOBEYS] = "a GPU's clock does not follow",
    };

    return texts[lull_conductor_trouble(conductor, withdrawals_out)];
}

static const char *state_text(const struct lull_plan_runner *runner)
{
    static const char *const texts[] = {
        [LULL_CONDUCTOR_WAITING] = "no iteration was recognised",
        [LULL_CONDUCTOR_WARMING] = "the run ended before it was tried",
        [LULL_CONDUCTOR_TRYING] = "the run ended while it was tried",
        [LULL_CONDUCTOR_KEPT] = "kept",
        [LULL_CONDUCTOR_GIVEN_UP] = "given up: not proven harmless",
        [LULL_CONDUCTOR_WITHDRAWN] = "withdrawn: the driver is not to be trusted",
    };

    return lull_plan_runner_conductor(runner) == NULL
               ? "not carried out"
               : texts[lull_conductor_phase(lull_plan_runner_conductor(runner))];
}

/* How many operations of a device, of one kind, have which clock: the highest first. */
static json_t *clocks_json(const struct lull_plan_file *plan, uint32_t device,
                           enum lull_pipeline_kind kind)
{
    const struct lull_pipeline_graph *graph = &plan->graph;
    json_t *clocks = json_array();
    uint32_t below_mhz = UINT32_MAX;

    for (;;) {
        uint32_t highest_mhz = 0;
        json_int_t count = 0;

        for (uint32_t i = graph->first_on[device]; i < graph->first_on[device + 1]; i++) {
            const uint32_t op = graph->on_device[i];
            const struct lull_pipeline_class *class =
                &plan->profile.classes[graph->ops[op].class_index];
            const uint32_t mhz = class->options[plan->option[op]].sm_mhz;

            if (class->kind != kind || mhz >= below_mhz || mhz < highest_mhz)
                continue;
            count = mhz > highest_mhz ? 1 : count + 1;
            highest_mhz = mhz;
        }
        if (highest_mhz == 0)
            return clocks;
        json_array_append_new(clocks, json_pack("{s:I, s:I}", "sm_mhz", (json_int_t)highest_mhz,
                                                "operations", count));
        below_mhz = highest_mhz;
    }
}

static json_t *stages_json(const struct lull_control *control,
                           const struct lull_plan_runner *runner, const struct lull_plan_file *plan)
{
    json_t *stages = json_array();

    for (uint32_t i = 0; i < lull_control_gpu_count(control); i++) {
        const int32_t device = lull_plan_runner_device(runner, i);
        json_t *clocks;

        if (device < 0)
            continue;
        clocks = json_object();
        for (enum lull_pipeline_kind kind = 0; kind < LULL_PIPELINE_KINDS; kind++) {
            json_t *of_kind = clocks_json(plan, (uint32_t)device, kind);

            if (kind == LULL_PIPELINE_FIXED || json_array_size(of_kind) == 0)
                json_decref(of_kind);
            else
                json_object_set_new(clocks, lull_pipeline_kind_name(kind), of_kind);
        }
        json_array_append_new(stages, json_pack("{s:I, s:I, s:o}", "gpu",
                                                (json_int_t)lull_control_gpu(control, i)->device,
                                                "device", (json_int_t)device, "clocks", clocks));
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

    return json_pack("{s:f, s:f, s:f, s:f, s:o, s:o}", "time_s", time_s, "energy_j", plan->energy_j,
                     "all_max_time_s", highest_s, "all_max_energy_j", highest_j, "saving_ratio",
                     number_or_null(1.0 - plan->energy_j / highest_j), "slowdown_ratio",
                     number_or_null(time_s / highest_s - 1.0));
}

static json_t *side_json(const struct side *side)
{
    const double count = (double)side->iterations;

    return json_pack("{s:I, s:o, s:o}", "iterations", (json_int_t)side->iterations, "iteration_ms",
                     number_or_null(side->time_s * 1e3 / count), "energy_per_iteration_j",
                     number_or_null(side->has_energy ? side->energy_j / count : NAN));
}

/* ---- all together ------------------------------------------------------------------------ */

/* The plan that was carried out, or the last one that was given up; NULL: it never came to one. */
static const struct lull_plan_file *find_plan(const struct lull_plan_runner *runner)
{
    const int32_t index = lull_conductor_plan(lull_plan_runner_conductor(runner));
    const struct lull_plan_file *plan = NULL;

    if (index >= 0)
        return lull_plan_runner_plan(runner, (uint32_t)index);
    for (uint32_t i = 0; i < LULL_PLAN_RUNNER_MAX_CONDUCTED; i++)
        if (lull_plan_runner_plan(runner, i) != NULL)
            plan = lull_plan_runner_plan(runner, i);
    return plan;
}

static json_t *carried_out_json(const struct lull_control *control,
                                const struct lull_plan_runner *runner,
                                const struct lull_plan_file *plan, double confidence)
{
    const struct lull_conductor *conductor = lull_plan_runner_conductor(runner);
    const struct outcome outcome = measure(control, runner);
    uint32_t withdrawals;
    const char *const trouble = trouble_text(conductor, &withdrawals);

    return json_pack(
        "{s:s, s:o, s:s, s:i, s:o, s:o, s:o, s:o, s:o, s:{s:o, s:o, s:I, s:f}, s:I, s:I, s:s}",
        "plan", plan->title, "planner",
        plan->planner[0] != '\0' ? json_string(plan->planner) : json_null(), "state",
        state_text(runner), "plan_index", (int)lull_conductor_plan(conductor), "predicted",
        predicted_json(plan), "stages", stages_json(control, runner, plan), "saving_ratio",
        number_or_null(saving(&outcome)), "reference", side_json(&outcome.sides[REFERENCE]),
        "planned", side_json(&outcome.sides[PLANNED]), "slowdown", "slowdown_ratio",
        number_or_null(outcome.slowdown.pairs > 0 ? outcome.slowdown.slowdown_ratio : NAN),
        "slowdown_upper_ratio",
        number_or_null(outcome.slowdown.pairs >= 2 ? outcome.slowdown.upper_ratio : NAN), "pairs",
        (json_int_t)outcome.slowdown.pairs, "confidence", confidence, "late_raisings",
        (json_int_t)lull_conductor_late(conductor), "withdrawals", (json_int_t)withdrawals,
        "trouble", trouble);
}

json_t *lull_pipeline_report_json(const struct lull_control *control,
                                  const struct lull_plan_runner *runner,
                                  const struct lull_online *online,
                                  const struct lull_straggler_response *response, double confidence)
{
    const struct lull_plan_file *plan;
    bool is_done = true;
    json_t *json;

    if (control == NULL || runner == NULL)
        return json_null();
    if (lull_plan_runner_conductor(runner) == NULL)
        return json_pack("{s:s}", "state", state_text(runner));
    if (online != NULL)
        lull_online_iterations(online, &is_done);
    plan = find_plan(runner);
    json = !is_done || plan == NULL
               ? json_pack("{s:s}", "state", "the run ended while it was profiled")
               : carried_out_json(control, runner, plan, confidence);
    if (json != NULL && online != NULL)
        json_object_set_new(json, "profiled_iterations",
                            json_integer(lull_online_iterations(online, &is_done)));
    if (json != NULL && is_done && plan != NULL)
        json_object_set_new(json, "stragglers",
                            lull_straggler_response_json(response, control, runner));
    if (json != NULL && online != NULL)
        json_object_set_new(json, "raisings", json_integer(lull_online_raisings(online)));
    return json;
}

void lull_pipeline_report_print(const struct lull_control *control,
                                const struct lull_plan_runner *runner,
                                const struct lull_straggler_response *response, FILE *out)
{
    const struct lull_plan_file *plan;
    struct outcome outcome;
    uint32_t withdrawals;
    const char *trouble;

    if (runner == NULL)
        return;
    plan = lull_plan_runner_conductor(runner) == NULL ? NULL : find_plan(runner);
    fprintf(out, "  pipeline plan%s%s: %s\n",
            plan != NULL && plan->planner[0] != '\0' ? " of " : "",
            plan != NULL ? plan->planner : "", state_text(runner));
    if (lull_plan_runner_conductor(runner) == NULL)
        return;
    trouble = trouble_text(lull_plan_runner_conductor(runner), &withdrawals);
    if (withdrawals > 0)
        fprintf(out, "    withdrawn %u time%s: %s\n", withdrawals, withdrawals > 1 ? "s" : "",
                trouble);
    outcome = measure(control, runner);
    if (isfinite(saving(&outcome)))
        fprintf(out, "    against iterations at the highest clock in between: saves %.2f %%",
                saving(&outcome) * 100.0);
    if (isfinite(saving(&outcome)) && outcome.slowdown.pairs >= 2)
        fprintf(out, ", slowdown %+.2f %% (at most %.2f %%)",
                outcome.slowdown.slowdown_ratio * 100.0, outcome.slowdown.upper_ratio * 100.0);
    if (isfinite(saving(&outcome)))
        fprintf(out, "\n");
    lull_straggler_response_print(response, control, runner, out);
}
