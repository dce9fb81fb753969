"""Launch arguments: what of a Python object enters the type, the key and the launch plan."""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

# At import rather than in the first call, whose latency is a budget.
from flydsl.runtime.launching import reserve_type
from flydsl.runtime.memory import describe_tensor, export_once
from flydsl.runtime.plan import MAX_RANK, TensorArgument
from flydsl.tracing.diagnostics import warn_annotation_value_mismatch

from .container_argument import NoArg, make_container
from .signature import Parameters, class_refusal, is_compile_time, is_number_for_tensor, is_type_param_annotation

__all__ = [
    "DLTensorJitArg", "JitArgumentRegistry", "MemRefJitArg", "MemRefSpec", "PointerJitArg", "TorchTensorJitArg",
    "convert_to_jit_arguments", "from_c_void_p", "from_dlpack", "from_torch_tensor", "is_type_param_annotation",
    "resolve_signature", "torch_dtype_to_mlir_type",
]

# Spelling of the runtime -> (MLIR type, bits).
_DTYPES = {
    "f16": ("f16", 16), "bf16": ("bf16", 16), "f32": ("f32", 32), "f64": ("f64", 64), "i1": ("i1", 1),
    "bool": ("i1", 8),
    "i8": ("i8", 8), "i16": ("i16", 16), "i32": ("i32", 32), "i64": ("i64", 64), "u8": ("i8", 8), "u16": ("i16", 16),
    "u32": ("i32", 32), "u64": ("i64", 64), "f8E5M2": ("f8E5M2", 8), "f8E4M3FN": ("f8E4M3FN", 8),
    "f8E5M2FNUZ": ("f8E5M2FNUZ", 8), "f8E4M3FNUZ": ("f8E4M3FNUZ", 8), "f8E4M3B11FNUZ": ("f8E4M3B11FNUZ", 8),
}


def dtype_bits(dtype: str) -> int:
    """Storage bits of an element. TypeError for a dtype that no kernel can take."""
    if dtype not in _DTYPES:
        raise TypeError(f"tensors of dtype {dtype} cannot be kernel arguments; supported: {', '.join(_DTYPES)}")
    return _DTYPES[dtype][1]


def torch_dtype_to_mlir_type(dtype: Any) -> Any:
    """The MLIR element type of a torch dtype (needs a current context)."""
    from flydsl._mlir import ir

    names = {
        "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64", "bool": "i1", "uint8": "i8",
        "int8": "i8",
        "int16": "i16", "int32": "i32", "int64": "i64", "float8_e5m2": "f8E5M2", "float8_e4m3fn": "f8E4M3FN",
        "float8_e5m2fnuz": "f8E5M2FNUZ", "float8_e4m3fnuz": "f8E4M3FNUZ",
    }
    name = str(dtype).rpartition(".")[2]
    if name not in names:
        raise TypeError(f"torch dtype {dtype} cannot be a kernel argument")
    return ir.Type.parse(names[name])


@dataclass(frozen=True)
class MemRefSpec:
    """Encoded layout of a tensor: an entry >= 0 is static, ``-d`` is dynamic with divisibility ``d``."""

    dtype: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    alignment: int
    use_32bit_stride: bool


_interned: dict[Any, Any] = {}


def _power_of_two(value: int) -> bool:
    return isinstance(value, int) and value > 0 and value & (value - 1) == 0


def _checked_alignment(assumed: int | None, element_bytes: int) -> int:
    """The alignment in bytes that the compiler may rely on; the element's if nothing more is ``assumed``."""
    if assumed is None:
        return element_bytes
    if isinstance(assumed, bool) or not hasattr(assumed, "__index__"):
        raise TypeError(f"assumed_align must be a number of bytes, got {assumed!r}")
    alignment = operator.index(assumed)
    if alignment <= 0 or alignment % element_bytes:
        raise ValueError(
            f"assumed_align must be a positive multiple of the element size of {element_bytes} bytes, got {alignment}"
        )
    return alignment


