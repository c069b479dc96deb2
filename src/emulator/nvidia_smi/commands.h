/*
 * What nvidia-smi does on a command line, one function per action. Each writes to `out` and returns
 * the exit status. Threads: one. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_EMULATOR_NVIDIA_SMI_COMMANDS_H
#define LULL_EMULATOR_NVIDIA_SMI_COMMANDS_H

#include <stdio.h>

#include "emulator/nvidia_smi/attribute.h"
#include "emulator/nvidia_smi/options.h"

/* A command line at work. */
struct lull_smi_run {
    const struct lull_smi_options *options;
    const struct lull_smi_node *node;
    const struct lull_smi_gpu *selected[SMI_MAX_GPUS]; /* by -i, otherwise all */
    unsigned count;
    FILE *out;
};

enum { SMI_MAX_PROCESSES = 256 };

/* The compute processes of a GPU; returns NVML's code. */
int smi_processes_read(const struct lull_smi_gpu *gpu, struct nvml_process_v2 *processes_out,
                       unsigned *count_out);

/* Supported clocks: those of the memory, or those of the GPU at one memory clock. */
enum { SMI_MAX_CLOCKS = 512 };
int smi_memory_clocks_read(const struct lull_smi_gpu *gpu, unsigned *clocks_out,
                           unsigned *count_out);
int smi_graphics_clocks_read(const struct lull_smi_gpu *gpu, unsigned memory_mhz,
                             unsigned *clocks_out, unsigned *count_out);

int smi_list(const struct lull_smi_run *run);
int smi_show_summary(const struct lull_smi_run *run);
int smi_show_report(const struct lull_smi_run *run);
int smi_show_topology(const struct lull_smi_run *run);
int smi_change_settings(const struct lull_smi_run *run);

/* A query of fields: smi_query_check() checks their names and writes the header; smi_query_rows()
 * writes one round. */
int smi_query_begin(const struct lull_smi_run *run);
int smi_query_rows(const struct lull_smi_run *run);
void smi_query_print_names(const struct lull_smi_attribute *table, const char *option, FILE *out);

/* Writes the headers of pmon or dmon if `round` needs them, and one round. */
int smi_monitor_check(const struct lull_smi_run *run);
void smi_monitor_round(const struct lull_smi_run *run, long round);

#endif
