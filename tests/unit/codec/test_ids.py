"""Worker ids: what is read is what was written, and nothing else is read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from riprap.codec.ids import JOB_NAME, WorkerId

STAGES = st.from_regex(r"[a-z][a-z0-9_]{0,31}", fullmatch=True)


@given(STAGES, st.integers(0, 999_999), st.integers(0, 99))
def test_a_worker_id_is_read_as_it_was_written(stage: str, index: int, copy: int) -> None:
    worker = WorkerId(stage, index, copy)
    assert worker.primary == WorkerId(stage, index)
    assert WorkerId.parse(str(worker)) == worker


@given(st.text() | st.from_regex(r"[a-z_]{1,3}\.\d{1,8}(~\d{0,3})?", fullmatch=True))
def test_a_text_is_one_worker_or_none(text: str) -> None:
    try:
        worker = WorkerId.parse(text)
    except ValueError as error:
        assert "is not a worker id; expected" in str(error)
    else:
        assert str(worker) == text


@pytest.mark.parametrize(
    "text",
    ["", ".", "processor", "processor.", ".3", "processor.-1", "processor.+1", "processor.03", "processor.1000000",
     "processor.\u0663", "processor.\u00b2", "Processor.3", "a.b.3", "processor.3\n", "processor .3", "p" * 33 + ".1",
     "processor.3~", "processor.3~0", "processor.3~01", "processor.3~100", "processor.3~1~1", "processor~1"],
)  # fmt: skip
def test_what_is_no_worker_id(text: str) -> None:
    with pytest.raises(ValueError, match="is not a worker id"):
        WorkerId.parse(text)


def test_workers_sort_by_stage_and_number() -> None:
    workers = [WorkerId("sink", 0), WorkerId("processor", 10), WorkerId("processor", 9)]
    assert sorted(workers) == [WorkerId("processor", 9), WorkerId("processor", 10), WorkerId("sink", 0)]


@pytest.mark.parametrize("name", ["job", "Job-1_2", "9", "a" * 64])
def test_a_job_may_be_called(name: str) -> None:
    assert JOB_NAME.fullmatch(name)


@pytest.mark.parametrize("name", ["", "-job", "_job", "a" * 65, "a b", "a/b", "jöb"])
def test_a_job_may_not_be_called(name: str) -> None:
    assert not JOB_NAME.fullmatch(name)
