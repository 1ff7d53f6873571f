/* catalogue: the GPUs that plimsoll knows, by name.
 *
 * The rows come from gpus.tsv, which explains its columns and gives the source of each row;
 * tools/gpus.awk makes gpu_rows.h of it. Cards cut in parts (MIG) are left out. */
#include <plimsoll/plimsoll.h>

#include <math.h>
#include <string.h>

static const struct row {
    const char *aliases; /* comma-separated, letters and digits alone; "-": none */
    pl_gpu gpu;
} rows[] = {
#include "gpu_rows.h"
};

enum { ROWS = sizeof rows / sizeof *rows, LONGEST = 64 };

const pl_gpu *pl_gpu_at(size_t index) {
    return index < ROWS ? &rows[index].gpu : NULL;
}

/* Lower case letters and digits of text, without a maker's name before them; false: too long. */
static bool bare_name(const char *text, char out[LONGEST]) {
    static const char *const makers[] = {"nvidia", "geforce", "tesla", "quadro"};
    size_t length = 0;
    for (; *text; text++) {
        char c = *text;
        if (c >= 'A' && c <= 'Z') c = (char)(c - 'A' + 'a');
        if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9')) continue;
        if (length + 1 == LONGEST) return false;
        out[length++] = c;
    }
    out[length] = 0;
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++) {
        size_t maker = strlen(makers[i]);
        if (!strncmp(out, makers[i], maker)) memmove(out, out + maker, strlen(out + maker) + 1);
    }
    return true;
}

/* Whether name is one of the comma-separated words of list. */
static bool in_list(const char *list, const char *name) {
    size_t length = strlen(name);
    for (const char *at = list; at; at = strchr(at, ',')) {
        if (*at == ',') at++;
        if (!strncmp(at, name, length) && (!at[length] || at[length] == ',')) return true;
    }
    return false;
}

const pl_gpu *pl_gpu_find(const char *name) {
    char wanted[LONGEST], own[LONGEST];
    if (!name || !bare_name(name, wanted) || !wanted[0]) return NULL;
    for (size_t i = 0; i < ROWS; i++) {
        if ((bare_name(rows[i].gpu.name, own) && !strcmp(own, wanted)) ||
            in_list(rows[i].aliases, wanted))
            return &rows[i].gpu;
    }
    return NULL;
}

/* PyTorch's out-of-memory messages name 39.4 to 39.6 GiB of an A100's 40, 79.2 of the larger one's
 * 80, 23.6 of an RTX 4090's 23.99, 139.8 of an H200's 140.4: about 1.5 %, and no more than 0.9 GiB.
 */
int64_t pl_gpu_usable(const pl_gpu *gpu) {
    int64_t share = gpu->capacity_bytes / 200 * 3, most = (int64_t)896 << 20;
    return gpu->capacity_bytes - (share < most ? share : most);
}
