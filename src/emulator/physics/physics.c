/*
 * Events and time of the emulated GPU. At an event the state is folded, that is, integrated up to
 * the event; then the event is handled and the rates are worked out again. Nothing is written
 * between events, so that the result does not depend on how often the state is read.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "emulator/physics/physics.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/clock.h"
#include "emulator/noise.h"
#include "emulator/physics/internal.h"

enum {
    THERMAL_TICK_MS = 100,
    UTILIZATION_TICK_MS = 200, /* measured on an H200: it changes every 0.2 to 0.3 s */
    /* Fall of the clock without a context, measured on an A100: from 1410 to about 360 MHz at once,
     * then a step or two every 0.1 to 0.2 s. */
    DECAY_TICK_MS = 150,
    DECAY_JUMP_STEPS = 10,
    DECAY_STEPS = 2,
    HW_SLOWDOWN_MS = 100,
    OVER_LIMIT_MS = 10,
    SMOOTHING_TICK_MS = 10, /* ramps of power smoothing are stairs of such steps */
};

/* Power, relative to the limit, at which the emergency brake acts, and to which the clock may peak
 * afterwards. Both are guesses, as are the two durations above: no measurement of this brake is
 * public. */
static const double over_limit_ratio = 1.3;
static const double peak_limit_ratio = 1.25;

static const uint64_t limiting_reasons = LULL_REASON_POWER_CAP | LULL_REASON_HW_SLOWDOWN |
                                         LULL_REASON_SW_THERMAL | LULL_REASON_HW_THERMAL;

static int64_t control_period_ns(const struct lull_physics *gpu)
{
    /* The limiter of Volta is assumed to be faster than later ones; this is a guess. */
    return lull_ns_from_ms(fmin(gpu->model.power_refresh_ms, THERMAL_TICK_MS));
}

/* ---- clock ---- */

uint32_t lull_physics_setting_step(const struct lull_gpu_model *model,
                                   const struct lull_clock_setting *setting)
{
    uint32_t step;

    if (setting->is_locked)
        return setting->max_step;
    step = lull_gpu_model_step_count(model) - 1;
    if (setting->has_application_step && setting->application_step < step)
        step = setting->application_step;
    return step;
}

static double on_grid_mhz(const struct lull_physics *gpu, double mhz)
{
    return lull_gpu_model_step_mhz(&gpu->model, lull_gpu_model_nearest_step(&gpu->model, mhz));
}

double lull_physics_allowed_mhz(const struct lull_physics *gpu)
{
    double mhz = fmin(gpu->cap_mhz, gpu->thermal_mhz);

    if (gpu->hw_until_ns > gpu->folded_ns) /* the hardware halves the clock to protect itself */
        mhz = fmin(mhz, on_grid_mhz(gpu, gpu->model.sm_max_mhz / 2));
    if (gpu->smoothing.ceiling_w > 0)
        mhz = fmin(mhz, lull_physics_static_mhz(gpu, gpu->smoothing.ceiling_w));
    return mhz;
}

static double setting_mhz(const struct lull_physics *gpu)
{
    return lull_gpu_model_step_mhz(&gpu->model,
                                   lull_physics_setting_step(&gpu->model, &gpu->setting));
}

static uint64_t current_reasons(const struct lull_physics *gpu)
{
    const double wanted = setting_mhz(gpu);
    uint64_t reasons = 0;

    if (gpu->context_count == 0)
        return LULL_REASON_IDLE;
    if (!gpu->setting.is_locked && gpu->setting.has_application_step &&
        wanted < gpu->model.sm_max_mhz)
        reasons |= LULL_REASON_APPLICATION;
    if (gpu->cap_mhz < wanted)
        reasons |= LULL_REASON_POWER_CAP;
    if (gpu->thermal_mhz < wanted)
        reasons |= LULL_REASON_SW_THERMAL;
    if (gpu->hw_until_ns > gpu->folded_ns)
        reasons |= LULL_REASON_HW_SLOWDOWN;
    if (gpu->temperature_c > gpu->model.hw_slowdown_c)
        reasons |= LULL_REASON_HW_THERMAL;
    return reasons;
}

/* ---- folding: exact integrals from folded_ns to time_ns ---- */

