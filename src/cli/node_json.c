/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/node_json.h"

#include <stdbool.h>

#include "base/json_string.h"
#include "device/writer.h"
#include "governor/report/report_fields.h"

const struct lull_node_word lull_node_reasons[] = {
    {LULL_CLOCK_REASON_IDLE, "idle"},
    {LULL_CLOCK_REASON_SETTING, "application clocks"},
    {LULL_CLOCK_REASON_POWER_CAP, "power cap"},
    {LULL_CLOCK_REASON_HARDWARE_SLOWDOWN, "hw slowdown"},
    {LULL_CLOCK_REASON_SYNC_BOOST, "sync boost"},
    {LULL_CLOCK_REASON_THERMAL, "thermal"},
    {LULL_CLOCK_REASON_HARDWARE_THERMAL, "hw thermal"},
    {LULL_CLOCK_REASON_POWER_BRAKE, "power brake"},
    {LULL_CLOCK_REASON_DISPLAY, "display"},
    {0, NULL},
};

const struct lull_node_word lull_node_capabilities[] = {
    {LULL_CAPABILITY_SM_LOCK, "sm_lock"},
    {LULL_CAPABILITY_MEMORY_LOCK, "memory_lock"},
    {LULL_CAPABILITY_POWER_LIMIT, "power_limit"},
    {LULL_CAPABILITY_ENERGY_COUNTER, "energy_counter"},
    {LULL_CAPABILITY_INSTANT_POWER, "instant_power"},
    {LULL_CAPABILITY_POWER_PROFILES, "power_profiles"},
    {LULL_CAPABILITY_POWER_SMOOTHING, "power_smoothing"},
    {0, NULL},
};

const struct lull_node_word lull_node_profiles[] = {
    {LULL_POWER_PROFILE_MAX_P, "max-p"},
    {LULL_POWER_PROFILE_MAX_Q, "max-q"},
    {LULL_POWER_PROFILE_COMPUTE, "compute"},
    {LULL_POWER_PROFILE_MEMORY_BOUND, "memory-bound"},
    {LULL_POWER_PROFILE_NETWORK, "network"},
    {LULL_POWER_PROFILE_BALANCED, "balanced"},
    {LULL_POWER_PROFILE_LLM_INFERENCE, "llm-inference"},
    {LULL_POWER_PROFILE_LLM_TRAINING, "llm-training"},
    {LULL_POWER_PROFILE_RBM, "rbm"},
    {LULL_POWER_PROFILE_DCPCIE, "dcpcie"},
    {LULL_POWER_PROFILE_HMMA_SPARSE, "hmma-sparse"},
    {LULL_POWER_PROFILE_HMMA_DENSE, "hmma-dense"},
    {LULL_POWER_PROFILE_SYNC_BALANCED, "sync-balanced"},
    {LULL_POWER_PROFILE_HPC, "hpc"},
    {LULL_POWER_PROFILE_MIG, "mig"},
    {0, NULL},
};

json_t *lull_node_words_json(const struct lull_node_word *words, uint64_t bits)
{
    json_t *array = json_array();

    for (; words->text != NULL; words++)
        if ((bits & words->bit) != 0)
            json_array_append_new(array, lull_json_string(words->text));
    return array;
}

/* A reading that is missing is null, never 0. */
static void set_integer(json_t *object, const char *key, bool is_valid, uint64_t value)
{
    json_object_set_new(object, key, is_valid ? json_integer((json_int_t)value) : json_null());
}

