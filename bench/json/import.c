/* bench/json/import: how long the whole import of a model file takes: map it, find the member,
 * check its CRC, build the graph; then how long it takes to bind it. `import FILE N` does it N
 * times and prints least and median time in microseconds; run.py builds and runs it. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "import/import.h"

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    int rounds = atoi(argv[2]);
    double *times = calloc((size_t)rounds, sizeof *times),
           *binds = calloc((size_t)rounds, sizeof *binds);
    if (rounds < 1 || !times || !binds) return 2;
    pl_error err;
    for (int i = 0; i < rounds; i++) {
        pl_graph *graph, *bound;
        double start = now();
        if (pl_import_file(&graph, argv[1], NULL, &err) != PL_OK) {
            fprintf(stderr, "%s: byte %lld: %s\n", err.where, (long long)err.position, err.message);
            return 3;
        }
        times[i] = now() - start;
        int64_t values[16] = {0};
        for (int32_t k = 0; k < graph->symbol_count && k < 16; k++)
            values[k] = graph->symbols[k].hint;
        start = now();
        if (graph->symbol_count > 16 || pl_graph_bind(&bound, graph, values, &err) != PL_OK)
            bound = NULL;
        binds[i] = now() - start;
        pl_graph_close(&bound);
        pl_graph_close(&graph);
    }
    qsort(times, (size_t)rounds, sizeof *times, by_value);
    qsort(binds, (size_t)rounds, sizeof *binds, by_value);
    printf("%.0f %.0f %.0f %.0f\n", times[0], times[rounds / 2], binds[0], binds[rounds / 2]);
    free(times);
    free(binds);
    return 0;
}
