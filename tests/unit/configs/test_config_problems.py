"""Whatever is wrong with a topology file is named with its line and its field, and all of it at once."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from riprap.codec.errors import ConfigError
from riprap.configs.document import BYTES_MAX
from riprap.configs.loading import load
from riprap.configs.topology import EDGES_MAX, STAGES_MAX, Draft

Write = Callable[..., Path]


# (what is replaced, by what) -> line, field, and words of the message.
CASES = {
    "job name": (("job: trial", "job: a trial"), 1, "job", "letters, digits"),
    "job number": (("job: trial", "job: 5"), 1, "job", "is 5; expected text"),
    "job missing": (("job: trial\n", ""), 1, "job", "missing"),
    "repeat zero": (("repeat: 1", "repeat: 0"), 2, "input.repeat", "is 0; expected at least 1"),
    "limit text": (("limit: null", "limit: all"), 2, "input.limit", "'all'; expected a whole number"),
    "input path empty": (("path: SHARDS", 'path: ""'), 2, "input.path", "is ''; expected text that is not empty"),
    "cpus of none": (
        ("parallelism: 6", "cpus: []"),
        *(10, "stages.processor.cpus", "is []; expected at least 1 of them"),
    ),
    "backup servers of one address": (
        ("seed: 7", "backup: {servers: tcp://10.0.0.7:7070}"),
        *(4, "backup.servers", "expected a number from 0 to 5, or a list of 1 to 5 addresses such as tcp://HOST:PORT"),
    ),
    "too many backup servers": (("seed: 7", "backup: {servers: 6}"), 4, "backup.servers", "is 6; expected a number"),
    "backup servers by a truth": (("seed: 7", "backup: {servers: true}"), 4, "backup.servers", "is True; expected a"),
    "address of a backup server": (
        ("seed: 7", "backup: {servers: [10.0.0.7]}"),
        *(4, "backup.servers", "is ['10.0.0.7']; expected a number from 0 to 5, or a list"),
    ),
    "input key": (("repeat: 1", "repeats: 1"), 2, "input.repeats", "did you mean repeat?"),
    "input no mapping": (("{path: SHARDS, repeat: 1, limit: null}", "SHARDS"), 2, "input", "expected a mapping"),
    "micro_batch float": (("micro_batch: 1000", "micro_batch: 1e3"), 3, "micro_batch", "expected a whole number"),
    "micro_batch bool": (("micro_batch: 1000", "micro_batch: true"), 3, "micro_batch", "is True; expected a whole"),
    "seed quoted": (("seed: 7", 'seed: "7"'), 4, "seed", "take off the quotes"),
    "seed negative": (("seed: 7", "seed: -7"), 4, "seed", "at least 0"),
    "top key": (("seed: 7", "sed: 7"), 4, "sed", "did you mean seed?"),
    "stage name": (("  processor:\n", "  Processor:\n"), 8, "stages.Processor", "lower-case letters"),
    "operator path": (("logistic_regression:Model", "Model"), 13, "stages.sink.operator", "MODULE:CLASS"),
    "parallelism zero": (("parallelism: 6", "parallelism: 0"), 10, "stages.processor.parallelism", "at least 1"),
    "stage key": (("parallelism: 6", "paralelism: 6"), 10, "stages.processor.paralelism", "did you mean parallelism?"),
    "threads zero": (("parallelism: 6", "threads: 0"), 10, "stages.processor.threads", "at least 1"),
    "threads text": (("parallelism: 6", "threads: all"), 10, "stages.processor.threads", "a whole number"),
    "threads too many": (("parallelism: 6", "threads: 65"), 10, "stages.processor.threads", "at most 64"),
    "options no mapping": (("{rate: 1.0e-6}", "[1]"), 11, "stages.processor.options", "expected a mapping"),
    "options date": (("1.0e-6", "2001-01-01"), 11, "stages.processor.options.rate", "expected numbers, text"),
    "edge name": (("to: sink", "to: snik"), 16, "edges.1.to", "did you mean sink?"),
    "edge partitioning": (("stripe", "stripes"), 15, "edges.0.partitioning", "did you mean stripe?"),
    "edge without partitioning": ((", partitioning: merge", ""), 16, "edges.1.partitioning", "missing"),
    "edge feedback": (("feedback: true", "feedback: yes"), 17, "edges.2.feedback", "expected true or false"),
    "edge twice": (
        ("{from: sink, to: processor, feedback: true}", "{from: source, to: processor, partitioning: full}"),
        *(17, "edges.2", "the same edge as edges.0"),
    ),
    "unmarked cycle": (("feedback: true", "partitioning: full"), 17, "edges.2", "feedback: true"),
    "wrong feedback": (
        ("{from: sink, to: processor, feedback", "{from: source, to: sink, feedback"),
        *(17, "edges.2.feedback", "source is not downstream of sink"),
    ),
    "loop of one stage unmarked": (
        ("{from: sink, to: processor, feedback: true}", "{from: processor, to: processor, partitioning: full}"),
        *(17, "edges.2", "loop: true"),
    ),
    "loop in part": (
        ("feedback: true", "loop: true, partitioning: merge"),
        17,
        "edges.2.partitioning",
        "full, for a loop",
    ),
    "loop with a lead": (
        ("feedback: true", "loop: true, consistency: asp"),
        17,
        "edges.2.consistency",
        "no consistency",
    ),
    "no sink": (("  - {from: processor, to: sink, partitioning: merge}\n", ""), 14, "edges", "0 stages are processors"),
    "scheme unknown": (("scheme: erasure", "scheme: erasur"), 19, "fault_tolerance.scheme", "did you mean erasure?"),
    "scheme missing": (("  scheme: erasure\n", ""), 18, "fault_tolerance.scheme", "missing"),
    "code unknown": (("code: gf256", "code: gf265"), 20, "fault_tolerance.code", "did you mean gf256?"),
    "k zero": (("k: 4", "k: 0"), 21, "fault_tolerance.k", "at least 1"),
    "r too large": (("r: 2", "r: 300"), 22, "fault_tolerance.r", "at most 254"),
    "hedge in its former unit": (
        ("r: 2", "r: 2\n  hedge_ms: 100"),
        23,
        "fault_tolerance.hedge_ms",
        "did you mean hedge?",
    ),
    "hedge of no time": (("r: 2", "r: 2\n  hedge: 0"), 23, "fault_tolerance.hedge", "none, cost, or milliseconds"),
    "key of another scheme": (("r: 2", "r: 2\n  copies: 2"), 23, "fault_tolerance.copies", "unknown key"),
    "too few processors": (("parallelism: 6", "parallelism: 5"), 10, "stages.processor.parallelism", "k + r = 6"),
    "xor of two": (("code: gf256", "code: xor"), 22, "fault_tolerance.r", "1 with the code xor"),
    "too many blocks": (("k: 4", "k: 254"), 21, "fault_tolerance.k", "k + r is 256; expected at most 255"),
    "nothing striped": (("stripe", "split"), 19, "fault_tolerance.scheme", "no edge is striped"),
    "copies do not divide": (
        ("scheme: erasure\n  code: gf256\n  k: 4\n  r: 2", "scheme: replication\n  copies: 4"),
        *(10, "stages.processor.parallelism", "a multiple of copies = 4"),
    ),
    "sinks do not pair": (
        ("logistic_regression:Model", "logistic_regression:Model\n    parallelism: 2"),
        *(14, "stages.sink.parallelism", "each source task has a sink task"),
    ),
    "one to one": (("merge", "one_to_one"), 16, "edges.1.partitioning", "processor has 6 tasks and sink 1"),
    "repeat often": (("repeat: 1", "repeat: always"), 2, "input.repeat", "a number of times, or forever"),
    "cluster": (("seed: 7", "cluster: {heartbeat_timeout_s: 0}"), 4, "cluster.heartbeat_timeout_s", "more than 0"),
    "infinite": (("seed: 7", "cluster: {heartbeat_timeout_s: .inf}"), 4, "cluster.heartbeat_timeout_s", "expected"),
    "a key that is nothing": (("seed: 7", "~: 7"), 1, "None", "Keys should be strings"),
    "links": (("seed: 7", "links: {block_bytes: 8}"), 4, "links.block_bytes", "at least 1024"),
    "more than 64 bits": (("repeat: 1", f"repeat: {1 << 70}"), 2, "input.repeat", f"at most {1 << 62}"),
    "input of a stage that is fed": (
        ("operator: logistic_regression:Gradient", "operator: logistic_regression:Gradient\n    input: {path: SHARDS}"),
        *(10, "stages.processor.input", "for sources alone"),
    ),
    "input of a zero byte": (("path: SHARDS", r'path: "a\0b"'), 2, "input.path", "a path without a zero byte"),
    "storage of a zero byte": (("seed: 7", r'backup: {storage: "a\0b"}'), 4, "backup.storage", "without a zero byte"),
    "output of a zero byte": (("seed: 7", r'output: {path: "a\0b"}'), 4, "output.path", "without a zero byte"),
    "savepoint of a zero byte": (("seed: 7", r'start_from: "a\0b"'), 4, "start_from", "without a zero byte"),
    "a stage's input of a zero byte": (
        ("shard_source:ShardSource", 'shard_source:ShardSource\n    input: {path: "a\\0b"}'),
        *(8, "stages.source.input.path", "without a zero byte"),
    ),
    "output key": (("seed: 7", "output: {pth: rows}"), 4, "output.pth", "expected one of path, format"),
    "key of a stage's input": (
        ("shard_source:ShardSource", "shard_source:ShardSource\n    input: {pth: SHARDS}"),
        *(8, "stages.source.input.pth", "did you mean path?"),
    ),
    "no input": (("path: SHARDS", "path: data/kdd12/train"), 2, "input.path", "riprap prep kdd12 training.txt --out"),
}


@pytest.mark.parametrize(("replacement", "line", "field", "words"), CASES.values(), ids=CASES.keys())
def test_each_problem_has_line_field_and_remedy(
    write: Write, replacement: tuple[str, str], line: int, field: str, words: str
) -> None:
    path = write(replacement)
    with pytest.raises(ConfigError) as caught:
        load(path)
    message = str(caught.value)
    assert f"{path}:{line}: {field}: " in message
    assert words in message
    assert "remedy: " in message
    assert caught.value.exit_code == 2


def test_all_problems_at_once_in_the_order_of_the_file(write: Write) -> None:
    path = write(("seed: 7", "sed: 7"), ("k: 4", "k: four"), ("job: trial", "job: 5"), ("to: sink", "to: snik"))
    with pytest.raises(ConfigError) as caught:
        load(path)
    lines = [int(line.split(":")[1]) for line in str(caught.value).splitlines() if line.startswith(str(path))]
    assert lines == [1, 4, 16, 21]
    assert "the 4 problems above" in caught.value.remedy


@pytest.mark.parametrize("below", ["", "/not/there"])
def test_a_storage_that_is_a_file_is_refused(write: Write, tmp_path: Path, below: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=f"backup.storage: {tmp_path}/file is no directory; expected a directory"):
        load(write(), [f"backup.storage={tmp_path}/file{below}"])
    assert load(write(), [f"backup.storage={tmp_path}{below}"]).backup.storage == f"{tmp_path}{below}"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("input.path", "{path}"),
        ("input", "{{path: {path}, follow: true}}"),
        ("stages.source.input", "{{path: {path}}}"),
        ("backup.storage", "{path}"),
    ],
)
def test_a_path_that_the_system_does_not_take_is_a_problem_of_its_line(write: Write, field: str, value: str) -> None:
    """As that of a directory below another user's: it can neither be found nor be missed."""
    path = "ü" * 200
    with pytest.raises(
        ConfigError, match=rf"{field}[a-z.]*: .*{path}.*: File name too long; expected a path"
    ) as caught:
        load(write(), [f"{field}={value.format(path=path)}"])
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("name", ["my data", "my data/train", "my edges", "my words", "my pcap", "my kdd12/train"])
def test_the_command_that_makes_an_input_can_be_copied(write: Write, name: str) -> None:
    with pytest.raises(ConfigError, match="remedy: make one with: riprap prep") as caught:
        load(write(), [f"input.path={name}"])
    words = shlex.split(caught.value.remedy)
    assert words[words.index("--out") + 1] == name.removesuffix("/train")


