"""lit configuration: .mlir and .py files below are tests; tools come from the build or the wheel."""

import os

import lit.formats

config.name = "flydsl-ir"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".py"]
config.excludes = ["lit.cfg.py", "lit.site.cfg.py", "run_lit.py", "Inputs"]
config.test_source_root = os.path.join(config.fly_source_root, "tests", "filecheck")
config.test_exec_root = os.path.join(config.fly_build_root, "test")

config.environment["PATH"] = os.pathsep.join([config.fly_tools_dir, config.llvm_tools_dir, os.environ.get("PATH", "")])
# In a build tree the package is not installed.
build_packages = os.path.join(config.fly_build_root, "python_packages")
if os.path.isdir(build_packages):
    config.environment["PYTHONPATH"] = os.pathsep.join([build_packages, os.path.join(config.fly_source_root, "python")])
config.substitutions.append(("%python", config.python))
config.substitutions.append(("%fly-opt", "fly-opt"))
