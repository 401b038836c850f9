"""Synthesized files: the same bytes for the same seed, the real format, the real distributions."""

import gzip
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from riprap.prep_spark import higgs, kdd12, synth, synth_roads, synth_worldcup
from riprap.prep_spark.errors import PrepError
from riprap.prep_spark.formats import RowFormat
from riprap.prep_spark.ingest import parse_lines

ROWS = 20_000


def parsed(path: Path, form: RowFormat) -> np.ndarray:
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    rows, reasons = parse_lines(data.splitlines(), form)
    assert not reasons.any()
    return rows


@pytest.fixture(scope="module")
def higgs_rows(tmp_path_factory: pytest.TempPathFactory) -> np.ndarray:
    path = tmp_path_factory.mktemp("synth") / "HIGGS.csv"
    synth.higgs(str(path), ROWS)
    return parsed(path, higgs.FORMAT)


@pytest.fixture(scope="module")
def kdd12_rows(tmp_path_factory: pytest.TempPathFactory) -> np.ndarray:
    path = tmp_path_factory.mktemp("synth") / "training.txt"
    synth.kdd12(str(path), ROWS)
    return parsed(path, kdd12.row_format("keep"))


@pytest.mark.parametrize("write", [synth.higgs, synth.kdd12])
def test_the_seed_decides_every_byte(write, tmp_path: Path) -> None:
    made = {}
    for name, seed in (("a.gz", 5), ("b.gz", 5), ("c.gz", 6), ("d", 5)):
        size = write(str(tmp_path / name), 5000, seed)
        made[name] = (tmp_path / name).read_bytes()
    assert made["a.gz"] == made["b.gz"] != made["c.gz"]
    assert gzip.decompress(made["a.gz"]) == made["d"]
    assert size == len(made["d"])
    assert made["d"].count(b"\n") == 5000
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.gz", "b.gz", "c.gz", "d"]


def test_higgs_is_written_as_the_excerpt_is(tmp_path: Path) -> None:
    synth.higgs(str(tmp_path / "h"), 10)
    fields = (tmp_path / "h").read_text().splitlines()[0].split(",")
    assert len(fields) == 29
    assert fields[0] in ("0.00E+00", "1.00E+00")
    assert all(f"{float(field):.2E}" == field for field in fields)
    assert (tmp_path / "h").read_text().endswith("\n")


def test_higgs_features_are_distributed_as_in_the_excerpt(higgs_rows: np.ndarray, higgs_raw: Path) -> None:
    real = parsed(higgs_raw, higgs.FORMAT)
    assert abs(higgs_rows[:, 0].mean() - real[:, 0].mean()) < 0.02
    spread = real.std(axis=0)
    assert (abs(higgs_rows.mean(axis=0) - real.mean(axis=0)) < 0.15 * spread).all()
    assert (abs(higgs_rows.std(axis=0) - spread) < 0.25 * spread).all()
    tags = [name.endswith("b_tag") for name in higgs.COLUMNS]
    assert [len(np.unique(column)) for column in higgs_rows.T[tags]] == [3, 3, 3, 3]


def test_a_linear_model_learns_higgs_about_as_well_as_the_real_one(higgs_rows: np.ndarray) -> None:
    scaled = (higgs_rows[:, 1:] - higgs_rows[:, 1:].mean(axis=0)) / higgs_rows[:, 1:].std(axis=0)
    half = ROWS // 2
    model = LogisticRegression().fit(scaled[:half], higgs_rows[:half, 0])
    assert 0.61 < model.score(scaled[half:], higgs_rows[half:, 0]) < 0.67


def test_kdd12_has_rare_clicks_heavy_tails_and_gaps(kdd12_rows: np.ndarray) -> None:
    column = dict(zip(kdd12.COLUMNS, kdd12_rows.T))
    assert 0.04 < column["click"].mean() < 0.06
    assert (kdd12_rows.max(axis=0) <= list(kdd12.MAXIMA.values())).all()
    assert (column["position"] <= column["depth"]).all()
    assert 0.24 < (kdd12_rows[:, 1:] == 0).any(axis=1).mean() < 0.30
    assert (kdd12_rows[:, 1:7] > 0).all()
    for name in ("query_id", "keyword_id", "title_id", "description_id"):
        assert 0.005 < (column[name] == 0).mean() < 0.03
        assert np.median(column[name]) < 0.01 * column[name].max()
    runs = np.count_nonzero(np.diff(column["user_id"])) + 1
    assert ROWS / 8 < runs < ROWS / 3


def test_impossible_requests_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PrepError, match="positive"):
        synth.higgs(str(tmp_path / "x"), 0)
    with pytest.raises(PrepError, match="cannot write"):
        synth.kdd12("/proc/nowhere/x", 10)
    assert list(tmp_path.iterdir()) == []


