/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/doctor/gather.h"

#include <dlfcn.h>
#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "device/writer.h"
#include "governor/run/opening.h"
#include "governor/run/probes.h"
#include "wire/client.h"
#include "wire/event.h"

enum {
    ANSWER_MS = 2000,
    OPEN_MS = 5000,     /* as for lull run: a driver that hangs must not keep the report */
    LOCK_READINGS = 3,  /* a single one may be of a clock that is rising from idle */
    LOCK_PAUSE_MS = 25, /* a reading of the clock is up to 20 ms old */
};

/* Returns a message without the "GPU N: " at its beginning, which the finding has as well. */
static const char *message_skip_gpu(const char *text)
{
    const char *const colon = strncmp(text, "GPU ", 4) == 0 ? strstr(text, ": ") : NULL;

    return colon != NULL && strcspn(text + 4, " :") == (size_t)(colon - text) - 4 ? colon + 2
                                                                                  : text;
}

static void message_strip_gpu(struct lull_error *err)
{
    const char *const text = message_skip_gpu(err->text);

    memmove(err->text, text, strlen(text) + 1);
}

/* ---- the driver -------------------------------------------------------------------------- */

/* Finds the variable that names another library than the driver's. */
static void driver_find_override(struct lull_doctor_driver *driver)
{
    static const char *const names[] = {"LULL_NVML", "LULL_AMD_SMI", "LULL_LEVEL_ZERO",
                                        "LULL_VENDOR"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && driver->override[0] == '\0'; i++) {
        const char *const value = getenv(names[i]);

        if (value != NULL && value[0] != '\0')
            snprintf(driver->override, sizeof(driver->override), "%s=%s", names[i], value);
    }
}

/* Judges whether another program holds the clock of a busy GPU. */
static enum lull_lock_state gpu_find_lock(struct lull_devices *devices, uint32_t gpu,
                                          uint32_t *sm_mhz_out)
{
    const struct lull_device_info *const info = lull_device_info(devices, gpu);
    const struct lull_journal_written nothing = {0};
    enum lull_lock_state state = LULL_LOCK_UNKNOWN;

    for (uint32_t i = 0; i < LOCK_READINGS; i++) {
        struct lull_device_reading reading;

        if (i > 0)
            lull_sleep_until_ns(lull_now_ns() + LOCK_PAUSE_MS * LULL_NS_PER_MS);
        lull_device_read(devices, gpu, LULL_LOCK_STATE_READINGS, &reading);
        state = lull_lock_state_of_clock(info, &reading, &nothing);
        if (state != LULL_LOCK_FOREIGN)
            return state;
        *sm_mhz_out = reading.sm_mhz;
    }
    return state;
}

static void gpu_gather_clocks(const struct lull_device_info *info, struct lull_doctor_gpu *gpu)
{
    struct lull_band clocks = {.min_mhz = 1, .max_mhz = UINT32_MAX};
    struct lull_band limits = {1, UINT32_MAX, 1, UINT32_MAX};

    if (lull_device_fit_band(info, &clocks, &gpu->clocks) < 0) {
        message_strip_gpu(&gpu->clocks);
        return;
    }
    gpu->lowest_mhz = clocks.min_mhz;
    gpu->highest_mhz = clocks.max_mhz;
    if (!info->has_only_module_power && lull_device_fit_band(info, &limits, &gpu->limits) < 0)
        message_strip_gpu(&gpu->limits);
}

static void gpu_gather(struct lull_devices *devices, uint32_t index, struct lull_doctor_gpu *gpu)
{
    const struct lull_device_info *const info = lull_device_info(devices, index);
    struct lull_device_reading reading;
    struct lull_device_update update;

    memcpy(gpu->uuid, info->uuid, sizeof(gpu->uuid));
    if (info->uuid[0] == '\0') {
        snprintf(gpu->unopened, sizeof(gpu->unopened), "%s", info->name);
        return;
    }
    if (lull_device_check(devices, index, &update, NULL) == LULL_E_NO_DEVICE) {
        snprintf(gpu->unopened, sizeof(gpu->unopened), "the driver has lost it");
        return;
    }
    if (update.is_partitioned)
        lull_device_refuse_partitioned(&gpu->mig);
    gpu->is_virtual = info->is_virtual;
    gpu->has_energy_counter = (info->capabilities & LULL_CAPABILITY_ENERGY_COUNTER) != 0;
    gpu->default_limit_mw = info->power_limit_default_mw;
    gpu_gather_clocks(info, gpu);
    gpu->has_profiles = info->power_profiles != 0;
    if (gpu->has_profiles)
        gpu->profiles_code = lull_device_add_profiles(devices, index, 0, NULL);
    lull_device_read(devices, index, LULL_READING_POWER_LIMIT | LULL_READING_SMOOTHING, &reading);
    if ((reading.valid & LULL_READING_POWER_LIMIT) != 0 && !info->has_only_module_power)
        gpu->limit_mw = reading.power_limit_mw;
    gpu->is_smoothing = reading.is_smoothing;
    gpu->smoothing_floor_w = reading.smoothing_floor_w;
}

