/* SPDX-License-Identifier: Apache-2.0 */
#include "core/serving/controller.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "core/serving/controller_state.h"

/* A reading older than so many periods is missing. Default: one lost page must not raise the
 * clock. */
static const double missing_periods = 3.0;
/* A reading is also missing this long after it was due, s. Default: of slow pages one may be lost
 * as well, but old readings hide bursts. */
static const double missing_s = 2.0;
/* Usable readings in a row that end a blind time. Default: the second one shows that counters
 * move. */
enum { USABLE_READINGS = 2 };
/* Counters that do not grow for so long while requests run are old values, unless steps take
 * longer than that. Default: a server answers at least once a second. */
static const double still_s = 1.0;
static const double still_steps = 4.0;
/* Length of a window for the model, s, and its least number of steps. Default: a window's ends cut
 * a step each, so shorter ones err by more than a tenth. */
static const double window_s = 0.4;
static const double window_steps = 4.0;
/* Windows and judged requests before the first lowering. Default: two seconds of work. */
static const double learned_windows = 5.0;
static const double learned_requests = 10.0;
/* One step of the search: how much lower than the lowest clock so far, and how long and for how
 * many requests that clock is kept first. Default: a larger step risks more misses at once; a
 * longer stay delays the saving. */
static const double search_ratio = 1.2;
static const double search_s = 2.0;
static const double search_requests = 10.0;
static const double search_wait_s = 10.0; /* instead of the requests, where they are rare */
/* A lower clock must save this much of the power, or the present one stays. Default: a clock
 * change blocks the driver for some milliseconds. */
static const double least_gain = 0.01;
/* After too many misses the clock stays this much above the present one, for a time that doubles
 * each time. Default: from a minute, so that chance costs little, to an hour. */
static const double retreat_ratio = 1.15;
static const double first_retreat_s = 60.0;
static const double longest_retreat_s = 3600.0;
/* Error of the bound of added misses: 1 - 95 %. */
static const double bound_error = 0.05;

/* ---- making -------------------------------------------------------------------------------- */

static void controller_forget(struct lull_serving_controller *controller)
{
    const struct lull_serving_config *const config = &controller->config;
    const double lowest_mhz = config->clocks_mhz[config->clock_count - 1];

    lull_server_model_init(&controller->model, config->curve, config->clocks_mhz[0], lowest_mhz);
    controller->demand = (struct lull_server_demand){0};
    controller->window = (struct lull_server_window){0};
    lull_serving_judge_init(controller);
    controller->deepest = 1.0;
    controller->deepened_ns = 0;
    controller->deepened_requests = controller->misses.requests;
    controller->forgotten_requests = controller->misses.requests;
    controller->settled = 0;
    controller->lost_most_s = 0.0;
    controller->limit = config->clock_count - 1;
    controller->retreat_s = first_retreat_s;
}

struct lull_serving_controller *
lull_serving_controller_create(const struct lull_serving_config *config)
{
    struct lull_serving_controller *const controller = calloc(1, sizeof(*controller));

    assert(config->clock_count >= 1 && config->clock_count <= LULL_SERVING_CLOCKS);
    if (controller == NULL)
        return NULL;
    controller->config = *config;
    for (uint32_t i = 0; i < config->clock_count; i++)
        controller->clocks[i] =
            lull_server_clock_at(config->curve, config->clocks_mhz[0], config->clocks_mhz[i]);
    controller->in_force = controller->clocks[0];
    controller->power_w = NAN;
    controller_forget(controller);
    controller->mode = LULL_SERVING_BLIND;
    controller->reason = "No reading of the server's metrics yet.";
    controller->doubt = "One reading of the server's metrics shows no change.";
    return controller;
}

void lull_serving_controller_destroy(struct lull_serving_controller *controller)
{
    free(controller);
}

void lull_serving_controller_set_period(struct lull_serving_controller *controller,
                                        int64_t period_ns)
{
    controller->config.period_ns = period_ns;
}

/* ---- energy and clock ---------------------------------------------------------------------- */

