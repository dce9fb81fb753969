//===- TimingTable.cpp - constants of the timing model --------------------===//

#include "observe/TimingTable.h"

#include "support/Error.h"
#include "support/Json.h"
#include "support/Settings.h"

#include <cstring>
#include <iterator>
#include <llvm/Support/JSON.h>
#include <llvm/Support/MemoryBuffer.h>
#include <map>
#include <set>
#include <vector>

namespace flysim {

namespace {

constexpr TimingTable kTable[] = {
    {"gfx90a"
#define FLYSIM_CONSTANT(type, name, unit, a, b, c, d, e, f, g, h, source, trust) , a
#include "observe/TimingConstants.def"
    },
    {"gfx942"
#define FLYSIM_CONSTANT(type, name, unit, a, b, c, d, e, f, g, h, source, trust) , b
#include "observe/TimingConstants.def"
    },
    {"gfx950"
#define FLYSIM_CONSTANT(type, name, unit, a, b, c, d, e, f, g, h, source, trust) , c
#include "observe/TimingConstants.def"
    },
    {"gfx1100"
#define FLYSIM_CONSTANT(type, name, unit, a, b, c, d, e, f, g, h, source, trust) , d
#include "observe/TimingConstants.def"
    },
    {"gfx1151"
#define FLYSIM_CONSTANT(type, name, unit, a, b, c, d, e, f, g, h, source, trust) , e
#include "observe/TimingConstants.def"
    },
    {"gfx1200"
#define FLYSIM_CONSTANT(type, name, unit, a, b, c, d, e, f, g, h, source, trust) , f
#include "observe/TimingConstants.def"
    },
    {"gfx1201"
#define FLYSIM_CONSTANT(type, name, unit, a, b, c, d, e, f, g, h, source, trust) , g
#include "observe/TimingConstants.def"
    },
    {"gfx1250"
#define FLYSIM_CONSTANT(type, name, unit, a, b, c, d, e, f, g, h, source, trust) , h
#include "observe/TimingConstants.def"
    },
};

[[noreturn]] void wrongModel(const std::string &why) {
  raise(FaultKind::InvalidConfiguration, "FLYDSL_SIM_MODEL: " + why);
}

/// The tables of all architectures, with the numbers of FLYDSL_SIM_MODEL in their places.
struct Tables {
  std::vector<TimingTable> rows{std::begin(kTable), std::end(kTable)};
  std::map<std::string, std::set<std::string>> measured; ///< by architecture: names from the file

  Tables() {
    const char *name = textSetting("FLYDSL_SIM_MODEL");
    if (!name)
      return;
    auto file = llvm::MemoryBuffer::getFile(name, /*IsText=*/false, /*RequiresNullTerminator=*/false,
                                            /*IsVolatile=*/true);
    if (!file)
      wrongModel(std::string("cannot open ") + name);
    llvm::Expected<llvm::json::Value> value = llvm::json::parse((*file)->getBuffer());
    if (!value)
      wrongModel(std::string(name) + " is no JSON: " + llvm::toString(value.takeError()));
    const llvm::json::Object *top = value->getAsObject();
    const llvm::json::Object *all = top ? top->getObject("constants") : nullptr;
    if (!all)
      wrongModel(std::string(name) + " has no \"constants\": write it with `model calibrate`");
    for (const auto &arch : *all)
      for (TimingTable &row : rows)
        if (arch.first.str() == row.arch)
          apply(row, arch.second);
  }

private:
  void apply(TimingTable &row, const llvm::json::Value &value) {
    const llvm::json::Object *numbers = value.getAsObject();
    if (!numbers)
      wrongModel(std::string("the constants of ") + row.arch + " are no object");
    for (const auto &entry : *numbers) {
      std::string name = entry.first.str();
      std::optional<double> number = entry.second.getAsNumber();
      if (!number || !(*number >= 0 && *number < 1e18))
        wrongModel(name + " is no number from 0");
      if (!set(row, name, *number))
        wrongModel("there is no constant " + name + " (`python -m flydsl.runtime model` lists them)");
      measured[row.arch].insert(name);
    }
    if (row.simdsPerCu > TimingTable::kMaxSimds)
      wrongModel("simdsPerCu is above " + std::to_string(TimingTable::kMaxSimds));
    if (row.powerIdle >= 1)
      wrongModel("powerIdle is the whole limit or more: nothing would be left to run with");
  }
  static bool set(TimingTable &row, const std::string &wanted, double number) {
#define FLYSIM_CONSTANT(type, name, unit, a, b, c, d, e, f, g, h, source, trust)                   \
  if (wanted == #name) {                                                                           \
    row.name = measuredAs<type>(wanted, number, row.name, unit);                                   \
    return true;                                                                                   \
  }
#include "observe/TimingConstants.def"
    return false;
  }
  /// The model divides by most constants: one may differ from the table's, but what an architecture has is never none,
  /// nor what it lacks some. Between launches there may be no time.
  template <class T>
  static T measuredAs(const std::string &name, double number, T published, const char *unit) {
    constexpr double kFactor = 64;
    const auto most = kFactor * static_cast<double>(published);
    const auto least = strcmp(unit, "us") ? static_cast<double>(published) / kFactor : 0.0;
    const bool lost = number > 0 && static_cast<T>(number) == 0;
    if (number < least || number > most || lost)
      wrongModel(format("%s is %g; the architecture has %g, and a machine of it at most %g times more or less",
                        name.c_str(), number, static_cast<double>(published), kFactor));
    return static_cast<T>(number);
  }
};

const Tables &tables() {
  static const Tables *all = new Tables; // tries again after an error
  return *all;
}

} // namespace

const TimingTable &timingTable(const ArchInfo &arch) {
  for (const TimingTable &t : tables().rows)
    if (!strcmp(t.arch, arch.name))
      return t;
  raise(FaultKind::InvalidConfiguration, std::string("the timing model has no constants for ") + arch.name);
}

std::string timingTableJson(const ArchInfo &arch) {
  const TimingTable &t = timingTable(arch);
  auto measured = tables().measured.find(arch.name);
  Json j;
  j.open('[');
  auto add = [&](const char *name, double value, const char *unit, const char *source, const char *trust) {
    j.open('{').field("name", name).field("unit", unit);
    if (value < 1e15 && value == static_cast<double>(static_cast<uint64_t>(value)))
      j.field("value", static_cast<uint64_t>(value));
    else
      j.field("value", value);
    // Nothing that is said of gfx1250 is better than an announcement, except what LLVM implies.
    if (measured != tables().measured.end() && measured->second.count(name)) {
      j.field("source", "FLYDSL_SIM_MODEL").field("trust", "yours").close('}');
      return;
    }
    j.field("source", source);
    j.field("trust", arch.has.clusters && !strstr(source, "LLVM") ? "weak" : trust).close('}');
  };
#define FLYSIM_CONSTANT(type, name, unit, a, b, c, d, e, f, g, h, source, trust)                   \
  add(#name, static_cast<double>(t.name), unit, source, trust);
#include "observe/TimingConstants.def"
  j.close(']');
  return j.text;
}

} // namespace flysim
