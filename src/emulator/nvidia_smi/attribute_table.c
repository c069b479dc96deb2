/*
 * The table of attributes and their readers. The names are those of --query-gpu and its sisters.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "emulator/nvidia_smi/attribute.h"

#define READER(name)                                                                               \
    static int name(const struct lull_smi_subject *subject,                                        \
                    const struct lull_smi_attribute *attribute, struct lull_smi_raw *raw_out)

/* ---- readers of one NVML function each ---- */

READER(read_text)
{
    return smi_nvml_get_text(subject->gpu->device, attribute->symbol, raw_out->text,
                             sizeof(raw_out->text));
}

READER(read_number)
{
    unsigned number = 0;
    const int code = smi_nvml_get_number(subject->gpu->device, attribute->symbol, &number);

    raw_out->number = number;
    return code;
}

READER(read_number_of)
{
    unsigned number = 0;
    const int code =
        smi_nvml_get_number_of(subject->gpu->device, attribute->symbol, attribute->which, &number);

    raw_out->number = number;
    return code;
}

/* Reads output `which` of a function that has `other` outputs. */
READER(read_output)
{
    unsigned numbers[4] = {0};
    const int code = smi_nvml_get_numbers(subject->gpu->device, attribute->symbol,
                                          (unsigned)attribute->other, numbers);

    raw_out->number = numbers[attribute->which];
    return code;
}

READER(read_ecc_total)
{
    uint64_t number = 0;
    const int code = smi_nvml_get_wide_of(subject->gpu->device, "nvmlDeviceGetTotalEccErrors",
                                          attribute->which, attribute->other, &number);

    raw_out->number = (int64_t)number;
    return code;
}

/* `which` is the location; `other` is 2 x type of error + counter. */
READER(read_ecc_location)
{
    uint64_t number = 0;
    const int code = smi_nvml_get_location(subject->gpu->device, "nvmlDeviceGetMemoryErrorCounter",
                                           attribute->other / 2, attribute->other % 2,
                                           attribute->which, &number);

    raw_out->number = (int64_t)number;
    return code;
}

static int read_reasons(const struct lull_smi_subject *subject, const char *symbol,
                        uint64_t *mask_out)
{
    return smi_nvml_get_wide(subject->gpu->device, symbol, mask_out);
}

READER(read_mask)
{
    uint64_t mask = 0;
    const int code = read_reasons(subject, attribute->symbol, &mask);

    raw_out->number = (int64_t)mask;
    return code;
}

READER(read_reason)
{
    uint64_t mask = 0;
    const int code = read_reasons(subject, attribute->symbol, &mask);

    raw_out->number = (mask & (uint64_t)attribute->which) != 0;
    return code;
}

enum { VALUE_INT = 5 }; /* NVML_VALUE_TYPE_SIGNED_INT */

/* Reads field `which` with scope `other`. */
READER(read_field)
{
    struct nvml_field field = {.id = (uint32_t)attribute->which,
                               .scope = (uint32_t)attribute->other};
    const int code = smi_nvml_get_field(subject->gpu->device, &field);

    if (field.type == NVML_VALUE_UINT)
        raw_out->number = field.value.as_uint;
    else if (field.type == VALUE_INT)
        raw_out->number = (int32_t)field.value.as_uint;
    else
        raw_out->number = (int64_t)field.value.as_ulonglong;
    return code;
}

/* ---- members of structs ---- */

enum { MEMORY_TOTAL, MEMORY_RESERVED, MEMORY_USED, MEMORY_FREE };

READER(read_memory)
{
    struct nvml_memory_v2 memory = {.version = NVML_VERSION_WORD(struct nvml_memory_v2, 2u)};
    const int code = smi_nvml_get_struct(subject->gpu->device, attribute->symbol, &memory);
    const uint64_t members[] = {memory.total, memory.reserved, memory.used, memory.available};

    raw_out->number = (int64_t)members[attribute->which];
    return code;
}

READER(read_bar1)
{
    struct nvml_memory memory = {0};
    const int code = smi_nvml_get_struct(subject->gpu->device, attribute->symbol, &memory);
    const uint64_t members[] = {memory.total, 0, memory.used, memory.available};

    raw_out->number = (int64_t)members[attribute->which];
    return code;
}

READER(read_utilization)
{
    struct nvml_utilization rates = {0};
    const int code = smi_nvml_get_struct(subject->gpu->device, attribute->symbol, &rates);

    raw_out->number = attribute->which == 0 ? rates.gpu_percent : rates.memory_percent;
    return code;
}

enum { PCI_BUS_ID, PCI_DOMAIN, PCI_BUS, PCI_DEVICE, PCI_DEVICE_ID, PCI_SUBSYSTEM_ID };

READER(read_pci)
{
    struct nvml_pci_info pci = {0};
    const int code = smi_nvml_get_struct(subject->gpu->device, "nvmlDeviceGetPciInfo_v3", &pci);
    const uint32_t members[] = {0,          pci.domain,    pci.bus,
                                pci.device, pci.device_id, pci.subsystem_id};

    raw_out->number = members[attribute->which];
    snprintf(raw_out->text, sizeof(raw_out->text), "%s", pci.bus_id);
    return code;
}

/* `which` is the class, or with 1 the subclass. */
READER(read_pci_class)
{
    struct nvml_pci_info_ext pci = {.version = NVML_VERSION_WORD(struct nvml_pci_info_ext, 1u)};
    const int code = smi_nvml_get_struct(subject->gpu->device, attribute->symbol, &pci);

    raw_out->number = attribute->which == 0 ? pci.base_class : pci.sub_class;
    return code;
}

/* Reads number `which` of a struct that consists of numbers. */
READER(read_histogram)
{
    unsigned banks[5] = {0};
    const int code = smi_nvml_get_struct(subject->gpu->device, attribute->symbol, banks);

    raw_out->number = banks[attribute->which];
    return code;
}

enum { SRAM_THRESHOLD = 11 };

