"""Options that several subcommands share."""

from __future__ import annotations

import click

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document, for scripts.")

zookeeper_option = click.option(
    "--zookeeper", metavar="HOST:PORT", help="The ensemble to use (default: the one `riprap up` started here)."
)

set_option = click.option(
    "--set", "sets", multiple=True, metavar="PATH=VALUE", help="Change a value of the topology; may be repeated."
)

fault_option = click.option("--fault", "faults", multiple=True, metavar="SPEC", help="Inject a fault; may be repeated.")

faults_file_option = click.option(
    "--faults", "faults_file", metavar="FILE.yaml", help="Inject the faults listed in a file."
)

out_option = click.option("--out", metavar="DIR", help="The run directory (default: runs/JOB-TIME).")

no_verify_option = click.option(
    "--no-verify", is_flag=True, help="Do not read the shards beforehand for damage, NaN and infinity."
)

die_with_parent_option = click.option("--die-with-parent", type=int, hidden=True, help="The pid to die with.")
