/*
 * The report of -q, as text and as XML: one layout whose rows read attributes.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>

#include "base/printable.h"
#include "base/text.h"
#include "emulator/nvidia_smi/commands.h"
#include "emulator/nvidia_smi/report_layout.h"

/* ---- writing a tree ---- */

/* The real nvidia-smi has wider labels from driver 580 on, but not in its list of processes. */
enum { INDENT = 4, LABEL_COLUMNS = 42, WIDE_LABEL_COLUMNS = 55, FIRST_WIDE = 580 };

struct tree {
    FILE *out;
    bool is_xml;
    unsigned branch; /* of the driver */
    int depth;
    int label_columns;
};

static void tree_indent(const struct tree *tree)
{
    for (int i = 0; i < tree->depth; i++)
        fputs(tree->is_xml ? "\t" : "    ", tree->out);
}

static void tree_open(struct tree *tree, const char *label, const char *tag)
{
    tree_indent(tree);
    if (tree->is_xml)
        fprintf(tree->out, "<%s>\n", tag);
    else
        fprintf(tree->out, "%s\n", label);
    tree->depth++;
}

static void tree_close(struct tree *tree, const char *tag)
{
    tree->depth--;
    if (tree->is_xml) {
        tree_indent(tree);
        fprintf(tree->out, "</%s>\n", tag);
    }
}

static void tree_line(const struct tree *tree, const char *label, const char *tag,
                      const char *value)
{
    tree_indent(tree);
    if (tree->is_xml) {
        fprintf(tree->out, "<%s>", tag);
        lull_printable_print(LULL_PRINTABLE_PAGE, value, tree->out);
        fprintf(tree->out, "</%s>\n", tag);
    } else {
        fprintf(tree->out, "%-*s: %s\n", tree->label_columns - INDENT * tree->depth, label, value);
    }
}

static void tree_format(const struct tree *tree, const char *label, const char *tag,
                        const char *format, ...) __attribute__((format(printf, 4, 5)));

static void tree_format(const struct tree *tree, const char *label, const char *tag,
                        const char *format, ...)
{
    char text[SMI_TEXT_BYTES];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    tree_line(tree, label, tag, text);
}

/* ---- values ---- */

static void report_value(const struct tree *tree, const struct lull_smi_subject *subject,
                         const struct lull_smi_layout_row *row)
{
    struct lull_smi_value value;
    const struct lull_smi_attribute *attribute;
    const char *unit;

    if (*row->attribute == '\0') {
        tree_line(tree, row->label, row->tag, "N/A");
        return;
    }
    attribute = smi_gpu_read(subject, row->attribute, &value);
    unit = smi_form_unit(attribute->form);
    if (value.code != NVML_SUCCESS)
        tree_line(tree, row->label, row->tag, smi_code_text(value.code));
    else if (row->suffix != NULL)
        tree_format(tree, row->label, row->tag, "%s%s", value.text, row->suffix);
    else if (tree->is_xml && strncmp(value.text, "0x", 2) == 0 && strncmp(row->tag, "pci_", 4) == 0)
        tree_line(tree, row->label, row->tag, value.text + 2);
    else
        tree_format(tree, row->label, row->tag, "%s%s%s", value.text, *unit != '\0' ? " " : "",
                    unit);
}

static bool has_value(const struct lull_smi_subject *subject, const char *attribute)
{
    struct lull_smi_value value;

    smi_gpu_read(subject, attribute, &value);
    return !smi_code_is_missing(value.code);
}

/* Returns whether the driver and the GPU have a row. */
static bool is_shown(const struct tree *tree, const struct lull_smi_subject *subject,
                     const struct lull_smi_layout_row *row)
{
    if ((tree->is_xml ? row->tag : row->label) == NULL || tree->branch < row->first_branch ||
        (row->last_branch != 0 && tree->branch > row->last_branch))
        return false;
    switch (row->when) {
    case SMI_WITH_MARGINS:
    case SMI_WITHOUT_MARGINS:
        return has_value(subject, "temperature.gpu.tlimit") == (row->when == SMI_WITH_MARGINS);
    case SMI_WITH_SOURCES:
    case SMI_WITHOUT_SOURCES:
        return has_value(subject, "ecc.sram.sources") == (row->when == SMI_WITH_SOURCES);
    default:
        return true;
    }
}

