/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"

/* Longest time that a write waits for the reader of a named pipe. */
enum { PIPE_WAIT_MS = 2000 };

/* A write may be cut short, so it continues until all is written. */
static int file_write_all(int fd, const char *data, size_t size)
{
    while (size > 0) {
        ssize_t written = write(fd, data, size);

        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return -errno;
        data += written;
        size -= (size_t)written;
    }
    return 0;
}

/* A rename is only safe from a crash once the directory itself has been written. */
static int sync_directory_of(const char *path)
{
    char copy[PATH_MAX];
    int fd;
    int result = 0;

    if ((size_t)snprintf(copy, sizeof(copy), "%s", path) >= sizeof(copy))
        return -ENAMETOOLONG;
    fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    /* Some file systems refuse fsync on directories; the rename itself has happened. */
    if (fsync(fd) < 0 && errno != EINVAL)
        result = -errno;
    close(fd);
    return result;
}

static int write_new(const char *path, const void *data, size_t size, mode_t mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    int result;

    if (fd < 0)
        return -errno;
    result = file_write_all(fd, data, size);
    if (result >= 0 && fsync(fd) < 0)
        result = -errno;
    if (close(fd) < 0 && result >= 0)
        result = -errno;
    if (result < 0)
        unlink(path);
    return result;
}

/* A terminal, a pipe or a name of the process's own output: nothing that could be replaced. */
static bool is_stream(const char *path)
{
    struct stat status;

    if (strncmp(path, "/dev/fd/", 8) == 0 || strcmp(path, "/dev/stdout") == 0 ||
        strcmp(path, "/dev/stderr") == 0)
        return true;
    return lstat(path, &status) == 0 && (S_ISCHR(status.st_mode) || S_ISFIFO(status.st_mode));
}

/* Writes to a named pipe while its reader reads. Another user may have put it there, so the wait is
 * bounded. */
static int write_pipe(int fd, const char *data, size_t size)
{
    while (size > 0) {
        struct pollfd polled = {.fd = fd, .events = POLLOUT};
        const ssize_t written = write(fd, data, size);

        if (written >= 0) {
            data += written;
            size -= (size_t)written;
        } else if (errno == EAGAIN) {
            if (poll(&polled, 1, PIPE_WAIT_MS) == 0)
                return -ETIMEDOUT;
        } else if (errno != EINTR) {
            return -errno;
        }
    }
    return 0;
}

static int write_stream(const char *path, const void *data, size_t size)
{
    struct stat status;
    const bool is_pipe = lstat(path, &status) == 0 && S_ISFIFO(status.st_mode);
    const int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY | (is_pipe ? O_NONBLOCK : 0));
    int result;

    if (fd < 0)
        return -errno;
    result = is_pipe ? write_pipe(fd, data, size) : file_write_all(fd, data, size);
    if (close(fd) < 0 && result >= 0)
        result = -errno;
    return result;
}

void lull_file_draw_name(char name_out[LULL_FILE_DRAWN])
{
    uint64_t drawn;

    /* Without random numbers, early in a boot, the name differs from others all the same. */
    if (getrandom(&drawn, sizeof(drawn), GRND_NONBLOCK) != (ssize_t)sizeof(drawn))
        drawn = (uint64_t)lull_now_ns() << 16 ^ (uint64_t)getpid();
    snprintf(name_out, LULL_FILE_DRAWN, "%016" PRIx64, drawn);
}

int lull_file_write_atomic(const char *path, const void *data, size_t size, mode_t mode,
                           struct lull_error *err)
{
    char temporary[PATH_MAX];
    char drawn[LULL_FILE_DRAWN];
    int result;

    if (is_stream(path)) {
        result = write_stream(path, data, size);
        if (result < 0)
            goto failed;
        return 0;
    }
    lull_file_draw_name(drawn);
    if ((size_t)snprintf(temporary, sizeof(temporary), "%s.new-%s", path, drawn) >=
        sizeof(temporary))
        return lull_error_set(err, -ENAMETOOLONG, "%s: the path is too long", path);
    result = write_new(temporary, data, size, mode);
    if (result < 0)
        goto failed;
    if (rename(temporary, path) < 0) {
        result = -errno;
        unlink(temporary);
        goto failed;
    }
    result = sync_directory_of(path);
    if (result < 0)
        goto failed;
    return 0;

failed:
    return lull_error_set(err, result, "%s: cannot write the file: %s", path, strerror(-result));
}

/* The text is made in memory first, so that an error while it is made leaves the old file
 * untouched. */
int lull_file_write_with(const char *path, int (*write)(const void *context, FILE *file),
                         const void *context, struct lull_error *err)
{
    char *text = NULL;
    size_t size = 0;
    FILE *const file = open_memstream(&text, &size);
    int result = -ENOMEM;

    if (file != NULL) {
        result = write(context, file);
        if (fclose(file) != 0)
            result = -ENOMEM;
    }
    if (result == 0)
        result = lull_file_write_atomic(path, text, size, 0644, err);
    else
        lull_error_set(err, result, "%s: not enough memory to write it", path);
    free(text);
    return result;
}

