/*
 * The launcher with a mock driver and a mock compiler: the launches
 * and their number, and clean ends if something is missing or fails. SPDX-License-Identifier:
 * Apache-2.0
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lab/sweep/cuda_workload.h"

static const char uuid[] = "GPU-a706dd2f-4d19-7e6f-2382-75bc38fcbe91";
static const char description[] =
    "[two_parts small]\n"
    "source = mine.cu\n"
    "capability = 80\n"
    "size = N 64 small 64\n"
    "define = STEP 3\n"
    "buffer = in u32; N; random\n"
    "buffer = out u32; N\n"
    "launch = first; grid N / 32, 1, 1; block 32; buffers in, out\n"
    "launch = second; grid 1, 2; block 8, 4; shared 60000; buffers out\n"
    "check = check; grid 2; block 32; buffers in, out\n"
    "flops = 0\n"
    "bytes = 8 * N\n"
    "[broken a]\n"
    "source = broken.cu\n"
    "capability = 70\n"
    "buffer = out u32; 1\n"
    "launch = nothing; grid 1; block 1; buffers out\n"
    "check = nothing; grid 1; block 1; buffers out\n"
    "flops = 0\n"
    "bytes = 0\n"
    "[wrong a]\n"
    "source = mine.cu\n"
    "capability = 70\n"
    "size = N 64 small 64\n"
    "define = STEP 2\n"
    "buffer = in u32; N; random\n"
    "buffer = out u32; N\n"
    "launch = first; grid N / 32; block 32; buffers in, out\n"
    "check = check; grid 2; block 32; buffers in, out\n"
    "flops = 0\n"
    "bytes = 0\n"
    "[absent a]\n"
    "source = mine.cu\n"
    "capability = 70\n"
    "size = N 64 small 64\n"
    "define = STEP 3\n"
    "buffer = in u32; N; random\n"
    "launch = third; grid 1; block 1; buffers in\n"
    "check = check; grid 2; block 32; buffers in, in\n"
    "flops = 0\n"
    "bytes = 0\n"
    "[together a]\n"
    "source = collective.cu\n"
    "capability = 70\n"
    "size = COUNT 100 small 100\n"
    "define = REAL float\n"
    "buffer = in f32; COUNT; random\n"
    "buffer = out f32; COUNT\n"
    "collective = all_reduce\n"
    "check = check_all_reduce; grid 1; block 32; buffers in, out\n"
    "flops = 0\n"
    "bytes = 0\n"
    "[idle a]\n"
    "source = mine.cu\n"
    "capability = 70\n"
    "define = STEP 3\n"
    "buffer = out u32; 64\n"
    "launch = second; grid 1; block 32; buffers out\n"
    "check = look_at_nothing; grid 1; block 32; buffers out\n"
    "flops = 0\n"
    "bytes = 0\n";
static const char source[] =
    "#include \"lull.cuh\"\n"
    "KERNEL first(const u32 *in, u32 *out) { out[thread_index()] = in[thread_index()] + STEP; }\n"
    "KERNEL second(u32 *out) { if (threadIdx.x + threadIdx.y + blockIdx.y == 0) out[0] += "
    "dynamic_shared() != 0; }\n"
    "KERNEL look_at_nothing(const u32 *, u32 *) {}\n"
    "KERNEL check(const u32 *in, const u32 *out, u32 *wrong) {\n"
    "    const u64 i = thread_index();\n"
    "    expect(wrong, out[i] == in[i] + 3 + (i == 0) && in[i] == random_bits(0, i)); }\n";

static char folder[] = "/tmp/lull-workload-XXXXXX";
static char conf[64];
static char log_path[64];

static void write_file(const char *name, const char *text)
{
    char path[128];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, "we");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int set_up(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(conf, sizeof(conf), "%s/mine.conf", folder);
    snprintf(log_path, sizeof(log_path), "%s/log", folder);
    write_file("mine.conf", description);
    write_file("mine.cu", source);
    write_file("broken.cu",
               "#include \"lull.cuh\"\nKERNEL nothing(u32 *out) { out[0] = nowhere; }\n");
    return setenv("TMPDIR", folder, 1) + setenv("LULL_MOCK_LOG", log_path, 1);
}

static int tear_down(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof(command), "rm -r %s", folder);
    return system(command);
}

/* The lines of the mock's log since the last call. */
static char *take_log(void)
{
    static char text[1 << 16];
    FILE *const file = fopen(log_path, "re");

    text[0] = '\0';
    if (file != NULL) {
        text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
        fclose(file);
    }
    remove(log_path);
    return text;
}

static int open_workload(void **workload, struct lull_error *err)
{
    const struct lull_workload_place place = {.uuid = uuid, .file = conf};

    return lull_cuda_workload.open(&place, workload, err);
}

static void *must_open(void)
{
    void *workload;
    struct lull_error err = {0};

    if (open_workload(&workload, &err) < 0)
        fail_msg("%s", err.text);
    return workload;
}

