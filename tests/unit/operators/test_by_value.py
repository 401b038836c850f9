"""Classes of a notebook travel by a file that belongs to its user alone; any other is refused unread."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from riprap.codec.errors import ConfigError
from riprap.operators import by_value
from riprap.operators.functions import load_function
from riprap.operators.loading import load_operator

SCRIPT = """\
import sys
from pathlib import Path

from riprap.operators import by_value
from riprap.operators.base import Processor

FACTOR = 3


class Base(Processor):
    def process_data(self, items):
        return [items * FACTOR]


class Broken(Base):
    def process_data(self, items):
        raise ValueError("a mistake")


def scaled(rows):
    return rows * FACTOR


print(by_value.write(Path(sys.argv[1]), {"Base": Base, "Broken": Broken, "scaled": scaled}))
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What a script, which is gone, wrote; in use."""
    folder = tmp_path / "own"
    folder.mkdir(mode=0o700)
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, str(tmp_path / "script.py"), str(folder)]
    path = Path(subprocess.check_output(command, text=True).strip())
    (tmp_path / "script.py").unlink()
    monkeypatch.setenv(by_value.ENVIRONMENT, str(path))
    by_value._read.cache_clear()
    return path


def test_a_class_comes_with_the_globals_and_bases_that_it_refers_to(file: Path) -> None:
    base, broken = load_operator("__main__:Base"), load_operator("__main__:Broken")
    assert issubclass(broken, base) and base().process_data(2) == [6]  # type: ignore[attr-defined]
    assert file.stat().st_mode & 0o777 == 0o600


def test_an_error_shows_the_line_of_a_file_that_is_not_there(file: Path) -> None:
    import traceback

    with pytest.raises(ValueError) as caught:
        load_operator("__main__:Broken")().process_data(2)  # type: ignore[attr-defined]
    assert traceback.extract_tb(caught.value.__traceback__)[-1].line == 'raise ValueError("a mistake")'


def test_a_function_comes_the_same_way(file: Path) -> None:
    assert load_function("__main__:scaled")(2) == 6
    with pytest.raises(ConfigError, match="Base is no function"):
        load_function("__main__:Base")
    with pytest.raises(ConfigError, match=r"^function '__main__:nothing': the function of a notebook or script"):
        load_function("__main__:nothing")


def test_an_error_in_a_function_shows_its_line(file: Path) -> None:
    import traceback

    with pytest.raises(TypeError) as caught:
        load_function("__main__:scaled")(None)
    assert traceback.extract_tb(caught.value.__traceback__)[-1].line == "return rows * FACTOR"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666])
def test_a_file_that_others_may_open_is_refused(file: Path, mode: int) -> None:
    file.chmod(mode)
    with pytest.raises(ConfigError, match=f"mode {mode:o}"):
        by_value.find("Base")


def test_a_folder_that_others_may_write_is_refused(file: Path) -> None:
    file.parent.chmod(0o770)
    with pytest.raises(ConfigError, match=r"with no rights for others; it has .* mode 770"):
        by_value.find("Base")


def test_a_file_of_somebody_else_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    me = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: me + 1)
    with pytest.raises(ConfigError, match=f"must belong to user {me + 1}, .* it has owner {me}, mode 600"):
        by_value.find("Base")


def test_a_link_to_a_file_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = file.with_name("link")
    link.symlink_to(file)
    monkeypatch.setenv(by_value.ENVIRONMENT, str(link))
    with pytest.raises(ConfigError, match="symbolic link"):
        by_value.find("Base")


def test_a_run_directory_keeps_the_file_for_later_attempts(file: Path, tmp_path: Path) -> None:
    by_value.keep(tmp_path)
    kept = tmp_path / by_value.FOLDER / by_value.FILE
    assert os.environ[by_value.ENVIRONMENT] == str(kept)
    assert (kept.stat().st_mode & 0o777, kept.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    by_value.use(None)
    file.unlink()
    by_value.use_kept(tmp_path)
    assert by_value.find("Base").__name__ == "Base"


def test_without_the_program_the_message_says_how_to_save_the_class(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(by_value.ENVIRONMENT, raising=False)
    with pytest.raises(ConfigError, match=r"(?s)__main__:Mine.*%%writefile my_operators.py") as caught:
        load_operator("__main__:Mine")
    assert "my_operators:CLASS" in caught.value.remedy


def test_without_cloudpickle_the_message_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(ConfigError, match=r"pip install 'riprap\[notebook\]'"):
        by_value.write(tmp_path, {})


def test_a_class_that_refers_to_what_cannot_be_sent_is_refused(tmp_path: Path) -> None:
    import threading

    holder = type("Holder", (), {"lock": threading.Lock(), "__module__": "__main__"})
    with pytest.raises(ConfigError, match=r"Holder cannot be sent to workers: .*lock"):
        by_value.write(tmp_path, {"Holder": holder})
