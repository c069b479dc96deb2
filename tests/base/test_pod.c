/*
 * Names of pods and containers in /proc/PID/cgroup. The paths have the forms of each runtime and
 * each cgroup driver, with invented numbers. SPDX-License-Identifier: Apache-2.0
 */
#include "base/pod.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#define U "3f1c9a52-07be-4d1e-9c41-8a5b60d2e7f4"
#define U_ "3f1c9a52_07be_4d1e_9c41_8a5b60d2e7f4"
#define STATIC "5b0c1a4d8e7f26930f1e2d3c4b5a6978"
#define C "0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f9"
#define N "ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100"

struct recorded {
    const char *text;
    const char *uid;
    const char *container;
};

static const struct recorded recorded[] = {
    /* Version 2, systemd driver: containerd, cri-o, cri-dockerd; the three classes of service. */
    {"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" U_
     ".slice/cri-containerd-" C ".scope\n",
     U, C},
    {"0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" U_ ".slice/crio-" C
     ".scope\n",
     U, C},
    {"0::/kubepods.slice/kubepods-pod" U_ ".slice/docker-" C ".scope\n", U, C},
    /* Below the container's own: a systemd in it, cri-o's nested group. */
    {"0::/kubepods.slice/kubepods-pod" U_ ".slice/crio-" C ".scope/container\n", U, C},
    {"0::/kubepods.slice/kubepods-pod" U_ ".slice/cri-containerd-" C ".scope/init.scope\n", U, C},
    /* Version 2, cgroupfs driver. */
    {"0::/kubepods/burstable/pod" U "/" C "\n", U, C},
    {"0::/kubepods/besteffort/pod" U "/crio-" C "\n", U, C},
    /* Version 1: a line for each controller, some of which are not the pod's. */
    {"12:pids:/kubepods/burstable/pod" U "/" C "\n11:memory:/kubepods/burstable/pod" U "/" C
     "\n1:name=systemd:/kubepods/burstable/pod" U "/" C "\n0::/system.slice/containerd.service\n",
     U, C},
    {"5:rdma:/\n4:cpu,cpuacct:/kubepods.slice/kubepods-pod" U_ ".slice/docker-" C ".scope\n", U, C},
    {"13:misc:/\n11:cpuset:/system.slice/containerd.service/kubepods-burstable-pod" U_
     ".slice:cri-containerd:" C "\n",
     U, C},
    /* Static pods have the sum of their manifest as UID. */
    {"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" STATIC
     ".slice/cri-containerd-" C ".scope\n",
     STATIC, C},
    {"0::/kubepods/pod" STATIC "/" C "\n", STATIC, C},
    /* Seen from another control group namespace, as that of a DaemonSet's container. */
    {"0::/../../kubepods-burstable-pod" U_ ".slice/cri-containerd-" C ".scope\n", U, C},
    {"0::/../../../pod" U "/" C "\n", U, C},
    /* A node that is a container itself (kind): its own name is not the pod's container. */
    {"0::/system.slice/docker-" N ".scope/kubelet.slice/kubelet-kubepods.slice/"
     "kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod" U_ ".slice/cri-containerd-" C
     ".scope\n",
     U, C},
    {"9:memory:/docker/" N "/kubelet/kubepods/burstable/pod" U "/" C "\n", U, C},
    /* The pod's own processes are in no container: its pause process in some runtimes, conmon. */
    {"0::/kubepods.slice/kubepods-pod" U_ ".slice\n", U, ""},
    {"0::/kubepods.slice/kubepods-pod" U_ ".slice/crio-conmon-" C ".scope\n", U, ""},
    /* Containers in containers: the host's name counts. */
    {"0::/kubepods/pod" U "/" C "/docker/" N "\n", U, C},
    {"0::/kubepods/pod" U "/" C "/kubepods/pod" STATIC "/" N "\n", U, C},
    /* Without Kubernetes: docker, containerd (nerdctl), podman with and without root. */
    {"0::/system.slice/docker-" C ".scope\n", "", C},
    {"3:devices:/docker/" C "\n2:freezer:/docker/" C "\n", "", C},
    {"0::/system.slice/nerdctl-" C ".scope\n", "", C},
    {"0::/default/" C "\n", "", C},
    {"0::/machine.slice/libpod-" C ".scope/container\n", "", C},
    {"0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" C ".scope\n", "", C},
    {"0::/machine.slice/machine-libpod_pod_" N ".slice/libpod-" C ".scope/container\n", "", C},
    /* The first line that names a container counts, and a later one that names a pod. */
    {"2:pids:/docker/" C "\n1:cpu:/docker/" N "\n", "", C},
    {"2:pids:/docker/" N "\n0::/kubepods/pod" U "/" C, U, C},
};