static uint32_t count_lines(const char *text, const char *line)
{
    uint32_t count = 0;

    for (const char *at = strstr(text, line); at != NULL; at = strstr(at + 1, line))
        count++;
    return count;
}

static void launches_as_described(void **state)
{
    void *const workload = must_open();
    struct lull_workload_run run = {0};
    struct lull_error err = {0};
    const char *log;

    (void)state;
    assert_int_equal(lull_cuda_workload.count(workload), 6);
    assert_string_equal(lull_cuda_workload.kernel(workload, 0).kernel, "two_parts");
    assert_string_equal(lull_cuda_workload.kernel(workload, 0).arg, "small");
    if (lull_cuda_workload.start(workload, 0, &err) < 0)
        fail_msg("%s", err.text);
    log = take_log();
    assert_int_equal(count_lines(log, "compile --gpu-architecture=sm_90\n"), 2);
    assert_int_equal(count_lines(log, "launch random_u32 grid 1 1 1 block 256 1 1 shared 0\n"), 1);
    assert_int_equal(count_lines(log, "launch first grid 2 1 1 block 32 1 1 shared 0\n"), 2);
    assert_int_equal(count_lines(log, "launch second grid 1 2 1 block 8 4 1 shared 60000\n"), 2);
    assert_int_equal(count_lines(log, "launch check grid 2 1 1 block 32 1 1 shared 0\n"), 1);
    assert_int_equal(count_lines(log, "\n"), 8);
    assert_int_equal(lull_cuda_workload.run(workload, 0.01, &run, &err), 0);
    log = take_log();
    assert_int_equal(count_lines(log, "launch first "), run.launches);
    assert_int_equal(count_lines(log, "launch second "), run.launches);
    assert_true(run.launches >= 1 && run.seconds > 0);
    assert_int_equal(lull_cuda_workload.run(workload, 1e-9, &run, &err), 0);
    assert_int_equal(run.launches, 1); /* at least once */
    lull_cuda_workload.stop(workload);
    lull_cuda_workload.stop(workload);
    take_log();
    assert_int_equal(lull_cuda_workload.start(workload, 0, &err), 0);
    assert_int_equal(count_lines(take_log(), "compile"), 0); /* once is enough */
    lull_cuda_workload.close(workload);                      /* and stops */
    lull_cuda_workload.close(NULL);
}

static void cancelled_runs_end(void **state)
{
    void *const workload = must_open();
    struct lull_workload_run run;
    struct lull_error err = {0};

    (void)state;
    assert_int_equal(lull_cuda_workload.start(workload, 0, &err), 0);
    lull_cuda_workload.cancel(workload);
    assert_int_equal(lull_cuda_workload.run(workload, 1000, &run, &err), -EINTR);
    lull_cuda_workload.close(workload);
}

static void expect_start(uint32_t index, int code, const char *text)
{
    void *const workload = must_open();
    struct lull_error err = {0};

    assert_int_equal(lull_cuda_workload.start(workload, index, &err), code);
    if (strstr(err.text, text) == NULL)
        fail_msg("\"%s\" and not \"%s\"", err.text, text);
    lull_cuda_workload.close(workload); /* the mock aborts where something is left */
}

static void says_why_a_kernel_cannot_start(void **state)
{
    (void)state;
    expect_start(1, LULL_E_FORMAT, "broken.cu does not compile: ");
    expect_start(1, LULL_E_FORMAT, "nowhere");
    expect_start(2, -EIO,
                 "wrong a computes wrongly on this GPU: of 64 results that were looked at, 64 are");
    expect_start(5, -EIO, "of 0 results that were looked at, 0 are");
    expect_start(3, LULL_E_FORMAT, "mine.cu has no extern \"C\" __global__ void third");
    setenv("LULL_MOCK_MEMORY", "511", 1);
    expect_start(0, LULL_E_UNSUPPORTED, "it needs 0.0 GB of the GPU's memory");
    setenv("LULL_MOCK_MEMORY", "512", 1);
    expect_start(0, 0, "");
    unsetenv("LULL_MOCK_MEMORY");
    setenv("LULL_MOCK_CAPABILITY", "75", 1);
    expect_start(0, LULL_E_UNSUPPORTED, "it needs compute capability 8.0; this GPU has 7.5");
    setenv("LULL_MOCK_CAPABILITY", "80", 1);
    expect_start(0, 0, "");
    unsetenv("LULL_MOCK_CAPABILITY");
}

/* The architectures that the mock knows are 75, 80, 86, 89 and 90. */
static void a_new_gpu_gets_ptx_and_an_old_one_a_sentence(void **state)
{
    void *workload;
    struct lull_error err = {0};

    (void)state;
    setenv("LULL_MOCK_CAPABILITY", "100", 1);
    lull_cuda_workload.close(must_open());
    assert_int_equal(count_lines(take_log(), "compile --gpu-architecture=compute_90\n"), 1);
    setenv("LULL_MOCK_CAPABILITY", "70", 1);
    assert_int_equal(open_workload(&workload, &err), LULL_E_UNSUPPORTED);
    assert_non_null(
        strstr(err.text, "NVRTC 12.9 does not compile for sm_70 any more; set LULL_NVRTC"));
    unsetenv("LULL_MOCK_CAPABILITY");
}

