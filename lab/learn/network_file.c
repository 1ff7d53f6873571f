/* network_file: a network's bytes in a model file.
 *
 *     u32 version (1)   u32 outputs   u32 store   text of all chains ("net")
 *     then each chain's tensors in the order of its layers, then its states as f32
 *
 * A tensor is [rows, columns], row by row. store 0: f32. store 1: f16 (IEEE binary16). store 2: of
 * a matrix or a table, one f32 scale for each column (an output's), then int8s, weight = scale *
 * int8; of a vector f32. Everything else follows from the text: nothing in the file says how large
 * it is that could contradict it. */
#include "lab/learn/network.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const pl_network_stores[PL_STORES] = {"f32", "f16", "int8"};

enum { VERSION = 1, OUTPUTS_MOST = PL_WIDTH_MOST };

/* ---- f16 ---- */

static uint16_t to_half(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    float size = fabsf(value);
    if (size >= 65504.0f) return sign | 0x7bff; /* the largest: never infinity */
    if (size < 0x1p-14f) return sign | (uint16_t)lrintf(size * 0x1p24f); /* subnormal */
    memcpy(&bits, &size, sizeof bits);
    bits += 0xfff + (bits >> 13 & 1); /* to nearest, ties to even */
    return sign | (uint16_t)((bits >> 13) - (112 << 10));
}

static float from_half(uint16_t half) {
    uint32_t exponent = half >> 10 & 31, fraction = half & 1023;
    float size = exponent ? ldexpf((float)(fraction | 1024), (int)exponent - 25)
                          : ldexpf((float)fraction, -24);
    return half & 0x8000 ? -size : size;
}

/* ---- int8 ---- */

/* The scale of a column whose largest number is `most`: at least most / 127, with 15 bits behind
 * its first, so that 127 times it is exact and rounding what was rounded changes nothing. */
static float scale_of(float most) {
    int exponent;
    float fraction = frexpf(most / 127.0f, &exponent);
    float scale = ldexpf(ceilf(fraction * 65536.0f), exponent - 16);
    return scale > 0 ? scale : 1;
}

static int8_t to_int8(float value, float scale) {
    float n = nearbyintf(value / scale);
    return (int8_t)fmaxf(-127, fminf(127, n));
}

static float column_scale(const float *w, size_t rows, size_t columns, size_t column) {
    float most = 0;
    for (size_t r = 0; r < rows; r++) most = fmaxf(most, fabsf(w[r * columns + column]));
    return scale_of(most);
}

static bool in_int8(const pl_net_tensor *t, pl_network_store store) {
    return store == PL_STORE_INT8 && t->use != PL_VECTOR;
}

void pl_network_round(const pl_chain *chain, pl_network_store store, float *plain) {
    for (size_t i = 0; i < chain->count; i++)
        for (size_t j = 0; j < chain->layers[i].tensor_count; j++) {
            const pl_net_tensor *t = &chain->layers[i].tensors[j];
            float *w = plain + t->plain;
            size_t size = t->rows * t->columns;
            for (size_t k = 0; store == PL_STORE_F16 && k < size; k++)
                w[k] = from_half(to_half(w[k]));
            if (!in_int8(t, store)) continue;
            for (size_t c = 0; c < t->columns; c++) {
                float scale = column_scale(w, t->rows, t->columns, c);
                for (size_t r = 0; r < t->rows; r++) {
                    float *at = &w[r * t->columns + c];
                    *at = scale * (float)to_int8(*at, scale);
                }
            }
        }
}

/* ---- save ---- */

static void write_tensor(pl_writer *writer, const pl_net_tensor *t, pl_network_store store,
                         const float *w) {
    size_t size = t->rows * t->columns;
    if (store == PL_STORE_F16) {
        for (size_t k = 0; k < size; k++) {
            uint16_t half = to_half(w[k]);
            pl_write_u8(writer, (uint8_t)(half & 255));
            pl_write_u8(writer, (uint8_t)(half >> 8));
        }
        return;
    }
    if (!in_int8(t, store)) {
        pl_write_floats(writer, w, size);
        return;
    }
    float *scales = malloc(t->columns * sizeof *scales);
    if (!scales) {
        writer->failed = true;
        return;
    }
    for (size_t c = 0; c < t->columns; c++) scales[c] = column_scale(w, t->rows, t->columns, c);
    pl_write_floats(writer, scales, t->columns);
    for (size_t k = 0; k < size; k++)
        pl_write_u8(writer, (uint8_t)to_int8(w[k], scales[k % t->columns]));
    free(scales);
}

void pl_network_save(const pl_learned *learned, pl_writer *writer) {
    const pl_network *n = (const pl_network *)learned;
    pl_write_u32(writer, VERSION);
    pl_write_u32(writer, (uint32_t)n->learned.outputs);
    pl_write_u32(writer, (uint32_t)n->store);
    pl_write_text(writer, n->text);
    for (size_t m = 0; m < n->member_count; m++) {
        const pl_chain *chain = &n->members[m];
        float *plain = malloc((chain->weights + 1) * sizeof *plain);
        if (!plain) {
            writer->failed = true;
            return;
        }
        pl_chain_unpack(chain, n->weights[m], plain);
        for (size_t i = 0; i < chain->count; i++)
            for (size_t j = 0; j < chain->layers[i].tensor_count; j++) {
                const pl_net_tensor *t = &chain->layers[i].tensors[j];
                write_tensor(writer, t, n->store, plain + t->plain);
            }
        pl_write_floats(writer, pl_network_states(n, m), chain->states);
        free(plain);
    }
}

