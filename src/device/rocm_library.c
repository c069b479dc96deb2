/* SPDX-License-Identifier: Apache-2.0 */
#include "device/rocm_library.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/rocm.h"

static const struct lull_library_symbol symbols[] = {
    {offsetof(struct rocm, init), "amdsmi_init", NULL},
    {offsetof(struct rocm, shut_down), "amdsmi_shut_down", NULL},
    {offsetof(struct rocm, version), "amdsmi_get_lib_version", NULL},
    {offsetof(struct rocm, sockets), "amdsmi_get_socket_handles", NULL},
    {offsetof(struct rocm, processors), "amdsmi_get_processor_handles", NULL},
    {offsetof(struct rocm, asic_info), "amdsmi_get_gpu_asic_info", NULL},
    {offsetof(struct rocm, driver_info), "amdsmi_get_gpu_driver_info", NULL},
    {offsetof(struct rocm, enumeration_info), "amdsmi_get_gpu_enumeration_info", NULL},
    {offsetof(struct rocm, od_info), "amdsmi_get_gpu_od_volt_info", NULL},
    {offsetof(struct rocm, power_info), "amdsmi_get_power_info", NULL},
    {offsetof(struct rocm, activity), "amdsmi_get_gpu_activity", NULL},
    {offsetof(struct rocm, clock_info), "amdsmi_get_clock_info", NULL},
    {offsetof(struct rocm, power_cap_info), "amdsmi_get_power_cap_info", NULL},
    {offsetof(struct rocm, bdf), "amdsmi_get_gpu_device_bdf", NULL},
    {offsetof(struct rocm, uuid), "amdsmi_get_gpu_device_uuid", NULL},
    {offsetof(struct rocm, energy), "amdsmi_get_energy_count", NULL},
    {offsetof(struct rocm, temperature), "amdsmi_get_temp_metric", NULL},
    {offsetof(struct rocm, set_clock_limit), "amdsmi_set_gpu_clk_limit", NULL},
    {offsetof(struct rocm, set_level), "amdsmi_set_gpu_perf_level", NULL},
    {offsetof(struct rocm, set_power_cap), "amdsmi_set_power_cap", NULL},
};

static const struct lull_library_meaning meanings[] = {
    {0, 0, "success"},
    {1, -EINVAL, "invalid argument"},
    {2, LULL_E_UNSUPPORTED, "not supported by this GPU"},
    {3, LULL_E_UNSUPPORTED, "not in this library; ROCm 6.3 or newer may do it"},
    {4, LULL_E_NO_DEVICE, "the library cannot load what it needs"},
    {5, LULL_E_UNSUPPORTED, "the library lacks a symbol that it needs"},
    {6, -EAGAIN, "libdrm failed"},
    {7, -EAGAIN, "the call failed"},
    {8, -EAGAIN, "timeout"},
    {9, -EAGAIN, "to be tried again"},
    {10, -EPERM, "not permitted: needs root"},
    {11, -EAGAIN, "interrupted"},
    {12, -EAGAIN, "input or output error"},
    {13, -EINVAL, "bad address"},
    {14, -EAGAIN, "the driver's file cannot be read or written"},
    {15, -EAGAIN, "no memory"},
    {16, -EAGAIN, "internal exception"},
    {17, -EINVAL, "out of the allowed range"},
    {18, LULL_E_NO_DEVICE, "the library cannot start"},
    {20, LULL_E_UNSUPPORTED, "the driver has no such directory"},
    {30, -EAGAIN, "busy"},
    {31, LULL_E_NO_DEVICE, "there is no such GPU"},
    {32, LULL_E_NO_DEVICE, "the library is not initialised"},
    {34, LULL_E_NO_DEVICE, "the kernel driver is not loaded"},
    {39, -EINVAL, "the buffer is too small"},
    {40, -EAGAIN, "no data"},
    {41, -EINVAL, "the buffer is too small"},
    {42, -EAGAIN, "unexpected amount of data"},
    {43, -EAGAIN, "unexpected data"},
    {52, LULL_E_UNSUPPORTED, "the driver has no such file"},
    {53, -EINVAL, "a missing argument"},
    {55, LULL_E_UNSUPPORTED, "this setting is not available"},
    {-1, -EAGAIN, "unknown error of the library"},
};

