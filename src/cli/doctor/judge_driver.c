/* The driver and its GPUs. SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/doctor/judge_parts.h"
#include "device/unmanaged_reason.h"

enum {
    /* Field 186 (power now, not a mean over 1 s) and fields 298 and 299 (whether the memory clock
     * can be locked) exist in all drivers from this branch on. */
    FULL_BRANCH = 535,
    /* 535.43 to 535.85 list processes in a structure of another size. */
    LIST_BRANCH = 535,
    FIRST_BAD_LIST = 43,
    LAST_BAD_LIST = 85,
};

/* ---- the driver -------------------------------------------------------------------------- */

static void driver_judge_unopened(const struct lull_doctor_facts *facts,
                                  struct lull_doctor_findings *findings)
{
    const struct lull_doctor_node *const node = &facts->node;
    struct lull_doctor_finding *const finding =
        lull_doctor_add(findings, "driver", LULL_DOCTOR_PROBLEM, "%s", facts->driver.err.text);

    if (facts->driver.override[0] != '\0')
        lull_doctor_fix(finding, "unset %.*s", (int)strcspn(facts->driver.override, "="),
                        facts->driver.override);
    else if (node->is_container && !node->has_device)
        lull_doctor_advise(finding,
                           "start the container with its GPUs: docker run --gpus all, or in "
                           "Kubernetes resources: limits: nvidia.com/gpu");
    else if (node->has_module && !node->has_device)
        lull_doctor_fix(finding, "sudo nvidia-modprobe -c 0 -u");
    else if (node->has_device && !node->may_open_device)
        lull_doctor_fix(finding, "sudo chmod a+rw /dev/nvidiactl /dev/nvidia[0-9]*");
    else if (facts->driver.err.code == LULL_E_NO_DRIVER && node->has_module)
        lull_doctor_fix(finding, "sudo reboot"); /* the module and the library differ */
    else if (facts->driver.err.code == LULL_E_NO_DRIVER)
        lull_doctor_fix(finding, "sudo modprobe nvidia");
    else
        lull_doctor_advise(finding, "install the driver of your GPUs' vendor, then check it with "
                                    "lull gpus");
}

static void driver_judge_age(const struct lull_doctor_driver *driver,
                             struct lull_doctor_findings *findings)
{
    const char *const version =
        driver->module_version[0] != '\0' ? driver->module_version : driver->version;
    unsigned int branch;
    unsigned int minor;
    struct lull_doctor_finding *finding;

    if (strcmp(driver->vendor, "nvidia") != 0 ||
        sscanf(version, "%u.%u", &branch, &minor) != 2) /* NOLINT(cert-err34-c): digits */
        return;
    if (branch < FULL_BRANCH)
        finding = lull_doctor_add(findings, "driver_age", LULL_DOCTOR_WARNING,
                                  "driver %s is older than branch %d: its power may be a mean over "
                                  "1 s, and it does not report whether the memory clock can be "
                                  "locked",
                                  version, FULL_BRANCH);
    else if (branch == LIST_BRANCH && minor >= FIRST_BAD_LIST && minor <= LAST_BAD_LIST)
        finding = lull_doctor_add(findings, "driver_age", LULL_DOCTOR_WARNING,
                                  "driver %s lists the processes of a GPU in a layout of its own, "
                                  "so Lull may not find the GPU of a job",
                                  version);
    else
        return;
    lull_doctor_advise(finding, "install driver %d.104 or newer", FULL_BRANCH);
}

static void driver_judge_module(const struct lull_doctor_driver *driver,
                                struct lull_doctor_findings *findings)
{
    if (driver->module_version[0] == '\0' || driver->version[0] == '\0' ||
        strcmp(driver->module_version, driver->version) == 0)
        return;
    lull_doctor_fix(lull_doctor_add(findings, "driver_module", LULL_DOCTOR_PROBLEM,
                                    "the kernel module is of driver %s and the library of driver "
                                    "%s",
                                    driver->module_version, driver->version),
                    "sudo reboot");
}

void lull_doctor_judge_driver(const struct lull_doctor_facts *facts,
                              struct lull_doctor_findings *findings)
{
    const struct lull_doctor_driver *const driver = &facts->driver;

