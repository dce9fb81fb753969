//===- FindingsFile.h - findings of a whole process, in a file -*- C++ -*-===//
//
// FLYDSL_SIM_FINDINGS=FILE: what the checks find, and what ends launches, is appended to a file,
// one JSON object a line, and launches go on after a finding. `python -m flydsl.runtime check`
// reads it. A line is written at once, so that several processes may share the file and a
// program that dies keeps what was found.
//
//===----------------------------------------------------------------------===//
#ifndef FLYSIM_CHECK_FINDINGSFILE_H
#define FLYSIM_CHECK_FINDINGSFILE_H

#include <cstdint>
#include <string>

namespace flysim {

struct Dispatch;
struct Fault;

/// True if the process has such a file. Raises InvalidConfiguration if it cannot be written.
bool recordingFindings();
/// Appends the JSON object of a finding. Of findings with the same key one is written.
void recordFinding(const std::string &key, const std::string &json);
/// Says that a kernel runs, once for each, so that "nothing found" and "nothing ran" differ.
void recordKernel(const Dispatch &dispatch);
/// Appends what ended a launch, or kept one from starting. Interrupts are none of the kernel's doing and are left out.
void recordFault(const std::string &kernel, const std::string &arch, const Fault &fault);

} // namespace flysim

#endif
