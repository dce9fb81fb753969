//===- GraphNodes.cpp - nodes of graphs and their parameters --------------===//

#include "hip/Graph.h"
#include "hip/Runtime.h"

#include <algorithm>
#include <cstring>

using namespace flysim;

namespace {

hipError_t addNode(void **out, void *graph, void *const *dependencies, size_t count, NodeWork work) {
  if (!out || !validGraph(graph) || (count && !dependencies))
    return fail(hipErrorInvalidValue, "graph node: invalid graph or null pointer");
  std::vector<GraphNode *> list;
  for (size_t n = 0; n < count; ++n) {
    auto *d = static_cast<GraphNode *>(dependencies[n]);
    if (!validNode(d) || d->graph != graph)
      return fail(hipErrorInvalidValue, "graph node: a dependency is no node of the graph");
    if (std::find(list.begin(), list.end(), d) != list.end())
      return fail(hipErrorInvalidValue, "graph node: a dependency is given twice");
    list.push_back(d);
  }
  *out = static_cast<Graph *>(graph)->add(std::move(work), std::move(list));
  return hipSuccess;
}

GraphNode *nodeOf(void *node, NodeType type) {
  if (!validNode(node))
    return nullptr;
  auto *n = static_cast<GraphNode *>(node);
  return n->work.type == type ? n : nullptr;
}

hipError_t badNode(const char *function) {
  return fail(hipErrorInvalidValue, std::string(function) + ": no node of this kind");
}

/// The node of an executable graph that was made from `node`.
GraphNode *execNode(void *exec, void *node, NodeType type) {
  if (!Runtime::instance().graphExecs.contains(exec) || !nodeOf(node, type))
    return nullptr;
  return static_cast<Graph *>(exec)->copyOf(static_cast<GraphNode *>(node));
}

hipError_t hostWork(const hipHostNodeParams *p, NodeWork &out) {
  if (!p || !p->fn)
    return fail(hipErrorInvalidValue, "host node: no function");
  out = NodeWork();
  out.type = NodeType::Host;
  out.host = *p;
  out.run = [h = *p] { h.fn(h.userData); };
  return hipSuccess;
}

hipError_t eventWork(void *event, NodeType type, NodeWork &out) {
  if (!Runtime::instance().events.contains(event))
    return fail(hipErrorInvalidValue, "event node: invalid event");
  std::shared_ptr<EventState> state = static_cast<Event *>(event)->state;
  out = NodeWork();
  out.type = type;
  out.event = event;
  if (type == NodeType::EventRecord)
    out.run = [state] { state->reach(false); };
  else
    out.run = [state] { state->wait(); };
  return hipSuccess;
}

hipMemcpy3DParms linear(void *dst, const void *src, size_t count, int kind) {
  hipMemcpy3DParms p = {};
  p.srcPtr = {const_cast<void *>(src), count, count, 1};
  p.dstPtr = {dst, count, count, 1};
  p.extent = {count, 1, 1};
  p.kind = kind;
  return p;
}

template <class Params, class Make>
hipError_t change(GraphNode *n, const char *function, const Params *p, Make make) {
  if (!n || !p)
    return badNode(function);
  NodeWork work;
  if (hipError_t e = make(*p, work))
    return e;
  n->work = std::move(work);
  return hipSuccess;
}

} // namespace

FLYSIM_API hipError_t hipGraphAddEmptyNode(void **node, void *graph, void *const *deps, size_t count) try {
  return addNode(node, graph, deps, count, NodeWork());
} FLYSIM_GUARDED

//===--- kernels --------------------------------------------------------------===//

