/*
 * Classes of jobs on models of GPUs, which replace data missing from a trace. A class is a mix of
 * kernels whose power and memory share were measured on an A100, and a share of exposed
 * communication that was measured with data-parallel replicas; docs/research/cluster.md has the
 * table and the sources.
 *
 * For a model of GPU on which a kernel was not measured, the A100's kernel is taken, with its power
 * scaled as that of a kernel that was measured on both. One thread.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_SIMULATOR_JOB_CLASSES_H
#define LULL_CLUSTER_SIMULATOR_JOB_CLASSES_H

#include <stdint.h>

#include "cluster/core/model/job_parallel.h"
#include "cluster/core/model/job_surface.h"
#include "core/energy/device_curve.h"
#include "cluster/core/training/training.h"
#include "core/stats/random.h"

/* The network that joins the GPUs of a job. */
enum lull_job_network {
    LULL_JOB_NVLINK,   /* the model's own link, 16 SMs drive it */
    LULL_JOB_ETHERNET, /* 10 to 25 Gbit/s, 4 SMs */
};

struct lull_job_class {
    const char *name;
    const char *what; /* one line */
    struct {
        const char *kernel; /* of the A100; NULL: no more */
        const char *like;   /* another name that other models may have for it; NULL: none */
        double share_ratio; /* of the time without communication */
    } parts[LULL_JOB_MAX_PARTS];
    double sync_ratio[2]; /* by enum lull_job_network; with LULL_JOB_SYNC_GPUS GPUs */
    double read_mb_s;     /* of training data, by one GPU that does not communicate */
};

enum { LULL_JOB_CLASSES = 4 };
extern const struct lull_job_class lull_job_classes[LULL_JOB_CLASSES];

/* Index of a class; LULL_JOB_CLASSES: none of that name. */
uint32_t lull_job_class_find(const char *name);

/* The class of a trace's model or type of job, known by how its name begins ("resnet50", "BERT",
 * "LM (batch size 20)"), case ignored; LULL_JOB_CLASSES: not known. */
uint32_t lull_job_class_of(const char *model);

/* Draws a class; all are equally likely. */
uint32_t lull_job_class_draw(struct lull_random *random);

/* Returns the work of a job of a class on a model of GPU. */
void lull_job_class_work(uint32_t job_class, const struct lull_device_curve *model,
                         enum lull_job_network network, struct lull_job_work *work_out);

/* A model of GPU at its default power limit; gpu points at the arrays beside it. */
struct lull_job_model {
    struct lull_job_gpu gpu;
    struct lull_device_clock clocks[LULL_JOB_MAX_CLOCKS];
    struct lull_job_transfer transfers[LULL_JOB_MAX_CLOCKS];
};
void lull_job_model_fill(const struct lull_device_curve *model, enum lull_job_network network,
                         struct lull_job_model *job_model_out);

/* ---- types of GPU ------------------------------------------------------------------------- */

/*
 * A model with curves, or an older board without curves, of which only the speed is known (Gavel's
 * rates). Such a board has one clock, and its power is the same share of its limit as on the A100.
 */
struct lull_job_type {
    const char *name;
    const struct lull_device_curve *model; /* NULL: a board */
    uint32_t memory_mib;
    double limit_w;
    double idle_w;
};

/* By name or alias, case ignored; name need not end behind length. -ENOENT: not known. */
int lull_job_type_find(const char *name, uint32_t length, struct lull_job_type *type_out);

/* The constants of a type for training on many GPUs; NULL: there are none. */
const struct lull_training_gpu *lull_job_type_training(const struct lull_job_type *type);

/* The links that large jobs send over: M bytes of one GPU take a + b M. */
struct lull_job_links {
    struct lull_job_link
        inside; /* a node: the type's own links; boards without links use those between nodes */
    struct lull_job_link between; /* nodes */
};
struct lull_job_links lull_job_type_links(const struct lull_job_type *type,
                                          enum lull_job_network network);

/* Returns how a class runs on a type at each of its clocks; tempo_out has LULL_JOB_MAX_CLOCKS
 * places. Returns how many clocks there are. */
uint32_t lull_job_type_tempo(const struct lull_job_type *type, uint32_t job_class,
                             enum lull_job_network network, struct lull_job_tempo *tempo_out);

/* The same for work that is composed (training.h): its products as the matrix kernels of a
 * transformer's pass, what memory takes as a copy, and launches as waiting. The type has a model.
 */
uint32_t lull_job_training_tempo(const struct lull_job_type *type,
                                 const struct lull_training_time *time, bool is_backward,
                                 enum lull_job_network network, struct lull_job_tempo *tempo_out);

#endif
