/* fixture: what the tests of measured jobs share: the fixture's jobs (tests/data/accuracy) and
 * made-up ones, opened once, and a folder for files that is removed at the end. Of the graphs only
 * the smaller are unpacked: it takes less time, and jobs without a graph are wanted too. */
#ifndef PL_TESTS_FIXTURE_H
#define PL_TESTS_FIXTURE_H

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "lab/train/learned.h"
#include "lab/jobs/packed.h"

enum { GRAPH_MOST = 250000 /* bytes */, PATH = 1024 };
static const int64_t mib = 1 << 20;

/* Pieces of files. */
#define JOB    "{\"job\":{\"id\":\"a\",\"batch\":2},"
#define RESULT "\"result\":{\"peak_allocated\":1,\"peak_reserved\":2,\"overhead\":3"
#define CSV_HEAD                                                                                   \
    "Filename,Depth,Activations-Params,Activation Function,Total Activations,Total Parameters,"    \
    "Batch Size,Batch Normalization Layers,Dropout Layers,Max GPU Memory (MiB)"
#define CSV_ROW "a.out,2,\"[('linear', 8, 72), ('ReLU', 8, 0)]\",ReLU,16,72,32,0,0,"

static char fixture[PATH], scratch[PATH];
static pl_jobs *jobs;    /* the fixture's, with graphs */
static pl_jobs *bare;    /* the same without */
static pl_jobs *made_up; /* see records */

static inline bool near(double got, double want) {
    return fabs(got - want) <= 1e-9 * fmax(1, fabs(want));
}

