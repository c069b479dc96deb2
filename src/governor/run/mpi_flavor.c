/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/run/mpi_flavor.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "governor/run/program.h"

enum { MAX_SEGMENTS = 128, MAX_ENTRIES = 4096, MAX_NAME = 256 };

/* An ELF file in memory. Nothing in it is believed: every access goes through read_at. */
struct image {
    const unsigned char *data;
    size_t size;
    Elf64_Ehdr header;
};

/* The dynamic section's entries that matter, as offsets in the file. */
struct dynamic {
    uint64_t offset;
    uint64_t count;
    uint64_t strings_offset;
    uint64_t strings_size;
    char run_path[PATH_MAX];
};

typedef enum lull_mpi_flavor needed_visitor(const char *name, const struct dynamic *dynamic,
                                            void *context);

/* Directories where the dynamic linker looks without being told, with the multiarch names of common
 * machines. */
static const char *const library_directories[] = {
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
    "/usr/local/lib",
};

static const struct {
    const char *prefix;
    enum lull_mpi_flavor flavor;
} library_names[] = {
    {"libmpi.so.12", LULL_MPI_MPICH}, /* the MPICH ABI; Open MPI's numbers are 20, 40, 80 */
    {"libmpich.so.", LULL_MPI_MPICH},
    {"libmpi.so.", LULL_MPI_OPENMPI},
};

static const struct {
    const char *name;
    enum lull_mpi_flavor flavor;
} launcher_names[] = {
    {"mpirun.openmpi", LULL_MPI_OPENMPI}, {"mpiexec.openmpi", LULL_MPI_OPENMPI},
    {"orterun", LULL_MPI_OPENMPI},        {"prterun", LULL_MPI_OPENMPI},
    {"mpirun.mpich", LULL_MPI_MPICH},     {"mpiexec.mpich", LULL_MPI_MPICH},
    {"mpiexec.hydra", LULL_MPI_MPICH},    {"mpiexec.gforker", LULL_MPI_MPICH},
};

static int read_at(const struct image *image, uint64_t offset, void *out, size_t size)
{
    if (offset > image->size || size > image->size - offset)
        return -ERANGE;
    memcpy(out, image->data + offset, size);
    return 0;
}

static int read_segment(const struct image *image, unsigned index, Elf64_Phdr *segment_out)
{
    if (image->header.e_phoff > image->size)
        return -ERANGE;
    return read_at(image, image->header.e_phoff + (uint64_t)index * sizeof(*segment_out),
                   segment_out, sizeof(*segment_out));
}

static unsigned segment_count(const struct image *image)
{
    return image->header.e_phnum < MAX_SEGMENTS ? image->header.e_phnum : MAX_SEGMENTS;
}

static int open_image(const void *data, size_t size, struct image *image_out)
{
    struct image image = {.data = data, .size = size};

    if (read_at(&image, 0, &image.header, sizeof(image.header)) < 0 ||
        memcmp(image.header.e_ident, ELFMAG, SELFMAG) != 0 ||
        image.header.e_ident[EI_CLASS] != ELFCLASS64 ||
        image.header.e_ident[EI_DATA] != ELFDATA2LSB ||
        image.header.e_phentsize != sizeof(Elf64_Phdr))
        return -EINVAL;
    *image_out = image;
    return 0;
}

static int file_offset(const struct image *image, uint64_t address, uint64_t *offset_out)
{
    Elf64_Phdr segment;

    for (unsigned i = 0; i < segment_count(image); i++)
        if (read_segment(image, i, &segment) == 0 && segment.p_type == PT_LOAD &&
            address >= segment.p_vaddr && address - segment.p_vaddr < segment.p_filesz) {
            *offset_out = segment.p_offset + (address - segment.p_vaddr);
            return 0;
        }
    return -ENOENT;
}

static int read_entry(const struct image *image, const struct dynamic *dynamic, uint64_t index,
                      Elf64_Dyn *entry_out)
{
    if (index >= dynamic->count || read_at(image, dynamic->offset + index * sizeof(*entry_out),
                                           entry_out, sizeof(*entry_out)) < 0)
        return -ENOENT;
    return entry_out->d_tag == DT_NULL ? -ENOENT : 0;
}

