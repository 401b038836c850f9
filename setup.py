"""Builds Riprap's Cython extensions; everything else about the distribution stands in pyproject.toml."""

import os
from glob import glob

from Cython.Build import cythonize
from setuptools import Extension, setup

DEBUG = os.environ.get("RIPRAP_DEBUG") == "1"
CORES = os.cpu_count() or 1
FLAGS = ["-O1", "-g", "-DRIPRAP_DEBUG"] if DEBUG else ["-O3", "-g0", "-fno-math-errno"]
# Products and sums may not be contracted: every host must round alike, or models would differ in the last bit.
FLAGS += ["-std=c11", "-ffp-contract=off", "-Wno-unreachable-code", "-Wno-psabi"]

#: The one list of extensions: module name -> further C sources beside the .pyx file.
EXTENSIONS: dict[str, list[str]] = {
    "codec.codes._kernels": ["kernels/level.c", "kernels/buffers.c", "kernels/real.c", "kernels/gf256.c"],
    "engine._frames": [],
    "engine._message": [],
    "engine._pump": [],
    "engine._ring_race": [],
    "engine._segment": [],
    "engine._zmq": [],
    "engine.arena": [],
    "engine.borrowed": [],
    "engine.channel": [],
    "engine.network": [],
    "engine.rings": [],
    "engine.trace": [],
    "operators.blockmath": [],
    "operators.dataflow.count_min": [],
    "operators.dataflow.dense": [],
    "operators.dataflow.sgd": [],
    "operators.dataflow.text": [],
    "operators.states._kernels": [],
    "prep_spark.capture": [],
    "prep_spark.headers": [],
    "prep_spark.rows": [],
}
#: What Cython would write into each extension (memory views above all), compiled once for all but prep_spark's, which
#: import nothing of ours.
SHARED = "codec._cython"
APART = "prep_spark."


def extension(module: str, sources: list[str]) -> Extension:
    path = module.replace(".", "/") + ".pyx"
    folder = os.path.dirname(path)
    return Extension(
        module,
        [path, *(f"{folder}/{source}" for source in sources)],
        extra_compile_args=FLAGS,
        include_dirs=[folder],
        depends=glob(f"{module.partition('.')[0]}/**/*.h", recursive=True),
        libraries=["pthread", "dl"],
    )


def generated(extensions: list[Extension], shared: str | None) -> list[Extension]:
    """The same extensions with C in place of Cython, written by all cores; what is up to date is left as it is."""
    return cythonize(
        extensions,
        nthreads=CORES,
        quiet=True,
        language_level=3,
        compiler_directives={"boundscheck": DEBUG, "wraparound": False, "initializedcheck": DEBUG, "cdivision": True},
        shared_utility_qualified_name=shared,
    )


ours = [extension(module, sources) for module, sources in EXTENSIONS.items() if not module.startswith(APART)]
apart = [extension(module, sources) for module, sources in EXTENSIONS.items() if module.startswith(APART)]
common = Extension(SHARED, [SHARED.replace(".", "/") + ".c"], extra_compile_args=FLAGS)

setup(
    ext_modules=generated([common, *ours], SHARED) + generated(apart, None),
    # One folder for `setup.py build_ext` and for pip: neither compiles what the other did, or what was done before an
    # interruption.
    options={
        "build": {"build_lib": "build/lib"},
        "build_ext": {"build_lib": "build/lib", "build_temp": "build/temp", "parallel": CORES},
    },
)
