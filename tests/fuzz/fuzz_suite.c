/*
 * Descriptions of kernel suites: refused with a message that names file and line, or kernels in
 * range. SPDX-License-Identifier: Apache-2.0
 */
#include <string.h>

#include "lab/sweep/suite/description.h"
#include "fuzz.h"

static void check_launch(const struct lull_suite_kernel *kernel,
                         const struct lull_suite_launch *launch)
{
    uint64_t threads = 1;

    require(launch->entry[0] != '\0' && launch->shared <= 227 * 1024);
    for (uint32_t i = 0; i < 3; i++) {
        require(launch->grid[i] > 0 && launch->block[i] > 0 && launch->block[i] <= 1024);
        require(i == 0 || launch->grid[i] <= 65535);
        threads *= launch->block[i];
    }
    require(threads <= 1024);
    require(launch->buffer_count > 0 && launch->buffer_count <= LULL_SUITE_MAX_BUFFERS);
    for (uint32_t i = 0; i < launch->buffer_count; i++)
        require(launch->buffers[i] < kernel->buffer_count);
}

static void check_kernel(const struct lull_suite_kernel *kernel)
{
    require(kernel->name[0] != '\0' && kernel->line > 0);
    require(kernel->capability >= LULL_SUITE_MIN_CAPABILITY && kernel->capability <= 999);
    require(strchr(kernel->source, '/') == NULL && kernel->source[0] != '.');
    require(kernel->define_count <= LULL_SUITE_MAX_SIZES + LULL_SUITE_MAX_DEFINES);
    for (uint32_t i = 0; i < kernel->define_count; i++)
        require(kernel->defines[i].name[0] != '\0' &&
                strchr(kernel->defines[i].value, '\n') == NULL);
    require(kernel->buffer_count <= LULL_SUITE_MAX_BUFFERS);
    for (uint32_t i = 0; i < kernel->buffer_count; i++)
        require(kernel->buffers[i].count > 0 &&
                kernel->buffers[i].bytes >= kernel->buffers[i].count &&
                kernel->buffers[i].bytes <= UINT64_C(1) << 40);
    require(kernel->launch_count <= LULL_SUITE_MAX_LAUNCHES);
    require((kernel->launch_count > 0) == (kernel->collective == LULL_SUITE_NO_COLLECTIVE));
    for (uint32_t i = 0; i < kernel->launch_count; i++)
        check_launch(kernel, &kernel->launches[i]);
    check_launch(kernel, &kernel->check);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lull_suite *suite;
    struct lull_error err = {0};

    if (lull_suite_read("suite", (const char *)data, size, &suite, &err) < 0) {
        require(strncmp(err.text, "suite:", strlen("suite:")) == 0);
        return 0;
    }
    require(lull_suite_count(suite) > 0 && lull_suite_count(suite) <= LULL_SUITE_MAX_KERNELS);
    for (uint32_t i = 0; i < lull_suite_count(suite); i++)
        check_kernel(lull_suite_kernel_at(suite, i));
    lull_suite_destroy(suite);
    return 0;
}
