/* crc32: see crc32.h.
 *
 * The bytes are a polynomial over GF(2), lowest bit of the first byte first; its checksum is its
 * remainder by P = x^32 + x^26 + ... + 1. A piece of 128 bits that stands n bits before another may
 * be added to it once multiplied by x^n mod P, which leaves the remainder as it was: four lanes of
 * 128 bits each are so folded over the next 512 bits until 64 bytes or fewer are left, then into
 * one. That one and what is left over go through zlib, which also does everything where the
 * processor cannot multiply so. */
#include "core/crc32.h"

#include <zlib.h>

#include "core/cpu.h"

#if defined __x86_64__ && defined __GNUC__
#include <immintrin.h>

#define FOLDING __attribute__((target("pclmul,sse2")))

enum { LANES = 4, LANE = 16, STRIDE = LANES * LANE, WORTH_FOLDING = 16 << 10 };

/* `piece` moved on to where `next` stands. by: x^(n+32) mod P and x^(n-32) mod P for its halves,
 * bits reversed and shifted by one, as the product of reversed numbers needs them. */
FOLDING static __m128i fold(__m128i piece, __m128i by, __m128i next) {
    __m128i low = _mm_clmulepi64_si128(piece, by, 0x00);
    __m128i high = _mm_clmulepi64_si128(piece, by, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

/* size: at least STRIDE. */
FOLDING static uint32_t fold_all(const unsigned char *bytes, size_t size) {
    const __m128i by_512 = _mm_set_epi64x(0x1c6e41596, 0x154442bd4); /* n = 512 */
    const __m128i by_128 = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0); /* n = 128 */
    __m128i lanes[LANES];
    for (int i = 0; i < LANES; i++)
        lanes[i] = _mm_loadu_si128((const __m128i *)(const void *)(bytes + i * LANE));
    /* the register begins as ones: the first 32 bits are inverted */
    lanes[0] = _mm_xor_si128(lanes[0], _mm_cvtsi32_si128(-1));
    for (bytes += STRIDE, size -= STRIDE; size >= STRIDE; bytes += STRIDE, size -= STRIDE)
        for (int i = 0; i < LANES; i++)
            lanes[i] = fold(lanes[i], by_512,
                            _mm_loadu_si128((const __m128i *)(const void *)(bytes + i * LANE)));
    for (int i = 1; i < LANES; i++) lanes[i] = fold(lanes[i - 1], by_128, lanes[i]);
    unsigned char last[LANE];
    _mm_storeu_si128((__m128i *)(void *)last, lanes[LANES - 1]);
    /* zlib inverts the register before and after: from ~0, so that it begins as nought */
    return (uint32_t)crc32_z(crc32_z(UINT32_MAX, last, LANE), bytes, size);
}

uint32_t pl_crc32(const void *bytes, size_t size) {
    if (size >= WORTH_FOLDING && pl_cpu_has_pclmul()) return fold_all(bytes, size);
    return (uint32_t)crc32_z(0, bytes, size);
}
#else
uint32_t pl_crc32(const void *bytes, size_t size) {
    return (uint32_t)crc32_z(0, bytes, size);
}
#endif
