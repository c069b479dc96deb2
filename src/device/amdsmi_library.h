/*
 * AMD SMI opened: the part of its ABI that Lull uses, declared from its documentation, and the dies
 * of the node. For amdsmi*.c alone. Threads: opening and closing one; the rest is fixed in between,
 * except is_floor_set, which is the device writer's.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_DEVICE_AMDSMI_LIBRARY_H
#define LULL_DEVICE_AMDSMI_LIBRARY_H

#include <stdbool.h>
#include <stdint.h>

#include "device/library.h"

/*
 * ABI of amdsmi.h 24 to 27: int return codes, opaque handles. Structures only ever grew at their
 * end, except for power and the overdrive table; so each is read through the fields at its front,
 * in a buffer that is larger than any version of it.
 */
enum { ROOM_BYTES = 4096 };

struct amdsmi_clock_info { /* min and max are the bounds in force */
    uint32_t now_mhz;
    uint32_t min_mhz;
    uint32_t max_mhz;
};

struct amdsmi_power_cap_info {
    uint64_t cap_uw;
    uint64_t default_uw;
    uint64_t dpm_cap;
    uint64_t min_uw;
    uint64_t max_uw;
};

/* The fields between the two names of amdsmi_proc_info_t; four words or more follow the second
 * name. */
struct amdsmi_process {
    uint32_t pid;
    uint64_t memory_bytes;
    uint64_t graphics_ns, encoder_ns;
    uint32_t reserved_1[12];
    uint64_t gtt_bytes, cpu_bytes, vram_bytes;
    uint32_t reserved_2[10];
};

struct amdsmi_power_info { /* from version 25 on, it follows 8 bytes of another field */
    uint32_t current_w;
    uint32_t average_w;
};

struct amdsmi_enumeration_info {
    uint32_t drm_render;
    uint32_t drm_card;
    uint32_t hsa_id;
    uint32_t hip_id;
};

struct amdsmi_range {
    uint64_t low;
    uint64_t high;
    uint64_t reserved[2];
};

/* The ranges in force, of SM and memory first, and then those that are possible. Their number
 * depends on the version. */
struct amdsmi_od_info {
    struct amdsmi_range ranges[6];
};

union amdsmi_room {
    char bytes[ROOM_BYTES];
    char text[ROOM_BYTES];
    uint32_t words[ROOM_BYTES / 4];
    struct amdsmi_clock_info clock;
    struct amdsmi_power_cap_info cap;
    struct amdsmi_enumeration_info enumeration;
    struct amdsmi_od_info od;
};

typedef int amdsmi_call_init(uint64_t flags);
typedef int amdsmi_call_do(void);
typedef int amdsmi_call_list(uint32_t *count, void **handles);
typedef int amdsmi_call_list_of(void *socket, uint32_t *count, void **handles);
typedef int amdsmi_call_version(union amdsmi_room *version);
typedef int amdsmi_call_info(void *gpu, union amdsmi_room *info);
typedef int amdsmi_call_info_of(void *gpu, uint32_t which, union amdsmi_room *info);
typedef int amdsmi_call_number(void *gpu, uint64_t *value);
typedef int amdsmi_call_text(void *gpu, unsigned int *size, char *text);
typedef int amdsmi_call_energy(void *gpu, uint64_t *count, float *resolution_uj, uint64_t *time_ns);
typedef int amdsmi_call_temperature(void *gpu, int sensor, int metric, int64_t *celsius);
typedef int amdsmi_call_clock_limit(void *gpu, int clock, int limit, uint64_t mhz);
typedef int amdsmi_call_set(void *gpu, int value);
typedef int amdsmi_call_processes(void *gpu, uint32_t *count, void *list);
typedef int amdsmi_call_power_cap(void *gpu, uint32_t sensor, uint64_t uw);

enum {
    AMDSMI_SUCCESS = 0,
    AMDSMI_NOT_SUPPORTED = 2,
    AMDSMI_NOT_YET_IMPLEMENTED = 3,
    AMDSMI_BUSY = 30,
    AMDSMI_NOT_FOUND = 31,
    AMDSMI_INIT_GPUS = 2,
    AMDSMI_CLOCK_GFX = 0,
    AMDSMI_CLOCK_MEMORY = 4,
    AMDSMI_LIMIT_MIN = 0,
    AMDSMI_LIMIT_MAX = 1,
    AMDSMI_LEVEL_AUTO = 0,
    AMDSMI_TEMPERATURE_HOTSPOT = 1,
    AMDSMI_TEMPERATURE_CURRENT = 0,
    AMDSMI_UUID_SIZE = 38,
    AMDSMI_PROCESS_TAIL_BYTES_24 = 16, /* after the names of a process */
    AMDSMI_PROCESS_TAIL_BYTES = 48,    /* since version 25 */
    /* The step of the list of clocks that Lull makes. Any MHz may be requested. */
    CLOCK_STEP_MHZ = 20,
};