/* `which` is the number of the counter in nvmlEccSramErrorStatus_v1_t. */
READER(read_sram)
{
    struct {
        uint32_t version;
        uint64_t counts[SRAM_THRESHOLD];
        uint32_t is_exceeded;
    } status = {.version = 0};
    int code;

    status.version = NVML_VERSION_WORD(status, 1u);
    code = smi_nvml_get_struct(subject->gpu->device, attribute->symbol, &status);
    if (attribute->which == SRAM_THRESHOLD)
        raw_out->number = status.is_exceeded;
    else
        raw_out->number = (int64_t)status.counts[attribute->which];
    return code;
}

enum { FABRIC_STATE, FABRIC_STATUS, FABRIC_CLIQUE };

READER(read_fabric)
{
    struct {
        uint8_t cluster[16];
        int32_t status;
        uint32_t clique;
        uint8_t state;
    } fabric = {.state = 0};
    const int code = smi_nvml_get_struct(subject->gpu->device, attribute->symbol, &fabric);
    const int64_t members[] = {fabric.state, fabric.status, fabric.clique};

    raw_out->number = members[attribute->which];
    snprintf(raw_out->text, sizeof(raw_out->text), "%s", smi_nvml_text(fabric.status));
    return code;
}

static int read_fabric_v3(const struct lull_smi_subject *subject, struct nvml_fabric_v3 *out)
{
    *out = (struct nvml_fabric_v3){.version = NVML_VERSION_WORD(struct nvml_fabric_v3, 3u)};
    return smi_nvml_get_struct(subject->gpu->device, "nvmlDeviceGetGpuFabricInfoV", out);
}

READER(read_cluster)
{
    struct nvml_fabric_v3 info;
    const int code = read_fabric_v3(subject, &info);
    size_t used = 0;

    (void)attribute;
    for (size_t i = 0; i < sizeof(info.fabric.cluster); i++)
        used +=
            (size_t)snprintf(raw_out->text + used, sizeof(raw_out->text) - used, "%s%02x",
                             i >= 4 && i <= 10 && i % 2 == 0 ? "-" : "", info.fabric.cluster[i]);
    return code;
}

/* `which` is the place of the two bits: 0 unknown, 1 true, 2 false. */
READER(read_health)
{
    static const char *const words[][4] = {{"", "Degraded", "Full", ""}, {"", "True", "False", ""}};
    struct nvml_fabric_v3 info;
    const int code = read_fabric_v3(subject, &info);
    const unsigned value = info.health_mask >> attribute->which & 3;

    if (code != NVML_SUCCESS)
        return code;
    snprintf(raw_out->text, sizeof(raw_out->text), "%s", words[attribute->which > 0][value]);
    return *raw_out->text == '\0' ? NVML_NOT_SUPPORTED : NVML_SUCCESS;
}

READER(read_health_summary)
{
    struct nvml_fabric_v3 info;
    const int code = read_fabric_v3(subject, &info);

    (void)attribute;
    if (code != NVML_SUCCESS)
        return code;
    snprintf(raw_out->text, sizeof(raw_out->text), "Healthy");
    return info.health_summary == 1 ? NVML_SUCCESS : NVML_NOT_SUPPORTED;
}

/* Reads the number of a struct that consists of a version and it. */
READER(read_versioned)
{
    struct {
        uint32_t version;
        int32_t number;
    } value = {.version = 0};
    int code;

    value.version = NVML_VERSION_WORD(value, 1u);
    code = smi_nvml_get_struct(subject->gpu->device, attribute->symbol, &value);
    raw_out->number = value.number;
    return code;
}

READER(read_pdi)
{
    struct {
        uint32_t version;
        uint64_t number;
    } value = {.version = 0};
    int code;

    value.version = NVML_VERSION_WORD(value, 1u);
    code = smi_nvml_get_struct(subject->gpu->device, attribute->symbol, &value);
    raw_out->number = (int64_t)value.number;
    return code;
}

READER(read_repair)
{
    struct {
        uint32_t version;
        uint32_t is_pending[2]; /* of a channel, of a TPC */
    } status = {.version = 0};
    int code;

    status.version = NVML_VERSION_WORD(status, 1u);
    code = smi_nvml_get_struct(subject->gpu->device, attribute->symbol, &status);
    raw_out->number = status.is_pending[attribute->which];
    return code;
}

enum {
    PLATFORM_GUID = -2,
    PLATFORM_CHASSIS,
    PLATFORM_SLOT,
    PLATFORM_TRAY,
    PLATFORM_HOST,
    PLATFORM_PEER,
    PLATFORM_MODULE
};

READER(read_platform)
{
    struct {
        uint32_t version;
        uint8_t guid[16];
        char chassis[16];
        uint8_t members[5];
    } platform = {.version = 0};
    int code;

    platform.version = NVML_VERSION_WORD(platform, 2u);
    code = smi_nvml_get_struct(subject->gpu->device, attribute->symbol, &platform);
    if (attribute->which == PLATFORM_GUID) {
        uint64_t guid;

        memcpy(&guid, platform.guid, sizeof(guid));
        snprintf(raw_out->text, sizeof(raw_out->text), "0x%016" PRIx64, guid);
    } else if (attribute->which == PLATFORM_CHASSIS) {
        snprintf(raw_out->text, sizeof(raw_out->text), "%.*s", (int)sizeof(platform.chassis),
                 platform.chassis);
    } else {
        raw_out->number = platform.members[attribute->which];
        if (code == NVML_SUCCESS && raw_out->number == UINT8_MAX)
            return NVML_NOT_SUPPORTED;
    }
    return code;
}

READER(read_text_of)
{
    return smi_nvml_get_text_of(subject->gpu->device, attribute->symbol, attribute->which,
                                raw_out->text, sizeof(raw_out->text));
}

READER(read_compute_capability)
{
    unsigned numbers[4] = {0};
    const int code = smi_nvml_get_numbers(subject->gpu->device, attribute->symbol, 2, numbers);

    snprintf(raw_out->text, sizeof(raw_out->text), "%u.%u", numbers[0], numbers[1]);
    return code;
}

/* `which` is the cause of the retirement. */
READER(read_retired)
{
    unsigned count = 0;
    const int code = smi_nvml_get_list_of(subject->gpu->device, attribute->symbol,
                                          (unsigned)attribute->which, &count, NULL);

    raw_out->number = count;
    return code == NVML_INSUFFICIENT_SIZE ? NVML_SUCCESS : code;
}

