"""The command `riprap`: finds the subcommand, and turns every error into one message and an exit code."""

from __future__ import annotations

from riprap.codec.start import importing

INTERRUPTED = 130

try:
    with importing():
        import atexit
        import errno
        import importlib
        import io
        import os
        import signal
        import sys
        import tempfile
        import time
        import traceback
        from pathlib import Path
        from typing import Any, NoReturn

        import click

        from riprap.controller.processes import SINGLE_THREADED, allow_open_files
except KeyboardInterrupt:  # nothing has begun
    raise SystemExit(INTERRUPTED) from None

INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
REFUSED = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP)
"""Errors of files that are not as the user thinks, or not the user's: of no error of ours."""

#: Subcommand -> its line in the overview; the module of the same name is imported only when it is asked for.
COMMANDS = {
    "run": "Run a topology on this machine, from start to summary.",
    "check": "Try a topology's operators here, on its own input, before it is run.",
    "show": "Show what a run computed: words, lines, flows, models, epochs.",
    "plot": "Draw a run: metrics, throughput, latency, failures, bytes.",
    "export": "Write a trained model as ONNX.",
    "operators": "List the operators, or show the options of one.",
    "plan": "Choose the tasks that get an active replica, for a budget.",
    "adapt": "Give the replicas of a running job to the tasks that now need them.",
    "tune": "Propose thresholds for an accuracy, from pilots with failures.",
    "prep": "Turn raw data into shards that jobs read.",
    "up": "Start cluster services on this host, in the background.",
    "down": "Stop the cluster services of this host.",
    "submit": "Submit a topology to a running cluster.",
    "jobs": "List the jobs of a cluster.",
    "status": "Show jobs, or one job's workers.",
    "checkpoints": "Show the checkpoints of a job under barriers.",
    "savepoint": "Copy a job's state into a directory that other jobs can begin from.",
    "rescale": "Give the stages of a running job other numbers of tasks.",
    "logs": "Show what the workers of a job printed.",
    "kill": "Kill a worker of a job (it is replaced).",
    "drain": "Bring a stream without end to its end.",
    "cancel": "End a job before its stream ends.",
    "forget": "Remove what a cluster keeps of a job that has ended.",
    "token": "Let another host join a cluster.",
    "join": "Join a cluster with a token.",
    "doctor": "Check this machine and say what to install.",
    "agent": "Run this host's agent in the foreground.",
    "backup": "Run a backup server in the foreground.",
    "controller": "",
}
SHARED = ("prep", "export", "plan", "plot", "show")
"""Commands whose files are as open as the user's umask says; everything else is for its owner alone."""


class LazyGroup(click.Group):
    """A group whose commands are imported on use, so that `riprap --help` costs no import but click's."""

    def list_commands(self, context: click.Context) -> list[str]:
        """All names, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """The command object of `riprap.engine.cli.NAME`, None when there is no such command."""
        if name not in COMMANDS:
            return None
        with importing():
            command: click.Command = importlib.import_module(f"riprap.engine.cli.{name}").command
        return command

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, with a suggestion for a name that is nearly right."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from difflib import get_close_matches

            close = get_close_matches(args[0], list(COMMANDS), n=1)
            hint = f" Did you mean {close[0]}?" if close else ""
            context.fail(f"No such command {args[0]!r}.{hint}")
        return super().resolve_command(context, args)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """The overview, from the table alone."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, line in COMMANDS.items() if line])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="riprap", prog_name="riprap")
@click.pass_context
def riprap(context: click.Context) -> None:
    """A distributed stream engine whose streams keep flowing when workers die.

    \b
    Example:
      riprap run configs/logistic_regression_higgs.yaml --fault kill:processor.2@50%
    """
    if os.environ.get("RIPRAP_KEYS") == "off":  # as codec.trust.keys.is_off, whose imports `--help` has no use for
        click.secho("security is off: whoever reaches this network may run code as you", fg="red", err=True)
    if context.invoked_subcommand not in SHARED:
        os.umask(0o077)
    allow_open_files()


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run a command line and exit: 0 done, 1 failed, 2 wrong command or configuration, 130 interrupted."""
    _open_closed_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # as stderr has it: a terminal may not know all characters
    os.environ.update(SINGLE_THREADED | os.environ)
    signal.signal(signal.SIGTERM, _interrupt)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as nohup leaves it
        signal.signal(signal.SIGHUP, _interrupt)
    atexit.register(_ignore_interrupts)
    try:
        code = riprap.main(arguments, standalone_mode=False)
        sys.stdout.flush()
    except BaseException as error:
        code = _exit_code(error)
    _discard_output_if_closed()
    sys.exit(code if isinstance(code, int) else 0)


def _open_closed_streams() -> None:
    """Have streams that the caller has closed read and write nothing, as our children's: the next files that are opened
    would take their numbers."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            stream = open(os.devnull, mode)  # noqa: SIM115 - as long as the process lives
            os.set_inheritable(stream.fileno(), True)
            setattr(sys, name, stream)


def _interrupt(signum: int, frame: Any) -> None:
    """End as Ctrl-C does: commands clean up in their `finally`."""
    raise KeyboardInterrupt


def _ignore_interrupts() -> None:
    """Have the exit code stand: the command is over, and the interpreter, as it shuts down, would end by a signal."""
    for signum in INTERRUPTS:
        signal.signal(signum, signal.SIG_IGN)


def _exit_code(error: BaseException) -> int:
    """Report the error, once, and choose the exit code."""
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else 1
    if isinstance(error, KeyboardInterrupt | click.Abort):
        click.echo("interrupted", err=True)
        return INTERRUPTED
    from riprap.codec.errors import RiprapError  # brings NumPy, which `--help` has no use for
    from riprap.codec.files import no_space

    if isinstance(error, click.ClickException):
        error.show()
        return error.exit_code
    if isinstance(error, BrokenPipeError):
        return 1
    if isinstance(error, RiprapError):
        click.echo(f"error: {error}", err=True)
        return error.exit_code
    if full := no_space(error):
        click.echo(f"error: {full}", err=True)
        return full.exit_code
    if isinstance(error, OSError) and error.errno in REFUSED and error.filename is not None:
        remedy = "see what is there, and that you may use it"
        click.echo(f"error: {os.fsdecode(error.filename)}: {error.strerror}\n  remedy: {remedy}", err=True)
        return 1
    click.echo(f"error: {type(error).__name__}: {error}\n  remedy: {_keep_traceback(error)}", err=True)
    return 1


def _keep_traceback(error: BaseException) -> str:
    """Write the traceback of an unexpected error to a file, and report its name."""
    path = Path(tempfile.gettempdir()) / f"riprap-{os.getuid()}-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w") as stream:
            stream.write("".join(traceback.format_exception(error)))
    except OSError as problem:
        return f"this should not happen; its traceback could not be kept ({problem.strerror})"
    return f"this should not happen; report it with {path}"


def _discard_output_if_closed() -> None:
    """Let the interpreter's last flush go nowhere when the reader of our output is gone (`riprap logs | head`)."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
