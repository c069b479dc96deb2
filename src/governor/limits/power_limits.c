/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/limits/power_limits.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "core/tuning/thermal.h"
#include "core/stats/counter.h"
#include "governor/limits/stored_limits.h"

/* Energy is measured in pieces of this length: long against the time between readings of the
 * counter, short against a slice. */
static const int64_t piece_ns = LULL_NS_PER_S / 2;
/* A locked clock is renewed well within its validity, which the writer caps at 5 s. */
static const int64_t clock_renewal_ns = LULL_NS_PER_S;
static const int64_t clock_validity_ns = 4 * LULL_NS_PER_S;
/* Clocks that are tried under a limit are this far apart at least. */
static const double clock_step_ratio = 0.05;

/* FIRST_ITERATIONS: seen before profiling begins. REFERENCE_ITERATIONS: run at the present limit
 * before a given limit is held; the slowdown is relative to them. MAX_CLOCKS: upper limit of the
 * tried clocks. */
enum { FIRST_ITERATIONS = 3, REFERENCE_ITERATIONS = 10, MAX_CLOCKS = 8 };

/* A given limit waits no longer than this for these iterations, which a job may never have. */
static const int64_t reference_wait_ns = 10 * LULL_NS_PER_S;

enum lull_limits_stage {
    LULL_LIMITS_WAITING, /* the job has no GPUs or does not iterate yet */
    LULL_LIMITS_WARMING, /* the temperature has not settled yet at the present limit */
    LULL_LIMITS_PROFILING,
    LULL_LIMITS_HELD, /* what was found, or requested, is held */
    LULL_LIMITS_GIVEN_UP,
};

/* One GPU of the job. */
struct lull_limited_gpu {
    uint32_t index;    /* its number in the control */
    uint64_t sequence; /* sequence of the request that was made last */
    struct lull_counter counter;
    struct lull_warmth warmth;
    bool is_warm;
    double temperature_c;   /* the last reading; NAN: the GPU reports none */
    int64_t temperature_ns; /* when that was; 0: not yet */
    double begin_j;         /* energy at the begin of the piece; valid with begin_known */
};

struct lull_limits {
    const struct lull_limits_options *options;
    struct lull_devices *devices;
    enum lull_limits_stage stage;
    /* The limit set by the administrator, per GPU of the control. NAN: the GPU does not report
     * it. */
    double present_w[LULL_CONTROLLER_MAX_GPUS];
    bool is_present_known[LULL_CONTROLLER_MAX_GPUS];
    int64_t bound_ns; /* when the first rank was seen on a GPU; 0: not yet */
    double read_w;    /* the highest limit that was read back for what was requested last */
    bool is_stored;   /* the profile was there before */
    bool is_refining; /* clocks are searched under the best limit */
    struct lull_limit_search *search;
    struct lull_limit_profile profile; /* filled when known; count 0 before */
    uint32_t gpu_count;
    struct lull_limited_gpu gpus[LULL_CONTROLLER_MAX_GPUS];
    struct lull_limit_point asked; /* the operating point that was requested; limit_w 0: none yet */
    bool is_set;                   /* all GPUs have confirmed it */
    int64_t clock_ns;              /* when the clock was requested last */
    double spent_s;
    struct lull_moments clock_mhz[LULL_LIMIT_SEARCH_POINTS];
    /* The piece under way; edges are boundaries of the first GPU's iterations. */
    size_t seen;      /* how many boundaries have been looked at */
    int64_t begin_ns; /* 0: there is no piece */
    bool begin_known; /* the energies at its begin are known */
    int64_t end_ns;   /* 0: it has not ended yet */
    uint64_t iterations;
};

void lull_limits_options_default(struct lull_limits_options *options)
{
    *options = (struct lull_limits_options){.search = lull_limit_search_defaults, .step_w = 25.0};
}

