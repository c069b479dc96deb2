/*
 * Soak of the emulated NVML: processes read all GPUs of one node as monitors do, while another one
 * puts work on some GPUs. Prints the calls per second, and fails if a call fails, a value is
 * impossible, or a process or the node grows after the start.
 *
 * usage: soak_nvml SECONDS [GPUS [PROCESSES]]; the default is 64 GPUs and 16 processes.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "emulator/node.h"
#include "emulator/nvml/nvml_library.h"
#include "emulator/workload.h"

enum {
    MAX_PROCESSES = 256,
    ROUNDS_BEFORE_SETTING = 50, /* rounds over all GPUs between two set calls of a process */
    ROUNDS_BEFORE_OPENING = 1000,
    FIELDS = 4,
};

/* Growth of private memory that the C library's allocator may cause. Sanitizers keep freed memory,
 * and report leaks themselves. */
static const int64_t allowed_growth_kb = LULL_HAS_SANITIZER ? INT64_MAX : 64;

struct nvml_event_set;

int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device_out);
int nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned *mw_out);
int nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device, unsigned long long *mj_out);
int nvmlDeviceGetTemperature(nvmlDevice_t device, int sensor, unsigned *celsius_out);
int nvmlDeviceGetMemoryInfo(nvmlDevice_t device, struct nvml_memory *out);
int nvmlDeviceGetPerformanceState(nvmlDevice_t device, int *state_out);
int nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device, unsigned long long *reasons_out);
int nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned *mw_out);
int nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count,
                                            struct nvml_process_v2 *processes);
int nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, struct nvml_field *fields);
int nvmlDeviceGetSamples(nvmlDevice_t device, int type, unsigned long long last_us,
                         int *value_type_out, unsigned *count, struct nvml_sample *samples);
int nvmlDeviceSetGpuLockedClocks(nvmlDevice_t device, unsigned min_mhz, unsigned max_mhz);
int nvmlDeviceResetGpuLockedClocks(nvmlDevice_t device);
int nvmlEventSetCreate(struct nvml_event_set **set_out);
int nvmlEventSetFree(struct nvml_event_set *set);
int nvmlGpmSampleAlloc(struct nvml_gpm_sample **sample_out);
int nvmlGpmSampleGet(nvmlDevice_t device, struct nvml_gpm_sample *sample);
int nvmlGpmSampleFree(struct nvml_gpm_sample *sample);

/* What a process uses. */
struct usage {
    int64_t private_kb;
    int64_t descriptors;
};

struct reader { /* in memory that all processes share */
    uint64_t calls;
    uint64_t setting_calls;
    struct usage begin;
    struct usage end;
    char failure[120]; /* empty: none */
};

static struct reader *self; /* of a reading process */
static unsigned long long last_mj[LULL_NODE_MAX_GPUS];

static void check(bool is_right, const char *name, unsigned gpu, double value)
{
    self->calls++;
    if (!is_right && self->failure[0] == '\0')
        snprintf(self->failure, sizeof(self->failure), "%s of GPU %u: code or value %g", name, gpu,
                 value);
}

/* Calls a function, whose code must be that of success, and checks its value. */
#define READ(gpu, call, is_plausible, value)                                                       \
    do {                                                                                           \
        const int read_code = (call);                                                              \
                                                                                                   \
        check(read_code == NVML_SUCCESS && (is_plausible), #call, gpu,                             \
              read_code != NVML_SUCCESS ? (double)read_code : (double)(value));                    \
    } while (0)

/* ---- readers ---- */

static void read_power(unsigned gpu, nvmlDevice_t device)
{
    unsigned long long mj = 0;
    unsigned limit_mw = 0;
    unsigned mw = 0;

    READ(gpu, nvmlDeviceGetEnforcedPowerLimit(device, &limit_mw), limit_mw > 0, limit_mw);
    READ(gpu, nvmlDeviceGetPowerUsage(device, &mw), mw > 10000 && mw < 2 * limit_mw, mw);
    READ(gpu, nvmlDeviceGetTotalEnergyConsumption(device, &mj), mj >= last_mj[gpu], mj);
    last_mj[gpu] = mj;
}

