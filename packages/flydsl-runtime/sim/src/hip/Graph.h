//===- Graph.h - nodes of recorded work ------------------------*- C++ -*-===//
#ifndef FLYSIM_HIP_GRAPH_H
#define FLYSIM_HIP_GRAPH_H

#include "exec/Machine.h"
#include "hip/HipTypes.h"

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace flysim {

struct Event;
struct Graph;
struct Module;

/// hipFunction_t points to one of these.
struct Function {
  Module *module = nullptr;
  const KernelInfo *kernel = nullptr;
};

/// hipGraphNodeType.
enum class NodeType {
  Kernel,
  Memcpy,
  Memset,
  Host,
  Child,
  Empty,
  WaitEvent,
  EventRecord,
  MemAlloc = 10,
  MemFree = 11
};

/// hipMemAllocNodeParams.
struct MemAllocParams {
  struct {
    int allocType, handleTypes, locationType, locationId;
    char rest[72];
  } pool;
  const void *access;
  size_t accessCount, bytes;
  void *pointer;
};
static_assert(sizeof(MemAllocParams) == 120, "HIP binary interface");

/// Memory of an allocation node. Its address lasts as long as the node and its copies; a
/// program that frees it between launches frees nothing but the right to use it.
struct GraphMemory {
  void *pointer = nullptr;
  bool live = false; ///< a launch allocated it and nothing has freed it
  ~GraphMemory();
};
/// Frees memory of an allocation node: false if `p` is none, or is not allocated now (`bad`).
bool freeGraphMemory(void *p, bool &bad);


/// A kernel launch with its arguments copied, so that it can be replayed and changed.
struct KernelCall {
  const Function *function = nullptr;
  std::shared_ptr<Module> module; ///< keeps the code until nobody can launch it any more
  uint32_t grid[3] = {1, 1, 1}, block[3] = {1, 1, 1}, cluster[3] = {1, 1, 1};
  uint32_t dynamicLds = 0;
  int device = 0;
  bool cooperative = false; ///< the kernel may wait for all its work-groups
  std::vector<uint8_t> args; ///< the whole kernarg segment
  std::vector<void *> parameters; ///< into `args`, for hipGraphKernelNodeGetParams
  std::vector<Region> hostRanges;
  std::vector<LaunchArgument> arguments; ///< named arrays of the launch, for messages
  Dispatch::Host host = Dispatch::Host::None;

  void run() const;
};

/// What a node does, with what its Get functions return.
struct NodeWork {
  NodeType type = NodeType::Empty;
  std::function<void()> run; ///< null: nothing to do
  std::shared_ptr<const KernelCall> kernel;
  hipMemcpy3DParms copy = {};
  hipMemsetParams set = {};
  hipHostNodeParams host = {};
  std::shared_ptr<Graph> child;
  void *event = nullptr;
  MemAllocParams allocation = {};
  std::shared_ptr<GraphMemory> memory; ///< of an allocation node
  void *freed = nullptr;               ///< by a free node
};

/// hipGraphNode_t points to one of these.
struct GraphNode {
  Graph *graph = nullptr;
  NodeWork work;
  std::vector<GraphNode *> dependencies;
  const GraphNode *origin = nullptr; ///< in a clone: the node that it was made from
  bool enabled = true;
  std::map<int, std::array<char, 64>> attributes; ///< of a kernel node
};

/// hipGraph_t and, as a copy, hipGraphExec_t.
struct Graph {
  std::vector<std::unique_ptr<GraphNode>> nodes;
  std::map<void *, unsigned> userObjects; ///< references that the graph holds

  Graph();
  ~Graph();
  GraphNode *add(NodeWork work, std::vector<GraphNode *> dependencies);
  /// A deep copy; its nodes know their origins.
  std::unique_ptr<Graph> clone() const;
  /// The nodes such that each follows its dependencies; false if there is a cycle.
  bool order(std::vector<GraphNode *> &out) const;
  GraphNode *copyOf(const GraphNode *origin) const;
  /// Runs the enabled nodes in order.
  void run() const;
};

bool isGraphMemory(void *p);
/// The work of an allocation node; its memory has an address from now on.
hipError_t graphMemoryWork(const MemAllocParams &p, NodeWork &out);

/// True for a node of a live graph.
bool validNode(const void *node);
bool validGraph(const void *graph);

/// Closures for nodes, and the checks of their parameters (null on success).
hipError_t copyWork(const hipMemcpy3DParms &p, NodeWork &out);
hipError_t setWork(const hipMemsetParams &p, NodeWork &out);
hipError_t driverCopyWork(const HIP_MEMCPY3D *c, NodeWork &out);
hipError_t kernelWork(const hipKernelNodeParams &p, NodeWork &out);
/// A kernel handle from a hipFunction_t or the address of a registered host function.
hipError_t resolveKernel(const void *handle, const Function **out);
/// What a launch may reach of host memory that HIP does not know: that of the arrays that its caller
/// stated. Null: nothing was stated, and FLYDSL_SIM_HOST_MEMORY=mapped opens all of it.
Dispatch::Host hostReach(const std::vector<Region> *stated);
/// The arguments of a launch in the kernel's segment; raises a Fault when one is missing.
std::shared_ptr<KernelCall> makeCall(const Function &f, const uint32_t grid[3],
                                     const uint32_t block[3], uint32_t dynamicLds, void **params,
                                     void **extra, const uint32_t *cluster);

} // namespace flysim

#endif
