"""`riprap plan`: what it says, what it writes, and what it refuses."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from riprap.codec.errors import ConfigError
from riprap.configs.loading import load
from riprap.engine.cli.main import riprap
from riprap.engine.plan.run_rates import rates_of_run
from riprap.engine.run_directory.directory import make_run_directory
from riprap.engine.tune.pilots import flow
from riprap.engine.tune.rate_pilot import _without_replicas

ROOT = Path(__file__).parents[3]
SKETCHES = ROOT / "configs/heavy_hitters_staged.yaml"
"""read 2 -> sketch 2 -> merge 1."""
JOIN = ROOT / "configs/online_join_staged.yaml"
LOOP = ROOT / "configs/pagerank.yaml"
STRIPES = ROOT / "examples/word_lengths.yaml"


def plan(out: Path, topology: Path, *words: str) -> Result:
    return CliRunner().invoke(riprap, ["plan", str(topology), "--out", str(out), *words])


def planned(out: Path, topology: Path, *words: str) -> dict[str, Any]:
    result = plan(out, topology, *words, "--json")
    assert result.exit_code == 0, result.output
    shown = json.loads(result.stdout)
    assert shown == json.loads((out / "plan.json").read_text())
    return shown


def refused(out: Path, topology: Path, *words: str) -> ConfigError:
    result = plan(out, topology, *words)
    assert isinstance(result.exception, ConfigError), result.output
    assert not out.exists(), "nothing is written"
    return result.exception


def test_it_answers_in_words(tmp_path: Path) -> None:
    said = plan(tmp_path / "out", SKETCHES, "--budget", "3").stdout
    assert "3 replicas keep 50 % of the output if every other task dies; the next 1 add 0 %." in said
    assert "No plan of as many replicas keeps more." in said
    assert "note: no rates were given of read" in said
    assert re.search(r"sketch +2 +1 +sketch\.0", said)


def test_the_example_of_the_docs_is_as_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    said = CliRunner().invoke(riprap, ["plan", str(SKETCHES), "--budget", "3", "--curve"]).stdout
    assert f"```\n{said}```" in (ROOT / "docs/planning.md").read_text()


def test_too_few_replicas_keep_nothing_and_it_says_how_many_it_takes(tmp_path: Path) -> None:
    said = plan(tmp_path / "out", SKETCHES, "--budget", "1").stdout
    assert "1 replica keeps nothing of the output if every other task dies: the first that keep any are 3." in said


def test_replicas_that_add_nothing_then_are_for_lesser_failures(tmp_path: Path) -> None:
    found = planned(tmp_path / "out", SKETCHES, "--budget", "4")
    assert (found["spare"], len(found["tasks"]), found["output_fidelity"]) == (1, 4, 0.5)
    assert (
        "1 of them adds nothing then, and is for failures of single tasks."
        in plan(tmp_path / "out", SKETCHES, "--budget", "4").stdout
    )


def test_the_curve_is_printed_on_demand(tmp_path: Path) -> None:
    assert "budget  replicas" not in plan(tmp_path / "out", SKETCHES, "--budget", "3").stdout
    said = plan(tmp_path / "out", SKETCHES, "--budget", "3", "--curve").stdout
    assert re.search(r"^ +5 +5 +100 % +100 %$", said, re.M)


def test_the_document_identifies_the_topology(tmp_path: Path) -> None:
    found = planned(tmp_path / "out", LOOP, "--budget", "2")
    assert found["version"] == 1 and found["job"] == "pagerank"
    assert found["topology"]["stages"] == {"read": 2, "rank": 3}
    assert found["topology"]["edges"][1] == {"from": "rank", "to": "rank", "partitioning": "full", "feedback": True}
    assert found["tasks"] == ["read.0", "rank.0"], "one that reads, and one where that arrives"
    assert found["output_fidelity"] == pytest.approx(1 / 6) == found["upper_bound"]
    assert found["gap"] == 0 and found["rates"] == "assumed" and found["budget"] == 2
    assert [point["budget"] for point in found["curve"]] == [0, 1, 2, 3, 4, 5]


def test_a_share_is_rounded_down(tmp_path: Path) -> None:
    assert planned(tmp_path / "out", SKETCHES, "--budget", "99%")["budget"] == 4, "of the tasks that can have one"


@pytest.mark.parametrize("algorithm", ["auto", "exact", "dp", "greedy", "structure_aware"])
def test_every_algorithm_plans(tmp_path: Path, algorithm: str) -> None:
    found = planned(tmp_path / "out", SKETCHES, "--budget", "3", "--algorithm", algorithm)
    assert found["algorithm"] == algorithm and found["output_fidelity"] <= found["upper_bound"] == 0.5


def test_rates_decide(tmp_path: Path) -> None:
    rates = tmp_path / "rates.yaml"
    rates.write_text("sources: {read: [1, 9]}\n")
    found = planned(tmp_path / "out", SKETCHES, "--budget", "3", "--rates", str(rates))
    assert found["tasks"] == ["read.1", "sketch.1", "merge.0"] and found["output_fidelity"] == pytest.approx(0.9)
    assert found["rates"] == str(rates) and not any("no rates" in note for note in found["notes"])
    rates.write_text(json.dumps({"links": {"read->sketch": [[7, 0], [0, 3]]}}))
    assert planned(tmp_path / "out", SKETCHES, "--budget", "3", "--rates", str(rates))["output_fidelity"] == 0.7


def test_selectivity_and_one_rate_for_all_tasks_act(tmp_path: Path) -> None:
    rates = tmp_path / "rates.yaml"
    rates.write_text(
        "sources: {read_left: 3, read_right: 1}\nselectivity: {right: 9}\ncorrelated_inputs: {join: false}\n"
    )
    found = planned(tmp_path / "out", JOIN, "--budget", "3", "--rates", str(rates))
    assert found["output_fidelity"] == pytest.approx(9 / 24), "the right side is 9 of 12 items, and comes to 2 tasks"


def test_an_operators_class_says_that_it_joins_and_the_rates_file_may_say_otherwise(tmp_path: Path) -> None:
    found = planned(tmp_path / "out", JOIN, "--budget", "3")
    assert found["correlated_inputs"] == ["join"] and found["output_fidelity"] == 0
    rates = tmp_path / "rates.yaml"
    rates.write_text("correlated_inputs: {join: false}\n")
    found = planned(tmp_path / "out", JOIN, "--budget", "3", "--rates", str(rates))
    assert found["correlated_inputs"] == [] and found["output_fidelity"] == 0.25


def test_what_runs_back_is_left_out_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(STRIPES.parent)  # for the operators beside it
    (note,) = (note for note in planned(tmp_path / "out", LOOP, "--budget", "2")["notes"] if "runs back" in note)
    assert note.startswith("rank->rank runs back") and note.endswith(
        "stands still while a sender of it is down that has no replica"
    )
    notes = planned(tmp_path / "out", STRIPES, "--budget", "2")["notes"]
    assert any("source->processor counts as full" in note for note in notes)


def test_the_expected_output_over_domains(tmp_path: Path) -> None:
    domains = tmp_path / "domains.yaml"
    domains.write_text(
        "rack1: {probability: 0.03, tasks: [read.0, sketch.0, merge.0]}\nrack2: {tasks: [read.1, sketch.1]}\n"
    )
    words = ("--budget", "2", "--objective", "expected", "--domains", str(domains))
    found = planned(tmp_path / "out", SKETCHES, *words)
    assert found["replicas"] == {"read.1": "rack1", "sketch.1": "rack1"}, "of the rack that fails more often"
    kept = 1 / 1.03
    assert found["expected_fidelity"] == pytest.approx(kept) and found["expected_bound"] >= kept
    assert (
        "If one domain fails, 97 % of the output is kept in the mean."
        in plan(tmp_path / "out", SKETCHES, *words).stdout
    )
    alone = planned(tmp_path / "out", SKETCHES, "--budget", "1", "--objective", "expected")
    assert alone["expected_fidelity"] == pytest.approx((4 * 0.5 + 1) / 5), "each task by itself"
    assert "merge.0 in" not in plan(tmp_path / "out", SKETCHES, "--budget", "1", "--objective", "expected").stdout


class Resources(HTMLParser):
    """The addresses that a page would load, and its tags that are never closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.opened: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loaded += [value or "" for name, value in attrs if name in ("src", "href")]
        self.opened += [] if tag in ("meta", "link") else [tag]

    def handle_endtag(self, tag: str) -> None:
        assert self.opened.pop() == tag


