/* SPDX-License-Identifier: Apache-2.0 */
#include "core/serving/step_load.h"

#include <math.h>

/* Times over which steps are remembered, s. Default: a load has steps with and without prompts
 * within ten minutes; in a second requests have waited long enough. */
static const double all_s = 600.0;
static const double recent_s = 1.0;
/* Time over which the prompts' steps are averaged, s. Default: that of token rates. */
static const double rate_s = 10.0;
/* Length of the first bin, s, and the ratio of bins. Default: a step takes 0.5 ms to 0.2 s. */
static const double first_s = 0.5e-3;
static const double bin_ratio = 1.1;
/* Shares of the time of all steps below the longest and below the shortest ones. Default: at high
 * loads few steps have no prompts. */
static const double prompts_share = 0.95;
static const double short_share = 0.02;
/* The longest steps are longer by at least this many bins. Default: half as long again; less may
 * be a larger batch. */
enum { LEAST_BINS = 5 };
/* Share of the recent time in steps with prompts from which requests wait. */
static const double most_share = 0.9;

static int step_load_bin(double seconds)
{
    const double bin = log(seconds / first_s) / log(bin_ratio);

    return (int)fmin(fmax(bin, 0.0), LULL_STEP_LOAD_BINS - 1);
}

static double step_load_sum(const double *times, int first)
{
    double sum_s = 0.0;

    for (int i = first; i < LULL_STEP_LOAD_BINS; i++)
        sum_s += times[i];
    return sum_s;
}

/* The bin below which a share of the time lies. */
static int step_load_quantile(const double *times, double share)
{
    const double above_s = (1.0 - share) * step_load_sum(times, 0);
    int bin = LULL_STEP_LOAD_BINS - 1;

    while (bin > 0 && step_load_sum(times, bin) < above_s)
        bin--;
    return bin;
}

/* The first bin of steps with prompts, halfway from the shortest to the longest ones;
 * LULL_STEP_LOAD_BINS: all steps take about the same time. */
static int step_load_middle(const struct lull_step_load *load)
{
    const int shortest = step_load_quantile(load->light, short_share);
    const int longest = step_load_quantile(load->all, prompts_share);

    return longest - shortest < LEAST_BINS ? LULL_STEP_LOAD_BINS : (shortest + longest + 1) / 2;
}

void lull_step_load_take(struct lull_step_load *load, const struct lull_serving_reading *before,
                         const struct lull_serving_reading *now,
                         const struct lull_server_clock *clock)
{
    const struct lull_serving_histogram *const itl = &now->itl;
    const double seconds = (double)(now->time_ns - before->time_ns) * 1e-9;
    const int middle = step_load_middle(load);
    const double engines = fmax(now->running, 1.0);
    double prompts_s = 0.0;
    double below = 0.0;

    for (int i = 0; i < LULL_STEP_LOAD_BINS; i++) {
        load->all[i] *= exp(-seconds / all_s);
        load->recent[i] *= exp(-seconds / recent_s);
        load->light[i] *= exp(-seconds / all_s);
    }
    for (uint32_t i = 0; i + 1 < itl->count; i++) {
        const double up_to = itl->total[i] - before->itl.total[i];
        const double step_s = itl->bound_s[i] / clock->compute;
        const int bin = step_load_bin(step_s);

        load->all[bin] += (up_to - below) * step_s;
        load->recent[bin] += (up_to - below) * step_s;
        load->light[step_load_bin(itl->bound_s[i] / clock->memory)] += (up_to - below) * step_s;
        prompts_s += bin >= middle ? (up_to - below) * step_s : 0.0;
        below = up_to;
    }
    load->prompt_ratio +=
        -expm1(-seconds / rate_s) * (prompts_s / engines / seconds - load->prompt_ratio);
}

bool lull_step_load_is_full(const struct lull_step_load *load)
{
    const double sum_s = step_load_sum(load->recent, 0);

    return sum_s > 0.0 && step_load_sum(load->recent, step_load_middle(load)) >= most_share * sum_s;
}
