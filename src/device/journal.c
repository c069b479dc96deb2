/* A record is a fixed structure without padding, guarded by a magic number, a version and two
 * checksums: nothing is parsed, so a record is either whole or refused. The second checksum covers
 * the note of the last writing alone, which is renewed in place: the few bytes lie in one page, and
 * no signal ends a process in the middle of copying them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "device/journal.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/process.h"
#include "device/claim.h"

/* A keeper holds the lock while it restores, half a second for the read-back in it, and a process
 * that forks may hold it until its child's exec. */
static const int64_t lock_wait_ns = LULL_NS_PER_S;
static const int64_t lock_step_ns = 5 * LULL_NS_PER_MS;

static const char magic[8] = {'L', 'U', 'L', 'L', 'J', 'R', 'N', '\n'};

struct stored_record {
    char magic[8];
    uint32_t version;
    uint32_t size;
    char boot_id[LULL_BOOT_ID_BYTES];
    struct lull_journal_record record; /* without its note */
    uint64_t checksum;                 /* of all members before this one */
    struct stored_note {
        struct lull_journal_written written;
        uint64_t checksum;
    } note;
};

_Static_assert(sizeof(struct stored_record) == 8 + 4 + 4 + 40 + 288 + 8 + 88, "no padding");

struct lull_journal {
    int directory_fd;
    int deferred_fd;
    int lock_fd;
    pid_t owner; /* a fork of it shares the lock and is covered by its claim */
    struct lull_claim *claim;
    char boot_id[LULL_BOOT_ID_BYTES];
    char directory[PATH_MAX - 128];
};

/* FNV-1a: it finds damage. Forgery needs no defence, because no other process can write here. */
static uint64_t hash_of(const void *data, size_t size)
{
    const unsigned char *bytes = data;
    uint64_t hash = UINT64_C(14695981039346656037);

    for (size_t i = 0; i < size; i++) {
        hash ^= bytes[i];
        hash *= UINT64_C(1099511628211);
    }
    return hash;
}

static uint64_t checksum_of(const struct stored_record *stored)
{
    return hash_of(stored, offsetof(struct stored_record, checksum));
}

static struct stored_note note_of(const struct lull_journal_written *written)
{
    return (struct stored_note){.written = *written,
                                .checksum = hash_of(written, sizeof(*written))};
}

/* A UUID becomes a file name, so it may hold letters, digits and dashes only. */
static bool is_uuid(const char *uuid)
{
    size_t length = strnlen(uuid, sizeof(((struct lull_journal_record *)0)->uuid));

    if (length == 0 || length >= sizeof(((struct lull_journal_record *)0)->uuid))
        return false;
    for (size_t i = 0; i < length; i++)
        if (!isalnum((unsigned char)uuid[i]) && uuid[i] != '-')
            return false;
    return true;
}

static int check_uuid(const char *uuid, struct lull_error *err)
{
    if (is_uuid(uuid))
        return 0;
    return lull_error_set(err, -EINVAL,
                          "journal: the UUID of a GPU holds more than letters, digits and dashes");
}

static int journal_name_of(const char *uuid, char *name_out, size_t size, struct lull_error *err)
{
    const int result = check_uuid(uuid, err);

    if (result == 0)
        snprintf(name_out, size, "gpu-%s", uuid);
    return result;
}

/* A process that can write into the directory decides what is restored, so other users must not be
 * able to. */
