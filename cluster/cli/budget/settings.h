/*
 * A site's power budget: the file of `lull budget`. The reader is pure: text in, struct out,
 * nothing allocated. Threads: any. SPDX-License-Identifier: Apache-2.0
 *
 * Lines KEY = VALUE in sections [budget], [rack NAME], [node NAME], [job NAME] and [others]; #
 * begins a comment. lull-budget(1) explains the keys.
 */
#ifndef LULL_CLUSTER_CLI_BUDGET_SETTINGS_H
#define LULL_CLUSTER_CLI_BUDGET_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum {
    LULL_BUDGET_MAX_RACKS = 32,
    LULL_BUDGET_MAX_NODES = 64,
    LULL_BUDGET_MAX_JOBS = 128,
    LULL_BUDGET_MAX_PLACES = 8, /* nodes on which one job is described */
    LULL_BUDGET_NAME_BYTES = 64,
    LULL_BUDGET_TEXT_BYTES = 512,
    LULL_BUDGET_MAX_BYTES = 256 * 1024, /* of the file */
};

/* The budget of a cluster, a rack or a node, W. */
struct lull_budget_cap {
    double limit_w;   /* 0: none */
    double besides_w; /* constant power of other equipment there */
};

struct lull_budget_rack {
    char name[LULL_BUDGET_NAME_BYTES];
    struct lull_budget_cap cap;
};

struct lull_budget_node {
    char name[LULL_BUDGET_NAME_BYTES];
    char runtime_dir[LULL_BUDGET_TEXT_BYTES]; /* of its lulld */
    int32_t rack;                             /* -1: none */
    struct lull_budget_cap cap;
};

/* GPUs of a node that a job has, a bit for each. */
struct lull_budget_place {
    char node[LULL_BUDGET_NAME_BYTES];
    uint64_t gpus;
};

/* A section of the file about jobs: it applies to the jobs on these GPUs, or to all jobs of a user.
 */
struct lull_budget_job {
    char name[LULL_BUDGET_NAME_BYTES];
    uint32_t place_count;
    struct lull_budget_place places[LULL_BUDGET_MAX_PLACES];
    bool has_user;
    uint32_t uid;
    double weight;
    double min_ratio;   /* its minimum clock, as a share of the highest */
    double clock_bound; /* the share of its time that depends on the clock */
};

struct lull_budget_settings {
    struct lull_budget_cap cap;                      /* of all */
    double hold_s;                                   /* time that caps outlive this program */
    char grid_file[LULL_BUDGET_TEXT_BYTES];          /* "": none */
    char webhook[LULL_BUDGET_NAME_BYTES];            /* ADDRESS:PORT; "": none */
    char webhook_token_file[LULL_BUDGET_TEXT_BYTES]; /* not "" where there is a webhook */
    char openadr[LULL_BUDGET_TEXT_BYTES];            /* its base URL; "": none */
    char openadr_token_file[LULL_BUDGET_TEXT_BYTES]; /* "": none */
    char openadr_program[LULL_BUDGET_NAME_BYTES];    /* "": all of them */
    double openadr_poll_s;
    uint32_t rack_count;
    struct lull_budget_rack racks[LULL_BUDGET_MAX_RACKS];
    uint32_t node_count;
    struct lull_budget_node nodes[LULL_BUDGET_MAX_NODES];
    uint32_t job_count;
    struct lull_budget_job jobs[LULL_BUDGET_MAX_JOBS];
    struct lull_budget_job others; /* jobs that no section names */
};

/* Finds the number of a user by name. Errors: -ENOENT. */
typedef int lull_budget_find_user(const char *name, uint32_t *uid_out);

/* Reads the text of a file of this name; without a node there is the one of this host. Errors:
 * -EINVAL, with file, line, the error and the expected value; the settings are unchanged. */
int lull_budget_settings_read(const char *path, const char *text, size_t size,
                              lull_budget_find_user *find_user,
                              struct lull_budget_settings *settings_out, struct lull_error *err);

#endif
