/*
 * A libcuda whose GPU is this processor. Modules are the shared libraries of mock_nvrtc.c; the
 * threads of a block are fibres that change at barriers, and blocks follow one another, every other
 * with its threads from the last to the first, so that a missing barrier shows. Each buffer ends at
 * a guard page, so that a wrong index shows too.
 *
 * LULL_MOCK_CAPABILITY (90), LULL_MOCK_MEMORY (bytes, 16 GB), LULL_MOCK_GPUS (1) and LULL_MOCK_FAIL
 * (the name of a call that fails) determine the GPU; LULL_MOCK_LOG names a file that gets a line
 * per launch. Launches are computed at once. Threads: one. SPDX-License-Identifier: Apache-2.0
 */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

enum {
    OK = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    INVALID_CONTEXT = 201,
    NOT_FOUND = 500,
    LAUNCH_FAILED = 719,
    MAX_THREADS = 1024,
    STACK = 256 * 1024,
    PAGE = 4096,
    MOST_BUFFERS = 64,
    ARGUMENTS = 12,
    SHARED = 227 * 1024,
    MAX_GPUS = 16,
    ALIGNMENT = 16,
};

static const unsigned char uuid[16] = {0xa7, 6,    0xdd, 0x2f, 0x4d, 0x19, 0x7e, 0x6f,
                                       0x23, 0x82, 0x75, 0xbc, 0x38, 0xfc, 0xbe, 0x91};

struct dim3 {
    unsigned x, y, z;
};
struct cpu_thread { /* as cpu.h has it */
    struct dim3 thread, block, block_size, grid_size;
    unsigned char *shared;
    void (*wait_block)(void);
    void (*wait_warp)(void);
};

struct function {
    void (*call)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                 uint64_t, uint64_t, uint64_t, uint64_t);
    struct cpu_thread *cpu;
    char *context; /* in which it was loaded */
    int shared;    /* that may be requested */
    char name[64];
};

enum state { RUNS, WAITS_WARP, WAITS_BLOCK, ENDED };
struct fibre {
    ucontext_t context;
    jmp_buf jump;
    bool has_begun;
    enum state state;
    struct dim3 thread;
};

static struct {
    char contexts[MAX_GPUS]; /* their addresses are the contexts of the GPUs */
    char *current;           /* NULL: none */
    int retained;            /* number of contexts in use */
    uint64_t used;           /* of all GPUs */
    struct {
        unsigned char *pages;
        size_t size;
        size_t wanted;
        uint64_t address;
    } buffers[MOST_BUFFERS];
    struct fibre fibres[MAX_THREADS];
    unsigned char *stacks;
    unsigned char *shared;
    ucontext_t scheduler_context;
    jmp_buf scheduler;
    uint32_t running;
    struct function *function;
    uint64_t arguments[ARGUMENTS];
} mock;

static void note_launch(const char *name, const unsigned *numbers)
{
    const char *const path = getenv("LULL_MOCK_LOG");
    FILE *const file = path != NULL ? fopen(path, "ae") : NULL;

    if (file == NULL)
        return;
    fprintf(file, "launch %s grid %u %u %u block %u %u %u shared %u\n", name, numbers[0],
            numbers[1], numbers[2], numbers[3], numbers[4], numbers[5], numbers[6]);
    fclose(file);
}

static bool fails(const char *call)
{
    const char *const name = getenv("LULL_MOCK_FAIL");

    return name != NULL && strcmp(name, call) == 0;
}

static uint64_t number_from(const char *variable, uint64_t otherwise)
{
    const char *const text = getenv(variable);

    return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}

#define EXPORT(name, ...)                                                                          \
    int name(__VA_ARGS__);                                                                         \
    int name(__VA_ARGS__)
#define CHECK(call)                                                                                \
    if (fails(call))                                                                               \
        return LAUNCH_FAILED;                                                                      \
    if (mock.current == NULL)                                                                      \
    return INVALID_CONTEXT

/* ---- the GPU ---- */

EXPORT(cuInit, unsigned flags)
{
    return fails("cuInit") ? 100 : flags != 0;
}

EXPORT(cuGetErrorString, int code, const char **text)
{
    *text = code == OUT_OF_MEMORY ? "out of memory" : "the mock is set to fail";
    return OK;
}

