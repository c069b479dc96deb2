! Calls some MPI functions through the module mpi, on two ranks. SPDX-License-Identifier: Apache-2.0
program fortran_calls
    use mpi
    implicit none
    integer :: ierror, rank, i, sum, other, request, received
    logical :: flag

    call mpi_init(ierror)
    call mpi_comm_rank(mpi_comm_world, rank, ierror)
    do i = 1, 10
        call mpi_allreduce(i * (rank + 1), sum, 1, mpi_integer, mpi_sum, mpi_comm_world, ierror)
    end do
    other = 1 - rank
    received = -1
    call mpi_irecv(received, 1, mpi_integer, other, 1, mpi_comm_world, request, ierror)
    call mpi_send(sum + rank, 1, mpi_integer, other, 1, mpi_comm_world, ierror)
    call mpi_wait(request, mpi_status_ignore, ierror)
    call mpi_iprobe(other, 5, mpi_comm_world, flag, mpi_status_ignore, ierror)
    call mpi_barrier(mpi_comm_world, ierror)
    print '(a,i0,a,i0,a,i0,a,l1)', 'rank ', rank, ' sum ', sum, ' received ', received, ' flag ', flag
    call mpi_finalize(ierror)
end program
