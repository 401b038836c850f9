"""The file of --zookeeper-auth belongs to an ensemble that is named; children find it in their environment."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from riprap.codec.errors import ConfigError
from riprap.controller import ensemble


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(ensemble.VARIABLE, "")
    path = tmp_path / "auth.yaml"
    path.write_text("digest: {user: a, password: b}")
    path.chmod(0o600)
    return path


def test_a_file_that_is_given_holds_for_children_wherever_they_are(file: Path) -> None:
    ensemble.use("zk:1", "auth.yaml")
    assert os.environ[ensemble.VARIABLE] == str(file)
    auth = ensemble.read()
    assert auth is not None and auth.file == str(file)


def test_the_variable_holds_for_an_ensemble_that_is_named_only(file: Path) -> None:
    ensemble.remember(str(file))
    ensemble.use("zk:1", None)
    assert ensemble.file_in_use() == str(file)
    ensemble.use(None, None)
    assert ensemble.file_in_use() == "" and ensemble.read() is None


def test_a_file_alone_is_refused(file: Path) -> None:
    with pytest.raises(ConfigError, match="none is named"):
        ensemble.use(None, "auth.yaml")


def test_a_file_that_cannot_be_used_is_refused_at_once(file: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        ensemble.use("zk:1", "none.yaml")
    ensemble.remember("auth.yaml")
    with pytest.raises(ConfigError, match="not an absolute path"):
        ensemble.use("zk:1", None)


@pytest.mark.parametrize(
    "address", ["zk:port", "zk:99999", "zk:1,zk:-2", ":2181", "zk..net:1", f"{'z' * 64}:1", "zk\udcff:1", "zk:1/a/../b"]
)
def test_an_address_that_is_none_is_refused_by_its_text(address: str) -> None:
    with pytest.raises(ConfigError, match=f"--zookeeper {re.escape(address)}: .*") as refused:
        ensemble.use(address, None)
    assert "HOST:PORT" in refused.value.remedy
