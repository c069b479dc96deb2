/*
 * What the clients of an emulated inference server got: times of tokens, energy and misses of an
 * objective. Threads: lull_model_server_outcome_take() may run beside nothing else.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_PLAY_SERVER_OUTCOME_H
#define LULL_CLI_PLAY_SERVER_OUTCOME_H

#include <jansson.h>

#include "core/serving/objective.h"
#include "emulator/server/model_server.h"

/* A pool of a server that has two. */
struct lull_model_server_pool {
    const char *name;
    struct lull_model_server_reading reading;
    double energy_j;
};

/* Begin with {0}; free with lull_model_server_outcome_fini. */
struct lull_model_server_outcome {
    struct lull_objective objective;
    bool has_objective;
    uint64_t judged; /* requests that have all their tokens, where there is an objective */
    uint64_t missed;
    double energy_j;     /* of the server's GPUs */
    uint32_t pool_count; /* 0: there are none */
    struct lull_model_server_pool pools[2];
    struct lull_model_server_times {
        double *items;
        size_t count;
        size_t room;
    } ttft_s, tpot_s; /* of all requests; when memory runs out, later ones are left out */
};

void lull_model_server_outcome_fini(struct lull_model_server_outcome *outcome);

void lull_model_server_outcome_take(struct lull_model_server_outcome *outcome,
                                    const struct lull_engine_token *tokens, uint32_t count);

/* Sorts the times, then makes the document or prints it for people. NULL: out of memory. */
json_t *lull_model_server_outcome_json(struct lull_model_server_outcome *outcome,
                                       const struct lull_model_server_reading *reading);
void lull_model_server_outcome_print(struct lull_model_server_outcome *outcome,
                                     const struct lull_model_server_reading *reading);

#endif
