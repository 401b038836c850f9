/* Linear combinations of byte arrays over GF(2^8): the one kernel that encodes and decodes the byte codes.
 *
 * The field is that of the polynomial x^8 + x^4 + x^3 + x^2 + 1 (0x11d), the usual one of Reed-Solomon codes.
 */
#ifndef RIPRAP_GF256_H
#define RIPRAP_GF256_H

#include <stddef.h>
#include <stdint.h>

#define RIPRAP_GF256_POLYNOMIAL 0x11d

/* A coefficient, unfolded for the kernels: product = low[value & 15] ^ high[value >> 4]
 * (Plank, Greenan, Miller: Screaming Fast Galois Field Arithmetic Using Intel SIMD Instructions, FAST 2013). */
struct riprap_gf256_coef {
    uint8_t low[16];
    uint8_t high[16];
};

/* The product of two elements, bit by bit: slow, the definition that all else is made from. */
uint8_t riprap_gf256_product(uint8_t a, uint8_t b);

/* Unfold the coefficient `value`. */
void riprap_gf256_unfold(struct riprap_gf256_coef *coef, uint8_t value);

/* out[j][x] = sum over i of coef[j * stride + i] * in[i][x] for begin <= x < end, or out[j][x] += that sum if `add` is set.
 *
 * No pointer needs an alignment. The outputs overlap neither each other nor an input. n_in >= 1.
 */
void riprap_gf256_combine(uint8_t *const *out, int n_out, const uint8_t *const *in, int n_in,
                          const struct riprap_gf256_coef *coef, ptrdiff_t stride, size_t begin, size_t end, int add);

#endif
