/*
 * Data of a job that `lull run` reads: the variables that select its GPUs, the words of
 * its command, and the kernel's data of its processes, whose names a user has chosen.
 * SPDX-License-Identifier: Apache-2.0
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

#include "governor/run/run_witness.c"
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
    struct lull_visible_gpus visible;

    fake_reset(3);
    for (size_t i = 0; i < 3; i++) {
        vendor = names[i];
        setenv(variables[i], text, 1);
        lull_visible_gpus(NULL, &visible);
        unsetenv(variables[i]);
        require(visible.count <= 3 && (!visible.is_certain || visible.count == 1));
        for (uint32_t k = 0; k < visible.count; k++)
            for (uint32_t j = 0; j <= k; j++)
                require(visible.gpus[k] < 3 && (j == k || visible.gpus[j] != visible.gpus[k]));
    }
}

/* Reads the input as the /proc/PID/maps of a process of the command. */
static void see_maps(const char *text, size_t size)
{
    struct mapped mapped;
    FILE *const file = fmemopen((void *)(uintptr_t)text, size, "r");

    if (file == NULL)
        return;
    if (read_maps(file, &mapped))
        require(run_witness_classify(&mapped) > LULL_RUN_PROBING_NONE &&
                memchr(mapped.library, '\0', sizeof(mapped.library)) != NULL);
    fclose(file);
}

/* Reads the input as a word of the command, such as the script behind `sh -c`. */
static void see_command(const char *text)
{
    char *const command[] = {(char *)(uintptr_t)text, NULL};
    struct lull_run_witness witness = {.probing = LULL_RUN_PROBING_PLAIN};
    char sentence[512];

    lull_run_witness_describe(&witness, command, sentence, sizeof(sentence));
    require(strncmp(sentence, "no ", 3) == 0 && strstr(sentence, " was detected") != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    int64_t ticks;

    require(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    see_gpus(text);
    see_maps(text, size);
    see_command(text);
    stat_path = text_file(data, size);
    ticks = lull_process_start_ticks(1);
    stat_path = NULL;
    (void)ticks;
    free(text);
    return 0;
}