    if (driver->err.code != 0)
        driver_judge_unopened(facts, findings);
    else
        lull_doctor_add(findings, "driver", LULL_DOCTOR_OK, "%s driver %s, GPUs: %" PRIu32,
                        driver->vendor, driver->version[0] != '\0' ? driver->version : "(unknown)",
                        driver->gpu_count);
    if (driver->err.code == 0)
        driver_judge_module(driver, findings);
    driver_judge_age(driver, findings);
    if (facts->node.is_profiling_restricted && !facts->node.has_admin)
        lull_doctor_fix(
            lull_doctor_add(findings, "profiling", LULL_DOCTOR_WARNING,
                            "the driver permits profiling only to administrators "
                            "(RmProfilingAdminOnly: 1), so tools that read performance counters "
                            "fail for jobs of users"),
            "echo options nvidia NVreg_RestrictProfilingToAdminUsers=0 | sudo tee "
            "/etc/modprobe.d/lull-profiling.conf && sudo reboot");
}

/* ---- GPUs -------------------------------------------------------------------------------- */

/* Judges settings that another program made on a GPU. */
static void gpu_judge_settings(const struct lull_doctor_facts *facts, uint32_t index,
                               struct lull_doctor_findings *findings)
{
    const struct lull_doctor_gpu *const gpu = &facts->gpus[index];
    const char *const vendor = facts->driver.vendor;
    const bool is_nvidia = strcmp(vendor, "nvidia") == 0;
    struct lull_doctor_finding *finding;
    char reason[192];

    if (gpu->lock == LULL_LOCK_FOREIGN || gpu->lease.is_foreign) {
        lull_reason_locked(vendor, gpu->sm_mhz, reason, sizeof(reason));
        finding = lull_doctor_add(findings, "clock_lock", LULL_DOCTOR_PROBLEM, "%s", reason);
        if (is_nvidia)
            lull_doctor_fix(finding, "sudo nvidia-smi -i %" PRIu32 " -rgc", index);
        else
            lull_doctor_fix(finding, "sudo %s", lull_reason_unlock_command(vendor));
        lull_doctor_of_gpu(findings, index);
    }
    if (gpu->limit_mw != 0 && gpu->limit_mw < gpu->default_limit_mw && !gpu->lease.is_leased) {
        finding = lull_doctor_add(findings, "power_limit", LULL_DOCTOR_WARNING,
                                  "its power limit is %" PRIu32 " W, below the default of %" PRIu32
                                  " W, and may hold its clock down",
                                  gpu->limit_mw / 1000, gpu->default_limit_mw / 1000);
        if (is_nvidia)
            lull_doctor_fix(finding, "sudo nvidia-smi -i %" PRIu32 " -pl %" PRIu32, index,
                            gpu->default_limit_mw / 1000);
        else
            lull_doctor_advise(finding,
                               "if it is not intended, set %" PRIu32 " W with the tool of "
                               "the vendor",
                               gpu->default_limit_mw / 1000);
        lull_doctor_of_gpu(findings, index);
    }
    if (gpu->is_smoothing) {
        finding = lull_doctor_add(findings, "power_smoothing", LULL_DOCTOR_WARNING,
                                  "power smoothing is on: the driver burns power to hold %" PRIu32
                                  " W between phases of work, which takes savings away",
                                  gpu->smoothing_floor_w);
        lull_doctor_advise(finding, "if the site does not need it, switch it off with nvidia-smi "
                                    "power-smoothing");
        lull_doctor_of_gpu(findings, index);
    }
}

/* Judges what a GPU supports. Returns true if its clocks cannot be set. */
static bool gpu_judge_abilities(const struct lull_doctor_facts *facts, uint32_t index,
                                struct lull_doctor_findings *findings)
{
    const struct lull_doctor_gpu *const gpu = &facts->gpus[index];
    struct lull_doctor_finding *finding = NULL;

