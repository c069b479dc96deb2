/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "core/serving/controller_state.h"

/* Share of the bound of the time to first token that pending requests may need, with the time that
 * lower clocks cost them. Default: the rest covers prompts longer than expected, requests that
 * arrive meanwhile, and a reading's age. */
static const double danger_share = 0.4;
/* Share of the bound of the time per output token that a step may need on average. Default: the
 * rest covers requests that meet more prefills than others. */
static const double token_share = 0.7;
/* Busy share above which queues grow too easily. Default: a queue with random arrivals is five
 * times its length at half of it. */
static const double busy_most = 0.9;
/* Expected misses that lower clocks may add, as a share of those that the objective allows.
 * Default: of these, simulated servers added a seventh (docs/research/measurements/serving.md); the
 * allowance of misses stops errors of the estimate. */
static const double added_share = 0.5;
/* Expected misses that may be added beyond that while few requests have been judged: each time that
 * their number grows by a factor of e. Default: without it what is assumed of unseen latencies
 * keeps the clock high for a thousand requests. */
static const double early_misses = 0.6;
/* The share of energy that must be saved for each share of requests that may miss in addition.
 * Default: where a server is mostly idle, parking saves most, and lower clocks for its few bursts
 * are not worth their misses. */
static const double miss_price = 15.0;
/* The patience with pending requests, as shares of the bound of their time to first token. More
 * patience raises the clock less often, and delays long requests more. The most: what is lost
 * before the first burst delays all requests in it, and the tail does not know that burst yet. */
static const double patience_shares[] = {0.0, 0.1, 0.2, 0.27};

enum { PATIENCES = sizeof(patience_shares) / sizeof(patience_shares[0]) };

/* Share of the bound of the time per output token that the last steps may take. Default: a short
 * answer meets few other steps. */
static const double slow_share = 0.85;
/* Of the requests that would miss their time per token if the clock stayed low, this share misses
 * although slow steps raise the clock. A step that is judged by itself misses. */
static const double slow_ratio = 0.3;
/* Share of a period that passes on average until a reading shows what happened. */
static const double reading_share = 0.5;
/* The same for requests that find the server parked. Default: they are fewer. */
static const double waking_share = 0.2;
/* Tokens of a short answer, and the share of answers that have fewer. Default: those of
 * programming assistants. */
static const double short_answer = 5.0;
static const double short_share = 0.05;

bool lull_serving_is_in_danger(const struct lull_serving_controller *controller)
{
    const struct lull_server_load *const load = &controller->load;

    return load->has_burst || load->last.is_overdue ||
           lull_step_load_is_full(&controller->step_load) ||
           load->recent_s > slow_share * controller->tpot.bound_s * fmax(load->recent_steps, 4.0);
}

/* From a request's danger until the highest clock is in force: half a period on average until a
 * reading shows it. */
static double choose_reaction_s(const struct lull_serving_controller *controller)
{
    return (reading_share * (double)controller->config.period_ns +
            (double)controller->config.latency_ns) *
           1e-9;
}

/* Returns whether pending requests lose no more time at a clock than they may. */
static bool choose_bears_queue(const struct lull_serving_controller *controller,
                               const struct lull_server_outlook *at,
                               const struct lull_server_outlook *highest)
{
    const struct lull_server_load *const load = &controller->load;
    const double slowness = fmax(at->prefill_s / highest->prefill_s, 1.0);
    const double request_s = load->prompt_tokens * highest->prefill_s;
    const double lost_s = lull_serving_pending_lost_s(controller);
    const double now_lost_s = choose_reaction_s(controller) * (1.0 - 1.0 / slowness);
    const double more_s = fmax(load->pending * request_s * (slowness - 1.0), now_lost_s);
    const double spare_s =
        danger_share * controller->ttft.bound_s - lull_serving_queue_s(controller, highest);

    return lost_s + now_lost_s <= controller->lost_most_s && lost_s + more_s <= spare_s;
}

