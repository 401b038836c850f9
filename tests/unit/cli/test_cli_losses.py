"""What was lost, per recovery: no bound is taken for a count, and nothing is counted twice."""

from __future__ import annotations

from typing import Any

from riprap.engine.run.losses import losses, sentences


def recovery(failure: int, **more: Any) -> dict[str, Any]:
    plain = {
        "failure": failure, "window": 4, "state": "HashMap, maximum", "divergence_max": 250.0, "each_max": None,
        "entries_max": None, "items_max": 25.0, "output_max": 0.0, "items_lost": 0,
    }  # fmt: skip
    return {"recovery": plain | more}


EXACT = {"divergence_max": 0.0, "items_max": 0.0}


def test_each_recovery_is_listed_with_its_bounds() -> None:
    found = losses({"count.0": [{}, recovery(1), recovery(2, divergence_max=125.0)], "split.0": [{"lost_items": 0}]})
    assert (found["items"], found["states"]) == (0, 2)
    assert [(one["worker"], one["failure"], one["divergence_max"]) for one in found["recoveries"]] == [
        ("count.0", 1, 250.0),
        ("count.0", 2, 125.0),
    ]


def test_a_life_that_no_record_knows_of_is_replaced_by_the_next() -> None:
    """Both went on from the same records, so the second found the same items missing."""
    found = losses({"count.0": [{}, recovery(1, items_lost=7), recovery(1, items_lost=9)]})
    assert (found["items"], found["states"], len(found["recoveries"])) == (9, 1, 1)


def test_without_records_every_life_lacks_all_that_the_one_before_had() -> None:
    lost = {"divergence_max": None, "items_max": None, "output_max": None}
    found = losses({"count.0": [{}, recovery(0, **lost), recovery(0, **lost)]})
    assert found["states"] == 2
    assert all("all of its state (HashMap, maximum)" in text for _, text in sentences(found))


def test_what_a_sink_counted_is_added_but_not_twice() -> None:
    again = recovery(1, items_lost=5) | {"lost_items": 5}
    assert losses({"sink.0": [{"lost_items": 3}, again]})["items"] == 8


def test_what_stays_lost_of_coded_rows_is_told_by_every_later_incarnation_and_counted_once() -> None:
    later = recovery(1, items_lost=5, **EXACT) | {"lost_items": 12, "missed_items": 5}
    last = recovery(2, **EXACT) | {"lost_items": 7, "missed_items": 0}
    assert losses({"sink.0": [{"lost_items": 4, "missed_items": 0}, later, last, {}]})["items"] == 7 + 5


def test_people_read_what_may_be_missing_and_nothing_of_exact_recoveries() -> None:
    found = losses({"a.0": [{}, recovery(1, **EXACT)], "b.0": [{}, recovery(1, each_max=0.005)]})
    assert found["states"] == 1
    ((label, text),) = sentences(found)
    assert label == "MAY LACK" and text == (
        "b.0, restored in window 5: a divergence of at most 250 (HashMap, maximum), of each entry 0.500% at most and"
        " none whole; at most 25 items unprocessed"
    )


def test_a_life_that_ended_before_it_could_say_what_it_lacks_is_known_from_the_next() -> None:
    earlier = [recovery(1)["recovery"]]
    found = losses({"count.0": [{}, {}, recovery(2, divergence_max=125.0, earlier=earlier)]})
    assert [(one["failure"], one["divergence_max"]) for one in found["recoveries"]] == [(1, 250.0), (2, 125.0)]
    assert all("earlier" not in one for one in found["recoveries"]) and found["states"] == 2