void lull_serving_controller_take_energy(struct lull_serving_controller *controller,
                                         int64_t time_ns, double joules)
{
    const double seconds = (double)(time_ns - controller->energy_ns) * 1e-9;
    const double gpu_j = joules / controller->config.gpu_count;

    if (!isfinite(joules)) {
        controller->energy_ns = 0;
        controller->power_w = NAN;
        return;
    }
    controller->power_w = NAN;
    if (controller->energy_ns != 0 && seconds > 0.0 && gpu_j >= controller->energy_j)
        controller->power_w = (gpu_j - controller->energy_j) / seconds;
    controller->energy_ns = time_ns;
    controller->energy_j = gpu_j;
}

/* The energy of one GPU at a time, from the last sample; NAN: unknown. */
static double controller_energy_j(const struct lull_serving_controller *controller, int64_t time_ns)
{
    if (controller->energy_ns == 0)
        return NAN;
    return controller->energy_j +
           controller->power_w * (double)(time_ns - controller->energy_ns) * 1e-9;
}

/* Tokens of a prompt are counted when it has been computed. So energy counts only for windows that
 * no prompt reaches into, or that compute nothing but prompts. */
static void controller_begin_window(struct lull_serving_controller *controller, int64_t time_ns)
{
    controller->window = (struct lull_server_window){0};
    controller->window_energy_j = controller_energy_j(controller, time_ns);
    controller->is_window_mixed = controller->load.pending > 0.0;
}

void lull_serving_controller_take_clock(struct lull_serving_controller *controller, int64_t time_ns,
                                        double mhz)
{
    if (!(mhz > 0.0) || mhz == controller->in_force.mhz)
        return;
    controller->in_force =
        lull_server_clock_at(controller->config.curve, controller->config.clocks_mhz[0], mhz);
    controller->changed_ns = time_ns;
    controller_begin_window(controller, time_ns);
}

/* ---- readings ------------------------------------------------------------------------------ */

/* Adds the time since the last reading to the window, and a full window to the model. A change of
 * clock since the last reading spoils it, and so does time without requests. A prefill pool is
 * rarely busy for long: its readings sample how much of the time it is. */
static void controller_extend_window(struct lull_serving_controller *controller,
                                     const struct lull_serving_reading *before)
{
    const struct lull_serving_reading *const now = &controller->load.last;
    const struct lull_server_change *const change = &controller->load.change;
    struct lull_server_window *const window = &controller->window;
    const double busy_ratio = ((before->running >= 1.0) + (now->running >= 1.0)) / 2.0;

    if (controller->changed_ns > before->time_ns ||
        (busy_ratio < 1.0 && !lull_server_load_is_prefill(&controller->load))) {
        controller_begin_window(controller, now->time_ns);
        return;
    }
    if (busy_ratio < 1.0)
        controller->window_energy_j = NAN;
    window->seconds += busy_ratio * change->seconds;
    window->steps += change->steps;
    window->output_tokens += change->output_tokens;
    window->prompt_tokens += change->prompt_tokens;
    window->first_tokens += change->first_tokens;
    if (window->seconds < window_s || window->steps < window_steps)
        return;
    window->joules = NAN;
    if ((controller->load.pending <= 0.0 && !controller->is_window_mixed) ||
        lull_server_window_is_prefill(window))
        window->joules =
            controller_energy_j(controller, now->time_ns) - controller->window_energy_j;
    lull_server_model_add(&controller->model, &controller->in_force, window);
    controller_begin_window(controller, now->time_ns);
}

static void controller_update_demand(struct lull_serving_controller *controller)
{
    const struct lull_server_load *const load = &controller->load;

    controller->demand = (struct lull_server_demand){
        .running = fmax(load->running, load->last.running),
        .output_rate = load->output_rate,
        .prompt_rate = load->prompt_rate,
        .prompt_tokens = load->prompt_tokens,
        .is_prefill = lull_server_load_is_prefill(load),
        .is_of_steps = load->last.is_of_steps,
        .prompt_ratio = controller->step_load.prompt_ratio,
    };
    controller->outlook =
        lull_server_model_predict(&controller->model, &controller->in_force, &controller->demand);
}

