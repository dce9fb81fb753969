"""Launch geometry and attributes: checked Python values to IR operands."""

from __future__ import annotations

import operator
from typing import Any

from flydsl.control.state import is_dynamic
from flydsl.tracing.diagnostics import DSLTypeError, fail
from flydsl.tracing.numbers import number_of

MAX_THREADS = 1024
_AXES = "xyz"
_INT32_MAX = 2**31 - 1


def to_attribute(key: str, value: Any) -> Any:
    """The MLIR attribute of a ``unit_attrs``/``value_attrs`` entry; TypeError names the key."""
    from flydsl._mlir import ir

    if isinstance(value, ir.Attribute):
        return value
    if isinstance(value, bool):
        return ir.BoolAttr.get(value)
    if isinstance(value, int):
        return ir.IntegerAttr.get(ir.IntegerType.get_signless(32), value)
    if isinstance(value, str):
        return ir.StringAttr.get(value)
    if isinstance(value, dict):
        return ir.DictAttr.get({k: to_attribute(f"{key}.{k}", v) for k, v in value.items() if v is not None})
    if isinstance(value, (list, tuple)):
        return ir.ArrayAttr.get([to_attribute(key, v) for v in value])
    raise TypeError(f"value_attrs[{key!r}]: no attribute for {type(value).__name__}")


def attribute_dict(unit_attrs: Any, value_attrs: Any) -> dict[str, Any]:
    """Attributes of a launch or a kernel call."""
    from flydsl._mlir import ir

    attributes = {name: ir.UnitAttr.get() for name in unit_attrs or ()}
    for key, value in (value_attrs or {}).items():
        if value is not None:
            attributes[key] = to_attribute(key, value)
    return attributes


def static_int(value: Any) -> int | None:
    """The Python int of a static number (NumPy's are, too), else None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if type(value).__module__ == "numpy" and getattr(getattr(value, "dtype", None), "kind", "") in ("i", "u"):
        return operator.index(value)
    inner = getattr(value, "value", None)
    return inner if isinstance(inner, int) and not isinstance(inner, bool) else None


def validate_block_size(size: Any, what: str = "known_block_size") -> tuple[int, int, int] | None:
    """A declared block size as three ints.

    Raises:
        TypeError: not a sequence, or an element that is not an int. ValueError: wrong length or not positive.
    """
    if size is None:
        return None
    if isinstance(size, (str, bytes)) or not isinstance(size, (list, tuple)):
        raise TypeError(f"{what} must be a sequence of 3 positive integers, got {type(size).__name__}")
    if len(size) != 3:
        raise ValueError(f"{what} must have exactly 3 elements, got {len(size)}")
    out = []
    for axis, item in zip(_AXES, size, strict=True):
        number = static_int(item)
        if number is None:
            raise TypeError(f"{what}.{axis} must be an int, got {type(item).__name__}")
        if number <= 0:
            raise ValueError(f"{what}.{axis} must be positive, got {number}")
        out.append(number)
    return out[0], out[1], out[2]


def dims(value: Any, what: str, kernel: str) -> list[Any]:
    """``grid``/``block``/``cluster`` as three entries, missing ones 1; checks static values."""
    entries = [number_of(entry) for entry in (value if isinstance(value, (tuple, list)) else [value])]
    if not 1 <= len(entries) <= 3:
        fail(f"{kernel}: {what} takes 1 to 3 dimensions, got {len(entries)}")
    for axis, entry in zip(_AXES, entries, strict=False):
        number = static_int(entry)
        if number is None and not is_dynamic(entry):
            fail(f"{kernel}: {what}.{axis} must be an integer, got {type(entry).__name__}", DSLTypeError)
        if number is None and getattr(type(entry), "is_integer", True) is False:
            fail(f"{kernel}: {what}.{axis} must be an integer, got a {type(entry).__name__}: divide by // or by "
                 "fx.ceildiv", DSLTypeError)
        if number is not None and (number < 0 or number == 0 and what != "grid"):
            fail(f"{kernel}: {what}.{axis} must be positive, got {number}")
        if number is not None and number > _INT32_MAX:
            fail(f"{kernel}: {what}.{axis} must be at most 2^31 - 1, got {number}")
    return entries + [1] * (3 - len(entries))


def check_cluster(cluster: list[Any], compiled: Any, kernel: str) -> None:
    """A launch takes the cluster that its kernel is compiled for, ``rocdl.cluster_dims``, if that is given."""
    if not isinstance(compiled, str):
        return
    for axis, entry, want in zip(_AXES, cluster, compiled.split(","), strict=False):
        have = static_int(entry)
        if have is not None and str(have) != want.strip():
            fail(f"{kernel}: cluster.{axis} = {have} of the launch differs from rocdl.cluster_dims = {compiled!r}, "
                 "which the kernel is compiled for")


def resolve_block(block: list[Any], declared: tuple[int, int, int] | None, kernel: str) -> tuple[int, int, int] | None:
    """The compile-time block size of a launch: the declared one, else the launch's if it is static."""
    static = [static_int(b) for b in block]
    size = declared
    if declared is not None:
        for axis, have, want in zip(_AXES, static, declared, strict=True):
            if have is not None and have != want:
                raise ValueError(f"{kernel}: block.{axis} = {have} differs from known_block_size.{axis} = {want}")
    elif all(s is not None for s in static):
        size = (static[0], static[1], static[2])  # type: ignore[assignment]
    if size is not None and size[0] * size[1] * size[2] > MAX_THREADS:
        fail(
            f"{kernel}: a block of {size[0]}x{size[1]}x{size[2]} = {size[0] * size[1] * size[2]} threads exceeds the "
            f"limit of {MAX_THREADS}"
        )
    return size


