/*
 * An inference engine as a pure state machine: queue, continuous batching, chunked prefill, cache
 * of keys and values, and the statistics that vLLM publishes. It has no clock: the caller begins
 * and ends each step and says when.
 *
 * A step decodes one token of each running request, then takes as many tokens of prompts as its
 * budget of tokens leaves (vLLM V1's scheduler). A request waits while the batch is full or the
 * cache has no room for it; if the cache runs out, the latest request is preempted and begins
 * again.
 *
 * Threads: the caller serialises. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_EMULATOR_SERVER_ENGINE_H
#define LULL_EMULATOR_SERVER_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "emulator/server/step.h"

enum lull_engine_role {
    LULL_ENGINE_BOTH,
    LULL_ENGINE_PREFILL, /* a request is finished with its first token, and handed over */
    LULL_ENGINE_DECODE,  /* a request arrives with its prompt computed */
};

struct lull_engine_config {
    enum lull_engine_role role;
    uint32_t max_sequences;      /* vLLM's --max-num-seqs; typically 256 */
    uint32_t max_batched_tokens; /* vLLM's --max-num-batched-tokens; typically 2048 or 8192 */
    double cache_tokens;         /* as lull_step_cache_tokens() */
    /* end_step() returns first and last tokens only. Then a step does not need longer for a larger
     * batch. All else is equal bit for bit. */
    bool ends_only;
    bool no_histograms; /* all histograms stay empty */
};

/* One token of a request, or its last one. */
struct lull_engine_token {
    uint64_t request; /* the caller's number */
    bool is_first;
    bool is_last;
    double ttft_s;          /* with the first and the last token: time of the first since the client
                               sent the request, else NAN */
    double tpot_s;          /* of a request's last token, if it had more than one, else NAN */
    uint32_t prompt_tokens; /* with the last token: of the request */
    uint32_t output_tokens; /* with the last token: that the request wants */
};

enum { LULL_ENGINE_BUCKETS = 40 };

struct lull_engine_histogram {
    uint32_t count;                      /* buckets */
    const double *bound_s;               /* rising; the last one is INFINITY */
    uint64_t total[LULL_ENGINE_BUCKETS]; /* values at most the bound: cumulative */
    double sum_s;
};

/* What vLLM publishes on /metrics. */
struct lull_engine_statistics {
    uint32_t running;
    uint32_t waiting;
    double cache_ratio;
    uint64_t prompt_tokens;
    uint64_t output_tokens;
    uint64_t finished;
    uint64_t preempted;
    uint64_t steps;
    struct lull_engine_histogram ttft;
    struct lull_engine_histogram tpot; /* vllm:request_time_per_output_token_seconds */
    struct lull_engine_histogram itl;  /* vllm:inter_token_latency_seconds */
    struct lull_engine_histogram queue;
    struct lull_engine_histogram latency; /* end to end */
};

struct lull_engine;

struct lull_engine *
lull_engine_create(const struct lull_engine_config *config); /* NULL: no memory */
void lull_engine_destroy(struct lull_engine *engine);        /* NULL is allowed */

/* Makes `to` equal to `from`, even within a step. Both were created with the same config. -ENOMEM:
 * `to` has not changed. */
int lull_engine_copy(struct lull_engine *to, const struct lull_engine *from);

/* Queues a request. Errors: -ENOMEM; -EINVAL: no tokens, or more than the cache can ever hold. */
int lull_engine_submit(struct lull_engine *engine, uint64_t request, uint32_t prompt_tokens,
                       uint32_t output_tokens, int64_t now_ns);

/* Queues a request that another engine hands over, and that its client sent earlier. Errors: those
 * of lull_engine_submit(). */
int lull_engine_receive(struct lull_engine *engine, uint64_t request, uint32_t prompt_tokens,
                        uint32_t output_tokens, int64_t sent_ns, int64_t now_ns);

/* Removes a request whose client has left. Returns whether it was there. */
bool lull_engine_cancel(struct lull_engine *engine, uint64_t request, int64_t now_ns);

/* Forms the next batch. False: there is nothing to do. */
bool lull_engine_begin_step(struct lull_engine *engine, int64_t now_ns,
                            struct lull_step_batch *batch_out);

/* Ends the step that was begun. Returns the number of tokens and points at them until the next
 * call. */
uint32_t lull_engine_end_step(struct lull_engine *engine, int64_t now_ns,
                              const struct lull_engine_token **tokens_out);

const struct lull_engine_statistics *lull_engine_statistics(const struct lull_engine *engine);

#endif
