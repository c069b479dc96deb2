/*
 * Private to server.c and answer.c: the answer to a path. Threads: the HTTP library's.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_SERVE_ANSWER_H
#define LULL_CLI_SERVE_ANSWER_H

#include <microhttpd.h>
#include <stdbool.h>

#include "cli/serve/stream.h"
#include "cli/serve/watch.h"

/* Sources of the answers. */
struct lull_serve_sources {
    struct lull_serve_watch *watch;
    struct lull_serve_streams *streams;
    const json_t *metrics; /* the table */
    const char *runs;      /* the folder */
    double rate_hz;
};

/* A request, and its result. */
struct lull_serve_exchange {
    const struct lull_serve_sources *sources;
    struct MHD_Connection *connection;
    const char *rest;              /* of the path, behind the route's own */
    unsigned int status;           /* of HTTP */
    struct MHD_Response *response; /* NULL: out of memory */
    bool is_stream;                /* the response has no end */
};

/* A path that is answered; it ends with a slash where a name follows. */
struct lull_serve_route {
    const char *path;
    void (*answer)(struct lull_serve_exchange *exchange);
};

extern const struct lull_serve_route lull_serve_routes[]; /* ends with a path that is NULL */
enum { LULL_SERVE_ROUTES = 8 };

/* Makes the answer of an error: its status, and a JSON document with the reason. */
void lull_serve_answer_error(struct lull_serve_exchange *exchange, unsigned int status,
                             const char *text);

#endif