/* ---- the node, the query, its processes and clocks ---- */

READER(read_timestamp)
{
    struct timespec now;
    struct tm parts;
    size_t length;

    (void)subject;
    (void)attribute;
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &parts);
    length = strftime(raw_out->text, sizeof(raw_out->text), "%Y/%m/%d %H:%M:%S", &parts);
    snprintf(raw_out->text + length, sizeof(raw_out->text) - length, ".%03d",
             (int)(now.tv_nsec / 1000000));
    return NVML_SUCCESS;
}

READER(read_system_text)
{
    (void)subject;
    return smi_nvml_get_system_text(attribute->symbol, raw_out->text, sizeof(raw_out->text));
}

READER(read_gpu_count)
{
    (void)attribute;
    raw_out->number = subject->node->count;
    return NVML_SUCCESS;
}

READER(read_index)
{
    (void)attribute;
    raw_out->number = subject->gpu->index;
    return NVML_SUCCESS;
}

/* Reads what newer drivers do not report any more. */
READER(read_deprecated)
{
    enum { CODE = 26 };

    (void)subject;
    (void)attribute;
    (void)raw_out;
    return CODE;
}

/* Reads what GPUs of data centres report at rest, though no NVML function does. */
READER(read_constant)
{
    (void)subject;
    raw_out->number = attribute->which;
    snprintf(raw_out->text, sizeof(raw_out->text), "%s",
             attribute->symbol != NULL ? attribute->symbol : "");
    return NVML_SUCCESS;
}

/* Reads 0 on the architectures from `which` to `other`. */
READER(read_of_architecture)
{
    unsigned architecture = 0;

    smi_nvml_get_number(subject->gpu->device, "nvmlDeviceGetArchitecture", &architecture);
    raw_out->number = 0;
    return (int)architecture >= attribute->which && (int)architecture <= attribute->other
               ? NVML_SUCCESS
               : NVML_NOT_SUPPORTED;
}

/* No page is retired. */
READER(read_retired_list)
{
    const struct lull_smi_attribute *const count =
        smi_attribute_find(smi_gpu_attributes, attribute->symbol, strlen(attribute->symbol));

    return count->read(subject, count, raw_out);
}

/* Where the GPU has power smoothing, captures show this even to root. */
READER(read_smoothing)
{
    const int code = read_field(subject, attribute, raw_out);

    return code == NVML_SUCCESS ? NVML_NO_PERMISSION : code;
}

/* Drivers before 580 report the mode, but not by a function of NVML. */
READER(read_addressing)
{
    enum { ATS = 2 };
    const int code = read_versioned(subject, attribute, raw_out);
    unsigned is_coherent = 0;

    if (code != SMI_FUNCTION_NOT_FOUND)
        return code;
    smi_nvml_get_number(subject->gpu->device, "nvmlDeviceGetC2cModeInfoV", &is_coherent);
    raw_out->number = is_coherent != 0 ? ATS : 0;
    return NVML_SUCCESS;
}

/* The margin to the highest temperature; drivers before 570 have only the thresholds' margins. */
READER(read_margin)
{
    enum { HIGHEST = 3 };
    const struct lull_smi_attribute slowdown = {.which = 194};
    unsigned highest = 0;
    unsigned now = 0;
    int code = read_versioned(subject, attribute, raw_out);

    if (code != SMI_FUNCTION_NOT_FOUND)
        return code;
    code = read_field(subject, &slowdown, raw_out);
    smi_nvml_get_number_of(subject->gpu->device, "nvmlDeviceGetTemperatureThreshold", HIGHEST,
                           &highest);
    smi_nvml_get_number_of(subject->gpu->device, "nvmlDeviceGetTemperature", 0, &now);
    raw_out->number = (int64_t)highest - (int64_t)now;
    return code;
}

/* Reads what no NVML function reports, or what GPUs of data centres lack. */
READER(read_nothing)
{
    (void)subject;
    (void)attribute;
    (void)raw_out;
    return NVML_NOT_SUPPORTED;
}

READER(read_pid)
{
    (void)attribute;
    raw_out->number = subject->process->pid;
    return NVML_SUCCESS;
}

READER(read_process_name)
{
    (void)attribute;
    return smi_nvml_get_process_name(subject->process->pid, raw_out->text, sizeof(raw_out->text));
}

READER(read_process_memory)
{
    (void)attribute;
    raw_out->number = (int64_t)subject->process->memory_bytes;
    return subject->process->memory_bytes == UINT64_MAX ? NVML_NOT_SUPPORTED : NVML_SUCCESS;
}

READER(read_pair_clock)
{
    raw_out->number = attribute->which == 0 ? subject->memory_mhz : subject->graphics_mhz;
    return NVML_SUCCESS;
}

/* ---- tables ---- */

#define REASONS "nvmlDeviceGetCurrentClocksEventReasons"
#define REASON(suffix, bit)                                                                        \
    {                                                                                              \
        "clocks_event_reasons." suffix, "clocks_throttle_reasons." suffix, SMI_ACTIVE,             \
            read_reason, REASONS, bit, 0                                                           \
    }

#define ECC_COUNTERS(prefix, type, counter)                                                        \
    {                                                                                              \
        prefix ".device_memory", NULL, SMI_COUNT, read_ecc_location, NULL, 2,                      \
        2 * (type) + (counter)},                                                                   \
        {prefix ".dram", NULL, SMI_COUNT, read_ecc_location, NULL, 2, 2 * (type) + (counter)},     \
        {prefix ".register_file", NULL, SMI_COUNT, read_ecc_location, NULL, 3,                     \
         2 * (type) + (counter)},                                                                  \
        {prefix ".l1_cache", NULL, SMI_COUNT, read_ecc_location, NULL, 0, 2 * (type) + (counter)}, \
        {prefix ".l2_cache", NULL, SMI_COUNT, read_ecc_location, NULL, 1, 2 * (type) + (counter)}, \
        {prefix ".texture_memory", NULL, SMI_COUNT, read_ecc_location, NULL, 4,                    \
         2 * (type) + (counter)},                                                                  \
        {prefix ".cbu", NULL, SMI_COUNT, read_ecc_location, NULL, 6, 2 * (type) + (counter)},      \
        {prefix ".sram", NULL, SMI_COUNT, read_ecc_location, NULL, 7, 2 * (type) + (counter)},     \
    {                                                                                              \
        prefix ".total", NULL, SMI_COUNT, read_ecc_total, NULL, type, counter                      \
    }

