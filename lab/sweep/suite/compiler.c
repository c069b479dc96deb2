/* SPDX-License-Identifier: Apache-2.0 */
#include "lab/sweep/suite/compiler.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/library.h"

/* ABI of nvrtc.h (11.2 to 13.0): codes, 0 for success; a program is an opaque pointer. */
typedef int nvrtc_version(int *major, int *minor);
typedef const char *nvrtc_text(int code);
typedef int nvrtc_count(int *count);
typedef int nvrtc_list(int *architectures);
typedef int nvrtc_create(void **program, const char *source, const char *name, int header_count,
                         const char *const *headers, const char *const *header_names);
typedef int nvrtc_destroy(void **program);
typedef int nvrtc_compile(void *program, int option_count, const char *const *options);
typedef int nvrtc_size(void *program, size_t *size);
typedef int nvrtc_get(void *program, char *bytes);

#define NVRTC_CALLS(CALL)                                                                          \
    CALL(nvrtc_version, version, "nvrtcVersion", NULL)                                             \
    CALL(nvrtc_text, text, "nvrtcGetErrorString", NULL)                                            \
    CALL(nvrtc_count, architecture_count, "nvrtcGetNumSupportedArchs", NULL)                       \
    CALL(nvrtc_list, architectures, "nvrtcGetSupportedArchs", NULL)                                \
    CALL(nvrtc_create, create, "nvrtcCreateProgram", NULL)                                         \
    CALL(nvrtc_destroy, destroy, "nvrtcDestroyProgram", NULL)                                      \
    CALL(nvrtc_compile, compile, "nvrtcCompileProgram", NULL)                                      \
    CALL(nvrtc_size, log_size, "nvrtcGetProgramLogSize", NULL)                                     \
    CALL(nvrtc_get, log, "nvrtcGetProgramLog", NULL)                                               \
    CALL(nvrtc_size, cubin_size, "nvrtcGetCUBINSize", NULL)                                        \
    CALL(nvrtc_get, cubin, "nvrtcGetCUBIN", NULL)                                                  \
    CALL(nvrtc_size, ptx_size, "nvrtcGetPTXSize", NULL)                                            \
    CALL(nvrtc_get, ptx, "nvrtcGetPTX", NULL)

struct nvrtc {
    NVRTC_CALLS(LULL_LIBRARY_MEMBER)
};

#define SYMBOL(type, member, name, older_name) {offsetof(struct nvrtc, member), name, older_name},
static const struct lull_library_symbol symbols[] = {NVRTC_CALLS(SYMBOL)};
enum { SYMBOLS = sizeof(symbols) / sizeof(symbols[0]), MAX_ARCHITECTURES = 64 };

struct lull_suite_compiler {
    void *library;
    char library_name[256];
    struct nvrtc nvrtc;
    uint32_t version;
    int architectures[MAX_ARCHITECTURES]; /* compute capabilities that it compiles for, ascending
                                           */
    int architecture_count;
};

/* Hint for installation, as the end of a sentence. */
#define INSTALL                                                                                    \
    "pip install nvidia-cuda-nvrtc-cu12, then set LULL_NVRTC to its libnvrtc.so.12; or install "   \
    "the "                                                                                         \
    "CUDA toolkit"

static bool has_all(const struct nvrtc *nvrtc)
{
    for (size_t i = 0; i < SYMBOLS; i++) {
        void *address;

        memcpy(&address, (const char *)nvrtc + symbols[i].offset, sizeof(address));
        if (address == NULL)
            return false;
    }
    return true;
}

static int compiler_load(struct lull_suite_compiler *compiler, struct lull_error *err)
{
    static const char *const names[] = {"libnvrtc.so.13",
                                        "libnvrtc.so.12",
                                        "libnvrtc.so.11.2",
                                        "libnvrtc.so",
                                        "/usr/local/cuda/lib64/libnvrtc.so",
                                        NULL};
    struct nvrtc *const nvrtc = &compiler->nvrtc;
    int major = 0, minor = 0;

    if (lull_library_open("LULL_NVRTC", names, "NVRTC", &compiler->library, compiler->library_name,
                          sizeof(compiler->library_name), NULL) < 0)
        return lull_error_set(err, LULL_E_UNSUPPORTED,
                              "NVRTC, which compiles the kernels, was not found: " INSTALL);
    lull_library_bind(compiler->library, nvrtc, symbols, SYMBOLS);
    if (!has_all(nvrtc) || nvrtc->version(&major, &minor) != 0 ||
        nvrtc->architecture_count(&compiler->architecture_count) != 0 ||
        compiler->architecture_count < 1 || compiler->architecture_count > MAX_ARCHITECTURES ||
        nvrtc->architectures(compiler->architectures) != 0) {
        dlclose(compiler->library);
        return lull_error_set(err, LULL_E_UNSUPPORTED, "%.60s: NVRTC is older than 11.2: " INSTALL,
                              compiler->library_name);
    }
    compiler->version = (uint32_t)(100 * major + minor);
    return 0;
}

int lull_suite_compiler_open(struct lull_suite_compiler **compiler_out, struct lull_error *err)
{
    struct lull_suite_compiler *const compiler = calloc(1, sizeof(*compiler));
    int result;

    if (compiler == NULL)
        return lull_error_set(err, -ENOMEM, "not enough memory for the compiler");
    result = compiler_load(compiler, err);
    if (result < 0) {
        free(compiler);
        return result;
    }
    *compiler_out = compiler;
    return 0;
}