static void report_row(struct tree *tree, const struct lull_smi_subject *subject,
                       const struct lull_smi_layout_row *row)
{
    if (row->attribute == NULL) {
        tree_line(tree, row->label, row->tag, "N/A");
    } else if (row->when == SMI_AS_LINES) {
        struct lull_smi_value value;

        smi_gpu_read(subject, row->attribute, &value);
        tree_open(tree, row->label, row->tag);
        tree_indent(tree);
        fprintf(tree->out, "%s\n", value.text);
        tree_close(tree, row->tag);
    } else {
        report_value(tree, subject, row);
    }
}

/* Writes the rows whose sections are wanted. */
static void report_layout(struct tree *tree, const struct lull_smi_subject *subject,
                          unsigned wanted)
{
    const char *open[SMI_LAYOUT_DEPTH] = {0};
    const struct lull_smi_layout_row *row = smi_report_layout;
    unsigned sections = 0;
    int hidden_depth = SMI_LAYOUT_DEPTH; /* rows below it belong to a group that is not shown */
    int depth = 0;

    for (; row->label != NULL || row->tag != NULL; row++) {
        while (depth > row->depth)
            tree_close(tree, open[--depth]);
        if (row->sections != 0)
            sections = row->sections;
        if (row->depth > hidden_depth)
            continue;
        hidden_depth = SMI_LAYOUT_DEPTH;
        if ((sections & wanted) == 0 || !is_shown(tree, subject, row)) {
            hidden_depth = row->depth;
        } else if (row->attribute != NULL ||
                   (row->when == SMI_OR_NONE && !has_value(subject, row[1].attribute))) {
            report_row(tree, subject, row);
            hidden_depth = row->depth;
        } else {
            tree_open(tree, row->label, row->tag);
            open[depth++] = row->tag;
        }
    }
    while (depth > 0)
        tree_close(tree, open[--depth]);
}

/* ---- lists ---- */

static void report_supported_clocks(struct tree *tree, const struct lull_smi_gpu *gpu)
{
    unsigned memory[SMI_MAX_CLOCKS];
    unsigned graphics[SMI_MAX_CLOCKS];
    unsigned memory_count;
    unsigned count;

    if (smi_memory_clocks_read(gpu, memory, &memory_count) != NVML_SUCCESS) {
        tree_line(tree, "Supported Clocks", "supported_clocks", "N/A");
        return;
    }
    tree_open(tree, "Supported Clocks", "supported_clocks");
    for (unsigned i = 0; i < memory_count; i++) {
        if (tree->is_xml)
            tree_open(tree, "", "supported_mem_clock");
        tree_format(tree, "Memory", "value", "%u MHz", memory[i]);
        if (smi_graphics_clocks_read(gpu, memory[i], graphics, &count) != NVML_SUCCESS)
            count = 0;
        tree->depth += tree->is_xml ? 0 : 1;
        for (unsigned k = 0; k < count; k++)
            tree_format(tree, "Graphics", "supported_graphics_clock", "%u MHz", graphics[k]);
        tree->depth -= tree->is_xml ? 0 : 1;
        if (tree->is_xml)
            tree_close(tree, "supported_mem_clock");
    }
    tree_close(tree, "supported_clocks");
}

static void report_process(struct tree *tree, const struct nvml_process_v2 *process)
{
    char name[SMI_TEXT_BYTES] = "N/A";

    smi_nvml_get_process_name(process->pid, name, sizeof(name));
    if (tree->is_xml) {
        tree_open(tree, "", "process_info");
        tree_line(tree, "", "gpu_instance_id", "N/A");
        tree_line(tree, "", "compute_instance_id", "N/A");
        tree_format(tree, "", "pid", "%u", process->pid);
    } else {
        tree_line(tree, "GPU instance ID", "", "N/A");
        tree_line(tree, "Compute instance ID", "", "N/A");
        tree_format(tree, "Process ID", "", "%u", process->pid);
        tree->depth++;
    }
    tree_line(tree, "Type", "type", "C");
    tree_line(tree, "Name", "process_name", name);
    if (process->memory_bytes == UINT64_MAX)
        tree_line(tree, "Used GPU Memory", "used_memory", "N/A");
    else
        tree_format(tree, "Used GPU Memory", "used_memory", "%" PRIu64 " MiB",
                    process->memory_bytes >> 20);
    tree_close(tree, "process_info");
}