static int gpus(void)
{
    return (int)number_from("LULL_MOCK_GPUS", 1);
}

EXPORT(cuDeviceGetCount, int *count)
{
    *count = gpus();
    return OK;
}

EXPORT(cuDeviceGet, int *device, int ordinal)
{
    *device = ordinal;
    return ordinal < gpus() ? OK : INVALID_VALUE;
}

/* The last GPU has the UUID above, so that the one that is requested need not be the first. */
EXPORT(cuDeviceGetUuid, unsigned char *uuid_out, int device)
{
    memcpy(uuid_out, uuid, sizeof(uuid));
    uuid_out[0] = (unsigned char)(uuid_out[0] + gpus() - 1 - device);
    return device < gpus() ? OK : INVALID_VALUE;
}

EXPORT(cuDeviceGetAttribute, int *value, int attribute, int device)
{
    const int capability = (int)number_from("LULL_MOCK_CAPABILITY", 90);

    if (device >= gpus() || (attribute != 75 && attribute != 76))
        return INVALID_VALUE;
    *value = attribute == 75 ? capability / 10 : capability % 10;
    return OK;
}

EXPORT(cuDevicePrimaryCtxRetain, void **context, int device)
{
    *context = &mock.contexts[device];
    mock.retained++;
    return device < gpus() ? OK : INVALID_VALUE;
}

/* The release of the measured GPU, the last one, comes after everything is freed. */
EXPORT(cuDevicePrimaryCtxRelease_v2, int device)
{
    mock.retained--;
    if (device == gpus() - 1 && (mock.used != 0 || mock.retained != 0)) {
        fprintf(stderr, "mock: %llu bytes and %d contexts are left\n",
                (unsigned long long)mock.used, mock.retained);
        abort();
    }
    if (mock.current == &mock.contexts[device])
        mock.current = NULL;
    return device < gpus() ? OK : INVALID_VALUE;
}

EXPORT(cuCtxSetCurrent, void *context)
{
    const char *const wanted = context;

    if (wanted < mock.contexts || wanted >= mock.contexts + gpus())
        return INVALID_CONTEXT;
    mock.current = context;
    return OK;
}

EXPORT(cuCtxSynchronize, void)
{
    CHECK("cuCtxSynchronize");
    return OK;
}

/* ---- memory ---- */

EXPORT(cuMemGetInfo_v2, size_t *free_out, size_t *total)
{
    CHECK("cuMemGetInfo_v2");
    *total = number_from("LULL_MOCK_MEMORY", UINT64_C(16000000000));
    *free_out = *total - mock.used;
    return OK;
}

EXPORT(cuMemAlloc_v2, uint64_t *address, size_t bytes)
{
    const size_t wanted = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    const size_t inner = (wanted + PAGE - 1) / PAGE * PAGE;
    size_t at = 0;
    unsigned char *pages;

    CHECK("cuMemAlloc_v2");
    while (at < MOST_BUFFERS && mock.buffers[at].pages != NULL)
        at++;
    if (bytes == 0 || at == MOST_BUFFERS)
        return INVALID_VALUE;
    pages = mmap(NULL, inner + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED || mprotect(pages + PAGE, inner, PROT_READ | PROT_WRITE) != 0)
        return OUT_OF_MEMORY;
    memset(pages + PAGE, 0xff, inner); /* NaN: so that an unfilled buffer is detected */
    *address = (uint64_t)(uintptr_t)(pages + PAGE + inner - wanted);
    mock.buffers[at].pages = pages;
    mock.buffers[at].size = inner + 2 * PAGE;
    mock.buffers[at].wanted = wanted;
    mock.buffers[at].address = *address;
    mock.used += wanted;
    return OK;
}

EXPORT(cuMemFree_v2, uint64_t address)
{
    if (mock.current == NULL)
        return INVALID_CONTEXT;
    for (size_t at = 0; at < MOST_BUFFERS; at++)
        if (mock.buffers[at].pages != NULL && mock.buffers[at].address == address) {
            mock.used -= mock.buffers[at].wanted;
            munmap(mock.buffers[at].pages, mock.buffers[at].size);
            mock.buffers[at].pages = NULL;
            return OK;
        }
    abort();
}

