/*
 * Keeps a process alive if another process truncates a file that it has mapped, such as a file in
 * /dev/shm. The kernel answers an access after the file's end with SIGBUS. The mapping then becomes
 * private memory filled with zeros, and its contents are lost.
 *
 * For programs of Lull only, not for libraries loaded into other programs, since it handles SIGBUS
 * for the whole process. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_BASE_MAPPING_H
#define LULL_BASE_MAPPING_H

#include <stdbool.h>
#include <stddef.h>

/* Guards a page-aligned mapping. Returns its number, from 0. Errors: -ENOSPC too many are guarded;
 * -errno. */
int lull_mapping_guard(void *memory, size_t size);

/* Returns whether the file of the mapping with this number was truncated. False for a number below
 * 0. */
bool lull_mapping_is_cut(int number);

/* Ends the guard, before the memory is unmapped. A number below 0: does nothing. */
void lull_mapping_release(int number);

#endif