static double settled_c(const struct lull_physics *gpu)
{
    return gpu->model.ambient_c + gpu->model.heat_c_per_w * gpu->power_w;
}

static double temperature_after(const struct lull_physics *gpu, double dt_s)
{
    const double settled = settled_c(gpu);

    return settled + (gpu->temperature_c - settled) * exp(-dt_s / gpu->model.heat_tau_s);
}

static double energy_after(const struct lull_physics *gpu, double dt_s)
{
    const double away_c = gpu->temperature_c - settled_c(gpu);
    const double tau_s = gpu->model.heat_tau_s;
    const double leak_s = gpu->model.leak_ratio_per_c * away_c * -expm1(-dt_s / tau_s) * tau_s;

    return gpu->energy_j + gpu->power_w * (dt_s + leak_s);
}

static double seconds_since_fold(const struct lull_physics *gpu, int64_t time_ns)
{
    return (double)(time_ns - gpu->folded_ns) * 1e-9;
}

static void fold_counters(struct lull_physics *gpu, int64_t dt_ns)
{
    for (uint32_t bit = 0; bit < LULL_PHYSICS_REASONS; bit++)
        if (gpu->reasons & (UINT64_C(1) << bit))
            gpu->reason_ns[bit] += dt_ns;
    if (lull_physics_is_busy(gpu))
        gpu->busy_ns += dt_ns;
    if ((gpu->reasons & limiting_reasons) != 0)
        gpu->limited_ns += dt_ns;
    if (gpu->mhz < lull_physics_allowed_mhz(gpu) && lull_physics_has_kernel(gpu))
        gpu->kernel_low_ns += dt_ns;
}

void lull_physics_fold(struct lull_physics *gpu, int64_t time_ns)
{
    const double dt_s = seconds_since_fold(gpu, time_ns);

    if (time_ns <= gpu->folded_ns)
        return;
    gpu->energy_j = energy_after(gpu, dt_s);
    gpu->temperature_c = temperature_after(gpu, dt_s);
    fold_counters(gpu, time_ns - gpu->folded_ns);
    lull_physics_fold_work(gpu, dt_s);
    if (!gpu->no_activity)
        lull_physics_fold_activity(gpu, dt_s);
    gpu->folded_ns = time_ns;
}

/* ---- rates after a change ---- */

static void update_clock(struct lull_physics *gpu)
{
    if (gpu->context_count == 0)
        gpu->mhz = gpu->idle_mhz;
    else
        gpu->mhz = fmin(setting_mhz(gpu), lull_physics_allowed_mhz(gpu));
    gpu->reasons = current_reasons(gpu);
}

/* The true power at which the board's sensor, which the limiter uses, reads the limit. */
static double true_limit_w(const struct lull_physics *gpu)
{
    return gpu->limit_w / gpu->gain_ratio;
}

static void watch_limit(struct lull_physics *gpu)
{
    if (gpu->power_w <= over_limit_ratio * true_limit_w(gpu))
        gpu->over_ns = LULL_PHYSICS_NEVER;
    else if (gpu->over_ns == LULL_PHYSICS_NEVER)
        gpu->over_ns = gpu->folded_ns + OVER_LIMIT_MS * LULL_NS_PER_MS;
}

static int64_t find_next_ns(const struct lull_physics *gpu)
{
    int64_t next = lull_physics_rate_change_ns(gpu);

    next = lull_earlier_ns(next, gpu->control_ns);
    next = lull_earlier_ns(next, gpu->energy_ns);
    next = lull_earlier_ns(next, gpu->clock_ns);
    next = lull_earlier_ns(next, gpu->utilization_ns);
    next = lull_earlier_ns(next, lull_earlier_ns(gpu->usage.next_ns, gpu->usage.sample_ns));
    return lull_earlier_ns(next, lull_earlier_ns(gpu->instant.next_ns, gpu->instant.sample_ns));
}

void lull_physics_foresee(struct lull_physics *gpu)
{
    lull_physics_foresee_work(gpu);
    gpu->next_ns = find_next_ns(gpu);
}

double lull_physics_floor_w(const struct lull_physics *gpu)
{
    const struct lull_physics_smoothing *smoothing = &gpu->smoothing;

    if (!smoothing->is_enabled)
        return 0;
    return smoothing->presets[smoothing->active].floor_ratio * gpu->model.limit_max_w;
}

