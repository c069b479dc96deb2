/*
 * Put before each file by tools/check-tidy: what clang's analyzer cannot see from one file alone.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/error.h"

/* It returns the code, so whoever checks the result does not go on after a failure. */
#define lull_error_set(err, code, ...) ((void)(err), (code))
