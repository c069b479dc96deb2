/* Chooses the clock of each GPU of a server, and posts the requests. SPDX-License-Identifier:
 * Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <stdio.h>

#include "base/clock.h"
#include "governor/report/section_text.h"
#include "governor/serving/serving_state.h"

/* A lowered clock is renewed well within its validity, after which the writer raises it if this
 * process no longer runs. */
static const int64_t renewal_ns = 500 * LULL_NS_PER_MS;
static const int64_t validity_ns = 2 * LULL_NS_PER_S;

/* Signs of work on a GPU that the controller has parked overrule it for this long: its next reading
 * of the metrics shows the request. */
static const int64_t overrule_ns = 500 * LULL_NS_PER_MS;

/* Readings of the clock that contradict the request, in this many rounds, replace the
 * requested clock. A reading within this ratio confirms it. */
enum { STRANGE_ROUNDS = 3 };
static const double same_ratio = 0.02;
static const int64_t round_ns = 100 * LULL_NS_PER_MS;

/* After a failure of a GPU or its driver no clock is lowered for this long. */
static const int64_t retry_ns = 10 * LULL_NS_PER_S;
/* Then clocks are requested for this long, whose outcome decides. */
static const int64_t attempt_ns = LULL_NS_PER_S;

/* A clock that was not read back after this long counts as in force. */
static const int64_t settle_wait_ns = 100 * LULL_NS_PER_MS;

/* ---- failures ---------------------------------------------------------------------------- */

/* Writes why a GPU cannot be read or driven. Returns whether that is so. */
static bool describe_failure(const struct lull_serving_gpu *gpu,
                             const struct lull_driver_watch *driver, char *text, size_t size)
{
    if (gpu->is_lost)
        snprintf(text, size, "the driver does not report its state");
    else if (driver->is_locked)
        snprintf(text, size, "another program holds its clock");
    else if (driver->denial == -EPERM)
        snprintf(text, size, "the driver does not permit changes of its clock");
    else if (lull_driver_watch_denies(driver))
        snprintf(text, size, "the driver does not change its clock: %s",
                 driver->denial == LULL_E_NO_DEVICE ? "the GPU is lost" : "not supported");
    else if (lull_driver_watch_is_refused(driver))
        snprintf(text, size, "the driver fails to change its clock");
    else if (lull_driver_watch_has_no_effect(driver))
        snprintf(text, size, "the driver accepts clocks without effect");
    else
        return false;
    return true;
}

int lull_serving_find_failed(const struct lull_serving *serving, char *text_out, size_t size)
{
    char text[LULL_SERVING_FAILURE_BYTES];

    for (uint32_t i = 0; i < serving->gpu_count; i++) {
        const struct lull_serving_gpu *const gpu = &serving->gpus[i];

        if (!gpu->is_served ||
            !describe_failure(gpu, &lull_control_gpu(serving->control, i)->driver, text,
                              sizeof(text)))
            continue;
        if (text_out != NULL)
            snprintf(text_out, size, "%s", text);
        return (int)i;
    }
    return -1;
}

static void find_holds(struct lull_serving *serving, int64_t now_ns)
{
    uint32_t holds;

    lull_control_lock(serving->control);
    holds = lull_control_holds(serving->control);
    serving->is_capped = (holds & LULL_HOLD_CAP) != 0;
    if (now_ns >= serving->retried_until_ns && lull_serving_find_failed(serving, NULL, 0) >= 0) {
        serving->failed_until_ns = now_ns + retry_ns;
        serving->retried_until_ns = serving->failed_until_ns + attempt_ns;
    }
    serving->is_held = holds != 0 || now_ns < serving->failed_until_ns;
    lull_control_unlock(serving->control);
}

/* ---- the clock in force ------------------------------------------------------------------ */

/* Finds when the last requests of all served GPUs took effect. False: one has not yet. */
static bool find_effect(const struct lull_serving *serving, int64_t now_ns, int64_t *effect_ns_out)
{
    int64_t effect_ns = 0;

    for (uint32_t i = 0; i < serving->gpu_count; i++) {
        const struct lull_serving_gpu *const gpu = &serving->gpus[i];
        struct lull_switch_result result;
        int64_t end_ns;

        if (!gpu->is_served || gpu->sequence == 0)
            continue;
        lull_control_clock_result(serving->control, i, &result);
        end_ns = result.call_begin_ns + result.call_ns;
        if (result.sequence < gpu->sequence || result.status != 0 ||
            (result.settle_ns == LULL_SETTLE_UNKNOWN && now_ns - end_ns < settle_wait_ns))
            return false;
        effect_ns = lull_later_ns(effect_ns, end_ns + lull_later_ns(result.settle_ns, 0));
    }
    *effect_ns_out = effect_ns;
    return true;
}

static void set_in_force(struct lull_serving *serving, int64_t time_ns, double mhz)
{
    if (serving->in_force.mhz == mhz)
        return;
    serving->in_force = (struct lull_serving_in_force){.mhz = mhz, .round_ns = time_ns};
    lull_serving_controller_take_clock(serving->controller, time_ns, mhz);
}

/* The lowest clock that was read of the served GPUs; a server is as fast as its slowest GPU. */
static double lowest_read_mhz(const struct lull_serving *serving)
{
    double lowest_mhz = INFINITY;

    for (uint32_t i = 0; i < serving->gpu_count; i++)
        if (serving->gpus[i].is_served && serving->gpus[i].read_mhz != 0)
            lowest_mhz = fmin(lowest_mhz, serving->gpus[i].read_mhz);
    return lowest_mhz;
}

/* Compares readings with the clock in force as far as known: another program, heat or a
 * power limit may hold another one. */
