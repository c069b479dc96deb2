/*
 * topo -m: how each pair of GPUs is connected, and which processors are near.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <string.h>

#include "emulator/nvidia_smi/commands.h"

/* The real nvidia-smi underlines the header, whatever it writes to. */
#define UNDERLINE "\033[4m"
#define PLAIN "\033[0m"

enum {
    MAX_LINKS = 36,
    MASK_WORDS = 64,
    MASK_BITS = sizeof(unsigned long[MASK_WORDS]) * 8,
    REMOTE_GPU = 0,
    REMOTE_SWITCH = 2
};

/* Returns the number of active links of a GPU to the other one or to a switch. */
static unsigned links_between(const struct lull_smi_gpu *one, const struct lull_smi_gpu *other)
{
    unsigned count = 0;

    for (int link = 0; link < MAX_LINKS; link++) {
        struct nvml_pci_info remote = {0};
        unsigned is_active = 0;
        unsigned type = REMOTE_GPU;

        if (smi_nvml_get_number_of(one->device, "nvmlDeviceGetNvLinkState", link, &is_active) !=
                NVML_SUCCESS ||
            is_active == 0)
            continue;
        smi_nvml_get_number_of(one->device, "nvmlDeviceGetNvLinkRemoteDeviceType", link, &type);
        if (type == REMOTE_SWITCH ||
            (smi_nvml_get_struct_of(one->device, "nvmlDeviceGetNvLinkRemotePciInfo_v2",
                                    (unsigned)link, &remote) == NVML_SUCCESS &&
             strcmp(remote.bus_id, other->bus_id) == 0))
            count++;
    }
    return count;
}

static void topology_cell(const struct lull_smi_run *run, const struct lull_smi_gpu *one,
                          const struct lull_smi_gpu *other)
{
    static const struct {
        unsigned level;
        const char *text;
    } levels[] = {{0, "PIX"}, {10, "PIX"}, {20, "PXB"}, {30, "PHB"}, {40, "NODE"}, {50, "SYS"}};
    unsigned level = 0;
    unsigned links;
    const char *text = "N/A";

    if (one == other) {
        fprintf(run->out, "\t X ");
        return;
    }
    links = links_between(one, other);
    if (links > 0 && links_between(other, one) > 0) {
        fprintf(run->out, "\tNV%u", links);
        return;
    }
    if (smi_nvml_get_between(one->device, other->device, "nvmlDeviceGetTopologyCommonAncestor",
                             &level) == NVML_SUCCESS)
        for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++)
            if (levels[i].level == level)
                text = levels[i].text;
    fprintf(run->out, "\t%s", text);
}

static bool mask_has(const unsigned long *mask, unsigned bit)
{
    const unsigned width = 8 * sizeof(mask[0]);

    return bit < MASK_BITS && (mask[bit / width] >> (bit % width) & 1) != 0;
}

/* Writes the set bits as ranges, such as 0-31,64-95. */
static void mask_write(const struct lull_smi_run *run, const unsigned long *mask)
{
    const char *separator = "";

    for (unsigned bit = 0; bit < MASK_BITS; bit++) {
        unsigned last = bit;

        if (!mask_has(mask, bit))
            continue;
        while (mask_has(mask, last + 1))
            last++;
        fprintf(run->out, "%s%u", separator, bit);
        if (last > bit)
            fprintf(run->out, "-%u", last);
        separator = ",";
        bit = last;
    }
    if (*separator == '\0')
        fprintf(run->out, "N/A");
}

static void topology_row(const struct lull_smi_run *run, const struct lull_smi_gpu *gpu)
{
    unsigned long mask[MASK_WORDS] = {0};
    unsigned node = 0;

    fprintf(run->out, "GPU%u", gpu->index);
    for (unsigned i = 0; i < run->count; i++)
        topology_cell(run, gpu, run->selected[i]);
    smi_nvml_get_mask(gpu->device, "nvmlDeviceGetCpuAffinity", MASK_WORDS, mask);
    fprintf(run->out, "\t");
    mask_write(run, mask);
    memset(mask, 0, sizeof(mask));
    smi_nvml_get_mask_within(gpu->device, "nvmlDeviceGetMemoryAffinity", MASK_WORDS, mask, 0);
    fprintf(run->out, "\t");
    mask_write(run, mask);
    if (smi_nvml_get_number(gpu->device, "nvmlDeviceGetNumaNodeId", &node) == NVML_SUCCESS)
        fprintf(run->out, "\t\t%u\n", node);
    else
        fprintf(run->out, "\t\tN/A\n");
}

int smi_show_topology(const struct lull_smi_run *run)
{
    if (run->options->matrix == NULL) {
        fprintf(run->out, "ERROR: topo needs -m. Please run 'nvidia-smi topo -h'.\n");
        return SMI_EXIT_USAGE;
    }
    fprintf(run->out, "\t" UNDERLINE);
    for (unsigned i = 0; i < run->count; i++)
        fprintf(run->out, "GPU%u\t", run->selected[i]->index);
    fprintf(run->out, "CPU Affinity\tNUMA Affinity\tGPU NUMA ID" PLAIN "\n");
    for (unsigned i = 0; i < run->count; i++)
        topology_row(run, run->selected[i]);
    fprintf(run->out, "\nLegend:\n\n"
                      "  X    = Self\n"
                      "  SYS  = PCIe and the interconnect between NUMA nodes\n"
                      "  NODE = PCIe and the interconnect between host bridges of a NUMA node\n"
                      "  PHB  = PCIe and a host bridge\n"
                      "  PXB  = several PCIe bridges, without a host bridge\n"
                      "  PIX  = at most one PCIe bridge\n"
                      "  NV#  = a bonded set of # NVLinks\n");
    return 0;
}
