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
    gzFile file;        /* hands plain files through as they are */
    int64_t size_bytes; /* of the file */
    int64_t text_bytes; /* read so far */
    const char *path;   /* borrowed from who opened it */
};

static int open_descriptor(const char *path)
{
    return strcmp(path, "-") == 0 ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
}

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
    source = malloc(sizeof(*source));
    if (source == NULL)
        goto no_memory;
    source->path = path;
    source->text_bytes = 0;
    source->size_bytes = S_ISREG(status.st_mode) ? status.st_size : 0;
    source->file = gzdopen(fd, "rb");
    if (source->file == NULL)
        goto no_memory;
    gzbuffer(source->file, INPUT_BYTES);
    *source_out = source;
    return 0;

no_memory:
    free(source);
    close(fd);
    return lull_error_set(err, -ENOMEM, "%s: no memory", path);
}

void lull_source_close(struct lull_source *source)
{
    if (source == NULL)
        return;
    gzclose(source->file);
    free(source);
}

/* What zlib has to say once it gave fewer bytes than it was asked for; 0: the regular end. */
static int failure(const struct lull_source *source, struct lull_error *err)
{
    const char *text;
    int reason;

    errno = 0;
    text = gzerror(source->file, &reason);
    if (reason == Z_OK || reason == Z_STREAM_END)
        return 0;
    if (reason == Z_ERRNO)
        return lull_error_set(err, errno != 0 ? -errno : -EIO, "%s: %s", source->path, text);
    return lull_error_set(
        err, LULL_E_FORMAT,
        "%s: the gzip file is %s, at byte %" PRId64 " of its text; copy or record it again",
        source->path, reason == Z_BUF_ERROR ? "truncated" : "damaged", source->text_bytes);
}

ssize_t lull_source_read(struct lull_source *source, char *buffer, size_t size,
                         struct lull_error *err)
{
    const int got = gzread(source->file, buffer, (unsigned)size);

    if (got <= 0)
        return failure(source, err);
    source->text_bytes += got; /* what was read before a failure comes first */
    return got;
}

double lull_source_done_ratio(const struct lull_source *source)
{
    if (source->size_bytes <= 0)
        return -1.0;
    return (double)gzoffset(source->file) / (double)source->size_bytes;
}
