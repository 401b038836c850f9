"""The kernels' bits do not depend on the instructions that a host offers, nor on the compiler's zeal."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path

import riprap.operators

DIGEST = r"""
#include <stdio.h>
#include "linear.h"
#include "kmeans.h"
#include "linear_map.h"
#include "activation.h"

enum { ROWS = 300, COLUMNS = 40, CENTRES = 5, MODELS = 20 };
static double items[ROWS * COLUMNS];
static v4d total[CENTRES * COLUMNS];
static uint64_t seed = 1, digest = 1469598103934665603u;

static double next(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(seed >> 11) / 9007199254740992.0 * 6 - 3;
}

static void mix(const void *from, size_t doubles)
{
    for (size_t i = 0; i < doubles * 8; i++)
        digest = (digest ^ ((const unsigned char *)from)[i]) * 1099511628211u;
}

static void one_map(size_t rows, size_t columns, size_t models)
{
    static v4d weights[COLUMNS * MODELS];
    static double out[ROWS * MODELS];
    memset(weights, 0, sizeof weights);
    for (size_t c = 0; c < columns; c++)
        for (size_t m = 0; m < models; m++)
            weights[c * groups_of(models) + m / LANES][m % LANES] = next();
    linear_map_rows((const char *)items, rows, columns, weights, models, (char *)out);
    mix(out, rows * models);
    activate((int)(models % 2), out, rows * models);
    mix(out, rows * models);
}

static void one_block(size_t rows, size_t columns, int loss)
{
    double row[COLUMNS], gradient[COLUMNS + 1], stats[STATS], offsets[CENTRES], counts[CENTRES] = {0}, inertia;
    size_t groups = groups_of(columns);
    v4d flat[(CENTRES + 1) * COLUMNS];
    for (size_t i = 0; i < rows * columns; i++)
        items[i] = i % columns ? next() : next() > 0;
    for (size_t c = 0; c <= CENTRES; c++) {
        for (size_t i = 0; i < columns; i++)
            row[i] = i == 0 ? 0.0 : c == CENTRES ? 1.0 : next();
        to_groups(row, columns, flat + c * groups);
    }
    for (size_t c = 0; c < CENTRES; c++)
        offsets[c] = next();
    memset(total, 0, sizeof total);
    linear_gradient(loss, (const char *)items, rows, columns, 0, flat, 0.5, total, gradient, stats);
    mix(gradient, columns + 1);
    mix(stats, STATS);
    memset(total, 0, sizeof total);
    inertia = kmeans_assign((const char *)items, rows, columns, CENTRES, flat, offsets, flat + CENTRES * groups, total,
                            counts);
    mix(total, CENTRES * groups * LANES);
    mix(counts, CENTRES);
    mix(&inertia, 1);
    one_map(rows, columns, 1 + loss * 5 + rows % 9);
}

int main(void)
{
    for (size_t i = 0; i < 300; i++)
        one_block(i * 7 % (ROWS + 1), LANES + i % (COLUMNS - LANES), (int)(i % 3));
    printf("%016llx\n", (unsigned long long)digest);
    return 0;
}
"""

#: Without __gnu_linux__ the kernels are compiled once, for the instructions that the flags name.
VARIANTS = {
    "dispatched": ["-O3", "-fno-math-errno"],
    "baseline": ["-O1", "-U__gnu_linux__"],
    "native": ["-O3", "-U__gnu_linux__", "-march=native"],
}


def digest(name: str, directory: Path) -> str:
    """What the program prints when compiled so."""
    source, program = directory / "digest.c", directory / name
    source.write_text(DIGEST)
    folder = Path(riprap.operators.__file__).parent / "learning"
    flags = ["-std=c11", "-D_GNU_SOURCE", "-ffp-contract=off", "-Wno-psabi", f"-I{folder}"]
    subprocess.run(["cc", *flags, *VARIANTS[name], str(source), "-o", str(program), "-lm"], check=True, timeout=120)
    return subprocess.run([str(program)], check=True, timeout=120, capture_output=True, text=True).stdout


def test_all_compilations_give_the_same_bits(tmp_path: Path) -> None:
    names = [name for name in VARIANTS if name != "native" or platform.machine() == "x86_64"]
    digests = {name: digest(name, tmp_path) for name in names}
    assert len(digests["baseline"]) == 17
    assert len(set(digests.values())) == 1, digests
