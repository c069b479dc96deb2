/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/report/section_text.h"

#include <errno.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/printable.h"

const char *lull_verdict_text(enum lull_verdict verdict)
{
    switch (verdict) {
    case LULL_VERDICT_NOT_DEGRADED:
        return "not degraded";
    case LULL_VERDICT_DEGRADED:
        return "degraded";
    default:
        return "undecided";
    }
}

static bool awaits_proof(const struct lull_target *target)
{
    return !lull_target_is_kept_low(target) && (target->descent.good > 0 || target->has_own);
}

const char *lull_target_verdict_text(const struct lull_target *target)
{
    if (target == NULL)
        return "not switched";
    if (lull_target_is_kept_low(target))
        return "lowered";
    if (target->reason == LULL_REASON_NONE || awaits_proof(target))
        return "unfinished";
    return "highest kept";
}

const char *lull_target_reason_text(const struct lull_target *target)
{
    if (lull_target_is_kept_low(target) && target->proven.common == target->descent.count - 1)
        return "lowest clock of the GPU, no slowdown detected";
    if (lull_target_is_kept_low(target))
        return "the next lower clock may cause a slowdown";
    if (awaits_proof(target))
        return "the run ended before a lower clock passed the test";
    switch (target->reason) {
    case LULL_REASON_NONE:
        return "the run ended during the clock search";
    case LULL_REASON_LOWEST:
        return "the device has no lower clock";
    case LULL_REASON_DEGRADES_BELOW:
        return "no lower clock passes the test";
    case LULL_REASON_SAVES_NOTHING:
        return "a lower clock draws no less power here";
    case LULL_REASON_SHORT:
        return "it takes less than 3 % of the time, so it is tried only after some 2000 iterations";
    case LULL_REASON_UNTRIED:
        return "the driver could rarely change the clock in time, so it is tried only after some "
               "2000 iterations";
    default:
        return "";
    }
}

const char lull_profile_name[] = "max-q";

const char *lull_profile_verdict_text(const struct lull_target *profile)
{
    if (profile == NULL)
        return "not tested";
    if (lull_target_is_kept_low(profile))
        return "kept";
    return !profile->settled || awaits_proof(profile) ? "unfinished" : "removed";
}

const char *lull_profile_reason_text(const struct lull_target *profile,
                                     enum lull_profile_state state)
{
    if (profile == NULL)
        return lull_profile_state_text(state);
    if (lull_target_is_kept_low(profile))
        return "proven within the tolerance, and the measured energy is lower";
    if (!profile->settled || awaits_proof(profile))
        return "the run ended before its test did";
    switch (profile->reason) {
    case LULL_REASON_SAVES_NOTHING:
        return "the measured energy is not lower, or lower by less than its error";
    case LULL_REASON_WITHDRAWN:
        return lull_profile_state_text(state);
    default:
        return "it is not proven to be within the tolerance";
    }
}

const char *lull_gpu_alone_text(const struct lull_control *control, uint32_t gpu)
{
    const struct lull_control_gpu *state = lull_control_gpu(control, gpu);

    if (state->shared)
        return "not managed: several ranks share this GPU";
    return state->refusal.code != 0 ? state->refusal.text : NULL;
}

const char *lull_gpu_verdict_text(const struct lull_control *control, uint32_t gpu,
                                  const struct lull_target *target)
{
    return lull_target_verdict_text(lull_gpu_alone_text(control, gpu) == NULL ? target : NULL);
}

const char *lull_gpu_reason_text(const struct lull_control *control, uint32_t gpu,
                                 const struct lull_target *target)
{
    if (target == NULL || lull_gpu_alone_text(control, gpu) != NULL)
        return "its GPU is not managed";
    return lull_target_reason_text(target);
}

const char *lull_slack_reason_text(const struct lull_slack_record *record)
{
    if (record->lowered == 0)
        return "its rank does not wait long enough for slower ranks";
    if (record->recoveries > 0)
        return "lower clocks fill its waiting time; raised where it no longer waits";
    if (record->by_nodes > 0)
        return "lower clocks fill its waiting time for slower ranks of other nodes";
    return "lower clocks fill its waiting time for slower ranks";
}

static void format_bytes(uint64_t bytes, char *text, size_t size)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    unsigned unit = 0;

    while (value >= 1024.0 && unit + 1 < sizeof(units) / sizeof(units[0])) {
        value /= 1024.0;
        unit++;
    }
    snprintf(text, size, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
}

static const char *kind_of_name(const char *name)
{
    static const char *const kinds[] = {"communication", "bubble", "idle"};

    for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(name, kinds[i]) == 0)
            return kinds[i];
    return "user";
}

