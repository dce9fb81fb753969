"""The C text of an exported specialisation: header, launch plan, and adapter to the HIP module API."""

from __future__ import annotations

import json

from ..store.artifact import CompiledArtifact
from . import floats as export_floats
from .instructions import run_text
from .preconditions import HELPERS, described
from .slots import Slot

__all__ = ["header_text", "source_text"]

_C_TYPES = {
    "bool": "bool", "int8": "int8_t", "int16": "int16_t", "int32": "int32_t", "int64": "int64_t", "uint8": "uint8_t",
    "uint16": "uint16_t", "uint32": "uint32_t", "uint64": "uint64_t", "float": "float", "double": "double",
    "pointer": "void *",
}


def _parameters(symbol: str, slots: list[Slot]) -> list[tuple[str, str, str]]:
    """(declaration, name, expression for the args array) of the typed call."""
    found = []
    for slot in slots:
        name = slot.name
        if slot.kind == "tensor_data":
            found.append((f"void *{name}_data", f"{name}_data", f"&{name}_data"))
        elif slot.kind == "tensor_layout":
            kind = f"{symbol}_{name}_layout_t"
            found.append((f"const {kind} *{name}_layout", f"{name}_layout", f"(void *){name}_layout"))
        elif slot.ctype == "pointer":
            found.append((f"void *{name}", name, f"&{name}"))
        else:
            found.append((f"{_C_TYPES[slot.ctype]} {name}", name, f"&{name}"))
    return found


def header_text(artifact: CompiledArtifact, symbol: str, slots: list[Slot], version: int) -> str:
    """The header, valid as C11 and C++."""
    upper = symbol.upper()
    layouts = []
    for slot in slots:
        if slot.kind != "tensor_layout":
            continue
        name = f"{symbol}_{slot.name}_layout_t"
        shape, stride = slot.shape_dims, slot.stride_dims
        members = []
        if shape:
            members.append(f"  int32_t shape[{len(shape)}]; /* extents of modes {shape} */")
        if stride:
            members.append(f"  int{slot.stride_bits}_t stride[{len(stride)}]; /* in elements, modes {stride} */")
        layouts.append("\n".join([
            f"typedef struct __attribute__((packed)) {name} {{", *members, f"}} {name};",
            f'FLYDSL_AOT_STATIC_ASSERT(sizeof({name}) == {slot.size}, "layout of {name}");', ""]))
    parameters = _parameters(symbol, slots)
    declared = ", ".join(p[0] for p in parameters)
    names = ", ".join(p[1] for p in parameters)
    values = ", ".join(p[2] for p in parameters)
    wanted = "".join(f" *   {line}\n" for line in described(artifact.plan["args"]))
    tensors = f"/* The tensors of a call:\n{wanted} */\n" if wanted else ""
    return f"""/* {artifact.name} for {artifact.arch}, exported by FlyDSL. Link with -lamdhip64 -pthread. */
#ifndef FLYDSL_AOT_{upper}_H
#define FLYDSL_AOT_{upper}_H

#include <stdbool.h>
#include <stdint.h>

#define {upper}_SCHEMA_VERSION {version}
#define {upper}_NUM_ARGS {len(slots)}

#ifndef FLYDSL_AOT_SUCCESS
#define FLYDSL_AOT_SUCCESS 0
#define FLYDSL_AOT_ERR_NOT_INITIALIZED (-1)
#define FLYDSL_AOT_ERR_NOT_LOADED (-2)
#endif
#ifndef FLYDSL_AOT_ERR_INVALID_ARGUMENT
#define FLYDSL_AOT_ERR_INVALID_ARGUMENT (-3) /* a tensor that the code was not compiled for */
#endif

#ifndef FLYDSL_AOT_STATIC_ASSERT
#ifdef __cplusplus
#define FLYDSL_AOT_STATIC_ASSERT(condition, text) static_assert(condition, text)
#else
#define FLYDSL_AOT_STATIC_ASSERT(condition, text) _Static_assert(condition, text)
#endif
#endif

#ifdef __cplusplus
extern "C" {{
#endif

{chr(10).join(layouts)}
{tensors}/* Launches on the current device. args has one pointer for each slot, to its storage. Returns 0 when all
 * launches were submitted, an FLYDSL_AOT_ERR_ code, or the error of the HIP API. */
int32_t {symbol}(void **args);
/* Once, before anything else. */
int32_t {symbol}__module_init(void);
/* Loads the code on a device (-1: the current one); again is no error. */
int32_t {symbol}__module_load(int32_t device);
/* Unloads the code from all devices. No launch may be in flight. */
int32_t {symbol}__module_unload(void);
/* What the arguments are, as JSON. */
extern const char {symbol}__metadata[];

static inline int32_t {symbol}_call({declared}) {{
  void *args[{upper}_NUM_ARGS] = {{{values}}};
  return {symbol}(args);
}}

/* Initialises, loads on the current device if need be, and calls. */
static inline int32_t {symbol}_call_auto({declared}) {{
  int32_t status = {symbol}__module_init();
  if (status == 0)
    status = {symbol}__module_load(-1);
  return status ? status : {symbol}_call({names});
}}

#ifdef __cplusplus
}}
#endif

#endif /* FLYDSL_AOT_{upper}_H */
"""