static void report_processes(struct tree *tree, const struct lull_smi_gpu *gpu)
{
    struct nvml_process_v2 processes[SMI_MAX_PROCESSES];
    unsigned count;
    const int code = smi_processes_read(gpu, processes, &count);
    const int label_columns = tree->label_columns;

    if (!tree->is_xml && (code != NVML_SUCCESS || count == 0)) {
        tree_line(tree, "Processes", "", code == NVML_SUCCESS ? "None" : "N/A");
        return;
    }
    tree_open(tree, "Processes", "processes");
    tree->label_columns = LABEL_COLUMNS;
    for (unsigned i = 0; code == NVML_SUCCESS && i < count; i++)
        report_process(tree, &processes[i]);
    tree->label_columns = label_columns;
    tree_close(tree, "processes");
}

static void report_capabilities(struct tree *tree)
{
    enum { FIRST_WITH_CAPABILITIES = 560 };

    if (tree->branch < FIRST_WITH_CAPABILITIES)
        return;
    tree_open(tree, "Capabilities", "capabilities");
    tree_line(tree, "EGM", "egm", "disabled");
    tree_close(tree, "capabilities");
}

static void report_gpu(struct tree *tree, const struct lull_smi_run *run,
                       const struct lull_smi_gpu *gpu)
{
    const struct lull_smi_subject subject = smi_subject_of(run->node, gpu);
    const unsigned wanted = run->options->sections;

    tree_indent(tree);
    fprintf(tree->out, tree->is_xml ? "<gpu id=\"%s\">\n" : "GPU %s\n", gpu->bus_id);
    tree->depth++;
    report_layout(tree, &subject, wanted);
    /* XML has the clocks without -d as well. */
    if ((wanted & SMI_SECTION_SUPPORTED_CLOCKS) != 0 ||
        (tree->is_xml && (wanted & SMI_SECTION_OTHER) != 0))
        report_supported_clocks(tree, gpu);
    if ((wanted & SMI_SECTION_PIDS) != 0)
        report_processes(tree, gpu);
    if (tree->is_xml && (wanted & SMI_SECTION_OTHER) != 0) {
        tree_open(tree, "", "accounted_processes");
        tree_close(tree, "accounted_processes");
    }
    if ((wanted & SMI_SECTION_OTHER) != 0)
        report_capabilities(tree);
    tree_close(tree, "gpu");
    putc('\n', tree->out);
}

static void report_header(const struct tree *tree, const struct lull_smi_run *run)
{
    const time_t now = time(NULL);
    struct tm parts;
    char text[64];
    char driver[80] = "N/A";
    unsigned cuda = 0;

    localtime_r(&now, &parts);
    strftime(text, sizeof(text), "%a %b %e %H:%M:%S %Y", &parts);
    smi_nvml_get_system_text("nvmlSystemGetDriverVersion", driver, sizeof(driver));
    smi_nvml_get_system_number("nvmlSystemGetCudaDriverVersion_v2", &cuda);
    tree_line(tree, "Timestamp", "timestamp", text);
    tree_line(tree, "Driver Version", "driver_version", driver);
    tree_format(tree, "CUDA Version", "cuda_version", "%u.%u", cuda / 1000, cuda % 1000 / 10);
    if (!tree->is_xml)
        putc('\n', tree->out);
    tree_format(tree, "Attached GPUs", "attached_gpus", "%u", run->node->count);
}

static unsigned read_branch(void)
{
    char driver[80] = "";
    const char *at = driver;
    uint32_t major = 0;

    smi_nvml_get_system_text("nvmlSystemGetDriverVersion", driver, sizeof(driver));
    lull_text_take_digits(&at, UINT32_MAX, &major);
    return major;
}

int smi_show_report(const struct lull_smi_run *run)
{
    enum { FIRST_WITH_SCHEMA_13 = 560 };
    struct tree tree = {
        .out = run->out, .is_xml = run->options->xml != NULL, .branch = read_branch()};

    tree.label_columns = tree.branch >= FIRST_WIDE ? WIDE_LABEL_COLUMNS : LABEL_COLUMNS;

    if (tree.is_xml) {
        fprintf(tree.out,
                "<?xml version=\"1.0\" ?>\n"
                "<!DOCTYPE nvidia_smi_log SYSTEM \"nvsmi_device_v%d.dtd\">\n",
                tree.branch >= FIRST_WITH_SCHEMA_13 ? 13 : 12);
        tree_open(&tree, "", "nvidia_smi_log");
    } else {
        fprintf(tree.out, "\n==============NVSMI LOG==============\n\n");
    }
    report_header(&tree, run);
    for (unsigned i = 0; i < run->count; i++)
        report_gpu(&tree, run, run->selected[i]);
    if (tree.is_xml)
        tree_close(&tree, "nvidia_smi_log");
    return 0;
}