def test_a_file_to_follow_can_be_made_by_the_command_that_is_told(write: Write) -> None:
    with pytest.raises(ConfigError, match="remedy: touch 'my log', or make the directory"):
        load(write(), ["input={path: my log, follow: true}"])


def test_a_job_of_no_stages_is_refused_as_such(write: Write) -> None:
    path = write()
    with pytest.raises(ConfigError, match=r"stages: is empty; expected the operators of the job"):
        load(path, ["stages={}", "edges=[]"])


def test_a_source_still_has_the_input_of_which_a_key_is_wrong(write: Write) -> None:
    drafts: list[Draft] = []
    with pytest.raises(ConfigError, match="remedy: correct the problem above"):
        load(write(("repeat: 1", "repeat: often")), checks=[lambda draft: drafts.append(draft) or ()])
    assert drafts[0].topology.input.path is not None and drafts[0].topology.input.repeat == 1


def test_a_file_that_is_sound_gives_no_problem(write: Write) -> None:
    assert load(write()).job == "trial"


def test_a_directory_of_splits_suggests_the_split(write: Write, shards: Path) -> None:
    (shards / "train").mkdir()
    (shards / "manifest.json").rename(shards / "train" / "manifest.json")
    with pytest.raises(ConfigError, match=r"did you mean .*/train"):
        load(write())


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"job: [1, 2\nseed: 3\n", r"job.yaml:2:5: not valid YAML"),
        (b"job: a\njob: b\n", r"job.yaml:2:1: not valid YAML: found duplicate key"),
        (b"- 1\n- 2\n", r"job.yaml:1: \(file\): is not a mapping"),
        (b"", r"is not a mapping"),
        (b"seed: 0x" + b"f" * 4000, r"job.yaml: a whole number of more than 4200 digits"),
        (b"\xff\xfe\x00", r"not UTF-8 text at byte 0"),
        (b"#" * (BYTES_MAX + 1), r"larger than"),
    ],
)
def test_what_yaml_cannot_read_is_named_with_its_place(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "job.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=words):
        load(path)


def test_aliases_that_multiply_are_bounded(tmp_path: Path) -> None:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    path = tmp_path / "job.yaml"
    path.write_text("\n".join(lines))
    with pytest.raises(ConfigError, match="aliases expand without end"):
        load(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere.yaml: No such file"):
        load(tmp_path / "nowhere.yaml")


def test_further_checks_are_reported_with_lines(write: Write) -> None:
    from riprap.configs.problems import Problem

    path = write()
    with pytest.raises(ConfigError, match=rf"{path}:11: stages.processor.options.rate: too small; expected more"):
        load(path, checks=[lambda topology: [Problem(("stages", "processor", "options", "rate"), "too small", "more")]])


def test_more_stages_or_edges_than_a_topology_may_have(write: Write) -> None:
    stages = "".join(f"  more{n}: {{operator: shard_source:ShardSource}}\n" for n in range(STAGES_MAX))
    with pytest.raises(ConfigError, match=f"job.yaml:5: stages: .*; expected at most {STAGES_MAX} of them"):
        load(write(("edges:\n", f"{stages}edges:\n")))
    edge = "  - {from: sink, to: processor, feedback: true}\n"
    with pytest.raises(ConfigError, match=f"job.yaml:14: edges: .*; expected at most {EDGES_MAX} of them"):
        load(write((edge, edge * EDGES_MAX)))
