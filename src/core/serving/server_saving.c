/* SPDX-License-Identifier: Apache-2.0 */
#include "core/serving/server_saving.h"

#include <math.h>

/* Length of a block, s. Default: rates of requests differ from one block to the next, and most
 * answers take as long. */
static const double block_s = 5.0;
/* Length of a window at all clocks, s. Default: energy counters lag by a tenth of a second. */
static const double window_s = 5.0;
/* Longest and shortest window at the highest clock, s. Default: bursts take a second or two there.
 */
static const double highest_window_s = 2.0;
static const double least_window_s = 0.25;
/* Time at the highest clock, and in a range of clocks, that counts, s. Default: ten minutes scatter
 * little, and follow the load's mix. */
static const double memory_s = 600.0;
/* Time at the highest clock that the prediction from all clocks is worth, s. Default: the first
 * seconds of learning outweigh it. */
static const double assumed_s = 1.0;
/* Share of prompts below which all busy time has one power. Default: a decode pool has prompts only
 * until the model knows it. */
static const double least_share = 0.05;
/* The least variance of the share of prompts. Default: without it a few readings would decide how
 * the powers of a pool differ. */
static const double least_spread = 0.05;
/* Idle time that its assumed power is worth, s. Default: energy counters lag, so some tenths of a
 * second err by half. */
static const double assumed_idle_s = 2.0;
/* Time that the first assumption of powers is worth, s. */
static const double first_s = 0.6;
/* The least share of time that is left for steps. */
static const double least_room = 0.05;
/* Readings while idle before their power counts. Default: energy counters lag, and the idle GPU of
 * a prefill pool seems to draw half of its power in the first tenths of a second. */
enum { SETTLED_READINGS = 5 };

/* ---- powers ------------------------------------------------------------------------------- */

/* The power of an idle GPU by clock, in proportion; an unknown product has one for all clocks. */
static double saving_waiting(const struct lull_server_model *model,
                             const struct lull_server_clock *clock)
{
    return model->is_known ? clock->waiting_w : 1.0;
}

/* Power of an idle GPU, relative to that: the assumed one, until more has been measured. */
static double saving_waiting_ratio(const struct lull_server_saving *saving,
                                   const struct lull_server_model *model)
{
    const double assumed = model->is_known ? 1.0 : model->power.value[0];
    const double weight = saving->idle_s > 0.0 ? assumed_idle_s / saving->idle_s : 1.0;
    const double waiting_s = weight * saving->waiting_s;

    if (saving->waiting_s <= 0.0)
        return assumed;
    return (saving->waiting_j + assumed * waiting_s) / (saving->waiting_s + waiting_s);
}

/* The powers of the states at the highest clock. */
struct saving_powers {
    double watts[LULL_SAVING_STATES];
};

/* Predicts them from windows at all clocks. */
static struct saving_powers saving_predict(const struct lull_server_saving *saving,
                                           const struct lull_server_model *model,
                                           const struct lull_server_clock *highest)
{
    const double *const value =
        saving->power.features > 0 ? saving->power.value : model->power.value;
    const double decode_w = value[1] * lull_server_model_decoding(model, highest, 1.0);
    const double prefill_w = value[2] * lull_server_model_prefilling(model, highest);

    return (struct saving_powers){{
        [LULL_SAVING_IDLE] = saving_waiting(model, highest) * saving_waiting_ratio(saving, model),
        [LULL_SAVING_DECODE] = value[0] + decode_w,
        [LULL_SAVING_PREFILL] = fmin(value[0] + prefill_w, model->limit_w),
    }};
}

/* Fits the powers of both busy states to the windows at the highest clock. The prediction is worth
 * some time with the mean share of prompts. */
