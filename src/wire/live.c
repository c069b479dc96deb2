/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/live.h"

#include <errno.h>
#include <fcntl.h>
#include <dirent.h>
#include <endian.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/mapping.h"
#include "wire/job_file.h"

#define MAGIC UINT64_C(0x4556494c4c554c31)

enum {
    FORMAT_VERSION = 2,
    READ_TRIES = 100, /* a write takes some 30 us, five times a second */
    RUN_WORDS = sizeof(struct lull_live_run) / sizeof(uint64_t),
};

/* The file as it lies in memory. The state is between two values of the sequence: odd while it is
 * being written. */
struct live_memory {
    _Atomic uint64_t magic; /* written last, once the file is locked and holds a state */
    uint32_t version;
    uint32_t run_bytes;
    _Atomic uint64_t sequence;
    _Atomic uint32_t asked; /* the one word that others write */
    _Alignas(64) _Atomic uint64_t words[RUN_WORDS];
};

/* The fields that readers check before they copy a state. */
struct live_header {
    uint64_t magic;
    uint32_t version;
    uint32_t run_bytes;
};

_Static_assert(sizeof(struct lull_live_run) == RUN_WORDS * sizeof(uint64_t), "whole words");
_Static_assert(sizeof(struct live_header) == offsetof(struct live_memory, sequence), "the same");
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2, "shared by processes");

struct lull_live_writer {
    struct live_memory *memory;
    int fd;    /* keeps the file locked */
    int guard; /* of the mapping (base/mapping.h) */
    char path[LULL_LIVE_PATH_BYTES];
};

/* ---- words ------------------------------------------------------------------------------- */

static const char *word_of(const char *const *words, uint32_t count, uint32_t value)
{
    return value < count ? words[value] : "?";
}

const char *lull_live_unknown_text(uint32_t unknown)
{
    static const char *const words[LULL_LIVE_UNKNOWN_COUNT] = {
        [LULL_LIVE_KNOWN] = "known",
        [LULL_LIVE_TOO_EARLY] = "not measured yet",
        [LULL_LIVE_NOT_READ] = "not read, because no rank uses the GPU",
        [LULL_LIVE_NO_SENSOR] = "the driver does not report it",
        [LULL_LIVE_LOST] = "the driver has lost the GPU",
        [LULL_LIVE_HANGS] = "the driver does not return",
        [LULL_LIVE_NOT_LEASED] = "the GPU is not leased",
        [LULL_LIVE_NOTHING_LOW] = "nothing is lowered",
        [LULL_LIVE_NOT_SOUGHT] = "the run only observes, or a plan or a power limit is in control",
        [LULL_LIVE_TOO_SHORT] = "the sections are shorter than the sensor's averaging time",
        [LULL_LIVE_NO_METRIC] = "the server's metrics do not contain it",
        [LULL_LIVE_NO_METRICS] = "the server's metrics are not read",
        [LULL_LIVE_NO_REQUEST] = "no request has finished",
        [LULL_LIVE_NO_BOUND] = "no objective was set",
    };

    return word_of(words, LULL_LIVE_UNKNOWN_COUNT, unknown);
}

const char *lull_live_section_text(uint32_t section)
{
    static const char *const words[LULL_LIVE_SECTION_COUNT] = {
        [LULL_LIVE_NO_SECTION] = "none",
        [LULL_LIVE_COMPUTATION] = "computation",
        [LULL_LIVE_COMMUNICATION] = "communication",
        [LULL_LIVE_FORWARD] = "forward",
        [LULL_LIVE_BACKWARD] = "backward",
        [LULL_LIVE_BUBBLE] = "bubble",
        [LULL_LIVE_IDLE] = "idle",
        [LULL_LIVE_USER] = "user",
        [LULL_LIVE_GAP] = "gap",
    };

    return word_of(words, LULL_LIVE_SECTION_COUNT, section);
}

const char *lull_live_state_text(uint32_t state)
{
    static const char *const words[LULL_LIVE_STATE_COUNT] = {
        [LULL_LIVE_UNUSED] = "unused",
        [LULL_LIVE_MANAGED] = "managed",
        [LULL_LIVE_LEFT_ALONE] = "left alone",
        [LULL_LIVE_OBSERVED] = "observed",
    };

    return word_of(words, LULL_LIVE_STATE_COUNT, state);
}