def test_the_page_shows_tasks_replicas_domains_and_curve_and_needs_nothing_else(tmp_path: Path) -> None:
    domains = tmp_path / "domains.yaml"
    domains.write_text("rack<1>: {tasks: [read.0, sketch.0, merge.0]}\nrack2: {tasks: [read.1, sketch.1]}\n")
    assert plan(tmp_path / "out", SKETCHES, "--budget", "3", "--domains", str(domains)).exit_code == 0
    page = (tmp_path / "out/plan.html").read_text()
    found = Resources(page)
    assert not found.loaded and not found.opened and not re.search(r"https?://|@\w+@", page)
    assert page.count('class="task replica"') == 3 and page.count('class="task"') == 2
    assert page.count('class="edge"') == 2 and page.count('class="dot"') == 6
    assert "<title>read.0, replica in rack2</title>" in page and "rack&lt;1&gt;" in page and "rack<1>" not in page


@pytest.mark.parametrize(
    ("budget", "wrong"),
    [
        ("6", "the topology has 5 tasks that can have a replica"),
        ("-1", "5 tasks"),
        ("101%", "5 tasks"),
        ("many", "not a"),
        ("2.5", "not a"),
    ],
)
def test_a_budget_that_is_none(tmp_path: Path, budget: str, wrong: str) -> None:
    assert wrong in str(refused(tmp_path / "out", SKETCHES, "--budget", budget))


