//===- GraphApi.cpp - graphs and executable graphs ------------------------===//

#include "hip/Graph.h"
#include "hip/Runtime.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

using namespace flysim;

namespace {

hipError_t badGraph(const char *function) {
  return fail(hipErrorInvalidValue, std::string(function) + ": invalid graph or null pointer");
}

/// Writes a list to an array of the caller as HIP does: a null array asks for the
/// length; room beyond it is set to null.
template <class T>
hipError_t give(const std::vector<T *> &list, void **out, size_t *count, const char *function) {
  if (!count)
    return badGraph(function);
  if (!out) {
    *count = list.size();
    return hipSuccess;
  }
  for (size_t n = 0; n < *count; ++n)
    out[n] = n < list.size() ? list[n] : nullptr;
  *count = std::min(*count, list.size());
  return hipSuccess;
}

const char *typeName(NodeType t) {
  static const char *const kNames[] = {"KERNEL", "MEMCPY", "MEMSET", "HOST",
                                       "GRAPH",  "EMPTY",  "EVENT_WAIT", "EVENT_RECORD"};
  return kNames[static_cast<unsigned>(t)];
}

} // namespace

FLYSIM_API hipError_t hipGraphCreate(void **graph, unsigned flags) try {
  if (!graph || flags)
    return fail(hipErrorInvalidValue, "hipGraphCreate: null pointer, or flags, which must be 0");
  *graph = Runtime::instance().graphs.add(std::make_unique<Graph>());
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipGraphDestroy(void *graph) try {
  return Runtime::instance().graphs.destroy(graph) ? hipSuccess : badGraph("hipGraphDestroy");
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipGraphClone(void **out, void *graph) try {
  if (!out || !validGraph(graph))
    return badGraph("hipGraphClone");
  *out = Runtime::instance().graphs.add(static_cast<Graph *>(graph)->clone());
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipGraphNodeFindInClone(void **out, void *node, void *clone) try {
  if (!out || !validGraph(clone))
    return badGraph("hipGraphNodeFindInClone");
  *out = static_cast<Graph *>(clone)->copyOf(static_cast<GraphNode *>(node));
  return *out ? hipSuccess
              : fail(hipErrorInvalidValue, "hipGraphNodeFindInClone: the graph is no clone of the node's");
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipGraphGetNodes(void *graph, void **nodes, size_t *count) try {
  if (!validGraph(graph))
    return badGraph("hipGraphGetNodes");
  std::vector<GraphNode *> list;
  for (const auto &n : static_cast<Graph *>(graph)->nodes)
    list.push_back(n.get());
  return give(list, nodes, count, "hipGraphGetNodes");
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipGraphGetRootNodes(void *graph, void **nodes, size_t *count) try {
  if (!validGraph(graph))
    return badGraph("hipGraphGetRootNodes");
  std::vector<GraphNode *> list;
  for (const auto &n : static_cast<Graph *>(graph)->nodes)
    if (n->dependencies.empty())
      list.push_back(n.get());
  return give(list, nodes, count, "hipGraphGetRootNodes");
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipGraphGetEdges(void *graph, void **from, void **to, size_t *count) try {
  if (!validGraph(graph) || !count || !from != !to)
    return badGraph("hipGraphGetEdges");
  std::vector<GraphNode *> a, b;
  for (const auto &n : static_cast<Graph *>(graph)->nodes)
    for (GraphNode *d : n->dependencies) {
      a.push_back(d);
      b.push_back(n.get());
    }
  size_t same = *count;
  if (hipError_t e = give(a, from, count, "hipGraphGetEdges"))
    return e;
  return from ? give(b, to, &same, "hipGraphGetEdges") : hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipGraphNodeGetDependencies(void *node, void **out, size_t *count) try {
  if (!validNode(node))
    return badGraph("hipGraphNodeGetDependencies");
  return give(static_cast<GraphNode *>(node)->dependencies, out, count, "hipGraphNodeGetDependencies");
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipGraphNodeGetDependentNodes(void *node, void **out, size_t *count) try {
  if (!validNode(node))
    return badGraph("hipGraphNodeGetDependentNodes");
  auto *n = static_cast<GraphNode *>(node);
  std::vector<GraphNode *> list;
  for (const auto &m : n->graph->nodes)
    if (std::count(m->dependencies.begin(), m->dependencies.end(), n))
      list.push_back(m.get());
  return give(list, out, count, "hipGraphNodeGetDependentNodes");
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipGraphNodeGetType(void *node, int *type) try {
  if (!validNode(node) || !type)
    return badGraph("hipGraphNodeGetType");
  *type = static_cast<int>(static_cast<GraphNode *>(node)->work.type);
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipGraphAddDependencies(void *graph, void *const *from, void *const *to,
                                              size_t count) try {
  if (!validGraph(graph) || (count && (!from || !to)))
    return badGraph("hipGraphAddDependencies");
  size_t n = 0; // edges that are there: all or none
  auto undo = [&] {
    while (n)
      static_cast<GraphNode *>(to[--n])->dependencies.pop_back();
  };
  try {
    for (; n < count; ++n) {
      auto *a = static_cast<GraphNode *>(from[n]), *b = static_cast<GraphNode *>(to[n]);
      if (!validNode(a) || !validNode(b) || a->graph != graph || b->graph != graph || a == b ||
          std::count(b->dependencies.begin(), b->dependencies.end(), a)) {
        undo();
        return fail(hipErrorInvalidValue, "hipGraphAddDependencies: no nodes of the graph, or an edge that exists");
      }
      b->dependencies.push_back(a);
    }
  } catch (...) {
    undo();
    throw;
  }
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipGraphRemoveDependencies(void *graph, void *const *from, void *const *to,
                                                 size_t count) try {
  if (!validGraph(graph) || (count && (!from || !to)))
    return badGraph("hipGraphRemoveDependencies");
  for (size_t n = 0; n < count; ++n) {
    auto *b = static_cast<GraphNode *>(to[n]);
    if (!validNode(b) || b->graph != graph)
      return badGraph("hipGraphRemoveDependencies");
    auto it = std::find(b->dependencies.begin(), b->dependencies.end(), from[n]);
    if (it == b->dependencies.end())
      return fail(hipErrorInvalidValue, "hipGraphRemoveDependencies: there is no such edge");
    b->dependencies.erase(it);
  }
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipGraphDestroyNode(void *node) try {
  if (!validNode(node))
    return badGraph("hipGraphDestroyNode");
  auto *n = static_cast<GraphNode *>(node);
  Graph &g = *n->graph;
  for (const auto &m : g.nodes) {
    auto &d = m->dependencies;
    d.erase(std::remove(d.begin(), d.end(), n), d.end());
  }
  forgetNode(n);
  g.nodes.erase(std::find_if(g.nodes.begin(), g.nodes.end(), [&](const auto &m) { return m.get() == n; }));
  return hipSuccess;
} FLYSIM_GUARDED

//===--- executable graphs ----------------------------------------------------===//

FLYSIM_API hipError_t hipGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long) try {
  if (!exec || !validGraph(graph))
    return badGraph("hipGraphInstantiate");
  std::vector<GraphNode *> order;
  if (!static_cast<Graph *>(graph)->order(order))
    return fail(hipErrorInvalidValue, "hipGraphInstantiate: the dependencies form a cycle");
  *exec = Runtime::instance().graphExecs.add(static_cast<Graph *>(graph)->clone());
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipGraphInstantiate(void **exec, void *graph, void **errorNode, char *log,
                                          size_t size) try {
  if (errorNode)
    *errorNode = nullptr;
  if (log && size)
    *log = 0;
  return hipGraphInstantiateWithFlags(exec, graph, 0);
} FLYSIM_GUARDED
struct hipGraphInstantiateParams {
  void *errNode_out;
  unsigned long long flags;
  int result_out;
  void *uploadStream;
};
FLYSIM_API hipError_t hipGraphInstantiateWithParams(void **exec, void *graph,
                                                    hipGraphInstantiateParams *p) try {
  if (!p)
    return badGraph("hipGraphInstantiateWithParams");
  hipError_t e = hipGraphInstantiateWithFlags(exec, graph, p->flags);
  p->errNode_out = nullptr;
  p->result_out = e ? 1 : 0;
  return e;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipGraphExecDestroy(void *exec) try {
  return Runtime::instance().graphExecs.destroy(exec) ? hipSuccess : badGraph("hipGraphExecDestroy");
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipGraphExecGetFlags(void *exec, unsigned long long *flags) try {
  if (!Runtime::instance().graphExecs.contains(exec) || !flags)
    return badGraph("hipGraphExecGetFlags");
  *flags = 0;
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipGraphUpload(void *exec, void *stream) try {
  return Runtime::instance().graphExecs.contains(exec) && validStream(stream) ? hipSuccess
                                                                             : badGraph("hipGraphUpload");
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipGraphLaunch(void *exec, void *stream) try {
  if (!Runtime::instance().graphExecs.contains(exec))
    return badGraph("hipGraphLaunch");
  NodeWork work;
  work.type = NodeType::Child;
  // A copy: the graph may be changed or destroyed before its turn comes.
  work.child = static_cast<Graph *>(exec)->clone();
  std::shared_ptr<Graph> own = work.child;
  work.run = [own] { own->run(); };
  return enqueue(stream, std::move(work));
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipGraphExecUpdate(void *exec, void *graph, void **errorNode, int *result) try {
  if (!Runtime::instance().graphExecs.contains(exec) || !validGraph(graph))
    return badGraph("hipGraphExecUpdate");
  auto *e = static_cast<Graph *>(exec), *g = static_cast<Graph *>(graph);
  auto refuse = [&](int why, void *node, const char *text) {
    if (errorNode)
      *errorNode = node;
    if (result)
      *result = why;
    return fail(hipErrorGraphExecUpdateFailure, std::string("hipGraphExecUpdate: ") + text);
  };
  if (errorNode)
    *errorNode = nullptr;
  if (result)
    *result = 0;
  if (e->nodes.size() != g->nodes.size())
    return refuse(2, nullptr, "the graphs have different numbers of nodes");
  auto place = [](const Graph &in, const GraphNode *n) {
    for (size_t k = 0; k < in.nodes.size(); ++k)
      if (in.nodes[k].get() == n)
        return k;
    return in.nodes.size();
  };
  for (size_t k = 0; k < g->nodes.size(); ++k) {
    GraphNode &now = *e->nodes[k], &next = *g->nodes[k];
    if (now.work.type != next.work.type)
      return refuse(3, &next, "a node has another type");
    if (now.dependencies.size() != next.dependencies.size())
      return refuse(2, &next, "a node has other dependencies");
    std::set<size_t> a, b;
    for (size_t n = 0; n < now.dependencies.size(); ++n) {
      a.insert(place(*e, now.dependencies[n]));
      b.insert(place(*g, next.dependencies[n]));
    }
    if (a != b)
      return refuse(2, &next, "a node has other dependencies");
  }
  std::unique_ptr<Graph> copy = g->clone();
  for (size_t k = 0; k < g->nodes.size(); ++k) {
    e->nodes[k]->work = std::move(copy->nodes[k]->work);
    e->nodes[k]->origin = g->nodes[k].get();
  }
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipGraphNodeSetEnabled(void *exec, void *node, unsigned enabled) try {
  GraphNode *n = Runtime::instance().graphExecs.contains(exec)
                     ? static_cast<Graph *>(exec)->copyOf(static_cast<GraphNode *>(node))
                     : nullptr;
  if (!n)
    return badGraph("hipGraphNodeSetEnabled");
  n->enabled = enabled != 0;
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipGraphNodeGetEnabled(void *exec, void *node, unsigned *enabled) try {
  GraphNode *n = Runtime::instance().graphExecs.contains(exec)
                     ? static_cast<Graph *>(exec)->copyOf(static_cast<GraphNode *>(node))
                     : nullptr;
  if (!n || !enabled)
    return badGraph("hipGraphNodeGetEnabled");
  *enabled = n->enabled;
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipGraphDebugDotPrint(void *graph, const char *path, unsigned) try {
  if (!validGraph(graph) || !path)
    return badGraph("hipGraphDebugDotPrint");
  FILE *file = fopen(path, "w");
  if (!file)
    return fail(hipErrorInvalidValue, std::string("hipGraphDebugDotPrint: cannot write ") + path);
  fprintf(file, "digraph {\n");
  for (const auto &n : static_cast<Graph *>(graph)->nodes) {
    const char *kernel = n->work.kernel ? n->work.kernel->function->kernel->name.c_str() : "";
    fprintf(file, "  \"%p\" [label=\"%s %s\"];\n", static_cast<void *>(n.get()),
            typeName(n->work.type), kernel);
    for (GraphNode *d : n->dependencies)
      fprintf(file, "  \"%p\" -> \"%p\";\n", static_cast<void *>(d), static_cast<void *>(n.get()));
  }
  fprintf(file, "}\n");
  fclose(file);
  return hipSuccess;
} FLYSIM_GUARDED

//===--- objects that graphs keep alive -----------------------------------------===//

FLYSIM_API hipError_t hipGraphRetainUserObject(void *graph, void *object, unsigned count, unsigned flags) try {
  // With flag 1 the graph takes over references of the caller.
  if (!validGraph(graph) || !count || (!(flags & 1) && !retainUserObject(object, count)))
    return badGraph("hipGraphRetainUserObject");
  static_cast<Graph *>(graph)->userObjects[object] += count;
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipGraphReleaseUserObject(void *graph, void *object, unsigned count) try {
  if (!validGraph(graph) || !count)
    return badGraph("hipGraphReleaseUserObject");
  auto &held = static_cast<Graph *>(graph)->userObjects;
  auto it = held.find(object);
  if (it == held.end() || it->second < count)
    return badGraph("hipGraphReleaseUserObject");
  if (!(it->second -= count))
    held.erase(it);
  releaseUserObject(object, count);
  return hipSuccess;
} FLYSIM_GUARDED
