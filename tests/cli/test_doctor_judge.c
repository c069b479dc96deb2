/* The findings of lull doctor from facts: each one appears with its fact, alone, and every problem
 * and warning has a line that fixes it. SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/process.h"
#include "cli/doctor/judge.h"

#define SET_TEXT(array, text) snprintf(array, sizeof(array), "%s", text)

static struct lull_doctor_facts facts;
static struct lull_doctor_findings findings;

/* A machine with two GPUs on which all is well. */
static void set_well(void)
{
    memset(&facts, 0, sizeof(facts));
    SET_TEXT(facts.driver.vendor, "nvidia");
    SET_TEXT(facts.driver.version, "560.35.05");
    SET_TEXT(facts.driver.module_version, "560.35.05");
    facts.driver.gpu_count = 2;
    SET_TEXT(facts.daemon.runtime_dir, "/run/lull");
    SET_TEXT(facts.daemon.policy, "/etc/lull/policy.conf");
    facts.node = (struct lull_doctor_node){.is_hardware = true,
                                           .has_module = true,
                                           .has_device = true,
                                           .may_open_device = true,
                                           .has_persistence = true,
                                           .is_pid_space_ok = true,
                                           .kernel = {6, 1}};
    facts.probes.nccl_version = 22809;
    for (uint32_t gpu = 0; gpu < 2; gpu++)
        facts.gpus[gpu] = (struct lull_doctor_gpu){
            .has_energy_counter = true,
            .lowest_mhz = 210,
            .highest_mhz = 1410,
            .limit_mw = 400000,
            .default_limit_mw = 400000,
            .lease = {.is_asked = true, .granted_min_mhz = 210, .granted_max_mhz = 1410}};
}

static void set_error(struct lull_error *err, int code, const char *text)
{
    lull_error_set(err, code, "%s", text);
}

/* ---- what breaks ------------------------------------------------------------------------- */

static void break_driver(void)
{
    set_error(&facts.driver.err, LULL_E_NO_DRIVER, "not loaded");
    facts.driver.gpu_count = 0;
}

static void break_driver_module(void)
{
    break_driver();
    facts.node.has_module = false;
    facts.node.has_device = true;
}

static void break_driver_path(void)
{
    break_driver();
    SET_TEXT(facts.driver.override, "LULL_NVML=/nowhere");
}

static void break_container_devices(void)
{
    set_error(&facts.driver.err, -ENOENT, "no library");
    facts.driver.gpu_count = 0;
    facts.node.is_container = true;
    facts.node.has_device = false;
}

static void break_device_file(void)
{
    break_driver();
    facts.node.has_device = false;
}

static void break_device_mode(void)
{
    break_driver();
    facts.node.may_open_device = false;
}

static void break_no_driver_at_all(void)
{
    set_error(&facts.driver.err, -ENOENT, "no library");
    facts.driver.gpu_count = 0;
    facts.node.has_module = false;
    facts.node.has_device = false;
    facts.driver.module_version[0] = '\0';
}

static void break_module(void)
{
    SET_TEXT(facts.driver.module_version, "570.10");
}

static void break_age(void)
{
    SET_TEXT(facts.driver.version, "534.99.1");
    facts.driver.module_version[0] = '\0';
}

static void break_list_first(void)
{
    SET_TEXT(facts.driver.version, "535.43.02");
    SET_TEXT(facts.driver.module_version, "535.43.02");
}

static void break_list(void)
{
    SET_TEXT(facts.driver.version, "535.85.05");
    SET_TEXT(facts.driver.module_version, "535.85.05");
}

static void break_profiling(void)
{
    facts.node.is_profiling_restricted = true;
}

static void break_gpu(void)
{
    SET_TEXT(facts.gpus[1].unopened, "not opened: lost");
}

static void break_vgpu(void)
{
    facts.gpus[1].is_virtual = true;
}

static void break_mig(void)
{
    lull_device_refuse_partitioned(&facts.gpus[1].mig);
}

static void break_clocks(void)
{
    set_error(&facts.gpus[1].clocks, LULL_E_UNSUPPORTED, "its SM clock cannot be locked");
}

static void break_limits(void)
{
    set_error(&facts.gpus[1].limits, LULL_E_UNSUPPORTED, "its power limit cannot be set");
}