static struct saving_powers saving_fit(const struct lull_server_saving *saving,
                                       const struct lull_server_model *model,
                                       const struct lull_server_clock *highest)
{
    struct saving_powers powers = saving_predict(saving, model, highest);
    const double more_w = powers.watts[LULL_SAVING_PREFILL] - powers.watts[LULL_SAVING_DECODE];
    const double busy_s =
        saving->state_s[LULL_SAVING_DECODE] + saving->state_s[LULL_SAVING_PREFILL];
    const double share = busy_s > 0.0 ? saving->state_s[LULL_SAVING_PREFILL] / busy_s : 0.0;
    const double spread = assumed_s * share * (1.0 - share);
    const double mean_w = powers.watts[LULL_SAVING_DECODE] + share * more_w;
    const double busy_busy = saving->highest.products[0][0] + assumed_s;
    const double busy_prompt = saving->highest.products[0][1] + assumed_s * share;
    /* Its errors are subtracted, but leave it a matrix of squares. */
    const double prompt_prompt =
        fmax(saving->highest.products[1][1] + assumed_s * share * share + spread,
             busy_prompt * busy_prompt / busy_busy + least_spread * assumed_s);
    const double busy = saving->highest.targets[0] + assumed_s * mean_w;
    const double prompt = saving->highest.targets[1] + assumed_s * share * mean_w + spread * more_w;
    const double determinant = busy_busy * prompt_prompt - busy_prompt * busy_prompt;
    double decode_w;

    if (share < least_share) {
        powers.watts[LULL_SAVING_DECODE] = busy / busy_busy;
        powers.watts[LULL_SAVING_PREFILL] = busy / busy_busy;
        return powers;
    }
    if (!(determinant > 0.0))
        return powers;
    decode_w = (busy * prompt_prompt - prompt * busy_prompt) / determinant;
    powers.watts[LULL_SAVING_DECODE] = decode_w;
    powers.watts[LULL_SAVING_PREFILL] =
        decode_w + (busy_busy * prompt - busy_prompt * busy) / determinant;
    return powers;
}

/* Begins with the powers of the model. */
static void saving_assume(struct lull_server_saving *saving,
                          const struct lull_saving_change *change)
{
    static const double price[] = {0.0, 0.0, 0.0};
    const double highest = change->highest->dynamic;
    const double rows[][3] = {{1.0, highest, 0.0}, {1.0, 0.0, highest}, {1.0, 0.0, 0.0}};

    lull_clock_fit_init(&saving->power, 3, price, memory_s);
    for (int i = 0; i < 3; i++)
        lull_clock_fit_add(&saving->power, 1.0, rows[i],
                           lull_clock_fit_predict(&change->model->power, rows[i]), first_s / 3.0);
}

static void saving_close_window(struct lull_server_saving *saving,
                                const struct lull_saving_change *change)
{
    struct lull_saving_window *const window = &saving->window;
    const double seconds = window->seconds;
    const double busy_s =
        window->state_s[LULL_SAVING_DECODE] + window->state_s[LULL_SAVING_PREFILL];
    const double features[] = {busy_s / seconds, window->decode_s / seconds,
                               window->prefill_s / seconds};
    const double idle_j = window->idle_s * saving_waiting_ratio(saving, change->model);

    if (busy_s > 0.0 && change->model->windows >= 1.0 && change->model->has_power) {
        if (saving->power.features == 0)
            saving_assume(saving, change);
        lull_clock_fit_add(&saving->power, fmax(window->compute_s / seconds, 1.0), features,
                           (window->joules - idle_j) / seconds, seconds);
        lull_clock_fit_solve(&saving->power);
    }
    *window = (struct lull_saving_window){0};
}

