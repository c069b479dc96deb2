/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/emulator/closed_loop.h"

#include <math.h>
#include <string.h>

enum {
    MAX_PROMPTS = 64,
    BUDGET_TOKENS = 8192, /* of a step: vLLM's default on these GPUs */
};

/* Mean context of a running sequence beyond its prompt, per output token: half for equal lengths.
 * Derived from rows whose batch is limited by the cache. */
static const double context_ratio = 0.58;

struct mix {
    const struct closed_loop *loop;
    struct lull_step_cost costs[MAX_PROMPTS];
    double shares[MAX_PROMPTS]; /* of the steps */
    uint32_t count;
};

static void take_step(const struct lull_step_gpu *params, struct mix *mix, uint32_t prompts)
{
    const struct closed_loop *const loop = mix->loop;
    const double context = loop->prompt_tokens + context_ratio * loop->output_tokens;
    const double decoding = fmax(loop->batch - prompts, 1.0);
    const struct lull_step_batch batch = {
        .decoding = (uint32_t)lround(decoding),
        .decode_context = decoding * context,
        .prefill_tokens = (uint32_t)lround(prompts * loop->prompt_tokens),
        .prompts = prompts,
        .prefill_context = prompts * loop->prompt_tokens * loop->prompt_tokens / 2.0,
        .sampled = (uint32_t)lround(decoding) + prompts,
    };

    lull_step_cost_with(params, &loop->setup, &batch, &mix->costs[prompts]);
    mix->costs[prompts].host_s += loop->host_s + prompts * loop->prompt_host_s;
}

/* A prompt that is longer than the budget takes several steps: then each of them counts as one with
 * fewer tokens. */
static void fill_mix(const struct lull_step_gpu *params, struct mix *mix)
{
    const struct closed_loop *const loop = mix->loop;
    const double rate = loop->batch / loop->output_tokens;
    const double room = fmax(floor(BUDGET_TOKENS / loop->prompt_tokens), 1.0);
    const uint32_t most = (uint32_t)fmin(room, MAX_PROMPTS - 1);
    const double mean = fmin(rate, most);
    double share = exp(-mean);
    double rest = 1.0;

    for (uint32_t n = 0; n <= most; n++) {
        mix->shares[n] = n < most ? share : rest;
        rest -= share;
        share *= mean / (n + 1);
        take_step(params, mix, n);
        mix->count = n + 1;
    }
}

struct averages {
    double seconds;
    double joules;
    double busy_s;
};

static double step_s(const struct mix *mix, uint32_t prompts, double mhz)
{
    const struct lull_step_cost *const cost = &mix->costs[prompts];

    return cost->host_s + cost->gpu_s / lull_gpu_model_speed(mix->loop->setup.gpu,
                                                             cost->profile.memory_ratio, mhz);
}

static struct averages average(const struct mix *mix, double mhz)
{
    const struct lull_gpu_model *const gpu = mix->loop->setup.gpu;
    const double waiting_w = lull_gpu_curve_at(&gpu->active_idle_w, mhz);
    struct averages sum = {0};

    for (uint32_t n = 0; n < mix->count; n++) {
        const struct lull_step_cost *const cost = &mix->costs[n];
        const double busy_s = step_s(mix, n, mhz) - cost->host_s;
        const double busy_w = lull_gpu_model_kernel_w(gpu, &cost->profile, mhz);

        sum.seconds += mix->shares[n] * (busy_s + cost->host_s);
        sum.busy_s += mix->shares[n] * busy_s;
        sum.joules += mix->shares[n] * (busy_s * busy_w + cost->host_s * waiting_w);
    }
    return sum;
}

static double median_s(const struct mix *mix, double mhz)
{
    double share = 0;

    for (uint32_t n = 0; n < mix->count; n++) {
        share += mix->shares[n];
        if (share >= 0.5)
            return step_s(mix, n, mhz);
    }
    return step_s(mix, mix->count - 1, mhz);
}

/* Lowers the clock until the limit is kept, as the board's limiter does. */
static struct averages average_limited(const struct mix *mix, double *mhz_out)
{
    const struct lull_gpu_model *const gpu = mix->loop->setup.gpu;
    const double limit_w = gpu->limit_default_w * gpu->limit_settle_ratio;
    double mhz = gpu->sm_max_mhz;
    struct averages sum = average(mix, mhz);

    while (sum.joules / sum.seconds > limit_w && mhz > gpu->sm_min_mhz) {
        mhz -= gpu->sm_step_mhz;
        sum = average(mix, mhz);
    }
    *mhz_out = mhz;
    return sum;
}

static struct closed_loop_result measure_mix(const struct mix *mix, bool is_limited)
{
    double mhz = mix->loop->setup.gpu->sm_max_mhz;
    const struct averages sum = is_limited ? average_limited(mix, &mhz) : average(mix, mhz);

    return (struct closed_loop_result){
        .median_s = median_s(mix, mhz),
        .mean_s = sum.seconds,
        .gpu_w = sum.joules / sum.seconds,
        .mhz = mhz,
        .busy_ratio = sum.busy_s / sum.seconds,
    };
}

struct closed_loop_result closed_loop_run(const struct lull_step_gpu *params,
                                          const struct closed_loop *loop)
{
    struct mix mix = {.loop = loop};

    fill_mix(params, &mix);
    return measure_mix(&mix, true);
}

struct closed_loop_result closed_loop_kernel(const struct lull_gpu_model *gpu,
                                             const struct lull_step_cost *cost, bool is_limited)
{
    const struct closed_loop loop = {.setup = {.gpu = gpu}};
    const struct mix mix = {.loop = &loop, .costs = {*cost}, .shares = {1.0}, .count = 1};

    return measure_mix(&mix, is_limited);
}

const struct lull_step_gpu *closed_loop_params(const char *gpu)
{
    for (uint32_t i = 0; i < lull_step_gpu_count; i++)
        if (strcmp(lull_step_gpus[i].name, gpu) == 0)
            return &lull_step_gpus[i];
    return NULL;
}
