/* SPDX-License-Identifier: Apache-2.0 */
#include "lab/sweep/suite/cuda.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { CUDA_OUT_OF_MEMORY = 2, UUID_TEXT = 48 };

#define SYMBOL(type, member, name, older_name)                                                     \
    {offsetof(struct lull_cuda, member), name, older_name},
static const struct lull_library_symbol symbols[] = {CUDA_CALLS(SYMBOL)};
enum { SYMBOLS = sizeof(symbols) / sizeof(symbols[0]) };

int lull_cuda_result(const struct lull_cuda *cuda, int code, const char *what,
                     struct lull_error *err)
{
    const char *text = NULL;

    if (code == CUDA_OK)
        return 0;
    if (cuda->error_text(code, &text) != CUDA_OK || text == NULL)
        text = "an unknown error";
    return lull_error_set(err, code == CUDA_OUT_OF_MEMORY ? LULL_E_UNSUPPORTED : -EIO,
                          "CUDA cannot %s: %s (code %d)", what, text, code);
}

static int suite_cuda_load(struct lull_cuda *cuda, struct lull_error *err)
{
    static const char *const names[] = {"libcuda.so.1", NULL};

    if (lull_library_open("LULL_CUDA", names, "CUDA", &cuda->library, cuda->library_name,
                          sizeof(cuda->library_name), NULL) < 0)
        return lull_error_set(
            err, LULL_E_UNSUPPORTED,
            "no CUDA driver found: install NVIDIA's driver, or set LULL_CUDA to its libcuda.so.1");
    lull_library_bind(cuda->library, cuda, symbols, SYMBOLS);
    for (size_t i = 0; i < SYMBOLS; i++) {
        void *address;

        memcpy(&address, (const char *)cuda + symbols[i].offset, sizeof(address));
        if (address != NULL)
            continue;
        dlclose(cuda->library);
        return lull_error_set(err, LULL_E_UNSUPPORTED,
                              "%.100s has no %s: install a CUDA driver of version 11.2 or newer",
                              cuda->library_name, symbols[i].name);
    }
    return 0;
}

/* As NVML writes it. */
static void write_uuid(const struct lull_cuda_uuid *uuid, char text[UUID_TEXT])
{
    static const char *const separators[CUDA_UUID_BYTES] = {
        [4] = "-", [6] = "-", [8] = "-", [10] = "-"};
    size_t length = (size_t)snprintf(text, UUID_TEXT, "GPU-");

    for (size_t i = 0; i < CUDA_UUID_BYTES; i++)
        length += (size_t)snprintf(text + length, UUID_TEXT - length, "%s%02x",
                                   separators[i] != NULL ? separators[i] : "", uuid->bytes[i]);
}

static int suite_cuda_find_device(struct lull_cuda *cuda, const char *wanted,
                                  struct lull_error *err)
{
    int count = 0;
    int code = cuda->device_count(&count);

    if (code != CUDA_OK)
        return lull_cuda_result(cuda, code, "count the GPUs", err);
    for (int ordinal = 0; ordinal < count; ordinal++) {
        struct lull_cuda_uuid uuid;
        char text[UUID_TEXT];
        int device;

        if (cuda->device_get(&device, ordinal) != CUDA_OK ||
            cuda->device_uuid(&uuid, device) != CUDA_OK)
            continue;
        write_uuid(&uuid, text);
        if (wanted == NULL || strcasecmp(wanted, text) == 0) {
            cuda->ordinal = ordinal;
            cuda->device = device;
            return 0;
        }
    }
    return lull_error_set(err, LULL_E_UNSUPPORTED,
                          "CUDA shows %d GPUs, but not %s; unset CUDA_VISIBLE_DEVICES", count,
                          wanted != NULL ? wanted : "any that has a UUID");
}

static int open_device(struct lull_cuda *cuda, const char *uuid, struct lull_error *err)
{
    int major, minor;
    int code = cuda->init(0);
    int result;

    if (code != CUDA_OK) {
        const char *text = NULL;

        cuda->error_text(code, &text);
        return lull_error_set(err, LULL_E_UNSUPPORTED,
                              "%.60s: CUDA does not begin: %s (code %d); see lull doctor",
                              cuda->library_name, text != NULL ? text : "an unknown error", code);
    }
    result = suite_cuda_find_device(cuda, uuid, err);
    if (result < 0)
        return result;
    code = cuda->device_attribute(&major, CUDA_MAJOR, cuda->device);
    if (code == CUDA_OK)
        code = cuda->device_attribute(&minor, CUDA_MINOR, cuda->device);
    if (code != CUDA_OK)
        return lull_cuda_result(cuda, code, "read the compute capability", err);
    cuda->capability = (uint32_t)(10 * major + minor);
    code = cuda->context_retain(&cuda->context, cuda->device);
    if (code != CUDA_OK)
        return lull_cuda_result(cuda, code, "use the GPU", err);
    code = cuda->context_use(cuda->context);
    if (code == CUDA_OK)
        return 0;
    cuda->context_release(cuda->device);
    return lull_cuda_result(cuda, code, "use the GPU", err);
}

int lull_cuda_open(struct lull_cuda *cuda, const char *uuid, struct lull_error *err)
{
    int result;

    memset(cuda, 0, sizeof(*cuda));
    result = suite_cuda_load(cuda, err);
    if (result < 0)
        return result;
    return open_device(cuda, uuid, err);
}

void lull_cuda_close(struct lull_cuda *cuda)
{
    cuda->context_release(cuda->device);
}
