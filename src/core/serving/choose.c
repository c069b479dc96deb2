/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "core/serving/controller_state.h"

/* Share of the bound of the time to first token that pending requests may need. Default: the rest
 * covers prompts longer than expected and a reading's age. */
static const double danger_share = 0.7;
/* Share of the bound of the time per output token that a step may need on average. Default: the
 * rest covers requests that meet more prefills than others. */
static const double token_share = 0.85;
/* Busy share above which queues grow too easily. Default: a queue with random arrivals is five
 * times its length at half of it. */
static const double busy_most = 0.85;
/* Expected misses that lower clocks may add, as a share of those that the objective allows.
 * Default: half of what the allowance of misses earns. */
static const double added_share = 0.05;

bool lull_serving_is_in_danger(const struct lull_serving_controller *controller,
                               const struct lull_server_outlook *at)
{
    const struct lull_server_load *const load = &controller->load;
    const double bound_s = danger_share * controller->ttft.bound_s;
    const double request_s = load->prompt_tokens * at->prefill_s;
    const double latency_s = (double)controller->config.latency_ns * 1e-9;

    if (load->pending <= 0.0)
        return false;
    return (load->pending + sqrt(load->pending)) * request_s + 2.0 * at->step_s + latency_s >
               bound_s ||
           load->oldest_s + 2.0 * request_s + at->step_s + latency_s > bound_s;
}

static bool choose_is_safe(const struct lull_serving_controller *controller,
                           const struct lull_server_outlook *at,
                           const struct lull_server_outlook *highest)
{
    const struct lull_objective *const objective = &controller->config.objective;
    const double most =
        added_share * (1.0 - objective->share) * lull_allowance_fullness(&controller->allowance);

    return at->busy_ratio <= busy_most && at->step_s <= token_share * objective->tpot_s &&
           !lull_serving_is_in_danger(controller, at) &&
           lull_serving_added(controller, at, highest) <= most;
}

bool lull_serving_choose(const struct lull_serving_controller *controller, uint32_t lowest,
                         uint32_t *index_out)
{
    const struct lull_server_outlook highest =
        lull_server_model_predict(&controller->model, &controller->clocks[0], &controller->demand);
    double best_w = INFINITY;

    for (uint32_t i = 0; i <= lowest; i++) {
        const struct lull_server_outlook at = lull_server_model_predict(
            &controller->model, &controller->clocks[i], &controller->demand);

        if (!choose_is_safe(controller, &at, &highest))
            break;
        if (at.watts < best_w) {
            best_w = at.watts;
            *index_out = i;
        }
    }
    return isfinite(best_w);
}

/* What a request that arrives at a parked server loses, s: until the clock is raised it computes
 * slowly. */
static double choose_wake_s(const struct lull_serving_controller *controller,
                            const struct lull_server_clock *clock)
{
    const struct lull_server_demand lone = {.prompt_tokens = 2.0 * controller->load.prompt_tokens};
    const double blind_s =
        (double)(controller->config.period_ns + controller->config.latency_ns) * 1e-9;
    const double slow_s = lull_server_model_predict(&controller->model, clock, &lone).first_token_s;
    const double fast_s =
        lull_server_model_predict(&controller->model, &controller->clocks[0], &lone).first_token_s;

    if (controller->model.windows < 1.0)
        return blind_s * (1.0 - 1.0 / clock->compute);
    return fmin(blind_s * (1.0 - 1.0 / clock->compute), slow_s - fast_s);
}

uint32_t lull_serving_choose_parking(const struct lull_serving_controller *controller)
{
    const struct lull_serving_latency *const ttft = &controller->ttft;
    const double missed = 1.0 - controller->config.objective.share;
    double most_s = controller->config.wake_s;
    uint32_t best = 0;

    if (isfinite(ttft->bound_s) && ttft->tail.count > 0.0) {
        const struct lull_server_outlook highest = lull_server_model_predict(
            &controller->model, &controller->clocks[0], &controller->demand);

        most_s = fmin(most_s, fmax(danger_share * ttft->bound_s -
                                       lull_latency_tail_quantile(&ttft->tail, missed) *
                                           highest.first_token_s,
                                   0.0));
    }
    for (uint32_t i = 1; i < controller->config.clock_count; i++)
        if (choose_wake_s(controller, &controller->clocks[i]) <= most_s)
            best = i;
    return best;
}
