"""Turn one (message, version) into a pair of Python functions, once.

Each struct becomes two functions: ``encode(out, body)`` appends to a bytearray, ``decode(data,
position, end, room)`` returns a dict and the position after it. ``room[0]`` is how many items all
arrays and tag sections may still have. Neighbouring fields of fixed size share one
``struct.Struct``. Generated code contains only names and numbers of our own schemas; values are
passed to it as objects in its namespace.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct, unpack_from
from typing import Any, Final

from kraftwreck.nodes.protocol import primitives
from kraftwreck.nodes.protocol.primitives import Buffer
from kraftwreck.nodes.protocol.schema import Field, Message

Encoder = Callable[[bytearray, dict[str, Any]], None]
Decoder = Callable[[Buffer, int, int, list[int]], tuple[dict[str, Any], int]]

_FIXED: Final = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}
_OUTSIDE: Final = "refuse('a length points outside of the message')"
_FEW: Final = 17
"""Arrays shorter than this have a Struct of their own: replicas, mostly."""
_ARRAYS: Final[dict[str, Any]] = {
    f"{name}_{kind}": tuple(getattr(Struct(f">{n}{kind}"), does) for n in range(_FEW))
    for kind in set(_FIXED.values()) - {"16s"}
    for name, does in (("PACK", "pack"), ("UNPACK", "unpack_from"))
}
_CROWDED: Final = "refuse('it has too many items')"
_LONGEST_STRING: Final = 0x7FFF
"""Apache Kafka refuses longer ones, in compact form, too."""
_NULL: Final = "refuse('null is not allowed for {}')"


def compile_message(message: Message, version: int) -> tuple[Encoder, Decoder]:
    """Return the encoder and decoder of ``message`` at ``version`` (which must be valid)."""
    compiler = _Compiler(version, version in message.flexible)
    number = compiler.struct(message.name, message.fields)
    compiler.finish(f"<schema {message.name} v{version}>")
    return compiler.namespace[f"e{number}"], compiler.namespace[f"d{number}"]


class _Compiler:
    def __init__(self, version: int, flexible: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.structs = 0
        self.lines: list[str] = []
        self.namespace: dict[str, Any] = {
            **_ARRAYS,
            "unpack_from": unpack_from,
            "Struct": Struct,
            "I2": Struct(">h"),
            "I4": Struct(">i"),
            "refuse": primitives.refuse,
            "put_uvarint": primitives.put_uvarint,
            "more_uvarint": primitives.more_uvarint,
            "skip_tags": primitives.skip_tags,
            "unknown_fields": primitives.unknown_fields,
        }

    def finish(self, origin: str) -> None:
        code = compile("\n".join(self.lines), origin, "exec")
        # The text was written by this class alone; see the module docstring.
        exec(code, self.namespace)  # noqa: S102

    def constant(self, value: Any) -> str:
        name = f"C{len(self.namespace)}"
        self.namespace[name] = value
        return name

    # --- structs ------------------------------------------------------------------------

    def struct(self, name: str, fields: tuple[Field, ...]) -> int:
        """Emit both functions of a struct, inner structs first; return its number."""
        inner = {f.name: self.struct(f.kind, f.fields) for f in fields if f.fields is not None}
        number = self.structs
        self.structs += 1
        present = [f for f in fields if self.version in f.versions]
        plain = [f for f in present if self.version not in f.tagged]
        tagged = sorted(
            (f for f in present if self.flexible and self.version in f.tagged),
            key=lambda f: f.tag,
        )
        absent = [f for f in fields if self.version not in f.versions]
        known = self.constant(frozenset(f.name for f in fields))
        for field in tagged:
            if field.fields is not None and not field.array:
                self.default_bytes(field, inner[field.name])
        self.emit(0, f"def e{number}(out, body):")
        self.emit(1, f"if type(body) is not dict or not {known}.issuperset(body):")
        self.emit(2, f"unknown_fields({name!r}, {known}, body)")
        self.emit(1, "get = body.get")
        for field in (f for f in absent if f.strict):
            self.emit(1, f"if get({field.name!r}, {field.default!r}) != {field.default!r}:")
            self.emit(2, f"refuse('version {self.version} cannot say {field.name}')")
        for run in _runs(plain):
            if _is_fixed(run[0]):
                self.encode_fixed(run)
            else:
                self.encode(1, run[0], "out", inner.get(run[0].name), self.get(run[0]))
        if self.flexible:
            self.encode_tags(tagged, inner)
        self.emit(0, f"def d{number}(data, pos, end, room):")
        for run in _runs(plain):
            if _is_fixed(run[0]):
                self.decode_fixed(run)
            else:
                self.decode(1, run[0], inner.get(run[0].name))
        if self.flexible:
            self.decode_tags(tagged, inner)
        untold = {f.name for f in absent}
        items = ", ".join(
            f"{f.name!r}: {self.fresh(f, inner) if f.name in untold else 'v_' + f.name}"
            for f in fields
        )
        self.emit(1, f"return {{{items}}}, pos")
        self.fresh_function(number, fields, inner)
        return number

    def fresh_function(self, number: int, fields: tuple[Field, ...], inner: dict[str, int]) -> None:
        items = ", ".join(f"{f.name!r}: {self.fresh(f, inner)}" for f in fields)
        self.emit(0, f"def f{number}():")
        self.emit(1, f"return {{{items}}}")

    def fresh(self, field: Field, inner: dict[str, int]) -> str:
        """Return an expression for the default of ``field`` in a decoded body."""
        if field.default is None:
            return "None"
        if field.array:
            return "[]"
        return f"f{inner[field.name]}()" if field.fields is not None else repr(field.default)

    def default_bytes(self, field: Field, number: int) -> None:
        self.emit(0, f"D_{number} = bytearray()")
        self.emit(0, f"e{number}(D_{number}, {{}})")

    def emit(self, depth: int, line: str) -> None:
        self.lines.append("    " * depth + line)

    def get(self, field: Field) -> str:
        if field.default is None:
            return f"get({field.name!r})"
        default = self.constant(field.default) if field.fields else repr(field.default)
        return f"get({field.name!r}, {default})"

    # --- encoding -----------------------------------------------------------------------

    def encode_fixed(self, run: list[Field]) -> None:
        pack = self.constant(Struct(">" + "".join(_FIXED[f.kind] for f in run)).pack)
        present, values = [], []
        for field in run:
            here, value = f"body[{field.name!r}]", self.get(field)
            if field.kind == "uuid":
                self.emit(1, f"v_{field.name} = {value}")
                self.check_uuid(1, field, f"v_{field.name}")
                here = value = f"v_{field.name}"
            present.append(here)
            values.append(value)
        # Nearly always all fields are present, and then this is faster.
        self.emit(1, f"try: out += {pack}({', '.join(present)})")
        self.emit(1, f"except KeyError: out += {pack}({', '.join(values)})")

    def check_uuid(self, depth: int, field: Field, value: str) -> None:
        # struct's "16s" pads and cuts silently.
        self.emit(depth, f"if len({value}) != 16: refuse('{field.name} is not 16 bytes')")

    def encode(self, depth: int, field: Field, out: str, inner: int | None, value: str) -> None:
        """Emit code that appends one field, not of fixed size unless tagged, to ``out``."""
        self.emit(depth, f"v = {value}")
        if not field.array and field.kind in _FIXED:
            if field.kind == "uuid":
                self.check_uuid(depth, field, "v")
            self.emit(depth, f"{out} += {self.constant(Struct('>' + _FIXED[field.kind]).pack)}(v)")
            return
        self.emit(depth, "if v is None:")
        if self.version not in field.nullable:
            self.emit(depth + 1, _NULL.format(field.name))
        elif field.fields is not None and not field.array:
            self.emit(depth + 1, f"{out}.append(255)")
        elif self.flexible:
            self.emit(depth + 1, f"{out}.append(0)")
        else:
            short = field.kind == "string" and not field.array
            self.emit(depth + 1, f"{out} += {'I2' if short else 'I4'}.pack(-1)")
        self.emit(depth, "else:")
        self.encode_value(depth + 1, field, out, inner)

    def encode_value(self, depth: int, field: Field, out: str, inner: int | None) -> None:
        if field.array:
            self.encode_length(depth, out, "len(v)", "I4")
            self.encode_items(depth, field, out, inner)
        elif inner is not None:
            if self.version in field.nullable:
                self.emit(depth, f"{out}.append(1)")
            self.emit(depth, f"e{inner}({out}, v)")
        elif field.kind == "string":
            self.encode_string(depth, out)
        else:
            self.encode_length(depth, out, "len(v)", "I4")
            self.emit(depth, f"{out} += v")

    def encode_string(self, depth: int, out: str) -> None:
        self.emit(depth, "v = v.encode()")
        self.encode_length(depth, out, "len(v)", "I2")
        self.emit(depth, f"{out} += v")

    def encode_length(self, depth: int, out: str, length: str, narrow: str) -> None:
        if not self.flexible:
            self.emit(depth, f"{out} += {narrow}.pack({length})")
            return
        self.emit(depth, f"n = {length} + 1")
        self.emit(depth, f"if n < 128: {out}.append(n)")
        self.emit(depth, f"else: put_uvarint({out}, n)")

    def encode_items(self, depth: int, field: Field, out: str, inner: int | None) -> None:
        if inner is not None:
            self.emit(depth, "for x in v:")
            self.emit(depth + 1, f"e{inner}({out}, x)")
        elif field.kind == "string":
            self.emit(depth, "for v in v:")
            self.encode_string(depth + 1, out)
        elif field.kind == "uuid":
            self.emit(depth, "for x in v:")
            self.check_uuid(depth + 1, field, "x")
            self.emit(depth + 1, f"{out} += x")
        else:
            kind = _FIXED[field.kind]
            self.emit(depth, "n = len(v)")
            self.emit(depth, f"if n < {_FEW}: {out} += PACK_{kind}[n](*v)")
            self.emit(depth, f"else: {out} += Struct(f'>{{n}}{kind}').pack(*v)")

    def encode_tags(self, tagged: list[Field], inner: dict[str, int]) -> None:
        if not tagged:
            self.emit(1, "out.append(0)")
            return
        # The number of tagged fields comes first: its byte is written last.
        self.emit(1, "at = len(out); tags = 0; out.append(0)")
        for field in tagged:
            number = inner.get(field.name)
            is_struct = number is not None and not field.array
            self.emit(1, f"w = {self.get(field)}")
            if field.default is None:
                condition = "w is not None"
            elif field.array:
                condition = "w is None or len(w)"
            elif is_struct:
                condition = "w"
            else:
                condition = f"w != {field.default!r}"
            self.emit(1, f"if {condition}:")
            if _is_fixed(field):
                self.encode_fixed_tag(field)
                continue
            self.emit(2, "t = bytearray()")
            self.encode(2, field, "t", number, "w")
            if is_struct:
                self.emit(2, f"if t != D_{number}:")
            depth = 3 if is_struct else 2
            self.emit(depth, f"tags += 1; n = len(t); out += {_uvarint(field.tag)!r}")
            self.emit(depth, "if n < 128: out.append(n)")
            self.emit(depth, "else: put_uvarint(out, n)")
            self.emit(depth, "out += t")
        self.emit(1, "out[at] = tags")

    def encode_fixed_tag(self, field: Field) -> None:
        """Emit code that appends tag, size and value of a field of fixed size."""
        value = Struct(">" + _FIXED[field.kind])
        if field.kind == "uuid":
            self.check_uuid(2, field, "w")
        head = _uvarint(field.tag) + _uvarint(value.size)
        pack = self.constant(Struct(f">{len(head)}s{_FIXED[field.kind]}").pack)
        self.emit(2, f"tags += 1; out += {pack}({head!r}, w)")

    # --- decoding -----------------------------------------------------------------------

    def decode_fixed(self, run: list[Field]) -> None:
        fixed = Struct(">" + "".join(_FIXED[f.kind] for f in run))
        names = "".join(f"v_{f.name}, " for f in run)
        self.emit(1, f"{names}= {self.constant(fixed.unpack_from)}(data, pos)")
        self.emit(1, f"pos += {fixed.size}")

    def decode(self, depth: int, field: Field, inner: int | None) -> None:
        """Emit code that reads one field at ``pos`` into its variable."""
        target = f"v_{field.name}"
        if not field.array and field.kind in _FIXED:
            fixed = Struct(">" + _FIXED[field.kind])
            self.emit(depth, f"{target}, = {self.constant(fixed.unpack_from)}(data, pos)")
            self.emit(depth, f"pos += {fixed.size}")
            return
        nullable = self.version in field.nullable
        if inner is not None and not field.array:
            if nullable:
                self.emit(depth, "pos += 1")
                self.emit(depth, f"if data[pos - 1] > 127: {target} = None")
                self.emit(depth, f"else: {target}, pos = d{inner}(data, pos, end, room)")
            else:
                self.emit(depth, f"{target}, pos = d{inner}(data, pos, end, room)")
            return
        narrow = not field.array and field.kind == "string"
        self.decode_length(depth, "I2" if narrow else "I4", 2 if narrow else 4)
        self.emit(depth, "if n < 0:")
        self.emit(depth + 1, f"{target} = None" if nullable else _NULL.format(field.name))
        self.emit(depth, "else:")
        if field.array:
            least = self.least(field.kind, field.fields)
            self.emit(depth + 1, f"if n > (end - pos) // {least}: {_OUTSIDE}")
            self.emit(depth + 1, "room[0] -= n")
            self.emit(depth + 1, f"if room[0] < 0: {_CROWDED}")
            self.decode_items(depth + 1, field, inner, target)
        else:
            self.decode_text(depth + 1, field, target)

    def decode_length(self, depth: int, narrow: str, size: int) -> None:
        """Emit code that reads a length into ``n``, -1 meaning null."""
        if self.flexible:
            self.emit(depth, "n = data[pos]; pos += 1")
            self.emit(depth, "if n > 127: n, pos = more_uvarint(data, pos, n)")
            self.emit(depth, "n -= 1")
            return
        self.emit(depth, f"n, = {narrow}.unpack_from(data, pos); pos += {size}")
        self.emit(depth, "if n < -1: refuse(f'{n} is not a length')")

    def least(self, kind: str, fields: tuple[Field, ...] | None) -> int:
        """Return the fewest bytes that a value (not null, not an array) can have; at least 1."""
        if fields is None:
            return Struct(">" + _FIXED[kind]).size if kind in _FIXED else 1
        size = int(self.flexible)
        for field in fields:
            if self.version not in field.versions or self.version in field.tagged:
                continue
            alone = not field.array and self.version not in field.nullable
            size += self.least(field.kind, field.fields) if alone else 1
        return max(1, size)

    def decode_text(self, depth: int, field: Field, target: str) -> None:
        self.emit(depth, "to = pos + n")
        self.emit(depth, f"if to > end: {_OUTSIDE}")
        if field.kind == "string" and self.flexible:
            long = f"if n > {_LONGEST_STRING}: refuse(f'a string has {{n}} bytes')"
            self.emit(depth, long)
        text = "str(data[pos:to], 'utf-8')" if field.kind == "string" else "bytes(data[pos:to])"
        self.emit(depth, f"{target} = {text}; pos = to")

    def decode_items(self, depth: int, field: Field, inner: int | None, target: str) -> None:
        if inner is not None:
            self.emit(depth, f"{target} = []")
            self.emit(depth, "for _ in range(n):")
            self.emit(depth + 1, f"x, pos = d{inner}(data, pos, end, room); {target}.append(x)")
        elif field.kind == "string":
            self.emit(depth, f"{target} = []")
            self.emit(depth, "for _ in range(n):")
            self.decode_length(depth + 1, "I2", 2)
            self.emit(depth + 1, f"if n < 0: {_NULL.format(field.name)}")
            self.decode_text(depth + 1, field, "x")
            self.emit(depth + 1, f"{target}.append(x)")
        else:
            size = Struct(">" + _FIXED[field.kind]).size
            self.emit(depth, f"to = pos + n * {size}")
            self.emit(depth, f"if to > end: {_OUTSIDE}")
            if field.kind == "uuid":
                items = "[bytes(data[i:i + 16]) for i in range(pos, to, 16)]"
            else:
                kind = _FIXED[field.kind]
                self.emit(depth, f"if n < {_FEW}: {target} = list(UNPACK_{kind}[n](data, pos))")
                self.emit(depth, f"else: {target} = list(unpack_from(f'>{{n}}{kind}', data, pos))")
                self.emit(depth, "pos = to")
                return
            self.emit(depth, f"{target} = {items}; pos = to")

    def decode_tags(self, tagged: list[Field], inner: dict[str, int]) -> None:
        for field in tagged:
            self.emit(1, f"v_{field.name} = {self.fresh(field, inner)}")
        self.emit(1, "count = data[pos]; pos += 1")
        self.emit(1, "if count:")
        self.emit(2, "if count > 127: count, pos = more_uvarint(data, pos, count)")
        self.emit(2, "room[0] -= count")
        self.emit(2, f"if room[0] < 0: {_CROWDED}")
        if not tagged:
            self.emit(2, "pos = skip_tags(data, pos, end, count)")
            return
        self.emit(2, "whole = end")
        self.emit(2, "for _ in range(count):")
        for value in ("tag", "size"):
            self.emit(3, f"{value} = data[pos]; pos += 1")
            self.emit(3, f"if {value} > 127: {value}, pos = more_uvarint(data, pos, {value})")
        self.emit(3, "end = stop = pos + size")
        self.emit(3, f"if stop > whole: {_OUTSIDE}")
        keyword = "if"
        for field in tagged:
            self.emit(3, f"{keyword} tag == {field.tag}:")
            self.decode(4, field, inner.get(field.name))
            self.emit(4, f"if pos != stop: refuse('{field.name} does not fill its tag')")
            keyword = "elif"
        self.emit(3, "pos = stop")


def _is_fixed(field: Field) -> bool:
    return not field.array and field.kind in _FIXED


def _uvarint(value: int) -> bytes:
    out = bytearray()
    primitives.put_uvarint(out, value)
    return bytes(out)


def _runs(fields: list[Field]) -> list[list[Field]]:
    """Group neighbours of fixed size; any other field is a group by itself."""
    runs: list[list[Field]] = []
    for field in fields:
        if runs and _is_fixed(field) and _is_fixed(runs[-1][0]):
            runs[-1].append(field)
        else:
            runs.append([field])
    return runs
