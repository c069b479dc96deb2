/* SPDX-License-Identifier: Apache-2.0 */
#include "device/rapl.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char default_directory[] = "/sys/class/powercap";

enum { TEXT_BYTES = 64 };

struct zone {
    enum lull_rapl_kind kind;
    int fd; /* of energy_uj, kept open */
    uint64_t range_uj;
    uint64_t counter_uj; /* as last read */
    double energy_j;     /* since opening */
};

struct lull_rapl {
    uint32_t count;
    struct zone zones[LULL_RAPL_MAX_ZONES];
};

/* ---- parsing ----------------------------------------------------------------------------- */

/* Skips a decimal number of one to four digits; NULL if there is none. */
static const char *skip_number(const char *text)
{
    const size_t digits = strspn(text, "0123456789");

    return digits >= 1 && digits <= 4 ? text + digits : NULL;
}

enum lull_rapl_kind lull_rapl_kind_of(const char *zone, const char *name)
{
    static const char prefix[] = "intel-rapl:";
    const char *rest;

    if (strncmp(zone, prefix, sizeof(prefix) - 1) != 0)
        return LULL_RAPL_NOT_ADDED;
    rest = skip_number(zone + sizeof(prefix) - 1);
    if (rest == NULL)
        return LULL_RAPL_NOT_ADDED;
    if (*rest == '\0')
        return strncmp(name, "package-", 8) == 0 ? LULL_RAPL_CPU : LULL_RAPL_NOT_ADDED;
    rest = *rest == ':' ? skip_number(rest + 1) : NULL;
    if (rest == NULL || *rest != '\0')
        return LULL_RAPL_NOT_ADDED;
    return strcmp(name, "dram") == 0 ? LULL_RAPL_DRAM : LULL_RAPL_NOT_ADDED;
}

int lull_rapl_parse_uj(const char *text, size_t size, uint64_t *value_out)
{
    uint64_t value = 0;
    size_t i;

    for (i = 0; i < size && text[i] >= '0' && text[i] <= '9'; i++) {
        const uint64_t digit = (uint64_t)(text[i] - '0');

        if (value > (UINT64_MAX - digit) / 10)
            return -EINVAL;
        value = value * 10 + digit;
    }
    if (i == 0 || (i < size && (text[i] != '\n' || i + 1 != size)))
        return -EINVAL;
    *value_out = value;
    return 0;
}

uint64_t lull_rapl_grown_uj(uint64_t before_uj, uint64_t now_uj, uint64_t range_uj)
{
    if (now_uj >= before_uj)
        return now_uj - before_uj;
    /* Without a known range, or beyond it, the counter was reset: only what it has counted since is
     * known. */
    return before_uj <= range_uj ? range_uj - before_uj + now_uj : now_uj;
}

/* ---- files ------------------------------------------------------------------------------- */

static int read_fd(int fd, char *text, size_t *size_out)
{
    const ssize_t size = pread(fd, text, TEXT_BYTES, 0);

    if (size < 0)
        return -errno;
    *size_out = (size_t)size;
    return 0;
}

