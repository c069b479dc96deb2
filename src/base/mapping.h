/*
 * Keeps a process alive that has mapped a file which others cut off meanwhile, such as a file in
 * /dev/shm: the kernel answers an access behind its end by SIGBUS. The mapping then becomes memory
 * of this process alone, filled with zeros, and what it held is lost.
 *
 * For programs of Lull, not for libraries that are loaded into others: the signal is the program's.
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_BASE_MAPPING_H
#define LULL_BASE_MAPPING_H

#include <stdbool.h>
#include <stddef.h>

/* Guards a mapping, which begins at a page. Returns its number from 0 on. Errors: -ENOSPC too many
 * are guarded; -errno. */
int lull_mapping_guard(void *memory, size_t size);

/* Returns whether a mapping of this number was cut off. False for a number below 0. */
bool lull_mapping_is_cut(int number);

/* Ends the guard, before the memory is unmapped. A number below 0: does nothing. */
void lull_mapping_release(int number);

#endif
