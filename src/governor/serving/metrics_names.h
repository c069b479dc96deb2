/*
 * Names of the metrics of inference servers (data/serving_metrics.json, which explains them), and
 * the user's own ones.
 *
 * Threads: any; names are constant once they are open. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_SERVING_METRICS_NAMES_H
#define LULL_GOVERNOR_SERVING_METRICS_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum lull_metrics_quantity {
    LULL_METRICS_RUNNING,
    LULL_METRICS_WAITING,
    LULL_METRICS_CACHE,
    LULL_METRICS_PROMPT_TOKENS,
    LULL_METRICS_OUTPUT_TOKENS,
    LULL_METRICS_FINISHED,
    LULL_METRICS_STEPS,
    LULL_METRICS_TTFT, /* this one and the following ones are histograms */
    LULL_METRICS_TPOT,
    LULL_METRICS_ITL,
    LULL_METRICS_DECODE_TIME, /* this one and the following ones stand in for TPOT and TTFT */
    LULL_METRICS_ANSWER_TOKENS,
    LULL_METRICS_QUEUE_TIME,
    LULL_METRICS_PREFILL_TIME,
    LULL_METRICS_QUANTITIES
};

struct lull_metrics_name {
    enum lull_metrics_quantity quantity;
    const char *name;
    const char *plus;  /* a counter that is added; NULL: none */
    const char *label; /* only samples whose label has this value; NULL: all */
    const char *value;
    double scale;        /* of a histogram's times, s */
    bool counts_waiting; /* waiting requests are counted, and to be subtracted */
};

struct lull_metrics_engine {
    const char *name; /* such as vLLM */
    const char *hint; /* what the server needs to publish load and TTFT; NULL: not known */
    const struct lull_metrics_name *names;
    uint32_t count;
};

/* Generated from the data file. */
extern const struct lull_metrics_engine lull_metrics_engines[];
extern const uint32_t lull_metrics_engine_count;

enum {
    LULL_METRICS_MAX_ENGINES = 32,
    LULL_METRICS_MAX_NAMES = 256, /* of all engines */
    LULL_METRICS_NAME_BYTES = 128,
};

struct lull_metrics_names {
    const struct lull_metrics_engine *engines[LULL_METRICS_MAX_ENGINES]; /* the user's ones first */
    uint32_t count;
    uint32_t own_count;             /* of them the user's */
    struct lull_metrics_file *file; /* the user's; NULL: none */
};

/*
 * Collects the names, first those of a file of the user (NULL: none). Errors: those of opening it;
 * LULL_E_FORMAT with the file's name and byte: it is not of the data file's form, or has too many
 * names; -ENOMEM.
 */
int lull_metrics_names_open(const char *path, struct lull_metrics_names *names_out,
                            struct lull_error *err);
void lull_metrics_names_close(struct lull_metrics_names *names);

/* The word of a quantity, as the data file has it: "running". */
const char *lull_metrics_quantity_word(enum lull_metrics_quantity quantity);

#endif
