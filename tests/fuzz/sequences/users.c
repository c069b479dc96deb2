/* SPDX-License-Identifier: Apache-2.0 */
#include "users.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "../fuzz.h"
#include "daemon/connection.h"
#include "daemon/enforcer.h"
#include "device/writer.h"

enum { MAX_PROCESSES = 256, NO_GROUP = 0, MAX_W = 100000 };

/* GPU 2 has limits of its own, which hold for root as well, and all GPUs have a floor. */
enum { FLOOR_MHZ = 230, LIMITED_GPU = 2, LIMITED_MHZ = 1205, LIMITED_W = 320 };

const char users_policy[] = "[lulld]\n"
                            "administrators = 4005\n"
                            "[gpu all]\n"
                            "min-sm-mhz = 230\n"
                            "[gpu GPU-scripted-2]\n"
                            "max-sm-mhz = 1205\n"
                            "max-power-w = 320\n"
                            "[user 3001]\n"
                            "gpus = GPU-scripted-0, GPU-scripted-1\n"
                            "min-sm-mhz = 305\n"
                            "max-sm-mhz = 907\n"
                            "[user 3002]\n"
                            "gpus = all\n"
                            "min-sm-mhz = 607\n"
                            "power-profiles = yes\n"
                            "[group 4003]\n"
                            "gpus = all\n"
                            "min-power-w = 180\n"
                            "max-power-w = 260\n"
                            "[group 4004]\n"
                            "gpus = all\n"
                            "[group 4007]\n"
                            "gpus = GPU-of-another-node\n";

/* The floor's user is also in the group without limits, whose section comes later. */
static const struct user {
    uid_t uid;
    gid_t group;
    gid_t other_group; /* NO_GROUP: there is none */
    uint32_t gpus;     /* a bit for each that the user may control */
    bool may_administer;
    uint32_t min_mhz, max_mhz, min_w, max_w;
    bool may_request_profiles;
} users[USERS] = {
    [USER_STRANGER] = {3000, 3000, NO_GROUP, 0, false, 0, DRIVER_HIGHEST_MHZ, 0, MAX_W},
    [USER_SOME] = {3001, 3001, NO_GROUP, 3, false, 305, 907, 0, MAX_W},
    [USER_FLOOR] = {3002, 3002, 4004, 7, false, 607, DRIVER_HIGHEST_MHZ, 0, MAX_W, true},
    [USER_POWER] = {3003, 3003, 4003, 7, false, 0, DRIVER_HIGHEST_MHZ, 180, 260},
    [USER_PLAIN] = {3004, 4004, NO_GROUP, 7, false, 0, DRIVER_HIGHEST_MHZ, 0, MAX_W},
    [USER_OPERATOR] = {3005, 3005, 4005, 0, true, 0, DRIVER_HIGHEST_MHZ, 0, MAX_W},
    [USER_ROOT] = {0, 0, NO_GROUP, 7, true, 0, DRIVER_HIGHEST_MHZ, 0, MAX_W, true},
    [USER_DENIED] = {3007, 4007, NO_GROUP, 0, false, 0, DRIVER_HIGHEST_MHZ, 0, MAX_W},
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the two below */
static struct lull_band wanted_of[DRIVER_GPUS];
static struct {
    pid_t pid;
    enum users_user user;
} processes[MAX_PROCESSES]; /* the last ones; connections of those before them are closed */
static uint32_t process_count;
static driver_violation *report;

int __real_getsockopt(int fd, int level, int option, void *value, socklen_t *size);
int __wrap_getsockopt(int fd, int level, int option, void *value, socklen_t *size);
int __real_lull_enforcer_grant(struct lull_enforcer *enforcer, uint32_t gpu, uint64_t client,
                               const struct lull_band *band, struct lull_writer_source *source,
                               uint64_t *id_out, struct lull_error *err);
int __wrap_lull_enforcer_grant(struct lull_enforcer *enforcer, uint32_t gpu, uint64_t client,
                               const struct lull_band *band, struct lull_writer_source *source,
                               uint64_t *id_out, struct lull_error *err);
void __real_lull_writer_cap(struct lull_writer *writer, uint32_t gpu, const struct lull_cap *cap);
void __wrap_lull_writer_cap(struct lull_writer *writer, uint32_t gpu, const struct lull_cap *cap);

void users_init(driver_violation *violation)
{
    report = violation;
}

void users_note_process(pid_t pid, enum users_user user)
{
    pthread_mutex_lock(&lock);
    processes[process_count % MAX_PROCESSES].pid = pid;
    processes[process_count % MAX_PROCESSES].user = user;
    process_count++;
    pthread_mutex_unlock(&lock);
}

void users_set_wanted(uint32_t gpu, const struct lull_band *wanted)
{
    pthread_mutex_lock(&lock);
    wanted_of[gpu] = *wanted;
    pthread_mutex_unlock(&lock);
}

uid_t users_uid(enum users_user user)
{
    return users[user].uid;
}

bool users_may_administer(enum users_user user)
{
    return users[user].may_administer;
}

bool users_may_control(enum users_user user, uint32_t gpu)
{
    return (users[user].gpus >> gpu & 1) != 0;
}

/* ---- who a client is --------------------------------------------------------------------------
 */

/* Finds the user of the process that has connected a socket. -1: it is no client. */
static int user_of(int fd)
{
    struct ucred credentials;
    socklen_t size = sizeof(credentials);
    int found = -1;

    if (__real_getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) < 0)
        return -1;
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < MAX_PROCESSES && i < process_count && found < 0; i++)
        if (processes[(process_count - 1 - i) % MAX_PROCESSES].pid == credentials.pid)
            found = (int)processes[(process_count - 1 - i) % MAX_PROCESSES].user;
    pthread_mutex_unlock(&lock);
    return found;
}