#define CLOCKS(suffix, short_suffix, which)                                                        \
    {"clocks.current." suffix,                                                                     \
     "clocks." short_suffix,                                                                       \
     SMI_MHZ,                                                                                      \
     read_number_of,                                                                               \
     "nvmlDeviceGetClockInfo",                                                                     \
     which,                                                                                        \
     0},                                                                                           \
        {"clocks.max." suffix,                                                                     \
         "clocks.max." short_suffix,                                                               \
         SMI_MHZ,                                                                                  \
         read_number_of,                                                                           \
         "nvmlDeviceGetMaxClockInfo",                                                              \
         which,                                                                                    \
         0},                                                                                       \
        {"clocks.applications." suffix,                                                            \
         "clocks.applications." short_suffix,                                                      \
         SMI_MHZ,                                                                                  \
         read_number_of,                                                                           \
         "nvmlDeviceGetApplicationsClock",                                                         \
         which,                                                                                    \
         0},                                                                                       \
    {                                                                                              \
        "clocks.default_applications." suffix, "clocks.default_applications." short_suffix,        \
            SMI_MHZ, read_number_of, "nvmlDeviceGetDefaultApplicationsClock", which, 0             \
    }

#define STATS(name, function)                                                                      \
    {name ".sessionCount", NULL, SMI_COUNT, read_output, function, 0, 3},                          \
        {name ".averageFps", NULL, SMI_COUNT, read_output, function, 1, 3},                        \
    {                                                                                              \
        name ".averageLatency", NULL, SMI_COUNT, read_output, function, 2, 3                       \
    }

/* Power readings of NVML's field ids; scope 0 is the GPU, 1 the module. */
#define POWER_FIELDS(prefix, average, instant, scope)                                              \
    {prefix "power.draw.average", average, SMI_MILLIWATTS, read_field, NULL, 185, scope},          \
    {                                                                                              \
        prefix "power.draw.instant", instant, SMI_MILLIWATTS, read_field, NULL, 186, scope         \
    }

#define NOTHING_IN(form, name)                                                                     \
    {                                                                                              \
        name, NULL, form, read_nothing, NULL, 0, 0                                                 \
    }
#define NOTHING(name)                                                                              \
    {                                                                                              \
        name, NULL, SMI_TEXT, read_nothing, NULL, 0, 0                                             \
    }
#define SRAM(name, which)                                                                          \
    {                                                                                              \
        name, NULL, SMI_COUNT, read_sram, "nvmlDeviceGetSramEccErrorStatus", which, 0              \
    }
#define HISTOGRAM(name, which)                                                                     \
    {                                                                                              \
        "remapped_rows.histogram." name, NULL, SMI_COUNT, read_histogram,                          \
            "nvmlDeviceGetRowRemapperHistogram", which, 0                                          \
    }
#define REASON_COUNTER(name, field)                                                                \
    {                                                                                              \
        "clocks_event_reasons_counters." name, NULL, SMI_NANOSECONDS, read_field, NULL, field, 0   \
    }
#define PLATFORM(name, form, which)                                                                \
    {                                                                                              \
        "platform." name, NULL, form, read_platform, "nvmlDeviceGetPlatformInfo", which, 0         \
    }
#define FABRIC "nvmlDeviceGetGpuFabricInfo"