static void collectives_need_gpus_and_nccl(void **state)
{
    const char *const nccl = getenv("LULL_NCCL");
    void *workload;
    struct lull_workload_run run;
    struct lull_error err = {0};

    (void)state;
    expect_start(4, LULL_E_UNSUPPORTED, "a collective needs two GPUs, and CUDA shows one");
    setenv("LULL_MOCK_GPUS", "4", 1);
    workload = must_open();
    if (lull_cuda_workload.start(workload, 4, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(lull_cuda_workload.run(workload, 1e-4, &run, &err), 0);
    lull_cuda_workload.stop(workload);
    assert_int_equal(lull_cuda_workload.start(workload, 0, &err),
                     0); /* on the same GPU as before */
    lull_cuda_workload.close(workload);
    setenv("LULL_MOCK_FAIL", "cuMemcpyPeer", 1);
    expect_start(4, -EIO, "CUDA cannot share the buffers of a collective");
    unsetenv("LULL_MOCK_FAIL");
    setenv("LULL_NCCL", "/nowhere/libnccl.so.2", 1);
    expect_start(4, LULL_E_UNSUPPORTED, "NCCL was not found: install libnccl2");
    setenv("LULL_NCCL", getenv("LULL_CUDA"), 1);
    expect_start(4, LULL_E_UNSUPPORTED, "has no ncclGetErrorString: install NCCL 2.4");
    setenv("LULL_NCCL", nccl, 1);
    unsetenv("LULL_MOCK_GPUS");
}

static void every_failing_call_ends_cleanly(void **state)
{
    static const char *const calls[] = {"cuModuleLoadData",
                                        "cuModuleGetFunction",
                                        "cuFuncSetAttribute",
                                        "cuMemGetInfo_v2",
                                        "cuMemAlloc_v2",
                                        "cuMemsetD8_v2",
                                        "cuMemcpyDtoH_v2",
                                        "cuLaunchKernel",
                                        "cuCtxSynchronize",
                                        "cuEventCreate",
                                        "cuEventRecord",
                                        "cuEventSynchronize",
                                        "cuInit"};

    (void)state;
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        void *workload;
        struct lull_workload_run run;
        struct lull_error err = {0};
        int result;

        setenv("LULL_MOCK_FAIL", calls[i], 1);
        result = open_workload(&workload, &err);
        if (result == 0) {
            result = lull_cuda_workload.start(workload, 0, &err);
            if (result == 0)
                result = lull_cuda_workload.run(workload, 1e-3, &run, &err);
            lull_cuda_workload.close(workload);
        }
        if (result >= 0 || err.text[0] == '\0')
            fail_msg("%s: nobody says that it has failed", calls[i]);
        unsetenv("LULL_MOCK_FAIL");
    }
}

static void says_what_to_install(void **state)
{
    const char *const driver = getenv("LULL_CUDA");
    const char *const compiler = getenv("LULL_NVRTC");
    void *workload;
    struct lull_error err = {0};
    const struct lull_workload_place other = {.uuid = "GPU-00000000-0000-0000-0000-000000000000"};

    (void)state;
    setenv("LULL_CUDA", "/nowhere/libcuda.so.1", 1);
    assert_int_equal(open_workload(&workload, &err), LULL_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "no CUDA driver found: install NVIDIA's driver"));
    setenv("LULL_CUDA", compiler, 1); /* a library, but another one */
    assert_int_equal(open_workload(&workload, &err), LULL_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "has no cuInit: install a CUDA driver"));
    setenv("LULL_CUDA", driver, 1);
    setenv("LULL_NVRTC", "/nowhere/libnvrtc.so.12", 1);
    assert_int_equal(open_workload(&workload, &err), LULL_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "pip install nvidia-cuda-nvrtc-cu12, then set LULL_NVRTC"));
    setenv("LULL_NVRTC", driver, 1);
    assert_int_equal(open_workload(&workload, &err), LULL_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "NVRTC is older than 11.2"));
    setenv("LULL_NVRTC", compiler, 1);
    assert_int_equal(lull_cuda_workload.open(&other, &workload, &err), LULL_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "CUDA shows 1 GPUs, but not GPU-0000"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(launches_as_described),
        cmocka_unit_test(cancelled_runs_end),
        cmocka_unit_test(says_why_a_kernel_cannot_start),
        cmocka_unit_test(a_new_gpu_gets_ptx_and_an_old_one_a_sentence),
        cmocka_unit_test(collectives_need_gpus_and_nccl),
        cmocka_unit_test(every_failing_call_ends_cleanly),
        cmocka_unit_test(says_what_to_install),
    };

    if (system("g++ --version >/dev/null 2>&1") != 0) {
        printf("skipped: there is no g++\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
