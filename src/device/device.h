/*
 * GPUs of this node behind one table of functions per vendor (nvml.c, amdsmi.c, levelzero.c).
 *
 * A missing driver library or symbol is a capability that is off, never a crash; a missing reading
 * is an unset validity bit, never 0. Every set is a request: device/writer.h reads back whether
 * the device obeyed.
 *
 * Threads: any for reading; the rest is for the one device writer of the node (design section 4).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_DEVICE_DEVICE_H
#define LULL_DEVICE_DEVICE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/switch.h"
#include "core/energy/plausible.h"

enum {
    LULL_DEVICE_MAX_GPUS = 64,
    LULL_DEVICE_MAX_CLOCKS = 512,
};

/* The settings and readings that a GPU supports, as bits. */
enum lull_capability {
    LULL_CAPABILITY_SM_LOCK = 1 << 0,
    LULL_CAPABILITY_MEMORY_LOCK = 1 << 1,
    LULL_CAPABILITY_POWER_LIMIT = 1 << 2,
    LULL_CAPABILITY_ENERGY_COUNTER = 1 << 3,
    LULL_CAPABILITY_INSTANT_POWER = 1 << 4,
    LULL_CAPABILITY_POWER_PROFILES = 1 << 5,
    LULL_CAPABILITY_POWER_SMOOTHING = 1 << 6,
};

/* Workload power profiles (NVIDIA, Blackwell and newer) as bits, in NVML's numbers. A program adds
 * its requests to those of others and removes them; of conflicting ones the driver enforces the
 * one with priority. */
enum lull_power_profile {
    LULL_POWER_PROFILE_MAX_P = 1 << 0,
    LULL_POWER_PROFILE_MAX_Q = 1 << 1,
    LULL_POWER_PROFILE_COMPUTE = 1 << 2,
    LULL_POWER_PROFILE_MEMORY_BOUND = 1 << 3,
    LULL_POWER_PROFILE_NETWORK = 1 << 4,
    LULL_POWER_PROFILE_BALANCED = 1 << 5,
    LULL_POWER_PROFILE_LLM_INFERENCE = 1 << 6,
    LULL_POWER_PROFILE_LLM_TRAINING = 1 << 7,
    LULL_POWER_PROFILE_RBM = 1 << 8,
    LULL_POWER_PROFILE_DCPCIE = 1 << 9,
    LULL_POWER_PROFILE_HMMA_SPARSE = 1 << 10,
    LULL_POWER_PROFILE_HMMA_DENSE = 1 << 11,
    LULL_POWER_PROFILE_SYNC_BALANCED = 1 << 12,
    LULL_POWER_PROFILE_HPC = 1 << 13,
    LULL_POWER_PROFILE_MIG = 1 << 14,
    LULL_POWER_PROFILE_ALL = (1 << 15) - 1,
};

/* Settings of power smoothing (NVIDIA, Blackwell and newer): four of the preset that Lull uses, the
 * number of the active preset, and whether smoothing is on, 0 or 1. */
enum lull_smoothing_item {
    LULL_SMOOTHING_FLOOR,      /* % */
    LULL_SMOOTHING_RAMP_UP,    /* mW/s */
    LULL_SMOOTHING_RAMP_DOWN,  /* mW/s */
    LULL_SMOOTHING_HYSTERESIS, /* ms */
    LULL_SMOOTHING_ACTIVE,
    LULL_SMOOTHING_STATE,
    LULL_SMOOTHING_ITEMS,
};

struct lull_smoothing_settings {
    uint32_t items[LULL_SMOOTHING_ITEMS];
    bool is_overridden; /* an administrator has fixed a value for every preset */
    uint32_t floor_w;   /* as applied; 0: none */
};

