/*
 * Clients of lulld that send heartbeats in an open loop: each is sent when it is due, whatever
 * became of the others, and its time counts from when it was due. As root, because other users may
 * not have so many connections.
 *
 * Usage: daemon_load RUNTIME_DIR SECONDS CLIENTS REQUESTS_PER_SECOND. SPDX-License-Identifier:
 * Apache-2.0
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "wire/message.h"

struct load {
    int64_t begin_ns;
    int64_t interval_ns; /* from one request to the next, of all clients together */
    uint32_t clients;
    uint32_t requests;
    uint32_t sent;
    uint32_t answered;
    int *fds;
    uint32_t *delays_us; /* of each request; 0: not answered */
    int epoll_fd;
};

static void stop(const char *what)
{
    perror(what);
    exit(1);
}

static void send_message(int fd, const struct lull_message *message)
{
    uint8_t packet[LULL_MESSAGE_MAX_BYTES];
    const int size = lull_message_encode(message, packet, sizeof(packet));

    if (send(fd, packet, (size_t)size, MSG_NOSIGNAL) < 0)
        stop("send");
}

static int open_client(const char *runtime_dir)
{
    const struct lull_message hello = {.type = LULL_MESSAGE_HELLO};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    uint8_t packet[LULL_MESSAGE_MAX_BYTES];
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    snprintf(address.sun_path, sizeof(address.sun_path), "%s/lulld.sock", runtime_dir);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
        stop("connect");
    send_message(fd, &hello);
    if (recv(fd, packet, sizeof(packet), 0) <= 0)
        stop("greeting");
    return fd;
}

static void open_clients(struct load *load, const char *runtime_dir)
{
    const struct rlimit limit = {load->clients + 64, load->clients + 64};

    setrlimit(RLIMIT_NOFILE, &limit);
    load->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    for (uint32_t i = 0; i < load->clients; i++) {
        struct epoll_event event = {.events = EPOLLIN};

        load->fds[i] = open_client(runtime_dir);
        event.data.fd = load->fds[i];
        epoll_ctl(load->epoll_fd, EPOLL_CTL_ADD, load->fds[i], &event);
    }
}

static void send_due(struct load *load, int64_t now_ns)
{
    while (load->sent < load->requests &&
           load->begin_ns + load->sent * load->interval_ns <= now_ns) {
        const struct lull_message renew = {.type = LULL_MESSAGE_RENEW, .sequence = load->sent};

        send_message(load->fds[load->sent % load->clients], &renew);
        load->sent++;
    }
}

static void receive(struct load *load, int fd)
{
    uint8_t packet[LULL_MESSAGE_MAX_BYTES];
    struct lull_message answer;
    const ssize_t size = recv(fd, packet, sizeof(packet), MSG_DONTWAIT);

    if (size <= 0 || lull_message_decode(packet, (size_t)size, &answer) < 0 ||
        answer.sequence >= load->requests)
        stop("answer");
    load->delays_us[answer.sequence] =
        1 + (uint32_t)((lull_now_ns() - load->begin_ns - answer.sequence * load->interval_ns) /
                       LULL_NS_PER_US);
    load->answered++;
}

static void run(struct load *load)
{
    const int64_t until_ns = load->begin_ns + load->requests * load->interval_ns + LULL_NS_PER_S;

    while (load->answered < load->requests && lull_now_ns() < until_ns) {
        struct epoll_event events[256];
        const int64_t due_ns = load->begin_ns + load->sent * load->interval_ns;
        const struct timespec patience =
            lull_timespec_from_ns(lull_later_ns(due_ns - lull_now_ns(), 0));
        const int count = epoll_pwait2(load->epoll_fd, events, 256, &patience, NULL);

        for (int i = 0; i < count; i++)
            receive(load, events[i].data.fd);
        send_due(load, lull_now_ns());
    }
}

static int compare(const void *left, const void *right)
{
    const uint32_t a = *(const uint32_t *)left;
    const uint32_t b = *(const uint32_t *)right;

    return (a > b) - (a < b);
}

int main(int argc, char **argv)
{
    struct load load = {0};
    uint32_t rate;

    if (argc != 5)
        return 2;
    load.clients = (uint32_t)strtoul(argv[3], NULL, 10);
    rate = (uint32_t)strtoul(argv[4], NULL, 10);
    load.requests = rate * (uint32_t)strtoul(argv[2], NULL, 10);
    load.interval_ns = LULL_NS_PER_S / rate;
    load.fds = calloc(load.clients, sizeof(load.fds[0]));
    load.delays_us = calloc(load.requests, sizeof(load.delays_us[0]));
    if (load.fds == NULL || load.delays_us == NULL)
        stop("memory");
    open_clients(&load, argv[1]);
    load.begin_ns = lull_now_ns();
    run(&load);
    qsort(load.delays_us, load.requests, sizeof(load.delays_us[0]), compare);
    printf("%u heartbeats of %u clients, %u per second: %u lost, p50 %.2f ms, p99 %.2f ms, most "
           "%.2f ms\n",
           load.requests, load.clients, rate, load.requests - load.answered,
           load.delays_us[load.requests / 2] * 1e-3,
           load.delays_us[(uint64_t)load.requests * 99 / 100] * 1e-3,
           load.delays_us[load.requests - 1] * 1e-3);
    return load.answered == load.requests ? 0 : 1;
}