const struct lull_library_meaning *lull_rocm_meaning(int code)
{
    return lull_library_meaning(meanings, sizeof(meanings) / sizeof(meanings[0]), code);
}

/* ---- opening ---- */

static int load_library(struct rocm *rocm, struct lull_error *err)
{
    static const char *const names[] = {"libamd_smi.so.26",
                                        "libamd_smi.so.25",
                                        "libamd_smi.so.24",
                                        "libamd_smi.so",
                                        "/opt/rocm/lib/libamd_smi.so",
                                        NULL};
    int result = lull_library_open("LULL_AMD_SMI", names, "AMD", &rocm->library, rocm->library_name,
                                   sizeof(rocm->library_name), err);

    if (result < 0)
        return result;
    lull_library_bind(rocm->library, rocm, symbols, sizeof(symbols) / sizeof(symbols[0]));
    if (rocm->init == NULL || rocm->shut_down == NULL || rocm->version == NULL ||
        rocm->sockets == NULL || rocm->processors == NULL || rocm->uuid == NULL ||
        rocm->clock_info == NULL)
        return lull_error_set(err, LULL_E_UNSUPPORTED,
                              "%s: lacks the basic functions of AMD SMI; is it the library of ROCm "
                              "6.0 or newer?",
                              rocm->library_name);
    return 0;
}

static void find_dies_of(struct rocm *rocm, void *socket)
{
    void *handles[LULL_DEVICE_MAX_GPUS];
    uint32_t count = LULL_DEVICE_MAX_GPUS - rocm->die_count;

    if (count == 0 || rocm->processors(socket, &count, handles) != AMDSMI_SUCCESS)
        return; /* one sick GPU must not hide the others */
    for (uint32_t i = 0; i < count && rocm->die_count < LULL_DEVICE_MAX_GPUS; i++)
        rocm->dies[rocm->die_count++].handle = handles[i];
}

static int compare_hip_ids(const void *left, const void *right)
{
    const struct rocm_die *a = left;
    const struct rocm_die *b = right;

    return (a->hip_id > b->hip_id) - (a->hip_id < b->hip_id);
}

/* The library lists by bus address; jobs count as HIP does, which is not always the same. */
static void order_as_hip(struct rocm *rocm)
{
    for (uint32_t i = 0; i < rocm->die_count; i++) {
        union amdsmi_room room = {.bytes = {0}};

        if (rocm->enumeration_info == NULL ||
            rocm->enumeration_info(rocm->dies[i].handle, &room) != AMDSMI_SUCCESS)
            return;
        rocm->dies[i].hip_id = room.enumeration.hip_id;
    }
    qsort(rocm->dies, rocm->die_count, sizeof(rocm->dies[0]), compare_hip_ids);
}

static int find_dies(struct rocm *rocm, struct lull_error *err)
{
    void *sockets[LULL_DEVICE_MAX_GPUS];
    uint32_t count = LULL_DEVICE_MAX_GPUS;
    int code = rocm->sockets(&count, sockets);

    if (code != AMDSMI_SUCCESS)
        return lull_error_set(err, lull_rocm_meaning(code)->error,
                              "%s: cannot list the GPUs: %s (AMD SMI %d)", rocm->library_name,
                              lull_rocm_meaning(code)->text, code);
    for (uint32_t i = 0; i < count && i < LULL_DEVICE_MAX_GPUS; i++)
        find_dies_of(rocm, sockets[i]);
    if (rocm->die_count == 0)
        return lull_error_set(err, LULL_E_NO_DEVICE, "%s: this node has no AMD GPU",
                              rocm->library_name);
    order_as_hip(rocm);
    return 0;
}

