/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/tracks.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "trace/array.h"

struct track {
    uint64_t key;  /* of a thread; processes have their own */
    bool is_other; /* a thread that is not a stream */
};

/* Both lists are short, because GPUs are few and only threads of GPUs are listed. */
struct lull_tracks {
    const char *file;
    struct track *gpus;
    size_t gpu_count;
    struct track *threads;
    size_t thread_count;
};

enum { MAX_TRACKS = 4096 };

struct lull_tracks *lull_tracks_create(const char *file)
{
    struct lull_tracks *const tracks = calloc(1, sizeof(*tracks));

    if (tracks != NULL)
        tracks->file = file;
    return tracks;
}

void lull_tracks_destroy(struct lull_tracks *tracks)
{
    if (tracks == NULL)
        return;
    free(tracks->gpus);
    free(tracks->threads);
    free(tracks);
}

static uint64_t tracks_key_of(const char *process, const char *thread)
{
    char text[128];

    snprintf(text, sizeof(text), "%s\n%s", process, thread);
    return lull_text_hash(text);
}

static const struct track *tracks_find(const struct track *tracks, size_t count, uint64_t key)
{
    for (size_t i = 0; i < count; i++)
        if (tracks[i].key == key)
            return &tracks[i];
    return NULL;
}

static int tracks_add(struct lull_tracks *tracks, struct track **list, size_t *count,
                      const struct track *track, struct lull_error *err)
{
    if (*count == MAX_TRACKS || tracks_find(*list, *count, track->key) != NULL)
        return 0;
    return lull_trace_append(list, count, track, sizeof(*track), tracks->file, err);
}

/* "/device:GPU:0", also behind a host's name; "GPU0", "GPU 0" */
static bool is_gpu(const char *name)
{
    const char *const device = strcasestr(name, "/device:GPU:");

    if (device != NULL)
        return isdigit((unsigned char)device[strlen("/device:GPU:")]);
    if (strncasecmp(name, "GPU", strlen("GPU")) != 0)
        return false;
    name += strlen("GPU");
    name += *name == ' ';
    return *name != '\0' && name[strspn(name, "0123456789")] == '\0';
}

int lull_tracks_name_process(struct lull_tracks *tracks, const char *process, const char *name,
                             struct lull_error *err)
{
    const struct track track = {tracks_key_of(process, ""), false};

    if (!is_gpu(name))
        return 0;
    return tracks_add(tracks, &tracks->gpus, &tracks->gpu_count, &track, err);
}

int lull_tracks_name_thread(struct lull_tracks *tracks, const char *process, const char *thread,
                            const char *name, struct lull_error *err)
{
    const struct track track = {tracks_key_of(process, thread),
                                strncasecmp(name, "Stream", strlen("Stream")) != 0};

    if (tracks_find(tracks->gpus, tracks->gpu_count, tracks_key_of(process, "")) == NULL)
        return 0;
    return tracks_add(tracks, &tracks->threads, &tracks->thread_count, &track, err);
}

bool lull_tracks_is_stream(const struct lull_tracks *tracks, const char *process,
                           const char *thread)
{
    const struct track *named;

    if (tracks->gpu_count == 0 ||
        tracks_find(tracks->gpus, tracks->gpu_count, tracks_key_of(process, "")) == NULL)
        return false;
    named = tracks_find(tracks->threads, tracks->thread_count, tracks_key_of(process, thread));
    return named == NULL || !named->is_other;
}
