"""Maps with two layers: committed entries (*stable*), and changes on top (*head*).

Reading a :class:`TimelineMap` reads the head. A change is made at a version (a log offset) and
stays on top until :meth:`Timeline.commit` reaches that version or :meth:`Timeline.revert` reverts
it. The cost of both depends on the changes, not on the size of the map, so a controller's failover
is independent of the size of its metadata. Compare Kafka's ``SnapshotRegistry`` and
``TimelineHashMap``.

Iteration follows insertion, and nothing here depends on hash values: equal histories give equal
orders.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, ItemsView, Iterator, Mapping, MutableMapping
from typing import Any, Final, Generic, TypeVar, overload

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")


class Absent:
    """The type of :data:`ABSENT`, which stands for "no value" where None may be a value."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = Absent()

Watch = Callable[[K, "V | Absent", "V | Absent"], None]
"""Called with key, old and new value after a layer has changed."""


class Timeline:
    """The version at which the maps of one image change, and the uncommitted changes.

    ``version`` None means that changes go straight into the stable layer, which is only allowed
    while nothing is pending. Versions never decrease.
    """

    __slots__ = ("_journal", "version")

    def __init__(self) -> None:
        self.version: int | None = None
        self._journal: deque[tuple[int, TimelineMap[Any, Any], Any]] = deque()

    @property
    def pending(self) -> int:
        """How many changes are above the stable layer."""
        return len(self._journal)

    def commit(self, version: int) -> None:
        """Make every change at or below ``version`` part of the stable layer."""
        journal = self._journal
        while journal and journal[0][0] <= version:
            _, changed, key = journal.popleft()
            changed._settle(key)

    def revert(self, version: int = -1) -> None:
        """Revert every pending change above ``version``, the latest first."""
        journal = self._journal
        while journal and journal[-1][0] > version:
            _, changed, key = journal.pop()
            changed._undo(key)

    def _note(self, changed: TimelineMap[Any, Any], key: Any) -> None:
        assert self.version is not None
        assert not self._journal or self._journal[-1][0] <= self.version, "versions went back"
        self._journal.append((self.version, changed, key))


class TimelineMap(MutableMapping[K, V], Generic[K, V]):
    """A map with a stable and a head layer; values must be immutable.

    Several maps share one ``timeline``. ``watch`` is called with every change of the head, reverts
    included. ``None`` is a value like any other.
    """

    __slots__ = ("_frozen", "_head", "_settled", "_timeline", "_versions", "_watch", "stable")

    def __init__(self, timeline: Timeline, watch: Watch[K, V] | None = None) -> None:
        self._timeline = timeline
        self._watch = watch
        self._settled: Watch[K, V] | None = None
        self._head: dict[K, V] = {}
        # Of each key with pending changes: its stable value, then the changes by version.
        self._versions: dict[K, list[tuple[int, V | Absent]]] = {}
        # While a view is frozen: the old values of keys that changed since.
        self._frozen: dict[K, V | Absent] | None = None
        self.stable: Mapping[K, V] = StableMap(self)

    # --- the head -----------------------------------------------------------------------

    def __getitem__(self, key: K) -> V:
        return self._head[key]

    @overload
    def get(self, key: K, /) -> V | None: ...
    @overload
    def get(self, key: K, /, default: V | T) -> V | T: ...
    def get(self, key: K, /, default: Any = None) -> Any:
        return self._head.get(key, default)

    def __contains__(self, key: object) -> bool:
        return key in self._head

    def __iter__(self) -> Iterator[K]:
        return iter(self._head)

    def __len__(self) -> int:
        return len(self._head)

    def __repr__(self) -> str:
        return f"TimelineMap({self._head!r})"

    def __setitem__(self, key: K, value: V) -> None:
        self._put(key, value)

    def __delitem__(self, key: K) -> None:
        if key not in self._head:
            raise KeyError(key)
        self._put(key, ABSENT)

    def _put(self, key: K, value: V | Absent) -> None:
        timeline, head = self._timeline, self._head
        old: V | Absent = head.get(key, ABSENT)
        version = timeline.version
        if version is None:
            assert not timeline._journal, "a change below pending ones"
        else:
            versions = self._versions.get(key)
            if versions is None:
                self._versions[key] = [(-1, old), (version, value)]
                timeline._note(self, key)
            elif versions[-1][0] == version:
                versions[-1] = (version, value)
            else:
                versions.append((version, value))
                timeline._note(self, key)
        if isinstance(value, Absent):
            head.pop(key, None)
        else:
            head[key] = value
        if version is None and (self._settled is not None or self._frozen is not None):
            self._stable_changed(key, old, value)
        if self._watch is not None:
            self._watch(key, old, value)

    def _settle(self, key: K) -> None:
        versions = self._versions[key]
        _, old = versions.pop(0)
        if len(versions) == 1:
            del self._versions[key]
        if self._settled is not None or self._frozen is not None:
            self._stable_changed(key, old, versions[0][1])

    def _undo(self, key: K) -> None:
        versions = self._versions[key]
        _, old = versions.pop()
        value = versions[-1][1]
        if len(versions) == 1:
            del self._versions[key]
        if isinstance(value, Absent):
            self._head.pop(key, None)
        else:
            self._head[key] = value
        if self._watch is not None:
            self._watch(key, old, value)

    # --- the stable layer ---------------------------------------------------------------

    def watch_stable(self, watch: Watch[K, V]) -> None:
        """From now on call ``watch`` with every change of the stable layer."""
        self._settled = watch

    def _stable_changed(self, key: K, old: V | Absent, new: V | Absent) -> None:
        if self._frozen is not None:
            self._frozen.setdefault(key, old)
        if self._settled is not None:
            self._settled(key, old, new)

    def _stable_value(self, key: Any) -> V | Absent:
        if self._versions:
            versions = self._versions.get(key)
            if versions is not None:
                return versions[0][1]
        return self._head.get(key, ABSENT)

    def freeze(self) -> FrozenMap[K, V]:
        """Return the stable layer as it is now; later changes of the map do not affect the view.

        Freezing costs nothing now and one entry per key that changes later. There may be one such
        view at a time; :meth:`thaw` ends it.
        """
        assert self._frozen is None, "there is a frozen view already"
        self._frozen = {}
        return FrozenMap(self, self._frozen)

    def thaw(self) -> None:
        """End the frozen view, if there is one."""
        self._frozen = None

    def take(self, other: TimelineMap[K, V]) -> dict[K, V]:
        """Replace all content by that of ``other``, which must not be used afterwards.

        Neither map may have pending changes or a frozen view; watches are not called. Returns the
        old content, so that the caller can free it a piece at a time.
        """
        assert not self._versions and not other._versions, "pending changes"
        assert self._frozen is None, "a view is frozen"
        old, self._head = self._head, other._head
        return old