def test_a_graph_is_skewed_and_has_an_eighth_as_many_vertices_as_edges(tmp_path: Path) -> None:
    synth.graph(str(tmp_path / "a"), ROWS)
    synth.graph(str(tmp_path / "b"), ROWS)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    edges = np.loadtxt(tmp_path / "a", np.int64)
    assert edges.shape == (ROWS, 2) and edges.min() >= 0 and 2048 < edges.max() < 4096
    degrees = np.sort(np.bincount(edges[:, 0], minlength=4096))[::-1]
    assert degrees[:41].sum() > 0.15 * ROWS, "one vertex of a hundred has a sixth of all edges"


def test_ratings_follow_from_few_factors(tmp_path: Path) -> None:
    synth.ratings(str(tmp_path / "a"), ROWS)
    synth.ratings(str(tmp_path / "b"), ROWS)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    table = np.loadtxt(tmp_path / "a")
    users, items = (np.unique(table[:, column]) for column in (0, 1))
    assert len(table) == ROWS and len(users) == users.max() + 1 == 4 * len(items) == ROWS // 20
    assert 0.8 < np.std(table[:, 2]) < 1.2 and (table[:, 2].min(), table[:, 2].max()) == (1, 5)


def test_requests_follow_the_arrivals_of_the_day_and_the_paths_of_the_log(tmp_path: Path) -> None:
    for name in ("a", "b"):
        synth.worldcup(str(tmp_path / name), ROWS)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    lines = [line.split(b",", 2) for line in (tmp_path / "a").read_bytes().splitlines()]
    times, servers = (np.array([int(line[place]) for line in lines]) for place in (0, 1))
    minutes, before = synth_worldcup.arrivals()
    assert len(minutes) == 1441 and (np.diff(times) >= 0).all() and set(servers.tolist()) == set(range(32))
    assert abs(np.searchsorted(times, minutes) / ROWS - before).max() < 2 / ROWS, (
        "as many by each minute as really came"
    )
    known, weights = synth_worldcup.path_weights()
    drawn = Counter(line[2] for line in lines)
    assert drawn.keys() <= set(known) and abs(drawn[known[0]] / ROWS - weights[0]) < 0.01
    assert len({(line[1], line[2]) for line in lines}) == len(drawn), "each path has a server of its own"
    synth.worldcup(str(tmp_path / "mirrored"), ROWS, own_share=0.0)
    mirrored = {tuple(line.split(b",", 2)[1:]) for line in (tmp_path / "mirrored").read_bytes().splitlines()}
    assert len(mirrored) > 5 * len(drawn)


def test_incidents_are_reported_by_all_users_and_slow_their_segment_down(tmp_path: Path) -> None:
    for name in ("a", "b"):
        synth.roads(str(tmp_path / name), 3000, stream="reports")
        synth.roads(str(tmp_path / f"{name}.gz"), 300_000, stream="locations")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()
    reports, locations = (np.loadtxt(tmp_path / name, delimiter=",") for name in ("a", "a.gz"))
    users = np.bincount(synth_roads.users_segments(1), minlength=synth_roads.SEGMENTS)
    segments, leads = synth_roads.incidents(1, 0, 100)
    at = synth_roads.START_S + synth_roads.INCIDENT_EVERY_S * np.arange(100)
    told = np.repeat(segments, users[segments])
    assert (reports[: len(told), 1] == told).all(), "each user of its segment reports an incident"
    delays = reports[: len(told), 0] - np.repeat(at, users[segments])
    assert delays.min() == 0 and delays.max() == synth_roads.REPORT_S - 1
    newest = np.maximum.accumulate(reports[:, 0])
    assert (newest - reports[:, 0]).max() < synth_roads.REPORT_S
    jam = int(np.argmax(leads & (users[segments] > 10)))
    there = locations[locations[:, 1] == segments[jam]]
    during = (there[:, 0] >= at[jam]) & (there[:, 0] < at[jam] + synth_roads.JAM_S)
    assert there[during, 2].mean() < 30 and np.median(there[:, 2]) > 60
    assert (np.diff(locations[:, 0]) >= 0).all() and users.max() > 20 * users[users > 0].min()


def test_incidents_are_the_same_however_they_are_asked_for() -> None:
    whole = synth_roads.incidents(3, 0, 3000)
    for first, stop in ((0, 1), (1023, 1025), (1024, 2048), (2000, 3000)):
        part = synth_roads.incidents(3, first, stop)
        assert all((one == all_of[first:stop]).all() for one, all_of in zip(part, whole, strict=True))


def test_roads_have_two_streams(tmp_path: Path) -> None:
    with pytest.raises(PrepError, match="locations or reports"):
        synth.roads(str(tmp_path / "x"), 1, stream="speeds")
