/*
 * An error is one code and one line for the user, set where the error is decided.
 *
 * Functions return 0 or a negative code: -errno and libuv's codes pass unchanged, Lull's own start
 * at LULL_E_BASE. The text says what, where and what to do next; the caller that reports to the
 * user prints it once. Threads: any; a struct lull_error belongs to its caller.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_BASE_ERROR_H
#define LULL_BASE_ERROR_H

#include <stddef.h>

enum {
    LULL_E_BASE = -5001,
    LULL_E_UNSUPPORTED = -5001, /* the device, driver or kernel cannot do this */
    LULL_E_NO_DEVICE = -5002,   /* no such GPU, or no driver library */
    LULL_E_FORMAT = -5003,      /* the input does not have the expected format */
    LULL_E_NOT_APPLIED = -5004, /* the driver reported success, but the device did something else */
    LULL_E_STALE = -5005,       /* the lease or request is no longer valid */
    LULL_E_NO_DRIVER = -5006,   /* the driver is not loaded, or does not match its library */
    LULL_E_DRIVER = -5007,      /* the driver failed without a reason; it may be temporary */
};

/* The exit statuses of all commands. */
enum lull_exit {
    LULL_EXIT_OK = 0,
    LULL_EXIT_FAILED = 1,
    LULL_EXIT_USAGE = 2,
    LULL_EXIT_NOT_PERMITTED = 3,
    LULL_EXIT_UNSUPPORTED = 4,
};

struct lull_error {
    int code;
    char text[480];
};

/* Fills err (may be NULL) and returns code, so that `return lull_error_set(...)` is one line. */
int lull_error_set(struct lull_error *err, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The exit status for a negative code: 3 for -EPERM and -EACCES, 4 if unsupported, 2 for usage,
 * else 1. */
enum lull_exit lull_error_exit_status(int code);

#endif