const struct lull_smi_attribute smi_gpu_attributes[] = {
    {"timestamp", NULL, SMI_TEXT, read_timestamp, NULL, 0, 0},
    {"driver_version", NULL, SMI_TEXT, read_system_text, "nvmlSystemGetDriverVersion", 0, 0},
    {"count", NULL, SMI_COUNT, read_gpu_count, NULL, 0, 0},
    {"name", "gpu_name", SMI_TEXT, read_text, "nvmlDeviceGetName", 0, 0},
    {"serial", "gpu_serial", SMI_TEXT, read_text, "nvmlDeviceGetSerial", 0, 0},
    {"uuid", "gpu_uuid", SMI_TEXT, read_text, "nvmlDeviceGetUUID", 0, 0},
    {"pci.bus_id", "gpu_bus_id", SMI_TEXT, read_pci, NULL, PCI_BUS_ID, 0},
    {"pci.domain", NULL, SMI_HEX_4, read_pci, NULL, PCI_DOMAIN, 0},
    {"pci.bus", NULL, SMI_HEX_2, read_pci, NULL, PCI_BUS, 0},
    {"pci.device", NULL, SMI_HEX_2, read_pci, NULL, PCI_DEVICE, 0},
    {"pci.device_id", NULL, SMI_HEX_8, read_pci, NULL, PCI_DEVICE_ID, 0},
    {"pci.sub_device_id", NULL, SMI_HEX_8, read_pci, NULL, PCI_SUBSYSTEM_ID, 0},
    {"pci.baseClass", NULL, SMI_HEX, read_pci_class, "nvmlDeviceGetPciInfoExt", 0, 0},
    {"pci.subClass", NULL, SMI_HEX, read_pci_class, "nvmlDeviceGetPciInfoExt", 1, 0},
    {"pcie.link.gen.current", NULL, SMI_COUNT, read_number, "nvmlDeviceGetCurrPcieLinkGeneration",
     0, 0},
    {"pcie.link.gen.gpucurrent", NULL, SMI_COUNT, read_number,
     "nvmlDeviceGetCurrPcieLinkGeneration", 0, 0},
    {"pcie.link.gen.max", NULL, SMI_COUNT, read_number, "nvmlDeviceGetMaxPcieLinkGeneration", 0, 0},
    {"pcie.link.gen.gpumax", NULL, SMI_COUNT, read_number, "nvmlDeviceGetGpuMaxPcieLinkGeneration",
     0, 0},
    {"pcie.link.gen.hostmax", NULL, SMI_COUNT, read_number, "nvmlDeviceGetMaxPcieLinkGeneration", 0,
     0},
    {"pcie.link.width.current", NULL, SMI_COUNT, read_number, "nvmlDeviceGetCurrPcieLinkWidth", 0,
     0},
    {"pcie.link.width.max", NULL, SMI_COUNT, read_number, "nvmlDeviceGetMaxPcieLinkWidth", 0, 0},
    {"index", NULL, SMI_COUNT, read_index, NULL, 0, 0},
    {"display_mode", NULL, SMI_ENABLED, read_number, "nvmlDeviceGetDisplayMode", 0, 0},
    {"display_attached", NULL, SMI_YES_NO, read_number, "nvmlDeviceGetDisplayMode", 0, 0},
    {"display_active", NULL, SMI_ENABLED, read_number, "nvmlDeviceGetDisplayActive", 0, 0},
    {"persistence_mode", NULL, SMI_ENABLED, read_number, "nvmlDeviceGetPersistenceMode", 0, 0},
    {"addressing_mode", NULL, SMI_ADDRESSING, read_addressing, "nvmlDeviceGetAddressingMode", 0, 0},
    {"accounting.mode", NULL, SMI_ENABLED, read_number, "nvmlDeviceGetAccountingMode", 0, 0},
    {"accounting.buffer_size", NULL, SMI_COUNT, read_number, "nvmlDeviceGetAccountingBufferSize", 0,
     0},
    {"driver_model.current", NULL, SMI_TEXT, read_nothing, NULL, 0, 0},
    {"driver_model.pending", NULL, SMI_TEXT, read_nothing, NULL, 0, 0},
    {"vbios_version", NULL, SMI_TEXT, read_text, "nvmlDeviceGetVbiosVersion", 0, 0},
    {"inforom.img", "inforom.image", SMI_TEXT, read_text, "nvmlDeviceGetInforomImageVersion", 0, 0},
    {"inforom.oem", NULL, SMI_TEXT, read_text_of, "nvmlDeviceGetInforomVersion", 0, 0},
    {"inforom.ecc", NULL, SMI_TEXT, read_text_of, "nvmlDeviceGetInforomVersion", 1, 0},
    {"inforom.pwr", "inforom.power", SMI_TEXT, read_text_of, "nvmlDeviceGetInforomVersion", 2, 0},
    NOTHING("inforom.checksum_validation"),
    {"gpu_recovery_action", NULL, SMI_RECOVERY, read_field, NULL, 230, 0},
    {"reset_status.reset_required", NULL, SMI_YES_NO, read_constant, NULL, 0, 0},
    {"reset_status.drain_and_reset_recommended", NULL, SMI_YES_NO, read_constant, NULL, 0, 0},
    {"gom.current", "gpu_operation_mode.current", SMI_TEXT, read_nothing, NULL, 0, 0},
    {"gom.pending", "gpu_operation_mode.pending", SMI_TEXT, read_nothing, NULL, 0, 0},
    {"fan.speed", NULL, SMI_PERCENT, read_number, "nvmlDeviceGetFanSpeed", 0, 0},
    {"pstate", NULL, SMI_PSTATE, read_number, "nvmlDeviceGetPerformanceState", 0, 0},
    {"clocks_event_reasons.supported", "clocks_throttle_reasons.supported", SMI_HEX_16, read_mask,
     "nvmlDeviceGetSupportedClocksEventReasons", 0, 0},
    {"clocks_event_reasons.active", "clocks_throttle_reasons.active", SMI_HEX_16, read_mask,
     REASONS, 0, 0},
    REASON("gpu_idle", 0x1),
    REASON("applications_clocks_setting", 0x2),
    REASON("sw_power_cap", 0x4),
    REASON("hw_slowdown", 0x8),
    REASON("hw_thermal_slowdown", 0x40),
    REASON("hw_power_brake_slowdown", 0x80),
    REASON("sw_thermal_slowdown", 0x20),
    REASON("sync_boost", 0x10),
    REASON_COUNTER("sw_power_cap", 74),
    REASON_COUNTER("sync_boost", 76),
    REASON_COUNTER("sw_thermal_slowdown", 269),
    REASON_COUNTER("hw_thermal_slowdown", 270),
    REASON_COUNTER("hw_power_brake_slowdown", 271),
    {"memory.total", NULL, SMI_BYTES, read_memory, "nvmlDeviceGetMemoryInfo_v2", MEMORY_TOTAL, 0},
    {"memory.reserved", NULL, SMI_BYTES, read_memory, "nvmlDeviceGetMemoryInfo_v2", MEMORY_RESERVED,
     0},
    {"memory.used", NULL, SMI_BYTES, read_memory, "nvmlDeviceGetMemoryInfo_v2", MEMORY_USED, 0},
    {"memory.free", NULL, SMI_BYTES, read_memory, "nvmlDeviceGetMemoryInfo_v2", MEMORY_FREE, 0},
    {"protected_memory.total", NULL, SMI_BYTES, read_bar1,
     "nvmlDeviceGetConfComputeProtectedMemoryUsage", MEMORY_TOTAL, 0},
    {"protected_memory.used", NULL, SMI_BYTES, read_bar1,
     "nvmlDeviceGetConfComputeProtectedMemoryUsage", MEMORY_USED, 0},
    {"protected_memory.free", NULL, SMI_BYTES, read_bar1,
     "nvmlDeviceGetConfComputeProtectedMemoryUsage", MEMORY_FREE, 0},
    {"compute_mode", NULL, SMI_COMPUTE_MODE, read_number, "nvmlDeviceGetComputeMode", 0, 0},
    {"compute_cap", NULL, SMI_TEXT, read_compute_capability, "nvmlDeviceGetCudaComputeCapability",
     0, 0},
    {"utilization.gpu", NULL, SMI_PERCENT, read_utilization, "nvmlDeviceGetUtilizationRates", 0, 0},
    {"utilization.memory", NULL, SMI_PERCENT, read_utilization, "nvmlDeviceGetUtilizationRates", 1,
     0},
    {"utilization.encoder", NULL, SMI_PERCENT, read_output, "nvmlDeviceGetEncoderUtilization", 0,
     2},
    {"utilization.decoder", NULL, SMI_PERCENT, read_output, "nvmlDeviceGetDecoderUtilization", 0,
     2},
    {"utilization.jpeg", NULL, SMI_PERCENT, read_output, "nvmlDeviceGetJpgUtilization", 0, 2},
    {"utilization.ofa", NULL, SMI_PERCENT, read_output, "nvmlDeviceGetOfaUtilization", 0, 2},
    STATS("encoder.stats", "nvmlDeviceGetEncoderStats"),
    {"ecc.mode.current", NULL, SMI_ENABLED, read_output, "nvmlDeviceGetEccMode", 0, 2},
    {"ecc.mode.pending", NULL, SMI_ENABLED, read_output, "nvmlDeviceGetEccMode", 1, 2},
    ECC_COUNTERS("ecc.errors.corrected.volatile", 0, 0),
    ECC_COUNTERS("ecc.errors.corrected.aggregate", 0, 1),
    ECC_COUNTERS("ecc.errors.uncorrected.volatile", 1, 0),
    ECC_COUNTERS("ecc.errors.uncorrected.aggregate", 1, 1),
    SRAM("ecc.errors.uncorrected.volatile.sram.parity", 3),
    SRAM("ecc.errors.uncorrected.volatile.sram.secded", 4),
    SRAM("ecc.errors.uncorrected.aggregate.sram.parity", 0),
    SRAM("ecc.errors.uncorrected.aggregate.sram.secded", 1),
    {"ecc.errors.uncorrected.aggregate.sram.thresholdExceeded", NULL, SMI_YES_NO, read_sram,
     "nvmlDeviceGetSramEccErrorStatus", SRAM_THRESHOLD, 0},
    SRAM("ecc.errors.uncorrected.aggregate.sram.l2", 6),
    SRAM("ecc.errors.uncorrected.aggregate.sram.sm", 7),
    SRAM("ecc.errors.uncorrected.aggregate.sram.mcu", 9),
    SRAM("ecc.errors.uncorrected.aggregate.sram.pcie", 8),
    SRAM("ecc.errors.uncorrected.aggregate.sram.other", 10),
    {"retired_pages.single_bit_ecc.count", "retired_pages.sbe", SMI_COUNT, read_retired,
     "nvmlDeviceGetRetiredPages", 0, 0},
    {"retired_pages.double_bit.count", "retired_pages.dbe", SMI_COUNT, read_retired,
     "nvmlDeviceGetRetiredPages", 1, 0},
    {"retired_pages.pending", NULL, SMI_YES_NO, read_number,
     "nvmlDeviceGetRetiredPagesPendingStatus", 0, 0},
    {"remapped_rows.correctable", "remapped_rows.sbe", SMI_COUNT, read_output,
     "nvmlDeviceGetRemappedRows", 0, 4},
    {"remapped_rows.uncorrectable", "remapped_rows.dbe", SMI_COUNT, read_output,
     "nvmlDeviceGetRemappedRows", 1, 4},
    {"remapped_rows.pending", NULL, SMI_YES_NO, read_output, "nvmlDeviceGetRemappedRows", 2, 4},
    {"remapped_rows.failure", NULL, SMI_YES_NO, read_output, "nvmlDeviceGetRemappedRows", 3, 4},
    HISTOGRAM("max", 0),
    HISTOGRAM("high", 1),
    HISTOGRAM("partial", 2),
    HISTOGRAM("low", 3),
    HISTOGRAM("none", 4),
    {"temperature.gpu", NULL, SMI_CELSIUS, read_number_of, "nvmlDeviceGetTemperature", 0, 0},
    {"temperature.gpu.tlimit", NULL, SMI_CELSIUS, read_margin, "nvmlDeviceGetMarginTemperature", 0,
     0},
    {"temperature.memory", NULL, SMI_CELSIUS, read_field, NULL, 82, 0},
    {"power.management", NULL, SMI_SUPPORTED, read_number, "nvmlDeviceGetPowerManagementMode", 0,
     0},
    {"power.draw", NULL, SMI_MILLIWATTS, read_number, "nvmlDeviceGetPowerUsage", 0, 0},
    POWER_FIELDS("", "gpu.power.draw.average", "gpu.power.draw.instant", 0),
    POWER_FIELDS("module.", NULL, NULL, 1),
    {"module.power.limit", "module.power.requested_limit", SMI_MILLIWATTS, read_field, NULL, 192,
     1},
    {"module.enforced.power.limit", "module.power.current_limit", SMI_MILLIWATTS, read_field, NULL,
     190, 1},
    {"module.power.default_limit", NULL, SMI_MILLIWATTS, read_field, NULL, 189, 1},
    {"module.power.min_limit", NULL, SMI_MILLIWATTS, read_field, NULL, 187, 1},
    {"module.power.max_limit", NULL, SMI_MILLIWATTS, read_field, NULL, 188, 1},
    {"edpp_multiplier", NULL, SMI_RATIO, read_field, NULL, 274, 0},
    {"power.limit", "gpu.power.requested_limit", SMI_MILLIWATTS, read_number,
     "nvmlDeviceGetPowerManagementLimit", 0, 0},
    {"enforced.power.limit", "gpu.power.current_limit", SMI_MILLIWATTS, read_number,
     "nvmlDeviceGetEnforcedPowerLimit", 0, 0},
    {"power.default_limit", "gpu.power.default_limit", SMI_MILLIWATTS, read_number,
     "nvmlDeviceGetPowerManagementDefaultLimit", 0, 0},
    {"power.min_limit", "gpu.power.min_limit", SMI_MILLIWATTS, read_output,
     "nvmlDeviceGetPowerManagementLimitConstraints", 0, 2},
    {"power.max_limit", "gpu.power.max_limit", SMI_MILLIWATTS, read_output,
     "nvmlDeviceGetPowerManagementLimitConstraints", 1, 2},
    CLOCKS("graphics", "gr", NVML_CLOCK_GRAPHICS),
    CLOCKS("memory", "mem", NVML_CLOCK_MEMORY),
    {"clocks.current.sm", "clocks.sm", SMI_MHZ, read_number_of, "nvmlDeviceGetClockInfo",
     NVML_CLOCK_SM, 0},
    {"clocks.max.sm", NULL, SMI_MHZ, read_number_of, "nvmlDeviceGetMaxClockInfo", NVML_CLOCK_SM, 0},
    {"clocks.current.video", "clocks.video", SMI_MHZ, read_number_of, "nvmlDeviceGetClockInfo",
     NVML_CLOCK_VIDEO, 0},
    {"mig.mode.current", NULL, SMI_ENABLED, read_output, "nvmlDeviceGetMigMode", 0, 2},
    {"mig.mode.pending", NULL, SMI_ENABLED, read_output, "nvmlDeviceGetMigMode", 1, 2},
    {"gsp.mode.current", NULL, SMI_ENABLED, read_output, "nvmlDeviceGetGspFirmwareMode", 0, 2},
    {"gsp.mode.default", NULL, SMI_ENABLED, read_output, "nvmlDeviceGetGspFirmwareMode", 1, 2},
    {"c2c.mode", NULL, SMI_ENABLED, read_number, "nvmlDeviceGetC2cModeInfoV", 0, 0},
    {"fabric.state", NULL, SMI_FABRIC, read_fabric, FABRIC, FABRIC_STATE, 0},
    {"fabric.status", NULL, SMI_TEXT, read_fabric, FABRIC, FABRIC_STATUS, 0},
    {"fabric.cliqueId", NULL, SMI_COUNT, read_fabric, FABRIC, FABRIC_CLIQUE, 0},
    {"fabric.clusterUuid", NULL, SMI_TEXT, read_cluster, NULL, 0, 0},
    {"fabric.health.summary", NULL, SMI_TEXT, read_health_summary, NULL, 0, 0},
    {"fabric.health.bandwidth", NULL, SMI_TEXT, read_health, NULL, 0, 0},
    {"fabric.health.route_recovery_in_progress", NULL, SMI_TEXT, read_health, NULL, 2, 0},
    {"fabric.health.route_unhealthy", NULL, SMI_TEXT, read_health, NULL, 4, 0},
    {"fabric.health.access_timeout_recovery", NULL, SMI_TEXT, read_health, NULL, 6, 0},
    NOTHING("fabric.health.incorrect_configuration"),
    NOTHING("dramEncryption.mode.current"),
    NOTHING("dramEncryption.mode.pending"),
    PLATFORM("chassis_serial_number", SMI_TEXT, PLATFORM_CHASSIS),
    PLATFORM("slot_number", SMI_COUNT, PLATFORM_SLOT),
    PLATFORM("tray_index", SMI_COUNT, PLATFORM_TRAY),
    PLATFORM("host_id", SMI_COUNT, PLATFORM_HOST),
    PLATFORM("peer_type", SMI_PEER, PLATFORM_PEER),
    PLATFORM("module_id", SMI_COUNT, PLATFORM_MODULE),
    PLATFORM("gpu_fabric_guid", SMI_TEXT, PLATFORM_GUID),
    NOTHING("hostname"),
    NOTHING("power_smoothing.delayed_power_smoothing_supported"),
    NOTHING_IN(SMI_MILLIWATTS, "power_smoothing.primary_power_floor"),
    NOTHING_IN(SMI_MILLIWATTS, "power_smoothing.secondary_power_floor"),
    NOTHING_IN(SMI_MILLIWATTS, "power_smoothing.min_primary_floor_activation_offset"),
    NOTHING_IN(SMI_MILLIWATTS, "power_smoothing.min_primary_floor_activation_point"),
    NOTHING("power_smoothing.window_multiplier"),
    NOTHING_IN(SMI_MILLIWATTS, "power_smoothing.curr_profile.secondary_power_floor"),
    NOTHING("power_smoothing.curr_profile.primary_floor_act_window_multiplier"),
    NOTHING("power_smoothing.curr_profile.primary_floor_tar_window_multiplier"),
    NOTHING_IN(SMI_MILLIWATTS, "power_smoothing.curr_profile.primary_floor_act_offset"),
    NOTHING_IN(SMI_MILLIWATTS, "power_smoothing.admin_override.secondary_power_floor"),
    NOTHING("power_smoothing.admin_override.primary_floor_act_window_multiplier"),
    NOTHING("power_smoothing.admin_override.primary_floor_tar_window_multiplier"),
    NOTHING_IN(SMI_MILLIWATTS, "power_smoothing.admin_override.primary_floor_act_offset"),
    NOTHING("vgpu_device_capability.fractional_multiVgpu"),
    NOTHING("vgpu_device_capability.heterogeneous_timeSlice_profile"),
    NOTHING("vgpu_device_capability.heterogeneous_timeSlice_sizes"),
    NOTHING("vgpu_device_capability.homogeneous_placements"),
    NOTHING("vgpu_device_capability.mig_timeSlicing"),
    NOTHING("vgpu_device_capability.mig_timeSlicing_mode"),
    NOTHING("vgpu_driver_capability.heterogenous_multivGPU"),
    {NULL, NULL, SMI_TEXT, NULL, NULL, 0, 0},
};

