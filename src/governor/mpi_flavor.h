enum lull_mpi_flavor { LULL_MPI_NONE, LULL_MPI_OPENMPI, LULL_MPI_MPICH };
enum lull_mpi_flavor lull_mpi_flavor_of_command(char *const argv[]);
