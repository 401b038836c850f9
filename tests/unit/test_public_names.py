"""What users import: the names of `riprap`, and nothing of theirs that ours could hide."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import riprap

FACADE = Path(riprap.__file__)


def for_type_checkers() -> dict[str, str]:
    """By name, the module from which a type checker takes it."""
    (block,) = [node for node in ast.parse(FACADE.read_text()).body if is_for_type_checkers(node)]
    assert isinstance(block, ast.If)
    found = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(node.module) for node in found for alias in node.names}


def is_for_type_checkers(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def test_every_public_name_is_there_and_the_same_for_type_checkers() -> None:
    assert for_type_checkers() == riprap._MODULE_OF
    assert riprap.__all__ == sorted(riprap._MODULE_OF), "listed once, in order"
    for name, module in riprap._MODULE_OF.items():
        assert getattr(riprap, name) is getattr(importlib.import_module(module), name)
    assert set(riprap.__all__) <= set(dir(riprap))
    assert (FACADE.parent / "py.typed").is_file()


def in_a_new_interpreter(code: str, directory: Path) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=directory, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_riprap_imports_nothing_else(tmp_path: Path) -> None:
    code = "import sys, riprap; print(sorted(m for m in sys.modules if m.startswith(('riprap.', 'numpy', 'zmq'))))"
    assert in_a_new_interpreter(code, tmp_path) == "[]"


def test_an_unknown_name_is_said_as_python_says_it(tmp_path: Path) -> None:
    code = "import riprap\ntry:\n    riprap.Jbo\nexcept AttributeError as error:\n    print(error)"
    assert in_a_new_interpreter(code, tmp_path) == "module 'riprap' has no attribute 'Jbo'"


def test_modules_of_the_users_hide_nothing_and_are_not_hidden(tmp_path: Path) -> None:
    for name in ("codec", "configs", "controller", "engine"):
        (tmp_path / f"{name}.py").write_text("MINE = True\n")
    (tmp_path / "operators").mkdir()
    (tmp_path / "operators" / "__init__.py").write_text("MINE = True\n")
    code = (
        "import codec, configs, controller, engine, operators, riprap\n"
        "from riprap.engine.cli.main import COMMANDS\n"
        "print(all(m.MINE for m in (codec, configs, controller, engine, operators)), riprap.Job.__module__)"
    )
    assert in_a_new_interpreter(code, tmp_path) == "True riprap.engine.api.compose"
