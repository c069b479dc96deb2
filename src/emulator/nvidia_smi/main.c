/*
 * nvidia-smi of an emulated node. It calls NVML only, by name, so it shows what every other client
 * of the emulated library sees. SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "emulator/nvidia_smi/node.h"

/* Exit statuses are NVML's codes up to 15, otherwise 255. */
static int exit_status(int code)
{
    enum { MOST_DOCUMENTED = 18, OTHER_ERROR = 255 };

    return code >= 0 && code <= MOST_DOCUMENTED ? code : OTHER_ERROR;
}

/* ---- rounds ---- */

static void round_await(long period_ms)
{
    struct timespec rest = {period_ms / 1000, period_ms % 1000 * 1000000};

    while (nanosleep(&rest, &rest) < 0 && errno == EINTR)
        ;
}

static int run_round(const struct lull_smi_run *run, long round)
{
    switch (run->options->action) {
    case SMI_SUMMARY:
        return smi_show_summary(run);
    case SMI_LIST:
        return smi_list(run);
    case SMI_REPORT:
        return smi_show_report(run);
    case SMI_QUERY_GPU:
    case SMI_QUERY_APPS:
    case SMI_QUERY_CLOCKS:
        return smi_query_rows(run);
    case SMI_TOPOLOGY:
        return smi_show_topology(run);
    case SMI_PROCESS_MONITOR:
    case SMI_DEVICE_MONITOR:
        smi_monitor_round(run, round);
        return 0;
    default:
        return smi_change_settings(run);
    }
}

/* What precedes the first round: checks of names, and headers. */
static int run_begin(const struct lull_smi_run *run)
{
    switch (run->options->action) {
    case SMI_QUERY_GPU:
    case SMI_QUERY_APPS:
    case SMI_QUERY_CLOCKS:
        return smi_query_begin(run);
    case SMI_PROCESS_MONITOR:
    case SMI_DEVICE_MONITOR:
        return smi_monitor_check(run);
    default:
        return 0;
    }
}

static int run_rounds(const struct lull_smi_run *run)
{
    const long period_ms = run->options->period_ms;
    int status = run_begin(run);

    for (long round = 0; status == 0; round++) {
        status = run_round(run, round);
        if (fflush(run->out) != 0)
            return SMI_EXIT_USAGE;
        if (period_ms == 0 || round + 1 == run->options->rounds)
            break;
        round_await(period_ms);
    }
    return status;
}

/* ---- the start ---- */

static void start_explain(int code, FILE *out)
{
    switch (code) {
    case SMI_LIBRARY_NOT_FOUND:
        fprintf(out, "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. Please make "
                     "sure that the NVIDIA Display Driver is properly installed and present in "
                     "your system.\nPlease also try adding directory that contains "
                     "libnvidia-ml.so to your system PATH.\n");
        break;
    case NVML_DRIVER_NOT_LOADED:
        fprintf(out, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA "
                     "driver. Make sure that the latest NVIDIA driver is installed and "
                     "running.\n\n");
        break;
    default:
        fprintf(out, "Failed to initialize NVML: %s\n", smi_nvml_text(code));
        break;
    }
}

static int run_on_node(const struct lull_smi_options *options, FILE *out)
{
    static struct lull_smi_node node;
    struct lull_smi_run run = {.options = options, .node = &node, .out = out};
    int code = smi_nvml_start();
    int status;

    if (code == NVML_SUCCESS)
        code = smi_node_read(&node);
    if (code != NVML_SUCCESS) {
        start_explain(code, out);
        return code;
    }
    status = smi_node_select(&run);
    if (status == 0)
        status = run_rounds(&run);
    smi_nvml_stop();
    return status;
}

static int print_version(FILE *out)
{
    char driver[80] = "N/A";
    char library[80] = "N/A";
    unsigned cuda = 0;
    const int code = smi_nvml_start();

    if (code != NVML_SUCCESS) {
        start_explain(code, out);
        return code;
    }
    smi_nvml_get_system_text("nvmlSystemGetDriverVersion", driver, sizeof(driver));
    smi_nvml_get_system_text("nvmlSystemGetNVMLVersion", library, sizeof(library));
    smi_nvml_get_system_number("nvmlSystemGetCudaDriverVersion_v2", &cuda);
    fprintf(out,
            "NVIDIA-SMI version  : %s\nNVML version        : %s\nDRIVER version      : %s\n"
            "CUDA Version        : %u.%u\n",
            driver, library, driver, cuda / 1000, cuda % 1000 / 10);
    smi_nvml_stop();
    return 0;
}

static int run_action(const struct lull_smi_options *options, FILE *out)
{
    switch (options->action) {
    case SMI_HELP:
        smi_options_print_help(out);
        return 0;
    case SMI_VERSION:
        return print_version(out);
    case SMI_HELP_GPU:
        smi_query_print_names(smi_gpu_attributes, "--query-gpu", out);
        return 0;
    case SMI_HELP_APPS:
        smi_query_print_names(smi_process_attributes, "--query-compute-apps", out);
        return 0;
    case SMI_HELP_CLOCKS:
        smi_query_print_names(smi_clock_attributes, "--query-supported-clocks", out);
        return 0;
    case SMI_MISSING:
        fprintf(out, "nvidia-smi %s is not emulated.\n", options->action_name);
        return SMI_EXIT_NOT_AVAILABLE;
    default:
        return run_on_node(options, out);
    }
}

int main(int argc, char **argv)
{
    struct lull_smi_options options;
    FILE *out = stdout;
    int status = smi_options_read(argc, argv, &options, stdout);

    if (status != 0)
        return status;
    if (options.file != NULL) {
        out = fopen(options.file, "we");
        if (out == NULL) {
            fprintf(stderr, "Failed to open file %s: %s\n", options.file, strerror(errno));
            return SMI_EXIT_ARGUMENT;
        }
    }
    status = exit_status(run_action(&options, out));
    if (fflush(out) != 0 && status == 0)
        status = SMI_EXIT_USAGE;
    if (out != stdout)
        fclose(out);
    return status;
}