static void read_state(unsigned gpu, nvmlDevice_t device)
{
    unsigned long long reasons = 0;
    struct nvml_utilization use = {0};
    unsigned celsius = 0;
    unsigned mhz = 0;
    int state = 0;

    READ(gpu, nvmlDeviceGetTemperature(device, 0, &celsius), celsius > 10 && celsius < 120,
         celsius);
    READ(gpu, nvmlDeviceGetClockInfo(device, NVML_CLOCK_SM, &mhz), mhz > 100 && mhz < 3000, mhz);
    READ(gpu, nvmlDeviceGetClockInfo(device, NVML_CLOCK_MEMORY, &mhz), mhz > 100, mhz);
    READ(gpu, nvmlDeviceGetUtilizationRates(device, &use),
         use.gpu_percent <= 100 && use.memory_percent <= 100, use.gpu_percent);
    READ(gpu, nvmlDeviceGetPerformanceState(device, &state), state >= 0 && state <= 8, state);
    READ(gpu, nvmlDeviceGetCurrentClocksEventReasons(device, &reasons), reasons <= 0x1ff, reasons);
}

static void read_memory(unsigned gpu, nvmlDevice_t device)
{
    struct nvml_process_v2 processes[LULL_PHYSICS_CONTEXTS];
    unsigned count = LULL_PHYSICS_CONTEXTS;
    struct nvml_memory memory = {0};

    READ(gpu, nvmlDeviceGetMemoryInfo(device, &memory),
         memory.total == memory.available + memory.used, memory.used);
    READ(gpu, nvmlDeviceGetComputeRunningProcesses_v3(device, &count, processes), count <= 1,
         count);
}

static void read_fields(unsigned gpu, nvmlDevice_t device)
{
    enum { MEMORY_TEMPERATURE = 82, ENERGY = 83, PCIE_REPLAYS = 94, POWER_INSTANT = 186 };
    struct nvml_field fields[FIELDS] = {
        {.id = MEMORY_TEMPERATURE}, {.id = ENERGY}, {.id = PCIE_REPLAYS}, {.id = POWER_INSTANT}};

    READ(gpu, nvmlDeviceGetFieldValues(device, FIELDS, fields),
         fields[1].code == NVML_SUCCESS && fields[1].value.as_ulonglong >= last_mj[gpu],
         fields[1].value.as_ulonglong);
}

static void read_samples(unsigned gpu, nvmlDevice_t device)
{
    struct nvml_sample samples[LULL_PHYSICS_SAMPLES];
    unsigned count = LULL_PHYSICS_SAMPLES;
    int type;
    int code = nvmlDeviceGetSamples(device, 0, 0, &type, &count, samples);

    /* There is none yet in the first tenth of a second. */
    check(code == NVML_SUCCESS || code == NVML_NOT_FOUND, "nvmlDeviceGetSamples", gpu, code);
}

/* What allocates memory in the library. */
static void use_objects(unsigned gpu, nvmlDevice_t device)
{
    struct nvml_gpm_sample *sample = NULL;
    struct nvml_event_set *set = NULL;

    READ(gpu, nvmlEventSetCreate(&set), set != NULL, 0);
    READ(gpu, nvmlEventSetFree(set), true, 0);
    READ(gpu, nvmlGpmSampleAlloc(&sample), sample != NULL, 0);
    READ(gpu, nvmlGpmSampleGet(device, sample), true, 0);
    READ(gpu, nvmlGpmSampleFree(sample), true, 0);
}

static void set_clock(unsigned gpu, nvmlDevice_t device)
{
    const int code = nvmlDeviceSetGpuLockedClocks(device, 900, 1200);

    self->setting_calls++;
    if (code == NVML_NO_PERMISSION)
        return;
    READ(gpu, code, true, 0);
    READ(gpu, nvmlDeviceResetGpuLockedClocks(device), true, 0);
}