/* Constant properties of one GPU. Clocks are sorted from the highest to the lowest. */
struct lull_device_info {
    char name[96];
    char uuid[96];
    char pci_bus_id[32];
    uint32_t architecture; /* NVML's number: 5 is Volta, 10 is Blackwell; 0: unknown */
    uint32_t capabilities; /* enum lull_capability */
    uint32_t sm_clock_count;
    uint32_t sm_clocks_mhz[LULL_DEVICE_MAX_CLOCKS];
    uint32_t memory_clock_count;
    uint32_t memory_clocks_mhz[16];
    uint32_t power_limit_min_mw;
    uint32_t power_limit_max_mw;
    uint32_t power_limit_default_mw;
    uint32_t power_profiles; /* enum lull_power_profile; those that can be requested */
    uint32_t
        smoothing_floor_percent; /* the highest floor of power smoothing, of power_limit_max_mw */
    uint32_t smoothing_preset;   /* the preset that Lull changes and activates: the last one */
    /* The driver reports the power and the limit of a module, which are those of its CPU as well:
     * neither is the GPU's, so there is no reading of power, and the limit is not set. */
    bool has_only_module_power;
    bool is_virtual; /* NVIDIA: a vGPU, whose clocks only the host can set */
    /* 0; else why the driver does not describe it completely yet. It says more at a later
     * lull_device_check(). If it does not even open it, the UUID is "", the name says why, and
     * every other call fails with LULL_E_NO_DEVICE. */
    int status;
};

/* Fields that can be read, as bits. A reading has the same bits to indicate which of its members
 * are valid. */
enum lull_reading_field {
    LULL_READING_SM_CLOCK = 1 << 0,
    LULL_READING_MEMORY_CLOCK = 1 << 1,
    LULL_READING_POWER = 1 << 2,  /* power as the driver reports it, which may be a 1 s average */
    LULL_READING_ENERGY = 1 << 3, /* the energy since the driver was loaded */
    LULL_READING_TEMPERATURE = 1 << 4,
    LULL_READING_REASONS = 1 << 5, /* enum lull_clock_reason */
    LULL_READING_POWER_LIMIT =
        1 << 6, /* the last requested one; if it is fixed, the one in force */
    LULL_READING_UTILIZATION = 1 << 7,
    LULL_READING_ALL = (1 << 8) - 1,
    /* NVIDIA: errors since the first request of this field; not in the set of all fields. For one
       thread alone. */
    LULL_READING_XIDS = 1 << 8,
    /* NVIDIA, Blackwell and newer; neither is in the set of all fields. */
    LULL_READING_PROFILES = 1 << 9,
    LULL_READING_SMOOTHING = 1 << 10,
};

/*
 * Why the SM clock is not at the highest now, as bits. The values are NVML's
 * (nvmlDeviceGetCurrentClocksEventReasons); the other vendors' reasons are translated into them. A
 * locked clock has no bit of its own.
 */
enum lull_clock_reason {
    LULL_CLOCK_REASON_IDLE = 1 << 0,
    LULL_CLOCK_REASON_SETTING = 1 << 1, /* a program has set application clocks or a range */
    LULL_CLOCK_REASON_POWER_CAP = 1 << 2,
    LULL_CLOCK_REASON_HARDWARE_SLOWDOWN = 1 << 3,
    LULL_CLOCK_REASON_SYNC_BOOST = 1 << 4,
    LULL_CLOCK_REASON_THERMAL = 1 << 5,
    LULL_CLOCK_REASON_HARDWARE_THERMAL = 1 << 6,
    LULL_CLOCK_REASON_POWER_BRAKE = 1 << 7,
    LULL_CLOCK_REASON_DISPLAY = 1 << 8,
    /* The reasons by which temperature or the power supply limits the clock, and not a power limit.
     */
    LULL_CLOCK_REASON_THROTTLED = LULL_CLOCK_REASON_HARDWARE_SLOWDOWN | LULL_CLOCK_REASON_THERMAL |
                                  LULL_CLOCK_REASON_HARDWARE_THERMAL |
                                  LULL_CLOCK_REASON_POWER_BRAKE,
};

struct lull_device_reading {
    uint32_t valid;   /* enum lull_reading_field */
    uint32_t refused; /* fields that were read but have an impossible value for this GPU */
    uint32_t sm_mhz;
    uint32_t memory_mhz;
    uint32_t power_mw;
    uint64_t energy_mj;
    uint32_t temperature_c;
    uint64_t reasons; /* enum lull_clock_reason */
    uint32_t power_limit_mw;
    uint32_t utilization_percent;
    uint32_t xid_count;
    uint32_t last_xid;           /* 0: there was none */
    uint32_t requested_profiles; /* enum lull_power_profile; by all programs */
    uint32_t enforced_profiles;
    bool is_smoothing; /* the driver burns power to hold a floor between phases of work... */
    uint32_t smoothing_floor_w; /* ...of this power */
};

