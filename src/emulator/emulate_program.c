/*
 * `lull emulate` as a program of its own, for the tests of this directory.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cli/emulate.h"

int main(int argc, char **argv)
{
    return lull_emulate_main(argc, argv);
}
