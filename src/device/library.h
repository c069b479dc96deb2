/*
 * Common parts of the vendors' files: opening a driver library at run time, binding its symbols,
 * and translating its codes into Lull's.
 *
 * Threads: any; nothing here is kept. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_DEVICE_LIBRARY_H
#define LULL_DEVICE_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "device/device.h"

/* A function of a library, and the offset of its address in a table. */
struct lull_library_symbol {
    size_t offset;
    const char *name;
    const char *older_name; /* the name of the same call in older libraries; NULL: there is none */
};

/* For lists of CALL(type, member, name, older_name): a member of the table for each function. */
#define LULL_LIBRARY_MEMBER(type, member, name, older_name) type *member;

/* The meaning of one return code of a library. */
struct lull_library_meaning {
    int code;
    int error; /* 0, -errno or LULL_E_*: what device.h's functions return */
    const char *text;
};

/*
 * Opens the file that the environment variable names, else the first of names (ended by NULL) that
 * can be opened; name_out gets its name. Errors: -ENOENT none; the text says why and what to do.
 */
int lull_library_open(const char *variable, const char *const *names, const char *what,
                      void **library_out, char *name_out, size_t name_size, struct lull_error *err);

/*
 * The same for a library that drives GPUs. Results from an emulated node are stored separately
 * (base/file.h), so a library that drives hardware is refused there. Further errors:
 * LULL_E_UNSUPPORTED.
 */
int lull_library_open_driver(const char *variable, const char *const *names, const char *what,
                             void **library_out, char *name_out, size_t name_size,
                             struct lull_error *err);

/* Stores the addresses of the symbols in the table, and NULL for missing ones. */
void lull_library_bind(void *library, void *table, const struct lull_library_symbol *symbols,
                       size_t count);

/* Returns the row of a code, never NULL: the last row stands for all codes without a row. */
const struct lull_library_meaning *lull_library_meaning(const struct lull_library_meaning *rows,
                                                        size_t count, int code);

/* Returns whether a GPU is to be waited for after a call about it has failed with this meaning. */
bool lull_library_may_pass(const struct lull_library_meaning *meaning);

/* Sorts clocks from the highest to the lowest. */
void lull_library_sort_clocks(uint32_t *clocks_mhz, uint32_t count);

/* Returns the lowest power limit that the driver reports, in mW. If it reports none (0), returns a
 * quarter of the highest: no job runs below that, and a limit of 0 W must never be requested. */
uint32_t lull_library_min_limit_mw(uint64_t reported_mw, uint32_t highest_mw);

#endif
