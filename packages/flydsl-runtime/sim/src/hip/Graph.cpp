//===- Graph.cpp - graphs: nodes, order, copies ---------------------------===//

#include "hip/Graph.h"

#include "hip/Runtime.h"

#include <algorithm>
#include <mutex>

namespace flysim {

namespace {
std::mutex mutex;
std::set<const void *> liveGraphs, liveNodes;
} // namespace

bool validNode(const void *node) {
  std::lock_guard<std::mutex> lock(mutex);
  return liveNodes.count(node) != 0;
}
bool validGraph(const void *graph) {
  std::lock_guard<std::mutex> lock(mutex);
  return liveGraphs.count(graph) != 0;
}

void forgetNode(const GraphNode *node) {
  std::lock_guard<std::mutex> lock(mutex);
  liveNodes.erase(node);
}

Graph::Graph() {
  std::lock_guard<std::mutex> lock(mutex);
  liveGraphs.insert(this);
}

Graph::~Graph() {
  for (const auto &o : userObjects)
    releaseUserObject(o.first, o.second);
  std::lock_guard<std::mutex> lock(mutex);
  liveGraphs.erase(this);
  for (const auto &n : nodes)
    liveNodes.erase(n.get());
}

GraphNode *Graph::add(NodeWork work, std::vector<GraphNode *> dependencies) {
  auto node = std::make_unique<GraphNode>();
  GraphNode *n = node.get();
  n->graph = this;
  n->work = std::move(work);
  n->dependencies = std::move(dependencies);
  if (nodes.size() == nodes.capacity())
    nodes.reserve(2 * nodes.size() + 1);
  std::lock_guard<std::mutex> lock(mutex);
  liveNodes.insert(n);
  nodes.push_back(std::move(node)); // there is room
  return n;
}

std::unique_ptr<Graph> Graph::clone() const {
  auto copy = std::make_unique<Graph>();
  std::map<const GraphNode *, GraphNode *> twin;
  for (const auto &n : nodes) {
    GraphNode *c = copy->add(n->work, {});
    if (n->work.child) {
      c->work.child = n->work.child->clone();
      Graph *child = c->work.child.get();
      c->work.run = [child] { child->run(); };
    }
    c->origin = n.get();
    c->enabled = n->enabled;
    twin[n.get()] = c;
  }
  for (const auto &n : nodes)
    for (GraphNode *d : n->dependencies)
      twin[n.get()]->dependencies.push_back(twin[d]);
  std::map<void *, unsigned> objects = userObjects;
  copy->userObjects.swap(objects); // from here on nothing raises: the copy gives back what it has
  for (const auto &o : userObjects)
    retainUserObject(o.first, o.second);
  return copy;
}

bool Graph::order(std::vector<GraphNode *> &out) const {
  std::set<const GraphNode *> done;
  out.clear();
  // Nodes come in the order in which they were added, as far as dependencies allow.
  while (out.size() < nodes.size()) {
    size_t before = out.size();
    for (const auto &n : nodes)
      if (!done.count(n.get()) && std::all_of(n->dependencies.begin(), n->dependencies.end(),
                                              [&](GraphNode *d) { return done.count(d) != 0; })) {
        out.push_back(n.get());
        done.insert(n.get());
      }
    if (out.size() == before)
      return false;
  }
  return true;
}

GraphNode *Graph::copyOf(const GraphNode *origin) const {
  for (const auto &n : nodes)
    if (n->origin == origin)
      return n.get();
  return nullptr;
}

void Graph::run() const {
  std::vector<GraphNode *> list;
  order(list);
  for (GraphNode *n : list)
    if (n->enabled && n->work.run)
      n->work.run();
}

} // namespace flysim
