/* SPDX-License-Identifier: Apache-2.0 */
#include "emulator/spec.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "emulator/gpu_model.h"

/* ---- GPUs ---- */

static int node_spec_malformed(const char *text, const char *at, const char *what,
                               struct lull_error *err)
{
    return lull_error_set(err, -EINVAL, "\"%.60s\": character %zu: %s; e.g. 4xA100-SXM4-40GB", text,
                          (size_t)(at - text) + 1, what);
}

static int unknown_model(const char *name, size_t length, struct lull_error *err)
{
    char known[400] = "";
    size_t used = 0;

    for (uint32_t i = 0; i < lull_gpu_model_count && used < sizeof(known); i++)
        used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%s", i > 0 ? ", " : "",
                                 lull_gpu_models[i].name);
    return lull_error_set(err, LULL_E_UNSUPPORTED, "\"%.*s\": unknown GPU model; known: %s",
                          (int)(length < 20 ? length : 20), name, known);
}

/* Parses the optional count: digits followed by x. No model's name begins with a digit. */
static int node_spec_parse_count(const char *text, const char **at, uint32_t *count,
                                 struct lull_error *err)
{
    char *end;
    unsigned long value;

    *count = 1;
    if (!isdigit((unsigned char)**at))
        return 0;
    value = strtoul(*at, &end, 10);
    if (*end != 'x')
        return node_spec_malformed(text, end, "expected x after the number of GPUs", err);
    if (value < 1 || value > LULL_NODE_MAX_GPUS)
        return node_spec_malformed(text, *at, "a node has 1 to 64 GPUs", err);
    *count = (uint32_t)value;
    *at = end + 1;
    return 0;
}

static int parse_item(const char *text, const char **at, struct lull_node_spec *spec,
                      struct lull_error *err)
{
    const char *start = *at;
    uint32_t count;
    int result = node_spec_parse_count(text, at, &count, err);

    if (result < 0)
        return result;
    const char *name = *at;
    const size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                       "0123456789-_.");
    const struct lull_gpu_model *model = lull_gpu_model_find(name, (uint32_t)length);

    if (length == 0)
        return node_spec_malformed(text, name, "expected the name of a GPU model", err);
    if (name[length] != '\0' && name[length] != ',')
        return node_spec_malformed(text, name + length, "expected a comma or the end", err);
    if (model == NULL)
        return unknown_model(name, length, err);
    if (count > LULL_NODE_MAX_GPUS - spec->gpu_count)
        return node_spec_malformed(text, start, "a node has 1 to 64 GPUs", err);
    for (uint32_t i = 0; i < count; i++)
        spec->models[spec->gpu_count++] = model;
    *at = name + length;
    return 0;
}

int lull_node_spec_parse(const char *text, struct lull_node_spec *spec, struct lull_error *err)
{
    struct lull_node_spec parsed = *spec;
    const char *at = text;

    parsed.gpu_count = 0;
    for (;;) {
        int result = parse_item(text, &at, &parsed, err);

        if (result < 0)
            return result;
        if (*at == '\0')
            break;
        at++; /* skips the comma that parse_item() has checked */
    }
    *spec = parsed;
    return 0;
}

/* ---- faults ---- */

