/* SPDX-License-Identifier: Apache-2.0 */
#include "device/amdsmi_library.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/amdsmi.h"

#define SYMBOL(type, member, name, older_name)                                                     \
    {offsetof(struct lull_amdsmi, member), name, older_name},
static const struct lull_library_symbol symbols[] = {AMDSMI_CALLS(SYMBOL)};

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
    {-1, LULL_E_DRIVER, "unknown error of the library"},
};

const struct lull_library_meaning *lull_amdsmi_meaning(int code)
{
    return lull_library_meaning(meanings, sizeof(meanings) / sizeof(meanings[0]), code);
}

/* ---- opening ---- */

static int amdsmi_load_library(struct lull_amdsmi *amdsmi, struct lull_error *err)
{
    static const char *const names[] = {"libamd_smi.so.27",
                                        "libamd_smi.so.26",
                                        "libamd_smi.so.25",
                                        "libamd_smi.so.24",
                                        "libamd_smi.so",
                                        "/opt/rocm/lib/libamd_smi.so",
                                        NULL};
    int result = lull_library_open_driver("LULL_AMD_SMI", names, "AMD", &amdsmi->library,
                                          amdsmi->library_name, sizeof(amdsmi->library_name), err);

    if (result < 0)
        return result;
    lull_library_bind(amdsmi->library, amdsmi, symbols, sizeof(symbols) / sizeof(symbols[0]));
    if (amdsmi->init == NULL || amdsmi->shut_down == NULL || amdsmi->version == NULL ||
        amdsmi->sockets == NULL || amdsmi->processors == NULL || amdsmi->uuid == NULL ||
        amdsmi->clock_info == NULL)
        return lull_error_set(err, LULL_E_UNSUPPORTED,
                              "%s: lacks the basic functions of AMD SMI; is it the library of ROCm "
                              "6.0 or newer?",
                              amdsmi->library_name);
    return 0;
}

/* Returns the library's code. */
static int find_dies_of(struct lull_amdsmi *amdsmi, void *socket)
{
    void *handles[LULL_DEVICE_MAX_GPUS];
    uint32_t count = LULL_DEVICE_MAX_GPUS - amdsmi->die_count;

    int code;

    if (count == 0)
        return AMDSMI_SUCCESS;
    code = amdsmi->processors(socket, &count, handles);
    /* A GPU that fails keeps its number, and must not hide the others. */
    if (code != AMDSMI_SUCCESS) {
        handles[0] = NULL;
        count = 1;
    }
    for (uint32_t i = 0; i < count && amdsmi->die_count < LULL_DEVICE_MAX_GPUS; i++) {
        amdsmi->dies[amdsmi->die_count].handle = handles[i];
        amdsmi->dies[amdsmi->die_count++].socket = socket;
    }
    return code;
}

static int compare_hip_ids(const void *left, const void *right)
{
    const struct amdsmi_die *a = left;
    const struct amdsmi_die *b = right;

    return (a->hip_id > b->hip_id) - (a->hip_id < b->hip_id);
}

/* Requests HIP's number of a die. Returns the library's code; that of a die that is not open may
 * pass. */
static int number_die(struct lull_amdsmi *amdsmi, struct amdsmi_die *die)
{
    union amdsmi_room room = {.bytes = {0}};
    int code = AMDSMI_NOT_YET_IMPLEMENTED;

    die->hip_id = UINT32_MAX;
    if (amdsmi->enumeration_info != NULL)
        code = die->handle == NULL ? AMDSMI_BUSY : amdsmi->enumeration_info(die->handle, &room);
    if (code == AMDSMI_SUCCESS)
        die->hip_id = room.enumeration.hip_id;
    return code;
}

/* Returns the lowest of HIP's numbers that no die has. */
static uint32_t find_free_number(const struct lull_amdsmi *amdsmi)
{
    uint64_t taken = 0;
    uint32_t number = 0;

    for (uint32_t i = 0; i < amdsmi->die_count; i++)
        if (amdsmi->dies[i].hip_id < LULL_DEVICE_MAX_GPUS)
            taken |= UINT64_C(1) << amdsmi->dies[i].hip_id;
    while (number < LULL_DEVICE_MAX_GPUS && (taken >> number & 1) != 0)
        number++;
    return number;
}