static const struct lull_physics_preset *active_preset(const struct lull_physics *gpu)
{
    return &gpu->smoothing.presets[gpu->smoothing.active];
}

/* The change of power in one step of a ramp, W. */
static double ramp_step_w(double rate_w)
{
    return rate_w * SMOOTHING_TICK_MS * 1e-3;
}

/* Returns whether a step of a ramp is due; the next one follows after a tick. */
static bool takes_ramp_step(int64_t *due_ns, int64_t now_ns)
{
    if (*due_ns > now_ns)
        return false;
    *due_ns = now_ns + SMOOTHING_TICK_MS * LULL_NS_PER_MS;
    return true;
}

/* Power smoothing lowers the clock while the load rises faster than its ramp permits. */
static void limit_rise(struct lull_physics *gpu)
{
    struct lull_physics_smoothing *smoothing = &gpu->smoothing;
    const double step_w = ramp_step_w(active_preset(gpu)->ramp_up_w);
    const double ceiling_w = smoothing->ceiling_w;
    double load_w;

    smoothing->ceiling_w = 0;
    if (!smoothing->is_enabled || gpu->context_count == 0)
        return;
    load_w = lull_physics_load_w(gpu, fmin(setting_mhz(gpu), lull_physics_allowed_mhz(gpu)));
    if (load_w <= gpu->power_w + step_w)
        return;
    if (ceiling_w == 0)
        smoothing->rise_ns = gpu->folded_ns;
    smoothing->ceiling_w = fmin(ceiling_w, gpu->power_w + step_w);
    if (takes_ramp_step(&smoothing->rise_ns, gpu->folded_ns))
        smoothing->ceiling_w = gpu->power_w + step_w;
}

/* Power smoothing burns power while the load is below the floor. After the hysteresis the floor
 * falls along its ramp to the load. */
static double smoothed_w(struct lull_physics *gpu, double load_w)
{
    struct lull_physics_smoothing *smoothing = &gpu->smoothing;
    const double floor_w = lull_physics_floor_w(gpu);
    const bool is_above = floor_w > 0 && load_w >= floor_w;

    if (smoothing->was_above && !is_above) {
        smoothing->held_w = floor_w;
        smoothing->fall_ns =
            gpu->folded_ns + lull_ns_from_ms(active_preset(gpu)->hysteresis_s * 1e3);
    }
    smoothing->was_above = is_above;
    if (smoothing->held_w > 0 && takes_ramp_step(&smoothing->fall_ns, gpu->folded_ns))
        smoothing->held_w -= ramp_step_w(active_preset(gpu)->ramp_down_w);
    if (smoothing->held_w <= load_w)
        smoothing->held_w = 0;
    return fmax(load_w, smoothing->held_w);
}

void lull_physics_update(struct lull_physics *gpu)
{
    limit_rise(gpu);
    update_clock(gpu);
    lull_physics_update_work(gpu);
    if (!gpu->no_activity)
        lull_physics_update_activity(gpu);
    gpu->power_w = smoothed_w(gpu, lull_physics_load_w(gpu, gpu->mhz));
    watch_limit(gpu);
    lull_physics_foresee(gpu);
}

int64_t lull_physics_rate_change_ns(const struct lull_physics *gpu)
{
    int64_t next = lull_earlier_ns(gpu->decay_ns, gpu->plateau_ns);

    if (gpu->pending_count > 0)
        next = lull_earlier_ns(next, gpu->pending[0].effective_ns);
    if (gpu->hw_until_ns > gpu->folded_ns)
        next = lull_earlier_ns(next, gpu->hw_until_ns);
    if (gpu->smoothing.held_w > 0)
        next = lull_earlier_ns(next, gpu->smoothing.fall_ns);
    if (gpu->smoothing.ceiling_w > 0)
        next = lull_earlier_ns(next, gpu->smoothing.rise_ns);
    next = lull_earlier_ns(next, gpu->over_ns);
    /* The loops of power and heat can change the clock at their ticks only if something is limited.
     */
    if (gpu->cap_mhz < gpu->model.sm_max_mhz || gpu->thermal_mhz < gpu->model.sm_max_mhz ||
        gpu->power_w > true_limit_w(gpu) || gpu->temperature_c > gpu->model.slowdown_c)
        next = lull_earlier_ns(next, gpu->control_ns);
    return lull_earlier_ns(next, lull_physics_work_change_ns(gpu));
}

