/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/slurm/schedule/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/file.h"

enum { MAX_BYTES = 8 << 20, MAX_READ = 2 * MAX_BYTES, PATH_BYTES = 512 };

static int decision_log_name_file(const char *directory, const char *partition, const char *suffix,
                                  char path_out[PATH_BYTES], struct lull_error *err)
{
    if (strchr(partition, '/') != NULL ||
        (size_t)snprintf(path_out, PATH_BYTES, "%s/schedule-%s.jsonl%s", directory, partition,
                         suffix) >= PATH_BYTES)
        return lull_error_set(err, -ENAMETOOLONG, "no journal can be named %.64s in %.128s",
                              partition, directory);
    return 0;
}

static int decision_log_open_file(struct lull_schedule_journal *journal, struct lull_error *err)
{
    journal->fd =
        open(journal->path,
             O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0644);
    if (journal->fd < 0)
        return lull_error_set(err, -errno, "%s: %s", journal->path, strerror(errno));
    if (flock(journal->fd, LOCK_EX | LOCK_NB) == 0)
        return 0;
    close(journal->fd);
    journal->fd = -1;
    return lull_error_set(err, -EBUSY,
                          "%s: another lull-schedule works for this partition; stop it first",
                          journal->path);
}

int lull_schedule_journal_open(const char *directory, const char *partition,
                               struct lull_schedule_journal *journal_out, struct lull_error *err)
{
    int rc = lull_file_make_directory(directory, 0755, err);

    if (rc == 0)
        rc = decision_log_name_file(directory, partition, "", journal_out->path, err);
    if (rc < 0)
        return rc;
    return decision_log_open_file(journal_out, err);
}

void lull_schedule_journal_close(struct lull_schedule_journal *journal)
{
    if (journal->fd >= 0)
        close(journal->fd);
    journal->fd = -1;
}

/* Puts a file that has grown too long aside. */
static int decision_log_rotate(struct lull_schedule_journal *journal, struct lull_error *err)
{
    char aside[PATH_BYTES + 2];
    struct stat status;

    if (fstat(journal->fd, &status) < 0 || status.st_size < MAX_BYTES)
        return 0;
    snprintf(aside, sizeof(aside), "%s.1", journal->path);
    if (rename(journal->path, aside) < 0)
        return lull_error_set(err, -errno, "%s: %s", aside, strerror(errno));
    lull_schedule_journal_close(journal);
    return decision_log_open_file(journal, err);
}

/* Returns whether the last line has no end: a full disk or a death has cut it. */
static bool is_torn(int fd, off_t size)
{
    char last;

    return size > 0 && (pread(fd, &last, 1, size - 1) != 1 || last != '\n');
}

/* Appends a line with one call of write(). A line that is cut is removed, and where that fails, the
 * next one begins on a line of its own. Errors: -errno. */
static int append_line(int fd, const char *text, size_t length)
{
    struct stat before;
    char newline[] = "\n";
    struct iovec parts[] = {{newline, 1}, {(char *)(uintptr_t)text, length}, {newline, 1}};
    ssize_t written;
    int first, result;

    if (fstat(fd, &before) < 0)
        return -errno;
    first = is_torn(fd, before.st_size) ? 0 : 1;
    written = writev(fd, &parts[first], 3 - first);
    if (written == (ssize_t)length + 2 - first)
        return 0;
    result = written < 0 ? -errno : -ENOSPC;
    if (written > 0 && ftruncate(fd, before.st_size) < 0)
        return result; /* is_torn() finds it */
    return result;
}

int lull_schedule_journal_add(struct lull_schedule_journal *journal, const json_t *document,
                              struct lull_error *err)
{
    char *const text = json_dumps(document, JSON_COMPACT | JSON_REAL_PRECISION(15));
    int result;

    if (text == NULL)
        return lull_error_set(err, -ENOMEM, "not enough memory for a line of the journal");
    result = append_line(journal->fd, text, strlen(text));
    free(text);
    if (result < 0)
        return lull_error_set(err, result, "%s: %s", journal->path, strerror(-result));
    return decision_log_rotate(journal, err);
}

/* ---- looking back -------------------------------------------------------------------------- */

static json_t *find_line(char *text, uint32_t id)
{
    json_t *found = NULL;
    char *rest = NULL;

    for (const char *line = strtok_r(text, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        json_t *const document = json_loads(line, 0, NULL);

        if (json_integer_value(json_object_get(document, "job")) != (json_int_t)id) {
            json_decref(document);
            continue;
        }
        json_decref(found);
        found = document;
    }
    return found;
}

static int find_in(const char *path, uint32_t id, json_t **document_out, struct lull_error *err)
{
    char *text;
    size_t size;
    const int rc = lull_file_read(path, MAX_READ, &text, &size, err);

    if (rc < 0)
        return rc == -ENOENT ? 0 : rc;
    *document_out = find_line(text, id);
    free(text);
    return 0;
}

int lull_schedule_journal_find(const char *directory, const char *partition, uint32_t id,
                               json_t **document_out, struct lull_error *err)
{
    static const char *const suffixes[] = {"", ".1"};

    *document_out = NULL;
    for (size_t i = 0; i < 2 && *document_out == NULL; i++) {
        char path[PATH_BYTES];
        int rc = decision_log_name_file(directory, partition, suffixes[i], path, err);

        if (rc == 0)
            rc = find_in(path, id, document_out, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* Returns the beginning of the last `most` lines of a text, or of all lines if there are fewer. */
static char *last_lines(char *text, size_t size, size_t most)
{
    size_t at = size > 0 && text[size - 1] == '\n' ? size - 1 : size;

    for (; at > 0; at--)
        if (text[at - 1] == '\n' && --most == 0)
            return &text[at];
    return text;
}

static int take_lines(char *text, int (*take)(void *user, const json_t *document), void *user)
{
    char *rest = NULL;
    int rc = 0;

    for (const char *line = strtok_r(text, "\n", &rest); rc >= 0 && line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        json_t *const document = json_loads(line, 0, NULL);

        if (document != NULL)
            rc = take(user, document);
        json_decref(document);
    }
    return rc < 0 ? rc : 0;
}

int lull_schedule_journal_recent(const char *directory, const char *partition, size_t most,
                                 int (*take)(void *user, const json_t *document), void *user,
                                 struct lull_error *err)
{
    static const char *const suffixes[] = {".1", ""};

    for (size_t i = 0; i < 2; i++) {
        char path[PATH_BYTES];
        char *text;
        size_t size;
        int rc = decision_log_name_file(directory, partition, suffixes[i], path, err);

        if (rc < 0)
            return rc;
        rc = lull_file_read(path, MAX_READ, &text, &size, err);
        if (rc == -ENOENT)
            continue;
        if (rc < 0)
            return rc;
        rc = take_lines(last_lines(text, size, most), take, user);
        free(text);
        if (rc < 0)
            return lull_error_set(err, rc, "not enough memory for the journal %s", path);
    }
    return 0;
}
