/* SPDX-License-Identifier: Apache-2.0 */
#include "core/serving/server_load.h"

#include <math.h>

/* Time over which token rates are averaged. Default: shorter follows bursts, longer keeps the
 * clock from following them. */
static const double rate_s = 10.0;
/* The same of the batch. Default: it only has to be longer than a reading's scatter. */
static const double batch_s = 1.0;
/* The same of the share of busy time. Default: bursts may be minutes apart. */
static const double busy_s = 120.0;
/* The same of the time of a step. Default: an answer of some tokens takes as long. */
static const double step_s = 0.4;
/* Requests that the mean prompt is made of. Default: prompts of one service vary fourfold, so fewer
 * scatter by more than a tenth. */
static const double prompt_memory = 200.0;
/* Time over which a request's life is averaged. Default: it only sets how long a clock is blamed.
 */
static const double life_span_s = 30.0;

/* A burst is found by Page's test ("Continuous inspection schemes", 1954) of a rate that has grown
 * by this factor: the log likelihood ratio of a Poisson process since the last time at which it was
 * least. Beyond the limit it is a burst; it cannot grow much further, so that the end is seen.
 * Default: ten times a rate of one per second are found after four requests. A steady process is
 * taken for a burst once in 150 requests at most. */
static const double burst_factor = 6.0;
static const double burst_limit = 5.0;
static const double burst_most = 7.0;
/* The least rate that a burst is compared with, per second. Default: two requests to an idle server
 * are none. */
static const double burst_least_rate = 0.1;

/* Output tokens for each first token up to which nothing is decoded. Default: counters that are
 * read at different times must not hide a prefill pool. */
static const double prefill_ratio = 1.05;

static bool is_count(double value)
{
    return value >= 0.0 && value < 1e15;
}

/* A counter that is missing in either reading says nothing. */
static double load_growth(double before, double now)
{
    return isfinite(before) && isfinite(now) ? now - before : 0.0;
}

static double load_histogram_count(const struct lull_serving_histogram *histogram)
{
    return histogram->count > 0 ? histogram->total[histogram->count - 1] : NAN;
}

static struct lull_server_change load_compare(const struct lull_serving_reading *before,
                                              const struct lull_serving_reading *now)
{
    struct lull_server_change change = {
        .seconds = (double)(now->time_ns - before->time_ns) * 1e-9,
        .steps = load_growth(before->steps, now->steps),
        .prompt_tokens = load_growth(before->prompt_tokens, now->prompt_tokens),
        .output_tokens = load_growth(before->output_tokens, now->output_tokens),
        .finished = load_growth(before->finished, now->finished),
        .first_tokens =
            load_growth(load_histogram_count(&before->ttft), load_histogram_count(&now->ttft)),
    };

    change.arrived = fmax(
        change.finished + now->running + now->waiting - before->running - before->waiting, 0.0);
    /* Each sequence of the batch gets one token in each step. */
    if (!isfinite(before->steps) || !isfinite(now->steps))
        change.steps = change.output_tokens / fmax((before->running + now->running) / 2.0, 1.0);
    return change;
}

bool lull_server_load_accepts(const struct lull_server_load *load,
                              const struct lull_serving_reading *reading)
{
    struct lull_server_change change;

    if (!is_count(reading->running) || !is_count(reading->waiting) ||
        !(is_count(reading->output_tokens) || reading->is_of_steps))
        return false;
    if (!load->has_reading || reading->is_restarted)
        return true;
    change = load_compare(&load->last, reading);
    return change.seconds > 0.0 && change.steps >= 0.0 && change.prompt_tokens >= 0.0 &&
           change.output_tokens >= 0.0 && change.finished >= 0.0 && change.first_tokens >= 0.0;
}

/* Requests without a token. Counters may have begun at different times, and requests may have been
 * cancelled: an idle server corrects that. */
static void load_count_pending(struct lull_server_load *load)
{
    const struct lull_serving_reading *const last = &load->last;
    const double arrived = last->finished + load->requests;
    const double difference = arrived - load_histogram_count(&last->ttft);

    if (!isfinite(difference) || last->ttft.is_upper) {
        load->pending = last->waiting;
        return;
    }
    if (load->requests == 0.0 || !load->has_offset || difference - load->offset < last->waiting)
        load->offset = difference - last->waiting;
    load->has_offset = true;
    load->pending = fmin(difference - load->offset, load->requests);
}

static void load_watch_bursts(struct lull_server_load *load)
{
    const double expected = fmax(load->arrival_rate, burst_least_rate) * load->change.seconds;

    load->burst += load->change.arrived * log(burst_factor) - (burst_factor - 1.0) * expected;
    load->burst = fmin(fmax(load->burst, 0.0), burst_most);
    load->has_burst = load->pending > 0.0 && (load->has_burst || load->burst > burst_limit);
}

bool lull_server_load_is_prefill(const struct lull_server_load *load)
{
    return load->first_rate > 0.0 && load->output_rate <= prefill_ratio * load->first_rate;
}

static void load_average(struct lull_server_load *load, bool was_idle)
{
    const struct lull_server_change *const change = &load->change;
    const double rate_share = -expm1(-change->seconds / rate_s);

    if (change->seconds <= 0.0)
        return;
    load_watch_bursts(load);
    load->arrival_rate += rate_share * (change->arrived / change->seconds - load->arrival_rate);
    load->prompt_rate += rate_share * (change->prompt_tokens / change->seconds - load->prompt_rate);
    load->output_rate += rate_share * (change->output_tokens / change->seconds - load->output_rate);
    load->first_rate += rate_share * (change->first_tokens / change->seconds - load->first_rate);
    load->busy_ratio +=
        -expm1(-change->seconds / busy_s) * ((load->requests > 0.0 ? 1.0 : 0.0) - load->busy_ratio);
    load->running += -expm1(-change->seconds / batch_s) * (load->last.running - load->running);
    load->recent_s = load->recent_s * exp(-change->seconds / step_s) + change->seconds;
    load->recent_steps = load->recent_steps * exp(-change->seconds / step_s) + change->steps;
    if (load->last.running < 1.0)
        load->recent_s = load->recent_steps = 0.0;
    if (change->finished > 0.0 && load->output_rate > 0.0) {
        const double life_s = load->requests * change->seconds / change->finished;

        load->life_s += -expm1(-change->seconds / life_span_s) * (life_s - load->life_s);
    }
    load->seen_arrivals += change->arrived;
    if (was_idle)
        load->seen_woken += change->arrived;
    if (load->seen_arrivals > prompt_memory) {
        load->seen_woken *= prompt_memory / load->seen_arrivals;
        load->seen_arrivals = prompt_memory;
    }
    load->seen_prompts += change->first_tokens;
    load->seen_prompt_tokens += change->prompt_tokens;
    if (load->seen_prompts > prompt_memory) {
        load->seen_prompt_tokens *= prompt_memory / load->seen_prompts;
        load->seen_prompts = prompt_memory;
    }
    if (load->seen_prompts > 0.0)
        load->prompt_tokens = load->seen_prompt_tokens / load->seen_prompts;
}

void lull_server_load_take(struct lull_server_load *load,
                           const struct lull_serving_reading *reading)
{
    bool was_idle;

    if (reading->is_restarted)
        *load = (struct lull_server_load){0};
    was_idle = load->requests <= 0.0;
    load->change = (struct lull_server_change){0};
    if (load->has_reading)
        load->change = load_compare(&load->last, reading);
    load->last = *reading;
    load->has_reading = true;
    load->requests = reading->running + reading->waiting;
    load_count_pending(load);
    load_average(load, was_idle);
}