static void read_round(unsigned gpu_count)
{
    for (unsigned gpu = 0; gpu < gpu_count; gpu++) {
        nvmlDevice_t device = NULL;

        READ(gpu, nvmlDeviceGetHandleByIndex_v2(gpu, &device), device != NULL, 0);
        read_power(gpu, device);
        read_state(gpu, device);
        read_memory(gpu, device);
        read_fields(gpu, device);
    }
}

static void read_seldom(unsigned round, unsigned gpu_count)
{
    const unsigned gpu = round % gpu_count;
    nvmlDevice_t device = NULL;

    READ(gpu, nvmlDeviceGetHandleByIndex_v2(gpu, &device), device != NULL, 0);
    read_samples(gpu, device);
    use_objects(gpu, device);
    if (round % ROUNDS_BEFORE_SETTING == 0)
        set_clock(gpu, device);
    if (round % ROUNDS_BEFORE_OPENING == 0) {
        READ(gpu, nvmlShutdown(), true, 0);
        READ(gpu, nvmlInit_v2(), true, 0);
    }
}

/* ---- what a process uses ---- */

static int64_t count_entries(const char *path)
{
    DIR *directory = opendir(path);
    int64_t count = 0;

    if (directory == NULL)
        return -1;
    while (readdir(directory) != NULL)
        count++;
    closedir(directory);
    return count;
}

static int64_t read_private_kb(void)
{
    FILE *file = fopen("/proc/self/status", "r");
    char line[128];
    int64_t kb = -1;

    if (file == NULL)
        return -1;
    while (kb < 0 && fgets(line, sizeof(line), file) != NULL)
        sscanf(line, "RssAnon: %" SCNd64, &kb);
    fclose(file);
    return kb;
}

static struct usage measure_usage(void)
{
    return (struct usage){read_private_kb(), count_entries("/proc/self/fd")};
}

static void run_reader(unsigned gpu_count, int64_t mark_ns, int64_t end_ns)
{
    bool is_marked = false;

    if (nvmlInit_v2() != NVML_SUCCESS) {
        snprintf(self->failure, sizeof(self->failure), "nvmlInit_v2");
        return;
    }
    for (unsigned round = 1; lull_now_ns() < end_ns && self->failure[0] == '\0'; round++) {
        read_round(gpu_count);
        read_seldom(round, gpu_count);
        if (!is_marked) {
            self->begin = measure_usage();
            is_marked = lull_now_ns() >= mark_ns;
        }
    }
    self->end = measure_usage();
    nvmlShutdown();
}

/* ---- the work on some GPUs: each in a context that lives for 100 kernels ---- */

static void run_work(int64_t end_ns)
{
    enum { BUSY_GPUS = 4, KERNELS = 100 };
    const struct lull_kernel kernel = {.duration_ms = 10};

    for (uint32_t turn = 0; lull_now_ns() < end_ns; turn++) {
        struct lull_emulated_gpu *gpus[BUSY_GPUS];

        for (uint32_t i = 0; i < BUSY_GPUS; i++)
            if (lull_emulated_gpu_open(i, &gpus[i], NULL) < 0)
                _exit(1);
        for (uint32_t k = 0; k < KERNELS; k++)
            for (uint32_t i = 0; i < BUSY_GPUS; i++)
                lull_emulated_gpu_launch(gpus[i], &kernel);
        for (uint32_t i = 0; i < BUSY_GPUS; i++) {
            lull_emulated_gpu_wait(gpus[i]);
            lull_emulated_gpu_close(gpus[i]);
        }
    }
}

/* ---- all processes ---- */

static pid_t start_process(void)
{
    const pid_t pid = fork();

    if (pid < 0)
        perror("soak_nvml: cannot start a process");
    if (pid == 0)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    return pid;
}

static bool await_process(pid_t pid, unsigned number)
{
    int status = 0;

    if (waitpid(pid, &status, 0) == pid && status == 0)
        return true;
    fprintf(stderr, "soak_nvml: process %u ended with wait status %d\n", number, status);
    return false;
}