static const struct {
    const char *name;
    const char *help;
} kinds[LULL_FAULT_KINDS] = {
    [LULL_FAULT_SET_CODE] = {"set_code", "set calls return this code of the vendor and do nothing"},
    [LULL_FAULT_HANG_MS] = {"hang_ms", "set calls take this much longer"},
    [LULL_FAULT_READ_HANG_MS] = {"read_hang_ms", "readings take this much longer"},
    [LULL_FAULT_NO_EFFECT] = {"no_effect", "set calls succeed and do nothing"},
    [LULL_FAULT_SETTLE_FACTOR] = {"settle_factor", "clocks take this many times as long to settle"},
    [LULL_FAULT_NO_PERMISSION] = {"no_permission", "set calls are refused, even to root"},
    [LULL_FAULT_NO_ENERGY] = {"no_energy", "the energy counter is not supported"},
    [LULL_FAULT_NO_PROCESSES] = {"no_processes", "lists of processes are not supported"},
    [LULL_FAULT_GET_CODE] = {"get_code", "readings return this code; 3 of NVML: N/A"},
    [LULL_FAULT_ANY_USER] = {"any_user", "set calls are allowed without root"},
    [LULL_FAULT_XID] = {"xid", "the GPU reports this XID"},
    [LULL_FAULT_LOST_MS] = {"lost_ms",
                            "the GPU is lost to calls for this long; its work continues"},
    [LULL_FAULT_MIG] = {"mig", "the GPU has so many partitions; 0: MIG is off"},
    [LULL_FAULT_RELOAD_MS] = {"reload_ms", "the driver is reloaded, which takes this long"},
    [LULL_FAULT_FOREIGN_MHZ] =
        {"foreign_mhz", "another program locks the clock; 0: unlocks it, as nvidia-smi -rgc"},
    [LULL_FAULT_FOREIGN_LIMIT_W] = {"foreign_limit_w", "another program sets the power limit"},
    [LULL_FAULT_IDLE_RESET] = {"idle_reset",
                               "resets of an idle GPU's clock succeed and do nothing"},
    [LULL_FAULT_RESET_CODE] = {"reset_code", "resets of the clock return this code"},
    [LULL_FAULT_ENERGY_WRAP_J] = {"energy_wrap_j", "the energy counter restarts after this value"},
    [LULL_FAULT_ENERGY_STUCK_J] = {"energy_stuck_j", "the energy counter stays at this value"},
    [LULL_FAULT_ENERGY_FACTOR] = {"energy_factor", "the energy counter is multiplied by this"},
    [LULL_FAULT_POWER_W] = {"power_w", "readings of power have this value"},
    [LULL_FAULT_POWER_FACTOR] = {"power_factor", "readings of power are multiplied by this"},
    [LULL_FAULT_MODULE_W] =
        {"module_w", "NVIDIA: power is that of a module whose CPU draws this much, as on GH200"},
    [LULL_FAULT_SM_RESETS_MEMORY] = {"sm_resets_memory",
                                     "AMD: setting the clock ends the limit of the memory clock"},
    [LULL_FAULT_VGPU] = {"vgpu", "NVIDIA: the GPU is a vGPU; 0: it is not"},
    [LULL_FAULT_OFF_BUS] = {"off_bus",
                            "NVIDIA: the GPU leaves the bus: XID 79, then lost; 0: it is back"},
    [LULL_FAULT_ECC_CORRECTED] = {"ecc_corrected", "NVIDIA: ECC corrects so many memory errors"},
    [LULL_FAULT_ECC_UNCORRECTED] =
        {"ecc_uncorrected", "NVIDIA: so many memory errors that ECC cannot correct, and XID 48"},
    [LULL_FAULT_ROW_REMAP] =
        {"row_remap", "NVIDIA: so many rows of memory await remapping at a reload, and XID 63"},
    [LULL_FAULT_RESTRICTED_PROFILING] = {"restricted_profiling",
                                         "NVIDIA: performance metrics (GPM) need CAP_SYS_ADMIN"},
    [LULL_FAULT_WPPS] = {"wpps", "NVIDIA, driver 615 and newer: users have the WPPS capability, so "
                                 "power profiles need no root"},
    [LULL_FAULT_DENY] = {"deny", "NVIDIA: the named call returns no permission, or this code"},
    [LULL_FAULT_CALL_HANG_MS] = {"call_hang_ms", "NVIDIA: the named call takes this much longer"},
};

const char *lull_fault_name(enum lull_fault_kind kind)
{
    return kinds[kind].name;
}

const char *lull_fault_help(enum lull_fault_kind kind)
{
    return kinds[kind].help;
}

bool lull_fault_is_of_call(enum lull_fault_kind kind)
{
    return kind == LULL_FAULT_DENY || kind == LULL_FAULT_CALL_HANG_MS;
}

bool lull_fault_happens_once(enum lull_fault_kind kind)
{
    return kind >= LULL_FAULT_OFF_BUS && kind <= LULL_FAULT_ROW_REMAP;
}