json_t *lull_node_gpu_json(uint32_t index, const struct lull_device_info *info,
                           const struct lull_device_reading *now)
{
    const uint32_t count = info->sm_clock_count;
    json_t *object = json_object();

    lull_field_integer(object, "index", index);
    lull_field_text(object, "name", info->name);
    lull_field_text(object, "uuid", info->uuid);
    lull_field_text(object, "pci_bus_id", info->pci_bus_id);
    set_integer(object, "sm_clock_mhz", now->valid & LULL_READING_SM_CLOCK, now->sm_mhz);
    set_integer(object, "sm_clock_min_mhz", count > 0,
                count > 0 ? info->sm_clocks_mhz[count - 1] : 0);
    set_integer(object, "sm_clock_max_mhz", count > 0, info->sm_clocks_mhz[0]);
    set_integer(object, "memory_clock_mhz", now->valid & LULL_READING_MEMORY_CLOCK,
                now->memory_mhz);
    lull_field_known(object, "power_w", now->power_mw * 1e-3, now->valid & LULL_READING_POWER);
    if ((now->refused & LULL_READING_POWER) != 0)
        lull_field_text(object, "power_reason", "its reading is outside what the GPU can draw");
    if (info->has_only_module_power)
        lull_field_text(object, "power_reason",
                        "the driver reports only the power of the module, GPU and CPU together");
    lull_field_text(object, "power_limit_scope", info->has_only_module_power ? "module" : "gpu");
    lull_field_known(object, "power_limit_w", now->power_limit_mw * 1e-3,
                     now->valid & LULL_READING_POWER_LIMIT);
    lull_field_known(object, "energy_j", (double)now->energy_mj * 1e-3,
                     now->valid & LULL_READING_ENERGY);
    set_integer(object, "temperature_c", now->valid & LULL_READING_TEMPERATURE, now->temperature_c);
    lull_field_known(object, "utilization_ratio", now->utilization_percent * 1e-2,
                     now->valid & LULL_READING_UTILIZATION);
    json_object_set_new(object, "reasons",
                        (now->valid & LULL_READING_REASONS) != 0
                            ? lull_node_words_json(lull_node_reasons, now->reasons)
                            : json_null());
    json_object_set_new(object, "capabilities",
                        lull_node_words_json(lull_node_capabilities, info->capabilities));
    return object;
}

const char *lull_node_health_name(const struct lull_message_state *state)
{
    if (state->health >= LULL_WRITER_HEALTHS)
        return "unknown";
    return lull_writer_health_name((enum lull_writer_health)state->health);
}

static json_t *cap_json(const struct lull_message_state *state)
{
    if (state->cap_left_ms == 0)
        return json_null();
    return json_pack("{s:o, s:o, s:f}", "sm_mhz",
                     state->cap_mhz != 0 ? json_integer((json_int_t)state->cap_mhz) : json_null(),
                     "power_limit_w",
                     state->cap_limit_mw != 0 ? json_real(state->cap_limit_mw * 1e-3) : json_null(),
                     "left_s", state->cap_left_ms * 1e-3);
}

json_t *lull_node_state_json(const struct lull_message_state *state)
{
    json_t *lease = json_null();

    if (state->is_leased)
        lease = json_pack("{s:I, s:I, s:I, s:I, s:f}", "pid", (json_int_t)state->owner_pid, "uid",
                          (json_int_t)state->owner_uid, "band_min_mhz", (json_int_t)state->min_mhz,
                          "band_max_mhz", (json_int_t)state->max_mhz, "left_s",
                          state->lease_left_ms * 1e-3);
    return json_pack(
        "{s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:o, "
        "s:b, s:o, s:o, s:o}",
        "index", (json_int_t)state->gpu, "name", lull_json_string(state->name), "uuid",
        lull_json_string(state->uuid), "state", lull_json_string(lull_node_health_name(state)),
        "lease", lease, "applied_sm_mhz",
        state->applied_mhz != 0 ? json_integer((json_int_t)state->applied_mhz) : json_null(),
        "observed_sm_mhz",
        state->observed_mhz != 0 ? json_integer((json_int_t)state->observed_mhz) : json_null(),
        "power_limit_w", state->limit_mw != 0 ? json_real(state->limit_mw * 1e-3) : json_null(),
        "power_profiles", lull_node_words_json(lull_node_profiles, state->power_profiles), "status",
        state->status, "writes", (json_int_t)state->writes, "dropped", (json_int_t)state->dropped,
        "expired", (json_int_t)state->expired, "failed", (json_int_t)state->failed, "disobeyed",
        (json_int_t)state->disobeyed, "xids", (json_int_t)state->xids, "last_xid",
        state->last_xid != 0 ? json_integer((json_int_t)state->last_xid) : json_null(), "mig",
        (int)state->is_partitioned, "age_s",
        state->age_ms != LULL_MESSAGE_NEVER ? json_real(state->age_ms * 1e-3) : json_null(),
        "power_w", state->power_mw != 0 ? json_real(state->power_mw * 1e-3) : json_null(), "cap",
        cap_json(state));
}
