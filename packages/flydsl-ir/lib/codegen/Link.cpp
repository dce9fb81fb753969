//===- Link.cpp - lld in process ------------------------------------------===//
#include "fly_codegen/Codegen.h"

#include "lld/Common/Driver.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"
#include <mutex>

LLD_HAS_DRIVER(elf)

using namespace llvm;

namespace {

/// Creates an empty temporary file that is removed with the returned object.
Expected<std::unique_ptr<FileRemover>> makeTemporary(StringRef suffix, SmallString<128> &path) {
  if (std::error_code ec = sys::fs::createTemporaryFile("fly", suffix, path))
    return createStringError(ec, "cannot create a temporary file for linking: " + ec.message());
  return std::make_unique<FileRemover>(path);
}

} // namespace

Expected<SmallVector<char, 0>> mlir::fly::linkObject(StringRef object) {
  SmallString<128> inPath, outPath;
  auto inFile = makeTemporary("o", inPath);
  if (!inFile)
    return inFile.takeError();
  auto outFile = makeTemporary("hsaco", outPath);
  if (!outFile)
    return outFile.takeError();
  {
    std::error_code ec;
    raw_fd_ostream os(inPath, ec);
    os << object;
    os.close();
    if (ec || os.has_error()) {
      std::string reason = (ec ? ec : os.error()).message();
      os.clear_error();
      return createStringError("cannot write the object to link to " + inPath + ": " + reason);
    }
  }

  std::string messages, output;
  bool linked = false;
  // lld keeps global state: one link at a time.
  static std::mutex mutex;
  std::lock_guard<std::mutex> lock(mutex);
  Error crash = runGuarded("linking the code object", [&] {
    raw_string_ostream err(messages), out(output);
    const char *args[] = {"ld.lld",      "-shared",      "--no-undefined", "--threads=1",
                          inPath.c_str(), "-o",           outPath.c_str()};
    lld::Result result = lld::lldMain(args, out, err, {{lld::Gnu, &lld::elf::link}});
    linked = result.retCode == 0;
  });
  if (crash)
    return std::move(crash);
  if (!linked)
    return createStringError("linking the code object failed: " +
                             StringRef(messages).trim().str());

  auto buffer = MemoryBuffer::getFile(outPath, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!buffer)
    return createStringError(buffer.getError(), "cannot read the linked code object: " +
                                                    buffer.getError().message());
  StringRef data = (*buffer)->getBuffer();
  return SmallVector<char, 0>(data.begin(), data.end());
}
