//===- Ipc.cpp - device memory shared between processes -------------------===//
//
// Exporting an allocation moves its contents to a memory file at the same address; the
// handle names the file through /proc, which processes of the same user can open.
//
//===----------------------------------------------------------------------===//

#include "check/SharedRecords.h"
#include "hip/Queues.h"
#include "hip/Runtime.h"
#include "memory/Memory.h"

#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace flysim;

namespace {

struct IpcHandle {
  char magic[8];
  int32_t pid, file;
  uint64_t size, offset;
  char rest[32];
};
static_assert(sizeof(IpcHandle) == 64, "HIP binary interface");
constexpr char kMagic[8] = {'f', 'l', 'y', 's', 'i', 'm', 'I', '1'};

std::mutex exportMutex;

/// The memory file behind the allocation at `base`; -1 when the host has none left.
int exportAllocation(uint64_t base) {
  std::lock_guard<std::mutex> lock(exportMutex);
  Allocation a;
  if (!AddressSpace::instance().find(base, a))
    return -1;
  if (a.sharedFile >= 0)
    return a.sharedFile;
  uint64_t bytes = a.mapSize - 2 * 4096;
  int file = memfd_create("flysim", MFD_CLOEXEC);
  if (file < 0)
    return -1;
  auto *at = reinterpret_cast<char *>(a.base);
  bool written = ftruncate(file, static_cast<off_t>(bytes + recordBytes(bytes))) == 0;
  for (uint64_t done = 0; written && done < bytes;) {
    ssize_t n = pwrite(file, at + done, bytes - done, static_cast<off_t>(done));
    written = n > 0;
    done += written ? static_cast<uint64_t>(n) : 0;
  }
  if (!written || mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED) {
    close(file);
    return -1;
  }
  AddressSpace::instance().setSharedFile(a.base, file);
  SharedRecords::instance().add(a.base, a.size, file, bytes);
  return file;
}

std::atomic<bool> shared{false};

} // namespace

bool flysim::memoryIsShared() { return shared; }
void flysim::noteSharedMemory() { shared = true; }

FLYSIM_API hipError_t hipIpcGetMemHandle(void *handle, void *p) try {
  noteSharedMemory();
  Allocation a;
  auto addr = reinterpret_cast<uint64_t>(p);
  if (!handle || !AddressSpace::instance().find(addr, a) || !a.mapBase || a.piece)
    return fail(hipErrorInvalidValue, "hipIpcGetMemHandle: not a device allocation");
  finishAll();
  IpcHandle h;
  memset(&h, 0, sizeof h);
  memcpy(h.magic, kMagic, sizeof kMagic);
  h.pid = getpid();
  h.file = exportAllocation(a.base);
  h.size = a.size;
  h.offset = addr - a.base;
  if (h.file < 0)
    return fail(hipErrorOutOfMemory, "hipIpcGetMemHandle: no memory file");
  memcpy(handle, &h, sizeof h);
  return hipSuccess;
} FLYSIM_GUARDED

FLYSIM_API hipError_t hipIpcOpenMemHandle(void **out, IpcHandle h, unsigned) try {
  noteSharedMemory();
  if (!out || memcmp(h.magic, kMagic, sizeof kMagic) != 0)
    return fail(hipErrorInvalidValue, "hipIpcOpenMemHandle: not a handle of the simulator");
  if (h.pid == getpid())
    return fail(hipErrorInvalidContext, "hipIpcOpenMemHandle: the handle is of this process");
  std::string path = format("/proc/%d/fd/%d", h.pid, h.file);
  // A handle may name anything that the other process has open: a pipe must not block this one.
  int file = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
  struct stat about;
  if (file >= 0 && (fstat(file, &about) || !S_ISREG(about.st_mode) || h.offset > h.size ||
                    h.size > static_cast<uint64_t>(about.st_size))) {
    close(file);
    return fail(hipErrorInvalidHandle,
                "hipIpcOpenMemHandle: " + path + " is not the memory that the handle describes");
  }
  if (file < 0)
    return fail(hipErrorInvalidHandle, "hipIpcOpenMemHandle: cannot open " + path +
                                           " (has the exporting process ended?)");
  uint64_t base = AddressSpace::instance().allocate(h.size, MemKind::Device, currentDevice());
  uint64_t bytes = (h.size + 4095) / 4096 * 4096;
  bool mapped = base && mmap(reinterpret_cast<void *>(base), bytes, PROT_READ | PROT_WRITE,
                             MAP_SHARED | MAP_FIXED, file, 0) != MAP_FAILED;
  if (mapped && static_cast<uint64_t>(about.st_size) == bytes + recordBytes(bytes))
    SharedRecords::instance().add(base, h.size, file, bytes);
  close(file);
  if (!mapped)
    return fail(hipErrorOutOfMemory, "hipIpcOpenMemHandle: cannot map the memory");
  *out = reinterpret_cast<void *>(base + h.offset);
  return hipSuccess;
} FLYSIM_GUARDED