/* Copies a string of the string table; it must end within the table and the buffer. */
static int read_string(const struct image *image, const struct dynamic *dynamic, uint64_t offset,
                       char *out, size_t size)
{
    uint64_t left;

    if (offset >= dynamic->strings_size || dynamic->strings_offset > image->size)
        return -ERANGE;
    left = dynamic->strings_size - offset;
    for (size_t i = 0; i < size && i < left; i++) {
        if (read_at(image, dynamic->strings_offset + offset + i, &out[i], 1) < 0)
            return -ERANGE;
        if (out[i] == '\0')
            return 0;
    }
    return -ERANGE;
}

static int find_dynamic_segment(const struct image *image, struct dynamic *dynamic)
{
    Elf64_Phdr segment;

    for (unsigned i = 0; i < segment_count(image); i++)
        if (read_segment(image, i, &segment) == 0 && segment.p_type == PT_DYNAMIC) {
            dynamic->offset = segment.p_offset;
            dynamic->count = segment.p_filesz / sizeof(Elf64_Dyn);
            if (dynamic->count > MAX_ENTRIES)
                dynamic->count = MAX_ENTRIES;
            return dynamic->offset <= image->size ? 0 : -ERANGE;
        }
    return -ENOENT;
}

static int read_dynamic(const struct image *image, struct dynamic *dynamic_out)
{
    struct dynamic dynamic = {0};
    uint64_t strings_address = 0;
    uint64_t run_path = UINT64_MAX;
    Elf64_Dyn entry;

    if (find_dynamic_segment(image, &dynamic) < 0)
        return -ENOENT;
    for (uint64_t i = 0; read_entry(image, &dynamic, i, &entry) == 0; i++) {
        if (entry.d_tag == DT_STRTAB)
            strings_address = entry.d_un.d_ptr;
        else if (entry.d_tag == DT_STRSZ)
            dynamic.strings_size = entry.d_un.d_val;
        else if (entry.d_tag == DT_RUNPATH || entry.d_tag == DT_RPATH)
            run_path = entry.d_un.d_val;
    }
    if (file_offset(image, strings_address, &dynamic.strings_offset) < 0)
        return -EINVAL;
    if (read_string(image, &dynamic, run_path, dynamic.run_path, sizeof(dynamic.run_path)) < 0)
        dynamic.run_path[0] = '\0';
    *dynamic_out = dynamic;
    return 0;
}

static enum lull_mpi_flavor flavor_of_library(const char *name)
{
    for (size_t i = 0; i < sizeof(library_names) / sizeof(*library_names); i++)
        if (strncmp(name, library_names[i].prefix, strlen(library_names[i].prefix)) == 0)
            return library_names[i].flavor;
    return LULL_MPI_NONE;
}

/* Calls visit for each needed library until one is of MPI. */
static enum lull_mpi_flavor visit_needed(const struct image *image, needed_visitor *visit,
                                         void *context)
{
    enum lull_mpi_flavor flavor = LULL_MPI_NONE;
    struct dynamic dynamic;
    Elf64_Dyn entry;
    char name[MAX_NAME];

    if (read_dynamic(image, &dynamic) < 0)
        return LULL_MPI_NONE;
    for (uint64_t i = 0; flavor == LULL_MPI_NONE && read_entry(image, &dynamic, i, &entry) == 0;
         i++)
        if (entry.d_tag == DT_NEEDED &&
            read_string(image, &dynamic, entry.d_un.d_val, name, sizeof(name)) == 0)
            flavor = visit(name, &dynamic, context);
    return flavor;
}

static enum lull_mpi_flavor visit_name(const char *name, const struct dynamic *dynamic,
                                       void *context)
{
    (void)dynamic;
    (void)context;
    return flavor_of_library(name);
}

enum lull_mpi_flavor lull_mpi_flavor_of_elf(const void *data, size_t size)
{
    struct image image;

    if (open_image(data, size, &image) < 0)
        return LULL_MPI_NONE;
    return visit_needed(&image, visit_name, NULL);
}

static enum lull_mpi_flavor flavor_of_file(const char *path, int depth);

static enum lull_mpi_flavor flavor_in_list(const char *list, const char *origin, const char *name)
{
    char directory[PATH_MAX];
    char path[PATH_MAX];
    int found;

    while ((found = lull_path_next(&list, origin, directory, sizeof(directory))) != 0)
        if (found > 0 &&
            snprintf(path, sizeof(path), "%s/%s", directory, name) < (int)sizeof(path) &&
            access(path, R_OK) == 0)
            return flavor_of_file(path, 0);
    return LULL_MPI_NONE;
}

