/*
 * Addresses of a server's metrics: the user's, or one guessed from the command line that starts the
 * server.
 *
 * Pure; any thread. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_SERVING_METRICS_ADDRESS_H
#define LULL_GOVERNOR_SERVING_METRICS_ADDRESS_H

#include <stddef.h>

#include "base/error.h"

enum { LULL_METRICS_URL_BYTES = 512, LULL_METRICS_ASSUMED_BYTES = 320 };

struct lull_metrics_address {
    char url[LULL_METRICS_URL_BYTES]; /* http://HOST:PORT/PATH */
    char socket[108];                 /* of a server on a Unix socket; "": none */
};

/*
 * Reads an address: http://HOST[:PORT][/PATH], HOST:PORT, or unix:SOCKET[:/PATH] with an absolute
 * path of the socket. The path is /metrics if there is none. Errors: -EINVAL it is none;
 * LULL_E_UNSUPPORTED https.
 */
int lull_metrics_address_parse(const char *text, struct lull_metrics_address *address_out,
                               struct lull_error *err);

/*
 * Guesses the address from a command line that starts vLLM, SGLang, TensorRT-LLM, TGI, llama.cpp,
 * Dynamo's frontend or lull play --server, also behind other programs (env, numactl). assumed_out
 * becomes a sentence for the user that says what was assumed, and what the server still needs.
 * Errors: -ENOENT it starts none of them; LULL_E_UNSUPPORTED the server has no address that Lull
 * can read.
 */
int lull_metrics_address_guess(char *const *argv, char url_out[LULL_METRICS_URL_BYTES],
                               char assumed_out[LULL_METRICS_ASSUMED_BYTES],
                               struct lull_error *err);

#endif
