"""The jobs, end to end on a real Spark: counts, order, messages, and what is left on disk."""

import gzip
import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from riprap.codec.errors import DataError
from riprap.operators.inputs.shard_checks import Checks
from riprap.operators.inputs.shards import open_shards
from riprap.prep_spark import higgs, kdd12, synth
from riprap.prep_spark.errors import PrepError


def row(number: float, label: str = "1.0") -> str:
    return ",".join([label, *[f"{number + column / 100:.2f}" for column in range(28)]])


def write(path: Path, lines: list[str], end: str = "\n") -> None:
    path.parent.mkdir(exist_ok=True)
    data = "".join(line + end for line in lines).encode()
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


def everything(path: Path) -> np.ndarray:
    shards = open_shards(path, Checks(verify=True))
    return shards.read(0, shards.rows)


def test_rows_keep_the_order_of_files_splits_and_lines(job, tmp_path: Path) -> None:
    numbers = iter(range(10_000))
    for name, count in (("a.csv", 2500), ("b.csv.gz", 700), ("c.csv", 0), ("d.csv", 1), ("e.csv", 3000)):
        write(tmp_path / "raw" / name, [row(number) for number in itertools.islice(numbers, count)])
    counts = job(higgs, input=str(tmp_path / "raw" / "*.csv*"), shard_rows=1000)
    assert counts["read"] == counts["kept"] == 6201
    assert counts["rows"] == {"all": 6201}
    made = open_shards(tmp_path / "out", Checks(verify=True))
    assert [shard["rows"] for shard in made.manifest["shards"]] == [1000] * 6 + [201]
    files = [Path(file).name for file in made.manifest["source"]["files"]]
    assert files == ["a.csv", "b.csv.gz", "d.csv", "e.csv"]  # an empty file gives Spark nothing to read
    np.testing.assert_array_equal(everything(tmp_path / "out")[:, 1], np.arange(6201.0))


PATHOLOGIES = [
    row(0),
    "",
    row(1)[:40],  # truncated
    row(2, label="2.0"),
    row(3).replace("3.05", "abc"),
    row(4) + ",9",
    row(5).replace("5.20", "nan"),
    row(6, label="0.0"),
    "",
]
COUNTS = {"blank": 2, "columns": 2, "finite": 1, "label": 1, "number": 1}


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_bad_rows_are_dropped_and_counted_by_reason(job, tmp_path: Path, end: str) -> None:
    write(tmp_path / "raw" / "x.csv", PATHOLOGIES, end)
    counts = job(higgs, bad_rows="drop")
    assert (counts["read"], counts["kept"], counts["dropped"]) == (9, 2, COUNTS)
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["counts"]["dropped"] == COUNTS
    assert everything(tmp_path / "out")[:, :2].tolist() == [[1, 0], [0, 6]]


def test_rows_with_nan_or_infinity_are_kept_when_asked_and_the_manifest_says_so(job, tmp_path: Path) -> None:
    write(tmp_path / "raw" / "x.csv", [row(5).replace("5.20", "nan"), row(6), row(7).replace("7.20", "-inf")])
    assert job(higgs, bad_rows="keep")["kept"] == 3
    assert np.isnan(everything(tmp_path / "out")).sum() == np.isinf(everything(tmp_path / "out")).sum() == 1
    shards = json.loads((tmp_path / "out" / "manifest.json").read_text())["shards"]
    assert [shard["finite"] for shard in shards] == [False]
    with pytest.raises(DataError, match=r"row 0 \(from 0\) has nan in column jet4_b_tag; 2 of 3 rows"):
        open_shards(tmp_path / "out", Checks(True, "fail"))
    with pytest.raises(PrepError, match=r"expected a finite number in column 22 .*'nan'"):
        job(higgs, out=str(tmp_path / "again"))
    write(tmp_path / "raw" / "x.csv", [row(5)])
    job(higgs, out=str(tmp_path / "sound"))
    shards = json.loads((tmp_path / "sound" / "manifest.json").read_text())["shards"]
    assert [shard["finite"] for shard in shards] == [True]


def test_a_bad_row_stops_the_job_with_file_line_and_remedy(job, tmp_path: Path) -> None:
    lines = [row(number) for number in range(3000)]
    lines[2500] = "1.0,2.0,oops" + ",1" * 26
    lines[2600] = "1.0"
    write(tmp_path / "raw" / "x.csv", lines)
    with pytest.raises(PrepError) as caught:
        job(higgs)
    expected = f"{tmp_path}/raw/x.csv, line 2501: expected a number in column 3 (lepton_eta), found 'oops'"
    assert str(caught.value).splitlines()[0] == expected
    assert "--bad-rows drop" in caught.value.remedy
    assert [path.name for path in tmp_path.iterdir()] == ["raw"]


