//===- Multicast.h - tensor moves that work-groups share -------*- C++ -*-===//
//
// The mask of a tensor load names the work-groups of the cluster that make the same request, so that memory
// is read once for all of them. Each request delivers to its own work-group: one that another work-group of
// the mask never makes, or makes of another tile, still gives right values here. The hardware would wait for
// its partner or read memory again.
//
//===----------------------------------------------------------------------===//
#ifndef FLYSIM_CHECK_MULTICAST_H
#define FLYSIM_CHECK_MULTICAST_H

#include "check/Findings.h"

#include <array>
#include <map>
#include <vector>

namespace flysim {

/// The shared requests of the cluster that runs in one place.
class MulticastCheck {
public:
  explicit MulticastCheck(Findings &findings) : findings(findings) {}
  /// Before the tensor load `i` runs on `w`.
  void request(Wave &w, const Inst &i);
  /// All waves of the cluster have ended: whoever a mask names has made the request as often as the others.
  void endCluster();

private:
  static constexpr unsigned kMostGroups = 16; ///< of a cluster
  struct Request {
    Site first;
    std::array<uint32_t, kMostGroups> made{}; ///< by work-group of the cluster
  };
  /// By what is asked for: the mask and the part of the descriptor that is about memory. Where in LDS it goes
  /// is each work-group's own.
  std::map<std::vector<uint64_t>, Request> requests;
  Findings &findings;
};

} // namespace flysim

#endif
