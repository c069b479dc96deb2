/*
 * The rows of nvidia-smi's report in their order. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_EMULATOR_NVIDIA_SMI_REPORT_LAYOUT_H
#define LULL_EMULATOR_NVIDIA_SMI_REPORT_LAYOUT_H

#include <stdbool.h>

enum { SMI_LAYOUT_DEPTH = 4 };

/* A group's rows follow it one level deeper. The XML has other rows than the text: it keeps the
 * names that older readers know. */
struct lull_smi_layout_row {
    int depth;
    unsigned sections;     /* enum smi_section; 0: those of the group */
    const char *label;     /* NULL: in XML only */
    const char *tag;       /* NULL: in the text only */
    const char *attribute; /* NULL: a group; "": no NVML function is known to report it */
    const char *suffix;    /* NULL: the attribute's unit */
    bool is_optional;      /* without a value there is no row */
};

/* Ends with a row without label and tag. */
extern const struct lull_smi_layout_row smi_report_layout[];

#endif
