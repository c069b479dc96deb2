/*
 * The HTTP server of `lull serve`: routes, authorization, and rate limits. One thread of the HTTP
 * library (libmicrohttpd) answers everything; nothing that it does waits for a GPU.
 *
 * Bounded are: connections, in all and of one address (cli/http_guard.h), streams, bytes of a
 * request's head, requests per second, the time of a request and of its answer, and how long a
 * connection may send nothing, or read nothing.
 *
 * Threads: one starts and stops it. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_SERVE_SERVER_H
#define LULL_CLI_SERVE_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* Default: several times what one page and one Prometheus need. */
enum {
    LULL_SERVE_MAX_CONNECTIONS = 64,
    LULL_SERVE_MAX_OF_ADDRESS = 48, /* a page's streams and requests, behind one proxy */
    LULL_SERVE_REQUEST_S = 15,
    LULL_SERVE_ANSWER_S = 60,
    LULL_SERVE_MAX_HEAD = 32 * 1024, /* of a request, with what is sent to it at a time */
    LULL_SERVE_SILENCE_S = 15,
    LULL_SERVE_REQUESTS_PER_S = 50, /* of each path, and as many at once after a pause */
};

struct lull_serve_options {
    const char *address; /* an IPv4 or IPv6 address in numbers */
    uint16_t port;       /* 0: any that is free */
    const char *token;   /* NULL: none is requested; the address must be a loopback one then */
    const char *runs;    /* the folder of runs */
    const char *runtime_dir;
    bool is_for_all; /* runs of all users are shown */
    double rate_hz;  /* of streams, 0 < rate_hz <= 5 */
};

struct lull_serve_server;

/* Starts it; strings are borrowed. Errors: -EINVAL no such address; -EPERM another than a loopback
 * address without token; -EADDRINUSE; -EACCES; -ENOMEM; -EIO. */
int lull_serve_start(const struct lull_serve_options *options,
                     struct lull_serve_server **server_out, struct lull_error *err);

/* Returns the port that it listens on. */
uint16_t lull_serve_port(const struct lull_serve_server *server);

/* Ends streams and connections, and frees; NULL is allowed. */
void lull_serve_stop(struct lull_serve_server *server);

#endif
