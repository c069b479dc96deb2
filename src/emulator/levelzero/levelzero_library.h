/*
 * The emulated libze_loader: Sysman's binary interface, declared from its documentation (1.17), and
 * what its files share. Only functions that ZES_EXPORT declares are exported; the build hides all
 * others.
 *
 * A card has two stacks. Each has a clock domain and a power domain of its own; the physics has one
 * clock for both, which goes as high as the less limited stack allows.
 *
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_EMULATOR_LEVELZERO_LIBRARY_H
#define LULL_EMULATOR_LEVELZERO_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "emulator/driver.h"

enum ze_code {
    ZE_SUCCESS = 0,
    ZE_INSUFFICIENT_PERMISSIONS = 0x70010000,
    ZE_DEVICE_LOST = 0x70000001,
    ZE_UNINITIALIZED = 0x78000001,
    ZE_UNSUPPORTED = 0x78000003,
    ZE_INVALID_ARGUMENT = 0x78000004,
    ZE_INVALID_NULL_HANDLE = 0x78000005,
    ZE_INVALID_NULL_POINTER = 0x78000007,
};

struct ze_base { /* every structure begins with it */
    uint32_t stype;
    void *next;
};

struct ze_core_properties {
    struct ze_base base;
    uint32_t type, vendor, device, flags, subdevice, clock_rate;
    uint64_t max_alloc;
    uint32_t contexts, priority, threads, simd, eus, subslices, slices;
    uint64_t timer_resolution;
    uint32_t timestamp_bits, kernel_timestamp_bits;
    uint8_t uuid[16];
    char name[256];
};

struct zes_device_facts {
    struct ze_base base;
    struct ze_core_properties core;
    uint32_t subdevices;
    char texts[6][64]; /* serial, board, brand, model, vendor, driver version */
};

struct zes_pci_facts {
    struct ze_base base;
    uint32_t domain, bus, device, function;
    int32_t gen, width;
    int64_t bandwidth;
    uint8_t counters[3];
};

struct zes_freq_facts {
    struct ze_base base;
    int32_t type;
    uint8_t on_subdevice;
    uint32_t subdevice;
    uint8_t can_control, throttle_event;
    double min, max; /* MHz */
};

struct zes_freq_range {
    double min, max; /* MHz; -1 represents the default */
};

struct zes_freq_now {
    struct ze_base base;
    double voltage, request, tdp, efficient, actual;
    uint32_t throttle_reasons;
};

struct zes_power_facts {
    struct ze_base base;
    uint8_t on_subdevice;
    uint32_t subdevice;
    uint8_t can_control, threshold;
    int32_t default_mw, min_mw, max_mw;
};

struct zes_snapshot {
    uint64_t value, time_us;
};

struct zes_limit {
    struct ze_base base;
    int32_t level, source, unit;
    uint8_t enabled_locked, enabled, interval_locked;
    int32_t interval_ms;
    uint8_t limit_locked;
    int32_t limit_mw;
};

struct zes_temp_facts {
    struct ze_base base;
    int32_t type;
    uint8_t on_subdevice;
    uint32_t subdevice;
    double max;
    uint8_t supports[3];
};

struct zes_engine_facts {
    struct ze_base base;
    int32_t type;
    uint8_t on_subdevice;
    uint32_t subdevice;
};

struct zes_memory_facts {
    struct ze_base base;
    int32_t type;
    uint8_t on_subdevice;
    uint32_t subdevice;
    int32_t location;
    uint64_t bytes;
    int32_t bus_bits, channels;
};

struct zes_memory_now {
    struct ze_base base;
    int32_t health;
    uint64_t free_bytes, bytes;
};

struct zes_process_now {
    struct ze_base base;
    uint32_t pid;
    uint64_t memory, shared;
    uint32_t engines;
};

_Static_assert(sizeof(struct zes_memory_facts) == 48, "zes_mem_properties_t");
_Static_assert(sizeof(struct zes_memory_now) == 40, "zes_mem_state_t");
_Static_assert(sizeof(struct zes_process_now) == 48, "zes_process_state_t");
_Static_assert(sizeof(struct ze_core_properties) == 368, "ze_device_properties_t");
_Static_assert(sizeof(struct zes_device_facts) == 776, "zes_device_properties_t");
_Static_assert(sizeof(struct zes_pci_facts) == 56, "zes_pci_properties_t");
_Static_assert(sizeof(struct zes_freq_facts) == 48, "zes_freq_properties_t");
_Static_assert(sizeof(struct zes_freq_now) == 64, "zes_freq_state_t");
_Static_assert(sizeof(struct zes_power_facts) == 40, "zes_power_properties_t");
_Static_assert(sizeof(struct zes_limit) == 48, "zes_power_limit_ext_desc_t");

/* Object that a handle represents. */
enum zes_part {
    ZES_DEVICE,
    ZES_STACK_CLOCK_0,
    ZES_STACK_CLOCK_1,
    ZES_MEMORY_CLOCK,
    ZES_STACK_POWER_0,
    ZES_STACK_POWER_1,
    ZES_CARD_POWER,
    ZES_SENSOR,
    ZES_ENGINES,
    ZES_MEMORY,
    ZES_PARTS,
};

/* The address of this struct is the handle. */
struct zes_handle {
    enum zes_part part;
    const struct lull_driver_gpu *gpu;
};

#define ZES_EXPORT(name, ...)                                                                      \
    __attribute__((visibility("default"))) int name(__VA_ARGS__);                                  \
    int name(__VA_ARGS__)

#define ZES_ENTER(entry) LULL_DRIVER_ENTER(struct zes_handle, handle, entry)

/* Checks initialisation and the handle of the driver. */
int zes_enter_driver(const void *of);

/* Checks initialisation, the handle, its kind (first..last) and the output, and suffers get faults.
 */
int zes_enter(const void *handle, enum zes_part first, enum zes_part last, const void *output,
              const struct zes_handle **handle_out);

/* Does the same for an output structure, whose type must be set. */
int zes_enter_struct(const void *handle, enum zes_part first, enum zes_part last,
                     const void *output, uint32_t stype, const struct zes_handle **handle_out);

/* Does the same for set calls, which need permission. */
int zes_enter_root(const void *handle, enum zes_part first, enum zes_part last, const void *input,
                   const struct zes_handle **handle_out);

/* Ends a list call: a count of 0 asks how many items there are, and a larger one becomes their
 * number. */
void zes_give_count(uint32_t *count, uint32_t there);

/* Lists the parts first..last of a device. If count is too small for all, it gets the first ones.
 */
int zes_list_parts(const void *device, enum zes_part first, enum zes_part last, uint32_t *count,
                   const void **parts);

#endif
