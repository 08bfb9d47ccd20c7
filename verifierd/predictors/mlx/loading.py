"""From a name to a model that is ready: found, fitting into memory, and checked for what verifierd needs of it."""

import contextlib
import hashlib
import json
import shlex
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from verifierd.config import ModelConfig
from verifierd.errors import PredictorError
from verifierd.paths import expanded
from verifierd.predictors import memory, tiny

__all__ = (
    "DEFAULT",
    "Found",
    "Loaded",
    "check_fit",
    "fetch_command",
    "find",
    "fit",
    "load",
    "load_tokenizer",
    "metal_limit",
)

DEFAULT = "jedisct1/Qwen-AgentWorld-35B-A3B-oQ4-MLX"
"""The model that is meant where none is named."""

_WEIGHTS = "model*.safetensors"  # as mlx-lm looks for them


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A model on this machine.

    Attributes:
        name: What it was asked for by.
        folder: Where it lies.
        revision: The commit at the hub, or a digest of the folder's configuration and weight files' heads.
        config: Its `config.json`.
        weight_bytes: Size of its weight files.
    """

    name: str
    folder: Path
    revision: str
    config: dict[str, Any]
    weight_bytes: int

    @property
    def label(self) -> str:
        """What verdicts call it. A random model says so."""
        random = " (random weights)" if self.config.get("verifierd_tiny") else ""
        return f"{self.name}@{self.revision}{random}"


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """A model in memory: mlx-lm's model and its wrapped tokenizer."""

    found: Found
    model: Any
    tokenizer: Any


def find(name: str, *, revision: str | None = None, download: bool = True) -> Found:
    """Find a model: a tiny one by name, a local folder, or one of the hub.

    Args:
        name: See above.
        revision: The hub's branch, tag or commit.
        download: Fetch what is not here yet, with the hub's own progress bars on standard error.

    Raises:
        PredictorError: It is not there, or not whole.
    """
    if name in tiny.NAMES:
        folder = tiny.ready(name)
    elif (local := expanded(name)).is_dir():
        folder = local
    elif name.startswith(("/", "./", "../", "~")) or local.exists():
        raise PredictorError(
            f"{name}: no folder with a model", hint="Name a folder that mlx-lm wrote, or a model of the hub."
        )
    else:
        folder = _from_hub(name, revision, download=download)
    config = _config(folder)
    if missing := _missing(folder):
        raise PredictorError(
            f"{folder}: weight files are missing: {', '.join(missing[:3])}{' ...' if len(missing) > 3 else ''}",
            hint="The download is incomplete, or this is no MLX checkpoint; `mlx_lm.convert` makes one.",
        )
    weights = sorted(folder.glob(_WEIGHTS))
    for file in weights:
        _check_weights(file)
    commit = folder.name if folder.parent.name == "snapshots" else _digest(folder, weights)
    return Found(
        name=name if name in tiny.NAMES or not local.is_dir() else folder.resolve().name,
        folder=folder,
        revision=commit[:12],
        config=config,
        weight_bytes=sum(file.stat().st_size for file in weights),
    )


def fit(found: Found, settings: ModelConfig) -> memory.Estimate:
    """What the model will take with these settings."""
    import mlx.core as mx  # noqa: PLC0415 - loads the engine

    return memory.estimate(
        found.config,
        found.weight_bytes,
        context=settings.context_tokens,
        chunk=settings.chunk_tokens,
        logit_chunk=settings.logit_tokens,
        snapshots=2,  # of the opening, and of the trajectory that is asked about; the others' are in the budget
        trajectories_cache_bytes=settings.cache_bytes,
        batch=1,  # a batch shares the chunk, and its copies take their room from the budget
        fused=mx.metal.is_available(),
    )


def metal_limit() -> int | None:
    """Bytes that Metal may hold; None where there is no Metal."""
    import mlx.core as mx  # noqa: PLC0415 - loads the engine

    return int(mx.device_info()["max_recommended_working_set_size"]) if mx.metal.is_available() else None


def check_fit(needed: memory.Estimate, settings: ModelConfig) -> None:
    """Refuse a model that will not fit, unless that is overridden.

    Raises:
        PredictorError: It does not.
    """
    memory.fits(needed, memory.available(), metal_limit=metal_limit(), override=settings.memory_override)


def load_tokenizer(found: Found) -> Any:
    """The model's tokenizer in mlx-lm's wrapper, without its weights.

    Raises:
        PredictorError: It is missing or damaged.
    """
    from mlx_lm.utils import load_tokenizer as load_wrapped  # noqa: PLC0415 - loads the engine
    from transformers.utils import logging  # noqa: PLC0415 - as above

    logging.set_verbosity_error()  # its advice on tokenizers is for those who train
    with _loading(found, "tokenizer"):
        return load_wrapped(found.folder, eos_token_ids=found.config.get("eos_token_id"))