static bool judge_reader(const struct reader *reader, unsigned number)
{
    const int64_t grown_kb = reader->end.private_kb - reader->begin.private_kb;
    const int64_t opened = reader->end.descriptors - reader->begin.descriptors;

    if (reader->failure[0] != '\0') {
        fprintf(stderr, "soak_nvml: process %u: %s\n", number, reader->failure);
        return false;
    }
    if (grown_kb <= allowed_growth_kb && opened == 0)
        return true;
    fprintf(stderr,
            "soak_nvml: process %u leaks: %" PRId64 " kB and %" PRId64 " descriptors more\n",
            number, grown_kb, opened);
    return false;
}

static int64_t node_blocks(const struct lull_node *node)
{
    struct stat info;

    return stat(lull_node_path(node), &info) == 0 ? (int64_t)info.st_blocks : -1;
}

static bool run_processes(const struct lull_node *node, struct reader *readers, unsigned count,
                          double seconds)
{
    const int64_t start_ns = lull_now_ns();
    const int64_t mark_ns = start_ns + lull_ns_from_ms(1e3 * fmin(seconds / 4, 10));
    const int64_t end_ns = start_ns + lull_ns_from_ms(1e3 * seconds);
    pid_t pids[MAX_PROCESSES + 1];
    int64_t blocks;
    bool is_good = true;

    for (unsigned i = 0; i <= count; i++) {
        pids[i] = start_process();
        if (pids[i] < 0)
            return false;
        if (pids[i] > 0)
            continue;
        self = &readers[i];
        if (i < count)
            run_reader(lull_node_gpu_count(node), mark_ns, end_ns);
        else
            run_work(end_ns);
        exit(0);
    }
    lull_sleep_until_ns(mark_ns);
    blocks = node_blocks(node);
    for (unsigned i = 0; i <= count; i++)
        is_good = await_process(pids[i], i) && is_good;
    for (unsigned i = 0; i < count; i++)
        is_good = judge_reader(&readers[i], i) && is_good;
    if (node_blocks(node) == blocks)
        return is_good;
    fprintf(stderr, "soak_nvml: the node's memory has grown after the start\n");
    return false;
}

static void print_sums(const struct reader *readers, unsigned count, double seconds)
{
    uint64_t calls = 0;
    uint64_t setting_calls = 0;

    for (unsigned i = 0; i < count; i++) {
        calls += readers[i].calls;
        setting_calls += readers[i].setting_calls;
    }
    printf("%.0f s, %u processes: %" PRIu64 " calls, %.0f calls/s, %" PRIu64 " locks of a clock\n",
           seconds, count, calls, (double)calls / seconds, setting_calls);
}

int main(int argc, char **argv)
{
    const double seconds = argc > 1 ? atof(argv[1]) : 0;
    const unsigned gpus = argc > 2 ? (unsigned)atoi(argv[2]) : 64;
    const unsigned count = argc > 3 ? (unsigned)atoi(argv[3]) : 16;
    struct lull_node_spec spec = {.seed = 1, .time_scale = 1};
    struct reader *readers;
    struct lull_node *node;
    char text[32];
    bool is_good;

    snprintf(text, sizeof(text), "%uxH100", gpus);
    if (seconds <= 0 || count == 0 || count > MAX_PROCESSES ||
        lull_node_spec_parse(text, &spec, NULL) < 0 || lull_node_create(&spec, &node, NULL) < 0) {
        fprintf(stderr, "usage: soak_nvml SECONDS [GPUS [PROCESSES]]\n");
        return 2;
    }
    setenv(LULL_EMULATED_NODE_VARIABLE, lull_node_path(node), 1);
    readers = mmap(NULL, (MAX_PROCESSES + 1) * sizeof(*readers), PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    is_good = readers != MAP_FAILED && run_processes(node, readers, count, seconds);
    if (is_good)
        print_sums(readers, count, seconds);
    lull_node_remove(node);
    return is_good ? 0 : 1;
}
