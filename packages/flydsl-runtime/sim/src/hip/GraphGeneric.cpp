//===- GraphGeneric.cpp - nodes of any kind, symbols, driver-style copies -===//
//
// Each of these is another spelling of a function of GraphNodes.cpp.
//
//===----------------------------------------------------------------------===//

#include "hip/Graph.h"
#include "hip/Runtime.h"

using namespace flysim;

using Node = void *;
using Nodes = void *const *;

//===--- nodes of any kind -----------------------------------------------------===//

namespace {

/// hipGraphNodeParams.
struct NodeParams {
  int type, reserved[3];
  union {
    long long words[29];
    hipKernelNodeParams kernel;
    struct {
      int flags, reserved[3];
      hipMemcpy3DParms params;
    } copy;
    hipMemsetParams set;
    hipHostNodeParams host;
    void *handle; ///< graph, event, or memory to free
    MemAllocParams alloc;
  };
  long long reserved2;
};
static_assert(sizeof(NodeParams) == 256, "HIP binary interface");

hipError_t unknown(const char *function, const NodeParams *p) {
  if (!p)
    return fail(hipErrorInvalidValue, std::string(function) + ": null pointer");
  bool other = p->type == 8 || p->type == 9 || (p->type >= 12 && p->type <= 14);
  return fail(other ? hipErrorNotSupported : hipErrorInvalidValue,
              format("%s: nodes of type %d", function, p->type));
}

hipError_t mismatch(const char *function) {
  return fail(hipErrorInvalidValue, std::string(function) + ": no node of this kind");
}

} // namespace

