/*
 * The emulated libamd_smi: its binary interface, declared from its documentation (versions 24 to
 * 27), and what its files share. Handles of sockets and of processors are addresses of GPUs: each
 * die is a socket of its own. Only functions that AMDSMI_EXPORT declares are exported; the build
 * hides all others.
 *
 * The sources are built twice: for libamd_smi.so.26 and for libamd_smi.so.27, which
 * LULL_AMDSMI_MAJOR names.
 *
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_EMULATOR_AMDSMI_LIBRARY_H
#define LULL_EMULATOR_AMDSMI_LIBRARY_H

#include <stdbool.h>
#include <stdint.h>

#include "emulator/driver.h"

enum amdsmi_code {
    AMDSMI_OK = 0,
    AMDSMI_INVAL = 1,
    AMDSMI_UNSUPPORTED = 2,
    AMDSMI_NO_PERM = 10,
    AMDSMI_OUT_OF_BOUNDS = 17,
    AMDSMI_BUSY = 30,
    AMDSMI_NOT_FOUND = 31,
    AMDSMI_NOT_INIT = 32,
    AMDSMI_NOT_LOADED = 34,
    AMDSMI_SMALL = 41,
};

struct amdsmi_version { /* in versions 24 and 25 the year precedes the three numbers */
    uint32_t numbers[4];
    const char *build;
};

struct amdsmi_clk {
    uint32_t clk, min_clk, max_clk; /* MHz */
    uint8_t locked, deep_sleep;
    uint32_t reserved[4];
};

struct amdsmi_cap {
    uint64_t power_cap, default_power_cap, dpm_cap, min_power_cap, max_power_cap; /* in uW */
    uint64_t reserved[3];
};

struct amdsmi_power_24 {
    uint32_t current_socket_power, average_socket_power; /* W */
    uint32_t voltages[3];
    uint32_t power_limit;
    uint32_t reserved[11];
};

struct amdsmi_power_25 {
    uint64_t socket_power;
    uint32_t current_socket_power, average_socket_power; /* W */
    uint64_t voltages[3];
    uint32_t power_limit;
    uint64_t reserved[18]; /* only version 26 has it */
};

struct amdsmi_usage {
    uint32_t gfx, umc, mm; /* percent */
    uint32_t reserved[13];
};

struct amdsmi_enumeration {
    uint32_t drm_render, drm_card, hsa_id, hip_id;
};

struct amdsmi_freq_range {
    uint64_t lower, upper, reserved[2];
};

struct amdsmi_od {
    struct amdsmi_freq_range current_sclk, current_mclk, sclk_limits, mclk_limits;
    uint64_t curve[6];
    uint32_t regions;
};

struct amdsmi_od_27 {
    struct amdsmi_freq_range current_sclk, current_mclk, current_fclk;
    struct amdsmi_freq_range sclk_limits, mclk_limits, fclk_limits;
    uint64_t curve[6];
    uint32_t regions;
};

struct amdsmi_proc_24 {
    char name[32];
    uint32_t pid;
    uint64_t mem;
    uint64_t gfx, enc;
    uint32_t engine_reserved[12];
    uint64_t gtt_mem, cpu_mem, vram_mem;
    uint32_t memory_reserved[10];
    char container_name[32];
    uint32_t reserved[4];
};

struct amdsmi_proc_25 { /* since version 25 [from memory; 26 by its documentation] */
    char name[256];
    uint32_t pid;
    uint64_t mem;
    uint64_t gfx, enc;
    uint32_t engine_reserved[12];
    uint64_t gtt_mem, cpu_mem, vram_mem;
    uint32_t memory_reserved[10];
    char container_name[256];
    uint32_t cu_occupancy;
    uint32_t reserved[11];
};

_Static_assert(sizeof(struct amdsmi_version) == 24, "amdsmi_version_t");
_Static_assert(sizeof(struct amdsmi_od) == 184, "amdsmi_od_volt_freq_data_t of 26.0");
_Static_assert(sizeof(struct amdsmi_proc_24) == 224, "amdsmi_proc_info_t of 24");
_Static_assert(sizeof(struct amdsmi_proc_25) == 704, "amdsmi_proc_info_t of 26");
_Static_assert(sizeof(struct amdsmi_clk) == 32, "amdsmi_clk_info_t");
_Static_assert(sizeof(struct amdsmi_cap) == 64, "amdsmi_power_cap_info_t");
_Static_assert(sizeof(struct amdsmi_power_24) == 68, "amdsmi_power_info_t of 24");
_Static_assert(sizeof(struct amdsmi_power_25) == 192, "amdsmi_power_info_t of 26");
_Static_assert(sizeof(struct amdsmi_usage) == 64, "amdsmi_engine_usage_t");

/* Value of a 32-bit field that the library does not fill. */
#define AMDSMI_NOT_REPORTED UINT32_MAX

#define AMDSMI_EXPORT(name, ...)                                                                   \
    __attribute__((visibility("default"))) int name(__VA_ARGS__);                                  \
    int name(__VA_ARGS__)

#define AMDSMI_ENTER(entry) LULL_DRIVER_ENTER(struct lull_driver_gpu, gpu, entry)

/* The version whose layouts are in use: LULL_EMULATED_AMD_SMI, 24 to 27, or else the file's own. */
uint32_t amdsmi_abi(void);

/* Checks initialisation alone. */
int amdsmi_enter_library(void);

/* Checks initialisation, the handle and the output pointer, and suffers get faults. */
int amdsmi_enter(void *handle, const void *output, const struct lull_driver_gpu **gpu_out);

/* Checks, for a set call, initialisation, the handle and the permission. */
int amdsmi_enter_root(void *handle, const struct lull_driver_gpu **gpu_out);

/*
 * Gets the dies whose power and energy this die's counters include. The two dies of a module share
 * the counters of its first die. Returns their number, which is 0 for a second die.
 */
uint32_t amdsmi_module(const struct lull_driver_gpu *gpu, const struct lull_driver_gpu *dies[2]);

/* The GPUs of the node in the order of HIP; NULL: there is none at that position. */
struct lull_driver_gpu *amdsmi_gpu_at(uint32_t position);
uint32_t amdsmi_gpu_count(void);

/* The PCI address as amdsmi_bdf_t: 3 bits of function, 5 of device, 8 of bus, then the domain. */
uint64_t amdsmi_bdf(const struct lull_driver_gpu *gpu);

/* The memory that processes have allocated on the GPU. */
uint64_t amdsmi_used_bytes(const struct lull_driver_gpu *gpu);

/* Total power of the dies of a module according to the board's meters, and the sum of their
 * limits. */
struct lull_amdsmi_drawn {
    uint64_t power_mw;
    uint64_t energy_mj;
    double limit_w;
    double highest_w;
    double default_w;
};

struct lull_amdsmi_drawn amdsmi_read_drawn(const struct lull_driver_gpu *gpu);

/* The counter of the module's energy, in steps of AMDSMI_RESOLUTION_UJ. */
#define AMDSMI_RESOLUTION_UJ 15.3 /* as AMD SMI documents it */
uint64_t amdsmi_energy_count(const struct lull_driver_gpu *gpu);

#endif
