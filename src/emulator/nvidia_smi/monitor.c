/*
 * dmon and pmon: one line per GPU or process and round, under headers that repeat.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <ctype.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "emulator/nvidia_smi/commands.h"

enum { ROUNDS_PER_HEADER = 20 };

/* ---- the columns of dmon ---- */

struct column {
    char letter; /* of -s */
    int width;
    const char *title;
    const char *unit;
    const char *attribute; /* NULL: no NVML function reports it */
    long divisor;
};

static const struct column columns[] = {
    {'p', 6, "pwr", "W", "power.draw", 1},
    {'p', 6, "gtemp", "C", "temperature.gpu", 1},
    {'p', 6, "mtemp", "C", "temperature.memory", 1},
    {'u', 6, "sm", "%", "utilization.gpu", 1},
    {'u', 6, "mem", "%", "utilization.memory", 1},
    {'u', 6, "enc", "%", "utilization.encoder", 1},
    {'u', 6, "dec", "%", "utilization.decoder", 1},
    {'u', 6, "jpg", "%", "utilization.jpeg", 1},
    {'u', 6, "ofa", "%", "utilization.ofa", 1},
    {'c', 6, "mclk", "MHz", "clocks.current.memory", 1},
    {'c', 6, "pclk", "MHz", "clocks.current.graphics", 1},
    {'v', 8, "pviol", "%", NULL, 1},
    {'v', 8, "tviol", "bool", "clocks_event_reasons.sw_thermal_slowdown", 1},
    {'m', 7, "fb", "MB", "memory.used", 1},
    {'m', 7, "bar1", "MB", "bar1.used", 1},
    {'m', 7, "ccpm", "MB", "protected_memory.used", 1},
    {'e', 7, "sbecc", "errs", "ecc.errors.corrected.volatile.total", 1},
    {'e', 7, "dbecc", "errs", "ecc.errors.uncorrected.volatile.total", 1},
    {'e', 7, "pci", "errs", "pcie.replay_counter", 1},
    {'t', 7, "rxpci", "MB/s", "pcie.rx_util", 1000},
    {'t', 7, "txpci", "MB/s", "pcie.tx_util", 1000},
};

enum { COLUMN_COUNT = sizeof(columns) / sizeof(columns[0]) };

static const char *selection(const struct lull_smi_run *run)
{
    if (run->options->select != NULL)
        return run->options->select;
    return run->options->action == SMI_DEVICE_MONITOR ? "puc" : "u";
}

static bool is_selected(const struct lull_smi_run *run, char letter)
{
    return strchr(selection(run), letter) != NULL;
}

static bool has_order(const struct lull_smi_run *run, char letter)
{
    return run->options->order != NULL && strchr(run->options->order, letter) != NULL;
}

int smi_monitor_check(const struct lull_smi_run *run)
{
    const bool is_dmon = run->options->action == SMI_DEVICE_MONITOR;
    const char *const letters = is_dmon ? "pucvmet" : "um";
    const char *const order = run->options->order != NULL ? run->options->order : "";

    if (selection(run)[strspn(selection(run), letters)] != '\0' || *selection(run) == '\0') {
        fprintf(run->out,
                "Invalid metrics \"%s\" of -s: give letters of %s. Please run "
                "'nvidia-smi -h' for help.\n",
                selection(run), letters);
        return SMI_EXIT_ARGUMENT;
    }
    if (order[strspn(order, "DT")] != '\0') {
        fprintf(run->out,
                "Invalid option \"%s\" of -o: give D, T or DT. Please run 'nvidia-smi -h' "
                "for help.\n",
                order);
        return SMI_EXIT_ARGUMENT;
    }
    return 0;
}

/* ---- dates ---- */

static void time_header(const struct lull_smi_run *run, const char *date, const char *clock)
{
    putc('#', run->out);
    if (has_order(run, 'D'))
        fprintf(run->out, "%-11s", date);
    if (has_order(run, 'T'))
        fprintf(run->out, "%-11s", clock);
}

static void time_write(const struct lull_smi_run *run)
{
    const time_t now = time(NULL);
    struct tm parts;
    char date[16];
    char clock[16];

    localtime_r(&now, &parts);
    strftime(date, sizeof(date), "%Y%m%d", &parts);
    strftime(clock, sizeof(clock), "%H:%M:%S", &parts);
    putc(' ', run->out);
    if (has_order(run, 'D'))
        fprintf(run->out, "%-11s", date);
    if (has_order(run, 'T'))
        fprintf(run->out, "%-11s", clock);
}

/* ---- dmon ---- */

static void dmon_header(const struct lull_smi_run *run)
{
    for (int line = 0; line < 2; line++) {
        time_header(run, line == 0 ? "Date" : "YYYYMMDD", line == 0 ? "Time" : "HH:MM:SS");
        fprintf(run->out, "%4s", line == 0 ? "gpu" : "Idx");
        for (size_t i = 0; i < COLUMN_COUNT; i++)
            if (is_selected(run, columns[i].letter))
                fprintf(run->out, " %*s", columns[i].width,
                        line == 0 ? columns[i].title : columns[i].unit);
        fprintf(run->out, " \n");
    }
}

