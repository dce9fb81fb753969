//===- Hostcall.h - requests of running kernels to the host ----*- C++ -*-===//
//
// Code of HIP and Triton calls the host for printf, for the message of a failed assertion
// and for memory (device malloc): a wave takes a packet from a list in a buffer, which the
// kernel gets as a hidden argument, fills it, puts it on another list and sleeps until the
// host has answered. The layout is that of ROCm's device library (ockl).
//
//===----------------------------------------------------------------------===//
#ifndef FLYSIM_HIP_HOSTCALL_H
#define FLYSIM_HIP_HOSTCALL_H

#include "exec/Machine.h"

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace flysim {

/// The format string and the arguments of one printf call, 8 bytes each (strings as many
/// as they need): the text. Conversions that lack an argument are printed as they stand.
std::string formatMessage(const uint64_t *words, size_t count);

/// What the waves and the host know a packet by.
struct PacketHeader {
  uint64_t next;
  uint64_t lanes; ///< those that call
  uint32_t service;
  uint32_t control; ///< bit 0: not answered yet
};
static_assert(sizeof(PacketHeader) == 24, "part of the interface to the device library");

/// The hidden arguments of one launch that point to memory: packets for requests, the
/// counter by which the work-groups of a cooperative launch meet, the heap of the device.
class HiddenMemory : public Service {
public:
  /// Fills the hidden arguments that kernel `k` has into its segment; null if there are
  /// none. `waves`: the most that can run at a time.
  static std::unique_ptr<HiddenMemory> make(const KernelInfo &k, uint8_t *segment, uint64_t groups,
                                            uint64_t waves, bool cooperative, int device);
  ~HiddenMemory() override;

  /// Answers the requests that wait. Called by the threads of the launch.
  void serve() override;

private:
  HiddenMemory() = default;
  void allocatePackets(uint64_t waves);
  void answer(uint32_t service, uint64_t *slots);
  void print(uint64_t *slots);

  std::vector<uint64_t> owned; ///< allocations
  uint64_t *buffer = nullptr;  ///< headers, payloads, doorbell, free list, ready list, mask
  PacketHeader *packets = nullptr; ///< packetMask + 1 of them
  uint64_t payload = 0, packetMask = 0;
  std::mutex mutex;            ///< guards the messages
  std::map<uint64_t, std::vector<uint64_t>> messages; ///< unfinished ones, by number
  uint64_t nextMessage = 1;
  size_t pendingWords = 0; ///< in the unfinished messages
  int device = 0;
};

} // namespace flysim

#endif