RATES = {
    "sauces: {read: 1}": "1: sauces: unknown key; expected one of sources, selectivity, links, correlated_inputs",
    "sources: {reed: 1}": "1: sources.reed: there is no such source stage; expected one of read",
    "sources: {merge: 1}": "there is no such source stage",
    "sources:\n  read: [1, 2, 3]": "2: sources.read: is [1, 2, 3]; expected a rate for each of its 2 tasks",
    "sources: {read: -4}": "is -4; expected items per second",
    "sources: {read: .nan}": "is nan",
    "sources: {read: [0, 0]}": "not all 0",
    "selectivity: {sketch: 0}": "is 0; expected a finite number above 0",
    "selectivity: {sketch: true}": "is True",
    "links: {read->merge: [[1]]}": "there is no such data edge; expected one of read->sketch, sketch->merge",
    "links: {read->sketch: [[1, 0]]}": "expected 2 lists (tasks of read) of 2 rates (tasks of sketch)",
    "links: {read->sketch: [[1, 2], [0, 1]]}": "0 at [0][1]: under one_to_one read.0 sends nothing to sketch.1",
    "correlated_inputs: {merge: 1}": "expected true or false",
    f"sources: {{read: 1{'0' * 400}}}": "expected items per second of all its tasks",
    f"selectivity: {{sketch: 1{'0' * 400}}}": "expected a finite number above 0",
    "sources: 3": "1: sources: is 3; expected a mapping",
    "[1]": "is not a mapping",
    "sources: [": "not valid YAML",
}


@pytest.mark.parametrize("content", RATES)
def test_a_malformed_rates_file(tmp_path: Path, content: str) -> None:
    rates = tmp_path / "rates.yaml"
    rates.write_text(content)
    error = str(refused(tmp_path / "out", SKETCHES, "--budget", "3", "--rates", str(rates)))
    assert str(rates) in error and RATES[content] in error


