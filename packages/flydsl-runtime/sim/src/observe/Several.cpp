//===- Several.cpp - several observers of one launch ----------------------===//

#include "observe/Several.h"

namespace flysim {

namespace {

class SeveralGroup : public GroupObserver {
public:
  SeveralGroup(std::unique_ptr<GroupObserver> a, std::unique_ptr<GroupObserver> b)
      : a(std::move(a)), b(std::move(b)) {}
  void startGroup(Workgroup &wg, uint64_t id) override {
    a->startGroup(wg, id);
    b->startGroup(wg, id);
  }
  void endGroup(Workgroup &wg) override {
    a->endGroup(wg);
    b->endGroup(wg);
  }
  void instruction(Wave &w, const Inst &i) override {
    a->instruction(w, i);
    b->instruction(w, i);
  }
  void barrier(Workgroup &wg) override {
    a->barrier(wg);
    b->barrier(wg);
  }

private:
  std::unique_ptr<GroupObserver> a, b;
};

class SeveralLaunch : public LaunchObserver {
public:
  SeveralLaunch(std::unique_ptr<LaunchObserver> a, std::unique_ptr<LaunchObserver> b)
      : a(std::move(a)), b(std::move(b)) {}
  std::unique_ptr<GroupObserver> group() override {
    std::unique_ptr<GroupObserver> first = a->group(), second = b->group();
    if (!first || !second)
      return first ? std::move(first) : std::move(second);
    return std::make_unique<SeveralGroup>(std::move(first), std::move(second));
  }

private:
  std::unique_ptr<LaunchObserver> a, b;
};

} // namespace

std::unique_ptr<LaunchObserver> several(std::unique_ptr<LaunchObserver> a,
                                        std::unique_ptr<LaunchObserver> b) {
  if (!a || !b)
    return a ? std::move(a) : std::move(b);
  return std::make_unique<SeveralLaunch>(std::move(a), std::move(b));
}

} // namespace flysim
