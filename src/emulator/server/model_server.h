/*
 * An inference server on the GPUs of the emulated node in real time: one process with a context on
 * each GPU of the tensor-parallel group, and a thread that forms the steps and puts their kernels
 * on the GPUs' queues.
 *
 * A step begins host_s after the one before has ended on the slowest GPU. All times are the node's
 * virtual time. The thread forms a step and enqueues it 3 ms before the one before ends, with a
 * trace 20 ms, so that a host which is late by less does not change any time. Requests of a trace
 * join the batch as if it were formed at that end; other requests must be there when it is formed.
 * What readers see, and tokens, come when the step has ended.
 *
 * Two servers may be pools of prefill and decode. A request that the first one has computed arrives
 * at the second one as soon as its keys and values can be there.
 *
 * Collectives are part of a step's kernel: they take their time and power, but no probe sees them.
 *
 * Threads: any, except that one starts and stops it. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_EMULATOR_SERVER_MODEL_SERVER_H
#define LULL_EMULATOR_SERVER_MODEL_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "emulator/server/arrivals.h"
#include "emulator/server/engine.h"

/* The requests of the trace have numbers from here on, in the order of their arrival. */
#define LULL_MODEL_SERVER_TRACE (UINT64_C(1) << 63)

enum { LULL_MODEL_SERVER_GPUS = 8 };

struct lull_model_server_options {
    const struct lull_llm *llm;
    uint32_t first_gpu; /* the tensor-parallel group: this one and... */
    uint32_t gpus;      /* ...the next ones, so many in all */
    enum lull_engine_role role;
    struct lull_model_server *next; /* of a prefill pool: the decode pool, which must live longer */
    double handover_gbs;            /* rate at which keys and values go to it */
    uint32_t max_sequences;
    uint32_t max_batched_tokens;
    const struct lull_server_arrival *arrivals; /* of a trace, by time since the start; borrowed */
    size_t arrival_count;
    /* Not of a prefill pool. Called by the server's thread with the tokens of a step that has
     * ended. It may submit and cancel. NULL: they are not read. */
    void (*deliver)(void *context, const struct lull_engine_token *tokens, uint32_t count);
    void *context;
};

enum { LULL_MODEL_SERVER_TOKEN_BUCKETS = 14 };

/* Bounds of `step_tokens`; the last one is INFINITY. */
extern const double lull_model_server_token_bounds[LULL_MODEL_SERVER_TOKEN_BUCKETS];

struct lull_model_server_reading {
    struct lull_engine_statistics engine;
    struct {
        uint64_t total[LULL_MODEL_SERVER_TOKEN_BUCKETS]; /* steps with at most that many tokens */
        double sum;
    } step_tokens;
    uint64_t cancelled;
    uint64_t refused;    /* requests of the trace that the cache can never hold */
    int64_t time_ns;     /* since the start, virtual */
    uint64_t late_steps; /* steps that began late because the host was late */
    double late_s;       /* by how much in all */
    bool is_done;        /* all requests of the trace have ended */
};

struct lull_model_server; /* opaque */

/* Reads the model of one of the node's GPUs. Errors: LULL_E_NO_DEVICE: there is no emulated node;
 * those of lull_node_open(). */
int lull_model_server_find_gpu(uint32_t gpu, struct lull_gpu_model *model_out,
                               struct lull_error *err);

/* Opens the contexts and starts the thread. Errors: LULL_E_NO_DEVICE: there is no emulated node, or
 * it has fewer GPUs; -ENOSPC: the model's weights do not fit; -ENOMEM; -errno. */
int lull_model_server_start(const struct lull_model_server_options *options,
                            struct lull_model_server **server_out, struct lull_error *err);

/* Ends the thread and closes the contexts. NULL is allowed. */
void lull_model_server_stop(struct lull_model_server *server);

/* The number of tokens, of prompt and output together, that one request may have. */
uint32_t lull_model_server_most_tokens(const struct lull_model_server *server);

/* Queues a request that arrives now; its number is below LULL_MODEL_SERVER_TRACE. Errors: -EINVAL
 * it has no tokens, or more than one request may have; -ENOMEM. */
int lull_model_server_submit(struct lull_model_server *server, uint64_t request,
                             uint32_t prompt_tokens, uint32_t output_tokens);

/* Removes a request whose client has left. Tokens of it may still be delivered. */
void lull_model_server_cancel(struct lull_model_server *server, uint64_t request);

void lull_model_server_read(struct lull_model_server *server,
                            struct lull_model_server_reading *reading_out);

/* The energy of all its GPUs since the start. */
double lull_model_server_energy_j(const struct lull_model_server *server);

#endif
