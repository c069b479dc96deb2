/*
 * The part of NVML's binary interface that the emulated driver library offers, declared from its
 * documentation: codes, structs, whose sizes are checked below, and handles.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_EMULATOR_NVML_ABI_H
#define LULL_EMULATOR_NVML_ABI_H

#include <stdint.h>

enum nvml_code {
    NVML_SUCCESS = 0,
    NVML_UNINITIALIZED = 1,
    NVML_INVALID_ARGUMENT = 2,
    NVML_NOT_SUPPORTED = 3,
    NVML_NO_PERMISSION = 4,
    NVML_NOT_FOUND = 6,
    NVML_INSUFFICIENT_SIZE = 7,
    NVML_DRIVER_NOT_LOADED = 9,
    NVML_TIMEOUT = 10,
    NVML_GPU_IS_LOST = 15,
    NVML_LIBRARY_MISMATCH = 18,
    NVML_MEMORY = 20,
    NVML_VERSION_MISMATCH = 25,
};

enum {
    NVML_EVENT_XID = 0x8,
    NVML_EVENT_MIG = 0x100,
};

enum {
    NVML_CLOCK_GRAPHICS = 0,
    NVML_CLOCK_SM = 1,
    NVML_CLOCK_MEMORY = 2,
    NVML_CLOCK_VIDEO = 3,
    NVML_CLOCK_ID_APPLICATION_DEFAULT = 2,
    NVML_PSTATE_UNKNOWN = 32,
};

#define NVML_CLOCK_LIMIT_TDP 0xffffff01u
#define NVML_CLOCK_LIMIT_UNLIMITED 0xffffff02u
#define NVML_VERSION_WORD(type, version) ((uint32_t)(sizeof(type) | ((version) << 24)))

typedef struct lull_nvml_gpu *nvmlDevice_t;

struct nvml_pci_info {
    char legacy_bus_id[16];
    uint32_t domain;
    uint32_t bus;
    uint32_t device;
    uint32_t device_id; /* device << 16 | vendor */
    uint32_t subsystem_id;
    char bus_id[32];
};

struct nvml_pci_info_ext {
    uint32_t version;
    uint32_t domain;
    uint32_t bus;
    uint32_t device;
    uint32_t device_id;
    uint32_t subsystem_id;
    uint32_t base_class;
    uint32_t sub_class;
    char bus_id[32];
};

struct nvml_utilization {
    uint32_t gpu_percent;
    uint32_t memory_percent;
};

struct nvml_memory {
    uint64_t total;
    uint64_t available;
    uint64_t used;
};

struct nvml_memory_v2 {
    uint32_t version;
    uint64_t total;
    uint64_t reserved;
    uint64_t available;
    uint64_t used;
};

struct nvml_process_v1 {
    uint32_t pid;
    uint64_t memory_bytes;
};

struct nvml_process_v2 {
    uint32_t pid;
    uint64_t memory_bytes;
    uint32_t gpu_instance;
    uint32_t compute_instance;
};

struct nvml_process_detail {
    struct nvml_process_v2 process;
    uint64_t protected_bytes;
};

struct nvml_process_list {
    uint32_t version;
    uint32_t mode;
    uint32_t count;
    struct nvml_process_detail *processes;
};

struct nvml_process_utilization {
    uint32_t pid;
    uint64_t time_us;
    uint32_t sm_percent;
    uint32_t memory_percent;
    uint32_t encoder_percent;
    uint32_t decoder_percent;
};

union nvml_value {
    double as_double;
    uint32_t as_uint;
    uint64_t as_ulonglong;
};

enum { NVML_VALUE_UINT = 1, NVML_VALUE_ULONGLONG = 3 };

struct nvml_field {
    uint32_t id;
    uint32_t scope;
    int64_t time_us;
    int64_t latency_us;
    int32_t type;
    int32_t code;
    union nvml_value value;
};

struct nvml_sample {
    uint64_t time_us;
    union nvml_value value;
};

struct nvml_violation {
    uint64_t reference_us;
    uint64_t violation_ns;
};

struct nvml_power_value {
    uint32_t version;
    uint8_t scope;
    uint32_t mw;
};

struct nvml_temperature {
    uint32_t version;
    int32_t sensor;
    int32_t celsius;
};

struct nvml_uuid {
    uint32_t version;
    uint32_t type; /* 1 text, 2 binary */
    char text[44];
};

struct nvml_attributes {
    uint32_t counts[8]; /* SMs, copy, decoder, encoder, jpeg, ofa, GPU slices, compute slices */
    uint64_t memory_mib;
};

struct nvml_event {
    nvmlDevice_t device;
    uint64_t type;
    uint64_t data;
    uint32_t gpu_instance;
    uint32_t compute_instance;
};

struct nvml_memory_size {
    uint64_t protected_kib;
    uint64_t unprotected_kib;
};

_Static_assert(sizeof(struct nvml_pci_info) == 68, "nvmlPciInfo_t");
_Static_assert(sizeof(struct nvml_pci_info_ext) == 64, "nvmlPciInfoExt_v1_t");
_Static_assert(sizeof(struct nvml_memory) == 24, "nvmlMemory_t");
_Static_assert(sizeof(struct nvml_memory_v2) == 40, "nvmlMemory_v2_t");
_Static_assert(sizeof(struct nvml_process_v1) == 16, "nvmlProcessInfo_v1_t");
_Static_assert(sizeof(struct nvml_process_v2) == 24, "nvmlProcessInfo_v2_t");
_Static_assert(sizeof(struct nvml_process_detail) == 32, "nvmlProcessDetail_v1_t");
_Static_assert(sizeof(struct nvml_process_list) == 24, "nvmlProcessDetailList_v1_t");
_Static_assert(sizeof(struct nvml_process_utilization) == 32, "nvmlProcessUtilizationSample_t");
_Static_assert(sizeof(struct nvml_field) == 40, "nvmlFieldValue_t");
_Static_assert(sizeof(struct nvml_sample) == 16, "nvmlSample_t");
_Static_assert(sizeof(struct nvml_power_value) == 12, "nvmlPowerValue_v2_t");
_Static_assert(sizeof(struct nvml_temperature) == 12, "nvmlTemperature_v1_t");
_Static_assert(sizeof(struct nvml_uuid) == 52, "nvmlUUID_v1_t");
_Static_assert(sizeof(struct nvml_attributes) == 40, "nvmlDeviceAttributes_t");
_Static_assert(sizeof(struct nvml_event) == 32, "nvmlEventData_t");
_Static_assert(sizeof(struct nvml_memory_size) == 16, "nvmlConfComputeMemSizeInfo_t");

#endif
