//===- Hostcall.cpp - requests of running kernels to the host -------------===//

#include "hip/Hostcall.h"

#include "hip/Conversion.h"
#include "memory/Memory.h"
#include "support/Error.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>

namespace flysim {

namespace {

// The buffer, in words of 8 bytes.
constexpr size_t kHeaders = 0, kPayloads = 1, kDoorbell = 2, kFree = 3, kReady = 4, kMask = 5;
constexpr size_t kBufferBytes = 64;
/// A signal of HSA: kind, value, mailbox (none), event.
constexpr size_t kSignalBytes = 64;

/// A packet has 8 words for each of 64 lanes.
constexpr size_t kSlots = 8, kPayloadBytes = 64 * kSlots * 8;

enum ServiceNumber : uint32_t { FunctionCall = 1, Print = 2, DeviceMemory = 3 };

// The first word of a request to print.
constexpr uint64_t kBegin = 1, kEnd = 2, kLengthShift = 5, kLengthMask = 7, kNumberShift = 8;

/// Bytes of the heap of device malloc, which its code wants zeroed.
constexpr uint64_t kHeapBytes = 128 * 1024;
/// Characters of one message.
constexpr size_t kMostOutput = 64u << 20;
/// Words of messages that kernels have begun and not ended.
constexpr size_t kMostWords = 8u << 20;
constexpr size_t kMessageWords = 16; ///< what keeping one takes besides
/// Blocks of this size start at a multiple of it: the device library finds them by that.
constexpr uint64_t kSlabBytes = 2 << 20, kPageBytes = 4096;

uint64_t allocate(uint64_t bytes, int device) {
  uint64_t base = AddressSpace::instance().allocate(bytes, MemKind::Service, device);
  if (!base)
    raise(FaultKind::OutOfMemory, "no memory for the hidden arguments of a kernel");
  return base;
}

/// Memory that kernels have asked for. It lives until a kernel frees it.
class DeviceHeaps {
public:
  static DeviceHeaps &instance() {
    static auto *heaps = new DeviceHeaps;
    return *heaps;
  }
  uint64_t heapOf(int device) {
    std::lock_guard<std::mutex> lock(mutex);
    uint64_t &heap = heaps[device];
    if (!heap)
      heap = flysim::allocate(kHeapBytes, device);
    return heap;
  }
  /// 0 when there is no memory, as malloc gives.
  uint64_t take(uint64_t bytes, int device) {
    uint64_t alignment = bytes >= kSlabBytes ? kSlabBytes : kPageBytes;
    AddressSpace &space = AddressSpace::instance();
    bool overflows = bytes + alignment < bytes;
    uint64_t base = overflows ? 0 : space.allocate(bytes + alignment, MemKind::Service, device);
    if (!base)
      return 0;
    uint64_t start = (base + alignment - 1) / alignment * alignment;
    std::lock_guard<std::mutex> lock(mutex);
    bases[start] = base;
    return start;
  }
  bool give(uint64_t start) {
    std::lock_guard<std::mutex> lock(mutex);
    auto found = bases.find(start);
    if (found == bases.end())
      return false;
    AddressSpace::instance().release(found->second);
    bases.erase(found);
    return true;
  }

private:
  std::mutex mutex;
  std::map<int, uint64_t> heaps;
  std::map<uint64_t, uint64_t> bases; ///< allocation by address given out
};

/// The text of one word.
std::string convert(const Conversion &c, uint64_t word) {
  if (c.isReal()) {
    double value;
    memcpy(&value, &word, 8);
    return c.real(value);
  }
  if (c.kind == 'c')
    return c.character(static_cast<char>(word));
  if (c.kind == 'p')
    return c.pointer(word);
  auto narrow = [&](auto asSigned, auto asUnsigned) {
    return c.isSigned() ? static_cast<uint64_t>(static_cast<int64_t>(decltype(asSigned)(word)))
                        : static_cast<uint64_t>(decltype(asUnsigned)(word));
  };
  if (c.length.empty())
    word = narrow(int32_t(), uint32_t());
  else if (c.length == "h")
    word = narrow(int16_t(), uint16_t());
  else if (c.length == "hh")
    word = narrow(int8_t(), uint8_t());
  return c.integer(word);
}

/// A string that starts at word `at` of a message, which then is the word behind it.
std::string takeString(const uint64_t *words, size_t count, size_t &at) {
  const char *start = reinterpret_cast<const char *>(words + at);
  std::string text(start, strnlen(start, (count - at) * 8));
  at = std::min(count, at + text.size() / 8 + 1);
  return text;
}

} // namespace

std::string formatMessage(const uint64_t *words, size_t count) {
  size_t at = 0;
  std::string format = takeString(words, count, at), out;
  for (size_t i = 0; i < format.size() && out.size() < kMostOutput;) {
    size_t start = i;
    std::optional<Conversion> c;
    if (format[i] == '%')
      c = Conversion::read(format, i);
    if (!c) {
      out += format[i++];
    } else if (c->kind == '%') {
      out += '%';
    } else if (at + c->arguments() >= count) {
      out += format.substr(start, i - start);
    } else {
      if (c->widthArgument)
        c->setWidth(static_cast<int>(words[at++]));
      if (c->precisionArgument)
        c->setPrecision(static_cast<int>(words[at++]));
      // A null pointer is one empty word; its flags and width still hold.
      out += c->kind == 's' ? c->text(takeString(words, count, at)) : convert(*c, words[at++]);
    }
  }
  return out;
}

std::unique_ptr<HiddenMemory> HiddenMemory::make(const KernelInfo &k, uint8_t *segment,
                                                 uint64_t groups, uint64_t waves, bool cooperative,
                                                 int device) {
  std::unique_ptr<HiddenMemory> memory;
  for (const KernelArg &a : k.args) {
    bool packets = a.kind == "hidden_hostcall_buffer", heap = a.kind == "hidden_heap_v1";
    bool meeting = a.kind == "hidden_multigrid_sync_arg" && cooperative;
    if (!packets && !heap && !meeting)
      continue;
    if (!memory) {
      memory.reset(new HiddenMemory);
      memory->device = device;
    }
    uint64_t value = 0;
    if (heap) {
      value = DeviceHeaps::instance().heapOf(device);
    } else if (meeting) {
      // Of one grid of one: numbers of the grid and of grids, work-items before and in all, the
      // counter (two words) and the number of work-groups that meet there.
      value = allocate(64, device);
      memory->owned.push_back(value);
      auto *words = reinterpret_cast<uint32_t *>(value);
      words[3] = 1;
      words[10] = static_cast<uint32_t>(groups);
    } else {
      memory->allocatePackets(waves);
      value = reinterpret_cast<uint64_t>(memory->buffer);
    }
    memcpy(segment + a.offset, &value, 8);
  }
  return memory;
}

void HiddenMemory::allocatePackets(uint64_t waves) {
  // The lists rely on a packet for every wave.
  uint64_t count = 64;
  while (count < waves)
    count *= 2;
  uint64_t headers = kBufferBytes + kSignalBytes, payloads = headers + count * sizeof(PacketHeader);
  payloads = (payloads + 63) / 64 * 64;
  uint64_t base = allocate(payloads + count * kPayloadBytes, device);
  owned.push_back(base);
  exchange = Region{base, payloads + base + count * kPayloadBytes, true};
  buffer = reinterpret_cast<uint64_t *>(base);
  // Kernels may write what the buffer says of itself: the host goes by what it knows.
  packets = reinterpret_cast<PacketHeader *>(base + headers);
  payload = base + payloads;
  packetMask = count - 1;
  buffer[kHeaders] = base + headers;
  buffer[kPayloads] = base + payloads;
  buffer[kDoorbell] = base + kBufferBytes;
  buffer[kMask] = count - 1;
  // Number 0 ends a list: the first packet goes by the next number that has the same place.
  uint64_t next = count;
  for (uint64_t i = 1; i < count; ++i) {
    packets[i].next = next;
    next = i;
  }
  buffer[kFree] = next;
}

HiddenMemory::~HiddenMemory() {
  for (uint64_t base : owned)
    AddressSpace::instance().release(base);
}

void HiddenMemory::serve() {
  if (!buffer || !__atomic_load_n(&buffer[kReady], __ATOMIC_RELAXED))
    return;
  std::lock_guard<std::mutex> lock(mutex);
  std::vector<uint64_t> ready;
  uint64_t taken = __atomic_exchange_n(&buffer[kReady], 0, __ATOMIC_ACQ_REL);
  for (uint64_t p = taken; p; p = __atomic_load_n(&packets[p & packetMask].next, __ATOMIC_RELAXED)) {
    if (ready.size() > packetMask)
      raise(FaultKind::InvalidConfiguration, "the kernel has made a circle of its requests to the host");
    ready.push_back(p & packetMask);
  }
  // The newest is the first of the list.
  for (auto p = ready.rbegin(); p != ready.rend(); ++p) {
    PacketHeader &header = packets[*p];
    auto *slots = reinterpret_cast<uint64_t *>(payload + *p * kPayloadBytes);
    for (unsigned lane = 0; lane < 64; ++lane)
      if (header.lanes >> lane & 1)
        answer(header.service, slots + lane * kSlots);
    __atomic_and_fetch(&header.control, ~1u, __ATOMIC_RELEASE);
  }
}

void HiddenMemory::answer(uint32_t service, uint64_t *slots) {
  if (service == Print) {
    print(slots);
  } else if (service == DeviceMemory) {
    // An address is freed; else the second word says how many bytes are wanted.
    if (slots[0] && !DeviceHeaps::instance().give(slots[0]))
      raise(FaultKind::IllegalAddress,
            format("the kernel frees 0x%llx, which it did not get from malloc",
                   (unsigned long long)slots[0]));
    slots[0] = slots[0] ? 0 : DeviceHeaps::instance().take(slots[1], device);
  } else {
    raise(FaultKind::InvalidConfiguration,
          format("the kernel asks the host for service %u%s; the simulator has 2 (print) and 3 "
                 "(memory)",
                 service, service == FunctionCall ? " (call a host function)" : ""));
  }
}

void HiddenMemory::print(uint64_t *slots) {
  uint64_t word = slots[0], number = word >> kNumberShift;
  const bool begins = word & kBegin;
  if (begins) {
    number = nextMessage++;
    word = (word & ~kBegin & ((1u << kNumberShift) - 1)) | number << kNumberShift;
    messages[number];
  }
  auto found = messages.find(number);
  if (found == messages.end())
    raise(FaultKind::InvalidConfiguration,
          format("the kernel continues message %llu, which it has not begun",
                 (unsigned long long)number));
  size_t count = word >> kLengthShift & kLengthMask;
  if ((pendingWords += count + (begins ? kMessageWords : 0)) > kMostWords)
    raise(FaultKind::OutOfMemory,
          format("the kernel prints messages of more than %zu MiB without ending them",
                 kMostWords * 8 >> 20));
  found->second.insert(found->second.end(), slots + 1, slots + 1 + count);
  slots[0] = word;
  if (!(word & kEnd))
    return;
  // The first word tells the stream: 1 is stderr.
  const std::vector<uint64_t> &words = found->second;
  std::string text = words.size() > 1 ? formatMessage(words.data() + 1, words.size() - 1) : "";
  FILE *stream = !words.empty() && words[0] == 1 ? stderr : stdout;
  fwrite(text.data(), 1, text.size(), stream);
  fflush(stream);
  slots[0] = text.size();
  pendingWords -= words.size() + kMessageWords;
  messages.erase(found);
}

} // namespace flysim
