/*
 * The GPUs of the node and those that -i selects, and lists that several commands read.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <string.h>
#include <strings.h>

#include "base/pci.h"
#include "base/text.h"
#include "emulator/nvidia_smi/node.h"

int smi_node_read(struct lull_smi_node *node_out)
{
    unsigned count = 0;
    const int code = smi_nvml_get_system_number("nvmlDeviceGetCount_v2", &count);

    if (code != NVML_SUCCESS)
        return code;
    node_out->count = count < SMI_MAX_GPUS ? count : SMI_MAX_GPUS;
    for (unsigned i = 0; i < node_out->count; i++) {
        struct lull_smi_gpu *const gpu = &node_out->gpus[i];
        struct nvml_pci_info pci = {0};

        gpu->index = i;
        gpu->code = smi_nvml_get_handle(i, &gpu->device);
        if (gpu->code == NVML_SUCCESS)
            smi_nvml_get_struct(gpu->device, "nvmlDeviceGetPciInfo_v3", &pci);
        snprintf(gpu->bus_id, sizeof(gpu->bus_id), "%s", pci.bus_id);
    }
    return NVML_SUCCESS;
}

/* ---- selection ---- */

static bool gpu_has_text(const struct lull_smi_node *node, const struct lull_smi_gpu *gpu,
                         const char *name, const char *word)
{
    const struct lull_smi_subject subject = smi_subject_of(node, gpu);
    struct lull_smi_value value;

    if (gpu->code != NVML_SUCCESS)
        return false;
    smi_gpu_read(&subject, name, &value);
    return value.code == NVML_SUCCESS && strcasecmp(value.text, word) == 0;
}

static bool gpu_is_named(const struct lull_smi_node *node, const struct lull_smi_gpu *gpu,
                         const char *word)
{
    uint64_t wanted;
    uint64_t address;
    int64_t index;

    if (lull_text_parse_int(word, 0, SMI_MAX_GPUS, &index) == 0)
        return gpu->index == (unsigned)index || gpu_has_text(node, gpu, "serial", word);
    if (lull_pci_parse(word, &wanted))
        return lull_pci_parse(gpu->bus_id, &address) && address == wanted;
    return gpu_has_text(node, gpu, "uuid", word) || gpu_has_text(node, gpu, "serial", word);
}

static bool list_names(const char *list, const struct lull_smi_node *node,
                       const struct lull_smi_gpu *gpu)
{
    const char *word;
    size_t length;

    while ((word = smi_options_next_word(&list, &length)) != NULL) {
        char text[SMI_TEXT_BYTES];

        snprintf(text, sizeof(text), "%.*s", (int)length, word);
        if (gpu_is_named(node, gpu, text))
            return true;
    }
    return false;
}

int smi_node_select(struct lull_smi_run *run)
{
    const char *const list = run->options->ids;

    run->count = 0;
    for (unsigned i = 0; i < run->node->count; i++) {
        const struct lull_smi_gpu *const gpu = &run->node->gpus[i];

        if (list != NULL && !list_names(list, run->node, gpu))
            continue;
        if (gpu->code != NVML_SUCCESS) {
            fprintf(run->out, "Unable to determine the device handle for GPU%u: %s\n", i,
                    smi_nvml_text(gpu->code));
            return gpu->code;
        }
        run->selected[run->count++] = gpu;
    }
    if (run->count > 0)
        return 0;
    fprintf(run->out, "No devices were found\n");
    return NVML_NOT_FOUND;
}

/* ---- lists ---- */

int smi_processes_read(const struct lull_smi_gpu *gpu, struct nvml_process_v2 *processes_out,
                       unsigned *count_out)
{
    *count_out = SMI_MAX_PROCESSES;
    return smi_nvml_get_list(gpu->device, "nvmlDeviceGetComputeRunningProcesses_v3", count_out,
                             processes_out);
}

int smi_memory_clocks_read(const struct lull_smi_gpu *gpu, unsigned *clocks_out,
                           unsigned *count_out)
{
    *count_out = SMI_MAX_CLOCKS;
    return smi_nvml_get_list(gpu->device, "nvmlDeviceGetSupportedMemoryClocks", count_out,
                             clocks_out);
}

int smi_graphics_clocks_read(const struct lull_smi_gpu *gpu, unsigned memory_mhz,
                             unsigned *clocks_out, unsigned *count_out)
{
    *count_out = SMI_MAX_CLOCKS;
    return smi_nvml_get_list_of(gpu->device, "nvmlDeviceGetSupportedGraphicsClocks", memory_mhz,
                                count_out, clocks_out);
}