static int answer_groups(const struct user *user, void *value, socklen_t *size)
{
    const socklen_t needed = user->other_group != NO_GROUP ? sizeof(gid_t) : 0;

    if (*size < needed) {
        errno = ERANGE;
        return -1;
    }
    memcpy(value, &user->other_group, needed);
    *size = needed;
    return 0;
}

int __wrap_getsockopt(int fd, int level, int option, void *value, socklen_t *size)
{
    const bool is_asked = level == SOL_SOCKET && (option == SO_PEERCRED || option == SO_PEERGROUPS);
    const int user = is_asked ? user_of(fd) : -1;
    struct ucred *const credentials = value;
    int result;

    if (user >= 0 && option == SO_PEERGROUPS)
        return answer_groups(&users[user], value, size);
    result = __real_getsockopt(fd, level, option, value, size);
    if (user >= 0 && result == 0) {
        credentials->uid = users[user].uid;
        credentials->gid = users[user].group;
    }
    return result;
}

/* ---- what a user may have ---------------------------------------------------------------------
 */

static uint32_t lower(uint32_t one, uint32_t other)
{
    return one < other ? one : other;
}

static uint32_t higher(uint32_t one, uint32_t other)
{
    return one > other ? one : other;
}

/* The highest floor and the lowest cap apply, and a cap takes precedence over a floor. */
static struct lull_band allowed_to(const struct user *user, uint32_t gpu,
                                   const struct lull_band *wanted)
{
    const bool is_limited = gpu == LIMITED_GPU;
    const uint32_t cap_mhz = lower(user->max_mhz, is_limited ? LIMITED_MHZ : DRIVER_HIGHEST_MHZ);
    const uint32_t cap_w = lower(user->max_w, is_limited ? LIMITED_W : MAX_W);

    return (struct lull_band){
        .min_mhz = higher(wanted->min_mhz, lower(higher(user->min_mhz, FLOOR_MHZ), cap_mhz)),
        .max_mhz = lower(wanted->max_mhz, cap_mhz),
        .min_limit_mw = higher(wanted->min_limit_mw, lower(user->min_w, cap_w) * 1000),
        .max_limit_mw = lower(wanted->max_limit_mw, cap_w * 1000),
        .profiles = user->may_request_profiles ? DRIVER_PROFILES : 0,
    };
}

/* A user's client gets a lease: what it may have of the GPU goes to the driver, which holds every
 * call against it. */
int __wrap_lull_enforcer_grant(struct lull_enforcer *enforcer, uint32_t gpu, uint64_t client,
                               const struct lull_band *band, struct lull_writer_source *source,
                               uint64_t *id_out, struct lull_error *err)
{
    const struct lull_connection *const connection =
        (const struct lull_connection *)(const void *)((const char *)source -
                                                       offsetof(struct lull_connection, source));
    const int user = user_of(connection->fd);
    struct lull_band allowed;

    if (user < 0 || !users_may_control((enum users_user)user, gpu))
        report("P: a lease for a user without a right to the GPU", gpu, (uint64_t)user);
    pthread_mutex_lock(&lock);
    allowed = allowed_to(&users[user], gpu, &wanted_of[gpu]);
    pthread_mutex_unlock(&lock);
    if (band->min_mhz < allowed.min_mhz || band->max_mhz > allowed.max_mhz)
        report("P: a lease whose clocks the policy does not permit", gpu, (uint64_t)user);
    if (band->max_limit_mw != 0 &&
        (band->min_limit_mw < allowed.min_limit_mw || band->max_limit_mw > allowed.max_limit_mw))
        report("P: a lease whose power limits the policy does not permit", gpu, (uint64_t)user);
    if ((band->profiles & ~allowed.profiles) != 0)
        report("P: a lease whose power profiles the policy does not permit", gpu, (uint64_t)user);
    if (band->max_limit_mw == 0)
        allowed.min_limit_mw = allowed.max_limit_mw = 0;
    driver_lease(gpu, &allowed);
    return __real_lull_enforcer_grant(enforcer, gpu, client, band, source, id_out, err);
}

/* The values of a cap name the user who has requested it. */
void __wrap_lull_writer_cap(struct lull_writer *writer, uint32_t gpu, const struct lull_cap *cap)
{
    const uint32_t user = (cap->max_mhz != 0 ? cap->max_mhz : cap->max_limit_mw) % USERS;

    if ((cap->max_mhz != 0 || cap->max_limit_mw != 0) && !users[user].may_administer)
        report("P: a user who may not has capped a GPU", gpu, user);
    driver_cap(gpu, cap);
    __real_lull_writer_cap(writer, gpu, cap);
}
