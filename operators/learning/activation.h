/* Functions applied to each value by itself: the same bits wherever a value stands, unlike a library's vector code. */
#ifndef RIPRAP_ACTIVATION_H
#define RIPRAP_ACTIVATION_H

#include "lanes.h"

enum { ACTIVATE_LOGISTIC = 0, ACTIVATE_TANH = 1 };

/* 1 / (1 + e^-x), and (1 - e^-2|x|) / (1 + e^-2|x|) with the sign of x; NaN stays NaN. */
INLINE v4d activated(int function, v4d x)
{
    v4d size = choose4(x > 0.0, x, -x);
    if (function == ACTIVATE_TANH) {
        v4d e = exp_nonpositive(size * -2.0);
        v4d value = (1.0 - e) / (1.0 + e);
        return choose4(x > 0.0, value, -value);
    }
    v4d e = exp_nonpositive(-size);
    v4d q = 1.0 / (1.0 + e);
    return choose4(x > 0.0, q, e * q);
}

INLINE void activate_all(int function, double *values, size_t count)
{
    size_t i = 0;
    for (; i + LANES <= count; i += LANES)
        *(v4d_anywhere *)(values + i) = (v4d_anywhere)activated(function, load4((const char *)(values + i)));
    if (i < count) {
        double rest[LANES] = {0.0, 0.0, 0.0, 0.0};
        memcpy(rest, values + i, (count - i) * sizeof(double));
        v4d last = activated(function, load4((const char *)rest));
        memcpy(values + i, &last, (count - i) * sizeof(double));
    }
}

/* In place. One body per function, so that the choice is made outside the loops. */
DISPATCH static void activate(int function, double *values, size_t count)
{
    if (function == ACTIVATE_TANH)
        activate_all(ACTIVATE_TANH, values, count);
    else
        activate_all(ACTIVATE_LOGISTIC, values, count);
}

#endif