/* Sorts the dies into the order of HIP, in which jobs count them: the library lists them by bus
 * address, which is not always the same. Dies that do not say their number yet get those that are
 * free. */
static void order_as_hip(struct lull_amdsmi *amdsmi)
{
    for (uint32_t i = 0; i < amdsmi->die_count; i++) {
        const int code = number_die(amdsmi, &amdsmi->dies[i]);

        if (code != AMDSMI_SUCCESS && !lull_library_may_pass(lull_amdsmi_meaning(code)))
            return;
    }
    for (uint32_t i = 0; i < amdsmi->die_count; i++)
        if (amdsmi->dies[i].hip_id == UINT32_MAX)
            amdsmi->dies[i].hip_id = find_free_number(amdsmi);
    qsort(amdsmi->dies, amdsmi->die_count, sizeof(amdsmi->dies[0]), compare_hip_ids);
}

static int find_dies(struct lull_amdsmi *amdsmi, struct lull_error *err)
{
    void *sockets[LULL_DEVICE_MAX_GPUS];
    uint32_t count = LULL_DEVICE_MAX_GPUS;
    uint32_t usable = 0;
    int failure = AMDSMI_SUCCESS;
    int code = amdsmi->sockets(&count, sockets);

    if (code != AMDSMI_SUCCESS)
        return lull_error_set(err, lull_amdsmi_meaning(code)->error,
                              "%s: cannot list the GPUs: %s (AMD SMI %d)", amdsmi->library_name,
                              lull_amdsmi_meaning(code)->text, code);
    for (uint32_t i = 0; i < count && i < LULL_DEVICE_MAX_GPUS; i++) {
        code = find_dies_of(amdsmi, sockets[i]);
        if (code != AMDSMI_SUCCESS)
            failure = code;
    }
    for (uint32_t i = 0; i < amdsmi->die_count; i++)
        usable += amdsmi->dies[i].handle != NULL;
    if (usable == 0 && failure != AMDSMI_SUCCESS)
        return lull_error_set(err, lull_amdsmi_meaning(failure)->error,
                              "%s: no usable GPU: %s (AMD SMI %d)", amdsmi->library_name,
                              lull_amdsmi_meaning(failure)->text, failure);
    if (amdsmi->die_count == 0)
        return lull_error_set(err, LULL_E_NO_DEVICE, "%s: this node has no AMD GPU",
                              amdsmi->library_name);
    order_as_hip(amdsmi);
    return 0;
}

bool lull_amdsmi_read_energy_uj(struct lull_amdsmi *amdsmi, const struct amdsmi_die *die,
                                double *energy_uj_out)
{
    float resolution_uj = 0.0F;
    uint64_t time_ns;
    uint64_t count;

    if (amdsmi->energy == NULL ||
        amdsmi->energy(die->handle, &count, &resolution_uj, &time_ns) != AMDSMI_SUCCESS ||
        count == 0 || count == UINT64_MAX || !(resolution_uj > 0.0F))
        return false;
    *energy_uj_out = (double)count * (double)resolution_uj;
    return true;
}

void lull_amdsmi_read_name(struct lull_amdsmi *amdsmi, const struct amdsmi_die *die, char *name,
                           size_t size)
{
    union amdsmi_room room = {.bytes = {0}};

    if (amdsmi->asic_info == NULL || amdsmi->asic_info(die->handle, &room) != AMDSMI_SUCCESS)
        room.text[0] = '\0';
    snprintf(name, size, "%.*s", (int)size - 1, room.text);
}

/* Finds the die whose counter counts a die. Of the two dies of a module only the first has a
 * counter, so a die without one that follows a die of the same name with one belongs to the same
 * module. A die that is opened later has only a counter of its own: the one before it has counted
 * both, and a counter must not jump. */
static void find_counter(struct lull_amdsmi *amdsmi, uint32_t gpu)
{
    struct amdsmi_die *die = &amdsmi->dies[gpu];
    struct amdsmi_die *before = die - 1; /* used only where there is one */
    char names[2][96];
    double ignored;

    die->counter = gpu;
    die->sharers = 1;
    if (gpu == 0 || die->handle == NULL || before->handle == NULL || before->sharers > 1 ||
        lull_amdsmi_read_energy_uj(amdsmi, die, &ignored) ||
        !lull_amdsmi_read_energy_uj(amdsmi, before, &ignored))
        return;
    lull_amdsmi_read_name(amdsmi, before, names[0], sizeof(names[0]));
    lull_amdsmi_read_name(amdsmi, die, names[1], sizeof(names[1]));
    if (strcmp(names[0], names[1]) != 0)
        return;
    die->counter = gpu - 1;
    die->sharers = 2;
    before->sharers = 2;
}

