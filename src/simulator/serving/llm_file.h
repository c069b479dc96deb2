/*
 * Reads the dimensions of a language model from the config.json that its publisher releases with
 * the weights (the form of Hugging Face's transformers). Threads: any. SPDX-License-Identifier:
 * Apache-2.0
 */
#ifndef LULL_SIMULATOR_SERVING_LLM_FILE_H
#define LULL_SIMULATOR_SERVING_LLM_FILE_H

#include "base/error.h"
#include "emulator/server/llm.h"

/*
 * Reads a file, or config.json in a folder. The model's name is `path` itself, which must outlive
 * it. Of a model that also reads images or sound it is the language part. Errors: those of
 * lull_file_read(); LULL_E_FORMAT no JSON, or a dimension is missing or out of its range;
 * LULL_E_UNSUPPORTED layers that have a state in place of attention, or weights of a precision
 * whose time is not known.
 */
int lull_llm_file_read(const char *path, struct lull_llm *llm_out, struct lull_error *err);

#endif