static void saving_close_highest(struct lull_server_saving *saving,
                                 const struct lull_saving_change *change)
{
    struct lull_saving_window *const window = &saving->at_highest;
    const double seconds = window->seconds;
    const double prompt_s = window->state_s[LULL_SAVING_PREFILL];
    const double busy_s = window->state_s[LULL_SAVING_DECODE] + prompt_s;
    const double idle_j = window->idle_s * saving_waiting_ratio(saving, change->model);
    const double busy_j = window->joules - idle_j;
    const double kept = fmin(memory_s / fmax(saving->highest.seconds, memory_s), 1.0);

    if (busy_s > 0.0 && seconds >= least_window_s) {
        saving->highest.seconds = kept * saving->highest.seconds + seconds;
        for (int i = 0; i < 2; i++) {
            saving->highest.targets[i] *= kept;
            for (int j = 0; j < 2; j++)
                saving->highest.products[i][j] *= kept;
        }
        saving->highest.products[0][0] += busy_s * busy_s / seconds;
        saving->highest.products[0][1] += busy_s * prompt_s / seconds;
        saving->highest.products[1][1] += (prompt_s * prompt_s - window->error_s2) / seconds;
        saving->highest.targets[0] += busy_s * busy_j / seconds;
        saving->highest.targets[1] += prompt_s * busy_j / seconds;
    }
    *window = (struct lull_saving_window){0};
}

static void saving_extend(struct lull_saving_window *window, const struct lull_saving_window *more)
{
    window->seconds += more->seconds;
    window->joules += more->joules;
    for (int i = 0; i < LULL_SAVING_STATES; i++)
        window->state_s[i] += more->state_s[i];
    window->error_s2 += more->error_s2;
    window->idle_s += more->idle_s;
    window->decode_s += more->decode_s;
    window->prefill_s += more->prefill_s;
    window->compute_s += more->compute_s;
}

/* ---- times -------------------------------------------------------------------------------- */

/* A prompt that takes less than half a step is computed beside decoding, as in a decode pool. */
static bool saving_has_prompts(const struct lull_saving_change *change)
{
    const struct lull_server_times times = lull_server_model_times(change->model, change->in_force);

    return change->load->prompt_tokens * times.prompt_s >= times.step_s / 2.0;
}

static enum lull_saving_state saving_state_of(const struct lull_saving_change *change)
{
    if (change->load->requests <= 0.0)
        return LULL_SAVING_IDLE;
    return change->load->pending > 0.0 && saving_has_prompts(change) ? LULL_SAVING_PREFILL
                                                                     : LULL_SAVING_DECODE;
}

/* The time between two readings by state: half of it belongs to each. A prompt that no reading
 * shows has its predicted time. */
static struct lull_saving_window saving_measure(const struct lull_server_saving *saving,
                                                const struct lull_saving_change *change)
{
    const struct lull_server_change *const done = &change->load->change;
    const struct lull_server_clock *const clock = change->in_force;
    const enum lull_saving_state now = saving_state_of(change);
    const bool was_prompt = saving->state == LULL_SAVING_PREFILL;
    const bool is_prompt = now == LULL_SAVING_PREFILL;
    struct lull_saving_window more = {.seconds = done->seconds, .joules = change->joules};
    double *const state_s = more.state_s;

    state_s[saving->state] += done->seconds / 2.0;
    state_s[now] += done->seconds / 2.0;
    if (!was_prompt && !is_prompt && done->first_tokens > 0.0) {
        const double predicted_s =
            done->prompt_tokens * lull_server_model_times(change->model, clock).prompt_s;
        const double prompt_s = fmin(predicted_s, done->seconds);

        state_s[LULL_SAVING_PREFILL] = prompt_s;
        state_s[LULL_SAVING_DECODE] = fmax(state_s[LULL_SAVING_DECODE] - prompt_s, 0.0);
        state_s[LULL_SAVING_IDLE] = done->seconds - prompt_s - state_s[LULL_SAVING_DECODE];
    }
    if (was_prompt != is_prompt)
        more.error_s2 = done->seconds * done->seconds / 12.0; /* of an even distribution */
    more.idle_s = state_s[LULL_SAVING_IDLE] * saving_waiting(change->model, clock);
    more.decode_s =
        state_s[LULL_SAVING_DECODE] * lull_server_model_decoding(change->model, clock, 1.0);
    more.prefill_s =
        state_s[LULL_SAVING_PREFILL] * lull_server_model_prefilling(change->model, clock);
    more.compute_s = done->seconds * clock->compute;
    return more;
}

