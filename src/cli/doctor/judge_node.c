/* Probes, other managers, namespaces, batch systems, kernel and RAPL.
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "cli/doctor/judge_parts.h"
#include "device/unmanaged_reason.h"

enum {
    FIRST_PLUGIN_NCCL = 22300,  /* the first that loads profiler plugins (ABI v1) */
    LATEST_TESTED_NCCL = 23199, /* the last whose ABI (v7) Lull's plugin has */
    FIRST_PIDFD_KERNEL_MAJOR = 5,
    FIRST_PIDFD_KERNEL_MINOR = 3, /* pidfd_open */
};

/* ---- probes ------------------------------------------------------------------------------ */

/* The newest version of the profiler's interface that an NCCL loads; 0: none. */
static uint32_t nccl_find_interface(int32_t version)
{
    static const int32_t first[] = {22300, 22400, 22600, 22700, 22800, 22900, 23100};
    uint32_t count = 0;

    while (count < sizeof(first) / sizeof(first[0]) && version >= first[count])
        count++;
    return count;
}

static void nccl_judge(int32_t version, struct lull_doctor_findings *findings)
{
    const int32_t major = version / 10000;
    const int32_t minor = version / 100 % 100;
    const int32_t patch = version % 100;

    if (version == 0)
        lull_doctor_add(findings, "nccl", LULL_DOCTOR_OK,
                        "no NCCL on the library path; one of a Python package is not seen here");
    else if (version < FIRST_PLUGIN_NCCL)
        lull_doctor_advise(lull_doctor_add(findings, "nccl", LULL_DOCTOR_WARNING,
                                           "NCCL %d.%d.%d has no interface for profiler plugins "
                                           "(2.23 has), so its communication is not observed",
                                           major, minor, patch),
                           "start jobs with lull run --markers, or use NCCL 2.23 or newer");
    else if (version > LATEST_TESTED_NCCL)
        lull_doctor_advise(lull_doctor_add(findings, "nccl", LULL_DOCTOR_WARNING,
                                           "NCCL %d.%d.%d is newer than Lull's profiler plugin, "
                                           "which has the interfaces v1 to v7 (2.23 to 2.31)",
                                           major, minor, patch),
                           "check that the report of lull run lists communication; else use "
                           "--markers or a newer Lull");
    else
        lull_doctor_add(findings, "nccl", LULL_DOCTOR_OK,
                        "NCCL %d.%d.%d, profiler interface v%" PRIu32, major, minor, patch,
                        nccl_find_interface(version));
}

void lull_doctor_judge_probes(const struct lull_doctor_facts *facts,
                              struct lull_doctor_findings *findings)
{
    const struct lull_doctor_probes *const probes = &facts->probes;

    nccl_judge(probes->nccl_version, findings);
    if (probes->plugin[0] != '\0')
        lull_doctor_add(findings, "nccl_plugin", LULL_DOCTOR_OK,
                        "NCCL_PROFILER_PLUGIN=%s: Lull's plugin loads it in turn", probes->plugin);
    for (uint32_t i = 0; i < probes->refusal_count; i++) {
        const struct lull_error *const refusal = &probes->refusals[i];
        struct lull_doctor_finding *const finding =
            lull_doctor_add(findings, "probe", LULL_DOCTOR_WARNING, "%s", refusal->text);

        if (refusal->code == LULL_E_UNSUPPORTED)
            lull_doctor_fix(finding, "unset %.*s", (int)strcspn(refusal->text, "="), refusal->text);
        else
            lull_doctor_advise(finding, "install Lull again, with its libraries");
    }
}

/* ---- the node ---------------------------------------------------------------------------- */

static void node_judge_managers(const struct lull_doctor_node *node,
                                struct lull_doctor_findings *findings)
{
    for (uint32_t i = 0; i < node->manager_count; i++) {
        const struct lull_doctor_manager *const manager = &node->managers[i];

        lull_doctor_fix(lull_doctor_add(findings, "other_manager", LULL_DOCTOR_WARNING,
                                        "%s (process %" PRId32 ") may set clocks or power limits; "
                                        "if it does, GPUs are not managed meanwhile",
                                        manager->name, manager->pid),
                        "sudo systemctl stop %s", manager->unit);
    }
}

