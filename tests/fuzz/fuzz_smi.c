/*
 * Command lines of the emulated nvidia-smi: refused with a message, or every list and number is in
 * its range. Each line of the input is a word. SPDX-License-Identifier: Apache-2.0
 */
#include "emulator/nvidia_smi/options.c"

#include "fuzz.h"

enum { WORDS = 16 };

static int split(char *text, size_t size, char **words)
{
    int count = 0;

    words[count++] = "nvidia-smi";
    for (size_t begin = 0; begin < size && count < WORDS;) {
        const size_t length = strcspn(text + begin, "\n");

        text[begin + length] = '\0';
        words[count++] = text + begin;
        begin += length + 1;
    }
    words[count] = NULL;
    return count;
}

static void check_words(const char *list)
{
    const char *const end = list + strlen(list);
    const char *word;
    size_t length;

    while ((word = smi_options_next_word(&list, &length)) != NULL)
        require(word + length <= end && list <= end && memchr(word, ',', length) == NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *words[WORDS + 1];
    char *const text = malloc(size + 1);
    char *message = NULL;
    size_t length = 0;
    FILE *const out = open_memstream(&message, &length);
    struct lull_smi_options options;
    unsigned first;
    unsigned second;
    int status;

    require(text != NULL && out != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    status = smi_options_read(split(text, size, words), words, &options, out);
    fclose(out);
    require((status != 0) == (length > 0) && status >= 0 && status <= SMI_EXIT_NOT_AVAILABLE);
    free(message);
    if (status == 0 && options.action != SMI_HELP && options.action != SMI_MISSING) {
        require(options.period_ms >= 0 && options.rounds >= 0 && options.sections != 0);
        if (options.value != NULL)
            check_words(options.value);
        if (options.ids != NULL)
            check_words(options.ids);
        if (options.value != NULL && smi_options_parse_pair(options.value, &first, &second))
            require(strchr(options.value, ',') != NULL || first == second);
    }
    free(text);
    return 0;
}
