/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/users.h"

#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/process.h"

void lull_users_init(struct lull_users *users)
{
    pthread_mutex_init(&users->lock, NULL);
    memset(users->counts, 0, sizeof(users->counts));
    users->is_hidden_logged = false;
}

/* A process that has just ended has no user either; of one that lives that is said, once. */
static void log_hidden(struct lull_users *users, pid_t pid)
{
    const int pid_fd = users->is_hidden_logged ? -1 : lull_process_open_fd(pid);

    if (pid_fd < 0)
        return;
    close(pid_fd);
    users->is_hidden_logged = true;
    lull_log(LULL_LOG_WARNING, "lulld",
             "/proc hides whose process %ld is (it is mounted with hidepid): that other users "
             "compute on a GPU is not noticed",
             (long)pid);
}

/* Puts a user in its place among the others; returns how many they are then. */
static uint32_t user_table_insert(uid_t *uids, uint32_t count, uid_t uid)
{
    uint32_t at = 0;

    while (at < count && uids[at] < uid)
        at++;
    if (at < count && uids[at] == uid)
        return count;
    memmove(&uids[at + 1], &uids[at], (count - at) * sizeof(uids[0]));
    uids[at] = uid;
    return count + 1;
}

bool lull_users_note(struct lull_users *users, uint32_t gpu, const pid_t *pids, uint32_t count)
{
    uid_t uids[LULL_DEVICE_MAX_PROCESSES];
    uint32_t found = 0;
    bool is_new;

    for (uint32_t i = 0; i < count; i++) {
        uid_t uid;

        if (lull_process_user(pids[i], &uid) < 0)
            log_hidden(users, pids[i]);
        else if (uid != 0)
            found = user_table_insert(uids, found, uid);
    }
    pthread_mutex_lock(&users->lock);
    is_new =
        users->counts[gpu] != found || memcmp(users->uids[gpu], uids, found * sizeof(uids[0])) != 0;
    users->counts[gpu] = found;
    memcpy(users->uids[gpu], uids, found * sizeof(uids[0]));
    pthread_mutex_unlock(&users->lock);
    return is_new;
}

uint32_t lull_users_of(struct lull_users *users, uint32_t gpu,
                       uid_t uids_out[LULL_DEVICE_MAX_PROCESSES])
{
    uint32_t count;

    pthread_mutex_lock(&users->lock);
    count = users->counts[gpu];
    memcpy(uids_out, users->uids[gpu], count * sizeof(uids_out[0]));
    pthread_mutex_unlock(&users->lock);
    return count;
}
