"""Every wrong command or configuration ends in one message and exit code 2, and nothing was started."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from cli_harness import Cli, change_rows, write_topology

from riprap.codec.trust.keys import FOLDER_VARIABLE, OFF
from riprap.codec.trust.tokens import Token

OPERATOR_THAT_CANNOT_BE_IMPORTED = "import nothing_of_that_name\n"


@dataclass(frozen=True)
class Ended:
    """How a command ended, in this process or in one of its own."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def check_refused(cli: Cli, capfd: pytest.CaptureFixture[str]) -> Callable[..., None]:
    """Checks that a command ends with 2, one message with `words` and a remedy, and has started and written nothing."""

    def check(*arguments: str, words: str, own_process: bool = False) -> None:
        before = written(cli.directory)
        if own_process:
            process = cli.run(*arguments)
            ended = Ended(process.returncode, process.stdout, process.stderr)
        else:
            capfd.readouterr()
            code = cli.call(*arguments)
            ended = Ended(code, *capfd.readouterr())
        assert ended.returncode == 2, ended.stderr
        assert words in ended.stderr
        assert ended.stderr.count("error: ") == 1 and ended.stderr.count("remedy: ") == 1
        assert "Traceback" not in ended.stderr
        assert cli.processes() == []
        assert written(cli.directory) == before

    return check


def written(directory: Path) -> set[Path]:
    """All that stands in a directory, but for what Python itself leaves."""
    return {path for path in directory.rglob("*") if "__pycache__" not in path.parts}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "none.yaml"], "none.yaml: No such file or directory"),
        (["run", "shards"], "shards: Is a directory"),
        (["run", "job.yaml", "--set", "micro_batch=many"], "--set micro_batch=many: micro_batch: is 'many'"),
        (["run", "job.yaml", "--set", "fault_tolerance.k=3"], "at least k + r = 4 tasks"),
        (["run", "job.yaml", "--set", "input.path=data/higgs/train"], "riprap prep higgs HIGGS.csv.gz"),
        (["run", "job.yaml", "--set", "stages.sink.operator=nowhere:Model"], "there is no module nowhere"),
        (
            ["run", "job.yaml", "--set", "stages.sink.threads=2"],
            "stages.sink.threads: is 2; expected 1: only stages of",
        ),
        (
            ["run", "job.yaml", "--set", "stages.sink.options.rate=1"],
            "options.rate: unknown option; expected one of: learning_rate",
        ),
        (
            ["run", "job.yaml", "--set", "stages.sink.options.l2=-1"],
            "stages.sink.options.l2: is -1; expected a number from 0",
        ),
        (["run", "job.yaml", "--set", "stages.sink.operator=svm:Gradient"], "is not a Sink"),
        (["run", "job.yaml", "--fault", "kill:processor.9@epoch=1"], "processor has only 3 tasks"),
        (["run", "job.yaml", "--fault", "stop:processor.1@epoch=1"], "stop needs a duration"),
        (["run", "job.yaml", "--fault", "kill:processor.1@items=5001"], "the stream ends after 5000 items"),
        (["run", "job.yaml", "--fault", "cut:processor.1@epoch=1,for=1s"], "network namespace of its own"),
        (["run", "job.yaml", "--faults", "none.yaml"], "none.yaml: No such file or directory"),
        (["run", "job.yaml", "--faults", "job.yaml"], "job.yaml: expected a list of faults"),
        (["run", "job.yaml", "--out", "shards"], "--out shards: the directory is not empty"),
        (["run", "job.yaml", "--out", "/proc/nowhere"], "the run directory /proc/nowhere"),
        (["run"], "there is nothing to run"),
        (["run", "job.yaml", "--resume", "out"], "a TOPOLOGY cannot be given with it"),
        (["run", "--resume", "out", "--set", "seed=2"], "so --set cannot be given with it"),
        (["run", "--resume", "out", "--from", "saved"], "so --from cannot be given with it"),
        (["run", "--resume", "out", "--out", "other"], "so --out cannot be given with it"),
        (["run", "--resume", "none"], "none: not a run directory"),
        (["run", "--resume", "shards"], "shards: not a run directory"),
        (["run", "job.yaml", "--fault", "kill:backup.2@epoch=1"], "starts backup for this topology"),
        (["backup", "--listen", "10.0.0.7:7070", "--storage", "kept"], "--listen 10.0.0.7:7070: not an address"),
        (["submit", "job.yaml"], "no cluster runs on this host"),
        (["status"], "no cluster runs on this host"),
        (["up", "--address", "192.0.2.1"], "--address 192.0.2.1: not an address of this host"),
        (["up", "--foreground", "--address", "192.0.2.1"], "--address 192.0.2.1: not an address of this host"),
        (["kill", "trial", "processor"], "'processor' is not a worker id"),
        (["logs", "runs/none"], "runs/none is not a run directory"),
        (["prep", "higgs", "none.csv", "--out", "out"], "none.csv"),
    ],
    ids=lambda value: " ".join(value[:1] + value[-1:]) if isinstance(value, list) else "",
)
def test_wrong_commands_are_refused(check_refused: Callable[..., None], arguments: list[str], words: str) -> None:
    check_refused(*arguments, words=words)