const char *lull_live_verdict_text(uint32_t verdict)
{
    static const char *const words[LULL_LIVE_VERDICT_COUNT] = {
        [LULL_LIVE_NO_VERDICT] = "none yet",
        [LULL_LIVE_UNDECIDED] = "undecided",
        [LULL_LIVE_PROVEN] = "not degraded",
        [LULL_LIVE_NOTHING_KEPT] = "nothing kept",
    };

    return word_of(words, LULL_LIVE_VERDICT_COUNT, verdict);
}

const char *lull_live_ruler_text(uint32_t ruler)
{
    static const char *const words[LULL_LIVE_RULER_COUNT] = {
        [LULL_LIVE_BY_NONE] = "nobody",
        [LULL_LIVE_BY_SECTION] = "sections",
        [LULL_LIVE_BY_PLAN] = "plan",
        [LULL_LIVE_BY_LIMIT] = "power limit",
        [LULL_LIVE_BY_OBJECTIVE] = "latency objective",
        [LULL_LIVE_BY_IDLENESS] = "idle time",
    };

    return word_of(words, LULL_LIVE_RULER_COUNT, ruler);
}

const char *lull_live_mode_text(uint32_t mode)
{
    static const char *const words[LULL_LIVE_MODE_COUNT] = {
        [LULL_LIVE_MODE_NONE] = "none",         [LULL_LIVE_MODE_BLIND] = "blind",
        [LULL_LIVE_MODE_LEARNING] = "learning", [LULL_LIVE_MODE_TESTING] = "testing",
        [LULL_LIVE_MODE_PROVEN] = "proven",     [LULL_LIVE_MODE_RAISED] = "raised",
        [LULL_LIVE_MODE_IDLE] = "parked",       [LULL_LIVE_MODE_WORKING] = "working",
    };

    return word_of(words, LULL_LIVE_MODE_COUNT, mode);
}

void lull_live_objective_text(const struct lull_live_serving *serving, char *text, size_t size)
{
    const struct {
        const char *name;
        double ms;
    } bounds[] = {{"TTFT", serving->ttft_bound_ms.value}, {"TPOT", serving->tpot_bound_ms.value}};
    int length = 0;

    text[0] = '\0';
    for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++)
        if (isfinite(bounds[i].ms) && (size_t)length < size)
            length += snprintf(text + length, size - (size_t)length, "%s %.4g ms, ", bounds[i].name,
                               bounds[i].ms);
    if (length > 0 && (size_t)length < size)
        snprintf(text + length, size - (size_t)length, "p%.4g", 100.0 * serving->share_ratio.value);
}

struct lull_live_figure lull_live_figure(double value, enum lull_live_unknown otherwise)
{
    if (isfinite(value))
        return (struct lull_live_figure){.value = value, .unknown = LULL_LIVE_KNOWN};
    return (struct lull_live_figure){.value = (double)NAN, .unknown = otherwise};
}

/* ---- the writer -------------------------------------------------------------------------- */

