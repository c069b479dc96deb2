/* SPDX-License-Identifier: Apache-2.0 */
#include "serving_plant.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BATCH = 256 };

/* vLLM's bounds. */
static const double ttft_bounds[] = {0.001, 0.005, 0.01, 0.02,  0.04,  0.06,   0.08,    0.1,
                                     0.25,  0.5,   0.75, 1.0,   2.5,   5.0,    7.5,     10.0,
                                     20.0,  40.0,  80.0, 160.0, 640.0, 2560.0, INFINITY};
static const double tpot_bounds[] = {0.01, 0.025, 0.05, 0.075, 0.1,  0.15,    0.2,
                                     0.3,  0.4,   0.5,  0.75,  1.0,  2.5,     5.0,
                                     7.5,  10.0,  20.0, 40.0,  80.0, INFINITY};

/* vLLM's bounds of times and lengths of requests that end. */
static const double end_bounds[] = {0.3,  0.5,  0.8,  1.0,  1.5,   2.0,   2.5,
                                    5.0,  10.0, 15.0, 20.0, 30.0,  40.0,  50.0,
                                    60.0, 120., 240., 480., 960.0, 1920., INFINITY};
static const double answer_bounds[] = {1.0,   2.0,   5.0,    10.0,   20.0,   50.0,    100.0,
                                       200.0, 500.0, 1000.0, 2000.0, 5000.0, 10000.0, INFINITY};

struct sequence {
    size_t request;
    double begun_s; /* it left the queue */
    double last_s;  /* its last token */
    double prefilled;
    double emitted;
    double first_s;
};

struct plant {
    const struct plant_config *config;
    struct plant_request *requests;
    size_t count;
    size_t next;   /* arrived before */
    size_t queued; /* first of the queue */
    struct sequence batch[MAX_BATCH];
    uint32_t running;
    double now_s;
    double joules;
    double busy_s;
    double clock_s;
    struct lull_device_clock clock;
    double pending_mhz; /* takes effect at pending_s */
    double pending_s;
    struct lull_serving_reading counters;
    struct plant_ends ends;
    double look_s; /* the next reading */
    struct lull_serving_reading shown;
    struct lull_serving_controller *controller; /* NULL: none */
    const struct plant_faults *faults;
    bool has_restarted;
    plant_watch_fn *watch;
    void *user;
    struct plant_result result;
};

struct plant_config plant_small(const struct lull_device_curve *curve)
{
    return (struct plant_config){
        .curve = curve,
        .host_s = 0.001,
        .step_s = 0.007,
        .sequence_s = 0.00005,
        .prompt_s = 1.0 / 25000.0,
        .decode_memory_ratio = 0.8,
        .prefill_memory_ratio = 0.05,
        .base_w = 90.0,
        .decode_w = 90.0,
        .prefill_w = 210.0,
        .budget_tokens = 8192.0,
        .latency_s = 0.03,
        .period_s = 0.1,
    };
}

struct lull_serving_config plant_controller_config(const struct plant_config *plant,
                                                   const struct lull_objective *objective)
{
    struct lull_serving_config config = {
        .objective = *objective,
        .curve = plant->curve,
        .gpu_count = 1,
        .period_ns = (int64_t)(plant->period_s * 1e9),
        .latency_ns = (int64_t)(plant->latency_s * 1e9),
        .park_after_ns = INT64_C(500000000),
        .wake_s = INFINITY,
        .seed = 1,
    };
    const double highest = plant->curve->sm_max_mhz;
    const double lowest = plant->curve->sm_min_mhz;

    config.clock_count = 48;
    for (uint32_t i = 0; i < config.clock_count; i++)
        config.clocks_mhz[i] =
            highest - 15.0 * floor((highest - lowest) * i / (config.clock_count - 1) / 15.0);
    return config;
}

size_t plant_arrivals(struct plant_request *requests, size_t room, double from_s, double to_s,
                      double rate, double prompt_tokens, double output_tokens,
                      struct lull_random *random)
{
    size_t count = 0;
    double at_s = from_s;

    while (count < room) {
        at_s -= log(1.0 - lull_random_uniform(random)) / rate;
        if (at_s >= to_s)
            break;
        requests[count++] = (struct plant_request){
            .arrival_s = at_s,
            .prompt_tokens = 1.0 - floor(prompt_tokens * log(1.0 - lull_random_uniform(random))),
            .output_tokens = 2.0 - floor(output_tokens * log(1.0 - lull_random_uniform(random))),
        };
    }
    return count;
}

static void count_value(struct lull_serving_histogram *histogram, double value_s)
{
    histogram->sum_s += value_s;
    for (uint32_t i = 0; i < histogram->count; i++)
        histogram->total[i] += value_s <= histogram->bound_s[i] ? 1.0 : 0.0;
}

static void set_bounds(struct lull_serving_histogram *histogram, const double *bounds, size_t count)
{
    histogram->count = (uint32_t)count;
    memcpy(histogram->bound_s, bounds, count * sizeof(*bounds));
}