#define CHECK_NEAR(got, want)                                                                      \
    do {                                                                                           \
        if (!near(got, want)) {                                                                    \
            check_say(__FILE__, __LINE__, #got);                                                   \
            printf("    is %.12g, should be %.12g\n", (double)(got), (double)(want));              \
        }                                                                                          \
    } while (0)

static inline bool contains(const char *text, const char *part) {
    if (strstr(text, part)) return true;
    printf("    '%s' does not say '%s'\n", text, part);
    return false;
}

/* The path of a name in scratch; one of four that take turns. */
static inline const char *in_scratch(const char *name) {
    static char paths[4][PATH + 256];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(paths[turn], sizeof paths[turn], "%s/%s", scratch, name);
    return paths[turn];
}

static inline const char *write_file(const char *name, const void *bytes, size_t size) {
    const char *path = in_scratch(name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(bytes, 1, size, file) != size) check_say(path, 0, "cannot be written");
    if (file) fclose(file);
    return path;
}

/* malloc'ed */
static inline char *read_whole(const char *path, size_t *size) {
    char *bytes = NULL;
    pl_error err = {0};
    if (pl_packed_read(&bytes, size, path, (size_t)1 << 30, &err) != PL_OK)
        check_say(path, 0, err.message);
    return bytes;
}

/* Graphs of the archive that are not too large, into a folder; tar's blocks are 512 bytes, a file's
 * name stands at 0 and its size, in octal, at 124. */
static inline void unpack(const char *archive, const char *folder) {
    size_t size, at = 0;
    char *bytes = read_whole(archive, &size);
    mkdir(folder, 0700);
    while (bytes && at + 512 <= size && bytes[at]) {
        char name[128], digits[13] = "";
        memcpy(digits, bytes + at + 124, 12);
        size_t length = strtoul(digits, NULL, 8);
        if (length > size - at - 512) break;
        snprintf(name, sizeof name, "graphs/%.100s", bytes + at);
        if (length <= GRAPH_MOST) write_file(name, bytes + at + 512, length);
        at += 512 + (length + 511) / 512 * 512;
    }
    free(bytes);
}

static inline pl_jobs *open_files(const char *const *paths, size_t count, const char *folder,
                                  const char *gpu) {
    pl_jobs_settings settings;
    pl_jobs_settings_default(&settings);
    settings.graphs = folder;
    settings.gpu = gpu;
    pl_jobs *opened = NULL;
    pl_error err = {0};
    if (pl_jobs_open(&opened, paths, count, &settings, &err) != PL_OK)
        check_say(paths[0], 0, err.message);
    return opened;
}

static inline pl_jobs *open_text(const char *text) {
    const char *path = write_file("text", text, strlen(text));
    return open_files(&path, 1, NULL, "h200");
}

/* Jobs of 12 models in 3 families, two layers each, as a file has them; compute: the floating-point
 * operations of every second model of the first two families. malloc'ed. */
static inline char *records(int count, bool compute) {
    size_t room = (size_t)count * 512, used = 0;
    char *text = malloc(room);
    for (int i = 0; text && i < count; i++) {
        int model = i % 12, wide = 64 * (model + 1), batch = 1 << i / 12;
        char measured[96] = "";
        if (compute && model % 3 < 2 && model % 2 == 0)
            snprintf(measured, sizeof measured, "\"flops_per_step\":%d,\"step_ms\":%d.5,",
                     batch * wide * wide * 6, 1 + i % 7);
        used += (size_t)snprintf(
            text + used, room - used,
            "{\"job\":{\"id\":\"j%d\",\"family\":\"f%d\",\"batch\":%d,\"precision\":\"fp32\","
            "\"optimizer\":\"adam\",\"model\":{\"kind\":\"mlp\",\"name\":\"m%d\"}},\"result\":{"
            "%s\"peak_allocated\":1,\"peak_reserved\":%" PRId64 ",\"overhead\":%" PRId64
            ",\"layers\":[[\"Linear\",%d,%d],[\"ReLU\",%d,0]]}}\n",
            i, model % 3, batch, model, measured, (16 * wide + 8 * batch * model) * mib, 500 * mib,
            wide, wide * wide, wide);
    }
    return text;
}

static inline const pl_measured *find_job(const pl_jobs *in, const char *id) {
    for (size_t i = 0; i < in->count; i++)
        if (strcmp(in->items[i].facts.id, id) == 0) return &in->items[i];
    return NULL;
}

/* ---- opening and closing ---- */

/* false: no such fixture, or no place for files; said on stdout. */
static inline bool fixture_open(const char *folder, const char *test) {
    const char *temporary = getenv("TMPDIR"), *path = fixture;
    char archive[PATH + 32], graphs[PATH + 32];
    snprintf(scratch, sizeof scratch, "%s/plimsoll-%s-XXXXXX",
             temporary && strlen(temporary) < 512 ? temporary : "/tmp", test);
    if (!mkdtemp(scratch)) {
        scratch[0] = 0;
        printf("not ok fixture_open\n");
        return false;
    }
    snprintf(fixture, sizeof fixture, "%s/jobs.jsonl.xz", folder);
    snprintf(archive, sizeof archive, "%s/graphs.tar.xz", folder);
    snprintf(graphs, sizeof graphs, "%s/graphs", scratch);
    unpack(archive, graphs);
    jobs = open_files(&path, 1, graphs, "h200");
    bare = open_files(&path, 1, NULL, "h200");
    char *text = records(60, true);
    path = text ? write_file("records", text, strlen(text)) : "";
    free(text);
    made_up = open_files(&path, 1, NULL, "h200");
    if (jobs && bare && made_up) return true;
    printf("not ok fixture_open\n");
    return false;
}

static inline void remove_folder(const char *folder) {
    DIR *open = opendir(folder);
    char path[PATH * 2];
    for (struct dirent *entry; open && (entry = readdir(open));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        unlink(path);
    }
    if (open) closedir(open);
    rmdir(folder);
}

/* The program's exit code. */
static inline int fixture_close(bool opened) {
    pl_jobs_close(&jobs);
    pl_jobs_close(&bare);
    pl_jobs_close(&made_up);
    if (scratch[0]) {
        remove_folder(in_scratch("graphs"));
        remove_folder(scratch);
    }
    return opened ? check_done() : 1;
}

#endif
