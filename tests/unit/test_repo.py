"""Checks of the repository itself: directions of imports, sizes, first sentences, words, and what is packaged."""

from __future__ import annotations

import ast
import re
import runpy
import subprocess
import sys
import tomllib
from collections.abc import Collection, Iterator
from fnmatch import fnmatch
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import pytest
import setuptools

from riprap.configs.document import read_document
from riprap.configs.loading import load
from riprap.configs.schemes import SCHEMES
from riprap.engine.schemes import registry as schemes
from riprap.operators.shipped import SHIPPED

ROOT = Path(__file__).parents[2]
ORDER = ("codec", "configs", "operators", "backupserver", "controller", "engine")
ENGINE = (
    "wire", "flow", "spreads", "schemes", "worker", "run_directory", "services", "show", "plot", "pages", "profile",
    "plan", "run", "tune", "api", "cli",
)  # fmt: skip
"""The folders of the engine, each of which imports only from those before it."""
APART = "prep_spark"
FACADE = "riprap"
"""What users import; it may import from all."""
WORDED = (*ORDER, APART, FACADE, "bench")
"""The folders whose docstrings open with their subject."""
FUNCTION_LINES_MAX = 60
PRODUCT_LINES_MAX, TEST_LINES_MAX = 500, 600
FILE_BYTES_MAX = 1_000_000

# Joined here, so that this file does not contain what it looks for.
BANNED = tuple(
    re.compile("".join(parts), re.IGNORECASE)
    for parts in (
        ("/wo", r"rk/(main|shared|\.)"), ("/tm", r"p/(briefs|bash_jobs|riprap-)"), ("/ro", "ot/"), ("/op", "t/pypi"),
        (r"/ho", r"me/\w"), ("anthr", "opic"), (r"\bcla", r"ude\b"), ("chat", "gpt"), ("open", "ai"),
        ("sub-?", "agent"), (r"issues ", r"show\b"), ("arti", "factory"), (r"pypi\.", "org"),
        ("files.python", "hosted"), ("extra-", "index"), (r"\ba seed", "ed session"), ("your b", "rief"),
        ("language ", "model"),
    )
)  # fmt: skip


def tracked() -> list[Path]:
    """The files under version control that are there; in a copy without it, those that it would not ignore."""
    if not (ROOT / ".git").exists():
        return [path for path in ROOT.rglob("*") if path.is_file() and not ignored(path)]
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    return [path for name in listed.stdout.decode().split("\0") if name and (path := ROOT / name).is_file()]


def ignored(path: Path) -> bool:
    """By .gitignore, whose last pattern that matches decides."""
    name, found = name_of(path), False
    for line in (ROOT / ".gitignore").read_text().split():
        pattern = line.removeprefix("!").rstrip("/")
        if any(fnmatch(part, pattern) for part in (name, *Path(name).parts)):
            found = not line.startswith("!")
    return found


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


TRACKED = tracked()
SOURCES = [path for path in TRACKED if path.suffix in (".py", ".pyx", ".pxd")]
PRODUCT = [path for path in SOURCES if path.relative_to(ROOT).parts[0] in (*ORDER, APART, FACADE)]


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """(line, top-level package) of every import, the nested and the compiled ones among them; of ours the folder."""
    for line, module in imported_modules(path):
        package, _, rest = module.partition(".")
        yield line, rest.partition(".")[0] or FACADE if package == FACADE else package