struct lull_limits *lull_limits_create(const struct lull_limits_options *options,
                                       char *const *command, struct lull_devices *devices)
{
    struct lull_limits *limits = calloc(1, sizeof(*limits));

    if (limits == NULL)
        return NULL;
    limits->options = options;
    limits->devices = devices;
    lull_limit_program(command, limits->profile.program);
    return limits;
}

void lull_limits_destroy(struct lull_limits *limits)
{
    if (limits == NULL)
        return;
    lull_limit_search_destroy(limits->search);
    free(limits);
}

static const struct lull_device_info *info_of(const struct lull_limits *limits,
                                              const struct lull_control *control, uint32_t gpu)
{
    return lull_device_info(limits->devices,
                            lull_control_gpu(control, limits->gpus[gpu].index)->device);
}

static void power_limits_abandon(struct lull_limits *limits, struct lull_control *control)
{
    for (uint32_t i = 0; i < limits->gpu_count; i++)
        lull_control_set_limit(control, limits->gpus[i].index, 0);
    lull_control_set_phase(control, LULL_PHASE_SETTLED);
    limits->stage = LULL_LIMITS_GIVEN_UP;
}

/* ---- the job ----------------------------------------------------------------------------- */

static size_t power_limits_iterations_of(struct lull_control *control, uint32_t gpu)
{
    size_t count;

    lull_control_lock(control);
    count = lull_control_log(control, gpu)->boundaries.count;
    lull_control_unlock(control);
    return count;
}

/* Returns whether the limits that the job's GPUs have now are known, or do not matter. */
static bool are_limits_known(const struct lull_limits *limits)
{
    bool are_known = true;

    for (uint32_t i = 0; i < limits->gpu_count; i++)
        are_known = are_known && limits->is_present_known[limits->gpus[i].index];
    return are_known || limits->options->fixed_w > 0.0;
}

/* Finds the GPUs that ranks use. False: the job does not iterate yet. */
static bool power_limits_find_job(struct lull_limits *limits, struct lull_control *control)
{
    limits->gpu_count = 0;
    for (uint32_t i = 0; i < lull_control_gpu_count(control); i++)
        if (lull_control_gpu(control, i)->process >= 0)
            limits->gpus[limits->gpu_count++] =
                (struct lull_limited_gpu){.index = i, .temperature_c = NAN};
    if (limits->gpu_count == 0)
        return false;
    if (limits->bound_ns == 0)
        limits->bound_ns = lull_now_ns();
    if (limits->options->fixed_w > 0.0)
        return power_limits_iterations_of(control, limits->gpus[0].index) > REFERENCE_ITERATIONS ||
               lull_now_ns() - limits->bound_ns > reference_wait_ns;
    return power_limits_iterations_of(control, limits->gpus[0].index) > FIRST_ITERATIONS;
}

static int power_limits_check_job(struct lull_limits *limits, struct lull_control *control,
                                  struct lull_error *err)
{
    const struct lull_device_info *first = info_of(limits, control, 0);

    for (uint32_t i = 0; i < limits->gpu_count; i++) {
        const struct lull_control_gpu *gpu = lull_control_gpu(control, limits->gpus[i].index);
        const struct lull_device_info *info = info_of(limits, control, i);

        if (!gpu->leased)
            return lull_error_set(err, -EPERM, "power limits are not set: GPU %u: %.150s",
                                  gpu->device, gpu->refusal.text);
        if (strcmp(info->name, first->name) != 0)
            return lull_error_set(err, LULL_E_UNSUPPORTED,
                                  "power limits are not set: the job's GPUs differ (%s, %s)",
                                  first->name, info->name);
        if (limits->options->fixed_w == 0.0 &&
            (info->capabilities & LULL_CAPABILITY_ENERGY_COUNTER) == 0)
            return lull_error_set(err, LULL_E_UNSUPPORTED,
                                  "power limits are not set: GPU %u has no energy counter; give "
                                  "one with --power-limit W",
                                  gpu->device);
    }
    return 0;
}

