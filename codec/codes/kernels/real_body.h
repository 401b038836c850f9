/* The real-number kernel for one level; real.c includes this once per level and sets:
 * NAME(x)  the name of x at this level     LANES    doubles in a vector register
 * TARGET   the attribute of its functions  VECTORS  registers per row of coefficients and step */

typedef double NAME(vec) __attribute__((vector_size(LANES * sizeof(double)), aligned(8), may_alias));

#define STEP (LANES * VECTORS)

/* One row of coefficients more costs VECTORS registers of sums; `rows` is a constant after inlining. */
TARGET static inline __attribute__((always_inline)) size_t NAME(steps)(
    const int rows, double *const *out, const double *const *in, int n_in, const double *coef, ptrdiff_t stride,
    size_t begin, size_t end, int add)
{
    size_t x = begin;
    for (; end - x >= STEP; x += STEP) {
        NAME(vec) sum[ROWS][VECTORS];
        for (int j = 0; j < rows; j++)
            for (int v = 0; v < VECTORS; v++) {
                sum[j][v] = *(const NAME(vec) *)(in[0] + x + v * LANES) * coef[j * stride];
                if (add)
                    sum[j][v] = *(NAME(vec) *)(out[j] + x + v * LANES) + sum[j][v];
            }
        for (int i = 1; i < n_in; i++)
            for (int v = 0; v < VECTORS; v++) {
                NAME(vec) value = *(const NAME(vec) *)(in[i] + x + v * LANES);
                for (int j = 0; j < rows; j++)
                    sum[j][v] += value * coef[j * stride + i];
            }
        for (int j = 0; j < rows; j++)
            for (int v = 0; v < VECTORS; v++)
                *(NAME(vec) *)(out[j] + x + v * LANES) = sum[j][v];
    }
    return x;
}

/* What is left behind the last whole step; memcpy because a double may stand at any address. */
static void NAME(tail)(double *const *out, int n_out, const double *const *in, int n_in, const double *coef,
                       ptrdiff_t stride, size_t begin, size_t end, int add)
{
    for (int j = 0; j < n_out; j++)
        for (size_t x = begin; x < end; x++) {
            double sum, value;
            memcpy(&value, in[0] + x, sizeof value);
            double product = value * coef[j * stride];
            memcpy(&sum, out[j] + x, sizeof sum);
            sum = add ? sum + product : product;
            for (int i = 1; i < n_in; i++) {
                memcpy(&value, in[i] + x, sizeof value);
                sum += value * coef[j * stride + i];
            }
            memcpy(out[j] + x, &sum, sizeof sum);
        }
}

TARGET static void NAME(strip)(double *const *out, int n_out, const double *const *in, int n_in, const double *coef,
                               ptrdiff_t stride, size_t begin, size_t end, int add)
{
    size_t done;
    switch (n_out) {
    case 1: done = NAME(steps)(1, out, in, n_in, coef, stride, begin, end, add); break;
    case 2: done = NAME(steps)(2, out, in, n_in, coef, stride, begin, end, add); break;
    case 3: done = NAME(steps)(3, out, in, n_in, coef, stride, begin, end, add); break;
    default: done = NAME(steps)(4, out, in, n_in, coef, stride, begin, end, add); break;
    }
    NAME(tail)(out, n_out, in, n_in, coef, stride, done, end, add);
}

#undef NAME
#undef TARGET
#undef LANES
#undef VECTORS
#undef STEP