enum { AMPERE = 7, HOPPER = 9 }; /* NVML's numbers of architectures */

/* What the report and the monitors show, and no query. */
const struct lull_smi_attribute smi_report_attributes[] = {
    REASON("display_clock_setting", 0x100),
    STATS("fbc.stats", "nvmlDeviceGetFBCStats"),
    {"pcie.replay_counter", NULL, SMI_COUNT, read_number, "nvmlDeviceGetPcieReplayCounter", 0, 0},
    {"pcie.replay_rollovers", NULL, SMI_COUNT, read_field, NULL, 95, 0},
    {"deprecated", NULL, SMI_TEXT, read_deprecated, NULL, 0, 0},
    {"mig.devices", NULL, SMI_TEXT, read_constant, "None", 0, 0},
    {"sparse_operation_mode", NULL, SMI_ENABLED, read_of_architecture, NULL, HOPPER, HOPPER},
    {"ecc.sram.sources", NULL, SMI_COUNT, read_of_architecture, NULL, AMPERE, INT_MAX},
    {"retired_pages.list", NULL, SMI_TEXT, read_retired_list, "retired_pages.double_bit.count", 0,
     0},
    {"unrepairable_memory", NULL, SMI_YES_NO, read_number, "nvmlDeviceGetUnrepairableMemoryFlag_v1",
     0, 0},
    {"remapped_rows.inactive", NULL, SMI_COUNT, read_constant, NULL, 0, 0},
    {"power_smoothing", NULL, SMI_TEXT, read_smoothing, NULL, 251, 0},
    {"pcie.tx_util", NULL, SMI_KBS, read_number_of, "nvmlDeviceGetPcieThroughput", 0, 0},
    {"pcie.rx_util", NULL, SMI_KBS, read_number_of, "nvmlDeviceGetPcieThroughput", 1, 0},
    {"minor_number", NULL, SMI_COUNT, read_number, "nvmlDeviceGetMinorNumber", 0, 0},
    {"module_id", NULL, SMI_COUNT, read_number, "nvmlDeviceGetModuleId", 0, 0},
    {"board_id", NULL, SMI_HEX, read_number, "nvmlDeviceGetBoardId", 0, 0},
    {"board_part_number", NULL, SMI_TEXT, read_text, "nvmlDeviceGetBoardPartNumber", 0, 0},
    {"multigpu_board", NULL, SMI_YES_NO, read_number, "nvmlDeviceGetMultiGpuBoard", 0, 0},
    {"brand", NULL, SMI_BRAND, read_number, "nvmlDeviceGetBrand", 0, 0},
    {"architecture", NULL, SMI_ARCHITECTURE, read_number, "nvmlDeviceGetArchitecture", 0, 0},
    {"virtualization_mode", NULL, SMI_VIRTUALIZATION, read_number,
     "nvmlDeviceGetVirtualizationMode", 0, 0},
    {"bar1.total", NULL, SMI_BYTES, read_bar1, "nvmlDeviceGetBAR1MemoryInfo", MEMORY_TOTAL, 0},
    {"bar1.used", NULL, SMI_BYTES, read_bar1, "nvmlDeviceGetBAR1MemoryInfo", MEMORY_USED, 0},
    {"bar1.free", NULL, SMI_BYTES, read_bar1, "nvmlDeviceGetBAR1MemoryInfo", MEMORY_FREE, 0},
    {"gsp_firmware_version", NULL, SMI_TEXT, read_text, "nvmlDeviceGetGspFirmwareVersion", 0, 0},
    {"temperature.limit.shutdown", NULL, SMI_CELSIUS, read_number_of,
     "nvmlDeviceGetTemperatureThreshold", 0, 0},
    {"temperature.limit.slowdown", NULL, SMI_CELSIUS, read_number_of,
     "nvmlDeviceGetTemperatureThreshold", 1, 0},
    {"temperature.limit.memory", NULL, SMI_CELSIUS, read_number_of,
     "nvmlDeviceGetTemperatureThreshold", 2, 0},
    {"temperature.limit.gpu", NULL, SMI_CELSIUS, read_number_of,
     "nvmlDeviceGetTemperatureThreshold", 3, 0},
    {"pdi", NULL, SMI_HEX, read_pdi, "nvmlDeviceGetPdi", 0, 0},
    {"repair.channel", NULL, SMI_YES_NO, read_repair, "nvmlDeviceGetRepairStatus", 0, 0},
    {"repair.tpc", NULL, SMI_YES_NO, read_repair, "nvmlDeviceGetRepairStatus", 1, 0},
    {"temperature.tlimit.shutdown", NULL, SMI_CELSIUS, read_field, NULL, 193, 0},
    {"temperature.tlimit.slowdown", NULL, SMI_CELSIUS, read_field, NULL, 194, 0},
    {"temperature.tlimit.memory", NULL, SMI_CELSIUS, read_field, NULL, 195, 0},
    {"temperature.tlimit.gpu", NULL, SMI_CELSIUS, read_field, NULL, 196, 0},
    {"power.memory.average", NULL, SMI_MILLIWATTS, read_field, NULL, 185, 2},
    {"power.memory.instant", NULL, SMI_MILLIWATTS, read_field, NULL, 186, 2},
    {"clocks.max.video", NULL, SMI_MHZ, read_number_of, "nvmlDeviceGetMaxClockInfo",
     NVML_CLOCK_VIDEO, 0},
    {"clocks.max_customer_boost.graphics", NULL, SMI_MHZ, read_number_of,
     "nvmlDeviceGetMaxCustomerBoostClock", NVML_CLOCK_GRAPHICS, 0},
    {NULL, NULL, SMI_TEXT, NULL, NULL, 0, 0},
};

