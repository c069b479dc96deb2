/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/source.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

struct lull_source {
    gzFile file;        /* passes plain files through unchanged */
    int64_t size_bytes; /* of the file; 0: not known */
    int64_t text_bytes; /* that zlib has given so far */
    const char *path;   /* borrowed from who opened it */
    size_t head_size;
    size_t head_at; /* the part ahead of it has been read */
    char head[LULL_SOURCE_HEAD];
};

static int open_descriptor(const char *path)
{
    if (strcmp(path, "-") == 0)
        return dup(STDIN_FILENO);
    return open(path, O_RDONLY | O_CLOEXEC);
}

/* The size is read only for regular files. Only for these can progress be reported as a share. */
int lull_source_open(const char *path, struct lull_source **source_out, struct lull_error *err)
{
    enum { INPUT_BYTES = 1 << 18 };
    const int fd = open_descriptor(path);
    struct lull_source *source;
    struct stat status;

    if (fd < 0 || fstat(fd, &status) < 0) {
        const int code = -errno;

        if (fd >= 0)
            close(fd);
        return lull_error_set(err, code, "%s: %s", path, strerror(-code));
    }
    source = calloc(1, sizeof(*source));
    if (source == NULL)
        goto no_memory;
    source->path = path;
    if (S_ISREG(status.st_mode))
        source->size_bytes = status.st_size;
    source->file = gzdopen(fd, "rb");
    if (source->file == NULL)
        goto no_memory;
    gzbuffer(source->file, INPUT_BYTES);
    *source_out = source;
    return 0;

no_memory:
    free(source);
    close(fd);
    return lull_error_set(err, -ENOMEM, "%s: not enough memory to read it", path);
}

void lull_source_close(struct lull_source *source)
{
    if (source == NULL)
        return;
    gzclose(source->file);
    free(source);
}

/* Reports the status of zlib once it returns no more bytes. Returns 0 if the text ends here. */
static int source_fail(const struct lull_source *source, struct lull_error *err)
{
    const char *damage = "damaged";
    const char *text;
    int reason;

    errno = 0;
    text = gzerror(source->file, &reason);
    if (reason == Z_OK || reason == Z_STREAM_END)
        return 0;
    if (reason == Z_ERRNO)
        return lull_error_set(err, errno != 0 ? -errno : -EIO, "%s: %s", source->path, text);
    if (reason == Z_BUF_ERROR)
        damage = "truncated";
    return lull_error_set(err, LULL_E_FORMAT,
                          "%s: the gzip file is %s, at byte %" PRId64
                          " of its text; copy or record it again",
                          source->path, damage, source->text_bytes);
}

static ssize_t inflate_more(struct lull_source *source, char *buffer, size_t size,
                            struct lull_error *err)
{
    const int got = gzread(source->file, buffer, (unsigned)size);

    if (got <= 0)
        return source_fail(source, err);
    source->text_bytes += got; /* text read before a failure is returned first */
    return got;
}

ssize_t lull_source_peek(struct lull_source *source, const char **head_out, struct lull_error *err)
{
    const ssize_t got = inflate_more(source, source->head, sizeof(source->head), err);

    if (got < 0)
        return got;
    source->head_size = (size_t)got;
    *head_out = source->head;
    return got;
}

/* Returns the peeked bytes first. */
ssize_t lull_source_read(struct lull_source *source, char *buffer, size_t size,
                         struct lull_error *err)
{
    const size_t ahead = source->head_size - source->head_at;
    const size_t taken = ahead < size ? ahead : size;
    ssize_t more = 0;

    memcpy(buffer, source->head + source->head_at, taken);
    source->head_at += taken;
    if (taken < size)
        more = inflate_more(source, buffer + taken, size - taken, err);
    return more < 0 ? more : (ssize_t)taken + more;
}

int64_t lull_source_offset(const struct lull_source *source)
{
    return source->text_bytes - (int64_t)(source->head_size - source->head_at);
}

double lull_source_done_ratio(const struct lull_source *source)
{
    if (source->size_bytes <= 0)
        return -1.0;
    return (double)gzoffset(source->file) / (double)source->size_bytes;
}