def load(
    found: Found,
    settings: ModelConfig,
    say: Callable[[str], None],
    suits: Callable[[Any], object] = lambda _tokenizer: None,
) -> Loaded:
    """Load a model, on the thread that is to use it.

    Args:
        found: The model.
        settings: What it may use.
        say: Told, line by line, what is needed and what happens.
        suits: Raises if the tokenizer does not do; asked before the weights are loaded, which may take minutes.

    Raises:
        PredictorError: It does not fit, or is damaged, or lacks what it needs.
    """
    tokenizer = load_tokenizer(found)
    suits(tokenizer)
    needed = fit(found, settings)
    say(f"{found.label} needs about {needed.total / 1e9:.2f} GB:")
    for line in memory.lines(needed):
        say(f"  {line}")
    check_fit(needed, settings)
    say(f"loading {found.weight_bytes / 1e9:.2f} GB of weights from {found.folder}")
    from mlx_lm.utils import load_model  # noqa: PLC0415 - loads the engine

    with _loading(found, "model"):
        model, _ = load_model(found.folder)
    say("loaded")
    return Loaded(found=found, model=model, tokenizer=tokenizer)


@contextlib.contextmanager
def _loading(found: Found, what: str) -> Iterator[None]:
    """mlx-lm raises what its parts raise: KeyError, ValueError, OSError, RuntimeError."""
    try:
        yield
    except Exception as error:
        raise PredictorError(
            f"{found.folder}: the {what} cannot be loaded: {type(error).__name__}: {_first_line(error)}",
            hint="The folder is incomplete or damaged, or its kind is unknown to this mlx-lm: download it again, or "
            "upgrade mlx-lm.",
        ) from error


def _from_hub(name: str, revision: str | None, *, download: bool) -> Path:
    from huggingface_hub import snapshot_download  # noqa: PLC0415 - takes long to import
    from huggingface_hub.errors import LocalEntryNotFoundError  # noqa: PLC0415 - as above
    from mlx_lm.utils import DEFAULT_ALLOW_PATTERNS  # noqa: PLC0415 - loads the engine

    def fetched(*, here: bool) -> Path:
        return Path(
            snapshot_download(name, revision=revision, local_files_only=here, allow_patterns=DEFAULT_ALLOW_PATTERNS)
        )

    try:
        with contextlib.suppress(LocalEntryNotFoundError):
            folder = fetched(here=True)
            if not download or ((folder / "config.json").exists() and not _missing(folder)):
                return folder
        if download:
            return fetched(here=False)
    # A transport's own errors come as they are; the hub's are of many kinds, and all mean the same here.
    except Exception as error:
        raise PredictorError(
            f"{name}: neither a folder here, nor to be had from the hub: {_first_line(error)}",
            hint="Check the name and the network, or download the model elsewhere and name its folder after --model.",
        ) from error
    raise PredictorError(f"{name}: is not on this machine", hint=f"Fetch it: {fetch_command(name, revision)}")


def fetch_command(name: str, revision: str | None = None) -> str:
    """What a person may type to have a model of the hub here."""
    return " ".join(["hf download", shlex.quote(name), *([f"--revision {shlex.quote(revision)}"] if revision else [])])


def _missing(folder: Path) -> list[str]:
    """The weight files that the index names and that are not here, as after a download that was interrupted."""
    index = folder / "model.safetensors.index.json"
    try:
        names = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
    except FileNotFoundError:
        return [] if any(folder.glob(_WEIGHTS)) else [_WEIGHTS]
    except (OSError, ValueError, AttributeError, KeyError, TypeError):
        return [index.name]
    return sorted(str(name) for name in names if not (folder / str(name)).exists())


def _config(folder: Path) -> dict[str, Any]:
    file = folder / "config.json"
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise PredictorError(
            f"{file}: cannot be read: {error.strerror or error}", hint="The folder holds no model, or not all of it."
        ) from error
    except ValueError as error:
        raise PredictorError(f"{file}: no JSON: {error}", hint="Download the model again.") from error
    if not isinstance(config, dict):
        raise PredictorError(f"{file}: no JSON object", hint="Download the model again.")
    if not isinstance(config.get("model_type"), str):
        raise PredictorError(f"{file}: has no `model_type`", hint="This is no model that mlx-lm can load.")
    return config


def _check_weights(file: Path) -> None:
    """A safetensors file begins with its header's length and says how long it is; a torn one is shorter."""
    size = file.stat().st_size
    try:
        with file.open("rb") as stream:
            (length,) = struct.unpack("<Q", stream.read(8))
            header: Any = json.loads(stream.read(length)) if length <= min(size, 100 * 1024**2) else None
        end = max(
            (int(tensor["data_offsets"][1]) for key, tensor in header.items() if key != "__metadata__"), default=0
        )
    except (OSError, struct.error, ValueError, AttributeError, KeyError, TypeError, IndexError) as error:
        raise PredictorError(
            f"{file}: no safetensors file: its header cannot be read", hint="Download it again."
        ) from error
    if size < 8 + length + end:
        raise PredictorError(
            f"{file}: the weights are cut off: {size:,} bytes of {8 + length + end:,}", hint="Download it again."
        )


def _digest(folder: Path, weights: list[Path]) -> str:
    """Tells checkpoints apart without reading gigabytes: configuration, and each weight file's header and size."""
    state = hashlib.blake2b(digest_size=8)
    for file in (folder / "config.json", *weights):
        with file.open("rb") as stream:
            state.update(f"{file.name} {file.stat().st_size}\n".encode())
            state.update(stream.read(1024**2))
    return state.hexdigest()


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
