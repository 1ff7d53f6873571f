/* blas: see blas.h. The library stays loaded until the process ends: it keeps threads and memory of
 * its own that cannot be taken back in order. */
#include "lab/learn/blas.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

static pl_openblas blas;
static bool found;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* POSIX has dlsym return an object's pointer for a function's. */
static bool symbol(void *library, const char *name, void *out) {
    void *at = dlsym(library, name);
    memcpy(out, &at, sizeof at);
    return at != NULL;
}

static void load(void) {
    void *library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!library) return;
    if (!symbol(library, "cblas_sgemm", &blas.sgemm)) {
        dlclose(library);
        return;
    }
    const char *(*config)(void) = NULL;
    blas.config = symbol(library, "openblas_get_config", &config) ? config() : "";
    if (symbol(library, "openblas_set_num_threads", &blas.set_threads)) blas.set_threads(1);
    found = true;
}

pl_status pl_blas_open(const pl_openblas **out, pl_error *err) {
    *out = NULL;
    pthread_once(&once, load);
    if (!found)
        return pl_fail(err, PL_MISSING, "libopenblas.so.0", -1,
                       "training a network of this size wants OpenBLAS, which is not installed: "
                       "apt install libopenblas0");
    *out = &blas;
    return PL_OK;
}
