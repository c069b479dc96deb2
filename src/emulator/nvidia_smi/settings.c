/*
 * Options that change a GPU: each is one NVML call per selected GPU.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "emulator/nvidia_smi/commands.h"

/* One change at one GPU. */
struct setting_change {
    const struct lull_smi_options *options;
    nvmlDevice_t device;
    const char *bus_id;
    unsigned first; /* the numbers of the value */
    unsigned second;
    double watts;
    char done[SMI_TEXT_BYTES];   /* the message on success; "": none */
    char failed[SMI_TEXT_BYTES]; /* the message on failure; "": made from the setting's row */
};

struct setting {
    enum smi_action action;
    const char *right;   /* "... does not have permission to RIGHT" */
    const char *subject; /* "SUBJECT is not supported" */
    /* Reads options->value into the change; false: it is invalid. NULL: there is no value. */
    bool (*parse)(struct setting_change *change);
    int (*apply)(
        struct setting_change *change); /* returns NVML's code, or a negative exit status */
    const char *after;                  /* what to do next, or NULL */
};

static void change_done(struct setting_change *change, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void change_done(struct setting_change *change, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(change->done, sizeof(change->done), format, arguments);
    va_end(arguments);
}

/* ---- values ---- */

static bool parse_pair(struct setting_change *change)
{
    return smi_options_parse_pair(change->options->value, &change->first, &change->second);
}

static bool parse_two(struct setting_change *change)
{
    return strchr(change->options->value, ',') != NULL && parse_pair(change);
}

static bool parse_word(struct setting_change *change, const char *const *words)
{
    int64_t number;

    for (unsigned i = 0; words[i] != NULL; i++)
        if (strcasecmp(change->options->value, words[i]) == 0) {
            change->first = i;
            return true;
        }
    for (change->first = 0; words[change->first] != NULL; change->first++)
        if (lull_text_parse_int(change->options->value, change->first, change->first, &number) == 0)
            return true;
    return false;
}

static bool parse_switch(struct setting_change *change)
{
    static const char *const words[] = {"DISABLED", "ENABLED", NULL};

    return parse_word(change, words);
}

static bool parse_counter(struct setting_change *change)
{
    static const char *const words[] = {"VOLATILE", "AGGREGATE", NULL};

    return parse_word(change, words);
}

static const char *const compute_modes[] = {"DEFAULT", "EXCLUSIVE_THREAD", "PROHIBITED",
                                            "EXCLUSIVE_PROCESS", NULL};

static bool parse_compute_mode(struct setting_change *change)
{
    return parse_word(change, compute_modes);
}

static bool parse_watts(struct setting_change *change)
{
    return lull_text_parse_between(change->options->value, 0.0, 1e6, &change->watts) == 0;
}

/* ---- changes ---- */

static int lock_gpu_clocks(struct setting_change *change)
{
    change_done(change, "GPU clocks set to \"(gpuClkMin %u, gpuClkMax %u)\" for GPU %s",
                change->first, change->second, change->bus_id);
    return smi_nvml_set_two(change->device, "nvmlDeviceSetGpuLockedClocks", change->first,
                            change->second);
}

static int unlock_gpu_clocks(struct setting_change *change)
{
    return smi_nvml_set(change->device, "nvmlDeviceResetGpuLockedClocks");
}

static int lock_memory_clocks(struct setting_change *change)
{
    change_done(change, "Memory clocks set to \"(memClkMin %u, memClkMax %u)\" for GPU %s",
                change->first, change->second, change->bus_id);
    return smi_nvml_set_two(change->device, "nvmlDeviceSetMemoryLockedClocks", change->first,
                            change->second);
}

static int unlock_memory_clocks(struct setting_change *change)
{
    return smi_nvml_set(change->device, "nvmlDeviceResetMemoryLockedClocks");
}

static int set_application_clocks(struct setting_change *change)
{
    change_done(change, "Applications clocks set to \"(MEM %u, SM %u)\" for GPU %s", change->first,
                change->second, change->bus_id);
    return smi_nvml_set_two(change->device, "nvmlDeviceSetApplicationsClocks", change->first,
                            change->second);
}

static int reset_application_clocks(struct setting_change *change)
{
    return smi_nvml_set(change->device, "nvmlDeviceResetApplicationsClocks");
}

static int set_power_limit(struct setting_change *change)
{
    const unsigned wanted_mw = (unsigned)lround(change->watts * 1000.0);
    unsigned limits[4] = {0};
    unsigned before = 0;
    int code = smi_nvml_get_number(change->device, "nvmlDeviceGetPowerManagementLimit", &before);

    if (code == NVML_SUCCESS)
        code = smi_nvml_get_numbers(change->device, "nvmlDeviceGetPowerManagementLimitConstraints",
                                    2, limits);
    if (code != NVML_SUCCESS)
        return code;
    if (wanted_mw < limits[0] || wanted_mw > limits[1]) {
        snprintf(change->failed, sizeof(change->failed),
                 "Provided power limit %.2f W is not a valid power limit which should be between "
                 "%.2f W and %.2f W for GPU %s",
                 change->watts, limits[0] / 1000.0, limits[1] / 1000.0, change->bus_id);
        return NVML_INVALID_ARGUMENT;
    }
    change_done(change, "Power limit for GPU %s was set to %.2f W from %.2f W.", change->bus_id,
                wanted_mw / 1000.0, before / 1000.0);
    return smi_nvml_set_one(change->device, "nvmlDeviceSetPowerManagementLimit", wanted_mw);
}

static const char *enabled_text(unsigned is_enabled)
{
    return is_enabled != 0 ? "Enabled" : "Disabled";
}

static int set_persistence(struct setting_change *change)
{
    unsigned before = 0;
    const int code = smi_nvml_get_number(change->device, "nvmlDeviceGetPersistenceMode", &before);

    if (code == NVML_SUCCESS && before == change->first)
        change_done(change, "Persistence mode is already %s for GPU %s.", enabled_text(before),
                    change->bus_id);
    else
        change_done(change, "%s persistence mode for GPU %s.", enabled_text(change->first),
                    change->bus_id);
    return smi_nvml_set_one(change->device, "nvmlDeviceSetPersistenceMode", change->first);
}

static int set_ecc(struct setting_change *change)
{
    change_done(change, "%s ECC support for GPU %s.", enabled_text(change->first), change->bus_id);
    return smi_nvml_set_one(change->device, "nvmlDeviceSetEccMode", change->first);
}

static int clear_ecc(struct setting_change *change)
{
    change_done(change, "Reset %s ECC errors to zero for GPU %s.",
                change->first == 0 ? "volatile" : "aggregate", change->bus_id);
    return smi_nvml_set_one(change->device, "nvmlDeviceClearEccErrorCounts", change->first);
}

static int set_compute_mode(struct setting_change *change)
{
    change_done(change, "Set compute mode to %s for GPU %s.", compute_modes[change->first],
                change->bus_id);
    return smi_nvml_set_one(change->device, "nvmlDeviceSetComputeMode", change->first);
}

static int set_mig(struct setting_change *change)
{
    int activation = NVML_SUCCESS;
    const int code = smi_nvml_set_mig(change->device, change->first, &activation);

    if (code == NVML_SUCCESS && activation != NVML_SUCCESS)
        change_done(change, "Warning: MIG mode is in pending %s state for GPU %s: %s",
                    change->first != 0 ? "enable" : "disable", change->bus_id,
                    smi_nvml_text(activation));
    else
        change_done(change, "%s MIG Mode for GPU %s", enabled_text(change->first), change->bus_id);
    return code;
}

/* NVML cannot reset a GPU; the real nvidia-smi uses an interface of the kernel module. */
static int reset_gpu(struct setting_change *change)
{
    snprintf(change->failed, sizeof(change->failed), "Resetting GPU %s is not supported.",
             change->bus_id);
    return NVML_NOT_SUPPORTED;
}

static const struct setting settings[] = {
    {SMI_SET_PERSISTENCE, "change persistence mode", "Persistence mode", parse_switch,
     set_persistence, NULL},
    {SMI_SET_ECC, "change ECC mode", "ECC", parse_switch, set_ecc, "Reboot required."},
    {SMI_CLEAR_ECC, "reset ECC errors", "Resetting ECC errors", parse_counter, clear_ecc, NULL},
    {SMI_SET_COMPUTE_MODE, "change compute mode", "Setting compute mode", parse_compute_mode,
     set_compute_mode, NULL},
    {SMI_SET_MIG, "change MIG mode", "MIG Mode", parse_switch, set_mig, NULL},
    {SMI_LOCK_GPU_CLOCKS, "change clocks", "Setting locked GPU clocks", parse_pair, lock_gpu_clocks,
     NULL},
    {SMI_UNLOCK_GPU_CLOCKS, "change clocks", "Resetting GPU clocks", NULL, unlock_gpu_clocks, NULL},
    {SMI_LOCK_MEMORY_CLOCKS, "change clocks", "Setting locked memory clocks", parse_pair,
     lock_memory_clocks, NULL},
    {SMI_UNLOCK_MEMORY_CLOCKS, "change clocks", "Resetting memory clocks", NULL,
     unlock_memory_clocks, NULL},
    {SMI_SET_APPLICATION_CLOCKS, "change clocks", "Setting applications clocks", parse_two,
     set_application_clocks, NULL},
    {SMI_RESET_APPLICATION_CLOCKS, "change clocks", "Resetting applications clocks", NULL,
     reset_application_clocks, NULL},
    {SMI_SET_POWER_LIMIT, "change power management limit", "Changing power management limit",
     parse_watts, set_power_limit, NULL},
    {SMI_RESET_GPU, "reset GPUs", "Resetting GPUs", NULL, reset_gpu, NULL},
};

static const struct setting *setting_find(enum smi_action action)
{
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
        if (settings[i].action == action)
            return &settings[i];
    return NULL;
}

/* Writes the outcome at one GPU. Returns 0 if the next GPU follows. */
static int change_report(const struct lull_smi_run *run, const struct setting *setting,
                         const struct setting_change *change, int code)
{
    if (code == NVML_SUCCESS) {
        if (*change->done != '\0')
            fprintf(run->out, "%s\n", change->done);
        return 0;
    }
    if (*change->failed == '\0' && smi_code_is_missing(code)) {
        fprintf(run->out, "%s is not supported for GPU %s.\nTreating as warning and moving on.\n",
                setting->subject, change->bus_id);
        return run->options->warnings_are_errors != NULL ? SMI_EXIT_NOT_AVAILABLE : 0;
    }
    if (*change->failed != '\0')
        fprintf(run->out, "%s\n", change->failed);
    else if (code == NVML_NO_PERMISSION)
        fprintf(run->out, "The current user does not have permission to %s for GPU %s.\n",
                setting->right, change->bus_id);
    else
        fprintf(run->out, "%s failed for GPU %s: %s\n", setting->subject, change->bus_id,
                smi_nvml_text(code));
    fprintf(run->out, "Terminating early due to previous errors.\n");
    return code;
}

int smi_change_settings(const struct lull_smi_run *run)
{
    const struct setting *const setting = setting_find(run->options->action);
    struct setting_change change = {.options = run->options};

    if (setting->parse != NULL && !setting->parse(&change)) {
        fprintf(run->out, "Invalid value \"%s\" of %s. Please run 'nvidia-smi -h' for help.\n",
                run->options->value, run->options->action_name);
        return SMI_EXIT_ARGUMENT;
    }
    for (unsigned i = 0; i < run->count; i++) {
        int status;

        change.device = run->selected[i]->device;
        change.bus_id = run->selected[i]->bus_id;
        change.done[0] = '\0';
        status = change_report(run, setting, &change, setting->apply(&change));
        if (status != 0)
            return status;
    }
    fprintf(run->out, "All done.\n");
    if (setting->after != NULL)
        fprintf(run->out, "%s\n", setting->after);
    return 0;
}
