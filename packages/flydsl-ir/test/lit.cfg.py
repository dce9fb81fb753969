"""lit configuration: .mlir and .py files here are tests; tools come from the build."""

import os

import lit.formats

config.name = "flydsl-ir"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".py"]
config.excludes = ["lit.cfg.py", "lit.site.cfg.py", "Inputs"]
config.test_source_root = os.path.join(config.fly_source_root, "test")
config.test_exec_root = os.path.join(config.fly_build_root, "test")

config.environment["PATH"] = os.pathsep.join(
    [os.path.join(config.fly_build_root, "bin"), config.llvm_tools_dir, os.environ.get("PATH", "")]
)
config.environment["PYTHONPATH"] = os.pathsep.join(
    [os.path.join(config.fly_build_root, "python_packages"), os.path.join(config.fly_source_root, "python")]
)
config.environment["FLY_OPT"] = os.path.join(config.fly_build_root, "bin", "fly-opt")
config.substitutions.append(("%python", config.python))