class MemRefJitArg:
    """A tensor argument: element type, encoded extents and strides, alignment.

    Args:
        tensor: NumPy array, torch tensor, or any object with ``__dlpack__``.
        assumed_align: alignment promised to the compiler, in bytes; default: the element's.
        use_32bit_stride: dynamic strides are i32 instead of i64.
        dynamic_layout: all extents and all strides but the leading one dynamic.
    """

    def __init__(
        self,
        tensor: Any,
        assumed_align: int | None = None,
        use_32bit_stride: bool = False,
        dynamic_layout: bool = False,
    ) -> None:
        self.tensor = tensor
        self._exported = export_once(tensor)
        info = _describe(self._exported)
        self.dtype, self.real_shape, self.real_stride = info[0], tuple(info[1]), tuple(info[2])
        if len(self.real_shape) > MAX_RANK:
            raise ValueError(f"a kernel takes tensors of rank 1 to {MAX_RANK}, got rank {len(self.real_shape)}")
        if not self.real_shape:
            raise ValueError(
                "zero-dimensional tensors cannot be kernel arguments; pass a scalar or a tensor of shape (1,)"
            )
        self.alignment = _checked_alignment(assumed_align, max(1, dtype_bits(self.dtype) // 8))
        self.use_32bit_stride = use_32bit_stride
        self._runtime_key: Any = None
        self._shape, self._stride = list(self.real_shape), list(self.real_stride)
        if dynamic_layout:
            if self._leading() is None:
                # Views like X[:, 1], and empty arrays: no stride is known to be 1.
                axes = list(range(len(self.real_shape)))
                self.mark_shape_dynamic(axes).mark_stride_dynamic(axes)
            else:
                self.mark_layout_dynamic()

    # ---- marks

    def mark_layout_dynamic(self, leading_dim: int | None = None, divisibility: int = 1) -> MemRefJitArg:
        """All extents dynamic, all strides but the leading one dynamic with ``divisibility``."""
        rank = len(self._shape)
        if leading_dim is None:
            leading_dim = self._leading()
            if leading_dim is None:
                raise RuntimeError(f"no axis of the tensor has stride 1 (strides {self.real_stride})")
        leading_dim = self._axis(leading_dim)
        if self.real_stride[leading_dim] != 1 and self.real_shape[leading_dim] != 1:
            raise RuntimeError(f"leading_dim {leading_dim} has stride {self.real_stride[leading_dim]}, not 1")
        self.mark_shape_dynamic(list(range(rank)))
        others = [d for d in range(rank) if d != leading_dim]
        self._stride[leading_dim] = 1
        return self.mark_stride_dynamic(others, divisibility) if others else self

    def mark_shape_dynamic(self, dims: int | list[int], divisibility: int | list[int] = 1) -> MemRefJitArg:
        """These extents dynamic, with a promised divisibility (a power of two)."""
        self._mark(self._shape, dims, divisibility)
        return self

    def mark_stride_dynamic(self, dims: int | list[int], divisibility: int | list[int] = 1) -> MemRefJitArg:
        """These strides dynamic, with a promised divisibility (a power of two)."""
        self._mark(self._stride, dims, divisibility)
        return self

    def _leading(self) -> int | None:
        """The lowest axis with stride 1, else the lowest of extent 1, whose stride no access depends on."""
        if 1 in self.real_stride:
            return self.real_stride.index(1)
        return self.real_shape.index(1) if 1 in self.real_shape else None

    def _axis(self, dim: int) -> int:
        rank = len(self._shape)
        if not -rank <= dim < rank:
            raise ValueError(f"dimension {dim} is out of range for a tensor of rank {rank}")
        return dim % rank

    def _mark(self, target: list[int], dims: int | list[int], divisibility: int | list[int]) -> None:
        if isinstance(dims, int):
            if not isinstance(divisibility, int):
                raise ValueError("divisibility must be an int when dims is an int")
            dims = [dims]
        factors = [divisibility] * len(dims) if isinstance(divisibility, int) else list(divisibility)
        if len(factors) != len(dims):
            raise ValueError(f"dims and divisibility must have equal length, got {len(dims)} and {len(factors)}")
        self._runtime_key = None
        for dim, factor in zip(dims, factors, strict=True):
            if not _power_of_two(factor):
                raise ValueError(f"divisibility must be a power of two, got {factor}")
            target[self._axis(dim)] = -factor

    # ---- protocol

    #: What the launcher reads.
    __flydsl_runtime_arg__ = property(operator.attrgetter("_exported"))

    @property
    def __flydsl_runtime_key__(self) -> Any:
        """One object for each signature: wrappers with the same one share a specialisation."""
        if self._runtime_key is None:
            signature = self.__cache_signature__()
            self._runtime_key = _interned.setdefault(signature, signature)
        return self._runtime_key

    @property
    def spec(self) -> MemRefSpec:
        return MemRefSpec(self.dtype, tuple(self._shape), tuple(self._stride), self.alignment, self.use_32bit_stride)

    def element_type(self) -> Any:
        from flydsl._mlir import ir

        return ir.Type.parse(_DTYPES[self.dtype][0])

    @property
    def element_class(self) -> Any:
        """Numeric class of unsigned elements, which the signless type does not tell; None for others."""
        from flydsl.expr import numeric

        return getattr(numeric, f"Uint{self.dtype[1:]}") if self.dtype[0] == "u" else None

    def __get_ir_types__(self) -> list[Any]:
        from flydsl._mlir.dialects import fly

        spec = self.spec
        return [
            fly.MemRefType.get(
                self.element_type(), list(spec.shape), list(spec.stride), spec.use_32bit_stride, spec.alignment
            )
        ]

    def __cache_signature__(self) -> object:
        spec = self.spec
        return ("memref", spec.dtype, spec.alignment, spec.use_32bit_stride, spec.shape, spec.stride)

    def plan_entry(self, name: str) -> dict[str, Any]:
        """The argument's entry in the launch plan."""
        spec = self.spec
        return TensorArgument(
            name, spec.dtype, tuple(s if s >= 0 else None for s in spec.shape),
            tuple(s if s >= 0 else None for s in spec.stride), spec.alignment,
            tuple(-s if s < 0 else 1 for s in spec.shape), tuple(-s if s < 0 else 1 for s in spec.stride),
            32 if spec.use_32bit_stride else 64,
        ).entry()

    def __c_abi_spec__(self) -> list[tuple[Any, Any]]:
        def fill(argument: Any, slot: Any) -> None:
            slot.value = _describe(getattr(argument, "_exported", argument))[3]

        return [(ctypes.c_void_p, fill)]


def _describe(tensor: Any) -> tuple[Any, ...]:
    info = describe_tensor(tensor)
    if info is None:
        raise TypeError(f"{type(tensor).__name__} is not a tensor: it has no __dlpack__")
    return info


class DLTensorJitArg(MemRefJitArg):
    """Any DLPack producer, with a static layout unless marked."""


class TorchTensorJitArg(MemRefJitArg):
    """A torch tensor; layout-dynamic unless asked otherwise."""

    def __init__(
        self, tensor: Any, assumed_align: int | None = None, use_32bit_stride: bool = False, dynamic_layout: bool = True
    ) -> None:
        super().__init__(tensor, assumed_align, use_32bit_stride, dynamic_layout)


def _address(pointer: Any) -> int | None:
    """The number of an address; None is the null pointer."""
    value = pointer.value if isinstance(pointer, ctypes.c_void_p) else pointer
    if value is None:
        return None
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"an address must be an int, a ctypes.c_void_p or None, got {pointer!r:.60}")
    number = operator.index(value)
    if not 0 <= number < 1 << 64:
        raise ValueError(f"an address has 64 bits, got {number}")
    return number


class PointerJitArg:
    """A raw address with an element type."""

    def __init__(
        self, element_type: Any, pointer: Any, address_space: Any = None, assumed_align: int | None = None
    ) -> None:
        self.element_type: Any = element_type
        width = getattr(element_type, "width", None) if isinstance(element_type, type) else None
        if not isinstance(width, int):
            raise TypeError(f"the element type of a pointer must be a numeric class, for example fx.Float32, "
                            f"got {element_type!r}")
        self.pointer = _address(pointer)
        self.address_space = address_space
        self.alignment = _checked_alignment(assumed_align, -(-width // 8))

    @property
    def element_class(self) -> Any:
        """Numeric class of the element."""
        return self.element_type

    @property
    def __flydsl_runtime_arg__(self) -> Any:
        """What the launcher reads."""
        return self.pointer or 0

    @property
    def __flydsl_runtime_key__(self) -> Any:
        """One object for each signature."""
        signature = self.__cache_signature__()
        return _interned.setdefault(signature, signature)

    def __get_ir_types__(self) -> list[Any]:
        from flydsl._mlir.dialects import fly

        space = fly.AddressSpace.Global if self.address_space is None else self.address_space
        return [fly.PointerType.get(self.element_type.ir_type, space, self.alignment)]

    def __cache_signature__(self) -> object:
        return (
            "pointer",
            getattr(self.element_type, "__name__", str(self.element_type)),
            str(self.address_space),
            self.alignment,
        )

    def plan_entry(self, name: str) -> dict[str, Any]:
        """The argument's entry in the launch plan."""
        return {"kind": "pointer", "name": name, "align": self.alignment}

    def __c_abi_spec__(self) -> list[tuple[Any, Any]]:
        def fill(argument: Any, slot: Any) -> None:
            value = argument.pointer if isinstance(argument, PointerJitArg) else argument
            slot.value = value.value if isinstance(value, ctypes.c_void_p) else value

        return [(ctypes.c_void_p, fill)]


def from_dlpack(tensor: Any, *, assumed_align: int | None = None, use_32bit_stride: bool = False) -> DLTensorJitArg:
    """Wrap a DLPack producer as an argument with a fully static layout."""
    return DLTensorJitArg(tensor, assumed_align, use_32bit_stride)


def from_torch_tensor(
    tensor: Any, *, assumed_align: int | None = None, use_32bit_stride: bool = False
) -> TorchTensorJitArg:
    """Wrap a torch tensor as an argument with a fully static layout."""
    return TorchTensorJitArg(tensor, assumed_align, use_32bit_stride, dynamic_layout=False)


def from_c_void_p(
    element_type: Any, pointer: Any, *, address_space: Any = None, assumed_align: int | None = None
) -> PointerJitArg:
    """Wrap a raw address (int, ``ctypes.c_void_p`` or None) as a pointer argument; global memory by default."""
    return PointerJitArg(element_type, pointer, address_space, assumed_align)


class JitArgumentRegistry:
    """Which constructor turns a Python type into an argument, and its type while tracing."""

    _by_type: dict[type, tuple[Any, Any]] = {}
    _dsl_types: dict[type, Any] = {}

    @classmethod
    def register(cls, py_type: type, *, dsl_type: Any = None) -> Callable[[Any], Any]:
        """Decorator of an argument class for ``py_type``."""

        def decorate(constructor: Any) -> Any:
            kind = dsl_type
            if kind is None:
                if not hasattr(constructor, "__construct_from_ir_values__"):
                    raise ValueError(f"{constructor.__name__}: dsl_type is required, the class is no DslType itself")
                kind = constructor
            if py_type in cls._by_type or _builtin_registration(py_type) is not None:
                raise ValueError(f"{py_type.__name__} is already registered")
            cls._by_type[py_type] = (constructor, kind)
            reserve_type(py_type)
            cls._dsl_types.setdefault(constructor, kind)
            return constructor

        return decorate

    @classmethod
    def register_jit_arg(cls, jit_arg_class: type, dsl_type: Any) -> None:
        """Register a wrapper that users construct themselves."""
        cls._dsl_types[jit_arg_class] = dsl_type

    @classmethod
    def get(cls, py_type: type) -> tuple[Any, Any]:
        """(constructor, DSL type) for the exact type or the first registered base; ``(None, None)`` without one."""
        for base in py_type.__mro__:
            if base in cls._by_type:
                return cls._by_type[base]
            builtin = _builtin_registration(base)
            if builtin is not None:
                return builtin
        return None, None

    @classmethod
    def get_dsl_type(cls, jit_arg_class: type) -> Any:
        """The type an argument of this class has while tracing, or None."""
        for base in jit_arg_class.__mro__:
            if base in cls._dsl_types:
                return cls._dsl_types[base]
        if issubclass(jit_arg_class, MemRefJitArg):
            from flydsl.expr.values.tensor import Tensor

            return Tensor
        if issubclass(jit_arg_class, PointerJitArg):
            from flydsl.expr.values.tensor import Pointer

            return Pointer
        return None


def _builtin_registration(py_type: type) -> tuple[Any, Any] | None:
    """(constructor, DSL type) of the types that are arguments without being registered; torch is not imported."""
    module, name = py_type.__module__, py_type.__name__
    if module == "builtins" and name in ("bool", "int", "float"):
        from flydsl.expr import numeric

        kind = {"bool": numeric.Boolean, "int": numeric.Int32, "float": numeric.Float32}[name]
        return kind, kind
    if module.partition(".")[0] != "torch":
        return None
    if name == "Tensor" and module == "torch":
        from flydsl.expr.values.tensor import Tensor

        return TorchTensorJitArg, Tensor
    if name == "Stream" and module.startswith("torch.cuda"):
        from flydsl.expr.values.params import Stream

        return Stream, Stream
    return None


def _check_scalar(name: str, annotation: Any, value: Any) -> None:
    """Range and kind of a Python number for a numeric annotation (or the default type of the number)."""
    from flydsl.expr._number_protocol import misfit

    error = misfit(annotation, value)
    if error is not None:
        raise type(error)(f"argument {name!r}: {error}")


def is_tensor(value: Any) -> bool:
    """Whether a launch reads the value as a tensor: by DLPack, or by the attributes of torch tensors (DeviceArray)."""
    return hasattr(value, "__dlpack__") or all(hasattr(value, name) for name in ("data_ptr", "stride", "get_device"))


def _tensor_argument(name: str, constructor: type[MemRefJitArg], value: Any, function: str) -> MemRefJitArg:
    """The layout-dynamic argument of a tensor; errors name function and argument and keep their cause."""
    try:
        return constructor(value, dynamic_layout=True)
    except (TypeError, ValueError, BufferError, RuntimeError) as error:
        # Some libraries put a C++ back trace behind the first line; the cause keeps it.
        text = str(error).partition("\n")[0]
        kind = type(error) if type(error) in (TypeError, ValueError) else TypeError
        raise kind(f"{function}: argument {name!r}: {text}") from error


def _refuse_numbers(name: str, annotation: Any, value: Any, function: str) -> None:
    """TypeError for a number, or a sequence of numbers, where the parameter is declared a tensor."""
    if is_number_for_tensor(annotation, type(value)) and not hasattr(value, "__dlpack__"):
        raise TypeError(f"{function}: argument {name!r} is declared {annotation.__name__}, got {value!r} of type "
                        f"{type(value).__name__}; pass an array (NumPy, torch, DLPack)")
    first = next(iter(value), None) if type(value) in (list, tuple) else None
    if first is not None and is_number_for_tensor(annotation, type(first)) and not hasattr(first, "__dlpack__"):
        raise TypeError(f"{function}: argument {name!r} is declared {annotation.__name__}, got a "
                        f"{type(value).__name__} of numbers; pass an array (np.array(...))")


def _of_annotation(name: str, annotation: Any, value: Any, function: str) -> Any:
    """The value as the declared class, which is a launch argument."""
    _check_scalar(name, annotation, value)
    try:
        return annotation(value)
    except (TypeError, ValueError) as error:
        if value is None:
            raise TypeError(f"{function}: argument {name!r}: expected a {annotation.__name__}, got None") from None
        raise TypeError(
            f"{function}: argument {name!r}: cannot make {annotation.__name__} from {value!r}: {error}"
        ) from None


def _of_registered(name: str, constructor: Any, value: Any, function: str) -> Any:
    """The value as the argument class that is registered for its type."""
    if type(value) in (bool, int, float):
        _check_scalar(name, constructor, value)
    if constructor is TorchTensorJitArg:
        return _tensor_argument(name, constructor, value, function)
    return constructor(value)


def _of_protocol(name: str, value: Any, function: str) -> Any:
    """The argument of a stream, tensor, None or container, by what the object can do; TypeError for all else."""
    if hasattr(value, "cuda_stream"):
        from flydsl.expr.values.params import Stream

        return Stream(value)
    if is_tensor(value) or hasattr(value, "__array_interface__"):
        return _tensor_argument(name, MemRefJitArg, value, function)
    if value is None:
        return NoArg()
    container = make_container(value, lambda key, part: resolve_argument(f"{name}[{key!r}]", None, part, function),
                               dsl_type_of)
    if container is not None:
        return container
    if isinstance(value, type):
        raise TypeError(f"{function}: {class_refusal(name, value)}")
    raise TypeError(f"{function}: argument {name!r} of type {type(value).__name__} cannot be passed to a kernel: "
                    "expected a tensor (NumPy, torch, DLPack), a number, a stream or a registered argument type")


def _is_numpy_scalar(value: Any) -> bool:
    return hasattr(value, "__array_interface__") and not hasattr(value, "__dlpack__") and hasattr(value, "item")


def resolve_argument(name: str, annotation: Any, value: Any, function: str = "") -> Any:
    """The launch argument object of one runtime value.

    Asked in this order: the value itself, the annotation, what is registered for its type, what it can do.

    Raises:
        TypeError: nothing turns this value into an argument; names parameter and type.
    """
    _refuse_numbers(name, annotation, value, function)
    if getattr(value, "__cache_signature__", None) is not None and not isinstance(value, type):
        if annotation is not None:
            actual = JitArgumentRegistry.get_dsl_type(type(value)) or type(value)
            warn_annotation_value_mismatch(function, name, annotation, actual)
        return value
    protocol = ("__c_abi_spec__", "__cache_signature__")
    if isinstance(annotation, type) and all(hasattr(annotation, attribute) for attribute in protocol):
        return _of_annotation(name, annotation, value, function)
    constructor, _ = JitArgumentRegistry.get(type(value))
    if constructor is not None:
        return _of_registered(name, constructor, value, function)
    if _is_numpy_scalar(value):  # it stands for the Python number in it
        return resolve_argument(name, annotation, value.item(), function)
    return _of_protocol(name, value, function)


def resolve_parameter(parameters: Parameters, name: str, value: Any) -> Any:
    """The launch argument object of what a call has for a runtime parameter. TypeError as of `resolve_argument`."""
    annotation, function = parameters.annotations.get(name), parameters.function_name
    if name not in parameters.variadic:
        return resolve_argument(name, annotation, value, function)
    return make_container(value, lambda key, part: resolve_argument(f"{name}[{key!r}]", annotation, part, function),
                          dsl_type_of)


def dsl_type_of(argument: Any) -> Any:
    """The class that the argument has while tracing."""
    if hasattr(type(argument), "__construct_from_ir_values__"):
        return type(argument)
    found = JitArgumentRegistry.get_dsl_type(type(argument))
    if found is not None:
        return found
    raise TypeError(f"no DSL type is registered for {type(argument).__name__}")


def resolve_signature(function: Callable[..., Any]) -> Parameters:
    """Parameters of a function with resolved annotations."""
    return Parameters(function)


def convert_to_jit_arguments(parameters: Parameters, arguments: dict[str, Any]) -> dict[str, Any]:
    """Replace the runtime entries of bound arguments by launch argument objects."""
    out = {}
    for name, value in arguments.items():
        keep = name == parameters.method_self or is_compile_time(parameters.annotations.get(name))
        out[name] = value if keep else resolve_parameter(parameters, name, value)
    return out
