//===- SharedRecords.h - who wrote memory of several devices ---*- C++ -*-===//
//
// Memory that several devices use has a record of every dword: which device wrote it last,
// whether the write has left that device's caches, and what was there before. The records of
// memory that another process may open lie in the same memory file, behind the memory, so
// that the checks of all processes see them; untouched pages of the file take no room.
//
//===----------------------------------------------------------------------===//
#ifndef FLYSIM_CHECK_SHAREDRECORDS_H
#define FLYSIM_CHECK_SHAREDRECORDS_H

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <shared_mutex>
#include <string>
#include <vector>

namespace flysim {

/// Who wrote a dword last, packed in 64 bits: 0 if no kernel did.
struct LastWrite {
  uint32_t device = 0;   ///< see deviceNumber
  bool cached = false;   ///< it may still lie in a cache of that device
  uint64_t time = 0;     ///< when it left the caches

  static constexpr unsigned kTimeBits = 44, kDeviceBits = 18;
  uint64_t packed() const {
    return time | uint64_t(device) << kTimeBits | uint64_t(cached) << 62 | uint64_t(1) << 63;
  }
  static LastWrite of(uint64_t bits) {
    LastWrite w;
    w.time = bits & ((uint64_t(1) << kTimeBits) - 1);
    w.device = static_cast<uint32_t>(bits >> kTimeBits) & ((1u << kDeviceBits) - 1);
    w.cached = bits >> 62 & 1;
    return w;
  }
};

/// A time that all processes of the machine share, in steps of 64 ns. It comes round after 13 days.
uint64_t sharedTime();
/// Whether a time is after another one that is less than half a round away.
inline bool isAfter(uint64_t a, uint64_t b) {
  return ((a - b) & ((uint64_t(1) << LastWrite::kTimeBits) - 1)) - 1 <
         (uint64_t(1) << (LastWrite::kTimeBits - 1)) - 1;
}

/// A number of a device that differs between processes (up to 2^15 of them), and its words for
/// messages in this process.
uint32_t deviceNumber(int device);
std::string deviceText(uint32_t number);

/// The records of one allocation.
struct SharedRecord {
  uint64_t base = 0, size = 0;
  std::atomic<uint64_t> *cells = nullptr; ///< by dword
  std::atomic<uint32_t> *before = nullptr; ///< by dword: its value before what the cell tells of
  uint64_t mapBytes = 0;
};

/// Bytes that the records of an allocation of whole pages add to its memory file.
uint64_t recordBytes(uint64_t bytes);

/// The records of the process. Thread safe.
class SharedRecords {
public:
  static SharedRecords &instance();
  /// The records lie in a file at `offset`, or in this process alone (`file` -1). Replaces
  /// earlier ones. Without memory for them the allocation is not checked.
  void add(uint64_t base, uint64_t size, int file, uint64_t offset);
  void remove(uint64_t base);
  /// They live until no launch holds them.
  std::vector<std::shared_ptr<const SharedRecord>> all() const;

private:
  mutable std::shared_mutex mutex;
  std::map<uint64_t, std::shared_ptr<const SharedRecord>> records; ///< by base
};

} // namespace flysim

#endif