static void reset_counters(struct plant *plant)
{
    struct lull_serving_reading *const counters = &plant->counters;
    const size_t ends = sizeof(end_bounds) / sizeof(end_bounds[0]);

    plant->ends = (struct plant_ends){0};
    set_bounds(&plant->ends.queue, end_bounds, ends);
    set_bounds(&plant->ends.prefill, end_bounds, ends);
    set_bounds(&plant->ends.decode, end_bounds, ends);
    set_bounds(&plant->ends.answer, answer_bounds,
               sizeof(answer_bounds) / sizeof(answer_bounds[0]));
    *counters = (struct lull_serving_reading){0};
    set_bounds(&counters->ttft, ttft_bounds, sizeof(ttft_bounds) / sizeof(ttft_bounds[0]));
    set_bounds(&counters->tpot, tpot_bounds, sizeof(tpot_bounds) / sizeof(tpot_bounds[0]));
    set_bounds(&counters->itl, tpot_bounds, sizeof(tpot_bounds) / sizeof(tpot_bounds[0]));
}

static void look(struct plant *plant);

/* Time passes at one power, up to a reading or a change of the clock. Returns what is left. */
static double pass(struct plant *plant, double seconds, double watts)
{
    const double until_s = fmin(plant->pending_s, plant->look_s);
    const double passed_s = fmin(seconds, fmax(until_s - plant->now_s, 0.0));

    plant->joules += passed_s * watts;
    plant->clock_s += passed_s * plant->clock.core_ratio;
    plant->now_s += passed_s;
    if (plant->now_s >= plant->pending_s) {
        plant->clock = lull_device_clock_at(plant->config->curve, plant->pending_mhz);
        plant->pending_s = INFINITY;
    }
    if (plant->now_s >= plant->look_s)
        look(plant);
    return seconds - passed_s;
}

static void pass_waiting(struct plant *plant, double seconds)
{
    while (seconds > 1e-12)
        seconds = pass(plant, seconds, plant->clock.waiting_w);
}

/* Computes what takes `seconds` at the highest clock. */
static void compute(struct plant *plant, double seconds, double slope_w, double memory_ratio)
{
    const struct lull_device_kernel kernel = {plant->config->base_w, slope_w, memory_ratio};

    while (seconds > 1e-12) {
        const double time = lull_device_kernel_time(&plant->clock, &kernel);

        seconds = pass(plant, seconds * time, lull_device_kernel_w(&plant->clock, &kernel)) / time;
    }
}

static void admit(struct plant *plant)
{
    while (plant->next < plant->count && plant->requests[plant->next].arrival_s <= plant->now_s)
        plant->next++;
    while (plant->queued < plant->next && plant->running < MAX_BATCH)
        plant->batch[plant->running++] =
            (struct sequence){.request = plant->queued++, .begun_s = plant->now_s};
}

/* Finishes or emits for each sequence that is decoded or that ends its prefill. */
static void emit(struct plant *plant, const double *taken)
{
    struct lull_serving_reading *const counters = &plant->counters;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < plant->running; i++) {
        struct sequence sequence = plant->batch[i];
        struct plant_request *const request = &plant->requests[sequence.request];
        const bool was_prefilled = sequence.prefilled >= request->prompt_tokens;

        sequence.prefilled += taken[i];
        if (sequence.prefilled >= request->prompt_tokens) {
            sequence.emitted++;
            counters->output_tokens++;
            if (was_prefilled)
                count_value(&counters->itl, plant->now_s - sequence.last_s);
            sequence.last_s = plant->now_s;
            if (!was_prefilled) {
                request->ttft_s = plant->now_s - request->arrival_s;
                sequence.first_s = plant->now_s;
                counters->prompt_tokens += request->prompt_tokens;
                count_value(&counters->ttft, request->ttft_s);
            }
        }
        if (sequence.emitted < request->output_tokens) {
            plant->batch[kept++] = sequence;
            continue;
        }
        counters->finished++;
        count_value(&plant->ends.queue, sequence.begun_s - request->arrival_s);
        count_value(&plant->ends.prefill, sequence.first_s - sequence.begun_s);
        count_value(&plant->ends.decode, plant->now_s - sequence.first_s);
        count_value(&plant->ends.answer, request->output_tokens);
        if (request->output_tokens > 1.0) {
            request->tpot_s = (plant->now_s - sequence.first_s) / (request->output_tokens - 1.0);
            count_value(&counters->tpot, request->tpot_s);
        }
    }
    plant->running = kept;
}

