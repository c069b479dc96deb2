/*
 * Level Zero's Sysman opened: the part of its ABI that Lull uses, declared from its documentation,
 * and the cards of the node. For levelzero*.c alone. Threads: opening and closing one; the rest is
 * fixed in between, except the meters, which their mutex guards.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_DEVICE_LEVELZERO_LIBRARY_H
#define LULL_DEVICE_LEVELZERO_LIBRARY_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "device/library.h"

/* ABI of zes_api.h (1.17): int results, opaque handles, structures that begin with their type. */
enum {
    ZE_OK = 0,
    ZE_UNINITIALIZED = 0x78000001,
    ZE_UNSUPPORTED_FEATURE = 0x78000003,
    ZE_TYPE_DEVICE_PROPERTIES = 3,
    ZE_DEVICE_GPU = 1,
    ZE_FLAG_INTEGRATED = 1,
    ZES_TYPE_DEVICE_PROPERTIES = 1,
    ZES_TYPE_PCI_PROPERTIES = 2,
    ZES_TYPE_ENGINE_PROPERTIES = 5,
    ZES_TYPE_FREQUENCY_PROPERTIES = 9,
    ZES_TYPE_POWER_PROPERTIES = 0xd,
    ZES_TYPE_TEMPERATURE_PROPERTIES = 0x14,
    ZES_TYPE_PROCESS_STATE = 0x16,
    ZES_TYPE_FREQUENCY_STATE = 0x1b,
    ZES_TYPE_POWER_LIMIT = 0x27,
    ZES_FREQUENCY_GPU = 0,
    ZES_FREQUENCY_MEMORY = 1,
    ZES_LEVEL_SUSTAINED = 1,
    ZES_UNIT_POWER = 2,
    ZES_SENSOR_GLOBAL = 0,
    ZES_SENSOR_GPU = 1,
    ZES_ENGINE_ALL = 0,
    ZES_ENGINE_COMPUTE_ALL = 1,
    ZES_MAX_DOMAINS = 8,
    ZES_MAX_LIMITS = 8,
};

struct zes_head { /* every structure starts with it */
    uint32_t type;
    void *next;
};

struct zes_device_properties {
    struct zes_head head;
    struct {
        struct zes_head head;
        uint32_t type;
        uint32_t vendor_id;
        uint32_t device_id;
        uint32_t flags;
        uint32_t unused[16]; /* sizes and counts, which Lull does not read */
        uint8_t uuid[16];
        char name[256];
    } core;
    uint32_t subdevice_count;
    char serial_number[64];
    char board_number[64];
    char brand_name[64];
    char model_name[64];
    char vendor_name[64];
    char driver_version[64];
};

struct zes_pci_properties {
    struct zes_head head;
    uint32_t domain, bus, device, function;
    int32_t generation, width;
    int64_t bytes_per_s;
    uint8_t has[3];
};

struct zes_process {
    struct zes_head head;
    uint32_t pid;
    uint64_t memory_bytes;
    uint64_t shared_bytes;
    uint32_t engines; /* a bit for each kind of engine in use */
};

struct zes_frequency_properties {
    struct zes_head head;
    int32_t kind;
    uint8_t is_on_subdevice;
    uint32_t subdevice;
    uint8_t can_control;
    uint8_t has_throttle_event;
    double min_mhz;
    double max_mhz;
};

struct zes_frequency_range {
    double min_mhz;
    double max_mhz;
};

struct zes_frequency_state {
    struct zes_head head;
    double volts;
    double request_mhz;
    double tdp_mhz;
    double efficient_mhz;
    double actual_mhz; /* 0: the stack sleeps; below 0: unknown */
    uint32_t reasons;
};

struct zes_power_properties {
    struct zes_head head;
    uint8_t is_on_subdevice;
    uint32_t subdevice;
    uint8_t can_control;
    uint8_t has_threshold;
    int32_t default_mw; /* -1: unknown */
    int32_t min_mw;
    int32_t max_mw;
};

struct zes_counter { /* energy in uJ, or activity in us, and the time of the reading in us */
    uint64_t value;
    uint64_t time_us;
};

struct zes_power_limit {
    struct zes_head head;
    int32_t level;
    int32_t source;
    int32_t unit;
    uint8_t is_enabled_locked;
    uint8_t is_enabled;
    uint8_t is_interval_locked;
    int32_t interval_ms;
    uint8_t is_limit_locked;
    int32_t limit;
};

struct zes_part_properties { /* the common members of the properties of temperature sensors and
                                engines */
    struct zes_head head;
    int32_t kind;
    uint8_t is_on_subdevice;
    uint32_t subdevice;
    double unused[2];
};

_Static_assert(sizeof(struct zes_device_properties) == 776, "zes_device_properties_t");
_Static_assert(offsetof(struct zes_device_properties, core.uuid) == 16 + 96, "its uuid");
_Static_assert(sizeof(struct zes_pci_properties) == 56, "zes_pci_properties_t");
_Static_assert(sizeof(struct zes_frequency_properties) == 48, "zes_freq_properties_t");
_Static_assert(sizeof(struct zes_frequency_state) == 64, "zes_freq_state_t");
_Static_assert(sizeof(struct zes_power_properties) == 40, "zes_power_properties_t");
_Static_assert(sizeof(struct zes_power_limit) == 48, "zes_power_limit_ext_desc_t");

