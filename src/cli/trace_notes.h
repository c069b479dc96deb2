/*
 * Shared by commands that read profiler traces: the option --comm-kernels, and messages about a
 * trace that could not be read completely. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_TRACE_NOTES_H
#define LULL_CLI_TRACE_NOTES_H

#include <regex.h>

#include "trace/trace.h"

#define LULL_CLI_COMM_KERNELS_ROW(OBJECT, FIELD)                                                   \
    LULL_VALUE("comm-kernels", "REGEX", TEXT, OBJECT, FIELD,                                       \
               "Kernels whose name this extended regular expression matches communicate, too.",    \
               .more = "Those of NCCL, RCCL, oneCCL, MSCCL++, NVSHMEM, DeepEP, mori, pplx, vLLM, " \
                       "SGLang, TensorRT-LLM, FlashInfer, AITER, Triton-distributed and "          \
                       "PyTorch's symmetric memory, and copies between peers, are known.")

/* Compiles the text of --comm-kernels. Free the result with regfree(). -EINVAL. */
int lull_cli_compile_kernels(const char *text, regex_t *kernels_out, struct lull_error *err);

/* Reports on standard error which parts of a file were skipped, and why. Lines begin with the
 * command's name. */
void lull_cli_note_loss(const char *command, const char *file, const struct lull_trace *trace);

#endif
