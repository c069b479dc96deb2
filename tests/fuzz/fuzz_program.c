/*
 * What `lull run` looks into before a job starts: a script and its first line, a list of folders,
 * the variables that say which GPUs the job sees, and what the kernel says of a process whose name
 * somebody has chosen. SPDX-License-Identifier: Apache-2.0
 */
#include "../device/fake_devices.h"
#include "../text_file.h"
#include "fuzz.h"

#include <fcntl.h>

/* Reads of /proc come from the input. */
static const char *stat_path;
#define open(path, flags) open(stat_path != NULL ? stat_path : (path), flags)
#include "base/process.c"
#undef open

#include "governor/run/program.c"
#include "governor/run/visible_gpus.c"

static const char *vendor;

const char *lull_devices_vendor(const struct lull_devices *devices)
{
    (void)devices;
    return vendor;
}

static void see_gpus(const char *text)
{
    static const char *const names[] = {"nvidia", "amd", "intel"};
    static const char *const variables[] = {"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
                                            "ZE_AFFINITY_MASK"};
    uint32_t gpus[LULL_DEVICE_MAX_GPUS];

    fake_reset(3);
    for (size_t i = 0; i < 3; i++) {
        uint32_t count;

        vendor = names[i];
        setenv(variables[i], text, 1);
        count = lull_visible_gpus(NULL, gpus, LULL_DEVICE_MAX_GPUS);
        unsetenv(variables[i]);
        require(count <= 3);
        for (uint32_t k = 0; k < count; k++)
            for (uint32_t j = 0; j <= k; j++)
                require(gpus[k] < 3 && (j == k || gpus[j] != gpus[k]));
    }
}

static void walk(const char *text)
{
    const char *rest = text;
    char out[64];
    int found;

    while ((found = lull_path_next(&rest, "/opt/lull", out, sizeof(out))) != 0) {
        require(rest >= text && rest <= text + strlen(text));
        require(found < 0 || memchr(out, '\0', sizeof(out)) != NULL);
    }
    require(lull_path_base(text) <= text + strlen(text));
}

/* As a script that a shell is given, and by its own first line. */
static void look_into(const char *path)
{
    char *const command[] = {(char[]){"/bin/sh"}, (char *)(uintptr_t)path, NULL};

    setenv("PATH", "/bin", 1); /* each word is looked up in each of its folders */
    (void)is_script_of(path, is_interpreter);
    require(lull_command_is_script(command));
    (void)lull_command_runs_python(command);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    int64_t ticks;

    require(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    see_gpus(text);
    walk(text);
    look_into(text_file(data, size));
    stat_path = text_file(data, size);
    ticks = lull_process_start_ticks(1);
    stat_path = NULL;
    (void)ticks;
    free(text);
    return 0;
}