/* Returns the lowest of the limits that the GPUs have now, W. Nothing was requested yet, so they
 * are the administrator's. */
static double present_limit_w(struct lull_limits *limits, struct lull_control *control)
{
    double lowest_w = info_of(limits, control, 0)->power_limit_max_mw * 1e-3;

    for (uint32_t i = 0; i < limits->gpu_count; i++)
        lowest_w = fmin(lowest_w, limits->present_w[limits->gpus[i].index]);
    return lowest_w;
}

/* ---- holding ----------------------------------------------------------------------------- */

static void power_limits_request(struct lull_limits *limits, struct lull_control *control,
                                 const struct lull_limit_point *point)
{
    limits->asked = *point;
    limits->is_set = false;
    limits->read_w = 0.0;
    limits->clock_ns = 0;
    limits->begin_ns = 0;
    limits->end_ns = 0;
    for (uint32_t i = 0; i < limits->gpu_count; i++)
        limits->gpus[i].sequence = lull_control_set_limit(control, limits->gpus[i].index,
                                                          (uint32_t)(point->limit_w * 1e3 + 0.5));
}

/* A locked clock has to be renewed; an unlocked one is requested once. */
static void power_limits_hold_clock(struct lull_limits *limits, struct lull_control *control,
                                    int64_t now_ns)
{
    if (!limits->is_refining ||
        (limits->clock_ns != 0 &&
         (limits->asked.sm_mhz == 0 || now_ns - limits->clock_ns < clock_renewal_ns)))
        return;
    limits->clock_ns = now_ns;
    for (uint32_t i = 0; i < limits->gpu_count; i++)
        lull_control_set_clock(control, limits->gpus[i].index, limits->asked.sm_mhz,
                               now_ns + clock_validity_ns);
}

/* Sets err to the reason why a GPU has not applied the requested power limit. */
static int refuse_limit(const struct lull_limits *limits, uint32_t device,
                        const struct lull_limit_result *result, struct lull_error *err)
{
    char present[32] = "its own limit";

    if (result->limit_mw > 0)
        snprintf(present, sizeof(present), "%u W", result->limit_mw / 1000);
    switch (result->status) {
    case LULL_E_UNSUPPORTED:
        return lull_error_set(
            err, result->status,
            "power limits are not set: GPU %u: its driver does not support setting the power limit",
            device);
    case -EPERM:
        return lull_error_set(err, result->status,
                              "power limits are not set: GPU %u: the driver does not permit its "
                              "power limit to be set; run lulld, or lull run --no-daemon, as root "
                              "on the host (root in a container or virtual machine is not enough)",
                              device);
    case LULL_E_NO_DEVICE:
        return lull_error_set(
            err, result->status,
            "power limits are not set: GPU %u: the driver has lost it; see dmesg for Xid", device);
    case LULL_E_NOT_APPLIED:
        return lull_error_set(
            err, result->status,
            "power limits are not set: GPU %u: the driver took %g W, and the GPU stays at %s",
            device, limits->asked.limit_w, present);
    default:
        return lull_error_set(err, result->status,
                              "power limits are not set: GPU %u stays at %s: the driver refuses %g "
                              "W (busy, or an unknown error); see lull status and dmesg",
                              device, present, limits->asked.limit_w);
    }
}

/* Returns 1 when all GPUs have taken what was requested, 0 before. Errors: a GPU refused it. */
static int power_limits_poll_requests(struct lull_limits *limits, struct lull_control *control,
                                      struct lull_error *err)
{
    for (uint32_t i = 0; i < limits->gpu_count && !limits->is_set; i++) {
        struct lull_limit_result result;

        lull_control_limit_result(control, limits->gpus[i].index, &result);
        if (result.sequence != limits->gpus[i].sequence)
            return 0;
        limits->read_w = fmax(limits->read_w, result.limit_mw * 1e-3);
        if (result.status < 0)
            return refuse_limit(limits, lull_control_gpu(control, limits->gpus[i].index)->device,
                                &result, err);
    }
    limits->is_set = true;
    return 1;
}

