/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/clock.h"
#include "governor/report/pipeline_report.h"
#include "governor/plan/straggler_response_state.h"

double response_lost_ms(const struct lull_straggler_response *response)
{
    double lost_ms = 0.0;

    for (uint32_t i = 0; i < response->copy_count; i++)
        if (response->copies[i].straggler != NULL)
            lost_ms = fmax(lost_ms,
                           lull_ms_from_ns(lull_straggler_lost_ns(response->copies[i].straggler)));
    return lost_ms;
}

/* Iterations and their energy. */
struct part {
    uint64_t iterations;
    double energy_j;
};

static void add_iteration(const struct lull_control *control,
                          const struct lull_conductor_iteration *iteration, struct part *part)
{
    double energy_j;

    if (!lull_pipeline_energy_between(control, iteration->begin_ns, iteration->end_ns, &energy_j))
        return;
    part->iterations++;
    part->energy_j += energy_j;
}

/* How it was at the plan while it straggled, and what was done then. */
static void measure(const struct lull_control *control, const struct lull_plan_runner *runner,
                    const struct response_episode *episode, struct part *plan,
                    struct part *stretched)
{
    size_t count;
    const struct lull_conductor_iteration *iterations = lull_plan_runner_recorded(runner, &count);
    bool has_begun = false;

    for (size_t i = 0; i < count; i++) {
        const struct lull_conductor_iteration *iteration = &iterations[i];

        if (iteration->number < episode->began ||
            (episode->ended != 0 && iteration->number > episode->ended))
            continue;
        if (iteration->plan >= LULL_CONDUCTOR_DETOUR) {
            add_iteration(control, iteration, stretched);
            has_begun = true;
        } else if (!has_begun && iteration->plan >= 0 && iteration->is_whole) {
            add_iteration(control, iteration, plan);
        }
    }
}

void lull_straggler_response_summary(const struct lull_straggler_response *response,
                                     const struct lull_control *control,
                                     const struct lull_plan_runner *runner,
                                     struct lull_straggler_response_summary *summary_out)
{
    double saved_j = 0.0;
    double plan_j = 0.0;

    *summary_out = (struct lull_straggler_response_summary){
        .replans = response->replans,
        .slowest_ms = response->slowest_ms,
        .lost_ms = response->lost_ms + response_lost_ms(response),
        .refuted = response->refuted,
    };
    for (uint32_t i = 0; i < response->copy_count; i++)
        summary_out->refuted += lull_straggler_refuted(response->copies[i].straggler);
    for (uint32_t i = 0; i < response->episode_count; i++) {
        struct part plan = {0};
        struct part stretched = {0};

        measure(control, runner, &response->episodes[i], &plan, &stretched);
        summary_out->iterations += stretched.iterations;
        if (plan.iterations == 0 || stretched.iterations == 0)
            continue;
        plan_j += plan.energy_j / (double)plan.iterations * (double)stretched.iterations;
        saved_j += plan.energy_j / (double)plan.iterations * (double)stretched.iterations -
                   stretched.energy_j;
    }
    summary_out->saved_j = plan_j > 0.0 ? saved_j : NAN;
    summary_out->saved_ratio = plan_j > 0.0 ? saved_j / plan_j : NAN;
}

json_t *lull_straggler_response_json(const struct lull_straggler_response *response,
                                     const struct lull_control *control,
                                     const struct lull_plan_runner *runner)
{
    struct lull_straggler_response_summary summary;

    if (response == NULL)
        return json_null();
    lull_straggler_response_summary(response, control, runner, &summary);
    return json_pack(
        "{s:I, s:I, s:f, s:o, s:o, s:f, s:I}", "replans", (json_int_t)summary.replans, "iterations",
        (json_int_t)summary.iterations, "slowest_replan_ms", summary.slowest_ms, "saved_j",
        isfinite(summary.saved_j) ? json_real(summary.saved_j) : json_null(), "saving_ratio",
        isfinite(summary.saved_ratio) ? json_real(summary.saved_ratio) : json_null(), "lost_ms",
        summary.lost_ms, "refuted", (json_int_t)summary.refuted);
}

void lull_straggler_response_print(const struct lull_straggler_response *response,
                                   const struct lull_control *control,
                                   const struct lull_plan_runner *runner, FILE *out)
{
    struct lull_straggler_response_summary summary;

    if (response == NULL || response->replans == 0)
        return;
    lull_straggler_response_summary(response, control, runner, &summary);
    fprintf(out, "    stragglers: replanned %u time%s, within %.1f ms; %llu iterations stretched",
            summary.replans, summary.replans == 1 ? "" : "s", summary.slowest_ms,
            (unsigned long long)summary.iterations);
    if (isfinite(summary.saved_j))
        fprintf(out, ", saved %.0f J (%.1f %%)", summary.saved_j, 100.0 * summary.saved_ratio);
    fprintf(out, ", lost at most %.0f ms\n", summary.lost_ms);
}
