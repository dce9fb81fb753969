//===- UserObjects.cpp - objects that graphs keep alive -------------------===//

#include "hip/Runtime.h"

#include <mutex>
#include <set>

using namespace flysim;

namespace {
struct UserObject {
  void *pointer;
  void (*destroy)(void *);
  unsigned references;
};
std::mutex objectMutex;
std::set<UserObject *> objects;

bool changeReferences(void *handle, int by) {
  auto *o = static_cast<UserObject *>(handle);
  {
    std::lock_guard<std::mutex> lock(objectMutex);
    if (!objects.count(o) || (by < 0 && o->references < static_cast<unsigned>(-by)))
      return false;
    o->references = static_cast<unsigned>(static_cast<int>(o->references) + by);
    if (o->references)
      return true;
    objects.erase(o);
  }
  o->destroy(o->pointer);
  delete o;
  return true;
}
} // namespace

namespace flysim {
bool retainUserObject(void *object, unsigned count) {
  return changeReferences(object, static_cast<int>(count));
}
bool releaseUserObject(void *object, unsigned count) {
  return changeReferences(object, -static_cast<int>(count));
}
} // namespace flysim

FLYSIM_API hipError_t hipUserObjectCreate(void **out, void *pointer, void (*destroy)(void *),
                                          unsigned references, unsigned) try {
  if (!out || !destroy || !references)
    return fail(hipErrorInvalidValue, "hipUserObjectCreate: null pointer or no references");
  auto *o = new UserObject{pointer, destroy, references};
  std::lock_guard<std::mutex> lock(objectMutex);
  objects.insert(o);
  *out = o;
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipUserObjectRetain(void *object, unsigned count) try {
  return count && retainUserObject(object, count)
             ? hipSuccess
             : fail(hipErrorInvalidValue, "hipUserObjectRetain: invalid object");
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipUserObjectRelease(void *object, unsigned count) try {
  return count && releaseUserObject(object, count)
             ? hipSuccess
             : fail(hipErrorInvalidValue, "hipUserObjectRelease: invalid object");
} FLYSIM_GUARDED
