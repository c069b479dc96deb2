/* lulld: whether it answers, and what it grants this user. SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "cli/doctor/judge_parts.h"
#include "device/unmanaged_reason.h"

/* Appends a rule for this user to a policy. */
#define GIVE_GPUS "printf '[user %%s]\\ngpus = all\\n' \"$(id -u)\" | sudo tee -a %s"

/* No lulld answers: what to do depends on where this process runs. */
static void daemon_advise(const struct lull_doctor_facts *facts,
                          struct lull_doctor_finding *finding)
{
    const struct lull_doctor_daemon *const daemon = &facts->daemon;

    if (facts->node.pod.uid[0] != '\0')
        lull_doctor_advise(
            finding, "install the DaemonSet (kubectl apply -f packaging/kubernetes/lull.yaml) "
                     "and mount the host's /run/lull into this pod; see lulld(8)");
    else if (facts->node.is_container)
        lull_doctor_advise(finding, "mount the host's socket: docker run -v /run/lull:/run/lull");
    else if (daemon->err.code == -EACCES && daemon->socket_group[0] != '\0' &&
             strcmp(daemon->socket_group, "root") != 0)
        lull_doctor_fix(finding, "sudo usermod -aG %s \"$USER\" && newgrp %s", daemon->socket_group,
                        daemon->socket_group);
    else if (daemon->err.code == -EACCES)
        lull_doctor_fix(finding, GIVE_GPUS " && sudo systemctl restart lulld", daemon->policy);
    else if (daemon->err.code == -EPROTONOSUPPORT)
        lull_doctor_fix(finding, "sudo systemctl restart lulld");
    else if (daemon->has_unit)
        lull_doctor_fix(finding, "sudo systemctl enable --now lulld");
    else
        lull_doctor_fix(finding, "sudo \"$(command -v lull)\" install-daemon --yes");
}

static void daemon_judge_absent(const struct lull_doctor_facts *facts,
                                struct lull_doctor_findings *findings)
{
    const struct lull_doctor_node *const node = &facts->node;
    const bool can_do_without = node->is_root && node->has_admin;
    const enum lull_doctor_level level = can_do_without ? LULL_DOCTOR_WARNING : LULL_DOCTOR_PROBLEM;

    daemon_advise(facts, lull_doctor_add(findings, "lulld", level, "%s", facts->daemon.err.text));
    if (node->is_root && !node->has_admin)
        lull_doctor_advise(lull_doctor_add(findings, "permission", LULL_DOCTOR_PROBLEM,
                                           "this process is root without CAP_SYS_ADMIN: %s",
                                           lull_reason_denied(-EPERM)),
                           "run lulld on the host, or add the capability (docker run --cap-add "
                           "SYS_ADMIN)");
}

/* Returns whether lulld has refused to set a clock, so that it would refuse again. */
static bool daemon_has_refused(const struct lull_doctor_lease *lease)
{
    return lease->last_write == -EPERM || lease->last_write == LULL_E_UNSUPPORTED;
}

static void daemon_judge_lease(const struct lull_doctor_gpu *gpu, uint32_t index,
                               const char *policy, struct lull_doctor_findings *findings)
{
    const struct lull_doctor_lease *const lease = &gpu->lease;
    struct lull_doctor_finding *finding;

    if (daemon_has_refused(lease)) {
        finding = lull_doctor_add(findings, "last_write", LULL_DOCTOR_PROBLEM, "%s",
                                  lull_reason_denied(lease->last_write));
        lull_doctor_advise(finding, "run lulld as root on the host, with CAP_SYS_ADMIN");
    } else if (lease->is_leased) {
        lull_doctor_add(findings, "policy", LULL_DOCTOR_OK, "leased by another client now");
    } else if (lease->err.code == -EACCES || lease->err.code == -ENOKEY ||
               lease->err.code == -EPERM) {
        finding = lull_doctor_add(findings, "policy", LULL_DOCTOR_PROBLEM, "%s", lease->err.text);
        lull_doctor_fix(finding, GIVE_GPUS " && sudo lull reload", policy);
    } else if (lease->err.code != 0) {
        finding = lull_doctor_add(findings, "lease", LULL_DOCTOR_PROBLEM, "%s", lease->err.text);
        if (lease->is_quiesced)
            lull_doctor_fix(finding, "sudo lull resume %" PRIu32, index);
        else
            lull_doctor_fix(finding, "sudo systemctl restart lulld");
    } else if (lease->granted_min_mhz > gpu->lowest_mhz ||
               lease->granted_max_mhz < gpu->highest_mhz) {
        finding = lull_doctor_add(findings, "policy", LULL_DOCTOR_WARNING,
                                  "the policy of lulld permits you %" PRIu32 " to %" PRIu32
                                  " MHz, of %" PRIu32 " to %" PRIu32,
                                  lease->granted_min_mhz, lease->granted_max_mhz, gpu->lowest_mhz,
                                  gpu->highest_mhz);
        lull_doctor_advise(finding,
                           "remove min-sm-mhz and max-sm-mhz from %s if the site does not intend "
                           "them, then sudo lull reload",
                           policy);
    } else {
        lull_doctor_add(findings, "policy", LULL_DOCTOR_OK, "lulld grants you all of its clocks");
    }
    lull_doctor_of_gpu(findings, index);
}

/* Returns whether a lease of the GPU would help: else its own findings say why not. */
static bool daemon_is_needed(const struct lull_doctor_gpu *gpu)
{
    return gpu->unopened[0] == '\0' && !gpu->is_virtual && gpu->mig.code == 0 &&
           gpu->clocks.code == 0 && gpu->lock != LULL_LOCK_FOREIGN && !gpu->lease.is_foreign;
}

void lull_doctor_judge_daemon(const struct lull_doctor_facts *facts,
                              struct lull_doctor_findings *findings)
{
    if (facts->daemon.err.code != 0) {
        daemon_judge_absent(facts, findings);
        return;
    }
    lull_doctor_add(findings, "lulld", LULL_DOCTOR_OK, "lulld answers in %s",
                    facts->daemon.runtime_dir);
    for (uint32_t i = 0; i < facts->driver.gpu_count; i++)
        if (facts->gpus[i].lease.is_asked && daemon_is_needed(&facts->gpus[i]))
            daemon_judge_lease(&facts->gpus[i], i, facts->daemon.policy, findings);
}
