//===- CodeObject.h - Checks of code objects --------------------*- C++ -*-===//

#ifndef FLYDSL_RUNTIME_CODEOBJECT_H
#define FLYDSL_RUNTIME_CODEOBJECT_H

#include <string>
#include <string_view>

namespace flydsl::runtime {

/// What is wrong with \p image as an AMDGPU code object, empty if nothing. hipModuleLoadData takes
/// an address without a size and trusts the ELF header, so a truncated image must not reach it:
/// all headers, segments and sections have to lie inside the image.
std::string codeObjectProblem(std::string_view image);

} // namespace flydsl::runtime

#endif // FLYDSL_RUNTIME_CODEOBJECT_H