/* One die of a GPU, which the library shows as a processor. */
struct amdsmi_die {
    void *handle; /* NULL: the library has not opened it yet */
    void *socket;
    uint32_t hip_id;
    uint32_t lowest_mhz;
    uint32_t highest_mhz;
    bool is_floor_set; /* Lull has set the lower limit to the lowest clock */
    /* A module of two dies reports the power and energy of both dies on the first one. */
    uint32_t counter; /* the die whose counter includes this one */
    uint32_t sharers; /* number of dies in that counter */
};

/* The functions that are bound: type, member, name in the library, and the name in older ones.
 * They are listed once, for the members of the table and for the names that fill them. */
#define AMDSMI_CALLS(CALL)                                                                         \
    CALL(amdsmi_call_init, init, "amdsmi_init", NULL)                                              \
    CALL(amdsmi_call_do, shut_down, "amdsmi_shut_down", NULL)                                      \
    CALL(amdsmi_call_version, version, "amdsmi_get_lib_version", NULL)                             \
    CALL(amdsmi_call_list, sockets, "amdsmi_get_socket_handles", NULL)                             \
    CALL(amdsmi_call_list_of, processors, "amdsmi_get_processor_handles", NULL)                    \
    CALL(amdsmi_call_info, asic_info, "amdsmi_get_gpu_asic_info", NULL)                            \
    CALL(amdsmi_call_info, driver_info, "amdsmi_get_gpu_driver_info", NULL)                        \
    CALL(amdsmi_call_info, enumeration_info, "amdsmi_get_gpu_enumeration_info", NULL)              \
    CALL(amdsmi_call_info, od_info, "amdsmi_get_gpu_od_volt_info", NULL)                           \
    CALL(amdsmi_call_info, power_info, "amdsmi_get_power_info", NULL)                              \
    CALL(amdsmi_call_info, activity, "amdsmi_get_gpu_activity", NULL)                              \
    CALL(amdsmi_call_info_of, clock_info, "amdsmi_get_clock_info", NULL)                           \
    CALL(amdsmi_call_info_of, power_cap_info, "amdsmi_get_power_cap_info", NULL)                   \
    CALL(amdsmi_call_number, bdf, "amdsmi_get_gpu_device_bdf", NULL)                               \
    CALL(amdsmi_call_text, uuid, "amdsmi_get_gpu_device_uuid", NULL)                               \
    CALL(amdsmi_call_energy, energy, "amdsmi_get_energy_count", NULL)                              \
    CALL(amdsmi_call_temperature, temperature, "amdsmi_get_temp_metric", NULL)                     \
    CALL(amdsmi_call_processes, processes, "amdsmi_get_gpu_process_list", NULL)                    \
    CALL(amdsmi_call_clock_limit, set_clock_limit, "amdsmi_set_gpu_clk_limit", NULL)               \
    CALL(amdsmi_call_set, set_level, "amdsmi_set_gpu_perf_level", NULL)                            \
    CALL(amdsmi_call_power_cap, set_power_cap, "amdsmi_set_power_cap", NULL)

struct lull_amdsmi {
    void *library;
    AMDSMI_CALLS(LULL_LIBRARY_MEMBER)
    char library_name[256];
    char driver_version[96];
    uint32_t power_offset; /* number of words before struct amdsmi_power_info */
    uint32_t od_limits;    /* index of the possible SM range in the overdrive table; 0: unknown */
    uint32_t name_bytes;   /* of a process and its container in amdsmi_proc_info_t */
    uint32_t die_count;
    struct amdsmi_die dies[LULL_DEVICE_MAX_GPUS];
};

/* The vendor table's open and close; the state is a struct lull_amdsmi. */
int lull_amdsmi_open(void **state_out, uint32_t *count_out, struct lull_error *err);
void lull_amdsmi_close(void *state);

/* Opens a die if it is not open yet; returns the library's code. */
int lull_amdsmi_open_die(struct lull_amdsmi *amdsmi, uint32_t gpu);

/* Reads the energy that all dies of the module have drawn since the driver was loaded, in uJ.
 * Returns false if this die has no counter. */
bool lull_amdsmi_read_energy_uj(struct lull_amdsmi *amdsmi, const struct amdsmi_die *die,
                                double *energy_uj_out);

/* Writes the name of the product, or "" if the library does not know it. */
void lull_amdsmi_read_name(struct lull_amdsmi *amdsmi, const struct amdsmi_die *die, char *name,
                           size_t size);

#endif