def to_index(value: Any) -> Any:
    """An `index` operand of a dimension."""
    from flydsl._mlir import ir

    index = ir.IndexType.get()
    number = static_int(value)
    if number is not None:
        attribute = ir.IntegerAttr.get(index, number)
        return ir.Operation.create("arith.constant", results=[index], attributes={"value": attribute}).result
    operand = value if isinstance(value, ir.Value) else value.value
    if isinstance(operand.type, ir.IndexType):
        return operand
    unsigned = getattr(type(value), "signed", getattr(value, "signed", None)) is False
    cast = "arith.index_castui" if unsigned else "arith.index_cast"
    return ir.Operation.create(cast, results=[index], operands=[operand]).result


def check_smem(value: Any, kernel: str) -> None:
    """An error unless a dynamic LDS size is an integer that is, where it is known, in range."""
    number = static_int(value)
    if number is None and not is_dynamic(value):
        fail(f"{kernel}: smem must be an integer (bytes), got {type(value).__name__}", DSLTypeError)
    if number is not None and not 0 <= number <= _INT32_MAX:
        fail(f"{kernel}: smem={number} bytes is out of range (0 .. 2^31 - 1)")


def to_i32(value: Any) -> Any:
    """An `i32` operand for the dynamic LDS size; a wider one is checked at the launch."""
    from flydsl._mlir import ir

    i32 = ir.IntegerType.get_signless(32)
    number = static_int(value)
    if number is not None:
        return ir.Operation.create(
            "arith.constant", results=[i32], attributes={"value": ir.IntegerAttr.get(i32, number)}
        ).result
    operand = value if isinstance(value, ir.Value) else value.value
    if operand.type == i32:
        return operand
    if isinstance(operand.type, ir.IntegerType) and operand.type.width < 32:
        signed = getattr(type(value), "signed", getattr(value, "signed", None)) is not False
        extend = "arith.extsi" if signed and operand.type.width > 1 else "arith.extui"
        return ir.Operation.create(extend, results=[i32], operands=[operand]).result
    bound = ir.Operation.create(
        "arith.constant", results=[operand.type], attributes={"value": ir.IntegerAttr.get(operand.type, _INT32_MAX)}
    ).result
    unsigned_at_most = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 7)
    fits = ir.Operation.create("arith.cmpi", results=[ir.IntegerType.get_signless(1)], operands=[operand, bound],
                               attributes={"predicate": unsigned_at_most}).result
    message = ir.StringAttr.get("the dynamic LDS size (smem=) is out of range (0 .. 2^31 - 1 bytes)")
    ir.Operation.create("cf.assert", operands=[fits], attributes={"msg": message})
    name = "arith.index_cast" if isinstance(operand.type, ir.IndexType) else "arith.trunci"
    return ir.Operation.create(name, results=[i32], operands=[operand]).result


def emit_launch(
    symbol: str,
    grid: list[Any],
    block: list[Any],
    operands: list[Any],
    *,
    smem: Any,
    stream: Any,
    cluster: Any,
    attributes: dict[str, Any],
) -> Any:
    """A ``gpu.launch_func`` of ``@kernels::@symbol`` at the insertion point."""
    from flydsl._mlir import ir

    dependencies = [] if stream is None else [stream]
    clusters = [] if cluster is None else [to_index(c) for c in cluster]
    sizes = [to_index(v) for v in (*grid, *block)]
    shared = [] if smem is None or static_int(smem) == 0 else [to_i32(smem)]
    # asyncDependencies, grid xyz, block xyz, cluster xyz, dynamicSharedMemorySize, kernelOperands, asyncObject
    segments = [len(dependencies), 1, 1, 1, 1, 1, 1, *([1 if clusters else 0] * 3), len(shared), len(operands), 0]
    kernel = ir.SymbolRefAttr.get(["kernels", symbol])
    results = [ir.Type.parse("!gpu.async.token")] if dependencies else []
    return ir.Operation.create(
        "gpu.launch_func", results=results, operands=[*dependencies, *sizes, *clusters, *shared, *operands],
        attributes={"kernel": kernel, "operandSegmentSizes": ir.DenseI32ArrayAttr.get(segments),
        **attributes})
