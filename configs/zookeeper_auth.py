"""The file of `--zookeeper-auth`: the user's credentials for an ensemble, checked whole before anything is opened.

It holds passwords, so no error shows a value that stands in it.
"""

from __future__ import annotations

import importlib.util
import ssl
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, StringConstraints, ValidationError
from pydantic_core import ErrorDetails

from riprap.codec.errors import ConfigError
from riprap.codec.trust.private import read_private
from riprap.configs.base import Section
from riprap.configs.document import BYTES_MAX, parse_document
from riprap.configs.problems import FieldPath, Problem, config_error, one_of, suggestion

Text = Annotated[str, StringConstraints(min_length=1)]


class Secretive(Section):
    """A section whose errors do not show the values given."""

    model_config = ConfigDict(hide_input_in_errors=True)


class DigestSection(Secretive):
    """A further identity of the scheme `digest`."""

    user: Annotated[str, StringConstraints(min_length=1, pattern="^[^:]*$")]
    password: Text


class SaslSection(Secretive):
    """An identity of the servers' SASL."""

    mechanism: Literal["DIGEST-MD5"]
    user: Text
    password: Text


class TlsSection(Secretive):
    """TLS, and by which certificates the two ends know each other; paths are relative to the file."""

    ca: Text | None = None
    certificate: Text | None = None
    key: Text | None = None
    key_password: Text | None = None
    verify: bool = True


class AuthFile(Secretive):
    """The whole file."""

    digest: DigestSection | None = None
    sasl: SaslSection | None = None
    tls: TlsSection | None = None


SECTIONS: dict[FieldPath, type[Section]] = {
    (): AuthFile,
    ("digest",): DigestSection,
    ("sasl",): SaslSection,
    ("tls",): TlsSection,
}
EXPECTED = {
    "string_type": "text (a number in quotes, if it is one)",
    "string_too_short": "text that is not empty",
    "string_pattern_mismatch": "a name without a colon",
    "bool_type": "true or false",
    "literal_error": "DIGEST-MD5, which alone is supported",
}


@dataclass(frozen=True)
class Identity:
    """A user, and the password that proves it."""

    user: str
    password: str = field(repr=False)


@dataclass(frozen=True)
class ZooKeeperAuth:
    """The settings of the file `file`, ready for use."""

    file: str
    digest: Identity | None = None
    sasl: Identity | None = None
    tls: ssl.SSLContext | None = None


def load(path: str | PathLike[str]) -> ZooKeeperAuth:
    """Read and check the file; ConfigError lists all that is wrong with it, with its lines."""
    try:
        content = read_private(Path(path), BYTES_MAX)
    except OSError as error:
        raise ConfigError(
            f"--zookeeper-auth {path}: {error.strerror or error}", "give the path of a file that you can read"
        ) from error
    document = parse_document(str(path), content, quoting=False)
    problems = list(_problems(document.values))
    file = _sound(document.values)
    problems += _beyond_types(file)
    tls, found = _context(file.tls, Path(path).parent)
    problems += found
    if problems:
        ordered = sorted(problems, key=lambda problem: document.line(problem.path))
        raise config_error(lambda field: f"{path}:{document.line(field)}", str(path), ordered)
    return ZooKeeperAuth(str(path), _identity(file.digest), _identity(file.sasl), tls)


def _identity(section: DigestSection | SaslSection | None) -> Identity | None:
    return None if section is None else Identity(section.user, section.password)


def _problems(values: Any) -> Iterator[Problem]:
    """Faults of the values by themselves."""
    try:
        file = AuthFile.model_validate(values)
    except ValidationError as error:
        yield from (_problem(details) for details in error.errors(include_url=False, include_input=False))
    else:
        if file == AuthFile():
            yield Problem((), "says nothing", one_of(AuthFile.keys()))


def _sound(values: Any) -> AuthFile:
    """The sections that are sound by themselves, so that the faults of the rest are told too."""
    sections = {}
    for name in AuthFile.keys() if isinstance(values, dict) else ():
        with suppress(ValidationError):
            sections[name] = getattr(AuthFile.model_validate({name: values.get(name)}), name)
    return AuthFile.model_construct(**sections)


def _problem(details: ErrorDetails) -> Problem:
    path, kind = details["loc"], details["type"]
    if kind == "extra_forbidden":
        known, key = SECTIONS[path[:-1]].keys(), str(path[-1])
        if not key.isidentifier():  # `user:password` is one key to YAML
            return Problem(path[:-1], "has an unknown key", one_of(known), "leave a space behind each colon")
        return Problem(path, "unknown key", one_of(known), suggestion(key, known))
    if kind == "missing":
        return Problem(path, "missing", "a value", f"add the key {path[-1]}")
    if path in SECTIONS and kind != "literal_error":
        return Problem(path, "is not a mapping", f"a mapping with {', '.join(SECTIONS[path].keys())}")
    return Problem(path, "cannot be used", EXPECTED.get(kind, details["msg"]))


def _beyond_types(file: AuthFile) -> Iterator[Problem]:
    if file.sasl is not None and importlib.util.find_spec("puresasl") is None:
        yield Problem(("sasl",), "cannot be used here", "the package pure-sasl", "pip install 'riprap[sasl]'")
    if file.tls is not None and file.tls.certificate is None:
        for name in ("key", "key_password"):
            if getattr(file.tls, name) is not None:
                yield Problem(("tls", name), "has no certificate", "the certificate of the key", "add tls.certificate")


def _context(tls: TlsSection | None, folder: Path) -> tuple[ssl.SSLContext | None, list[Problem]]:
    """The side of TLS that is ours, and the reasons why it cannot be: a file that is missing or wrong."""
    if tls is None:
        return None, []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    problems: list[Problem] = []
    if not tls.verify:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    elif tls.ca is None:
        context.load_default_certs()
    if tls.ca is not None:
        problems += _absent("ca", folder / tls.ca)
        if not problems:
            try:
                context.load_verify_locations(folder / tls.ca)
            except (OSError, ValueError):
                problems.append(Problem(("tls", "ca"), "holds no certificate", "a file of certificates (PEM)"))
    if tls.certificate is not None:
        problems += _load_own(context, tls, folder / tls.certificate, tls.key and folder / tls.key)
    return context, problems


def _load_own(context: ssl.SSLContext, tls: TlsSection, certificate: Path, key: Path | str | None) -> list[Problem]:
    problems = [*_absent("certificate", certificate), *(_absent("key", Path(key)) if key else [])]
    if not problems:
        try:
            # Without a function OpenSSL would ask at the terminal.
            context.load_cert_chain(certificate, key or None, lambda: tls.key_password or "")
        except (OSError, ValueError):
            wrong = "does not fit its certificate, is none, or key_password is not its password"
            place = "key" if key else "certificate"
            expected = "the certificate's private key (PEM), here or in the file of the certificate"
            problems.append(Problem(("tls", place), wrong if key else "comes without a key that fits", expected))
        else:
            problems += _open_to_all("key" if key else "certificate", Path(key or certificate), tls)
    return problems


def _open_to_all(name: str, path: Path, tls: TlsSection) -> Iterator[Problem]:
    """A problem when a key without a password can be read by everybody; a group may share one."""
    if tls.key_password is None and path.stat().st_mode & 0o007:
        yield Problem(("tls", name), "is a key that everybody may read", "one that others cannot read", "chmod o= it")


def _absent(name: str, path: Path) -> Iterator[Problem]:
    """A problem when a file cannot be read."""
    try:
        path.open("rb").close()
    except OSError as error:
        yield Problem(("tls", name), f"{path} cannot be read ({error.strerror})", "a file that you can read")