uint32_t lull_serving_serve_queue(const struct lull_serving_controller *controller, uint32_t index)
{
    const struct lull_server_outlook highest =
        lull_server_model_predict(&controller->model, &controller->clocks[0], &controller->demand);

    if (controller->load.pending <= 0.0)
        return index;
    for (; index > 0; index--) {
        const struct lull_server_outlook at = lull_server_model_predict(
            &controller->model, &controller->clocks[index], &controller->demand);

        if (choose_bears_queue(controller, &at, &highest))
            break;
    }
    return index;
}

/* The effect of a clock and a patience on times to first token. */
struct choose_effect {
    double added;        /* share of requests that miss in addition */
    double raised_ratio; /* time at the highest clock */
    double lost_s;
};

/* A request of length w at the highest clock is served at the clock until its age raises it. From
 * there on it has lost no more time. */
static struct choose_effect choose_effect_of(const struct lull_serving_controller *controller,
                                             const struct lull_server_outlook *at,
                                             const struct lull_server_outlook *highest,
                                             double patience_s)
{
    const struct lull_serving_latency *const ttft = &controller->ttft;
    const double slowness = fmax(at->first_token_s / highest->first_token_s, 1.0);
    const double reaction_s = choose_reaction_s(controller);
    const double raised_s = fmin(patience_s + reaction_s, ttft->bound_s);
    const double lost_s = raised_s * (1.0 - 1.0 / slowness);
    const double scale_s = highest->first_token_s;
    const double arrivals = controller->load.arrival_rate;
    struct choose_effect effect = {0.0, 0.0, INFINITY};

    if (!isfinite(ttft->bound_s) || slowness <= 1.0)
        return effect;
    effect.added = 1.0;
    effect.lost_s = lost_s;
    if (lost_s < ttft->bound_s)
        effect.added = lull_latency_tail_above(&ttft->tail, (ttft->bound_s - lost_s) / scale_s) -
                       lull_latency_tail_above(&ttft->tail, ttft->bound_s / scale_s);
    if (patience_s < ttft->bound_s)
        effect.raised_ratio = fmin(
            arrivals *
                (scale_s * lull_latency_tail_excess(&ttft->tail, raised_s / slowness / scale_s) +
                 reaction_s * lull_latency_tail_above(&ttft->tail, raised_s / slowness / scale_s)),
            1.0);
    return effect;
}

/* The share of requests whose time per token misses in addition. */
static double choose_added_tokens(const struct lull_serving_controller *controller,
                                  const struct lull_server_outlook *at,
                                  const struct lull_server_outlook *highest)
{
    const struct lull_serving_latency *const tpot = &controller->tpot;
    const double slowness =
        fmax(at->first_token_s / highest->first_token_s, at->decode_s / highest->decode_s);

    const double ratio = controller->demand.is_of_steps ? 1.0 : slow_ratio;

    if (!isfinite(tpot->bound_s) || slowness <= 1.0)
        return 0.0;
    return ratio *
           (lull_latency_tail_above(&tpot->tail, tpot->bound_s / slowness / highest->decode_s) -
            lull_latency_tail_above(&tpot->tail, tpot->bound_s / highest->decode_s));
}

/* The share of requests that may be expected to miss in addition. */
static double choose_most(const struct lull_serving_controller *controller, double share)
{
    const double judged = controller->misses.requests - controller->forgotten_requests;

    return lull_allowance_fullness(&controller->allowance) *
           (share * (1.0 - controller->config.objective.share) + early_misses / fmax(judged, 20.0));
}

/* Without a bound nothing that is pending raises the clock. */
static double choose_patience_s(const struct lull_objective *objective, int index)
{
    if (!isfinite(objective->ttft_s))
        return INFINITY;
    return patience_shares[index] * objective->ttft_s;
}

bool lull_serving_choose(const struct lull_serving_controller *controller, uint32_t lowest,
                         struct lull_serving_choice *choice_out)
{
    const struct lull_objective *const objective = &controller->config.objective;
    const struct lull_server_outlook highest =
        lull_server_model_predict(&controller->model, &controller->clocks[0], &controller->demand);
    const double most = choose_most(controller, added_share);
    double best = INFINITY;