class StableMap(Mapping[K, V]):
    """The stable layer of a map, always its current state."""

    __slots__ = ("_map",)

    def __init__(self, of: TimelineMap[K, V]) -> None:
        self._map = of

    def __getitem__(self, key: K) -> V:
        value = self._map._stable_value(key)
        if isinstance(value, Absent):
            raise KeyError(key)
        return value

    @overload
    def get(self, key: K, /) -> V | None: ...
    @overload
    def get(self, key: K, /, default: V | T) -> V | T: ...
    def get(self, key: K, /, default: Any = None) -> Any:
        of = self._map
        if not of._versions:
            return of._head.get(key, default)
        value = of._stable_value(key)
        return default if isinstance(value, Absent) else value

    def __contains__(self, key: object) -> bool:
        return not isinstance(self._map._stable_value(key), Absent)

    def __iter__(self) -> Iterator[K]:
        head, versions = self._map._head, self._map._versions
        if not versions:
            return iter(head)
        return self._merged(head, versions)

    @staticmethod
    def _merged(head: dict[K, V], versions: dict[K, list[tuple[int, V | Absent]]]) -> Iterator[K]:
        for key in head:
            if key not in versions or not isinstance(versions[key][0][1], Absent):
                yield key
        for key, pending in versions.items():
            if key not in head and not isinstance(pending[0][1], Absent):
                yield key

    def items(self) -> ItemsView[K, V]:
        """Return keys and values, as :meth:`__iter__` gives the keys."""
        if not self._map._versions:
            return self._map._head.items()
        return ItemsView(self)

    def __len__(self) -> int:
        head = self._map._head
        count = len(head)
        for key, versions in self._map._versions.items():
            count += (not isinstance(versions[0][1], Absent)) - (key in head)
        return count

    def __repr__(self) -> str:
        return f"StableMap({dict(self)!r})"


class FrozenMap(Mapping[K, V]):
    """The stable layer of a map at the time when the view was made."""

    __slots__ = ("_changed", "_map")

    def __init__(self, of: TimelineMap[K, V], changed: dict[K, V | Absent]) -> None:
        self._map = of
        self._changed = changed

    def _value(self, key: Any) -> V | Absent:
        changed = self._changed
        if changed and key in changed:
            return changed[key]
        return self._map._stable_value(key)

    def __getitem__(self, key: K) -> V:
        value = self._value(key)
        if isinstance(value, Absent):
            raise KeyError(key)
        return value

    @overload
    def get(self, key: K, /) -> V | None: ...
    @overload
    def get(self, key: K, /, default: V | T) -> V | T: ...
    def get(self, key: K, /, default: Any = None) -> Any:
        of = self._map
        if not self._changed and not of._versions:
            return of._head.get(key, default)
        value = self._value(key)
        return default if isinstance(value, Absent) else value

    def __contains__(self, key: object) -> bool:
        return not isinstance(self._value(key), Absent)

    def __iter__(self) -> Iterator[K]:
        """Iterate over a copy of the keys, made at once: the map may change meanwhile."""
        return (key for key in self._keys() if key in self)

    def items(self) -> ItemsView[K, V]:
        """Return keys and values; iterating them is as safe as :meth:`__iter__`."""
        return _FrozenItems(self)

    def _keys(self) -> list[K]:
        head, versions = self._map._head, self._map._versions
        keys = list(head)
        keys.extend(key for key in versions if key not in head)
        keys.extend(key for key in self._changed if key not in head and key not in versions)
        return keys

    def __len__(self) -> int:
        stable = self._map.stable
        count = len(stable)
        for key, value in self._changed.items():
            count += (not isinstance(value, Absent)) - (key in stable)
        return count


class _FrozenItems(ItemsView[K, V]):
    """Items of a frozen map, each looked up once."""

    def __init__(self, of: FrozenMap[K, V]) -> None:
        super().__init__(of)
        self._of = of

    def __iter__(self) -> Iterator[tuple[K, V]]:
        of = self._of
        for key in of._keys():
            value = of._value(key)
            if not isinstance(value, Absent):
                yield key, value
