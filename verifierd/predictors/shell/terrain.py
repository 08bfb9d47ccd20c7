"""The files of all worlds together: which paths are known, and giving form to those that are not."""

import posixpath
from collections.abc import Callable, Iterable, Sequence

from verifierd.predictors.shell.anchor import Absent, Content, Listing, Made, Tree
from verifierd.predictors.shell.mentions import ANY
from verifierd.predictors.shell.world import SCRATCH, World

__all__ = ("Terrain", "within")

# The world in which what should be a directory on the way to a path is a file.
_BLOCKED = 4
# Made-up names: one that sorts before most others, one that sorts after.
_FORMS = (f"0a_{ANY}.py", f"zz_{ANY}")
# How the log's trimming of a file's end is undone, world by world.
_ENDS = ("\n", "", "\n\n", " \n", "\n \n")


class Terrain:
    """What is known of paths.

    A path is *settled* once every world has its own form of it. A directory is *fresh* if everything in it was made in
    this session, and *listed* `all`, `visible` (hidden names may be missing) or `files` (all but plain files may be).

    Args:
        worlds: The worlds; world 0 holds nothing but what was learnt.
    """

    def __init__(self, worlds: Sequence[World]) -> None:
        self._worlds = worlds
        self._settled: set[str] = {SCRATCH}
        self._fresh: set[str] = set()
        self._listed: dict[str, str] = {}

    def forget(self) -> None:
        """Nothing is known of any file; the worlds stay in their directories."""
        self._settled.clear()
        self._fresh.clear()
        self._listed.clear()
        self._settled.add(SCRATCH)
        for world in self._worlds:
            cwd = world.cwd
            world.wipe()
            world.folder(SCRATCH)
            world.enter(cwd)

    # What is known

    def settle(self, path: str) -> None:
        """A path and all above it have their forms."""
        self._settled.update(_with_ancestors(path))

    def is_settled(self, path: str) -> bool:
        """Whether each world has its form of a path, which may be that nothing is there."""
        if path in self._settled or path == "/" or self.is_fresh(path):
            return True
        parent, name = posixpath.split(path)
        known = self._listed.get(parent)
        return known == "all" or (known == "visible" and not name.startswith("."))

    def is_fresh(self, path: str) -> bool:
        """Whether everything at and below a path was made in this session."""
        return any(path == made or path.startswith(made + "/") for made in self._fresh)

    def is_cut_off(self, path: str, world: World) -> bool:
        """Whether a directory on the way to a path is known to be missing in a world, or is none."""
        return any(
            not world.is_folder(parent) and (self.is_settled(parent) or world.exists(parent))
            for parent in _with_ancestors(path)[:-1]
        )

    def agreed_text(self, path: str) -> str | None:
        """A file's text, if it is known."""
        texts = {world.read(path) for world in self._worlds}
        return texts.pop() if len(texts) == 1 and self.is_settled(path) else None

    def doubtful(self, reach: Iterable[str], *, wide: bool) -> set[str]:
        """The paths, among those that a command may touch, of which the worlds have different forms."""
        places = {f"{world.cwd}/" for world in self._worlds}
        paths = {part for path in reach for part in _with_ancestors(path)}
        tops = {f"{path}/" for path in reach} | (places if wide else set())
        paths.update(path for path in self._settled if any(path.startswith(top) for top in tops))
        return {
            path for path in paths if not any(place.startswith(f"{path}/") for place in places) and self._differs(path)
        }

    def is_open(self, reach: Iterable[str], folders: Iterable[str], *, missing: bool, deep: bool) -> bool:
        """Whether nobody showed all of the text of some files, or which names are in some directories.

        Args:
            reach: The files.
            folders: The directories; what is below them counts, too.
            missing: Files that may be missing count, too.
            deep: So does the text of what is in the directories.
        """
        plain = self._worlds[0]
        files = {path for path in reach if plain.is_file(path) or (missing and not posixpath.basename(path).isdigit())}
        for folder in folders:
            entries = [dict(world.walk(folder)) if world.is_folder(folder) else {} for world in self._worlds]
            names = set(entries[0]) if plain.is_folder(folder) else set()
            if any(
                world.token in path and "/." not in path.removeprefix(folder)
                for world, found in zip(self._worlds, entries, strict=True)
                for path in found
            ):
                return True
            files.update(path for path in names if deep and entries[0][path] == "file")
        return any(len({world.read(path) for world in self._worlds}) > 1 for path in files)

    def _differs(self, path: str) -> bool:
        first = self._worlds[0].form(path)
        return any(world.form(path) != first for world in self._worlds[1:])

    def unsettle(self, paths: Iterable[str]) -> None:
        """Nothing is known of some paths and what is below them, nor of what else is in their directories."""
        for path in paths:
            below = f"{path}/"
            self._settled = {known for known in self._settled if known != path and not known.startswith(below)}
            self._fresh = {made for made in self._fresh if not below.startswith(f"{made}/")}
            self._listed.pop(posixpath.dirname(path), None)
            for world in self._worlds:
                world.remove(path)
                world.blobs.pop(path, None)

    # Giving form to the unknown

    def plant(self, words: Iterable[str], shapes: dict[str, str], hints: list[str]) -> frozenset[str]:
        """Give each unknown path among the words a form in every world; the paths that the words mean."""
        reach = set()
        for word in sorted(words, key=lambda word: (shapes.get(word) != "folder", word.count("/"), word)):
            self._reopen_way(word)
            for world in self._worlds:
                path = world.resolve(word)
                reach.add(path)
                nested = self._plant_way(path, world, hints, shapes.get(word))
                known = self.is_settled(path) or world.exists(path) or self.is_cut_off(path, world)
                if not known and not f"{world.cwd}/".startswith(f"{path.rstrip('/')}/"):
                    world.imagine(path, hints, shape=shapes.get(word) or ("linked" if nested else None))
        for path in reach:
            self.settle(path)
        return frozenset(reach)

    def seed(self, reach: Iterable[str], patterns: list[str], *, deep: bool) -> None:
        """Put made-up entries into directories that are not wholly known.

        Args:
            reach: The paths that the command names; it may look at the working directory, too.
            patterns: Forms of the names that it looks for.
            deep: Whether it looks below them.
        """
        # A file, a directory, an empty file: enough to make a listing differ from that of world 0.
        for world in self._worlds[1:4]:
            folders = {path for path in (*reach, world.cwd) if world.is_folder(path)}
            if deep:
                for folder in list(folders):
                    folders.update(path for path, kind in world.walk(folder) if kind == "directory")
            for folder in folders:
                self._seed_folder(world, folder, patterns)

    def refresh(self, reach: Iterable[str], hints: list[str], *, wide: bool) -> None:
        """Let unknown parts of the files that a command may read hold what it may look for."""
        for world in self._worlds:
            files = set(reach)
            if wide:
                for folder in (*reach, world.cwd):
                    if world.is_folder(folder):
                        files.update(path for path, kind in world.walk(folder) if kind == "file")
            for path in files:
                world.refresh(path, hints)

    def vacant(self, reach: Iterable[str]) -> list[set[str]]:
        """World by world, where there is nothing among some paths and all above them."""
        paths = {part for path in reach for part in _with_ancestors(path)}
        return [{path for path in paths if not world.exists(path)} for world in self._worlds]

    def freshen(self, vacant: Sequence[set[str]], worlds: Sequence[World], doubtful: Iterable[str] = ()) -> None:
        """What has come to be a directory in some worlds, where there was nothing in any of them, is all known.

        Args:
            vacant: Where there was nothing, world by world.
            worlds: Those that are not refuted.
            doubtful: Paths of which these worlds may not have all possible forms.
        """
        made = set.intersection(*(vacant[world.number] for world in worlds))
        for path in sorted(made, key=len):
            unsure = any(f"{path}/".startswith(f"{top}/") for top in doubtful) or self.is_fresh(path)
            if not unsure and all(world.is_folder(path) for world in worlds):
                self._fresh.add(path)
                self.settle(path)

    def blur(self, path: str) -> None:
        """A file is there, and nothing else is known of it."""
        for world in self._worlds:
            world.imagine(path, [], exists=True, shape="file")
        self.settle(path)

    def moved(self, reach: Iterable[str]) -> None:
        """Things of unknown content may have come to where all was known."""
        self._fresh = {made for made in self._fresh if not any(f"{path}/".startswith(f"{made}/") for path in reach)}

    # Lessons

    def learn(self, lesson: Content | Listing | Tree | Made | Absent) -> None:
        """Make all worlds as reality was seen to be."""
        match lesson:
            case Content(path, text, exact):
                for world in self._worlds:
                    world.file(path, text if exact else text + _ENDS[world.number])
                    world.blobs.pop(path, None)
            case Listing(path, names, hidden):
                self._learn_names(path, names, hidden=hidden)
            case Tree(path, files):
                self._learn_files(path, frozenset(files))
            case Made(path):
                if all(world.is_folder(path) for world in self._worlds):
                    self._fresh.add(path)
                for world in self._worlds:
                    world.folder(path)
            case Absent(path, followed):
                self._learn_absence(path, followed=followed)
                return
        self.settle(lesson.path)

    def _learn_absence(self, path: str, *, followed: bool) -> None:
        for world in self._worlds:
            # What leads nowhere is "no such file", too.
            if path != world.cwd and not world.is_dangling(path):
                world.remove(path)
                if followed and world.number == _BLOCKED and not self.is_settled(path):
                    world.link(path, f"/l{world.token}/nowhere")
        # Whether there is a directory that it could be in, it does not say.
        self._settled.add(path)

    def _learn_names(self, path: str, names: tuple[str, ...], *, hidden: bool) -> None:
        if self._listed.get(path) != "all":
            self._listed[path] = "all" if hidden else "visible"
        for world in self._worlds:
            world.folder(path)
            for name, _ in world.entries(path):
                if name not in names and (hidden or not name.startswith(".")):
                    world.remove(posixpath.join(path, name))
            for name in names:
                entry = posixpath.join(path, name)
                if not world.exists(entry):
                    world.imagine(entry, [], exists=True)
        self._settled.update(posixpath.join(path, name) for name in names)

    def _learn_files(self, path: str, files: frozenset[str]) -> None:
        folders = {path}
        for world in self._worlds:
            for entry, kind in list(world.walk(path)):
                if kind == "directory":
                    folders.add(entry)
                elif kind == "file" and entry not in files:
                    world.remove(entry)
            for entry in files:
                if not world.is_file(entry):
                    world.remove(entry)
                    world.imagine(entry, [], exists=True, shape="plain")
        for entry in files:
            self.settle(entry)
            folder = posixpath.dirname(entry)
            while folder not in folders:
                folders.add(folder)
                folder = posixpath.dirname(folder)
        self._listed.update((folder, "files") for folder in folders if self._listed.get(folder) != "all")

    def _reopen_way(self, word: str) -> None:
        """What is on the way to a path and may or may not be a directory gets its form anew, as a way."""
        path = self._worlds[0].resolve(word)
        above = {f"{world.cwd}/" for world in self._worlds}
        for way in _with_ancestors(path)[:-1]:
            if any(place.startswith(f"{way}/") for place in above) or way not in self._settled:
                continue
            folders = [world.is_folder(way) for world in self._worlds]
            if any(folders) and not all(folders):
                self.unsettle([way])

    def _plant_way(self, path: str, world: World, hints: list[str], shape: str | None) -> bool:
        """Give unknown directories on the way to a path their forms: missing, there, or a file in the way.

        Returns:
            Whether there were any.
        """
        found = False
        for above in _with_ancestors(path)[:-1]:
            if world.number == 0 or self.is_settled(above) or world.exists(above) or self.is_cut_off(above, world):
                continue
            found = True
            if world.number != _BLOCKED or shape == "folder":
                world.folder(above)
            elif world.is_folder(posixpath.dirname(above)):
                world.imagine(above, hints, shape="plain")
        return found

    def _seed_folder(self, world: World, folder: str, patterns: list[str]) -> None:
        known = self._listed.get(folder)
        if known == "all" or self.is_fresh(folder) or (world.token in folder and folder != world.cwd):
            return
        # What is no plain file goes by other names, lest it stand for a file later on.
        made_up = f"{world.token}d" if known == "files" else world.token
        wanted = {f".hid_{made_up}"}
        if known != "visible":
            wanted.update(form.replace(ANY, made_up) for form in (*_FORMS, *patterns))
        for name in wanted.difference(name for name, _ in world.entries(folder)):
            path = posixpath.join(folder, name)
            if known != "files":
                world.imagine(path, [], exists=True)
            elif world.number == 1:
                world.folder(path)
            else:
                world.link(path, f"/l{world.token}/nowhere")


def _with_ancestors(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:length]) for length in range(2, len(parts) + 1)]


def within(reach: frozenset[str], cwd: str | None, *, wide: bool) -> Callable[[str], bool]:
    """Whether a path was within a command's reach, so that the command's answer tells about it."""

    def settled(path: str) -> bool:
        if wide and cwd is not None and f"{path}/".startswith(f"{cwd}/"):
            return True
        return any(f"{path}/".startswith(f"{name}/") or name.startswith(f"{path}/") for name in reach)

    return settled