    for (uint32_t i = 0; i <= lowest; i++) {
        const struct lull_server_outlook at = lull_server_model_predict(
            &controller->model, &controller->clocks[i], &controller->demand);
        const double tokens = choose_added_tokens(controller, &at, &highest);

        if (at.busy_ratio > busy_most || at.step_s > token_share * objective->tpot_s ||
            tokens > most)
            break;
        if (controller->load.busy_ratio * at.watts / highest.watts + miss_price * tokens >= best)
            continue;
        for (int p = 0; p < PATIENCES; p++) {
            const double patience_s = choose_patience_s(objective, p);
            const struct choose_effect effect =
                choose_effect_of(controller, &at, &highest, patience_s);
            const double watts = at.watts + effect.raised_ratio * (highest.watts - at.watts);
            const double cost = controller->load.busy_ratio * watts / highest.watts +
                                miss_price * (tokens + effect.added);

            if (tokens + effect.added > most)
                break;
            if (cost >= best)
                continue;
            best = cost;
            *choice_out = (struct lull_serving_choice){i, effect.lost_s};
        }
    }
    return isfinite(best);
}

/* What a request that arrives at a parked server loses, s: until the clock is raised it computes
 * slowly. */
static double choose_wake_s(const struct lull_serving_controller *controller,
                            const struct lull_server_clock *clock)
{
    const struct lull_server_demand lone = {.prompt_tokens = 2.0 * controller->load.prompt_tokens};
    const double blind_s = choose_reaction_s(controller);
    const double slow_s = lull_server_model_predict(&controller->model, clock, &lone).first_token_s;
    const double fast_s =
        lull_server_model_predict(&controller->model, &controller->clocks[0], &lone).first_token_s;

    if (controller->model.windows < 1.0)
        return blind_s * (1.0 - 1.0 / clock->compute);
    return fmin(blind_s * (1.0 - 1.0 / clock->compute), slow_s - fast_s);
}

/* The share of requests that miss because they lose this time while the clock is raised. A short
 * answer has a few tokens to make up for it; longer ones meet their time per token. */
static double choose_added_waking(const struct lull_serving_controller *controller, double lost_s,
                                  const struct lull_server_outlook *highest)
{
    const struct lull_serving_latency *const ttft = &controller->ttft;
    const struct lull_serving_latency *const tpot = &controller->tpot;
    const double token_s = lost_s / short_answer;
    double added = 0.0;

    if (lost_s <= 0.0)
        return 0.0;
    if (lost_s >= ttft->bound_s)
        return 1.0;
    if (token_s >= tpot->bound_s)
        return short_share;
    if (isfinite(ttft->bound_s))
        added += lull_latency_tail_above(&ttft->tail,
                                         (ttft->bound_s - lost_s) / highest->first_token_s) -
                 lull_latency_tail_above(&ttft->tail, ttft->bound_s / highest->first_token_s);
    if (isfinite(tpot->bound_s))
        added +=
            short_share *
            (lull_latency_tail_above(&tpot->tail, (tpot->bound_s - token_s) / highest->decode_s) -
             lull_latency_tail_above(&tpot->tail, tpot->bound_s / highest->decode_s));
    return added * (controller->load.seen_woken + 1.0) / (controller->load.seen_arrivals + 1.0);
}

uint32_t lull_serving_choose_parking(const struct lull_serving_controller *controller)
{
    const struct lull_server_outlook highest =
        lull_server_model_predict(&controller->model, &controller->clocks[0], &controller->demand);
    const bool is_known = controller->model.windows >= 1.0;
    uint32_t best = 0;

    for (uint32_t i = 1; i < controller->config.clock_count; i++) {
        const double lost_s = choose_wake_s(controller, &controller->clocks[i]);

        if (lost_s <= controller->config.wake_s &&
            (!is_known || choose_added_waking(controller, lost_s, &highest) <=
                              choose_most(controller, waking_share)))
            best = i;
    }
    return best;
}