static void power_limits_hold_choice(struct lull_limits *limits, struct lull_control *control,
                                     struct lull_error *note_out)
{
    struct lull_limit_profile *profile = &limits->profile;
    struct lull_job_selector selector = limits->options->search.selector;

    selector.price.gpu_count = limits->gpu_count;
    selector.price.max_power_w = profile->measures[0].point.limit_w;
    if (lull_limit_choose(&selector, profile->measures, profile->count, &profile->chosen,
                          note_out) < 0) {
        power_limits_abandon(limits, control);
        return;
    }
    profile->selector = selector;
    lull_stored_limits_sign(profile);
    limits->is_refining =
        limits->is_refining || profile->measures[profile->chosen].point.sm_mhz != 0;
    power_limits_request(limits, control, &profile->measures[profile->chosen].point);
    limits->stage = LULL_LIMITS_HELD;
    lull_control_set_phase(control, LULL_PHASE_SETTLED);
}

/* ---- profiling --------------------------------------------------------------------------- */

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
static bool power_limits_find_energy(const struct lull_limits *limits,
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
        range = lull_device_power_range(info_of(limits, control, i));
        drawn_j = end_j - limits->gpus[i].begin_j;
        joules += lull_power_is_plausible(&range, drawn_j / seconds) ? drawn_j : NAN;
    }
    *joules_out = joules;
    return true;
}

/* Returns the mean temperature of the job's GPUs; NAN if one of them reports none. */
static double power_limits_temperature_c(const struct lull_limits *limits)
{
    double sum_c = 0.0;

    for (uint32_t i = 0; i < limits->gpu_count; i++)
        sum_c += limits->gpus[i].temperature_c;
    return sum_c / (double)limits->gpu_count;
}

/* Chooses the clocks to try: from the one that the limit has led to downwards, a few percent apart.
 * Returns how many. */
static uint32_t power_limits_choose_clocks(const struct lull_device_info *info, double highest_mhz,
                                           uint32_t *clocks_out)
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

static bool power_limits_refine(struct lull_limits *limits, struct lull_control *control)
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
    count = power_limits_choose_clocks(info_of(limits, control, 0), limits->clock_mhz[best].mean,
                                       clocks);
    return count > 0 && lull_limit_search_refine(limits->search, clocks, count, NULL) == 0;
}

static void power_limits_finish(struct lull_limits *limits, struct lull_control *control,
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
    power_limits_hold_choice(limits, control, note_out);
    if (limits->stage == LULL_LIMITS_HELD)
        lull_stored_limits_remember(&limits->profile, note_out);
}

static void profile_job(struct lull_limits *limits, struct lull_control *control,
                        struct lull_error *note_out)
{
    double joules = NAN;

    find_edges(limits, control);
    if (!limits->begin_known)
        find_begin_energies(limits);
    if (limits->end_ns == 0)
        return;
    if (limits->begin_known && !power_limits_find_energy(limits, control, &joules))
        return;
    if (isfinite(joules))
        lull_limit_search_take(limits->search, limits->iterations,
                               (double)(limits->end_ns - limits->begin_ns) * 1e-9, joules,
                               power_limits_temperature_c(limits));
    limits->spent_s = lull_limit_search_spent_s(limits->search);
    limits->begin_ns = limits->end_ns;
    for (uint32_t i = 0; i < limits->gpu_count && limits->begin_known; i++)
        lull_counter_at(&limits->gpus[i].counter, limits->end_ns, &limits->gpus[i].begin_j);
    limits->end_ns = 0;
    limits->iterations = 0;
    if (lull_limit_search_now(limits->search) == NULL && !power_limits_refine(limits, control))
        power_limits_finish(limits, control, note_out);
}