static int refuse_entry(const char *entry, size_t length, struct lull_error *err)
{
    char known[640] = "";
    size_t used = 0;

    for (int i = 0; i < LULL_FAULT_KINDS && used < sizeof(known); i++)
        used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%s", i > 0 ? ", " : "",
                                 kinds[i].name);
    return lull_error_set(err, -EINVAL,
                          "fault \"%.*s\": expected [GPU:]NAME[=VALUE[xCOUNT][@AFTER]] with one "
                          "of %s",
                          (int)length, entry, known);
}

static const double deny_code = 4; /* NVML: no permission */

static int node_spec_find_kind(const char *name, enum lull_fault_kind *kind)
{
    for (int i = 0; i < LULL_FAULT_KINDS; i++) {
        if (strcmp(kinds[i].name, name) == 0) {
            *kind = (enum lull_fault_kind)i;
            return 0;
        }
    }
    return -EINVAL;
}

static int node_spec_parse_value(char *text, struct lull_fault *fault)
{
    char *after = strchr(text, '@');
    char *times = strchr(text, 'x');
    int64_t count = fault->remaining;
    int64_t spared = 0;

    if (after != NULL) {
        *after = '\0';
        if ((times != NULL && times > after) ||
            lull_text_parse_int(after + 1, 1, INT32_MAX, &spared) < 0)
            return -EINVAL;
    }
    if (times != NULL) {
        *times = '\0';
        if (lull_text_parse_int(times + 1, 1, INT32_MAX, &count) < 0)
            return -EINVAL;
    }
    fault->remaining = (int32_t)count;
    fault->spared = (int32_t)spared;
    return lull_text_parse_number(text, &fault->value);
}

/* Parses CALL[/VALUE] of a fault of one call. */
static int parse_call(char *text, struct lull_fault_entry *parsed)
{
    char *slash = strchr(text, '/');

    if (slash != NULL)
        *slash = '\0';
    if (strncmp(text, "nvml", 4) != 0 || strlen(text) >= sizeof(parsed->call))
        return -EINVAL;
    memcpy(parsed->call, text, strlen(text) + 1);
    if (slash != NULL)
        return node_spec_parse_value(slash + 1, &parsed->fault);
    if (parsed->kind != LULL_FAULT_DENY)
        return -EINVAL;
    parsed->fault.value = deny_code;
    return 0;
}

static int parse_setting(char *text, struct lull_fault_entry *parsed)
{
    if (strcmp(text, "off") == 0) {
        parsed->fault.remaining = 0;
        return 0;
    }
    if (lull_fault_is_of_call(parsed->kind))
        return parse_call(text, parsed);
    return node_spec_parse_value(text, &parsed->fault);
}

static int parse_entry(char *entry, struct lull_fault_entry *parsed)
{
    char *colon = strchr(entry, ':');
    char *equals = strchr(entry, '=');
    int64_t gpu = -1;

    if (colon != NULL) {
        *colon = '\0';
        if (lull_text_parse_int(entry, 0, 63, &gpu) < 0)
            return -EINVAL;
        entry = colon + 1;
    }
    *parsed = (struct lull_fault_entry){.gpu = (int32_t)gpu, .fault = {1, LULL_FAULT_ALWAYS, 0}};
    if (equals != NULL)
        *equals = '\0';
    if (node_spec_find_kind(entry, &parsed->kind) < 0)
        return -EINVAL;
    if (lull_fault_happens_once(parsed->kind))
        parsed->fault.remaining = 1;
    if (equals != NULL)
        return parse_setting(equals + 1, parsed);
    return lull_fault_is_of_call(parsed->kind) ? -EINVAL : 0;
}

int lull_fault_parse_next(const char **text, struct lull_fault_entry *entry_out,
                          struct lull_error *err)
{
    const size_t length = strcspn(*text, ",");
    struct lull_fault_entry parsed;
    char entry[128];

    if (length >= sizeof(entry))
        return lull_error_set(err, -EINVAL, "fault \"%.40s...\": longer than %zu characters", *text,
                              sizeof(entry) - 1);
    memcpy(entry, *text, length);
    entry[length] = '\0';
    if (parse_entry(entry, &parsed) < 0)
        return refuse_entry(*text, length, err);
    *entry_out = parsed;
    *text += length + ((*text)[length] == ',');
    return 0;
}
