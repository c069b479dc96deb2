/*
 * The HTTP server in front of an emulated inference server: OpenAI's API and vLLM's metrics, on
 * loopback addresses only. One thread of the HTTP library (libmicrohttpd) answers everything.
 *
 *     POST /v1/completions, /v1/chat/completions    streamed as server-sent events, or whole
 *     GET  /v1/models, /health, /version, /metrics
 *
 * Pools of prefill and decode each have GET /metrics on a port of their own, as vLLM's engines
 * behind a proxy.
 *
 * A client that leaves cancels its request. Bounded are connections, bytes of a request, its time,
 * and the time of its answer after the last token.
 *
 * Threads: one starts and stops it. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_PLAY_SERVER_FRONT_H
#define LULL_CLI_PLAY_SERVER_FRONT_H

#include "emulator/server/model_server.h"

enum {
    LULL_FRONT_CONNECTIONS = 1024,
    LULL_FRONT_POOLS = 2,
    LULL_FRONT_POOL_CONNECTIONS = 32,
    LULL_FRONT_REQUEST_S = 15,
    LULL_FRONT_ANSWER_S = 60,
    LULL_FRONT_SILENCE_S = 60,
    LULL_FRONT_BODY_BYTES = 4 << 20,
};

struct lull_front; /* opaque */

/* Creates it for a model; it answers nothing yet. NULL: out of memory. */
struct lull_front *lull_front_create(const char *model);

/* Passes on tokens: what `deliver` of struct lull_model_server_options calls. */
void lull_front_deliver(struct lull_front *front, const struct lull_engine_token *tokens,
                        uint32_t count);

/* Listens on a port of 127.0.0.1, 0: any that is free, and sends requests to the server, which must
 * live until lull_front_close(). Errors: -EADDRINUSE; -EACCES; -ENOMEM; -EIO. */
int lull_front_open(struct lull_front *front, struct lull_model_server *server, uint16_t port,
                    struct lull_error *err);

/* Listens on a further port with the metrics of a server's pool, after lull_front_open(). The first
 * port then has none. At most LULL_FRONT_POOLS. Errors: as lull_front_open(). */
int lull_front_open_pool(struct lull_front *front, struct lull_model_server *server, uint16_t port,
                         struct lull_error *err);

/* Returns the port that was opened first (0), or that of a pool (1, 2). */
uint16_t lull_front_port(const struct lull_front *front, uint32_t door);

/* Cancels requests of clients that have left while nothing was sent to them. To be called a few
 * times per second. */
void lull_front_check_clients(struct lull_front *front);

/* Ends all answers and stops listening; NULL is allowed. */
void lull_front_close(struct lull_front *front);

/* Frees it after lull_front_close(), once no tokens are delivered. NULL is allowed. */
void lull_front_destroy(struct lull_front *front);

#endif
