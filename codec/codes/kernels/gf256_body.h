/* The GF(2^8) kernel for one level; gf256.c includes this once per level and sets:
 * NAME(x)  the name of x at this level   LOAD, STORE, AND, XOR  of a whole register, at any address
 * TARGET   attribute of its functions    TABLE   16 bytes of memory in each 128-bit part of a register
 * VEC      a vector register             LOOKUP  the bytes of a table that a register of nibbles names
 * NIBBLE   15 in each byte               HIGH    shift right by 4, to bring the high nibbles down (unmasked) */

#define WIDTH sizeof(VEC)

/* `rows` and `sum_first` are constants after inlining. Two registers a step share the loads of the tables. */
TARGET static inline __attribute__((always_inline)) size_t NAME(steps)(
    const int rows, const int sum_first, uint8_t *const *out, const uint8_t *const *in, int n_in,
    const struct riprap_gf256_coef *coef, ptrdiff_t stride, size_t begin, size_t end, int add)
{
    const VEC nibble = NIBBLE;
    size_t x = begin;
    for (; end - x >= 2 * WIDTH; x += 2 * WIDTH) {
        VEC sum0[ROWS], sum1[ROWS];
        for (int j = 0; j < rows; j++) {
            sum0[j] = add ? LOAD(out[j] + x) : XOR(nibble, nibble);
            sum1[j] = add ? LOAD(out[j] + x + WIDTH) : XOR(nibble, nibble);
        }
        for (int i = 0; i < n_in; i++) {
            VEC value0 = LOAD(in[i] + x), value1 = LOAD(in[i] + x + WIDTH);
            if (sum_first) {
                sum0[0] = XOR(sum0[0], value0);
                sum1[0] = XOR(sum1[0], value1);
            }
            VEC low0 = AND(value0, nibble), high0 = AND(HIGH(value0), nibble);
            VEC low1 = AND(value1, nibble), high1 = AND(HIGH(value1), nibble);
            for (int j = sum_first; j < rows; j++) {
                VEC low = TABLE(coef[j * stride + i].low), high = TABLE(coef[j * stride + i].high);
                sum0[j] = XOR(sum0[j], XOR(LOOKUP(low, low0), LOOKUP(high, high0)));
                sum1[j] = XOR(sum1[j], XOR(LOOKUP(low, low1), LOOKUP(high, high1)));
            }
        }
        for (int j = 0; j < rows; j++) {
            STORE(out[j] + x, sum0[j]);
            STORE(out[j] + x + WIDTH, sum1[j]);
        }
    }
    return x;
}

#define STEPS(rows, sum_first) NAME(steps)(rows, sum_first, out, in, n_in, coef, stride, begin, end, add)

TARGET static void NAME(strip)(uint8_t *const *out, int n_out, int sum_first, const uint8_t *const *in, int n_in,
                               const struct riprap_gf256_coef *coef, ptrdiff_t stride, size_t begin, size_t end,
                               int add)
{
    size_t done;
    switch (2 * n_out + sum_first) {
    case 2: done = STEPS(1, 0); break;
    case 3: done = STEPS(1, 1); break;
    case 4: done = STEPS(2, 0); break;
    case 5: done = STEPS(2, 1); break;
    case 6: done = STEPS(3, 0); break;
    case 7: done = STEPS(3, 1); break;
    case 8: done = STEPS(4, 0); break;
    default: done = STEPS(4, 1); break;
    }
    strip_baseline(out, n_out, sum_first, in, n_in, coef, stride, done, end, add);
}

#undef STEPS
#undef WIDTH
#undef NAME
#undef TARGET
#undef VEC
#undef LOAD
#undef STORE
#undef TABLE
#undef NIBBLE
#undef AND
#undef XOR
#undef HIGH
#undef LOOKUP