def imported_modules(path: Path) -> Iterator[tuple[int, str]]:
    """(line, module) of every import; `from riprap import X` is of riprap.X where that is a folder."""
    text = path.read_text()
    if path.suffix == ".py":
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                yield from ((node.lineno, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{name_of(path)}:{node.lineno}: import by the whole name"
                folders = [f"{FACADE}.{alias.name}" for alias in node.names if alias.name in (*ORDER, APART)]
                yield from ((node.lineno, name) for name in ((node.module == FACADE and folders) or [str(node.module)]))
    else:
        for number, line in enumerate(text.splitlines(), 1):
            found = re.match(r"\s*(?:from|c?import)\s+([\w.]+)", line)
            if found and re.search(r"\bc?import\b", line):
                yield number, found[1]


def may_import(folder: str) -> set[str]:
    """The folders of ours that one may import from (DESIGN 9)."""
    if folder == FACADE:
        return {*ORDER, APART, FACADE}
    return {folder} if folder == APART else set(ORDER[: ORDER.index(folder) + 1])


def is_composition_root(path: Path) -> bool:
    """The command line, which alone also starts the Spark jobs."""
    return name_of(path).startswith("engine/cli/")


def test_imports_point_one_way() -> None:
    ours, wrong, seen = {*ORDER, APART, FACADE, "tests", "bench"}, [], set()
    for path in PRODUCT:
        folder = path.relative_to(ROOT).parts[0]
        for line, package in imports(path):
            seen.add((folder, package))
            if package in ours - may_import(folder) and not (package == APART and is_composition_root(path)):
                wrong.append(f"{name_of(path)}:{line}: {folder} may not import {package}")
    assert not wrong, "\n".join(wrong)
    assert {("engine", "codec"), ("engine", "controller"), ("configs", "codec")} <= seen, "imports were found at all"


def test_imports_within_the_engine_point_one_way() -> None:
    wrong, seen = [], set()
    for path in PRODUCT:
        folder = path.relative_to(ROOT).parts[1]
        for line, module in imported_modules(path):
            imported = module.removeprefix("riprap.engine.").partition(".")[0]
            if path.is_relative_to(ROOT / "engine") and folder in ENGINE and imported in ENGINE:
                seen.add((folder, imported))
                if ENGINE.index(imported) > ENGINE.index(folder):
                    wrong.append(f"{name_of(path)}:{line}: engine/{folder} may not import {module}")
    assert not wrong, "\n".join(wrong)
    assert {("cli", "run"), ("worker", "flow"), ("api", "api")} <= seen, "imports were found at all"
    assert {path.name for path in (ROOT / "engine").iterdir() if (path / "__init__.py").exists()} == set(ENGINE)


def test_no_files_import_each_other_in_a_circle() -> None:
    names = {module_of(path): name_of(path) for path in PRODUCT if path.suffix == ".py"}
    graph = {module_of(path): files_imported(path, names) for path in PRODUCT if path.suffix == ".py"}
    with pytest.raises(CycleError):
        TopologicalSorter({"a": {"b"}, "b": {"a"}}).prepare()
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" <- ".join(names[module] for module in error.args[1]))


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join((*(() if parts[0] == FACADE else (FACADE,)), *parts)).removesuffix(".__init__")


def files_imported(path: Path, names: Collection[str]) -> set[str]:
    """The modules of ours that a file names in imports, its own package and the facade apart."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            whole = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (whole & set(names)) or {node.module}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return (found & set(names)) - {FACADE, module_of(path)}


def test_nothing_of_ours_is_imported_but_as_riprap() -> None:
    bare = [
        f"{name_of(path)}:{line}: {module}"
        for path in SOURCES
        for line, module in imported_modules(path)
        if module.partition(".")[0] in (*ORDER, APART)
    ]
    assert not bare, bare


def test_every_file_says_first_what_it_is_for() -> None:
    silent = [name_of(path) for path in SOURCES if path.suffix in (".py", ".pyx") and not first_sentence(path)]
    assert not silent, f"no docstring in the first line: {silent}"


def first_sentence(path: Path) -> str:
    text = path.read_text()
    found = re.match(r'(?:#!.*\n)?r?"""(.+)', text)
    return "an empty file needs none" if not text.strip() else found[1] if found else ""


ASKING = re.compile(r'\s*r?"""(?:What|Whether|How|Who|Whose|Where|Which|Why)\b')
"""The first line of a docstring that opens with a question's word, of a module, class, function or attribute."""


def test_docstrings_open_with_their_subject() -> None:
    asking, seen = [], 0
    for path in TRACKED:
        if path.suffix in (".py", ".pyi", ".pyx", ".pxd") and name_of(path).startswith(tuple(f"{f}/" for f in WORDED)):
            for number, line in enumerate(path.read_text().splitlines(), 1):
                seen += '"""' in line
                asking += [f"{name_of(path)}:{number}: {line.strip()}"] if ASKING.match(line) else []
    assert seen > 3000, "docstrings were found at all"
    assert not asking, "\n".join(asking)


@pytest.mark.parametrize("word", ["What", "Whether", "How"])
def test_a_docstring_that_asks_would_be_found(word: str) -> None:
    assert ASKING.match(f'    """{word} a worker runs."""') and not ASKING.match('"""However long it takes."""')


def test_a_class_name_has_one_meaning() -> None:
    """Shipped operators apart, whose module is part of their name, and `prep_spark`, which nothing else imports."""
    folders = {*ORDER} - {APART}
    shipped = {name.partition(":")[2] for names in SHIPPED.values() for name in names}
    defined: dict[str, list[str]] = {}
    for path in PRODUCT:
        if path.relative_to(ROOT).parts[0] in folders and path.suffix != ".pxd":  # a header of a .pyx
            for name in re.findall(r"^(?:cdef )?class (\w+)", path.read_text(), re.MULTILINE):
                defined.setdefault(name, []).append(name_of(path))
    assert len(defined) > 300, "classes were found at all"
    twice = {name: paths for name, paths in defined.items() if len(paths) > 1 and name not in shipped}
    assert not twice


NAMED = re.compile(
    r"(?<![\w/.{])(?:" + "|".join((*ORDER, APART, "tests", "bench")) + r")/[a-z_/0-9]+\.(?:pyx|pyi|pxd|py|h|html)\b"
)
"""A file of ours as comments and docs name it."""


def test_files_that_comments_and_docs_name_exist() -> None:
    named = [
        (path, name)
        for path in TRACKED
        if path.suffix in (".py", ".pyx", ".pxd", ".pyi", ".h", ".c", ".md")
        for name in NAMED.findall(path.read_text(errors="replace"))
    ]
    assert len(named) > 100, "names were found at all"
    missing = {f"{name_of(path)}: {name}" for path, name in named if not (ROOT / name).exists()}
    assert not missing, "\n".join(sorted(missing))


PAPERS = {
    "ABS": "4 4.1 4.2 4.2.1 4.2.2 4.2.3 4.2.4 5 5.1 5.1.1 5.1.2 5.1.3 6 6.0.1 6.0.2 6.0.3 6.0.4 7 7.1 7.2 7.3 7.4",
    "AF": "2 2.1 2.2 2.3 2.4 3 3.1 3.2 3.3 3.4 3.4.1 3.4.2 3.4.3 3.4.4 3.5 3.5.1 3.5.2 3.5.3 4 5 6 6.1 6.1.1 6.1.2 6.2",
    "LEC": "II II-A II-B III III-A III-B III-C III-D IV V V-A V-B V-C",
    "PPA": "II-A II-B III-A III-A1 III-A2 III-B IV-A IV-B IV-C IV-C1 IV-C2 IV-C3 V-A V-B V-C VI-A VI-B VI-C",
}
"""The sections of the papers; of PPA without those that say nothing but in their parts."""
CITED = re.compile(r"\b(ABS|AFX?|LEC|PPA) ((?:[0-9]\b|[IV]+\b)[-.0-9A-Z]*(?:, (?:[0-9]\b|[IV]+\b)[-.0-9A-Z]*)*)")


def test_sections_that_are_cited_are_in_the_papers() -> None:
    cited = [
        (path, f"{paper} {section.rstrip('.')}", section.rstrip(".") in PAPERS[paper.rstrip("X")].split())
        for path in TRACKED
        if path.suffix in (".py", ".pyx", ".h", ".md", ".yaml")
        for paper, sections in CITED.findall(path.read_text(errors="replace"))
        for section in sections.split(", ")
    ]
    assert len(cited) > 100, "sections were found at all"
    missing = {f"{name_of(path)}: {section}" for path, section, is_there in cited if not is_there}
    assert not missing, "\n".join(sorted(missing))


def test_functions_and_files_are_small() -> None:
    long = []
    for path in SOURCES:
        text = path.read_text()
        lines, limit = len(text.splitlines()), PRODUCT_LINES_MAX if path in PRODUCT else TEST_LINES_MAX
        if lines > limit:
            long.append(f"{name_of(path)} has {lines} lines, more than {limit}")
        for node in ast.walk(ast.parse(text)) if path.suffix == ".py" else ():
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > FUNCTION_LINES_MAX:
                    long.append(f"{name_of(path)}:{node.lineno}: {node.name} has {length} lines")
    assert not long, "\n".join(long)


def test_no_file_speaks_of_the_place_where_it_was_written() -> None:
    found = []
    for path in TRACKED:
        text = path.read_bytes()
        if b"\0" in text:
            continue
        for number, line in enumerate(text.decode(errors="replace").splitlines(), 1):
            found += [f"{name_of(path)}:{number}: {word.group()!r}" for word in map_search(line)]
    assert not found, "\n".join(found)


def map_search(line: str) -> list[re.Match[str]]:
    return [match for pattern in BANNED if (match := pattern.search(line))]


@pytest.mark.parametrize("line", ["see /wo" + "rk/main/x", "CHAT" + "GPT", "the Open" + "AI", "pypi." + "org"])
def test_the_banned_words_would_be_found(line: str) -> None:
    assert map_search(line) and not map_search("a worker's homework, in /work" + "shop")


def beyond_the_clone(path: Path, line: str) -> list[str]:
    """What a line of a file names beside the clone: a path with too many `..`, or a parent of the repository."""
    depth = len(path.relative_to(ROOT).parts) - 1
    up = [found[0] for found in re.finditer(r"(?:\.\./)+[\w.]*", line) if found[0].count("../") > depth]
    return up + [found[0] for found in re.finditer(r"parents\[(\d+)\]", line) if int(found[1]) > depth]


def test_no_file_names_a_folder_beside_the_clone() -> None:
    found = []
    for path in TRACKED:
        text = path.read_bytes()
        for number, line in enumerate(() if b"\0" in text else text.decode(errors="replace").splitlines(), 1):
            found += [f"{name_of(path)}:{number}: {word}" for word in beyond_the_clone(path, line)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("line", ["see ../../" + "shared/data", "Path(__file__).parents" + "[2] / 'shared'"])
def test_a_folder_beside_the_clone_would_be_found(line: str) -> None:
    assert beyond_the_clone(ROOT / "docs/guide.md", line)
    assert not beyond_the_clone(ROOT / "tests/unit/test_repo.py", line), "there it is a folder of the clone"


def test_no_file_is_large() -> None:
    assert not [name_of(path) for path in TRACKED if path.stat().st_size > FILE_BYTES_MAX]


def test_a_copy_without_version_control_has_the_same_files() -> None:
    assert not [name_of(path) for path in TRACKED if ignored(path)]
    built = ("engine/rings.c", "codec/x.so", ".data/demo/a.npy", ".venv/bin/python")
    assert all(ignored(ROOT / name) for name in built)


@pytest.mark.parametrize(("task", "extras"), [("demo", set()), ("test", {"test"}), ("lint", {"test", "lint"})])
def test_a_task_installs_what_it_needs(task: str, extras: set[str]) -> None:
    done = subprocess.run(["make", "-nB", task], cwd=ROOT, capture_output=True, text=True, check=True)
    assert set(re.findall(r"project optional-dependencies (\w+)", done.stdout)) == extras
    assert done.stdout.count("project dependencies)") == 1 and done.stdout.count("build_ext") == 1, "and compiles once"


@pytest.fixture(scope="module")
def setup_py() -> dict[str, Any]:
    """The names of setup.py, read without building anything."""
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setattr(setuptools, "setup", lambda **arguments: None)
    monkeypatch.setattr("Cython.Build.cythonize", lambda extensions, **options: extensions)
    monkeypatch.chdir(ROOT)
    try:
        return runpy.run_path("setup.py")
    finally:
        monkeypatch.undo()


def test_every_extension_is_built_from_files_that_are_tracked(setup_py: dict[str, Any]) -> None:
    names = {name_of(path) for path in TRACKED}
    extensions = setup_py["EXTENSIONS"]
    for module, sources in extensions.items():
        path = module.removeprefix("riprap.").replace(".", "/")
        assert f"{path}.pyx" in names, module
        assert {f"{path.rpartition('/')[0]}/{source}" for source in sources} <= names, module
        assert f"{path}.c" not in names, "what Cython writes is not kept"
    assert {f"riprap.{name.removesuffix('.pyx').replace('/', '.')}" for name in names if name.endswith(".pyx")} == set(
        extensions
    )
    stray = {name for name in names if name.endswith((".c", ".so", ".o", ".pyc")) and "/kernels/" not in name}
    assert not stray


def test_every_topology_in_configs_loads(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("{}")
    examples = sorted((ROOT / "configs").glob("*.yaml"))
    assert len(examples) >= 8
    jobs = []
    for path in examples:
        own = [name for name, stage in read_document(path).values["stages"].items() if "input" in stage]
        sets = [f"{place}={tmp_path}" for place in ("input.path", *(f"stages.{name}.input.path" for name in own))]
        jobs.append(load(path, sets).job)
    assert jobs == [path.stem for path in examples]


def test_the_schemes_that_can_be_configured_are_those_that_can_be_run() -> None:
    assert set(SCHEMES) == schemes.SCHEMES.keys() | schemes.SCHEMES.keys()


def test_all_of_the_product_is_packaged(setup_py: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    packages = setup_py["packages"]()
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    folders = {path.parent for path in PRODUCT if path.name == "__init__.py"}
    ours = {name_of(folder).replace("/", ".") for folder in folders}
    assert sorted(packages) == sorted(name if name == FACADE else f"{FACADE}.{name}" for name in ours)
    assert (FACADE, *setup_py["FOLDERS"]) == (FACADE, *ORDER, APART)
    assert {path.parent for path in PRODUCT} <= folders, "a folder without __init__.py is in no package"
    patterns = [pattern for patterns in tools["package-data"].values() for pattern in patterns]
    suffixes = (".yaml", ".pyi", ".gz")
    read_at_run_time = [p for p in TRACKED if p.relative_to(ROOT).parts[0] in (*ORDER, APART) and p.suffix in suffixes]
    assert {path.suffix for path in read_at_run_time} == set(suffixes)
    assert all(any(path.match(pattern) for pattern in patterns) for path in read_at_run_time)


def test_the_dependencies_are_bounded_and_all_are_named() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = {re.split(r"[>=<\[;]", entry)[0]: entry for entry in project["dependencies"]}
    assert all(">=" in entry for entry in named.values())
    modules = {"pyzmq": "zmq", "ruamel.yaml": "ruamel"}
    provided = {modules.get(name, name) for name in named} | {*ORDER, APART, FACADE, "sklearn", "pyarrow", "cython"}
    provided |= {"py4j", "pydantic_core"}  # pyspark's and pydantic's own
    provided |= {path.stem for path in (ROOT / FACADE).glob("*.py")}
    third = {package for path in PRODUCT for _, package in imports(path)} - sys.stdlib_module_names - provided
    assert third <= {"libc", "cpython", "__future__"}, third
