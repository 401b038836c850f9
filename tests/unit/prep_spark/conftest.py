"""One Spark for all tests of a session, and raw input: the real excerpts of tests/data."""

import gzip
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from riprap.prep_spark.context import spark_context

REAL = Path(__file__).parents[2] / "data"


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A running SparkContext, which every job of the session then uses."""
    with spark_context() as context:
        yield context


@pytest.fixture
def job(spark: Any, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Run a job on what the test wrote to tmp_path/raw, into tmp_path/out."""

    def run(module: Any, **options: Any) -> dict[str, Any]:
        arguments = {"input": str(tmp_path / "raw"), "out": str(tmp_path / "out"), "report": lambda text: None}
        return module.run(**arguments | options)

    return run


@pytest.fixture(scope="session")
def kdd12_pair() -> tuple[Path, list[str]]:
    """10,000 raw KDD12 rows in a file, and the lines of the first 2,000 scaled, 12 significant digits."""
    scaled = gzip.decompress((REAL / "kdd12/streamlec_scaled_first2k.txt.gz").read_bytes()).decode().splitlines()
    return REAL / "kdd12/training_first10k.tsv.gz", scaled


@pytest.fixture(scope="session")
def higgs_raw() -> Path:
    """10,000 raw HIGGS rows."""
    return REAL / "higgs/HIGGS_first10k.csv.gz"
