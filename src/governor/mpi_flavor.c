#include "governor/mpi_flavor.h"
enum lull_mpi_flavor lull_mpi_flavor_of_command(char *const argv[]) { (void)argv; return LULL_MPI_OPENMPI; }
