/*
 * `lull simulate --server`: a server of a language model in virtual time, under full clocks, the
 * best fixed clock and power limit, Lull, and a clairvoyant oracle.
 *
 * Threads: one. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_SIMULATE_SERVER_H
#define LULL_CLI_SIMULATE_SERVER_H

#include "base/option.h"
#include "simulator/serving/hindsight.h"
#include "simulator/serving/oracle.h"

/* ---- options ------------------------------------------------------------------------------ */

struct lull_simulate_gpus {
    const struct lull_gpu_model *model;
    uint32_t count; /* 0: the fewest that hold the model */
};

struct lull_simulate_slo {
    struct lull_objective objective;
    const char *text; /* NULL: the default of the model's size */
};

struct lull_simulate_server {
    const struct lull_llm *llm; /* NULL: no server is simulated */
    struct lull_simulate_gpus gpus;
    struct lull_simulate_gpus prefill; /* of a pool of its own; count 0: there is none, and `gpus`
                                          are all */
    double handover_gbs;               /* 0: as measured */
    struct lull_simulate_slo slo;
    const char *arrivals; /* file; NULL: a Poisson process */
    double prompt_tokens; /* of the Poisson process */
    double output_tokens;
    double load_ratio;
    double rate_per_s; /* 0: it follows from the load */
    int64_t duration_ns;
    uint32_t max_sequences;
    uint32_t max_batched_tokens;
    bool is_of_steps; /* Lull sees steps, no metrics */
};

extern const struct lull_option lull_simulate_server_rows[];

/* ---- results ------------------------------------------------------------------------------ */

enum lull_server_mode {
    LULL_SERVER_HIGHEST,
    LULL_SERVER_FIXED_CLOCK,
    LULL_SERVER_POWER_LIMIT,
    LULL_SERVER_LULL,
    LULL_SERVER_ORACLE,
    LULL_SERVER_IDEAL, /* an oracle whose driver takes no time */
    LULL_SERVER_MODES,
};

struct lull_server_results {
    const struct lull_simulate_server *server;
    uint32_t played; /* bits of the modes; highest and lull are always played */
    uint64_t seed;
    double rate_per_s;
    double capacity_per_s; /* NAN: unknown, a rate was given */
    uint64_t skipped;      /* rows of the trace */
    size_t requests;       /* in each mode's array */
    double allowance;      /* further misses that Lull promises to stay below */
    double handover_gbs;   /* between pools */
    struct lull_serving_outcome modes[LULL_SERVER_MODES];
    double clock_mhz;
    double limit_w;
    struct lull_serving_oracle oracle;
    struct lull_serving_oracle ideal;
};

/* Runs it in some modes (bits of enum lull_server_mode) and prints the results. Returns the exit
 * status. */
int lull_simulate_server_run(struct lull_simulate_server *server, uint32_t played, uint64_t seed,
                             bool is_json);

/* Returns whether a mode is played: of two pools, full clocks and Lull only. */
bool lull_server_is_played(const struct lull_server_results *results, enum lull_server_mode mode);

/* Returns the energy that a mode saves per output token, relative to full clocks. */
double lull_server_saving(const struct lull_server_results *results, enum lull_server_mode mode);

/* Writes the verdict in one line, without its end. Returns text. */
const char *lull_server_verdict(const struct lull_server_results *results, char *text, size_t size);

void lull_server_report_print(const struct lull_server_results *results);
void lull_server_report_json(const struct lull_server_results *results);

#endif