static int power_limits_begin_search(struct lull_limits *limits, struct lull_control *control,
                                     double highest_w, struct lull_error *err)
{
    struct lull_limit_search_config config = limits->options->search;
    struct lull_limit_point points[LULL_LIMIT_SEARCH_POINTS];
    const double lowest_w = info_of(limits, control, 0)->power_limit_min_mw * 1e-3;
    const char *borrower;
    uint32_t count;

    if (!(lowest_w > 0.0) || lowest_w > highest_w)
        return lull_error_set(err, LULL_E_UNSUPPORTED,
                              "power limits are not set: the driver reports no range for the GPU");
    config.selector.price.max_power_w = highest_w;
    config.selector.price.gpu_count = limits->gpu_count;
    config.gpu_count = limits->gpu_count;
    config.curve = lull_device_curve_of_product(info_of(limits, control, 0)->name, &borrower);
    if (borrower != NULL) /* curves of another model are a guess, by which nothing is skipped */
        config.curve = NULL;
    count = lull_limit_search_ladder(highest_w, lowest_w, limits->options->step_w, points);
    return lull_limit_search_create(&config, points, count, &limits->search, err);
}

/* Returns whether all GPUs of the job are warm at their present limit. A GPU without a temperature
 * reading counts as warm. */
static bool are_warm(const struct lull_limits *limits)
{
    bool are_all = true;

    for (uint32_t i = 0; i < limits->gpu_count; i++)
        are_all = are_all && limits->gpus[i].is_warm;
    return are_all;
}

/* Begins once the job iterates: with a stored profile, a fixed limit, or a search. */
static void power_limits_begin(struct lull_limits *limits, struct lull_control *control,
                               struct lull_error *note_out)
{
    const double highest_w = present_limit_w(limits, control);

    snprintf(limits->profile.gpu_name, sizeof(limits->profile.gpu_name), "%s",
             info_of(limits, control, 0)->name);
    limits->profile.gpu_count = limits->gpu_count;
    /* NOLINTNEXTLINE(bugprone-branch-clone): each condition acts, so their order counts. */
    if (power_limits_check_job(limits, control, note_out) < 0) {
        power_limits_abandon(limits, control);
    } else if (limits->options->fixed_w > 0.0) {
        power_limits_request(limits, control,
                             &(struct lull_limit_point){.limit_w = limits->options->fixed_w});
        limits->stage = LULL_LIMITS_HELD;
        lull_control_set_phase(control, LULL_PHASE_SETTLED);
    } else if (!limits->options->afresh && lull_stored_limits_recall(&limits->profile, highest_w)) {
        limits->is_stored = true;
        power_limits_hold_choice(limits, control, note_out);
    } else if (power_limits_begin_search(limits, control, highest_w, note_out) < 0) {
        power_limits_abandon(limits, control);
    } else {
        limits->stage = LULL_LIMITS_WARMING;
        lull_control_set_phase(control, LULL_PHASE_DESCENDING);
    }
}

void lull_limits_tick(struct lull_limits *limits, struct lull_control *control,
                      struct lull_error *note_out)
{
    const struct lull_limit_point *wanted;

    if (limits->stage == LULL_LIMITS_WAITING && power_limits_find_job(limits, control) &&
        are_limits_known(limits))
        power_limits_begin(limits, control, note_out);
    if (limits->stage == LULL_LIMITS_WARMING && are_warm(limits)) {
        limits->seen = power_limits_iterations_of(control, limits->gpus[0].index);
        limits->stage = LULL_LIMITS_PROFILING;
    }
    if (limits->stage == LULL_LIMITS_PROFILING) {
        wanted = lull_limit_search_now(limits->search);
        if (wanted->limit_w != limits->asked.limit_w || wanted->sm_mhz != limits->asked.sm_mhz)
            power_limits_request(limits, control, wanted);
    }
    if (limits->stage != LULL_LIMITS_PROFILING && limits->stage != LULL_LIMITS_HELD)
        return;
    power_limits_hold_clock(limits, control, lull_now_ns());
    switch (power_limits_poll_requests(limits, control, note_out)) {
    case 0:
        /* A piece that began at the operating point before does not count. */
        if (limits->stage == LULL_LIMITS_PROFILING)
            limits->seen = power_limits_iterations_of(control, limits->gpus[0].index);
        break;
    case 1:
        if (limits->stage == LULL_LIMITS_PROFILING)
            profile_job(limits, control, note_out);
        break;
    default:
        power_limits_abandon(limits, control);
    }
}

