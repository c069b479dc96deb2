/*
 * The callbacks of the recording profiler plugin, in their order.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TESTS_EMULATOR_RECORDING_PLUGIN_H
#define LULL_TESTS_EMULATOR_RECORDING_PLUGIN_H

#include <stdint.h>
#include <sys/types.h>

enum record_kind { RECORD_INIT = 1, RECORD_START, RECORD_STOP, RECORD_STATE, RECORD_FINALIZE };

enum { RECORDS = 65536 };

struct record {
    enum record_kind kind;
    int version; /* of the table that was called */
    pid_t thread;
    uint64_t type;
    uintptr_t context;
    uintptr_t handle; /* made, stopped, or of the state */
    uintptr_t parent;
    uintptr_t group; /* parentGroup, v5 on */
    int rank;
    int state;
    int has_arguments;
    uint64_t timer;
    uint64_t count;
    uint64_t sequence;
    int peer;
    int channels;
    int channel;
    int depth;
    int pid;
    uintptr_t stream;
    char function[16];
    char datatype[16];
    int ranks; /* of init */
    int nodes;
};

struct recording {
    struct record records[RECORDS];
    _Atomic uint32_t count;
    _Atomic int mask;  /* events that init requests */
    int *mask_pointer; /* from NCCL */
};

/* Empties the record; callbacks may continue meanwhile. Found by its name, like `recording`. */
void forget_recording(void);

#endif