    if (gpu->unopened[0] != '\0') {
        finding = lull_doctor_add(findings, "gpu", LULL_DOCTOR_PROBLEM, "%s", gpu->unopened);
        lull_doctor_fix(finding, "sudo nvidia-smi -i %" PRIu32 " --gpu-reset", index);
    } else if (gpu->is_virtual) {
        finding = lull_doctor_add(findings, "vgpu", LULL_DOCTOR_PROBLEM,
                                  "it is a vGPU, whose clocks only the host can set");
        lull_doctor_advise(finding, "run lulld and lull run on the host, or pass the whole GPU "
                                    "through to this machine");
    } else if (gpu->mig.code != 0) {
        finding = lull_doctor_add(findings, "mig", LULL_DOCTOR_PROBLEM, "%s", gpu->mig.text);
        lull_doctor_fix(finding, "sudo nvidia-smi -i %" PRIu32 " -mig 0", index);
    } else if (gpu->clocks.code != 0) {
        finding = lull_doctor_add(findings, "clocks", LULL_DOCTOR_PROBLEM, "%s", gpu->clocks.text);
        if (facts->node.is_wsl)
            lull_doctor_advise(finding, "boot Linux on this machine: WSL cannot set clocks");
        else
            lull_doctor_advise(finding, "use lull run to measure only, or a newer driver; locked "
                                        "clocks need Volta or newer");
    }
    if (finding == NULL)
        return false;
    lull_doctor_of_gpu(findings, index);
    return true;
}

static void gpu_judge_losses(const struct lull_doctor_gpu *gpu, uint32_t index,
                             struct lull_doctor_findings *findings)
{
    if (gpu->limits.code != 0) {
        lull_doctor_advise(
            lull_doctor_add(findings, "power_limits", LULL_DOCTOR_WARNING, "%s", gpu->limits.text),
            "use clocks only: lull run without --power-limit");
        lull_doctor_of_gpu(findings, index);
    }
    if (!gpu->has_energy_counter) {
        lull_doctor_advise(lull_doctor_add(findings, "energy_counter", LULL_DOCTOR_WARNING,
                                           "it has no energy counter, so its energy is estimated "
                                           "from readings of power"),
                           "use a newer driver; the counter needs Volta or newer");
        lull_doctor_of_gpu(findings, index);
    }
}

/* Judges whether this user may change power profiles without lulld. */
static void gpu_judge_profiles(const struct lull_doctor_facts *facts, uint32_t index,
                               struct lull_doctor_findings *findings)
{
    const struct lull_doctor_gpu *const gpu = &facts->gpus[index];

    if (!gpu->has_profiles || facts->node.is_root || facts->daemon.err.code == 0)
        return;
    if (gpu->profiles_code == 0)
        lull_doctor_add(findings, "power_profiles", LULL_DOCTOR_OK,
                        "you may set its power profiles without root: lull run --no-daemon "
                        "--runtime-dir DIR");
    else if (gpu->profiles_code == -EPERM)
        lull_doctor_add(findings, "power_profiles", LULL_DOCTOR_OK,
                        "its power profiles need lulld, root, or the driver's WPPS capability "
                        "(driver 615 or newer)");
    else
        return;
    lull_doctor_of_gpu(findings, index);
}

static void gpu_add_range(const struct lull_doctor_gpu *gpu, uint32_t index,
                          struct lull_doctor_findings *findings)
{
    lull_doctor_add(findings, "clock_range", LULL_DOCTOR_OK,
                    "SM clocks %" PRIu32 " to %" PRIu32 " MHz", gpu->lowest_mhz, gpu->highest_mhz);
    lull_doctor_of_gpu(findings, index);
}

void lull_doctor_judge_gpus(const struct lull_doctor_facts *facts,
                            struct lull_doctor_findings *findings)
{
    for (uint32_t i = 0; i < facts->driver.gpu_count; i++) {
        const struct lull_doctor_gpu *const gpu = &facts->gpus[i];

        if (gpu_judge_abilities(facts, i, findings))
            continue;
        gpu_add_range(gpu, i, findings);
        gpu_judge_losses(gpu, i, findings);
        gpu_judge_profiles(facts, i, findings);
        gpu_judge_settings(facts, i, findings);
    }
}