static int map_memory(int fd, struct live_memory **memory_out)
{
    void *memory =
        mmap(NULL, sizeof(struct live_memory), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (memory == MAP_FAILED)
        return -errno;
    *memory_out = memory;
    return 0;
}

/* All of the file's memory is allocated at once. A later write
 * without memory would end the process with SIGBUS. */
static int live_create_file(struct lull_live_writer *writer)
{
    int result = 0;

    writer->fd = open(writer->path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (writer->fd < 0)
        return -errno;
    if (flock(writer->fd, LOCK_EX | LOCK_NB) < 0 ||
        ftruncate(writer->fd, sizeof(struct live_memory)) < 0 ||
        fallocate(writer->fd, 0, 0, sizeof(struct live_memory)) < 0)
        result = -errno;
    if (result == 0)
        result = map_memory(writer->fd, &writer->memory);
    if (result == 0)
        return 0;
    unlink(writer->path);
    close(writer->fd);
    return result;
}

int lull_live_writer_create(const char *directory, const char *pass,
                            struct lull_live_writer **writer_out, struct lull_error *err)
{
    struct lull_live_writer *writer = calloc(1, sizeof(*writer));
    int result;

    if (writer == NULL)
        return lull_error_set(err, -ENOMEM, "no memory for the run's live state");
    lull_job_file_path(directory, LULL_JOB_FILE_LIVE, pass, writer->path, sizeof(writer->path));
    result = live_create_file(writer);
    if (result < 0) {
        lull_error_set(err, result, "%s: cannot publish the run's live state for lull top: %s",
                       writer->path, strerror(-result));
        free(writer);
        return result;
    }
    writer->guard = lull_mapping_guard(writer->memory, sizeof(*writer->memory));
    writer->memory->version = FORMAT_VERSION;
    writer->memory->run_bytes = sizeof(struct lull_live_run);
    *writer_out = writer;
    return 0;
}

/* An access control list as the kernel takes it: version 2, then entries of tag, permissions and
 * number, little-endian. A list can name a group that the process is not a member of; chown()
 * cannot. */
int lull_live_writer_share(struct lull_live_writer *writer, gid_t group, struct lull_error *err)
{
    enum { USER_OBJ = 1, GROUP_OBJ = 4, GROUP = 8, MASK = 16, OTHER = 32, READ = 4, WRITE = 2 };
    const struct {
        uint16_t tag, permissions;
        uint32_t number;
    } entries[] = {
        {htole16(USER_OBJ), htole16(READ | WRITE), UINT32_MAX},
        {htole16(GROUP_OBJ), 0, UINT32_MAX},
        {htole16(GROUP), htole16(READ), htole32(group)},
        {htole16(MASK), htole16(READ), UINT32_MAX},
        {htole16(OTHER), 0, UINT32_MAX},
    };
    const uint32_t version = htole32(2);
    char list[sizeof(version) + sizeof(entries)];

    memcpy(list, &version, sizeof(version));
    memcpy(list + sizeof(version), entries, sizeof(entries));
    if (fsetxattr(writer->fd, "system.posix_acl_access", list, sizeof(list), 0) == 0)
        return 0;
    return lull_error_set(err, -errno,
                          "%s: viewers of other users' runs cannot see this one: no access control "
                          "list can be set: %s",
                          writer->path, strerror(errno));
}

void lull_live_writer_destroy(struct lull_live_writer *writer)
{
    if (writer == NULL)
        return;
    lull_mapping_release(writer->guard);
    munmap(writer->memory, sizeof(*writer->memory));
    unlink(writer->path);
    close(writer->fd);
    free(writer);
}

/* Returns how many words of a state are in use. */
static size_t live_words_of(uint32_t gpu_count)
{
    const size_t bytes =
        offsetof(struct lull_live_run, gpus) + gpu_count * sizeof(struct lull_live_gpu);

    return (bytes + sizeof(uint64_t) - 1) / sizeof(uint64_t);
}

void lull_live_write(struct lull_live_writer *writer, const struct lull_live_run *run)
{
    struct live_memory *memory = writer->memory;
    const uint64_t sequence = atomic_load_explicit(&memory->sequence, memory_order_relaxed);
    const size_t words =
        live_words_of(run->gpu_count <= LULL_LIVE_MAX_GPUS ? run->gpu_count : LULL_LIVE_MAX_GPUS);

    atomic_store_explicit(&memory->sequence, sequence + 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    for (size_t i = 0; i < words; i++) {
        uint64_t word;

        memcpy(&word, (const char *)run + i * sizeof(word), sizeof(word));
        atomic_store_explicit(&memory->words[i], word, memory_order_relaxed);
    }
    atomic_store_explicit(&memory->sequence, sequence + 2, memory_order_release);
    atomic_store_explicit(&memory->magic, MAGIC, memory_order_release);
}

enum lull_live_asked lull_live_asked(const struct lull_live_writer *writer)
{
    return atomic_load_explicit(&writer->memory->asked, memory_order_relaxed) == LULL_LIVE_PAUSE
               ? LULL_LIVE_PAUSE
               : LULL_LIVE_GO_ON;
}

/* ---- readers: they use read(), because a file that another user cuts must not end them ------ */

static int read_at(int fd, void *to, size_t size, size_t offset)
{
    const ssize_t got = pread(fd, to, size, (off_t)offset);

    if (got < 0)
        return -errno;
    return (size_t)got == size ? 0 : LULL_E_FORMAT;
}

/* Opens a run's file. Errors: as lull_live_read. */
static int live_open_file(int directory_fd, const char *file, int flags)
{
    int fd = openat(directory_fd, file, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct live_header header;
    struct stat status;
    int result;

    if (fd < 0)
        return errno == ENOENT ? -ESRCH : -errno;
    result = fstat(fd, &status) < 0 ? -errno : 0;
    if (result == 0 && !S_ISREG(status.st_mode))
        result = LULL_E_FORMAT;
    if (result == 0)
        result = read_at(fd, &header, sizeof(header), 0);
    if (result == 0 && header.magic != MAGIC)
        result = LULL_E_FORMAT;
    if (result == 0 &&
        (header.version != FORMAT_VERSION || header.run_bytes != sizeof(struct lull_live_run)))
        result = -EPROTONOSUPPORT;
    /* Its governor locks it before it writes the magic number. */
    if (result == 0 && flock(fd, LOCK_SH | LOCK_NB) == 0)
        result = -ESRCH;
    if (result == 0)
        return fd;
    close(fd);
    return result;
}

static int live_open_directory(const char *directory)
{
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    return fd < 0 ? -errno : fd;
}

static int live_compare_entries(const void *a, const void *b)
{
    return strcmp(((const struct lull_live_entry *)a)->file,
                  ((const struct lull_live_entry *)b)->file);
}

static bool live_inspect(int directory_fd, const char *file, struct lull_live_entry *entry_out)
{
    struct stat status;
    const int fd = live_open_file(directory_fd, file, O_RDONLY);

    if (fd < 0)
        return false;
    *entry_out = (struct lull_live_entry){.user = fstat(fd, &status) == 0 ? status.st_uid : 0};
    memcpy(entry_out->file, file, strlen(file));
    close(fd);
    return true;
}

static uint32_t count_of(const struct lull_live_entry *entries, uint32_t count, uid_t user)
{
    uint32_t own = 0;

    for (uint32_t i = 0; i < count; i++)
        own += entries[i].user == user;
    return own;
}

/* Finds the place for a user's entry: after the others or, in a full list, that of the last
 * entry of the user with the most, who must have at least two more. False: there is no place. */
static bool live_find_place(const struct lull_live_entry *entries, uint32_t count, uint32_t most,
                            uid_t user, uint32_t *place_out)
{
    uint32_t greatest = 0;

    *place_out = count;
    if (count < most)
        return true;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t theirs = count_of(entries, count, entries[i].user);

        if (theirs >= greatest) {
            greatest = theirs;
            *place_out = i;
        }
    }
    return greatest >= count_of(entries, count, user) + 2;
}

uint32_t lull_live_list(const char *directory, struct lull_live_entry *entries_out, uint32_t most)
{
    DIR *const names = opendir(directory);
    const struct dirent *name;
    uint32_t count = 0;

    if (names == NULL)
        return 0;
    while ((name = readdir(names)) != NULL) {
        struct lull_live_entry entry;
        struct stat status;
        uint32_t place;

        if (strlen(name->d_name) >= sizeof(entry.file) ||
            !lull_job_file_is(name->d_name, LULL_JOB_FILE_LIVE) ||
            fstatat(dirfd(names), name->d_name, &status, AT_SYMLINK_NOFOLLOW) < 0 ||
            !live_find_place(entries_out, count, most, status.st_uid, &place) ||
            !live_inspect(dirfd(names), name->d_name, &entry) || entry.user != status.st_uid)
            continue;
        entries_out[place] = entry;
        count += place == count;
    }
    closedir(names);
    qsort(entries_out, count, sizeof(*entries_out), live_compare_entries);
    return count;
}

/* Copies the used part of the state, without a check that one write left it. */
static int copy_run(int fd, struct lull_live_run *run_out)
{
    const size_t from = offsetof(struct live_memory, words);
    const size_t head = offsetof(struct lull_live_run, gpus);
    int result = read_at(fd, run_out, head, from);

    if (result < 0)
        return result;
    if (run_out->gpu_count > LULL_LIVE_MAX_GPUS)
        return LULL_E_FORMAT;
    return read_at(fd, run_out->gpus, run_out->gpu_count * sizeof(run_out->gpus[0]), from + head);
}

static int read_once(int fd, struct lull_live_run *run_out)
{
    const size_t at = offsetof(struct live_memory, sequence);
    uint64_t before;
    uint64_t after;
    int result = read_at(fd, &before, sizeof(before), at);

    if (result < 0)
        return result;
    atomic_thread_fence(memory_order_acquire);
    result = copy_run(fd, run_out);
    atomic_thread_fence(memory_order_acquire);
    if (read_at(fd, &after, sizeof(after), at) < 0 || before % 2 != 0 || after != before)
        return -EAGAIN;
    return result;
}

static int live_describe_error(struct lull_error *err, int code, const char *directory,
                               const char *file)
{
    switch (code) {
    case -ESRCH:
        return lull_error_set(err, code, "%s: the run has ended", file);
    case -EAGAIN:
        return lull_error_set(err, code, "%s/%s: it changes too fast to be read; try again",
                              directory, file);
    case -EPROTONOSUPPORT:
        return lull_error_set(err, code, "%s/%s: it is of another version of Lull", directory,
                              file);
    case LULL_E_FORMAT:
        return lull_error_set(err, code, "%s/%s: not the live state of a run", directory, file);
    case -EACCES:
    case -EPERM:
        return lull_error_set(err, code, "%s/%s: it is another user's run", directory, file);
    default:
        return lull_error_set(err, code, "%s/%s: %s", directory, file, strerror(-code));
    }
}

/* Opens a file of a directory by its name. */
static int open_in(const char *directory, const char *file, int flags)
{
    const int directory_fd = live_open_directory(directory);
    int fd;

    if (directory_fd < 0)
        return directory_fd;
    fd = live_open_file(directory_fd, file, flags);
    close(directory_fd);
    return fd;
}

int lull_live_read(const char *directory, const char *file, struct lull_live_run *run_out,
                   struct lull_error *err)
{
    const int fd = open_in(directory, file, O_RDONLY);
    struct lull_live_run *run;
    int result = -EAGAIN;

    if (fd < 0)
        return live_describe_error(err, fd, directory, file);
    run = calloc(1, sizeof(*run));
    if (run == NULL) {
        close(fd);
        return lull_error_set(err, -ENOMEM, "no memory for a run's live state");
    }
    for (int i = 0; i < READ_TRIES && result == -EAGAIN; i++)
        result = read_once(fd, run);
    close(fd);
    if (result == 0) {
        lull_live_check(run);
        *run_out = *run;
    }
    free(run);
    return result < 0 ? live_describe_error(err, result, directory, file) : 0;
}

int lull_live_ask(const char *directory, const char *file, enum lull_live_asked asked,
                  struct lull_error *err)
{
    const uint32_t word = asked;
    const int fd = open_in(directory, file, O_RDWR);
    int result = 0;

    if (fd < 0)
        return live_describe_error(err, fd, directory, file);
    if (pwrite(fd, &word, sizeof(word), offsetof(struct live_memory, asked)) !=
        (ssize_t)sizeof(word))
        result = -EIO;
    close(fd);
    return result < 0 ? live_describe_error(err, result, directory, file) : 0;
}

/* ---- checks of a copy -------------------------------------------------------------------- */

#define END_TEXT(TEXT) ((TEXT)[sizeof(TEXT) - 1] = '\0')

static void check_figure(struct lull_live_figure *figure)
{
    if (figure->unknown >= LULL_LIVE_UNKNOWN_COUNT)
        figure->unknown = LULL_LIVE_TOO_EARLY;
    if (figure->unknown != LULL_LIVE_KNOWN)
        figure->value = (double)NAN;
    else if (!isfinite(figure->value))
        *figure = lull_live_figure((double)NAN, LULL_LIVE_TOO_EARLY);
}

/* CLOCK_MONOTONIC and CLOCK_REALTIME begin at 0. A time that is not below 0 can be subtracted from
 * another without an overflow. */
static void check_time(int64_t *time_ns)
{
    if (*time_ns < 0)
        *time_ns = 0;
}

static void live_check_gpu(struct lull_live_gpu *gpu)
{
    struct lull_live_figure *const figures[] = {
        &gpu->clock_mhz,     &gpu->wanted_mhz,    &gpu->lowest_mhz,    &gpu->highest_mhz,
        &gpu->power_w,       &gpu->power_limit_w, &gpu->temperature_c, &gpu->energy_j,
        &gpu->lowered_ratio, &gpu->throttled,
    };

    END_TEXT(gpu->uuid);
    END_TEXT(gpu->name);
    END_TEXT(gpu->pci_bus_id);
    END_TEXT(gpu->state_text);
    END_TEXT(gpu->section_name);
    END_TEXT(gpu->driver_text);
    if (gpu->state >= LULL_LIVE_STATE_COUNT)
        gpu->state = LULL_LIVE_UNUSED;
    if (gpu->section >= LULL_LIVE_SECTION_COUNT)
        gpu->section = LULL_LIVE_NO_SECTION;
    check_time(&gpu->section_begin_ns);
    for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++)
        check_figure(figures[i]);
    if (!(gpu->throttled.value >= 0.0 && gpu->throttled.value < 0x1p32))
        gpu->throttled = lull_live_figure((double)NAN, gpu->throttled.unknown == LULL_LIVE_KNOWN
                                                           ? LULL_LIVE_NO_SENSOR
                                                           : gpu->throttled.unknown);
    for (uint32_t i = 0; i < LULL_LIVE_SECTION_COUNT; i++)
        check_figure(&gpu->sections[i].energy_j);
}

static void check_serving(struct lull_live_serving *serving)
{
    struct lull_live_figure *const figures[] = {
        &serving->ttft_bound_ms, &serving->tpot_bound_ms,
        &serving->share_ratio,   &serving->running,
        &serving->waiting,       &serving->requests,
        &serving->missed_ratio,  &serving->missed_bound_ratio,
        &serving->ttft_p50_ms,   &serving->ttft_p99_ms,
        &serving->tpot_p50_ms,   &serving->tpot_p99_ms,
        &serving->tokens_per_s,  &serving->j_per_output_token,
        &serving->j_per_request, &serving->clock_mhz,
        &serving->saved_ratio,
    };

    END_TEXT(serving->engine);
    END_TEXT(serving->metrics);
    END_TEXT(serving->reason);
    if (serving->mode >= LULL_LIVE_MODE_COUNT)
        serving->mode = LULL_LIVE_MODE_NONE;
    check_time(&serving->parked_since_ns);
    if (!(serving->parked_s >= 0.0 && isfinite(serving->parked_s)))
        serving->parked_s = 0.0;
    for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++)
        check_figure(figures[i]);
}

void lull_live_check(struct lull_live_run *run)
{
    struct lull_live_figure *const figures[] = {
        &run->iteration_ms,
        &run->iterations_left,
        &run->saving_ratio,
        &run->slowdown_ratio,
        &run->slowdown_upper_ratio,
        &run->whole_slowdown_ratio,
        &run->whole_slowdown_upper_ratio,
        &run->budget_earned_ms,
        &run->budget_left_ms,
        &run->power_w,
        &run->energy_j,
    };

    END_TEXT(run->pass);
    END_TEXT(run->title);
    END_TEXT(run->command);
    END_TEXT(run->report);
    END_TEXT(run->slurm_job);
    END_TEXT(run->slurm_step);
    END_TEXT(run->slurm_name);
    END_TEXT(run->pod);
    END_TEXT(run->pod_namespace);
    END_TEXT(run->learning);
    END_TEXT(run->note);
    END_TEXT(run->hang);
    if (run->ruler >= LULL_LIVE_RULER_COUNT)
        run->ruler = LULL_LIVE_BY_NONE;
    check_time(&run->written_ns);
    check_time(&run->begin_ns);
    check_time(&run->begin_unix_ns);
    check_time(&run->hang_since_ns);
    if (run->verdict >= LULL_LIVE_VERDICT_COUNT)
        run->verdict = LULL_LIVE_NO_VERDICT;
    if (run->gpu_count > LULL_LIVE_MAX_GPUS)
        run->gpu_count = 0;
    check_serving(&run->serving);
    for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++)
        check_figure(figures[i]);
    for (uint32_t i = 0; i < run->gpu_count; i++)
        live_check_gpu(&run->gpus[i]);
}