/* ---- load ---- */

static bool read_tensor(pl_reader *reader, const pl_net_tensor *t, pl_network_store store,
                        float *w) {
    size_t size = t->rows * t->columns;
    if (store == PL_STORE_F16) {
        const unsigned char *bytes = pl_read_bytes(reader, size * 2);
        for (size_t k = 0; bytes && k < size; k++) {
            uint16_t half = (uint16_t)(bytes[2 * k] | bytes[2 * k + 1] << 8);
            if ((half & 0x7c00) == 0x7c00) {
                pl_read_fail(reader, "finite weights");
                return false;
            }
            w[k] = from_half(half);
        }
        return bytes != NULL;
    }
    if (!in_int8(t, store)) return pl_read_floats(reader, w, size);
    /* The scales go into the first row until it is reached, last. */
    if (!pl_read_floats(reader, w, t->columns)) return false;
    const unsigned char *bytes = pl_read_bytes(reader, size);
    if (!bytes) return false;
    for (size_t c = 0; c < t->columns; c++)
        if (!(w[c] > 0 && w[c] < 1e30f)) {
            pl_read_fail(reader, "a scale above 0");
            return false;
        }
    for (size_t k = size; k-- > 0;) w[k] = w[k % t->columns] * (float)(int8_t)bytes[k];
    return true;
}

static bool read_member(pl_reader *reader, pl_network *n, size_t m) {
    const pl_chain *chain = &n->members[m];
    float *plain = malloc((chain->weights + 1) * sizeof *plain);
    if (!plain) {
        pl_read_no_memory(reader);
        return false;
    }
    bool good = true;
    for (size_t i = 0; i < chain->count && good; i++)
        for (size_t j = 0; j < chain->layers[i].tensor_count && good; j++) {
            const pl_net_tensor *t = &chain->layers[i].tensors[j];
            good = read_tensor(reader, t, n->store, plain + t->plain);
        }
    float *states = pl_network_states(n, m);
    good = good && pl_read_floats(reader, states, chain->states);
    for (size_t i = 0; i < chain->count && good; i++) {
        const pl_layer *l = &chain->layers[i];
        for (size_t s = l->state_count / 2; s < l->state_count && good; s++)
            if (states[l->states + s] < 0) {
                pl_read_fail(reader, "variances of 0 or above");
                good = false;
            }
    }
    if (good) pl_chain_pack(chain, plain, n->weights[m]);
    free(plain);
    return good;
}

/* Bytes that the tensors of a chain take in the file. */
static size_t bytes_of(const pl_chain *chain, pl_network_store store) {
    size_t bytes = chain->states * 4;
    for (size_t i = 0; i < chain->count; i++)
        for (size_t j = 0; j < chain->layers[i].tensor_count; j++) {
            const pl_net_tensor *t = &chain->layers[i].tensors[j];
            size_t size = t->rows * t->columns;
            bytes += in_int8(t, store)       ? size + t->columns * 4
                     : store == PL_STORE_F16 ? size * 2
                                             : size * 4;
        }
    return bytes;
}

pl_learned *pl_network_load(pl_reader *reader, size_t columns, size_t channels) {
    pl_read_u32_in(reader, VERSION, VERSION, "a network of version 1");
    size_t outputs = pl_read_u32_in(reader, 1, OUTPUTS_MOST, "1 to 8192 outputs");
    uint32_t store = pl_read_u32_in(reader, 0, PL_STORES - 1, "a way of storing weights, 0 to 2");
    char *text = pl_read_text(reader, PL_NETWORK_TEXT - 1);
    pl_network *n = NULL;
    if (reader->failure || !text) {
        free(text);
        return NULL;
    }
    pl_status status = pl_network_parse(&n, text, columns, channels, outputs, NULL);
    if (status == PL_MISSING)
        pl_read_no_memory(reader);
    else if (status != PL_OK)
        pl_read_fail(reader, "the layers of a network that fits the features");
    free(text);
    if (!n) return NULL;
    n->store = (pl_network_store)store;
    size_t bytes = 0;
    for (size_t m = 0; m < n->member_count; m++) bytes += bytes_of(&n->members[m], n->store);
    bool good = pl_read_has(reader, bytes, 1); /* before anything is allocated for them */
    if (!good) pl_read_fail(reader, "the network's weights");
    if (good && !pl_network_allocate(n)) {
        pl_read_no_memory(reader);
        good = false;
    }
    for (size_t m = 0; m < n->member_count && good; m++) good = read_member(reader, n, m);
    pl_learned *learned = &n->learned;
    if (!good) pl_network_close(&learned);
    return learned;
}
