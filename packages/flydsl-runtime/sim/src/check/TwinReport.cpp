//===- TwinReport.cpp - what is told of values that nobody wrote ----------===//

#include "check/Twin.h"
#include "exec/ExecInline.h"
#include "memory/Memory.h"

#include <cstring>

namespace flysim {

namespace {
constexpr size_t kMaxOrigins = 1 << 16;
} // namespace

uint32_t TwinCheck::addOrigin(const Origin &o) {
  if (origins.size() >= kMaxOrigins)
    return 0;
  origins.push_back(o);
  return static_cast<uint32_t>(origins.size() - 1);
}

void TwinCheck::tell(Wave &w, const Inst &i, uint32_t index, const char *use, int lane) {
  Origin o = index < origins.size() ? origins[index] : Origin();
  std::string text, by;
  Site source;
  if (o.load) {
    source = siteOf(w, *o.load, o.lane, "read");
    source.wave = o.wave;
    by = " (" + findings.describe(source, false) + ")";
  }
  auto at = (unsigned long long)o.address;
  if (!index) {
    text = "a value that nobody wrote ";
  } else if (!o.load) {
    const char *name = o.scalar ? (o.reg >= kVcc ? "vcc" : "s") : (o.reg >= 256 && d.program->arch->has.accumulators ? "a" : "v");
    unsigned number = o.reg - (*name == 'a' ? 256u : 0u);
    text = (*name == 'v' && name[1] ? std::string(name) : format("%s%u", name, number)) +
           " was never written; a value made from it ";
  } else if (!strcmp(o.space, "lds")) {
    bool touched = o.address / 4 < ldsWritten.size() && ldsWritten[o.address / 4];
    text = format("LDS offset %llu is read, but ", at) +
           (touched ? "what it holds was made from something that nobody wrote"
                    : "no wave of the work-group has written it") + by + "; its value ";
  } else if (!strcmp(o.space, "private")) {
    text = format("private memory at offset %llu is read, but the lane has not written it", at) + by +
           "; its value ";
  } else {
    text = format("address 0x%llx (%s) is read, but nobody has written it", at,
                  AddressSpace::instance().describe(o.address).c_str()) + by + "; its value ";
  }
  Place place;
  if (o.load)
    place = Place{o.space, o.address, 4};
  Site site = siteOf(w, i, lane, use);
  findings.add(FaultKind::IllegalAddress, "uninit", text + use, site, place, o.load ? &source : nullptr);
}

} // namespace flysim
