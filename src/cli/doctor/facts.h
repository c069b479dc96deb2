/*
 * The facts from which `lull doctor` finds what keeps Lull from managing GPUs. gather.c collects
 * them; judge.c, which is pure, turns them into findings. Texts that another part of Lull reports
 * for the same cause are stored as that part has written them.
 *
 * Threads: none. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_DOCTOR_FACTS_H
#define LULL_CLI_DOCTOR_FACTS_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/pod.h"
#include "device/device.h"
#include "device/lock_state.h"

enum {
    LULL_DOCTOR_MAX_MANAGERS = 8,
    LULL_DOCTOR_MAX_PROBES = 16,
    LULL_DOCTOR_NAME_BYTES = 32,
};

/* lulld's answer about one GPU. */
struct lull_doctor_lease {
    bool is_asked;
    bool is_leased;        /* another client has leased it, so it was not tried */
    bool is_foreign;       /* lulld says that another program has locked its clock */
    bool is_quiesced;      /* released for maintenance */
    struct lull_error err; /* code 0: granted, and released at once */
    uint32_t granted_min_mhz;
    uint32_t granted_max_mhz;
    int32_t last_write; /* result of lulld's last write to the GPU */
};

struct lull_doctor_gpu {
    char uuid[96];
    char unopened[96];        /* why the driver does not open it; "": it does */
    struct lull_error clocks; /* code 0: its SM clock can be locked */
    struct lull_error limits; /* code 0: its power limit can be set */
    struct lull_error mig;    /* code 0: MIG is off */
    bool has_profiles;        /* it has power profiles */
    int profiles_code;        /* 0: this process may request them; -EPERM: it may not */
    bool is_virtual;          /* a vGPU */
    bool has_energy_counter;
    enum lull_lock_state lock; /* UNKNOWN on an idle GPU, or with a lease */
    uint32_t sm_mhz;
    uint32_t lowest_mhz;
    uint32_t highest_mhz;
    uint32_t limit_mw; /* 0: unknown, as the next */
    uint32_t default_limit_mw;
    bool is_smoothing; /* the driver burns power to hold a floor... */
    uint32_t smoothing_floor_w;
    struct lull_doctor_lease lease;
};

struct lull_doctor_driver {
    struct lull_error err; /* code 0: open */
    char vendor[16];
    char version[96];        /* of the library; "": unknown */
    char module_version[96]; /* of the kernel module; "": unknown */
    char override[PATH_MAX]; /* the variable that names another library, as NAME=VALUE; "" */
    uint32_t gpu_count;
};

struct lull_doctor_daemon {
    struct lull_error err; /* code 0: it answers */
    char runtime_dir[PATH_MAX];
    char policy[PATH_MAX];                     /* its file, as far as this process knows */
    char socket_group[LULL_DOCTOR_NAME_BYTES]; /* "": no socket there */
    bool has_unit;                             /* systemd knows lulld.service */
};

/* Programs that also set clocks or limits. */
struct lull_doctor_manager {
    char name[LULL_DOCTOR_NAME_BYTES]; /* as in /proc/PID/comm */
    int32_t pid;
    const char *unit; /* its service */
};

struct lull_doctor_node {
    bool is_hardware;             /* false: an emulated node, so the next six do not apply */
    bool has_module;              /* the kernel module of NVIDIA is loaded */
    bool has_device;              /* /dev/nvidiactl exists... */
    bool may_open_device;         /* ...and this process may open it */
    bool is_profiling_restricted; /* RmProfilingAdminOnly */
    bool has_persistence;         /* nvidia-persistenced runs */
    bool is_wsl;
    bool is_root;
    bool has_admin; /* CAP_SYS_ADMIN */
    bool is_container;
    struct lull_pod pod;
    uint64_t pid_space;        /* 0: unknown */
    bool is_pid_space_ok;      /* the driver numbers processes as this namespace does */
    int kernel[2];             /* 0.0: unknown */
    struct lull_error pidfd;   /* code 0: pidfd_open works */
    struct lull_error rapl;    /* code 0: readable */
    char powercap[PATH_MAX];   /* the directory of its zones */
    char slurm_conf[PATH_MAX]; /* the directory of slurm.conf; "": no Slurm */
    bool has_slurm_plugin;     /* plugstack.conf there names spank_lull */
    uint32_t manager_count;
    struct lull_doctor_manager managers[LULL_DOCTOR_MAX_MANAGERS];
};

struct lull_doctor_probes {
    int32_t nccl_version; /* as ncclGetVersion() returns it; 0: no library on the path */
    char plugin[128];     /* another NCCL profiler plugin, which Lull's loads in turn; "": none */
    uint32_t refusal_count;
    struct lull_error refusals[LULL_DOCTOR_MAX_PROBES]; /* of lull_probes_add() */
};

struct lull_doctor_facts {
    struct lull_doctor_driver driver;
    struct lull_doctor_daemon daemon;
    struct lull_doctor_node node;
    struct lull_doctor_probes probes;
    struct lull_doctor_gpu gpus[LULL_DEVICE_MAX_GPUS];
};

#endif