DOMAINS = {
    "[]": "domains by their names",
    "r1: {tasks: [read.0]}": "4 tasks are in no domain, read.1 among them",
    "r1: {tasks: [read.9]}": "r1.tasks.0: is 'read.9'; expected a task",
    "r1: {tasks: [read.0, read.0]}": "read.0 is in r1 already",
    "r1: {task: [read.0]}": "expected a mapping with the list tasks",
    "r1: {tasks: [], likely: 1}": "r1.likely: unknown key",
    "r1: {tasks: [], probability: 0}": "r1.probability: is 0; expected a finite number above 0",
    f"r1: {{tasks: [], probability: 1{'0' * 400}}}": "expected a finite number above 0",
}


@pytest.mark.parametrize("content", DOMAINS)
def test_a_malformed_domains_file(tmp_path: Path, content: str) -> None:
    domains = tmp_path / "domains.yaml"
    domains.write_text(content)
    error = str(refused(tmp_path / "out", SKETCHES, "--budget", "3", "--domains", str(domains)))
    assert f"{domains}:1" in error and DOMAINS[content] in error


def test_one_domain_is_refused(tmp_path: Path) -> None:
    domains = tmp_path / "domains.yaml"
    domains.write_text("r1: {tasks: [read.0, read.1, sketch.0, sketch.1, merge.0]}")
    error = refused(tmp_path / "out", SKETCHES, "--budget", "3", "--domains", str(domains))
    assert "a replica would fail with its primary" in str(error)


def test_a_topology_that_is_none(tmp_path: Path) -> None:
    topology = tmp_path / "cycle.yaml"
    topology.write_text(
        SKETCHES.read_text().replace("edges:\n", "edges:\n  - {from: merge, to: sketch, partitioning: full}\n")
    )
    assert "closes a cycle" in str(refused(tmp_path / "out", topology, "--budget", "3"))


def test_an_out_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = plan(tmp_path / "file" / "out", SKETCHES, "--budget", "3")
    assert isinstance(result.exception, ConfigError) and "Not a directory" in str(result.exception)


def a_run(path: Path, topology: Path, links: Any = None) -> str:
    """A run directory of a job as it ends, with what its links have carried."""
    made = load(topology, with_input=False)
    make_run_directory(str(path), made.job, made.to_dict())
    if links is not None:
        (path / "rates.json").write_text(json.dumps({"links": links}))
    return str(path)


MEASURED = {"read->sketch": [[10, 0], [0, 90]], "sketch->merge": [[2], [6]]}