EXPORT(cuMemsetD8_v2, uint64_t address, unsigned char value, size_t bytes)
{
    CHECK("cuMemsetD8_v2");
    memset((void *)(uintptr_t)address, value, bytes);
    return OK;
}

EXPORT(cuMemcpyDtoH_v2, void *to, uint64_t from, size_t bytes)
{
    CHECK("cuMemcpyDtoH_v2");
    memcpy(to, (const void *)(uintptr_t)from, bytes);
    return OK;
}

EXPORT(cuMemcpyPeer, uint64_t to, void *to_context, uint64_t from, void *from_context, size_t bytes)
{
    CHECK("cuMemcpyPeer");
    if (to_context == from_context)
        return INVALID_CONTEXT;
    memcpy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
    return OK;
}

/* ---- modules ---- */

EXPORT(cuModuleLoadData, void **module, const void *image)
{
    CHECK("cuModuleLoadData");
    *module = dlopen(image, RTLD_NOW | RTLD_LOCAL);
    if (*module == NULL)
        fprintf(stderr, "mock: %s\n", dlerror());
    return *module != NULL ? OK : INVALID_VALUE;
}

/* Functions are never freed: a test ends soon. */
EXPORT(cuModuleUnload, void *module)
{
    return dlclose(module) == 0 ? OK : INVALID_VALUE;
}

EXPORT(cuModuleGetFunction, void **function_out, void *module, const char *name)
{
    void *const address = dlsym(module, name);
    struct function *function;

    CHECK("cuModuleGetFunction");
    if (address == NULL)
        return NOT_FOUND;
    function = calloc(1, sizeof(*function));
    if (function == NULL)
        abort();
    memcpy(&function->call, &address, sizeof(address));
    function->cpu = dlsym(module, "cpu");
    function->context = mock.current;
    function->shared = 48 * 1024;
    snprintf(function->name, sizeof(function->name), "%s", name);
    *function_out = function;
    return function->cpu != NULL ? OK : NOT_FOUND;
}

EXPORT(cuFuncSetAttribute, struct function *function, int attribute, int value)
{
    CHECK("cuFuncSetAttribute");
    if (attribute != 8 || value > SHARED)
        return INVALID_VALUE;
    function->shared = value;
    return OK;
}

/* ---- launches ---- */

static void wait_as(enum state state)
{
    struct fibre *const fibre = &mock.fibres[mock.running];

    fibre->state = state;
    if (_setjmp(fibre->jump) == 0)
        _longjmp(mock.scheduler, 1);
}

static void wait_block(void)
{
    wait_as(WAITS_BLOCK);
}

static void wait_warp(void)
{
    wait_as(WAITS_WARP);
}

static void begin_fibre(void)
{
    const uint64_t *const a = mock.arguments;

    mock.function->call(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11]);
    mock.fibres[mock.running].state = ENDED;
    _longjmp(mock.scheduler, 1);
}

/* Runs a fibre until it waits or ends. */
static void resume(uint32_t number)
{
    struct fibre *const fibre = &mock.fibres[number];

    mock.running = number;
    mock.function->cpu->thread = fibre->thread;
    if (_setjmp(mock.scheduler) != 0)
        return;
    if (fibre->has_begun)
        _longjmp(fibre->jump, 1);
    fibre->has_begun = true;
    setcontext(&fibre->context);
}

/* Releases the waiting threads if all threads that have not ended wait. Returns whether any
 * continues. */
static bool release(uint32_t first, uint32_t last, enum state state)
{
    bool has_any = false;

    for (uint32_t i = first; i < last; i++) {
        if (mock.fibres[i].state != state && mock.fibres[i].state != ENDED)
            return false;
        has_any |= mock.fibres[i].state == state;
    }
    for (uint32_t i = first; i < last && has_any; i++)
        if (mock.fibres[i].state == state)
            mock.fibres[i].state = RUNS;
    return has_any;
}

