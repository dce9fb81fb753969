// Input of the Python enums of the fly dialect.
#ifndef PYTHON_DIALECTS_FLYENUMS_TD
#define PYTHON_DIALECTS_FLYENUMS_TD
include "fly/IR/FlyAttrs.td"
#endif
