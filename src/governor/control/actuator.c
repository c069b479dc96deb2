/*
 * Both back ends post into a command table and signal an eventfd. They differ in the process that
 * takes the commands.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "governor/control/actuator.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "device/keeper.h"
#include "device/restore.h"
#include "device/writer.h"
#include "wire/client.h"
#include "wire/command.h"

/*
 * CALL_MS: how long the daemon may take to answer. RESTORE_MS: how long closing waits until the
 * GPUs are restored. Together with the other waits at the end of a run it must be less than 2 s:
 * `lull run` ends after that time even if the driver hangs. A hanging writer gets half a second
 * more. Eight GPUs take three calls of some 20 ms each. The daemon, or the journal's next reader,
 * restores what is left by then.
 */
enum { CALL_MS = 1500, RESTORE_MS = 1000 };

struct lull_actuator {
    struct lull_command_table *table;
    int doorbell_fd;
    uint64_t leased;                                      /* a bit per slot */
    struct lull_limit_request limits[LULL_COMMAND_SLOTS]; /* the latest ones */
    uint32_t profiles[LULL_COMMAND_SLOTS];                /* that each lease may request */
    uint64_t partitioned; /* a bit per GPU of this process: MIG is on */
    bool has_lost;        /* lulld has taken a lease back */
    bool is_forbidden;    /* because the GPU must not be leased any more */

    struct lull_client *client; /* daemon */
    int64_t heartbeat_ns;       /* interval of lease renewals, as requested by lulld */
    int64_t next_heartbeat_ns;

    struct lull_devices *devices; /* local, borrowed */
    struct lull_journal *journal;
    struct lull_keeper *keeper;
    struct lull_writer *writer;
    struct lull_writer_source source;
};

static struct lull_actuator *actuator_create(struct lull_error *err)
{
    struct lull_actuator *actuator = calloc(1, sizeof(*actuator));

    if (actuator == NULL)
        lull_error_set(err, -ENOMEM, "no memory to control clocks");
    else
        actuator->doorbell_fd = -1;
    return actuator;
}

/* The client renews three times in the life of a lease if the daemon names no heartbeat interval,
 * or one longer than the lease. */
static int64_t heartbeat_of(const struct lull_message_welcome *welcome)
{
    uint32_t heartbeat_ms = welcome->heartbeat_ms;

    if (heartbeat_ms == 0 || heartbeat_ms >= welcome->lease_ttl_ms)
        heartbeat_ms = welcome->lease_ttl_ms / 3;
    return heartbeat_ms * LULL_NS_PER_MS;
}

int lull_actuator_connect(const char *runtime_dir, struct lull_actuator **actuator_out,
                          struct lull_error *err)
{
    struct lull_actuator *actuator = actuator_create(err);
    int result;

    if (actuator == NULL)
        return -ENOMEM;
    result = lull_client_connect(runtime_dir, &actuator->client, err);
    if (result < 0) {
        lull_actuator_close(actuator);
        return result;
    }
    *actuator_out = actuator;
    return 0;
}

int lull_actuator_greet(struct lull_actuator *actuator, struct lull_error *err)
{
    struct lull_message_welcome welcome;
    int result = lull_client_greet(actuator->client, 0, &welcome, err);

    if (result == -ETIMEDOUT)
        return -EAGAIN;
    if (result == 0)
        actuator->heartbeat_ns = heartbeat_of(&welcome);
    return result;
}

int lull_actuator_open_daemon(const char *runtime_dir, struct lull_actuator **actuator_out,
                              struct lull_error *err)
{
    struct lull_actuator *actuator = actuator_create(err);
    struct lull_message_welcome welcome;
    int result;

    if (actuator == NULL)
        return -ENOMEM;
    result = lull_client_open(runtime_dir, &actuator->client, &welcome, err);
    if (result < 0) {
        lull_actuator_close(actuator);
        return result;
    }
    actuator->heartbeat_ns = heartbeat_of(&welcome);
    *actuator_out = actuator;
    return 0;
}

/* --- local: this process drives the devices --- */

/* A job is managed even without a keeper: the next start restores GPUs that a killed run left
 * lowered. */
static void actuator_start_keeper(struct lull_actuator *actuator, const char *runtime_dir)
{
    struct lull_error error;

    if (lull_keeper_start(runtime_dir, &actuator->keeper, &error) < 0 ||
        lull_keeper_watch(actuator->keeper, &error) < 0)
        lull_log(LULL_LOG_WARNING, "run",
                 "%s; if this process is killed, clocks stay low until lull or lulld starts again",
                 error.text);
}