/* Reads a column's value as a whole number, as text; "-" if it is unknown. */
static void dmon_value(const struct lull_smi_subject *subject, const struct column *column,
                       char *text, size_t size)
{
    struct lull_smi_value value;
    double number = 0.0;

    snprintf(text, size, "-");
    if (column->attribute == NULL)
        return;
    smi_gpu_read(subject, column->attribute, &value);
    if (value.code != NVML_SUCCESS)
        return;
    if (sscanf(value.text, "%lf", &number) == 1)
        snprintf(text, size, "%.0f", number / (double)column->divisor);
    else /* whether a reason is active */
        snprintf(text, size, "%d", strcmp(value.text, "Active") == 0);
}

static void dmon_round(const struct lull_smi_run *run)
{
    for (unsigned k = 0; k < run->count; k++) {
        const struct lull_smi_subject subject = smi_subject_of(run->node, run->selected[k]);
        char text[SMI_TEXT_BYTES];

        time_write(run);
        fprintf(run->out, "%4u", subject.gpu->index);
        for (size_t i = 0; i < COLUMN_COUNT; i++)
            if (is_selected(run, columns[i].letter)) {
                dmon_value(&subject, &columns[i], text, sizeof(text));
                fprintf(run->out, " %*s", columns[i].width, text);
            }
        fprintf(run->out, " \n");
    }
}

/* ---- pmon ---- */

static const char *const pmon_titles[] = {"sm", "mem", "enc", "dec", "jpg", "ofa"};
enum { PMON_PERCENTAGES = sizeof(pmon_titles) / sizeof(pmon_titles[0]) };

static void pmon_header(const struct lull_smi_run *run)
{
    for (int line = 0; line < 2; line++) {
        time_header(run, line == 0 ? "Date" : "YYYYMMDD", line == 0 ? "Time" : "HH:MM:SS");
        fprintf(run->out, "%4s %11s %6s", line == 0 ? "gpu" : "Idx", line == 0 ? "pid" : "#",
                line == 0 ? "type" : "C/G");
        for (size_t i = 0; is_selected(run, 'u') && i < PMON_PERCENTAGES; i++)
            fprintf(run->out, " %6s", line == 0 ? pmon_titles[i] : "%");
        if (is_selected(run, 'm'))
            fprintf(run->out, " %6s %6s", line == 0 ? "fb" : "MB", line == 0 ? "ccpm" : "MB");
        fprintf(run->out, "    %s\n", line == 0 ? "command " : "name ");
    }
}

static const struct nvml_process_utilization *
sample_find(const struct nvml_process_utilization *samples, unsigned count, unsigned pid)
{
    for (unsigned i = 0; i < count; i++)
        if (samples[i].pid == pid)
            return &samples[i];
    return NULL;
}

static void pmon_percentage(const struct lull_smi_run *run, bool is_known, uint32_t percent)
{
    if (is_known)
        fprintf(run->out, " %6" PRIu32, percent);
    else
        fprintf(run->out, " %6s", "-");
}

/* Writes a process, or for NULL that the GPU has none. */
static void pmon_line(const struct lull_smi_run *run, const struct lull_smi_gpu *gpu,
                      const struct nvml_process_v2 *process,
                      const struct nvml_process_utilization *sample)
{
    const struct nvml_process_utilization use =
        sample != NULL ? *sample : (struct nvml_process_utilization){0};
    char name[SMI_TEXT_BYTES] = "-";

    time_write(run);
    fprintf(run->out, "%4u", gpu->index);
    if (process != NULL) {
        smi_nvml_get_process_name(process->pid, name, sizeof(name));
        fprintf(run->out, " %10u %5s", process->pid, "C");
    } else {
        fprintf(run->out, " %10s %5s", "-", "-");
    }
    if (is_selected(run, 'u')) {
        pmon_percentage(run, sample != NULL, use.sm_percent);
        pmon_percentage(run, sample != NULL, use.memory_percent);
        for (int i = 2; i < PMON_PERCENTAGES; i++)
            fprintf(run->out, " %6s", "-");
    }
    if (is_selected(run, 'm')) {
        pmon_percentage(run, process != NULL && process->memory_bytes != UINT64_MAX,
                        process != NULL ? (uint32_t)(process->memory_bytes >> 20) : 0);
        fprintf(run->out, " %6s", "-");
    }
    fprintf(run->out, "    %-15.15s\n", strrchr(name, '/') != NULL ? strrchr(name, '/') + 1 : name);
}

static void pmon_round(const struct lull_smi_run *run)
{
    for (unsigned k = 0; k < run->count; k++) {
        struct nvml_process_utilization samples[SMI_MAX_PROCESSES];
        struct nvml_process_v2 processes[SMI_MAX_PROCESSES];
        const struct lull_smi_gpu *const gpu = run->selected[k];
        unsigned sampled = SMI_MAX_PROCESSES;
        unsigned count;

        if (smi_processes_read(gpu, processes, &count) != NVML_SUCCESS)
            count = 0;
        if (smi_nvml_get_samples(gpu->device, samples, &sampled, 0) != NVML_SUCCESS)
            sampled = 0;
        if (count == 0)
            pmon_line(run, gpu, NULL, NULL);
        for (unsigned i = 0; i < count; i++)
            pmon_line(run, gpu, &processes[i], sample_find(samples, sampled, processes[i].pid));
    }
}

void smi_monitor_round(const struct lull_smi_run *run, long round)
{
    const bool needs_header = round % ROUNDS_PER_HEADER == 0;

    if (run->options->action == SMI_DEVICE_MONITOR) {
        if (needs_header)
            dmon_header(run);
        dmon_round(run);
    } else {
        if (needs_header)
            pmon_header(run);
        pmon_round(run);
    }
}
