/*
 * Streams of server-sent events to viewers. A viewer who reads slowly misses frames; nothing is
 * kept for it but the frame that it is reading.
 *
 * Threads: what the HTTP library calls and lull_serve_streams_notify() may run at once.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_SERVE_STREAM_H
#define LULL_CLI_SERVE_STREAM_H

#include <microhttpd.h>

#include "cli/serve/watch.h"

enum { LULL_SERVE_MAX_VIEWERS = 32 };

struct lull_serve_streams;

/* Begins without viewers; NULL: out of memory. */
struct lull_serve_streams *lull_serve_streams_create(void);

/* Sets the watch whose frames are sent. Call it before the first viewer. */
void lull_serve_streams_set_watch(struct lull_serve_streams *streams,
                                  struct lull_serve_watch *watch);

/* Frees it; there are no viewers. NULL is allowed. */
void lull_serve_streams_destroy(struct lull_serve_streams *streams);

/* Returns the response that carries a stream of at most rate_hz frames per second to this
 * connection; NULL: there are LULL_SERVE_MAX_VIEWERS of them, or no memory. */
struct MHD_Response *lull_serve_streams_open(struct lull_serve_streams *streams,
                                             struct MHD_Connection *connection,
                                             enum lull_serve_view view, double rate_hz);

/* Notifies viewers of new frames. It is the function for lull_serve_watch_options.reported. */
void lull_serve_streams_notify(void *streams);

/* Ends all streams, so that the HTTP library can be stopped. */
void lull_serve_streams_end(struct lull_serve_streams *streams);

#endif