FLYSIM_API hipError_t hipIpcCloseMemHandle(void *p) try {
  Allocation a;
  if (!AddressSpace::instance().find(reinterpret_cast<uint64_t>(p), a))
    return fail(hipErrorInvalidValue, "hipIpcCloseMemHandle: not an opened handle");
  finishAll();
  SharedRecords::instance().remove(a.base);
  AddressSpace::instance().release(a.base);
  return hipSuccess;
} FLYSIM_GUARDED

//===--- events -------------------------------------------------------------===//

namespace {

constexpr char kEventMagic[8] = {'f', 'l', 'y', 's', 'i', 'm', 'E', '1'};

SharedEvent *mapEvent(int file) {
  void *p = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return p == MAP_FAILED ? nullptr : static_cast<SharedEvent *>(p);
}

std::map<const EventState *, int> eventFiles; ///< guarded by exportMutex

} // namespace

FLYSIM_API hipError_t hipIpcGetEventHandle(void *handle, void *event) try {
  if (!handle || !Runtime::instance().events.contains(event))
    return fail(hipErrorInvalidValue, "hipIpcGetEventHandle: invalid event");
  auto *e = static_cast<Event *>(event);
  if (!(e->flags & 4))
    return fail(hipErrorInvalidValue, "hipIpcGetEventHandle: the event lacks hipEventInterprocess");
  std::lock_guard<std::mutex> lock(exportMutex);
  int &file = eventFiles.emplace(e->state.get(), -1).first->second;
  if (file < 0) {
    file = memfd_create("flysim-event", MFD_CLOEXEC);
    // The memory is zero: an event that was never recorded counts as reached.
    SharedEvent *shared = file >= 0 && ftruncate(file, 4096) == 0 ? mapEvent(file) : nullptr;
    if (!shared)
      return fail(hipErrorOutOfMemory, "hipIpcGetEventHandle: no memory file");
    std::lock_guard<std::mutex> own(e->state->mutex);
    shared->recorded = e->state->pending;
    e->state->shared = shared;
  }
  IpcHandle h;
  memset(&h, 0, sizeof h);
  memcpy(h.magic, kEventMagic, sizeof kEventMagic);
  h.pid = getpid();
  h.file = file;
  memcpy(handle, &h, sizeof h);
  return hipSuccess;
} FLYSIM_GUARDED

FLYSIM_API hipError_t hipIpcOpenEventHandle(void **event, IpcHandle h) try {
  if (!event || memcmp(h.magic, kEventMagic, sizeof kEventMagic) != 0)
    return fail(hipErrorInvalidValue, "hipIpcOpenEventHandle: not a handle of the simulator");
  if (h.pid == getpid())
    return fail(hipErrorInvalidContext, "hipIpcOpenEventHandle: the handle is of this process");
  std::string path = format("/proc/%d/fd/%d", h.pid, h.file);
  int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  SharedEvent *shared = file < 0 ? nullptr : mapEvent(file);
  if (file >= 0)
    close(file);
  if (!shared)
    return fail(hipErrorInvalidHandle, "hipIpcOpenEventHandle: cannot open " + path +
                                           " (has the exporting process ended?)");
  auto e = std::make_unique<Event>();
  e->flags = 6;
  e->state->shared = shared;
  *event = Runtime::instance().events.add(std::move(e));
  return hipSuccess;
} FLYSIM_GUARDED