def test_a_limit_reads_exactly_so_many_lines_of_the_input(job, tmp_path: Path) -> None:
    for number, name in enumerate("abcdef"):
        write(tmp_path / "raw" / name, [row(1000 * number + place) for place in range(1000)])
    lines = (tmp_path / "raw" / "c").read_text().splitlines()
    write(tmp_path / "raw" / "c", [*lines[:500], "bad", *lines[500:]])
    counts = job(higgs, limit=2750, bad_rows="drop")
    assert (counts["read"], counts["kept"], counts["dropped"]) == (2750, 2749, {"columns": 1})
    assert everything(tmp_path / "out")[:, 1].tolist() == [*range(2749)]
    write(tmp_path / "raw" / "c", [*lines[:800], "bad"])
    assert job(higgs, limit=2750, out=str(tmp_path / "again"))["kept"] == 2750  # what is not read cannot fail


def test_held_back_rows_are_disjoint_complete_and_the_same_for_any_splits(job, tmp_path: Path) -> None:
    lines = [row(number) for number in range(2000)]
    write(tmp_path / "raw" / "x.csv", lines)
    counts = job(higgs, holdout=0.2, shard_rows=300)
    train, test = everything(tmp_path / "out" / "train"), everything(tmp_path / "out" / "test")
    assert counts["rows"] == {"train": len(train), "test": len(test)}
    assert 320 < len(test) < 480
    assert sorted([*train[:, 1], *test[:, 1]]) == [*range(2000)]
    assert (np.diff(train[:, 1]) > 0).all()
    assert open_shards(tmp_path / "out" / "test").manifest["split"] == "test"
    for place in range(0, 2000, 250):
        write(tmp_path / "pieces" / f"{place:04}.csv.gz", lines[place : place + 250])
    job(higgs, input=str(tmp_path / "pieces"), out=str(tmp_path / "other"), holdout=0.2, shard_rows=300)
    for part in ("train", "test"):
        ours, other = sorted((tmp_path / "out" / part).glob("*.npy")), sorted((tmp_path / "other" / part).glob("*.npy"))
        assert [file.read_bytes() for file in ours] == [file.read_bytes() for file in other]


def test_higgs_keeps_every_value(job, tmp_path: Path, higgs_raw: Path) -> None:
    job(higgs, input=str(higgs_raw))
    lines = gzip.decompress(higgs_raw.read_bytes()).decode().splitlines()
    expected = [[float(field) for field in line.split(",")] for line in lines]
    np.testing.assert_array_equal(everything(tmp_path / "out"), expected)


def test_kdd12_is_scaled_as_streamlec_scaled_it(job, tmp_path: Path, kdd12_pair: tuple[Path, list[str]]) -> None:
    raw, scaled = kdd12_pair
    assert job(kdd12, input=str(raw))["kept"] == 10_000
    first = everything(tmp_path / "out")[: len(scaled)]
    made = [[float(f"{value:.12g}") for value in row] for row in first]
    assert len(made) == 2_000 and made == [[float(text) for text in line.split(" ")] for line in scaled]


def test_kdd12_drops_rows_with_missing_values_and_scales_by_its_own_maxima(job, tmp_path: Path) -> None:
    lines = [
        "3 4 8 1 1 1 1 5 5 5 5 50",
        "0 2 4 2 2 2 2 1 1 1 1 0",
        "0 1 2 1 1 2 1 2 4 0 1 10",
        "0 1 2 1 1 1 1  4 1 1 10",
    ]
    write(tmp_path / "raw" / "training.txt", [line.replace(" ", "\t") for line in lines])
    counts = job(kdd12, missing="drop", scale="auto")
    assert (counts["kept"], counts["dropped"]) == (1, {"missing": 3})
    assert everything(tmp_path / "out").tolist() == [[1.0] * 12]
    job(kdd12, scale="auto", out=str(tmp_path / "kept"))
    made = everything(tmp_path / "kept")
    assert made[:, 0].tolist() == [1, 0, 0, 0]
    assert made[:, 1].tolist() == [1, 0.5, 0.25, 0.25]
    assert made[:, 7].tolist() == [1, 0.2, 0.4, 0]
    assert made[:, 11].tolist() == [1, 0, 0.2, 0.2]