/* ---- events ---- */

static void handle_pending(struct lull_physics *gpu)
{
    if (gpu->pending_count == 0 || gpu->pending[0].effective_ns > gpu->folded_ns)
        return;
    gpu->setting = gpu->pending[0].setting;
    gpu->pending_count--;
    memmove(&gpu->pending[0], &gpu->pending[1], gpu->pending_count * sizeof(gpu->pending[0]));
    update_clock(gpu);
    /* The settle times were measured up to when the new clock could be read, so it can be read now.
     */
    gpu->published_mhz = gpu->mhz;
    gpu->clock_ns = gpu->folded_ns + lull_ns_from_ms(gpu->model.clock_refresh_ms);
}

static void handle_decay(struct lull_physics *gpu)
{
    if (gpu->decay_ns > gpu->folded_ns)
        return;
    gpu->idle_mhz =
        fmax(gpu->idle_mhz - DECAY_STEPS * gpu->model.sm_step_mhz, gpu->model.sm_min_mhz);
    gpu->decay_ns = gpu->idle_mhz > gpu->model.sm_min_mhz
                        ? gpu->folded_ns + DECAY_TICK_MS * LULL_NS_PER_MS
                        : LULL_PHYSICS_NEVER;
}

static void handle_plateau(struct lull_physics *gpu)
{
    if (gpu->plateau_ns > gpu->folded_ns)
        return;
    const uint64_t bits = lull_noise_mix(gpu->seed ^ (uint64_t)gpu->plateau_ns);

    /* Plateaus of 1 to 4 %, 1 to 20 s long, were measured on an H200 at a fixed clock and kernel.
     */
    gpu->plateau_ratio = 1.0 + 0.01 * lull_noise_normal_of(bits);
    gpu->plateau_ns += lull_ns_from_ms(1000.0 + 19000.0 * lull_noise_unit(lull_noise_mix(~bits)));
}

/*
 * The emergency brake of the hardware halves the clock at once and lowers the limiter's ceiling to
 * what the load may draw. It also remembers the clock at which the load came too close to the
 * limit; otherwise a job that alternates between compute and communication would run into the brake
 * in every iteration.
 */
static void handle_overload(struct lull_physics *gpu)
{
    if (gpu->over_ns > gpu->folded_ns)
        return;
    gpu->over_ns = LULL_PHYSICS_NEVER;
    gpu->hw_until_ns = gpu->folded_ns + HW_SLOWDOWN_MS * LULL_NS_PER_MS;
    gpu->cap_mhz = lull_physics_static_mhz(gpu, true_limit_w(gpu) * gpu->model.limit_settle_ratio);
    gpu->peak_mhz = lull_physics_static_mhz(gpu, true_limit_w(gpu) * peak_limit_ratio);
}

/*
 * The power limiter: an integral controller on the mean power since the last tick, which moves its
 * ceiling by at most 4 steps down or 2 up. Gain and steps are derived coarsely from one
 * measured start of FIRESTARTER on an H100, which settled within 1.2 s.
 */
static void control_power(struct lull_physics *gpu, double mean_w)
{
    const double deadband =
        0.0005; /* finer than a step: the ceiling represents dithering between two */
    const double gain = 0.3;
    const double step = gpu->model.sm_step_mhz;
    const double error = 1.0 - mean_w / (true_limit_w(gpu) * gpu->model.limit_settle_ratio);
    const bool is_capped = gpu->cap_mhz < gpu->model.sm_max_mhz;

    if (fabs(error) < deadband || (!is_capped && mean_w <= true_limit_w(gpu)) ||
        gpu->hw_until_ns > gpu->folded_ns)
        return;
    /* Starting from a ceiling far above the clock in use, the limit would take long to act.
     */
    const double from_mhz =
        error < 0 && gpu->context_count > 0 ? fmin(gpu->cap_mhz, gpu->mhz) : gpu->cap_mhz;
    const double change = fmin(fmax(gain * error * from_mhz, -4 * step), 2 * step);

    gpu->cap_mhz = fmin(fmax(from_mhz + change, gpu->model.sm_min_mhz), gpu->peak_mhz);
}

