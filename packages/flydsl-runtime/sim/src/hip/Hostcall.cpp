//===- Hostcall.cpp - requests of running kernels to the host -------------===//

#include "hip/Hostcall.h"

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

/// What the waves and the host know a packet by.
struct Header {
  uint64_t next;
  uint64_t lanes; ///< those that call
  uint32_t service;
  uint32_t control; ///< bit 0: not answered yet
};
static_assert(sizeof(Header) == 24, "part of the interface to the device library");
/// A packet has 8 words for each of 64 lanes.
constexpr size_t kSlots = 8, kPayloadBytes = 64 * kSlots * 8;

enum ServiceNumber : uint32_t { FunctionCall = 1, Print = 2, DeviceMemory = 3 };

// The first word of a request to print.
constexpr uint64_t kBegin = 1, kEnd = 2, kLengthShift = 5, kLengthMask = 7, kNumberShift = 8;

/// Bytes of the heap of device malloc, which its code wants zeroed.
constexpr uint64_t kHeapBytes = 128 * 1024;
/// Blocks of this size start at a multiple of it: the device library finds them by that.
constexpr uint64_t kSlabBytes = 2 << 20, kPageBytes = 4096;

uint64_t allocate(uint64_t bytes, MemKind kind, int device) {
  uint64_t base = AddressSpace::instance().allocate(bytes, kind, device);
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
      heap = flysim::allocate(kHeapBytes, MemKind::Device, device);
    return heap;
  }
  /// 0 when there is no memory, as malloc gives.
  uint64_t take(uint64_t bytes, int device) {
    uint64_t alignment = bytes >= kSlabBytes ? kSlabBytes : kPageBytes;
    AddressSpace &space = AddressSpace::instance();
    bool overflows = bytes + alignment < bytes;
    uint64_t base = overflows ? 0 : space.allocate(bytes + alignment, MemKind::Device, device);
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

/// The text of `spec` (such as "%-8.3lx") for one word. `fields`: values of its stars.
std::string convert(std::string spec, uint64_t word, const std::vector<int> &fields) {
  char conversion = spec.back();
  std::string length;
  spec.pop_back();
  while (!spec.empty() && strchr("hljztL", spec.back())) {
    length += spec.back();
    spec.pop_back();
  }
  for (int field : fields) {
    size_t star = spec.find('*');
    spec.replace(star, 1, std::to_string(field));
  }
  char text[512];
  if (strchr("fFeEgGaA", conversion)) {
    double value;
    memcpy(&value, &word, 8);
    snprintf(text, sizeof text, (spec + conversion).c_str(), value);
  } else if (conversion == 'c') {
    snprintf(text, sizeof text, (spec + 'c').c_str(), static_cast<int>(word));
  } else if (conversion == 'p') {
    snprintf(text, sizeof text, (spec + 'p').c_str(), reinterpret_cast<void *>(word));
  } else {
    bool isSigned = conversion == 'd' || conversion == 'i';
    int64_t value = static_cast<int64_t>(word);
    if (length.empty())
      value = isSigned ? static_cast<int32_t>(word) : int64_t(static_cast<uint32_t>(word));
    else if (length == "h")
      value = isSigned ? static_cast<int16_t>(word) : static_cast<uint16_t>(word);
    else if (length == "hh")
      value = isSigned ? static_cast<int8_t>(word) : static_cast<uint8_t>(word);
    snprintf(text, sizeof text, (spec + "ll" + conversion).c_str(), static_cast<long long>(value));
  }
  return text;
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
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') {
      out += format[i];
      continue;
    }
    size_t end = format.find_first_of("diouxXfFeEgGaAcsp%", i + 1);
    if (end == std::string::npos) {
      out += format.substr(i);
      break;
    }
    std::string spec = format.substr(i, end - i + 1);
    i = end;
    if (spec.back() == '%') {
      out += '%';
      continue;
    }
    std::vector<int> fields;
    auto stars = static_cast<size_t>(std::count(spec.begin(), spec.end(), '*'));
    if (at + stars >= count) {
      out += spec;
      continue;
    }
    for (; stars; --stars)
      fields.push_back(static_cast<int>(words[at++]));
    if (spec.back() != 's') {
      out += convert(spec, words[at++], fields);
      continue;
    }
    std::string text = takeString(words, count, at);
    for (int field : fields)
      spec.replace(spec.find('*'), 1, std::to_string(field));
    // A null pointer is one empty word; its flags and width still hold.
    std::vector<char> room(text.size() + 512);
    snprintf(room.data(), room.size(), spec.c_str(), text.c_str());
    out += room.data();
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
      value = allocate(64, MemKind::Device, device);
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
  uint64_t headers = kBufferBytes + kSignalBytes, payloads = headers + count * sizeof(Header);
  payloads = (payloads + 63) / 64 * 64;
  uint64_t base = allocate(payloads + count * kPayloadBytes, MemKind::HostPinned, device);
  owned.push_back(base);
  exchange = Region{base, payloads + base + count * kPayloadBytes, true};
  buffer = reinterpret_cast<uint64_t *>(base);
  buffer[kHeaders] = base + headers;
  buffer[kPayloads] = base + payloads;
  buffer[kDoorbell] = base + kBufferBytes;
  buffer[kMask] = count - 1;
  // Number 0 ends a list: the first packet goes by the next number that has the same place.
  auto *packets = reinterpret_cast<Header *>(base + headers);
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
  auto *packets = reinterpret_cast<Header *>(buffer[kHeaders]);
  std::vector<uint64_t> ready;
  uint64_t taken = __atomic_exchange_n(&buffer[kReady], 0, __ATOMIC_ACQ_REL);
  for (uint64_t p = taken; p; p = packets[p & buffer[kMask]].next)
    ready.push_back(p & buffer[kMask]);
  // The newest is the first of the list.
  for (auto p = ready.rbegin(); p != ready.rend(); ++p) {
    Header &header = packets[*p];
    auto *slots = reinterpret_cast<uint64_t *>(buffer[kPayloads] + *p * kPayloadBytes);
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
  if (word & kBegin) {
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
  messages.erase(found);
}

} // namespace flysim