/* Predicts the power at the highest clock for the present demand, W; NAN: it is not known yet. */
static double controller_highest_w(const struct lull_serving_controller *controller)
{
    const struct lull_server_model *const model = &controller->model;

    if (!model->has_power || model->windows < 1.0)
        return NAN;
    return lull_server_model_predict(model, &controller->clocks[0], &controller->demand).watts;
}

/* Compares the energy since the reading before with that at the highest clock. Steps show no
 * tokens, so that the present demand is assumed for them. */
static void controller_compare_energy(struct lull_serving_controller *controller,
                                      const struct lull_serving_reading *before)
{
    const double read_j = controller_energy_j(controller, controller->load.last.time_ns);
    const bool is_steady = controller->changed_ns <= before->time_ns;
    const struct lull_saving_change change = {
        .model = &controller->model,
        .highest = &controller->clocks[0],
        .in_force = &controller->in_force,
        .load = &controller->load,
        .joules = read_j - controller->read_j,
        .is_steady = is_steady,
        .is_highest = is_steady && controller->in_force.mhz >= controller->clocks[0].mhz,
    };

    controller->read_j = read_j;
    if (controller->demand.is_of_steps)
        lull_server_saving_add(&controller->saving, change.joules,
                               controller->load.change.seconds * controller_highest_w(controller));
    else
        lull_server_saving_take(&controller->saving, &change);
}

/* Counters that do not grow while requests run are old values. */
static void controller_watch_stillness(struct lull_serving_controller *controller)
{
    const struct lull_server_change *const change = &controller->load.change;
    const bool is_still = controller->load.last.running > 0.0 && change->seconds > 0.0 &&
                          change->steps + change->output_tokens + change->prompt_tokens <= 0.0;

    if (!is_still)
        controller->still_ns = 0;
    else if (controller->still_ns == 0)
        controller->still_ns = controller->load.last.time_ns;
}

static void controller_take_usable(struct lull_serving_controller *controller,
                                   const struct lull_serving_reading *reading)
{
    const struct lull_serving_reading before = controller->load.last;
    const bool is_followed = controller->load.has_reading && !reading->is_restarted;

    lull_server_load_take(&controller->load, reading);
    controller->is_new = true;
    controller->read_ns = reading->time_ns;
    if (controller->usable < USABLE_READINGS)
        controller->usable++;
    if (controller->load.requests > 0.0)
        controller->idle_ns = 0;
    else if (controller->idle_ns == 0)
        controller->idle_ns = reading->time_ns;
    if (!is_followed) {
        controller->read_j = controller_energy_j(controller, reading->time_ns);
        return;
    }
    if (reading->is_of_steps)
        lull_step_load_take(&controller->step_load, &before, reading, &controller->in_force);
    controller_extend_window(controller, &before);
    controller_update_demand(controller);
    controller_watch_stillness(controller);
    controller_compare_energy(controller, &before);
    lull_serving_judge(controller, &before);
}

void lull_serving_controller_take(struct lull_serving_controller *controller,
                                  const struct lull_serving_reading *reading)
{
    if (reading->is_restarted) {
        lull_server_saving_restart(&controller->saving, &controller->model, &controller->clocks[0]);
        controller_forget(controller);
        controller->usable = 0;
        controller->idle_ns = 0;
        controller->still_ns = 0;
        controller->doubt = "The server has restarted.";
    }
    if (controller->load.has_reading && reading->time_ns == controller->load.last.time_ns)
        return;
    if (!lull_server_load_accepts(&controller->load, reading)) {
        controller->usable = 0;
        controller->load.has_reading = false;
        controller->doubt = "The server's metrics are incomplete or contradict each other.";
        return;
    }
    controller_take_usable(controller, reading);
}

/* ---- choice -------------------------------------------------------------------------------- */

static uint32_t controller_explain(struct lull_serving_controller *controller,
                                   enum lull_serving_mode mode, const char *reason, uint32_t index)
{
    controller->mode = mode;
    controller->reason = reason;
    return index;
}

