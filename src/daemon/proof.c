/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/proof.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/evidence.h"
#include "wire/message.h"

enum { MAX_DESCRIPTORS = 253 }; /* in one packet, by the kernel's own limit (SCM_MAX_FD) */

struct proof_work {
    struct lull_foreign_job job; /* the first member */
    struct lull_proof proof;
    int fd; /* a copy of the client's socket */
};

/* Notes the GPUs whose device a descriptor is. */
static void open_proof_add_fd(const struct lull_proof *proof, int fd)
{
    const int flags = fcntl(fd, F_GETFL);
    struct stat file, device;

    if (flags < 0 || fstat(fd, &file) < 0)
        return;
    for (uint32_t gpu = 0; gpu < proof->gpu_count; gpu++)
        if (proof->devices[gpu][0] != '\0' && stat(proof->devices[gpu], &device) == 0 &&
            S_ISCHR(device.st_mode) &&
            lull_evidence_is_opened(file.st_mode, file.st_rdev, flags, device.st_rdev))
            proof->result->gpus |= UINT64_C(1) << gpu;
}

/* Checks all descriptors of a packet, and closes them. Returns the process that sent it; 0:
 * unknown. */
static pid_t take_descriptors(const struct lull_proof *proof, struct msghdr *header)
{
    pid_t sender = 0;

    for (struct cmsghdr *control = CMSG_FIRSTHDR(header); control != NULL;
         control = CMSG_NXTHDR(header, control)) {
        const size_t size = control->cmsg_len - CMSG_LEN(0);
        struct ucred credentials;
        int fd;

        if (control->cmsg_type == SCM_CREDENTIALS && size == sizeof(credentials)) {
            memcpy(&credentials, CMSG_DATA(control), sizeof(credentials));
            sender = credentials.pid;
        }
        if (control->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t at = 0; at + sizeof(fd) <= size; at += sizeof(fd)) {
            memcpy(&fd, CMSG_DATA(control) + at, sizeof(fd));
            open_proof_add_fd(proof, fd);
            close(fd);
        }
    }
    return sender;
}

static void open_proof_take_packet(struct proof_work *work)
{
    struct lull_proof_result *const result = work->proof.result;
    uint8_t packet[LULL_MESSAGE_MAX_BYTES];
    _Alignas(struct cmsghdr) char
        control[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(MAX_DESCRIPTORS * sizeof(int))];
    struct iovec part = {.iov_base = packet, .iov_len = sizeof(packet)};
    struct msghdr header = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = control,
                            .msg_controllen = sizeof(control)};
    struct lull_message message;
    const ssize_t size = recvmsg(work->fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

    *result = (struct lull_proof_result){.code = -EPROTO};
    if (size < 0)
        return;
    if (take_descriptors(&work->proof, &header) != work->proof.sender ||
        lull_message_decode(packet, (size_t)size, &message) < 0 ||
        message.type != LULL_MESSAGE_PROVE) {
        result->gpus = 0;
        return;
    }
    result->sequence = message.sequence;
    result->code = result->gpus != 0 ? 0 : -EACCES;
}

static void open_proof_run(struct lull_foreign_job *job)
{
    struct proof_work *const work = (struct proof_work *)job;
    void (*const done)(void *) = work->proof.done;
    void *const context = work->proof.context;

    open_proof_take_packet(work);
    close(work->fd);
    free(work);
    done(context);
}

int lull_proof_start(struct lull_foreign *foreign, int fd, const struct lull_proof *proof)
{
    struct proof_work *const work = malloc(sizeof(*work));
    int result;

    if (work == NULL)
        return -ENOMEM;
    *work = (struct proof_work){.job = {.uid = proof->uid, .work = open_proof_run},
                                .proof = *proof,
                                .fd = fcntl(fd, F_DUPFD_CLOEXEC, 0)};
    if (work->fd < 0) {
        result = -errno;
        free(work);
        return result;
    }
    lull_foreign_add(foreign, &work->job);
    return 0;
}