def test_a_process_of_its_own_ends_alike(check_refused: Callable[..., None]) -> None:
    check_refused("run", "job.yaml", "--set", "fault_tolerance.k=3", words="at least k + r = 4", own_process=True)
    check_refused("run", "job.yaml", "--fault", "kill:sink.1@epoch=1", words="sink has only 1", own_process=True)


def test_all_problems_of_a_file_come_with_their_lines(cli: Cli) -> None:
    sets = [("micro_batch: 500", "micro_batch: 0"), ("merge", "marge"), ("k: 2", "q: 2")]
    write_topology(cli.directory / "bad.yaml", sets=sets)
    ended = cli.run("run", "bad.yaml")
    assert ended.returncode == 2
    for place in ("bad.yaml:3: micro_batch", "bad.yaml:10: edges.1.partitioning", "bad.yaml:12: fault_tolerance.q"):
        assert place in ended.stderr
    assert cli.processes() == [] and not (cli.directory / "runs").exists()


def test_a_shard_that_is_missing_or_cut_short(cli: Cli, check_refused: Callable[..., None]) -> None:
    shard = cli.directory / "shards" / "part-00000.npy"
    content = shard.read_bytes()
    shard.write_bytes(content[:-100])
    check_refused("run", "job.yaml", words="part-00000.npy")
    shard.unlink()
    check_refused("run", "job.yaml", words="part-00000.npy")
    (cli.directory / "shards" / "manifest.json").write_text('{"format": ')
    check_refused("run", "job.yaml", words="line 1")


def test_three_classes_are_refused_by_their_values(cli: Cli, check_refused: Callable[..., None]) -> None:
    def relabel(rows: np.ndarray) -> None:
        rows[-1, 0] = 2.0

    change_rows(cli.directory / "shards", relabel)
    check_refused("run", "job.yaml", words="the label label has the values 0 (item ")
    check_refused("run", "job.yaml", words="2 (item 4,999): a model of two classes cannot tell them apart")


def test_an_operator_that_exits_when_it_is_made(cli: Cli, check_refused: Callable[..., None]) -> None:
    imports = "import sys\nfrom riprap.operators.learning.logistic_regression import Gradient as Sound\n"
    code = f"{imports}\n\nclass Gradient(Sound):\n"
    (cli.directory / "mine.py").write_text(f"{code}    def __init__(self):\n        sys.exit(4)\n")
    write_topology(cli.directory / "job.yaml", processor="mine:Gradient")
    check_refused("run", "job.yaml", words="mine.py:7: sys.exit(4)", own_process=True)


def test_the_users_own_line_is_shown_when_importing_it_fails(cli: Cli, check_refused: Callable[..., None]) -> None:
    (cli.directory / "mine.py").write_text(OPERATOR_THAT_CANNOT_BE_IMPORTED)
    write_topology(cli.directory / "job.yaml", processor="mine:Gradient")
    check_refused("run", "job.yaml", words="mine.py:1: import nothing_of_that_name", own_process=True)


