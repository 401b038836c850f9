"""Labels of hosts: read as they are written, carried by reports, shown where hosts are; anything else is refused."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner
from core_driver import TOPOLOGY, Driver, running
from hypothesis import given
from hypothesis import strategies as st

from riprap.codec.errors import ConfigError, FrameError
from riprap.codec.ids import LABEL_PART
from riprap.controller import messages
from riprap.controller.labels import HOST, LABELS_MAX, check_labels, in_words, labelled, read_labels
from riprap.controller.reports import AgentReport
from riprap.engine.cli.main import main, riprap
from riprap.engine.cli.status import job_text
from riprap.engine.services.hosts import pretended_hosts, this_host

parts = st.from_regex(LABEL_PART, fullmatch=True)
label_maps = st.dictionaries(parts.filter(lambda key: key != HOST), parts, max_size=LABELS_MAX)


@given(label_maps)
def test_labels_read_as_they_were_written_and_travel_in_reports(labels: dict[str, str]) -> None:
    assert read_labels(f"{key}={value}" for key, value in labels.items()) == labels
    report = AgentReport("h1", "abc", 1, labels=labels)
    assert AgentReport.read(messages.unpack(messages.pack({"type": "report", **report.state()}))) == report
    assert labelled("h1", labels) == {**labels, "host": "h1"}


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["rack"], "'rack' is not KEY=VALUE"),
        (["=r1"], "'=r1' is not KEY=VALUE"),
        (["rack="], "'rack=' is not KEY=VALUE"),
        (["rack=r 1"], "'rack=r 1' is not KEY=VALUE"),
        (["rack=a,b"], "'rack=a,b' is not KEY=VALUE"),
        (["rack=" + "r" * 64], "at most 63"),
        (["host=h1"], "has the label host already"),
        (["rack=r1", "rack=r2"], "rack is r1 already"),
        ([f"l{n}=1" for n in range(LABELS_MAX + 1)], "at most 16"),
    ],
)
def test_what_is_no_label_is_refused(texts: list[str], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_labels(texts)
    assert words in str(caught.value) and caught.value.remedy and caught.value.exit_code == 2


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        read_labels(["rack", "host=h1"])
    assert "'rack' is not" in str(caught.value) and "'host=h1'" in str(caught.value)


@pytest.mark.parametrize("command", ["agent --zookeeper 127.0.0.1:1", "up"])
def test_the_commands_refuse_malformed_labels_before_anything_is_done(command: str, capsys: Any) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*command.split(), "--label", "rack"])
    assert ended.value.code == 2 and "'rack' is not KEY=VALUE" in capsys.readouterr().err


@pytest.mark.parametrize(
    "labels", [{"host": "h2"}, {"rack": 1}, {1: "r1"}, {"rack": "r 1"}, {str(n): "x" for n in range(LABELS_MAX + 1)}]
)
def test_labels_that_no_agent_would_send_are_malformed(labels: dict[Any, Any]) -> None:
    with pytest.raises(FrameError):
        check_labels(labels)


def test_they_are_shown_where_hosts_are() -> None:
    driver = running()
    driver.core.members({"h1": "i1", "h2": "i2"}, driver.now)
    driver.core.report(AgentReport("h2", "i2", 1, labels={"rack": "r2"}), driver.now)
    assert {host: about["labels"] for host, about in driver.core.agents().items()} == {
        "h1": {"host": "h1"},
        "h2": {"host": "h2", "rack": "r2"},
    }
    assert driver.status["hosts"] == {"h1": {"host": "h1"}, "h2": {"rack": "r2", "host": "h2"}}
    shown = [line.split() for line in job_text(driver.status).splitlines() if line.startswith("  on ")]
    assert shown == [["on", "h1", "-", "source.0", "sink.0"], ["on", "h2", "rack=r2", "no", "worker"]]


def test_one_host_without_labels_is_not_worth_a_line() -> None:
    assert "  on " not in job_text(Driver(topology=TOPOLOGY).status)


def test_labels_take_their_place_in_the_help() -> None:
    for command in ("agent", "up"):
        assert "--label rack=r1" in CliRunner().invoke(riprap, [command, "--help"]).output


def test_pretended_hosts_have_their_domains_dealt_round() -> None:
    hosts = pretended_hosts(4, ["rack=2", "power=4"])
    assert [host.name for host in hosts] == ["host-1", "host-2", "host-3", "host-4"]
    assert [in_words(host.labels) for host in hosts] == [f"rack=rack-{1 + n % 2} power=power-{1 + n}" for n in range(4)]
    assert this_host().given == {}


@pytest.mark.parametrize(
    ("domains", "words"),
    [
        (["rack"], "'rack' is not LABEL=NUMBER"),
        (["rack=r1"], "'rack=r1' is not LABEL=NUMBER"),
        (["rack=0"], "'rack=0' is not LABEL=NUMBER"),
        (["host=2"], "a label other than host"),
        (["rack=5"], "4 hosts cannot have 5 values"),
        (["rack=2", "rack=1"], "rack is given twice"),
    ],
)
def test_domains_that_cannot_be_are_refused(domains: list[str], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        pretended_hosts(4, domains)
    assert words in str(caught.value) and "--hosts 4 --domains rack=2" in caught.value.remedy
