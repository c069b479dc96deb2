/*
 * A data-parallel trainer: a multilayer perceptron of some 12 million parameters, trained by SGD
 * with momentum on a deterministic synthetic data set. Gradients by OpenBLAS, averaged by
 * MPI_Allreduce, loss and accuracy of every step on standard output (rank 0); with --epoch also the
 * accuracy on samples that are never trained on, once per epoch.
 *
 *   mpirun -n 4 ./train_mpi --steps 100
 *   ./train_mpi --epoch 512 --batch 32 --hidden 64 --noise 8
 *
 * It knows nothing of Lull. On an emulated node (lull emulate) it reports to its GPU what a real
 * one would do in its place: a kernel of --gpu-ms for each step, and the gradients' way over a link
 * of
 * --link-gbs. The sum of the allreduce is a user-defined operation, as the reduction kernel of a
 * GPU-aware MPI would be, and waits for its share of that transfer. The numbers that are computed
 * depend on none of this: the loss curve is the same to the last bit, with and without Lull.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <argp.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cblas.h>
#include <mpi.h>

#include "base/text.h"
#include "emulator/workload.h"

enum { LAYERS = 4, CLASSES = 10, INPUTS = 784, HELD_OUT = 1024 };

static const float momentum = 0.9f;

struct options {
    int64_t steps;
    int64_t hidden;
    int64_t batch;
    int64_t epoch_samples; /* 0: there are no epochs */
    double learning_rate;
    double noise; /* noise of the samples, relative to the pattern of their class */
    double gpu_ms;
    double sample_ms;
    double link_gbs;
    int64_t channels;
    int64_t gpu;
    bool overlap;
    const char *profile;
};

/* A fully connected layer, whose rows x columns weights and rows biases lie inside the flat
 * vectors. */
struct layer {
    int rows;
    int columns;
    size_t offset;
};

struct model {
    struct layer layers[LAYERS];
    size_t parameters;
    float *weights;
    float *gradients;
    float *velocity;
    float *activations[LAYERS + 1]; /* batch x width each; the input comes first */
    float *deltas[LAYERS + 1];
    int batch;
    float noise;
    float learning_rate;
};

/* ---- data and model ---------------------------------------------------------------------- */

