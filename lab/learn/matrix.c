/* matrix: see matrix.h. The kernels need the right side in panels; here these are made piece by
 * piece, in room that is small and fixed. Weights that are multiplied with often are packed once by
 * their owner instead. */
#include "lab/learn/matrix.h"

#include <limits.h>
#include <string.h>

/* The kernels were faster than OpenBLAS 0.3.21 on an EPYC (Zen, AVX2) at every size that a network
 * of these papers has, 2026-11, but one: a gradient of large weights, whose left side is read down
 * its columns (512 x 512, 1,440 rows: 64 against 91 GFLOP/s; 64 x 64, 2,560 rows: 85 against 84).
 * bench/networks.py measures it again. */
static const double blas_from = 3e7; /* multiplications */

void pl_panels_pack(const float *b, size_t b_row, bool turned, size_t k, size_t n, float *panels) {
    for (size_t done = 0; done < n; done += PL_PANEL, panels += k * PL_PANEL) {
        size_t columns = n - done < PL_PANEL ? n - done : PL_PANEL;
        if (turned) {
            if (columns < PL_PANEL) memset(panels, 0, k * PL_PANEL * sizeof *panels);
            for (size_t j = 0; j < columns; j++) {
                const float *from = b + (done + j) * b_row;
                for (size_t i = 0; i < k; i++) panels[i * PL_PANEL + j] = from[i];
            }
            continue;
        }
        for (size_t i = 0; i < k; i++) {
            const float *from = b + i * b_row + done;
            float *to = panels + i * PL_PANEL;
            if (columns == PL_PANEL) {
                memcpy(to, from, PL_PANEL * sizeof *to);
                continue;
            }
            memset(to, 0, PL_PANEL * sizeof *to);
            for (size_t j = 0; j < columns; j++) to[j] = from[j];
        }
    }
}

void pl_panels_unpack(const float *panels, size_t k, size_t n, float *b) {
    for (size_t done = 0; done < n; done += PL_PANEL, panels += k * PL_PANEL) {
        size_t columns = n - done < PL_PANEL ? n - done : PL_PANEL;
        for (size_t i = 0; i < k; i++)
            memcpy(b + i * n + done, panels + i * PL_PANEL, columns * sizeof *b);
    }
}

/* Panel by panel, and k in pieces that a panel of fits the room and the first caches. */
static void multiply_here(const pl_products *with, size_t m, size_t n, size_t k, pl_operand a,
                          pl_operand b, const float *bias, bool add, float *c, size_t c_row) {
    const size_t most = PL_PANEL_ROOM / PL_PANEL;
    size_t a_row = a.turned ? 1 : a.row, a_column = a.turned ? a.row : 1;
    for (size_t from = 0; from < k || from == 0; from += most) {
        size_t part = k - from < most ? k - from : most;
        for (size_t done = 0; done < n; done += PL_PANEL) {
            size_t columns = n - done < PL_PANEL ? n - done : PL_PANEL;
            const float *piece = b.turned ? b.at + done * b.row + from : b.at + from * b.row + done;
            pl_panels_pack(piece, b.row, b.turned, part, columns, with->room);
            with->kernels->multiply(m, columns, part, a.at + from * a_column, a_row, a_column,
                                    with->room, bias && from == 0 ? bias + done : NULL,
                                    add || from > 0, c + done, c_row);
        }
    }
}

void pl_multiply(const pl_products *with, size_t m, size_t n, size_t k, pl_operand a, pl_operand b,
                 const float *bias, bool add, float *c, size_t c_row) {
    if (m == 0 || n == 0) return;
    bool large = a.turned && (double)m * (double)n * (double)k >= blas_from;
    if (!with->blas || !large || m > INT_MAX || n > INT_MAX || k > INT_MAX || a.row > INT_MAX ||
        b.row > INT_MAX || c_row > INT_MAX) {
        multiply_here(with, m, n, k, a, b, bias, add, c, c_row);
        return;
    }
    if (bias) {
        for (size_t i = 0; i < m; i++) {
            if (add)
                with->kernels->add(c + i * c_row, bias, n);
            else
                memcpy(c + i * c_row, bias, n * sizeof *c);
        }
    }
    with->blas->sgemm(PL_BLAS_ROWS, a.turned ? PL_BLAS_TURNED : PL_BLAS_AS_IS,
                      b.turned ? PL_BLAS_TURNED : PL_BLAS_AS_IS, (int)m, (int)n, (int)k, 1.0f, a.at,
                      (int)a.row, b.at, (int)b.row, add || bias ? 1.0f : 0.0f, c, (int)c_row);
}