/* The writer of this process does not check GPUs, so this is the only check. It runs before the job
 * because the driver may hang in it. One check is enough: MIG cannot be switched while a job uses
 * the GPU. A GPU that cannot be checked is refused by its first write, if at all. */
static void actuator_find_partitions(struct lull_actuator *actuator)
{
    for (uint32_t gpu = 0; gpu < lull_devices_count(actuator->devices); gpu++) {
        struct lull_device_update update;

        lull_device_check(actuator->devices, gpu, &update, NULL);
        if (update.is_partitioned)
            actuator->partitioned |= UINT64_C(1) << gpu;
    }
}

static int open_journal(const char *runtime_dir, struct lull_journal **journal_out,
                        struct lull_error *err)
{
    struct lull_error why = {0};
    const int result = lull_journal_open(runtime_dir, journal_out, &why);

    if (geteuid() != 0 && (result == -EACCES || result == -EPERM))
        return lull_error_set(
            err, result, "%s. Without root give --runtime-dir a directory of your own", why.text);
    if (result < 0)
        return lull_error_set(err, result, "%s", why.text);
    return 0;
}

static int open_local(struct lull_actuator *actuator, const char *runtime_dir,
                      struct lull_error *err)
{
    struct lull_writer_options options = lull_writer_defaults;
    struct lull_restore_report report;
    int result = open_journal(runtime_dir, &actuator->journal, err);

    if (result < 0)
        return result;
    /* Restores the GPUs that a killed run left lowered. A failure affects one GPU and has been
     * logged. */
    lull_restore_all(actuator->devices, actuator->journal, &report, NULL);
    actuator_find_partitions(actuator);
    result = lull_command_table_create(&actuator->table, err);
    if (result < 0)
        return result;
    actuator->doorbell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (actuator->doorbell_fd < 0)
        return lull_error_set(err, -errno, "cannot create an eventfd to wake the device writer: %s",
                              strerror(errno));
    actuator_start_keeper(actuator, runtime_dir);
    options.keeper = actuator->keeper;
    result =
        lull_writer_start(actuator->devices, actuator->journal, &options, &actuator->writer, err);
    if (result < 0)
        return result;
    actuator->source = (struct lull_writer_source){
        .doorbell_fd = actuator->doorbell_fd, .channel = lull_command_channel(actuator->table)};
    return lull_writer_add_source(actuator->writer, &actuator->source, err);
}

/* Returns whether the driver permits this process to request power profiles of a GPU. */
static bool may_request_profiles(struct lull_devices *devices)
{
    for (uint32_t gpu = 0; gpu < lull_devices_count(devices); gpu++)
        if (lull_device_info(devices, gpu)->power_profiles != 0 &&
            lull_device_add_profiles(devices, gpu, 0, NULL) == 0)
            return true;
    return false;
}

int lull_actuator_open_local(struct lull_devices *devices, const char *runtime_dir,
                             struct lull_actuator **actuator_out, struct lull_error *err)
{
    struct lull_actuator *actuator;
    int result;

    if (geteuid() != 0 && !may_request_profiles(devices))
        return lull_error_set(err, -EPERM,
                              "setting GPU clocks needs root: start lulld, or run this as root");
    actuator = actuator_create(err);
    if (actuator == NULL)
        return -ENOMEM;
    actuator->devices = devices;
    result = open_local(actuator, runtime_dir, err);
    if (result < 0) {
        lull_actuator_close(actuator);
        return result;
    }
    *actuator_out = actuator;
    return 0;
}

static int lease_local(struct lull_actuator *actuator, const char *uuid,
                       const struct lull_band *band, uint32_t *slot_out, struct lull_error *err)
{
    int gpu = lull_device_find(actuator->devices, uuid);
    struct lull_band fitted = *band;
    int result;

    if (gpu < 0)
        return lull_error_set(err, -ENODEV, "%s: no such GPU on this node; see lull gpus", uuid);
    fitted.profiles = LULL_POWER_PROFILE_ALL;
    fitted.smoothing = true;
    result = lull_device_fit_band(lull_device_info(actuator->devices, (uint32_t)gpu), &fitted, err);
    if (result == 0 && (actuator->partitioned >> gpu & 1) != 0)
        result = lull_device_refuse_partitioned(err);
    if (result < 0)
        return result;
    if ((actuator->leased >> gpu & 1) != 0)
        return lull_error_set(err, -EBUSY, "%s: this process has leased it already", uuid);
    lull_writer_grant(actuator->writer, (uint32_t)gpu, &actuator->source, &fitted);
    *slot_out = (uint32_t)gpu;
    actuator->profiles[gpu] = fitted.profiles;
    return 0;
}

