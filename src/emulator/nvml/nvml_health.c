/*
 * The health of emulated boards: ECC mode and errors, retired pages, remapped rows and repairs.
 * Only faults make errors. SPDX-License-Identifier: Apache-2.0
 */
#include "emulator/nvml/nvml_library.h"

enum { ARCHITECTURE_AMPERE = 7 };

static bool has_ecc(const struct lull_nvml_gpu *gpu)
{
    return gpu->model.has_ecc;
}

/* Boards since Ampere remap rows; older ones retire pages. */
static bool remaps_rows(const struct lull_nvml_gpu *gpu)
{
    return gpu->model.has_ecc && gpu->model.architecture >= ARCHITECTURE_AMPERE;
}

static bool retires_pages(const struct lull_nvml_gpu *gpu)
{
    return gpu->model.has_ecc && gpu->model.architecture < ARCHITECTURE_AMPERE;
}

/* The entry check of functions that only some boards support. */
static int enter_where(nvmlDevice_t device, const void *output,
                       bool (*is_supported)(const struct lull_nvml_gpu *),
                       const struct lull_nvml_gpu **gpu_out)
{
    LULL_DRIVER_CHECK(nvml_enter(device, output, gpu_out));
    return is_supported(*gpu_out) ? NVML_SUCCESS : NVML_NOT_SUPPORTED;
}

/* ---- ECC: a change takes effect when the driver is reloaded ---- */

static bool is_ecc_pending(const struct lull_nvml_gpu *gpu)
{
    return lull_node_setting(gpu->node, gpu->index, LULL_NODE_ECC_OFF) == 0;
}

NVML_GET_PAIR(nvmlDeviceGetEccMode, int, gpu->model.has_ecc, 1, is_ecc_pending(gpu))

NVML_EXPORT(nvmlDeviceGetDefaultEccMode, nvmlDevice_t device, int *mode_out)
{
    NVML_ENTER(enter_where(device, mode_out, has_ecc, &gpu));
    (void)gpu;
    *mode_out = 1;
    return NVML_SUCCESS;
}

static int enter_ecc_change(nvmlDevice_t device, int value, const struct lull_nvml_gpu **gpu_out)
{
    LULL_DRIVER_CHECK(enter_where(device, device, has_ecc, gpu_out));
    if (value < 0 || value > 1)
        return NVML_INVALID_ARGUMENT;
    return nvml_enter_root(device, gpu_out);
}

NVML_EXPORT(nvmlDeviceSetEccMode, nvmlDevice_t device, int mode)
{
    NVML_ENTER(enter_ecc_change(device, mode, &gpu));
    lull_node_set_setting(gpu->node, gpu->index, LULL_NODE_ECC_OFF, mode == 0);
    return NVML_SUCCESS;
}

enum { ERRORS_CORRECTED = 0, COUNTER_VOLATILE = 0, LOCATION_MEMORY = 2 };

NVML_EXPORT(nvmlDeviceClearEccErrorCounts, nvmlDevice_t device, int counter)
{
    NVML_ENTER(enter_ecc_change(device, counter, &gpu));
    const uint32_t offset = counter == COUNTER_VOLATILE ? 0 : 1;

    lull_node_set_setting(gpu->node, gpu->index, LULL_NODE_ECC_CORRECTED + offset, 0);
    lull_node_set_setting(gpu->node, gpu->index, LULL_NODE_ECC_UNCORRECTED + offset, 0);
    return NVML_SUCCESS;
}

static int enter_counter(nvmlDevice_t device, int type, int counter, const void *output)
{
    NVML_ENTER(nvml_enter(device, output, &gpu));
    if (type < 0 || type > 1 || counter < 0 || counter > 1)
        return NVML_INVALID_ARGUMENT;
    return gpu->model.has_ecc ? NVML_SUCCESS : NVML_NOT_SUPPORTED;
}

/* All errors are of the memory. */
static uint32_t count_errors(const struct lull_nvml_gpu *gpu, int type, int counter)
{
    const enum lull_node_setting recent =
        type == ERRORS_CORRECTED ? LULL_NODE_ECC_CORRECTED : LULL_NODE_ECC_UNCORRECTED;

    return lull_node_setting(gpu->node, gpu->index, recent + (counter == COUNTER_VOLATILE ? 0 : 1));
}

NVML_EXPORT(nvmlDeviceGetTotalEccErrors, nvmlDevice_t device, int type, int counter,
            unsigned long long *count_out)
{
    LULL_DRIVER_CHECK(enter_counter(device, type, counter, count_out));
    *count_out = count_errors(device, type, counter);
    return NVML_SUCCESS;
}

NVML_EXPORT(nvmlDeviceGetMemoryErrorCounter, nvmlDevice_t device, int type, int counter,
            int location, unsigned long long *count_out)
{
    enum { LOCATIONS = 8 };

    LULL_DRIVER_CHECK(enter_counter(device, type, counter, count_out));
    if (location < 0 || location >= LOCATIONS)
        return NVML_INVALID_ARGUMENT;
    *count_out = location == LOCATION_MEMORY ? count_errors(device, type, counter) : 0;
    return NVML_SUCCESS;
}

NVML_EXPORT(nvmlDeviceGetDetailedEccErrors, nvmlDevice_t device, int type, int counter,
            struct nvml_ecc_counts *out)
{
    LULL_DRIVER_CHECK(enter_counter(device, type, counter, out));
    *out = (struct nvml_ecc_counts){{0}};
    out->counts[LOCATION_MEMORY] = count_errors(device, type, counter);
    return NVML_SUCCESS;
}

