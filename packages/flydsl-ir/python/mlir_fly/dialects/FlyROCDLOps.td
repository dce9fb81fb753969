// Input of the Python op builders of the fly_rocdl dialect.
#ifndef PYTHON_DIALECTS_FLYROCDLOPS_TD
#define PYTHON_DIALECTS_FLYROCDLOPS_TD
include "fly_rocdl/IR/FlyROCDLOps.td"
#endif
