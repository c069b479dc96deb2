/*
 * Body of mpi_calls.c, included once per flavour of the functions: F(name), COUNT, DISPLACEMENT.
 * Every function of the shim's table with counts, two ranks, checksums of what was received.
 * SPDX-License-Identifier: Apache-2.0
 */
#define COLL(name, iname, ...)                                                                     \
    clear();                                                                                       \
    F(name)(__VA_ARGS__);                                                                          \
    report(#name);                                                                                 \
    clear();                                                                                       \
    F(iname)(__VA_ARGS__, &request);                                                               \
    MPI_Wait(&request, MPI_STATUS_IGNORE);                                                         \
    report(#iname);

static void FLAVOR(collectives)(void)
{
    const COUNT ones[4] = {1, 1, 1, 1};
    const DISPLACEMENT places[4] = {0, 1, 2, 3};
    const DISPLACEMENT offsets[4] = {0, 4, 8, 12};
    const MPI_Aint far[4] = {0, 4, 8, 12};
    MPI_Datatype types[4] = {MPI_INT, MPI_INT, MPI_INT, MPI_INT};
    MPI_Request request;

    COLL(Allreduce, Iallreduce, out, in, 4, MPI_INT, MPI_SUM, world)
    COLL(Reduce, Ireduce, out, in, 4, MPI_INT, MPI_SUM, 0, world)
    COLL(Reduce_scatter, Ireduce_scatter, out, in, ones, MPI_INT, MPI_SUM, world)
    COLL(Reduce_scatter_block, Ireduce_scatter_block, out, in, 1, MPI_INT, MPI_SUM, world)
    COLL(Allgather, Iallgather, out, 2, MPI_INT, in, 2, MPI_INT, world)
    COLL(Allgatherv, Iallgatherv, out, 1, MPI_INT, in, ones, places, MPI_INT, world)
    COLL(Gather, Igather, out, 2, MPI_INT, in, 2, MPI_INT, 0, world)
    COLL(Gatherv, Igatherv, out, 1, MPI_INT, in, ones, places, MPI_INT, 0, world)
    COLL(Scatter, Iscatter, out, 2, MPI_INT, in, 2, MPI_INT, 0, world)
    COLL(Scatterv, Iscatterv, out, ones, places, MPI_INT, in, 1, MPI_INT, 0, world)
    COLL(Bcast, Ibcast, rank == 0 ? out : in, 4, MPI_INT, 0, world)
    COLL(Alltoall, Ialltoall, out, 2, MPI_INT, in, 2, MPI_INT, world)
    COLL(Alltoallv, Ialltoallv, out, ones, places, MPI_INT, in, ones, places, MPI_INT, world)
    COLL(Alltoallw, Ialltoallw, out, ones, offsets, types, in, ones, offsets, types, world)
    COLL(Scan, Iscan, out, in, 4, MPI_INT, MPI_SUM, world)
    COLL(Exscan, Iexscan, out, in, 4, MPI_INT, MPI_SUM, world)
    COLL(Neighbor_allgather, Ineighbor_allgather, out, 1, MPI_INT, in, 1, MPI_INT, ring)
    COLL(Neighbor_allgatherv, Ineighbor_allgatherv, out, 1, MPI_INT, in, ones, places, MPI_INT,
         ring)
    COLL(Neighbor_alltoall, Ineighbor_alltoall, out, 1, MPI_INT, in, 1, MPI_INT, ring)
    COLL(Neighbor_alltoallv, Ineighbor_alltoallv, out, ones, places, MPI_INT, in, ones, places,
         MPI_INT, ring)
    COLL(Neighbor_alltoallw, Ineighbor_alltoallw, out, ones, far, types, in, ones, far, types, ring)
    F(Allreduce)(MPI_IN_PLACE, in, 4, MPI_INT, MPI_SUM, world);
    F(Allgather)(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, 2, MPI_INT, world);
    report("in place");
}

static void FLAVOR(sends)(void)
{
    MPI_Request request;

    clear();
    if (rank == 0) {
        F(Send)(out, 4, MPI_INT, 1, 1, world);
        F(Ssend)(out, 4, MPI_INT, 1, 2, world);
        F(Bsend)(out, 4, MPI_INT, 1, 3, world);
        MPI_Barrier(world);
        F(Rsend)(out, 4, MPI_INT, 1, 4, world);
        F(Isend)(out, 4, MPI_INT, 1, 5, world, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        F(Issend)(out, 4, MPI_INT, 1, 6, world, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        F(Ibsend)(out, 4, MPI_INT, 1, 7, world, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Barrier(world);
        F(Irsend)(out, 4, MPI_INT, 1, 8, world, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        F(Send)(out, 4, MPI_INT, 1, 9, world);
        F(Send)(out, 4, MPI_INT, 1, 10, world);
    } else {
        MPI_Message message;

        F(Irecv)(in + 16, 4, MPI_INT, 0, 4, world, &request);
        for (int tag = 1; tag <= 3; tag++)
            F(Recv)(in + 4 * tag, 4, MPI_INT, 0, tag, world, MPI_STATUS_IGNORE);
        MPI_Barrier(world);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        for (int tag = 5; tag <= 7; tag++)
            F(Recv)(in + 4 * tag, 4, MPI_INT, 0, tag, world, MPI_STATUS_IGNORE);
        F(Irecv)(in + 32, 4, MPI_INT, 0, 8, world, &request);
        MPI_Barrier(world);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Mprobe(0, 9, world, &message, MPI_STATUS_IGNORE);
        F(Mrecv)(in + 36, 4, MPI_INT, &message, MPI_STATUS_IGNORE);
        MPI_Mprobe(0, 10, world, &message, MPI_STATUS_IGNORE);
        F(Imrecv)(in + 40, 4, MPI_INT, &message, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    report("sends");
}

static void FLAVOR(exchanges)(void)
{
    const int other = 1 - rank;
    MPI_Request request;

    (void)request;
    clear();
    F(Sendrecv)(out, 4, MPI_INT, other, 1, in, 4, MPI_INT, other, 1, world, MPI_STATUS_IGNORE);
    F(Sendrecv_replace)(in, 4, MPI_INT, other, 1, other, 1, world, MPI_STATUS_IGNORE);
    report("exchanges");
#if MPI_VERSION >= 4
    F(Isendrecv)(out, 4, MPI_INT, other, 1, in, 4, MPI_INT, other, 1, world, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    F(Isendrecv_replace)(in, 4, MPI_INT, other, 1, other, 1, world, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    report("non-blocking exchanges");
#endif
}

#undef COLL
