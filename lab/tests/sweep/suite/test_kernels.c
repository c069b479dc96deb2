/*
 * Every kernel of the suite, with small sizes, compiled for this processor and run through the
 * launcher: its checks find errors in it. Usage: test_kernels PART PARTS [NAME], for every
 * PARTS-th kernel. SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lab/sweep/cuda_workload.h"
#include "small_suite.h"

static int run_one(void *workload, uint32_t index, struct lull_error *err)
{
    struct lull_workload_run run = {0};
    int result = lull_cuda_workload.start(workload, index, err);

    if (result < 0)
        return result;
    result = lull_cuda_workload.run(workload, 1e-6, &run, err);
    lull_cuda_workload.stop(workload);
    if (result == 0 && (run.launches == 0 || run.seconds <= 0))
        return lull_error_set(err, -1, "%d launches", (int)run.launches);
    return result;
}

int main(int argc, char **argv)
{
    char folder[] = "/tmp/lull-kernels-XXXXXX";
    const uint32_t part = argc > 2 ? (uint32_t)atoi(argv[1]) : 0;
    const uint32_t parts = argc > 2 ? (uint32_t)atoi(argv[2]) : 1;
    struct lull_workload_place place = {.uuid = "GPU-a706dd2f-4d19-7e6f-2382-75bc38fcbe91"};
    void *workload;
    struct lull_error err = {0};
    char command[128];
    char path[128];
    int failed = 0;

    if (system("g++ --version >/dev/null 2>&1") != 0) {
        printf("skipped: there is no g++\n");
        return 77;
    }
    if (mkdtemp(folder) == NULL || setenv("TMPDIR", folder, 1) != 0 ||
        setenv("LULL_MOCK_GPUS", "3", 1) != 0)
        return 1;
    write_small_suite(folder, path, sizeof(path));
    place.file = path;
    if (lull_cuda_workload.open(&place, &workload, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    for (uint32_t i = part; i < lull_cuda_workload.count(workload); i += parts) {
        const struct lull_workload_kernel kernel = lull_cuda_workload.kernel(workload, i);

        if (argc > 3 && strcmp(argv[3], kernel.kernel) != 0)
            continue;
        if (run_one(workload, i, &err) == 0)
            continue;
        fprintf(stderr, "%s %s: %s\n", kernel.kernel, kernel.arg, err.text);
        failed++;
    }
    lull_cuda_workload.close(workload);
    snprintf(command, sizeof(command), "rm -r %s", folder);
    return system(command) != 0 || failed > 0;
}
