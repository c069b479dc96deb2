/*
 * The parts of NVML's ABI that nvml.c uses: the types of its functions and the structures that they
 * fill, by NVIDIA's nvml.h. Threads: none. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_DEVICE_NVML_ABI_H
#define LULL_DEVICE_NVML_ABI_H

/* ABI of nvml.h (13.3): int return codes, opaque handles, a 40-byte field value. */
typedef int nvml_call_init(void);
typedef int nvml_call_text(char *text, unsigned int size);
typedef int nvml_call_count(unsigned int *count);
typedef int nvml_call_handle(unsigned int index, void **handle_out);
typedef int nvml_call_find(const char *uuid, void **handle_out);
typedef int nvml_call_device_text(void *device, char *text, unsigned int size);
typedef int nvml_call_device_value(void *device, unsigned int *value);
typedef int nvml_call_device_long(void *device, unsigned long long *value);
typedef int nvml_call_device_select(void *device, int which, unsigned int *value);
typedef int nvml_call_device_pair(void *device, unsigned int *first, unsigned int *second);
typedef int nvml_call_device_list(void *device, unsigned int *count, unsigned int *values);
typedef int nvml_call_device_list_of(void *device, unsigned int of, unsigned int *count,
                                     unsigned int *values);
typedef int nvml_call_device_set_pair(void *device, unsigned int first, unsigned int second);
typedef int nvml_call_device_set(void *device, unsigned int value);
typedef int nvml_call_device_do(void *device);
typedef int nvml_call_events_create(void **set_out);
typedef int nvml_call_events_free(void *set);
typedef int nvml_call_events_register(void *device, unsigned long long types, void *set);

struct lull_nvml_pci_info {
    char bus_id_legacy[16];
    unsigned int domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};

struct lull_nvml_utilization {
    unsigned int gpu_percent;
    unsigned int memory_percent;
};

struct nvml_field_value {
    unsigned int field;
    unsigned int scope;
    long long timestamp_us;
    long long latency_us;
    int value_type;
    int status;
    union {
        unsigned int u32;
        unsigned long long u64;
        double number;
    } value;
};

struct nvml_event {
    void *device;
    unsigned long long type;
    unsigned long long data;
    unsigned int gpu_instance;
    unsigned int compute_instance;
};

struct nvml_process { /* nvmlProcessInfo_t since version 2 */
    unsigned int pid;
    unsigned long long used_bytes;
    unsigned int gpu_instance;
    unsigned int compute_instance;
};

typedef int nvml_call_device_processes(void *device, unsigned int *count,
                                       struct nvml_process *processes);
typedef int nvml_call_events_wait(void *set, struct nvml_event *event, unsigned int timeout_ms);
typedef int nvml_call_device_pci(void *device, struct lull_nvml_pci_info *info);
typedef int nvml_call_device_utilization(void *device, struct lull_nvml_utilization *utilization);
typedef int nvml_call_device_fields(void *device, int count, struct nvml_field_value *values);

/* Masks of workload power profiles. Lull knows those of the first word. */
struct nvml_profile_mask {
    unsigned int words[8];
};

struct nvml_profile_state { /* nvmlWorkloadPowerProfileCurrentProfiles_v1_t */
    unsigned int version;
    struct nvml_profile_mask supported;
    struct nvml_profile_mask requested;
    struct nvml_profile_mask enforced;
};

struct nvml_profile_request { /* nvmlWorkloadPowerProfileRequestedProfiles_v1_t */
    unsigned int version;
    struct nvml_profile_mask profiles;
};

struct nvml_profile_update { /* nvmlWorkloadPowerProfileUpdateProfiles_v1_t has no version */
    int operation;
    struct nvml_profile_mask profiles;
};

typedef int nvml_call_profile_state(void *device, struct nvml_profile_state *state);
typedef int nvml_call_profile_request(void *device, struct nvml_profile_request *request);
typedef int nvml_call_profile_update(void *device, struct nvml_profile_update *update);

struct nvml_smoothing_preset { /* nvmlPowerSmoothingProfile_v1_t */
    unsigned int version;
    unsigned int preset;
    unsigned int parameter; /* 0 to 3 in the order of enum lull_smoothing_item */
    double value;           /* %, W/s, W/s, ms */
};

struct nvml_smoothing_state { /* nvmlPowerSmoothingState_v1_t */
    unsigned int version;
    int is_enabled;
};

typedef int nvml_call_smoothing_preset(void *device, struct nvml_smoothing_preset *preset);
typedef int nvml_call_smoothing_state(void *device, struct nvml_smoothing_state *state);

_Static_assert(sizeof(struct nvml_smoothing_preset) == 24, "nvmlPowerSmoothingProfile_v1_t");
_Static_assert(sizeof(struct nvml_smoothing_state) == 8, "nvmlPowerSmoothingState_v1_t");
_Static_assert(sizeof(struct nvml_profile_state) == 100,
               "nvmlWorkloadPowerProfileCurrentProfiles_v1_t");
_Static_assert(sizeof(struct nvml_profile_request) == 36,
               "nvmlWorkloadPowerProfileRequestedProfiles_v1_t");
_Static_assert(sizeof(struct nvml_profile_update) == 36,
               "nvmlWorkloadPowerProfileUpdateProfiles_v1_t");
_Static_assert(sizeof(struct lull_nvml_pci_info) == 68, "nvmlPciInfo_t");
_Static_assert(sizeof(struct nvml_field_value) == 40, "nvmlFieldValue_t");
_Static_assert(sizeof(struct nvml_event) == 32, "nvmlEventData_t");
_Static_assert(sizeof(struct nvml_process) == 24, "nvmlProcessInfo_v2_t");

#endif
