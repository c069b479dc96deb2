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
    NVML_UNKNOWN = 999,
};

enum { NVML_API_APPLICATION_CLOCKS = 0 }; /* calls that root may open to users */

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
    int32_t as_int;
    uint64_t as_ulonglong;
};

enum {
    NVML_VALUE_DOUBLE = 0,
    NVML_VALUE_UINT = 1,
    NVML_VALUE_ULONGLONG = 3,
    NVML_VALUE_INT = 5,
};

struct nvml_field {
    uint32_t id;
    uint32_t scope;
    int64_t time_us;
    int64_t latency_us;
    int32_t type;
    int32_t code;
    union nvml_value value;
};

struct nvml_gpm_sample;

struct nvml_gpm_metric {
    uint32_t id;
    int32_t code;
    double value;
    const char *names[3]; /* short and long name, unit; may be NULL */
};

struct nvml_gpm_request {
    uint32_t version;
    uint32_t count;
    struct nvml_gpm_sample *samples[2];
    struct nvml_gpm_metric metrics[]; /* as many as the client's release has ids */
};

struct nvml_gpm_support {
    uint32_t version;
    uint32_t is_supported;
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

struct nvml_branch {
    uint32_t version;
    char text[80];
};

struct nvml_cc_capabilities {
    uint32_t cpu;
    uint32_t gpus;
};

struct nvml_cc_state {
    uint32_t environment;
    uint32_t feature;
    uint32_t tools_mode;
};

struct nvml_cc_settings {
    uint32_t version;
    struct nvml_cc_state state;
    uint32_t multi_gpu_mode;
};

struct nvml_system_set;

struct nvml_system_set_request {
    uint32_t version;
    struct nvml_system_set *set;
};

struct nvml_system_register {
    uint32_t version;
    uint64_t types;
    struct nvml_system_set *set;
};

struct nvml_system_wait {
    uint32_t version;
    uint32_t timeout_ms;
    struct nvml_system_set *set;
    void *data;
    uint32_t data_size;
    uint32_t event_count;
};

struct nvml_ecc_counts {
    uint64_t counts[4]; /* L1, L2, device memory, registers */
};

struct nvml_sram_errors {
    uint32_t version;
    uint64_t counts[11];
    uint32_t is_threshold_exceeded;
};

struct nvml_sram_unique {
    uint32_t version;
    uint32_t count;
    void *entries;
};

struct nvml_remapped_rows {
    uint32_t counts[6]; /* corrected and uncorrected, each active and inactive; pending; failed */
};

struct nvml_row_banks {
    uint32_t unused; /* banks without a remapped row */
    uint32_t counts[4];
};

struct nvml_repair {
    uint32_t version;
    uint32_t is_channel_pending;
    uint32_t is_tpc_pending;
};

struct nvml_number {
    uint32_t version;
    uint32_t value;
};

struct nvml_margin {
    uint32_t version;
    int32_t value;
};

struct nvml_pdi {
    uint32_t version;
    uint64_t value;
};

struct nvml_licences {
    int32_t is_supported;
    uint32_t count;
};

struct nvml_thermal_settings {
    uint32_t count;
    struct {
        int32_t controller;
        int32_t min_c;
        int32_t max_c;
        int32_t now_c;
        int32_t target;
    } sensors[3];
};

struct nvml_domain_state {
    uint32_t is_present;
    uint32_t percent;
    uint32_t increase_percent;
    uint32_t decrease_percent;
};

struct nvml_dynamic_states {
    uint32_t flags;
    struct nvml_domain_state domains[8]; /* GPU, memory, video, bus */
};

struct nvml_modes_text {
    uint32_t version;
    char text[2048];
};

struct nvml_capture_stats {
    uint32_t counts[3];
};

struct nvml_fan_speed {
    uint32_t version;
    uint32_t fan;
    uint32_t rpm;
};

struct nvml_cooler {
    uint32_t version;
    uint32_t fan;
    int32_t signal;
    int32_t target;
};

struct nvml_accounting {
    uint32_t gpu_percent;
    uint32_t memory_percent;
    uint64_t most_memory_bytes;
    uint64_t time_ms;
    uint64_t start_us;
    uint32_t is_running;
    uint32_t reserved[5];
};

struct nvml_accounting_v2 {
    uint32_t pid;
    uint32_t is_running;
    uint32_t gpu_percent;
    uint32_t memory_percent;
    uint64_t most_memory_bytes;
    uint32_t sample_count;
    uint64_t gpu_sum;
    uint64_t memory_sum;
    uint64_t time_ms;
    uint64_t start_us;
};

struct nvml_process_sample {
    uint64_t time_us;
    uint32_t pid;
    uint32_t sm_percent;
    uint32_t memory_percent;
    uint32_t other_percent[4]; /* encoder, decoder, JPEG, optical flow */
};

struct nvml_utilization_list {
    uint32_t version;
    uint32_t count;
    uint64_t last_us;
    struct nvml_process_sample *samples;
};

struct nvml_fabric {
    uint8_t cluster[16];
    int32_t code;
    uint32_t clique;
    uint8_t state;
};

struct nvml_fabric_v3 {
    uint32_t version;
    struct nvml_fabric fabric;
    uint32_t health_mask;
    uint8_t health_summary;
};

struct nvml_fabric_v4 {
    uint8_t cluster[16];
    int32_t code;
    struct {
        uint8_t type;
        uint32_t id;
    } cliques[64];
    uint32_t clique_count;
    uint8_t state;
    uint32_t health_mask;
    uint8_t health_summary;
};

struct nvml_link_info {
    uint32_t version;
    uint32_t is_encrypted;
    struct {
        uint8_t type;
        uint32_t numbers[3];
    } firmware[100];
    uint32_t firmware_count;
};

struct nvml_platform {
    uint32_t version;
    uint8_t guid[16];
    uint8_t chassis[16];
    uint8_t slot;
    uint8_t tray;
    uint8_t host;
    uint8_t peer;
    uint8_t module;
};

struct nvml_mask { /* a bit for each of 255 */
    uint32_t words[8];
};

enum { NVML_WORKLOAD_PROFILES = 255 };

struct nvml_workload_profile {
    uint32_t version;
    uint32_t number;
    uint32_t priority; /* the lowest wins */
    struct nvml_mask excludes;
};

struct nvml_workload_profiles {
    uint32_t version;
    struct nvml_mask supported;
    struct nvml_workload_profile profiles[NVML_WORKLOAD_PROFILES];
};

struct nvml_workload_state {
    uint32_t version;
    struct nvml_mask supported;
    struct nvml_mask requested;
    struct nvml_mask enforced;
};

struct nvml_workload_request {
    uint32_t version;
    struct nvml_mask profiles;
};

struct nvml_workload_update { /* it has no version */
    int32_t operation;
    struct nvml_mask profiles;
};

struct nvml_smoothing_preset {
    uint32_t version;
    uint32_t preset;
    uint32_t parameter;
    double value;
};

struct nvml_smoothing_state {
    uint32_t version;
    int32_t is_enabled;
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
_Static_assert(sizeof(struct nvml_gpm_metric) == 40, "nvmlGpmMetric_t");
_Static_assert(sizeof(struct nvml_gpm_support) == 8, "nvmlGpmSupport_t");
_Static_assert(sizeof(struct nvml_sample) == 16, "nvmlSample_t");
_Static_assert(sizeof(struct nvml_power_value) == 12, "nvmlPowerValue_v2_t");
_Static_assert(sizeof(struct nvml_temperature) == 12, "nvmlTemperature_v1_t");
_Static_assert(sizeof(struct nvml_uuid) == 52, "nvmlUUID_v1_t");
_Static_assert(sizeof(struct nvml_event) == 32, "nvmlEventData_t");
_Static_assert(sizeof(struct nvml_memory_size) == 16, "nvmlConfComputeMemSizeInfo_t");
_Static_assert(sizeof(struct nvml_branch) == 84, "nvmlSystemDriverBranchInfo_v1_t");
_Static_assert(sizeof(struct nvml_cc_capabilities) == 8, "nvmlConfComputeSystemCaps_t");
_Static_assert(sizeof(struct nvml_cc_state) == 12, "nvmlConfComputeSystemState_t");
_Static_assert(sizeof(struct nvml_cc_settings) == 20, "nvmlSystemConfComputeSettings_v1_t");
_Static_assert(sizeof(struct nvml_system_set_request) == 16,
               "nvmlSystemEventSetCreateRequest_v1_t");
_Static_assert(sizeof(struct nvml_system_register) == 24, "nvmlSystemRegisterEventRequest_v1_t");
_Static_assert(sizeof(struct nvml_system_wait) == 32, "nvmlSystemEventSetWaitRequest_v1_t");
_Static_assert(sizeof(struct nvml_ecc_counts) == 32, "nvmlEccErrorCounts_t");
_Static_assert(sizeof(struct nvml_sram_errors) == 104, "nvmlEccSramErrorStatus_v1_t");
_Static_assert(sizeof(struct nvml_sram_unique) == 16,
               "nvmlEccSramUniqueUncorrectedErrorCounts_v1_t");
_Static_assert(sizeof(struct nvml_remapped_rows) == 24, "nvmlRemappedRowsInfo_v2_t");
_Static_assert(sizeof(struct nvml_row_banks) == 20, "nvmlRowRemapperHistogramValues_t");
_Static_assert(sizeof(struct nvml_repair) == 12, "nvmlRepairStatus_v1_t");
_Static_assert(sizeof(struct nvml_number) == 8, "nvmlDeviceAddressingMode_v1_t");
_Static_assert(sizeof(struct nvml_margin) == 8, "nvmlMarginTemperature_v1_t");
_Static_assert(sizeof(struct nvml_pdi) == 16, "nvmlPdi_v1_t");
_Static_assert(sizeof(struct nvml_thermal_settings) == 64, "nvmlGpuThermalSettings_t");
_Static_assert(sizeof(struct nvml_dynamic_states) == 132, "nvmlGpuDynamicPstatesInfo_t");
_Static_assert(sizeof(struct nvml_modes_text) == 2052, "nvmlDevicePerfModes_v1_t");
_Static_assert(sizeof(struct nvml_capture_stats) == 12, "nvmlFBCStats_t");
_Static_assert(sizeof(struct nvml_fan_speed) == 12, "nvmlFanSpeedInfo_v1_t");
_Static_assert(sizeof(struct nvml_cooler) == 16, "nvmlCoolerInfo_v1_t");
_Static_assert(sizeof(struct nvml_accounting) == 56, "nvmlAccountingStats_t");
_Static_assert(sizeof(struct nvml_accounting_v2) == 64, "nvmlAccountingStats_v2_t");
_Static_assert(sizeof(struct nvml_process_sample) == 40, "nvmlProcessUtilizationInfo_v1_t");
_Static_assert(sizeof(struct nvml_utilization_list) == 24, "nvmlProcessesUtilizationInfo_v1_t");
_Static_assert(sizeof(struct nvml_fabric) == 28, "nvmlGpuFabricInfo_t");
_Static_assert(sizeof(struct nvml_fabric_v3) == 40, "nvmlGpuFabricInfo_v3_t");
_Static_assert(sizeof(struct nvml_fabric_v4) == 548, "nvmlGpuFabricInfo_v4_t");
_Static_assert(sizeof(struct nvml_link_info) == 1612, "nvmlNvLinkInfo_v2_t");
_Static_assert(sizeof(struct nvml_platform) == 44, "nvmlPlatformInfo_v2_t");
_Static_assert(sizeof(struct nvml_smoothing_preset) == 24, "nvmlPowerSmoothingProfile_v1_t");
_Static_assert(sizeof(struct nvml_smoothing_state) == 8, "nvmlPowerSmoothingState_v1_t");
_Static_assert(sizeof(struct nvml_workload_profiles) == 11256,
               "nvmlWorkloadPowerProfileProfilesInfo_v1_t");
_Static_assert(sizeof(struct nvml_workload_state) == 100,
               "nvmlWorkloadPowerProfileCurrentProfiles_v1_t");
_Static_assert(sizeof(struct nvml_workload_request) == 36,
               "nvmlWorkloadPowerProfileRequestedProfiles_v1_t");
_Static_assert(sizeof(struct nvml_workload_update) == 36,
               "nvmlWorkloadPowerProfileUpdateProfiles_v1_t");

#endif
