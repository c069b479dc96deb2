/*
 * A libnvrtc that compiles for this processor by g++: the "machine code" is the path of a shared
 * library in TMPDIR, which mock_cuda.c opens. A source that has been compiled before is not
 * compiled again. LULL_MOCK_SHIM names the folder with cpu.h and the gpu.cuh that takes the place
 * of the suite's. Threads: one. SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OK = 0, INVALID = 3, COMPILATION = 6, MAX_WORDS = 64, PATH = 256, LOG = 65536 };

struct program {
    char folder[PATH];
    char name[64];
    char log[LOG];
    char library[2 * PATH];
    uint64_t hash; /* of the texts and the options */
};

int nvrtcVersion(int *major, int *minor);
const char *nvrtcGetErrorString(int code);
int nvrtcGetNumSupportedArchs(int *count);
int nvrtcGetSupportedArchs(int *architectures);
int nvrtcCreateProgram(struct program **program_out, const char *source, const char *name,
                       int count, const char *const *headers, const char *const *names);
int nvrtcDestroyProgram(struct program **program);
int nvrtcCompileProgram(struct program *program, int count, const char *const *options);
int nvrtcGetProgramLogSize(struct program *program, size_t *size);
int nvrtcGetProgramLog(struct program *program, char *log);
int nvrtcGetCUBINSize(struct program *program, size_t *size);
int nvrtcGetCUBIN(struct program *program, char *bytes);
int nvrtcGetPTXSize(struct program *program, size_t *size);
int nvrtcGetPTX(struct program *program, char *bytes);

int nvrtcVersion(int *major, int *minor)
{
    *major = 12;
    *minor = 9;
    return OK;
}

const char *nvrtcGetErrorString(int code)
{
    return code == COMPILATION ? "NVRTC_ERROR_COMPILATION" : "NVRTC_ERROR_INVALID_INPUT";
}

static const int known[] = {75, 80, 86, 89, 90};

int nvrtcGetNumSupportedArchs(int *count)
{
    *count = (int)(sizeof(known) / sizeof(known[0]));
    return OK;
}

int nvrtcGetSupportedArchs(int *architectures)
{
    memcpy(architectures, known, sizeof(known));
    return OK;
}

static uint64_t hash(uint64_t before, const char *text)
{
    for (; *text != '\0'; text++)
        before = (before ^ (unsigned char)*text) * 1099511628211u;
    return (before ^ 1) * 1099511628211u;
}

static void write_file(const char *folder, const char *name, const char *text)
{
    char path[2 * PATH];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, "we");
    if (file == NULL || fputs(text, file) < 0 || fclose(file) != 0)
        abort();
}

int nvrtcCreateProgram(struct program **program_out, const char *source, const char *name,
                       int count, const char *const *headers, const char *const *names)
{
    struct program *const program = calloc(1, sizeof(*program));
    const char *const base = getenv("TMPDIR");

    if (program == NULL)
        abort();
    snprintf(program->folder, sizeof(program->folder), "%s/lull-mock-XXXXXX",
             base != NULL ? base : "/tmp");
    program->hash = hash(hash(14695981039346656037u, source), name);
    snprintf(program->name, sizeof(program->name), "%s", name);
    if (mkdtemp(program->folder) == NULL)
        abort();
    write_file(program->folder, name, source);
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], "gpu.cuh") != 0)
            write_file(program->folder, names[i], headers[i]);
    for (int i = 0; i < count; i++)
        program->hash = hash(program->hash, headers[i]);
    *program_out = program;
    return OK;
}

/* The library stays: the test runner removes TMPDIR. */
int nvrtcDestroyProgram(struct program **program)
{
    free(*program);
    *program = NULL;
    return OK;
}

static int run(char *const *words, const char *log)
{
    const pid_t child = fork();
    int status;

    if (child == 0) {
        const int fd = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

        dup2(fd, STDOUT_FILENO);
        dup2(fd, STDERR_FILENO);
        execvp(words[0], words);
        _exit(127);
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Also counts how often each architecture was requested, in the file that LULL_MOCK_LOG names. */
static void note(const char *option)
{
    const char *const path = getenv("LULL_MOCK_LOG");
    FILE *const file = path != NULL ? fopen(path, "ae") : NULL;

    if (file == NULL)
        return;
    fprintf(file, "compile %s\n", option);
    fclose(file);
}

int nvrtcCompileProgram(struct program *program, int count, const char *const *options)
{
    const char *words[MAX_WORDS] = {"g++",
                                    "-O1",
                                    "-w",
                                    "-shared",
                                    "-fPIC",
                                    "-fno-exceptions",
                                    "-fno-rtti",
                                    "-fvisibility=hidden",
                                    "-ffp-contract=off",
                                    "-x",
                                    "c++"};
    const char *const base = getenv("TMPDIR");
    char source[2 * PATH], log[2 * PATH], shim[2 * PATH], own[2 * PATH];
    int word = 11;
    FILE *file;

    snprintf(source, sizeof(source), "%s/%s", program->folder, program->name);
    snprintf(log, sizeof(log), "%s/log", program->folder);
    snprintf(shim, sizeof(shim), "-I%s", getenv("LULL_MOCK_SHIM"));
    snprintf(own, sizeof(own), "-I%s", program->folder);
    for (int i = 0; i < count && word < MAX_WORDS - 8; i++) {
        if (strncmp(options[i], "--gpu-architecture=", 19) == 0)
            note(options[i]);
        else
            words[word++] = options[i];
        program->hash = hash(program->hash, options[i]);
    }
    snprintf(program->library, sizeof(program->library), "%s/lull-mock-%016llx.so",
             base != NULL ? base : "/tmp", (unsigned long long)program->hash);
    if (access(program->library, R_OK) == 0)
        return OK;
    words[word++] = own;
    words[word++] = shim;
    words[word++] = "-o";
    words[word++] = program->library;
    words[word++] = source;
    words[word] = NULL;
    if (run((char *const *)(void *)words, log) == 0)
        return OK;
    file = fopen(log, "re");
    if (file != NULL) {
        program->log[fread(program->log, 1, LOG - 1, file)] = '\0';
        fclose(file);
    }
    return COMPILATION;
}

int nvrtcGetProgramLogSize(struct program *program, size_t *size)
{
    *size = strlen(program->log) + 1;
    return OK;
}

int nvrtcGetProgramLog(struct program *program, char *log)
{
    memcpy(log, program->log, strlen(program->log) + 1); /* the size that was reported before */
    return OK;
}

int nvrtcGetCUBINSize(struct program *program, size_t *size)
{
    *size = strlen(program->library) + 1;
    return OK;
}

int nvrtcGetCUBIN(struct program *program, char *bytes)
{
    memcpy(bytes, program->library,
           strlen(program->library) + 1); /* the size that was reported before */
    return OK;
}

int nvrtcGetPTXSize(struct program *program, size_t *size)
{
    return nvrtcGetCUBINSize(program, size);
}

int nvrtcGetPTX(struct program *program, char *bytes)
{
    return nvrtcGetCUBIN(program, bytes);
}
