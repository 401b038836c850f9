"""Builds Riprap's Cython extensions and names its packages; the rest about the distribution is in pyproject.toml.

The folders of the repository are the subpackages of `riprap`: `engine` is imported as `riprap.engine`.
"""

import os
from glob import glob
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

DEBUG = os.environ.get("RIPRAP_DEBUG") == "1"
CORES = os.cpu_count() or 1
FLAGS = ["-O1", "-g", "-DRIPRAP_DEBUG"] if DEBUG else ["-O3", "-g0", "-fno-math-errno"]
# Products and sums may not be contracted: every host must round alike, or models would differ in the last bit.
FLAGS += ["-std=c11", "-ffp-contract=off", "-Wno-unreachable-code", "-Wno-psabi"]

#: The folders with code, from the one that imports nothing of ours to the one that may import all.
FOLDERS = ("codec", "configs", "operators", "backupserver", "controller", "engine", "prep_spark")
ROOT = "riprap."
INCLUDE = Path("build/include")
"""Where Cython finds the packages by the names under which they are imported."""

#: The one list of extensions: module name -> further C sources beside the .pyx file.
EXTENSIONS: dict[str, list[str]] = {
    "riprap.codec._bundle": [],
    "riprap.codec._header": [],
    "riprap.codec.key_groups": [],
    "riprap.codec.codes._kernels": ["kernels/level.c", "kernels/buffers.c", "kernels/real.c", "kernels/gf256.c"],
    "riprap.engine.flow._intake": [],
    "riprap.engine.flow._links": [],
    "riprap.engine.flow.forms": [],
    "riprap.engine.wire._frames": [],
    "riprap.engine.wire._message": [],
    "riprap.engine.wire._pump": [],
    "riprap.engine.wire._ring_race": [],
    "riprap.engine.wire._segment": [],
    "riprap.engine.wire._zmq": [],
    "riprap.engine.wire.arena": [],
    "riprap.engine.wire.borrowed": [],
    "riprap.engine.wire.channel": [],
    "riprap.engine.wire.network": [],
    "riprap.engine.wire.origins": [],
    "riprap.engine.wire.rings": [],
    "riprap.engine.wire.trace": [],
    "riprap.engine.worker._wire": [],
    "riprap.operators.learning.blockmath": [],
    "riprap.operators.packets.count_min": [],
    "riprap.operators.learning.dense": [],
    "riprap.operators.learning.sgd": [],
    "riprap.operators.text.columns": [],
    "riprap.operators.text.text": [],
    "riprap.operators.states._kernels": [],
    "riprap.prep_spark.capture": [],
    "riprap.prep_spark.cells": [],
    "riprap.prep_spark.headers": [],
    "riprap.prep_spark.rows": [],
}
#: What Cython would write into each extension (memory views above all), compiled once for all but prep_spark's, which
#: import nothing of ours.
SHARED = "riprap.codec._cython"
APART = "riprap.prep_spark."


def extension(module: str, sources: list[str]) -> Extension:
    path = module.removeprefix(ROOT).replace(".", "/") + ".pyx"
    folder = os.path.dirname(path)
    return Extension(
        module,
        [path, *(f"{folder}/{source}" for source in sources)],
        extra_compile_args=FLAGS,
        include_dirs=[folder],
        depends=glob(f"{path.partition('/')[0]}/**/*.h", recursive=True),
        libraries=["pthread", "dl"],
    )


def generated(extensions: list[Extension], shared: str | None) -> list[Extension]:
    """The same extensions with C in place of Cython, written by all cores; what is up to date is left as it is."""
    return cythonize(
        extensions,
        include_path=[str(INCLUDE)],
        nthreads=CORES,
        quiet=True,
        language_level=3,
        compiler_directives={"boundscheck": DEBUG, "wraparound": False, "initializedcheck": DEBUG, "cdivision": True},
        shared_utility_qualified_name=shared,
    )


def link_packages() -> None:
    """Make the include folder: the package `riprap`, in which each folder and file of ours is a link."""
    package = INCLUDE / "riprap"
    package.mkdir(parents=True, exist_ok=True)
    for path in (*map(Path, FOLDERS), *Path("riprap").glob("*.py")):
        if not (package / path.name).is_symlink():
            (package / path.name).symlink_to(os.path.relpath(path, package))


def packages() -> list[str]:
    """All packages, by the names under which they are imported."""
    found = (path.parent for folder in FOLDERS for path in Path(folder).rglob("__init__.py"))
    return ["riprap", *sorted(ROOT + folder.as_posix().replace("/", ".") for folder in found)]


link_packages()
ours = [extension(module, sources) for module, sources in EXTENSIONS.items() if not module.startswith(APART)]
apart = [extension(module, sources) for module, sources in EXTENSIONS.items() if module.startswith(APART)]
common = Extension(SHARED, [SHARED.removeprefix(ROOT).replace(".", "/") + ".c"], extra_compile_args=FLAGS)

setup(
    packages=packages(),
    package_dir={"riprap": "riprap", **{ROOT + folder: folder for folder in FOLDERS}},
    ext_modules=generated([common, *ours], SHARED) + generated(apart, None),
    # One folder for `setup.py build_ext` and for pip: neither compiles what the other did, or what was done before an
    # interruption.
    options={
        "build": {"build_lib": "build/lib"},
        "build_ext": {"build_lib": "build/lib", "build_temp": "build/temp", "parallel": CORES},
    },
)