static void node_judge_namespaces(const struct lull_doctor_node *node,
                                  struct lull_doctor_findings *findings)
{
    if (!node->is_pid_space_ok)
        lull_doctor_advise(
            lull_doctor_add(findings, "pid_namespace", LULL_DOCTOR_WARNING, "%s",
                            LULL_REASON_PID_SPACE),
            "docker run --pid=host; in Kubernetes hostPID: true, or one GPU per pod");
    if (node->is_container && node->pod.uid[0] != '\0')
        lull_doctor_add(findings, "container", LULL_DOCTOR_OK, "pod %s", node->pod.uid);
    else if (node->is_container)
        lull_doctor_add(findings, "container", LULL_DOCTOR_OK, "in a container");
    if (node->is_wsl)
        lull_doctor_advise(lull_doctor_add(findings, "wsl", LULL_DOCTOR_PROBLEM,
                                           "this is WSL, where the driver of Windows owns the "
                                           "clocks, so Lull measures only"),
                           "boot Linux on this machine");
}

static void node_judge_kernel(const struct lull_doctor_node *node,
                              struct lull_doctor_findings *findings)
{
    const bool is_old = node->kernel[0] != 0 && (node->kernel[0] < FIRST_PIDFD_KERNEL_MAJOR ||
                                                 (node->kernel[0] == FIRST_PIDFD_KERNEL_MAJOR &&
                                                  node->kernel[1] < FIRST_PIDFD_KERNEL_MINOR));

    if (is_old)
        lull_doctor_advise(lull_doctor_add(findings, "kernel", LULL_DOCTOR_PROBLEM,
                                           "Linux %d.%d has no pidfd_open, which Lull needs to "
                                           "notice the end of a job",
                                           node->kernel[0], node->kernel[1]),
                           "boot Linux %d.%d or newer", FIRST_PIDFD_KERNEL_MAJOR,
                           FIRST_PIDFD_KERNEL_MINOR);
    else if (node->pidfd.code != 0)
        lull_doctor_advise(lull_doctor_add(findings, "kernel", LULL_DOCTOR_PROBLEM,
                                           "pidfd_open is refused, by seccomp for example: %s",
                                           node->pidfd.text),
                           "use a newer container runtime, or docker run --security-opt "
                           "seccomp=unconfined");
    else if (node->kernel[0] != 0)
        lull_doctor_add(findings, "kernel", LULL_DOCTOR_OK, "Linux %d.%d", node->kernel[0],
                        node->kernel[1]);
}

static void node_judge_slurm(const struct lull_doctor_node *node,
                             struct lull_doctor_findings *findings)
{
    if (node->slurm_conf[0] == '\0')
        return;
    if (node->has_slurm_plugin)
        lull_doctor_add(findings, "slurm", LULL_DOCTOR_OK, "plugstack.conf names spank_lull");
    else
        lull_doctor_fix(lull_doctor_add(findings, "slurm", LULL_DOCTOR_WARNING,
                                        "Slurm is configured without Lull's plugin, so jobs cannot "
                                        "request it with --lull"),
                        "echo optional spank_lull.so | sudo tee -a %s/plugstack.conf",
                        node->slurm_conf);
}

static void node_judge_rapl(const struct lull_doctor_node *node,
                            struct lull_doctor_findings *findings)
{
    const struct lull_error *const rapl = &node->rapl;

    if (rapl->code == 0)
        lull_doctor_add(findings, "rapl", LULL_DOCTOR_OK,
                        "energy of CPU and DRAM is readable (RAPL)");
    else if (rapl->code == -EACCES || rapl->code == -EPERM)
        lull_doctor_fix(lull_doctor_add(findings, "rapl", LULL_DOCTOR_WARNING, "%s", rapl->text),
                        "find -L %s -maxdepth 3 -name energy_uj -exec sudo chmod a+r {} +",
                        node->powercap);
    else
        lull_doctor_add(findings, "rapl", LULL_DOCTOR_OK, "excludes CPU and DRAM energy: %s",
                        rapl->text);
}

void lull_doctor_judge_node(const struct lull_doctor_facts *facts,
                            struct lull_doctor_findings *findings)
{
    const struct lull_doctor_node *const node = &facts->node;

    node_judge_managers(node, findings);
    if (node->is_hardware && !node->has_persistence && !node->is_container &&
        facts->driver.err.code == 0 && facts->daemon.err.code != 0 &&
        strcmp(facts->driver.vendor, "nvidia") == 0)
        lull_doctor_fix(lull_doctor_add(findings, "persistence", LULL_DOCTOR_WARNING,
                                        "neither nvidia-persistenced nor lulld holds the driver "
                                        "open, so it starts again for each job and loses "
                                        "settings in between"),
                        "sudo systemctl enable --now nvidia-persistenced");
    node_judge_namespaces(node, findings);
    node_judge_slurm(node, findings);
    node_judge_kernel(node, findings);
    node_judge_rapl(node, findings);
}