_ADAPTER = r"""
enum { kMaxDevices = 64, kInvalidValue = 1, kMaxWorkItemsLog = 32 };

extern int hipGetDevice(int *);
extern int hipSetDevice(int);
extern int hipModuleLoadData(void **, const void *);
extern int hipModuleUnload(void *);
extern int hipModuleGetFunction(void **, void *, const char *);
extern int hipModuleLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *,
                                 void **, void **);

typedef struct {
  unsigned id;
  char pad[4];
  union { char bytes[64]; struct { unsigned x, y, z; } cluster; } value;
} LaunchAttribute;

typedef struct {
  unsigned grid[3], block[3], shared_bytes;
  void *stream;
  LaunchAttribute *attributes;
  unsigned count;
} LaunchConfig;

extern int hipDrvLaunchKernelEx(const LaunchConfig *, void *, void **, void **) __attribute__((weak));

typedef struct {
  void *module;
  void *functions[kKernels];
} Loaded;

extern const char image[] __asm__("flydsl_aot_image") __attribute__((visibility("hidden")));
static Loaded loaded[kMaxDevices];
static int ready[kMaxDevices];
static int initialised;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static inline uint64_t zero_extend(int64_t value, unsigned width) {
  return width == 64 ? (uint64_t)value : (uint64_t)value & (((uint64_t)1 << width) - 1);
}
static inline int64_t sign_extend(int64_t value, unsigned width) {
  return (int64_t)((uint64_t)value << (64 - width)) >> (64 - width);
}
static inline int64_t canonical(int64_t value, unsigned width) {
  return width == 1 ? (value & 1) : sign_extend(value, width);
}
static inline int64_t quotient(int64_t a, int64_t b) { return b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b; }
static inline int64_t remainder_(int64_t a, int64_t b) { return b == -1 ? 0 : a % b; }
static inline int64_t ceil_quotient(int64_t a, int64_t b) {
  return quotient(a, b) + (remainder_(a, b) != 0 && ((a < 0) == (b < 0)));
}
static inline int64_t floor_quotient(int64_t a, int64_t b) {
  return quotient(a, b) - (remainder_(a, b) != 0 && ((a < 0) != (b < 0)));
}

static int launch(void *function, const int64_t *grid, const int64_t *block, const int64_t *cluster, int64_t shared,
                  int64_t stream, char *kernargs, size_t size) {
  for (int i = 0; i < 3; ++i)
    if (grid[i] <= 0 || block[i] <= 0 || block[i] > UINT32_MAX || grid[i] > UINT32_MAX / block[i] || cluster[i] <= 0 ||
        grid[i] % cluster[i] != 0)
      return kInvalidValue;
  if (shared < 0 || shared > INT32_MAX)
    return kInvalidValue;
  void *extra[] = {(void *)1, kernargs, (void *)2, &size, (void *)3};
  const unsigned g[3] = {(unsigned)grid[0], (unsigned)grid[1], (unsigned)grid[2]};
  const unsigned b[3] = {(unsigned)block[0], (unsigned)block[1], (unsigned)block[2]};
  if (cluster[0] * cluster[1] * cluster[2] == 1)
    return hipModuleLaunchKernel(function, g[0], g[1], g[2], b[0], b[1], b[2], (unsigned)shared, (void *)stream, NULL,
                                 extra);
  if (!hipDrvLaunchKernelEx)
    return kInvalidValue;
  LaunchAttribute attribute;
  memset(&attribute, 0, sizeof attribute);
  attribute.id = 4;
  attribute.value.cluster.x = (unsigned)cluster[0];
  attribute.value.cluster.y = (unsigned)cluster[1];
  attribute.value.cluster.z = (unsigned)cluster[2];
  LaunchConfig config = {{g[0], g[1], g[2]}, {b[0], b[1], b[2]}, (unsigned)shared, (void *)stream, &attribute, 1};
  return hipDrvLaunchKernelEx(&config, function, NULL, extra);
}

static int load_on_current(int device) {
  Loaded *where = &loaded[device];
  int status = hipModuleLoadData(&where->module, image);
  for (int i = 0; status == 0 && i < kKernels; ++i) {
    status = hipModuleGetFunction(&where->functions[i], where->module, kernel_names[i]);
    if (status)
      (void)hipModuleUnload(where->module);
  }
  if (status == 0)
    __atomic_store_n(&ready[device], 1, __ATOMIC_RELEASE);
  return status;
}
"""

