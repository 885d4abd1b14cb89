"""Plain Triton kernels with their references and cases: what the compiler is tested and measured on."""
