/*
 * Texts that the server sends to its clients, in the form of OpenAI's API. Threads: any.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_PLAY_SERVER_ANSWER_H
#define LULL_CLI_PLAY_SERVER_ANSWER_H

#include <time.h>

#include <jansson.h>

#include "cli/play/server/completion.h"

enum { LULL_ANSWER_CHUNK_BYTES = 768 };

/* A request that is being answered. */
struct lull_answer {
    const struct lull_completion *completion;
    const char *model;
    uint64_t number; /* of the request */
    time_t created;
};

/* Writes the chunk of a stream with a choice's token of an index, or of a chat with the role that
 * comes before its first token. Returns its length, below LULL_ANSWER_CHUNK_BYTES. */
size_t lull_answer_write_token(const struct lull_answer *answer, uint32_t choice, uint32_t index,
                               char chunk_out[LULL_ANSWER_CHUNK_BYTES]);
size_t lull_answer_write_role(const struct lull_answer *answer, uint32_t choice,
                              char chunk_out[LULL_ANSWER_CHUNK_BYTES]);

/* Writes the chunk with the number of tokens. */
size_t lull_answer_write_usage(const struct lull_answer *answer,
                               char chunk_out[LULL_ANSWER_CHUNK_BYTES]);

/* Makes the whole answer; an error; the list of models. NULL: out of memory. */
json_t *lull_answer_whole(const struct lull_answer *answer);
json_t *lull_answer_error(unsigned int status, const char *text);
json_t *lull_answer_models(const char *model, uint32_t most_tokens, time_t created);

#endif