static int check_directory(int fd, const char *path, struct lull_error *err)
{
    struct stat status;

    if (fstat(fd, &status) < 0)
        return lull_error_set(err, -errno, "%s: %s", path, strerror(errno));
    if (status.st_uid != geteuid() || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return lull_error_set(err, -EPERM,
                              "%s: must belong to uid %u and not be writable by others", path,
                              (unsigned int)geteuid());
    return 0;
}

static int journal_open_directory(const char *path, mode_t mode, struct lull_error *err)
{
    int result = lull_file_make_directory(path, mode, err);
    int fd;

    if (result < 0)
        return result;
    fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return lull_error_set(err, -errno, "%s: cannot open the directory: %s", path,
                              strerror(errno));
    result = check_directory(fd, path, err);
    if (result < 0) {
        close(fd);
        return result;
    }
    return fd;
}

static int take_lock(int directory_fd, const char *runtime_dir, struct lull_error *err)
{
    int fd = openat(directory_fd, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    const int64_t until_ns = lull_now_ns() + lock_wait_ns;

    if (fd < 0)
        return lull_error_set(err, -errno, "%s/lock: %s", runtime_dir, strerror(errno));
    while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        int result = errno == EWOULDBLOCK ? -EBUSY : -errno;

        if (result == -EBUSY && lull_now_ns() < until_ns) {
            lull_sleep_until_ns(lull_now_ns() + lock_step_ns);
            continue;
        }
        close(fd);
        return lull_error_set(
            err, result,
            result == -EBUSY
                ? "%s/lock: another lulld or `lull run --no-daemon` drives the "
                  "GPUs of this node; use it, or stop it first"
                : "%s/lock: the file system cannot lock it; name another --runtime-dir",
            runtime_dir);
    }
    return fd;
}

static int journal_open_all(struct lull_journal *journal, const char *runtime_dir, bool is_locking,
                            struct lull_error *err)
{
    char deferred[PATH_MAX];
    int runtime_fd = journal_open_directory(runtime_dir, 0755, err);

    if (runtime_fd < 0)
        return runtime_fd;
    if (is_locking)
        journal->lock_fd = take_lock(runtime_fd, runtime_dir, err);
    close(runtime_fd);
    if (is_locking && journal->lock_fd < 0)
        return journal->lock_fd;
    journal->directory_fd = journal_open_directory(journal->directory, 0700, err);
    if (journal->directory_fd < 0)
        return journal->directory_fd;
    snprintf(deferred, sizeof(deferred), "%s/unconfirmed", runtime_dir);
    journal->deferred_fd = journal_open_directory(deferred, 0700, err);
    if (journal->deferred_fd < 0)
        return journal->deferred_fd;
    if (lull_boot_id(journal->boot_id) < 0)
        return lull_error_set(err, -EIO, "/proc/sys/kernel/random/boot_id: cannot read");
    return 0;
}

static int journal_open(const char *runtime_dir, bool is_locking, struct lull_journal **journal_out,
                        struct lull_error *err)
{
    struct lull_journal *journal = calloc(1, sizeof(*journal));
    int result;

    if (journal == NULL)
        return lull_error_set(err, -ENOMEM, "not enough memory for the journal");
    journal->directory_fd = -1;
    journal->deferred_fd = -1;
    journal->lock_fd = -1;
    journal->owner = getpid();
    if ((size_t)snprintf(journal->directory, sizeof(journal->directory), "%s/saved", runtime_dir) >=
        sizeof(journal->directory))
        result = lull_error_set(err, -ENAMETOOLONG, "%s: the path is too long", runtime_dir);
    else
        result = journal_open_all(journal, runtime_dir, is_locking, err);
    if (result < 0) {
        lull_journal_close(journal);
        return result;
    }
    *journal_out = journal;
    return 0;
}

int lull_journal_open(const char *runtime_dir, struct lull_journal **journal_out,
                      struct lull_error *err)
{
    return journal_open(runtime_dir, true, journal_out, err);
}

int lull_journal_open_unlocked(const char *runtime_dir, struct lull_journal **journal_out,
                               struct lull_error *err)
{
    return journal_open(runtime_dir, false, journal_out, err);
}

void lull_journal_close(struct lull_journal *journal)
{
    if (journal == NULL)
        return;
    lull_claim_release(journal->claim);
    if (journal->directory_fd >= 0)
        close(journal->directory_fd);
    if (journal->deferred_fd >= 0)
        close(journal->deferred_fd);
    if (journal->lock_fd >= 0)
        close(journal->lock_fd);
    free(journal);
}

int lull_journal_save(struct lull_journal *journal, const struct lull_journal_record *record,
                      struct lull_error *err)
{
    struct stored_record stored = {.version = LULL_JOURNAL_VERSION,
                                   .size = sizeof(stored),
                                   .record = *record,
                                   .note = note_of(&record->written)};
    char name[128];
    char path[PATH_MAX];
    int result = journal_name_of(record->uuid, name, sizeof(name), err);

    if (result < 0)
        return result;
    memcpy(stored.magic, magic, sizeof(magic));
    memcpy(stored.boot_id, journal->boot_id, sizeof(stored.boot_id));
    stored.record.written = (struct lull_journal_written){0};
    stored.checksum = checksum_of(&stored);
    snprintf(path, sizeof(path), "%s/%s", journal->directory, name);
    return lull_file_write_atomic(path, &stored, sizeof(stored), 0600, err);
}

/* Returns whether an open file is still what its name leads to: the keeper may have removed it, and
 * saving replaces it. */
static bool journal_is_named(int fd)
{
    struct stat status;

    return fstat(fd, &status) == 0 && status.st_nlink > 0;
}

void lull_journal_forget_file(int *file)
{
    if (*file >= 0)
        close(*file);
    *file = -1;
}

static int open_record(struct lull_journal *journal, const char *uuid, int *file,
                       struct lull_error *err)
{
    char name[128];
    const int result = journal_name_of(uuid, name, sizeof(name), err);

    if (result < 0)
        return result;
    *file = openat(journal->directory_fd, name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    return *file < 0 ? lull_error_set(err, -errno, "journal %s: %s", name, strerror(errno)) : 0;
}

/* Each lowering waits for this, so nothing is formatted where the file is open. */
int lull_journal_note(struct lull_journal *journal, const char *uuid, int *file,
                      const struct lull_journal_written *written, struct lull_error *err)
{
    const struct stored_note note = note_of(written);
    int result = check_uuid(uuid, err);

    if (result < 0)
        return result;
    if (*file >= 0 && !journal_is_named(*file))
        lull_journal_forget_file(file);
    if (*file < 0)
        result = open_record(journal, uuid, file, err);
    if (result < 0)
        return result;
    errno = EIO; /* for a note that is written in part */
    if (pwrite(*file, &note, sizeof(note), offsetof(struct stored_record, note)) == sizeof(note))
        return 0;
    result = lull_error_set(err, -errno, "journal gpu-%s: cannot note what is written: %s", uuid,
                            strerror(errno));
    lull_journal_forget_file(file);
    return result;
}

/* Reads exactly the bytes of a record from a regular file, never through a link and never blocking
 * on a pipe: others may have put something else there. */
static int read_stored(int directory_fd, const char *name, struct stored_record *stored_out,
                       struct lull_error *err)
{
    int fd = openat(directory_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat status;
    int result = 0;

    if (fd < 0)
        return lull_error_set(err, -errno, "journal %s: %s", name, strerror(errno));
    if (fstat(fd, &status) < 0)
        result = lull_error_set(err, -errno, "journal %s: %s", name, strerror(errno));
    else if (!S_ISREG(status.st_mode) || status.st_size != (off_t)sizeof(*stored_out) ||
             read(fd, stored_out, sizeof(*stored_out)) != (ssize_t)sizeof(*stored_out))
        result = lull_error_set(err, LULL_E_FORMAT, "journal %s: not of the expected size", name);
    close(fd);
    return result;
}

static bool is_intact(const struct stored_record *stored)
{
    return memcmp(stored->magic, magic, sizeof(magic)) == 0 &&
           stored->version == LULL_JOURNAL_VERSION && stored->size == sizeof(*stored) &&
           stored->checksum == checksum_of(stored) &&
           stored->note.checksum == hash_of(&stored->note.written, sizeof(stored->note.written));
}

static int load_from(const struct lull_journal *journal, int directory_fd, const char *uuid,
                     struct lull_journal_record *record_out, struct lull_error *err)
{
    struct stored_record stored;
    char name[128];
    int result = journal_name_of(uuid, name, sizeof(name), err);

    if (result == 0)
        result = read_stored(directory_fd, name, &stored, err);
    if (result < 0)
        return result;
    if (!is_intact(&stored) || strncmp(stored.record.uuid, uuid, sizeof(stored.record.uuid)) != 0)
        return lull_error_set(err, LULL_E_FORMAT, "journal %s: damaged or of another version",
                              name);
    /* A boot has put the driver back to its defaults, so what was saved before must not be
     * restored. */
    if (memcmp(stored.boot_id, journal->boot_id, sizeof(stored.boot_id)) != 0)
        return lull_error_set(err, LULL_E_STALE, "journal %s: written before the last boot", name);
    stored.record.driver_version[sizeof(stored.record.driver_version) - 1] = '\0';
    *record_out = stored.record;
    record_out->written = stored.note.written;
    return 0;
}

int lull_journal_load(struct lull_journal *journal, const char *uuid,
                      struct lull_journal_record *record_out, struct lull_error *err)
{
    return load_from(journal, journal->directory_fd, uuid, record_out, err);
}

int lull_journal_load_deferred(struct lull_journal *journal, const char *uuid,
                               struct lull_journal_record *record_out, struct lull_error *err)
{
    return load_from(journal, journal->deferred_fd, uuid, record_out, err);
}

static int remove_from(int directory_fd, const char *uuid, struct lull_error *err)
{
    char name[128];
    int result = journal_name_of(uuid, name, sizeof(name), err);

    if (result < 0)
        return result;
    /* A record that is not there any more was removed by an earlier attempt. */
    if (unlinkat(directory_fd, name, 0) < 0 && errno != ENOENT)
        return lull_error_set(err, -errno, "journal %s: cannot remove: %s", name, strerror(errno));
    return 0;
}

int lull_journal_remove(struct lull_journal *journal, const char *uuid, struct lull_error *err)
{
    return remove_from(journal->directory_fd, uuid, err);
}

int lull_journal_remove_deferred(struct lull_journal *journal, const char *uuid,
                                 struct lull_error *err)
{
    return remove_from(journal->deferred_fd, uuid, err);
}

int lull_journal_defer(struct lull_journal *journal, const char *uuid, struct lull_error *err)
{
    char name[128];
    int result = journal_name_of(uuid, name, sizeof(name), err);

    /* An older record there is of the same GPU and says less than this one. */
    if (result == 0 && renameat(journal->directory_fd, name, journal->deferred_fd, name) < 0)
        result = lull_error_set(err, -errno, "journal %s: cannot defer: %s", name, strerror(errno));
    return result;
}

int lull_journal_resume(struct lull_journal *journal, const char *uuid, struct lull_error *err)
{
    char name[128];
    int result = journal_name_of(uuid, name, sizeof(name), err);

    if (result == 0 &&
        renameat2(journal->deferred_fd, name, journal->directory_fd, name, RENAME_NOREPLACE) < 0)
        result =
            lull_error_set(err, -errno, "journal %s: cannot resume: %s", name, strerror(errno));
    return result;
}

int lull_journal_set_aside(struct lull_journal *journal, const char *uuid, struct lull_error *err)
{
    char name[128];
    char aside[136];
    struct stat status;
    int result = journal_name_of(uuid, name, sizeof(name), err);

    if (result < 0)
        return result;
    if (fstatat(journal->directory_fd, name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
        !S_ISREG(status.st_mode))
        return lull_error_set(err, -EINVAL, "journal %s: not a regular file; remove it", name);
    snprintf(aside, sizeof(aside), "%s.aside", name);
    result = renameat2(journal->directory_fd, name, journal->directory_fd, aside, RENAME_NOREPLACE);
    for (int number = 2; number < 100 && result < 0 && errno == EEXIST; number++) {
        snprintf(aside, sizeof(aside), "%s.aside%d", name, number);
        result =
            renameat2(journal->directory_fd, name, journal->directory_fd, aside, RENAME_NOREPLACE);
    }
    if (result < 0)
        return lull_error_set(err, -errno, "journal %s: cannot set aside: %s", name,
                              strerror(errno));
    return 0;
}

int lull_journal_list(struct lull_journal *journal, char (*uuids_out)[96], int limit,
                      struct lull_error *err)
{
    DIR *directory = opendir(journal->directory);
    struct dirent *entry;
    int count = 0;

    if (directory == NULL)
        return lull_error_set(err, -errno, "%s: %s", journal->directory, strerror(errno));
    while ((entry = readdir(directory)) != NULL) {
        if (strncmp(entry->d_name, "gpu-", 4) != 0 || !is_uuid(entry->d_name + 4)) {
            /* Files that are half written or set aside have a dot in their names, which no UUID
             * has. */
            if (strchr(entry->d_name, '.') == NULL)
                lull_log(LULL_LOG_WARNING, "journal", "%s/%.80s: not a record of Lull; ignored",
                         journal->directory, entry->d_name);
            continue;
        }
        if (count < limit)
            snprintf(uuids_out[count], sizeof(uuids_out[count]), "%.95s", entry->d_name + 4);
        count++;
    }
    closedir(directory);
    return count;
}

int lull_journal_claim(struct lull_journal *journal, const struct lull_devices *devices,
                       struct lull_error *err)
{
    if (journal->claim != NULL || journal->owner != getpid() || journal->lock_fd < 0)
        return 0;
    return lull_claim_take(devices, &journal->claim, err);
}