static void break_counter(void)
{
    facts.gpus[1].has_energy_counter = false;
}

static void break_smoothing(void)
{
    facts.gpus[1].is_smoothing = true;
    facts.gpus[1].smoothing_floor_w = 400;
}

static void break_lock(void)
{
    facts.gpus[1].lock = LULL_LOCK_FOREIGN;
    facts.gpus[1].sm_mhz = 600;
}

static void break_lock_amd(void)
{
    SET_TEXT(facts.driver.vendor, "amd");
    break_lock();
}

static void break_lock_of_lulld(void)
{
    facts.gpus[1].lease.is_foreign = true;
    set_error(&facts.gpus[1].lease.err, -EBUSY, "FOREIGN");
}

static void break_limit(void)
{
    facts.gpus[1].limit_mw = 399999;
}

static void break_daemon(void)
{
    set_error(&facts.daemon.err, -ENOENT, "cannot reach lulld");
}

static void break_daemon_unit(void)
{
    break_daemon();
    facts.daemon.has_unit = true;
}

static void break_daemon_version(void)
{
    set_error(&facts.daemon.err, -EPROTONOSUPPORT, "another version");
}

static void break_daemon_group(void)
{
    set_error(&facts.daemon.err, -EACCES, "permission denied");
    SET_TEXT(facts.daemon.socket_group, "gpu");
}

static void break_daemon_policy(void)
{
    set_error(&facts.daemon.err, -EACCES, "permission denied");
    SET_TEXT(facts.daemon.socket_group, "root");
}

static void break_daemon_pod(void)
{
    break_daemon_unit();
    facts.node.is_container = true;
    SET_TEXT(facts.node.pod.uid, "3f1c9a52-07be-4d1e-9c41-8a5b60d2e7f4");
}

static void break_daemon_container(void)
{
    break_daemon_unit();
    facts.node.is_container = true;
}

static void break_daemon_root(void)
{
    break_daemon_unit();
    facts.node.is_root = true;
    facts.node.has_admin = true;
}

static void break_daemon_capability(void)
{
    break_daemon_unit();
    facts.node.has_admin = true; /* of an ordinary user, whom the driver refuses all the same */
}

static void break_policy(void)
{
    set_error(&facts.gpus[1].lease.err, -EACCES, "the policy of lulld does not permit it");
}

static void break_band(void)
{
    facts.gpus[1].lease.granted_max_mhz = 1395;
}

static void break_band_below(void)
{
    facts.gpus[1].lease.granted_min_mhz = 225;
}

static void break_lease(void)
{
    set_error(&facts.gpus[1].lease.err, -EBUSY, "being restored");
}

static void break_quiesced(void)
{
    break_lease();
    facts.gpus[1].lease.is_quiesced = true;
}

static void break_write(void)
{
    facts.gpus[1].lease.last_write = -EPERM;
}

static void break_old_nccl(void)
{
    facts.probes.nccl_version = 22299;
}

static void break_new_nccl(void)
{
    facts.probes.nccl_version = 23200;
}

static void break_probe(void)
{
    facts.probes.refusal_count = 1;
    set_error(&facts.probes.refusals[0], LULL_E_UNSUPPORTED, "NCCL_PROFILER_PLUGIN=none: off");
}

static void break_probe_file(void)
{
    facts.probes.refusal_count = 1;
    set_error(&facts.probes.refusals[0], -ENOENT, "liblull-nvtx.so: not found");
}

static void break_manager(void)
{
    facts.node.manager_count = 1;
    facts.node.managers[0] = (struct lull_doctor_manager){"nv-hostengine", 7, "nvidia-dcgm"};
}

static void break_space(void)
{
    facts.node.is_pid_space_ok = false;
}

static void break_wsl(void)
{
    facts.node.is_wsl = true;
}

static void break_kernel(void)
{
    facts.node.kernel[0] = 5;
    facts.node.kernel[1] = 2;
}

static void break_seccomp(void)
{
    set_error(&facts.node.pidfd, -EPERM, "Operation not permitted");
}

static void break_slurm(void)
{
    SET_TEXT(facts.node.slurm_conf, "/etc/slurm");
}