bool rocm_read_energy_uj(struct rocm *rocm, const struct rocm_die *die, double *energy_uj_out)
{
    float resolution_uj = 0.0F;
    uint64_t time_ns;
    uint64_t count;

    if (rocm->energy == NULL ||
        rocm->energy(die->handle, &count, &resolution_uj, &time_ns) != AMDSMI_SUCCESS ||
        count == 0 || count == UINT64_MAX || !(resolution_uj > 0.0F))
        return false;
    *energy_uj_out = (double)count * (double)resolution_uj;
    return true;
}

void rocm_read_name(struct rocm *rocm, const struct rocm_die *die, char *name, size_t size)
{
    union amdsmi_room room = {.bytes = {0}};

    if (rocm->asic_info == NULL || rocm->asic_info(die->handle, &room) != AMDSMI_SUCCESS)
        room.text[0] = '\0';
    snprintf(name, size, "%.*s", (int)size - 1, room.text);
}

/* A die without a counter right behind one with, of the same name: one module of two dies. */
static void find_modules(struct rocm *rocm)
{
    double ignored;

    for (uint32_t i = 0; i < rocm->die_count; i++) {
        struct rocm_die *die = &rocm->dies[i];
        char names[2][96];

        die->counter = i;
        die->sharers = 1;
        if (i == 0 || rocm->dies[i - 1].sharers > 1 || rocm_read_energy_uj(rocm, die, &ignored) ||
            !rocm_read_energy_uj(rocm, &rocm->dies[i - 1], &ignored))
            continue;
        rocm_read_name(rocm, &rocm->dies[i - 1], names[0], sizeof(names[0]));
        rocm_read_name(rocm, die, names[1], sizeof(names[1]));
        if (strcmp(names[0], names[1]) != 0)
            continue;
        die->counter = i - 1;
        die->sharers = rocm->dies[i - 1].sharers = 2;
    }
}

static void read_versions(struct rocm *rocm)
{
    union amdsmi_room room = {.bytes = {0}};

    /* The first number is the year in 24 and 25, and the major version, which goes on, since. */
    if (rocm->version(&room) == AMDSMI_SUCCESS && room.words[0] >= 25)
        rocm->power_offset = 2;
    room = (union amdsmi_room){.bytes = {0}};
    if (rocm->driver_info != NULL &&
        rocm->driver_info(rocm->dies[0].handle, &room) == AMDSMI_SUCCESS)
        snprintf(rocm->driver_version, sizeof(rocm->driver_version), "%.*s",
                 (int)sizeof(rocm->driver_version) - 1, room.text);
}

static void unload(struct rocm *rocm)
{
    if (rocm->library != NULL)
        dlclose(rocm->library);
    free(rocm);
}

void rocm_library_close(struct rocm *rocm)
{
    rocm->shut_down();
    unload(rocm);
}

int rocm_library_open(struct rocm **rocm_out, struct lull_error *err)
{
    struct rocm *rocm = calloc(1, sizeof(*rocm));
    int result;

    if (rocm == NULL)
        return lull_error_set(err, -ENOMEM, "no memory for the driver's table");
    result = load_library(rocm, err);
    if (result == 0) {
        int code = rocm->init(AMDSMI_INIT_GPUS);

        if (code != AMDSMI_SUCCESS)
            result = lull_error_set(err, lull_rocm_meaning(code)->error,
                                    "%s: cannot start AMD SMI: %s (AMD SMI %d)", rocm->library_name,
                                    lull_rocm_meaning(code)->text, code);
    }
    if (result < 0) {
        unload(rocm);
        return result;
    }
    result = find_dies(rocm, err);
    if (result < 0) {
        rocm_library_close(rocm);
        return result;
    }
    read_versions(rocm);
    find_modules(rocm);
    *rocm_out = rocm;
    return 0;
}