static void control_heat(struct lull_physics *gpu)
{
    const double step = gpu->model.sm_step_mhz;

    if (gpu->temperature_c > gpu->model.hw_slowdown_c)
        gpu->hw_until_ns = gpu->folded_ns + HW_SLOWDOWN_MS * LULL_NS_PER_MS;
    if (gpu->temperature_c > gpu->model.slowdown_c)
        gpu->thermal_mhz = on_grid_mhz(gpu, fmin(gpu->thermal_mhz, gpu->mhz) - step);
    else if (gpu->temperature_c < gpu->model.slowdown_c - 2.0)
        gpu->thermal_mhz = fmin(gpu->thermal_mhz + step, gpu->model.sm_max_mhz);
}

static void handle_control(struct lull_physics *gpu)
{
    if (gpu->control_ns > gpu->folded_ns)
        return;
    const int64_t period_ns = control_period_ns(gpu);

    control_power(gpu, (gpu->energy_j - gpu->control_j) / ((double)period_ns * 1e-9));
    control_heat(gpu);
    gpu->control_j = gpu->energy_j;
    gpu->control_ns += period_ns;
}

static void handle_utilization(struct lull_physics *gpu)
{
    if (gpu->utilization_ns > gpu->folded_ns)
        return;
    const int64_t period_ns = UTILIZATION_TICK_MS * LULL_NS_PER_MS;

    gpu->utilization_percent = (uint32_t)(100 * (gpu->busy_ns - gpu->busy_mark_ns) / period_ns);
    gpu->busy_mark_ns = gpu->busy_ns;
    gpu->utilization_ns += period_ns;
    lull_physics_refresh_use(gpu, period_ns);
}

int64_t lull_physics_utilization_period_ns(void)
{
    return UTILIZATION_TICK_MS * LULL_NS_PER_MS;
}

static void handle_event(struct lull_physics *gpu)
{
    handle_pending(gpu);
    handle_decay(gpu);
    handle_plateau(gpu);
    handle_overload(gpu);
    handle_control(gpu);
    handle_utilization(gpu);
    lull_physics_publish(gpu);
    update_clock(gpu);
    lull_physics_finish_work(gpu);
    lull_physics_update(gpu);
}

void lull_physics_advance(struct lull_physics *gpu, int64_t now_ns)
{
    while (gpu->next_ns <= now_ns) {
        lull_physics_fold(gpu, gpu->next_ns);
        handle_event(gpu);
    }
    if (now_ns > gpu->now_ns)
        gpu->now_ns = now_ns;
}

/* ---- requests ---- */

void lull_physics_ask_clocks(struct lull_physics *gpu, const struct lull_clock_setting *setting,
                             double settle_factor)
{
    const uint32_t step = lull_physics_setting_step(&gpu->model, setting);
    const bool is_slow = lull_physics_is_slow_step(&gpu->model, gpu->seed, step);
    const double settle_ms =
        lull_physics_draw_settle_ms(&gpu->model, is_slow, &gpu->random) * settle_factor;
    int64_t effective_ns = gpu->now_ns + lull_ns_from_ms(settle_ms);

    lull_physics_fold(gpu, gpu->now_ns);
    gpu->requests_low += lull_gpu_model_step_mhz(&gpu->model, step) < gpu->model.sm_max_mhz;
    gpu->asked = *setting;
    if (gpu->pending_count > 0 && gpu->pending[gpu->pending_count - 1].effective_ns > effective_ns)
        effective_ns = gpu->pending[gpu->pending_count - 1].effective_ns;
    if (gpu->pending_count == LULL_PHYSICS_PENDING)
        gpu->pending_count--; /* the queue is full: the new request replaces the newest one */
    gpu->pending[gpu->pending_count].effective_ns = effective_ns;
    gpu->pending[gpu->pending_count].setting = *setting;
    gpu->pending_count++;
    lull_physics_update(gpu);
}

void lull_physics_lock(struct lull_physics *gpu, uint32_t step, double settle_factor)
{
    const struct lull_clock_setting lock = {.is_locked = true, .max_step = step};

    lull_physics_ask_clocks(gpu, &lock, settle_factor);
}