/* Neither a pod nor a container. */
static const char *const strange[] = {
    "",
    "\n\n",
    "0::/\n",
    "0::/init.scope",
    "0::/user.slice/user-1000.slice/session-3.scope\n",
    "0::/slurm/uid_1000/job_7/step_0\n",
    "0::/machine.slice/libpod-conmon-" C ".scope\n",
    "no line of a control group",
    "0:" C,
    /* No UID: too short, too long, other digits, dashes elsewhere, nothing. */
    "0::/kubepods/pod3f1c9a52-07be-4d1e-9c41-8a5b60d2e7f\n",
    "0::/kubepods/pod" U "0\n",
    "0::/kubepods/podzf1c9a52-07be-4d1e-9c41-8a5b60d2e7f4\n",
    "0::/kubepods/pod3f1c9a5-207be-4d1e-9c41-8a5b60d2e7f4\n",
    "0::/kubepods/pod\n",
    "0::/kubepods/xpod" U "\n",
    /* A slice of another name. */
    "0::/my-pod" U_ ".slice\n",
    "0::/kubepods-pod" U_ ".scope\n",
    "0::/kubepods-pod" U_ "\n",
    /* No container: 63 or 65 digits, others, upper case, a name before without a dash. */
    "0::/docker/a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f9\n",
    "0::/docker/0" C "\n",
    "0::/docker/ga1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f9\n",
    "0::/system.slice/docker" C ".scope\n",
    "0::/system.slice/docker-" C ".service\n",
};

static void test_recorded(void **state)
{
    struct lull_pod pod;

    (void)state;
    for (size_t i = 0; i < sizeof(recorded) / sizeof(recorded[0]); i++) {
        memset(&pod, 0x55, sizeof(pod));
        print_message("%s", recorded[i].text);
        assert_true(lull_pod_find(recorded[i].text, &pod));
        assert_string_equal(pod.uid, recorded[i].uid);
        assert_string_equal(pod.container, recorded[i].container);
    }
}

static void test_strange(void **state)
{
    struct lull_pod pod;

    (void)state;
    for (size_t i = 0; i < sizeof(strange) / sizeof(strange[0]); i++) {
        memset(&pod, 0x55, sizeof(pod));
        print_message("%s\n", strange[i]);
        assert_false(lull_pod_find(strange[i], &pod));
        assert_string_equal(pod.uid, "");
        assert_string_equal(pod.container, "");
    }
}

/* A text that ends early names what is complete in it, or nothing else. */
static void test_every_beginning(void **state)
{
    char text[1024];
    struct lull_pod pod;

    (void)state;
    for (size_t i = 0; i < sizeof(recorded) / sizeof(recorded[0]); i++)
        for (size_t length = 0; length < strlen(recorded[i].text); length++) {
            snprintf(text, sizeof(text), "%.*s", (int)length, recorded[i].text);
            lull_pod_find(text, &pod);
            assert_true(pod.uid[0] == '\0' || strcmp(pod.uid, recorded[i].uid) == 0);
            assert_true(pod.container[0] == '\0' || strcmp(pod.container, C) == 0 ||
                        strcmp(pod.container, N) == 0);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recorded),
        cmocka_unit_test(test_strange),
        cmocka_unit_test(test_every_beginning),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