NVML_EXPORT(nvmlDeviceGetSramEccErrorStatus, nvmlDevice_t device, struct nvml_sram_errors *out)
{
    NVML_ENTER(nvml_enter(device, out, &gpu));
    if (out->version != NVML_VERSION_WORD(struct nvml_sram_errors, 1u))
        return NVML_VERSION_MISMATCH;
    if (!remaps_rows(gpu))
        return NVML_NOT_SUPPORTED;
    *out = (struct nvml_sram_errors){.version = out->version};
    return NVML_SUCCESS;
}

NVML_EXPORT(nvmlDeviceGetSramUniqueUncorrectedEccErrorCounts, nvmlDevice_t device,
            struct nvml_sram_unique *out)
{
    NVML_ENTER(nvml_enter(device, out, &gpu));
    if (out->version != NVML_VERSION_WORD(struct nvml_sram_unique, 1u))
        return NVML_VERSION_MISMATCH;
    if (!remaps_rows(gpu))
        return NVML_NOT_SUPPORTED;
    out->count = 0;
    return NVML_SUCCESS;
}

/* ---- retired pages ---- */

NVML_EXPORT(nvmlDeviceGetRetiredPages, nvmlDevice_t device, int cause, unsigned *count,
            unsigned long long *addresses)
{
    (void)addresses;
    NVML_ENTER(nvml_enter(device, count, &gpu));
    if (cause < 0 || cause > 1)
        return NVML_INVALID_ARGUMENT;
    if (!retires_pages(gpu))
        return NVML_NOT_SUPPORTED;
    *count = 0;
    return NVML_SUCCESS;
}

NVML_EXPORT(nvmlDeviceGetRetiredPages_v2, nvmlDevice_t device, int cause, unsigned *count,
            unsigned long long *addresses, unsigned long long *times)
{
    (void)times;
    return nvmlDeviceGetRetiredPages(device, cause, count, addresses);
}

NVML_EXPORT(nvmlDeviceGetRetiredPagesPendingStatus, nvmlDevice_t device, int *pending_out)
{
    NVML_ENTER(enter_where(device, pending_out, retires_pages, &gpu));
    (void)gpu;
    *pending_out = 0;
    return NVML_SUCCESS;
}

/* ---- remapped rows ---- */

NVML_EXPORT(nvmlDeviceGetRemappedRows, nvmlDevice_t device, unsigned *corrected,
            unsigned *uncorrected, unsigned *is_pending, unsigned *has_failed)
{
    NVML_ENTER(nvml_enter(device, corrected, &gpu));
    if (uncorrected == NULL || is_pending == NULL || has_failed == NULL)
        return NVML_INVALID_ARGUMENT;
    if (!remaps_rows(gpu))
        return NVML_NOT_SUPPORTED;
    *corrected = *has_failed = 0;
    *uncorrected = lull_node_setting(gpu->node, gpu->index, LULL_NODE_ROWS);
    *is_pending = lull_node_setting(gpu->node, gpu->index, LULL_NODE_ROW_PENDING);
    return NVML_SUCCESS;
}

NVML_EXPORT(nvmlDeviceGetRemappedRows_v2, nvmlDevice_t device, struct nvml_remapped_rows *out)
{
    NVML_ENTER(enter_where(device, out, remaps_rows, &gpu));
    enum { UNCORRECTED_ACTIVE = 2, PENDING = 4 };

    *out = (struct nvml_remapped_rows){{0}};
    out->counts[UNCORRECTED_ACTIVE] = lull_node_setting(gpu->node, gpu->index, LULL_NODE_ROWS);
    out->counts[PENDING] = lull_node_setting(gpu->node, gpu->index, LULL_NODE_ROW_PENDING);
    return NVML_SUCCESS;
}

NVML_EXPORT(nvmlDeviceGetRowRemapperHistogram, nvmlDevice_t device, struct nvml_row_banks *out)
{
    NVML_ENTER(enter_where(device, out, remaps_rows, &gpu));
    *out = (struct nvml_row_banks){.unused = gpu->model.spare_banks};
    return NVML_SUCCESS;
}

/* ---- repairs ---- */

NVML_EXPORT(nvmlDeviceGetRepairStatus, nvmlDevice_t device, struct nvml_repair *out)
{
    NVML_ENTER(nvml_enter(device, out, &gpu));
    if (out->version != NVML_VERSION_WORD(struct nvml_repair, 1u))
        return NVML_VERSION_MISMATCH;
    if (!remaps_rows(gpu))
        return NVML_NOT_SUPPORTED;
    *out = (struct nvml_repair){.version = out->version};
    return NVML_SUCCESS;
}

/* Captures have it on GB200 and not on L40S; the others are guesses. */
static bool has_unrepairable_flag(const struct lull_nvml_gpu *gpu)
{
    return gpu->model.compute_major >= 10 && gpu->model.nvlink_count > 0;
}

NVML_EXPORT(nvmlDeviceGetUnrepairableMemoryFlag_v1, nvmlDevice_t device, unsigned *flag_out)
{
    NVML_ENTER(enter_where(device, flag_out, has_unrepairable_flag, &gpu));
    (void)gpu;
    *flag_out = 0;
    return NVML_SUCCESS;
}
