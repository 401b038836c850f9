"""The file of --zookeeper-auth: all that is wrong with it is said at once, and nothing that may be a secret."""

from __future__ import annotations

import importlib.util
import os
import re
import ssl
from pathlib import Path

import pytest
import trustme

from riprap.codec.errors import ConfigError
from riprap.configs.document import parse_document
from riprap.configs.zookeeper_auth import AuthFile, Identity, TlsSection, load

SECRET = "hunter2"


def write(folder: Path, text: str) -> Path:
    path = folder / "auth.yaml"
    path.write_text(text)
    path.chmod(0o600)
    return path


def refused(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert caught.value.remedy and caught.value.__cause__ is None and caught.value.__context__ is None
    assert SECRET not in str(caught.value)
    return str(caught.value)


@pytest.fixture
def authority(tmp_path: Path) -> trustme.CA:
    """Of certificates beside the file: ca.pem, own.pem with its key own.key, and both in one file both.pem."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    issued = authority.issue_cert("own")
    issued.cert_chain_pems[0].write_to_path(tmp_path / "own.pem")
    issued.private_key_pem.write_to_path(tmp_path / "own.key")
    issued.private_key_and_cert_chain_pem.write_to_path(tmp_path / "both.pem")
    for name in ("own.key", "both.pem"):
        (tmp_path / name).chmod(0o640)
    return authority


def test_all_sections_are_read_and_paths_begin_at_the_file(tmp_path: Path, authority: trustme.CA) -> None:
    text = """\
digest: {user: alice, password: "1"}
sasl: {mechanism: DIGEST-MD5, user: bob, password: "2"}
tls: {ca: ca.pem, certificate: own.pem, key: own.key}
"""
    auth = load(write(tmp_path, text))
    assert (auth.digest, auth.sasl) == (Identity("alice", "1"), Identity("bob", "2"))
    assert auth.tls is not None and auth.tls.check_hostname and auth.tls.verify_mode == ssl.CERT_REQUIRED
    assert len(auth.tls.get_ca_certs()) == 1, "with an authority of one's own no other is trusted"
    assert "'1'" not in repr(auth) and "'2'" not in repr(auth)


def test_the_example_of_the_documentation_is_sound() -> None:
    page = Path(__file__).resolve().parents[3] / "docs/security.md"
    found = re.search(r"```yaml\n(digest: .*?)```", page.read_text(), re.S)
    assert found
    values = parse_document(str(page), found[1].encode()).values
    AuthFile.model_validate(values)
    assert values.keys() == set(AuthFile.keys()) and values["tls"].keys() == set(TlsSection.keys())


def test_a_certificate_may_hold_its_key(tmp_path: Path, authority: trustme.CA) -> None:
    assert load(write(tmp_path, "tls: {certificate: both.pem}")).tls is not None


def test_servers_are_verified_unless_it_is_said(tmp_path: Path) -> None:
    trusting, plain = load(write(tmp_path, "tls: {verify: false}")).tls, load(write(tmp_path, "tls: {}")).tls
    assert trusting is not None and trusting.verify_mode == ssl.CERT_NONE
    assert plain is not None and plain.verify_mode == ssl.CERT_REQUIRED and plain.check_hostname


def test_everything_wrong_is_said_at_once_with_its_line(tmp_path: Path) -> None:
    text = f"""\
digest:
  user: 12
  pasword: {SECRET}
sasl: {SECRET}
tls:
  ca: none.pem
  key: own.key
  verify: {SECRET}
kerberos: {{}}
"""
    path = write(tmp_path, text)
    said = refused(path).replace(f"{path}:", "")
    for line in (
        "2: digest.user: cannot be used; expected text",
        "1: digest.password: missing",
        "3: digest.pasword: unknown key; expected one of user, password\n    did you mean password?",
        "4: sasl: is not a mapping; expected a mapping with mechanism, user, password",
        "8: tls.verify: cannot be used; expected true or false",
        "9: kerberos: unknown key; expected one of digest, sasl, tls",
    ):
        assert line in said, said
    text = "tls:\n  ca: none.pem\n  key: own.key\nsasl: {user: a, mechanism: GSSAPI, password: b}\n"
    said = refused(write(tmp_path, text)).replace(f"{path}:", "")
    for line in (
        f"2: tls.ca: {tmp_path}/none.pem cannot be read (No such file or directory)",
        "3: tls.key: has no certificate",
        "4: sasl.mechanism: cannot be used; expected DIGEST-MD5, which alone is supported",
    ):
        assert line in said, said


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "is not a mapping"),
        ("{}", "says nothing; expected one of digest, sasl, tls"),
        ("digest:", "says nothing"),
        (f"- {SECRET}", "is not a mapping"),
        (SECRET, "is not a mapping"),
        (f"digest: {{alice:{SECRET}}}", "leave a space behind each colon"),
        (f"digest: {{user: 'a:{SECRET}', password: b}}", "a name without a colon"),
        (f"digest: {{user: '', password: {SECRET}}}", "text that is not empty"),
        (f"digest: {{user: a, password: [{SECRET}]}}", "cannot be used; expected text"),
        (f"digest: {{user: a, password: *{SECRET}}}", "1:29: not valid YAML"),
        (f"digest: {{user: a, password: b, password: {SECRET}}}", "a key that stands twice"),
        (f"digest: {{user: a, password: %{SECRET}}}", "not valid YAML"),
        ("digest: {user: a, password: \"\xe9\"}\x00", "not valid YAML"),
    ],
)  # fmt: skip
def test_no_error_shows_what_stands_in_the_file(tmp_path: Path, text: str, expected: str) -> None:
    assert expected in refused(write(tmp_path, text))


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        ("ca: own.key", "tls.ca: holds no certificate"),
        ("certificate: own.pem", "tls.certificate: comes without a key that fits"),
        ("certificate: ca.pem, key: own.key", "tls.key: does not fit its certificate"),
        ("certificate: own.pem, key: locked.key", "tls.key: does not fit its certificate, is none, or key_password"),
        (f"certificate: own.pem, key: locked.key, key_password: {SECRET}", "tls.key: does not fit its certificate"),
        ("certificate: own.pem, key: open.key", "tls.key: is a key that everybody may read"),
    ],
)
def test_files_of_tls_are_tried(tmp_path: Path, authority: trustme.CA, section: str, expected: str) -> None:
    from cryptography.hazmat.primitives import serialization

    key = serialization.load_pem_private_key((tmp_path / "own.key").read_bytes(), None)
    forms = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    (tmp_path / "locked.key").write_bytes(key.private_bytes(*forms, serialization.BestAvailableEncryption(b"other")))
    (tmp_path / "open.key").write_bytes((tmp_path / "own.key").read_bytes())
    (tmp_path / "open.key").chmod(0o644)
    assert expected in refused(write(tmp_path, f"tls: {{{section}}}"))


def test_a_file_that_others_may_open_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, f"digest: {{user: a, password: {SECRET}}}")
    path.chmod(0o640)
    said = refused(path)
    assert "may be opened by others: " in said and f"chmod 600 {path}" in said
    link = tmp_path / "link.yaml"
    link.symlink_to(path)
    assert "may be opened by others" in refused(link)
    path.chmod(0o600)
    assert load(link).digest == Identity("a", SECRET), "what counts is the file that is read"


def test_what_is_no_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--zookeeper-auth .*none\.yaml: No such file"):
        load(tmp_path / "none.yaml")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match="pipe is no file"):
        load(tmp_path / "pipe")


def test_without_its_package_sasl_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    said = refused(write(tmp_path, "sasl: {mechanism: DIGEST-MD5, user: a, password: b}"))
    assert "expected the package pure-sasl" in said and "pip install 'riprap[sasl]'" in said
