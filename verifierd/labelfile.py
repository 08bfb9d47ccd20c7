"""Follows a file of labels: a document such as `POST /api/labels` takes on each line.

What its lines say and the file's position become durable together. A file that was rewritten is read again from its
start; lines that were taken before are not taken twice.
"""

import hashlib
from collections.abc import Sequence

import msgspec
import structlog

from verifierd.errors import LabelError
from verifierd.labels import FORMAT, LabelLine, Saying
from verifierd.metrics import Metrics
from verifierd.sources import LineSource
from verifierd.store import FileState, Store
from verifierd.types import Record

__all__ = ("MAX_LINE_BYTES", "LabelFile")

MAX_LINE_BYTES = 64 * 1024
_LINES = 256
_BYTES = 256 * 1024

_log = structlog.get_logger(component="labels")


class LabelFile:
    """A label file being read.

    Args:
        source: Where its lines come from.
        store: Where labels are kept.
        metrics: What is counted.
    """

    def __init__(self, source: LineSource, store: Store, metrics: Metrics) -> None:
        self.source = source
        self._store = store
        self._metrics = metrics
        self._open: Sequence[Record] = ()  # read, and not yet committed
        self._settled = False

    async def follow(self) -> None:
        """Take what is new, and a last line that lacks its end once the file has been silent since the last call.

        Raises:
            SourceError: The file cannot be read.
            StateError: The labels cannot be kept now; nothing is lost by that.
        """
        silent = not self.source.changed()
        while await self.pump():
            pass
        if silent and not self._settled:
            await self.settle()
        self._settled = silent

    async def pump(self) -> int:
        """Take the next lines; how many, 0 if nothing is new.

        Raises:
            SourceError, StateError: As `follow`.
        """
        records = self._open or await self.source.read(records=_LINES, size=_BYTES)
        if records:
            await self._commit(records)
        return len(records)

    async def settle(self) -> None:
        """Take the last line, if it is whole but for its line end.

        Raises:
            SourceError, StateError: As `follow`.
        """
        tail = await self.source.tail()
        if tail is not None and _read(tail).problem != "not_json":
            self.source.accept(tail)
            await self._commit([tail])

    async def _commit(self, records: Sequence[Record]) -> None:
        self._open = records
        lines = [_read(record) for record in records]
        path = self.source.path
        file = FileState(path=path, format=FORMAT, position=self.source.position(records[-1].end))
        done = await self._store.label_lines(lines, file)
        self._open = ()
        self._metrics.read(
            FORMAT,
            [msgspec.structs.replace(r, problem=line.problem or None) for r, line in zip(records, lines, strict=True)],
        )
        for line in lines:
            if line.problem:
                _log.warning(
                    "line_quarantined",
                    path=path,
                    offset=line.offset,
                    reason=line.problem,
                    hint='a line is such as {"id": "...", "label": "off_path", "by": "name", "note": "why"}',
                )
        for what in done:
            if isinstance(what, LabelError):
                _log.warning("label_refused", path=path, error=what.message, hint=what.hint)
            self._metrics.labelled(None if isinstance(what, LabelError) else what)
        self._metrics.truth(self._store.truth)


def _read(record: Record) -> LabelLine:
    """What a line says; a blank one says nothing."""
    said, problem = None, record.problem or ""
    if not problem and record.data.strip():
        try:
            said = msgspec.json.decode(record.data, type=Saying)
        except msgspec.ValidationError:
            problem = "bad_shape"
        except (msgspec.DecodeError, RecursionError):
            problem = "not_json"
    return LabelLine(
        offset=record.origin.offset,
        length=record.end - record.origin.offset,
        digest=hashlib.blake2b(record.data.strip(), digest_size=16).digest(),
        said=said,
        problem=problem,
    )
