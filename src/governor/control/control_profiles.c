/*
 * The power profile that the section controller may use: whether a GPU offers it, and requests as
 * the controller wants it. SPDX-License-Identifier: Apache-2.0
 */
#include "governor/control/control_state.h"

#include "base/log.h"

/* The one that NVIDIA describes as saving energy at little cost of time. */
enum { CANDIDATE = LULL_POWER_PROFILE_MAX_Q };

static enum lull_profile_state state_at_lease(const struct lull_control *control,
                                              const struct lull_governed_gpu *gpu)
{
    if ((gpu->info->power_profiles & CANDIDATE) == 0)
        return LULL_PROFILE_UNSUPPORTED;
    if (control->observe_only || control->decider != &lull_section_decider)
        return LULL_PROFILE_UNUSED;
    if ((lull_actuator_profiles(control->actuator, gpu->actuator_slot) & CANDIDATE) == 0)
        return LULL_PROFILE_DENIED;
    return LULL_PROFILE_UNREAD;
}

static void give_profile_up(struct lull_control *control, struct lull_governed_gpu *gpu,
                            enum lull_profile_state state)
{
    const bool was_offered = gpu->state.profile == LULL_PROFILE_OFFERED;

    gpu->state.profile = state;
    if (!was_offered)
        return;
    lull_controller_withdraw_profile(control->controller, (uint32_t)(gpu - control->gpus));
    lull_log(LULL_LOG_WARNING, "run", "GPU %u: its power profile is not used any more: %s",
             gpu->state.device, lull_profile_state_text(state));
}

void lull_control_profile_begin(struct lull_control *control, struct lull_governed_gpu *gpu)
{
    const enum lull_profile_state state = state_at_lease(control, gpu);

    gpu->profiles.wanted = 0;
    gpu->profiles.sequence = 0;
    if (gpu->state.profile == LULL_PROFILE_UNKNOWN)
        gpu->state.profile = state;
    else if (state != LULL_PROFILE_UNREAD)
        give_profile_up(control, gpu, state);
}

bool lull_control_wants_profiles(struct lull_control *control, uint32_t gpu, bool is_slow)
{
    enum lull_profile_state state;

    pthread_mutex_lock(&control->lock);
    state = control->gpus[gpu].state.profile;
    pthread_mutex_unlock(&control->lock);
    return state == LULL_PROFILE_UNREAD || (state == LULL_PROFILE_OFFERED && is_slow);
}

void lull_control_profile_take_sample(struct lull_control *control, struct lull_governed_gpu *gpu,
                                      const struct lull_device_reading *reading)
{
    uint32_t others = reading->requested_profiles;

    if ((reading->valid & LULL_READING_PROFILES) == 0 ||
        (gpu->state.profile != LULL_PROFILE_UNREAD && gpu->state.profile != LULL_PROFILE_OFFERED))
        return;
    if (gpu->profiles.was_wanted)
        others &= ~(uint32_t)CANDIDATE;
    if (others != 0) {
        give_profile_up(control, gpu, LULL_PROFILE_FOREIGN);
    } else if (gpu->state.profile == LULL_PROFILE_UNREAD) {
        gpu->state.profile = LULL_PROFILE_OFFERED;
        lull_controller_offer_profile(control->controller, (uint32_t)(gpu - control->gpus));
    }
}

void lull_control_profile_follow(struct lull_control *control, uint32_t index)
{
    struct lull_governed_gpu *gpu = &control->gpus[index];
    const bool is_wanted = lull_controller_look_gpu(control->controller, index).uses_profile;
    const uint32_t wanted = is_wanted ? CANDIDATE : 0;

    if (!gpu->armed || wanted == gpu->profiles.wanted)
        return;
    gpu->profiles.wanted = wanted;
    gpu->profiles.was_wanted = true;
    gpu->profiles.sequence =
        lull_actuator_set_profiles(control->actuator, gpu->actuator_slot, wanted);
}

void lull_control_profile_take_result(struct lull_control *control, struct lull_governed_gpu *gpu)
{
    struct lull_limit_result result;

    if (gpu->profiles.sequence == 0)
        return;
    lull_actuator_limit_result(control->actuator, gpu->actuator_slot, &result);
    if (result.profile_sequence != gpu->profiles.sequence)
        return;
    gpu->profiles.sequence = 0;
    if (result.profile_status == LULL_E_STALE)
        return; /* the lease has ended */
    if (result.profile_status < 0)
        give_profile_up(control, gpu, LULL_PROFILE_REFUSED);
    else if ((gpu->profiles.wanted & ~result.profiles) != 0)
        give_profile_up(control, gpu, LULL_PROFILE_OUTRANKED);
}

const char *lull_profile_state_text(enum lull_profile_state state)
{
    switch (state) {
    case LULL_PROFILE_UNSUPPORTED:
        return "the GPU or its driver has no power profiles";
    case LULL_PROFILE_UNUSED:
        return "it is tested only where clocks are searched for";
    case LULL_PROFILE_DENIED:
        return "this user has no right to power profiles; an administrator gives it with "
               "power-profiles = yes in the policy of lulld";
    case LULL_PROFILE_FOREIGN:
        return "another program requests power profiles";
    case LULL_PROFILE_REFUSED:
        return "the driver has refused it; see lull status and the log";
    case LULL_PROFILE_OUTRANKED:
        return "the driver does not put it in force, because another profile outranks it";
    case LULL_PROFILE_OFFERED:
        return "the job runs on several nodes, or not all of its GPUs offered the profile when the "
               "search began";
    default:
        return "it was not known in time whether other programs request power profiles";
    }
}