WHOLE = """\
from riprap.operators.base import Processor


class Whole(Processor):
    def process_data(self, items):
        return [items.sum(axis=0)]
"""

INTERCEPT = """\
from riprap.operators.base import Processor


class Whole(Processor):
    def process_linear(self, items):
        return items[:, :1] + 0.5

    def process_nonlinear(self, linear, items):
        return [linear > 0]
"""


@pytest.mark.parametrize(
    ("code", "words"), [(WHOLE, "does not split its work"), (INTERCEPT, "whole.py:5")], ids=["whole", "intercept"]
)
def test_a_processor_that_cannot_be_hybrid(cli: Cli, check_refused: Callable[..., None], code: str, words: str) -> None:
    (cli.directory / "whole.py").write_text(code)
    write_topology(cli.directory / "job.yaml", processor="whole:Whole")
    hybrid = "fault_tolerance={scheme: erasure, code: stable, k: 2, r: 1, attachment: hybrid}"
    check_refused("run", "job.yaml", "--set", hybrid, words=words)


ENDLESS = """\
from riprap.operators.inputs.shard_source import ShardSource


class Endless(ShardSource):
    def open(self, context):
        super().open(context)
        self.items = None if context.index else self.items
"""


@pytest.mark.parametrize("scheme", ["{scheme: erasure, code: gf256, k: 2, r: 1}", "{scheme: none}"])
def test_a_source_of_which_some_tasks_have_no_end_is_refused_before_anything_starts(
    cli: Cli, check_refused: Callable[..., None], scheme: str
) -> None:
    (cli.directory / "endless.py").write_text(ENDLESS)
    words = "stages.source: some tasks of endless:Endless have no end (their `items` is None), others have one"
    stages = "{operator: 'endless:Endless', parallelism: 2}"
    sets = (f"stages.source={stages}", "stages.sink.parallelism=2", f"fault_tolerance={scheme}")
    options = (option for value in sets for option in ("--set", value))
    check_refused("run", "job.yaml", *options, words=words)


OPENED = """\
from riprap.operators.inputs.shard_source import ShardSource


class Nameless(ShardSource):
    def schema(self):
        return "label"


class Locked(ShardSource):
    def open(self, context):
        raise PermissionError("not today")


class Ragged(ShardSource):
    def sample(self):
        yield self.read(0, 10)
"""


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("Nameless", "Nameless.schema returned 'label' (str); expected (names of the columns, "),
        ("Locked", "mine.py:11: raise PermissionError"),
        ("Ragged", "Ragged.sample returned an array of float64 of shape (10, 4); expected runs of items"),
    ],
)
def test_what_a_source_does_wrongly_when_it_is_opened(
    cli: Cli, check_refused: Callable[..., None], kind: str, words: str
) -> None:
    (cli.directory / "mine.py").write_text(OPENED)
    check_refused("run", "job.yaml", "--set", f"stages.source.operator=mine:{kind}", words=words)


NOT_MDS = """\
class Sums:
    def __init__(self, k, r):
        self.k, self.r = k, r

    def encode(self, data):
        return [sum(data) for _ in range(self.r)]

    def decode(self, blocks):
        return [blocks.get(i, blocks[max(blocks)]) for i in range(self.k)]
"""


def test_a_code_that_breaks_a_law(cli: Cli, check_refused: Callable[..., None]) -> None:
    (cli.directory / "sums.py").write_text(NOT_MDS)
    scheme = 'fault_tolerance={scheme: erasure, code: "sums:Sums", k: 2, r: 1}'
    words = (
        "fault_tolerance.code: code 'sums:Sums' with k=2 and r=1 breaks a law of erasure codes: block 0 is not decoded"
    )
    check_refused("run", "job.yaml", "--set", scheme, words=words)


