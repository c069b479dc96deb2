/*
 * `lull play --server`: an emulated inference server for HTTP clients, or under the requests of a
 * trace. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_PLAY_SERVER_SERVER_H
#define LULL_CLI_PLAY_SERVER_SERVER_H

#include "base/option.h"
#include "core/serving/objective.h"
#include "emulator/server/llm.h"

struct lull_play_server {
    const struct lull_llm *llm; /* NULL: --server was not given */
    uint32_t prefill_gpus;      /* of a pool of its own; 0: there is none */
    uint32_t gpus;              /* of the decode pool then, else of all */
    double handover_gbs;        /* 0: as measured */
    uint32_t max_sequences;
    uint32_t max_batched_tokens;
    uint32_t port;
    double duration_s; /* 0: until a signal, or as long as the trace */
    const char *arrivals;
    double rate_per_s; /* 0: see below, or the trace's own, or no requests but those of clients */
    double load_ratio; /* 0: the rate is given */
    double prompt_tokens;
    double output_tokens;
    uint64_t seed;
    struct lull_objective objective;
    bool has_objective;
};

extern const struct lull_option lull_play_server_rows[];

/* Checks options against each other. Errors: -EINVAL. */
int lull_play_server_check(const struct lull_play_server *options, struct lull_error *err);

/* Serves until a signal comes, the duration is over or the trace has ended, and prints the outcome.
 * Errors: as lull_model_server_start() and lull_front_open(); those of the trace's file. */
int lull_play_server_run(const struct lull_play_server *options, bool is_json,
                         struct lull_error *err);

#endif
