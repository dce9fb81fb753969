// Input of the Python enums of the fly_rocdl dialect.
#ifndef PYTHON_DIALECTS_FLYROCDLENUMS_TD
#define PYTHON_DIALECTS_FLYROCDLENUMS_TD
include "fly_rocdl/IR/FlyROCDLEnums.td"
#endif
