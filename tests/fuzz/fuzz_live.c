/*
 * The file of a run's live state may contain any bytes: a reader refuses them, or returns a
 * state with terminated texts, counts and kinds in range, and figures that are numbers or have
 * a reason. The input's first byte determines how much of a valid header precedes the rest.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "wire/live.c"

#include "folder.h"

static struct live_memory memory;

static void check_text(const char *text, size_t size)
{
    require(memchr(text, '\0', size) != NULL);
}

static void check_taken_figure(const struct lull_live_figure *figure)
{
    require(figure->unknown < LULL_LIVE_UNKNOWN_COUNT);
    require(isfinite(figure->value) == (figure->unknown == LULL_LIVE_KNOWN));
}

static void check_run(const struct lull_live_run *run)
{
    require(run->gpu_count <= LULL_LIVE_MAX_GPUS);
    require(run->ruler < LULL_LIVE_RULER_COUNT && run->verdict < LULL_LIVE_VERDICT_COUNT);
    check_text(run->command, sizeof(run->command));
    check_text(run->note, sizeof(run->note));
    check_taken_figure(&run->saving_ratio);
    check_taken_figure(&run->energy_j);
    require(run->serving.mode < LULL_LIVE_MODE_COUNT && run->serving.parked_since_ns >= 0);
    check_text(run->serving.reason, sizeof(run->serving.reason));
    check_taken_figure(&run->serving.j_per_output_token);
    for (uint32_t i = 0; i < run->gpu_count; i++) {
        const struct lull_live_gpu *const gpu = &run->gpus[i];

        check_text(gpu->uuid, sizeof(gpu->uuid));
        check_text(gpu->driver_text, sizeof(gpu->driver_text));
        require(gpu->section < LULL_LIVE_SECTION_COUNT && gpu->state < LULL_LIVE_STATE_COUNT);
        check_taken_figure(&gpu->power_w);
        check_taken_figure(&gpu->throttled);
        check_taken_figure(&gpu->sections[LULL_LIVE_GAP].energy_j);
    }
}

/* Writes the file and keeps it locked, as a governor does. */
static int put(const char *path, const void *data, size_t size)
{
    const int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    require(fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0);
    require(write(fd, data, size) == (ssize_t)size);
    return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const name = "lull-live-1-fuzz";
    static struct lull_live_run run;
    char path[128];
    size_t from = 0;
    size_t length;
    int fd;

    if (size == 0)
        return 0;
    memset(&memory, 0, sizeof(memory));
    if (data[0] % 2 == 1) { /* the rest is the state itself */
        memory.magic = MAGIC;
        memory.version = FORMAT_VERSION;
        memory.run_bytes = sizeof(struct lull_live_run);
        from = offsetof(struct live_memory, words);
    }
    length = size - 1 < sizeof(memory) - from ? size - 1 : sizeof(memory) - from;
    memcpy((char *)&memory + from, data + 1, length);
    snprintf(path, sizeof(path), "%s/%s", folder(), name);
    fd = put(path, &memory, data[0] % 4 < 2 ? sizeof(memory) : from + length);
    if (lull_live_read(folder(), name, &run, NULL) == 0)
        check_run(&run);
    close(fd);
    unlink(path);
    return 0;
}