static struct lull_devices *driver_gather(struct lull_doctor_facts *facts)
{
    struct lull_doctor_driver *const driver = &facts->driver;
    struct lull_devices *devices;

    driver_find_override(driver);
    if (lull_devices_open_until(lull_now_ns() + OPEN_MS * LULL_NS_PER_MS, &devices, &driver->err) <
        0)
        return NULL;
    driver->err.code = 0;
    snprintf(driver->vendor, sizeof(driver->vendor), "%s", lull_devices_vendor(devices));
    snprintf(driver->version, sizeof(driver->version), "%s", lull_devices_driver_version(devices));
    driver->gpu_count = lull_devices_count(devices);
    for (uint32_t gpu = 0; gpu < driver->gpu_count; gpu++)
        gpu_gather(devices, gpu, &facts->gpus[gpu]);
    return devices;
}

/* ---- lulld ------------------------------------------------------------------------------- */

static void close_fds(const int *fds)
{
    for (int i = 0; i < LULL_CLIENT_MAX_FDS; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

static int lease_try(struct lull_client *client, struct lull_message *message,
                     struct lull_message *answer, struct lull_error *err)
{
    int fds[LULL_CLIENT_MAX_FDS] = {-1, -1};
    const int result =
        lull_client_call(client, message, LULL_MESSAGE_GRANT, ANSWER_MS, answer, fds, err);

    close_fds(fds);
    return result;
}

/* Leases all clocks of a free GPU, and releases it. */
static void lease_gather(struct lull_client *client, const struct lull_message_state *state,
                         struct lull_doctor_lease *lease)
{
    struct lull_message message = {.type = LULL_MESSAGE_LEASE};
    struct lull_message release = {.type = LULL_MESSAGE_RELEASE};
    struct lull_message answer;
    int result;

    memcpy(message.body.lease.uuid, state->uuid, sizeof(message.body.lease.uuid));
    message.body.lease.min_mhz = state->lowest_mhz;
    message.body.lease.max_mhz = state->highest_mhz;
    result = lease_try(client, &message, &answer, &lease->err);
    if (result == -ENOKEY && lull_client_prove(client, ANSWER_MS, &lease->err) == 0)
        result = lease_try(client, &message, &answer, &lease->err);
    if (result < 0) {
        message_strip_gpu(&lease->err);
        return;
    }
    lease->err = (struct lull_error){0};
    lease->granted_min_mhz = answer.body.grant.min_mhz;
    lease->granted_max_mhz = answer.body.grant.max_mhz;
    release.body.release.slot = answer.body.grant.slot;
    lull_client_call(client, &release, LULL_MESSAGE_REPLY, ANSWER_MS, &answer, NULL, NULL);
}

static void daemon_gather_gpu(struct lull_client *client, const struct lull_message_state *state,
                              struct lull_doctor_gpu *gpu)
{
    struct lull_doctor_lease *const lease = &gpu->lease;

    lease->is_asked = true;
    lease->last_write = state->status;
    lease->is_leased = state->is_leased != 0;
    lease->is_foreign = state->health == LULL_WRITER_FOREIGN;
    lease->is_quiesced = state->health == LULL_WRITER_QUIESCED;
    if (lease->is_foreign)
        gpu->sm_mhz = state->observed_mhz;
    if (!lease->is_leased && state->lowest_mhz != 0)
        lease_gather(client, state, lease);
}

static void daemon_gather_gpus(struct lull_client *client, uint32_t count,
                               struct lull_doctor_facts *facts)
{
    for (uint32_t i = 0; i < count; i++) {
        struct lull_message message = {.type = LULL_MESSAGE_STATUS, .body.status.gpu = i};
        struct lull_message answer;

        if (lull_client_call(client, &message, LULL_MESSAGE_STATE, ANSWER_MS, &answer, NULL,
                             &facts->daemon.err) < 0)
            return;
        for (uint32_t gpu = 0; gpu < facts->driver.gpu_count; gpu++)
            if (strcmp(facts->gpus[gpu].uuid, answer.body.state.uuid) == 0)
                daemon_gather_gpu(client, &answer.body.state, &facts->gpus[gpu]);
    }
}

static void daemon_find_group(struct lull_doctor_daemon *daemon)
{
    char path[PATH_MAX + sizeof(LULL_CLIENT_SOCKET)];
    const struct group *group;
    struct stat status;

    snprintf(path, sizeof(path), "%s/%s", daemon->runtime_dir, LULL_CLIENT_SOCKET);
    if (stat(path, &status) < 0)
        return;
    group = getgrgid(status.st_gid);
    if (group != NULL)
        snprintf(daemon->socket_group, sizeof(daemon->socket_group), "%s", group->gr_name);
    else
        snprintf(daemon->socket_group, sizeof(daemon->socket_group), "%u",
                 (unsigned int)status.st_gid);
}

static void daemon_gather(const char *runtime_dir, struct lull_doctor_facts *facts)
{
    struct lull_doctor_daemon *const daemon = &facts->daemon;
    struct lull_message_welcome welcome;
    struct lull_client *client;
    const char *const policy = getenv("LULL_POLICY");

    snprintf(daemon->policy, sizeof(daemon->policy), "%s",
             policy != NULL && policy[0] != '\0' ? policy : "/etc/lull/policy.conf");
    snprintf(daemon->runtime_dir, sizeof(daemon->runtime_dir), "%s", runtime_dir);
    daemon_find_group(daemon);
    if (lull_client_open(runtime_dir, &client, &welcome, &daemon->err) < 0)
        return;
    daemon->err = (struct lull_error){0};
    daemon_gather_gpus(client, welcome.gpu_count, facts);
    lull_client_close(client);
}

/* ---- probes ------------------------------------------------------------------------------ */

static void nccl_gather(struct lull_doctor_probes *facts)
{
    void *const library = dlopen("libnccl.so.2", RTLD_LAZY | RTLD_LOCAL);
    int (*get_version)(int *version);
    int version = 0;

    if (library == NULL)
        return;
    *(void **)&get_version = dlsym(library, "ncclGetVersion");
    if (get_version != NULL && get_version(&version) == 0)
        facts->nccl_version = version;
    dlclose(library);
}

/* Learns what `lull run` would say about its probes. */
static void probes_gather(struct lull_doctor_probes *facts)
{
    static char *const command[] = {(char *)"", NULL};
    const struct lull_probes_request request = {.command = command, .exposure = true};
    const char *const plugin = getenv("NCCL_PROFILER_PLUGIN");
    struct lull_probes *const probes = calloc(1, sizeof(*probes));

    nccl_gather(facts);
    for (uint32_t i = 0; probes != NULL && i < lull_probes_count(); i++)
        if (facts->refusal_count < LULL_DOCTOR_MAX_PROBES &&
            lull_probes_add(probes, i, &request, &facts->refusals[facts->refusal_count]) < 0)
            facts->refusal_count++;
    for (uint32_t i = 0; probes != NULL && i < probes->count; i++)
        if (plugin != NULL && strncmp(probes->variables[i], LULL_NCCL_CHAIN_ENV "=",
                                      sizeof(LULL_NCCL_CHAIN_ENV "=") - 1) == 0)
            snprintf(facts->plugin, sizeof(facts->plugin), "%s", plugin);
    free(probes);
}

/* ---- all of them ------------------------------------------------------------------------- */

void lull_doctor_gather(const struct lull_doctor_sources *sources,
                        struct lull_doctor_facts *facts_out)
{
    struct lull_devices *devices;

    memset(facts_out, 0, sizeof(*facts_out));
    lull_doctor_gather_node(sources->root, facts_out);
    devices = driver_gather(facts_out);
    daemon_gather(sources->runtime_dir, facts_out);
    /* A clock that a lease of Lull lowers is no lock of another program. */
    for (uint32_t gpu = 0; devices != NULL && gpu < facts_out->driver.gpu_count; gpu++)
        if (facts_out->gpus[gpu].unopened[0] == '\0' && !facts_out->gpus[gpu].lease.is_leased)
            facts_out->gpus[gpu].lock = gpu_find_lock(devices, gpu, &facts_out->gpus[gpu].sm_mhz);
    lull_devices_close(devices);
    probes_gather(&facts_out->probes);
}
