/*
 * Meaning of NCCL's names of functions and data types. Threads: any; lock-free.
 *
 * The texts are literals of libnccl: each pointer is compared once and remembered.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_PROBE_NCCL_NAMES_H
#define LULL_PROBE_NCCL_NAMES_H

#include <stdint.h>

#include "wire/event.h"

/* The operation of a name such as "AllReduce"; NULL and unknown names give LULL_OPERATION_NONE. */
enum lull_operation lull_nccl_operation(const char *function);

/* The bytes of one element of a type such as "ncclFloat32"; 0 for NULL and unknown types. */
uint32_t lull_nccl_element_bytes(const char *datatype);

/* The same for the numbers that version 1 has instead of names. */
enum lull_operation lull_nccl_operation_v1(uint8_t function);
uint32_t lull_nccl_element_bytes_v1(uint8_t datatype);

/* Returns whether the operation has a root. */
int lull_nccl_is_rooted(enum lull_operation operation);

#endif
