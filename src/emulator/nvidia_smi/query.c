/*
 * --query-gpu and its sisters: comma-separated values.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <string.h>

#include "emulator/nvidia_smi/commands.h"

static const struct lull_smi_attribute *query_table(const struct lull_smi_run *run)
{
    switch (run->options->action) {
    case SMI_QUERY_APPS:
        return smi_process_attributes;
    case SMI_QUERY_CLOCKS:
        return smi_clock_attributes;
    default:
        return smi_gpu_attributes;
    }
}

static int query_check(const struct lull_smi_run *run)
{
    const char *list = run->options->value;
    const char *word;
    size_t length;

    while ((word = smi_options_next_word(&list, &length)) != NULL)
        if (smi_attribute_find(query_table(run), word, length) == NULL) {
            fprintf(run->out, "Field \"%.*s\" is not a valid field to query.\n\n", (int)length,
                    word);
            return SMI_EXIT_ARGUMENT;
        }
    return 0;
}

static void query_header(const struct lull_smi_run *run)
{
    const char *list = run->options->value;
    const char *separator = "";
    const char *word;
    size_t length;

    while ((word = smi_options_next_word(&list, &length)) != NULL) {
        const struct lull_smi_attribute *const found =
            smi_attribute_find(query_table(run), word, length);
        const char *const unit = smi_form_unit(found->form);

        fprintf(run->out, "%s%s", separator, found->name);
        if (*unit != '\0')
            fprintf(run->out, " [%s]", unit);
        separator = ", ";
    }
    putc('\n', run->out);
}

int smi_query_begin(const struct lull_smi_run *run)
{
    const int status = query_check(run);

    if (status == 0 && run->options->has_header)
        query_header(run);
    return status;
}

static void query_value(const struct lull_smi_run *run, const struct lull_smi_attribute *attribute,
                        const struct lull_smi_subject *subject)
{
    const char *const unit = smi_form_unit(attribute->form);
    struct lull_smi_value value;

    smi_attribute_read(attribute, subject, &value);
    if (value.code != NVML_SUCCESS)
        fprintf(run->out, "[%s]", smi_code_text(value.code));
    else if (*unit != '\0' && run->options->has_units)
        fprintf(run->out, "%s %s", value.text, unit);
    else
        fprintf(run->out, "%s", value.text);
}

static void query_row(const struct lull_smi_run *run, const struct lull_smi_subject *subject)
{
    const char *list = run->options->value;
    const char *separator = "";
    const char *word;
    size_t length;

    while ((word = smi_options_next_word(&list, &length)) != NULL) {
        fputs(separator, run->out);
        query_value(run, smi_attribute_find(query_table(run), word, length), subject);
        separator = ", ";
    }
    putc('\n', run->out);
}

static int query_processes(const struct lull_smi_run *run, struct lull_smi_subject subject)
{
    struct nvml_process_v2 processes[SMI_MAX_PROCESSES];
    unsigned count;
    const int code = smi_processes_read(subject.gpu, processes, &count);

    for (unsigned i = 0; code == NVML_SUCCESS && i < count; i++) {
        subject.process = &processes[i];
        query_row(run, &subject);
    }
    return smi_code_is_missing(code) ? NVML_SUCCESS : code;
}

static int query_clocks(const struct lull_smi_run *run, struct lull_smi_subject subject)
{
    unsigned memory[SMI_MAX_CLOCKS];
    unsigned graphics[SMI_MAX_CLOCKS];
    unsigned memory_count;
    unsigned count;
    int code = smi_memory_clocks_read(subject.gpu, memory, &memory_count);

    for (unsigned i = 0; code == NVML_SUCCESS && i < memory_count; i++) {
        subject.memory_mhz = memory[i];
        code = smi_graphics_clocks_read(subject.gpu, memory[i], graphics, &count);
        for (unsigned k = 0; code == NVML_SUCCESS && k < count; k++) {
            subject.graphics_mhz = graphics[k];
            query_row(run, &subject);
        }
    }
    return smi_code_is_missing(code) ? NVML_SUCCESS : code;
}

int smi_query_rows(const struct lull_smi_run *run)
{
    int status = 0;

    for (unsigned i = 0; i < run->count; i++) {
        const struct lull_smi_subject subject = smi_subject_of(run->node, run->selected[i]);
        int code = NVML_SUCCESS;

        if (run->options->action == SMI_QUERY_APPS)
            code = query_processes(run, subject);
        else if (run->options->action == SMI_QUERY_CLOCKS)
            code = query_clocks(run, subject);
        else
            query_row(run, &subject);
        if (code != NVML_SUCCESS) {
            fprintf(run->out, "Unable to query GPU %s: %s\n", subject.gpu->bus_id,
                    smi_nvml_text(code));
            status = code;
        }
    }
    return status;
}

void smi_query_print_names(const struct lull_smi_attribute *table, const char *option, FILE *out)
{
    fprintf(out, "List of valid properties to query for the switch \"%s\":\n\n", option);
    for (; table->name != NULL; table++) {
        fprintf(out, "\"%s\"", table->name);
        if (table->alias != NULL)
            fprintf(out, " or \"%s\"", table->alias);
        fprintf(out, "\n\n");
    }
}