/* Runs what can run of the threads; false: they wait for each other for ever, or all have ended. */
static bool run_round(uint32_t threads, bool is_backward)
{
    bool goes_on = false;

    for (uint32_t i = 0; i < threads; i++) {
        const uint32_t number = is_backward ? threads - 1 - i : i;

        if (mock.fibres[number].state == RUNS)
            resume(number);
    }
    for (uint32_t warp = 0; warp < threads; warp += 32)
        goes_on |= release(warp, warp + 32 < threads ? warp + 32 : threads, WAITS_WARP);
    return release(0, threads, WAITS_BLOCK) || goes_on;
}

static int run_block(uint32_t threads, struct dim3 size, bool is_backward)
{
    for (uint32_t i = 0; i < threads; i++) {
        struct fibre *const fibre = &mock.fibres[i];

        fibre->state = RUNS;
        fibre->has_begun = false;
        fibre->thread = (struct dim3){i % size.x, i / size.x % size.y, i / size.x / size.y};
        getcontext(&fibre->context);
        fibre->context.uc_stack.ss_sp = mock.stacks + (size_t)i * STACK;
        fibre->context.uc_stack.ss_size = STACK;
        fibre->context.uc_link = NULL;
        makecontext(&fibre->context, begin_fibre, 0);
    }
    memset(mock.shared, 0xff, SHARED);
    while (run_round(threads, is_backward))
        continue;
    for (uint32_t i = 0; i < threads; i++)
        if (mock.fibres[i].state != ENDED)
            return LAUNCH_FAILED;
    return OK;
}

EXPORT(cuLaunchKernel, struct function *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
       unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared, void *stream,
       void **arguments, void **extra)
{
    const unsigned numbers[] = {grid_x, grid_y, grid_z, block_x, block_y, block_z, shared};
    const uint64_t threads = (uint64_t)block_x * block_y * block_z;
    struct cpu_thread *const cpu = function->cpu;
    const struct dim3 size = {block_x, block_y, block_z};

    CHECK("cuLaunchKernel");
    note_launch(function->name, numbers);
    if (threads == 0 || threads > MAX_THREADS || shared > (unsigned)function->shared ||
        stream != NULL || extra != NULL || (uint64_t)grid_x * grid_y * grid_z == 0 ||
        grid_y > 65535 || grid_z > 65535)
        return INVALID_VALUE;
    if (function->context != mock.current)
        return INVALID_CONTEXT;
    if (mock.stacks == NULL) {
        mock.stacks = mmap(NULL, (size_t)MAX_THREADS * STACK, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        mock.shared = aligned_alloc(128, (SHARED + 127) / 128 * 128);
    }
    mock.function = function;
    /* Nobody says how many arguments there are: those that follow the last one are never read as
     * such. */
    for (unsigned i = 0; i < ARGUMENTS; i++)
        mock.arguments[i] = 0;
    for (unsigned i = 0; i < ARGUMENTS && arguments[i] != NULL; i++)
        memcpy(&mock.arguments[i], arguments[i], sizeof(uint64_t));
    *cpu = (struct cpu_thread){{0, 0, 0},   {0, 0, 0},  size,     {grid_x, grid_y, grid_z},
                               mock.shared, wait_block, wait_warp};
    for (uint64_t block = 0; block < (uint64_t)grid_x * grid_y * grid_z; block++) {
        int code;

        cpu->block = (struct dim3){(unsigned)(block % grid_x), (unsigned)(block / grid_x % grid_y),
                                   (unsigned)(block / grid_x / grid_y)};
        code = run_block((uint32_t)threads, size, block % 2 == 1);
        if (code != OK)
            return code;
    }
    return OK;
}

/* ---- events: all has ended already ---- */

EXPORT(cuEventCreate, void **event, unsigned flags)
{
    CHECK("cuEventCreate");
    *event = malloc(1);
    return flags == 3 ? OK : INVALID_VALUE;
}

EXPORT(cuEventDestroy_v2, void *event)
{
    free(event);
    return OK;
}

EXPORT(cuEventRecord, void *event, void *stream)
{
    CHECK("cuEventRecord");
    return event != NULL && stream == NULL ? OK : INVALID_VALUE;
}

EXPORT(cuEventSynchronize, void *event)
{
    CHECK("cuEventSynchronize");
    return event != NULL ? OK : INVALID_VALUE;
}
