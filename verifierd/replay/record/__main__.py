"""The command `python -m verifierd.replay.record`."""

import sys
from pathlib import Path

import click

from verifierd import bundled
from verifierd.errors import VerifierdError
from verifierd.replay.record import load_script, record


@click.command()
@click.argument("scripts", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), required=True, help="Folder to write to.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the invented ids and times.")
def main(scripts: tuple[Path, ...], out: Path, seed: int) -> None:
    """Play SCRIPTS (by default the bundled ones) in a real shell and write the logs."""
    documents = scripts or sorted(
        (entry for entry in (bundled.root("replay") / "scripts").iterdir() if entry.name.endswith(".toml")),
        key=lambda entry: entry.name,
    )
    try:
        for document in documents:
            script = load_script(document.read_bytes(), name=document.name.removesuffix(".toml"))
            for path, data in record(script, seed=seed).items():
                target = out / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(data)
                click.echo(f"{len(data):7d} bytes  {target}")
    except VerifierdError as error:
        click.echo(f"{error.message}\n{error.hint}".rstrip(), err=True)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
