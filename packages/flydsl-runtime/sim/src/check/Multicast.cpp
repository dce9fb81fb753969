//===- Multicast.cpp - tensor moves that work-groups share ----------------===//

#include "check/Multicast.h"

#include "exec/TensorInline.h"

namespace flysim {

void MulticastCheck::request(Wave &w, const Inst &i) {
  const Workgroup &wg = *w.wg;
  Tensor t = decodeTensor(w, i);
  if (!t.valid || !t.sharers || wg.clusterSize == 1)
    return;
  if (t.sharers >> wg.clusterSize || !(t.sharers >> wg.clusterIndex & 1))
    return findings.add(FaultKind::BarrierDivergence, "barrier",
                        format("a multicast with mask 0x%x, made by work-group %u of a cluster of %u: the mask names "
                               "the work-groups that make the request, its own among them",
                               t.sharers, wg.clusterIndex, wg.clusterSize),
                        siteOf(w, i, -1, "multicast"));
  std::vector<uint64_t> asked = {t.sharers, t.global, t.elementBytes, t.iterations, t.globalIncrement, t.gather};
  for (const auto *part : {&t.dim, &t.tile, &t.stride})
    asked.insert(asked.end(), std::begin(*part), std::end(*part));
  asked.insert(asked.end(), std::begin(t.index), std::end(t.index));
  auto [at, fresh] = requests.try_emplace(std::move(asked));
  if (fresh)
    at->second.first = siteOf(w, i, -1, "multicast");
  ++at->second.made[wg.clusterIndex];
}

void MulticastCheck::endCluster() {
  auto all = std::move(requests);
  requests.clear();
  for (const auto &[asked, request] : all) {
    uint64_t mask = asked[0];
    unsigned self = static_cast<unsigned>(__builtin_ctzll(mask));
    for (unsigned k = 0; k < kMostGroups; ++k)
      if ((mask >> k & 1) && request.made[k] != request.made[self])
        return findings.add(FaultKind::BarrierDivergence, "barrier",
                            format("a multicast with mask 0x%llx of the tile at address 0x%llx, first made by %s: "
                                   "work-group %u of the cluster made the request %u times, work-group %u %u times",
                                   (unsigned long long)mask, (unsigned long long)asked[1],
                                   findings.describe(request.first, true).c_str(), self, request.made[self], k,
                                   request.made[k]),
                            request.first);
  }
}

} // namespace flysim
