"""torch_flags.py: what a C++ compiler needs beside torch.cpp to build it against the installed PyTorch. Empty where CUDA's headers
are neither beside a toolkit nor among the installed packages."""
import glob
import os
import sys

import torch

root = os.path.dirname(torch.__file__)
packages = os.path.dirname(root)
includes = [os.environ.get("CUDA_HOME", "/usr/local/cuda") + "/include", "/usr/local/cuda/include"]
includes += glob.glob(packages + "/nvidia/*/include")
cuda = [i for i in includes if os.path.exists(i + "/cuda_runtime_api.h")]
if not cuda or not os.path.exists(root + "/include/c10/cuda/CUDACachingAllocator.h"):
    sys.exit(1)
libraries = [root + "/lib"] + glob.glob(packages + "/nvidia/*/lib")
flags = ["-D_GLIBCXX_USE_CXX11_ABI=%d" % torch._C._GLIBCXX_USE_CXX11_ABI, "-I" + root + "/include", "-isystem", cuda[0]]
# libtorch_cuda registers with c10, as it is loaded, what c10's streams ask for.
flags += ["-L" + root + "/lib", "-Wl,--no-as-needed", "-ltorch_cuda", "-Wl,--as-needed", "-lc10_cuda", "-lc10", "-Wl,--allow-shlib-undefined", "-pthread"]
print(" ".join(flags + ["-Wl,-rpath," + path for path in libraries]))
