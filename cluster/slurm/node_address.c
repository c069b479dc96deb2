/* SPDX-License-Identifier: BSD-3-Clause */
#include "cluster/slurm/node_address.h"

#include <stdint.h>
/* Slurm's headers need it first. */
#include <slurm/slurm.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* With numeric addresses in slurm.conf the child takes 0.1 ms, once it runs. */
enum { LOOK_MS = 1000 };

/* Slurm's way from a node's name to its address. It is in no header, so it is used only with the
 * version in which it was checked, and only if the program exports it. */
#if SLURM_VERSION_NUMBER >> 8 == (22 << 8) + 5
extern int slurm_conf_get_addr(const char *node, struct sockaddr_storage *address, uint16_t flags)
    __attribute__((weak));
#define GET_ADDRESS slurm_conf_get_addr
#else
static int (*const GET_ADDRESS)(const char *, struct sockaddr_storage *, uint16_t) = NULL;
#endif

/* The child's part: one write of the address, or none. */
__attribute__((noreturn)) static void node_address_write(const char *node, int out)
{
    union {
        struct sockaddr_storage any;
        struct sockaddr_in ip;
    } address = {0};
    ssize_t written = -1;

    if (GET_ADDRESS(node, &address.any, 0) == 0 && address.any.ss_family == AF_INET)
        written = write(out, &address.ip.sin_addr, sizeof(address.ip.sin_addr));
    _exit(written < 0);
}

bool lull_node_address_find(const char *node, char address_out[LULL_NODE_ADDRESS_TEXT])
{
    struct pollfd poll_fd = {.events = POLLIN};
    struct in_addr address;
    ssize_t got = -1;
    int ends[2];
    pid_t child;

    _Static_assert(LULL_NODE_ADDRESS_TEXT >= INET_ADDRSTRLEN, "an address fits");
    if (GET_ADDRESS == NULL || pipe2(ends, O_CLOEXEC) < 0)
        return false;
    child = fork();
    if (child == 0)
        node_address_write(node, ends[1]);
    close(ends[1]);
    poll_fd.fd = ends[0];
    /* A signal in the meantime loses only the address. */
    if (child > 0 && poll(&poll_fd, 1, LOOK_MS) > 0)
        got = read(ends[0], &address, sizeof(address));
    close(ends[0]);
    if (child > 0) {
        kill(child, SIGKILL);
        while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
            continue;
    }
    return got == (ssize_t)sizeof(address) &&
           inet_ntop(AF_INET, &address, address_out, LULL_NODE_ADDRESS_TEXT) != NULL;
}