def test_synthesized_rows_pass_and_half_of_them_come_out_the_same_twice(job, tmp_path: Path) -> None:
    synth.kdd12(str(tmp_path / "raw" / "training.txt.gz"), 30_000)
    for name in ("one", "two"):
        counts = job(kdd12, missing="drop", holdout=0.5, seed=3, out=str(tmp_path / name))
    assert counts["kept"] == 30_000 - counts["dropped"]["missing"]
    files = sorted(path.relative_to(tmp_path / "one") for path in (tmp_path / "one").rglob("*.*"))
    assert len(files) == 4
    assert all((tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes() for file in files)


def test_nothing_has_the_name_of_the_result_before_it_is_whole(job, tmp_path: Path) -> None:
    write(tmp_path / "raw" / "x.csv", [row(1)])
    told = []
    job(higgs, report=lambda text: told.append(((tmp_path / "out").exists(), text)))
    assert [exists for exists, _ in told] == [False, False, True]
    assert "reading" in told[0][1]
    assert "1 rows read, 1 kept, dropped: none" in told[-1][1]

    def interrupt(text: str) -> None:
        if "writing" in text:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        job(higgs, out=str(tmp_path / "second"), report=interrupt)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "raw"]


def test_inputs_that_cannot_be_read_end_in_one_message(job, tmp_path: Path) -> None:
    write(tmp_path / "raw" / "x.csv.gz", [row(number) for number in range(500)])
    whole = (tmp_path / "raw" / "x.csv.gz").read_bytes()
    cases = {
        "cut.csv.gz": (whole[:-500], "middle of its compressed data"),
        "plain.csv.gz": (row(1).encode(), "not compressed with gzip"),
        "damaged.csv.gz": (whole[:40] + bytes(100) + whole[140:], "damaged compressed data"),
        "empty.csv": (b"", "the input is empty"),
        "blank.csv": (b"\n\n", "all 2 rows were dropped"),
        "binary.csv": (bytes(range(256)), "line 1: expected 29 columns"),
    }
    for name, (data, message) in cases.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(PrepError, match=message) as caught:
            job(higgs, input=str(tmp_path / name))
        assert caught.value.remedy
    with pytest.raises(PrepError, match="names no file"):
        job(higgs, input=str(tmp_path / "*.nothing"))
    with pytest.raises(PrepError, match="too few to hold back"):
        job(higgs, limit=2, holdout=0.001)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"holdout": 1.0}, "--holdout is 1.0; expected at least 0 and below 1"),
        ({"bad_rows": "skip"}, "--bad-rows is 'skip'"),
        ({"limit": 0}, "--limit is 0"),
        ({"shard_rows": 0}, "--shard-rows is 0"),
        ({"missing": "maybe"}, "--missing is 'maybe'"),
        ({"scale": "none"}, "--scale is 'none'"),
        ({"input": "/no/such/file"}, "/no/such/file does not exist"),
        ({"out": "/proc/nowhere/out"}, "cannot write to"),
        ({"out": "{tmp}"}, "already exists"),
    ],
)
def test_a_wrong_option_is_told_before_spark_starts(tmp_path: Path, monkeypatch, options: dict, message: str) -> None:
    monkeypatch.setattr("riprap.prep_spark.job.spark_context", lambda: pytest.fail("Spark was started"))
    (tmp_path / "raw").write_text("")
    options = {key: str(tmp_path) if value == "{tmp}" else value for key, value in options.items()}
    arguments = {"input": str(tmp_path / "raw"), "out": str(tmp_path / "out"), "report": lambda text: None}
    with pytest.raises(PrepError, match=message) as caught:
        kdd12.run(**arguments | options)
    assert caught.value.remedy
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (None, "there is none in JAVA_HOME"),
        ("echo 'openjdk version \"11.0.2\" 2019-01-15' >&2", "is Java 11"),
        ("echo 'java version \"1.8.0_202\"' >&2", "is Java 8"),
        ("echo nonsense", "does not tell a version"),
    ],
)
def test_a_missing_or_old_java_is_told_before_spark_starts(
    tmp_path: Path, monkeypatch, script: str, message: str
) -> None:
    monkeypatch.setattr("riprap.prep_spark.job.spark_context", lambda: pytest.fail("Spark was started"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    if script:
        java = tmp_path / "java" / "bin" / "java"
        java.parent.mkdir(parents=True)
        java.write_text(f"#!/bin/sh\n{script}\n")
        java.chmod(0o755)
    (tmp_path / "raw").write_text("")
    with pytest.raises(PrepError, match=message) as caught:
        higgs.run(str(tmp_path / "raw"), str(tmp_path / "out"), report=lambda text: None)
    assert "install Java 17" in caught.value.remedy
