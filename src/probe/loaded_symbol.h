/*
 * Finds functions in whatever the process has loaded: the last resort of the shims, whose functions
 * stand before those of libraries that a program may have loaded for itself, under any name.
 *
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_PROBE_LOADED_SYMBOL_H
#define LULL_PROBE_LOADED_SYMBOL_H

/* Returns the symbol of the first loaded library that has it, the calling one excepted; NULL: none
 * has. Slow: store the result. */
void *lull_loaded_symbol(const char *symbol);

#endif