/* The most processes reported for one GPU, several times the number in practice. */
enum { LULL_DEVICE_MAX_PROCESSES = 256 };

/* The processes that compute on a GPU. */
struct lull_device_processes {
    bool is_known;      /* false: the driver does not report them, or there are too many */
    uint64_t pid_space; /* the PID namespace of their numbers (base/process.h) */
    uint32_t count;
    pid_t pids[LULL_DEVICE_MAX_PROCESSES]; /* some may be listed twice */
};

/* Events of a GPU since the last check that Lull did not cause. */
struct lull_device_update {
    uint32_t event_count; /* of all kinds; the rest follows at the next check */
    uint32_t xid_count;
    uint32_t last_xid;     /* 0: there was none */
    bool is_partitioned;   /* NVIDIA: MIG is on, so its clock belongs to several users */
    bool is_repartitioned; /* MIG or the partitions have changed */
    uint32_t sm_mhz;       /* its clock; 0: it could not be read */
    struct lull_device_processes processes; /* known for NVIDIA only */
};

/* A GPU that keeps reporting must not delay the others. */
enum { LULL_DEVICE_MAX_EVENTS = 64 };

struct lull_devices; /* the opened driver library and its GPUs */

/*
 * Opens the driver library of the first vendor that has a GPU here, in the order NVIDIA, AMD, Intel
 * (LULL_VENDOR=nvidia, amd or intel names one), and lists its GPUs; those of other vendors are not
 * managed. LULL_NVML, LULL_AMD_SMI and LULL_LEVEL_ZERO name other files than libnvidia-ml.so.1,
 * libamd_smi.so and libze_loader.so.1. Errors: LULL_E_NO_DEVICE no library or no GPU; -EPERM;
 * LULL_E_UNSUPPORTED; -EINVAL no such vendor; the text says which library was tried and what to do.
 */
int lull_devices_open(struct lull_devices **devices_out, struct lull_error *err);
void lull_devices_close(struct lull_devices *devices);

/* Creates devices without GPUs. The driver is away until lull_devices_attach() finds one. Errors:
 * -ENOMEM. */
int lull_devices_open_later(struct lull_devices **devices_out, struct lull_error *err);

/*
 * Closes the driver library: from now on every call fails with LULL_E_NO_DRIVER, and readings are
 * not valid. Errors: -EBUSY a thread is still inside the driver, so the library stays loaded. Call
 * again later: once the thread has returned, its call has failed like the others.
 */
int lull_devices_release(struct lull_devices *devices);

/*
 * Opens the driver library again and finds the GPUs by their UUIDs; their properties do not change.
 * A missing GPU fails with LULL_E_NO_DEVICE until lull_device_check() finds it. Devices without
 * GPUs take all GPUs that are found; otherwise new GPUs are named in the log and not managed.
 * Errors: those of lull_devices_open.
 */
int lull_devices_attach(struct lull_devices *devices, struct lull_error *err);

uint32_t lull_devices_count(const struct lull_devices *devices);

/* Returns the vendor of the GPUs, in the words of LULL_VENDOR. */
const char *lull_devices_vendor(const struct lull_devices *devices);

/* Returns the driver's version for reports, borrowed from devices; "" if it is not known. */
const char *lull_devices_driver_version(const struct lull_devices *devices);

/* Returns the facts of one GPU, 0..count-1; borrowed while devices is open. They are fixed once
 * their status is 0. */
const struct lull_device_info *lull_device_info(const struct lull_devices *devices, uint32_t gpu);

/* Returns the index of the GPU with this UUID; -ENODEV: there is none. */
int lull_device_find(const struct lull_devices *devices, const char *uuid);