FLYSIM_API hipError_t hipGraphAddKernelNode(void **node, void *graph, void *const *deps, size_t count,
                                            const hipKernelNodeParams *p) try {
  NodeWork work;
  if (!p)
    return fail(hipErrorInvalidValue, "hipGraphAddKernelNode: null pointer");
  if (hipError_t e = kernelWork(*p, work))
    return e;
  return addNode(node, graph, deps, count, std::move(work));
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipGraphKernelNodeGetParams(void *node, hipKernelNodeParams *p) try {
  GraphNode *n = nodeOf(node, NodeType::Kernel);
  if (!n || !p)
    return badNode("hipGraphKernelNodeGetParams");
  const KernelCall &k = *n->work.kernel;
  *p = {};
  p->blockDim = {k.block[0], k.block[1], k.block[2]};
  p->gridDim = {k.grid[0], k.grid[1], k.grid[2]};
  p->func = const_cast<Function *>(k.function);
  p->kernelParams = const_cast<void **>(k.parameters.data());
  p->sharedMemBytes = k.dynamicLds;
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipGraphKernelNodeSetParams(void *node, const hipKernelNodeParams *p) try {
  return change(nodeOf(node, NodeType::Kernel), "hipGraphKernelNodeSetParams", p, kernelWork);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipGraphExecKernelNodeSetParams(void *exec, void *node,
                                                      const hipKernelNodeParams *p) try {
  return change(execNode(exec, node, NodeType::Kernel), "hipGraphExecKernelNodeSetParams", p,
                kernelWork);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipGraphKernelNodeCopyAttributes(void *from, void *to) try {
  GraphNode *a = nodeOf(from, NodeType::Kernel), *b = nodeOf(to, NodeType::Kernel);
  if (!a || !b)
    return badNode("hipGraphKernelNodeCopyAttributes");
  b->attributes = a->attributes;
  return hipSuccess;
} FLYSIM_GUARDED
// Attributes are kept and change nothing: window of persisting lines 1, cooperative 2, priority 8.
FLYSIM_API hipError_t hipGraphKernelNodeSetAttribute(void *node, int attribute, const void *value) try {
  GraphNode *n = nodeOf(node, NodeType::Kernel);
  if (!n || !value || (attribute != 1 && attribute != 2 && attribute != 8))
    return badNode("hipGraphKernelNodeSetAttribute");
  memcpy(n->attributes[attribute].data(), value, attribute == 1 ? 32 : 4);
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipGraphKernelNodeGetAttribute(void *node, int attribute, void *value) try {
  GraphNode *n = nodeOf(node, NodeType::Kernel);
  if (!n || !value || (attribute != 1 && attribute != 2 && attribute != 8))
    return badNode("hipGraphKernelNodeGetAttribute");
  memcpy(value, n->attributes[attribute].data(), attribute == 1 ? 32 : 4);
  return hipSuccess;
} FLYSIM_GUARDED

//===--- copies ---------------------------------------------------------------===//

FLYSIM_API hipError_t hipGraphAddMemcpyNode(void **node, void *graph, void *const *deps, size_t count,
                                            const hipMemcpy3DParms *p) try {
  NodeWork work;
  if (!p)
    return fail(hipErrorInvalidValue, "hipGraphAddMemcpyNode: null pointer");
  if (hipError_t e = copyWork(*p, work))
    return e;
  return addNode(node, graph, deps, count, std::move(work));
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipGraphAddMemcpyNode1D(void **node, void *graph, void *const *deps,
                                              size_t count, void *dst, const void *src, size_t bytes,
                                              int kind) try {
  hipMemcpy3DParms p = linear(dst, src, bytes, kind);
  return hipGraphAddMemcpyNode(node, graph, deps, count, &p);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipGraphMemcpyNodeGetParams(void *node, hipMemcpy3DParms *p) try {
  GraphNode *n = nodeOf(node, NodeType::Memcpy);
  if (!n || !p)
    return badNode("hipGraphMemcpyNodeGetParams");
  *p = n->work.copy;
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipGraphMemcpyNodeSetParams(void *node, const hipMemcpy3DParms *p) try {
  return change(nodeOf(node, NodeType::Memcpy), "hipGraphMemcpyNodeSetParams", p, copyWork);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipGraphMemcpyNodeSetParams1D(void *node, void *dst, const void *src,
                                                    size_t bytes, int kind) try {
  hipMemcpy3DParms p = linear(dst, src, bytes, kind);
  return hipGraphMemcpyNodeSetParams(node, &p);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipGraphExecMemcpyNodeSetParams(void *exec, void *node, hipMemcpy3DParms *p) try {
  return change(execNode(exec, node, NodeType::Memcpy), "hipGraphExecMemcpyNodeSetParams", p, copyWork);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipGraphExecMemcpyNodeSetParams1D(void *exec, void *node, void *dst,
                                                        const void *src, size_t bytes, int kind) try {
  hipMemcpy3DParms p = linear(dst, src, bytes, kind);
  return hipGraphExecMemcpyNodeSetParams(exec, node, &p);
} FLYSIM_GUARDED

//===--- memset -----------------------------------------------------------------===//

FLYSIM_API hipError_t hipGraphAddMemsetNode(void **node, void *graph, void *const *deps, size_t count,
                                            const hipMemsetParams *p) try {
  NodeWork work;
  if (!p)
    return fail(hipErrorInvalidValue, "hipGraphAddMemsetNode: null pointer");
  if (hipError_t e = setWork(*p, work))
    return e;
  return addNode(node, graph, deps, count, std::move(work));
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipGraphMemsetNodeGetParams(void *node, hipMemsetParams *p) try {
  GraphNode *n = nodeOf(node, NodeType::Memset);
  if (!n || !p)
    return badNode("hipGraphMemsetNodeGetParams");
  *p = n->work.set;
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipGraphMemsetNodeSetParams(void *node, const hipMemsetParams *p) try {
  return change(nodeOf(node, NodeType::Memset), "hipGraphMemsetNodeSetParams", p, setWork);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipGraphExecMemsetNodeSetParams(void *exec, void *node, const hipMemsetParams *p) try {
  return change(execNode(exec, node, NodeType::Memset), "hipGraphExecMemsetNodeSetParams", p, setWork);
} FLYSIM_GUARDED

//===--- host functions ---------------------------------------------------------===//

FLYSIM_API hipError_t hipGraphAddHostNode(void **node, void *graph, void *const *deps, size_t count,
                                          const hipHostNodeParams *p) try {
  NodeWork work;
  if (hipError_t e = hostWork(p, work))
    return e;
  return addNode(node, graph, deps, count, std::move(work));
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipGraphHostNodeGetParams(void *node, hipHostNodeParams *p) try {
  GraphNode *n = nodeOf(node, NodeType::Host);
  if (!n || !p)
    return badNode("hipGraphHostNodeGetParams");
  *p = n->work.host;
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipGraphHostNodeSetParams(void *node, const hipHostNodeParams *p) try {
  return change(nodeOf(node, NodeType::Host), "hipGraphHostNodeSetParams", p,
                [](const hipHostNodeParams &h, NodeWork &w) { return hostWork(&h, w); });
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipGraphExecHostNodeSetParams(void *exec, void *node, const hipHostNodeParams *p) try {
  return change(execNode(exec, node, NodeType::Host), "hipGraphExecHostNodeSetParams", p,
                [](const hipHostNodeParams &h, NodeWork &w) { return hostWork(&h, w); });
} FLYSIM_GUARDED

//===--- events -----------------------------------------------------------------===//

FLYSIM_API hipError_t hipGraphAddEventRecordNode(void **node, void *graph, void *const *deps,
                                                 size_t count, void *event) try {
  NodeWork work;
  if (hipError_t e = eventWork(event, NodeType::EventRecord, work))
    return e;
  return addNode(node, graph, deps, count, std::move(work));
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipGraphAddEventWaitNode(void **node, void *graph, void *const *deps,
                                               size_t count, void *event) try {
  NodeWork work;
  if (hipError_t e = eventWork(event, NodeType::WaitEvent, work))
    return e;
  return addNode(node, graph, deps, count, std::move(work));
} FLYSIM_GUARDED

namespace {
hipError_t getEvent(void *node, NodeType type, void **event, const char *function) {
  GraphNode *n = nodeOf(node, type);
  if (!n || !event)
    return badNode(function);
  *event = n->work.event;
  return hipSuccess;
}
hipError_t setEvent(GraphNode *n, NodeType type, void *event, const char *function) {
  NodeWork work;
  if (!n)
    return badNode(function);
  if (hipError_t e = eventWork(event, type, work))
    return e;
  n->work = std::move(work);
  return hipSuccess;
}
} // namespace

FLYSIM_API hipError_t hipGraphEventRecordNodeGetEvent(void *node, void **event) try {
  return getEvent(node, NodeType::EventRecord, event, "hipGraphEventRecordNodeGetEvent");
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipGraphEventWaitNodeGetEvent(void *node, void **event) try {
  return getEvent(node, NodeType::WaitEvent, event, "hipGraphEventWaitNodeGetEvent");
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipGraphEventRecordNodeSetEvent(void *node, void *event) try {
  return setEvent(nodeOf(node, NodeType::EventRecord), NodeType::EventRecord, event,
                  "hipGraphEventRecordNodeSetEvent");
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipGraphEventWaitNodeSetEvent(void *node, void *event) try {
  return setEvent(nodeOf(node, NodeType::WaitEvent), NodeType::WaitEvent, event,
                  "hipGraphEventWaitNodeSetEvent");
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipGraphExecEventRecordNodeSetEvent(void *exec, void *node, void *event) try {
  return setEvent(execNode(exec, node, NodeType::EventRecord), NodeType::EventRecord, event,
                  "hipGraphExecEventRecordNodeSetEvent");
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipGraphExecEventWaitNodeSetEvent(void *exec, void *node, void *event) try {
  return setEvent(execNode(exec, node, NodeType::WaitEvent), NodeType::WaitEvent, event,
                  "hipGraphExecEventWaitNodeSetEvent");
} FLYSIM_GUARDED

//===--- graphs in graphs ---------------------------------------------------------===//

FLYSIM_API hipError_t hipGraphAddChildGraphNode(void **node, void *graph, void *const *deps,
                                                size_t count, void *child) try {
  if (!validGraph(child) || child == graph)
    return fail(hipErrorInvalidValue, "hipGraphAddChildGraphNode: invalid graph");
  NodeWork work;
  work.type = NodeType::Child;
  work.child = static_cast<Graph *>(child)->clone();
  Graph *own = work.child.get();
  work.run = [own] { own->run(); };
  return addNode(node, graph, deps, count, std::move(work));
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipGraphChildGraphNodeGetGraph(void *node, void **graph) try {
  GraphNode *n = nodeOf(node, NodeType::Child);
  if (!n || !graph)
    return badNode("hipGraphChildGraphNodeGetGraph");
  *graph = n->work.child.get();
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipGraphExecChildGraphNodeSetParams(void *exec, void *node, void *child) try {
  GraphNode *n = execNode(exec, node, NodeType::Child);
  if (!n || !validGraph(child))
    return badNode("hipGraphExecChildGraphNodeSetParams");
  n->work.child = static_cast<Graph *>(child)->clone();
  Graph *own = n->work.child.get();
  n->work.run = [own] { own->run(); };
  return hipSuccess;
} FLYSIM_GUARDED

//===--- memory ---------------------------------------------------------------------===//

FLYSIM_API hipError_t hipGraphAddMemAllocNode(void **node, void *graph, void *const *deps, size_t count,
                                              MemAllocParams *p) try {
  int devices = Runtime::instance().deviceCount();
  if (!p || !p->bytes || p->pool.allocType != 1 || p->pool.locationType != 1 || p->pool.locationId < 0 ||
      p->pool.locationId >= devices)
    return fail(hipErrorInvalidValue, "hipGraphAddMemAllocNode: null pointer, no bytes, or invalid properties");
  if (!node || !validGraph(graph))
    return fail(hipErrorInvalidValue, "graph node: invalid graph or null pointer");
  NodeWork work;
  if (hipError_t e = graphMemoryWork(*p, work))
    return e;
  MemAllocParams filled = work.allocation;
  if (hipError_t e = addNode(node, graph, deps, count, std::move(work)))
    return e;
  *p = filled;
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipGraphMemAllocNodeGetParams(void *node, MemAllocParams *p) try {
  GraphNode *n = nodeOf(node, NodeType::MemAlloc);
  if (!n || !p)
    return badNode("hipGraphMemAllocNodeGetParams");
  *p = n->work.allocation;
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipGraphAddMemFreeNode(void **node, void *graph, void *const *deps, size_t count,
                                             void *p) try {
  if (!isGraphMemory(p))
    return fail(hipErrorInvalidValue, "hipGraphAddMemFreeNode: not memory of an allocation node");
  NodeWork work;
  work.type = NodeType::MemFree;
  work.freed = p;
  work.run = [p] {
    bool bad = false;
    if (!freeGraphMemory(p, bad) || bad)
      raise(FaultKind::InvalidConfiguration, format("graph: %p is not allocated", p));
  };
  return addNode(node, graph, deps, count, std::move(work));
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipDrvGraphAddMemFreeNode(void **node, void *graph, void *const *deps, size_t count,
                                                void *p) {
  return hipGraphAddMemFreeNode(node, graph, deps, count, p);
}
FLYSIM_API hipError_t hipGraphMemFreeNodeGetParams(void *node, void *out) try {
  GraphNode *n = nodeOf(node, NodeType::MemFree);
  if (!n || !out)
    return badNode("hipGraphMemFreeNodeGetParams");
  memcpy(out, &n->work.freed, sizeof n->work.freed);
  return hipSuccess;
} FLYSIM_GUARDED

//===--- driver-style copies and fills ---------------------------------------------===//

FLYSIM_API hipError_t hipDrvGraphAddMemcpyNode(void **node, void *graph, void *const *deps, size_t count,
                                               const HIP_MEMCPY3D *c, void *) try {
  NodeWork work;
  if (hipError_t e = driverCopyWork(c, work))
    return e;
  return hipGraphAddMemcpyNode(node, graph, deps, count, &work.copy);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipDrvGraphAddMemsetNode(void **node, void *graph, void *const *deps, size_t count,
                                               const hipMemsetParams *p, void *) {
  return hipGraphAddMemsetNode(node, graph, deps, count, p);
}
