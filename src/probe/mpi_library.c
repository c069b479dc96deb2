/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/mpi_library.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

enum { TYPES = 256 /* a power of two */ };

/* A function that is not in the program's scope may be in a library that it loaded for itself. */
static void *mpi_library_symbol(const char *name)
{
    static const char *const libraries[] = {
#ifdef OPEN_MPI
        "libmpi.so.40", "libmpi.so.80",
#endif
        "libmpich.so.12", "libmpi.so.12"};
    void *symbol = dlsym(RTLD_DEFAULT, name);

    for (size_t i = 0; symbol == NULL && i < sizeof(libraries) / sizeof(*libraries); i++) {
        void *library = dlopen(libraries[i], RTLD_LAZY | RTLD_NOLOAD);

        if (library != NULL) {
            symbol = dlsym(library, name);
            dlclose(library);
        }
    }
    return symbol;
}

#ifdef OPEN_MPI
int lull_mpi_is_own(void)
{
    return mpi_library_symbol("ompi_mpi_comm_world") != NULL;
}
#else
int lull_mpi_is_own(void)
{
    Dl_info info;
    const char *name;

    if (dladdr(mpi_library_symbol("PMPI_Init"), &info) == 0 || info.dli_fname == NULL)
        return 0;
    name = strrchr(info.dli_fname, '/');
    name = name != NULL ? name + 1 : info.dli_fname;
    return strncmp(name, "libmpich.so", 11) == 0 || strncmp(name, "libmpi.so.12", 12) == 0;
}
#endif

void *lull_mpi_next(const char *name, int is_own)
{
    void *symbol = is_own ? NULL : dlsym(RTLD_NEXT, name + 1);

    return symbol != NULL ? symbol : mpi_library_symbol(name);
}

#ifdef OPEN_MPI

/* Open MPI's handles are addresses of objects in the library. The predefined ones are found by
 * name. */
static struct {
    const void *type;
    uint64_t bytes;
} types[TYPES];

static const char *const type_symbols[] = {
    "ompi_mpi_char",          "ompi_mpi_signed_char",     "ompi_mpi_unsigned_char",
    "ompi_mpi_byte",          "ompi_mpi_short",           "ompi_mpi_unsigned_short",
    "ompi_mpi_int",           "ompi_mpi_unsigned",        "ompi_mpi_long",
    "ompi_mpi_unsigned_long", "ompi_mpi_long_long_int",   "ompi_mpi_unsigned_long_long",
    "ompi_mpi_float",         "ompi_mpi_double",          "ompi_mpi_long_double",
    "ompi_mpi_wchar",         "ompi_mpi_packed",          "ompi_mpi_cxx_bool",
    "ompi_mpi_c_bool",        "ompi_mpi_cxx_cplex",       "ompi_mpi_cxx_dblcplex",
    "ompi_mpi_c_complex",     "ompi_mpi_c_float_complex", "ompi_mpi_c_double_complex",
    "ompi_mpi_int8_t",        "ompi_mpi_uint8_t",         "ompi_mpi_int16_t",
    "ompi_mpi_uint16_t",      "ompi_mpi_int32_t",         "ompi_mpi_uint32_t",
    "ompi_mpi_int64_t",       "ompi_mpi_uint64_t",        "ompi_mpi_aint",
    "ompi_mpi_offset",        "ompi_mpi_count",           "ompi_mpi_float_int",
    "ompi_mpi_double_int",    "ompi_mpi_longdbl_int",     "ompi_mpi_2int",
    "ompi_mpi_short_int",     "ompi_mpi_long_int",        "ompi_mpi_logical",
    "ompi_mpi_character",     "ompi_mpi_integer",         "ompi_mpi_real",
    "ompi_mpi_dblprec",       "ompi_mpi_cplex",           "ompi_mpi_dblcplex",
    "ompi_mpi_real4",         "ompi_mpi_real8",           "ompi_mpi_integer4",
    "ompi_mpi_integer8",
};

_Static_assert(sizeof(type_symbols) / sizeof(*type_symbols) < TYPES / 2, "room to probe");

static size_t type_index(const void *type)
{
    return (size_t)(((uintptr_t)type >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 56) % TYPES;
}

void lull_mpi_learn_types(int (*type_size)(MPI_Datatype type, int *bytes))
{
    for (size_t i = 0; i < sizeof(type_symbols) / sizeof(*type_symbols); i++) {
        void *type = mpi_library_symbol(type_symbols[i]);
        size_t index = type_index(type);
        int bytes = 0;

        if (type == NULL || type_size(type, &bytes) != MPI_SUCCESS || bytes <= 0)
            continue;
        while (types[index].type != NULL)
            index = (index + 1) % TYPES;
        types[index].type = type;
        types[index].bytes = (uint64_t)bytes;
    }
}

uint64_t lull_mpi_type_bytes(MPI_Datatype type)
{
    for (size_t index = type_index(type); types[index].type != NULL; index = (index + 1) % TYPES)
        if (types[index].type == type)
            return types[index].bytes;
    return 0;
}

int lull_mpi_find_world(MPI_Comm *world_out)
{
    *world_out = mpi_library_symbol("ompi_mpi_comm_world");
    return *world_out != NULL;
}

int lull_mpi_is_this(const char *library_version)
{
    return strstr(library_version, "Open MPI") != NULL;
}

#else

void lull_mpi_learn_types(int (*type_size)(MPI_Datatype type, int *bytes))
{
    (void)type_size;
}

/* The handle of a basic type (class bits 0x4c) carries its size. */
uint64_t lull_mpi_type_bytes(MPI_Datatype type)
{
    const uint32_t handle = (uint32_t)type;

    return handle >> 24 == 0x4c ? handle >> 8 & 0xff : 0;
}

int lull_mpi_find_world(MPI_Comm *world_out)
{
    *world_out = MPI_COMM_WORLD;
    return 1;
}

int lull_mpi_is_this(const char *library_version)
{
    return strstr(library_version, "Open MPI") == NULL;
}

#endif