static void break_rapl(void)
{
    set_error(&facts.node.rapl, -EACCES, "energy_uj: Permission denied");
    SET_TEXT(facts.node.powercap, "/sys/class/powercap");
}

static const struct broken {
    void (*make)(void);
    const char *check;
    enum lull_doctor_level level;
    const char *fix; /* its line begins so */
} broken[] = {
    {break_driver, "driver", LULL_DOCTOR_PROBLEM, "sudo reboot"},
    {break_driver_module, "driver", LULL_DOCTOR_PROBLEM, "sudo modprobe nvidia"},
    {break_driver_path, "driver", LULL_DOCTOR_PROBLEM, "unset LULL_NVML"},
    {break_container_devices, "driver", LULL_DOCTOR_PROBLEM, "start the container with its GPUs"},
    {break_device_file, "driver", LULL_DOCTOR_PROBLEM, "sudo nvidia-modprobe"},
    {break_device_mode, "driver", LULL_DOCTOR_PROBLEM, "sudo chmod a+rw /dev/nvidiactl"},
    {break_no_driver_at_all, "driver", LULL_DOCTOR_PROBLEM, "install the driver"},
    {break_module, "driver_module", LULL_DOCTOR_PROBLEM, "sudo reboot"},
    {break_age, "driver_age", LULL_DOCTOR_WARNING, "install driver 535"},
    {break_list, "driver_age", LULL_DOCTOR_WARNING, "install driver 535"},
    {break_list_first, "driver_age", LULL_DOCTOR_WARNING, "install driver 535"},
    {break_profiling, "profiling", LULL_DOCTOR_WARNING, "echo options nvidia"},
    {break_gpu, "gpu", LULL_DOCTOR_PROBLEM, "sudo nvidia-smi -i 1 --gpu-reset"},
    {break_vgpu, "vgpu", LULL_DOCTOR_PROBLEM, "run lulld and lull run on the host"},
    {break_mig, "mig", LULL_DOCTOR_PROBLEM, "sudo nvidia-smi -i 1 -mig 0"},
    {break_clocks, "clocks", LULL_DOCTOR_PROBLEM, "use lull run to measure only"},
    {break_limits, "power_limits", LULL_DOCTOR_WARNING, "use clocks only"},
    {break_counter, "energy_counter", LULL_DOCTOR_WARNING, "use a newer driver"},
    {break_smoothing, "power_smoothing", LULL_DOCTOR_WARNING, "if the site does not need it"},
    {break_lock, "clock_lock", LULL_DOCTOR_PROBLEM, "sudo nvidia-smi -i 1 -rgc"},
    {break_lock_amd, "clock_lock", LULL_DOCTOR_PROBLEM, "sudo amd-smi reset --clocks"},
    {break_lock_of_lulld, "clock_lock", LULL_DOCTOR_PROBLEM, "sudo nvidia-smi -i 1 -rgc"},
    {break_limit, "power_limit", LULL_DOCTOR_WARNING, "sudo nvidia-smi -i 1 -pl 400"},
    {break_daemon, "lulld", LULL_DOCTOR_PROBLEM, "sudo \"$(command -v lull)\" install-daemon"},
    {break_daemon_unit, "lulld", LULL_DOCTOR_PROBLEM, "sudo systemctl enable --now lulld"},
    {break_daemon_version, "lulld", LULL_DOCTOR_PROBLEM, "sudo systemctl restart lulld"},
    {break_daemon_group, "lulld", LULL_DOCTOR_PROBLEM, "sudo usermod -aG gpu"},
    {break_daemon_policy, "lulld", LULL_DOCTOR_PROBLEM, "printf '[user %s]"},
    {break_daemon_pod, "lulld", LULL_DOCTOR_PROBLEM, "install the DaemonSet"},
    {break_daemon_container, "lulld", LULL_DOCTOR_PROBLEM, "mount the host's socket"},
    {break_daemon_root, "lulld", LULL_DOCTOR_WARNING, "sudo systemctl enable --now lulld"},
    {break_daemon_capability, "lulld", LULL_DOCTOR_PROBLEM, "sudo systemctl enable --now lulld"},
    {break_policy, "policy", LULL_DOCTOR_PROBLEM, "printf '[user %s]"},
    {break_band, "policy", LULL_DOCTOR_WARNING, "remove min-sm-mhz"},
    {break_band_below, "policy", LULL_DOCTOR_WARNING, "remove min-sm-mhz"},
    {break_lease, "lease", LULL_DOCTOR_PROBLEM, "sudo systemctl restart lulld"},
    {break_quiesced, "lease", LULL_DOCTOR_PROBLEM, "sudo lull resume 1"},
    {break_write, "last_write", LULL_DOCTOR_PROBLEM, "run lulld as root on the host"},
    {break_old_nccl, "nccl", LULL_DOCTOR_WARNING, "start jobs with lull run --markers"},
    {break_new_nccl, "nccl", LULL_DOCTOR_WARNING, "check that the report"},
    {break_probe, "probe", LULL_DOCTOR_WARNING, "unset NCCL_PROFILER_PLUGIN"},
    {break_probe_file, "probe", LULL_DOCTOR_WARNING, "install Lull again"},
    {break_manager, "other_manager", LULL_DOCTOR_WARNING, "sudo systemctl stop nvidia-dcgm"},
    {break_space, "pid_namespace", LULL_DOCTOR_WARNING, "docker run --pid=host"},
    {break_wsl, "wsl", LULL_DOCTOR_PROBLEM, "boot Linux"},
    {break_kernel, "kernel", LULL_DOCTOR_PROBLEM, "boot Linux 5.3"},
    {break_seccomp, "kernel", LULL_DOCTOR_PROBLEM, "use a newer container runtime"},
    {break_slurm, "slurm", LULL_DOCTOR_WARNING, "echo optional spank_lull.so"},
    {break_rapl, "rapl", LULL_DOCTOR_WARNING, "find -L /sys/class/powercap"},
};