int lull_amdsmi_open_die(struct lull_amdsmi *amdsmi, uint32_t gpu)
{
    struct amdsmi_die *die = &amdsmi->dies[gpu];
    void *handles[LULL_DEVICE_MAX_GPUS];
    uint32_t count = LULL_DEVICE_MAX_GPUS;
    int code;

    if (die->handle != NULL)
        return AMDSMI_SUCCESS;
    code = amdsmi->processors(die->socket, &count, handles);
    if (code == AMDSMI_SUCCESS && count == 0)
        code = AMDSMI_NOT_FOUND;
    if (code != AMDSMI_SUCCESS)
        return code;
    die->handle = handles[0];
    return AMDSMI_SUCCESS;
}

/* Version 27 has three ranges in force and three possible ones, 26.1 and older two. The version in
 * between that changed it is unknown; a range of another clock must not be taken for the SM's. */
static uint32_t find_od_limits(uint32_t major, uint32_t minor)
{
    if (major >= 27)
        return 3;
    return major == 26 && minor >= 2 ? 0 : 2;
}

static void read_versions(struct lull_amdsmi *amdsmi)
{
    union amdsmi_room room = {.bytes = {0}};

    /* In versions 24 and 25 the first number is the year; since then it is the major version, which
     * continues from 26. */
    amdsmi->name_bytes = 32;
    if (amdsmi->version(&room) == AMDSMI_SUCCESS && room.words[0] >= 25) {
        amdsmi->power_offset = 2;
        amdsmi->name_bytes = 256;
    }
    amdsmi->od_limits = find_od_limits(room.words[0], room.words[1]);
    for (uint32_t i = 0; i < amdsmi->die_count && amdsmi->driver_version[0] == '\0'; i++) {
        room = (union amdsmi_room){.bytes = {0}};
        if (amdsmi->driver_info != NULL && amdsmi->dies[i].handle != NULL &&
            amdsmi->driver_info(amdsmi->dies[i].handle, &room) == AMDSMI_SUCCESS)
            snprintf(amdsmi->driver_version, sizeof(amdsmi->driver_version), "%.*s",
                     (int)sizeof(amdsmi->driver_version) - 1, room.text);
    }
}

static void amdsmi_unload(struct lull_amdsmi *amdsmi)
{
    if (amdsmi->library != NULL)
        dlclose(amdsmi->library);
    free(amdsmi);
}

void lull_amdsmi_close(void *state)
{
    struct lull_amdsmi *amdsmi = state;

    amdsmi->shut_down();
    amdsmi_unload(amdsmi);
}

int lull_amdsmi_open(void **state_out, uint32_t *count_out, struct lull_error *err)
{
    struct lull_amdsmi *amdsmi = calloc(1, sizeof(*amdsmi));
    int result;

    if (amdsmi == NULL)
        return lull_error_set(err, -ENOMEM, "no memory for the driver's table");
    result = amdsmi_load_library(amdsmi, err);
    if (result == 0) {
        int code = amdsmi->init(AMDSMI_INIT_GPUS);

        if (code != AMDSMI_SUCCESS)
            result = lull_error_set(err, lull_amdsmi_meaning(code)->error,
                                    "%s: cannot start AMD SMI: %s (AMD SMI %d)",
                                    amdsmi->library_name, lull_amdsmi_meaning(code)->text, code);
    }
    /* The library is shut down only where it was started. */
    if (result < 0) {
        amdsmi_unload(amdsmi);
        return result;
    }
    result = find_dies(amdsmi, err);
    if (result < 0) {
        lull_amdsmi_close(amdsmi);
        return result;
    }
    read_versions(amdsmi);
    for (uint32_t i = 0; i < amdsmi->die_count; i++)
        find_counter(amdsmi, i);
    *state_out = amdsmi;
    *count_out = amdsmi->die_count;
    return 0;
}
