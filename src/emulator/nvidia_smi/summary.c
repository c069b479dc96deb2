/*
 * The table that nvidia-smi shows without arguments, and the list of -L.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "emulator/nvidia_smi/commands.h"

/* The columns of the table, as driver 550 and later have them. */
static const char frame[] =
    "+-----------------------------------------------------------------------------------------+";
static const char between[] =
    "+-----------------------------------------+------------------------+----------------------+";

static const char ruler[] =
    "=========================================================================================";

/* Reads an attribute into one word of the table. */
static void summary_word(const struct lull_smi_subject *subject, const char *name, char *text,
                         size_t size)
{
    struct lull_smi_value value;

    smi_gpu_read(subject, name, &value);
    if (smi_code_is_missing(value.code))
        snprintf(text, size, "N/A");
    else if (value.code != NVML_SUCCESS)
        snprintf(text, size, "ERR!");
    else
        snprintf(text, size, "%s", value.text);
}

/* As summary_word, with a unit behind a value that is known. */
static void summary_amount(const struct lull_smi_subject *subject, const char *name,
                           const char *unit, char *text, size_t size)
{
    struct lull_smi_value value;

    summary_word(subject, name, text, size);
    smi_gpu_read(subject, name, &value);
    if (value.code == NVML_SUCCESS)
        strncat(text, unit, size - strlen(text) - 1);
}

/* As summary_amount, in whole W. */
static void summary_watts(const struct lull_smi_subject *subject, const char *name, char *text,
                          size_t size)
{
    char *point;

    summary_word(subject, name, text, size);
    point = strchr(text, '.');
    if (point != NULL && (size_t)(point - text) + 2 <= size)
        memcpy(point, "W", 2);
}

enum { WORD = SMI_TEXT_BYTES };

static void summary_on_off(const struct lull_smi_subject *subject, const char *name, char *text)
{
    summary_word(subject, name, text, WORD);
    if (strcmp(text, "Enabled") == 0)
        snprintf(text, WORD, "On");
    else if (strcmp(text, "Disabled") == 0)
        snprintf(text, WORD, "Off");
}

static void summary_first_line(const struct lull_smi_run *run,
                               const struct lull_smi_subject *subject)
{
    char name[WORD];
    char persistence[WORD];
    char display[WORD];
    char errors[WORD];

    summary_word(subject, "name", name, sizeof(name));
    summary_on_off(subject, "persistence_mode", persistence);
    summary_on_off(subject, "display_active", display);
    summary_word(subject, "ecc.errors.uncorrected.volatile.total", errors, sizeof(errors));
    fprintf(run->out, "| %3u  %-30.30s %-3s | %18s %3s | %20s |\n", subject->gpu->index, name,
            persistence, subject->gpu->bus_id, display, errors);
}

static void summary_second_line(const struct lull_smi_run *run,
                                const struct lull_smi_subject *subject)
{
    char fan[WORD];
    char heat[WORD];
    char state[WORD];
    char draw[WORD];
    char limit[WORD];
    char used[WORD];
    char total[WORD];
    char utilization[WORD];
    char mode[WORD];

    summary_amount(subject, "fan.speed", "%", fan, sizeof(fan));
    summary_amount(subject, "temperature.gpu", "C", heat, sizeof(heat));
    summary_word(subject, "pstate", state, sizeof(state));
    summary_watts(subject, "power.draw", draw, sizeof(draw));
    summary_watts(subject, "enforced.power.limit", limit, sizeof(limit));
    summary_amount(subject, "memory.used", "MiB", used, sizeof(used));
    summary_amount(subject, "memory.total", "MiB", total, sizeof(total));
    summary_amount(subject, "utilization.gpu", "%", utilization, sizeof(utilization));
    summary_word(subject, "compute_mode", mode, sizeof(mode));
    if (strcmp(mode, "Exclusive_Process") == 0)
        snprintf(mode, sizeof(mode), "E. Process");
    fprintf(run->out, "| %3s  %4s    %-3s%15s / %5s | %10s / %9s | %7s%13s |\n", fan, heat, state,
            draw, limit, used, total, utilization, mode);
}

