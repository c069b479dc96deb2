/*
 * Parses Slurm's texts of a job: Lull's keywords in its comments, and resources such as
 * "gres:gpu:h100:2".
 *
 * The words are in the AdminComment, where users cannot write: schedule=held from the job_submit
 * plugin; schedule=placed, placed-s=TIME, sm-mhz=CLOCK, limit-min=MINUTES and tries=COUNT from the
 * client. Other words are not changed. A user without that plugin writes lull-schedule into the
 * job's own comment.
 *
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_SLURM_SCHEDULE_MARK_H
#define LULL_CLUSTER_SLURM_SCHEDULE_MARK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LULL_MARK_NAME = 64, LULL_MARK_BYTES = 512 };

struct lull_mark {
    bool is_asked;             /* Lull is to schedule the job */
    bool is_by_user;           /* set by the job's own comment */
    bool is_placed;            /* the client has released it */
    int64_t placed_s;          /* when; 0: unknown */
    uint32_t sm_mhz;           /* at which clock; 0: full clocks */
    uint32_t limit_min;        /* the time limit that its user gave; 0: it has not been changed */
    uint32_t tries;            /* number of times that it was released and held again */
    int64_t deadline_s;        /* 0: none */
    char name[LULL_MARK_NAME]; /* of the recurring job; "": none */
};

/* Reads the words of the comments, which may be NULL; invalid words are ignored. now_s: seconds
 * since 1970. */
void lull_mark_read(const char *admin_comment, const char *comment, int64_t now_s,
                    struct lull_mark *mark_out);

/* Writes an AdminComment with the client's state of the job (is_placed, placed_s, sm_mhz,
 * limit_min, tries), and the rest of the old one. -ENAMETOOLONG: it would not fit. */
int lull_mark_write(const char *admin_comment, const struct lull_mark *mark,
                    char text_out[LULL_MARK_BYTES]);

/* The GPUs that a list of resources has: "gres:gpu:2", "gpu:h100:2(IDX:0-1),craynetwork:1". */
struct lull_gpu_count {
    uint32_t gpus;
    char type[LULL_MARK_NAME]; /* of the first entry that has one; "": none has */
};

void lull_gpu_count_read(const char *resources, struct lull_gpu_count *count_out);

#endif
