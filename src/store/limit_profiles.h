/*
 * Power-limit profiles: how long an iteration of a program takes, and what it draws, at each limit
 * (and clock) on a number of GPUs of one model; and what was chosen by that last.
 *
 * One profile per program, GPU model and number of GPUs; a new one takes the place of the old.
 * Threads: as store.h. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_STORE_LIMIT_PROFILES_H
#define LULL_STORE_LIMIT_PROFILES_H

#include <stdint.h>

#include "core/tuning/limit_search.h"
#include "store/store.h"

enum { LULL_LIMIT_PROGRAM_BYTES = 256 };

struct lull_limit_profile {
    char program[LULL_LIMIT_PROGRAM_BYTES]; /* as lull_limit_program says */
    char gpu_name[96];
    uint32_t gpu_count; /* of the job, all nodes */
    int64_t measured_s; /* since 1970, UTC */
    char host[65];      /* host on which it was measured */
    uint32_t count;     /* 1..LULL_LIMIT_SEARCH_POINTS */
    struct lull_limit_measure measures[LULL_LIMIT_SEARCH_POINTS]; /* the reference first */
    struct lull_job_selector selector; /* of the last choice; its price goes with the profile */
    uint32_t chosen;                   /* index */
    int64_t chosen_s;                  /* since 1970, UTC */
    char chosen_by[33];                /* user */
};

extern const struct lull_store_schema lull_limit_profiles_schema;

/*
 * Writes what a program is known by: all words of its command line, a launcher's included, the
 * first without its directory; shortened, with a hash, if they do not fit.
 */
void lull_limit_program(char *const *command, char program_out[LULL_LIMIT_PROGRAM_BYTES]);

/* Stores a profile in place of an older one, which stays if that fails. Errors: those of store.h.
 */
int lull_limit_profile_save(struct lull_store *store, const struct lull_limit_profile *profile,
                            struct lull_error *err);

/* Finds a profile. Errors: -ENOENT there is none; LULL_E_FORMAT what is stored cannot be; those of
 * store.h. */
int lull_limit_profile_load(struct lull_store *store, const char *program, const char *gpu_name,
                            uint32_t gpu_count, struct lull_limit_profile *profile_out,
                            struct lull_error *err);

/*
 * Calls each() with all profiles, programs in the order of their names, until it returns nonzero,
 * which is returned. Errors: those of lull_limit_profile_load.
 */
int lull_limit_profiles_walk(struct lull_store *store,
                             int (*each)(void *context, const struct lull_limit_profile *profile),
                             void *context, struct lull_error *err);

/* Removes the profiles of a program on all GPUs; returns how many there were, or an error. */
int lull_limit_profiles_remove(struct lull_store *store, const char *program,
                               struct lull_error *err);

#endif