void lull_physics_set_limit(struct lull_physics *gpu, double limit_w)
{
    lull_physics_fold(gpu, gpu->now_ns);
    gpu->limit_w = limit_w;
    gpu->peak_mhz = gpu->model.sm_max_mhz;
    lull_physics_update(gpu);
}

/* ---- workload power profiles ---- */

uint32_t lull_physics_excluded_profiles(const struct lull_gpu_model *model, uint32_t profile)
{
    const uint32_t goals = 1u << LULL_PROFILE_MAX_P | 1u << LULL_PROFILE_MAX_Q;
    const uint32_t own = 1u << profile;
    const uint32_t rivals = (goals & own) != 0 ? goals : model->workload_profiles & ~goals;

    return rivals & ~own;
}

void lull_physics_request_profiles(struct lull_physics *gpu, uint32_t requested)
{
    lull_physics_fold(gpu, gpu->now_ns);
    gpu->profiles_requested = requested;
    gpu->profiles_enforced = 0;
    gpu->kernel_speed_ratio = 1.0;
    gpu->kernel_power_ratio = 1.0;
    for (uint32_t rest = requested; rest != 0; rest &= rest - 1) {
        const uint32_t profile = (uint32_t)__builtin_ctz(rest);

        if ((lull_physics_excluded_profiles(&gpu->model, profile) & gpu->profiles_enforced) == 0)
            gpu->profiles_enforced |= 1u << profile;
    }
    if ((gpu->profiles_enforced & 1u << LULL_PROFILE_MAX_Q) != 0) {
        gpu->kernel_speed_ratio = gpu->model.max_q_speed_ratio;
        gpu->kernel_power_ratio = gpu->model.max_q_speed_ratio * gpu->model.max_q_energy_ratio;
    }
    lull_physics_update(gpu);
}

/* ---- power smoothing ---- */

/* Values before anything has set others; they are a guess. */
static const struct lull_physics_preset first_preset = {
    .floor_ratio = 0, .ramp_up_w = 500, .ramp_down_w = 500, .hysteresis_s = 0.1};

void lull_physics_set_smoothing(struct lull_physics *gpu,
                                const struct lull_physics_smoothing *smoothing)
{
    lull_physics_fold(gpu, gpu->now_ns);
    gpu->smoothing = *smoothing;
    gpu->smoothing.was_above = false;
    gpu->smoothing.held_w = 0;
    gpu->smoothing.ceiling_w = 0;
    lull_physics_update(gpu);
}

/* ---- contexts ---- */

void lull_physics_copy(struct lull_physics *to, const struct lull_physics *from)
{
    memcpy(to, from, offsetof(struct lull_physics, contexts));
    for (int i = 0; i < LULL_PHYSICS_CONTEXTS; i++) {
        if (from->contexts[i].is_live)
            to->contexts[i] = from->contexts[i];
        else
            to->contexts[i].is_live = false;
    }
}

int lull_physics_open(struct lull_physics *gpu, int64_t owner, uint64_t owner_mark)
{
    for (int i = 0; i < LULL_PHYSICS_CONTEXTS; i++) {
        struct lull_physics_context *context = &gpu->contexts[i];

        if (context->is_live)
            continue;
        lull_physics_fold(gpu, gpu->now_ns);
        memset(context, 0, sizeof(*context));
        for (uint32_t k = 0; k < LULL_PHYSICS_KERNELS; k++)
            context->kernels[k].number = LULL_PHYSICS_NO_WORK;
        context->is_live = true;
        gpu->live |= UINT32_C(1) << i;
        context->owner = owner;
        context->owner_mark = owner_mark;
        gpu->context_count++;
        gpu->decay_ns = LULL_PHYSICS_NEVER;
        lull_physics_update(gpu);
        return i;
    }
    return -1;
}

