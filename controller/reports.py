"""What an agent knows, all of it in every report, so that a lost report or a new leader heals with the next."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, get_type_hints

from codec.errors import FrameError
from codec.ids import Incarnation, WorkerId
from controller import messages
from controller.messages import Message

STATS_BYTES_MAX = 32 * 1024  # of one incarnation, packed

STARTING = "starting"
UP = "up"
EXITED = "exited"
_STATES = (STARTING, UP, EXITED)


@dataclass(slots=True)
class WorkerReport:
    """One incarnation that the agent started. Times are time.monotonic() of its host; None where not yet.

    Invariant: the state moves starting -> up -> exited, or starting -> exited, and never back.
    """

    job: str
    worker: str
    incarnation: int
    state: str = STARTING
    pid: int = 0
    status: int | None = None
    """How it exited: an exit code, or minus a signal; None while it runs or when nobody could tell."""
    ipc: str = ""
    tcp: str = ""
    beat: int = 0
    epoch: int = 0
    items: int = 0
    done: bool = False
    error: str = ""
    remedy: str = ""
    started_at: float | None = None
    """When the zygote was told to start it."""
    ready_at: float | None = None
    exited_at: float | None = None
    stats: dict[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> WorkerId:
        """The worker, parsed."""
        return WorkerId.parse(self.worker)

    @property
    def key(self) -> tuple[str, WorkerId, Incarnation]:
        """What a controller looks a row up by."""
        return self.job, self.id, Incarnation(self.incarnation)

    def row(self) -> dict[str, Any]:
        """The fields that differ from the defaults, for the wire."""
        blank = _BLANK
        return {name: value for name in _NAMES if (value := getattr(self, name)) != blank[name]}

    @classmethod
    def read(cls, row: Any) -> WorkerReport:
        """Check a row from the wire; FrameError when `row` wrote something else."""
        if not isinstance(row, dict) or not _REQUIRED <= row.keys() <= _KINDS.keys():
            raise FrameError("a row of a report has unknown or missing fields")
        for name, value in row.items():
            if value.__class__ not in _KINDS[name]:
                raise FrameError(f"{name} of a report's row is a {value.__class__.__name__}")
        report = cls(**row)
        if report.state not in _STATES or report.incarnation < 1 or min(report.beat, report.epoch, report.items) < 0:
            raise FrameError("a row of a report is out of range")
        try:
            report.id  # noqa: B018 - parsing is the check
        except ValueError as error:
            raise FrameError(str(error)) from None
        return report


_NAMES = tuple(f.name for f in fields(WorkerReport))
_REQUIRED = {"job", "worker", "incarnation"}
_BLANK: dict[str, Any] = {name: getattr(WorkerReport("", "", 0), name) for name in _NAMES}
_KINDS = {
    name: {dict} if name == "stats" else set(getattr(hint, "__args__", (hint,)))
    for name, hint in get_type_hints(WorkerReport).items()
}
for _name in ("started_at", "ready_at", "exited_at"):
    _KINDS[_name] = {*_KINDS[_name], int}


_HEAD = ("host", "instance", "number", "address", "pid", "term", "sequence")


@dataclass(slots=True)
class AgentReport:
    """All that an agent knows. `instance` is new with each agent process; `address` is where peers reach its host.

    `number` grows with each report. `term` and `sequence` name the last desired state that it applied, `revisions`
    the last view of each job.
    """

    host: str
    instance: str
    number: int = 0
    address: str = ""
    pid: int = 0
    term: int = 0
    sequence: int = 0
    revisions: dict[str, int] = field(default_factory=dict)
    rows: list[WorkerReport] = field(default_factory=list)

    def message(self) -> Message:
        """The report as a control message."""
        head = {name: getattr(self, name) for name in _HEAD}
        return {"type": "report", **head, "revisions": self.revisions, "rows": [row.row() for row in self.rows]}

    @classmethod
    def read(cls, message: Message) -> AgentReport:
        """Check a message of type report; raises FrameError."""
        rows = message.get("rows", [])
        revisions = messages.mapping(message, "revisions")
        if not isinstance(rows, list) or not all(r.__class__ is int for r in revisions.values()):
            raise FrameError("rows must be a list and revisions counts")
        return cls(
            host=messages.text(message, "host"),
            instance=messages.text(message, "instance"),
            number=messages.count(message, "number"),
            address=messages.text(message, "address", ""),
            pid=messages.count(message, "pid"),
            term=messages.count(message, "term"),
            sequence=messages.count(message, "sequence"),
            revisions=revisions,
            rows=[WorkerReport.read(row) for row in rows],
        )
