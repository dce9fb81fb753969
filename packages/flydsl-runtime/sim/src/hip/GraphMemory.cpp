//===- GraphMemory.cpp - memory that graphs allocate and free -------------===//

#include "hip/Graph.h"
#include "hip/MemoryWork.h"
#include "hip/Runtime.h"

#include <mutex>

namespace flysim {

namespace {

std::mutex mutex;
/// By address. Null: the graph is gone, and the memory goes when it is freed.
std::map<void *, GraphMemory *> memories;

} // namespace

GraphMemory::~GraphMemory() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (live) {
      memories[pointer] = nullptr;
      return;
    }
    memories.erase(pointer);
  }
  releaseMemory(pointer);
}

bool isGraphMemory(void *p) {
  std::lock_guard<std::mutex> lock(mutex);
  auto it = memories.find(p);
  return it != memories.end() && it->second;
}

bool freeGraphMemory(void *p, bool &bad) {
  std::lock_guard<std::mutex> lock(mutex);
  auto it = memories.find(p);
  if (it == memories.end())
    return false;
  if (!it->second) {
    memories.erase(it);
    return false; // an allocation like any other now
  }
  bad = !it->second->live;
  it->second->live = false;
  return true;
}

hipError_t graphMemoryWork(const MemAllocParams &p, NodeWork &out) {
  auto memory = std::make_shared<GraphMemory>();
  int before = currentDevice();
  setCurrentDevice(p.pool.locationId);
  hipError_t e = allocateMemory(&memory->pointer, p.bytes, MemKind::Device);
  setCurrentDevice(before);
  if (e)
    return e;
  out = NodeWork();
  out.type = NodeType::MemAlloc;
  out.allocation = p;
  out.allocation.pointer = memory->pointer;
  {
    std::lock_guard<std::mutex> lock(mutex);
    memories[memory->pointer] = memory.get();
  }
  out.run = [memory] {
    std::lock_guard<std::mutex> lock(mutex);
    memory->live = true;
  };
  out.memory = std::move(memory);
  return hipSuccess;
}

} // namespace flysim