static void summary_gpu(const struct lull_smi_run *run, const struct lull_smi_gpu *gpu)
{
    const struct lull_smi_subject subject = smi_subject_of(run->node, gpu);
    char mig[WORD];

    summary_first_line(run, &subject);
    summary_second_line(run, &subject);
    summary_word(&subject, "mig.mode.current", mig, sizeof(mig));
    fprintf(run->out, "| %39s | %22s | %20s |\n%s\n", "", "", mig, between);
}

static unsigned summary_processes_of(const struct lull_smi_run *run, const struct lull_smi_gpu *gpu)
{
    struct nvml_process_v2 processes[SMI_MAX_PROCESSES];
    unsigned count;

    if (smi_processes_read(gpu, processes, &count) != NVML_SUCCESS)
        return 0;
    for (unsigned i = 0; i < count; i++) {
        char name[WORD] = "N/A";
        char memory[32] = "N/A";

        smi_nvml_get_process_name(processes[i].pid, name, sizeof(name));
        if (processes[i].memory_bytes != UINT64_MAX)
            snprintf(memory, sizeof(memory), "%" PRIu64 "MiB", processes[i].memory_bytes >> 20);
        fprintf(run->out, "| %4u   N/A  N/A%16u      C   %-35.35s %10s |\n", gpu->index,
                processes[i].pid, name, memory);
    }
    return count;
}

static void summary_processes(const struct lull_smi_run *run)
{
    unsigned count = 0;

    fprintf(run->out, "\n%s\n", frame);
    fprintf(run->out, "| %-87s |\n", "Processes:");
    fprintf(run->out, "| %-76s %10s |\n", " GPU   GI   CI              PID   Type   Process name",
            "GPU Memory");
    fprintf(run->out, "| %-76s %-10s |\n", "       ID   ID", "Usage");
    fprintf(run->out, "|%.*s|\n", (int)sizeof(frame) - 3, ruler);
    for (unsigned i = 0; i < run->count; i++)
        count += summary_processes_of(run, run->selected[i]);
    if (count == 0)
        fprintf(run->out, "| %-87s |\n", " No running processes found");
    fprintf(run->out, "%s\n", frame);
}

int smi_show_summary(const struct lull_smi_run *run)
{
    const time_t now = time(NULL);
    struct tm parts;
    char text[64];
    char driver[80] = "N/A";
    char version[16];
    unsigned cuda = 0;

    localtime_r(&now, &parts);
    strftime(text, sizeof(text), "%a %b %e %H:%M:%S %Y", &parts);
    smi_nvml_get_system_text("nvmlSystemGetDriverVersion", driver, sizeof(driver));
    smi_nvml_get_system_number("nvmlSystemGetCudaDriverVersion_v2", &cuda);
    snprintf(version, sizeof(version), "%u.%u", cuda / 1000, cuda % 1000 / 10);
    fprintf(run->out, "%-31s\n%s\n", text, frame);
    fprintf(run->out, "| NVIDIA-SMI %-22.22s Driver Version: %-14.14s CUDA Version: %-8s |\n",
            driver, driver, version);
    fprintf(run->out, "%s\n", between);
    fprintf(
        run->out,
        "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. "
        "ECC |\n"
        "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute "
        "M. |\n"
        "| %39s | %22s | %20s |\n",
        "", "", "MIG M.");
    fprintf(run->out,
            "|=========================================+========================+========="
            "=============|\n");
    for (unsigned i = 0; i < run->count; i++)
        summary_gpu(run, run->selected[i]);
    summary_processes(run);
    return 0;
}

int smi_list(const struct lull_smi_run *run)
{
    for (unsigned i = 0; i < run->count; i++) {
        const struct lull_smi_subject subject = smi_subject_of(run->node, run->selected[i]);
        char name[WORD];
        char uuid[WORD];

        summary_word(&subject, "name", name, sizeof(name));
        summary_word(&subject, "uuid", uuid, sizeof(uuid));
        fprintf(run->out, "GPU %u: %s (UUID: %s)\n", subject.gpu->index, name, uuid);
    }
    return 0;
}
