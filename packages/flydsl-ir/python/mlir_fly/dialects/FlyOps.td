// Input of the Python op builders of the fly dialect.
#ifndef PYTHON_DIALECTS_FLYOPS_TD
#define PYTHON_DIALECTS_FLYOPS_TD
include "fly/IR/FlyOps.td"
#endif