/* ---- tests ------------------------------------------------------------------------------- */

static void test_a_well_machine(void **state)
{
    (void)state;
    set_well();
    lull_doctor_judge(&facts, &findings);
    assert_int_equal(lull_doctor_count(&findings, LULL_DOCTOR_OK), findings.count);
    assert_true(findings.count > 3);
}

static void test_each_fact_makes_its_finding_alone(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
        const struct lull_doctor_finding *found;

        set_well();
        broken[i].make();
        lull_doctor_judge(&facts, &findings);
        assert_int_equal(findings.count - lull_doctor_count(&findings, LULL_DOCTOR_OK), 1);
        found = findings.items;
        while (found->level == LULL_DOCTOR_OK)
            found++;
        assert_string_equal(found->check, broken[i].check);
        assert_int_equal(found->level, broken[i].level);
        if (strncmp(found->fix, broken[i].fix, strlen(broken[i].fix)) != 0)
            fail_msg("%s: \"%s\" does not begin with \"%s\"", found->check, found->fix,
                     broken[i].fix);
    }
}

static void test_limits_of_numbers(void **state)
{
    (void)state;
    set_well();
    facts.node.kernel[0] = 5;
    facts.node.kernel[1] = 3;
    facts.probes.nccl_version = 22300;
    SET_TEXT(facts.driver.version, "535.86.10");
    SET_TEXT(facts.driver.module_version, "535.86.10");
    lull_doctor_judge(&facts, &findings);
    assert_int_equal(lull_doctor_count(&findings, LULL_DOCTOR_OK), findings.count);
    facts.probes.nccl_version = 23199;
    SET_TEXT(facts.driver.version, "535.42");
    SET_TEXT(facts.driver.module_version, "535.42");
    lull_doctor_judge(&facts, &findings);
    assert_int_equal(lull_doctor_count(&findings, LULL_DOCTOR_OK), findings.count);
}