/* The share of a block's time without prompts in which the highest clock would have decoded. */
static double saving_decode_share(const struct lull_saving_block *block,
                                  const struct lull_server_times *times, double prompt_share)
{
    const double rate = block->decoded_tokens / block->seconds;
    const double room = fmax(1.0 - prompt_share - rate * times->sequence_s, least_room);
    const double highest = rate * (times->step_s + times->sequence_s) / room;
    double decoding = 0.0;
    double share = 0.0;
    double kept;

    for (uint32_t i = 0; i < block->samples; i++)
        decoding += block->decoding[i] / block->samples;
    kept = decoding > highest ? highest / decoding : 1.0;
    for (uint32_t i = 0; i < block->samples; i++)
        share += (1.0 - pow(1.0 - kept, block->decoding[i])) / block->samples;
    return share;
}

static void saving_close_block(struct lull_server_saving *saving,
                               const struct lull_saving_change *change)
{
    struct lull_saving_block *const block = &saving->block;
    const struct lull_server_times times = lull_server_model_times(change->model, change->highest);
    const bool is_known = change->model->windows >= 1.0;
    const bool is_mixed = block->decoded_tokens > 0.0 && saving->prompt_s > 0.0;
    double prompt_s = block->state_s[LULL_SAVING_PREFILL];
    double decode_s = block->state_s[LULL_SAVING_DECODE];

    if (is_known && block->highest_s < 0.999 * block->seconds) {
        /* Prompts take longer than predicted, as others decode beside them. */
        const double longer =
            is_mixed ? saving->state_s[LULL_SAVING_PREFILL] / saving->prompt_s : 1.0;

        prompt_s = longer * block->prompt_tokens * times.prompt_s;
        if (!is_mixed)
            prompt_s += block->first_tokens * times.sequence_s;
        prompt_s = fmin(prompt_s, block->seconds);
        decode_s = (block->seconds - prompt_s) *
                   saving_decode_share(block, &times, prompt_s / block->seconds);
    }
    saving->highest_s[LULL_SAVING_PREFILL] += prompt_s;
    saving->highest_s[LULL_SAVING_DECODE] += decode_s;
    saving->highest_s[LULL_SAVING_IDLE] += block->seconds - prompt_s - decode_s;
    *block = (struct lull_saving_block){0};
}

static void saving_extend_block(struct lull_server_saving *saving,
                                const struct lull_saving_change *change,
                                const struct lull_saving_window *more)
{
    struct lull_saving_block *const block = &saving->block;
    const struct lull_server_load *const load = change->load;

    block->seconds += more->seconds;
    if (change->is_highest)
        block->highest_s += more->seconds;
    for (int i = 0; i < LULL_SAVING_STATES; i++)
        block->state_s[i] += more->state_s[i];
    block->prompt_tokens += load->change.prompt_tokens;
    block->first_tokens += load->change.first_tokens;
    block->decoded_tokens += fmax(load->change.output_tokens - load->change.first_tokens, 0.0);
    block->decoding[block->samples++] = fmax(load->requests - load->pending, 0.0);
    if (block->seconds >= block_s || block->samples == LULL_SAVING_SAMPLES)
        saving_close_block(saving, change);
}

/* ---- readings ----------------------------------------------------------------------------- */

