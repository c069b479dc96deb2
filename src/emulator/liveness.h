/*
 * Whether a process still lives, safe against reuse of its number. SPDX-License-Identifier:
 * Apache-2.0
 */
#ifndef LULL_EMULATOR_LIVENESS_H
#define LULL_EMULATOR_LIVENESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Start time of a living process in kernel ticks; 0: none such, or a zombie. */
uint64_t lull_process_start_mark(pid_t pid);

/* Without /proc every process counts as alive. */
bool lull_process_is_alive(pid_t pid, uint64_t start_mark);

#endif
