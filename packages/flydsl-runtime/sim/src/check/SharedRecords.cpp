//===- SharedRecords.cpp - who wrote memory of several devices ------------===//

#include "check/SharedRecords.h"

#include <ctime>
#include <mutex>
#include <sys/mman.h>
#include <unistd.h>

namespace flysim {

namespace {
constexpr uint64_t kPage = 4096;
constexpr unsigned kDevicesBits = 3;
} // namespace

uint32_t deviceNumber(int device) {
  auto process = static_cast<uint32_t>(getpid());
  uint32_t number = process << kDevicesBits | static_cast<uint32_t>(device & 7);
  return number & ((1u << LastWrite::kDeviceBits) - 1);
}

std::string deviceText(uint32_t number) {
  bool other = number >> kDevicesBits != deviceNumber(0) >> kDevicesBits;
  return "device " + std::to_string(number & 7) + (other ? " of another process" : "");
}

uint64_t sharedTime() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  uint64_t ns = static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
  return (ns >> 6) & ((uint64_t(1) << LastWrite::kTimeBits) - 1);
}

uint64_t recordBytes(uint64_t bytes) { return bytes / 4 * (sizeof(uint64_t) + sizeof(uint32_t)); }

SharedRecords &SharedRecords::instance() {
  static SharedRecords records;
  return records;
}

void SharedRecords::add(uint64_t base, uint64_t size, int file, uint64_t offset) {
  uint64_t dwords = (size + kPage - 1) / kPage * kPage / 4, bytes = recordBytes(4 * dwords);
  int flags = file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED;
  void *map = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, file, static_cast<off_t>(offset));
  if (map == MAP_FAILED)
    return;
  auto unmap = [](const SharedRecord *r) {
    munmap(r->cells, r->mapBytes);
    delete r;
  };
  auto *cells = static_cast<std::atomic<uint64_t> *>(map);
  auto *before = reinterpret_cast<std::atomic<uint32_t> *>(cells + dwords);
  std::shared_ptr<const SharedRecord> record(new SharedRecord{base, size, cells, before, bytes}, unmap);
  std::unique_lock lock(mutex);
  records[base] = std::move(record);
}

void SharedRecords::remove(uint64_t base) {
  std::unique_lock lock(mutex);
  records.erase(base);
}

std::vector<std::shared_ptr<const SharedRecord>> SharedRecords::all() const {
  std::shared_lock lock(mutex);
  std::vector<std::shared_ptr<const SharedRecord>> out;
  for (const auto &entry : records)
    out.push_back(entry.second);
  return out;
}

} // namespace flysim