void lull_suite_compiler_close(struct lull_suite_compiler *compiler)
{
    if (compiler == NULL)
        return;
    dlclose(compiler->library);
    free(compiler);
}

/* The best architecture for a GPU: its own, else the newest before it, as PTX. 0: it is too old. */
static int compiler_choose(const struct lull_suite_compiler *compiler, uint32_t capability,
                           bool *is_own_out)
{
    int best = 0;

    for (int i = 0; i < compiler->architecture_count; i++)
        if (compiler->architectures[i] <= (int)capability && compiler->architectures[i] > best)
            best = compiler->architectures[i];
    *is_own_out = best == (int)capability;
    return best;
}

/* Copies the first line that contains an error, else the first line. */
static void first_error(char *log, char *text_out, size_t size)
{
    char *line = strstr(log, "error");

    if (line == NULL)
        line = log;
    while (line > log && line[-1] != '\n')
        line--;
    line[strcspn(line, "\n")] = '\0';
    snprintf(text_out, size, "%s", line);
}

static int fail_compile(const struct lull_suite_compiler *compiler, void *program, const char *name,
                        int code, struct lull_error *err)
{
    const struct nvrtc *const nvrtc = &compiler->nvrtc;
    char what[160] = "";
    size_t size = 0;
    char *log = NULL;

    if (nvrtc->log_size(program, &size) == 0 && size > 0)
        log = calloc(1, size + 1);
    if (log != NULL && nvrtc->log(program, log) == 0)
        first_error(log, what, sizeof(what));
    free(log);
    if (what[0] == '\0')
        snprintf(what, sizeof(what), "%s", nvrtc->text(code));
    return lull_error_set(err, LULL_E_FORMAT, "%s does not compile: %s", name, what);
}

static int take_image(const struct lull_suite_compiler *compiler, void *program, bool is_own,
                      struct lull_suite_image *image_out, struct lull_error *err)
{
    const struct nvrtc *const nvrtc = &compiler->nvrtc;
    struct lull_suite_image image = {0};
    int code =
        is_own ? nvrtc->cubin_size(program, &image.size) : nvrtc->ptx_size(program, &image.size);

    if (code == 0)
        image.bytes = malloc(image.size + 1);
    if (code == 0 && image.bytes == NULL)
        return lull_error_set(err, -ENOMEM, "not enough memory for a kernel");
    if (code == 0)
        code = is_own ? nvrtc->cubin(program, image.bytes) : nvrtc->ptx(program, image.bytes);
    if (code != 0) {
        free(image.bytes);
        return lull_error_set(err, LULL_E_FORMAT, "NVRTC gives no result: %s", nvrtc->text(code));
    }
    *image_out = image;
    return 0;
}

enum { OPTION_BYTES = 160, MAX_OPTIONS = LULL_SUITE_MAX_SIZES + LULL_SUITE_MAX_DEFINES + 4 };

struct options {
    char text[MAX_OPTIONS][OPTION_BYTES];
    const char *list[MAX_OPTIONS];
    int count;
};

static int __attribute__((format(printf, 3, 4)))
add_option(struct options *options, struct lull_error *err, const char *format, ...)
{
    char *const text = options->text[options->count];
    va_list arguments;
    int length;

    va_start(arguments, format);
    length = vsnprintf(text, OPTION_BYTES, format, arguments);
    va_end(arguments);
    if (length >= OPTION_BYTES)
        return lull_error_set(err, LULL_E_FORMAT, "the macro %.60s... is too long", text + 2);
    options->list[options->count++] = text;
    return 0;
}

int lull_suite_compile(struct lull_suite_compiler *compiler, const struct lull_suite_unit *unit,
                       uint32_t capability, struct lull_suite_image *image_out,
                       struct lull_error *err)
{
    const struct nvrtc *const nvrtc = &compiler->nvrtc;
    const char *texts[LULL_SUITE_MAX_HEADERS];
    const char *names[LULL_SUITE_MAX_HEADERS];
    struct options options = {.count = 0};
    bool is_own;
    const int architecture = compiler_choose(compiler, capability, &is_own);
    void *program = NULL;
    int result, code;

    if (architecture == 0)
        return lull_error_set(
            err, LULL_E_UNSUPPORTED,
            "NVRTC %u.%u does not compile for sm_%u any more; set LULL_NVRTC to the "
            "libnvrtc.so.12 of nvidia-cuda-nvrtc-cu12",
            compiler->version / 100, compiler->version % 100, capability);
    for (uint32_t i = 0; i < unit->header_count; i++) {
        texts[i] = unit->headers[i].text;
        names[i] = unit->headers[i].name;
    }
    result = add_option(&options, err, "--gpu-architecture=%s_%d", is_own ? "sm" : "compute",
                        architecture);
    if (result == 0)
        result = add_option(&options, err, "--std=c++17");
    for (uint32_t i = 0; i < unit->define_count && result == 0; i++)
        result =
            add_option(&options, err, "-D%s=%s", unit->defines[i].name, unit->defines[i].value);
    if (result < 0)
        return result;
    code = nvrtc->create(&program, unit->source->text, unit->source->name, (int)unit->header_count,
                         texts, names);
    if (code != 0)
        return lull_error_set(err, -ENOMEM, "NVRTC rejects the program: %s", nvrtc->text(code));
    code = nvrtc->compile(program, options.count, options.list);
    if (code != 0)
        result = fail_compile(compiler, program, unit->source->name, code, err);
    else
        result = take_image(compiler, program, is_own, image_out, err);
    nvrtc->destroy(&program);
    return result;
}
