/*
 * Runs a fuzz target on the files of a folder, and on seeded mutations of each: bytes changed, cut
 * short, repeated. The second argument is the number of mutations. Runs are reproducible: the same
 * files give the same runs.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

enum { LARGEST = 1 << 16, MUTATIONS = 3000, MOST_CHANGES = 8 };

static uint64_t state = 88172645463325252u;

/* xorshift64 (Marsaglia 2003). */
static uint64_t next(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static size_t mutate(const uint8_t *data, size_t size, uint8_t *out)
{
    uint64_t changes = 1 + next() % MOST_CHANGES;

    memcpy(out, data, size);
    for (; changes > 0 && size > 0; changes--)
        out[next() % size] = (uint8_t)next();
    if (size > 0 && next() % 4 == 0)
        size = next() % size;
    if (next() % 8 == 0 && size * 2 <= LARGEST) {
        memcpy(out + size, out, size);
        size *= 2;
    }
    return size;
}

/* A copy of exactly the input's size, so that a sanitizer sees the first byte beyond. */
static void run(const uint8_t *data, size_t size)
{
    uint8_t *exact = malloc(size == 0 ? 1 : size);

    if (exact == NULL)
        return;
    memcpy(exact, data, size);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
}

static int replay(const char *path, long mutations)
{
    static uint8_t data[LARGEST];
    static uint8_t changed[2 * LARGEST];
    FILE *file = fopen(path, "rb");
    size_t size;

    if (file == NULL) {
        fprintf(stderr, "%s: cannot open\n", path);
        return 1;
    }
    size = fread(data, 1, sizeof(data), file);
    fclose(file);
    run(data, size);
    for (long i = 0; i < mutations; i++)
        run(changed, mutate(data, size, changed));
    return 0;
}

int main(int argc, char **argv)
{
    struct dirent **entries;
    const long mutations = argc == 3 ? atol(argv[2]) : MUTATIONS;
    const int count = argc == 2 || argc == 3 ? scandir(argv[1], &entries, NULL, alphasort) : -1;
    int files = 0;
    int failed = 0;

    for (int i = 0; i < count; i++) {
        char path[PATH_MAX];

        snprintf(path, sizeof(path), "%s/%s", argv[1], entries[i]->d_name);
        if (entries[i]->d_name[0] != '.') {
            failed |= replay(path, mutations);
            files++;
        }
        free(entries[i]);
    }
    if (files == 0)
        fprintf(stderr, "usage: %s CORPUS [MUTATIONS], a folder with at least one file\n", argv[0]);
    else
        free(entries);
    return failed || files == 0;
}