static void describe_name(const struct lull_control *control, uint32_t gpu,
                          const struct lull_section *section, struct lull_section_text *text)
{
    char bytes[32];
    char shown[25];

    if (section->operation == LULL_OPERATION_USER) {
        lull_event_segment_name(lull_control_job(control),
                                (uint32_t)lull_control_gpu(control, gpu)->process, section->name,
                                text->name);
        text->kind = kind_of_name(text->name);
    } else if (section->operation == LULL_OPERATION_NONE) {
        snprintf(text->name, sizeof(text->name), "idle");
        text->kind = "idle";
    } else {
        snprintf(text->name, sizeof(text->name), "%s",
                 lull_operation_name((enum lull_operation)section->operation));
        text->kind = "communication";
    }
    format_bytes(section->bytes, bytes, sizeof(bytes));
    lull_printable_write(text->name, shown, sizeof(shown));
    snprintf(text->signature, sizeof(text->signature), "%s %s, %u ranks, %u calls #%08" PRIx32,
             shown, bytes, section->ranks, section->calls, (uint32_t)section->signature);
}

void lull_section_describe_untargeted(const struct lull_control *control, uint32_t gpu,
                                      double min_ms, double max_ms, char *text, size_t size)
{
    const struct lull_controller *controller = lull_control_controller(control);
    const struct lull_controller_view now = lull_controller_look(controller);
    const struct lull_switch_cost *cost = lull_controller_look_gpu(controller, gpu).switch_cost;
    char exposed[64];

    snprintf(exposed, sizeof(exposed), "%.2f", max_ms);
    if (min_ms < max_ms)
        snprintf(exposed, sizeof(exposed), "%.2f to %.2f", min_ms, max_ms);
    if (now.is_suspended)
        snprintf(text, size, "driver calls block for longer than that");
    else if (now.phase == LULL_PHASE_LEARNING)
        snprintf(text, size, "the run ended while it was being learned");
    else
        snprintf(
            text, size,
            "%s ms of waiting is shorter than changing the clock down and up (about %.0f ms)%s",
            exposed,
            lull_switch_cost_total_ms(cost, LULL_DIRECTION_DOWN, 0.5) +
                lull_switch_cost_total_ms(cost, LULL_DIRECTION_UP, 0.95),
            now.steady != NULL ? "; see the steady point" : "");
}

void lull_section_describe(const struct lull_control *control, uint32_t gpu, uint32_t index,
                           struct lull_section_text *text_out)
{
    const struct lull_controller *controller = lull_control_controller(control);
    const struct lull_target *target = lull_controller_target_of(controller, gpu, index);
    uint32_t count;
    const struct lull_section *section =
        &lull_track_sections(lull_controller_look_gpu(controller, gpu).track, &count)[index];

    describe_name(control, gpu, section, text_out);
    text_out->verdict = lull_gpu_verdict_text(control, gpu, target);
    if (target == NULL && lull_gpu_alone_text(control, gpu) == NULL)
        lull_section_describe_untargeted(control, gpu, section->exposed_ms.mean,
                                         section->exposed_ms.mean, text_out->reason,
                                         sizeof(text_out->reason));
    else
        snprintf(text_out->reason, sizeof(text_out->reason), "%s",
                 lull_gpu_reason_text(control, gpu, target));
}

static const char *denial_text(int32_t denial)
{
    switch (denial) {
    case LULL_E_NO_DEVICE:
        return "not managed: the driver has lost it";
    case -EPERM:
        return "not managed: its clocks cannot be set: not permitted";
    default:
        return "not managed: its clocks cannot be set: not supported";
    }
}

const char *lull_gpu_state_text(const struct lull_control *control, uint32_t gpu)
{
    const struct lull_control_gpu *state = lull_control_gpu(control, gpu);
    const struct lull_controller *controller = lull_control_controller(control);
    const struct lull_controller_view now = lull_controller_look(controller);
    const struct lull_controller_gpu_view gpu_now = lull_controller_look_gpu(controller, gpu);
    const enum lull_track_phase phase = lull_track_phase(gpu_now.track);

    if (state->process < 0)
        return "not used by the job";
    if (lull_gpu_alone_text(control, gpu) != NULL)
        return lull_gpu_alone_text(control, gpu);
    if (!state->leased)
        return "observed only";
    if (lull_driver_watch_denies(&state->driver))
        return denial_text(state->driver.denial);
    if (lull_driver_watch_is_refused(&state->driver))
        return "not managed: the driver refuses to set its clocks";
    if (state->driver.is_locked)
        return "not managed: another program has locked its clock";
    if (lull_driver_watch_has_no_effect(&state->driver))
        return "not managed: the driver reports success, but clocks do not change";
    if (lull_control_decider(control)->gpu_text != NULL)
        return lull_control_decider(control)->gpu_text;
    if (lull_control_wants_limits(control))
        return "managed by its power limit";
    if (now.is_suspended)
        return "not managed: driver calls block for too long";
    if (phase == LULL_TRACK_SEARCHING)
        return "not managed: the sequence of calls does not repeat (any more)";
    if (now.steady == NULL)
        return "managed by section";
    if (gpu_now.slack->lowered > 0)
        return "managed by section, on a steady point that is lower where its rank waits for "
               "others";
    if (!now.has_sections)
        return "managed by one steady point: no section is worth switching";
    return "managed by section, on one steady point";
}