static void saving_watch_idle(struct lull_server_saving *saving,
                              const struct lull_saving_change *change, enum lull_saving_state now)
{
    const bool is_idle = saving->state == LULL_SAVING_IDLE && now == LULL_SAVING_IDLE &&
                         change->load->change.arrived <= 0.0 && change->is_steady;
    const double waiting = saving_waiting(change->model, change->in_force);

    saving->idle_readings = is_idle ? saving->idle_readings + 1 : 0;
    if (saving->idle_readings < SETTLED_READINGS || !isfinite(change->joules) ||
        saving->state_s[LULL_SAVING_DECODE] + saving->state_s[LULL_SAVING_PREFILL] <= 0.0)
        return;
    saving->idle_s += change->load->change.seconds;
    saving->waiting_j += change->joules;
    saving->waiting_s += waiting * change->load->change.seconds;
}

static void saving_add(struct lull_server_saving *saving, const struct lull_saving_change *change)
{
    const struct lull_saving_window more = saving_measure(saving, change);

    saving->seconds += more.seconds;
    saving->joules += more.joules;
    for (int i = 0; i < LULL_SAVING_STATES; i++)
        saving->state_s[i] += more.state_s[i];
    saving->prompt_s += change->load->change.prompt_tokens *
                        lull_server_model_times(change->model, change->in_force).prompt_s;
    saving_extend(&saving->window, &more);
    if (saving->window.seconds >= window_s)
        saving_close_window(saving, change);
    if (change->is_highest)
        saving_extend(&saving->at_highest, &more);
    if (!change->is_highest || saving->at_highest.seconds >= highest_window_s)
        saving_close_highest(saving, change);
    saving_extend_block(saving, change, &more);
}

void lull_server_saving_take(struct lull_server_saving *saving,
                             const struct lull_saving_change *change)
{
    const enum lull_saving_state now = saving_state_of(change);

    saving_watch_idle(saving, change, now);
    if (isfinite(change->joules) && change->load->change.seconds > 0.0) {
        saving_add(saving, change);
    } else {
        saving->window = (struct lull_saving_window){0};
        saving->at_highest = (struct lull_saving_window){0};
    }
    saving->state = now;
}

void lull_server_saving_add(struct lull_server_saving *saving, double joules, double highest_j)
{
    if (!isfinite(joules) || !isfinite(highest_j))
        return;
    saving->past_j += joules;
    saving->past_highest_j += highest_j;
}

/* ---- results ------------------------------------------------------------------------------ */

/* The energy of this life of the server at the highest clock; NAN: unknown. The block under way
 * counts like the others. */
static double saving_highest_j(const struct lull_server_saving *saving,
                               const struct lull_server_model *model,
                               const struct lull_server_clock *highest)
{
    const struct saving_powers powers = saving_fit(saving, model, highest);
    double seconds = 0.0;
    double joules = 0.0;

    if (model->windows < 1.0 || !model->has_power)
        return NAN;
    for (int i = 0; i < LULL_SAVING_STATES; i++) {
        seconds += saving->highest_s[i];
        joules += saving->highest_s[i] * powers.watts[i];
    }
    return seconds > 0.0 ? joules * saving->seconds / seconds : NAN;
}

void lull_server_saving_restart(struct lull_server_saving *saving,
                                const struct lull_server_model *model,
                                const struct lull_server_clock *highest)
{
    const double highest_j = saving_highest_j(saving, model, highest);
    const bool is_known = isfinite(highest_j);

    *saving = (struct lull_server_saving){
        .past_j = saving->past_j + (is_known ? saving->joules : 0.0),
        .past_highest_j = saving->past_highest_j + (is_known ? highest_j : 0.0),
    };
}

double lull_server_saving_ratio(const struct lull_server_saving *saving,
                                const struct lull_server_model *model,
                                const struct lull_server_clock *highest)
{
    const double now_j = saving_highest_j(saving, model, highest);
    const bool is_known = isfinite(now_j);
    const double highest_j = saving->past_highest_j + (is_known ? now_j : 0.0);
    const double spent_j = saving->past_j + (is_known ? saving->joules : 0.0);

    return highest_j > 0.0 ? 1.0 - spent_j / highest_j : NAN;
}