/* The source of randomness is a hash of the index, which is the same on every machine. */
static float noise(uint64_t index)
{
    index += UINT64_C(0x9e3779b97f4a7c15);
    index = (index ^ (index >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    index = (index ^ (index >> 27)) * UINT64_C(0x94d049bb133111eb);
    index ^= index >> 31;
    return (float)(index >> 40) / (float)(1 << 24) - 0.5f;
}

static void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count, size);

    if (memory == NULL) {
        fprintf(stderr, "train_mpi: no memory\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return memory;
}

static void model_init(struct model *model, const struct options *options)
{
    const int hidden = (int)options->hidden;
    const int batch = (int)options->batch;
    const int widths[LAYERS + 1] = {INPUTS, hidden, hidden, hidden, CLASSES};

    memset(model, 0, sizeof(*model));
    model->batch = batch;
    model->noise = (float)options->noise;
    model->learning_rate = (float)options->learning_rate;
    for (int i = 0; i < LAYERS; i++) {
        model->layers[i] = (struct layer){widths[i + 1], widths[i], model->parameters};
        model->parameters += (size_t)widths[i + 1] * (size_t)(widths[i] + 1);
    }
    model->weights = allocate(model->parameters, sizeof(float));
    model->gradients = allocate(model->parameters, sizeof(float));
    model->velocity = allocate(model->parameters, sizeof(float));
    for (int i = 0; i <= LAYERS; i++) {
        model->activations[i] = allocate((size_t)(batch * widths[i]), sizeof(float));
        model->deltas[i] = allocate((size_t)(batch * widths[i]), sizeof(float));
    }
    for (int i = 0; i < LAYERS; i++) {
        const struct layer *layer = &model->layers[i];
        size_t count = (size_t)layer->rows * (size_t)layer->columns;
        float scale = 2.0f * sqrtf(6.0f / (float)(layer->rows + layer->columns));

        for (size_t j = 0; j < count; j++)
            model->weights[layer->offset + j] = scale * noise(layer->offset + j);
    }
}

static void model_fini(struct model *model)
{
    free(model->weights);
    free(model->gradients);
    free(model->velocity);
    for (int i = 0; i <= LAYERS; i++) {
        free(model->activations[i]);
        free(model->deltas[i]);
    }
}

/* Loads a batch. Each class is a fixed pattern with noise on top; the number of a sample determines
 * its label. */
static void load_batch(struct model *model, int64_t step, int rank, int ranks, int *labels)
{
    for (int i = 0; i < model->batch; i++) {
        uint64_t sample =
            ((uint64_t)step * (uint64_t)ranks + (uint64_t)rank) * (uint64_t)model->batch +
            (uint64_t)i;

        labels[i] = (int)(sample * 7 % CLASSES);
        for (int j = 0; j < INPUTS; j++)
            model->activations[0][i * INPUTS + j] =
                noise((uint64_t)(labels[i] * INPUTS + j) + (UINT64_C(1) << 40)) +
                model->noise * noise(sample * INPUTS + (uint64_t)j + (UINT64_C(1) << 50));
    }
}

static void forward(struct model *model)
{
    for (int i = 0; i < LAYERS; i++) {
        const struct layer *layer = &model->layers[i];
        const float *weights = model->weights + layer->offset;
        const float *biases = weights + (size_t)layer->rows * (size_t)layer->columns;
        float *output = model->activations[i + 1];

        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, model->batch, layer->rows,
                    layer->columns, 1.0f, model->activations[i], layer->columns, weights,
                    layer->columns, 0.0f, output, layer->rows);
        for (int b = 0; b < model->batch; b++)
            for (int j = 0; j < layer->rows; j++) {
                float value = output[b * layer->rows + j] + biases[j];

                output[b * layer->rows + j] = i + 1 < LAYERS && value < 0.0f ? 0.0f : value;
            }
    }
}

/* The score of one batch, or the sum over the ranks. */
struct score {
    float loss;
    float correct; /* number of samples whose class was recognised */
};

/* Computes softmax and cross entropy and leaves the gradient of the outputs in the last deltas. */
static struct score score_and_delta(struct model *model, const int *labels)
{
    struct score score = {0};

    for (int b = 0; b < model->batch; b++) {
        const float *output = model->activations[LAYERS] + b * CLASSES;
        float *delta = model->deltas[LAYERS] + b * CLASSES;
        float largest = output[0];
        float sum = 0.0f;

        for (int j = 1; j < CLASSES; j++)
            largest = fmaxf(largest, output[j]);
        for (int j = 0; j < CLASSES; j++)
            sum += delta[j] = expf(output[j] - largest);
        for (int j = 0; j < CLASSES; j++)
            delta[j] = (delta[j] / sum - (j == labels[b] ? 1.0f : 0.0f)) / (float)model->batch;
        score.loss += logf(sum) - (output[labels[b]] - largest);
        score.correct += output[labels[b]] == largest ? 1.0f : 0.0f;
    }
    score.loss /= (float)model->batch;
    return score;
}

static void backward_layer(struct model *model, int i)
{
    const struct layer *layer = &model->layers[i];
    float *gradients = model->gradients + layer->offset;
    float *biases = gradients + (size_t)layer->rows * (size_t)layer->columns;

    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, layer->rows, layer->columns, model->batch,
                1.0f, model->deltas[i + 1], layer->rows, model->activations[i], layer->columns,
                0.0f, gradients, layer->columns);
    for (int j = 0; j < layer->rows; j++) {
        biases[j] = 0.0f;
        for (int b = 0; b < model->batch; b++)
            biases[j] += model->deltas[i + 1][b * layer->rows + j];
    }
    if (i == 0)
        return;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, model->batch, layer->columns,
                layer->rows, 1.0f, model->deltas[i + 1], layer->rows,
                model->weights + layer->offset, layer->columns, 0.0f, model->deltas[i],
                layer->columns);
    for (int j = 0; j < model->batch * layer->columns; j++)
        if (model->activations[i][j] <= 0.0f)
            model->deltas[i][j] = 0.0f;
}

static void update(struct model *model, int ranks)
{
    const float scale = 1.0f / (float)ranks;

    for (size_t i = 0; i < model->parameters; i++) {
        model->velocity[i] =
            momentum * model->velocity[i] - model->learning_rate * scale * model->gradients[i];
        model->weights[i] += model->velocity[i];
    }
}

/* ---- communication ----------------------------------------------------------------------- */

/* The transfer under way. MPI calls the operation without a context, hence this static. */
static struct {
    struct lull_emulated_gpu *gpu;
    double moved;
    double total;
} transfer;

/*
 * The reduction kernel of a GPU-aware MPI: sums, and waits until the emulated link has carried what
 * has been summed so far. Reducing is the first half of the gradients' way; the second half, on
 * which nothing is summed, is waited for by the sum of the loss, which is queued behind it.
 */
static void sum_on_gpu(void *in, void *inout, int *length, MPI_Datatype *type)
{
    const float *from = in;
    float *to = inout;

    (void)type;
    for (int i = 0; i < *length; i++)
        to[i] += from[i];
    transfer.moved += (double)*length;
    lull_emulated_gpu_transfer_wait(
        transfer.gpu, *length == 1 ? 1.0 : fmin(0.5 * transfer.moved / transfer.total, 0.5));
}