/* --- daemon --- */

static void close_fds(const int *fds)
{
    for (int i = 0; i < LULL_CLIENT_MAX_FDS; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

/* The first grant brings the table and the doorbell. */
static int open_table(struct lull_actuator *actuator, int *fds, struct lull_error *err)
{
    int result;

    if (fds[0] < 0 || fds[1] < 0) {
        close_fds(fds);
        return lull_error_set(err, LULL_E_FORMAT,
                              "lulld granted a lease without a command table; see its log");
    }
    result = lull_command_table_open(fds[0], &actuator->table, err);
    if (result < 0) {
        close_fds(fds);
        return result;
    }
    close(fds[0]);
    actuator->doorbell_fd = fds[1];
    return 0;
}

static int lease_daemon(struct lull_actuator *actuator, const char *uuid,
                        const struct lull_band *band, uint32_t *slot_out, struct lull_error *err)
{
    struct lull_message message = {.type = LULL_MESSAGE_LEASE};
    struct lull_message answer;
    int fds[LULL_CLIENT_MAX_FDS] = {-1, -1};
    int result;

    if (strlen(uuid) >= sizeof(message.body.lease.uuid))
        return lull_error_set(err, -ENODEV,
                              "%.40s...: this is not the UUID of a GPU; see lull gpus", uuid);
    memcpy(message.body.lease.uuid, uuid, strlen(uuid) + 1);
    message.body.lease.min_mhz = band->min_mhz;
    message.body.lease.max_mhz = band->max_mhz;
    message.body.lease.min_limit_mw = band->min_limit_mw;
    message.body.lease.max_limit_mw = band->max_limit_mw;
    result = lull_client_call(actuator->client, &message, LULL_MESSAGE_GRANT, CALL_MS, &answer, fds,
                              err);
    if (result == -ENOKEY) {
        result = lull_client_prove(actuator->client, CALL_MS, err);
        if (result == 0)
            result = lull_client_call(actuator->client, &message, LULL_MESSAGE_GRANT, CALL_MS,
                                      &answer, fds, err);
    }
    if (result == 0 && answer.body.grant.slot >= LULL_COMMAND_SLOTS)
        result =
            lull_error_set(err, LULL_E_FORMAT,
                           "lulld granted a slot that does not exist; is it of another version?");
    if (result == 0 && actuator->table == NULL)
        result = open_table(actuator, fds, err);
    else
        close_fds(fds);
    if (result < 0)
        return result;
    *slot_out = answer.body.grant.slot;
    actuator->profiles[*slot_out] = answer.body.grant.profiles;
    return 0;
}

int lull_actuator_lease(struct lull_actuator *actuator, const char *uuid,
                        const struct lull_band *band, uint32_t *slot_out, struct lull_error *err)
{
    int result;

    if (actuator->client != NULL)
        result = lease_daemon(actuator, uuid, band, slot_out, err);
    else
        result = lease_local(actuator, uuid, band, slot_out, err);
    if (result < 0)
        return result;
    actuator->leased |= UINT64_C(1) << *slot_out;
    return 0;
}

/* The answer to a heartbeat contains the number of leases, so a lost lease is detected even if its
 * message was lost. */
static void note_revoked(struct lull_actuator *actuator, const struct lull_message *message)
{
    if (message->type == LULL_MESSAGE_REPLY && message->body.reply.code >= 0 &&
        message->body.reply.code < __builtin_popcountll(actuator->leased))
        actuator->has_lost = true;
    if (message->type == LULL_MESSAGE_REVOKED && message->body.revoked.slot < LULL_COMMAND_SLOTS) {
        actuator->has_lost = true;
        actuator->is_forbidden |= message->body.revoked.code == -EACCES;
    }
}

int lull_actuator_poll(struct lull_actuator *actuator, struct lull_error *err)
{
    struct lull_message message = {.type = LULL_MESSAGE_RENEW};
    const int64_t now_ns = lull_now_ns();
    int result;

    if (actuator->client == NULL)
        return 0; /* no other process could have ended a lease */
    result = 0;
    if (now_ns >= actuator->next_heartbeat_ns) {
        actuator->next_heartbeat_ns = now_ns + actuator->heartbeat_ns;
        result = lull_client_send(actuator->client, &message, err);
    }
    while (result == 0) {
        result = lull_client_receive(actuator->client, 0, &message, NULL, err);
        if (result == 0)
            note_revoked(actuator, &message);
    }
    if (result != -ETIMEDOUT)
        return result;
    if (actuator->has_lost)
        return lull_error_set(err, LULL_E_STALE, "lulld has taken a lease back%s; see lull status",
                              actuator->is_forbidden ? ", by its policy or an administrator" : "");
    return 0;
}

/* --- both --- */

uint64_t lull_actuator_set(struct lull_actuator *actuator, uint32_t slot, uint32_t sm_mhz,
                           int64_t deadline_ns, int64_t valid_until_ns)
{
    const struct lull_switch_request request = {
        .sm_mhz = sm_mhz, .deadline_ns = deadline_ns, .valid_until_ns = valid_until_ns};
    uint64_t sequence = lull_command_post(actuator->table, slot, &request);

    eventfd_write(actuator->doorbell_fd,
                  1); /* it fails only when the counter is full, and then the writer is awake */
    return sequence;
}

/* A request has the limit, the profiles and the smoothing. */
static uint64_t post_limit(struct lull_actuator *actuator, uint32_t slot)
{
    const uint64_t sequence =
        lull_command_post_limit(actuator->table, slot, &actuator->limits[slot]);

    eventfd_write(actuator->doorbell_fd, 1);
    return sequence;
}

uint64_t lull_actuator_set_limit(struct lull_actuator *actuator, uint32_t slot, uint32_t limit_mw)
{
    actuator->limits[slot].limit_mw = limit_mw;
    return post_limit(actuator, slot);
}

uint32_t lull_actuator_profiles(const struct lull_actuator *actuator, uint32_t slot)
{
    return actuator->profiles[slot];
}

uint64_t lull_actuator_set_profiles(struct lull_actuator *actuator, uint32_t slot,
                                    uint32_t profiles)
{
    actuator->limits[slot].profiles = profiles;
    return post_limit(actuator, slot);
}

uint64_t lull_actuator_set_smoothing(struct lull_actuator *actuator, uint32_t slot,
                                     const struct lull_smoothing *smoothing)
{
    actuator->limits[slot].smoothing = *smoothing;
    return post_limit(actuator, slot);
}

void lull_actuator_limit_result(const struct lull_actuator *actuator, uint32_t slot,
                                struct lull_limit_result *result_out)
{
    lull_command_limit_result(actuator->table, slot, result_out);
}

void lull_actuator_result(const struct lull_actuator *actuator, uint32_t slot,
                          struct lull_switch_result *result_out)
{
    lull_command_result(actuator->table, slot, result_out);
}

/* Waits for the answer, which comes when the GPUs are restored. There is no wait if the daemon has
 * died. */
static void release_daemon(struct lull_actuator *actuator)
{
    struct lull_message message = {.type = LULL_MESSAGE_RELEASE};
    struct lull_message answer;

    message.body.release.slot = LULL_MESSAGE_ALL_SLOTS;
    if (actuator->leased != 0)
        lull_client_call(actuator->client, &message, LULL_MESSAGE_REPLY, RESTORE_MS, &answer, NULL,
                         NULL);
    lull_client_close(actuator->client);
}

int lull_actuator_close(struct lull_actuator *actuator)
{
    int result = 0;

    if (actuator == NULL)
        return 0;
    if (actuator->client != NULL)
        release_daemon(actuator);
    if (actuator->writer != NULL)
        result = lull_writer_stop(actuator->writer, RESTORE_MS * LULL_NS_PER_MS);
    /* A writer that hangs in the driver still uses the memory that it borrows, so nothing is freed.
     */
    if (result == -EINPROGRESS)
        return result;
    lull_keeper_stop(actuator->keeper, result == 0);
    lull_journal_close(actuator->journal);
    lull_command_table_close(actuator->table);
    if (actuator->doorbell_fd >= 0)
        close(actuator->doorbell_fd);
    free(actuator);
    return 0;
}