void lull_limits_resume(struct lull_limits *limits, struct lull_control *control)
{
    const struct lull_limit_point asked = limits->asked;

    if (limits->stage != LULL_LIMITS_PROFILING && limits->stage != LULL_LIMITS_HELD)
        return;
    power_limits_request(limits, control, &asked);
    limits->seen = power_limits_iterations_of(control, limits->gpus[0].index);
}

void lull_limits_go_blind(struct lull_limits *limits, struct lull_control *control,
                          struct lull_error *note_out)
{
    if (limits->stage == LULL_LIMITS_HELD || limits->stage == LULL_LIMITS_GIVEN_UP)
        return;
    power_limits_abandon(limits, control);
    lull_error_set(note_out, -ETIMEDOUT,
                   "power limits are not set: there are no readings of the GPUs");
}

void lull_limits_end(const struct lull_limits *limits, struct lull_error *note_out)
{
    if (limits->stage == LULL_LIMITS_WAITING)
        lull_error_set(
            note_out, -ENOENT,
            "power limits were not set: no iteration was found in the job's communication; see the "
            "other notes, or mark its steps with lull_step() of lull.h");
    if (limits->stage == LULL_LIMITS_WARMING)
        lull_error_set(
            note_out, -EAGAIN,
            "the job ended before its GPUs had come to their temperature, which takes 5 to 60 s: "
            "power limits were not set. Use a longer job; profiling takes up to %.0f s more",
            limits->options->search.budget_s);
    if (limits->stage == LULL_LIMITS_PROFILING)
        lull_error_set(
            note_out, -EAGAIN,
            "the job ended while its power limits were being profiled (%.0f s of at most %.0f s): "
            "none was chosen, and nothing is stored. Give a job that runs %.0f s longer, or a "
            "shorter --slice-s or wider --limit-step-w",
            limits->spent_s, limits->options->search.budget_s,
            fmax(1.0, limits->options->search.budget_s - limits->spent_s));
}

/* ---- results ----------------------------------------------------------------------------- */

static const char *const stage_names[] = {
    [LULL_LIMITS_WAITING] = "waiting",     [LULL_LIMITS_WARMING] = "warming up",
    [LULL_LIMITS_PROFILING] = "profiling", [LULL_LIMITS_HELD] = "held",
    [LULL_LIMITS_GIVEN_UP] = "given up",
};

void lull_limits_summary(const struct lull_limits *limits, struct lull_limits_summary *summary_out)
{
    uint32_t measured;
    uint32_t count;

    *summary_out = (struct lull_limits_summary){
        .state = stage_names[limits->stage],
        .is_held = limits->stage == LULL_LIMITS_HELD,
        .held_w = limits->asked.limit_w,
        .read_w = limits->is_set && limits->read_w > 0.0 ? limits->read_w : NAN,
        .is_given = limits->options->fixed_w > 0.0,
        .is_stored = limits->is_stored,
        .profiling_s = limits->spent_s,
        .profile = limits->profile.count > 0 ? &limits->profile : NULL,
    };
    if (limits->search == NULL)
        return;
    lull_limit_search_measures(limits->search, &measured, &count);
    summary_out->pruned = count - measured;
    summary_out->skips = lull_limit_search_skips(limits->search, &summary_out->skip_count);
}