/* Opens a file whose path others may control: what is not a regular file, such as a pipe without a
 * writer, is refused without waiting for it. Returns the descriptor. */
static int open_regular(const char *path, struct stat *status_out, struct lull_error *err)
{
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    int result;

    if (fd < 0)
        return lull_error_set(err, -errno, "%s: cannot open: %s", path, strerror(errno));
    if (fstat(fd, status_out) == 0 && S_ISREG(status_out->st_mode))
        return fd;
    result = S_ISDIR(status_out->st_mode) ? -EISDIR : -EINVAL;
    close(fd);
    return lull_error_set(err, result, "%s: not a regular file; give one", path);
}

/* Reads the rest of a descriptor, and closes it. */
static int file_read_all(int fd, const char *path, size_t limit, char **data_out, size_t *size_out,
                         struct lull_error *err)
{
    char *data = NULL;
    size_t size = 0;
    size_t capacity = 0;
    int result = 0;

    for (;;) {
        ssize_t got;

        if (lull_array_reserve(&data, &capacity, size + 1, 1) < 0) {
            result = lull_error_set(err, -ENOMEM, "%s: no memory to read it", path);
            goto out;
        }
        got = read(fd, data + size, capacity - size - 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            result = lull_error_set(err, -errno, "%s: cannot read: %s", path, strerror(errno));
            goto out;
        }
        if (got == 0)
            break;
        size += (size_t)got;
        if (size > limit) {
            result = lull_error_set(err, -EFBIG, "%s: longer than %zu bytes", path, limit);
            goto out;
        }
    }
    data[size] = '\0';
    *data_out = data;
    *size_out = size;
    data = NULL;
out:
    free(data);
    close(fd);
    return result;
}

int lull_file_read(const char *path, size_t limit, char **data_out, size_t *size_out,
                   struct lull_error *err)
{
    struct stat status = {0};
    const int fd = open_regular(path, &status, err);

    return fd < 0 ? fd : file_read_all(fd, path, limit, data_out, size_out, err);
}

int lull_file_read_secret(const char *path, char *text_out, size_t size, struct lull_error *err)
{
    struct stat status = {0};
    const int fd = open_regular(path, &status, err);
    size_t length;
    char *data;
    int result;

    if (fd < 0)
        return fd;
    if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
        close(fd);
        return lull_error_set(err, -EPERM, "%s: others can read the secret in it; chmod 600 it",
                              path);
    }
    result = file_read_all(fd, path, size - 1, &data, &length, err);
    if (result < 0)
        return result;
    data[strcspn(data, "\r\n")] = '\0';
    snprintf(text_out, size, "%s", data);
    free(data);
    return 0;
}

bool lull_file_has_changed(const char *path, struct lull_file_stamp *stamp)
{
    struct stat now;

    if (stat(path, &now) < 0)
        return false;
    if (now.st_ino == stamp->file && now.st_size == stamp->size &&
        now.st_mtim.tv_sec == stamp->time.tv_sec && now.st_mtim.tv_nsec == stamp->time.tv_nsec)
        return false;
    *stamp = (struct lull_file_stamp){now.st_ino, now.st_mtim, now.st_size};
    return true;
}

int lull_file_make_directory(const char *path, mode_t mode, struct lull_error *err)
{
    char partial[PATH_MAX];

    if ((size_t)snprintf(partial, sizeof(partial), "%s", path) >= sizeof(partial))
        return lull_error_set(err, -ENAMETOOLONG, "%s: the path is too long", path);
    for (char *slash = partial + 1;; slash++) {
        if (*slash != '/' && *slash != '\0')
            continue;
        char kept = *slash;

        *slash = '\0';
        if (mkdir(partial, mode) < 0 && errno != EEXIST)
            return lull_error_set(err, -errno, "%s: cannot create the directory: %s", partial,
                                  strerror(errno));
        *slash = kept;
        if (kept == '\0')
            return 0;
    }
}

int lull_file_find_own(const char *build_path, const char *installed_name, char *path_out,
                       size_t size, struct lull_error *err)
{
    /* Programs of src/, then those of the other parts. */
    const struct {
        const char *below;
        const char *name;
    } places[] = {
        {"/../", build_path},
        {"/../src/", build_path},
        {"/../lib/lull/", installed_name},
        {"/", installed_name},
    };
    char self[PATH_MAX];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);

    if (length < 0)
        return lull_error_set(err, -errno,
                              "%s: not searched for, because /proc/self/exe cannot be read: %s; "
                              "mount /proc",
                              installed_name, strerror(errno));
    self[length] = '\0';
    const char *const directory = dirname(self);

    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
        if ((size_t)snprintf(path_out, size, "%s%s%s", directory, places[i].below, places[i].name) <
                size &&
            access(path_out, R_OK) == 0)
            return 0;
    return lull_error_set(err, -ENOENT, "%s: not found next to this program; reinstall Lull",
                          installed_name);
}

bool lull_file_is_node_emulated(void)
{
    const char *const node = getenv(LULL_EMULATED_NODE_VARIABLE);

    return node != NULL && *node != '\0';
}
