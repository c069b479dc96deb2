/*
 * Releases of NVIDIA's driver that an emulated node can have: the version of the driver and of the
 * CUDA that it supports. The table is generated from data/nvml_functions.json. Threads: any;
 * nothing here changes. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_EMULATOR_RELEASE_H
#define LULL_EMULATOR_RELEASE_H

#include <stdint.h>

#include "base/error.h"

struct lull_release {
    uint32_t branch;  /* the first number of the version */
    uint32_t cuda;    /* 1000 major + 10 minor, as cuDriverGetVersion returns it */
    char version[24]; /* "570.172.08" */
};

/* The branches, the oldest first; the last one is the default of a node. */
extern const struct lull_release lull_releases[];
extern const uint32_t lull_release_count;

/* The default. */
const struct lull_release *lull_release_newest(void);

/*
 * Parses a branch ("570", with its default version) or a full version ("570.86.10"). Errors:
 * -EINVAL it is neither, LULL_E_UNSUPPORTED the branch is unknown; the text lists the known ones.
 */
int lull_release_parse(const char *text, struct lull_release *out, struct lull_error *err);

#endif