_LIFECYCLE = r"""
EXPORT int32_t SYMBOL__module_init(void) {
  __atomic_store_n(&initialised, 1, __ATOMIC_RELEASE);
  return FLYDSL_AOT_SUCCESS;
}

EXPORT int32_t SYMBOL__module_load(int32_t device) {
  if (!__atomic_load_n(&initialised, __ATOMIC_ACQUIRE))
    return FLYDSL_AOT_ERR_NOT_INITIALIZED;
  int current = 0;
  int status = hipGetDevice(&current);
  if (status)
    return status;
  const int wanted = device < 0 ? current : device;
  if (wanted >= kMaxDevices)
    return kInvalidValue;
  if (__atomic_load_n(&ready[wanted], __ATOMIC_ACQUIRE))
    return FLYDSL_AOT_SUCCESS;
  pthread_mutex_lock(&lock);
  if (!ready[wanted]) {
    status = wanted == current ? 0 : hipSetDevice(wanted);
    if (status == 0)
      status = load_on_current(wanted);
    if (wanted != current)
      (void)hipSetDevice(current);
  }
  pthread_mutex_unlock(&lock);
  return status;
}

EXPORT int32_t SYMBOL__module_unload(void) {
  int status = 0;
  pthread_mutex_lock(&lock);
  for (int device = 0; device < kMaxDevices; ++device) {
    if (!ready[device])
      continue;
    __atomic_store_n(&ready[device], 0, __ATOMIC_RELEASE);
    const int result = hipModuleUnload(loaded[device].module);
    status = status ? status : result;
  }
  pthread_mutex_unlock(&lock);
  return status;
}

EXPORT int32_t SYMBOL(void **args) {
  if (!__atomic_load_n(&initialised, __ATOMIC_ACQUIRE))
    return FLYDSL_AOT_ERR_NOT_INITIALIZED;
  int device = 0;
  const int status = hipGetDevice(&device);
  if (status)
    return status;
  if (device < 0 || device >= kMaxDevices || !__atomic_load_n(&ready[device], __ATOMIC_ACQUIRE))
    return FLYDSL_AOT_ERR_NOT_LOADED;
  return run(&loaded[device], args);
}
"""


def source_text(
    artifact: CompiledArtifact, symbol: str, slots: list[Slot], metadata: str, header: str, image: str
) -> str:
    """The C file of the object: everything static but the five symbols of the interface."""
    kernels = list(dict.fromkeys(i[1] for i in artifact.plan["code"] if i[0] == "launch"))
    names = ", ".join(json.dumps(k) for k in kernels)
    return "\n".join([
        "#include <pthread.h>", "#include <stddef.h>", "#include <stdio.h>", "#include <string.h>",
        f'#include "{header}"', "",
        '#define EXPORT __attribute__((visibility("default")))',
        f"enum {{ kKernels = {len(kernels)} }};",
        f"static const char *const kernel_names[kKernels] = {{{names}}};",
        # The code object itself: a local symbol, so that several exports can be linked into one program.
        '__asm__(".pushsection .rodata\\n.balign 4096\\nflydsl_aot_image:\\n"',
        f'        ".incbin {_escaped(image)}\\n.popsection\\n");',
        _ADAPTER,
        export_floats.HELPERS if any(i[0] in export_floats.INSTRUCTIONS for i in artifact.plan["code"]) else "",
        HELPERS if any(entry["kind"] == "tensor" for entry in artifact.plan["args"]) else "",
        run_text(artifact, slots, kernels),
        f"EXPORT const char {symbol}__metadata[] = {json.dumps(metadata)};",
        _LIFECYCLE.replace("SYMBOL", symbol), "",
    ])


def _escaped(path: str) -> str:
    return json.dumps(path).replace("\\", "\\\\").replace('"', '\\"')