static void test_interfaces_of_nccl(void **state)
{
    static const struct {
        int32_t version;
        const char *text;
    } cases[] = {
        {22300, "v1"}, {22399, "v1"}, {22400, "v2"}, {22501, "v2"}, {22600, "v3"}, {22700, "v4"},
        {22800, "v5"}, {22900, "v6"}, {23007, "v6"}, {23100, "v7"}, {23104, "v7"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        bool is_found = false;

        set_well();
        facts.probes.nccl_version = cases[i].version;
        lull_doctor_judge(&facts, &findings);
        for (uint32_t j = 0; j < findings.count; j++)
            is_found = is_found || (strcmp(findings.items[j].check, "nccl") == 0 &&
                                    strstr(findings.items[j].text, cases[i].text) != NULL);
        assert_true(is_found);
    }
}

static void test_equal_findings_of_gpus_are_one(void **state)
{
    uint32_t count = 0;

    (void)state;
    set_well();
    facts.gpus[0].is_virtual = facts.gpus[1].is_virtual = true;
    lull_doctor_judge(&facts, &findings);
    for (uint32_t i = 0; i < findings.count; i++)
        if (findings.items[i].level == LULL_DOCTOR_PROBLEM) {
            assert_int_equal(findings.items[i].gpus, 3);
            count++;
        }
    assert_int_equal(count, 1);
}

/* Facts that are no fault if another fact explains them. */
static void test_facts_that_are_explained(void **state)
{
    (void)state;
    set_well();
    break_limit();
    facts.gpus[1].lease.is_leased = true; /* that lease may have set the limit */
    break_profiling();
    facts.node.has_admin = true;
    facts.node.has_persistence = false; /* lulld holds the driver open */
    lull_doctor_judge(&facts, &findings);
    assert_int_equal(lull_doctor_count(&findings, LULL_DOCTOR_OK), findings.count);
}

static bool has_check(const char *check, enum lull_doctor_level level)
{
    for (uint32_t i = 0; i < findings.count; i++)
        if (strcmp(findings.items[i].check, check) == 0 && findings.items[i].level == level)
            return true;
    return false;
}

static void test_faults_that_come_together(void **state)
{
    (void)state;
    set_well();
    break_daemon();
    facts.node.is_root = true; /* without the capability, as in a container */
    facts.node.has_persistence = false;
    lull_doctor_judge(&facts, &findings);
    assert_true(has_check("lulld", LULL_DOCTOR_PROBLEM));
    assert_true(has_check("permission", LULL_DOCTOR_PROBLEM));
    assert_true(has_check("persistence", LULL_DOCTOR_WARNING));
    facts.node.is_container = true; /* the host's processes are not visible */
    lull_doctor_judge(&facts, &findings);
    assert_false(has_check("persistence", LULL_DOCTOR_WARNING));
}

/* A number below a limit, by xorshift32. */
static uint32_t draw(uint32_t *state, uint32_t limit)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state % limit;
}

/* Any combination of what breaks, on 64 GPUs: every problem and warning has one line to fix it. */
static void test_all_combinations_have_a_line(void **state)
{
    uint32_t random = 38;

    (void)state;
    for (uint32_t round = 0; round < 2000; round++) {
        set_well();
        for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++)
            if (draw(&random, 4) == 0)
                broken[i].make();
        if (facts.driver.gpu_count > 0) {
            facts.driver.gpu_count = LULL_DEVICE_MAX_GPUS;
            for (uint32_t gpu = 2; gpu < LULL_DEVICE_MAX_GPUS; gpu++) {
                facts.gpus[gpu] = facts.gpus[draw(&random, 2)];
                facts.gpus[gpu].limit_mw -= gpu * 1000;
            }
        }
        lull_doctor_judge(&facts, &findings);
        assert_true(findings.count < LULL_DOCTOR_MAX_FINDINGS);
        for (uint32_t i = 0; i < findings.count; i++) {
            const struct lull_doctor_finding *const finding = &findings.items[i];

            assert_int_equal(finding->level == LULL_DOCTOR_OK, finding->fix[0] == '\0');
            assert_null(strchr(finding->fix, '\n'));
            assert_null(strchr(finding->text, '\n'));
            assert_true(strlen(finding->fix) + 1 < sizeof(finding->fix));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_well_machine),
        cmocka_unit_test(test_each_fact_makes_its_finding_alone),
        cmocka_unit_test(test_limits_of_numbers),
        cmocka_unit_test(test_interfaces_of_nccl),
        cmocka_unit_test(test_equal_findings_of_gpus_are_one),
        cmocka_unit_test(test_facts_that_are_explained),
        cmocka_unit_test(test_faults_that_come_together),
        cmocka_unit_test(test_all_combinations_have_a_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
