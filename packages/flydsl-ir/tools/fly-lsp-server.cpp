//===- fly-lsp-server.cpp - Language server for .mlir files ---------------===//
#include "fly_codegen/CodegenCAPI.h"

int main(int argc, char **argv) { return flyLspMain(argc, argv); }
