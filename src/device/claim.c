/* SPDX-License-Identifier: Apache-2.0 */
#include "device/claim.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"

/* No process accepts connections from this socket. A process that fills its queue hides the owner
 * from the next process, so the queue is long. The kernel limits it to net.core.somaxconn. */
enum { BACKLOG = 4096 };

/* The directory of the lock files is the same for every --runtime-dir. */
static const char *const lock_directory = "/run/lull";

struct lull_claim {
    int fd_count;
    int fds[2 * LULL_DEVICE_MAX_GPUS];
};

/* Writes what names a GPU on this host; false: it has no PCI address. */
static bool claim_key_of(const struct lull_device_info *info, char *key_out, size_t size)
{
    const char *address = info->pci_bus_id;
    /* Emulated nodes have the same PCI addresses as each other, and each is a node of its own. */
    const char *const node = getenv(LULL_EMULATED_NODE_VARIABLE);
    int length;

    if (address[0] == '\0')
        return false;
    /* NVML writes the domain with eight digits, the others with four. */
    if (strlen(address) > 8 && strncmp(address, "0000", 4) == 0 && address[8] == ':')
        address += 4;
    length = snprintf(key_out, size, "lull-gpu-%s", address);
    for (char *c = key_out; *c != '\0'; c++)
        *c = (char)tolower((unsigned char)*c);
    if (node != NULL && length > 0 && (size_t)length < size)
        snprintf(key_out + length, size - (size_t)length, "%s", node);
    return true;
}

static bool may_own(uid_t uid)
{
    return uid == 0 || uid == geteuid();
}

/* Returns whether the owner of a name is a process that may drive GPUs; its number goes to
 * *pid_out.
 */
static bool is_claimed(const struct sockaddr_un *address, socklen_t length, pid_t *pid_out)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct ucred peer;
    socklen_t size = sizeof(peer);
    bool result = false;

    if (fd < 0)
        return true; /* the owner cannot be identified */
    if (connect(fd, (const struct sockaddr *)address, length) == 0 &&
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0) {
        *pid_out = peer.pid;
        result = may_own(peer.uid);
    }
    close(fd);
    return result;
}

static int fail_busy(struct lull_error *err, const char *key, pid_t pid)
{
    return lull_error_set(
        err, -EBUSY,
        "%s: process %d, another lulld or `lull run --no-daemon`, drives this GPU "
        "already, perhaps with another --runtime-dir; use it, or stop it first",
        key, (int)pid);
}

/* Binds the name of a GPU. Returns the socket; -EBUSY; -ENOENT: another program has taken the name,
 * so it says nothing. */
static int claim_take_name(const char *key, struct lull_error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const size_t size = strnlen(key, sizeof(address.sun_path) - 1);
    const socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + size);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    pid_t pid = 0;
    int result = 0;

    if (fd < 0)
        return lull_error_set(err, -errno, "%s: no socket: %s", key, strerror(errno));
    memcpy(address.sun_path + 1, key, size);
    if (bind(fd, (const struct sockaddr *)&address, length) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    if (errno != EADDRINUSE)
        result = lull_error_set(err, -errno, "%s: cannot claim: %s", key, strerror(errno));
    else if (is_claimed(&address, length, &pid))
        result = fail_busy(err, key, pid);
    else
        result = -ENOENT;
    close(fd);
    if (result == -ENOENT)
        lull_log(LULL_LOG_WARNING, "claim",
                 "%s: process %d, which may not drive GPUs, has taken this name, so only the lock "
                 "in %s keeps a second writer away",
                 key, (int)pid, lock_directory);
    return result;
}

static bool claim_is_private(int fd)
{
    struct stat status;

    return fstat(fd, &status) == 0 && may_own(status.st_uid) &&
           (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/* Locks the file of a GPU. Returns the descriptor; -EBUSY; -ENOENT: no such file can be made here,
 * so it says nothing. */
static int take_file(const char *directory, const char *key, struct lull_error *err)
{
    int directory_fd;
    int fd = -1;

    if (mkdir(directory, 0755) < 0 && errno != EEXIST)
        return -ENOENT;
    directory_fd = open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (directory_fd >= 0 && claim_is_private(directory_fd))
        fd =
            openat(directory_fd, key, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (directory_fd >= 0)
        close(directory_fd);
    if (fd < 0)
        return -ENOENT;
    if (flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK) {
        close(fd);
        return lull_error_set(err, -EBUSY,
                              "%s/%s: another lulld or `lull run --no-daemon` drives this GPU "
                              "already, perhaps with another --runtime-dir; use it, or stop it "
                              "first",
                              directory, key);
    }
    return fd;
}

/* Adds what a lock has returned. */
static int claim_add_fd(struct lull_claim *claim, int fd)
{
    if (fd == -ENOENT)
        return 0;
    if (fd < 0)
        return fd;
    claim->fds[claim->fd_count++] = fd;
    return 0;
}

static int take_one(struct lull_claim *claim, const struct lull_device_info *info,
                    struct lull_error *err)
{
    char key[NAME_MAX];
    int result;

    if (!claim_key_of(info, key, sizeof(key)))
        return 0;
    result = claim_add_fd(claim, claim_take_name(key, err));
    /* The file of an emulated GPU would outlive its node. */
    if (result == 0 && !lull_file_is_node_emulated())
        result = claim_add_fd(claim, take_file(lock_directory, key, err));
    return result;
}

int lull_claim_take(const struct lull_devices *devices, struct lull_claim **claim_out,
                    struct lull_error *err)
{
    struct lull_claim *claim = calloc(1, sizeof(*claim));
    int result = 0;

    if (claim == NULL)
        return lull_error_set(err, -ENOMEM, "not enough memory to claim the GPUs");
    for (uint32_t gpu = 0; result == 0 && gpu < lull_devices_count(devices); gpu++)
        result = take_one(claim, lull_device_info(devices, gpu), err);
    if (result < 0) {
        lull_claim_release(claim);
        return result;
    }
    *claim_out = claim;
    return 0;
}

void lull_claim_release(struct lull_claim *claim)
{
    if (claim == NULL)
        return;
    for (int i = 0; i < claim->fd_count; i++)
        close(claim->fds[i]);
    free(claim);
}
