/*
 * The rows of nvidia-smi's report in their order. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_EMULATOR_NVIDIA_SMI_REPORT_LAYOUT_H
#define LULL_EMULATOR_NVIDIA_SMI_REPORT_LAYOUT_H

enum { SMI_LAYOUT_DEPTH = 4 };

/* When a row is shown. */
enum smi_when {
    SMI_ALWAYS,
    SMI_WITH_MARGINS,    /* the GPU reports thresholds as margins (T.Limit) */
    SMI_WITHOUT_MARGINS, /* it reports temperatures */
    SMI_WITH_SOURCES,    /* it tells errors of SRAM apart, since Ampere */
    SMI_WITHOUT_SOURCES,
    SMI_OR_NONE,  /* a group: if its first row has no value, it is one row without a value */
    SMI_AS_LINES, /* in XML the value has a line of its own */
};

/* A group's rows follow it one level deeper. */
struct lull_smi_layout_row {
    int depth;
    unsigned sections;     /* enum smi_section; 0: those of the group */
    const char *label;     /* NULL: in XML only */
    const char *tag;       /* NULL: in the text only */
    const char *attribute; /* NULL: a group; "": no NVML function is known to report it */
    const char *suffix;    /* NULL: the attribute's unit */
    enum smi_when when;
    unsigned first_branch; /* of the driver; 0: no bound */
    unsigned last_branch;
};

/* Ends with a row without label and tag. */
extern const struct lull_smi_layout_row smi_report_layout[];

#endif