def test_the_rates_of_a_run_decide_and_are_named(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run", SKETCHES, MEASURED)
    found = planned(tmp_path / "out", SKETCHES, "--budget", "3", "--from", run)
    assert found["output_fidelity"] == 0.75 and found["rates"] == f"{run}/rates.json"
    assert f"the rates are those of {run}, whose links carried 108 items in all" in found["notes"]
    assert not any("no rates were given" in note for note in found["notes"])


def test_a_link_that_carried_nothing_weighs_nothing(tmp_path: Path) -> None:
    links = {"read->sketch": [[0, 0], [0, 90]], "sketch->merge": [[2], [6]]}
    run = a_run(tmp_path / "run", SKETCHES, links)
    found = planned(tmp_path / "out", SKETCHES, "--budget", "3", "--from", run)
    assert found["output_fidelity"] == 1 and found["tasks"] == ["read.1", "sketch.1", "merge.0"]
    error = refused(tmp_path / "no", SKETCHES, "--budget", "3", "--from", a_run(
        tmp_path / "still", SKETCHES, {"read->sketch": [[0, 0], [0, 0]], "sketch->merge": [[0], [0]]}
    ))  # fmt: skip
    assert "no item reaches a destination" in str(error)


def test_an_edge_whose_items_were_not_counted_is_assumed_and_said(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run", SKETCHES, {"read->sketch": [[10, 0], [0, 90]]})
    found = planned(tmp_path / "out", SKETCHES, "--budget", "3", "--from", run)
    assert found["output_fidelity"] == pytest.approx(0.9)
    assert any("no items were counted of sketch->merge" in note for note in found["notes"])


def test_what_holds_no_rates_of_this_topology_is_refused(tmp_path: Path) -> None:
    def why(run: str) -> str:
        return str(refused(tmp_path / "out", SKETCHES, "--budget", "3", "--from", run))

    assert "nowhere: not a run directory" in why(str(tmp_path / "nowhere"))
    assert "has failed, has coded edges alone, or is from" in why(a_run(tmp_path / "early", SKETCHES))
    said = why(a_run(tmp_path / "other", LOOP, {}))
    assert "stage read has 2 tasks" not in said, "as many as here"
    assert "stage rank has 3 tasks in the run and 0 here" in said and "edge read->sketch is here alone" in said
    wider = tmp_path / "wider.yaml"
    text = SKETCHES.read_text()
    wider.write_text(text)
    sets = [f"stages.{stage}.parallelism=3" for stage in ("read", "sketch")]
    made = load(wider, sets, with_input=False)
    make_run_directory(str(tmp_path / "wide"), made.job, made.to_dict())
    said = why(str(tmp_path / "wide"))
    assert "stage read has 3 tasks in the run and 2 here" in said and "stage merge" not in said
    (tmp_path / "early/rates.json").write_text('{"links": {"read->sketch": [[-1, 0], [0, 1]]}}')
    assert "rates.json: links.read->sketch: is [[-1, 0], [0, 1]]; expected 2 lists" in why(str(tmp_path / "early"))


def test_the_rates_of_many_links_are_read_as_they_were_written(tmp_path: Path) -> None:
    sets = [f"stages.{stage}.parallelism=320" for stage in ("read", "sketch")]
    made = load(SKETCHES, [*sets, "edges.0.partitioning=full"], with_input=False)
    make_run_directory(str(tmp_path), made.job, made.to_dict())
    row = [12_345_678] * 320
    (tmp_path / "rates.json").write_text(json.dumps({"links": {"read->sketch": [row] * 320}}))
    assert rates_of_run(tmp_path, made.shape).rates.links["read->sketch"] == [row] * 320


def test_rates_are_named_once(tmp_path: Path) -> None:
    error = refused(tmp_path / "out", SKETCHES, "--budget", "3", "--from", "run", "--rates", "file")
    assert "--from and --rates each name the rates" in str(error) and "--pilot-items" in error.remedy
    error = refused(tmp_path / "out", SKETCHES, "--budget", "3", "--pilot-items", "9", "--from", "run")
    assert "--from and --pilot-items each name the rates" in str(error)


@pytest.mark.parametrize(
    "scheme", ["{scheme: partially_active, checkpoint_s: null, replay_s: 2}", "{scheme: partially_active, plan: null}",
               "{scheme: partially_active, rebuild_after_s: null, replicate: [sketch]}", "upstream_backup"],
)  # fmt: skip
def test_a_pilot_runs_under_the_scheme_of_the_job(scheme: str) -> None:
    job = load(SKETCHES, [f"fault_tolerance={scheme}"], with_input=False)
    pilot = load(SKETCHES, [f"fault_tolerance={flow(_without_replicas(job))}"], with_input=False)
    wanted = dict(job.fault_tolerance)
    assert pilot.fault_tolerance == (wanted | {"replicate": []} if "replicate" in wanted else wanted)


def test_no_pilot_runs_for_what_is_refused_anyway(tmp_path: Path) -> None:
    """The input of this job is not there, which a pilot would say."""
    error = refused(tmp_path / "out", SKETCHES, "--budget", "9", "--pilot-items", "10")
    assert "the topology has 5 tasks" in str(error)
    lines = tmp_path / "live.yaml"
    lines.write_text("""\
job: words
input: {path: "tcp://127.0.0.1:1"}
micro_batch: 10
stages:
  split: {operator: "word_count:SplitWords", parallelism: 1}
  count: {operator: "word_count:CountWords", parallelism: 1}
edges: [{from: split, to: count, partitioning: full}]
fault_tolerance: upstream_backup
""")
    assert "the input of split goes on" in str(refused(tmp_path / "out", lines, "--budget", "1", "--pilot-items", "10"))
