//===- TorchTensors.h - What torch keeps beside a tensor's memory -*- C++ -*-===//
//
// A torch tensor is more than its memory. It can be lazy (its values are the
// negated or conjugated memory), and autograd must be told of writes. DLPack
// conveys neither.
//
//===----------------------------------------------------------------------===//

#ifndef FLYDSL_RUNTIME_TORCHTENSORS_H
#define FLYDSL_RUNTIME_TORCHTENSORS_H

#include <Python.h>
#include <cstddef>

namespace flydsl::runtime {

/// Whether \p type is torch.Tensor or derived from it; false as long as torch is not imported.
bool isTorchTensorType(PyTypeObject *type);

/// Whether the memory of a torch tensor holds its values. False with a TypeError set that names
/// the remedy for a negative or conjugate view.
bool torchMemoryIsValue(PyObject *tensor);

/// False with a ValueError set if autograd forbids to change a torch tensor in place: a leaf that
/// requires grad, while gradients are recorded.
bool torchAllowsStore(PyObject *tensor);

/// Tells autograd that these torch tensors are overwritten, as torch's own in-place functions do:
/// a backward pass that needs their old values then raises. Reorders the list. False with a Python
/// error set.
bool torchCountStores(PyObject **tensors, size_t count);

} // namespace flydsl::runtime

#endif // FLYDSL_RUNTIME_TORCHTENSORS_H
