"""Another host, or user, gets the keys of a cluster by a token, and by nothing else."""

from __future__ import annotations

import json

import pytest
from cli_harness import UNTIL_HURRIED, Cli, await_that
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from riprap.codec.errors import RiprapError
from riprap.codec.trust.keys import own_authority
from riprap.codec.trust.reader import READER
from riprap.codec.trust.tokens import Token
from riprap.controller import paths
from riprap.controller.joining import join


def test_a_token_lets_another_host_in_until_it_is_revoked(home: Cli) -> None:
    there = {"RIPRAP_KEYS": str(home.directory / "keys of the other host")}
    without = home.run("jobs", environment=there)
    assert without.returncode == 2, without.stderr
    assert "belongs to others, or is open to them" in without.stderr, without.stderr
    text = home.ask("token").strip()
    conflicting = home.run("join", text, environment=there)
    assert conflicting.returncode == 2 and "is that of another cluster" in conflicting.stderr
    there = {"RIPRAP_KEYS": str(home.directory / "a new folder")}
    joined = home.run("join", text, environment=there)
    assert joined.returncode == 0 and "riprap agent --zookeeper" in joined.stdout, joined.stderr
    within = home.run("jobs", environment=there)
    assert within.returncode == 0, within.stderr
    assert home.ask("token", "--revoke") == "revoked: 1\n"
    with pytest.raises(RiprapError, match="has expired or was revoked"):
        join(Token.read(text), timeout_s=1)


def test_a_cluster_that_is_up_has_its_folder_so_that_nobody_else_can_make_it(home: Cli) -> None:
    stranger = KazooClient(json.loads(home.ask("up", "--json"))["zookeeper"])
    try:
        stranger.start()
        with pytest.raises(NoAuthError):
            stranger.create(f"{paths.ROOT}/mine")  # NoNodeError where there is none
    finally:
        stranger.stop()
        stranger.close()


def test_without_security_whoever_wants_none_gets_in_and_is_told(cli: Cli) -> None:
    """All commands say so; those with keys keep away, for they would trust what anybody writes."""
    off = {"RIPRAP_KEYS": "off"}
    warning = "security is off: whoever reaches this network may run code as you\n"
    up = cli.run("up", "--standby", "0", environment=off)
    assert up.returncode == 0 and warning in up.stderr, up.stderr
    try:
        submitted = cli.run("submit", "job.yaml", "--out", "out", environment=off)
        assert submitted.returncode == 0, submitted.stderr
        done = cli.directory / "out" / "summary.json"
        await_that(done.exists, 120, lambda: "the job has not ended")
        assert json.loads(done.read_text())["completed"]
        strict = cli.run("jobs")
        assert strict.returncode == 2 and "belongs to others, or is open to them" in strict.stderr
        assert warning not in strict.stderr
        token = cli.run("token", environment=off)
        assert token.returncode == 1 and "no keys to be handed out" in token.stderr
    finally:
        assert cli.run("down", environment=off).returncode == 0
    cli.await_no_process()


def test_a_reader_sees_how_jobs_are_and_can_do_nothing_else(home: Cli) -> None:
    there = {"RIPRAP_KEYS": str(home.directory / "keys of the reader")}
    zookeeper = json.loads(home.ask("up", "--json"))["zookeeper"]
    token = home.run("token", "--reader")
    joined = home.run("join", token.stdout.strip(), environment=there)
    assert joined.returncode == 0 and f"now: riprap status --zookeeper {zookeeper}" in joined.stdout, joined.stderr
    home.ask("submit", "job.yaml", "--out", "out", "--set", "input.repeat=100000", *UNTIL_HURRIED)
    await_that((home.directory / "out/epochs.csv").exists, 120, lambda: "the job has not begun")
    for words in (("jobs",), ("status",), ("status", "trial")):
        asked = home.run(*words, environment=there)
        assert asked.returncode == 0 and "trial" in asked.stdout, asked.stderr
    for words in (("cancel", "trial"), ("kill", "trial", "sink.0"), ("token",)):
        refused = home.run(*words, environment=there)
        assert refused.returncode == 1 and "a reader's keys allow to ask how jobs are" in refused.stderr
    for words in (("agent", "--zookeeper", zookeeper), ("controller", "--zookeeper", zookeeper)):
        refused = home.run(*words, environment=there)
        assert refused.returncode == 2 and "are a reader's" in refused.stderr
    nodes = KazooClient(zookeeper, auth_data=[("digest", f"riprap-readers:{own_authority().password(READER)}")])
    nodes.start()
    assert json.loads(nodes.get(paths.LEADER)[0]).keys() == {"endpoint", "pid", "keys"}
    ours = (paths.JOBS, paths.AGENTS, paths.job("trial"))
    reading = [(act, path) for act in (nodes.get, nodes.get_children) for path in (paths.ROOT, *ours)]
    for act, path in (*reading, *((nodes.delete, path) for path in ours)):
        with pytest.raises(NoAuthError):
            act(path)
    with pytest.raises(NoAuthError):
        nodes.set(paths.LEADER, b"{}")
    nodes.stop()
    nodes.close()
    assert json.loads(home.ask("status", "trial", "--json"))["phase"] == "RUNNING"
    home.ask("cancel", "trial")
