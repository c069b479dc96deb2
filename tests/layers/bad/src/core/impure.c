/* Reads the clock, draws a random number and prints. SPDX-License-Identifier: Apache-2.0 */
#include "impure.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

long impure(void)
{
    const long value = rand() + (long)time(NULL);

    printf("%ld\n", value);
    return value;
}
