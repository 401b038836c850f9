"""The report of an agent. Reports travel as changes (`deltas.py`); a leader sees each as a whole."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, get_type_hints

from riprap.codec.errors import FrameError
from riprap.codec.ids import Incarnation, WorkerId
from riprap.controller import messages
from riprap.controller.deltas import State
from riprap.controller.labels import check_labels

STATS_BYTES_MAX = 32 * 1024  # of one incarnation, packed

STARTING = "starting"
UP = "up"
EXITED = "exited"
_STATES = (STARTING, UP, EXITED)


@dataclass(slots=True)
class WorkerReport:
    """One incarnation that the agent started. Moments are those of its host's monotonic clock, and once the controller
    has taken them in, of the controller's; None where not yet.

    Invariant: the state moves starting -> up -> exited, or starting -> exited, and never back.
    """

    job: str
    worker: str
    incarnation: int
    state: str = STARTING
    pid: int = 0
    status: int | None = None
    """Its exit status: an exit code, or minus a signal; None while it runs or when nobody could tell."""
    crashed_at: str = ""
    """METHOD (FILE:LINE) where a signal of its own making ended it, as far as its log says."""
    ipc: str = ""
    tcp: str = ""
    public_key: str = ""
    beat: int = 0
    epoch: int = 0
    items: int = 0
    done: bool = False
    accounted: int = 0
    """The items of a sink's committed epochs, those that stay lost among them."""
    checkpoint: int = 0
    """The newest checkpoint of which its part is safe; `saved_at` is when its agent heard so."""
    saved_at: float | None = None
    call: str = ""
    """The operator's call that has not returned for long; `call_line` is where it is, `call_ms` for how long."""
    call_line: str = ""
    call_ms: int = 0
    error: str = ""
    remedy: str = ""
    peers: list[str] | None = None
    """The workers that it must be told of; None for all."""
    started_at: float | None = None
    """The time at which the zygote was told to start it."""
    ready_at: float | None = None
    exited_at: float | None = None
    stats: dict[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> WorkerId:
        """The worker, parsed."""
        return WorkerId.parse(self.worker)

    @property
    def key(self) -> tuple[str, WorkerId, Incarnation]:
        """The key by which a controller looks a row up."""
        return self.job, self.id, Incarnation(self.incarnation)

    def move(self, offset_s: float) -> None:
        """Move all moments, those of the statistics among them, to a clock that is ahead by `offset_s`."""
        for name in _MOMENTS:
            if (at := getattr(self, name)) is not None:
                setattr(self, name, at + offset_s)
        self.stats = {name: _moved(name, value, offset_s) for name, value in self.stats.items()}

    def row(self) -> dict[str, Any]:
        """The fields that differ from the defaults, for the wire."""
        blank = _BLANK
        return {name: value for name in _NAMES if (value := getattr(self, name)) != blank[name]}

    @classmethod
    def read(cls, row: Any) -> WorkerReport:
        """Check a row from the wire; FrameError when `row` cannot have written it."""
        if not isinstance(row, dict) or not _REQUIRED <= row.keys() <= _KINDS.keys():
            raise FrameError("a row of a report has unknown or missing fields")
        for name, value in row.items():
            if value.__class__ not in _KINDS[name]:
                raise FrameError(f"{name} of a report's row is a {value.__class__.__name__}")
        report = cls(**row)
        if (
            report.state not in _STATES
            or report.incarnation < 1
            or min(report.beat, report.epoch, report.items, report.checkpoint) < 0
        ):
            raise FrameError("a row of a report is out of range")
        try:
            report.id  # noqa: B018 - parsing is the check
        except ValueError as error:
            raise FrameError(str(error)) from None
        if not all(isinstance(peer, str) for peer in report.peers or ()):
            raise FrameError("peers of a report's row are names")
        return report


def _moved(name: Any, value: Any, offset_s: float) -> Any:
    """A statistic moved if it is a moment, by a name that ends in `_at`; 0 says that it has not come."""
    is_moment = str(name).endswith("_at") and isinstance(value, int | float) and value
    return value + offset_s if is_moment else value


_MOMENTS = ("saved_at", "started_at", "ready_at", "exited_at")
_NAMES = tuple(f.name for f in fields(WorkerReport))
_REQUIRED = {"job", "worker", "incarnation"}
_BLANK: dict[str, Any] = {name: getattr(WorkerReport("", "", 0), name) for name in _NAMES}
_KINDS = {
    name: {dict} if name == "stats" else set(getattr(hint, "__args__", (hint,)))
    for name, hint in get_type_hints(WorkerReport).items()
}
_KINDS["peers"] = {list, type(None)}
for _name in _MOMENTS:
    _KINDS[_name] = {*_KINDS[_name], int}

_HEAD = (
    "host", "instance", "number", "address", "pid", "term", "sequence", "behind", "clock", "sent_at", "next_keys",
    "labels",
)  # fmt: skip


@dataclass(slots=True)
class AgentReport:
    """All that an agent knows. `instance` is new with each agent process; `address` is where peers reach its host.

    `number` grows with each report. The moments in it are on the agent's `clock` (codec/clock.py), which stood at
    `sent_at` when it was sent. `term` and `sequence` name the last desired state that it applied, `revisions`
    the last view of each job. An agent that is `behind` has missed a part of what it was told since.
    """

    host: str
    instance: str
    number: int = 0
    address: str = ""
    pid: int = 0
    term: int = 0
    sequence: int = 0
    behind: bool = False
    revisions: dict[str, int] = field(default_factory=dict)
    rows: list[WorkerReport] = field(default_factory=list)
    clock: str = ""
    sent_at: float = 0.0
    next_keys: str = ""
    """The id of the keys announced as the cluster's next."""
    labels: dict[str, str] = field(default_factory=dict)
    """Those that it was given; its host's name is not among them."""

    def state(self) -> State:
        """The report as the wire carries it; rows under the names of their incarnations."""
        head = {name: getattr(self, name) for name in _HEAD}
        rows = {f"{row.job}/{row.worker}#{row.incarnation}": row.row() for row in self.rows}
        return {**head, "revisions": dict(self.revisions), "rows": rows}

    @classmethod
    def read(cls, message: State) -> AgentReport:
        """Check the state of a report; raises FrameError."""
        rows, revisions = messages.mapping(message, "rows"), messages.mapping(message, "revisions")
        if not all(r.__class__ is int for r in revisions.values()):
            raise FrameError("revisions must be counts")
        return cls(
            host=messages.text(message, "host"),
            instance=messages.text(message, "instance"),
            number=messages.count(message, "number"),
            address=messages.text(message, "address", ""),
            pid=messages.count(message, "pid"),
            term=messages.count(message, "term"),
            sequence=messages.count(message, "sequence"),
            behind=message.get("behind") is True,
            clock=messages.text(message, "clock", ""),
            sent_at=messages.moment(message, "sent_at"),
            next_keys=messages.text(message, "next_keys", ""),
            labels=check_labels(messages.mapping(message, "labels")),
            revisions=revisions,
            rows=[WorkerReport.read(row) for row in rows.values()],
        )
