/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/command.h"

#include <stdio.h>
#include <stdlib.h>

const char *lull_cli_runtime_directory(void)
{
    const char *directory = getenv("LULL_RUNTIME_DIR");

    return directory != NULL && directory[0] != '\0' ? directory : "/run/lull";
}

int lull_cli_fail(const char *command, const struct lull_error *err)
{
    fprintf(stderr, "lull %s: %s\n", command, err->text);
    return (int)lull_error_exit_status(err->code);
}