def test_no_java(cli: Cli, tmp_path_factory: pytest.TempPathFactory) -> None:
    empty = str(tmp_path_factory.mktemp("empty"))
    environment = {"PATH": empty, "JAVA_HOME": ""}
    ended = cli.run("run", "job.yaml", environment=environment)
    assert ended.returncode == 2
    assert "Java was not found" in ended.stderr and "apt-get install openjdk" in ended.stderr
    assert cli.processes() == []
    assert cli.run("doctor", environment=environment).returncode == 1


@pytest.mark.parametrize(
    ("storage", "words"), [("job.yaml", "the storage job.yaml"), ("nowhere://bucket/a", "Protocol not known: nowhere")]
)
def test_a_backup_server_without_storage(check_refused: Callable[..., None], storage: str, words: str) -> None:
    check_refused("backup", "--listen", "ipc://@riprap-errors", "--storage", storage, words=words, own_process=True)


def test_a_port_that_is_taken(cli: Cli) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        for foreground in (["--foreground"], []):
            ended = cli.run("up", "--port", port, *foreground)
            assert ended.returncode == 2
            assert f"port {port} on 127.0.0.1 cannot be used" in ended.stderr and ended.stderr.count("error: ") == 1
            assert ended.stderr.count("remedy: ") == 1, "which is not to look for the message that stands there"
    cli.await_no_process()


def test_a_word_that_is_no_command_is_refused_with_a_suggestion(cli: Cli) -> None:
    ended = cli.run("statu")
    assert ended.returncode == 2 and "Did you mean status?" in ended.stderr
    ended = cli.run("run", "job.yaml", "--sett", "a=1")
    assert ended.returncode == 2 and "--set" in ended.stderr


def test_a_reader_that_goes_away_is_no_error(cli: Cli) -> None:
    process = cli.start("doctor")
    assert process.stdout and process.stderr
    process.stdout.close()
    assert "Traceback" not in process.stderr.read()
    process.wait(120)


def test_keys_are_not_kept_where_security_is_off(cli: Cli) -> None:
    token = Token("tcp://127.0.0.1:1", b"x" * 40, b"y" * 40).text()
    refused = cli.answer("join", token, environment={FOLDER_VARIABLE: OFF})
    assert refused.returncode == 2 and "security is off here, so no keys are kept" in refused.stderr


@pytest.mark.parametrize("closed", ["<&- >&-", ">&-", "<&- >&- 2>&-"])
def test_a_caller_that_has_closed_the_streams_is_served_alike(cli: Cli, closed: str) -> None:
    wrapper = ["sh", "-c", f'exec "$@" {closed}', "sh"]
    assert cli.run("--help", wrapper=wrapper).returncode == 0
    refused = cli.run("status", wrapper=wrapper)
    told = "" if "2>&-" in closed else cli.run("status").stderr
    assert refused.returncode == 2 and refused.stderr == told


def test_characters_that_a_terminal_does_not_know_are_escaped(cli: Cli) -> None:
    (cli.directory / "out" / "logs").mkdir(parents=True)
    (cli.directory / "out" / "logs" / "sink.0.log").write_text("caf\xe9 \u65e5\n", encoding="utf-8")
    words = [sys.executable, "-P", "-m", "riprap.engine.cli.main", "logs", "out", "sink.0"]
    environment = cli.environment | {"PYTHONIOENCODING": "latin-1"}
    ended = subprocess.run(words, cwd=cli.directory, env=environment, capture_output=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"caf\xe9 \\u65e5\n", b"")


def test_an_unexpected_error_is_short_and_keeps_its_traceback(cli: Cli) -> None:
    (cli.directory / "sitecustomize.py").write_text(
        "import riprap.engine.services.state as state\ndef broken(given):\n    raise LookupError('a bug')\n"
        "state.find_zookeeper = broken\n"
    )
    ended = cli.run("status", environment={"PYTHONPATH": os.pathsep.join([str(cli.directory), os.getcwd()])})
    assert ended.returncode == 1
    assert "error: LookupError: a bug" in ended.stderr and "Traceback" not in ended.stderr
    kept = Path(ended.stderr.split("report it with ")[1].strip())
    assert kept.parent == cli.directory and "find_zookeeper" in kept.read_text()
