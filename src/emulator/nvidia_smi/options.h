/*
 * The command line of nvidia-smi. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_EMULATOR_NVIDIA_SMI_OPTIONS_H
#define LULL_EMULATOR_NVIDIA_SMI_OPTIONS_H

#include <stdbool.h>
#include <stdio.h>

/* Exit statuses that NVML's codes do not give. */
enum { SMI_EXIT_USAGE = 1, SMI_EXIT_ARGUMENT = 2, SMI_EXIT_NOT_AVAILABLE = 3 };

/* What a command line requests: at most one of these. */
enum smi_action {
    SMI_SUMMARY,
    SMI_HELP,
    SMI_VERSION,
    SMI_LIST,
    SMI_REPORT,
    SMI_QUERY_GPU,
    SMI_QUERY_APPS,
    SMI_QUERY_CLOCKS,
    SMI_HELP_GPU,
    SMI_HELP_APPS,
    SMI_HELP_CLOCKS,
    SMI_TOPOLOGY,
    SMI_PROCESS_MONITOR,
    SMI_DEVICE_MONITOR,
    SMI_SET_PERSISTENCE,
    SMI_SET_ECC,
    SMI_CLEAR_ECC,
    SMI_SET_COMPUTE_MODE,
    SMI_SET_MIG,
    SMI_LOCK_GPU_CLOCKS,
    SMI_UNLOCK_GPU_CLOCKS,
    SMI_LOCK_MEMORY_CLOCKS,
    SMI_UNLOCK_MEMORY_CLOCKS,
    SMI_SET_APPLICATION_CLOCKS,
    SMI_RESET_APPLICATION_CLOCKS,
    SMI_SET_POWER_LIMIT,
    SMI_RESET_GPU,
    SMI_MISSING, /* nvidia-smi has it, the emulated one has not */
};

/* Sections of the report, as -d selects them. */
enum smi_section {
    SMI_SECTION_MEMORY = 1 << 0,
    SMI_SECTION_UTILIZATION = 1 << 1,
    SMI_SECTION_ECC = 1 << 2,
    SMI_SECTION_TEMPERATURE = 1 << 3,
    SMI_SECTION_POWER = 1 << 4,
    SMI_SECTION_CLOCK = 1 << 5,
    SMI_SECTION_COMPUTE = 1 << 6,
    SMI_SECTION_PIDS = 1 << 7,
    SMI_SECTION_PERFORMANCE = 1 << 8,
    SMI_SECTION_SUPPORTED_CLOCKS = 1 << 9,
    SMI_SECTION_PAGE_RETIREMENT = 1 << 10,
    SMI_SECTION_ACCOUNTING = 1 << 11,
    SMI_SECTION_ENCODER_STATS = 1 << 12,
    SMI_SECTION_VOLTAGE = 1 << 13,
    SMI_SECTION_FBC_STATS = 1 << 14,
    SMI_SECTION_ROW_REMAPPER = 1 << 15,
    SMI_SECTION_RESET_STATUS = 1 << 16,
    SMI_SECTION_GSP = 1 << 17,
    SMI_SECTION_OTHER = 1 << 18, /* shown without -d only */
};

/* Words borrow from argv; NULL: not given. */
struct lull_smi_options {
    enum smi_action action;
    const char *action_name; /* the option or word that requests it */
    const char *value;       /* its argument */
    const char *ids;
    const char *file;
    const char *xml;
    const char *display;
    const char *format;
    const char *loop_s;
    const char *loop_ms;
    const char *warnings_are_errors;
    const char *select;
    const char *order;
    const char *count;
    const char *delay;
    const char *matrix;

    unsigned sections; /* of -d; without it all but the supported clocks */
    bool has_header;   /* of --format */
    bool has_units;
    long period_ms; /* 0: once */
    long rounds;    /* of a monitor; 0: without end */
};

/* Reads a command line and checks its lists and numbers. Returns 0, or the exit status after
 * writing why to `out`. */
int smi_options_read(int argc, char **argv, struct lull_smi_options *options_out, FILE *out);

/* Parses "A,B", or "A" as A,A. Returns false if the text is neither or a number exceeds 32 bits. */
bool smi_options_parse_pair(const char *text, unsigned *first_out, unsigned *second_out);

/* Returns the next word of a list separated by commas, without blanks around it, and its length;
 * NULL at the end. Begin with *at at the start of the list. */
const char *smi_options_next_word(const char **at, size_t *length_out);

void smi_options_print_help(FILE *out);

#endif
