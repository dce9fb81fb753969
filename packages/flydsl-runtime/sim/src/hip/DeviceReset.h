//===- DeviceReset.h - what a reset asks of the parts of the API -*- C++ -*-===//
#ifndef FLYSIM_HIP_DEVICERESET_H
#define FLYSIM_HIP_DEVICERESET_H

namespace flysim {

/// True for the memory of a managed variable of the program.
bool isManagedVariable(const void *p);
/// Unmaps the device's memory from reserved ranges, and ends its handles.
void forgetMappings(int device);
/// Ends the pools of a device; its default pool starts anew.
void forgetPools(int device);
/// Ends the device's access to others.
void forgetPeers(int device);

} // namespace flysim

#endif