void lull_physics_close(struct lull_physics *gpu, int context)
{
    if (!gpu->contexts[context].is_live)
        return;
    lull_physics_fold(gpu, gpu->now_ns);
    gpu->contexts[context].is_live = false;
    gpu->live &= ~(UINT32_C(1) << context);
    gpu->context_count--;
    if (gpu->context_count == 0) {
        gpu->cap_mhz = gpu->model.sm_max_mhz;
        gpu->peak_mhz = gpu->model.sm_max_mhz;
        /* The limiter may have held the clock between two steps; without a context it lies on one.
         */
        gpu->idle_mhz = on_grid_mhz(gpu, gpu->mhz);
        gpu->idle_mhz = fmin(gpu->idle_mhz, lull_gpu_model_step_mhz(&gpu->model, DECAY_JUMP_STEPS));
        gpu->decay_ns = gpu->folded_ns + DECAY_TICK_MS * LULL_NS_PER_MS;
    }
    lull_physics_update(gpu);
}

/* ---- setting up ---- */

static void physics_init_unit(struct lull_physics *gpu)
{
    const uint64_t bits = lull_noise_mix(gpu->seed);
    const double u = lull_noise_unit(lull_noise_mix(bits ^ 1));
    const double w = lull_noise_unit(lull_noise_mix(bits ^ 2));
    const double gain = 2.0 * lull_noise_unit(lull_noise_mix(bits ^ 3)) - 1.0;

    gpu->unit_ratio = 1.0;
    gpu->gain_ratio = 1.0;
    gpu->plateau_ratio = 1.0;
    gpu->plateau_ns = LULL_PHYSICS_NEVER;
    gpu->energy_base_mj = 1000 * (int64_t)(bits % 100000);
    if (gpu->seed == 0)
        return;
    /* Units of one model differ by a factor N(1, 0.03), which is a guess. */
    gpu->unit_ratio = 1.0 + 0.03 * fmin(fmax(lull_noise_normal(u, w), -2.5), 2.5);
    gpu->gain_ratio = 1.0 + gpu->model.gain_error_ratio * gain;
    if (gpu->model.architecture >= 9) /* from Hopper on, power moves in plateaus */
        gpu->plateau_ns = gpu->now_ns;
}

void lull_physics_init(struct lull_physics *gpu, const struct lull_gpu_model *model,
                       uint64_t unit_seed, int64_t now_ns)
{
    memset(gpu, 0, sizeof(*gpu));
    gpu->model = *model;
    gpu->seed = unit_seed;
    gpu->random = lull_noise_mix(unit_seed ^ 0x6c617465u);
    gpu->now_ns = now_ns;
    gpu->folded_ns = now_ns;
    gpu->idle_mhz = model->sm_min_mhz;
    gpu->decay_ns = LULL_PHYSICS_NEVER;
    gpu->cap_mhz = model->sm_max_mhz;
    gpu->peak_mhz = model->sm_max_mhz;
    gpu->thermal_mhz = model->sm_max_mhz;
    gpu->hw_until_ns = now_ns;
    gpu->over_ns = LULL_PHYSICS_NEVER;
    gpu->limit_w = model->limit_default_w;
    gpu->kernel_speed_ratio = 1.0;
    gpu->kernel_power_ratio = 1.0;
    for (uint32_t i = 0; i < LULL_PHYSICS_PRESETS; i++)
        gpu->smoothing.presets[i] = first_preset;
    physics_init_unit(gpu);
    gpu->control_ns = now_ns + control_period_ns(gpu);
    gpu->utilization_ns = now_ns + UTILIZATION_TICK_MS * LULL_NS_PER_MS;
    lull_physics_update(gpu);
    gpu->temperature_c = settled_c(gpu);
    lull_physics_init_publishing(gpu);
    lull_physics_update(gpu);
}

void lull_physics_warm(struct lull_physics *gpu, double power_w)
{
    gpu->temperature_c = gpu->model.ambient_c + gpu->model.heat_c_per_w * power_w;
}

/* ---- true values between events ---- */

double lull_physics_power_w(const struct lull_physics *gpu)
{
    const double away_c = lull_physics_temperature_c(gpu) - settled_c(gpu);

    return gpu->power_w * (1.0 + gpu->model.leak_ratio_per_c * away_c);
}

double lull_physics_energy_j(const struct lull_physics *gpu)
{
    return energy_after(gpu, seconds_since_fold(gpu, gpu->now_ns));
}

double lull_physics_temperature_c(const struct lull_physics *gpu)
{
    return temperature_after(gpu, seconds_since_fold(gpu, gpu->now_ns));
}