typedef int zes_call_init(uint32_t flags);
typedef int zes_call_list(uint32_t *count, void **handles);
typedef int zes_call_list_of(void *parent, uint32_t *count, void **handles);
typedef int zes_call_info(void *handle, struct zes_head *info);
typedef int zes_call_clocks(void *domain, uint32_t *count, double *mhz);
typedef int zes_call_range(void *domain, const struct zes_frequency_range *range);
typedef int zes_call_counter(void *handle, struct zes_counter *counter);
typedef int zes_call_limits(void *domain, uint32_t *count, struct zes_power_limit *limits);
typedef int zes_call_processes(void *device, uint32_t *count, struct zes_process *processes);
typedef int zes_call_temperature(void *sensor, double *celsius);

/* A counter with its rate: how much it has grown per microsecond between the two latest readings.
 */
struct zes_meter {
    struct zes_counter latest;
    bool has_latest;
    bool has_rate;
    double rate;
};

struct zes_card {
    struct zes_device_properties properties;
    void *device;
    bool is_known; /* its properties are, and it is a card */
    int failure;   /* the code of the first call for its parts that failed; ZE_OK: they are known */
    uint32_t clock_count;
    void *clocks[ZES_MAX_DOMAINS]; /* one per stack, all set alike */
    bool can_control;
    void *memory_clock;
    uint32_t counter_count;
    void *counters[ZES_MAX_DOMAINS]; /* the counter of the card, or if absent those of its stacks */
    struct zes_power_properties power;
    void *temperature;
    void *engines;
    struct zes_meter power_meter;
    struct zes_meter engine_meter;
};

/* The functions that are bound: type, member, name in the library, and the name in older ones.
 * They are listed once, for the members of the table and for the names that fill them. */
#define LEVELZERO_CALLS(CALL)                                                                      \
    CALL(zes_call_init, init, "zesInit", NULL)                                                     \
    CALL(zes_call_list, drivers, "zesDriverGet", NULL)                                             \
    CALL(zes_call_list_of, devices, "zesDeviceGet", NULL)                                          \
    CALL(zes_call_info, device_properties, "zesDeviceGetProperties", NULL)                         \
    CALL(zes_call_info, pci_properties, "zesDevicePciGetProperties", NULL)                         \
    CALL(zes_call_processes, processes, "zesDeviceProcessesGetState", NULL)                        \
    CALL(zes_call_list_of, frequency_domains, "zesDeviceEnumFrequencyDomains", NULL)               \
    CALL(zes_call_info, frequency_properties, "zesFrequencyGetProperties", NULL)                   \
    CALL(zes_call_clocks, available_clocks, "zesFrequencyGetAvailableClocks", NULL)                \
    CALL(zes_call_range, set_range, "zesFrequencySetRange", NULL)                                  \
    CALL(zes_call_info, frequency_state, "zesFrequencyGetState", NULL)                             \
    CALL(zes_call_list_of, power_domains, "zesDeviceEnumPowerDomains", NULL)                       \
    CALL(zes_call_info, power_properties, "zesPowerGetProperties", NULL)                           \
    CALL(zes_call_counter, energy, "zesPowerGetEnergyCounter", NULL)                               \
    CALL(zes_call_limits, limits, "zesPowerGetLimitsExt", NULL)                                    \
    CALL(zes_call_limits, set_limits, "zesPowerSetLimitsExt", NULL)                                \
    CALL(zes_call_list_of, temperature_sensors, "zesDeviceEnumTemperatureSensors", NULL)           \
    CALL(zes_call_info, temperature_properties, "zesTemperatureGetProperties", NULL)               \
    CALL(zes_call_temperature, temperature, "zesTemperatureGetState", NULL)                        \
    CALL(zes_call_list_of, engine_groups, "zesDeviceEnumEngineGroups", NULL)                       \
    CALL(zes_call_info, engine_properties, "zesEngineGetProperties", NULL)                         \
    CALL(zes_call_counter, activity, "zesEngineGetActivity", NULL)

struct lull_levelzero {
    void *library;
    LEVELZERO_CALLS(LULL_LIBRARY_MEMBER)
    char library_name[256];
    pthread_mutex_t meters; /* guards the cards' meters */
    uint32_t card_count;
    struct zes_card cards[LULL_DEVICE_MAX_GPUS];
};

/* Finds the parts of a card again, if the library did not tell all of them. Returns its code. */
int lull_levelzero_open_card(struct lull_levelzero *levelzero, struct zes_card *card);

/* The vendor table's open and close; the state is a struct lull_levelzero. */
int lull_levelzero_open(void **state_out, uint32_t *count_out, struct lull_error *err);
void lull_levelzero_close(void *state);

#endif