static void begin_transfer(struct lull_emulated_gpu *gpu, const struct options *options,
                           size_t count, int ranks)
{
    double share = (double)(ranks - 1) / (double)ranks;
    struct lull_workload_transfer all = {
        .bytes = 2.0 * share * (double)count * sizeof(float),
        .link_gbs = options->link_gbs,
        .channels = (uint32_t)options->channels,
    };

    transfer.gpu = gpu;
    transfer.moved = 0.0;
    transfer.total = share * (double)count;
    lull_emulated_gpu_transfer_begin(gpu, &all);
}

/* ---- training ---------------------------------------------------------------------------- */

static struct score train_step(struct model *model, struct lull_emulated_gpu *gpu,
                               const struct options *options, MPI_Op sum, int64_t step, int rank,
                               int ranks)
{
    const struct lull_kernel kernel = {
        options->gpu_ms + options->sample_ms * (double)options->batch, options->profile};
    const int count = (int)model->parameters;
    int labels[256];
    struct score score;
    MPI_Request request = MPI_REQUEST_NULL;

    /* Forward, backward and the optimizer's step of the last gradients are one run of kernels. */
    lull_emulated_gpu_launch(gpu, &kernel);
    if (step > 0)
        update(model, ranks);
    load_batch(model, step, rank, ranks, labels);
    forward(model);
    score = score_and_delta(model, labels);
    for (int i = LAYERS - 1; i >= 0; i--)
        backward_layer(model, i);
    if (options->overlap) {
        /* The loss is averaged while the GPU is still at work, so that the wait below ends at once.
         */
        MPI_Iallreduce(MPI_IN_PLACE, model->gradients, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD,
                       &request);
        for (int done = 0; !done;)
            MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        lull_emulated_gpu_wait(gpu);
        MPI_Allreduce(MPI_IN_PLACE, &score.loss, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    } else {
        lull_emulated_gpu_wait(gpu);
        begin_transfer(gpu, options, (size_t)count, ranks);
        MPI_Allreduce(MPI_IN_PLACE, model->gradients, count, MPI_FLOAT, sum, MPI_COMM_WORLD);
        MPI_Allreduce(MPI_IN_PLACE, &score.loss, 1, MPI_FLOAT, sum, MPI_COMM_WORLD);
        lull_emulated_gpu_transfer_end(gpu);
    }
    MPI_Allreduce(MPI_IN_PLACE, &score.correct, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    score.loss /= (float)ranks;
    return score;
}

/* The accuracy on samples on which no step trains. */
static double held_out_accuracy(struct model *model)
{
    const int64_t first = INT64_C(1) << 32; /* a step that no training reaches */
    int labels[256];
    float correct = 0.0f;
    int64_t count = 0;

    for (; count * model->batch < HELD_OUT; count++) {
        load_batch(model, first + count, 0, 1, labels);
        forward(model);
        correct += score_and_delta(model, labels).correct;
    }
    return (double)correct / (double)(count * model->batch);
}

/* Prints the accuracy after the last step of an epoch, which has as many whole steps as fit. */
static void tell_epoch(struct model *model, const struct options *options, int64_t step, int ranks)
{
    int64_t steps = options->epoch_samples / (options->batch * ranks);

    if (options->epoch_samples == 0)
        return;
    steps = steps > 0 ? steps : 1;
    if ((step + 1) % steps == 0)
        printf("epoch %lld val_acc=%.4f\n", (long long)((step + 1) / steps),
               held_out_accuracy(model));
}

static int train(const struct options *options)
{
    struct lull_emulated_gpu *gpu = NULL;
    struct lull_error err = {0};
    struct model model;
    MPI_Comm node;
    MPI_Op sum;
    int rank;
    int ranks;
    int local_rank;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &local_rank);
    MPI_Comm_free(&node);
    MPI_Op_create(sum_on_gpu, 1, &sum);
    if (lull_emulated_gpu_open((uint32_t)(options->gpu + local_rank), &gpu, &err) < 0) {
        fprintf(stderr, "train_mpi: rank %d: %s\n", rank, err.text);
        return 1;
    }
    model_init(&model, options);
    if (rank == 0)
        printf("%zu parameters, %d ranks\n", model.parameters, ranks);
    for (int64_t step = 0; step < options->steps; step++) {
        struct score score = train_step(&model, gpu, options, sum, step, rank, ranks);

        if (rank != 0)
            continue;
        printf("step %lld loss %.9g accuracy %.4g\n", (long long)step, (double)score.loss,
               (double)score.correct / (double)((int64_t)ranks * options->batch));
        tell_epoch(&model, options, step, ranks);
    }
    model_fini(&model);
    lull_emulated_gpu_close(gpu);
    MPI_Op_free(&sum);
    return 0;
}

/* ---- command line ------------------------------------------------------------------------ */

enum {
    KEY_STEPS = 's',
    KEY_HIDDEN = 'w',
    KEY_BATCH = 'b',
    KEY_GPU_MS = 256,
    KEY_SAMPLE_MS,
    KEY_EPOCH,
    KEY_RATE,
    KEY_NOISE,
    KEY_LINK,
    KEY_CHANNELS,
    KEY_GPU,
    KEY_PROFILE,
    KEY_OVERLAP,
};

static const struct argp_option option_table[] = {
    {"steps", KEY_STEPS, "N", 0, "Steps to train (default 100)", 0},
    {"hidden", KEY_HIDDEN, "N", 0, "Width of the hidden layers (default 2280: 12.2 M parameters)",
     0},
    {"batch", KEY_BATCH, "N", 0, "Samples per rank and step (default 4, at most 256)", 0},
    {"epoch", KEY_EPOCH, "N", 0,
     "Samples of an epoch, all ranks: its accuracy on held-out samples is printed (default: none)",
     0},
    {"learning-rate", KEY_RATE, "X", 0, "Of SGD with momentum 0.9 (default 0.02)", 0},
    {"noise", KEY_NOISE, "X", 0, "Of the samples; more is harder to learn (default 0.5)", 0},
    {"gpu-ms", KEY_GPU_MS, "MS", 0,
     "Emulated node: length of a step's kernels at the highest clock (default 180)", 0},
    {"sample-ms", KEY_SAMPLE_MS, "MS", 0,
     "Emulated node: and so much more for each sample of the batch (default 0)", 0},
    {"link-gbs", KEY_LINK, "GB/S", 0,
     "Emulated node: bandwidth of the link between ranks (default 0.125, 1 Gb Ethernet)", 0},
    {"channels", KEY_CHANNELS, "N", 0, "Emulated node: SMs that drive the link (default 4)", 0},
    {"gpu", KEY_GPU, "N", 0, "Emulated node: GPU of the node's first rank (default 0)", 0},
    {"profile", KEY_PROFILE, "NAME", 0, "Emulated node: power profile of the kernels", 0},
    {"overlap", KEY_OVERLAP, NULL, 0, "Communicate behind the computation", 0},
    {0},
};

static int parse_positive(const char *text, double *value_out)
{
    return lull_text_parse_number(text, value_out) < 0 || *value_out <= 0.0 ? -1 : 0;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct options *options = state->input;
    int bad = 0;

    switch (key) {
    case KEY_STEPS:
        bad = lull_text_parse_int(arg, 1, 1000000, &options->steps);
        break;
    case KEY_HIDDEN:
        bad = lull_text_parse_int(arg, 1, 8192, &options->hidden);
        break;
    case KEY_BATCH:
        bad = lull_text_parse_int(arg, 1, 256, &options->batch);
        break;
    case KEY_GPU_MS:
        bad = parse_positive(arg, &options->gpu_ms);
        break;
    case KEY_SAMPLE_MS:
        bad = parse_positive(arg, &options->sample_ms);
        break;
    case KEY_EPOCH:
        bad = lull_text_parse_int(arg, 1, 1000000000, &options->epoch_samples);
        break;
    case KEY_RATE:
        bad = parse_positive(arg, &options->learning_rate);
        break;
    case KEY_NOISE:
        bad = parse_positive(arg, &options->noise);
        break;
    case KEY_LINK:
        bad = parse_positive(arg, &options->link_gbs);
        break;
    case KEY_CHANNELS:
        bad = lull_text_parse_int(arg, 1, 128, &options->channels);
        break;
    case KEY_GPU:
        bad = lull_text_parse_int(arg, 0, 63, &options->gpu);
        break;
    case KEY_PROFILE:
        options->profile = arg;
        break;
    case KEY_OVERLAP:
        options->overlap = true;
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    if (bad)
        argp_error(state, "%s: not a usable value", arg);
    return 0;
}

int main(int argc, char **argv)
{
    static const struct argp argp = {
        option_table, parse_option, NULL, "Trains a small network, data parallel over MPI.",
        NULL,         NULL,         NULL};
    struct options options = {
        .steps = 100,
        .hidden = 2280,
        .batch = 4,
        .learning_rate = 0.02,
        .noise = 0.5,
        .gpu_ms = 180.0,
        .link_gbs = 0.125,
        .channels = 4,
    };
    int status;

    MPI_Init(&argc, &argv);
    setvbuf(stdout, NULL, _IOLBF, 0); /* a loss appears as soon as it is known */
    openblas_set_num_threads(1); /* each rank has one core, and the sums are the same everywhere */
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    status = train(&options);
    MPI_Finalize();
    return status;
}