static void step(struct plant *plant)
{
    const struct plant_config *const config = plant->config;
    const double begin_s = plant->now_s;
    double taken[MAX_BATCH] = {0};
    double budget = config->budget_tokens;
    double decoding = 0.0;
    double prompt = 0.0;

    for (uint32_t i = 0; i < plant->running; i++)
        decoding +=
            plant->batch[i].prefilled >= plant->requests[plant->batch[i].request].prompt_tokens;
    budget -= decoding;
    for (uint32_t i = 0; i < plant->running; i++) {
        taken[i] =
            fmin(plant->requests[plant->batch[i].request].prompt_tokens - plant->batch[i].prefilled,
                 budget - prompt);
        prompt += taken[i];
    }
    pass_waiting(plant, config->host_s);
    compute(plant, config->step_s + config->sequence_s * decoding, config->decode_w,
            config->decode_memory_ratio);
    compute(plant, config->prompt_s * prompt, config->prefill_w, config->prefill_memory_ratio);
    plant->busy_s += plant->now_s - begin_s;
    plant->counters.steps++;
    emit(plant, taken);
}

static void advance(struct plant *plant, double until_s)
{
    while (plant->now_s < until_s) {
        double idle_s = until_s - plant->now_s;

        admit(plant);
        if (plant->running > 0) {
            step(plant);
            continue;
        }
        if (plant->next < plant->count)
            idle_s = fmin(idle_s, plant->requests[plant->next].arrival_s - plant->now_s + 1e-9);
        pass_waiting(plant, fmax(idle_s, 1e-9));
    }
    admit(plant);
}

static bool is_within(double now_s, double from_s, double to_s)
{
    return from_s > 0.0 && now_s >= from_s && now_s < to_s;
}

static void decide(struct plant *plant, int64_t now_ns)
{
    const double mhz = lull_serving_controller_poll(plant->controller, now_ns);

    if (mhz < plant->config->curve->sm_max_mhz)
        plant->result.first_lower_s = fmin(plant->result.first_lower_s, plant->now_s);
    if (mhz != plant->pending_mhz) {
        plant->pending_mhz = mhz;
        plant->pending_s = plant->now_s + plant->config->latency_s;
    }
    lull_serving_controller_state(plant->controller, &plant->result.state);
    if (plant->watch != NULL)
        plant->watch(plant->user, plant->now_s, mhz, &plant->shown, &plant->result.state);
}

/* A reading, which may be in the middle of a step. */
static void look(struct plant *plant)
{
    const struct plant_faults *const faults = plant->faults;
    const double now_s = plant->now_s;
    const int64_t now_ns = (int64_t)(now_s * 1e9);

    plant->look_s += plant->config->period_s;
    if (plant->controller == NULL)
        return;
    if (faults->restart_s > 0.0 && !plant->has_restarted && now_s >= faults->restart_s) {
        plant->has_restarted = true;
        reset_counters(plant);
        plant->counters.is_restarted = true;
    }
    while (plant->next < plant->count && plant->requests[plant->next].arrival_s <= now_s)
        plant->next++;
    lull_serving_controller_take_clock(plant->controller, now_ns, plant->clock.mhz);
    lull_serving_controller_take_energy(plant->controller, now_ns, plant->joules);
    if (!is_within(now_s, faults->vanish_from_s, faults->vanish_to_s)) {
        if (!is_within(now_s, faults->freeze_from_s, faults->freeze_to_s))
            plant->shown = plant->counters;
        if (faults->lacks_ttft)
            plant->shown.ttft = (struct lull_serving_histogram){0};
        if (faults->lacks_tpot)
            plant->shown.tpot = (struct lull_serving_histogram){0};
        plant->shown.time_ns = now_ns;
        plant->shown.running = plant->running;
        plant->shown.waiting = (double)(plant->next - plant->queued);
        if (faults->change != NULL)
            faults->change(faults->changer, &plant->ends, &plant->shown);
        lull_serving_controller_take(plant->controller, &plant->shown);
        plant->counters.is_restarted = false;
    }
    decide(plant, now_ns);
}

struct plant_result plant_run(const struct plant_config *config, struct plant_request *requests,
                              size_t count, double seconds,
                              struct lull_serving_controller *controller, double fixed_mhz,
                              const struct plant_faults *faults, plant_watch_fn *watch, void *user)
{
    static const struct plant_faults none;
    struct plant plant = {
        .config = config,
        .requests = requests,
        .count = count,
        .pending_s = INFINITY,
        .look_s = config->period_s,
        .controller = controller,
        .faults = faults != NULL ? faults : &none,
        .watch = watch,
        .user = user,
        .result = {.first_lower_s = INFINITY},
    };

    for (size_t i = 0; i < count; i++)
        requests[i].ttft_s = requests[i].tpot_s = NAN;
    reset_counters(&plant);
    plant.clock = lull_device_clock_at(config->curve,
                                       controller != NULL ? config->curve->sm_max_mhz : fixed_mhz);
    plant.pending_mhz = plant.clock.mhz;
    advance(&plant, seconds);
    plant.result.joules = plant.joules;
    plant.result.seconds = plant.now_s;
    plant.result.busy_s = plant.busy_s;
    plant.result.clock_s = plant.clock_s;
    return plant.result;
}

bool plant_missed(const struct plant_request *request, const struct lull_objective *objective)
{
    return request->ttft_s > objective->ttft_s || request->tpot_s > objective->tpot_s;
}
