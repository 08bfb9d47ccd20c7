"""How each command that may be certified reads its words."""

from collections.abc import Mapping

import msgspec

__all__ = ("SPECS", "Spec")


class Spec(msgspec.Struct, frozen=True, kw_only=True):
    """A command's manner.

    Attributes:
        operands: What its operands are: `path`, `data`, `name` (of a variable) or `number`.
        many: From which number of operands on it is all the same.
        stdin: True if it reads standard input when no file is named.
        prints: True if it may print; the order of what it prints and of its errors is then not known.
    """

    operands: str = "path"
    many: int = 2
    stdin: bool = False
    prints: bool = True


_DATA = Spec(operands="data")
_FILES = Spec(stdin=True)
_LOOKS = Spec()
_NAMES = Spec(operands="name", prints=False)
_NUMBER = Spec(operands="number", prints=False)
_PAIR = Spec(many=3)
_MOVES = Spec(many=3, prints=False)
_SILENT = Spec(prints=False)

SPECS: Mapping[str, Spec] = {
    **dict.fromkeys((":", "[", "[[", "echo", "expr", "false", "printf", "pwd", "set", "test", "true", "type"), _DATA),
    **dict.fromkeys(("awk", "base64", "bc", "cat", "cut", "expand", "fold", "grep", "head", "jq", "md5sum"), _FILES),
    **dict.fromkeys(("nl", "od", "paste", "rev", "sed", "sha1sum", "sha256sum", "sort", "tac", "tail"), _FILES),
    **dict.fromkeys(("uniq", "wc"), _FILES),
    **dict.fromkeys(("dirname", "find", "ls", "readlink", "realpath", "stat", "tar"), _LOOKS),
    **dict.fromkeys(("export", "local", "read", "unset"), _NAMES),
    **dict.fromkeys(("break", "continue", "exit", "return", "shift"), _NUMBER),
    **dict.fromkeys(("basename", "cmp", "comm", "diff", "join", "tee"), _PAIR),
    **dict.fromkeys(("cp", "ln", "mv", "split"), _MOVES),
    **dict.fromkeys(("cd", "chmod", "mkdir", "rm", "rmdir", "touch"), _SILENT),
    "seq": Spec(operands="number", many=4),
    "tr": Spec(operands="data", many=3, stdin=True),
    "xargs": Spec(operands="data", stdin=True),
}