/* Narrows the band of a lease to the clocks and power limits that the GPU supports.
 * Errors, after which the band is unchanged: LULL_E_UNSUPPORTED its SM clock cannot be locked, or a
 * power limit is wanted and cannot be set; -EINVAL the band is empty or lies outside the GPU's
 * range. */
int lull_device_fit_band(const struct lull_device_info *info, struct lull_band *band,
                         struct lull_error *err);

/*
 * Reads the wanted fields. A field that could not be read has no bit in reading_out->valid. An
 * impossible power or energy for the board (core/energy/plausible.h) is marked as refused, not as
 * valid.
 */
void lull_device_read(struct lull_devices *devices, uint32_t gpu, uint32_t wanted,
                      struct lull_device_reading *reading_out);

/* Lists the processes that compute on a GPU; unknown after any failure. */
void lull_device_list_processes(struct lull_devices *devices, uint32_t gpu,
                                struct lull_device_processes *processes_out);

/* Returns the power limits of a GPU's board. */
static inline struct lull_power_range lull_device_power_range(const struct lull_device_info *info)
{
    return lull_power_range_of_gpu(info->power_limit_max_mw * 1e-3);
}

/* Copies the wanted fields of a reading, valid or not, into the stored reading of a GPU. The other
 * fields are unchanged. */
void lull_device_keep_reading(struct lull_device_reading *kept, uint32_t wanted,
                              const struct lull_device_reading *reading);

/*
 * Checks whether a GPU is present, finds it again if it was gone, and takes its news. The news is
 * empty if the vendor reports none. Errors: LULL_E_NO_DEVICE it is lost; LULL_E_NO_DRIVER; any
 * other means only that its clock could not be read.
 */
int lull_device_check(struct lull_devices *devices, uint32_t gpu,
                      struct lull_device_update *update_out, struct lull_error *err);

/* Refuses a GPU that is_partitioned, since several users share its clock. Returns
 * LULL_E_UNSUPPORTED, with a text for users. */
static inline int lull_device_refuse_partitioned(struct lull_error *err)
{
    return lull_error_set(err, LULL_E_UNSUPPORTED,
                          "MIG is on, and all slices share one clock: Lull gives only advice for "
                          "them and does not lease them");
}

/* Closes the handles of one GPU, and makes no driver call for it until lull_device_check(). */
void lull_device_release(struct lull_devices *devices, uint32_t gpu);

/* These functions set something. If the driver does not reset the SM clock, it is locked to its
 * whole range instead. Errors: -EPERM this process is not permitted to; LULL_E_UNSUPPORTED;
 * LULL_E_NO_DEVICE the GPU is lost; LULL_E_NO_DRIVER the driver is away; -EAGAIN and LULL_E_DRIVER
 * the call may succeed later; -EINVAL. */
int lull_device_lock_sm(struct lull_devices *devices, uint32_t gpu, uint32_t min_mhz,
                        uint32_t max_mhz, struct lull_error *err);
int lull_device_reset_sm(struct lull_devices *devices, uint32_t gpu, struct lull_error *err);
int lull_device_reset_memory(struct lull_devices *devices, uint32_t gpu, struct lull_error *err);
int lull_device_set_power_limit(struct lull_devices *devices, uint32_t gpu, uint32_t limit_mw,
                                struct lull_error *err);

/* Adds power profiles to those that are requested, or removes them; others stay requested. Without
 * profiles nothing changes, and the result is whether this process may request any: from NVIDIA's
 * driver 615 on, root and users with access to its WPPS capability. */
int lull_device_add_profiles(struct lull_devices *devices, uint32_t gpu, uint32_t profiles,
                             struct lull_error *err);
int lull_device_remove_profiles(struct lull_devices *devices, uint32_t gpu, uint32_t profiles,
                                struct lull_error *err);

/* Reads the settings of power smoothing, or changes one of them. */
int lull_device_read_smoothing(struct lull_devices *devices, uint32_t gpu,
                               struct lull_smoothing_settings *settings_out,
                               struct lull_error *err);
int lull_device_set_smoothing(struct lull_devices *devices, uint32_t gpu,
                              enum lull_smoothing_item item, uint32_t value,
                              struct lull_error *err);

#endif
