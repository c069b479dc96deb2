/*
 * Clients of lulld that execute given steps. Each is a separate process, because the
 * kernel reports its identity to the daemon: it can die, hang, fork and send wrong
 * data. A helper process, forked while there was only one thread, creates them. Threads: one.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TESTS_FUZZ_CLIENT_PROCESS_H
#define LULL_TESTS_FUZZ_CLIENT_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/switch.h"
#include "wire/message.h"

enum client_order {
    CLIENT_CONNECT,  /* to the socket that `packet` names */
    CLIENT_SEND,     /* `packet` */
    CLIENT_SEND_FD,  /* `packet` with a descriptor */
    CLIENT_RECEIVE,  /* messages that are there; waits a moment if there are none */
    CLIENT_POST,     /* `request` for GPU `slot`, and ring */
    CLIENT_LIMIT,    /* `limit_mw` and `profiles` for GPU `slot`, and ring */
    CLIENT_SCRIBBLE, /* random words all over the command table, and ring */
    CLIENT_RING,     /* `count` times */
    CLIENT_FORK,     /* a child that keeps all descriptors and sends `packet` */
    CLIENT_CLOSE,    /* the connection */
    CLIENT_CROWD,    /* `count` times, connect often to the socket that `packet` names */
};

enum { CLIENT_CROWD_SIZE = 80 };

/* State of the client by the daemon's messages since it was started. */
struct client_answer {
    uint32_t granted;  /* GPUs, a bit for each */
    uint32_t obeyed;   /* types of messages that were not refused, a bit for each */
    uint32_t refused;  /* types of messages that the client had no right to */
    uint32_t welcomed; /* connections of the last CLIENT_CROWD, all of them... */
    uint32_t at_once;  /* ...and the most of them at the same time */
};

struct client_task {
    enum client_order order;
    uint32_t slot;
    uint32_t count;
    uint32_t limit_mw;
    uint32_t profiles;
    uint64_t seed;
    struct lull_switch_request request;
    uint32_t size;
    uint8_t packet[LULL_MESSAGE_MAX_BYTES + 8];
};

struct client {
    pid_t pid; /* 0: there is none */
    int fd;
    bool is_stopped;
    struct client_answer answer; /* to the last task */
};

/* The number of a message tells its type, for client_answer.obeyed. */
enum { CLIENT_TYPE_SHIFT = 24 };

/* Forks the helper; before threads are started. */
void client_helper_start(void);

/* Ends the helper and all clients. */
void client_helper_stop(void);

void client_start(struct client *client);

/* Gives a task and waits until it is done. False: there is no such process, or it hangs. */
bool client_do(struct client *client, const struct client_task *task);

void client_stop(struct client *client);
void client_continue(struct client *client);

/* Kills the process alone; client_end() kills its children as well and forgets them. */
void client_kill(struct client *client);
void client_end(struct client *client);

#endif
