/* Measures the time and energy of the job under each limit. SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "governor/limits/power_limits_state.h"
#include "governor/limits/stored_limits.h"

/* Energy is measured in pieces of this length: long against the time between readings of the
 * counter, short against a slice. */
static const int64_t piece_ns = LULL_NS_PER_S / 2;
/* Clocks that are tried under a limit are this far apart at least. */
static const double clock_step_ratio = 0.05;
/* Upper limit of the clocks that are tried under a limit. */
enum { MAX_CLOCKS = 8 };

static bool is_temperature_due(const struct lull_limits *limits, const struct lull_limited_gpu *gpu,
                               int64_t now_ns)
{
    if (limits->stage == LULL_LIMITS_WARMING)
        return !gpu->is_warm && lull_warmth_is_due(&gpu->warmth, now_ns);
    return gpu->temperature_ns == 0 || now_ns - gpu->temperature_ns >= piece_ns / 2;
}

uint32_t lull_limits_wanted(const struct lull_limits *limits, const struct lull_control *control,
                            uint32_t gpu, int64_t now_ns)
{
    uint32_t wanted = 0;

    if (limits->stage == LULL_LIMITS_WAITING) {
        const bool is_bound = lull_control_gpu(control, gpu)->process >= 0;

        return is_bound && !limits->is_present_known[gpu] ? LULL_READING_POWER_LIMIT : 0;
    }
    for (uint32_t i = 0; i < limits->gpu_count; i++) {
        if (limits->gpus[i].index != gpu)
            continue;
        if (limits->stage == LULL_LIMITS_PROFILING)
            wanted = LULL_READING_ENERGY | LULL_READING_SM_CLOCK;
        if ((limits->stage == LULL_LIMITS_PROFILING || limits->stage == LULL_LIMITS_WARMING) &&
            is_temperature_due(limits, &limits->gpus[i], now_ns))
            wanted |= LULL_READING_TEMPERATURE;
    }
    return wanted;
}

static void take_temperature(struct lull_limits *limits, struct lull_limited_gpu *gpu,
                             const struct lull_sample *sample)
{
    const bool is_valid = (sample->reading.valid & LULL_READING_TEMPERATURE) != 0;

    gpu->temperature_c = is_valid ? (double)sample->reading.temperature_c : NAN;
    gpu->temperature_ns = sample->time_ns;
    if (limits->stage == LULL_LIMITS_WARMING && !gpu->is_warm)
        gpu->is_warm =
            !is_valid || lull_warmth_take(&gpu->warmth, sample->time_ns, gpu->temperature_c);
}

/* A clock belongs to the operating point under way if it was read in a piece of it. */
static void take_clock(struct lull_limits *limits, const struct lull_sample *sample)
{
    uint32_t measured;
    uint32_t count;

    if (limits->stage != LULL_LIMITS_PROFILING || limits->begin_ns == 0 ||
        sample->time_ns < limits->begin_ns)
        return;
    lull_limit_search_measures(limits->search, &measured, &count);
    if (measured < LULL_LIMIT_SEARCH_POINTS)
        lull_moments_add(&limits->clock_mhz[measured], sample->reading.sm_mhz);
}

void lull_limits_take(struct lull_limits *limits, uint32_t gpu, uint32_t wanted,
                      const struct lull_sample *sample)
{
    const struct lull_device_reading *const reading = &sample->reading;

    if ((wanted & LULL_READING_POWER_LIMIT) != 0 && limits->stage == LULL_LIMITS_WAITING) {
        const bool is_valid = (reading->valid & LULL_READING_POWER_LIMIT) != 0;

        limits->present_w[gpu] = is_valid ? reading->power_limit_mw * 1e-3 : NAN;
        limits->is_present_known[gpu] = true;
    }
    for (uint32_t i = 0; i < limits->gpu_count; i++) {
        if (limits->gpus[i].index != gpu)
            continue;
        if ((reading->valid & LULL_READING_ENERGY) != 0)
            lull_counter_take(&limits->gpus[i].counter, sample->time_ns,
                              (double)reading->energy_mj * 1e-3);
        if ((reading->valid & LULL_READING_SM_CLOCK) != 0)
            take_clock(limits, sample);
        if ((wanted & LULL_READING_TEMPERATURE) != 0)
            take_temperature(limits, &limits->gpus[i], sample);
    }
}

/* Walks along the iterations until a piece ends; after an interruption it starts again. */
static void find_edges(struct lull_limits *limits, struct lull_control *control)
{
    const struct lull_boundaries *boundaries;

    lull_control_lock(control);
    boundaries = &lull_control_log(control, limits->gpus[0].index)->boundaries;
    for (; limits->end_ns == 0 && limits->seen < boundaries->count; limits->seen++) {
        const struct lull_boundary *boundary = &boundaries->items[limits->seen];

        if (limits->begin_ns == 0 || boundary->first) {
            limits->begin_ns = boundary->time_ns;
            limits->begin_known = false;
            limits->iterations = 0;
            continue;
        }
        limits->iterations++;
        if (boundary->time_ns - limits->begin_ns >= piece_ns)
            limits->end_ns = boundary->time_ns;
    }
    lull_control_unlock(control);
}

static void find_begin_energies(struct lull_limits *limits)
{
    bool are_known = limits->begin_ns != 0;

    for (uint32_t i = 0; i < limits->gpu_count && are_known; i++)
        are_known =
            lull_counter_at(&limits->gpus[i].counter, limits->begin_ns, &limits->gpus[i].begin_j);
    limits->begin_known = are_known;
}

/* Finds the energy of the piece; NAN: a counter shows more or less than its GPU can draw. False: it
 * is not known yet. */
