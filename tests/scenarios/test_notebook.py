"""A notebook in a real kernel: operators in a cell, a job with a kill, its epochs, its picture."""

from __future__ import annotations

import re

import nbformat
import pytest
from cli_harness import Cli
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

CELLS = (
    """\
import time
import riprap
from riprap.operators.text.word_count import CountWords, SplitWords""",
    """\
PAUSE_S = 0.05

class Shouted(CountWords):
    def process_data(self, items, first, out):
        time.sleep(PAUSE_S)
        return super().process_data(items, first, out)""",
    """\
job = riprap.Job("shouts", input="text.txt", repeat=4, micro_batch=500, scheme=riprap.upstream_backup())
split = job.stage("split", SplitWords)
split.to(job.stage("count", Shouted, parallelism=2), "full")
run = job.start(out="out")
run""",
    """\
for epoch in run:
    if epoch.epoch == 5:
        run.kill("count.1")
print(run.wait()["completed"], [one["worker"] for one in run.failures], run.progress().epoch)""",
    "run.plot()",
)

MISTAKE = """\
class Broken(CountWords):
    def process_data(self, items, first, out):
        raise ValueError("a mistake")

broken = riprap.Job("broken", input="text.txt", micro_batch=500, scheme=riprap.upstream_backup())
broken.stage("split", SplitWords).to(broken.stage("count", Broken), "full")
broken.run(out="broken")"""


def test_a_notebook_defines_runs_kills_follows_and_draws(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    (cli.directory / "text.txt").write_text("".join(f"word{n % 7} common\n" for n in range(5000)))
    for name, value in cli.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("IPYTHONDIR", str(cli.directory / "ipython"))
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in (*CELLS, MISTAKE)])
    client = NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(cli.directory)}}
    )
    with pytest.raises(CellExecutionError) as caught:
        client.execute()
    error = re.sub(r"\x1b\[[\d;]*m", "", str(caught.value))  # its colours
    assert "JobFailed: job broken ended FAILED" in error
    assert 'raise ValueError("a mistake"))' in error, "the line of the cell, as a worker knows it"
    shown, printed, drawn = (cell.outputs for cell in notebook.cells[2:5])
    assert "<table>" in shown[0].data["text/html"]
    assert printed[0].text.split() == ["True", "['count.1']", "40"]
    assert "image/png" in drawn[0].data
    cli.await_no_process()
