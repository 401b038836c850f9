"""The options of `riprap prep table` as the job gets them, and what is refused before Spark starts."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner

from riprap.codec.errors import DataError
from riprap.engine.cli.main import riprap
from riprap.prep_spark import table


def given(monkeypatch: pytest.MonkeyPatch, *words: str) -> dict[str, Any]:
    """What the command hands to the job."""
    taken: dict[str, Any] = {}
    monkeypatch.setattr(table, "run", lambda **options: taken.update(options) or {})
    result = CliRunner().invoke(riprap, ["prep", "table", "x.csv", *words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return taken


def test_names_come_with_commas_or_in_several_options(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["--label", "y", "--out", "o", "--features", "a, b", "--features", "c", "--categorical", "a", "--hash", "9"]
    taken = given(monkeypatch, *words)
    assert (taken["features"], taken["categorical"], taken["buckets"]) == (("a", "b", "c"), ("a",), 9)
    assert "na" not in taken and taken["settings"] == {}


def test_sparks_settings_and_missing_values_are_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = given(
        monkeypatch, "--dry-run", "--master", "spark://h:7077", "--conf", "spark.a=b=c", "--package", "g:n:1",
        "--package", "g:m:2", "--na", "-1", "--delimiter", "\\t",
    )  # fmt: skip
    assert taken["settings"] == {
        "spark.master": "spark://h:7077",
        "spark.a": "b=c",
        "spark.jars.packages": "g:n:1,g:m:2",
    }
    assert (taken["na"], taken["delimiter"]) == (("", "-1"), "\t")


def test_a_directory_or_a_dry_run_is_needed() -> None:
    result = CliRunner().invoke(riprap, ["prep", "table", "x.csv", "--label", "y"])
    assert result.exit_code == 2 and "Missing option '--out' (or --dry-run)" in result.output


def test_a_setting_without_a_value_is_refused() -> None:
    result = CliRunner().invoke(riprap, ["prep", "table", "x.csv", "--dry-run", "--conf", "spark.a"])
    assert "--conf spark.a: expected KEY=VALUE" in str(result.exception)


def test_wrong_options_are_told_before_spark_starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr("riprap.prep_spark.table.spark_context", lambda settings: pytest.fail("Spark was started"))
    for words, message in (
        (["--hash", "5", "--one-hot"], "--hash and --one-hot"),
        (["--like", str(tmp_path / "none")], "none/transform.json does not exist"),
        (["--out", str(tmp_path.parent)], f"{tmp_path.parent} already exists"),
    ):
        result = CliRunner().invoke(riprap, ["prep", "table", str(tmp_path), "--out", str(tmp_path / "o"), *words])
        assert isinstance(result.exception, DataError) and message in str(result.exception)