static bool limit_profiling_find_energy(const struct lull_limits *limits,
                                        const struct lull_control *control, double *joules_out)
{
    const double seconds = (double)(limits->end_ns - limits->begin_ns) * 1e-9;
    double joules = 0.0;

    for (uint32_t i = 0; i < limits->gpu_count; i++) {
        struct lull_power_range range;
        double drawn_j;
        double end_j;

        if (!lull_counter_at(&limits->gpus[i].counter, limits->end_ns, &end_j))
            return false;
        range = lull_device_power_range(lull_limits_info(limits, control, i));
        drawn_j = end_j - limits->gpus[i].begin_j;
        joules += lull_power_is_plausible(&range, drawn_j / seconds) ? drawn_j : NAN;
    }
    *joules_out = joules;
    return true;
}

/* Returns the mean temperature of the job's GPUs; NAN if one of them reports none. */
static double limit_profiling_temperature_c(const struct lull_limits *limits)
{
    double sum_c = 0.0;

    for (uint32_t i = 0; i < limits->gpu_count; i++)
        sum_c += limits->gpus[i].temperature_c;
    return sum_c / (double)limits->gpu_count;
}

/* Chooses the clocks to try: from the one that the limit has led to downwards, a few percent apart.
 * Returns how many. */
static uint32_t limit_profiling_choose_clocks(const struct lull_device_info *info,
                                              double highest_mhz, uint32_t *clocks_out)
{
    double next_mhz = highest_mhz;
    uint32_t count = 0;

    for (uint32_t i = 0; i < info->sm_clock_count && count < MAX_CLOCKS; i++)
        if (info->sm_clocks_mhz[i] <= next_mhz) {
            clocks_out[count++] = info->sm_clocks_mhz[i];
            next_mhz = info->sm_clocks_mhz[i] * (1.0 - clock_step_ratio);
        }
    return count;
}

static bool limit_profiling_refine(struct lull_limits *limits, struct lull_control *control)
{
    uint32_t clocks[MAX_CLOCKS];
    uint32_t measured;
    uint32_t count;
    uint32_t best = 0;
    const struct lull_limit_measure *measures =
        lull_limit_search_measures(limits->search, &measured, &count);

    if (!limits->options->clocks || limits->is_refining ||
        lull_limit_choose(&limits->options->search.selector, measures, measured, &best, NULL) < 0)
        return false;
    limits->is_refining = true;
    count = limit_profiling_choose_clocks(lull_limits_info(limits, control, 0),
                                          limits->clock_mhz[best].mean, clocks);
    return count > 0 && lull_limit_search_refine(limits->search, clocks, count, NULL) == 0;
}

static void limit_profiling_finish(struct lull_limits *limits, struct lull_control *control,
                                   struct lull_error *note_out)
{
    struct lull_limit_profile *profile = &limits->profile;
    uint32_t measured;
    uint32_t count;
    const struct lull_limit_measure *measures =
        lull_limit_search_measures(limits->search, &measured, &count);

    memcpy(profile->measures, measures, measured * sizeof(measures[0]));
    profile->count = measured;
    profile->measured_s = time(NULL);
    gethostname(profile->host, sizeof(profile->host) - 1);
    lull_limits_hold_choice(limits, control, note_out);
    if (limits->stage == LULL_LIMITS_HELD)
        lull_stored_limits_remember(&limits->profile, note_out);
}

void lull_limits_profile(struct lull_limits *limits, struct lull_control *control,
                         struct lull_error *note_out)
{
    double joules = NAN;

    find_edges(limits, control);
    if (!limits->begin_known)
        find_begin_energies(limits);
    if (limits->end_ns == 0)
        return;
    if (limits->begin_known && !limit_profiling_find_energy(limits, control, &joules))
        return;
    if (isfinite(joules))
        lull_limit_search_take(limits->search, limits->iterations,
                               (double)(limits->end_ns - limits->begin_ns) * 1e-9, joules,
                               limit_profiling_temperature_c(limits));
    limits->spent_s = lull_limit_search_spent_s(limits->search);
    limits->begin_ns = limits->end_ns;
    for (uint32_t i = 0; i < limits->gpu_count && limits->begin_known; i++)
        lull_counter_at(&limits->gpus[i].counter, limits->end_ns, &limits->gpus[i].begin_j);
    limits->end_ns = 0;
    limits->iterations = 0;
    if (lull_limit_search_now(limits->search) == NULL && !limit_profiling_refine(limits, control))
        limit_profiling_finish(limits, control, note_out);
}

int lull_limits_begin_search(struct lull_limits *limits, struct lull_control *control,
                             double highest_w, struct lull_error *err)
{
    struct lull_limit_search_config config = limits->options->search;
    struct lull_limit_point points[LULL_LIMIT_SEARCH_POINTS];
    const double lowest_w = lull_limits_info(limits, control, 0)->power_limit_min_mw * 1e-3;
    const char *borrower;
    uint32_t count;

    if (!(lowest_w > 0.0) || lowest_w > highest_w)
        return lull_error_set(err, LULL_E_UNSUPPORTED,
                              "power limits are not set: the driver reports no range for the GPU");
    config.selector.price.max_power_w = highest_w;
    config.selector.price.gpu_count = limits->gpu_count;
    config.gpu_count = limits->gpu_count;
    config.curve =
        lull_device_curve_of_product(lull_limits_info(limits, control, 0)->name, &borrower);
    if (borrower != NULL) /* curves of another model are a guess, by which nothing is skipped */
        config.curve = NULL;
    count = lull_limit_search_ladder(highest_w, lowest_w, limits->options->step_w, points);
    return lull_limit_search_create(&config, points, count, &limits->search, err);
}
