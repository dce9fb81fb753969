//===- fly-opt.cpp - Runs passes on .mlir files ---------------------------===//
#include "fly_codegen/CodegenCAPI.h"

int main(int argc, char **argv) { return flyOptMain(argc, argv); }
