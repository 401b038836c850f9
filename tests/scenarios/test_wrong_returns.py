"""A method that returns the wrong thing fails a real job with one message: the method, what it returned, its line."""

from __future__ import annotations

import pytest
from cli_harness import WORD_COUNT, Cli, write_topology

SHARED_ENSEMBLE = True

MINE = """\
from riprap.operators.text.word_count import CountWords
from riprap.operators.learning.logistic_regression import Gradient, Model


class NoReturn(Gradient):
    def process_data(self, items):
        super().process_data(items)


class Worded(Model):
    def metrics(self):
        return {"loss": "low"}


class Listed(CountWords):
    def results(self):
        return list(super().results())
"""


def failure(cli: Cli, *arguments: str) -> str:
    """The one message of a job that fails."""
    (cli.directory / "mine.py").write_text(MINE)
    ended = cli.answer("run", *arguments, "--out", "out")
    assert ended.returncode == 1, ended.stderr
    (error,) = [line for line in ended.stderr.splitlines() if line.startswith("error: ")]
    assert ended.stderr.count("remedy: ") == 1 and "Traceback" not in ended.stderr
    cli.await_no_process()
    return error


@pytest.mark.parametrize(
    ("changed", "said", "line"),
    [
        (("logistic_regression:Gradient", "mine:NoReturn"), "NoReturn.process_data returned None; expected a list", 6),
        (("logistic_regression:Model", "mine:Worded"), "Worded.metrics returned 'low' (str) as 'loss'", 11),
    ],
    ids=["processor", "metrics"],
)
def test_of_source_processor_and_sink(cli: Cli, changed: tuple[str, str], said: str, line: int) -> None:
    write_topology(cli.directory / "job.yaml", sets=[changed])
    error = failure(cli, "job.yaml")
    assert said in error and f"mine.py:{line})" in error, error


def test_of_a_dataflow_operator(cli: Cli) -> None:
    (cli.directory / "text.txt").write_text("the whale and the sea\n" * 400)
    (cli.directory / "words.yaml").write_text((WORD_COUNT % (1, 100)).replace("word_count:CountWords", "mine:Listed"))
    error = failure(cli, "words.yaml")
    assert "Listed.results returned ['words', 'offsets', 'counts']; expected a dictionary of arrays" in error
    assert "mine.py:16)" in error, error
