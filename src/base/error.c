/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

int lull_error_set(struct lull_error *err, int code, const char *format, ...)
{
    if (err != NULL) {
        va_list args;

        va_start(args, format);
        vsnprintf(err->text, sizeof(err->text), format, args);
        va_end(args);
        err->code = code;
    }
    return code;
}

enum lull_exit lull_error_exit_status(int code)
{
    switch (code) {
    case 0:
        return LULL_EXIT_OK;
    case -EPERM:
    case -EACCES:
    case -ENOKEY:
        return LULL_EXIT_NOT_PERMITTED;
    case LULL_E_UNSUPPORTED:
    case LULL_E_NO_DEVICE:
    case LULL_E_NO_DRIVER:
    case -ENODEV:
        return LULL_EXIT_UNSUPPORTED;
    case -EINVAL:
    case LULL_E_FORMAT:
        return LULL_EXIT_USAGE;
    default:
        return LULL_EXIT_FAILED;
    }
}