static void directory_of(const char *path, char *out, size_t size)
{
    const char *slash = strrchr(path, '/');

    snprintf(out, size, "%.*s", slash != NULL ? (int)(slash - path) : 1,
             slash != NULL ? path : ".");
}

/* Looks into a needed library, where the dynamic linker would find it. context: the program. */
static enum lull_mpi_flavor visit_library(const char *name, const struct dynamic *dynamic,
                                          void *context)
{
    enum lull_mpi_flavor flavor;
    char origin[PATH_MAX];
    char path[PATH_MAX];

    directory_of(context, origin, sizeof(origin));
    flavor = flavor_in_list(dynamic->run_path, origin, name);
    if (flavor == LULL_MPI_NONE)
        flavor = flavor_in_list(getenv("LD_LIBRARY_PATH"), origin, name);
    for (size_t i = 0;
         flavor == LULL_MPI_NONE && i < sizeof(library_directories) / sizeof(*library_directories);
         i++)
        if (snprintf(path, sizeof(path), "%s/%s", library_directories[i], name) <
                (int)sizeof(path) &&
            access(path, R_OK) == 0)
            return flavor_of_file(path, 0);
    return flavor;
}

static int map_file(const char *path, void **data_out, size_t *size_out)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    void *data = MAP_FAILED;

    if (fd < 0)
        return -ENOENT;
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0)
        data = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (data == MAP_FAILED)
        return -EINVAL;
    *data_out = data;
    *size_out = (size_t)status.st_size;
    return 0;
}

/* depth: how many levels of needed libraries to look into. */
static enum lull_mpi_flavor flavor_of_file(const char *path, int depth)
{
    enum lull_mpi_flavor flavor = LULL_MPI_NONE;
    char program[PATH_MAX];
    struct image image;
    void *data = NULL;
    size_t size = 0;

    if (map_file(path, &data, &size) < 0)
        return LULL_MPI_NONE;
    if (open_image(data, size, &image) == 0) {
        flavor = visit_needed(&image, visit_name, NULL);
        if (flavor == LULL_MPI_NONE && depth > 0 && realpath(path, program) != NULL)
            flavor = visit_needed(&image, visit_library, program);
    }
    munmap(data, size);
    return flavor;
}

static enum lull_mpi_flavor flavor_of_launcher_name(const char *path)
{
    for (size_t i = 0; i < sizeof(launcher_names) / sizeof(*launcher_names); i++)
        if (strcmp(lull_path_base(path), launcher_names[i].name) == 0)
            return launcher_names[i].flavor;
    return LULL_MPI_NONE;
}

/* The name as typed may tell (mpirun.mpich), or the file that links lead to (orterun). */
static enum lull_mpi_flavor flavor_of_launcher(const char *path)
{
    const enum lull_mpi_flavor flavor = flavor_of_launcher_name(path);
    char resolved[PATH_MAX];

    if (flavor != LULL_MPI_NONE || realpath(path, resolved) == NULL)
        return flavor;
    return flavor_of_launcher_name(resolved);
}

static int is_launcher(const char *path)
{
    static const char *const prefixes[] = {"mpirun", "mpiexec", "srun", "orterun", "prterun"};

    for (size_t i = 0; i < sizeof(prefixes) / sizeof(*prefixes); i++)
        if (strncmp(lull_path_base(path), prefixes[i], strlen(prefixes[i])) == 0)
            return 1;
    return 0;
}

/* What has been found so far. */
struct flavor_search {
    enum lull_mpi_flavor of_launcher;
    enum lull_mpi_flavor of_program;
};

/* Looks at a program; one that uses MPI ends the search. */
static bool look_at(const char *path, void *context)
{
    struct flavor_search *const search = context;

    if (!is_launcher(path))
        search->of_program = flavor_of_file(path, 1);
    else if (search->of_launcher == LULL_MPI_NONE)
        search->of_launcher = flavor_of_launcher(path);
    return search->of_program != LULL_MPI_NONE;
}

enum lull_mpi_flavor lull_mpi_flavor_of_command(char *const argv[])
{
    struct flavor_search search = {LULL_MPI_NONE, LULL_MPI_NONE};

    return lull_command_visit(argv, look_at, &search) ? search.of_program : search.of_launcher;
}