static int rapl_open_file(const char *directory, const char *zone, const char *file)
{
    char path[PATH_MAX];
    int fd;

    if ((size_t)snprintf(path, sizeof(path), "%s/%s/%s", directory, zone, file) >= sizeof(path))
        return -ENAMETOOLONG;
    fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static int rapl_read_file(const char *directory, const char *zone, const char *file, char *text,
                          size_t *size_out)
{
    const int fd = rapl_open_file(directory, zone, file);
    int result;

    if (fd < 0)
        return fd;
    result = read_fd(fd, text, size_out);
    close(fd);
    return result;
}

static enum lull_rapl_kind rapl_find_kind(const char *directory, const char *zone)
{
    char name[TEXT_BYTES + 1];
    size_t size = 0;

    if (strncmp(zone, "intel-rapl:", 11) != 0 ||
        rapl_read_file(directory, zone, "name", name, &size) < 0)
        return LULL_RAPL_NOT_ADDED;
    name[size] = '\0';
    name[strcspn(name, "\n")] = '\0';
    return lull_rapl_kind_of(zone, name);
}

static int read_zone(struct zone *zone)
{
    char text[TEXT_BYTES];
    uint64_t now_uj = 0;
    size_t size = 0;
    int result = read_fd(zone->fd, text, &size);

    if (result == 0)
        result = lull_rapl_parse_uj(text, size, &now_uj);
    if (result < 0)
        return result;
    zone->energy_j += 1e-6 * (double)lull_rapl_grown_uj(zone->counter_uj, now_uj, zone->range_uj);
    zone->counter_uj = now_uj;
    return 0;
}

static int add_zone(struct lull_rapl *rapl, const char *directory, const char *name,
                    enum lull_rapl_kind kind, struct lull_error *err)
{
    struct zone zone = {.kind = kind};
    char text[TEXT_BYTES];
    size_t size = 0;
    int result = 0;

    if (rapl_read_file(directory, name, "max_energy_range_uj", text, &size) < 0 ||
        lull_rapl_parse_uj(text, size, &zone.range_uj) < 0)
        zone.range_uj = 0;
    zone.fd = rapl_open_file(directory, name, "energy_uj");
    if (zone.fd < 0)
        result = zone.fd;
    else
        result = read_zone(&zone);
    if (result < 0) {
        if (zone.fd >= 0)
            close(zone.fd);
        return lull_error_set(
            err, result, "%s/%s/energy_uj: %s%s", directory, name, strerror(-result),
            result == -EACCES ? "; only root can read it, unless the administrator permits others"
                              : "");
    }
    /* The energy counts from opening; reading the zone has added what came before. */
    zone.energy_j = 0.0;
    rapl->zones[rapl->count++] = zone;
    return 0;
}

static int add_zones(struct lull_rapl *rapl, const char *directory, DIR *entries,
                     struct lull_error *err)
{
    const struct dirent *entry;
    int result = 0;

    while (result == 0 && rapl->count < LULL_RAPL_MAX_ZONES && (entry = readdir(entries)) != NULL) {
        const enum lull_rapl_kind kind = rapl_find_kind(directory, entry->d_name);

        if (kind != LULL_RAPL_NOT_ADDED)
            result = add_zone(rapl, directory, entry->d_name, kind, err);
    }
    if (result == 0 && rapl->count == 0)
        result = lull_error_set(
            err, LULL_E_UNSUPPORTED,
            "%s: no RAPL zones (a virtual machine, or the module intel_rapl_msr is not loaded)",
            directory);
    return result;
}

int lull_rapl_open(const char *directory, struct lull_rapl **rapl_out, struct lull_error *err)
{
    struct lull_rapl *rapl = calloc(1, sizeof(*rapl));
    DIR *entries;
    int result;

    if (directory == NULL)
        directory = secure_getenv(LULL_POWERCAP_ENV);
    if (directory == NULL || directory[0] == '\0')
        directory = default_directory;
    if (rapl == NULL)
        return lull_error_set(err, -ENOMEM, "no memory for RAPL zones");
    entries = opendir(directory);
    if (entries == NULL) {
        result = lull_error_set(err, errno == ENOENT ? LULL_E_UNSUPPORTED : -errno, "%s: %s",
                                directory, strerror(errno));
    } else {
        result = add_zones(rapl, directory, entries, err);
        closedir(entries);
    }
    if (result < 0) {
        lull_rapl_close(rapl);
        return result;
    }
    *rapl_out = rapl;
    return 0;
}

void lull_rapl_close(struct lull_rapl *rapl)
{
    const int saved_errno = errno;

    for (uint32_t i = 0; rapl != NULL && i < rapl->count; i++)
        close(rapl->zones[i].fd);
    free(rapl);
    errno = saved_errno;
}

uint32_t lull_rapl_zone_count(const struct lull_rapl *rapl, enum lull_rapl_kind kind)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < rapl->count; i++)
        count += rapl->zones[i].kind == kind;
    return count;
}

void lull_rapl_read(struct lull_rapl *rapl, struct lull_rapl_reading *reading_out)
{
    *reading_out = (struct lull_rapl_reading){0};
    for (uint32_t kind = 0; kind < LULL_RAPL_KINDS; kind++)
        reading_out->is_valid[kind] = lull_rapl_zone_count(rapl, kind) > 0;
    for (uint32_t i = 0; i < rapl->count; i++) {
        struct zone *zone = &rapl->zones[i];

        if (read_zone(zone) < 0)
            reading_out->is_valid[zone->kind] = false;
        reading_out->energy_j[zone->kind] += zone->energy_j;
    }
}