static bool controller_is_blind(struct lull_serving_controller *controller, int64_t now_ns)
{
    const double period_ns = (double)controller->config.period_ns;
    const double age_ns = fmin(missing_periods * period_ns, period_ns + missing_s * 1e9);
    const double patience_s = fmax(still_s, still_steps * controller->outlook.step_s);

    if (controller->read_ns == 0 || (double)(now_ns - controller->read_ns) > age_ns) {
        controller->usable = 0;
        if (controller->read_ns != 0)
            controller->doubt = "The server's metrics are missing.";
        return true;
    }
    if (controller->still_ns != 0 &&
        (double)(controller->read_ns - controller->still_ns) * 1e-9 > patience_s) {
        controller->doubt = "The server's counters do not grow although requests run.";
        return true;
    }
    return controller->usable < USABLE_READINGS;
}

static bool controller_has_learned(const struct lull_serving_controller *controller)
{
    return lull_serving_is_judged(controller) && controller->model.windows >= learned_windows &&
           controller->misses.requests - controller->forgotten_requests >= learned_requests;
}

/* The lowest clock that the search permits now. */
static uint32_t controller_search(struct lull_serving_controller *controller, int64_t now_ns)
{
    const double waited_s = (double)(now_ns - controller->deepened_ns) * 1e-9;
    const double judged = controller->misses.requests - controller->deepened_requests;
    double deepest = controller->deepest * 1.001;
    uint32_t lowest = 0;

    if (waited_s >= search_s && (judged >= search_requests || waited_s >= search_wait_s))
        deepest = controller->deepest * search_ratio;
    while (lowest < controller->limit && controller->clocks[lowest + 1].compute <= deepest)
        lowest++;
    /* Clocks may be further apart than a step of the search. */
    if (lowest < controller->limit && deepest > controller->deepest * 1.01 &&
        controller->clocks[lowest].compute <= controller->deepest * 1.001)
        lowest++;
    return lowest;
}

/* Too many misses that the clock may have caused: stay above it for a while. */
static void controller_retreat(struct lull_serving_controller *controller, int64_t now_ns)
{
    const double highest = controller->deepest / retreat_ratio;
    struct lull_allowance *const allowance = &controller->allowance;

    if (controller->limit_until_ns != 0 && now_ns >= controller->limit_until_ns) {
        controller->limit = controller->config.clock_count - 1;
        controller->limit_until_ns = 0;
    }
    if (lull_allowance_is_open(allowance))
        return;
    controller->limit = 0;
    while (controller->limit + 1 < controller->config.clock_count &&
           controller->clocks[controller->limit + 1].compute <= highest)
        controller->limit++;
    controller->deepest = controller->clocks[controller->limit].compute;
    controller->deepened_ns = now_ns;
    controller->limit_until_ns = now_ns + (int64_t)(controller->retreat_s * 1e9);
    controller->retreat_s = fmin(2.0 * controller->retreat_s, longest_retreat_s);
    lull_allowance_init(allowance, allowance->rate, allowance->most, 0.0);
}

/* Applies a choice for a load without danger. */
static uint32_t controller_settle(struct lull_serving_controller *controller,
                                  const struct lull_serving_choice *choice, int64_t now_ns)
{
    const uint32_t present = controller->settled;

    controller->lost_most_s = choice->lost_s;
    if (choice->index > present) {
        const struct lull_server_outlook at = lull_server_model_predict(
            &controller->model, &controller->clocks[present], &controller->demand);
        const struct lull_server_outlook lower = lull_server_model_predict(
            &controller->model, &controller->clocks[choice->index], &controller->demand);

        if (lower.watts > (1.0 - least_gain) * at.watts)
            return present;
    }
    controller->settled = choice->index;
    if (controller->clocks[choice->index].compute > controller->deepest) {
        controller->deepest = controller->clocks[choice->index].compute;
        controller->deepened_ns = now_ns;
        controller->deepened_requests = controller->misses.requests;
    }
    return choice->index;
}

static double controller_bound(const struct lull_serving_controller *controller)
{
    return lull_miss_bound_find(&controller->bound, bound_error);
}

/* Explains a clock by load. */
static uint32_t controller_proceed(struct lull_serving_controller *controller, uint32_t chosen)
{
    if (controller_bound(controller) < (1.0 - controller->config.objective.share) / 2.0)
        return controller_explain(controller, LULL_SERVING_PROVEN,
                                  "Lower clocks have added fewer misses than permitted (95 %).",
                                  chosen);
    return controller_explain(controller, LULL_SERVING_TESTING,
                              "The misses of requests are being counted.", chosen);
}