FLYSIM_API hipError_t hipGraphAddNode(Node *node, void *graph, Nodes deps, size_t n, NodeParams *p) try {
  switch (p ? static_cast<NodeType>(p->type) : NodeType(-1)) {
  case NodeType::Kernel:
    return hipGraphAddKernelNode(node, graph, deps, n, &p->kernel);
  case NodeType::Memcpy:
    return hipGraphAddMemcpyNode(node, graph, deps, n, &p->copy.params);
  case NodeType::Memset:
    return hipGraphAddMemsetNode(node, graph, deps, n, &p->set);
  case NodeType::Host:
    return hipGraphAddHostNode(node, graph, deps, n, &p->host);
  case NodeType::Child:
    return hipGraphAddChildGraphNode(node, graph, deps, n, p->handle);
  case NodeType::Empty:
    return hipGraphAddEmptyNode(node, graph, deps, n);
  case NodeType::WaitEvent:
    return hipGraphAddEventWaitNode(node, graph, deps, n, p->handle);
  case NodeType::EventRecord:
    return hipGraphAddEventRecordNode(node, graph, deps, n, p->handle);
  case NodeType::MemAlloc:
    return hipGraphAddMemAllocNode(node, graph, deps, n, &p->alloc);
  case NodeType::MemFree:
    return hipGraphAddMemFreeNode(node, graph, deps, n, p->handle);
  }
  return unknown("hipGraphAddNode", p);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipGraphNodeSetParams(Node node, NodeParams *p) try {
  if (p && validNode(node) && static_cast<int>(static_cast<GraphNode *>(node)->work.type) != p->type)
    return mismatch("hipGraphNodeSetParams");
  switch (p ? static_cast<NodeType>(p->type) : NodeType(-1)) {
  case NodeType::Kernel:
    return hipGraphKernelNodeSetParams(node, &p->kernel);
  case NodeType::Memcpy:
    return hipGraphMemcpyNodeSetParams(node, &p->copy.params);
  case NodeType::Memset:
    return hipGraphMemsetNodeSetParams(node, &p->set);
  case NodeType::Host:
    return hipGraphHostNodeSetParams(node, &p->host);
  case NodeType::WaitEvent:
    return hipGraphEventWaitNodeSetEvent(node, p->handle);
  case NodeType::EventRecord:
    return hipGraphEventRecordNodeSetEvent(node, p->handle);
  default:
    return unknown("hipGraphNodeSetParams", p);
  }
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipGraphExecNodeSetParams(void *exec, Node node, NodeParams *p) try {
  if (p && validNode(node) && static_cast<int>(static_cast<GraphNode *>(node)->work.type) != p->type)
    return mismatch("hipGraphExecNodeSetParams");
  switch (p ? static_cast<NodeType>(p->type) : NodeType(-1)) {
  case NodeType::Kernel:
    return hipGraphExecKernelNodeSetParams(exec, node, &p->kernel);
  case NodeType::Memcpy:
    return hipGraphExecMemcpyNodeSetParams(exec, node, &p->copy.params);
  case NodeType::Memset:
    return hipGraphExecMemsetNodeSetParams(exec, node, &p->set);
  case NodeType::Host:
    return hipGraphExecHostNodeSetParams(exec, node, &p->host);
  case NodeType::Child:
    return hipGraphExecChildGraphNodeSetParams(exec, node, p->handle);
  case NodeType::WaitEvent:
    return hipGraphExecEventWaitNodeSetEvent(exec, node, p->handle);
  case NodeType::EventRecord:
    return hipGraphExecEventRecordNodeSetEvent(exec, node, p->handle);
  default:
    return unknown("hipGraphExecNodeSetParams", p);
  }
} FLYSIM_GUARDED

//===--- symbols -----------------------------------------------------------------===//

namespace {

hipError_t symbolPart(const void *symbol, size_t size, size_t offset, char *&out) {
  void *address = nullptr;
  size_t bytes = 0;
  hipError_t e = hipGetSymbolAddress(&address, symbol);
  if (!e)
    e = hipGetSymbolSize(&bytes, symbol);
  if (e)
    return e;
  if (offset > bytes || size > bytes - offset)
    return fail(hipErrorInvalidValue,
                format("%zu bytes at offset %zu of a variable of %zu bytes", size, offset, bytes));
  out = static_cast<char *>(address) + offset;
  return hipSuccess;
}

} // namespace

FLYSIM_API hipError_t hipGraphAddMemcpyNodeFromSymbol(Node *node, void *graph, Nodes deps, size_t n,
                                                      void *dst, const void *symbol, size_t count,
                                                      size_t offset, int kind) try {
  char *at;
  hipError_t e = symbolPart(symbol, count, offset, at);
  return e ? e : hipGraphAddMemcpyNode1D(node, graph, deps, n, dst, at, count, kind);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipGraphAddMemcpyNodeToSymbol(Node *node, void *graph, Nodes deps, size_t n,
                                                    const void *symbol, const void *src, size_t count,
                                                    size_t offset, int kind) try {
  char *at;
  hipError_t e = symbolPart(symbol, count, offset, at);
  return e ? e : hipGraphAddMemcpyNode1D(node, graph, deps, n, at, src, count, kind);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipGraphMemcpyNodeSetParamsFromSymbol(Node node, void *dst, const void *symbol,
                                                            size_t count, size_t offset, int kind) try {
  char *at;
  hipError_t e = symbolPart(symbol, count, offset, at);
  return e ? e : hipGraphMemcpyNodeSetParams1D(node, dst, at, count, kind);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipGraphMemcpyNodeSetParamsToSymbol(Node node, const void *symbol, const void *src,
                                                          size_t count, size_t offset, int kind) try {
  char *at;
  hipError_t e = symbolPart(symbol, count, offset, at);
  return e ? e : hipGraphMemcpyNodeSetParams1D(node, at, src, count, kind);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipGraphExecMemcpyNodeSetParamsFromSymbol(void *exec, Node node, void *dst,
                                                                const void *symbol, size_t count,
                                                                size_t offset, int kind) try {
  char *at;
  hipError_t e = symbolPart(symbol, count, offset, at);
  return e ? e : hipGraphExecMemcpyNodeSetParams1D(exec, node, dst, at, count, kind);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipGraphExecMemcpyNodeSetParamsToSymbol(void *exec, Node node, const void *symbol,
                                                              const void *src, size_t count,
                                                              size_t offset, int kind) try {
  char *at;
  hipError_t e = symbolPart(symbol, count, offset, at);
  return e ? e : hipGraphExecMemcpyNodeSetParams1D(exec, node, at, src, count, kind);
} FLYSIM_GUARDED

//===--- driver-style parameters -------------------------------------------------===//

FLYSIM_API hipError_t hipDrvGraphMemcpyNodeGetParams(Node node, HIP_MEMCPY3D *c) try {
  hipMemcpy3DParms p;
  if (!c)
    return fail(hipErrorInvalidValue, "hipDrvGraphMemcpyNodeGetParams: null pointer");
  if (hipError_t e = hipGraphMemcpyNodeGetParams(node, &p))
    return e;
  *c = {};
  c->srcXInBytes = p.srcPos.x;
  c->srcY = p.srcPos.y;
  c->srcZ = p.srcPos.z;
  c->dstXInBytes = p.dstPos.x;
  c->dstY = p.dstPos.y;
  c->dstZ = p.dstPos.z;
  c->srcMemoryType = c->dstMemoryType = hipMemoryTypeUnified;
  c->srcDevice = p.srcPtr.ptr;
  c->dstDevice = p.dstPtr.ptr;
  c->srcPitch = p.srcPtr.pitch;
  c->dstPitch = p.dstPtr.pitch;
  c->srcHeight = p.srcPtr.ysize;
  c->dstHeight = p.dstPtr.ysize;
  c->WidthInBytes = p.extent.width;
  c->Height = p.extent.height;
  c->Depth = p.extent.depth;
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipDrvGraphMemcpyNodeSetParams(Node node, const HIP_MEMCPY3D *c) try {
  NodeWork work;
  hipError_t e = driverCopyWork(c, work);
  return e ? e : hipGraphMemcpyNodeSetParams(node, &work.copy);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipDrvGraphExecMemcpyNodeSetParams(void *exec, Node node, const HIP_MEMCPY3D *c,
                                                         void *) try {
  NodeWork work;
  hipError_t e = driverCopyWork(c, work);
  return e ? e : hipGraphExecMemcpyNodeSetParams(exec, node, &work.copy);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipDrvGraphExecMemsetNodeSetParams(void *exec, Node node, const hipMemsetParams *p,
                                                         void *) {
  return hipGraphExecMemsetNodeSetParams(exec, node, p);
}
