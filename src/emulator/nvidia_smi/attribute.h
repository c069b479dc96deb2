/*
 * What nvidia-smi shows: one table of attributes, each with its name in --query-gpu and the NVML
 * function that reads it. The report of -q, the queries and the summary read their values from
 * here. Threads: one. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_EMULATOR_NVIDIA_SMI_ATTRIBUTE_H
#define LULL_EMULATOR_NVIDIA_SMI_ATTRIBUTE_H

#include <stdint.h>

#include "emulator/nvidia_smi/nvml_calls.h"

enum { SMI_MAX_GPUS = 64, SMI_TEXT_BYTES = 256 };

struct lull_smi_gpu {
    nvmlDevice_t device;
    unsigned index;
    int code; /* why the handle is missing, NVML_SUCCESS if it is there */
    char bus_id[32];
};

/* The GPUs of the node in NVML's order. */
struct lull_smi_node {
    struct lull_smi_gpu gpus[SMI_MAX_GPUS];
    unsigned count;
};

/* What a value belongs to: a GPU, and in some queries a process or a pair of clocks. */
struct lull_smi_subject {
    const struct lull_smi_node *node;
    const struct lull_smi_gpu *gpu;
    const struct nvml_process_v2 *process;
    unsigned memory_mhz;
    unsigned graphics_mhz;
};

/* How a number is written. */
enum smi_form {
    SMI_TEXT,
    SMI_COUNT,
    SMI_PERCENT,
    SMI_CELSIUS,
    SMI_MHZ,
    SMI_MILLIWATTS,
    SMI_BYTES,
    SMI_KBS,
    SMI_NANOSECONDS,
    SMI_RATIO,
    SMI_ENABLED,
    SMI_ACTIVE,
    SMI_YES_NO,
    SMI_SUPPORTED,
    SMI_PSTATE,
    SMI_COMPUTE_MODE,
    SMI_BRAND,
    SMI_ARCHITECTURE,
    SMI_VIRTUALIZATION,
    SMI_ADDRESSING,
    SMI_RECOVERY,
    SMI_FABRIC,
    SMI_PEER,
    SMI_HEX_2,
    SMI_HEX_4,
    SMI_HEX_8,
    SMI_HEX_16,
    SMI_HEX,
};

struct lull_smi_raw {
    int64_t number;
    char text[SMI_TEXT_BYTES];
};

struct lull_smi_attribute {
    const char *name;
    const char *alias; /* NULL: none */
    enum smi_form form;
    int (*read)(const struct lull_smi_subject *subject, const struct lull_smi_attribute *attribute,
                struct lull_smi_raw *raw_out);
    const char *symbol; /* the NVML function */
    int which;          /* arguments of the function, or the member that is read */
    int other;
};

/* A value as text; `code` is NVML's, and the text is set only on success. */
struct lull_smi_value {
    int code;
    char text[SMI_TEXT_BYTES];
};

/* Tables end with a row without a name. */
extern const struct lull_smi_attribute smi_gpu_attributes[];
extern const struct lull_smi_attribute smi_report_attributes[]; /* not in --query-gpu */
extern const struct lull_smi_attribute smi_process_attributes[];
extern const struct lull_smi_attribute smi_clock_attributes[];

/* Returns the attribute of that name or alias, or NULL. `length` characters of the name count. */
const struct lull_smi_attribute *smi_attribute_find(const struct lull_smi_attribute *table,
                                                    const char *name, size_t length);

/* The unit of a form in the header of a query (temperatures have none there), or "". */
const char *smi_form_unit(enum smi_form form);

void smi_attribute_read(const struct lull_smi_attribute *attribute,
                        const struct lull_smi_subject *subject, struct lull_smi_value *value_out);

/* Reads an attribute of a GPU by its name, which must exist. Returns the attribute. */
const struct lull_smi_attribute *smi_gpu_read(const struct lull_smi_subject *subject,
                                              const char *name, struct lull_smi_value *value_out);

/* Begins the description of a GPU of the node. */
struct lull_smi_subject smi_subject_of(const struct lull_smi_node *node,
                                       const struct lull_smi_gpu *gpu);

/* Returns what stands for a value that could not be read: N/A or the error. */
const char *smi_code_text(int code);

/* Returns whether a GPU lacks the value: it is unknown rather than an error. */
int smi_code_is_missing(int code);

#endif