/* The clock by load, as if no request were pending. */
static bool controller_choose_steady(struct lull_serving_controller *controller, int64_t now_ns,
                                     uint32_t *index_out)
{
    const uint32_t lowest = controller_search(controller, now_ns);
    struct lull_serving_choice choice;

    if (!lull_serving_choose(controller, lowest, &choice))
        return false;
    *index_out = controller_settle(controller, &choice, now_ns);
    return true;
}

static uint32_t controller_choose_busy(struct lull_serving_controller *controller, int64_t now_ns)
{
    const char *const unjudged = lull_serving_find_unjudged(controller);
    uint32_t steady;
    uint32_t chosen;

    if (unjudged != NULL)
        return controller_explain(controller, LULL_SERVING_BLIND, unjudged, 0);
    if (!controller_has_learned(controller))
        return controller_explain(controller, LULL_SERVING_LEARNING,
                                  "The server's speed is being learned.", 0);
    controller_retreat(controller, now_ns);
    if (lull_serving_is_in_danger(controller))
        return controller_explain(controller, LULL_SERVING_RAISED,
                                  "Far more requests arrive than before, or steps are slow.", 0);
    if (!controller_choose_steady(controller, now_ns, &steady))
        return controller_explain(controller, LULL_SERVING_RAISED,
                                  "The load leaves no room for a lower clock.", 0);
    chosen = lull_serving_serve_queue(controller, steady);
    if (chosen < steady)
        return controller_explain(controller, LULL_SERVING_RAISED,
                                  "Requests wait so long that their first token is in danger.",
                                  chosen);
    return controller_proceed(controller, chosen);
}

static uint32_t controller_choose(struct lull_serving_controller *controller, int64_t now_ns)
{
    const bool is_parked = controller->mode == LULL_SERVING_IDLE;

    if (controller_is_blind(controller, now_ns))
        return controller_explain(controller, LULL_SERVING_BLIND, controller->doubt, 0);
    if (controller->idle_ns == 0)
        return controller_choose_busy(controller, now_ns);
    if (is_parked || now_ns - controller->idle_ns >= controller->config.park_after_ns)
        return controller_explain(controller, LULL_SERVING_IDLE, "No request: parked.",
                                  lull_serving_choose_parking(controller));
    if (controller->mode == LULL_SERVING_RAISED)
        return controller_proceed(controller, controller->settled);
    return controller_explain(controller, controller->mode, controller->reason,
                              controller->requested);
}

double lull_serving_controller_poll(struct lull_serving_controller *controller, int64_t now_ns)
{
    uint32_t chosen = controller->requested;

    if (controller->is_new || controller_is_blind(controller, now_ns))
        chosen = controller_choose(controller, now_ns);
    controller->is_new = false;
    if (chosen != controller->requested) {
        controller->requested = chosen;
        controller->requested_ns = now_ns;
    }
    return controller->clocks[chosen].mhz;
}

void lull_serving_controller_state(const struct lull_serving_controller *controller,
                                   struct lull_serving_state *state_out)
{
    const struct lull_serving_misses *const misses = &controller->misses;
    const bool is_known = controller->model.windows >= 1.0;

    *state_out = (struct lull_serving_state){
        .mode = controller->mode,
        .reason = controller->reason,
        .clock_mhz = controller->clocks[controller->requested].mhz,
        .requests = misses->requests,
        .missed_ratio = misses->requests > 0.0 ? misses->missed / misses->requests : NAN,
        .missed_bound_ratio =
            misses->requests >= LULL_MISS_BLOCK ? controller_bound(controller) : NAN,
        .predicted_ttft_s =
            is_known && !controller->demand.is_of_steps ? controller->outlook.first_token_s : NAN,
        .predicted_tpot_s =
            is_known && !controller->demand.is_prefill ? controller->outlook.step_s : NAN,
        .saved_ratio = lull_server_saving_ratio(&controller->saving, &controller->model,
                                                &controller->clocks[0]),
    };
}