static void check_in_force(struct lull_serving *serving, int64_t now_ns)
{
    struct lull_serving_in_force *const in_force = &serving->in_force;
    const double read_mhz = lowest_read_mhz(serving);

    if (!isfinite(read_mhz) || now_ns - in_force->round_ns < round_ns)
        return;
    in_force->round_ns = now_ns;
    if (fabs(read_mhz - in_force->mhz) <= same_ratio * in_force->mhz)
        in_force->strange = 0;
    else if (++in_force->strange >= STRANGE_ROUNDS)
        set_in_force(serving, now_ns, read_mhz);
}

/* Informs the controller of the clock in force. */
static void follow_clock(struct lull_serving *serving, int64_t now_ns)
{
    int64_t effect_ns;

    if (!serving->is_changing) {
        check_in_force(serving, now_ns);
        return;
    }
    if (!find_effect(serving, now_ns, &effect_ns))
        return;
    serving->is_changing = false;
    set_in_force(serving, effect_ns > 0 ? effect_ns : now_ns, serving->controlled_mhz);
}

/* ---- parking ----------------------------------------------------------------------------- */

static void park(struct lull_serving_gpu *gpu, int64_t now_ns)
{
    if (gpu->park.is_parked)
        return;
    lull_park_begin(&gpu->park, now_ns, lull_idle_watch_level_w(&gpu->watch));
    gpu->sign = LULL_IDLE_SIGN_NONE;
}

static void unpark(struct lull_serving_gpu *gpu, int64_t now_ns)
{
    if (!gpu->park.is_parked)
        return;
    lull_park_end(&gpu->park, now_ns);
    gpu->signs[gpu->sign]++;
}

/* Returns the clock of a GPU without an objective; 0: the highest. */
static uint32_t choose_parking(const struct lull_serving *serving, struct lull_serving_gpu *gpu,
                               uint32_t highest_mhz, int64_t now_ns)
{
    const bool is_idle =
        lull_idle_watch_is_idle(&gpu->watch, now_ns, serving->options->park_after_ns);

    if (serving->is_held || !is_idle || gpu->park_mhz == highest_mhz) {
        unpark(gpu, now_ns);
        return 0;
    }
    park(gpu, now_ns);
    return gpu->park_mhz;
}

/* Returns the controller's clock for a GPU; 0: the highest. */
static uint32_t choose_controlled(const struct lull_serving *serving, struct lull_serving_gpu *gpu,
                                  uint32_t highest_mhz, int64_t now_ns)
{
    const double ratio = serving->controlled_mhz / serving->clocks_mhz[0];
    const uint32_t mhz = (uint32_t)lround(ratio * highest_mhz);
    const bool is_idle = serving->state.mode == LULL_SERVING_IDLE;

    if (serving->is_held || mhz >= highest_mhz ||
        (is_idle && lull_idle_watch_shows_work(&gpu->watch, now_ns, overrule_ns))) {
        unpark(gpu, now_ns);
        return 0;
    }
    if (is_idle)
        park(gpu, now_ns);
    else
        unpark(gpu, now_ns);
    return mhz;
}

/* ---- requests ---------------------------------------------------------------------------- */

static void request(struct lull_serving *serving, uint32_t index, uint32_t mhz, int64_t now_ns)
{
    struct lull_serving_gpu *const gpu = &serving->gpus[index];
    const bool is_due = mhz != gpu->asked_mhz || (mhz != 0 && now_ns - gpu->asked_ns >= renewal_ns);
    uint64_t sequence;

    if (!is_due)
        return;
    sequence = lull_control_set_clock(serving->control, index, mhz, now_ns + validity_ns);
    if (sequence == 0)
        return;
    serving->is_changing = serving->is_changing || mhz != gpu->asked_mhz;
    if (gpu->asked_mhz != 0 && (mhz == 0 || mhz > gpu->asked_mhz))
        lull_idle_watch_forget_levels(&gpu->watch, now_ns);
    gpu->sequence = sequence;
    gpu->asked_mhz = mhz;
    gpu->asked_ns = now_ns;
}

static enum lull_live_mode mode_of(const struct lull_serving *serving)
{
    bool is_all_parked = true;
    bool is_any = false;

    if (serving->controller != NULL)
        return (enum lull_live_mode)((int)LULL_LIVE_MODE_BLIND + (int)serving->state.mode);
    for (uint32_t i = 0; i < serving->gpu_count; i++) {
        is_any = is_any || serving->gpus[i].is_served;
        is_all_parked =
            is_all_parked && (!serving->gpus[i].is_served || serving->gpus[i].park.is_parked);
    }
    if (is_any && is_all_parked)
        return LULL_LIVE_MODE_IDLE;
    return LULL_LIVE_MODE_WORKING;
}

static void poll_controller(struct lull_serving *serving, int64_t now_ns)
{
    if (serving->controller == NULL)
        return;
    follow_clock(serving, now_ns);
    serving->controlled_mhz = lull_serving_controller_poll(serving->controller, now_ns);
    lull_serving_controller_state(serving->controller, &serving->state);
}

void lull_serving_set_clocks(struct lull_serving *serving, int64_t now_ns)
{
    find_holds(serving, now_ns);
    poll_controller(serving, now_ns);
    for (uint32_t i = 0; i < serving->gpu_count; i++) {
        struct lull_serving_gpu *const gpu = &serving->gpus[i];
        const struct lull_device_info *const info = lull_control_info(serving->control, i);
        uint32_t mhz;

        if (!gpu->is_served)
            continue;
        if (serving->controller != NULL)
            mhz = choose_controlled(serving, gpu, info->sm_clocks_mhz[0], now_ns);
        else
            mhz = choose_parking(serving, gpu, info->sm_clocks_mhz[0], now_ns);
        request(serving, i, mhz, now_ns);
    }
    serving->mode = mode_of(serving);
}
