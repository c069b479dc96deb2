/*
 * The measurements of `lull calibrate`, stored per GPU model and driver version: how long switching
 * an SM clock blocks the driver and takes to settle, down and up, per target.
 *
 * Each is one JSON file, which is replaced atomically. It holds measurements of the GPUs of one
 * machine. Runs use them as initial values.
 *
 * Threads: any; a record belongs to its caller. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_CONTROL_CALIBRATION_FILE_H
#define LULL_GOVERNOR_CONTROL_CALIBRATION_FILE_H

#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/error.h"
#include "core/switching/switch_cost.h"
#include "core/stats/quantile.h"

enum {
    LULL_CALIBRATION_TARGETS = 8,
    LULL_CALIBRATION_SWITCHES = LULL_QUANTILE_WINDOW, /* per target and direction */
};

/* Switches in one direction, in the order in which they were made. */
struct lull_calibration_switches {
    uint32_t count;
    double call_ms[LULL_CALIBRATION_SWITCHES];   /* time that the driver call blocked */
    double settle_ms[LULL_CALIBRATION_SWITCHES]; /* from the return of the call until the clock
                                                  * followed; negative: it never did */
};

/* The switches between the reference point and one lower clock. */
struct lull_calibration_target {
    uint32_t sm_mhz;
    struct lull_calibration_switches directions[LULL_DIRECTION_COUNT];
};

struct lull_calibration_record {
    char gpu_name[96];
    char driver_version[96];
    int64_t measured_s;     /* seconds since 1970, UTC */
    uint32_t reference_mhz; /* highest SM clock */
    uint32_t target_count;
    struct lull_calibration_target targets[LULL_CALIBRATION_TARGETS]; /* from the highest down */
    /* If all GPUs are lowered at once: time until the last driver call has returned.
     */
    uint32_t together_gpus; /* number of GPUs; 0: not measured */
    uint32_t together_count;
    double together_ms[LULL_CALIBRATION_SWITCHES];
};

/* Return the p-quantile of a direction, NAN if nothing was measured. Switches that never settled
 * do not count for settling. */
double lull_calibration_call_ms(const struct lull_calibration_switches *switches, double p);
double lull_calibration_settle_ms(const struct lull_calibration_switches *switches, double p);

/* Returns the p-quantile of lowering all GPUs at once; NAN: it was not measured. */
double lull_calibration_together_ms(const struct lull_calibration_record *record, double p);

/*
 * Adds the switches of another GPU of the same model, at most `limit` per target and direction, and
 * no more than fit. Targets that `into` does not have are skipped.
 */
void lull_calibration_merge(struct lull_calibration_record *into,
                            const struct lull_calibration_record *from, uint32_t limit);

/* Adds all measurements to a switch cost as its own observations, with all targets treated
 * alike. */
void lull_calibration_apply(const struct lull_calibration_record *record,
                            struct lull_switch_cost *cost);

/* Returns the record in the format of its file, a new reference; NULL: out of memory. */
json_t *lull_calibration_json(const struct lull_calibration_record *record);

/*
 * Stores a record, in place of an older one of its model and driver; creates the directory.
 * path_out: PATH_MAX bytes that get the file's path, or NULL. Errors: -errno with the path.
 */
int lull_calibration_store(const char *directory, const struct lull_calibration_record *record,
                           char *path_out, struct lull_error *err);

/*
 * Loads the record of a model and driver. Errors: -ENOENT none; LULL_E_FORMAT damaged, of another
 * version or of another GPU, with the file and the error; -errno. record_out is then unchanged.
 */
int lull_calibration_load(const char *directory, const char *gpu_name, const char *driver_version,
                          struct lull_calibration_record *record_out, struct lull_error *err);

/*
 * Loads it from this user's directory, else from the node's (base/file.h). A damaged file is logged
 * as a warning and otherwise ignored. -ENOENT: none.
 */
int lull_calibration_find(const char *gpu_name, const char *driver_version,
                          struct lull_calibration_record *record_out);

#endif
