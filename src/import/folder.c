/* folder: see folder.h. POSIX: opendir. A model as Hugging Face saves it is a folder with its
 * config.json; what else lies there (weights, tokenizers) is not looked at. Left out: folders in it. */
#define _POSIX_C_SOURCE 200809L
#include "import/folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_ENTRIES = 10000, MOST_NAME = 256 };

bool pl_folder_is(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* What a name says; the lower, the better. -1: no model file. */
static int rank_of(const char *name) {
    static const char *const names[] = {"config.json", "model.pt2", "model.onnx"},
                             *const endings[] = {".pt2", ".onnx"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0) return (int)i;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t length = strlen(name), tail = strlen(endings[i]);
        if (length > tail && strcmp(name + length - tail, endings[i]) == 0) return 10;
    }
    return -1;
}

typedef struct found {
    char best[MOST_NAME], list[200], models[200]; /* the lists: names that lie there */
    int rank, several, entries;
    bool adapter, pipeline, weights;
} found;

/* Behind the others, where there is room. */
static void add_name(char list[200], const char *name) {
    size_t used = strlen(list), length = strlen(name);
    if (used + length + 8 < 200) {
        memcpy(list + used, ", ", 2);
        memcpy(list + used + (used ? 2 : 0), name, length + 1);
    } else if (used > 5 && strcmp(list + used - 5, ", ...") != 0) {
        memcpy(list + used, ", ...", 6);
    }
}

static void look_at(found *f, const char *name) {
    int rank = rank_of(name);
    f->entries++;
    f->adapter = f->adapter || strcmp(name, "adapter_config.json") == 0;
    f->pipeline = f->pipeline || strcmp(name, "model_index.json") == 0;
    f->weights = f->weights || strstr(name, ".safetensors") || strstr(name, ".bin");
    add_name(f->list, name);
    if (rank == 10) add_name(f->models, name);
    if (rank < 0 || strlen(name) >= sizeof f->best) return;
    f->several += rank == 10;
    if (f->rank >= 0 && rank >= f->rank) return;
    f->rank = rank;
    snprintf(f->best, sizeof f->best, "%s", name);
}

pl_status pl_folder_model(char *out, size_t room, const char *path, pl_error *err) {
    DIR *folder = opendir(path);
    if (!folder)
        return pl_fail(err, PL_INPUT, path, -1, "cannot open the folder: %s", strerror(errno));
    found f = {.rank = -1};
    struct dirent *entry;
    while (f.entries < MOST_ENTRIES && (entry = readdir(folder)))
        if (entry->d_name[0] != '.') look_at(&f, entry->d_name);
    closedir(folder);
    char *lists[] = {f.list, f.models};
    for (int i = 0; i < 2; i++)
        for (char *c = lists[i]; *c; c++)
            if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = '?';
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') length--;
    if (f.rank >= 0 && (f.rank < 10 || f.several == 1)) {
        if (snprintf(out, room, "%.*s/%s", (int)(length < 4096 ? length : 4096), path, f.best) <
            (int)room)
            return PL_OK;
        return pl_fail(err, PL_INPUT, path, -1, "the path is too long");
    }
    if (f.several > 1)
        return pl_fail(err, PL_INPUT, path, -1,
                       "a folder with several models; name one of them: %s", f.models);
    const char *say =
        f.adapter    ? "the folder of an adapter (PEFT); its adapter_config.json names the base "
                       "model, whose config.json is the file to give"
        : f.pipeline ? "the folder of a diffusion pipeline; export the part that is "
                       "trained with torch.export.save"
        : f.weights  ? "a folder of weights without the model's config.json; fetch that too"
                     : "a folder without a config.json or another model file";
    return pl_fail(err, PL_INPUT, path, -1, "%s%s%s", say, f.list[0] ? "; in it are " : "", f.list);
}