#define QUERY_COMMON                                                                               \
    {"timestamp", NULL, SMI_TEXT, read_timestamp, NULL, 0, 0},                                     \
        {"gpu_name", NULL, SMI_TEXT, read_text, "nvmlDeviceGetName", 0, 0},                        \
        {"gpu_bus_id", NULL, SMI_TEXT, read_pci, NULL, PCI_BUS_ID, 0},                             \
        {"gpu_serial", NULL, SMI_TEXT, read_text, "nvmlDeviceGetSerial", 0, 0},                    \
    {                                                                                              \
        "gpu_uuid", NULL, SMI_TEXT, read_text, "nvmlDeviceGetUUID", 0, 0                           \
    }

const struct lull_smi_attribute smi_process_attributes[] = {
    QUERY_COMMON,
    {"pid", NULL, SMI_COUNT, read_pid, NULL, 0, 0},
    {"process_name", "name", SMI_TEXT, read_process_name, NULL, 0, 0},
    {"used_gpu_memory", "used_memory", SMI_BYTES, read_process_memory, NULL, 0, 0},
    {NULL, NULL, SMI_TEXT, NULL, NULL, 0, 0},
};

const struct lull_smi_attribute smi_clock_attributes[] = {
    QUERY_COMMON,
    {"memory", "mem", SMI_MHZ, read_pair_clock, NULL, 0, 0},
    {"graphics", "gr", SMI_MHZ, read_pair_clock, NULL, 1, 0},
    {NULL, NULL, SMI_TEXT, NULL, NULL, 0, 0},
};
