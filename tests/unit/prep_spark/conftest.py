"""One Spark for all tests of a session, and raw input: the real excerpts where they are, else synthesized twins."""

import gzip
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from prep_spark import synth
from prep_spark.context import spark_context
from prep_spark.kdd12 import MAXIMA

REAL = Path(__file__).resolve().parents[4] / "shared" / "data"


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
def kdd12_pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """Raw KDD12 rows in a file, and the lines of the same rows scaled, 12 significant digits."""
    raw = REAL / "kdd12" / "training_first10k.tsv.gz"
    if raw.exists():
        return raw, gzip.decompress((REAL / "kdd12" / "streamlec_sample_10k.txt.gz").read_bytes()).decode().splitlines()
    raw = tmp_path_factory.mktemp("kdd12") / "training.txt"
    synth.kdd12(str(raw), 10_000)
    rows = [[float(text) for text in line.split("\t")] for line in raw.read_text().splitlines()]
    scaled = [[float(row[0] > 0), *(x / m for x, m in zip(row[1:], list(MAXIMA.values())[1:]))] for row in rows]
    return raw, [" ".join(f"{value:.12g}" for value in row) for row in scaled]


@pytest.fixture(scope="session")
def higgs_raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """10,000 raw HIGGS rows."""
    raw = REAL / "higgs" / "HIGGS_first10k.csv.gz"
    if not raw.exists():
        raw = tmp_path_factory.mktemp("higgs") / "HIGGS.csv.gz"
        synth.higgs(str(raw), 10_000)
    return raw
